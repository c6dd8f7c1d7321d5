"""Checkpoints as changes of one another, over a storage of one's own."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import random
import threading
import zlib
from asyncio import run
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

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


@pytest.mark.requirement("delta.signature", "delta.ratio", "delta.options")
def test_signatures_defaults_and_ranges() -> None:
    assert str(inspect.signature(DeltaCheckpointer)) == (
        "(storage: 'DeltaStorage | None' = None, max_chain_depth: 'int' = 5, compression_level: 'int' = 6) -> 'None'"
    )
    known = CheckpointMetadata("c", "t")
    assert (known.parent_id, known.is_full, known.chain_depth) == (None, True, 0)
    assert (known.size_bytes, known.compressed_size_bytes) == (0, 0)
    assert known.created_at.tzinfo is UTC
    assert DeltaCheckpoint(known, b"").is_delta is True
    assert DeltaCheckpoint(known, b"").compression_ratio == 1.0
    small = CheckpointMetadata("c", "t", size_bytes=100, compressed_size_bytes=25)
    assert DeltaCheckpoint(small, b"").compression_ratio == 4.0
    assert isinstance(DeltaCheckpointer().storage, InMemoryDeltaStorage)
    assert DeltaStorage.__abstractmethods__ == {"store", "retrieve", "list_checkpoints", "delete"}
    wrong: Any
    for wrong in ({"max_chain_depth": -1}, {"compression_level": 10}, {"compression_level": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DeltaCheckpointer(**wrong)


@pytest.mark.requirement("delta.save", "delta.load", "delta.list", "delta.id")
def test_states_come_back_newest_first() -> None:
    made = filled(12)
    assert run(made.load("t")) == chat(12)
    assert run(made.load("t", "c4")) == chat(5)
    assert run(made.list_checkpoints("t", 3)) == ["c11", "c10", "c9"]
    assert len(run(made.list_checkpoints("t"))) == 10
    assert run(made.load("t", "x")) is None
    assert run(made.load("x")) is None
    for none in (None, ""):
        assert len(bytes.fromhex(run(made.save(chat(1), "x", none)))) == 16
    assert len(run(made.list_checkpoints("x"))) == 2
    assert [run(made.delete("x")), run(made.delete("x"))] == [True, False]
    assert run(made.list_checkpoints("x")) == []


@pytest.mark.requirement("delta.refused")
def test_what_cannot_be_stored_or_read_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(_: object) -> bytes:
        raise RecursionError

    made = filled(6)
    run(made.storage.delete("t", "c0"))
    made._cache.clear()
    with pytest.raises(Unavailable, match="not in the storage"):
        run(made.load("t", "c5"))
    bad: Any
    for bad in (("", None), (None, None), ("new", 5), ("new", 0), ("new", b"c")):
        with pytest.raises(ValueError, match="_id must be a string"):
            run(made.save(chat(1), *bad))
    monkeypatch.setattr(delta, "_dump", deep)
    with pytest.raises(Invalid, match="too deep"):
        run(made.save(chat(1), "new", "c"))
    assert run(made.list_checkpoints("new")) == []


@pytest.mark.requirement("delta.depth")
@pytest.mark.parametrize("depth", [0, 1, 5])
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


@pytest.mark.requirement("delta.small", "delta.structural")
def test_two_hundred_turns_take_a_tenth_of_whole_states_and_a_message_more_its_own_size() -> None:
    chance = random.Random(7)
    vocabulary = ["".join(chance.choices("aeiourstlnmdkp", k=chance.randint(2, 9))) for _ in range(3000)]

    async def work() -> None:
        made, state, whole = DeltaCheckpointer(), chat(0), 0
        for _ in range(200):
            for say in (Message.user, Message.assistant):
                state = state.with_message(say(" ".join(chance.choices(vocabulary, k=25))))
            await made.save(state, "t")
            whole += len(zlib.compress(json.dumps(state.to_checkpoint()).encode(), 6))
        assert (await made.get_storage_stats("t"))["compressed_size"] <= whole / 10
        await made.save(chat(499), "u", "a")
        await made.save(chat(500), "u", "b")
        known = await made.get_metadata("u", "b")
        assert known is not None
        assert known.compressed_size_bytes < 300

    run(work())


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
@pytest.mark.parametrize("changes", [0, 2, 4])
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


@pytest.mark.requirement("delta.cache")
def test_the_cache_is_bounded_in_states_and_bytes_and_believes_the_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = InMemoryDeltaStorage()
    one, other = DeltaCheckpointer(storage), DeltaCheckpointer(storage)
    for thread in range(100):
        run(one.save(chat(1), f"t{thread}", "c"))
    assert len(one._cache) == 64
    run(other.save(chat(5), "t99", "c"))
    assert run(one.load("t99", "c")) == chat(5)
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

    def note(name: str, call: Callable[..., Any], *args: Any) -> Any:
        if threading.get_ident() != loop:
            beside.add(name)
        return call(*args)

    names = {"_dump", "_pack_next", "_unpack_chain", "_load_state"}
    for name in names:
        monkeypatch.setattr(delta, name, functools.partial(note, name, getattr(delta, name)))
    made = filled(3)
    made._cache.clear()
    assert run(made.load("t", "c2")) == chat(3)
    assert beside == set()
    large = chat(1).with_metadata("text", "words " * 20_000)
    run(made.save(large, "t", "large"))
    assert run(DeltaCheckpointer(made.storage).load("t")) == large
    assert beside == names
    beside.clear()
    run(made.save(chat(1).with_metadata("numbers", list(range(30_000))), "t", "many"))
    assert "_dump" in beside


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


class Meddled(InMemoryDeltaStorage):
    """A storage to which something happens just before a checkpoint is retrieved."""

    meddle: Callable[[], Coroutine[Any, Any, Any]] | None = None

    async def retrieve(self, thread_id: str, checkpoint_id: str) -> DeltaCheckpoint | None:
        if checkpoint_id == "c0" and self.meddle is not None:
            happening, self.meddle = self.meddle, None
            await happening()
        return await super().retrieve(thread_id, checkpoint_id)


@pytest.mark.requirement("delta.resave")
@pytest.mark.parametrize("turn", [1, 5, 11])
def test_a_load_while_what_it_rests_on_is_saved_again_gives_the_state(turn: int) -> None:
    storage = Meddled()
    made = filled(12, storage=storage)
    shifted = chat(12).model_copy(update={"messages": chat(12).messages[3:]})
    for meddle in (lambda: made.save(shifted, "t", "c0"), lambda: made.delete("t", "c0")):
        reader = DeltaCheckpointer(storage)
        storage.meddle = meddle
        assert run(reader.load("t", f"c{turn}")) == chat(turn + 1)
    storage.meddle = None
    run(made.save(chat(7), "t", "c0"))
    storage.meddle = lambda: made.delete("t", "c0")
    assert run(DeltaCheckpointer(storage).load("t")) == chat(12)  # though the newest goes meanwhile


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


@pytest.mark.requirement("delta.delete", "delta.whole")
def test_any_sequence_of_saves_and_deletes_equals_a_dictionary() -> None:
    run_state_machine_as_test(Chains, settings=settings(max_examples=50, stateful_step_count=30))
