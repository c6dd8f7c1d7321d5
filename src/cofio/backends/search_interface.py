"""What a search asks of a backend: candidates with their scores, what is around them, and their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..text.bm25 import WordScore
from ..values.records import Record

if TYPE_CHECKING:
    from ..values.changes import Vector

CONTENT_CHARACTERS = 1200  # of a record's title and text that ranking reads


class Candidate(NamedTuple):
    """What ranking needs to know of a record. A search makes hundreds, so it is a tuple, which is cheap to make.

    Where no record of the store has a parent, its row and id are all that is needed, and the rest may be left out.
    """

    row: int
    """The record's number in the backend; a newer record has a higher one."""
    id: str
    scope: int = 0
    """The backend's number for the record's scope."""
    parent: str | None = None
    position: int | None = None
    author: str = ""
    created_at: int = 0
    """Microseconds since 1970, UTC."""


class Content(NamedTuple):
    """What ranking reads of a record: the beginning of its text, and the codes of its tokens."""

    text: str
    """The title, a line break and the text, as far as CONTENT_CHARACTERS."""
    created_at: int
    """Microseconds since 1970, UTC."""
    codes: bytes | None
    """What `embed.token_codes` made of the tokens; None where there is nothing of the present text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Derived work that is still to do, and keeps a search from seeing everything."""

    lost_words: bool
    """Whether some records cannot be found by words until the index is rebuilt."""
    vectors: int
    """Records within bounds that have no vector of their present text, as far as they were counted."""
    many: bool
    """Whether too many have no vector to count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The records that a query may mean, by their row."""

    keyword: dict[int, WordScore]
    """The best by words, best first, and of equals the newer."""
    semantic: dict[int, float]
    """The cosine of each of the nearest by vector, and of those of the best by words that have a vector."""
    nearest: int | None
    """How many the vector brought; None when there was none to compare with."""
    rows: dict[int, Candidate]
    """What ranking needs to know of each, first of those by words."""
    weights: dict[str, float]
    """How much each word that was looked up tells: its idf among the records of the scope within bounds."""
    backlog: Backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Records that stand near candidates and are none themselves, and what is in these and in some candidates."""

    rows: dict[int, Candidate]
    semantic: dict[int, float]
    """The cosine of those that have a vector."""
    contents: dict[int, Content]
    """What is in each of the rows, and in each candidate that it was asked for, too."""


class UnembeddedRecords(Protocol):
    """Records that have no vector of their present text, which others may be about to embed, too."""

    @property
    def texts(self) -> Sequence[str]:
        """The texts to embed, the most important first."""

    def store(self, vectors: Vector, codes: Sequence[bytes] | None = None) -> bool:
        """Store vectors of the first of the texts, but not for records whose text changed meanwhile.

        `codes` are those of these texts' tokens; None when none are made, and some may be left to be made later.
        Nothing is stored when others are writing and do not end soon, or when it fails; whether it was stored.
        """


class Searcher(Protocol):
    """A search within one Bounds: no call returns anything that is outside of them.

    `candidates`, `find_records` and `nearest` take a snapshot of the store, which includes every write that was
    acknowledged before, by any process; `around` and `records` answer from that snapshot.
    """

    def candidates(
        self, words: Sequence[str], vector: Vector | None, embedder: str | None, *, depth: int, flat_depth: int
    ) -> Candidates:
        """Return the `depth` best records by words, and as many by vector.

        Only `flat_depth` where no record of the store has a parent: there, nothing around a candidate can lift it. The
        `embedder` is the one whose vectors are compared and whose backlog is reported.

        Raises:
            Invalid: the vector has another size than the embedder's vectors in this store.
        """

    def find_records(self, words: Sequence[str], limit: int) -> list[Record]:
        """Return the `limit` records that match the words best."""

    def find_unembedded(self, embedder: str, limit: int, most: int) -> UnembeddedRecords | None:
        """Return up to `limit` of the records that changed lately and have no vector of this embedder yet.

        Those that stand under no other come first, and then the newest. None if there are none, or more than `most`. No
        snapshot is held from here on.
        """

    def around(self, candidates: Sequence[Candidate], reach: int, also: Sequence[int]) -> Surroundings:
        """Return the records up to `reach` positions from these candidates under the same parent.

        Not those that were weighed as candidates already. Their cosines are with the vector that the candidates were
        found by. Contents are those of what is returned, and of the candidates whose rows are in `also`.
        """

    def nearest(self, vector: Sequence[float], limit: int) -> dict[int, float]:
        """Return the records whose given vectors are nearest to this one, by the cosine of the nearest of each.

        The nearest come first. Vectors of another size cannot be compared with it, and count as none.
        """

    def records(self, rows: Sequence[int]) -> dict[int, Record]:
        """Return the records of candidates; this comes last, and may leave the snapshot."""
