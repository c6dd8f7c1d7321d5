"""Checkpoints in memory, and what memory and files have in common with a dict."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waiting import join

from cofio.library.checkpointer import BaseCheckpointer
from cofio.library.providers.file import FileCheckpointer
from cofio.library.providers.memory import MemoryCheckpointer

from ...conftest import Clock
from .test_contract import said

THREADS = st.sampled_from(["t", "T", "a/b", "../t"])
IDS = st.sampled_from(["1", "2", "é", "E\u0301", ".", "x" * 300])
STEPS = st.one_of(
    st.tuples(st.just("save"), THREADS, IDS),
    st.tuples(st.just("delete"), THREADS, IDS | st.none()),
    st.tuples(st.just("copy"), THREADS, THREADS),
)


@pytest.mark.requirement("memory.extras")
def test_memory_counts_lists_and_clears() -> None:
    async def test() -> None:
        checkpointer = MemoryCheckpointer()
        for name in ("a", "b", "a"):
            await checkpointer.save(said("x"), name)
        assert checkpointer.get_thread_ids() == ["a", "b"]
        assert checkpointer.get_checkpoint_count() == 3
        assert checkpointer.get_checkpoint_count("a") == 2
        assert checkpointer.get_checkpoint_count("nope") == 0
        assert repr(checkpointer) == "MemoryCheckpointer(threads=2, checkpoints=3)"
        (one,) = await checkpointer.list_checkpoints("b")
        await checkpointer.delete("b", one)
        assert checkpointer.get_thread_ids() == ["a"]
        checkpointer.clear()
        assert checkpointer.get_checkpoint_count() == 0
        assert await checkpointer.load("a") is None

    asyncio.run(test())


@pytest.mark.requirement("checkpointers.concurrent")
def test_event_loops_in_several_threads_can_share_one() -> None:
    checkpointer = MemoryCheckpointer()

    def work(number: int) -> None:
        async def saving() -> None:
            for each in range(50):
                await checkpointer.save(said("x"), "t", f"{number}-{each}")
                await checkpointer.list_checkpoints("t")
                await checkpointer.list_with_metadata()

        asyncio.run(saving())

    workers = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for each in workers:
        each.start()
    join(*workers)
    assert checkpointer.get_checkpoint_count("t") == 200


@pytest.mark.requirement("checkpointers.vacuum")
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_vacuum_keeps_what_was_saved_again_since(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    checkpointer: BaseCheckpointer
    checkpointer = MemoryCheckpointer(clock=clock) if kind == "memory" else FileCheckpointer(tmp_path, clock=clock)

    async def test() -> None:
        for name in ("old", "again"):
            await checkpointer.save(said("x"), "t", name)
        clock.advance(30 * 86_400)
        await checkpointer.save(said("x"), "t", "again")
        assert await checkpointer.vacuum(30) == 0
        clock.advance(1)
        assert await checkpointer.vacuum(10**9) == 0
        assert await checkpointer.vacuum() == 1
        assert await checkpointer.list_checkpoints("t") == ["again"]

    asyncio.run(test())


class Model:
    """What a checkpointer should hold: for each thread its ids, oldest first, with the number of the step."""

    def __init__(self, *checkpointers: BaseCheckpointer) -> None:
        self.threads: dict[str, dict[str, int]] = {}
        self.checkpointers = checkpointers

    async def save(self, thread: str, name: str, number: int) -> None:
        """Save a state with a number in it."""
        kept = self.threads.setdefault(thread, {})
        kept.pop(name, None)
        kept[name] = number
        for each in self.checkpointers:
            await each.save(said(iteration=number), thread, name)

    async def delete(self, thread: str, name: str | None) -> None:
        """Delete a checkpoint, or a thread."""
        kept = self.threads.get(thread, {})
        there = bool(kept) if name is None else name in kept
        self.threads[thread] = {each: number for each, number in kept.items() if name not in (None, each)}
        for each in self.checkpointers:
            assert await each.delete(thread, name) is there

    async def copy(self, thread: str, target: str) -> None:
        """Copy a thread, where there is room."""
        if not self.threads.get(target):
            self.threads[target] = dict(self.threads.get(thread, {}))
            for each in self.checkpointers:
                assert await each.copy_thread(thread, target) is bool(self.threads[target])

    async def check(self, checkpointer: BaseCheckpointer) -> None:
        """Compare all that there is."""
        for thread, kept in self.threads.items():
            newest = [*reversed(kept)]
            assert await checkpointer.list_checkpoints(thread, limit=100) == newest
            assert await checkpointer.exists(thread) == bool(kept)
            latest = await checkpointer.load(thread)
            assert (None if latest is None else latest.iteration) == (kept[newest[0]] if kept else None)
            for name, number in kept.items():
                loaded = await checkpointer.load(thread, name)
                assert loaded is not None
                assert loaded.iteration == number
        assert set(await checkpointer.list_threads()) == {thread for thread, kept in self.threads.items() if kept}


@pytest.mark.requirement("checkpointers.model")
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=20))
def test_any_sequence_of_saves_deletes_and_copies_equals_a_dict(steps: list[tuple[str, str, str | None]]) -> None:
    async def test(folder: str) -> None:
        model = Model(MemoryCheckpointer(), FileCheckpointer(folder, pretty=False))
        for number, (verb, thread, other) in enumerate(steps):
            if verb == "delete":
                await model.delete(thread, other)
            elif verb == "save":
                await model.save(thread, str(other), number)
            else:
                await model.copy(thread, str(other))
        for each in model.checkpointers:
            await model.check(each)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(test(folder))
