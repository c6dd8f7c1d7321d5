"""The states of threads, each kept as a change of an earlier one: what a save costs is what is new.

A checkpoint's body is a whole state, or a change (`deltas`) of the state of another checkpoint of the thread: its base.
A load reads five changes at most for a thousand saves, and a save writes about what six turns added, for a thread that
only grows.

A number of a checkpoint stands for one state for ever, and so states are cached by it: what another process does can
take a checkpoint away, but never change what it says.
"""

from __future__ import annotations

import json
import marshal
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any, NamedTuple, TypeAlias, cast

from ..backends.checkpoint_interface import CheckpointRow, CheckpointRows, Link, PendingWrite
from ..backends.interface import Backend
from ..text.tokenizer import query_words, words
from ..values.errors import Invalid, LimitExceeded, Unavailable
from ..values.query import MAX_QUERY
from ..values.records import check_int, check_text, json_words
from .deltas import RADIX, VALUE, State, base_place, diff, patch, same

DEPTH = 5
MAX_NAME = 1024
MAX_NS = 4096
MAX_METADATA = 1_048_576
MAX_STATE = 256 * 1024 * 1024
CACHED = 64 * 1024 * 1024  # bytes of memory that the cached states may take, by `_Known.memory`
MOST_CACHED = 4096  # states, however small
TRIES = 5
PURGED_AT_ONCE = 200
SHORT = 200  # bytes that are not worth the time to compress them
SOUGHT_AT_ONCE = 200
_LEVEL = 1  # for changes no worse than the slower ones, and a state that is whole is rare
_PLAIN, _DEFLATED = b"\0", b"\1"
_LONGEST = 365_000 * 86_400.0  # seconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_strict = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


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


class Measure(NamedTuple):
    """How many checkpoints there are, how many of them are whole states, and the bytes that all take."""

    checkpoints: int
    whole: int
    bytes: int


class _Step(NamedTuple):
    """A checkpoint in the chain of another."""

    no: int
    depth: int
    place: int


class _Known(NamedTuple):
    """A state that need not be read again, with the chain that leads to it, itself last."""

    id: str
    state: State
    chain: tuple[_Step, ...]
    whole: int
    """How many bytes the whole state at the chain's beginning takes."""
    size: int
    """How many bytes of JSON the state is."""

    @property
    def memory(self) -> int:
        """About how many bytes of memory it takes: a number of JSON's 2 bytes is an object of 28 and a pointer of 8."""
        return 2048 + 4 * self.size


class _Gone(Exception):
    """What a save was to be a change of was deleted meanwhile."""


class _Replaced(Exception):
    """The id that is saved to holds a checkpoint already."""


class Checkpoints:
    """The checkpoints of a store. Every thread belongs to a space: "library", "langgraph"."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = Lock()
        self._states: OrderedDict[int, _Known] = OrderedDict()
        self._size = 0
        self._heads: OrderedDict[tuple[str, str, str], int] = OrderedDict()

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
    ) -> Checkpoint:
        """Keep a state, durably, in place of what the id held. The state is JSON.

        With `owned`, nobody else will ever change the objects that the state is made of: it is not copied.

        Raises:
            Invalid, LimitExceeded: something about the input is wrong.
            Unavailable: the disk is full or failing; nothing was changed.
        """
        place = (space, _name("thread", thread), _ns(ns))
        check_text("id", id, MAX_NAME, empty=False)
        if parent is not None:
            check_text("parent", parent, MAX_NAME, empty=False)
        described = _metadata(metadata)
        now = self._backend.now()
        expires = None if ttl is None else now + lifetime(ttl)
        if not owned:
            state = _loaded_plain(_dumped(state))  # as it will be read: a tuple is a list, and a key is a string
        whole = False
        for _ in range(TRIES):
            base = None
            if not whole:
                with suppress(Unavailable):  # what the thread went on from is damaged: this state shall not be lost too
                    base = self._base(place, parent)
            known, body = _written(base, id, state)
            try:
                made = self._insert(place, known, body, parent, described, now, expires)
            except _Gone:
                self._forget(step.no for step in known.chain[:-1])
                continue
            except _Replaced:
                whole = True  # it may well be a change of the very one that it replaces
                continue
            self._remember(place, made)
            return Checkpoint(
                thread=thread, ns=ns, id=id, parent=parent, metadata=dict(metadata or {}), created_at=now,
                expires_at=expires,
            )  # fmt: skip
        raise Unavailable("the thread is being deleted as fast as it is saved; try again")

    def write(
        self, space: str, thread: str, id: str, writes: Sequence[tuple[PendingWrite, bool]], *, ns: str = ""
    ) -> None:
        """Keep what a task wrote after a checkpoint, each with whether it replaces what is at its place."""
        place = (space, _name("thread", thread), _ns(ns))
        check_text("id", id, MAX_NAME, empty=False)
        packed = [(each._replace(value=_pack(each.value)), replaces) for each, replaces in writes]

        def work(rows: CheckpointRows) -> None:
            rows.write(cast(int, rows.thread(*place, make=True)), id, packed)

        self._backend.change_checkpoints(work)

    def copy(self, space: str, thread: str, target: str) -> int:
        """Make `target` a copy of the thread, with all that is pending; how many checkpoints it has then.

        Raises:
            Invalid: there are checkpoints in `target` already.
        """
        _name("thread", thread)
        _name("target", target)

        def work(rows: CheckpointRows) -> int:
            if any(True for _ in rows.listed(space, target, None, by_id=False, before=None)):
                raise Invalid("target", f"the thread {target!r} has checkpoints already; delete it first")
            alive = sum(1 for _ in rows.listed(space, thread, None, by_id=False, before=None))
            if alive:
                rows.forget(space, target)  # what has expired there
                rows.copy(space, thread, target)
            return alive

        return self._backend.change_checkpoints(work)

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
        with self._backend.checkpoints() as rows:
            number, row = self._found(rows, space, thread, id, ns, by_id)
            if row is None:
                return None
            known = self._known(rows, row)
            written = rows.pending(number, row.id) if pending else []
        writes = tuple(each._replace(value=_unpack(each.value)) for each in written)
        return _checkpoint(row, known.state if shared else _copied(known.state), writes)

    def heading(
        self, space: str, thread: str, id: str | None = None, *, ns: str = "", by_id: bool = False
    ) -> Checkpoint | None:
        """The same without the state, which is not even read."""
        with self._backend.checkpoints() as rows:
            _, row = self._found(rows, space, thread, id, ns, by_id)
        return None if row is None else _checkpoint(row)

    def list(
        self,
        space: str,
        thread: str | None = None,
        *,
        ns: str | None = None,
        where: Mapping[str, Any] | None = None,
        before: str | None = None,
        by_id: bool = False,
        limit: int | None = 10,
    ) -> list[Checkpoint]:
        """Checkpoints without their states, newest first; `where` is what their metadata must hold.

        `before` leaves those with a lower id, and `by_id` puts the highest id first.
        """
        if limit is not None:
            check_int("limit", limit, 0, 2**53)
        if thread is not None:
            _name("thread", thread)
        if where is not None:
            _metadata(where)
        found: list[Checkpoint] = []
        with self._backend.checkpoints() as rows:
            for row in rows.listed(space, thread, ns, by_id=by_id, before=before):
                if limit is not None and len(found) >= limit:
                    break
                listed = _checkpoint(row)
                if not where or all(_holds(listed.metadata, key, value) for key, value in where.items()):
                    found.append(listed)
        return found

    def threads(self, space: str, *, limit: int | None = 100, pattern: str = "*") -> Names:
        """The threads whose names fit the pattern (`*`, `?`, `[…]`), the one saved to last first."""
        if limit is not None:
            check_int("limit", limit, 0, 2**53)
        names: dict[str, None] = {}
        with self._backend.checkpoints() as rows:
            for name, _ in rows.names(space):
                if limit is not None and len(names) >= limit:
                    break
                if fnmatchcase(name, pattern):
                    names[name] = None
        return [*names]

    def search(self, space: str, query: str, *, limit: int = 10) -> Scored:
        """Of each thread that has come to hold all the words of `query` the checkpoint at which it first did.

        Words in metadata count too. Best first: what was said at once before what was said bit by bit, then the newest.
        """
        check_int("limit", limit, 0, 10_000)
        check_text("query", query.replace("\0", " ") if isinstance(query, str) else query, MAX_QUERY)
        asked = query_words(query)
        if not asked or not limit:
            return []
        while self._take_in(space):
            pass
        with self._backend.checkpoints() as rows:
            first = [dict(rows.bringing(space, word)) for word in asked]
            both = set.intersection(*map(set, first))
            spread = {
                max(brought): len(set(brought)) for brought in ([each[thread] for each in first] for thread in both)
            }
            ranked = sorted(spread, key=lambda no: (spread[no], -no))[:limit]
            found = [(rows.numbered(no), 1 / spread[no]) for no in ranked]
        return [(_checkpoint(row), score) for row, score in found if row is not None]

    def measure(self, space: str, thread: str | None = None) -> Measure:
        """How much a thread, or a space, takes."""
        with self._backend.checkpoints() as rows:
            return Measure(*rows.measured(space, thread))

    def check(self) -> Names:
        """What cannot be read, in sentences: every state of every space is made, from what is on the disk."""
        afresh = Checkpoints(self._backend)
        found: Names = []
        with self._backend.checkpoints() as rows:
            for row in rows.every():
                try:
                    afresh._known(rows, row)
                except Unavailable as error:
                    found.append(f"checkpoints: thread {row.thread!r}: {error}")
        return found

    # Deleting.

    def delete(self, space: str, thread: str, id: str | None = None, *, ns: str = "") -> int:
        """Delete a checkpoint, or the thread with all its parts; how many checkpoints there were.

        What was kept as a change of what is deleted is first written as a change of something else.
        """
        _name("thread", thread)
        if id is not None:
            return self.remove(space, [(thread, ns, id)])

        def work(rows: CheckpointRows) -> int:
            self._forget(row.no for row in rows.listed(space, thread, None, by_id=False, before=None))
            return rows.forget(space, thread)

        return self._backend.change_checkpoints(work)

    def remove(self, space: str, places: Iterable[tuple[str, str, str]]) -> int:
        """Delete checkpoints by thread, ns and id, in one transaction; how many there were."""
        grouped: dict[tuple[str, str], list[str]] = {}
        for thread, ns, each in places:
            grouped.setdefault((thread, ns), []).append(each)

        def work(rows: CheckpointRows) -> int:
            count = 0
            for (thread, ns), ids in grouped.items():
                number = rows.thread(space, thread, ns)
                if number is not None:
                    nos = [no for each in dict.fromkeys(ids) if (no := rows.number(number, each)) is not None]
                    self._take_out(rows, number, nos)
                    rows.drop_pending(number, ids)
                    rows.tidy(number)
                    count += len(nos)
            return count

        return self._backend.change_checkpoints(work)

    def vacuum(self, space: str, age: timedelta) -> int:
        """Delete the checkpoints that were made longer ago than this; how many."""
        now = self._backend.now()
        at = _micros(now) - age // timedelta(microseconds=1)
        with self._backend.checkpoints() as rows:
            old = [row for row in rows.listed(space, None, None, by_id=False, before=None) if row.created_at < at]
        return self.remove(space, [(row.thread, row.ns, row.id) for row in old]) if old else 0

    def purge(self, before: datetime) -> int:
        """Remove what expired before then; how many."""

        def work(rows: CheckpointRows) -> int:
            expired = rows.expired(_micros(before), PURGED_AT_ONCE)
            for thread in dict.fromkeys(thread for thread, _, _ in expired):
                theirs = [(no, which) for other, no, which in expired if other == thread]
                self._take_out(rows, thread, [no for no, _ in theirs])
                rows.drop_pending(thread, [which for _, which in theirs])
                rows.tidy(thread)
            return len(expired)

        with self._backend.checkpoints() as rows:
            if not rows.expired(_micros(before), 1):
                return 0
        count = 0
        while some := self._backend.change_checkpoints(work):
            count += some
        return count

    # The chains.

    @staticmethod
    def _found(
        rows: CheckpointRows, space: str, thread: str, id: str | None, ns: str, by_id: bool
    ) -> tuple[int, CheckpointRow | None]:
        """A thread's number, and its checkpoint with this id, or the newest."""
        number = rows.thread(space, _name("thread", thread), _ns(ns))
        if id is not None:
            check_text("id", id, MAX_NAME)
        if number is None:
            return 0, None
        return number, rows.newest(number, by_id=by_id) if id is None else rows.row(number, id)

    def _base(self, place: tuple[str, str, str], parent: str | None) -> _Known | None:
        """The state that the next one is written as a change of; None when it is to be whole."""
        head = self._head(place, parent)
        if head is None:
            return None
        last = head.chain[-1].place
        if last + 1 >= RADIX**DEPTH:
            return None
        wanted = base_place(last + 1)
        fit = [step for step in head.chain if step.depth < DEPTH]
        step = next((step for step in fit if step.place == wanted), fit[-1])
        if step.no == head.chain[-1].no:
            return head._replace(chain=(*head.chain, _Step(0, step.depth + 1, last + 1)))
        with self._lock:
            known = self._states.get(step.no)
        if known is None:
            with self._backend.checkpoints() as rows:
                known = self._read(rows, step.no)
        if known is None:
            return None
        return known._replace(chain=(*known.chain, _Step(0, step.depth + 1, last + 1)))

    def _head(self, place: tuple[str, str, str], parent: str | None) -> _Known | None:
        """What the thread went on from: its parent, else the checkpoint that was saved last."""
        with self._lock:
            known = self._states.get(self._heads.get(place, 0))
        if known is not None and parent in (None, known.id):
            return known
        with self._backend.checkpoints() as rows:
            number = rows.thread(*place)
            if number is None:
                return None
            row = None if parent is None else rows.row(number, parent)
            row = row or rows.newest(number, by_id=False)
            return None if row is None else self._known(rows, row)

    def _known(self, rows: CheckpointRows, row: CheckpointRow) -> _Known:
        with self._lock:
            known = self._states.get(row.no)
            if known is not None:
                self._states.move_to_end(row.no)
        known = known or self._read(rows, row.no)
        if known is None:
            raise Unavailable(f"checkpoint {row.id!r} of the thread {row.thread!r} is damaged; restore a backup")
        return known

    def _read(self, rows: CheckpointRows, no: int) -> _Known | None:
        """The state of a checkpoint from its chain; None when there is none with this number."""
        links = rows.chain(no)
        if not links:
            return None
        with self._lock:
            from_here = next(
                ((at, self._states[link.no]) for at, link in enumerate(links) if link.no in self._states), None
            )
        at, base = from_here if from_here is not None else (len(links), None)
        state, unpacked = _made(links[:at], base.state if base else None)
        chain = tuple(_Step(link.no, link.depth, link.place) for link in reversed(links))
        size = unpacked + (base.size if base else 0)
        known = _Known(links[0].id, state, chain, len(links[-1].body), size)
        self._keep(no, known)
        return known

    def _insert(
        self,
        place: tuple[str, str, str],
        known: _Known,
        body: bytes,
        parent: str | None,
        metadata: str,
        now: datetime,
        expires: datetime | None,
    ) -> _Known:
        """Add a checkpoint, and know it by its number."""
        *before, step = known.chain
        base = before[-1].no if before else None

        def work(rows: CheckpointRows) -> int:
            thread, held, there = rows.standing(*place, known.id, base)
            if base is not None and held is not None:
                raise _Replaced
            if base is not None and not there:
                raise _Gone
            if thread is None:
                thread = cast(int, rows.thread(*place, make=True))
            if held is not None:
                self._take_out(rows, thread, [held])
            return rows.insert(
                thread, known.id, parent, (base, step.depth, step.place), created_at=_micros(now),
                expires_at=None if expires is None else _micros(expires), metadata=metadata, body=body,
            )  # fmt: skip

        no = self._backend.change_checkpoints(work)
        return known._replace(chain=(*before, step._replace(no=no)))

    def _take_out(self, rows: CheckpointRows, thread: int, nos: Sequence[int]) -> None:
        """Remove checkpoints, after writing what was a change of theirs as a change of something that stays."""
        going = set(nos)
        promoted: tuple[int, State] | None = None  # the first that is left with nothing to be a change of: its siblings
        for child in rows.built_on(thread, nos):  # become changes of it
            if child.no in going:
                continue
            links = rows.chain(child.no)
            try:
                state = _state(links)
            except Unavailable:
                continue  # nobody can read it, with or without what it was a change of; `check` tells of it
            kept = next((at for at, link in enumerate(links) if at and link.no not in going), None)
            change: list[Any] = [VALUE, state]
            if kept is not None:
                change = _changed(_state(links[kept:]), state)
                rows.rebase(child.no, links[kept].no, links[kept].depth + 1, _pack(_dumped(change)))
            elif promoted is not None:
                change = _changed(promoted[1], state)
                rows.rebase(child.no, promoted[0], 1, _pack(_dumped(change)))
            else:
                promoted = (child.no, state)
                rows.rebase(child.no, None, 0, _pack(_dumped(state)))
            row = rows.numbered(child.no)
            if row is not None:  # else it has expired, and is not looked for any more
                rows.take_in(rows.space(thread), [(child.no, _brought(change, row.metadata))], None)
        rows.remove(nos)
        self._forget(nos)

    def _take_in(self, space: str) -> bool:
        """Take in the words of the next checkpoints; whether there may be more."""
        with self._backend.checkpoints() as rows:
            found, upto = rows.unsought(space, SOUGHT_AT_ONCE)
        if not found:
            return False
        brought = []
        for link, metadata in found:
            try:
                read = _loaded(link.body)[0]
                said = _brought([VALUE, read] if link.base is None else read, metadata)
            except (ValueError, LookupError, TypeError, zlib.error):
                said = _brought([VALUE, None], metadata)  # damaged: `check` tells of it
            brought.append((link.no, said))
        self._backend.change_checkpoints(lambda rows: rows.take_in(space, brought, upto))
        return len(found) == SOUGHT_AT_ONCE

    # The cache.

    def _remember(self, place: tuple[str, str, str], known: _Known) -> None:
        no = known.chain[-1].no
        self._keep(no, known)
        with self._lock:
            self._heads[place] = no
            self._heads.move_to_end(place)
            if len(self._heads) > 1000:
                self._heads.popitem(last=False)

    def _keep(self, no: int, known: _Known) -> None:
        if known.memory > CACHED // 2:
            return
        with self._lock:
            replaced = self._states.pop(no, None)
            self._states[no] = known
            self._size += known.memory - (replaced.memory if replaced else 0)
            while self._size > CACHED or len(self._states) > MOST_CACHED:
                _, dropped = self._states.popitem(last=False)
                self._size -= dropped.memory

    def _forget(self, nos: Iterable[int]) -> None:
        with self._lock:
            for no in nos:
                known = self._states.pop(no, None)
                self._size -= known.memory if known else 0


def _written(base: _Known | None, id: str, state: State) -> tuple[_Known, bytes]:
    """A state's body as a change of `base`, or whole where that is no worse; and all that is known of it then."""
    if base is not None:
        plain = _dumped(_changed(base.state, state))
        body = _pack(plain)
        if len(body) * 2 <= base.whole:
            return base._replace(id=id, state=state, size=base.size + len(plain)), body
    whole = _dumped(state)
    packed = _pack(whole)
    if base is not None and len(body) * 2 <= len(packed):
        return base._replace(id=id, state=state, size=len(whole)), body
    return _Known(id, state, (_Step(0, 0, 0),), len(packed), len(whole)), packed


def _state(links: Sequence[Link]) -> State:
    """The state at the beginning of a chain that ends with a whole one."""
    return _made(links, None)[0]


def _made(links: Sequence[Link], base: State) -> tuple[State, int]:
    """The state at the beginning of a chain, which ends with a whole one or with a change of `base`, and how many
    bytes of JSON it was made of."""
    state, size = base, 0
    try:
        for link in reversed(links):
            read, length = _loaded(link.body)
            state = read if link.base is None else patch(state, read)
            size += length
    except (ValueError, RecursionError, zlib.error) as error:
        raise Unavailable(f"checkpoint {links[0].id!r} is damaged ({error}); restore a backup") from error
    return state, size


def _changed(old: State, new: State) -> list[Any]:
    """The change between two states; what is too deep to be taken apart is written whole."""
    try:
        return diff(old, new)
    except (RecursionError, ValueError):
        return [VALUE, new]


def _brought(change: list[Any], metadata: str) -> str:
    """The words that a change and its metadata bring, as they are looked for."""
    return " ".join(words("\n".join(json_words([_new(change), json.loads(metadata)]))))


def _new(change: list[Any]) -> Any:
    """What is new in a change."""
    kind, *rest = change
    if kind == 0:
        return rest[0]
    if kind == 1:
        return [_new(inner) for inner in rest[0].values()]
    if kind == 2:
        return [part[0] if len(part) == 1 else _new(part[1]) for part in rest[0] if not isinstance(part[-1], int)]
    return rest[2]


def _dumped(state: State) -> bytes:
    try:
        plain = _encode(state).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid("state", f"is not JSON: {error}") from error
    if len(plain) > MAX_STATE:
        raise LimitExceeded("state", MAX_STATE, "bytes of JSON")
    return plain


def _loaded(body: bytes) -> tuple[Any, int]:
    """What a body holds, and how many bytes of JSON that is."""
    plain = _unpack(body)
    return _loaded_plain(plain), len(plain)


def _loaded_plain(plain: bytes) -> Any:
    try:
        return json.loads(plain.decode("utf-8", "surrogatepass"))
    except RecursionError as error:
        raise Invalid("state", "is nested too deeply") from error


def _pack(plain: bytes) -> bytes:
    if len(plain) < SHORT:
        return _PLAIN + plain
    packed = zlib.compress(plain, _LEVEL)
    return _DEFLATED + packed if len(packed) < len(plain) else _PLAIN + plain


def _unpack(body: bytes) -> bytes:
    return zlib.decompress(body[1:], bufsize=4 * len(body)) if body[:1] == _DEFLATED else body[1:]


def _copied(state: State) -> State:
    """A copy that shares nothing with the state: several times as fast as copy.deepcopy."""
    try:
        return marshal.loads(marshal.dumps(state, 2))  # noqa: S302  # our own bytes, just made
    except ValueError as error:
        raise Invalid("state", "is not JSON: it holds an object of some other type, or itself") from error


def _checkpoint(row: CheckpointRow, state: State = None, pending: tuple[PendingWrite, ...] = ()) -> Checkpoint:
    return Checkpoint(
        thread=row.thread, ns=row.ns, id=row.id, parent=row.parent, metadata=json.loads(row.metadata),
        created_at=_moment(row.created_at), expires_at=None if row.expires_at is None else _moment(row.expires_at),
        state=state, pending=pending,
    )  # fmt: skip


def _holds(metadata: Mapping[str, Any], key: str, value: Any) -> bool:
    if key not in metadata:
        return False
    held = metadata[key]
    return held == value if _is_number(held) and _is_number(value) else same(held, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _metadata(metadata: Mapping[str, Any] | None) -> str:
    if metadata is None:
        return "{}"
    if not isinstance(metadata, Mapping):
        raise Invalid("metadata", f"expected a dictionary, got {type(metadata).__name__}")
    for key in metadata:
        if not isinstance(key, str):
            raise Invalid("metadata", f"the key {key!r} is not a string")
    try:
        text = _encode_strict(dict(metadata))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid("metadata", f"is not JSON: {error}") from error
    if len(text) > MAX_METADATA:
        raise LimitExceeded("metadata", MAX_METADATA, "characters of JSON")
    return text


def _name(field: str, name: str) -> str:
    check_text(field, name, MAX_NAME, empty=False)
    return name


def _ns(ns: str) -> str:
    check_text("ns", ns, MAX_NS)
    return ns


def lifetime(ttl: float | timedelta) -> timedelta:
    """How long something lasts, given in seconds or as a timedelta; raises Invalid for what is no such time."""
    if isinstance(ttl, timedelta):
        length = ttl
    elif isinstance(ttl, bool) or not isinstance(ttl, int | float) or not -_LONGEST < ttl < _LONGEST:
        raise Invalid("ttl", "expected seconds, up to a thousand years of them, or a timedelta")
    else:
        length = timedelta(seconds=ttl)
    if not timedelta(0) < length <= timedelta(seconds=_LONGEST):
        raise Invalid("ttl", "is not more than nothing and up to a thousand years")
    return length


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
