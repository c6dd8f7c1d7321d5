"""Real graphs on the checkpointer: interrupts, time travel, subgraphs, deltas, threads and processes."""

from __future__ import annotations

import asyncio
import operator
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Durability, Send, interrupt

from cofio.config.address import StoreAddress
from cofio.library.langgraph import CofioSaver
from cofio.values.errors import Unavailable

from .saving import QUIET, config_of

Graph = CompiledStateGraph[Any, Any, Any, Any]


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]


def joined(old: list[str], writes: list[list[str]]) -> list[str]:
    return [*old, *(each for write in writes for each in write)]


class Log(TypedDict, total=False):
    lines: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=5)]
    all: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=1000)]
    step: int


@pytest.fixture
def saver(store_address: StoreAddress) -> Iterator[CofioSaver]:
    with CofioSaver.open(store_address.spell(), settings=QUIET) as opened:
        yield opened


def thread(name: str = "ada") -> Any:
    return {"configurable": {"thread_id": name}}


def chat(saver: BaseCheckpointSaver[Any] | None) -> Graph:
    """A graph that answers what it is told."""

    def answer(state: Chat) -> Chat:
        said = state["messages"][-1].text
        return {"messages": [AIMessage(f"You said {said!r}.")], "count": 1}

    return StateGraph(Chat).add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)


def log(saver: BaseCheckpointSaver[Any]) -> Graph:
    """A graph with channels that keep what was written, and not what it adds up to."""

    def write(state: Log) -> Log:
        line = f"{len(state['lines'])}"
        return {"lines": [line], "all": [line], "step": state.get("step", 0) + 1}

    return StateGraph(Log).add_sequence([("one", write), ("two", write)]).add_edge(START, "one").compile(saver)


def texts(values: Any) -> list[str]:
    return [message.text for message in values["messages"]]


@pytest.mark.requirement("langgraph.saver.restart")
def test_a_chat_goes_on_in_another_process(store_address: StoreAddress) -> None:
    said = []
    for turn in range(5):
        with CofioSaver.open(store_address.spell(), settings=QUIET) as saver:
            values = chat(saver).invoke({"messages": [HumanMessage(f"turn {turn}")]}, thread())
            said += [f"turn {turn}", f"You said 'turn {turn}'."]
            assert texts(values) == said
            assert values["count"] == turn + 1
    with CofioSaver.open(store_address.spell(), settings=QUIET) as saver:
        assert texts(chat(saver).get_state(thread()).values) == said
        assert all(
            type(each) in (HumanMessage, AIMessage) for each in chat(saver).get_state(thread()).values["messages"]
        )


@pytest.mark.requirement("langgraph.saver.graphs")
def test_a_graph_says_the_same_as_with_the_in_memory_saver(saver: CofioSaver) -> None:
    histories = []
    for checkpointer in (saver, InMemorySaver()):
        graph = chat(checkpointer)
        for turn in range(4):
            graph.invoke({"messages": [HumanMessage(f"turn {turn}", id=str(turn))]}, thread())
        histories.append([
            (texts(each.values) if each.values else [], each.next, each.metadata, len(each.tasks))
            for each in graph.get_state_history(thread())
        ])  # fmt: skip
    assert histories[0] == histories[1]
    assert len(histories[0]) == 12


@pytest.mark.requirement("langgraph.saver.interrupts")
def test_a_graph_waits_for_an_answer_and_goes_on_with_it_in_another_process(store_address: StoreAddress) -> None:
    ran = []

    def ask(state: Chat) -> Chat:
        ran.append("ask")
        first = interrupt({"question": "sure?"})
        second = interrupt("really?")
        return {"messages": [HumanMessage(f"{first} {second}")]}

    def before(state: Chat) -> Chat:
        ran.append("before")
        return {"count": 1}

    def opened() -> CofioSaver:
        return CofioSaver.open(store_address.spell(), settings=QUIET)

    built = StateGraph(Chat).add_sequence([("before", before), ("ask", ask)]).add_edge(START, "before")
    with opened() as saver:
        asked = built.compile(checkpointer=saver).invoke({"messages": []}, thread())
        assert asked["__interrupt__"][0].value == {"question": "sure?"}
    with opened() as saver:
        graph = built.compile(checkpointer=saver)
        state = graph.get_state(thread())
        assert state.next == ("ask",)
        assert state.tasks[0].interrupts[0].value == {"question": "sure?"}
        assert graph.invoke(Command(resume="yes"), thread())["__interrupt__"][0].value == "really?"
    with opened() as saver:
        values = built.compile(checkpointer=saver).invoke(Command(resume="of course"), thread())
    assert texts(values) == ["yes of course"]
    assert ran == ["before", "ask", "ask", "ask"]


@pytest.mark.requirement("langgraph.saver.time")
def test_one_can_go_back_and_take_another_way(saver: CofioSaver) -> None:
    graph = chat(saver)
    for turn in ("a", "b", "c"):
        graph.invoke({"messages": [HumanMessage(turn)]}, thread())
    history = [*graph.get_state_history(thread())]
    assert [len(each.values.get("messages", [])) for each in history] == [6, 5, 4, 4, 3, 2, 2, 1, 0]
    after_b = history[2]
    again = graph.get_state(after_b.config)
    assert (again.values, again.next, again.metadata, again.parent_config, again.created_at) == (
        after_b.values, after_b.next, after_b.metadata, after_b.parent_config, after_b.created_at,
    )  # fmt: skip
    forked = graph.invoke({"messages": [HumanMessage("d")]}, after_b.config)
    assert texts(forked) == ["a", "You said 'a'.", "b", "You said 'b'.", "d", "You said 'd'."]
    assert texts(graph.get_state(history[0].config).values)[-2:] == ["c", "You said 'c'."]
    edited = graph.update_state(history[1].config, {"messages": [HumanMessage("e")]})
    assert graph.get_state(edited).next == ("answer",)
    assert texts(graph.invoke(None, edited))[-2:] == ["e", "You said 'e'."]
    updates = [each.metadata for each in graph.get_state_history(thread(), filter={"source": "update"})]
    assert [each and each["step"] for each in updates] == [7]
    assert len([*graph.get_state_history(thread(), before=history[0].config, limit=3)]) == 3


@pytest.mark.requirement("langgraph.saver.subgraphs")
def test_subgraphs_have_checkpoints_of_their_own(saver: CofioSaver) -> None:
    def ask(state: Chat) -> Chat:
        return {"messages": [HumanMessage(interrupt("name?"))]}

    inner = StateGraph(Chat).add_node("ask", ask).add_edge(START, "ask").compile()
    middle = StateGraph(Chat).add_node("inner", inner).add_edge(START, "inner").compile()
    outer = StateGraph(Chat).add_node("middle", middle).add_node("after", lambda state: {"count": 5})
    graph = outer.add_edge(START, "middle").add_edge("middle", "after").compile(checkpointer=saver)
    graph.invoke({"messages": [HumanMessage("hello", id="1")]}, thread())
    state = graph.get_state(thread(), subgraphs=True)
    below = state.tasks[0].state.tasks[0].state  # type: ignore[union-attr]
    assert texts(below.values) == ["hello"]  # type: ignore[union-attr]
    spaces = {each.config["configurable"]["checkpoint_ns"].count("|") for each in saver.list(config_of(ns=None))}
    assert spaces == {0, 1}
    assert texts(graph.invoke(Command(resume="Ada"), thread())) == ["hello", "Ada"]
    saver.copy_thread("ada", "bob")
    assert texts(graph.get_state(thread("bob")).values) == ["hello", "Ada"]
    saver.delete_thread("ada")
    assert [*saver.list(config_of(ns=None))] == []


@pytest.mark.requirement("langgraph.saver.async")
def test_graphs_run_asynchronously_many_at_a_time(saver: CofioSaver) -> None:
    async def ask(state: Chat) -> Chat:
        return {"messages": [AIMessage(interrupt("?"))]}

    async def each(state: Chat) -> Chat:
        await asyncio.sleep(0)
        return {"count": 1}

    built = StateGraph(Chat)
    built.add_node("fan", lambda state: {})
    built.add_node("each", each)
    built.add_node("ask", ask)
    built.add_edge(START, "fan")
    built.add_conditional_edges("fan", lambda state: [Send("each", state) for _ in range(5)], ["each"])
    built.add_edge("each", "ask")
    graph = built.compile(checkpointer=saver)

    async def one(name: str) -> None:
        async for _ in graph.astream({"messages": [HumanMessage(name)]}, thread(name)):
            pass
        assert (await graph.aget_state(thread(name))).next == ("ask",)
        values = await graph.ainvoke(Command(resume=f"{name}!"), thread(name))
        assert texts(values) == [name, f"{name}!"]
        assert values["count"] == 5
        assert len([state async for state in graph.aget_state_history(thread(name))]) == 5

    async def work() -> None:
        await asyncio.gather(*(one(f"thread {number}") for number in range(8)))

    asyncio.run(work())


@pytest.mark.requirement("langgraph.saver.deltas")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_channels_that_keep_what_was_written_come_back_whole(
    store_address: StoreAddress, durability: Durability
) -> None:
    lines: list[str] = []
    for turn in range(12):
        with CofioSaver.open(store_address.spell(), settings=QUIET) as saver:
            graph = log(saver)
            said = [f"turn {turn}", "and more"]
            values = graph.invoke({"lines": said, "all": said}, thread(), durability=durability)
            lines += said
            lines += [str(len(lines)), str(len(lines) + 1)]
            assert values["lines"] == values["all"] == lines
    with CofioSaver.open(store_address.spell(), settings=QUIET) as saver:
        graph = log(saver)
        history = [*graph.get_state_history(thread())]
        assert history[0].values["lines"] == history[0].values["all"] == lines
        for each in history:
            held = each.values.get("all", [])
            assert held == lines[: len(held)] == each.values.get("lines", [])
        graph.update_state(thread(), {"lines": ["edited"], "all": ["edited"]}, as_node="two")
        assert graph.get_state(thread()).values["all"] == [*lines, "edited"]
        slow = BaseCheckpointSaver.get_delta_channel_history(saver, config=config_of(), channels=["lines", "all", "no"])
        assert saver.get_delta_channel_history(config=config_of(), channels=["lines", "all", "no"]) == slow
        assert saver.get_delta_channel_history(config=config_of("nobody"), channels=["a"]) == {"a": {"writes": []}}
        assert saver.get_delta_channel_history(config=config_of(), channels=[]) == {}


@pytest.mark.requirement("langgraph.saver.deltas")
def test_pruning_and_copying_keep_what_such_channels_lean_on(saver: CofioSaver) -> None:
    class Short(TypedDict, total=False):
        lines: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=4)]

    count = ("one", lambda state: {"lines": [str(len(state["lines"]))]})
    graph = StateGraph(Short).add_sequence([count]).add_edge(START, "one").compile(checkpointer=saver)
    lines: list[str] = []
    for turn in range(9):
        lines = graph.invoke({"lines": [f"turn {turn}"]}, thread())["lines"]
        saver.prune(["ada"])
        assert graph.get_state(thread()).values["lines"] == lines
        assert len([*saver.list(config_of())]) <= 8
        saver.copy_thread("ada", f"copy {turn}")
        assert graph.get_state(thread(f"copy {turn}")).values["lines"] == lines
        assert graph.invoke({"lines": ["more"]}, thread(f"copy {turn}"))["lines"][:-1] == [*lines, "more"]
    assert len(lines) == 18


@pytest.mark.requirement("langgraph.saver.deltas")
def test_it_is_an_error_when_a_part_of_what_was_written_was_deleted(saver: CofioSaver) -> None:
    graph = log(saver)
    for run in ("first", "second", "third"):
        graph.invoke({"lines": [run], "all": [run]}, thread() | {"metadata": {"run_id": run}})
    saver.delete_for_runs(["second"])
    with pytest.raises(Unavailable, match="was deleted or has expired: what the channel 'all' held is lost"):
        graph.get_state(thread())


@pytest.mark.requirement("langgraph.saver.concurrent")
def test_threads_share_a_saver(saver: CofioSaver) -> None:
    graph = chat(saver)

    def talk(number: int) -> list[str]:
        for turn in range(6):
            values = graph.invoke({"messages": [HumanMessage(f"{number}.{turn}")]}, thread(str(number)))
        return texts(values)

    with ThreadPoolExecutor(6) as pool:
        found = [*pool.map(talk, range(12))]
    assert [each[::2] for each in found] == [[f"{number}.{turn}" for turn in range(6)] for number in range(12)]


TALKER = """
import sys
from typing import Annotated, TypedDict
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph, add_messages
from cofio.library.langgraph import CofioSaver

class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]

built = StateGraph(Chat)
built.add_node("answer", lambda state: {"messages": [AIMessage(f"{len(state['messages'])}")]})
built.add_edge(START, "answer")
store, name, turns = sys.argv[1:]
with CofioSaver.open(store) as saver:
    graph = built.compile(checkpointer=saver)
    for turn in range(int(turns)):
        graph.invoke({"messages": [HumanMessage(f"{name} {turn}")]}, {"configurable": {"thread_id": name}})
        saver.prune(["shared"])
"""


@pytest.mark.requirement("langgraph.saver.concurrent")
@pytest.mark.usefixtures("process")
def test_processes_share_a_store(store_address: StoreAddress) -> None:
    store = store_address.spell()
    running = [
        subprocess.Popen([sys.executable, "-c", TALKER, store, name, "15"], stderr=subprocess.PIPE, text=True)
        for name in ("ada", "bob", "shared")
    ]
    for each in running:
        _, errors = each.communicate(timeout=120)
        assert each.returncode == 0, errors
    with CofioSaver.open(store, settings=QUIET) as saver:
        for name in ("ada", "bob", "shared"):
            found = saver.get(config_of(name))
            assert found is not None
            said = [message.text for message in found["channel_values"]["messages"]]
            assert said == [each for turn in range(15) for each in (f"{name} {turn}", str(2 * turn + 1))]
