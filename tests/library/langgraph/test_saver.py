"""What the checkpointer promises: what is read is what was put, and every bad input is refused with its name."""

from __future__ import annotations

import copy
import enum
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

from cofio import Engine
from cofio.backends.checkpoint_interface import ThreadKey
from cofio.config.address import StoreAddress
from cofio.library.langgraph import CofioSaver
from cofio.library.langgraph import saver as saving
from cofio.values.errors import Invalid, LimitExceeded, Unavailable

from .saving import QUIET, checkpoint_with, config_of


class Colour(enum.Enum):
    RED = "red"


class Order(BaseModel):
    item: str
    count: int = 1


@dataclass
class Point:
    x: int
    y: int


class Pair(NamedTuple):
    left: int
    right: int


OWN = (Colour, Order, Point, Pair)
MESSAGES = [
    SystemMessage("Be kind.", id="s"),
    HumanMessage([{"type": "text", "text": "what is this? ✓"}], id="h", name="Ada"),
    AIMessage("", id="a", tool_calls=[{"name": "look", "args": {"at": [1, None]}, "id": "c", "type": "tool_call"}]),
    ToolMessage("a boat", tool_call_id="c", artifact={"raw": b"\x00\xff"}),
    AIMessage("A boat.", usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}, extra_field=7),
]  # fmt: skip
VALUES: dict[str, Any] = {
    "none": None, "true": True, "int": 2**63, "float": 0.1, "text": "line\nline \u0000 ✓ 🎈", "half": "\ud800",
    "bytes": bytes(range(256)), "bytearray": bytearray(b"ab"), "no bytes": b"",
    "empty list": [], "empty dict": {}, "empty tuple": (), "tuple": (1, (2, [3])), "tuples": [(1, 2), [], {}],
    "numbers": [1, 2.5, None, True], "mixed": ["a", b"b", None, 1, [1], {"k": b"v"}, bytearray(b"c")],
    "many": [f"line {number}" for number in range(70_000)], "sixteen": ["a"] * 16,
    "by name": {"a": 1, "ü": [1], "": None, "nested": {"b": {"c": b"d"}}}, "by number": {1: "a", "b": 2, None: 3},
    "set": {1, 2}, "frozen": frozenset({"a"}), "deque": deque([1, 2]),
    "when": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "day": date(2026, 1, 2), "long": timedelta(days=1, seconds=2),
    "uuid": UUID(int=7), "decimal": Decimal("1.10"), "pattern": re.compile("a+", re.IGNORECASE), "path": Path("a/b"),
    "enum": Colour.RED, "enums": [Colour.RED], "model": Order(item="tea"), "models": {"a": Order(item="tea", count=2)},
    "dataclass": Point(1, 2), "namedtuple": Pair(1, 2), "document": Document("text", metadata={"a": 1}),
    "messages": MESSAGES, "message": MESSAGES[1], "as tuple": tuple(MESSAGES), "twice": [MESSAGES[0], MESSAGES[0]],
    "snapshot": _DeltaSnapshot(MESSAGES), "snapshots": [_DeltaSnapshot([1])], "sends": [Send("node", {"a": 1})],
    "interrupt": [Interrupt("sure?", id="i")],
}  # fmt: skip


@pytest.fixture
def saver(store_address: StoreAddress) -> Iterator[CofioSaver]:
    with CofioSaver.open(store_address.spell(), settings=QUIET, allow=OWN) as opened:
        yield opened


def ids(found: Sequence[CheckpointTuple] | Iterator[CheckpointTuple]) -> list[str]:
    return [each.checkpoint["id"] for each in found]


@pytest.mark.requirement("langgraph.saver.values")
def test_a_value_comes_back_as_the_in_memory_saver_gives_it(saver: CofioSaver) -> None:
    other = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=OWN))
    for name, value in VALUES.items():
        put = checkpoint_with("1", {"channel": value, "other": 1})
        found: list[Any] = []
        for each in (saver, other):
            each.put(config_of(name), put, {}, put["channel_versions"])
            each.put_writes(config_of(name, at="1"), [("a", value)], "task")
            found.append(each.get_tuple(config_of(name)))
        one, two = (each.checkpoint["channel_values"]["channel"] for each in found)
        assert type(one) is type(two), name
        assert repr(one) == repr(two), name
        assert found[0].checkpoint == found[1].checkpoint, name
        assert repr(found[0].pending_writes) == repr(found[1].pending_writes), name


@pytest.mark.requirement("langgraph.saver.values")
def test_everything_else_in_a_checkpoint_is_kept(saver: CofioSaver) -> None:
    put = checkpoint_with(
        "1", {"a": 1}, pending_sends=[Send("node", 1)], later={"more": {1: 2}}, channel_versions={"a": 3, "b": 0.5},
        updated_channels=None,
    )  # fmt: skip
    saver.put(config_of(), put, {"source": "loop", "step": 1, "parents": {"": "0"}}, {})
    found = saver.get_tuple(config_of())
    assert found is not None
    assert found.checkpoint == put
    assert found.metadata == {"source": "loop", "step": 1, "parents": {"": "0"}}
    assert type(found.checkpoint["channel_versions"]["b"]) is float


@pytest.mark.requirement("langgraph.saver.values")
def test_what_is_changed_after_it_was_put_or_read_does_not_change_what_is_kept(saver: CofioSaver) -> None:
    message = HumanMessage("first", id="1", additional_kwargs={"tags": ["a"]})
    put = checkpoint_with("1", {"messages": [message], "files": {"a": ["x"]}})
    before = copy.deepcopy(put)
    saver.put(config_of(), put, {}, {})
    put["channel_versions"]["messages"] = "later"
    put["versions_seen"]["node"]["a"] = "later"
    found = saver.get_tuple(config_of())
    assert found is not None
    found.checkpoint["channel_versions"]["messages"] = "changed"
    found.checkpoint["channel_values"]["messages"].append("more")
    found.metadata["step"] = 7
    again = saver.get_tuple(config_of())
    assert again is not None
    assert (again.checkpoint, again.metadata) == (before, {})
    message.additional_kwargs["tags"][0] = True  # in place, as no code should and some does
    message.content = "second"
    saver.put(config_of(at="1"), checkpoint_with("2", {"messages": [message]}), {}, {})
    assert saver.get(config_of(at="1")) == before
    assert repr(saver.get(config_of())["channel_values"]["messages"]) == repr([message])  # type: ignore[index]


@pytest.mark.requirement("langgraph.saver.size")
def test_a_message_more_costs_a_message(saver: CofioSaver) -> None:
    messages = [HumanMessage(f"{number} {number**7} {number**5}" * 8, id=str(number)) for number in range(400)]
    for number in range(200, 400):
        at = f"{number - 1:04}" if number > 200 else None
        saver.put(config_of(at=at), checkpoint_with(f"{number:04}", {"messages": messages[: number + 1]}), {}, {})
    measured = saver.engine.checkpoints.measure("langgraph")
    assert measured.checkpoints == 200
    assert measured.whole <= 3
    assert measured.bytes < 200 * 1500
    found = saver.get_tuple(config_of(at="0300"))
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == messages[:301]


@pytest.mark.requirement("langgraph.saver.metadata")
def test_metadata_is_as_langgraph_makes_it_and_holds_what_json_cannot(saver: CofioSaver) -> None:
    config = config_of()
    config["metadata"] = {"run_id": "r", "user": "Ada\u0000", "__hidden": 1, "list": [1]}
    config["configurable"]["model"] = "m"
    metadata: Any = {"source": "loop", "at": datetime(2026, 1, 1, tzinfo=UTC), "half": "a\ud800b", "pair": (1, 2)}
    saver.put(config, checkpoint_with("1"), metadata, {})
    found = saver.get_tuple(config_of())
    assert found is not None
    assert found.metadata == {
        "source": "loop", "at": datetime(2026, 1, 1, tzinfo=UTC), "half": "ab", "pair": [1, 2], "run_id": "r",
        "user": "Ada", "model": "m",
    }  # fmt: skip


@pytest.mark.requirement("langgraph.saver.list")
def test_lists_say_which_checkpoints_and_how_many(saver: CofioSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "LISTED_AT_ONCE", 2)  # so that ids which threads share stand at the ends of pages
    for thread in ("a", "b", "c"):
        for ns in ("", "child"):
            for number in range(3):
                saver.put(config_of(thread, ns), checkpoint_with(str(number)), {"step": number, "ns": ns}, {})  # type: ignore[typeddict-unknown-key]
    assert ids(saver.list(None)) == ["2"] * 6 + ["1"] * 6 + ["0"] * 6
    everything = [tuple(each.config["configurable"].values()) for each in saver.list(None)]
    assert len(set(everything)) == 18
    assert ids(saver.list(config_of("a"))) == ["2", "1", "0"]
    assert ids(saver.list(config_of("a", None))) == ["2", "2", "1", "1", "0", "0"]
    assert ids(saver.list(config_of("a", "child", "1"))) == ["1"]
    assert ids(saver.list(config_of("a", None, "1"))) == ["1", "1"]
    assert ids(saver.list(config_of("a", None, "7"))) == []
    assert ids(saver.list(config_of("a", "child", "1"), before=config_of("a", at="1"))) == []
    assert ids(saver.list(config_of("a"), before=config_of("a", at="2"))) == ["1", "0"]
    assert ids(saver.list(config_of("a"), before=config_of("a"))) == ["2", "1", "0"]
    assert ids(saver.list(config_of("a"), before=config_of("b", at="2"), limit=1)) == ["1"]
    assert ids(saver.list(None, filter={"step": 1, "ns": "child"}, limit=2)) == ["1", "1"]
    assert ids(saver.list(None, filter={"step": 1.0, "missing": None}, limit=1)) == ["1"]
    assert ids(saver.list(None, filter={"step": "1"})) == []
    assert ids(saver.list(None, limit=0)) == []
    assert ids(saver.list(config_of("nobody"))) == []


@pytest.mark.requirement("langgraph.saver.list")
def test_a_list_goes_on_when_what_it_lists_is_deleted(saver: CofioSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "LISTED_AT_ONCE", 2)
    for number in range(6):
        saver.put(config_of(), checkpoint_with(str(number)), {"run_id": "even" if number % 2 == 0 else "odd"}, {})
    found = saver.list(config_of())
    assert next(found).checkpoint["id"] == "5"
    saver.delete_for_runs(["even"])
    assert ids(found) == ["3", "1"]


class Rotating(CipherProtocol):
    """No cipher at all, but like one it writes the same differently each time."""

    def __init__(self) -> None:
        self.count = 0

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        self.count = self.count % 250 + 1
        return "rotated", bytes([self.count]) + bytes((each + self.count) % 256 for each in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        if ciphername != "rotated":
            raise ValueError("another cipher")
        return bytes((each - ciphertext[0]) % 256 for each in ciphertext[1:])


@pytest.mark.requirement("langgraph.saver.serde")
def test_an_encrypting_serializer_is_used_for_all_that_a_graph_says(store_address: StoreAddress) -> None:
    serde = EncryptedSerializer(Rotating(), JsonPlusSerializer(allowed_msgpack_modules=None))
    with CofioSaver.open(store_address.spell(), settings=QUIET, serde=serde, allow=[Point]) as saver:
        at = None
        for number in range(6):
            put = checkpoint_with(str(number), {"messages": [*MESSAGES, "secret"], "point": Point(1, 2), "none": None})
            at = saver.put(config_of(at=str(number - 1) if number else None), put, {}, {})
        assert at is not None
        saver.put_writes(at, [("a", "secret")], "task")
        found = saver.get_tuple(config_of())
        assert found is not None
        assert found.checkpoint["channel_values"] == {
            "messages": [*MESSAGES, "secret"],
            "point": Point(1, 2),
            "none": None,
        }
        assert found.pending_writes == [("task", "a", "secret")]
        state = saver.engine.checkpoints.load("langgraph", "ada", pending=True, by_id=True)
        assert state is not None
        assert "secret" not in repr(state)
    other = CofioSaver.open(store_address.spell(), settings=QUIET)
    with other, pytest.raises(Invalid, match=r"serde: a value is of the type 'msgpack\+rotated'"):
        other.get_tuple(config_of())


class Texts:
    """A serializer of the old kind, without types."""

    def dumps(self, obj: Any) -> bytes:
        return repr(obj).encode()

    def loads(self, data: bytes) -> Any:
        return data.decode()


@pytest.mark.requirement("langgraph.saver.serde")
def test_any_other_serializer_is_given_whole_values(store_address: StoreAddress) -> None:
    with CofioSaver.open(store_address.spell(), settings=QUIET, serde=Texts()) as saver:  # type: ignore[arg-type]
        saver.put(config_of(), checkpoint_with("1", {"a": [1, 2], "b": {"c": 1}}), {}, {})
        found = saver.get_tuple(config_of())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": "[1, 2]", "b": "{'c': 1}"}


@pytest.mark.requirement("langgraph.saver.ttl")
def test_a_checkpoint_is_gone_when_its_time_is_over(store: StoreAddress) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with Engine.open(store, settings=QUIET, clock=lambda: now) as engine:
        saver = CofioSaver(engine, ttl=60)
        saver.put(config_of(), checkpoint_with("1"), {}, {})
        now += timedelta(seconds=50)
        saver.put(config_of(at="1"), checkpoint_with("2"), {}, {})
        assert ids(saver.list(config_of())) == ["2", "1"]
        now += timedelta(seconds=20)
        assert ids(saver.list(config_of())) == ["2"]
        assert saver.get_tuple(config_of(at="1")) is None
        now += timedelta(seconds=60)
        assert saver.get_tuple(config_of()) is None
        CofioSaver(engine, ttl=timedelta(days=1)).put(config_of(), checkpoint_with("3"), {}, {})
        assert ids(saver.list(None)) == ["3"]


@pytest.mark.requirement("langgraph.saver.open")
def test_a_saver_closes_the_store_that_it_opened_and_no_other(store: StoreAddress) -> None:
    with Engine.open(store, settings=QUIET) as engine:
        with CofioSaver(engine) as saver:
            saver.setup()
            saver.put(config_of(), checkpoint_with("1"), {}, {})
        assert not engine.closed
    with CofioSaver.from_conn_string(store.spell()) as saver:
        opened = saver.engine
        assert saver.get_tuple(config_of()) is not None
    assert opened.closed
    with CofioSaver.from_conn_string(":memory:") as saver:
        assert saver.get_tuple(config_of()) is None
        folder = saver._folder
        assert folder is not None
        assert Path(folder.name).exists()
    assert not Path(folder.name).exists()
    with pytest.raises(Invalid, match="ttl"):
        CofioSaver.open(store.spell(), settings=QUIET, ttl=-1)
    with pytest.raises(Invalid, match=r"engine: expected an Engine, got str; see CofioSaver\.open"):
        CofioSaver("memory")  # type: ignore[arg-type]


@pytest.mark.requirement("langgraph.saver.versions")
def test_versions_rise_and_are_written_as_the_sqlite_saver_writes_them(saver: CofioSaver) -> None:
    version = None
    for number in range(1, 12):
        following = saver.get_next_version(version, None)
        assert re.fullmatch(rf"{number:032}\.(0+\.\d+|\d+(\.\d+)?e-\d+)", following)  # a short fraction is padded
        assert version is None or following > version
        version = following
    assert saver.get_next_version(4, None).startswith(f"{5:032}.")  # type: ignore[arg-type]  # of another saver


@pytest.mark.requirement("langgraph.saver.allow")
def test_a_saver_with_more_types_is_another_saver_on_the_same_store(store_address: StoreAddress) -> None:
    with CofioSaver.open(store_address.spell(), settings=QUIET) as saver:
        wider = saver.with_allowlist([(Point.__module__, "Point")])
        assert wider is not saver
        assert isinstance(wider, CofioSaver)
        wider.put(config_of(), checkpoint_with("1", {"point": Point(1, 2), "points": [Point(1, 2)]}), {}, {})
        assert wider.get(config_of())["channel_values"] == {"point": Point(1, 2), "points": [Point(1, 2)]}  # type: ignore[index]
        plain = {"x": 1, "y": 2}
        assert saver.get(config_of())["channel_values"] == {"point": plain, "points": [plain]}  # type: ignore[index]


@pytest.mark.requirement("langgraph.saver.threads")
def test_a_thread_may_have_any_name(saver: CofioSaver) -> None:
    saver.put(config_of("other"), checkpoint_with("2"), {}, {})
    thread: Any
    for thread in ("'; DROP TABLE thread; --", '"', "ü ✓ 🎈", "a/b", "%", "..", " ", "\n", 7, UUID(int=3)):
        assert saver.put(config_of(thread), checkpoint_with("1"), {}, {}) == config_of(thread, at="1")
        found = saver.get_tuple(config_of(thread))
        assert found is not None
        assert found.config == config_of(str(thread), at="1")
        assert ids(saver.list(config_of(thread))) == ["1"]
        saver.copy_thread(thread, f"{thread} copied")
        saver.delete_thread(thread)
        assert saver.get_tuple(config_of(thread)) is None
        assert ids(saver.list(None)) == ["2", "1"]
        saver.delete_thread(f"{thread} copied")


@pytest.mark.requirement("langgraph.saver.errors")
def test_bad_input_is_refused_with_its_name_and_changes_nothing(saver: CofioSaver) -> None:
    saver.put(config_of(), checkpoint_with("1", {"a": 1}), {}, {})
    saver.put(config_of("bob"), checkpoint_with("1"), {}, {})
    kept = [*saver.list(None)]
    config: Any
    for config, match in (
        (None, "config: expected"), ({}, "config: expected"), ({"configurable": {}}, "thread_id: is missing"),
        (config_of(""), "thread_id: is empty"), (config_of("a\0b"), "thread_id: holds a NUL"),
        (config_of("\ud800"), "thread_id: holds half"), (config_of("a" * 1025), "thread_id: longer than"),
        (config_of(ns="a\0"), "checkpoint_ns: holds a NUL"), (config_of(ns=7), "checkpoint_ns: expected a string"),  # type: ignore[arg-type]
        (config_of(at="a\0"), "checkpoint_id: holds a NUL"), (config_of(at=7), "checkpoint_id: expected a string"),  # type: ignore[arg-type]
    ):  # fmt: skip
        with pytest.raises(Invalid, match=match):
            saver.put(config, checkpoint_with("2", {"a": 2}), {}, {})
        with pytest.raises(Invalid, match=match):
            saver.get_tuple(config)
        with pytest.raises(Invalid, match=match):
            saver.put_writes(config, [("a", 1)], "task")
    wrong: Any
    for wrong, error, match in (
        (None, Invalid, "has no 'id'"), ({"id": "2"}, Invalid, "has no 'channel_values'"),
        (checkpoint_with(""), Invalid, "id: "), (checkpoint_with("a\0"), Invalid, "id: "),
        (checkpoint_with(7), Invalid, "id: "), (checkpoint_with("a" * 1025), LimitExceeded, "id: "),  # type: ignore[arg-type]
        (checkpoint_with("2", {"a": [1, "b", object()]}), TypeError, "not msgpack serializable"),
        (checkpoint_with("2", {"a": {"\ud800": 1}}), TypeError, "surrogates"),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            saver.put(config_of(), wrong, {}, {})
    with pytest.raises(TypeError, match="not msgpack serializable"):
        saver.put_writes(config_of(at="1"), [("a", 1), ("b", object())], "task")
    for wrong in (None, "", "a\0"):
        with pytest.raises(Invalid, match="thread_id"):
            saver.delete_thread(wrong)
        with pytest.raises(Invalid, match="target_thread_id"):
            saver.copy_thread("ada", wrong)
    calls: list[tuple[str, Callable[[], object]]] = [
        ("thread_id: is missing", lambda: next(saver.list({"configurable": {}}))),
        ("checkpoint_id: is missing", lambda: saver.put_writes(config_of(), [("a", 1)], "task")),
        ("strategy: 'all' is not one of keep_latest, delete", lambda: saver.prune(["ada"], strategy="all")),
        ("thread_ids: expected several", lambda: saver.prune("ada")),
        ("run_ids: expected several", lambda: saver.delete_for_runs("run")),
        ("run_ids: expected several", lambda: saver.delete_for_runs(5)),  # type: ignore[arg-type]
        ("target_thread_id: the thread 'bob' has checkpoints already", lambda: saver.copy_thread("ada", "bob")),
        ("target_thread_id: the thread 'bob' has checkpoints already", lambda: saver.copy_thread("bob", "bob")),
        *(("ttl", lambda ttl=ttl: CofioSaver(saver.engine, ttl=ttl)) for ttl in (0, -1, True, timedelta(0), "1")),
        *((match, lambda options=options: CofioSaver(saver.engine, **options)) for options, match in (
            ({"allow": "Order"}, "allow: expected a list of types, got str"), ({"allow": 5}, "allow: expected a list"),
            ({"allow": [5]}, "allow: expected types"), ({"allow": [("a",)]}, "allow: expected types"),
            ({"allow": [("a", 5)]}, "allow: expected types"), ({"serde": "msgpack"}, "serde: expected a serializer"),
        )),
    ]  # fmt: skip
    for match, call in calls:
        with pytest.raises(Invalid, match=match):
            call()
    assert [*saver.list(None)] == kept


STRANGE: dict[str, Any] = {
    "inf": math.inf, "nested": {"a": [{"b": -math.inf}]}, "half": {"a": ["\ud83d"]}, "key": {"\u00e9": {1: 2}},
    "uuid": UUID(int=5), "time": datetime(2026, 1, 1, tzinfo=UTC),
}  # fmt: skip


@pytest.mark.requirement("langgraph.saver.metadata")
def test_metadata_that_json_cannot_hold_is_kept_and_found(saver: CofioSaver) -> None:
    theirs = InMemorySaver()
    for thread, value in STRANGE.items():
        for each in (saver, theirs):
            each.put(config_of(thread), checkpoint_with("1"), {"step": 1}, {})
            each.put(config_of(thread), checkpoint_with("2"), {"step": 2, "strange": value}, {})  # type: ignore[typeddict-unknown-key]
        mine, found = saver.get_tuple(config_of(thread)), theirs.get_tuple(config_of(thread))
        assert mine is not None
        assert found is not None
        assert repr(mine.metadata) == repr(found.metadata)
        if thread == "half":  # what it comes back as is not what it was
            continue
        for wanted in ({"strange": value}, {"strange": 1}, {"strange": None}, {"strange": value, "step": 2}):
            assert [each.config for each in saver.list(config_of(thread), filter=wanted)] == [
                each.config for each in theirs.list(config_of(thread), filter=wanted)
            ]
    config = config_of()
    config["configurable"]["most"] = math.nan
    config["metadata"] = {"budget": math.inf, "\ud800bad": math.nan}
    saver.put(config, checkpoint_with("1", {"a": 1}, versions_seen={"n": {"v": math.inf, "t": "\ud800"}}), {}, {})
    kept = saver.get_tuple(config_of())
    assert kept is not None
    assert repr(kept.metadata) == "{'budget': inf, 'bad': nan, 'most': nan}"
    assert kept.checkpoint["versions_seen"] == {"n": {"v": math.inf, "t": "?"}}


@pytest.mark.requirement("langgraph.saver.delete")
def test_runs_are_deleted_by_what_names_them(saver: CofioSaver) -> None:
    run = UUID(int=7)
    for number, name in enumerate((run, str(run), 5, "5", "other", UUID(int=8))):
        saver.put(config_of(), checkpoint_with(str(number)), {"run_id": name}, {})  # type: ignore[typeddict-item]
    assert [each.metadata["run_id"] for each in saver.list(None)][-1] == run
    saver.delete_for_runs([run, 99, "none"])  # type: ignore[list-item]
    assert [each.checkpoint["id"] for each in saver.list(None)] == ["5", "4", "3", "2"]
    saver.delete_for_runs([5])  # type: ignore[list-item]
    assert [each.checkpoint["id"] for each in saver.list(None)] == ["5", "4"]
    saver.delete_for_runs([str(UUID(int=8))])
    assert [each.checkpoint["id"] for each in saver.list(None)] == ["4"]


@pytest.mark.requirement("langgraph.saver.errors")
def test_a_damaged_checkpoint_says_which_it_is(saver: CofioSaver) -> None:
    for number, state in enumerate((
        {}, {"rest": {}}, {"values": {"a": 1}, "rest": {}}, {"values": {"a": ["\u0100"]}, "rest": {}},
        {"values": {"a": ["\x92"]}, "rest": {}}, {"values": {"a": "msgpack\n\xc1"}, "rest": {}}, [1],
    )):  # fmt: skip
        saver.engine.checkpoints.save("langgraph", "ada", str(number), state)
        with pytest.raises(Unavailable, match=f"checkpoint '{number}' of the thread 'ada' cannot be read"):
            saver.get_tuple(config_of())


@pytest.mark.requirement("langgraph.saver.errors")
def test_a_list_gives_what_comes_before_a_damaged_checkpoint(saver: CofioSaver) -> None:
    for number in range(5):
        saver.engine.checkpoints.save("langgraph", "ada", str(number), {"values": {}, "rest": {"v": number}})

    def damage(rows: Any) -> None:
        rows.rebase(rows.find_for_save(ThreadKey("langgraph", "ada", ""), "2", None)[0], None, 0, b"\1")

    saver.engine._backend.transact(lambda transaction: damage(transaction.checkpoints))
    saver.engine.checkpoints._states.clear()
    listed = saver.list(config_of(), limit=5)
    assert [next(listed).checkpoint["id"], next(listed).checkpoint["id"]] == ["4", "3"]
    with pytest.raises(Unavailable, match=r"checkpoint '2' is damaged"):
        next(listed)
