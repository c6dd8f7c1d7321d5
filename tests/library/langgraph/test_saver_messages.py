"""Messages are not made or packed twice, and nobody can tell: each that is read is the reader's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from cofio import Engine
from cofio.config.address import StoreAddress
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


ARTIFACTS: dict[str, Callable[[], Any]] = {
    "none": lambda: None, "one": lambda: 1, "true": lambda: True, "one point": lambda: 1.0, "zero": lambda: 0,
    "false": lambda: False, "text": lambda: "1", "pair": lambda: {"pair": (1, 2), 3: b"4"},
    "array": lambda: {"vector": np.array([1.0, 2.0])},
    "arrays": lambda: [np.zeros(2, dtype=np.float32), {"in": [np.array([[1], [2]])]}],
}  # fmt: skip


class Mood(Enum):
    GLAD = "glad"


@pytest.fixture
def saver(store: StoreAddress) -> Iterator[CofioSaver]:
    """A saver on a store of its own."""
    with Engine.open(store, settings=QUIET) as engine:
        yield CofioSaver(engine)


def read(saver: CofioSaver, at: str | None = None) -> list[BaseMessage]:
    """The messages of a checkpoint."""
    found = saver.get_tuple(config_of(at=at))
    assert found is not None
    messages: list[BaseMessage] = found.checkpoint["channel_values"]["messages"]
    return messages


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("times", [1, 3])
def test_what_is_done_to_a_message_that_was_read_is_done_to_it_alone_and_put_as_it_is(
    saver: CofioSaver, times: int
) -> None:
    said = [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]
    saver.put(config_of(), checkpoint_with("1", {"messages": said}), {}, {})
    for number, change in enumerate(CHANGES.values()):
        for _ in range(times):
            messages = read(saver, "1")
            for message in messages:
                change(message)
        at = f"2.{number}"
        saver.put(config_of(at="1"), checkpoint_with(at, {"messages": messages}), {}, {})
        assert told(read(saver, at)) == told(messages)
        assert read(saver, "1") == [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]
    empty: Any
    for field, empty in (("additional_kwargs", []), ("name", []), ("name", {})):
        messages = [read(saver, "1") for _ in range(3)][-1]
        setattr(messages[0], field, empty)
        with pytest.raises(TypeError):  # as LangGraph's serializer says of it: it is not taken for what it was
            saver.put(config_of(at="1"), checkpoint_with("3", {"messages": messages}), {}, {})


@pytest.mark.requirement("langgraph.saver.values")
def test_messages_are_read_as_their_types_make_them(saver: CofioSaver) -> None:
    """Those whose types would keep every field as it is are made without asking these."""
    usage: Any = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    details: Any = {**usage, "input_token_details": {"cache_read": 3}}
    call: Any = {"name": "t", "args": {"x": 1}, "id": "c", "type": "tool_call"}
    raw_call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"x": 1}'}}
    said: list[Any] = [
        HumanMessage("hello", id="1"), HumanMessage("hello", id="2", name="ada"),
        HumanMessage([{"type": "text", "text": "hello"}], id="3"), HumanMessage("hello", mood="glad"),
        SystemMessage("be brief"),
        AIMessage("hi", id="4", response_metadata={"model": "m", "at": {"n": [1, 2.5, None]}}),
        AIMessage("hi", id="5", usage_metadata=usage), AIMessage("hi", id="6", usage_metadata=details),
        AIMessage("", id="7", tool_calls=[call]), AIMessage("", id="8", additional_kwargs={"tool_calls": [raw_call]}),
    ]  # fmt: skip
    for number in range(3):  # the first of each shape is made by its type, the next of what was learned from it
        again = [each.model_copy(update={"id": f"{number}-{at}"}) for at, each in enumerate(said)]
        saver.put(config_of(), checkpoint_with(str(number), {"messages": again}), {}, {})
        plain = JsonPlusSerializer(allowed_msgpack_modules=None)
        made = plain.loads_typed(plain.dumps_typed(again))
        assert told(read(saver)) == told(made)
        assert [[*each.__dict__] for each in read(saver)] == [[*each.__dict__] for each in made]
        assert [each.__pydantic_fields_set__ for each in read(saver)] == [each.__pydantic_fields_set__ for each in made]
        assert read(saver) == made


def told(messages: list[Any]) -> str:
    """All that messages hold, with the types."""
    return repr([(type(each), sorted(each.__dict__.items()), each.__pydantic_extra__) for each in messages])


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("reads", [0, 1, 3])
def test_what_python_calls_equal_is_not_the_same(saver: CofioSaver, reads: int) -> None:
    held = np.arange(4)
    pairs: list[tuple[Any, Any]] = [(1, True), (True, 1), (0, False), (1.0, 1), (0.0, -0.0), ("1", 1), (None, False)]
    pairs += [(held, held.view("float64")), (held, held.reshape(2, 2))]
    for place, (one, other) in enumerate(pairs):
        message: Any = ToolMessage("x", tool_call_id="1", artifact=one)
        for number in range(3):
            saver.put(config_of(), checkpoint_with(f"{place}.{number}", {"messages": [message]}), {}, {})
            for _ in range(reads):
                message = read(saver)[0]
            assert repr(message.artifact) == repr(one)
        message.artifact = other
        saver.put(config_of(), checkpoint_with(f"{place}.9", {"messages": [message]}), {}, {})
        assert repr(read(saver)[0].artifact) == repr(other)  # type: ignore[attr-defined]
    for number, kind in enumerate((HumanMessage, SystemMessage, HumanMessage)):
        saver.put(config_of(), checkpoint_with(f"9.{number}", {"messages": [kind("same", id="1")]}), {}, {})
        assert [type(read(saver)[0]) for _ in range(3)] == [kind] * 3


@pytest.mark.requirement("langgraph.saver.allow")
def test_savers_that_allow_other_types_share_no_messages(saver: CofioSaver) -> None:
    said = [ToolMessage("x", tool_call_id="1", artifact={"mood": Mood.GLAD})]
    saver.put(config_of(), checkpoint_with("1", {"messages": said}), {}, {})
    allowing: Any = saver.with_allowlist([(Mood.__module__, "Mood")])
    for _ in range(4):
        assert read(saver)[0].artifact == {"mood": "glad"}  # type: ignore[attr-defined]
        assert read(allowing)[0].artifact == {"mood": Mood.GLAD}  # type: ignore[attr-defined]
    saver.serde = allowing.serde
    assert read(saver)[0].artifact == {"mood": Mood.GLAD}  # type: ignore[attr-defined]


def held(known: states.Messages) -> int:
    """The bytes of all texts that are kept for messages, each counted once."""
    texts: dict[int, Any] = {}
    for message, values, _, text in [*known._by_object.values(), *known._older.values()]:
        for each in (*message.__dict__.values(), *values, text):
            texts[id(each)] = each
    for mark, (text, _) in known._by_mark.items():
        texts |= {id(mark): mark, id(text): text}
    for text, maybe in known._by_text.items():
        texts[id(text)] = text
        for each in () if maybe is None else (*maybe.fields.values(), maybe.contents, maybe.text):
            texts[id(each)] = each
    return sum(map(sys.getsizeof, texts.values()))


class Chat(RuleBasedStateMachine):
    """Messages are read, changed, put and read again; each checkpoint holds what was put there."""

    @initialize()
    def open(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.engine = Engine.open(Path(self.folder.name) / "store", settings=QUIET)
        self.saver = CofioSaver(self.engine)
        self.messages: list[Any] = []
        self.put: list[str] = []

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

    @rule(text=st.text(max_size=5), name=st.sampled_from(sorted(ARTIFACTS)))
    def use_tool(self, text: str, name: str) -> None:
        self.messages.append(ToolMessage(text, tool_call_id="c", artifact=ARTIFACTS[name]()))

    @rule(name=st.sampled_from(sorted(ARTIFACTS)), at=st.integers(0, 10))
    def change_artifact(self, name: str, at: int) -> None:
        tools = [message for message in self.messages if isinstance(message, ToolMessage)]
        if tools:
            tools[at % len(tools)].artifact = ARTIFACTS[name]()

    @rule(change=st.sampled_from(sorted(CHANGES)), at=st.integers(0, 10))
    def change(self, change: str, at: int) -> None:
        if self.messages:
            CHANGES[change](self.messages[at % len(self.messages)])

    @rule()
    def put_them(self) -> None:
        number = len(self.put)
        self.saver.put(config_of(), checkpoint_with(f"{number:04}", {"messages": self.messages}), {}, {})
        plain = JsonPlusSerializer(allowed_msgpack_modules=None)
        self.put.append(told(plain.loads_typed(plain.dumps_typed(self.messages))))

    @rule(again=st.booleans())
    def read_them(self, again: bool) -> None:
        if self.put:
            self.messages = read(self.saver)
            assert told(self.messages) == self.put[-1]
            if again:
                self.messages = read(self.saver)

    @rule(at=st.integers(0, 50))
    def look_back(self, at: int) -> None:
        if self.put:
            at %= len(self.put)
            assert told(read(self.saver, f"{at:04}")) == self.put[at]


TestChat = Chat.TestCase


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("large", [False, True])
def test_what_is_remembered_of_messages_is_bounded(
    saver: CofioSaver, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(states, "OBJECTS", 10)
    monkeypatch.setattr(states.Messages, "LIMIT", 400_000)
    known, length = saver._messages, 80_000 if large else 20_000
    for number in range(60):
        text = f"{number // 2:03}" + "x" * length
        saver.put(config_of(), checkpoint_with("1", {"messages": [HumanMessage(text, id="1")]}), {}, {})
        assert [each.content for each in read(saver)] == [text]
        assert held(known) <= 2 * 400_000 + 10 * length
        assert len(known._by_object) + len(known._older) <= 2 * (10 + 1)
    assert bool({**known._by_object, **known._older}) != large
