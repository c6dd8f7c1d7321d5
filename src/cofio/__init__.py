"""cofio: one durable, searchable memory for every agent, in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config.settings import Settings
    from .engine.engine import Engine
    from .memory import AsyncMemory, Memory, Profile
    from .values.changes import Change, Delete, Drop, Edit, Extend, Put, Vacant
    from .values.errors import CofioError, Conflict, Invalid, LimitExceeded, NotFound, Unavailable
    from .values.query import AllOf, AnyOf, Filter, Hit, Page, Query, Where
    from .values.records import Draft, Heading, Importance, Json, Kind, Record, Scope

__version__ = "0.1.0"

__all__ = [
    "AllOf", "AnyOf", "AsyncMemory", "Change", "CofioError", "Conflict", "Delete", "Draft", "Drop", "Edit", "Engine",
    "Extend", "Filter", "Heading", "Hit", "Importance", "Invalid", "Json", "Kind", "LimitExceeded", "Memory",
    "NotFound", "Page", "Profile", "Put", "Query", "Record", "Scope", "Settings", "Unavailable", "Vacant", "Where",
    "__version__",
]  # fmt: skip

_HOMES = {
    "engine.engine": ("Engine",),
    "memory": ("AsyncMemory", "Memory", "Profile"),
    "values.changes": ("Change", "Delete", "Drop", "Edit", "Extend", "Put", "Vacant"),
    "values.errors": ("CofioError", "Conflict", "Invalid", "LimitExceeded", "NotFound", "Unavailable"),
    "values.records": ("Draft", "Heading", "Importance", "Json", "Kind", "Record", "Scope"),
    "values.query": ("AllOf", "AnyOf", "Filter", "Hit", "Page", "Query", "Where"),
    "config.settings": ("Settings",),
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


def __dir__() -> list[str]:
    return __all__
