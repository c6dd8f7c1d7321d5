"""CofioCheckpointer beyond what every checkpointer does: what is quick about it must not be wrong."""

from __future__ import annotations

from asyncio import run
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from cofio import Engine, Invalid, Settings
from cofio.library import AgentState, CofioCheckpointer, Message, ToolCall, durable

QUIET = Settings(background=False, embedder="none", sync="normal")


@pytest.mark.requirement("durable.exact")
def test_what_was_emptied_in_a_message_is_saved_as_empty(memory: Engine) -> None:
    checkpointer = CofioCheckpointer(memory)
    first = Message(role="user", content="hello", metadata={"secret": "token"})  # type: ignore[arg-type]
    second = Message.assistant("hi", tool_calls=[ToolCall(name="look", arguments={"at": [1]})])
    state = AgentState(messages=(first, second))
    run(checkpointer.save(state, "t"))
    state.messages[0].metadata.clear()
    state.messages[1].tool_calls.clear()
    run(checkpointer.save(state, "t"))
    loaded = run(checkpointer.load("t"))
    assert loaded is not None
    assert loaded.to_checkpoint() == state.to_checkpoint()
    assert loaded.messages[0].metadata == {}


@pytest.mark.requirement("durable.bounded")
def test_what_is_kept_of_the_last_states_is_bounded(memory: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "MESSAGES", 50)
    checkpointer = CofioCheckpointer(memory)
    state = AgentState(messages=tuple(Message.user(str(n)) for n in range(20)))
    for thread in range(10):
        run(checkpointer.save(state, f"t{thread}"))
    assert sum(len(last.messages) for last in checkpointer._last.values()) == checkpointer._message_count == 40
    run(checkpointer.save(AgentState(messages=state.messages * 4), "long"))
    assert checkpointer._message_count == 0
    assert run(checkpointer.load("t0")) == state


@pytest.mark.requirement("durable.bad-input")
@pytest.mark.parametrize("ttl", [0, -1, float("nan"), True, "60", 1e300])
def test_a_time_to_live_that_is_none_is_refused_at_once(memory: Engine, ttl: Any) -> None:
    with pytest.raises(Invalid, match="ttl"):
        CofioCheckpointer(memory, ttl=ttl)


@pytest.mark.requirement("durable.bad-input")
def test_any_age_can_be_vacuumed(memory: Engine) -> None:
    checkpointer = CofioCheckpointer(memory)
    run(checkpointer.save(AgentState(), "t"))
    assert [run(checkpointer.vacuum(age)) for age in (10**10, 1)] == [0, 0]
    for age in (float("nan"), -1, True, "1"):
        with pytest.raises(Invalid, match="older_than_days"):
            run(checkpointer.vacuum(age))  # type: ignore[arg-type]


class Chat(RuleBasedStateMachine):
    """Messages are added, dropped and changed in place; each state comes back as `to_checkpoint` said."""

    @initialize()
    def open(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.engine = Engine.open(Path(self.folder.name) / "store", settings=QUIET)
        self.checkpointer = CofioCheckpointer(self.engine)
        self.state = AgentState()
        self.saved: list[dict[str, Any]] = []

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.folder.cleanup()

    @rule(text=st.text(max_size=5), tool=st.booleans())
    def say(self, text: str, tool: bool) -> None:
        calls = [ToolCall(id="c", name="t", arguments={"x": text})] if tool else []
        self.state = self.state.with_message(Message.assistant(text, tool_calls=calls))

    @rule(keep=st.integers(0, 5))
    def drop(self, keep: int) -> None:
        self.state = self.state.model_copy(update={"messages": self.state.messages[-keep:] if keep else ()})

    @rule(at=st.integers(0, 9), how=st.sampled_from(["tell", "clear", "call", "argument"]))
    def change(self, at: int, how: str) -> None:
        if not self.state.messages:
            return
        message = self.state.messages[at % len(self.state.messages)]
        if how == "tell":
            message.metadata["seen"] = [1]
        elif how == "clear":
            message.metadata.clear()
            message.tool_calls.clear()
        elif how == "call":
            message.tool_calls.append(ToolCall(id="d", name="u"))
        elif message.tool_calls:
            message.tool_calls[0].arguments["x"] = True

    @rule()
    def save(self) -> None:
        run(self.checkpointer.save(self.state, "t", str(len(self.saved))))
        self.saved.append(self.state.to_checkpoint())

    @rule(at=st.integers(0, 50))
    def look(self, at: int) -> None:
        if self.saved:
            at %= len(self.saved)
            loaded = run(self.checkpointer.load("t", str(at)))
            assert loaded is not None
            assert repr(loaded.to_checkpoint()) == repr(self.saved[at])


TestChat = Chat.TestCase
