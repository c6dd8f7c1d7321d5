"""What holds for every checkpointer, wherever it keeps its checkpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from cofio.library.checkpointer import BaseCheckpointer, CheckpointerCapabilities
from cofio.library.events import observe
from cofio.library.messages import Message, ToolResult
from cofio.library.state import AgentState
from cofio.values.errors import CofioError

from .conftest import ABSENT, PROVIDERS, Make

pytestmark = pytest.mark.anyio
WRONG = (ValueError, TypeError, CofioError)
HOSTILE = (
    "a/b", "a:b", "..", ".", "../../etc/passwd", "/", "a b", "A", "a", "%41", "a%2Fb", "über", "u\u0308ber", "日本語",
    "line\nbreak", "'; DROP TABLE checkpoints; --", "*", "[a]", "?q=1#x", "{tag}", "con", "a\\b", "x" * 300, "é" * 700,
    "~", "latest", "_checkpoints", "🦓",
)  # fmt: skip


def said(*texts: str, **more: Any) -> AgentState:
    """A state in which these were said."""
    return AgentState(agent_id="agent", messages=tuple(map(Message.user, texts)), **more)


def thread() -> str:
    """A thread that nobody used."""
    return f"thread-{uuid4().hex}"


def read(state: AgentState | None) -> str | None:
    """What was said in a state."""
    return None if state is None else state.messages[0].content


def having(capability: str) -> pytest.MarkDecorator:
    """For the providers that have the capability."""
    return pytest.mark.parametrize("provider", [each for each in PROVIDERS if capability not in ABSENT[each]])


def needs(checkpointer: BaseCheckpointer, capability: str) -> bool:
    """Whether it has the capability."""
    return bool(getattr(checkpointer.capabilities, capability))


@pytest.mark.requirement("checkpointers.round-trip", "checkpointers.large")
async def test_a_state_comes_back_as_it_was_saved(checkpointer: BaseCheckpointer) -> None:
    state = (
        said("hello", 'quotes " and \\ and\nlines', "日本語 🦓 \x7f")
        .with_confidence(0.25)
        .with_metadata("nested", {"a": [1, 2.5, None, True, {"b": "ü"}], "big": 2**60})
        .with_message(Message.tool(ToolResult(tool_call_id="call_1", name="weather", content="sunny")))
    )
    for each in (state, said("é" * 3_000_000, *(f"message {n}" for n in range(500)))):
        name = thread()
        saved = await checkpointer.save(each, name)
        assert isinstance(saved, str)
        assert saved
        for loaded in (await checkpointer.load(name), await checkpointer.load(name, saved)):
            assert loaded == each
        assert await checkpointer.list_checkpoints(name) == [saved]


@pytest.mark.requirement("checkpointers.absent")
async def test_what_is_not_there_is_none_empty_or_false(checkpointer: BaseCheckpointer) -> None:
    name = thread()
    assert await checkpointer.load(name) is None
    assert await checkpointer.load(name, "nope") is None
    assert await checkpointer.list_checkpoints(name) == []
    assert await checkpointer.exists(name) is False
    assert await checkpointer.exists(name, "nope") is False
    assert await checkpointer.delete(name) is False
    assert await checkpointer.delete(name, "nope") is False
    await checkpointer.save(said("x"), name, "there")
    assert await checkpointer.load(name, "nope") is None
    assert await checkpointer.exists(name, "nope") is False
    assert await checkpointer.delete(name, "nope") is False
    assert await checkpointer.exists(name, "there") is True
    assert await checkpointer.exists(name) is True


@pytest.mark.requirement("checkpointers.newest-first")
async def test_checkpoints_are_listed_newest_first_however_fast_they_come(checkpointer: BaseCheckpointer) -> None:
    name = thread()
    ids = [f"c{number:02}" for number in (5, 3, 9, 1, 7, 0, 2, 8, 6, 4, 11, 10)]
    for each in ids:
        await checkpointer.save(said(each), name, each)
    assert await checkpointer.list_checkpoints(name, limit=100) == ids[::-1]
    assert await checkpointer.list_checkpoints(name) == ids[::-1][:10]
    assert await checkpointer.list_checkpoints(name, limit=3) == ids[::-1][:3]
    assert await checkpointer.list_checkpoints(name, limit=0) == []
    assert await checkpointer.load(name) == await checkpointer.load(name, ids[-1])


@pytest.mark.requirement("checkpointers.replace", "checkpointers.delete-latest")
async def test_an_id_saved_again_is_the_newest_and_after_it_is_deleted_the_one_before_is(
    checkpointer: BaseCheckpointer,
) -> None:
    name, other = thread(), thread()
    states = {each: said(each) for each in "abc"}
    for each in ("a", "b", "c", "a"):
        await checkpointer.save(states[each], name, each)
    await checkpointer.save(states["a"], other, "a")
    again = said("again")
    assert await checkpointer.save(again, name, "a", {"n": 2}) == "a"
    assert await checkpointer.list_checkpoints(name) == ["a", "c", "b"]
    assert await checkpointer.load(name) == await checkpointer.load(name, "a") == again
    assert await checkpointer.delete(name, "a") is True
    assert await checkpointer.load(name, "a") is None
    assert await checkpointer.load(name) == states["c"]
    assert await checkpointer.list_checkpoints(name) == ["c", "b"]
    assert await checkpointer.delete(name) is True
    assert await checkpointer.load(name) is None
    assert await checkpointer.list_checkpoints(name) == []
    assert await checkpointer.load(name, "b") is None
    assert await checkpointer.load(other) == states["a"]
    await checkpointer.save(states["b"], name, "b")
    assert await checkpointer.list_checkpoints(name) == ["b"]


@pytest.mark.requirement("checkpointers.hostile-ids")
async def test_ids_of_any_kind_stay_apart(checkpointer: BaseCheckpointer) -> None:
    name = thread()
    for each in HOSTILE:
        await checkpointer.save(said(each), name, each)
    assert await checkpointer.list_checkpoints(name, limit=100) == [*reversed(HOSTILE)]
    for each in HOSTILE:
        assert read(await checkpointer.load(name, each)) == each
    threads = [f"{name} {each}" for each in HOSTILE]
    for each in threads:
        await checkpointer.save(said(each), each, "one")
    for each in threads:
        assert await checkpointer.list_checkpoints(each) == ["one"]
        assert read(await checkpointer.load(each)) == each
    assert await checkpointer.delete(threads[0]) is True
    for each in threads[1:]:
        assert await checkpointer.exists(each) is True
    for name in ("..", ".", "/", "//", "a/checkpoints/b", "%2e%2e", "threads"):
        await checkpointer.delete(name)
        await checkpointer.save(said(name), name, "..")
        assert await checkpointer.list_checkpoints(name) == [".."]
        assert read(await checkpointer.load(name, "..")) == name
        assert await checkpointer.delete(name, "..") is True
        assert await checkpointer.exists(name) is False


@pytest.mark.requirement("checkpointers.bad-input")
async def test_what_is_no_id_state_metadata_or_limit_is_refused_and_changes_nothing(
    checkpointer: BaseCheckpointer,
) -> None:
    name = thread()
    wrong: Any
    for wrong in ("", "\0", "a\0b", "x" * 1025, "\ud800", None, 7, b"bytes"):
        for call in (checkpointer.load, checkpointer.list_checkpoints, checkpointer.delete, checkpointer.exists):
            with pytest.raises(WRONG):
                await call(wrong)
        with pytest.raises(WRONG):
            await checkpointer.save(said("x"), wrong)
        if wrong not in (None, ""):
            with pytest.raises(WRONG):
                await checkpointer.save(said("x"), name, wrong)
    for wrong in (None, {"messages": []}, "state", 3):
        with pytest.raises((*WRONG, AttributeError)):
            await checkpointer.save(wrong, name)
    for wrong in ([1], "text", {1: "x"}, {"when": datetime.now()}, {"nan": float("nan")}, {"set": {1}}):
        with pytest.raises(WRONG):
            await checkpointer.save(said("x"), name, metadata=wrong)
    for wrong in (-1, "3", 2.5, True):
        with pytest.raises(WRONG):
            await checkpointer.list_checkpoints(name, limit=wrong)
    assert await checkpointer.list_checkpoints(name) == []


@pytest.mark.requirement("checkpointers.empty-id")
async def test_an_empty_id_means_that_one_is_made(checkpointer: BaseCheckpointer) -> None:
    name = thread()
    made = [await checkpointer.save(said(f"{n}"), name, none) for n, none in enumerate((None, "", ""))]
    assert len(set(made)) == 3
    assert all(len(bytes.fromhex(each)) == 16 for each in made)
    assert await checkpointer.list_checkpoints(name) == made[::-1]
    wrong: Any
    for wrong in (0, False, b"", []):
        with pytest.raises(WRONG):
            await checkpointer.save(said("x"), name, wrong)
    for call in (checkpointer.load, checkpointer.delete, checkpointer.exists):
        try:  # to take it for the newest, or for the whole thread, would be worse than to refuse it
            assert not await call(name, "")
        except WRONG:
            continue
    assert await checkpointer.list_checkpoints(name) == made[::-1]


@pytest.mark.requirement("checkpointers.concurrent")
async def test_saves_at_the_same_time_lose_nothing(make: Make, checkpointer: BaseCheckpointer) -> None:
    name = thread()
    async with make() as other:
        saves = [each.save(said(f"{n}"), name) for n in range(12) for each in (checkpointer, other)]
        ids = await asyncio.gather(*saves)
        assert len(set(ids)) == 24
        for each in (checkpointer, other):
            assert set(await each.list_checkpoints(name, limit=100)) == set(ids)
        await asyncio.gather(*(checkpointer.save(said(f"{n}"), name, "same") for n in range(8)))
        found = await other.list_checkpoints(name, limit=100)
        assert found[0] == "same"
        assert len(found) == 25


@pytest.mark.requirement("checkpointers.persistent-ids")
async def test_another_checkpointer_on_the_same_place_finds_what_was_saved(make: Make) -> None:
    name, state = thread(), said("kept")
    async with make() as checkpointer:
        saved = await checkpointer.save(state, name, metadata={"a": 1})
    async with make() as checkpointer:
        assert checkpointer.capabilities.persistent_checkpoint_ids
        assert await checkpointer.load(name, saved) == state
        assert await checkpointer.list_checkpoints(name) == [saved]


@pytest.mark.requirement("checkpointers.copies")
async def test_what_callers_do_to_what_they_gave_or_got_changes_nothing(checkpointer: BaseCheckpointer) -> None:
    name = thread()
    inner, metadata = {"list": [1]}, {"tags": ["a"]}
    await checkpointer.save(said("x", metadata={"inner": inner}), name, "c", metadata)
    inner["list"].append(2)
    metadata["tags"].append("b")
    loaded = await checkpointer.load(name)
    assert loaded is not None
    assert loaded.metadata == {"inner": {"list": [1]}}
    loaded.metadata["inner"]["list"].append(3)
    again = await checkpointer.load(name)
    assert again is not None
    assert again.metadata == {"inner": {"list": [1]}}
    if needs(checkpointer, "metadata_query"):
        got = await checkpointer.get_metadata(name)
        assert got == {"tags": ["a"]}
        got["tags"].append("c")
        assert await checkpointer.get_metadata(name) == {"tags": ["a"]}


@pytest.mark.requirement("checkpointers.capabilities")
async def test_a_provider_has_its_capabilities_and_says_what_it_cannot_do(
    provider: str, checkpointer: BaseCheckpointer
) -> None:
    names = {each.name for each in fields(CheckpointerCapabilities)}
    assert {name for name in names if not needs(checkpointer, name)} == ABSENT[provider]
    calls: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("search", lambda: checkpointer.search("x")),
        ("metadata_query", lambda: checkpointer.query_by_metadata("k", 1)),
        ("metadata_query", lambda: checkpointer.get_metadata("never")),
        ("vacuum", lambda: checkpointer.vacuum(36_500)),
        ("branching", lambda: checkpointer.copy_thread(thread(), thread())),
        ("list_threads", lambda: checkpointer.list_threads(pattern="never")),
        ("list_with_metadata", lambda: checkpointer.list_with_metadata(limit=1)),
    ]
    for capability, call in calls:
        if capability not in ABSENT[provider]:
            await call()
            continue
        with pytest.raises(NotImplementedError, match=f"does not support '{capability}'"):
            await call()


@pytest.mark.requirement("checkpointers.metadata")
@having("metadata_query")
async def test_checkpoints_are_found_by_their_metadata(checkpointer: BaseCheckpointer) -> None:
    one, two = thread(), thread()
    await checkpointer.save(said("x"), one, "a", {"kind": "draft", "n": 1, "deep": {"x": [1, 2]}})
    await checkpointer.save(said("x"), two, "b", {"kind": "final", "n": True, "deep": {"x": [1]}})
    await checkpointer.save(said("x"), two, "c", {"kind": "draft", "none": None})
    await checkpointer.save(said("x"), two, "d")

    async def ids(key: str, value: Any, **more: Any) -> list[str]:
        return [found["checkpoint_id"] for found in await checkpointer.query_by_metadata(key, value, **more)]

    assert await ids("kind", "draft") == ["c", "a"]
    assert await ids("kind", "draft", limit=1) == ["c"]
    assert await ids("kind", "draft", limit=0) == []
    assert await ids("n", 1) == ["a"]
    assert await ids("n", True) == ["b"]
    assert await ids("deep", {"x": [1]}) == ["b"]
    assert await ids("none", None) == ["c"]
    assert await ids("kind", None) == []
    assert await ids("nothing", "draft") == []
    found = (await checkpointer.query_by_metadata("kind", "final"))[0]
    assert found["thread_id"] == two
    assert found["metadata"] == {"kind": "final", "n": True, "deep": {"x": [1]}}
    assert datetime.fromisoformat(found["created_at"]).tzinfo is not None
    assert await checkpointer.get_metadata(one) == {"kind": "draft", "n": 1, "deep": {"x": [1, 2]}}
    assert await checkpointer.get_metadata(two, "b") == found["metadata"]
    assert await checkpointer.get_metadata(two) == {}
    assert await checkpointer.get_metadata(two, "nope") is None
    assert await checkpointer.get_metadata(thread()) is None
    wrong: Any
    for wrong in ((3, "x"), ("k", {1})):
        with pytest.raises(WRONG):
            await checkpointer.query_by_metadata(*wrong)


@pytest.mark.requirement("checkpointers.list-with-metadata")
@having("list_with_metadata")
async def test_all_checkpoints_are_listed_with_their_metadata_newest_first(checkpointer: BaseCheckpointer) -> None:
    one, two = thread(), thread()
    for name, each in ((one, "a"), (two, "b"), (one, "c"), (two, "a")):
        await checkpointer.save(said("x"), name, each, {"at": each})
    listed = await checkpointer.list_with_metadata()
    assert [(found["thread_id"], found["checkpoint_id"], found["metadata"]) for found in listed] == [
        (two, "a", {"at": "a"}), (one, "c", {"at": "c"}), (two, "b", {"at": "b"}), (one, "a", {"at": "a"}),
    ]  # fmt: skip
    assert await checkpointer.list_with_metadata(limit=2) == listed[:2]
    json.dumps(listed)


@pytest.mark.requirement("checkpointers.list-threads")
@having("list_threads")
async def test_threads_are_listed_by_pattern_the_last_saved_to_first(checkpointer: BaseCheckpointer) -> None:
    for name in ("user-1", "User-2", "other/1", "user-3", "long" * 200, "user-1"):
        await checkpointer.save(said("x"), name)
    assert await checkpointer.list_threads() == ["user-1", "long" * 200, "user-3", "other/1", "User-2"]
    assert await checkpointer.list_threads(pattern="user-*") == ["user-1", "user-3"]
    assert await checkpointer.list_threads(pattern="?ser-[23]") == ["user-3", "User-2"]
    assert await checkpointer.list_threads(limit=1, pattern="*er-*") == ["user-1"]
    assert await checkpointer.list_threads(limit=0) == []
    await checkpointer.delete("user-1")
    for each in await checkpointer.list_checkpoints("user-3"):
        await checkpointer.delete("user-3", each)
    assert await checkpointer.list_threads(pattern="user*") == []


@pytest.mark.requirement("checkpointers.copy-thread")
async def test_a_copied_thread_has_the_same_checkpoints_and_goes_its_own_way(checkpointer: BaseCheckpointer) -> None:
    main, branch = thread(), thread()
    states = {each: said(each) for each in "cab"}
    for each, state in states.items():
        await checkpointer.save(state, main, each, {"at": each})
    assert await checkpointer.copy_thread(main, branch) is True
    assert await checkpointer.list_checkpoints(branch) == ["b", "a", "c"]
    for each, state in states.items():
        assert await checkpointer.load(branch, each) == state
    await checkpointer.save(said("new"), branch, "d")
    await checkpointer.delete(main, "a")
    assert await checkpointer.list_checkpoints(main) == ["b", "c"]
    assert await checkpointer.list_checkpoints(branch) == ["d", "b", "a", "c"]
    if needs(checkpointer, "metadata_query"):
        assert await checkpointer.get_metadata(branch, "a") == {"at": "a"}
    with pytest.raises(WRONG, match="has checkpoints already"):
        await checkpointer.copy_thread(main, branch)
    empty = thread()
    assert await checkpointer.copy_thread(thread(), empty) is False
    assert await checkpointer.exists(empty) is False
    with pytest.raises(WRONG):
        await checkpointer.copy_thread("", empty)


@pytest.mark.requirement("checkpointers.search")
@having("search")
async def test_search_finds_what_was_said(checkpointer: BaseCheckpointer) -> None:
    zebra, horse = thread(), thread()
    await checkpointer.save(said("The zebra has black stripes"), zebra, "z", {"a": 1})
    await checkpointer.save(said("The horse has a mane; GRÖSSE counts"), horse, "h")
    found = await checkpointer.search("zebra stripes")
    assert [(each["thread_id"], each["checkpoint_id"]) for each in found] == [(zebra, "z")]
    assert found[0]["metadata"] == {"a": 1}
    assert found[0]["score"] > 0
    assert {each["thread_id"] for each in await checkpointer.search("Horse größe")} == {horse}
    assert await checkpointer.search("unicorn") == []
    assert await checkpointer.search("") == []
    assert len(await checkpointer.search("has", limit=1)) <= 1


@pytest.mark.requirement("checkpointers.vacuum")
@having("vacuum")
async def test_vacuum_forgets_what_is_older_and_nothing_else(checkpointer: BaseCheckpointer) -> None:
    one, two = thread(), thread()
    for name in (one, one, two):
        await checkpointer.save(said("x"), name)
    assert await checkpointer.vacuum() == 0
    assert await checkpointer.vacuum(older_than_days=1) == 0
    assert len(await checkpointer.list_checkpoints(one)) == 2
    wrong: Any
    for wrong in (-1, "1", None, True):
        with pytest.raises(WRONG):
            await checkpointer.vacuum(wrong)
    assert await checkpointer.vacuum(older_than_days=0) == 3
    assert await checkpointer.exists(one) is False
    assert await checkpointer.list_threads() == []


@pytest.mark.requirement("checkpointers.repr", "checkpointers.close")
async def test_it_can_be_closed_twice_and_its_repr_shows_no_secret(provider: str, make: Make) -> None:
    secret: dict[str, dict[str, Any]] = {
        "http": {"headers": {"Authorization": "Bearer sesame"}}, "postgresql": {"password": "sesame"},
    }  # fmt: skip
    async with make(**secret.get(provider, {})) as checkpointer:
        assert repr(checkpointer).startswith(type(checkpointer).__name__)
        assert "sesame" not in repr(checkpointer)
        await checkpointer.close()


@pytest.mark.requirement("checkpointers.events")
async def test_saving_and_loading_are_told_to_observers(checkpointer: BaseCheckpointer) -> None:
    told: list[tuple[str, Any]] = []
    name = thread()
    with observe(lambda event: told.append((event.event_type, event.data))):
        await checkpointer.load(name)
        with pytest.raises(WRONG):
            await checkpointer.save(said("x"), name, "a\0")
        await checkpointer.save(said("x"), name, "c")
        await checkpointer.load(name)
    data = {"thread_id": name, "checkpoint_id": "c"}
    assert told == [("memory.checkpoint.saved", data), ("memory.checkpoint.loaded", data)]
