"""Calls wait in turn for the threads of a door."""

from __future__ import annotations

import asyncio
from threading import Event

from cofio.http.admission import CallQueue, ServerLoad


def test_calls_that_are_cancelled_together_take_no_thread_with_them() -> None:
    async def cancel_all() -> str:
        queue, is_free = CallQueue(1, "test", ServerLoad()), Event()
        calls = [asyncio.create_task(queue.run(is_free.wait)) for _ in range(5)]
        await asyncio.sleep(0)  # each has come as far as its turn
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        is_free.set()
        assert {type(each) for each in ended} == {asyncio.CancelledError}
        return await queue.run(lambda: "answered")

    assert asyncio.run(cancel_all()) == "answered"
