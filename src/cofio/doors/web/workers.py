"""How a door leaves the event loop: what may take time runs in one of a few threads of the door's own."""

from __future__ import annotations

import threading
from asyncio import get_running_loop
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class Workers:
    """Threads for one kind of work, of which no more than `count` is done at once.

    They are an executor's rather than anyio's: to hand work to those costs twice as much.
    """

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, name)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` in one of the threads, and return what it returns.

        Work should return its failures, not raise them: what leaves a thread as an exception keeps a request's body in
        memory for long.
        """
        return await get_running_loop().run_in_executor(self._pool, work)

    def shut_down(self, *, wait: bool) -> None:
        """Begin nothing any more; with `wait`, wait for what has begun."""
        self._pool.shutdown(wait=wait, cancel_futures=True)


def end_workers(all_workers: Sequence[Workers], seconds: float) -> None:
    """Let nothing more begin, and wait for what has begun, but no longer than `seconds`."""
    for workers in all_workers:
        workers.shut_down(wait=False)

    def wait_for_all() -> None:
        for workers in all_workers:
            workers.shut_down(wait=True)

    # A pool is waited for without limit, or not at all: so a thread waits that need not be waited for.
    waiter = threading.Thread(target=wait_for_all, name="cofio-workers-end", daemon=True)
    waiter.start()
    waiter.join(seconds)
