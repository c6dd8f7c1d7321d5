"""The lock that searches take: in the order of asking, and never for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest
from tests.waiting import PATIENCE, join, wait_until

from cofio.engine.fair_lock import FairLock


def start(work: Callable[[], None]) -> threading.Thread:
    """A thread that works."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def append(lock: FairLock, order: list[str], name: str) -> None:
    """Take the lock and note it."""
    with lock.hold():
        order.append(name)


def test_threads_get_it_in_the_order_in_which_they_asked() -> None:
    lock, order = FairLock(patience=PATIENCE), list[str]()
    threads: list[threading.Thread] = []
    with lock.hold():
        for name in "abcdefgh":
            threads.append(start(partial(append, lock, order, name)))
            wait_until(lambda: len(lock._waiting) == len(threads))
        assert order == []
    join(*threads)
    assert order == list("abcdefgh")


def test_a_thread_that_comes_back_at_once_waits_for_those_who_asked_before() -> None:
    lock, order = FairLock(patience=PATIENCE), list[str]()
    with lock.hold():
        thread = start(partial(append, lock, order, "other"))
        wait_until(lambda: bool(lock._waiting))
    append(lock, order, "again")
    join(thread)
    assert order == ["other", "again"]


def test_who_need_not_have_it_waits_only_behind_many() -> None:
    lock, order = FairLock(patience=PATIENCE), list[str]()

    def write() -> None:
        lock.let_others_go()
        order.append("write")

    with lock.hold():
        first = start(partial(append, lock, order, "first"))
        wait_until(lambda: len(lock._waiting) == 1)
        write()
        second = start(partial(append, lock, order, "second"))
        wait_until(lambda: len(lock._waiting) == 2)
        behind = start(write)
        wait_until(lambda: len(lock._waiting) == 3)
    join(first, second, behind)
    assert order == ["write", "first", "second", "write"]
    assert lock._holder is None


def test_only_one_thread_has_it() -> None:
    lock, guard, there, most = FairLock(patience=PATIENCE), threading.Lock(), 0, 0

    def take() -> None:
        nonlocal there, most
        for _ in range(200):
            with lock.hold():
                with guard:
                    there += 1
                    most = max(most, there)
                with guard:
                    there -= 1

    join(*[start(take) for _ in range(5)])
    assert most == 1
    assert lock._holder is None
    assert not lock._waiting


def test_a_thread_that_has_waited_long_goes_ahead_of_a_search_that_does_not_end() -> None:
    lock, order = FairLock(patience=0.01), list[str]()
    with lock.hold():
        join(start(partial(append, lock, order, "other")))
        order.append("slow")
    assert order == ["other", "slow"]
    with lock.hold():
        late = start(partial(append, lock, order, "late"))
    join(late)
    assert order[-1] == "late"
    assert lock._holder is None


def test_a_search_within_a_search_ends() -> None:
    lock = FairLock(patience=0.01)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(lock.hold())
    assert lock._holder is None
    assert not lock._waiting


def test_a_search_that_fails_gives_it_back() -> None:
    lock = FairLock(patience=PATIENCE)
    with pytest.raises(KeyboardInterrupt), lock.hold():
        raise KeyboardInterrupt
    assert lock._holder is None
