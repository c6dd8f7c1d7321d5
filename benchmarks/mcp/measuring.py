"""What is measured, and how."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cofio import Engine, Kind, Query, Settings, Unavailable
from cofio.doors.mcp import tools
from cofio.embed import open_embedder
from cofio.values.records import Json

from .. import corpus
from ..speed import Times
from .servers import BY_DEFAULT, BY_WORDS, PEER, Arguments, Client, Product, Stores, session
from .stores import AGENTS, HOME, PLAIN, REAL, STATES, Chunk, chunks, fill, fill_peer, questions, settled

ROUNDS, STARTS, TURN, WARM = 300, 15, 5, 30
WRITERS, EACH = 2, 200
INITIALIZED, SEARCHED = "spawn to `initialize` answered", "spawn to first search answered"
ENDED = "stdin closed to process ended"


@dataclass
class Task:
    """A tool to call so many times, each time with other arguments."""

    name: str
    tool: str
    given: list[Arguments]


def tasks(text: str, held: Sequence[Chunk], fresh: Sequence[Chunk], count: int) -> list[Task]:
    """What is asked of both servers, the same in the same order; what changes the store comes last."""
    draw = random.Random(23)
    doomed, kept = held[:count], held[count:]
    states = [f"state-{n % STATES}" for n in range(count)]
    value = {"phase": "review", "done": ["design", "schema"], "left": 3}
    asked = [{"query": each, "top_k": 6, "search_mode": "bm25"} for each in questions(held, text, count)]
    sifted = [{"agent": draw.choice(AGENTS), "tags": [draw.choice(corpus.TAGS)]} for _ in range(count)]
    return [
        Task("search", "search_context", [*asked]),
        Task("read", "read_context", [{"id": draw.choice(kept).id} for _ in range(count)]),
        Task("list", "list_context", [{}] * count),
        Task("list, by agent and tag", "list_context", [*sifted]),
        Task("get_state", "get_state", [{"key": key} for key in states]),
        Task("set_state", "set_state", [{"key": key, "value": value} for key in states]),
        Task("write", "write_context", [one.written() for one in fresh]),
        Task("delete", "delete_context", [{"id": one.id} for one in doomed]),
    ]


_WRONG = {
    "search_context": "No matching chunks found.", "read_context": "No chunk found", "delete_context": "No chunk found",
    "list_context": "Memory store is empty.", "get_state": "State key",
}  # fmt: skip


def side_by_side(stores: Stores, text: str, size: int, rounds: int, scratch: Path) -> dict[str, dict[str, Times]]:
    """Every tool of both servers, in turns of a few calls; the times of each by task and product."""
    count = rounds + WARM
    every = chunks(text, size + count)
    held, fresh = every[:size], every[size:]
    times: dict[str, dict[str, Times]] = {}
    with ExitStack() as sessions:
        clients = {
            name: sessions.enter_context(session(product, folder, scratch))
            for name, (product, folder) in stores.items()
        }
        for client in clients.values():
            for number in range(STATES):
                client.call("set_state", {"key": f"state-{number}", "value": {"phase": "design", "n": number}})
        settled(stores["cofio"][1])
        for task in tasks(text, held, fresh, count):
            found = times[task.name] = {name: Times(name) for name in clients}
            for name, number in _turns([*clients], count):
                taken, said, failed = clients[name].call(task.tool, task.given[number])
                if failed or said.startswith(_WRONG.get(task.tool, "\0")):
                    raise RuntimeError(f"{name} answered {task.tool} {task.given[number]} with {said[:200]}")
                if number >= WARM:
                    found[name].taken.append(taken)
    return times


def _turns(names: list[str], count: int) -> Iterator[tuple[str, int]]:
    """Who is asked which of so many questions: a few each in turn, and each time another first."""
    for start in range(0, count, TURN):
        for name in names[:: 1 if start // TURN % 2 else -1]:
            yield from ((name, number) for number in range(start, min(start + TURN, count)))


def by_meaning(folder: Path, size: int, rounds: int, scratch: Path) -> dict[str, Times]:
    """cofio's other two modes, the model's work on the query included."""
    asked = questions(chunks(REAL, size), REAL, rounds + WARM)
    times = {mode: Times(mode) for mode in ("hybrid", "semantic")}
    with session(BY_DEFAULT, folder, scratch) as client:
        start = time.perf_counter()
        client.call("search_context", {"query": "the first asks for the model"})
        times["first hybrid search, the model's loading included"] = Times("", [(time.perf_counter() - start) * 1000])
        for mode, number in _turns(["hybrid", "semantic"], len(asked)):
            given = {"query": asked[number], "top_k": 6, "search_mode": mode}
            taken, _, failed = client.call("search_context", given)
            assert not failed
            if number >= WARM:
                times[mode].taken.append(taken)
    return times


def starts(stores: Stores, rounds: int, scratch: Path, *, fresh: bool) -> dict[str, dict[str, Times]]:
    """From spawn to the answer to `initialize` and to a search, and from the end of stdin to the end of the process."""
    times = {moment: {name: Times(name) for name in stores} for moment in (INITIALIZED, SEARCHED, ENDED)}
    for number in range(rounds):
        for name in [*stores][:: 1 if number % 2 else -1]:
            product, folder = stores[name]
            client = Client(product, folder / f"{number}" if fresh else folder, scratch)
            client.call("search_context", {"query": "the schema of a token", "search_mode": "bm25"})
            times[SEARCHED][name].taken.append((time.perf_counter() - client.spawned) * 1000)
            times[INITIALIZED][name].taken.append(client.initialized)
            times[ENDED][name].taken.append(client.close())
    return times


@dataclass(frozen=True)
class Layered:
    """A call of the engine, and the tool that makes it, where there is one."""

    name: str
    verb: Callable[[Arguments], object]
    given: Callable[[str, int], Arguments]
    """The arguments of a call, by the layer that it goes to and its number."""
    tool: str = ""


def layers(folder: Path, size: int, rounds: int, scratch: Path) -> dict[str, dict[str, Times]]:
    """What the door adds: the engine's call, the tool around it, and the same tool through the pipe."""
    count = rounds + WARM
    every = chunks(REAL, size + 3 * count)
    copy = scratch / "layers"
    shutil.copytree(folder, copy)
    times: dict[str, dict[str, Times]] = {"ping": {"pipe": Times("ping")}}
    with (
        session(BY_WORDS, folder, scratch) as client,
        Engine.open(copy, settings=Settings(embedder="none")) as engine,
    ):
        for number in range(STATES):
            given: Arguments = {"key": f"state-{number}", "value": {"n": number}}
            client.call("set_state", given)
            tools.call_tool(lambda: engine, "set_state", given)
        settled(folder)
        settled(copy)
        for _ in range(count):
            times["ping"]["pipe"].taken.append(client.request("ping")[0])
        for each in _layered(engine, every[:size], every[size:], count):
            ways = ["engine", "tool", "pipe"] if each.tool else ["engine"]
            found = times[each.name] = {way: Times(way) for way in ways}
            for way, number in _turns(ways, count):
                given = each.given(way, number)
                if way == "engine":
                    found[way].run(partial(each.verb, given))
                elif way == "tool":
                    found[way].run(partial(_tool, engine, each.tool, given))
                else:
                    found[way].taken.append(client.call(each.tool, given)[0])
    for found in times.values():
        for layer in found.values():
            del layer.taken[:WARM]
    return times


def _tool(engine: Engine, name: str, given: Arguments) -> dict[str, Json]:
    return tools.call_tool(lambda: engine, name, given).render()


def _layered(engine: Engine, held: Sequence[Chunk], fresh: Sequence[Chunk], count: int) -> list[Layered]:
    """The calls whose layers are told apart.

    Engine and pipe, which have a store each, are given the same; the tool shares the engine's store, and writes others.
    """
    asked = questions(held, REAL, count)

    def find(given: Arguments) -> object:
        return engine.search(Query(given["query"], scope=HOME, kinds=(Kind.NOTE,), mode="keyword", limit=6))

    def write(given: Arguments) -> object:
        return engine.write(
            HOME, id=os.urandom(5).hex(), title=given["topic"], text=given["content"], author=given["agent"],
            tags=given["tags"], source="mcp", related=True,
        )  # fmt: skip

    return [
        Layered("get_state", lambda given: engine.get(HOME, given["key"], kind=Kind.STATE),
                lambda _, number: {"key": f"state-{number % STATES}"}, "get_state"),
        Layered("read", lambda given: engine.read(given["id"]),
                lambda _, number: {"id": held[-number].id}, "read_context"),
        Layered("list", lambda _: engine.headings(HOME, kinds=(Kind.NOTE,), limit=101),
                lambda _, number: {}, "list_context"),
        Layered("search", find, lambda _, number: {"query": asked[number], "search_mode": "bm25"}, "search_context"),
        Layered("write", write,
                lambda way, number: fresh[number + (count if way == "tool" else 0)].written(), "write_context"),
    ]  # fmt: skip


def memory(product: Product, folder: Path, scratch: Path) -> dict[str, float]:
    """The MiB of a server that has been asked next to nothing: at once, and when it had time to do what it likes."""
    with session(product, folder, scratch) as client:
        client.request("tools/list")
        client.call("get_state", {"key": "phase"})
        at_once = _mapped(client.pid)
        time.sleep(10)
        later = _mapped(client.pid)
    return {
        "RSS": at_once["Rss"],
        "PSS": at_once["Pss"],
        "RSS after 10 s": later["Rss"],
        "PSS after 10 s": later["Pss"],
    }


def _mapped(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}


def crowd(product: Product, folder: Path, scratch: Path) -> dict[str, Any]:
    """Servers that write into one store at the same time: how many writes failed, why, and how long it took."""
    faults: list[str] = []

    def write(client: Client, writer: int) -> None:
        for number in range(EACH):
            given = {"topic": f"writer {writer}, {number}", "content": f"what {writer} has to say about {number}"}
            try:
                _, said, failed = client.call("write_context", given)
            except (RuntimeError, BrokenPipeError):
                faults.extend(["the server has ended"] * (EACH - number))
                return
            if failed:
                faults.append(said)

    with ExitStack() as sessions:
        clients = [sessions.enter_context(session(product, folder, scratch)) for _ in range(WRITERS)]
        for client in clients:
            client.call("list_context", {})
        start = time.perf_counter()
        threads = [threading.Thread(target=write, args=(client, n)) for n, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - start
    with session(product, folder, scratch) as client:
        _, said, _ = client.call("list_context", {"limit": 500})
    return {
        "writes": WRITERS * EACH,
        "failed": len(faults),
        "said": max(set(faults), key=faults.count) if faults else None,
        "stored": int(said.split()[0]) if said[0].isdigit() else 0,
        "seconds": round(taken, 2),
    }


@dataclass
class Report:
    """Everything that was measured."""

    head: str
    peer: str
    """What the peer is, or why there is none."""
    rounds: int
    tables: dict[tuple[int, str], dict[str, dict[str, Times]]] = field(default_factory=dict)
    """By size and text, then by task and product."""
    meaning: dict[int, dict[str, Times]] = field(default_factory=dict)
    starts: dict[str, dict[str, dict[str, Times]]] = field(default_factory=dict)
    layers: dict[str, dict[str, Times]] = field(default_factory=dict)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    crowd: dict[str, dict[str, Any]] = field(default_factory=dict)


def measure(sizes: list[int], rounds: int, peer: Product | None, report: Report) -> None:
    """Fill the stores, and measure everything."""
    modelled = has_model()
    for size in sizes:
        for text in (REAL, PLAIN):
            with tempfile.TemporaryDirectory() as folder:
                stores = filled(Path(folder), text, size, peer)
                _say(f"{size:,} chunks of {text}: every tool")
                report.tables[size, text] = side_by_side(stores, text, size, rounds, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        scratch, largest = Path(folder), max(sizes)
        stores = filled(scratch, REAL, largest, peer)
        _say("what the door adds")
        report.layers = layers(stores["cofio"][1], largest, rounds, scratch)
        for size in sizes if modelled else []:
            _say(f"{size:,} chunks: by meaning")
            fill(scratch / f"vectors-{size}", chunks(REAL, size), vectors=True)
            report.meaning[size] = by_meaning(scratch / f"vectors-{size}", size, rounds, scratch)
        if modelled:
            stores["cofio"] = (BY_DEFAULT, scratch / f"vectors-{largest}")
        empty: Stores = {name: (product, scratch / f"empty-{name}") for name, (product, _) in stores.items()}
        _say("starting and ending")
        report.starts["no store yet"] = starts(empty, max(STARTS, rounds // 20), scratch, fresh=True)
        report.starts[f"{largest:,} chunks"] = starts(stores, max(STARTS, rounds // 20), scratch, fresh=False)
        _say("memory, and several servers on one store")
        for name, (product, _) in stores.items():
            report.memory[name] = memory(product, scratch / f"small-{name}", scratch)
            report.crowd[name] = crowd(product, scratch / f"shared-{name}", scratch)


def filled(scratch: Path, text: str, size: int, peer: Product | None) -> Stores:
    """A store of each product, with the same chunks."""
    _say(f"{size:,} chunks of {text}: filling")
    held = chunks(text, size)
    stores: Stores = {"cofio": (BY_WORDS, scratch / "cofio")}
    fill(scratch / "cofio", held)
    if peer is not None:
        stores[PEER] = (peer, scratch / "peer")
        fill_peer(peer, scratch / "peer", held, scratch)
    gc.collect()
    gc.freeze()  # what the benchmark itself holds is not for the collector to walk in a measured call
    return stores


def has_model() -> bool:
    """Whether cofio's model is installed here."""
    try:
        open_embedder("minilm", models=Settings().models_folder)
    except Unavailable:
        return False
    return True


def _say(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)
