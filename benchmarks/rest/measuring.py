"""cofio and the peer side by side: the same bodies, the same client, in turns."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ..speed import Times
from . import talk
from .servers import Product, Server, quiet, running, standin

SESSIONS, SEARCHES, WARM, TURN = 60, 100, 5, 5
METHODS = ("keyword", "vector", "hybrid")
ADD, FLUSH, BY_WORDS, BY_MEANING = "add", "flush", "until found by keyword", "until found by vector"
ADD_BUSY, FLUSH_BUSY, FOUND_BUSY = "add, back to back", "flush, back to back", "until the last is found, back to back"
LONGEST, PAUSE = 30.0, 0.005  # seconds that a record is waited for, and between two looks


@dataclass
class Compared:
    """What was measured of each product."""

    sessions: int
    names: list[str]
    """The products, in the order in which they are shown."""
    times: dict[str, dict[str, Times]] = field(default_factory=dict)
    """By what was done, and product."""
    missed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a record was not found at all, by what was done and product."""
    at_once: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often it was found by the very next search."""
    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a search for a name gave the one conversation that has it, by method and product."""
    named: int = 0
    """How many searches there were for a name."""
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    """MiB RSS, by moment and product."""

    def take(self, what: str, name: str, taken: float) -> None:
        """Note a time in milliseconds."""
        self.times.setdefault(what, {}).setdefault(name, Times(name)).taken.append(taken)


def compare(products: Sequence[Product], sessions: int, searches: int) -> Compared:
    """Start every product on an empty folder, and measure them in turns."""
    made = Compared(sessions, [product.name for product in products])
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, standin() as model, ExitStack() as stack:
        servers = []
        for number, product in enumerate(products):
            say(f"starting {product.name}")
            home = Path(folder) / str(number)
            home.mkdir()
            servers.append(stack.enter_context(running(product, home, model)))
        _remember(made, "started", servers)
        for server in servers:
            _warm(server)
        _adds(made, servers, range(WARM, WARM + sessions))
        _flushes(made, servers, range(WARM, WARM + sessions))
        _searches(made, servers, searches, WARM + sessions)
        _remember(made, f"after {WARM + sessions} conversations", servers)
        _back_to_back(made, servers, range(WARM + sessions, WARM + 2 * sessions))
        _remember(made, f"after {WARM + 2 * sessions} conversations", servers)
    return made


def _warm(server: Server) -> None:
    """What is done for the first time is not measured."""
    for number in range(WARM):
        server.client.post("add", talk.added(number))
        server.client.post("flush", talk.flushed(number))
        _wait(server, number, "keyword", talk.place(number))
        for method in METHODS:
            server.client.post("search", talk.searched(talk.question(number), method))
    quiet([server])


def _adds(made: Compared, servers: Sequence[Server], numbers: range) -> None:
    say(f"{len(numbers)} conversations: add")
    for server, turn in _turns(servers, numbers):
        quiet(servers)
        for number in turn:
            made.take(ADD, server.name, server.client.post("add", talk.added(number))[0])


def _flushes(made: Compared, servers: Sequence[Server], numbers: range) -> None:
    """Each alone: what a server does after it has answered is not to weigh on the next, which may be another's."""
    say(f"{len(numbers)} conversations: flush, and until it is found")
    for number in numbers:
        for server in servers[:: 1 if number % 2 else -1]:
            quiet(servers)
            taken, data = server.client.post("flush", talk.flushed(number))
            answered = time.perf_counter()
            if data["status"] != "extracted":
                raise RuntimeError(f"{server.name} answered a flush with {data}")
            made.take(FLUSH, server.name, taken)
            for what, method, query in (
                (BY_WORDS, "keyword", talk.place(number)),
                (BY_MEANING, "vector", talk.messages(number)[0]["content"]),
            ):
                _lag(made, server, what, _wait(server, number, method, query), answered)


def _lag(made: Compared, server: Server, what: str, seen: tuple[int, float] | None, answered: float) -> None:
    if seen is None:
        made.missed[what, server.name] += 1
        return
    looks, asked = seen
    made.at_once[what, server.name] += looks == 1
    made.take(what, server.name, (asked - answered) * 1000)


def _wait(server: Server, number: int, method: str, query: str) -> tuple[int, float] | None:
    """Look until the conversation is found: at which look, and when that one was asked; None when it never was."""
    until, looks = time.monotonic() + LONGEST, 0
    while time.monotonic() < until:
        asked = time.perf_counter()
        looks += 1
        if number in _sessions(server, talk.searched(query, method))[1]:
            return looks, asked
        time.sleep(PAUSE)
    return None


def _sessions(server: Server, body: dict[str, object]) -> tuple[float, set[int]]:
    """The milliseconds of a search, and the conversations that it found."""
    taken, data = server.client.post("search", body)
    return taken, {int(episode["session_id"].rpartition("-")[2]) for episode in data["episodes"]}


def _searches(made: Compared, servers: Sequence[Server], searches: int, held: int) -> None:
    say(f"{searches} searches of each kind")
    quiet(servers)
    asked = [(number := turn * 7 % held, talk.question(number, turn)) for turn in range(searches)]
    made.named = sum(talk.place(number) in query for number, query in asked)
    for method in METHODS:
        for server, turn in _turns(servers, range(searches)):
            for number, query in asked[turn.start : turn.stop]:
                taken, found = _sessions(server, talk.searched(query, method))
                made.take(method, server.name, taken)
                made.found[method, server.name] += talk.place(number) in query and number in found


def _back_to_back(made: Compared, servers: Sequence[Server], numbers: range) -> None:
    """As when conversations are imported: each server by itself, add and flush, add and flush."""
    say(f"{len(numbers)} conversations more, back to back")
    for server in servers:
        quiet(servers)
        for number in numbers:
            made.take(ADD_BUSY, server.name, server.client.post("add", talk.added(number))[0])
            made.take(FLUSH_BUSY, server.name, server.client.post("flush", talk.flushed(number))[0])
        answered = time.perf_counter()
        _lag(made, server, FOUND_BUSY, _wait(server, numbers[-1], "keyword", talk.place(numbers[-1])), answered)


def _turns(servers: Sequence[Server], numbers: range) -> Iterator[tuple[Server, range]]:
    """Who does which: a few each in turn, and each time another first."""
    for turn, start in enumerate(range(0, len(numbers), TURN)):
        for server in servers[:: 1 if turn % 2 else -1]:
            yield server, numbers[start : start + TURN]


def _remember(made: Compared, moment: str, servers: Sequence[Server]) -> None:
    quiet(servers)
    made.memory[moment] = {server.name: server.rss() for server in servers}


def say(what: str) -> None:
    """Tell whoever waits what is being done."""
    print(f"{what} …", file=sys.stderr, flush=True)
