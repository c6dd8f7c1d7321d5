"""Checkpoints in memory, and what memory and files have in common with a dict."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import join

from cofio.library.checkpointer import BaseCheckpointer
from cofio.library.providers.file import FileCheckpointer
from cofio.library.providers.memory import MemoryCheckpointer

from ...conftest import Clock
from .test_contract import said

pytestmark = pytest.mark.anyio

THREADS = st.sampled_from(["t", "T", "a/b", "../t"])
IDS = st.sampled_from(["1", "2", "é", "E\u0301", ".", "x" * 300])
STEPS = st.one_of(
    st.tuples(st.just("save"), THREADS, IDS),
    st.tuples(st.just("delete"), THREADS, IDS | st.none()),
    st.tuples(st.just("copy"), THREADS, THREADS),
)


@pytest.mark.requirement("memory.extras")
async def test_memory_counts_lists_and_clears() -> None:
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
async def test_vacuum_keeps_what_was_saved_again_since(kind: str, tmp_path: Path) -> None:
    clock = Clock()
    checkpointer: BaseCheckpointer
    checkpointer = MemoryCheckpointer(clock=clock) if kind == "memory" else FileCheckpointer(tmp_path, clock=clock)
    for name in ("old", "again"):
        await checkpointer.save(said("x"), "t", name)
    clock.advance(30 * 86_400)
    await checkpointer.save(said("x"), "t", "again")
    assert await checkpointer.vacuum(30) == 0
    clock.advance(1)
    assert await checkpointer.vacuum(10**9) == 0
    assert await checkpointer.vacuum() == 1
    assert await checkpointer.list_checkpoints("t") == ["again"]


@pytest.mark.requirement("checkpointers.model")
@settings(max_examples=40)
@given(st.lists(STEPS, max_size=20))
def test_any_sequence_of_saves_deletes_and_copies_equals_a_dict(steps: list[tuple[str, str, str | None]]) -> None:
    async def test(folder: str) -> None:
        checkpointers: tuple[BaseCheckpointer, ...] = MemoryCheckpointer(), FileCheckpointer(folder, pretty=False)
        threads: dict[str, dict[str, int]] = {}  # for each its ids, oldest first, with the number of the step
        for number, (verb, thread, other) in enumerate(steps):
            kept = threads.setdefault(thread, {})
            there = bool(kept) if other is None else other in kept
            if verb == "delete":
                threads[thread] = {each: n for each, n in kept.items() if other not in (None, each)}
            elif verb == "save":
                kept.pop(str(other), None)
                kept[str(other)] = number
            elif threads.get(str(other)):
                continue  # there is no room for a copy
            else:
                threads[str(other)] = dict(kept)
            for each in checkpointers:
                if verb == "delete":
                    assert await each.delete(thread, other) is there
                elif verb == "save":
                    await each.save(said(iteration=number), thread, other)
                else:
                    assert await each.copy_thread(thread, str(other)) is bool(kept)
        for each in checkpointers:
            for thread, kept in threads.items():
                newest = [*reversed(kept)]
                assert await each.list_checkpoints(thread, limit=100) == newest
                assert await each.exists(thread) == bool(kept)
                for name in ("", *newest) if newest else ():
                    loaded = await each.load(thread, name or None)
                    assert loaded is not None
                    assert loaded.iteration == kept[name or newest[0]]
            assert set(await each.list_threads()) == {thread for thread, kept in threads.items() if kept}

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(test(folder))
