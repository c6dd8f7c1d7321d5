"""Background work on a store: vectors, indexes, and what deleted and expired records leave behind.

Any process may do it, and nothing that a caller is promised depends on its being done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ..values.progress import Progress

if TYPE_CHECKING:
    from ..values.changes import Vector
    from ..values.stats import Stats


class Index(NamedTuple):
    """Bring the indexes up to date by one piece, so that other processes can have their turn."""

    limit: int
    """The most records to take; fewer are taken if they are long."""
    embedder: str | None = None
    """Whose vectors are indexed too, once all words are."""
    count_waiting: bool = False
    """Whether to count the records that wait for a vector."""


class Tidy:
    """Do what is due of the routine work, a small piece at a time."""


class Purge:
    """Remove the records that have expired."""


class Erase(NamedTuple):
    """Make unreadable what was deleted or replaced, wherever a derived file still holds it."""

    seconds: float | None = None
    """About how long it may take; None for as long as it needs, while other writers may have to wait."""


class ReportFault(NamedTuple):
    """Store why background work failed, for `check` and `stats` to tell; "" when it did not."""

    fault: str


Task: TypeAlias = Index | Tidy | Purge | Erase | ReportFault


class Upkeep(NamedTuple):
    """What a piece of upkeep did, and what is left."""

    done: int = 0
    """How many records were indexed or removed."""
    more: bool = False
    """Whether there is more of it to do now."""
    busy: bool = False
    """Whether another process was doing this work, so that none of it was done here."""
    waiting: int = 0
    """How many records wait for a vector, if they were to be counted."""
    again_in: float | None = None
    """Seconds after which the next piece of the routine is due; None when only a change makes one due."""
    expired_before: datetime | None = None
    """What expired before this moment was removed, so the checkpoints that did may be removed as well."""
    problem: str = ""
    """What keeps the store from being tidied, in a sentence."""


class EmbedBatch(Protocol):
    """Records that need a vector and that no other process embeds meanwhile."""

    @property
    def texts(self) -> Sequence[str]:
        """The texts to embed, of those of the records that have one."""

    def store(self, vectors: Vector | None, codes: Sequence[bytes] | None = None) -> None:
        """Store a vector for each of the texts, but not for records whose text changed meanwhile.

        `vectors` is None when there are no texts. `codes` are those of each text's tokens; None when none are made.
        """


class CodeBatch(Protocol):
    """Records that have a vector but no codes of their tokens, and that no other process sees to meanwhile."""

    @property
    def texts(self) -> Sequence[str]:
        """The texts that the vectors were made of."""

    def store(self, codes: Sequence[bytes]) -> None:
        """Store the codes of each text's tokens, but not for records whose text changed meanwhile."""


class Examination(NamedTuple):
    """What was found out about the server that a store is on."""

    facts: Mapping[str, str]
    warnings: Sequence[str]
    """What should be looked after, and how, in sentences."""


class Maintenance(Protocol):
    """What people do with a store as a whole."""

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store and the work for this embedder, in sentences; empty when nothing is."""

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store to a new address while others go on writing."""

    def examine(self) -> Examination:
        """What there is to say of the server that the store is on; nothing of a folder."""

    def stats(self, embedder: str | None) -> Stats:
        """Numbers about the store, among them how many records wait for a vector of this embedder."""

    def count_remains(self) -> Mapping[str, int]:
        """How much there is of each kind of derived file that still holds what was deleted."""
