"""Threads: their checkpoints, what changed between two states, and LangGraph's states without LangGraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Engine, Invalid, NotFound, Scope
from cofio.doors.page import threads_view
from cofio.doors.page.packed_values import NOT_READ, read_state
from cofio.doors.page.state_differences import compare_states
from cofio.doors.page.threads_view import build_threads
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer

from ...tiers import scale_examples

Ask = Callable[..., ViewRequest]


def save(memory: Engine, thread: str = "trip", count: int = 3) -> None:
    state: dict[str, Any] = {"messages": [], "step": 0}
    for number in range(count):
        state = {"messages": [*state["messages"], {"role": "user", "content": f"line {number}"}], "step": number}
        memory.checkpoints.save("library", thread, f"c{number}", state, metadata={"step": number})


@pytest.mark.requirement("page:threads", "page:reach", "page:bounded")
def test_threads_are_listed_paged_found_by_name_and_hidden_from_a_token_for_one_app(memory: Engine, ask: Ask) -> None:
    save(memory, "trip", count=threads_view.PAGE + 2)
    save(memory, "a*b")
    model = build_threads(ask())
    assert (model.space, [each.name for each in model.threads]) == ("library", ["a*b", "trip"])
    assert model.threads[0].step == "step 2"
    assert [each.name for each in build_threads(ask(q="*")).threads] == ["a*b"]
    assert build_threads(ask(space="langgraph")).threads == ()
    first = build_threads(ask(thread="trip"))
    assert (len(first.checkpoints), bool(first.next)) == (threads_view.PAGE, True)
    last = build_threads(ask(thread="trip", offset=str(threads_view.PAGE)))
    assert [each.id for each in last.checkpoints] == ["c1", "c0"]
    with pytest.raises(Invalid):
        build_threads(ask(space="other"))
    model = build_threads(ask(Viewer(reach=Scope("rest", "shop")), thread="trip"))
    assert (model.refusal, model.threads, model.checkpoints, model.state) == (threads_view.REFUSAL, (), (), "")


@pytest.mark.requirement("page:threads")
def test_a_checkpoint_is_compared_with_the_one_before_or_any_other(memory: Engine, ask: Ask) -> None:
    save(memory)
    model = build_threads(ask(thread="trip"))
    assert [each.id for each in model.checkpoints] == ["c2", "c1", "c0"]
    assert (model.current, model.base) == ("c2", "c1")
    assert [(each.path, each.sort) for each in model.changes] == [("messages[2]", "new"), ("step", "changed")]
    assert '"step": 2' in model.state
    model = build_threads(ask(thread="trip", id="c0", **{"with": "c2"}))
    (step,) = (each for each in model.changes if each.path == "step")
    assert (step.sort, step.old, step.new) == ("changed", "2", "0")
    assert [each.sort for each in model.changes if each.path.startswith("messages")] == ["old", "old"]
    first = build_threads(ask(thread="trip", id="c0"))
    assert (first.base, first.changes) == ("", ())
    for wrong in ({"thread": "none"}, {"thread": "trip", "id": "none"}, {"thread": "trip", "with": "none"}):
        with pytest.raises(NotFound):
            build_threads(ask(**wrong))


@pytest.mark.requirement("page:threads")
def test_a_langgraph_thread_reads_as_what_was_said(memory: Engine, ask: Ask) -> None:
    graphs = pytest.importorskip("langgraph.graph")
    from cofio.library.langgraph import CofioSaver

    def reply(state: Any) -> Any:
        return {"messages": [("ai", f"answer {len(state['messages'])}")]}

    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("reply", reply)
    graph.add_edge(graphs.START, "reply")
    compiled = graph.compile(checkpointer=CofioSaver(memory))
    for question in ("Book a hut", "And a boat"):
        compiled.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "huts"}})
    model = build_threads(ask(space="langgraph", thread="huts"))
    (change,) = (each for each in model.changes if each.path.startswith("messages"))
    assert (change.path, change.sort) == ("messages[3]", "new")
    assert '"type": "AIMessage"' in change.new
    assert '"content": "answer 3"' in change.new
    assert "Book a hut" in model.state
    assert NOT_READ not in model.state


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=20,
)


@pytest.mark.requirement("page:threads")
@settings(max_examples=scale_examples(50))
@given(old=JSON, new=JSON)
def test_whatever_is_packed_is_read_again_and_states_differ_if_they_are_not_equal(old: Any, new: Any) -> None:
    ormsgpack = pytest.importorskip("ormsgpack")
    packed = ormsgpack.packb(old).decode("latin-1")
    assert read_state({"values": {"channel": f"msgpack\n{packed}"}, "rest": {}}) == {"channel": old}
    assert compare_states(old, old) == ()
    if type(old) is type(new) and old != new:
        assert compare_states(old, new)


@pytest.mark.requirement("page:threads")
@given(data=st.binary(max_size=80))
def test_no_bytes_bring_the_reader_down(data: bytes) -> None:
    text = data.decode("latin-1")
    read_state({"values": {"a": f"msgpack\n{text}", "b": [text], "c": {"d": text}, "e": text}, "rest": {}})
    deep = ("\x91" * 5000) + "\x01"
    assert read_state({"values": {"a": [deep]}, "rest": {}}) == {"a": [NOT_READ]}


@pytest.mark.requirement("page:threads")
def test_what_is_put_at_the_end_of_a_long_list_is_found() -> None:
    old: list[Any] = [{"content": str(number)} for number in range(5_000)]
    (change,) = compare_states({"messages": old}, {"messages": [*old, {"content": "new"}]})
    assert (change.path, change.sort) == ("messages[5000]", "new")
    assert [each.sort for each in compare_states([1, 2, 3, 4], [2, 3, 5, 6])] == ["old", "old", "new", "new"]
    (change,) = compare_states({"messages": old}, {"messages": [*old[:4_000], {"content": "x"}, *old[4_001:]]})
    assert (change.path, change.old, change.new) == ("messages[4000].content", "4000", "x")
