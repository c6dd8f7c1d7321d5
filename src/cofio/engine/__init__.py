"""The engine: the verbs that every door calls, the search, and the background work."""

from .engine import Engine

__all__ = ["Engine"]
