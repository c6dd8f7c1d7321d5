"""Writers and the server's processes are killed at random: what was acknowledged is there, once, and counts agree."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from cofio import Engine, Scope, Settings

from .. import postgres
from ..faults.scale import scaled
from ..waiting import wait_until
from .machines import Server, run_server

WRITERS = 3
FAULTS = ["writer", "session", "backend", "fast", "immediate", "kill"] * scaled(2, 250)
QUIET = Settings(background=False, embedder="none")
HERE = Scope("here")
WRITER = """
import json, os, sys, time
from cofio import Engine, Scope, Settings, Unavailable

store, writer, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
here = Scope("here")
for _ in range(200):
    try:
        engine = Engine.open(store, settings=Settings(embedder="none", background=False))
        counter = engine.get(here, f"counter {writer}")
        break
    except Unavailable:  # the server is not back yet
        time.sleep(0.1)
version = 0 if counter is None else counter.version
with engine:
    while True:
        engine.write(here, text=f"{writer} {number}")
        engine.put(here, f"{writer} {number}", data=number, if_version=0)
        version = engine.put(here, f"counter {writer}", data=number, if_version=version).version
        os.write(1, (json.dumps([number, version]) + "\\n").encode())
        number += 1
"""


class Writer:
    """A process that writes numbered records, and says which it was told are there."""

    def __init__(self, store: str, name: str) -> None:
        self.name = name
        self.acknowledged: list[int] = []
        self.deaths = 0
        self._store = store
        self._next = 0
        self.start()

    def start(self) -> None:
        """Begin, or go on after a death: the number that it was at is not written again."""
        command = [sys.executable, "-c", WRITER, self._store, self.name, str(self._next)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.acknowledged.append(json.loads(line)[0])

    def kill(self) -> None:
        """Kill it; it must not have ended by itself."""
        assert self.process.poll() is None, self.process.communicate()
        self.process.kill()
        self.process.wait()
        self._listener.join()
        self.process.communicate()
        self.deaths += 1
        # It may have written the next one, too, or its first before anything was acknowledged.
        self._next = max([self._next + 1, *(number + 2 for number in self.acknowledged[-1:])])


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose processes may be killed."""
    with run_server() as running:
        yield running


def test_what_was_acknowledged_is_there_once_however_processes_are_killed(server: Server, tmp_path: Path) -> None:
    choose = random.Random(17)
    store = f"{server.url}?schema={postgres.name_schema(tmp_path)}"
    Engine.open(store, settings=QUIET).close()
    writers = [Writer(store, f"writer-{number}") for number in range(WRITERS)]

    def have_passed(counts: list[int]) -> bool:
        return [len(writer.acknowledged) for writer in writers] > counts

    try:
        for fault in choose.sample(FAULTS, len(FAULTS)):
            counts = [len(writer.acknowledged) for writer in writers]
            wait_until(partial(have_passed, counts))
            time.sleep(choose.uniform(0, 0.05))  # at any moment of a write
            disturb(fault, choose, server, writers)
        total = sum(len(writer.acknowledged) for writer in writers)
        wait_until(lambda: sum(len(writer.acknowledged) for writer in writers) > total + WRITERS)
    finally:
        for writer in writers:
            writer.process.kill()
    for writer in writers:
        writer.process.wait()
        writer._listener.join()
        writer.process.communicate()
    verify(store, writers)


def disturb(what: str, choose: random.Random, server: Server, writers: list[Writer]) -> None:
    """Kill something, or stop the server in one of the ways that there are."""
    if what == "writer":
        victim = choose.choice(writers)
        victim.kill()
        victim.start()
    elif what in ("kill", "immediate", "fast"):
        server.restart(what)
    else:
        wait_until(lambda: _reach(server))
        if backends := server.list_backends():
            chosen = choose.choice(backends)
            if what == "backend":
                os.kill(chosen, signal.SIGKILL)
            else:
                server.execute("SELECT pg_terminate_backend(%s)", chosen)


def _reach(server: Server) -> bool:
    try:
        server.execute("SELECT 1")
    except psycopg.OperationalError:  # it recovers from the kill before
        return False
    return True


def verify(store: str, writers: list[Writer]) -> None:
    """Hold what is there against what was acknowledged."""
    with Engine.open(store, settings=QUIET) as engine:
        texts = Counter(record.text for record in engine.export() if record.text)
        assert max(texts.values()) == 1, "something was written twice"
        for writer in writers:
            wanted = {f"{writer.name} {number}" for number in writer.acknowledged}
            assert wanted <= set(texts), "something acknowledged is lost"
            for number in writer.acknowledged:
                record = engine.get(HERE, f"{writer.name} {number}")
                assert record is not None
                assert (record.version, record.data) == (1, number)
            counter = engine.get(HERE, f"counter {writer.name}")
            assert counter is not None
            assert 0 <= counter.version - len(writer.acknowledged) <= writer.deaths + 1
        mine = sum(len(writer.acknowledged) for writer in writers)
        assert 0 <= len(texts) - mine <= sum(writer.deaths + 1 for writer in writers)
        assert engine.check() == []
