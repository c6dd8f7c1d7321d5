"""A LangGraph agent that waits for a person's approval, and remembers what was decided.

The graph stops at `interrupt`, its state is on the disk, and another process goes on with it, days later if need be:

    python examples/langgraph_approval.py ask      # stops and asks
    python examples/langgraph_approval.py yes      # goes on where it stopped
    python examples/langgraph_approval.py ask      # a new thread: it knows what was decided
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from cofio import Engine
from cofio.library.langgraph import CofioLangGraphStore, CofioSaver

DECISIONS = ("decisions",)


class Purchase(TypedDict, total=False):
    request: str
    known: list[str]
    approved: bool


def recall(state: Purchase, runtime: Runtime) -> Purchase:
    """Look up what was decided before."""
    assert runtime.store
    found = runtime.store.search(DECISIONS, query=state["request"], limit=3)
    return {"known": [item.value["text"] for item in found]}


def approve(state: Purchase) -> Purchase:
    """Ask a person; everything up to here is kept until they answer."""
    return {"approved": interrupt(f"May I: {state['request']}? Known: {state['known'] or 'nothing'}") == "yes"}


def remember(state: Purchase, runtime: Runtime) -> None:
    """Keep the decision for every later thread."""
    assert runtime.store
    verdict = "approved" if state["approved"] else "refused"
    runtime.store.put(DECISIONS, state["request"], {"text": f"It was {verdict} to {state['request']}."})


def main(said: str, folder: Path) -> None:
    """Begin a purchase, or go on with the one that waits."""
    builder = StateGraph(Purchase)
    for name, node in (("recall", recall), ("approve", approve), ("remember", remember)):
        builder.add_node(name, node)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "approve")
    builder.add_edge("approve", "remember")
    with Engine.open(folder) as engine:
        saver = CofioSaver(engine)
        graph = builder.compile(checkpointer=saver, store=CofioLangGraphStore(engine))
        threads = {str(found.config["configurable"]["thread_id"]) for found in saver.list(None)}
        waiting = [name for name in sorted(threads) if graph.get_state(place(name)).next]
        if said == "ask":
            name = f"purchase-{len(threads) + 1}"
            result = graph.invoke({"request": "buy the blue kettle"}, place(name))
            print(f"{name}: {result['__interrupt__'][0].value}")
        elif waiting:
            result = graph.invoke(Command(resume=said), place(waiting[0]))
            print(f"{waiting[0]}: {'approved' if result['approved'] else 'refused'}")
        else:
            print("nothing waits: begin with `ask`")


def place(name: str) -> Any:
    """How LangGraph is told of a thread."""
    return {"configurable": {"thread_id": name}}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "ask", Path(sys.argv[2] if len(sys.argv) > 2 else "example-memory"))
