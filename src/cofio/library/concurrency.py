"""From a coroutine to the engine, which is synchronous, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `call` returns, run in a thread so that the event loop goes on meanwhile."""
    return await asyncio.to_thread(call, *args, **kwargs)
