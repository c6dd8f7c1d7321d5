"""What a caller can change in one transaction: Put, Edit, Delete, Drop, Vacant, Extend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from .records import Draft, Kind, Scope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]


class Made(NamedTuple):
    """A vector that need not be made: the embedder that it is of, and itself, of length one."""

    embedder: str
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Store a draft: as a new record, in place of the one with its key, or as the record it once was.

    `if_version` is the version that the key's record must have; 0 means that there must be none. The `vector` of a
    restored draft is kept if its record has that very text, and no vector of it yet.
    """

    draft: Draft
    how: Literal["new", "key", "restore"] = "new"
    if_version: int | None = None
    dedupe: bool = False
    same: bool = False
    """Whether the answer is to name a record of the scope and kind with the same text."""
    vector: Made | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Change some fields of a record, among them its scope and key."""

    id: str
    fields: Mapping[str, object]
    if_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Forget one record."""

    id: str
    if_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Forget a scope and all that is under it."""

    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacant:
    """Go on only while no record of the scope and kind has a key from `first` up to, and without, `past`."""

    scope: Scope
    kind: Kind
    first: str
    past: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Let a record expire at another time, or never, without a new version: reading it may do that.

    Nothing happens to one that is not there any more.
    """

    id: str
    expires_at: datetime | None


Change: TypeAlias = Put | Edit | Delete | Drop | Vacant | Extend
