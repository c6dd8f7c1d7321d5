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
from langgraph.checkpoint.memory import InMemorySaver
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
    "none": lambda: None,
    "one": lambda: 1,
    "true": lambda: True,
    "one point": lambda: 1.0,
    "zero": lambda: 0,
    "false": lambda: False,
    "text": lambda: "1",
    "pair": lambda: {"pair": (1, 2), 3: b"4"},
    "array": lambda: {"vector": np.array([1.0, 2.0])},
    "arrays": lambda: [np.zeros(2, dtype=np.float32), {"in": [np.array([[1], [2]])]}],
}


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
@pytest.mark.parametrize(("field", "value"), [("additional_kwargs", []), ("name", []), ("name", {})])
def test_an_empty_value_of_another_type_is_a_change(saver: CofioSaver, field: str, value: object) -> None:
    saver.put(config_of(), checkpoint_with("1", {"messages": [HumanMessage("hello", id="1")]}), {}, {})
    messages = [read(saver) for _ in range(3)][-1]
    setattr(messages[0], field, value)
    with pytest.raises(TypeError):  # as LangGraph's serializer says of it: it is not taken for what it was
        saver.put(config_of(at="1"), checkpoint_with("2", {"messages": messages}), {}, {})


@pytest.mark.requirement("langgraph.saver.values")
def test_messages_are_read_as_their_types_make_them(saver: CofioSaver) -> None:
    """Those whose types would keep every field as it is are made without asking these."""
    usage: Any = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    details: Any = {**usage, "input_token_details": {"cache_read": 3}}
    call: Any = {"name": "t", "args": {"x": 1}, "id": "c", "type": "tool_call"}
    raw_call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"x": 1}'}}
    said: list[Any] = [
        HumanMessage("hello", id="1"),
        HumanMessage("hello", id="2", name="ada"),
        HumanMessage([{"type": "text", "text": "hello"}], id="3"),
        HumanMessage("hello", mood="glad"),
        SystemMessage("be brief"),
        AIMessage("hi", id="4", response_metadata={"model": "m", "at": {"n": [1, 2.5, None]}}),
        AIMessage("hi", id="5", usage_metadata=usage),
        AIMessage("hi", id="6", usage_metadata=details),
        AIMessage("", id="7", tool_calls=[call]),
        AIMessage("", id="8", additional_kwargs={"tool_calls": [raw_call]}),
    ]
    for number in range(3):  # the first of each shape is made by its type, the next of what was learned from it
        again = [each.model_copy(update={"id": f"{number}-{at}"}) for at, each in enumerate(said)]
        saver.put(config_of(), checkpoint_with(str(number), {"messages": again}), {}, {})
        plain = JsonPlusSerializer(allowed_msgpack_modules=None)
        made = plain.loads_typed(plain.dumps_typed(again))
        assert told(read(saver)) == told(made)
        assert [[*each.__dict__] for each in read(saver)] == [[*each.__dict__] for each in made]
        assert [each.__pydantic_fields_set__ for each in read(saver)] == [each.__pydantic_fields_set__ for each in made]
        assert read(saver) == made


@pytest.mark.requirement("langgraph.saver.values")
def test_a_message_of_another_class_with_the_same_words_is_another(saver: CofioSaver) -> None:
    for number, kind in enumerate((HumanMessage, SystemMessage, HumanMessage)):
        saver.put(config_of(), checkpoint_with(str(number), {"messages": [kind("same", id="1")]}), {}, {})
    assert [type(read(saver, at)[0]) for at in "012" for _ in range(3)][::3] == [
        HumanMessage,
        SystemMessage,
        HumanMessage,
    ]


def told(messages: list[Any]) -> str:
    """All that messages hold, with the types."""
    return repr([(type(each), sorted(each.__dict__.items()), each.__pydantic_extra__) for each in messages])


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("name", ARTIFACTS)
def test_what_a_message_holds_is_the_same_however_often_it_is_read(saver: CofioSaver, name: str) -> None:
    value = ARTIFACTS[name]()
    said = [ToolMessage("x", tool_call_id="1", artifact=value), AIMessage("y", additional_kwargs={"value": value})]
    theirs = InMemorySaver()
    for each in (saver, theirs):
        put = checkpoint_with("1", {"messages": said}, channel_versions={"messages": 1})
        each.put(config_of(), put, {}, {"messages": 1})
    found = theirs.get_tuple(config_of())
    assert found is not None
    for _ in range(5):
        assert told(read(saver)) == told(found.checkpoint["channel_values"]["messages"])
        saver.put(config_of(), checkpoint_with("2", {"messages": read(saver)}), {}, {})


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("reads", [0, 1, 3])
@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (True, 1), (0, False), (1.0, 1), (1, 1.0), (0.0, -0.0), ("1", 1), (None, False)]
)
def test_what_python_calls_equal_is_not_the_same(saver: CofioSaver, one: Any, other: Any, reads: int) -> None:
    message: Any = ToolMessage("x", tool_call_id="1", artifact=one)
    for number in range(3):
        saver.put(config_of(), checkpoint_with(str(number), {"messages": [message]}), {}, {})
        for _ in range(reads):
            message = read(saver)[0]
        assert repr(message.artifact) == repr(one)
    message.artifact = other
    saver.put(config_of(), checkpoint_with("9", {"messages": [message]}), {}, {})
    assert repr(read(saver)[0].artifact) == repr(other)  # type: ignore[attr-defined]


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


@pytest.mark.requirement("langgraph.saver.values")
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_what_is_remembered_of_large_messages_is_bounded(
    saver: CofioSaver, monkeypatch: pytest.MonkeyPatch, same: bool, large: bool
) -> None:
    monkeypatch.setattr(states.Messages, "LIMIT", 400_000)
    length = 80_000 if large else 20_000
    for number in range(100):
        text = f"{0 if same else number:03}" + "x" * length
        saver.put(config_of(), checkpoint_with("1", {"messages": [HumanMessage(text, id="1")]}), {}, {})
        assert [each.content for each in read(saver)] == [text]
        assert held(saver._messages) <= 2 * 400_000 + 10 * length
    kept = [*saver._messages._by_object.values(), *saver._messages._older.values()]
    assert bool(kept) != large


@pytest.mark.requirement("langgraph.saver.values")
def test_what_is_remembered_of_messages_is_bounded(saver: CofioSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "OBJECTS", 10)
    monkeypatch.setattr(states.Messages, "LIMIT", 50_000)
    messages: list[BaseMessage] = []
    for number in range(60):
        messages = [*messages, HumanMessage(f"number {number}", id=str(number))]
        saver.put(config_of(), checkpoint_with(f"{number:03}", {"messages": messages}), {}, {})
        messages = read(saver)
    known = saver._messages
    assert messages == [HumanMessage(f"number {number}", id=str(number)) for number in range(60)]
    assert 0 < len(known._by_object) + len(known._older) <= 2 * (10 + 60)
    assert 0 < held(known) <= 2 * 50_000
    for _ in range(500):
        saver.put(config_of(), checkpoint_with("1", {"messages": [HumanMessage("again", id="1")]}), {}, {})
        assert len(known._by_object) + len(known._older) <= 2 * (10 + 60)


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
