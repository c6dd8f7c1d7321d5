"""What records ask of a backend: a consistent snapshot to read, and a transaction of rows to change.

What a change means is not decided here, but in `rules`, over these rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ..values.query import Bounds, Window
from ..values.records import Heading, Kind, Record, Scope

if TYPE_CHECKING:
    from ..values.changes import Vector
    from .checkpoint_interface import CheckpointRows

Records: TypeAlias = list[Record]  # inside of Snapshot, `list` is a verb
Headings: TypeAlias = list[Heading]
GivenVectors: TypeAlias = Mapping[str, tuple[float, ...]]
"""Vectors that a caller gave with a record, by the part of the record that each is of."""


class ChangeNumbers(NamedTuple):
    """The changes of its store that made a record what it is, by their numbers."""

    first: int
    last: int
    restated: int
    """The last that changed what its vector is made of."""


class PreparedText(NamedTuple):
    """What is worked out of a draft before a transaction begins, because it takes the longest."""

    words: int
    """How many words the record is found by."""
    digest: bytes
    """Equal for records that count as duplicates, of one scope and kind."""
    tags: str
    """JSON."""
    data: str
    """JSON."""


class Snapshot(Protocol):
    """The records and checkpoints as of one moment, with every write that was acknowledged before it, by any process.

    Ids and keys are ordered by the bytes of their UTF-8 form, in every range, list and comparison, whatever the
    language of the machine.
    """

    @property
    def now(self) -> datetime:
        """The moment that expiry is judged by."""

    @property
    def checkpoints(self) -> CheckpointRows:
        """The checkpoints."""

    def by_id(self, record_id: str) -> Record | None:
        """The record with this id, even if it has expired."""

    def by_ids(self, record_ids: Sequence[str]) -> Mapping[str, Record]:
        """The records with these ids, by them, even if they have expired; what there is not is left out."""

    def by_key(self, scope: Scope, kind: Kind, key: str) -> Record | None:
        """The record with this key, even if it has expired."""

    def by_digest(self, scope: Scope, kind: Kind, digest: bytes) -> Record | None:
        """The oldest record of the scope and kind with this digest that has not expired."""

    def ids(self, prefix: str, limit: int) -> list[str]:
        """The ids that begin so, in their order, of what has not expired."""

    def adjacent_ids(self, record_id: str) -> tuple[str, str]:
        """The ids next before and next after this one in their order, also of what has expired; "" for none."""

    def list(self, bounds: Bounds, window: Window) -> Records:
        """Records within bounds that have not expired."""

    def headings(self, bounds: Bounds, window: Window) -> Headings:
        """The same without their texts, which are not read."""

    def count(self, bounds: Bounds) -> int:
        """How many records within bounds have not expired."""

    def count_by_time(self, bounds: Bounds, step: int) -> Sequence[tuple[int, str, int]]:
        """How many records within bounds were created in each step of this many microseconds, counted from 1970.

        For each step and kind that has any, in the order of time: when the step begins, the kind, and their number.
        """

    def scopes(self, under: Scope, kinds: Sequence[Kind] = ()) -> Sequence[tuple[Scope, int]]:
        """Each scope that holds records, of these kinds if any are named, with their number."""

    def given_vectors(self, record_id: str) -> GivenVectors:
        """The vectors that were given with a record."""

    def made_vectors(self, embedder: str, record_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors that an embedder made of the present texts of records, by their ids, as far as there are some."""


class Transaction(Snapshot, Protocol):
    """A snapshot that can be changed: rows, and no rules."""

    def first_key(self, scope: Scope, kind: Kind, first: str, past: str) -> tuple[str, int] | None:
        """The lowest key from `first` up to, and without, `past` that has not expired, and its record's version."""

    def insert(self, record: Record, text: PreparedText, given: GivenVectors) -> None:
        """Add a record. There is none with its id, nor with its scope, kind and key."""

    def update(self, record: Record, text: PreparedText, given: GivenVectors | None, *, restated: bool) -> None:
        """Write a record in place of the one with its id, with these given vectors; None leaves those it has.

        `restated` says that it means something else than before, so that its vectors are out of date.
        """

    def delete(self, record_id: str) -> int:
        """Delete a record, with everything derived from it; how many there were."""

    def drop_scope(self, scope: Scope) -> int:
        """Delete the records of a scope and all under it, also what has expired; how many there were."""

    def set_expiry(self, record_id: str, expires_at: datetime | None) -> None:
        """Let a record expire at this time, or never, unless it has expired already."""

    def store_vectors(self, embedder: str, vectors: Mapping[str, Vector], codes: Mapping[str, bytes]) -> None:
        """Store vectors, all of one size, by the ids of their records, where a record has none of its present text.

        Some may come with the codes of their text's tokens.
        """
