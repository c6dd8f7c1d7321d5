"""Observers are told what happens, and can do no harm."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from datetime import UTC

import pytest

from cofio.library import events
from cofio.library.events import StreamEvent, current_run_id, emit, observe, run_context
from cofio.library.messages import Message
from cofio.library.state import AgentState


@pytest.fixture(autouse=True)
def _nobody_else() -> Iterator[None]:
    yield
    assert events._observations == ()


@pytest.mark.requirement("events.observe", "events.circles", "events.invalid")
def test_an_observer_is_told_until_it_is_let_go() -> None:
    told: list[StreamEvent] = []

    def listen(event: StreamEvent) -> None:
        told.append(event)
        emit("by the observer")  # which is not told

    emit("before")
    with observe(listen):
        emit("memory.manager.injected", memory_count=2)
    emit("after")
    stop = observe(listen)
    emit("again")
    stop()
    stop()
    emit("no more")
    assert [(event.event_type, event.data) for event in told] == [
        ("memory.manager.injected", {"memory_count": 2}),
        ("again", {}),
    ]
    with pytest.raises(TypeError, match="function"):
        observe("print")  # type: ignore[arg-type]  # that is the point


@pytest.mark.requirement("events.shape")
def test_an_event_has_an_id_a_time_and_a_shape_for_the_wire() -> None:
    told: list[StreamEvent] = []
    with observe(told.append), run_context("r1"):
        emit("one", a=1)
        emit("two")
    first, second = told
    assert first.event_id != second.event_id
    assert first.timestamp.tzinfo is UTC
    assert first.to_dict() == {
        "event_id": first.event_id, "run_id": "r1", "event_type": "one", "timestamp": first.timestamp.isoformat(),
        "data": {"a": 1},
    }  # fmt: skip


@pytest.mark.requirement("events.run")
def test_the_run_is_that_of_the_context_else_that_of_the_caller_else_none() -> None:
    told: list[StreamEvent] = []

    async def inside() -> str | None:
        async with run_context() as run_id:
            emit("async")
            await asyncio.to_thread(emit, "thread")
            return run_id

    with observe(told.append):
        emit("bare")
        emit("own", run_id="state")
        with run_context("outer"):
            emit("inside", run_id="state")
            with run_context("inner"):
                assert current_run_id() == "inner"
            assert current_run_id() == "outer"
        made = asyncio.run(inside())
    assert current_run_id() is None
    assert [event.run_id for event in told] == [None, "state", "outer", made, made]


@pytest.mark.requirement("events.harmless")
def test_an_observer_that_fails_stops_neither_the_program_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def broken(event: StreamEvent) -> None:
        raise RuntimeError("no")

    async def broken_too(event: StreamEvent) -> None:
        raise RuntimeError("neither")

    with (
        caplog.at_level(logging.WARNING),
        observe(broken),
        observe(broken_too),
        observe(lambda event: told.append(event.event_type)),
    ):
        emit("one")

        async def inside() -> None:
            emit("two")
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        asyncio.run(inside())
    assert told == ["one", "two"]
    assert caplog.text.count("RuntimeError: no\n") == 2
    assert caplog.text.count("RuntimeError: neither") == 2


@pytest.mark.requirement("events.async")
def test_an_asynchronous_observer_is_seen_through_wherever_the_event_happens() -> None:
    told: list[tuple[str, bool]] = []

    async def listen(event: StreamEvent) -> None:
        await asyncio.sleep(0)
        told.append((event.event_type, threading.current_thread() is threading.main_thread()))

    async def inside() -> None:
        with observe(listen):
            emit("loop")
            await asyncio.to_thread(emit, "thread")  # its own loop sees it through
            async with asyncio.timeout(60):
                while len(told) < 2:
                    await asyncio.sleep(0)

    asyncio.run(inside())
    with observe(listen):
        emit("no loop")
    assert sorted(told) == [("loop", True), ("no loop", True), ("thread", True)]


@pytest.mark.requirement("events.names")
def test_the_names_are_those_of_the_reference() -> None:
    names = {value for name, value in vars(events).items() if name.isupper() and str(value).startswith("memory.")}
    assert names >= {
        "memory.checkpoint.saved", "memory.checkpoint.loaded", "memory.compactor.triggered",
        "memory.compactor.completed", "memory.conversation.added", "memory.conversation.pruned",
        "memory.manager.injected", "memory.manager.extracted",
    }  # fmt: skip


@pytest.mark.requirement("events.added")
def test_messages_that_are_added_to_a_state_are_told() -> None:
    told: list[StreamEvent] = []
    state = AgentState(run_id="r1")
    with observe(told.append):
        state.with_message(Message.user("a")).with_messages([Message.user("b"), Message.assistant("c")])
    assert [(event.run_id, event.event_type, event.data) for event in told] == [
        ("r1", "memory.conversation.added", {"message_count": 1, "roles": ["user"]}),
        ("r1", "memory.conversation.added", {"message_count": 2, "roles": ["user", "assistant"]}),
    ]
