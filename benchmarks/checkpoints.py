"""What a checkpoint costs: the time of a save and of a load, and the bytes, beside LangGraph's own SQLite saver.

usage: python -m benchmarks.checkpoints [--turns 200] [--rounds 3] [--write]

The same LangGraph graph, a chat with the usual reducer, runs turn by turn over LangGraph's SqliteSaver and over
CofioSaver, in turns; both sync each commit to the disk. Then the library's own checkpointer saves a chat after each
turn, beside 4 KiB appended to a file with fdatasync, and beside whole states compressed with zlib.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sqlite3
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

import cofio
from cofio.library import AgentState, CofioCheckpointer, Message
from cofio.library.langgraph import CofioSaver

from .__main__ import RESULTS, machine
from .corpus import paragraphs
from .peers import RawDisk

THREAD: Any = {"configurable": {"thread_id": "chat"}}
ELSEWHERE: Any = {"configurable": {"thread_id": "another"}}
QUIET = cofio.Settings(background=False, embedder="none")
LOADS = 30
SHORT = 20  # turns of a short chat


def said(turns: int) -> list[str]:
    """What is said in a chat: real paragraphs, cut to what a turn of a chat has."""
    return [text[:400] for text in paragraphs()[: 2 * turns]]


@dataclass
class Timed:
    """The milliseconds of each call, by its name."""

    taken: dict[str, list[float]] = field(default_factory=dict)

    def wrap(self, saver: Any, name: str) -> None:
        """Time a saver's method from now on."""
        inner: Callable[..., Any] = getattr(saver, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                self.add(name, begun)

        setattr(saver, name, timed)

    def add(self, name: str, begun: float) -> None:
        """Note a call that began then and ends now."""
        self.taken.setdefault(name, []).append((time.perf_counter() - begun) * 1e3)

    def middle(self, name: str, last: int | None = None) -> float:
        """The median of a call, or of the last so many."""
        times = self.taken[name]
        return statistics.median(times[-last:] if last else times)


class Peer:
    """LangGraph's own saver, in a file."""

    name = "SqliteSaver"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "peer"
        self.folder.mkdir()
        self.connection = self._connected()
        self.saver: Any = SqliteSaver(self.connection)

    def _connected(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "checkpoints.sqlite", check_same_thread=False)

    def reopened(self) -> tuple[Any, Callable[[], None]]:
        """A saver that has its connection, and has read nothing of the thread yet."""
        connection = self._connected()
        saver = SqliteSaver(connection)
        saver.get_tuple(ELSEWHERE)
        return saver, connection.close

    def close(self) -> None:
        """Leave a file without a log."""
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()


class Ours:
    """CofioSaver, in a memory."""

    name = "CofioSaver"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "ours"
        self.engine = cofio.Engine.open(self.folder, settings=QUIET)
        self.saver: Any = CofioSaver(self.engine)

    def reopened(self) -> tuple[Any, Callable[[], None]]:
        """A saver that has its connection, and has read nothing of the thread yet."""
        engine = cofio.Engine.open(self.folder, settings=QUIET)
        saver = CofioSaver(engine)
        saver.get_tuple(ELSEWHERE)
        return saver, engine.close

    def close(self) -> None:
        """Leave a file without a log."""
        self.engine.close()


def chat_graph(saver: Any, texts: list[str]) -> Any:
    """A chat whose answers are known beforehand."""

    def answer(state: MessagesState) -> dict[str, Any]:
        text = texts[len(state["messages"])]
        usage = {"input_tokens": len(state["messages"]) * 90, "output_tokens": 80, "total_tokens": 80}
        told = {"model_name": "a-model", "finish_reason": "stop", "id": f"answer-{len(text)}"}
        return {"messages": [AIMessage(text, response_metadata=told, usage_metadata=cast(UsageMetadata, usage))]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


def size(folder: Path) -> int:
    """The bytes of a folder's files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def langgraph(turns: int) -> dict[str, dict[str, float]]:
    """The figures of one round for each saver."""
    texts = said(turns)
    with tempfile.TemporaryDirectory() as place:
        Ours(Path(place) / "empty").close()
        empty = size(Path(place) / "empty" / "ours")
        sides: list[Peer | Ours] = [Peer(Path(place)), Ours(Path(place))]
        timed = {side.name: Timed() for side in sides}
        graphs = []
        for side in sides:
            for name in ("put", "put_writes"):
                timed[side.name].wrap(side.saver, name)
            graphs.append(chat_graph(side.saver, texts))
        for turn in range(turns):
            for side, graph in zip(sides, graphs, strict=True):
                begun = time.perf_counter()
                graph.invoke({"messages": [HumanMessage(texts[2 * turn])]}, THREAD, durability="sync")
                timed[side.name].add("turn", begun)
        for _ in range(LOADS):
            for side in sides:
                begun = time.perf_counter()
                newest = side.saver.get_tuple(THREAD)
                timed[side.name].add("load", begun)
                assert len(newest.checkpoint["channel_values"]["messages"]) == 2 * turns
                saver, close = side.reopened()
                begun = time.perf_counter()
                saver.get_tuple(THREAD)
                timed[side.name].add("cold", begun)
                begun = time.perf_counter()
                assert sum(1 for _ in saver.list(THREAD, limit=10)) == 10
                timed[side.name].add("list", begun)
                close()
        for side in sides:
            side.close()
        found: dict[str, dict[str, float]] = {}
        for side in sides:
            each = timed[side.name]
            found[side.name] = {
                "put, all turns": each.middle("put"),
                "put, the last 20 turns": each.middle("put", 60),
                "put_writes": each.middle("put_writes"),
                "a turn of the graph": each.middle("turn"),
                "get_tuple, the newest": each.middle("load"),
                "get_tuple, just opened": each.middle("cold"),
                "list, ten": each.middle("list"),
                "KiB on disk": (size(side.folder) - (empty if side is sides[1] else 0)) / 1024,
            }
        return found


def library(turns: int) -> dict[str, float]:
    """The figures of one round of the library's own checkpointer."""
    texts = said(turns)
    timed = Timed()
    whole = 0

    async def saved(folder: Path) -> int:
        nonlocal whole
        disk = RawDisk(folder)
        with cofio.Engine.open(folder / "store", settings=QUIET) as engine:
            checkpointer = CofioCheckpointer(engine)
            state = AgentState()
            for turn in range(turns):
                for message in (Message.user(texts[2 * turn]), Message.assistant(texts[2 * turn + 1])):
                    state = state.with_message(message)
                state = state.next_iteration()
                begun = time.perf_counter()
                await checkpointer.save(state, "chat")
                timed.add("save", begun)
                whole += len(zlib.compress(json.dumps(state.to_checkpoint(), separators=(",", ":")).encode(), 6))
                begun = time.perf_counter()
                disk.write()
                timed.add("floor", begun)
                begun = time.perf_counter()
                await asyncio.to_thread(int)
                timed.add("crossing", begun)
            for _ in range(LOADS):
                begun = time.perf_counter()
                await checkpointer.load("chat")
                timed.add("load", begun)
            stored = engine.checkpoints.measure("library", "chat").bytes
        for _ in range(LOADS):
            with cofio.Engine.open(folder / "store", settings=QUIET) as engine:
                checkpointer = CofioCheckpointer(engine)
                begun = time.perf_counter()
                await checkpointer.load("chat")
                timed.add("cold", begun)
        disk.close()
        return stored

    with tempfile.TemporaryDirectory() as place:
        stored = asyncio.run(saved(Path(place)))
    return {
        "save": timed.middle("save"),
        "floor": timed.middle("floor"),
        "crossing": timed.middle("crossing"),
        "save / floor": timed.middle("save") / timed.middle("floor"),
        "without crossing": (timed.middle("save") - timed.middle("crossing")) / timed.middle("floor"),
        "load": timed.middle("load"),
        "cold": timed.middle("cold"),
        "share": stored / whole * 100,
    }


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure over the rounds."""
    return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def beside(graphs: list[dict[str, dict[str, float]]]) -> str:
    """Both savers, and how many times better ours is."""
    peer = medians([each[Peer.name] for each in graphs])
    ours = medians([each[Ours.name] for each in graphs])
    head = f"| | {Peer.name} | {Ours.name} | times better |\n| --- | --- | --- | --- |\n"
    rows = (f"| {name} | {peer[name]:.3g} | {ours[name]:.3g} | {peer[name] / ours[name]:.2f} |" for name in peer)
    return head + "\n".join(rows)


def report(turns: int, rounds: int) -> str:
    """Measure, and write it out."""
    graphs, shorts, libraries = [], [], []
    for number in range(rounds):
        print(f"round {number + 1} of {rounds} …", flush=True)
        gc.collect()
        graphs.append(langgraph(turns))
        shorts.append(langgraph(SHORT))
        libraries.append(library(turns))
    peer = medians([each[Peer.name] for each in graphs])
    ours = medians([each[Ours.name] for each in graphs])
    own = medians(libraries)
    smaller = peer["KiB on disk"] / ours["KiB on disk"]
    slowest = max(ours[name] / peer[name] for name in peer if name != "KiB on disk")
    targets = [
        ("times smaller on disk than SqliteSaver", f"{smaller:.1f}", "at least 2", smaller >= 2),
        ("put: time beside SqliteSaver's", f"{ours[PUT] / peer[PUT]:.2f}", "at most 1", ours[PUT] <= peer[PUT]),
        ("the slowest call beside SqliteSaver's", f"{slowest:.2f}", "at most 1", slowest <= 1),
        ("library: bytes, % of whole zlib states", f"{own['share']:.1f}", "at most 10", own["share"] <= 10),
        ("library: the newest loaded, just opened, ms", f"{own['cold']:.2f}", "under 5", own["cold"] < 5),
        (
            "library: save, awaited / durable-write floor",
            f"{own['save / floor']:.2f}",
            "under 2",
            own["save / floor"] < 2,
        ),
        ("the same without the crossing", f"{own['without crossing']:.2f}", "under 2", own["without crossing"] < 2),
    ]
    asked = [f"| {name} | {found} | {least} | {'yes' if met else 'NO'} |" for name, found, least, met in targets]
    return f"""\
# Checkpoints

cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}

A chat of {turns} turns ({2 * turns} messages of up to 400 characters); medians of {rounds} rounds.

## Beside LangGraph's SqliteSaver

The same graph over both, turn by turn, `durability="sync"`. Milliseconds, p50.

{beside(graphs)}

The same for {SHORT} turns.

{beside(shorts)}

## The library's checkpointer

| | |
| --- | --- |
| save, awaited, ms | {own["save"]:.3f} |
| of which crossing to a thread and back, ms | {own["crossing"]:.3f} |
| 4 KiB appended to a file, with fdatasync, ms | {own["floor"]:.3f} |
| load of the newest, ms | {own["load"]:.2f} |
| load of the newest, just opened, ms | {own["cold"]:.2f} |
| bytes, % of whole states compressed with zlib | {own["share"]:.1f} |

## Targets

| target | measured | asked | met |
| --- | --- | --- | --- |
{chr(10).join(asked)}
"""


PUT = "put, all turns"


def main() -> None:
    """Measure, print the report, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    text = report(max(5, given.turns), max(1, given.rounds))
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "checkpoints.md").write_text(text)


if __name__ == "__main__":
    main()
