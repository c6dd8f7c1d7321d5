"""cofio: one durable, searchable memory for every agent, in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine
    from .errors import CofioError, Conflict, Invalid, LimitExceeded, NotFound, Unavailable
    from .model import Draft, Heading, Importance, Json, Kind, Record, Scope
    from .query import AllOf, AnyOf, Filter, Hit, Page, Query, Where
    from .settings import Settings

__version__ = "0.1.0"

__all__ = [
    "AllOf", "AnyOf", "CofioError", "Conflict", "Draft", "Engine", "Filter", "Heading", "Hit", "Importance", "Invalid",
    "Json", "Kind", "LimitExceeded", "NotFound", "Page", "Query", "Record", "Scope", "Settings", "Unavailable", "Where",
    "__version__",
]  # fmt: skip

_HOMES = {
    "engine": ("Engine",),
    "errors": ("CofioError", "Conflict", "Invalid", "LimitExceeded", "NotFound", "Unavailable"),
    "model": ("Draft", "Heading", "Importance", "Json", "Kind", "Record", "Scope"),
    "query": ("AllOf", "AnyOf", "Filter", "Hit", "Page", "Query", "Where"),
    "settings": ("Settings",),
}


def __getattr__(name: str) -> object:
    """Load the part that a public name lives in when it is first asked for: `import cofio` itself is cheap."""
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            value = getattr(import_module(f".{home}", __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
