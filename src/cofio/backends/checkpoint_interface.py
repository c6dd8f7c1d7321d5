"""What checkpoints ask of a backend: rows of threads, chains and pending writes, within one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class ThreadKey(NamedTuple):
    """Which thread, or part of one: the space that it is in, its name, and the namespace of the part."""

    space: str
    name: str
    ns: str


class CheckpointRow(NamedTuple):
    """A checkpoint without its state."""

    row: int
    """Rises with each save, and stands for one state for ever."""
    space: str
    thread: str
    ns: str
    id: str
    parent: str | None
    created_at: int
    """Microseconds since 1970, UTC."""
    expires_at: int | None
    metadata: str
    """JSON."""
    base: int | None
    """The row whose state its body is a change of; None for a whole state."""
    size: int
    """How many bytes its body takes."""

    @property
    def key(self) -> ThreadKey:
        """Its thread."""
        return ThreadKey(self.space, self.thread, self.ns)


class Link(NamedTuple):
    """A checkpoint as part of a chain: what its body is a change of, and how far it is from a whole state."""

    row: int
    id: str
    base: int | None
    depth: int
    position: int
    metadata: str
    body: bytes


class NewCheckpoint(NamedTuple):
    """A checkpoint that is to be stored. It is created at the store's time, and lasts `ttl` microseconds from then."""

    id: str
    parent: str | None
    base: int | None
    depth: int
    position: int
    ttl: int | None
    metadata: str
    body: bytes


class StoredCheckpoint(NamedTuple):
    """A checkpoint as it is stored, with its state or the change that leads to it."""

    thread: ThreadKey
    row: int
    id: str
    parent: str | None
    base: int | None
    depth: int
    position: int
    created_at: int
    expires_at: int | None
    metadata: str
    body: bytes


class PendingWrite(NamedTuple):
    """What a task wrote after a checkpoint, and which of the task's writes it is."""

    task: str
    at: int
    path: str
    channel: str
    type: str
    value: bytes


class CheckpointRows(Protocol):
    """The checkpoints within one snapshot or transaction; what has expired is not there, unless said otherwise.

    Ids are ordered by their bytes in UTF-8.
    """

    @property
    def generation(self) -> int:
        """A number that changes when an older copy replaces the store, whose rows have other numbers."""

    def find(self, thread: ThreadKey, id: str | None, *, by_id: bool = False) -> CheckpointRow | None:
        """The checkpoint with this id; without an id, the one saved last or, `by_id`, the one of the highest id."""

    def find_for_save(self, thread: ThreadKey, id: str, base: int | None) -> tuple[int | None, bool]:
        """What a save has to know: the row that holds the id now, expired or not, and whether the base is there."""

    def list_rows(
        self,
        space: str | None = None,
        name: str | None = None,
        ns: str | None = None,
        *,
        by_id: bool = False,
        before: str | None = None,
        upto: str | None = None,
        newest: bool = True,
        expired: bool = False,
        expired_by: int | None = None,
    ) -> Iterator[CheckpointRow]:
        """Checkpoints in the order of their saves or `by_id`, the `newest` or highest first.

        With `before`, those with a lower id; with `upto`, with this id or a lower one. With `expired`, also what has
        expired; with `expired_by`, only what had by then, in microseconds since 1970.
        """

    def threads(self, space: str) -> Iterator[ThreadKey]:
        """Each thread and part that has checkpoints, the one saved to last first."""

    def link(self, row: int) -> Link | None:
        """A checkpoint as part of a chain, expired or not; None when there is none with this row."""

    def chain(self, row: int) -> list[Link]:
        """A checkpoint and all that it is made of, itself first and the whole state last."""

    def children(self, thread: ThreadKey, rows: Sequence[int]) -> list[Link]:
        """The checkpoints of the thread whose bodies are changes of these, oldest first."""

    def append(self, thread: ThreadKey, new: NewCheckpoint) -> CheckpointRow | None:
        """Add a checkpoint to a thread as most are added: None, and nothing is changed, if there is no such thread, the
        base is not one of its checkpoints, the id is taken, or the checkpoint is to expire.
        """

    def insert(self, thread: ThreadKey, new: NewCheckpoint) -> CheckpointRow:
        """Add a checkpoint to a thread, which is made if need be."""

    def restore(self, stored: StoredCheckpoint) -> int:
        """Add a checkpoint to a thread as it was stored elsewhere, with a row of its own; which it is."""

    def rebase(self, row: int, base: int | None, depth: int, body: bytes) -> None:
        """Store a checkpoint's state as a change of another."""

    def delete(self, rows: Sequence[int]) -> None:
        """Delete checkpoints; what is pending after them stays."""

    def prune(self, space: str, name: str, ns: str | None = None, ids: Sequence[str] = ()) -> None:
        """Delete what is pending after these checkpoints, and all of the thread if it has no checkpoints left.

        Without `ns`, the same for every part of the thread.
        """

    def copy(self, space: str, name: str, target: str) -> None:
        """Add to `target` a copy of every checkpoint of the thread, and of what is pending."""

    def list_pending(self, thread: ThreadKey, id: str) -> list[PendingWrite]:
        """What was written after a checkpoint, in the order of the tasks' paths, the tasks, and their writes."""

    def write_pending(self, thread: ThreadKey, id: str, writes: Sequence[tuple[PendingWrite, bool]]) -> None:
        """Store what a task wrote; a write that is there already stays, unless the new one says that it replaces it."""

    def list_unindexed(self, space: str, limit: int) -> list[Link]:
        """The oldest checkpoints of a space whose words were not indexed yet, expired or not."""

    def index_words(self, space: str, words: Sequence[tuple[int, str]], *, rebased: bool = False) -> None:
        """Store the words of the checkpoints that `list_unindexed` gave, by their rows.

        With `rebased`, of checkpoints that may have been indexed before: nothing happens in a space that has none such.
        """

    def first_mentions(self, space: str, word: str) -> list[tuple[int, CheckpointRow]]:
        """For each thread that holds the word, by a number of its own: the first checkpoint that did."""
