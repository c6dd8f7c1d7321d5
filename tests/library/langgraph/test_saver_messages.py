"""Messages are not made or packed twice, and nobody can tell: each that is read is the reader's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from cofio import Engine
from cofio.library.langgraph import CofioSaver, states

from .saving import QUIET, checkpoint_with, config_of

CHANGES: dict[str, Callable[[Any], object]] = {
    "content": lambda message: setattr(message, "content", message.content + "!"),
    "kwargs": lambda message: message.additional_kwargs.update(seen=True),
    "name": lambda message: setattr(message, "name", "ada"),
    "metadata": lambda message: message.response_metadata.setdefault("tokens", []).append(1),
    "extra": lambda message: setattr(message, "mood", "glad"),
    "id": lambda message: setattr(message, "id", None),
}


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[CofioSaver]:
    """A saver on a store of its own."""
    with Engine.open(tmp_path / "store", settings=QUIET) as engine:
        yield CofioSaver(engine)


def read(saver: CofioSaver, at: str | None = None) -> list[BaseMessage]:
    """The messages of a checkpoint."""
    found = saver.get_tuple(config_of(at=at))
    assert found is not None
    messages: list[BaseMessage] = found.checkpoint["channel_values"]["messages"]
    return messages


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_what_is_done_to_a_message_that_was_read_is_done_to_it_alone(
    saver: CofioSaver, change: Callable[[Any], object], times: int
) -> None:
    said = [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]
    saver.put(config_of(), checkpoint_with("1", {"messages": said}), {}, {})
    for _ in range(times):
        for message in read(saver):
            change(message)
    assert read(saver) == [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("times", [1, 3])
def test_a_message_that_was_changed_after_it_was_read_is_put_as_it_is(
    saver: CofioSaver, change: Callable[[Any], object], times: int
) -> None:
    saver.put(config_of(), checkpoint_with("1", {"messages": [HumanMessage("hello", id="1")]}), {}, {})
    messages = [read(saver) for _ in range(times)][-1]
    change(messages[0])
    saver.put(config_of(at="1"), checkpoint_with("2", {"messages": messages}), {}, {})
    assert read(saver, "2")[0].__dict__ == messages[0].__dict__
    assert read(saver, "2")[0].__pydantic_extra__ == messages[0].__pydantic_extra__
    assert read(saver, "1") == [HumanMessage("hello", id="1")]


@pytest.mark.requirement("langgraph.saver.values")
def test_a_message_of_another_class_with_the_same_words_is_another(saver: CofioSaver) -> None:
    for number, kind in enumerate((HumanMessage, SystemMessage, HumanMessage)):
        saver.put(config_of(), checkpoint_with(str(number), {"messages": [kind("same", id="1")]}), {}, {})
    assert [type(read(saver, at)[0]) for at in "012" for _ in range(3)][::3] == [
        HumanMessage,
        SystemMessage,
        HumanMessage,
    ]


@pytest.mark.requirement("langgraph.saver.values")
def test_what_is_remembered_of_messages_is_bounded(saver: CofioSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "OBJECTS", 10)
    monkeypatch.setattr(states.Messages, "LIMIT", 5000)
    messages: list[BaseMessage] = []
    for number in range(60):
        messages = [*messages, HumanMessage(f"number {number}", id=str(number))]
        saver.put(config_of(), checkpoint_with(f"{number:03}", {"messages": messages}), {}, {})
        messages = read(saver)
    known = saver._messages
    assert messages == [HumanMessage(f"number {number}", id=str(number)) for number in range(60)]
    assert len(known._by_object) <= 10 + 60
    assert known._size <= 5000


class Chat(RuleBasedStateMachine):
    """Messages are read, changed, put and read again; each checkpoint holds what was put there."""

    @initialize()
    def open(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.engine = Engine.open(Path(self.folder.name) / "store", settings=QUIET)
        self.saver = CofioSaver(self.engine)
        self.messages: list[Any] = []
        self.put: list[list[Any]] = []

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.folder.cleanup()

    @rule(kind=st.sampled_from("hast"), text=st.text(max_size=5))
    def say(self, kind: str, text: str) -> None:
        kinds: dict[str, Callable[[], BaseMessage]] = {
            "h": lambda: HumanMessage(text, id="1"),
            "a": lambda: AIMessage(text, tool_calls=[{"name": "t", "args": {"x": text}, "id": "c"}]),
            "s": lambda: SystemMessage(text),
            "t": lambda: ToolMessage(text, tool_call_id="c", artifact={"n": [1]}),
        }
        self.messages.append(kinds[kind]())

    @rule(change=st.sampled_from(sorted(CHANGES)), at=st.integers(0, 10))
    def change(self, change: str, at: int) -> None:
        if self.messages:
            CHANGES[change](self.messages[at % len(self.messages)])

    @rule()
    def put_them(self) -> None:
        number = len(self.put)
        self.saver.put(config_of(), checkpoint_with(f"{number:04}", {"messages": self.messages}), {}, {})
        self.put.append([message.model_copy(deep=True) for message in self.messages])

    @rule(again=st.booleans())
    def read_them(self, again: bool) -> None:
        if self.put:
            self.messages = read(self.saver)
            assert self.messages == self.put[-1]
            if again:
                self.messages = read(self.saver)

    @rule(at=st.integers(0, 50))
    def look_back(self, at: int) -> None:
        if self.put:
            at %= len(self.put)
            assert read(self.saver, f"{at:04}") == self.put[at]


TestChat = Chat.TestCase
