"""The state of a run: its updates, what it tells, and its checkpoint."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cofio.library.messages import Message, Role, ToolCall, ToolResult
from cofio.library.state import AgentState, ReasoningStep, ToolExecution


def step(*calls: ToolCall) -> ReasoningStep:
    """A step that made these calls."""
    return ReasoningStep(iteration=1, tool_calls=list(calls))


@pytest.mark.requirement("state.fields", "state.parts")
def test_a_state_and_its_parts_have_the_fields_and_defaults_of_the_reference() -> None:
    state = AgentState()
    values = state.model_dump()
    assert len(values.pop("run_id")) == 32
    assert AgentState().run_id != state.run_id
    for name in ("started_at", "updated_at"):
        assert values.pop(name).tzinfo is UTC
    assert values == {
        "agent_id": None, "messages": (), "iteration": 0, "max_iterations": 20, "tool_executions": (),
        "reasoning_steps": (), "confidence": 0.0, "confidence_threshold": 0.85, "confidence_history": (),
        "tool_history": (), "tool_loop_threshold": 3,
        "terminal_tools": frozenset({"submit", "done", "finish", "complete"}), "total_tokens_used": 0,
        "prompt_tokens_used": 0, "completion_tokens_used": 0, "cache_creation_tokens_used": 0,
        "cache_read_tokens_used": 0, "token_budget": None, "completion_mode": "auto", "errors": (),
        "provider_state": None, "metadata": {},
    }  # fmt: skip
    with pytest.raises(ValidationError):
        state.iteration = 3
    execution = ToolExecution(tool_name="look", tool_call_id="c1", arguments={})
    assert execution.success
    assert execution.timestamp.tzinfo is UTC
    assert execution.model_dump(exclude={"timestamp"}) == {
        "tool_name": "look", "tool_call_id": "c1", "arguments": {}, "result": None, "error": None, "duration_ms": None,
        "idempotent_cache_hit": False,
    }  # fmt: skip
    assert not execution.model_copy(update={"error": "dark"}).success
    assert ReasoningStep(iteration=2).model_dump(exclude={"timestamp"}) == {
        "iteration": 2, "thought": None, "tool_calls": [], "tool_results": [], "reflection": None,
        "confidence_delta": 0.0,
    }  # fmt: skip


@pytest.mark.requirement("state.updates")
def test_every_update_gives_a_new_state_and_leaves_the_old_one() -> None:
    old = AgentState(updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    before = old.model_dump()
    execution = ToolExecution(tool_name="look", tool_call_id="c1", arguments={"at": "sky"}, result="blue")
    thought = ReasoningStep(iteration=1)
    one, two = Message.user("one"), Message.user("two")
    changes: list[tuple[AgentState, dict[str, Any]]] = [
        (old.with_message(one), {"messages": (one,)}),
        (old.with_messages([one, two]), {"messages": (one, two)}),
        (old.with_message(one).with_messages([two]), {"messages": (one, two)}),
        (old.with_iteration(4), {"iteration": 4}),
        (old.next_iteration().next_iteration(), {"iteration": 2}),
        (old.with_provider_state({"id": "r"}), {"provider_state": {"id": "r"}}),
        (old.with_tool_execution(execution), {"tool_executions": (execution,), "tool_history": ("look",)}),
        (old.with_reasoning_step(thought), {"reasoning_steps": (thought,)}),
        (old.with_confidence(0.5), {"confidence": 0.5, "confidence_history": (0.5,)}),
        (old.with_confidence(7), {"confidence": 1.0, "confidence_history": (1.0,)}),
        (old.with_confidence(-7), {"confidence": 0.0, "confidence_history": (0.0,)}),
        (old.with_error("oops"), {"errors": ("oops",)}),
        (old.with_metadata("a", 1).with_metadata("b", 2), {"metadata": {"a": 1, "b": 2}}),
        (
            old.with_token_usage(3, 4).with_token_usage(1, 1, 5, 6),
            {
                "total_tokens_used": 9,
                "prompt_tokens_used": 4,
                "completion_tokens_used": 5,
                "cache_creation_tokens_used": 5,
                "cache_read_tokens_used": 6,
            },
        ),
    ]
    for new, change in changes:
        assert {name: getattr(new, name) for name in change} == change
        assert new.updated_at > old.updated_at
        assert new.started_at == old.started_at
        assert new.run_id == old.run_id
    assert old.model_dump() == before


@pytest.mark.requirement("state.loop")
def test_only_the_same_calls_with_the_same_arguments_are_a_loop() -> None:
    same = ToolCall(name="look", arguments={"a": 1, "b": 2})
    turned = ToolCall(name="look", arguments={"b": 2, "a": 1})
    other = ToolCall(name="look", arguments={"a": 2})
    odd = ToolCall(name="look", arguments={"at": {1, 2}})
    assert AgentState(reasoning_steps=(step(same), step(turned), step(same))).has_tool_loop
    assert AgentState(reasoning_steps=(step(other), step(same), step(same), step(same))).has_tool_loop
    assert AgentState(reasoning_steps=(step(odd), step(odd), step(odd))).has_tool_loop
    assert not AgentState(reasoning_steps=(step(same), step(other), step(same))).has_tool_loop
    assert not AgentState(reasoning_steps=(step(same), step(same))).has_tool_loop
    assert not AgentState(reasoning_steps=(step(same), step(), step(same))).has_tool_loop
    assert not AgentState(reasoning_steps=(step(), step(), step())).has_tool_loop


@pytest.mark.requirement("state.end")
def test_a_run_ends_for_the_reasons_of_the_reference() -> None:
    done = Message.assistant(None, [ToolCall(name="done")])
    look = Message.assistant(None, [ToolCall(name="look")])
    said = Message.assistant("that is all")
    loop = tuple(step(ToolCall(name="look")) for _ in range(3))
    assert AgentState().should_terminate == (False, None)
    assert AgentState(iteration=20).should_terminate == (True, "max_iterations")
    assert AgentState(token_budget=5, total_tokens_used=5).should_terminate == (True, "token_budget")
    assert AgentState(messages=(done,)).should_terminate == (True, "terminal_tool")
    assert AgentState(messages=(done,)).called_terminal_tool
    assert AgentState(messages=(look,)).should_terminate == (False, None)
    assert AgentState(messages=(look, said)).last_tool_calls == look.tool_calls
    assert AgentState(confidence=0.9).should_terminate == (True, "confidence_met")
    assert AgentState(reasoning_steps=loop).should_terminate == (True, "tool_loop")
    assert AgentState(messages=(said,), iteration=1).should_terminate == (True, "no_tools")
    assert AgentState(messages=(said,)).should_terminate == (False, None)
    assert AgentState(messages=(said, Message.user("and?")), iteration=1).should_terminate == (False, None)
    for soft in ({"confidence": 0.9}, {"reasoning_steps": loop}, {"messages": (said,), "iteration": 1}):
        assert AgentState(completion_mode="explicit", **soft).should_terminate == (False, None)
    assert AgentState(completion_mode="explicit", messages=(done,)).should_terminate == (True, "terminal_tool")


texts = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
odd = (
    plain
    | st.tuples(texts)
    | st.frozensets(texts, max_size=2)
    | st.datetimes()
    | st.just(float("inf"))
    | st.just(b"bytes")
)
bags = st.dictionaries(texts, odd, max_size=2)
times = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))
calls = st.builds(ToolCall, id=texts, name=texts, arguments=bags)
messages = st.builds(
    Message, role=st.sampled_from(Role), content=st.none() | texts, tool_calls=st.lists(calls, max_size=2),
    tool_call_id=st.none() | texts, name=st.none() | texts, metadata=st.just({}) | bags,
)  # fmt: skip
executions = st.builds(ToolExecution, tool_name=texts, tool_call_id=texts, arguments=bags, timestamp=times)
steps = st.builds(ReasoningStep, iteration=st.integers(), tool_calls=st.lists(calls, max_size=2), timestamp=times)
states = st.builds(
    AgentState, messages=st.lists(messages, max_size=5).map(tuple),
    tool_executions=st.lists(executions, max_size=2).map(tuple), reasoning_steps=st.lists(steps, max_size=2).map(tuple),
    terminal_tools=st.frozensets(texts), confidence_history=st.lists(st.floats(0, 1), max_size=2).map(tuple),
    provider_state=st.none() | bags, metadata=bags, started_at=times,
)  # fmt: skip


@pytest.mark.requirement("state.checkpoint")
@given(states)
def test_a_checkpoint_is_always_the_json_dump(state: AgentState) -> None:
    checkpoint = state.to_checkpoint()
    assert json.dumps(checkpoint) == json.dumps(state.model_dump(mode="json"))
    again = AgentState.from_checkpoint(json.loads(json.dumps(checkpoint)))
    assert again.to_checkpoint() == checkpoint


@pytest.mark.requirement("state.checkpoint")
def test_a_checkpoint_of_a_subclass_or_of_odd_parts_is_the_json_dump() -> None:
    class Marked(Message):
        mark: int = 3

    class Counted(AgentState):
        count: int = 7

    chat = (Marked.user("hello"), Message.user("hi"))
    marked = AgentState(messages=chat)
    assert marked.to_checkpoint() == marked.model_dump(mode="json")
    assert Counted(messages=chat).to_checkpoint()["count"] == 7
    state = AgentState().model_copy(update={"messages": [Message.user("in a list")]})
    with pytest.warns(UserWarning, match="Pydantic"):
        assert state.to_checkpoint()["messages"][0]["content"] == "in a list"
    with pytest.warns(UserWarning, match="Pydantic"):
        plain_role = AgentState(messages=(Message.model_construct(role="user", content="x"),)).to_checkpoint()
    assert plain_role["messages"][0]["role"] == "user"


@pytest.mark.requirement("state.checkpoint-copy", "state.stable", "state.confidence", "state.tokens")
def test_a_checkpoint_is_a_copy_in_a_stable_order_and_confidence_and_tokens_are_counted() -> None:
    names = [f"tool{number}" for number in range(50)]
    said = (Message.user("12345678"), Message.assistant(None, [ToolCall(name="x", arguments={"a": 1})]))
    state = AgentState(confidence=0.5, messages=said, metadata={"a": []}, terminal_tools=frozenset(names))
    checkpoint, whole = state.to_checkpoint(), state.model_dump()
    assert checkpoint["terminal_tools"] == state.model_dump(mode="json")["terminal_tools"] == sorted(names)
    assert whole["terminal_tools"] == frozenset(names)
    for message in checkpoint["messages"]:
        message["metadata"]["x"] = 1
        message["tool_calls"].append(1)
        message["content"] = "changed"
    checkpoint["metadata"]["a"].append(1)
    assert state.model_dump() == whole
    assert AgentState.from_checkpoint(state.to_checkpoint()) == state
    assert state.adjust_confidence(0.5).confidence == 0.75  # a gain counts for less near certainty
    assert state.adjust_confidence(0.5, diminishing=False).confidence == 1.0
    assert state.adjust_confidence(-0.5).confidence == 0.0
    with pytest.raises(ValueError, match="confidence"):
        state.with_confidence(float("nan"))
    assert state.total_tokens == (8 + len(str({"a": 1}))) // 4  # until they are counted
    assert state.with_token_usage(100, 1).total_tokens == 101
    assert AgentState().total_tokens == 0


@pytest.mark.requirement("state.restore")
def test_what_is_no_checkpoint_is_refused_with_its_field() -> None:
    for wrong, name in (
        ({"messages": [{"content": "x"}]}, r"messages\.0\.role"),
        ({"iteration": "many"}, "iteration"),
        ({"started_at": "yesterday"}, "started_at"),
    ):
        with pytest.raises(ValueError, match=name):
            AgentState.from_checkpoint(wrong)
    result = ToolResult(tool_call_id="c", name="look", content="blue")
    state = AgentState(messages=(Message.tool(result),))
    assert AgentState.from_checkpoint(state.to_checkpoint()) == state
