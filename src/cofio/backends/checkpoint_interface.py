"""What checkpoints ask of a backend: rows of threads, chains and pending writes, within one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class CheckpointRow(NamedTuple):
    """A checkpoint without its state."""

    no: int
    """Rises with each save, and stands for one state for ever."""
    thread: str
    ns: str
    id: str
    parent: str | None
    created_at: int
    """Microseconds since 1970, UTC."""
    expires_at: int | None
    metadata: str
    """JSON."""


class Link(NamedTuple):
    """A checkpoint as part of a chain: what its body is a change of, and how far it is from a whole state."""

    no: int
    id: str
    base: int | None
    depth: int
    place: int
    body: bytes


class PendingWrite(NamedTuple):
    """What a task wrote after a checkpoint, at its place among what that task wrote."""

    task: str
    at: int
    path: str
    channel: str
    type: str
    value: bytes


class CheckpointRows(Protocol):
    """The checkpoints within one transaction. A thread has a number, by which its checkpoints are asked for."""

    def thread(self, space: str, name: str, ns: str, *, make: bool = False) -> int | None:
        """The number of a thread, which is made if asked to."""

    def row(self, thread: int, id: str) -> CheckpointRow | None:
        """The checkpoint with this id."""

    def number(self, thread: int, id: str) -> int | None:
        """The number of the checkpoint with this id, even if it has expired."""

    def standing(
        self, space: str, name: str, ns: str, id: str, base: int | None
    ) -> tuple[int | None, int | None, bool]:
        """What a save has to know, in one look: the thread's number, the number of what the id holds, and whether the
        thread has the checkpoint that it is to be a change of. None and False for what there is not."""

    def measured(self, space: str, name: str | None) -> tuple[int, int, int]:
        """How many checkpoints there are, how many are whole states, and the bytes of their bodies."""

    def newest(self, thread: int, *, by_id: bool) -> CheckpointRow | None:
        """The checkpoint that was saved last, or the one with the highest id."""

    def listed(
        self, space: str, name: str | None, ns: str | None, *, by_id: bool, before: str | None
    ) -> Iterator[CheckpointRow]:
        """Checkpoints, newest first; with `before`, only those with a lower id."""

    def names(self, space: str) -> Iterator[tuple[str, str]]:
        """Each thread that has checkpoints, with its part, the one saved to last first."""

    def chain(self, no: int) -> list[Link]:
        """A checkpoint and all that it is made of, itself first and the whole state last."""

    def built_on(self, thread: int, nos: Sequence[int]) -> list[Link]:
        """The checkpoints whose bodies are changes of these."""

    def insert(
        self, thread: int, id: str, parent: str | None, base: tuple[int | None, int, int], *,
        created_at: int, expires_at: int | None, metadata: str, body: bytes,
    ) -> int:  # fmt: skip
        """Add a checkpoint with its base, depth and place; its number."""

    def rebase(self, no: int, base: int | None, depth: int, body: bytes) -> None:
        """Write a checkpoint's state as a change of another."""

    def remove(self, nos: Sequence[int]) -> None:
        """Delete checkpoints."""

    def tidy(self, thread: int) -> None:
        """Forget a thread that has no checkpoints left, with what was pending there."""

    def expired(self, before: int, limit: int) -> list[tuple[int, int, str]]:
        """Some of the checkpoints that expired before then: each thread's number, theirs, and their ids."""

    def forget(self, space: str, name: str) -> int:
        """Delete a thread with all its parts, and what is pending; how many checkpoints there were."""

    def copy(self, space: str, name: str, target: str) -> int:
        """Add to `target` a copy of every checkpoint of the thread, and of what is pending; how many."""

    def write(self, thread: int, id: str, writes: Sequence[tuple[PendingWrite, bool]]) -> None:
        """Keep what a task wrote; what is at its place already stays, unless its write says otherwise."""

    def pending(self, thread: int, id: str) -> list[PendingWrite]:
        """What was written after a checkpoint, in the order of the tasks' paths, tasks and places."""

    def drop_pending(self, thread: int, ids: Sequence[str]) -> None:
        """Forget what was written after these checkpoints."""

    def space(self, thread: int) -> str:
        """The space that a thread is in."""

    def unsought(self, space: str, limit: int) -> tuple[list[tuple[Link, str]], int]:
        """The next checkpoints whose words were not taken in, each with its metadata, and how far one then is."""

    def take_in(self, space: str, words: Sequence[tuple[int, str]], upto: int | None) -> None:
        """Keep the words of checkpoints, in place of those they had, in a space that is searched."""

    def bringing(self, space: str, word: str) -> list[tuple[int, int]]:
        """Of each thread that has come to hold the word its number, and that of the first checkpoint that did."""

    def numbered(self, no: int) -> CheckpointRow | None:
        """The checkpoint with this number."""

    def every(self) -> Iterator[CheckpointRow]:
        """Every checkpoint of every space, also what has expired, in the order of their numbers."""
