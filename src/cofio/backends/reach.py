"""Which scopes the caller at hand may see: a backend that can holds its transactions to them, whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from ..values.errors import Invalid
from ..values.records import Scope, check_scope

_reach: ContextVar[Sequence[Scope]] = ContextVar("cofio_reach", default=(Scope(),))


def get_reach() -> Sequence[Scope]:
    """Return the scopes that the caller may see, with all under them; the root for everything."""
    return _reach.get()


@contextmanager
def restrict(scopes: Sequence[Scope]) -> Iterator[None]:
    """Let the block see these scopes and all under them, and nothing else.

    Raises:
        Invalid: there is none, or something that is no scope.
    """
    if not scopes:
        raise Invalid("scopes", "is empty; name at least one scope")
    for scope in scopes:
        check_scope(scope)
    token = _reach.set(tuple(scopes))
    try:
        yield
    finally:
        _reach.reset(token)
