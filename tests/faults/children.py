"""Processes to be killed. Run as a script it loads cofio, opens nothing, and forks a child for each job it is sent.

A fork of a process that has everything loaded is ready in a few milliseconds, which makes a kill cheap enough
to do it thousands of times. Children say what they do as lines of JSON on a pipe, one before each piece of work
and one after it; what a child has said stays readable when it is dead.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cofio import Engine

Said = dict[str, Any]
Say = Callable[..., None]
Holds = list[Any]
"""The scope's names and the text of a record."""
Known = dict[str, Holds]
"""What should hold of each id, or scope#key."""
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")
SCOPES = (["a"], ["a", "b"], ["c"])
_PIPE_SIZE = 1 << 20


def holder(file: Path) -> int | None:
    """The process that has locked a file; None when none has."""
    place = file.stat()
    name = f"{os.major(place.st_dev):02x}:{os.minor(place.st_dev):02x}:{place.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5] == name:
            return int(words[4])
    return None


class Child:
    """A process that does one job, as its parent sees it."""

    def __init__(self, nursery: Nursery, pid: int, pipe: int) -> None:
        self.pid = pid
        self.said: list[Said] = []
        self._nursery = nursery
        self._pipe = pipe
        self._rest = b""
        self._open = True

    def listen(self, enough: Callable[[], bool] = lambda: False, *, seconds: float = 120.0) -> None:
        """Take in what the child says until that is `enough`, the child is done, or the time is up."""
        until = time.monotonic() + seconds
        while self._open and not enough():
            if not select.select([self._pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                return
            self._take_in()

    def kill(self) -> None:
        """Kill the child as it stands, and take in its last words."""
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int:
        """Wait for the child to be done; its exit status."""
        try:
            self.listen()
            assert not self._open, f"process {self.pid} hangs"
        finally:
            if self._open:
                os.kill(self.pid, signal.SIGKILL)
            os.close(self._pipe)
        for said in self.said:
            assert "error" not in said, said["error"]
        return self._nursery.reap(self.pid)

    def _take_in(self) -> None:
        piece = os.read(self._pipe, _PIPE_SIZE)
        self._open = bool(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self.said.extend(json.loads(line) for line in lines)


class Nursery:
    """The loaded process that children are forked from."""

    def __enter__(self) -> Nursery:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(60)
        environ = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # a fork must find a single thread
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environ
        )
        theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.wait(60)

    def fork(self, job: str, **told: object) -> Child:
        """Start a child on a job."""
        ours, theirs = os.pipe()
        if sys.platform == "linux":
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)  # so that a child never waits for us to listen
        self._tell([job, told])
        socket.send_fds(self._socket, [b"!"], [theirs])
        os.close(theirs)
        return Child(self, int(self._socket.recv(32)), ours)

    def reap(self, pid: int) -> int:
        """The exit status of a child that is done."""
        self._tell(["reap", {"pid": pid}])
        return int(self._socket.recv(32))

    def _tell(self, message: object) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")


def write_at_random(say: Say, store: str, seed: int, known: Known) -> None:
    """Change records at random for ever, with the background work never at rest.

    A line before each change says what will hold of each id or key once it is made, and one after it that it is.
    """
    from cofio import Engine, Settings

    choose = random.Random(seed)
    hurry(choose)
    texts = (f"{' '.join(choose.choices(WORDS, k=choose.randint(0, 6)))} unique{seed}n{n}" for n in itertools.count())
    with Engine.open(store, settings=Settings(embedder="hashed")) as engine:
        while True:
            will, make = _change(engine, choose, known, texts)
            say(will=will)
            make()
            say(did=True)
            for ref, holds in will.items():
                if holds is None:
                    del known[ref]
                else:
                    known[ref] = holds


def _change(
    engine: Engine, choose: random.Random, known: Known, texts: Iterator[str]
) -> tuple[dict[str, Holds | None], Callable[[], object]]:
    """A change to make: what will hold then, and the call that makes it."""
    from cofio import Draft, Scope

    names, text = choose.choice(SCOPES), next(texts)
    ids = [ref for ref in known if "#" not in ref]
    ref = choose.choice(ids) if ids else ""
    match choose.choice(
        ("write", "write", "many", "put", "put", "edit", "edit", "move", "delete") if ids else ("many",)
    ):
        case "write":
            fresh = text.split()[-1]
            return {fresh: [names, text]}, lambda: engine.write(Scope(*names), id=fresh, text=text, tags=("new",))
        case "many":
            batch = [text, *(next(texts) for _ in range(choose.randint(1, 6)))]
            drafts = [Draft(scope=Scope(*names), id=each.split()[-1], text=each) for each in batch]
            return {each.split()[-1]: [names, each] for each in batch}, lambda: engine.write_many(drafts)
        case "put":
            key = f"key{choose.randrange(5)}"
            return {f"{'/'.join(names)}#{key}": [names, text]}, lambda: engine.put(Scope(*names), key, text=text)
        case "edit":
            return {ref: [known[ref][0], text]}, lambda: engine.edit(ref, text=text, tags=("edited",))
        case "move":
            return {ref: [names, known[ref][1]]}, lambda: engine.move(ref, scope=Scope(*names))
    return {ref: None}, lambda: engine.delete(ref)


def reindex(say: Say, store: str, seed: int) -> None:
    """Make the derived files anew, for ever."""
    from cofio import Engine, Settings

    hurry(random.Random(seed))
    with Engine.open(store, settings=Settings(embedder="hashed", background=False)) as engine:
        while True:
            say(will={})
            engine.reindex(vectors=True)
            say(did=True)


def scrub(say: Say, store: str, seed: int) -> None:
    """Change records but for their texts, and write anew, piece by piece, what holds them as they were, for ever."""
    from cofio import Engine, Settings

    choose = random.Random(seed)
    hurry(choose)
    with Engine.open(store, settings=Settings(embedder="hashed", background=False)) as engine:
        derived = engine._backend.derived  # type: ignore[attr-defined]
        ids = [record.id for record in engine.list(limit=1000)]
        while True:
            say(will={})
            for each in choose.sample(ids, min(5, len(ids))):
                engine.edit(each, importance=choose.choice(["low", "medium", "high"]))
            engine.settle()
            for _ in range(5):
                with derived.lock.try_acquire() as locked:
                    if locked:
                        derived.erasure.erase_piece(20)
            derived.erasure.compact(2**24)
            say(did=True)


def write_and_search(say: Say, store: str, board: str, me: int, writes: int, hurried: bool = False) -> None:
    """Write so many records, singly and in batches, and search between the writes for one's own and others'.

    The board is a file that holds the number of records that each of the processes has acknowledged.
    """
    from cofio import Draft, Engine, Query, Scope, Settings

    choose = random.Random(me)
    if hurried:
        hurry(choose)
    posted = os.open(board, os.O_RDWR)
    slots = os.fstat(posted).st_size // 8
    with Engine.open(store, settings=Settings(embedder="hashed")) as engine:

        def found(process: int, number: int) -> list[str]:
            query = Query(f"p{process}n{number}", scope=Scope("all", f"p{process}"), mode="keyword")
            return [hit.record.id for hit in engine.search(query)]

        done = 0
        while done < writes:
            batch = range(done, min(writes, done + choose.choice((1, 1, 1, 1, 4))))
            drafts = [
                Draft(scope=Scope("all", f"p{me}"), id=f"p{me}n{n}", text=f"{choose.choice(WORDS)} p{me}n{n}")
                for n in batch
            ]
            if len(drafts) == 1:
                engine.write(drafts[0].scope, id=drafts[0].id, text=drafts[0].text)
            else:
                engine.write_many(drafts)
            done = batch.stop
            os.pwrite(posted, done.to_bytes(8, "little"), 8 * me)
            assert found(me, done - 1) == [f"p{me}n{done - 1}"], "a process does not find its own write"
            other = choose.randrange(slots)
            theirs = int.from_bytes(os.pread(posted, 8, 8 * other), "little")
            if theirs:
                number = choose.choice((theirs - 1, choose.randrange(theirs)))
                assert engine.read(f"p{other}n{number}").id == f"p{other}n{number}"
                if choose.random() < 0.3:
                    assert found(other, number) == [f"p{other}n{number}"], "a process does not find another's write"
            if done % 50 == 0:
                engine.search(Query(f"{choose.choice(WORDS)} p{other}", scope=Scope("all"), limit=5))
                say(did=done)
        say(did=done)


def fill_disk(say: Say, store: str, ballast: str, seed: int) -> None:
    """Write until the disk is full, live with that for a while, then remove the ballast and write on."""
    from cofio import Engine, Query, Scope, Settings, Unavailable

    choose = random.Random(seed)
    hurry(choose)
    here = Scope("here")
    texts = (f"unique{n} {' '.join(choose.choices(WORDS, k=choose.randint(1, 900)))}" for n in itertools.count())
    acknowledged: list[str] = []

    def write() -> bool:
        text = next(texts)
        try:
            engine.write(here, id=text.split()[0], text=text)
        except Unavailable:
            return False
        acknowledged.append(text.split()[0])
        say(did=text)
        return True

    with Engine.open(store, settings=Settings(embedder="hashed")) as engine:
        while write():
            pass
        for _ in range(20):
            write()
            for record_id in choose.sample(acknowledged, min(20, len(acknowledged))):
                assert engine.read(record_id).id == record_id
                hits = engine.search(Query(record_id, scope=here, mode="keyword", floor=0.0))
                assert [hit.record.id for hit in hits] == [record_id]
                engine.search(Query(f"{choose.choice(WORDS)} {record_id}", scope=here))
            with suppress(Unavailable):
                engine.settle()
        os.unlink(ballast)
        largest = max((engine.read(each) for each in acknowledged), key=lambda record: len(record.text))
        engine.delete(largest.id)
        say(gone=largest.id)
        assert write(), "there is room again, and the store does not take it"


def settle(say: Say, store: str) -> None:
    """Do the background work once, and say whether it could be done."""
    from cofio import Engine, Query, Settings, Unavailable

    hurry(random.Random(0))
    with Engine.open(store, settings=Settings(embedder="hashed", background=False)) as engine:
        try:
            engine.settle()
            say(settled=True)
        except Unavailable:
            say(settled=False)
        assert len(engine.search(Query("text", mode="semantic", floor=0.0)))


def hold_lease(say: Say, store: str) -> None:
    """Become the process that indexes, and hang."""
    from cofio.backends.sqlite import SqliteBackend

    backend = SqliteBackend(Path(store))
    with backend.derived.lock.try_acquire() as locked:
        assert locked
        say(did=True)
        signal.pause()


def hurry(choose: random.Random) -> None:
    """Make the background work, and with it every kind of commit, merge and sweep, happen all the time."""
    import cofio.engine.background
    from cofio.backends.sqlite import database, erasure, vector_codes

    cofio.engine.background.PAUSE = 0.001
    cofio.engine.background.WORDS_BATCH = choose.choice((5, 50, 500))
    cofio.engine.background.EMBED_BATCH = choose.choice((4, 64))
    erasure.PIECE = cofio.engine.background.WORDS_BATCH
    database.CHECKPOINT_PAGES = 60
    vector_codes.TAIL = 8
    vector_codes.CHUNK = 16


JOBS: dict[str, Callable[..., None]] = {
    "write_at_random": write_at_random,
    "reindex": reindex,
    "scrub": scrub,
    "write_and_search": write_and_search,
    "fill_disk": fill_disk,
    "hold_lease": hold_lease,
    "settle": settle,
}


def _work(job: str, told: dict[str, Any], pipe: int) -> None:
    """Do a job in this process, and end it."""

    def say(**words: object) -> None:
        os.write(pipe, json.dumps(words).encode() + b"\n")

    threading.excepthook = lambda told: say(error="".join(traceback.format_exception(told.exc_value)))
    status = 1
    try:
        JOBS[job](say, **told)
        status = 0
    except BaseException:  # whatever it is, the parent must hear of it
        say(error=traceback.format_exc())
    finally:
        os._exit(status)


def _main(connection: socket.socket) -> None:
    import cofio.backends.sqlite.vector_codes
    import cofio.embed.hashed
    import cofio.engine.engine  # noqa: F401  # loaded here, so that no child has to

    alive: set[int] = set()
    with connection.makefile("rb", buffering=0) as messages:
        for message in iter(messages.readline, b""):
            job, told = json.loads(message)
            if job == "reap":
                alive.remove(told["pid"])
                connection.send(str(os.waitpid(told["pid"], 0)[1]).encode())
                continue
            _, (pipe,), _, _ = socket.recv_fds(connection, 1, 1)
            pid = os.fork()
            if not pid:
                connection.close()
                _work(job, told, pipe)
            alive.add(pid)
            os.close(pipe)
            connection.send(str(pid).encode())
    for pid in alive:  # left behind by a test that failed
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
