"""A steady load: requests at set times, whether the last one has been answered or not.

usage: python -m benchmarks.rest.load [--rate 100] [--minutes 1] [--workers N] [--share 0.5] [--method hybrid]
       python -m benchmarks.rest.load --port N [--rate 500] [--seconds 60] [--share 0.5] [--method hybrid]

Without a port, a server of its own is loaded, and what was seen is told beside what is asked. With one it is the
generator alone, and prints what it saw as JSON; any server of the same API will do. A request that is late counts from
when it was due: a server that stands still for a second is charged with every request of it. One that is answered with
503 is refused, which is no error, but has a time of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..speed import Times
from . import talk
from .measuring import say
from .report import SLICES, loaded, page
from .servers import HOST, REST, Body, Product, Server, choose_workers, head, quiet, request, running, standin

RATES, SHARE, METHOD, SEED = (100.0, 300.0, 1000.0), 0.5, "hybrid", 200
REFUSED = 503
USERS, LENGTH = 50, 20  # how many users talk, and how many messages a conversation has before it is flushed
LINES, GRACE = 1000, 30.0  # the most connections, and the seconds that the last requests have to be answered


class _Line(asyncio.Protocol):
    """A connection: one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[int] | None = None
        self._got = b""
        self._whole: tuple[int, int] | None = None
        self.used = time.monotonic()
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.open = transport, True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answer and not self._answer.done():
            self._answer.set_exception(ConnectionError("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        self._got += data
        self._whole = self._whole or head(self._got)
        if self._whole and len(self._got) >= self._whole[1] and self._answer and not self._answer.done():
            self._answer.set_result(self._whole[0])

    async def ask(self, asked: bytes) -> int:
        """Send a request; the status that it was answered with."""
        assert self._transport
        self._got, self._whole = b"", None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(asked)
        status = await self._answer
        self.used = time.monotonic()
        if b"\r\nconnection: close\r\n" in self._got[:1000].lower():  # the server has said that it will
            self.open = False
        return status

    def close(self) -> None:
        """Let go of the connection."""
        if self._transport:
            self._transport.close()


@dataclass
class Generator:
    """Sends requests at their times, and keeps how long each took."""

    port: int
    rate: float
    seconds: float
    share: float
    method: str
    taken: defaultdict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """By kind: when it was due, in seconds from the start, and the milliseconds from then to the answer."""
    sent: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The milliseconds from when it was sent."""
    refused: list[tuple[float, float]] = field(default_factory=list)
    """The milliseconds from when each that was refused was due, and from when it was sent."""
    late: list[float] = field(default_factory=list)
    """By how many milliseconds each was taken up too late, which is the generator's own doing."""
    errors: Counter[str] = field(default_factory=Counter)
    answered: float = 0.0
    """When the last answer came, in seconds from the start."""

    def run(self) -> dict[str, Any]:
        """Do it; what was seen."""
        asyncio.run(self._drive())
        return self._seen()

    async def _drive(self) -> None:
        self._free: list[_Line] = []
        self._allowed = asyncio.Semaphore(LINES)
        clock = asyncio.get_running_loop().time
        requests = self._requests()
        gc.collect()
        gc.freeze()  # the requests are not for the collector to walk while the clock runs
        self._start = clock() + 0.2
        under_way: set[asyncio.Task[None]] = set()
        for number, (kind, asked) in enumerate(requests):
            due = self._start + number / self.rate
            if (early := due - clock()) > 0:
                await asyncio.sleep(early)
            task = asyncio.create_task(self._one(kind, asked, due))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        if under_way:
            _, left = await asyncio.wait(under_way, timeout=GRACE)
            for task in left:
                task.cancel()
                self.errors[f"not answered within {GRACE:g} s of the end"] += 1
            await asyncio.gather(*left, return_exceptions=True)
        for line in self._free:
            line.close()

    def _requests(self) -> list[tuple[str, bytes]]:
        """Every request, written out beforehand so that its making takes no time when it is due."""
        draw = random.Random(31)
        said: Counter[int] = Counter()
        made = []
        for number in range(int(self.rate * self.seconds)):
            user = draw.randrange(USERS)
            if draw.random() >= self.share:
                body: Body = talk.searched(talk.question(draw.randrange(2 * SEED), number), self.method)
                made.append(("search", request("search", body | {"user_id": f"user-{user}"})))
                continue
            block, at = divmod(said[user], LENGTH + 1)
            said[user] += 1
            body = {"session_id": f"load-{user}-{block}"}
            if at == LENGTH:
                made.append(("flush", request("flush", body)))
            else:
                one = talk.messages(user * 1000 + block * 10 + at // 3)[at % 3]
                sender = one["sender_id"] if one["role"] == "assistant" else f"user-{user}"
                one |= {"sender_id": sender, "timestamp": talk.BEGUN + number * 1000}
                made.append(("add", request("add", body | {"messages": [one]})))
        return made

    async def _one(self, kind: str, asked: bytes, due: float) -> None:
        clock = asyncio.get_running_loop().time
        self.late.append((clock() - due) * 1000)
        async with self._allowed:
            try:
                line = await self._line()
                sent = clock()
                status = await line.ask(asked)
            except OSError as error:
                self.errors[f"{type(error).__name__}: {error}"] += 1
                return
            done = clock()
            self._free.append(line)
        if status == REFUSED:
            self.refused.append(((done - due) * 1000, (done - sent) * 1000))
            return
        if status != 200:
            self.errors[f"{kind}: {status}"] += 1
            return
        self.sent[kind].append((done - sent) * 1000)
        self.taken[kind].append((due - self._start, (done - due) * 1000))
        self.answered = max(self.answered, done - self._start)

    async def _line(self) -> _Line:
        """A connection that the server has not closed and is not about to."""
        while self._free:
            line = self._free.pop()
            if line.open and time.monotonic() - line.used < REST:
                return line
            line.close()
        _, line = await asyncio.get_running_loop().create_connection(_Line, HOST, self.port)
        return line

    def _seen(self) -> dict[str, Any]:
        both = {"all": [pair for pairs in self.taken.values() for pair in pairs], **self.taken}
        since = {"all": [each for sent in self.sent.values() for each in sent], **self.sent}
        width = self.seconds / SLICES
        slices: list[list[float]] = [[] for _ in range(SLICES)]
        for due, taken in both["all"]:
            slices[min(int(due / width), SLICES - 1)].append(taken)
        return {
            "asked": int(self.rate * self.seconds),
            "answered": len(both["all"]),
            "seconds": round(max(self.answered, self.seconds), 2),
            "errors": dict(self.errors),
            "refused, ms from due": _figures([due for due, _ in self.refused]),
            "refused, ms from sent": _figures([sent for _, sent in self.refused]),
            "taken up late, ms": _figures(self.late),
            "ms from due": {kind: _figures([taken for _, taken in pairs]) for kind, pairs in both.items()},
            "ms from sent": {kind: _figures(taken) for kind, taken in since.items()},
            "ms from due, by tenths of the time": [_figures(taken) for taken in slices],
        }


def _figures(taken: list[float]) -> dict[str, float]:
    if not taken:
        return {"count": 0}
    times = Times("", taken)
    figures = {"p50": times.at(0.5), "p99": times.at(0.99), "max": max(taken)}
    return {"count": len(taken), **{name: round(value, 2) for name, value in figures.items()}}


def load(product: Product, *, rate: float, minutes: float, share: float, method: str) -> dict[str, Any]:
    """Load a server of its own, with the generator in a process of its own; what was seen, and what the server took."""
    seconds = minutes * 60
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, standin() as model:
        home = Path(folder) / "store"
        home.mkdir()
        with running(product, home, model) as server:
            say(f"{SEED} conversations to search in")
            for number in range(SEED):
                body = talk.added(number)
                for one in body["messages"]:
                    if one["role"] == "user":
                        one["sender_id"] = f"user-{number % USERS}"
                server.client.post("add", body)
                server.client.post("flush", talk.flushed(number))
            quiet([server], seconds=300)
            say(f"{rate:g} requests a second for {minutes:g} minutes")
            command = [
                sys.executable, "-m", "benchmarks.rest.load", "--port", str(server.port), "--rate", str(rate),
                "--seconds", str(seconds), "--share", str(share), "--method", method,
            ]  # fmt: skip
            took = [_measure(server, home, 0.0)]
            worked, start = server.worked(), time.monotonic()
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
                assert generator.stdout
                try:
                    while generator.poll() is None:
                        time.sleep(0.5)
                        passed = time.monotonic() - start
                        if passed - took[-1]["s"] >= seconds / 40:
                            took.append(_measure(server, home, passed))
                    seen: dict[str, Any] = json.loads(generator.stdout.read())
                finally:
                    generator.kill()
            seen["cores used by the server"] = round((server.worked() - worked) / (time.monotonic() - start), 2)
            quiet([server], seconds=120)
            took.append(_measure(server, home, time.monotonic() - start))
    return seen | {"product": product.name, "rate": rate, "share": share, "method": method, "taken by the server": took}


def _measure(server: Server, home: Path, passed: float) -> dict[str, float]:
    """What the server takes up at one moment."""
    log = home / "memory.db-wal"
    return {
        "s": round(passed, 1),
        "MiB RSS": round(server.rss(), 1),
        "MiB not of files": round(server.anonymous(), 1),
        "descriptors": server.descriptors(),
        "files": _count_files(home),
        "MiB WAL": round(log.stat().st_size / 2**20, 1) if log.exists() else 0.0,
    }


def _count_files(home: Path) -> int:
    """How many files the store has, without the vault's: those are what was said, a file for each day of each user."""
    count = 0
    for folder, folders, names in os.walk(home):
        if Path(folder) == home and "vault" in folders:
            folders.remove("vault")
        count += len(names)
    return count


def main() -> None:
    """Be the generator, or load a server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="be the generator for the server at this port")
    parser.add_argument("--rate", type=float, default=RATES[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, for a generator")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, for a server of its own")
    parser.add_argument("--workers", type=int, help="with how many processes the server is to answer")
    parser.add_argument("--share", type=float, default=SHARE, help="the part of the requests that add")
    parser.add_argument("--method", default=METHOD)
    given = parser.parse_args()
    if given.port is not None:
        print(json.dumps(Generator(given.port, given.rate, given.seconds, given.share, given.method).run()))
        return
    product = choose_workers(given.workers)
    part = loaded([load(product, rate=given.rate, minutes=given.minutes, share=given.share, method=given.method)])
    print(page({"load": {"head": product.name, "text": part.text, "targets": part.targets}}))


if __name__ == "__main__":
    main()
