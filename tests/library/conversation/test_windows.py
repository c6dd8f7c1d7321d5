"""Managers that keep everything, or the end of a conversation."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.library.conversation import ConversationManager, NullManager, SlidingWindowManager
from cofio.library.events import StreamEvent, observe
from cofio.library.messages import Message, Role, ToolCall, ToolResult

SYSTEM = Message.system("be kind")


def said(count: int, start: int = 0) -> list[Message]:
    """So many messages, of the user and the assistant in turn."""
    return [
        Message.user(f"m{number}") if number % 2 == 0 else Message.assistant(f"m{number}")
        for number in range(start, start + count)
    ]


def used(*ids: str) -> list[Message]:
    """An exchange with tools: the calls, and then the results."""
    calls = [ToolCall(id=each, name="look") for each in ids]
    return [
        Message.assistant(None, calls),
        *[Message.tool(ToolResult(tool_call_id=each, name="look", content=f"saw {each}")) for each in ids],
    ]


def paired(messages: list[Message]) -> bool:
    """Whether every result of a tool comes after its call."""
    called: set[str] = set()
    for message in messages:
        called |= {call.id for call in message.tool_calls}
        if message.role == Role.TOOL and message.tool_call_id not in called:
            return False
    return True


@pytest.mark.requirement("conversation.base", "conversation.null")
def test_a_manager_has_an_apply_and_its_async_twin_stands_on_it() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ConversationManager()  # type: ignore[abstract]  # that is the point

    class Backwards(ConversationManager):
        def apply(self, messages: list[Message]) -> list[Message]:
            return messages[::-1]

    assert asyncio.run(Backwards().async_apply(said(3))) == said(3)[::-1]
    assert [repr(Backwards()), repr(NullManager())] == ["Backwards()", "NullManager()"]
    messages = [SYSTEM, *said(100)]
    kept = NullManager().apply(messages)
    assert kept == messages
    assert kept is not messages
    assert asyncio.run(NullManager().async_apply(messages)) == messages
    assert NullManager().apply(tuple(messages)) == messages  # type: ignore[arg-type]  # a state's messages are a tuple


@pytest.mark.requirement("window.signature")
def test_a_window_has_the_signature_and_errors_of_the_page() -> None:
    parameters = list(inspect.signature(SlidingWindowManager).parameters.values())
    assert [(each.name, each.default) for each in parameters[:2]] == [("window_size", 20), ("preserve_system", True)]
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters[2:])
    manager = SlidingWindowManager(5, False)
    assert (manager.window_size, manager.preserve_system) == (5, False)
    assert repr(manager) == "SlidingWindowManager(window_size=5, preserve_system=False)"
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=r"^window_size must be at least 1$"):
            SlidingWindowManager(wrong)
    for odd in (2.5, "3", True):
        with pytest.raises(TypeError, match="window_size"):
            SlidingWindowManager(odd)  # type: ignore[arg-type]  # that is the point


@pytest.mark.requirement("window.last")
def test_a_window_keeps_the_system_messages_in_front_and_the_last_messages() -> None:
    rules = Message.system("be brief")
    messages = [SYSTEM, rules, *said(10)]
    manager = SlidingWindowManager(window_size=3)
    assert manager.apply(messages) == [SYSTEM, rules, *said(3, 7)]
    assert asyncio.run(manager.async_apply(messages)) == [SYSTEM, rules, *said(3, 7)]
    assert manager.apply([]) == []
    assert manager.apply([SYSTEM]) == [SYSTEM]
    assert manager.apply([SYSTEM, *said(3)]) == [SYSTEM, *said(3)]
    assert messages == [SYSTEM, rules, *said(10)]


@pytest.mark.requirement("window.system")
def test_no_system_message_is_dropped_or_counted() -> None:
    note, rule = Message.system("the user has left"), Message.system("answer in French")
    manager = SlidingWindowManager(window_size=3)
    # One within the window stays in its place, ...
    assert manager.apply([SYSTEM, *said(4), note, *said(1)]) == [SYSTEM, *said(2, 2), note, *said(1)]
    assert manager.apply([SYSTEM, *said(2), note, *said(1)]) == [SYSTEM, *said(2), note, *said(1)]
    # ... and those that fell out of it stand behind the first ones, in their order.
    fallen = [SYSTEM, *said(2), note, *said(2), rule, *said(3)]
    assert manager.apply(fallen) == [SYSTEM, note, rule, *said(3)]
    assert manager.apply([*said(2), note, *said(3)]) == [note, *said(3)]
    call, result = used("a")
    assert manager.apply([*said(4), call, note, result, *said(1)]) == [call, note, result, *said(1)]
    opened = SlidingWindowManager(window_size=3, preserve_first_user=True)
    assert opened.apply(fallen) == [SYSTEM, note, rule, *said(1), *said(2, 1)]


@pytest.mark.requirement("window.unpreserved")
def test_without_preserve_system_the_system_message_slides_out() -> None:
    manager = SlidingWindowManager(window_size=3, preserve_system=False)
    assert manager.apply([SYSTEM, *said(4)]) == said(3, 1)
    assert manager.apply([SYSTEM, *said(2)]) == [SYSTEM, *said(2)]
    note = Message.system("the user has left")
    assert manager.apply([SYSTEM, *said(4), note, *said(1)]) == [*said(1, 3), note, *said(1)]
    assert manager.apply([SYSTEM, *said(4), note, *said(3)]) == said(3)


@pytest.mark.requirement("window.tools", "window.long-exchange", "window.orphans", "window.interrupted")
def test_calls_and_results_stay_together() -> None:
    messages = [SYSTEM, *said(2), *used("a", "b"), *said(2)]
    for size, kept in ((2, said(2)), (3, said(2)), (4, said(2)), (5, [*used("a", "b"), *said(2)])):
        assert SlidingWindowManager(size).apply(messages) == [SYSTEM, *kept]
    exchange = used("a", "b", "c")  # longer than the window
    assert SlidingWindowManager(2).apply([SYSTEM, *said(4), *exchange]) == [SYSTEM, *exchange]
    assert SlidingWindowManager(1).apply(exchange) == exchange
    bare = Message(role=Role.TOOL, content="saw it")  # no call asked for it
    assert SlidingWindowManager().apply([SYSTEM, used("gone")[1], bare, *said(2)]) == [SYSTEM, *said(2)]
    answered = [used("a")[0], bare, *said(1)]
    assert SlidingWindowManager().apply(answered) == answered
    call, result = used("a")
    assert SlidingWindowManager(2).apply([*said(2), call, *said(1), result]) == [call, *said(1), result]


@pytest.mark.requirement("window.event")
def test_what_a_window_takes_away_is_told() -> None:
    events: list[StreamEvent] = []
    manager = SlidingWindowManager(window_size=3)
    with observe(events.append):
        manager.apply([SYSTEM, *said(3)])
        manager.apply([SYSTEM, *said(10)])
        asyncio.run(manager.async_apply(said(4)))
        manager.apply([SYSTEM, *said(2), SYSTEM, *said(3)])
        manager.apply([SYSTEM, *said(1), *[SYSTEM] * 9, *said(2)])
    assert {event.event_type for event in events} == {"memory.conversation.pruned"}
    assert [event.data for event in events] == [
        {"strategy": "sliding_window", "window_size": 3, "removed_count": count} for count in (7, 1, 2)
    ]


@pytest.mark.requirement("window.first-user", "window.step")
def test_the_first_message_of_the_user_can_be_kept_and_a_window_can_move_in_steps() -> None:
    manager = SlidingWindowManager(window_size=3, preserve_first_user=True)
    assert manager.apply([SYSTEM, *said(10)]) == [SYSTEM, *said(1), *said(2, 8)]
    assert manager.apply([SYSTEM, *said(3)]) == [SYSTEM, *said(3)]
    alone = [Message.assistant(str(number)) for number in range(5)]
    assert manager.apply(alone) == alone[2:]  # the user said nothing
    with pytest.raises(ValueError, match="window_size must be at least 2"):
        SlidingWindowManager(1, preserve_first_user=True)
    steps = SlidingWindowManager(window_size=6, slide_step=4)
    first = [steps.apply(said(count))[0].content for count in range(6, 16)]
    assert first == ["m0", "m4", "m4", "m4", "m4", "m8", "m8", "m8", "m8", "m12"]
    for wrong in (0, 7):
        with pytest.raises(ValueError, match="slide_step"):
            SlidingWindowManager(window_size=6, slide_step=wrong)


@st.composite
def chats(draw: st.DrawFn) -> list[Message]:
    """Conversations with calls, results, results that lost their calls, and system messages anywhere."""
    pieces = draw(st.lists(st.sampled_from(["system", "said", "used", "orphan", "late"]), max_size=20))
    messages: list[Message] = []
    waiting: list[Message] = []
    for number, piece in enumerate(pieces):
        if piece == "system":
            messages.append(Message.system(f"s{number}"))
        elif piece == "said":
            messages += said(1, number)
        elif piece == "used":
            messages += used(*[f"{number}.{each}" for each in range(draw(st.integers(1, 4)))])
        elif piece == "orphan":
            messages.append(used(f"gone{number}")[1])
        else:
            call, result = used(f"late{number}")
            messages.append(call)
            waiting.append(result)
    return messages + waiting


@pytest.mark.requirement("window.always")
@given(chats(), st.integers(1, 10), st.integers(1, 4), st.booleans(), st.booleans())
def test_a_window_is_always_a_short_part_of_the_conversation_with_its_calls_and_results(
    messages: list[Message], size: int, step: int, system: bool, first: bool
) -> None:
    if step > size - first or (first and size < 2):
        return
    manager = SlidingWindowManager(size, system, slide_step=step, preserve_first_user=first)
    kept = manager.apply(messages)
    exempt = [message for message in messages if system and message.role == Role.SYSTEM]
    assert [message for message in kept if system and message.role == Role.SYSTEM] == exempt
    spoken = [message for message in messages if not system or message.role != Role.SYSTEM]
    window = [message for message in kept if not system or message.role != Role.SYSTEM]
    rest = iter(spoken)
    assert all(any(message is other for other in rest) for message in window)  # in their order
    assert paired(kept)
    leading = next((n for n, each in enumerate(messages) if each.role != Role.SYSTEM), len(messages)) if system else 0
    assert kept[:leading] == messages[:leading]
    if not first:  # what is not before the window is as it was
        tail = kept[next((n for n, each in enumerate(kept) if each in window), len(kept)) :]
        assert not window or tail == SlidingWindowManager(1_000).apply(messages)[-len(tail) :]
    longest = SlidingWindowManager(1, False).apply(spoken)  # the last exchange, which is never cut
    assert len(window) <= size or len(window) <= len(longest) + first
    assert manager.apply(kept) == kept or step > 1 or first
    if any(message.role != Role.TOOL for message in spoken):
        assert window  # a model is never sent nothing
