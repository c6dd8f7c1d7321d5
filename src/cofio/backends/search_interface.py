"""What a search asks of a backend: one consistent view of the records, and candidates with their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..values.query import Bounds
from ..values.records import Record

if TYPE_CHECKING:
    from ..values.changes import Vector


class Match(NamedTuple):
    """A candidate: the record's number in the backend, its score by one signal, and how telling that is.

    Relevance is from 0 to 1 and can be compared between queries: by words, the share of the query's rarest words
    that the record holds, whatever its length; by vectors, the cosine.
    """

    no: int
    score: float
    relevance: float


class Brief(NamedTuple):
    """What ranking needs to know of a candidate. A search makes hundreds, so it is a tuple, which is cheap to make."""

    no: int
    id: str
    scope: int
    parent: str | None
    position: int | None
    author: str
    created_at: int
    """Microseconds since 1970, UTC."""
    words: int
    """How many words it is found by."""
    seq: int
    """Its last change."""
    text_seq: int
    """The last change of what its vector is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Derived work that is still to do."""

    lost_words: bool
    """Whether some records cannot be found by words until the index is rebuilt."""
    vectors: int
    """Records within bounds that have no vector of their present text; counted no further than `MANY`."""
    many: bool
    """Whether there are so many without a vector that they were not counted."""


class View(Protocol):
    """One consistent look at the records."""

    now: datetime
    """The moment that expiry is judged by."""

    def keyword(self, words: Sequence[str], bounds: Bounds, limit: int) -> list[Match]:
        """The best candidates by words."""

    def semantic(self, vector: Vector, embedder: str, bounds: Bounds, limit: int) -> list[Match]:
        """The nearest candidates by vector, with their cosine."""

    def cosines(self, vector: Vector, embedder: str, nos: Sequence[int]) -> dict[int, float]:
        """The cosine of each of these candidates that has a vector."""

    def nearest(self, vector: Sequence[float], bounds: Bounds, limit: int) -> list[Match]:
        """The records whose given vectors are nearest to this one, by the cosine of the nearest of each.

        Vectors of another size cannot be compared with it, and count as none.
        """

    def briefs(self, nos: Sequence[int]) -> dict[int, Brief]:
        """What ranking needs to know of these candidates."""

    def neighbours(self, of: Sequence[Brief], reach: int, bounds: Bounds) -> list[Brief]:
        """The records within bounds that stand up to `reach` positions from these under the same parent."""

    def records(self, nos: Sequence[int]) -> dict[int, Record]:
        """The records with these numbers."""

    def in_sessions(self) -> bool:
        """Whether any record stands under another, so that what is around it may count."""

    def backlog(self, embedder: str | None, bounds: Bounds) -> Backlog:
        """What a search within these bounds cannot see yet."""
