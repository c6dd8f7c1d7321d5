"""What can go wrong, as five types that carry data; each door finds its own words for them."""

from __future__ import annotations

from typing import Literal

StorageTrouble = Literal["disk full", "locked"]
"""Why a store refuses writes for a while: its disk is full, or another process holds its write lock."""


class CofioError(Exception):
    """Anything that cofio raises on purpose."""


class NotFound(CofioError):
    """Nothing has this id, or it has expired."""

    def __init__(self, what: str) -> None:
        super().__init__(f"nothing found with id {what!r}")
        self.what = what


class Conflict(CofioError):
    """The record is not at the version that the caller expected; nothing was changed."""

    def __init__(self, what: str, *, expected: int | None = None, found: int | None = None) -> None:
        detail = "" if expected is None else f": expected version {expected}, found {found}"
        super().__init__(f"{what} has changed{detail}")
        self.what = what
        self.expected = expected
        self.found = found


class Invalid(CofioError):
    """The input can never be accepted; `field` names the part that is wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class LimitExceeded(Invalid):
    """The input is larger than the documented limit for its field."""

    def __init__(self, field: str, limit: int, unit: str = "characters") -> None:
        super().__init__(field, f"longer than the limit of {limit:,} {unit}")
        self.limit = limit
        self.unit = unit


class Unavailable(CofioError):
    """Something needed is missing, full or failing; the message says what would help.

    The message may name a folder of this machine. `public` is what a client elsewhere may be told instead, if anything.
    `trouble` is set when a store refuses a write for a while.
    """

    def __init__(self, message: str, *, public: str | None = None, trouble: StorageTrouble | None = None) -> None:
        super().__init__(message)
        self.public = public
        self.trouble = trouble

    @property
    def is_logged(self) -> bool:
        """Whether who raised it has logged it, once."""
        return self.public is not None and self.trouble is None
