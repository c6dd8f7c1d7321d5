"""A server under a mixed load of all its doors, whose processes are killed again and again: nothing that it has
acknowledged is lost, and it takes up no more after an hour than after a quarter of one.

`make torture` takes an hour for it, or COFIO_SOAK_MINUTES; without COFIO_TORTURE=1 it takes a few seconds, to see that
it works. If the server has processes of its own, one of them is killed each time; else it is killed itself, and started
again.
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
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.waiting import join, wait_until

from .scale import TORTURE

SECONDS = 60 * float(os.environ.get("COFIO_SOAK_MINUTES", "60")) if TORTURE else 6.0
PATIENCE = 60.0
CLIENTS = 6
KEYS = 20  # of each client at each door: the store does not grow without end, so nothing else may
KILL_EVERY = max(3.0, min(30.0, SECONDS / 12))
LOST = (ConnectionError, http.client.HTTPException, TimeoutError)
TOKEN = re.compile(r"value\d+x\d+")
STATELESS, META = "2026-07-28", "io.modelcontextprotocol/"


class Refusal(Exception):
    """The server has too much to do, and has done nothing of what it was asked for."""


class Client:
    """Asks the server, over a connection that is made anew when it is lost."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """What is answered; None for what is not there.

        Raises:
            Refusal: it was refused.
            ConnectionError, http.client.HTTPException: whether it was done is not known.
        """
        sent = {
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        self._connection = None
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
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


class Files:
    """The memory tool: a file."""

    def write(self, client: Client, key: str, value: str) -> None:
        self._command(client, command="create", path=f"/memories/{key}.md", file_text=value)

    def drop(self, client: Client, key: str) -> None:
        self._command(client, command="delete", path=f"/memories/{key}.md")

    def read(self, client: Client, key: str) -> set[str]:
        return find_tokens(self._command(client, command="view", path=f"/memories/{key}.md"))

    def _command(self, client: Client, **command: str) -> Any:
        return client.ask("POST", "/api/v1/memory-tool", command)


class Checkpoints:
    """A state of a thread."""

    def write(self, client: Client, key: str, value: str) -> None:
        client.ask("POST", f"/threads/{key}/checkpoints", {"state": {"said": value}, "checkpoint_id": "c"})

    def drop(self, client: Client, key: str) -> None:
        client.ask("DELETE", f"/threads/{key}/checkpoints")

    def read(self, client: Client, key: str) -> set[str]:
        return find_tokens(client.ask("GET", f"/threads/{key}/checkpoints/c"))


class States:
    """MCP, in the era without sessions: a state of an agent."""

    def write(self, client: Client, key: str, value: str) -> None:
        self._call(client, "set_state", key=key, value=value)

    def drop(self, client: Client, key: str) -> None:
        self._call(client, "set_state", key=key, value="nothing")

    def read(self, client: Client, key: str) -> set[str]:
        return find_tokens(self._call(client, "get_state", key=key))

    def _call(self, client: Client, name: str, **arguments: str) -> Any:
        params = {
            "name": name, "arguments": arguments,
            "_meta": {f"{META}protocolVersion": STATELESS, f"{META}clientCapabilities": {}},
        }  # fmt: skip
        answer = client.ask(
            "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            Accept="application/json, text/event-stream", MCP_Protocol_Version=STATELESS, Mcp_Method="tools/call",
            Mcp_Name=name,
        )  # fmt: skip
        assert not answer["result"].get("isError"), answer
        return answer


DOORS: dict[str, Door] = {
    "conversation": Conversations(), "file": Files(), "checkpoint": Checkpoints(), "state": States(),
}  # fmt: skip


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
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environ, cwd=self._store.parent, stdout=log, stderr=log)
        wait_until(self._is_up, PATIENCE, 0.05)

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
            "MiB of log": measure_size(log),
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


def measure_size(file: Path) -> float:
    """The size of a file in MiB; nothing, if there is none."""
    with suppress(FileNotFoundError):
        return file.stat().st_size / 2**20
    return 0.0


def measure_memory(pid: int) -> float:
    """The resident memory of a process in MiB; nothing, if it has just ended."""
    with suppress(OSError):
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def count_descriptors(pid: int) -> int:
    """How many files and connections a process has open."""
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
@pytest.mark.timeout(SECONDS + 600)
def test_a_server_whose_processes_are_killed_loses_nothing_and_does_not_grow(tmp_path: Path) -> None:
    choose, stop, failures = random.Random(7), threading.Event(), []
    moments: list[dict[str, float]] = []

    def run(user: User) -> None:
        try:
            user.run(stop)
        except BaseException as error:  # a thread that ends says nothing by itself
            failures.append(error)

    with running(tmp_path / "store") as server:
        users = [User(number, server.port) for number in range(CLIENTS)]
        threads = [threading.Thread(target=run, args=[user]) for user in users]
        for thread in threads:
            thread.start()
        begin = time.monotonic()
        try:
            while (passed := time.monotonic() - begin) < SECONDS and not failures:
                if passed >= (server.kills + 1) * KILL_EVERY:
                    server.kill(choose)
                time.sleep(0.5)
                moments.append(server.measure())
        finally:
            stop.set()
            join(*threads, seconds=2 * PATIENCE)
        assert not failures, failures
        counts = sum((user.counts for user in users), Counter[str]())
        print(f"\n{server.kills} kills, {dict(counts)}; {describe_growth(moments)}")
        assert server.kills
        assert counts["acknowledged"] > 10 * CLIENTS
        server.end()
    if SECONDS >= 60:  # before that, not every key has been used yet
        check_growth(moments)


def split(moments: list[dict[str, float]]) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The second quarter, as at first there is less to take up, and the last."""
    quarter = len(moments) // 4
    return moments[quarter : 2 * quarter], moments[-quarter:]


def describe_growth(moments: list[dict[str, float]]) -> str:
    before, after = split(moments)
    return ", ".join(
        f"{name} {max(each[name] for each in before):.0f} → {max(each[name] for each in after):.0f}"
        for name in moments[0]
    )


def check_growth(moments: list[dict[str, float]]) -> None:
    before, after = split(moments)
    for name, more in {"MiB": 60.0, "descriptors": 60.0, "files": 40.0, "MiB of log": 16.0}.items():
        first, last = (max(each[name] for each in part) for part in (before, after))
        assert last <= first + more, f"{name}: {first:.0f} in the second quarter, {last:.0f} in the last"
