"""Which threads count as busy: background work stands back for those that are at work, not for those that wait."""

from __future__ import annotations

import anyio
import pytest

from cofio.doors.web.overload import ServerLoad
from cofio.doors.web.workers import Workers
from cofio.system.busy_threads import BusyThreads, wait_elsewhere


def test_a_thread_counts_while_it_works_and_not_while_it_waits_elsewhere_or_has_failed() -> None:
    counts = [0]
    workers = Workers(2, "test", ServerLoad(BusyThreads(counts.append)).find_door("test"))
    seen: list[int] = []

    def work() -> None:
        seen.append(counts[-1])
        with wait_elsewhere():
            seen.append(counts[-1])
            with wait_elsewhere():
                seen.append(counts[-1])
        seen.append(counts[-1])
        with wait_elsewhere():
            raise KeyError("x")

    with pytest.raises(KeyError):
        anyio.run(workers.run, work)
    assert (seen, counts[-1]) == ([1, 0, 0, 1], 0)
    with wait_elsewhere():  # in a thread that nobody counts
        assert counts[-1] == 0
    workers.shut_down(wait=True)
