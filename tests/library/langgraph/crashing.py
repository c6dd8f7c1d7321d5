"""A program that the tests end with SIGKILL: `crashing.py store marks kind stop`.

Each step of its graph adds a line to the file `marks` when its work is done, and the step named `stop` waits there for
its end. Started once more, without a step to stop at, it goes on from the last checkpoint.
"""

from __future__ import annotations

import operator
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph, add_messages

from cofio.library.langgraph import CofioSaver

STEPS = 12
CONFIG: Any = {"configurable": {"thread_id": "ada"}}


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    done: Annotated[list[str], operator.add]


def main() -> None:
    store, marks, kind, stop = sys.argv[1:]
    with CofioSaver.open(store) as saver:
        graph = (chain if kind == "chain" else sides)(saver, Path(marks), stop)
        state = graph.get_state(CONFIG)
        graph.invoke(None if state.created_at else {"messages": [("user", "begin")]}, CONFIG, durability="sync")


def chain(saver: CofioSaver, marks: Path, stop: str) -> Any:
    """Steps that follow one another."""
    built = StateGraph(State)
    before = START
    for number in range(STEPS):
        name = f"step{number}"

        def work(state: State, name: str = name) -> State:
            if stop == f"{name} before":
                halt(marks)
            mark(marks, name)
            if stop == f"{name} after":
                halt(marks)
            return {"messages": [AIMessage(name, id=name)], "done": [name]}

        built.add_node(name, work)
        built.add_edge(before, name)
        before = name
    return built.compile(checkpointer=saver)


def sides(saver: CofioSaver, marks: Path, stop: str) -> Any:
    """Three steps side by side, one of which waits until what the others wrote is in the store."""

    def work(state: State, name: str) -> State:
        mark(marks, name)
        return {"done": [name]}

    def slow(state: State) -> State:
        if stop:
            for _ in range(6000):
                if len({write[0] for write in saver.get_tuple(CONFIG).pending_writes or []}) == 2:  # type: ignore[union-attr]
                    halt(marks)
                time.sleep(0.01)
            raise TimeoutError("the writes of the two others are not in the store")
        return work(state, "slow")

    built = StateGraph(State)
    built.add_node("left", lambda state: work(state, "left"))
    built.add_node("right", lambda state: work(state, "right"))
    built.add_node("slow", slow)
    built.add_node("last", lambda state: work(state, "last"))
    for name in ("left", "right", "slow"):
        built.add_edge(START, name)
    built.add_edge(["left", "right", "slow"], "last")
    return built.compile(checkpointer=saver)


def mark(marks: Path, line: str) -> None:
    with marks.open("a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def halt(marks: Path) -> None:
    marks.with_suffix(".halted").touch()
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
