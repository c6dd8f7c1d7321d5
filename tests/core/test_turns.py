"""Turns: one after the other, in the order of coming, and never for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest
from tests.waiting import PATIENCE, join, wait_until

from cofio.engine.turns import Turns


def start(work: Callable[[], None]) -> threading.Thread:
    """A thread that works."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    turns, order = Turns(patience=PATIENCE), list[int]()
    threads: list[threading.Thread] = []

    def take(number: int) -> None:
        with turns.take():
            order.append(number)

    with turns.take():
        for number in range(8):
            threads.append(start(partial(take, number)))
            wait_until(lambda: len(turns._waiting) == len(threads))
        assert order == []
    for thread in threads:
        join(thread)
    assert order == list(range(8))


def test_who_comes_back_at_once_waits_for_those_who_came_before() -> None:
    turns, order = Turns(patience=PATIENCE), list[str]()

    def take() -> None:
        with turns.take():
            order.append("other")

    with turns.take():
        thread = start(take)
        wait_until(lambda: bool(turns._waiting))
    with turns.take():
        order.append("again")
    join(thread)
    assert order == ["other", "again"]


def test_no_more_have_a_turn_at_once_than_may() -> None:
    turns, guard, there, most = Turns(2, patience=PATIENCE), threading.Lock(), 0, 0

    def take() -> None:
        nonlocal there, most
        for _ in range(200):
            with turns.take():
                with guard:
                    there += 1
                    most = max(most, there)
                with guard:
                    there -= 1

    threads = [start(take) for _ in range(5)]
    for thread in threads:
        join(thread)
    assert most <= 2
    assert not turns._holders
    assert not turns._waiting


def test_one_who_has_waited_long_goes_ahead_of_one_who_does_not_end() -> None:
    turns, order = Turns(patience=0.01), list[str]()

    def take() -> None:
        with turns.take():
            order.append("other")

    with turns.take():
        join(start(take))
        order.append("slow")
    assert order == ["other", "slow"]
    with turns.take():
        assert len(turns._holders) == 1  # the turn that was lost has been given back by no one twice


def test_a_turn_in_a_turn_ends() -> None:
    turns = Turns(patience=0.01)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(turns.take())
    assert not turns._holders
    assert not turns._waiting


def test_a_turn_that_failed_is_given_back() -> None:
    turns = Turns(patience=PATIENCE)
    with pytest.raises(KeyboardInterrupt), turns.take():
        raise KeyboardInterrupt
    with turns.take():
        pass
    assert not turns._holders
