"""The states of threads, each stored as a change of an earlier one: what a save costs is what is new.

A checkpoint's body is a whole state, or a change (`deltas`) of the state of another checkpoint of the thread: its base.
A load reads five changes at most for a thousand saves, and a save writes about what six turns added, for a thread that
only grows.

A row of a checkpoint stands for one state for ever, and so states are cached by it: what another process does can
take a checkpoint away, but never change what it says.

Work that is done in a transaction may run again, so it changes nothing but the rows; the cache follows when it is done.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from ..backends.checkpoint_interface import (
    CheckpointRow,
    CheckpointRows,
    Link,
    NewCheckpoint,
    PendingWrite,
    StoredCheckpoint,
    ThreadKey,
)
from ..backends.interface import Backend
from ..text.tokenizer import split_query
from ..values.changes import normalize_ttl
from ..values.errors import Invalid, Unavailable
from ..values.query import MAX_QUERY
from ..values.records import check_int, check_text
from ..values.times import from_micros, to_micros
from .cache import SizedCache
from .chains import BaseChoice, LoadedState, Step, delete_and_rebase, encode_next, follow_link
from .deltas import State, same
from .packing import SHORT, copy_state, decode_state, encode_metadata, encode_state, pack, unpack
from .search_words import find_link_words

T = TypeVar("T")
DEPTH = 5
MAX_NAME = 1024
MAX_NS = 4096
CACHED = 64 * 1024 * 1024  # bytes of memory that the cached states may take, by `LoadedState.memory`
MOST_CACHED = 4096  # states, however small
MOST_HEADS = 1000
TRIES = 5
PURGED_AT_ONCE = 200
INDEXED_AT_ONCE = 200
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A thread's state at one time, or what is known of it without its state."""

    thread: str
    ns: str
    id: str
    parent: str | None
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None
    state: State = None
    pending: tuple[PendingWrite, ...] = ()


Names: TypeAlias = list[str]  # inside of Checkpoints, `list` is a verb
Scored: TypeAlias = list[tuple[Checkpoint, float]]
Found: TypeAlias = list[Checkpoint | None]


class Measure(NamedTuple):
    """How many checkpoints there are, how many of them are whole states, and the bytes that all take."""

    checkpoints: int
    whole: int
    bytes: int


class _BaseGone(Exception):
    """What a save was to be a change of was deleted meanwhile."""


class _IdTaken(Exception):
    """The id that is saved to holds a checkpoint already."""


class Checkpoints:
    """The checkpoints of a store. Every thread belongs to a space: "library", "langgraph"."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._states: SizedCache[int, LoadedState] = SizedCache(
            items=MOST_CACHED, size=CACHED, measure=lambda loaded: loaded.memory
        )
        self._heads: OrderedDict[ThreadKey, int] = OrderedDict()
        self._generation = 0
        """What the store said when the states and heads were read."""
        self._lock = Lock()

    # Saving.

    def save(
        self,
        space: str,
        thread: str,
        id: str,
        state: State,
        *,
        ns: str = "",
        parent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ttl: float | timedelta | None = None,
        owned: bool = False,
        short: int = SHORT,
    ) -> Checkpoint:
        """Store a state, durably, in place of what the id held. The state is JSON.

        With `owned`, no one else will ever change the objects that the state is made of: it is not copied. What takes
        fewer bytes than `short` is not compressed.

        Raises:
            Invalid, LimitExceeded: something about the input is wrong.
            Unavailable: the disk is full or failing; nothing was changed.
        """
        key = _key(space, thread, ns)
        check_text("id", id, MAX_NAME, empty=False)
        if parent is not None:
            check_text("parent", parent, MAX_NAME, empty=False)
        encoded = encode_metadata(metadata)
        lifetime_ = None if ttl is None else lifetime(ttl) // _MICROSECOND
        if not owned:
            state = decode_state(encode_state(state))  # as it will be read: a tuple is a list, and a key is a string
        whole = False
        for _ in range(TRIES):
            base, generation = None, self._generation
            if not whole:
                with suppress(Unavailable):  # what the thread went on from is damaged: this state shall not be lost too
                    base = self._find_base(key, parent)
            loaded, body = encode_next(base, id, state, short)
            *before, last = loaded.chain
            new = NewCheckpoint(
                id, parent, before[-1].row if before else None, last.depth, last.position, lifetime_, encoded, body
            )
            try:
                row = self._insert(key, new, generation)
            except _BaseGone:
                self._states.drop(step.row for step in before)
                continue
            except _IdTaken:
                whole = True  # it may well be a change of the very one that it replaces
                continue
            self._set_head(key, loaded._replace(chain=(*before, last._replace(row=row.row))))
            return _checkpoint(row, metadata=dict(metadata or {}))
        raise Unavailable("the thread is being deleted as fast as it is saved; try again")

    def write(
        self,
        space: str,
        thread: str,
        id: str,
        writes: Sequence[tuple[PendingWrite, bool]],
        *,
        ns: str = "",
        short: int = SHORT,
    ) -> None:
        """Store what a task wrote after a checkpoint, each with whether it replaces what is there already."""
        key = _key(space, thread, ns)
        check_text("id", id, MAX_NAME, empty=False)
        packed = [(each._replace(value=pack(each.value, short)), replaces) for each, replaces in writes]
        self._transact(lambda rows: rows.write_pending(key, id, packed))

    def restore(self, space: str, saved: Sequence[Checkpoint]) -> None:
        """Store checkpoints with the times that they had elsewhere, in one transaction.

        Each becomes the newest of its thread. One whose id holds a checkpoint that is as new, or newer, is left out:
        so what was cut off can be done again.
        """
        stored = [_build_stored(space, each) for each in saved]

        def work(rows: CheckpointRows) -> list[int]:
            self._follow(rows)
            return [row for each in stored for row in _restore(rows, each)]

        self._states.drop(self._transact(work))

    def copy(self, space: str, thread: str, target: str) -> int:
        """Make `target` a copy of the thread, with all that is pending; how many checkpoints it has then.

        Raises:
            Invalid: there are checkpoints in `target` already.
        """
        _check_name("thread", thread)
        _check_name("target", target)

        def work(rows: CheckpointRows) -> int:
            if any(True for _ in rows.list_rows(space, target)):
                raise Invalid("target", f"the thread {target!r} has checkpoints already; delete it first")
            alive = sum(1 for _ in rows.list_rows(space, thread))
            if alive:
                _delete_thread(rows, space, target)  # what has expired there
                rows.copy(space, thread, target)
            return alive

        return self._transact(work)

    # Reading.

    def load(
        self,
        space: str,
        thread: str,
        id: str | None = None,
        *,
        ns: str = "",
        by_id: bool = False,
        pending: bool = False,
        shared: bool = False,
    ) -> Checkpoint | None:
        """The checkpoint with this id, else the one saved last, or with `by_id` that of the highest id.

        With `shared`, the state is not copied: the caller must not change it.

        Raises:
            Unavailable: the state is damaged.
        """
        key = _key(space, thread, ns)
        with self._snapshot() as rows:
            return self._load_whole(rows, key, id, by_id=by_id, pending=pending, shared=shared)

    def load_many(self, space: str, places: Iterable[tuple[str, str, str]], *, shared: bool = False) -> Found:
        """Load checkpoints by thread, ns and id, with what is pending, as of one moment; None for one that is gone.

        Raises:
            Unavailable: a state is damaged.
        """
        keys = [(_key(space, thread, ns), which) for thread, ns, which in places]
        with self._snapshot() as rows:
            return [self._load_whole(rows, key, one, by_id=False, pending=True, shared=shared) for key, one in keys]

    def heading(
        self, space: str, thread: str, id: str | None = None, *, ns: str = "", by_id: bool = False
    ) -> Checkpoint | None:
        """The same without the state, which is not even read."""
        with self._snapshot() as rows:
            row = _find(rows, _key(space, thread, ns), id, by_id)
        return None if row is None else _checkpoint(row)

    def list(
        self,
        space: str,
        thread: str | None = None,
        *,
        ns: str | None = None,
        where: Mapping[str, Any] | None = None,
        before: str | None = None,
        upto: str | None = None,
        by_id: bool = False,
        limit: int | None = 10,
    ) -> list[Checkpoint]:
        """Checkpoints without their states, newest first; `where` is what their metadata must hold.

        `before` leaves those with a lower id, `upto` those with this id or a lower one, and `by_id` puts the highest id
        first.
        """
        if limit is not None:
            check_int("limit", limit, 0, 2**53)
        if thread is not None:
            _check_name("thread", thread)
        if where is not None:
            encode_metadata(where)
        page: list[Checkpoint] = []
        with self._snapshot() as rows:
            for row in rows.list_rows(space, thread, ns, by_id=by_id, before=before, upto=upto):
                if limit is not None and len(page) >= limit:
                    break
                checkpoint = _checkpoint(row)
                if not where or all(_holds(checkpoint.metadata, key, value) for key, value in where.items()):
                    page.append(checkpoint)
        return page

    def threads(self, space: str, *, limit: int | None = 100, pattern: str = "*") -> Names:
        """The threads whose names fit the pattern (`*`, `?`, `[…]`), the one saved to last first."""
        if limit is not None:
            check_int("limit", limit, 0, 2**53)
        names: dict[str, None] = {}
        with self._snapshot() as rows:
            for thread in rows.threads(space):
                if limit is not None and len(names) >= limit:
                    break
                if fnmatchcase(thread.name, pattern):
                    names[thread.name] = None
        return [*names]

    def search(self, space: str, query: str, *, limit: int = 10) -> Scored:
        """For each thread that holds all the words of `query`, the checkpoint at which it first did.

        Words in metadata count too. Best first: what was said at once before what was said bit by bit, then the newest.
        """
        check_int("limit", limit, 0, 10_000)
        check_text("query", query.replace("\0", " ") if isinstance(query, str) else query, MAX_QUERY)
        words = split_query(query)
        if not words or not limit:
            return []
        while self._index_words(space):
            pass
        with self._snapshot() as rows:
            mentions = [dict(rows.first_mentions(space, word)) for word in words]
        hits: dict[CheckpointRow, int] = {}  # how many checkpoints it took to say all of the words
        for thread in set.intersection(*map(set, mentions)):
            firsts = {each[thread] for each in mentions}
            hits[max(firsts)] = len(firsts)
        ranked = sorted(hits, key=lambda row: (hits[row], -row.row))[:limit]
        return [(_checkpoint(row), 1 / hits[row]) for row in ranked]

    def measure(self, space: str, thread: str | None = None) -> Measure:
        """How much a thread, or a space, takes."""
        with self._snapshot() as rows:
            stored = [(row.base is None, row.size) for row in rows.list_rows(space, thread)]
        return Measure(len(stored), sum(whole for whole, _ in stored), sum(size for _, size in stored))

    def check(self) -> Names:
        """What cannot be read, in sentences: every state of every space is built, from what is on the disk."""
        uncached = Checkpoints(self._backend)
        faults: Names = []
        with self._snapshot() as rows:
            for row in rows.list_rows(newest=False, expired=True):
                try:
                    uncached._load(rows, row)
                except Unavailable as error:
                    faults.append(f"checkpoints: thread {row.thread!r}: {error}")
        return faults

    # Deleting.

    def delete(self, space: str, thread: str, id: str | None = None, *, ns: str = "") -> int:
        """Delete a checkpoint, or the thread with all its parts; how many checkpoints there were.

        What was stored as a change of what is deleted is first written as a change of something else.
        """
        _check_name("thread", thread)
        if id is not None:
            return self.remove(space, [(thread, ns, id)])
        deleted = self._transact(lambda rows: _delete_thread(rows, space, thread), frees_space=True)
        self._states.drop(deleted)
        return len(deleted)

    def remove(self, space: str, keys: Iterable[tuple[str, str, str]]) -> int:
        """Delete checkpoints by thread, ns and id, in one transaction; how many there were."""
        grouped: dict[ThreadKey, dict[str, None]] = {}
        for thread, ns, which in keys:
            grouped.setdefault(ThreadKey(space, thread, ns), {})[which] = None

        def work(rows: CheckpointRows) -> Sequence[int]:
            deleted: list[int] = []
            for thread, ids in grouped.items():
                doomed = [row for each in ids if (row := rows.find_for_save(thread, each, None)[0]) is not None]
                delete_and_rebase(rows, thread, doomed)
                rows.prune(*thread, [*ids])
                deleted += doomed
            return deleted

        return self._count_deleted(self._transact(work, frees_space=True))

    def vacuum(self, space: str, age: timedelta) -> int:
        """Delete the checkpoints that were made longer ago than this; how many."""
        with self._backend.snapshot() as snapshot:
            at = to_micros(snapshot.now) - age // _MICROSECOND
            old = [row for row in snapshot.checkpoints.list_rows(space) if row.created_at < at]
        return self.remove(space, [(row.thread, row.ns, row.id) for row in old]) if old else 0

    def purge(self, before: datetime) -> int:
        """Remove what expired before then; how many."""

        def work(rows: CheckpointRows) -> Sequence[int]:
            expired = [*islice(rows.list_rows(expired_by=to_micros(before)), PURGED_AT_ONCE)]
            for thread in dict.fromkeys(each.key for each in expired):
                delete_and_rebase(rows, thread, [each.row for each in expired if each.key == thread])
                rows.prune(*thread, [each.id for each in expired if each.key == thread])
            return [each.row for each in expired]

        with self._snapshot() as rows:
            if next(rows.list_rows(expired_by=to_micros(before)), None) is None:
                return 0
        count = 0
        while some := self._count_deleted(self._transact(work, frees_space=True)):
            count += some
        return count

    def _count_deleted(self, rows: Sequence[int]) -> int:
        self._states.drop(rows)
        return len(rows)

    @contextmanager
    def _snapshot(self) -> Iterator[CheckpointRows]:
        with self._backend.snapshot() as snapshot:
            self._follow(snapshot.checkpoints)
            yield snapshot.checkpoints

    def _follow(self, rows: CheckpointRows) -> None:
        """Forget what was read of a store that was put back: the same rows are other checkpoints now."""
        if (generation := rows.generation) == self._generation:
            return
        with self._lock:
            self._states.clear()
            self._heads.clear()
            self._generation = generation

    def _transact(self, work: Callable[[CheckpointRows], T], *, frees_space: bool = False) -> T:
        return self._backend.transact(lambda transaction: work(transaction.checkpoints), frees_space=frees_space)

    # The chains.

    def _find_base(self, key: ThreadKey, parent: str | None) -> LoadedState | None:
        """The state that the next one is stored as a change of; None when it is to be whole."""
        head = self._find_head(key, parent)
        if head is None:
            return None
        choice: BaseChoice[Step] = BaseChoice(head.chain[-1].position, DEPTH)
        step = choice.choose(reversed(head.chain))
        if step is None:
            return None
        base: LoadedState | None = head
        if step.row != head.chain[-1].row:
            base = self._states.get(step.row)
            if base is None:
                with self._snapshot() as rows:
                    base = self._read(rows, step.row)
        return None if base is None else base.extend(step, choice.position)

    def _find_head(self, key: ThreadKey, parent: str | None) -> LoadedState | None:
        """What the thread went on from: its parent, else the checkpoint that was saved last."""
        loaded = self._states.get(self._heads.get(key, 0))
        if loaded is not None and parent in (None, loaded.id):
            return loaded
        with self._snapshot() as rows:
            row = None if parent is None else rows.find(key, parent)
            row = row or rows.find(key, None)
            return None if row is None else self._load(rows, row)

    def _set_head(self, key: ThreadKey, loaded: LoadedState) -> None:
        self._states.put(loaded.chain[-1].row, loaded)
        with self._lock:
            self._heads[key] = loaded.chain[-1].row
            self._heads.move_to_end(key)
            if len(self._heads) > MOST_HEADS:
                self._heads.popitem(last=False)

    def _load_whole(
        self, rows: CheckpointRows, key: ThreadKey, id: str | None, *, by_id: bool, pending: bool, shared: bool
    ) -> Checkpoint | None:
        row = _find(rows, key, id, by_id)
        if row is None:
            return None
        loaded = self._load(rows, row)
        stored = rows.list_pending(key, row.id) if pending else ()
        writes = tuple([each._replace(value=unpack(each.value)) for each in stored])
        return _checkpoint(row, state=loaded.state if shared else copy_state(loaded.state), pending=writes)

    def _load(self, rows: CheckpointRows, row: CheckpointRow) -> LoadedState:
        loaded = self._states.get(row.row) or self._read(rows, row.row)
        if loaded is None:
            raise Unavailable(f"checkpoint {row.id!r} of the thread {row.thread!r} is damaged; restore a backup")
        return loaded

    def _read(self, rows: CheckpointRows, row: int) -> LoadedState | None:
        """The state of a checkpoint from its chain; None when there is none with this row."""
        links: list[Link] = []
        loaded: LoadedState | None = None
        at: int | None = row
        while at is not None and loaded is None and (link := rows.link(at)) is not None:
            links.append(link)
            at = link.base
            loaded = None if at is None else self._states.get(at)
        for link in reversed(links):  # each of them is cached: the checkpoints beside this one are changes of the same
            state, chain, size = (None, (), 0) if loaded is None else (loaded.state, loaded.chain, loaded.size)
            state, length = follow_link(state, link, links[0].id)
            chain = (*chain, Step(link.row, link.depth, link.position))
            loaded = LoadedState(link.id, state, chain, size + length)
            self._states.put(link.row, loaded)
        return loaded

    def _insert(self, key: ThreadKey, new: NewCheckpoint, generation: int) -> CheckpointRow:
        """Add a checkpoint, in place of what its id held. Its base was found in that generation of the store."""

        def work(rows: CheckpointRows) -> tuple[CheckpointRow, int | None]:
            self._follow(rows)
            if new.base is not None and self._generation != generation:
                raise _BaseGone
            row = rows.append(key, new)
            if row is not None:
                return row, None
            taken, has_base = rows.find_for_save(key, new.id, new.base)
            if new.base is not None and taken is not None:
                raise _IdTaken
            if new.base is not None and not has_base:
                raise _BaseGone
            if taken is not None:
                delete_and_rebase(rows, key, [taken])
            return rows.insert(key, new), taken

        row, replaced = self._transact(work)
        if replaced is not None:
            self._states.drop([replaced])
        return row

    def _index_words(self, space: str) -> bool:
        """Index the words of the next checkpoints; whether there may be more."""
        with self._snapshot() as rows:
            links = rows.list_unindexed(space, INDEXED_AT_ONCE)
        if not links:
            return False
        words = [(link.row, find_link_words(link)) for link in links]
        self._transact(lambda rows: rows.index_words(space, words))
        return len(links) == INDEXED_AT_ONCE


def _find(rows: CheckpointRows, key: ThreadKey, id: str | None, by_id: bool) -> CheckpointRow | None:
    """The checkpoint of a thread with this id, or the newest."""
    if id is not None:
        check_text("id", id, MAX_NAME)
    return rows.find(key, id, by_id=by_id)


def _build_stored(space: str, saved: Checkpoint) -> StoredCheckpoint:
    """A checkpoint as it is stored, with its whole state."""
    check_text("id", saved.id, MAX_NAME, empty=False)
    loaded, body = encode_next(None, saved.id, saved.state, SHORT)
    step = loaded.chain[-1]
    return StoredCheckpoint(
        thread=_key(space, saved.thread, saved.ns), row=step.row, id=saved.id, parent=saved.parent, base=None,
        depth=step.depth, position=step.position, created_at=to_micros(saved.created_at),
        expires_at=None if saved.expires_at is None else to_micros(saved.expires_at),
        metadata=encode_metadata(saved.metadata), body=body,
    )  # fmt: skip


def _restore(rows: CheckpointRows, stored: StoredCheckpoint) -> list[int]:
    """Add a checkpoint in place of what its id holds, unless that is as new; the rows that it takes the place of."""
    held = rows.find(stored.thread, stored.id)
    if held is not None and held.created_at >= stored.created_at:
        return []
    taken = rows.find_for_save(stored.thread, stored.id, None)[0]  # also one that has expired
    replaced = [] if taken is None else [taken]
    delete_and_rebase(rows, stored.thread, replaced)
    rows.restore(stored)
    return replaced


def _delete_thread(rows: CheckpointRows, space: str, name: str) -> list[int]:
    """Delete a thread with all its parts, and what is pending; the rows that there were, expired or not."""
    deleted = [each.row for each in rows.list_rows(space, name, expired=True)]
    rows.delete(deleted)
    rows.prune(space, name)
    return deleted


def _checkpoint(
    row: CheckpointRow,
    *,
    metadata: dict[str, Any] | None = None,
    state: State = None,
    pending: tuple[PendingWrite, ...] = (),
) -> Checkpoint:
    return Checkpoint(
        thread=row.thread, ns=row.ns, id=row.id, parent=row.parent,
        metadata=json.loads(row.metadata) if metadata is None else metadata, created_at=from_micros(row.created_at),
        expires_at=None if row.expires_at is None else from_micros(row.expires_at), state=state, pending=pending,
    )  # fmt: skip


def _holds(metadata: Mapping[str, Any], key: str, value: Any) -> bool:
    if key not in metadata:
        return False
    held = metadata[key]
    return held == value if _is_number(held) and _is_number(value) else same(held, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key(space: str, thread: str, ns: str) -> ThreadKey:
    _check_name("thread", thread)
    check_text("ns", ns, MAX_NS)
    return ThreadKey(space, thread, ns)


def _check_name(field: str, name: str) -> None:
    check_text(field, name, MAX_NAME, empty=False)


def lifetime(ttl: float | timedelta) -> timedelta:
    """How long something lasts, given in seconds or as a timedelta; raises Invalid for what is no such time."""
    try:
        return cast(timedelta, normalize_ttl(ttl))
    except Invalid:
        is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
        problem = "expected seconds, up to a thousand years of them, or a timedelta"
        if isinstance(ttl, timedelta) or (is_number and ttl <= 0):
            problem = "is not more than nothing and up to a thousand years"
        raise Invalid("ttl", problem) from None
