"""Which threads count as busy: background work stands back for those that are at work, not for those that wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import anyio
import pytest
from tests.waiting import PATIENCE, join, wait_until

from cofio.doors.web.overload import ServerLoad
from cofio.doors.web.workers import Workers
from cofio.llm import Model
from cofio.system.busy_threads import BusyThreads, wait_elsewhere
from cofio.values.errors import CofioError


class Display:
    """Shows the number that was last reported."""

    def __init__(self) -> None:
        self.count = 0

    def show(self, count: int) -> None:
        self.count = count


@pytest.fixture
def display() -> Display:
    """What the count is shown on."""
    return Display()


@pytest.fixture
def workers(display: Display) -> Iterator[Workers]:
    """The threads of a door whose work is counted."""
    made = Workers(2, "test", ServerLoad(BusyThreads(display.show)).find_door("test"))
    yield made
    made.shut_down(wait=True)


def test_a_thread_counts_while_it_works_and_not_while_it_waits_elsewhere(display: Display, workers: Workers) -> None:
    seen: list[int] = []

    def work() -> None:
        seen.append(display.count)
        with wait_elsewhere():
            seen.append(display.count)
            with wait_elsewhere():
                seen.append(display.count)
        seen.append(display.count)

    anyio.run(workers.run, work)
    assert (seen, display.count) == ([1, 0, 0, 1], 0)


def test_a_call_that_fails_is_not_counted_any_more(display: Display, workers: Workers) -> None:
    def fail() -> None:
        with wait_elsewhere():
            raise KeyError("x")

    with pytest.raises(KeyError):
        anyio.run(workers.run, fail)
    assert display.count == 0


def test_a_thread_that_no_one_counts_may_wait_too(display: Display) -> None:
    with wait_elsewhere():
        assert display.count == 0


def test_who_waits_for_a_model_is_not_at_work(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        model = Model(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", "silent", "")
        threads = BusyThreads(display.show)
        has_begun, may_ask = threading.Event(), threading.Event()

        def ask() -> None:
            with threads.work():
                has_begun.set()
                may_ask.wait(PATIENCE)
                with pytest.raises(CofioError):
                    model.describe(b"x", "image/png", name=None, hint="")

        thread = threading.Thread(target=ask)
        thread.start()
        assert has_begun.wait(PATIENCE)
        assert display.count == 1
        may_ask.set()
        with closing(listener.accept()[0]):
            wait_until(lambda: display.count == 0)
            model.close()
            join(thread)
        assert display.count == 0
