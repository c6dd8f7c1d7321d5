"""A manager that keeps the end of a conversation and a summary of its beginning."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.library.conversation import SummarizingManager
from cofio.library.events import StreamEvent, observe
from cofio.library.messages import Message, Role

from .test_windows import said, used

SYSTEM = Message.system("be kind")


def summary(count: int, text: str) -> Message:
    """A summary as the manager writes it."""
    return Message.system(f"[Summary of previous conversation ({count} messages)]:\n{text}")


@pytest.mark.requirement("summary.signature")
def test_it_has_the_signature_and_errors_of_the_page() -> None:
    parameters = inspect.signature(SummarizingManager).parameters
    assert [(each.name, each.default) for each in parameters.values()] == [
        ("threshold", 30), ("keep_recent", 10), ("summarize_fn", None), ("preserve_system", True),
    ]  # fmt: skip
    for wrong, error in (
        ((0, 1), "^threshold must be at least 1$"),
        ((3, 0), "^keep_recent must be at least 1$"),
        ((3, 3), "^keep_recent must be less than threshold$"),
    ):
        with pytest.raises(ValueError, match=error):
            SummarizingManager(*wrong)
    with pytest.raises(TypeError, match="threshold"):
        SummarizingManager("many")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="summarize_fn"):
        SummarizingManager(summarize_fn="briefly")
    assert repr(SummarizingManager(5, 2)) == "SummarizingManager(threshold=5, keep_recent=2)"


@pytest.mark.requirement("summary.below")
def test_nothing_changes_below_the_threshold() -> None:
    manager = SummarizingManager(5, 2, lambda messages: "never")
    for messages in ([], [SYSTEM], [SYSTEM, *said(5)], [*said(3), SYSTEM, *said(2)]):
        assert manager.apply(messages) == messages
        assert asyncio.run(manager.async_apply(messages)) == messages
    assert manager.apply(full := said(3)) is not full


@pytest.mark.requirement("summary.quotes", "summary.prompt")
def test_without_a_function_the_summary_quotes_the_last_five_messages_and_stays_short() -> None:
    messages = [SYSTEM, *said(7), Message.user("x" * 101), *said(2, 8)]
    expected = "- assistant: m3\n- user: m4\n- assistant: m5\n- user: m6\n- user: " + "x" * 100 + "..."
    manager = SummarizingManager(5, 2)
    assert manager.apply(messages) == [SYSTEM, summary(8, expected), *said(2, 8)]
    assert asyncio.run(SummarizingManager(5, 2).async_apply(messages))[1] == summary(8, expected)
    silent = [Message.assistant(None) for _ in range(6)]
    assert manager.apply(silent)[0] == summary(4, "No significant content.")
    messages = manager.apply([*manager.apply([SYSTEM, *said(6)]), *said(4, 6)])
    lines = [f"- {'user' if number % 2 == 0 else 'assistant'}: m{number}" for number in range(8)]
    assert messages == [SYSTEM, summary(8, "\n".join(lines)), *said(2, 8)]
    for _ in range(60):
        messages = manager.apply([*messages, *[Message.user("long " * 50) for _ in range(4)]])
    assert len(messages[1].content or "") < 4_200
    assert messages[0] == SYSTEM


@pytest.mark.requirement("summary.function", "summary.errors")
def test_a_function_is_called_whether_plain_or_asynchronous_in_both_ways() -> None:
    async def later(messages: list[Message]) -> str:
        await asyncio.sleep(0)
        return f"{len(messages)} told"

    class Callable:
        async def __call__(self, messages: list[Message]) -> str:
            return await later(messages)

    def now(messages: list[Message]) -> str:
        return f"{len(messages)} told"

    def broken(messages: list[Message]) -> str:
        raise LookupError("no model")

    expected = [SYSTEM, summary(4, "4 told"), *said(2, 4)]
    for function in (now, later, Callable(), functools.partial(later), lambda messages: later(messages)):
        assert SummarizingManager(5, 2, function).apply([SYSTEM, *said(6)]) == expected
        assert asyncio.run(SummarizingManager(5, 2, function).async_apply([SYSTEM, *said(6)])) == expected
    for wrong, error in ((broken, LookupError), (lambda messages: 3, TypeError), (lambda messages: None, TypeError)):
        manager = SummarizingManager(5, 2, wrong)
        with pytest.raises(error):
            manager.apply(said(6))
        with pytest.raises(error):
            asyncio.run(manager.async_apply(said(6)))


@pytest.mark.requirement("summary.in-loop")
def test_an_asynchronous_function_that_cannot_be_awaited_is_replaced_by_quotes_for_now() -> None:
    async def later(messages: list[Message]) -> str:
        return "told"

    manager = SummarizingManager(5, 2, later)
    events: list[StreamEvent] = []

    async def inside() -> tuple[list[Message], list[Message]]:
        return manager.apply(said(6)), await manager.async_apply(said(6))

    with observe(events.append):
        quoted, told = asyncio.run(inside())
    assert quoted[0] == summary(4, "- user: m0\n- assistant: m1\n- user: m2\n- assistant: m3")
    assert told[0] == summary(4, "told")  # the quotes were not remembered
    assert [event.data["degraded"] for event in events if "degraded" in event.data] == [True, False]


@pytest.mark.requirement("summary.prompt")
def test_the_system_prompt_outlives_any_number_of_summaries_and_these_do_not_stack() -> None:
    note = Message.system("the user has left")
    given_to: list[list[Message]] = []

    def function(messages: list[Message]) -> str:
        given_to.append(messages)
        return f"summary {len(given_to)}"

    manager = SummarizingManager(5, 2, function)
    messages = manager.apply([SYSTEM, *said(3), note, *said(3, 3)])
    assert messages == [SYSTEM, note, summary(4, "summary 1"), *said(2, 4)]
    for turn in range(2, 6):
        messages = manager.apply([*messages, *said(4, turn * 10)])
        assert messages[:3] == [SYSTEM, note, summary(4 * turn, f"summary {turn}")]
        assert len(messages) == 5
        assert given_to[-1][0] == summary(4 * (turn - 1), f"summary {turn - 1}")
    assert manager.apply(messages) == messages


@pytest.mark.requirement("summary.tools", "summary.unpreserved")
def test_a_call_is_never_parted_from_its_results() -> None:
    messages = [*said(4), *used("a"), *said(1)]
    kept = SummarizingManager(5, 2, lambda messages: "told").apply(messages)
    assert kept == [summary(4, "told"), *used("a"), *said(1)]
    unparted = [used("a")[0], *said(6), used("a")[1]]
    assert SummarizingManager(5, 2).apply(unparted) == unparted
    # Without preserve_system, system messages are summarised, and the summary is still known.
    manager = SummarizingManager(5, 2, lambda messages: f"{len(messages)} told", preserve_system=False)
    once = manager.apply([SYSTEM, *said(5)])
    assert once == [summary(4, "4 told"), *said(2, 3)]
    assert manager.apply([*once, *said(4)]) == [summary(8, "5 told"), *said(2, 2)]


@pytest.mark.requirement("summary.cache")
def test_the_same_messages_are_summarised_once_and_not_remembered_for_ever() -> None:
    asked: list[int] = []

    def function(messages: list[Message]) -> str:
        asked.append(len(messages))
        return "told"

    manager = SummarizingManager(5, 2, function)
    for _ in range(3):
        manager.apply(said(6))
        asyncio.run(manager.async_apply(said(6)))
    assert len(asked) == 1
    for start in range(10, 200):
        manager.apply(said(6, start))
    manager.apply(said(6))
    assert len(asked) == 192
    assert len(manager._summaries) <= 64


@pytest.mark.requirement("summary.events")
def test_both_ways_tell_when_they_begin_and_what_they_did() -> None:
    events: list[StreamEvent] = []
    manager = SummarizingManager(5, 2)
    with observe(events.append):
        manager.apply(said(5))
        manager.apply([SYSTEM, *said(6)])
        asyncio.run(manager.async_apply([SYSTEM, *said(6)]))
    names = ["memory.compactor.triggered", "memory.compactor.completed"]
    assert [event.event_type for event in events] == names * 2
    for began, ended in (events[:2], events[2:]):
        assert began.data == {"strategy": "summarizing", "messages_before": 6, "threshold": 5}
        assert ended.data.pop("duration_ms") >= 0
        assert ended.data == {
            "strategy": "summarizing", "messages_before": 6, "messages_after": 4, "summarized_count": 4,
            "degraded": False,
        }  # fmt: skip


pieces = st.lists(st.sampled_from(["system", "said", "used"]), max_size=30)


@pytest.mark.requirement("summary.always")
@given(pieces, st.integers(2, 10), st.data())
def test_no_system_message_and_no_recent_message_is_ever_lost(chat: list[str], threshold: int, data: Any) -> None:
    keep = data.draw(st.integers(1, threshold - 1))
    messages: list[Message] = []
    for number, piece in enumerate(chat):
        made = {"system": [Message.system(f"s{number}")], "said": said(1, number), "used": used(str(number))}
        messages += made[piece]
    manager = SummarizingManager(threshold, keep)
    once = manager.apply(messages)
    again = manager.apply(once)
    for kept in (once, again):
        spoken = [message for message in kept if message.role != Role.SYSTEM]
        everything = [message for message in messages if message.role != Role.SYSTEM]
        assert spoken == everything[len(everything) - len(spoken) :]
        assert len(spoken) >= min(keep, len(everything))
        systems = [message for message in kept if message.role == Role.SYSTEM]
        summaries = [each for each in systems if re.match(r"\[Summary of previous", each.content or "")]
        assert len(summaries) <= 1
        assert [each for each in systems if each not in summaries] == [
            message for message in messages if message.role == Role.SYSTEM
        ]
    assert len([each for each in once if each.role != Role.SYSTEM]) <= max(threshold, keep + 1)
