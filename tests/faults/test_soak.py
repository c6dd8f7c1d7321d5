"""A server under a mixed load, whose processes are killed again and again: nothing that it has
acknowledged is lost, and it takes up no more after an hour than after a quarter of one.

`make torture` takes an hour for it, or COFIO_SOAK_MINUTES; without COFIO_TORTURE=1 it ends after a few kills. If the
server has processes of its own, one of them is killed each time; else it is killed itself, and started again.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.waiting import join, wait_until

from .scale import TORTURE

SECONDS = 60 * float(os.environ.get("COFIO_SOAK_MINUTES", "60"))
KILLS = 3  # outside of `make torture`
PATIENCE = 60.0
CLIENTS = 6
KEYS = 20  # of each client at each door: the store does not grow without end, so nothing else may
KILL_EVERY = min(30.0, SECONDS / 12)
LOST = (ConnectionError, http.client.HTTPException, TimeoutError)
JSON = {"Content-Type": "application/json"}
TOKEN = re.compile(r"value\d+x\d+")


class Refusal(Exception):
    """The server has too much to do, and has done nothing of what it was asked for."""


class Client:
    """Asks the server, over a connection that is made anew when it is lost."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What is answered; None for what is not there.

        Raises:
            Refusal: it was refused.
            ConnectionError, http.client.HTTPException: whether it was done is not known.
        """
        connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        self._connection = None
        try:
            connection.request(method, path, None if body is None else json.dumps(body), JSON)
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        if answer.status == 503 and answer.getheader("Retry-After"):
            raise Refusal
        if answer.status == 404:
            return None
        assert answer.status < 300, f"{method} {path} was answered with {answer.status}: {content[:500]!r}"
        return json.loads(content)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class Door(Protocol):
    """A way to keep a value under a key."""

    def write(self, client: Client, key: str, value: str) -> None: ...
    def drop(self, client: Client, key: str) -> None: ...
    def read(self, client: Client, key: str) -> set[str]: ...


def find_tokens(answer: object) -> set[str]:
    return set(TOKEN.findall(json.dumps(answer)))


class Conversations:
    """REST: a message of a user, which is found once it is flushed."""

    def write(self, client: Client, key: str, value: str) -> None:
        message = {"sender_id": key, "role": "user", "timestamp": 1779967836000, "content": f"I live in {value}."}
        client.ask("POST", "/api/v2/memory/add", {"session_id": key, "messages": [message]})

    def drop(self, client: Client, key: str) -> None:
        client.ask("POST", "/api/v2/memory/delete", {"user_id": key})

    def read(self, client: Client, key: str) -> set[str]:
        client.ask("POST", "/api/v2/memory/flush", {"session_id": key})
        client.ask("POST", "/api/v2/memory/search", {"user_id": key, "query": "Where do I live?"})
        return find_tokens(client.ask("POST", "/api/v2/memory/get", {"user_id": key, "memory_type": "episode"}))


class Checkpoints:
    """A state of a thread."""

    def write(self, client: Client, key: str, value: str) -> None:
        client.ask("POST", f"/threads/{key}/checkpoints", {"state": {"said": value}, "checkpoint_id": "c"})

    def drop(self, client: Client, key: str) -> None:
        client.ask("DELETE", f"/threads/{key}/checkpoints")

    def read(self, client: Client, key: str) -> set[str]:
        return find_tokens(client.ask("GET", f"/threads/{key}/checkpoints/c"))


DOORS: dict[str, Door] = {"conversation": Conversations(), "checkpoint": Checkpoints()}


@dataclass
class User:
    """Writes, reads and drops values at random, and knows what each key may hold."""

    number: int
    port: int
    counts: Counter[str] = field(default_factory=Counter)
    possible: dict[tuple[str, str], set[str | None]] = field(default_factory=dict)
    """What may be under each key: more than one value only where an answer was lost."""

    def run(self, stop: threading.Event) -> None:
        """Go on until told to stop, then look at everything once more."""
        choose, values = random.Random(self.number), itertools.count()
        with closing(Client(self.port)) as client:
            while not stop.is_set():
                name, key = choose.choice(list(DOORS)), f"k{self.number}x{choose.randrange(KEYS)}"
                held = self.possible.setdefault((name, key), {None})
                if len(held) > 1 or choose.random() < 0.5:
                    self._check(client, name, key)
                elif held == {None}:
                    self._change(client, name, key, f"value{self.number}x{next(values)}")
                else:
                    self._change(client, name, key, None)
            for name, key in self.possible:
                self._check(client, name, key)

    def _change(self, client: Client, name: str, key: str, value: str | None) -> None:
        before = self.possible[name, key]
        self.possible[name, key] = before | {value}
        try:
            if value is None:
                DOORS[name].drop(client, key)
            else:
                DOORS[name].write(client, key, value)
        except Refusal:
            self.possible[name, key] = before
            self.counts["refused"] += 1
        except LOST:
            self.counts["lost on the way"] += 1
            time.sleep(0.05)
        else:
            self.possible[name, key] = {value}
            self.counts["acknowledged"] += 1

    def _check(self, client: Client, name: str, key: str) -> None:
        """Read a key until there is an answer, and hold it to what is known."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                found = DOORS[name].read(client, key)
            except (Refusal, *LOST) as error:
                self.counts["refused" if isinstance(error, Refusal) else "lost on the way"] += 1
                if time.monotonic() > until:
                    raise AssertionError(f"{name} {key} could not be read for {PATIENCE:g} s") from error
                time.sleep(0.05)
                continue
            value = next(iter(found), None)
            assert len(found) < 2, f"{name} {key} holds {found}"
            assert value in self.possible[name, key], f"{name} {key}: {value}, not {self.possible[name, key]}"
            self.possible[name, key] = {value}
            self.counts["read"] += 1
            return


class Server:
    """`cofio serve`, which is killed and comes back."""

    def __init__(self, store: Path) -> None:
        self._store = store
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._log = store.parent / "log"
        self.kills = 0
        self._start()

    def _start(self) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
        environ |= {"COFIO_EMBEDDER": "hashed", "AGENT_STORE_PATH": str(self._store.parent / "none")}
        command = [sys.executable, "-m", "cofio", "serve", "--store", str(self._store), "--port", str(self.port)]
        before = self._count_starts()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environ, cwd=self._store.parent, stdout=log, stderr=log)
        # Until all of its processes have started once: one that ends before that ends them all.
        wait_until(lambda: self._is_up() and self._count_starts() > before, PATIENCE, 0.05)

    def _count_starts(self) -> int:
        return self._log.read_text().count(f"http://127.0.0.1:{self.port}") if self._log.exists() else 0

    def _is_up(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        try:
            with closing(Client(self.port)) as client:
                return bool(client.ask("GET", "/health")["status"] == "ok")
        except LOST:
            return False

    def kill(self, choose: random.Random) -> None:
        """Kill one of its processes, or all that there is."""
        self.kills += 1
        children = find_children(self._process.pid)
        if children:
            with suppress(ProcessLookupError):
                os.kill(choose.choice(children), signal.SIGKILL)
            wait_until(self._is_up, PATIENCE, 0.05)
            return
        self._process.kill()
        self._process.wait(PATIENCE)
        self._start()

    def measure(self) -> dict[str, float]:
        """What it takes up."""
        processes = [self._process.pid, *find_children(self._process.pid)]
        log = self._store / "memory.db-wal"
        return {
            "MiB": sum(map(measure_memory, processes)),
            "descriptors": sum(map(count_descriptors, processes)),
            "files": sum(len(names) for _, _, names in os.walk(self._store)),
            "MiB of log": log.stat().st_size / 2**20 if log.exists() else 0.0,
        }

    def end(self) -> None:
        """Stop it as a person does."""
        self._process.terminate()
        assert self._process.wait(PATIENCE) == 0
        assert "Traceback" not in self._log.read_text()

    def stop(self) -> None:
        """Make sure that it is gone."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)


def find_children(pid: int) -> list[int]:
    """The processes that descend from one."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, task.read_text().split())
    return [*children, *(each for child in children for each in find_children(child))]


def measure_memory(pid: int) -> float:
    """The resident memory of a process in MiB; nothing, if it has just ended."""
    with suppress(OSError):
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def count_descriptors(pid: int) -> int:
    """How many files and connections a process has open; none, if it has just ended."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


@contextmanager
def running(store: Path) -> Iterator[Server]:
    server = Server(store)
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes up is read from /proc")
@pytest.mark.timeout(SECONDS + 600 if TORTURE else 600)
@pytest.mark.usefixtures("wide")
def test_a_server_whose_processes_are_killed_loses_nothing_and_does_not_grow(tmp_path: Path) -> None:
    choose, stop, failures = random.Random(7), threading.Event(), []
    moments: list[dict[str, float]] = []

    def run(user: User) -> None:
        try:
            user.run(stop)
        except BaseException as error:  # a thread that ends says nothing by itself
            failures.append(error)

    def goes_on(before: int) -> bool:
        return bool(failures) or count_acknowledged(users) > before

    with running(tmp_path / "store") as server:
        users = [User(number, server.port) for number in range(CLIENTS)]
        threads = [threading.Thread(target=run, args=[user]) for user in users]
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        try:
            while not failures:
                passed, before = time.monotonic() - begin, count_acknowledged(users)
                wait_until(partial(goes_on, before))
                moments.append(server.measure())
                if (TORTURE and passed > SECONDS) or (not TORTURE and server.kills == KILLS):
                    break
                if not TORTURE or passed >= (server.kills + 1) * KILL_EVERY:
                    server.kill(choose)
        finally:
            stop.set()
            join(*threads, seconds=2 * PATIENCE)
        assert not failures, failures
        assert count_acknowledged(users) > server.kills > 0
        server.end()
    if TORTURE and SECONDS >= 60:  # before that, not every key has been used yet
        check_growth(moments)


def count_acknowledged(users: list[User]) -> int:
    return sum(user.counts["acknowledged"] for user in users)


def check_growth(moments: list[dict[str, float]]) -> None:
    """Hold the last quarter against the second, as at first there is less to take up."""
    quarter = len(moments) // 4
    before, after = moments[quarter : 2 * quarter], moments[-quarter:]
    for name, more in {"MiB": 60.0, "descriptors": 60.0, "files": 40.0, "MiB of log": 16.0}.items():
        first, last = (max(each[name] for each in part) for part in (before, after))
        assert last <= first + more, f"{name}: {first:.0f} in the second quarter, {last:.0f} in the last"
