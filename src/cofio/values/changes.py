"""What a caller can change in one transaction: Put, Edit, Delete, Drop, Vacant, Extend, which check themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from .errors import Invalid
from .records import MAX_ID, MAX_KEY, Draft, Kind, Scope, check_int, check_scope, check_text, check_time, member

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]

PutMode = Literal["new", "key", "restore"]
OnDuplicate = Literal["store", "return", "report"]
_MODES, _ON_DUPLICATE = get_args(PutMode), get_args(OnDuplicate)

EDITABLE = frozenset(field.name for field in fields(Draft)) - {
    "id", "kind", "created_at", "updated_at", "version", "given",
}  # fmt: skip
_LONGEST_TTL = timedelta(days=365_000)


class PrecomputedVector(NamedTuple):
    """A record's vector of length one that was computed elsewhere, and the id of its embedder."""

    embedder: str
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Store a draft: as a new record, in place of the one with its key, or as the record it once was.

    `if_version` is the version that the key's record must have; 0 means that there must be none. The `vector` of a
    restored draft is stored if its record has that very text, and no vector of it yet.
    """

    draft: Draft
    how: PutMode = "new"
    if_version: int | None = None
    ttl: timedelta | None = None
    """How long the record lasts from the moment of the transaction, in place of the draft's `expires_at`."""
    on_duplicate: OnDuplicate = "store"
    """When the scope has a record of the kind with the same text: store the draft all the same; return that record with
    `existed` set, unless the draft has a key; or store the draft, and report that record as similar to it."""
    vector: PrecomputedVector | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.draft, Draft):
            raise Invalid("drafts", f"expected Draft, got {type(self.draft).__name__}")
        if self.how not in _MODES:
            raise Invalid("how", f"{self.how!r} is not one of {', '.join(_MODES)}")
        if self.on_duplicate not in _ON_DUPLICATE:
            raise Invalid("on_duplicate", f"{self.on_duplicate!r} is not one of {', '.join(_ON_DUPLICATE)}")
        draft = self.draft
        if self.how == "key" and draft.key is None:
            raise Invalid("key", "is missing; what takes the place of a key's record needs the key")
        if self.how == "restore" and (draft.id is None or draft.version is None or draft.updated_at is None):
            raise Invalid("drafts", "a record to restore needs its id, version and updated_at")
        _check_version(self.if_version)
        _check_ttl(self.ttl, draft.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Change some fields of a record, among them its scope and key."""

    id: str
    fields: Mapping[str, object]
    if_version: int | None = None
    ttl: timedelta | None = None
    """How long the record lasts from the moment of the transaction, in place of an `expires_at` among the fields."""

    def __post_init__(self) -> None:
        check_text("id", self.id, MAX_ID)
        if not isinstance(self.fields, Mapping):
            raise Invalid("fields", f"expected values by the names of fields, got {type(self.fields).__name__}")
        for name in self.fields:
            if name not in EDITABLE:
                raise Invalid(str(name), f"cannot be changed; an edit takes {', '.join(sorted(EDITABLE))}")
        object.__setattr__(self, "fields", dict(self.fields))  # what was checked, whatever becomes of the caller's
        _check_version(self.if_version)
        _check_ttl(self.ttl, self.fields.get("expires_at"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Forget one record."""

    id: str
    if_version: int | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id, MAX_ID)
        _check_version(self.if_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Forget a scope and all that is under it."""

    scope: Scope

    def __post_init__(self) -> None:
        check_scope(self.scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacant:
    """Require that no record of the scope and kind has a key from `first` up to, and without, `past`."""

    scope: Scope
    kind: Kind
    first: str
    past: str

    def __post_init__(self) -> None:
        check_scope(self.scope)
        object.__setattr__(self, "kind", member(Kind, "kind", self.kind))
        check_text("first", self.first, MAX_KEY + 1)  # the end of a range may be a key and one character more
        check_text("past", self.past, MAX_KEY + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Let a record expire at another time, or after another `ttl`, or never, without a new version.

    Reading a record may do that. Nothing happens when there is no such record.
    """

    id: str
    expires_at: datetime | None = None
    ttl: timedelta | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id, MAX_ID)
        check_time("expires_at", self.expires_at)
        _check_ttl(self.ttl, self.expires_at)


Change: TypeAlias = Put | Edit | Delete | Drop | Vacant | Extend


def normalize_ttl(ttl: float | timedelta | None) -> timedelta | None:
    """A lifetime in seconds, or a timedelta, as a timedelta of a microsecond or more; Invalid for what is none."""
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float | timedelta):
        raise Invalid("ttl", f"expected seconds or a timedelta, got {type(ttl).__name__}")
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not 0 < seconds <= _LONGEST_TTL.total_seconds():
        raise Invalid("ttl", "is not within 0 to 1,000 years")
    return max(timedelta(seconds=seconds), timedelta.resolution)


def _check_ttl(ttl: timedelta | None, expires_at: object) -> None:
    if ttl is None:
        return
    if not isinstance(ttl, timedelta):
        raise Invalid("ttl", f"expected a timedelta, got {type(ttl).__name__}")
    if expires_at is not None:
        raise Invalid("ttl", "give ttl or expires_at, not both")
    normalize_ttl(ttl)


def _check_version(version: int | None) -> None:
    if version is not None:
        check_int("if_version", version, 0, 2**53)
