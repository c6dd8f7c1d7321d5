"""The engine: the verbs that every door calls, the search, and the background work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["Engine"]


def __getattr__(name: str) -> object:
    """Load the Engine when it is first asked for: whether there is a store can be known without it."""
    if name != "Engine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .engine import Engine

    return Engine
