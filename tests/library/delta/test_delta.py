"""Checkpoints as changes of one another, over a storage of one's own."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import threading
import zlib
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cofio import Invalid, Unavailable
from cofio.library import (
    AgentState,
    CheckpointMetadata,
    DeltaCheckpoint,
    DeltaCheckpointer,
    DeltaStorage,
    InMemoryDeltaStorage,
    Message,
    delta,
)

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns."""
    return asyncio.run(work)


def chat(turns: int) -> AgentState:
    """A state with so many messages."""
    said = [Message.user(f"turn {turn}: " + "words of a conversation " * 8 + str(turn * 7919)) for turn in range(turns)]
    return AgentState(run_id="run", messages=tuple(said), started_at=MOMENT, updated_at=MOMENT, iteration=turns)


MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


def filled(turns: int, **options: Any) -> DeltaCheckpointer:
    """A chat that was saved after each of its turns."""
    made = DeltaCheckpointer(**options)

    async def work() -> None:
        for turn in range(turns):
            await made.save(chat(turn + 1), "t", f"c{turn}")

    run(work())
    return made


@pytest.mark.requirement("delta.signature")
def test_signatures_and_defaults() -> None:
    assert str(inspect.signature(DeltaCheckpointer)) == (
        "(storage: 'DeltaStorage | None' = None, max_chain_depth: 'int' = 5, compression_level: 'int' = 6) -> 'None'"
    )
    known = CheckpointMetadata("c", "t")
    assert (known.parent_id, known.is_full, known.chain_depth) == (None, True, 0)
    assert (known.size_bytes, known.compressed_size_bytes) == (0, 0)
    assert known.created_at.tzinfo is UTC
    assert DeltaCheckpoint(known, b"").is_delta is True
    assert isinstance(DeltaCheckpointer().storage, InMemoryDeltaStorage)
    for name in ("save", "load", "list_checkpoints", "get_metadata", "delete", "get_storage_stats"):
        assert inspect.iscoroutinefunction(getattr(DeltaCheckpointer, name))
    assert DeltaStorage.__abstractmethods__ == {"store", "retrieve", "list_checkpoints", "delete"}


@pytest.mark.requirement("delta.ratio")
def test_the_ratio_of_what_a_state_is_to_what_is_stored_of_it() -> None:
    known = CheckpointMetadata("c", "t", size_bytes=100, compressed_size_bytes=25)
    assert DeltaCheckpoint(known, b"").compression_ratio == 4.0
    assert DeltaCheckpoint(CheckpointMetadata("c", "t"), b"").compression_ratio == 1.0


@pytest.mark.requirement("delta.options")
@pytest.mark.parametrize("options", [{"max_chain_depth": -1}, {"compression_level": 10}, {"compression_level": -1}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        DeltaCheckpointer(**options)


@pytest.mark.requirement("delta.save", "delta.load", "delta.list")
def test_states_come_back_newest_first() -> None:
    made = filled(12)
    assert run(made.load("t")) == chat(12)
    assert run(made.load("t", "c4")) == chat(5)
    assert run(made.list_checkpoints("t", 3)) == ["c11", "c10", "c9"]
    assert len(run(made.list_checkpoints("t"))) == 10
    assert run(made.load("t", "x")) is None
    assert run(made.load("x")) is None
    assert run(made.list_checkpoints("x")) == []


@pytest.mark.requirement("delta.id")
def test_a_new_id_is_a_hex_number() -> None:
    made = DeltaCheckpointer()
    for none in (None, ""):
        assert len(bytes.fromhex(run(made.save(chat(1), "t", none)))) == 16
    assert len(run(made.list_checkpoints("t"))) == 2


@pytest.mark.requirement("delta.refused")
@pytest.mark.parametrize(("thread", "checkpoint"), [("", None), (None, None), ("t", 5), ("t", 0), ("t", b"c")])
def test_bad_ids_are_refused_and_nothing_is_stored(thread: Any, checkpoint: Any) -> None:
    made = DeltaCheckpointer()
    with pytest.raises(ValueError, match="_id must be a string"):
        run(made.save(chat(1), thread, checkpoint))
    assert run(made.list_checkpoints("t")) == []


@pytest.mark.requirement("delta.depth")
@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_no_load_goes_through_more_changes_than_allowed(depth: int) -> None:
    made = filled(40, max_chain_depth=depth)
    made._cache.clear()

    async def check() -> None:
        for turn in range(40):
            known = await made.get_metadata("t", f"c{turn}")
            assert known is not None
            assert known.chain_depth <= depth
            assert known.is_full == (known.parent_id is None)
            steps, at = 0, known
            while at.parent_id is not None:
                parent = await made.get_metadata("t", at.parent_id)
                assert parent is not None
                at, steps = parent, steps + 1
            assert steps <= depth
            assert await made.load("t", f"c{turn}") == chat(turn + 1)

    run(check())


@pytest.mark.requirement("delta.structural")
def test_a_message_more_costs_a_message_and_not_the_list() -> None:
    made = DeltaCheckpointer()

    async def work() -> int:
        await made.save(chat(499), "t", "a")
        await made.save(chat(500), "t", "b")
        known = await made.get_metadata("t", "b")
        assert known is not None
        return known.compressed_size_bytes

    assert run(work()) < 300


@pytest.mark.requirement("delta.small")
def test_two_hundred_turns_take_a_tenth_of_whole_states() -> None:
    chance = random.Random(7)
    vocabulary = ["".join(chance.choices("aeiourstlnmdkp", k=chance.randint(2, 9))) for _ in range(3000)]
    made, state, whole = DeltaCheckpointer(), chat(0), 0

    async def work() -> int:
        nonlocal state, whole
        for _ in range(200):
            for say in (Message.user, Message.assistant):
                state = state.with_message(say(" ".join(chance.choices(vocabulary, k=25))))
            await made.save(state, "t")
            whole += len(zlib.compress(json.dumps(state.to_checkpoint()).encode(), 6))
        stored: int = (await made.get_storage_stats("t"))["compressed_size"]
        return stored

    assert run(work()) <= whole / 10


@pytest.mark.requirement("delta.stats")
def test_statistics() -> None:
    made = filled(10)
    stats = run(made.get_storage_stats("t"))
    assert stats["total_checkpoints"] == 10
    assert stats["full_checkpoints"] + stats["delta_checkpoints"] == 10
    assert stats["total_size"] == sum(
        len(json.dumps(chat(turn + 1).to_checkpoint(), separators=(",", ":"))) for turn in range(10)
    )
    assert stats["compression_ratio"] == stats["total_size"] / stats["compressed_size"] > 4
    assert run(made.get_storage_stats("x")) == {
        "total_checkpoints": 0, "total_size": 0, "compressed_size": 0, "compression_ratio": 1.0,
        "full_checkpoints": 0, "delta_checkpoints": 0,
    }  # fmt: skip


@pytest.mark.requirement("delta.delete")
def test_deleting_what_others_are_changes_of_leaves_them() -> None:
    made = filled(30)
    for turn in (0, 4, 5, 16, 29):
        assert run(made.delete("t", f"c{turn}")) is True
    made._cache.clear()
    for turn in range(30):
        assert run(made.load("t", f"c{turn}")) == (None if turn in (0, 4, 5, 16, 29) else chat(turn + 1))
    assert run(made.load("t")) == chat(29)
    assert run(made.delete("t", "c0")) is False
    assert run(made.delete("t")) is True
    assert run(made.delete("t")) is False
    assert run(made.load("t")) is None


class Failing(InMemoryDeltaStorage):
    """A storage that fails after so many changes."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**9

    async def store(self, thread_id: str, checkpoint_id: str, checkpoint: DeltaCheckpoint) -> None:
        self._change()
        await super().store(thread_id, checkpoint_id, checkpoint)

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        self._change()
        return await super().delete(thread_id, checkpoint_id)

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("no more")


@pytest.mark.requirement("delta.whole")
@pytest.mark.parametrize("changes", range(5))
def test_a_delete_that_breaks_off_loses_no_state(changes: int) -> None:
    storage = Failing()
    made = filled(12, storage=storage)
    storage.left = changes
    with pytest.raises(OSError, match="no more"):
        run(made.delete("t", "c0"))
    afresh = DeltaCheckpointer(storage)
    assert all(run(afresh.load("t", f"c{turn}")) == chat(turn + 1) for turn in range(12))


@pytest.mark.requirement("delta.resave")
@pytest.mark.parametrize("which", ["c0", "c4", "c11"])
def test_a_save_to_an_id_again_that_breaks_off_loses_no_state(which: str) -> None:
    before, after = chat(int(which[1:]) + 1), chat(2)
    for changes in range(20):
        storage = Failing()
        made = filled(12, storage=storage)
        storage.left = changes
        try:
            run(made.save(after, "t", which))
        except OSError:
            expected = before
        else:
            expected = after
        afresh = DeltaCheckpointer(storage)
        for turn in range(12):
            own = f"c{turn}" == which
            assert run(afresh.load("t", f"c{turn}")) == (expected if own else chat(turn + 1))
            assert run(made.load("t", f"c{turn}")) == (expected if own else chat(turn + 1))
        if expected is after:
            return
    pytest.fail("it never came to its end")


class Sorted(InMemoryDeltaStorage):
    """A storage that lists by time alone."""

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[CheckpointMetadata]:
        known = await super().list_checkpoints(thread_id, 10**9)
        return sorted(known, key=lambda each: each.created_at, reverse=True)[:limit]


@pytest.mark.requirement("delta.resave")
@pytest.mark.parametrize("storage", [InMemoryDeltaStorage, Sorted])
def test_the_order_is_that_of_the_saves_also_where_the_clock_goes_back(
    storage: type[InMemoryDeltaStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backwards(datetime):
        left = 100

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            cls.left -= 1
            return datetime(2026, 3, 1, 0, cls.left // 60, cls.left % 60, tzinfo=tz)

    monkeypatch.setattr("cofio.library.delta.datetime", Backwards)
    made = filled(8, storage=storage())
    run(made.save(chat(1), "t", "c3"))
    run(made.delete("t", "c0"))
    assert run(made.list_checkpoints("t")) == ["c3", "c7", "c6", "c5", "c4", "c2", "c1"]


@pytest.mark.requirement("delta.whole")
def test_an_id_is_saved_to_again_and_is_the_newest_then() -> None:
    made = filled(12)
    run(made.save(chat(2), "t", "c0"))
    made._cache.clear()
    assert run(made.load("t")) == chat(2)
    assert run(made.list_checkpoints("t", 2)) == ["c0", "c11"]
    assert all(run(made.load("t", f"c{turn}")) == chat(turn + 1) for turn in range(1, 12))


@pytest.mark.requirement("delta.cache")
def test_the_cache_is_bounded_and_believes_the_storage() -> None:
    storage = InMemoryDeltaStorage()
    one, other = DeltaCheckpointer(storage), DeltaCheckpointer(storage)
    for thread in range(100):
        run(one.save(chat(1), f"t{thread}", "c"))
    assert len(one._cache) == 64
    run(other.save(chat(5), "t99", "c"))
    assert run(one.load("t99", "c")) == chat(5)


@pytest.mark.requirement("delta.cache")
def test_the_cache_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "CACHED_BYTES", 20_000)
    made = filled(40)

    def held() -> int:
        return sum(len(stored) + len(known) for stored, known in made._cache.values())

    assert 0 < held() == made._cache.size <= 20_000
    run(made.save(chat(200), "t", "large"))
    assert made._cache.get(("t", "large")) is None  # larger than all of it
    assert made._cache.size == held() <= 20_000
    assert run(made.load("t", "large")) == chat(200)
    run(made.save(chat(1), "t", "c0"))
    run(made.delete("t", "c1"))
    run(made.delete("t"))
    assert made._cache.size == held() == 0


@pytest.mark.requirement("delta.large")
def test_a_large_state_does_not_hold_up_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, beside = threading.get_ident(), set()

    def noted(name: str) -> Callable[..., Any]:
        call = getattr(delta, name)

        def note(*args: Any) -> Any:
            if threading.get_ident() != loop:
                beside.add(name)
            return call(*args)

        return note

    for name in ("_dump", "_pack_next", "_unpack_chain", "_load_state"):
        monkeypatch.setattr(delta, name, noted(name))
    made = filled(3)
    made._cache.clear()
    assert run(made.load("t", "c2")) == chat(3)
    assert beside == set()
    large = chat(1).with_metadata("text", "words " * 20_000)
    run(made.save(large, "t", "large"))
    assert run(DeltaCheckpointer(made.storage).load("t")) == large
    assert beside == {"_dump", "_pack_next", "_unpack_chain", "_load_state"}
    many = chat(1).with_metadata("numbers", list(range(30_000)))
    beside.clear()
    run(made.save(many, "t", "many"))
    assert "_dump" in beside


@pytest.mark.requirement("delta.refused")
def test_a_state_that_is_too_deep_is_refused_and_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(_: object) -> bytes:
        raise RecursionError

    made = DeltaCheckpointer()
    monkeypatch.setattr(delta, "_dump", deep)
    with pytest.raises(Invalid, match="too deep"):
        run(made.save(chat(1), "t", "c"))
    assert run(made.list_checkpoints("t")) == []


@pytest.mark.requirement("delta.refused")
def test_a_missing_parent_is_said_to_be_missing() -> None:
    made = filled(6)
    run(made.storage.delete("t", "c0"))
    made._cache.clear()
    with pytest.raises(Unavailable, match="not in the storage"):
        run(made.load("t", "c5"))


class Slow(InMemoryDeltaStorage):
    """A storage during whose calls others go on."""

    async def store(self, thread_id: str, checkpoint_id: str, checkpoint: DeltaCheckpoint) -> None:
        await asyncio.sleep(0)
        await super().store(thread_id, checkpoint_id, checkpoint)
        await asyncio.sleep(0)

    async def retrieve(self, thread_id: str, checkpoint_id: str) -> DeltaCheckpoint | None:
        await asyncio.sleep(0)
        return await super().retrieve(thread_id, checkpoint_id)

    async def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[CheckpointMetadata]:
        await asyncio.sleep(0)
        return await super().list_checkpoints(thread_id, limit)

    async def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        await asyncio.sleep(0)
        return await super().delete(thread_id, checkpoint_id)


async def crowd(made: DeltaCheckpointer) -> None:
    """Saves, saves to the same ids again, and deletes, all at once; then every state is looked at."""
    await asyncio.gather(
        *(made.save(chat(turn + 1), "t", f"c{turn}") for turn in range(20, 30)),
        *(made.save(chat(turn + 2), "t", f"c{turn}") for turn in range(1, 20, 4)),
        *(made.delete("t", f"c{turn}") for turn in range(0, 20, 2)),
    )
    afresh = DeltaCheckpointer(made.storage)
    for turn in [*range(1, 20, 2), *range(20, 30)]:
        again = turn in range(1, 20, 4)
        assert await afresh.load("t", f"c{turn}") == chat(turn + 2 if again else turn + 1)


@pytest.mark.requirement("delta.whole")
def test_saves_and_deletes_at_once_lose_nothing() -> None:
    run(crowd(filled(20, storage=Slow())))


@pytest.mark.requirement("delta.whole")
def test_without_the_lock_they_would() -> None:
    class Open:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None: ...

    made: Any = filled(20, storage=Slow())
    made._lock = Open()
    with pytest.raises((AssertionError, Unavailable)):
        run(crowd(made))


class Meddled(InMemoryDeltaStorage):
    """A storage to which something happens just before a checkpoint is retrieved."""

    meddle: Callable[[], Coroutine[Any, Any, Any]] | None = None

    async def retrieve(self, thread_id: str, checkpoint_id: str) -> DeltaCheckpoint | None:
        if checkpoint_id == "c0" and self.meddle is not None:
            happening, self.meddle = self.meddle, None
            await happening()
        return await super().retrieve(thread_id, checkpoint_id)


@pytest.mark.requirement("delta.resave")
@pytest.mark.parametrize("turn", [1, 3, 5, 11])
def test_a_load_while_what_it_rests_on_is_saved_again_gives_the_state(turn: int) -> None:
    storage = Meddled()
    made = filled(12, storage=storage)
    shifted = chat(12).model_copy(update={"messages": chat(12).messages[3:]})
    for meddle in (lambda: made.save(shifted, "t", "c0"), lambda: made.delete("t", "c0")):
        reader = DeltaCheckpointer(storage)
        storage.meddle = meddle
        assert run(reader.load("t", f"c{turn}")) == chat(turn + 1)


@pytest.mark.requirement("delta.resave")
def test_the_newest_is_found_though_the_one_that_was_it_goes_meanwhile() -> None:
    storage = Meddled()
    made = filled(3, storage=storage)
    run(made.save(chat(7), "t", "c0"))
    storage.meddle = lambda: made.delete("t", "c0")
    assert run(DeltaCheckpointer(storage).load("t")) == chat(3)


class Chains(RuleBasedStateMachine):
    """Any sequence of saves and deletes equals a dictionary of whole states."""

    def __init__(self) -> None:
        super().__init__()
        self.made = DeltaCheckpointer(max_chain_depth=2)
        self.model: dict[str, AgentState] = {}

    @rule(which=st.integers(0, 12), turns=st.integers(0, 12), cut=st.integers(0, 3))
    def save(self, which: int, turns: int, cut: int) -> None:
        state = chat(turns).model_copy(update={"messages": chat(turns).messages[cut:]})
        run(self.made.save(state, "t", str(which)))
        self.model.pop(str(which), None)
        self.model[str(which)] = state

    @rule(which=st.integers(0, 12))
    def delete(self, which: int) -> None:
        assert run(self.made.delete("t", str(which))) == (self.model.pop(str(which), None) is not None)

    @rule()
    def start_afresh(self) -> None:
        self.made = DeltaCheckpointer(self.made.storage, max_chain_depth=2)

    @invariant()
    def every_state_is_there(self) -> None:
        assert run(self.made.list_checkpoints("t", 100)) == list(reversed(self.model))
        for which, state in self.model.items():
            assert run(self.made.load("t", which)) == state


TestChains = Chains.TestCase
