"""The backends by the names and at the place that programs written for locus import them from.

Each is loaded when it is asked for, as its driver need not be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .providers.file import FileCheckpointer
    from .providers.http import HTTPCheckpointer
    from .providers.memory import MemoryCheckpointer
    from .providers.postgresql import PostgreSQLBackend
    from .providers.redis_backend import RedisBackend

__all__ = ["FileCheckpointer", "HTTPCheckpointer", "MemoryCheckpointer", "PostgreSQLBackend", "RedisBackend"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("cofio.library"), name)


def __dir__() -> list[str]:
    return [*__all__]
