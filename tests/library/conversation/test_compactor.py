"""The compactor: token budgets, head and tail, and one summary between them."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.library.compactor import SUMMARY_PREFIX, LLMCompactor
from cofio.library.conversation import ConversationManager
from cofio.library.events import StreamEvent, observe
from cofio.library.messages import Message, Role, ToolCall, ToolResult

SYSTEM = Message.system("be kind")
TAG = "[CONTEXT COMPACTION — REFERENCE ONLY] "


def said(count: int, start: int = 0) -> list[Message]:
    """So many messages of ten tokens each."""
    return [Message.user(f"{number:040}") for number in range(start, start + count)]


def used(id: str, size: int = 40) -> list[Message]:
    """A call of a tool, and what came of it."""
    return [
        Message.assistant(None, [ToolCall(id=id, name="look")]),
        Message.tool(ToolResult(tool_call_id=id, name="look", content=id.ljust(size))),
    ]


def compactor(**options: Any) -> LLMCompactor:
    """One for a context of a hundred tokens: compacts from 80 on, and keeps 2 messages and the last 50 tokens."""
    return LLMCompactor(**{"context_length": 100, **options})


@pytest.mark.requirement("compactor.signature")
def test_it_has_the_signature_and_errors_of_the_reference() -> None:
    parameters = inspect.signature(LLMCompactor).parameters
    assert {each.name: each.default for each in parameters.values()} == {
        "summarize_fn": None, "context_length": 128_000, "trigger_fraction": 0.8, "head_turns": 2,
        "tail_token_fraction": 0.5, "tool_output_ttl_turns": 10, "token_counter": None, "preserve_system": True,
    }  # fmt: skip
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters.values())
    assert issubclass(LLMCompactor, ConversationManager)
    wrong: dict[str, Any]
    for wrong, message in (
        ({"context_length": 0}, "must be positive"), ({"trigger_fraction": 0.0}, r"must be in \(0, 1\]"),
        ({"trigger_fraction": 1.1}, r"must be in \(0, 1\]"), ({"head_turns": -1}, "must be non-negative"),
        ({"trigger_fraction": float("nan")}, r"must be in \(0, 1\]"),
        ({"tail_token_fraction": 1.0}, r"must be in \(0, 1\)"), ({"tail_token_fraction": 0.0}, r"must be in \(0, 1\)"),
        ({"tool_output_ttl_turns": -1}, "must be non-negative"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} {message}$"):
            LLMCompactor(**wrong)
    for wrong in ({"summarize_fn": "briefly"}, {"token_counter": 4}, {"head_turns": 1.5}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            LLMCompactor(**wrong)
    assert repr(LLMCompactor()) == (
        "LLMCompactor(context_length=128000, trigger_fraction=0.8, head_turns=2, tail_token_fraction=0.5)"
    )


@pytest.mark.requirement("compactor.summary", "compactor.below", "compactor.events")
def test_the_middle_is_summarised_between_system_head_and_tail_and_that_is_told() -> None:
    async def later(middle: list[Message], previous: str | None) -> str:
        assert previous is None
        return f"{len(middle)} told"

    def now(middle: list[Message], previous: str | None) -> str:
        return f"{len(middle)} told"

    below = [SYSTEM, *used("a", 40), *said(1), *used("b", 40)]
    messages = [SYSTEM, *said(10)]
    expected = [SYSTEM, Message.system(f"{SUMMARY_PREFIX}\n\n3 told"), *said(2), *said(5, 5)]
    assert SUMMARY_PREFIX.startswith(TAG)
    events: list[StreamEvent] = []
    for function in (now, later):
        tool = compactor(summarize_fn=function, tool_output_ttl_turns=1)
        for unchanged in ([], below):
            assert tool.apply(unchanged) == asyncio.run(tool.async_apply(unchanged)) == unchanged
        with observe(events.append):
            assert asyncio.run(compactor(summarize_fn=function).async_apply(messages)) == expected
            assert compactor(summarize_fn=function).apply(messages) == expected
    began, ended = events[:2]
    assert began.event_type == "memory.compactor.triggered"
    assert began.data == {
        "strategy": "llm_compactor", "messages_before": 11, "tokens_before": 101, "trigger": 80.0,
    }  # fmt: skip
    assert ended.event_type == "memory.compactor.completed"
    assert ended.data.pop("duration_ms") >= 0
    assert ended.data == {
        "strategy": "llm_compactor", "messages_before": 11, "messages_after": 9, "summarized_count": 3,
        "degraded": False,
    }  # fmt: skip


@pytest.mark.requirement("compactor.replaced")
def test_a_summary_takes_the_place_of_the_one_before_which_the_function_is_given() -> None:
    asked: list[str | None] = []

    def function(middle: list[Message], previous: str | None) -> str:
        asked.append(previous)
        return f"summary {len(asked)}"

    tool = compactor(summarize_fn=function)
    messages = asyncio.run(tool.async_apply([SYSTEM, *said(10)]))
    for turn in range(2, 5):
        messages = asyncio.run(tool.async_apply([*messages, *said(10, turn * 10)]))
        tagged = [message for message in messages if (message.content or "").startswith(TAG)]
        assert tagged == [Message.system(f"{SUMMARY_PREFIX}\n\nsummary {turn}")]
        assert messages[0] == SYSTEM
    assert asked == [None, "summary 1", "summary 2", "summary 3"]
    asyncio.run(tool.async_apply(said(10)))  # another conversation knows nothing of this one
    assert asked[-1] is None


@pytest.mark.requirement("compactor.outputs", "compactor.outputs-kept", "compactor.system")
def test_old_outputs_of_tools_go_first_and_that_may_be_enough() -> None:
    def function(middle: list[Message], previous: str | None) -> str:
        raise AssertionError("there was no need")

    messages = [SYSTEM, *used("a", 400), *said(3)]
    kept = asyncio.run(compactor(summarize_fn=function, tool_output_ttl_turns=3).async_apply(messages))
    note = "[tool output compacted — original content dropped after 3 turns]"
    assert kept == [SYSTEM, messages[1], messages[2].model_copy(update={"content": note}), *said(3)]
    assert messages[2].content == "a".ljust(400)
    kept = compactor(tool_output_ttl_turns=0, tail_token_fraction=0.9).apply([*said(9), *used("a", 100)])
    assert kept[-1].content == "a".ljust(100)  # a time of nought keeps them
    rules = Message.system("be brief")
    assert compactor().apply([SYSTEM, rules, *said(10)])[:2] == [SYSTEM, rules]
    assert SYSTEM not in compactor(preserve_system=False, head_turns=0).apply([SYSTEM, *said(10)])


@pytest.mark.requirement("compactor.fallback")
def test_without_a_usable_function_the_middle_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def later(middle: list[Message], previous: str | None) -> str:
        return "told"

    async def broken(middle: list[Message], previous: str | None) -> str:
        raise LookupError("no model")

    def wrong(middle: list[Message], previous: str | None) -> Any:
        return 3

    async def inside_a_loop() -> list[Message]:
        tool = compactor(summarize_fn=later)
        once = await tool.async_apply([SYSTEM, *said(10)])
        return tool.apply([*once, *said(10, 20)])

    expected = [SYSTEM, *said(2), *said(5, 5)]
    events: list[StreamEvent] = []
    for function in (None, broken, wrong):
        tool = compactor(summarize_fn=function)
        with caplog.at_level(logging.WARNING), observe(events.append):
            assert tool.apply([SYSTEM, *said(10)]) == expected
            assert asyncio.run(tool.async_apply([SYSTEM, *said(10)])) == expected
    assert caplog.text.count("LookupError: no model") == 2
    assert [event.data["degraded"] for event in events if "degraded" in event.data] == [False] * 2 + [True] * 4
    kept = [SYSTEM, Message.system(f"{SUMMARY_PREFIX}\n\ntold"), *said(2), *said(5, 25)]
    assert asyncio.run(inside_a_loop()) == kept  # with the summary from before


@pytest.mark.requirement("compactor.tools")
def test_calls_and_results_stay_together_in_head_and_tail() -> None:
    messages = [*said(1), *used("a"), *said(4), *used("b", 160), *said(2, 9)]
    kept = compactor(summarize_fn=lambda middle, previous: "told", tool_output_ttl_turns=0).apply(messages)
    assert kept == [*kept[:1], *said(1), *said(2, 9)]
    short = compactor(tool_output_ttl_turns=0, head_turns=0).apply([*said(9), *used("b", 400)])
    assert short == used("b", 400)  # more than there is room for, but all that there is to answer


@pytest.mark.requirement("compactor.counter")
def test_tokens_are_counted_by_the_given_function_else_as_a_quarter_of_the_characters() -> None:
    tool = compactor(token_counter=lambda message: 1)
    assert tool.apply(said(79)) == said(79)
    assert len(tool.apply(said(80))) == 52
    call = Message.assistant(None, [ToolCall(name="look", arguments={"at": "x" * 400})])
    assert compactor(head_turns=0).apply([*said(1), call]) == [call]


@pytest.mark.requirement("compactor.always")
@given(
    st.lists(st.tuples(st.sampled_from(["system", "said", "used"]), st.integers(0, 200)), max_size=25),
    st.integers(0, 4),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.booleans(),
)
def test_calls_and_results_are_always_paired_and_the_prompt_and_the_last_message_kept(
    chat: list[tuple[str, int]], head: int, tail: float, summarise: bool
) -> None:
    messages = [SYSTEM]
    for number, (piece, size) in enumerate(chat):
        if piece == "used":
            messages += used(str(number), size)
        else:
            messages.append(Message.system("x" * size) if piece == "system" else Message.user("x" * size))
    function = (lambda middle, previous: "told") if summarise else None
    tool = compactor(summarize_fn=function, head_turns=head, tail_token_fraction=tail)
    kept = tool.apply(tool.apply(messages))
    called = {call.id for message in kept for call in message.tool_calls}
    answered = {message.tool_call_id for message in kept if message.role == Role.TOOL}
    assert called == answered
    assert kept[0] == SYSTEM
    assert kept[-1].role == messages[-1].role
    assert sum((message.content or "").startswith(TAG) for message in kept) <= 1
