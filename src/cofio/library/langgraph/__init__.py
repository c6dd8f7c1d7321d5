"""LangGraph on a cofio store: a checkpointer that graphs go on from, and a store that they remember with.

LangGraph takes a while to import, and comes with the extra `langgraph`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .saver import CofioSaver as CofioSaver
    from .store import CofioLangGraphStore as CofioLangGraphStore

__all__ = ["CofioLangGraphStore", "CofioSaver"]

_MODULES = {"CofioLangGraphStore": "store", "CofioSaver": "saver"}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__]
