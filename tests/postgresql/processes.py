"""Real servers of cofio on one database, each as on a machine of its own, and a line to a server that can be cut."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cofio.config.address import StoreAddress

from ..waiting import join

T = 1779967836000
PREFIX = "/api/v2/memory"
Json = dict[str, Any]
# What others left is looked for all the time, and what failed is tried again soon. A heartbeat is renewed often and
# lasts for longer than any test takes, so that no machine is too busy to keep one: a test that needs it to end ends it.
_CODE = """
import os, sys
from cofio.engine import background, jobs
background.ROUND, jobs.FIRST_RETRY_SECONDS = 0.3, 0.1
jobs.POLL_SECONDS = float(os.environ.get("POLL_SECONDS", 0.3))
jobs.LEASE_SECONDS, jobs.RENEW_SECONDS = 3600.0, 0.1
from cofio.doors.cli import main
sys.exit(main(sys.argv[1:]))
"""


class CofioServer:
    """`cofio serve` in a process, with a home of its own."""

    def __init__(self, store: StoreAddress, home: Path, *arguments: str, **environ: str) -> None:
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "EVEROS_"))}
        own = {"XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home), "COFIO_EMBEDDER": "hashed"}
        home.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CODE, "serve", "--port", "0", "--workers", "1", *arguments],
            cwd=home, env={**bare, **own, "COFIO_STORE": store.spell(), "COFIO_SYNC": "normal", **environ},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._port = 0

    @property
    def port(self) -> int:
        """Where it listens; waits until it does."""
        if not self._port:
            assert self.process.stdout
            told = self.process.stdout.readline()
            assert told, self.process.communicate(timeout=60)[1]
            self._port = int(told.rsplit("127.0.0.1:", 1)[1].split("/")[0])
        return self._port

    def request(self, method: str, path: str, body: Json | None = None, token: str = "") -> tuple[int, str]:
        """The status and the body of an answer."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as line:
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode()

    def ask(self, call: str, **body: Any) -> Json:
        """The data that a call of the API gives."""
        status, text = self.request("POST", f"{PREFIX}/{call}", body)
        assert status in (200, 202), text
        data: Json = json.loads(text)["data"]
        return data

    def say(self, text: str, session: str = "s", at: int = T, by: str = "alice", **more: Any) -> Json:
        """Add a message."""
        message = {"sender_id": by, "role": "user", "timestamp": at, "content": text}
        return self.ask("add", session_id=session, messages=[message], **more)

    def get_health(self) -> tuple[int, Json]:
        """The status and body of /health."""
        status, text = self.request("GET", "/health")
        return status, json.loads(text)

    def fail(self) -> str:
        """Wait until it has ended with an error; what it said."""
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 1, said
        return said

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.communicate(timeout=60)


Start = Callable[..., CofioServer]


@contextmanager
def starting(store: StoreAddress, folder: Path) -> Iterator[Start]:
    """Gives what starts servers on a store, each as on another machine; they are ended with the block."""
    started: list[CofioServer] = []

    def start(*arguments: str, **environ: str) -> CofioServer:
        started.append(CofioServer(store, folder / f"machine-{len(started)}", *arguments, **environ))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.kill()


class Gateway:
    """Passes connections on to a server, until it is closed: then the server is out of reach."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._target = (parts.hostname, parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: list[socket.socket] = []
        self._lock = threading.Lock()
        self._was_answered = True
        self.is_open = True
        self.trips = 0
        """How often a client had to wait for an answer."""
        self.url = url.replace(f":{parts.port}", f":{self._listener.getsockname()[1]}")
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Close all connections, and let none in."""
        with self._lock:
            self.is_open = False
            for line in self._lines:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
                line.close()
            self._lines.clear()

    def close(self) -> None:
        """End it."""
        self.cut()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        join(self._thread)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                with self._lock:
                    if not self.is_open:
                        line.close()
                        continue
                    further = socket.create_connection(self._target)
                    self._lines += [line, further]
                for source, target in ((line, further), (further, line)):
                    threading.Thread(target=self._pump, args=(source, target, source is line), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    self.trips += asks and self._was_answered
                    self._was_answered = not asks
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
