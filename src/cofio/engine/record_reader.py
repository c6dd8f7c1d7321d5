"""The verbs that read records without searching: by id, by key, by text, and lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias, cast

from ..backends.interface import Backend
from ..backends.rules import digest_text, is_expired
from ..values.errors import Invalid, LimitExceeded, NotFound
from ..values.query import MAX_LIST, AllOf, Bounds, Filter, Order, TimeCount, Where, Window
from ..values.records import (
    MAX_ID,
    MAX_KEY,
    MAX_TEXT,
    Heading,
    Kind,
    Record,
    Scope,
    check_int,
    check_scope,
    check_text,
    check_time,
    member,
)
from ..values.times import from_micros

if TYPE_CHECKING:
    from ..values.changes import Vector

Records: TypeAlias = list[Record]  # inside of RecordReader, `list` is a verb
Found: TypeAlias = list[Record | None]
Headings: TypeAlias = list[Heading]
Ids: TypeAlias = list[str]
TimeCounts: TypeAlias = list[TimeCount]
MAX_STEPS = 100_000


class RecordReader:
    """Reads the records of a backend. Each call sees one moment, and nothing that has expired by then."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def read(self, id: str) -> Record:
        """The record with this id.

        Raises:
            NotFound: nothing has this id, or it has expired.
        """
        _check_id(id)
        with self._backend.snapshot() as snapshot:
            record = snapshot.by_id(id)
        if record is None or is_expired(record, snapshot.now):
            raise NotFound(id)
        return record

    def read_many(self, ids: Iterable[str]) -> Found:
        """The records with these ids, as of one moment; None for an id that nothing has."""
        wanted = list(ids)
        for each in wanted:
            _check_id(each)
        with self._backend.snapshot() as snapshot:
            found = snapshot.by_ids(wanted)
        records = map(found.get, wanted)
        return [None if each is None or is_expired(each, snapshot.now) else each for each in records]

    def ids(self, prefix: str, *, limit: int = 10) -> Ids:
        """The ids that begin so, in their order: for people, who do not type them whole."""
        check_int("limit", limit, 1, MAX_LIST)
        _check_id(prefix)
        with self._backend.snapshot() as snapshot:
            return snapshot.ids(prefix, limit)

    def abbreviate(self, ids: Iterable[str], *, least: int = 8) -> dict[str, str]:
        """The shortest beginning of each id, of `least` characters or more, that no other record's id has now."""
        check_int("least", least, 1, MAX_ID)
        shared: dict[str, int] = {}
        with self._backend.snapshot() as snapshot:
            for each in ids:
                _check_id(each)
                shared[each] = _count_shared(each, snapshot.adjacent_ids(each))
        return {each: each[: max(least, length + 1)] for each, length in shared.items()}

    def get(self, scope: Scope, key: str, *, kind: Kind | str = Kind.ITEM) -> Record | None:
        """What the key holds; None when it holds nothing."""
        (record,) = self.get_many([(scope, key)], kind=kind)
        return record

    def get_many(self, places: Iterable[tuple[Scope, str]], *, kind: Kind | str = Kind.ITEM) -> Found:
        """What each of the keys holds, as of one moment; None for one that holds nothing."""
        pairs = list(places)
        for scope, key in pairs:
            check_scope(scope)
            check_text("key", key, MAX_KEY)
        kind = member(Kind, "kind", kind)
        with self._backend.snapshot() as snapshot:
            records = [snapshot.by_key(scope, kind, key) for scope, key in pairs]
        return [None if record is None or is_expired(record, snapshot.now) else record for record in records]

    def given(self, id: str) -> Mapping[str, tuple[float, ...]]:
        """The vectors that were given with a record, as float32; none when nothing has this id."""
        _check_id(id)
        with self._backend.snapshot() as snapshot:
            record = snapshot.by_id(id)
            return {} if record is None or is_expired(record, snapshot.now) else snapshot.given_vectors(id)

    def read_vectors(self, embedder: str, ids: Iterable[str]) -> dict[str, Vector]:
        """The vectors that an embedder has made of records, by their ids; those that have none yet are left out."""
        wanted = list(ids)
        for each in wanted:
            _check_id(each)
        with self._backend.snapshot() as snapshot:
            return snapshot.made_vectors(embedder, wanted)

    def same(self, scope: Scope, text: str, *, kind: Kind | str = Kind.NOTE) -> Record | None:
        """The oldest record of the scope and kind with just this text, white space apart; None when there is none."""
        check_text("text", text, MAX_TEXT)
        check_scope(scope)
        kind = member(Kind, "kind", kind)
        if not text.strip():
            return None
        with self._backend.snapshot() as snapshot:
            return snapshot.by_digest(scope, kind, digest_text(text))

    def list(
        self,
        scope: Scope = Scope(),  # noqa: B008  # a value
        *,
        exact: bool = False,
        kinds: Iterable[Kind] = (),
        filter: Filter | None = None,
        limit: int = 100,
        offset: int = 0,
        newest: bool = True,
        order: Order = "changed",
    ) -> Records:
        """Records of the scope and, unless `exact`, of all under it, the last changed first.

        With `order="created"` they come by their `created_at` instead, and with "written" also those of one moment
        by when they were first written, whatever changed since; with "expires" by when they expire, those that do not
        at the end. `newest=False` turns any order round.
        """
        bounds = make_bounds(scope, exact, kinds, filter)
        window = Window(limit=limit, offset=offset, newest=newest, order=order)
        with self._backend.snapshot() as snapshot:
            return snapshot.list(bounds, window)

    def headings(
        self,
        scope: Scope = Scope(),  # noqa: B008  # a value
        *,
        exact: bool = False,
        kinds: Iterable[Kind] = (),
        filter: Filter | None = None,
        limit: int = 100,
        offset: int = 0,
        newest: bool = True,
        order: Order = "changed",
    ) -> Headings:
        """The same as `list`, without the texts and data: they are not even read."""
        bounds = make_bounds(scope, exact, kinds, filter)
        window = Window(limit=limit, offset=offset, newest=newest, order=order)
        with self._backend.snapshot() as snapshot:
            return snapshot.headings(bounds, window)

    def each(
        self,
        scope: Scope = Scope(),  # noqa: B008  # a value
        *,
        exact: bool = False,
        kinds: Iterable[Kind] = (),
        filter: Filter | None = None,
    ) -> Iterator[Record]:
        """Every record of the scope and, unless `exact`, of all under it, as of one moment, oldest change first.

        They are not all in memory at once, and others can write while they are taken.
        """
        return self._backend.export(make_bounds(scope, exact, kinds, filter))

    def count(
        self,
        scope: Scope = Scope(),  # noqa: B008  # a value
        *,
        exact: bool = False,
        kinds: Iterable[Kind] = (),
        filter: Filter | None = None,
    ) -> int:
        """How many records the scope and, unless `exact`, all under it hold."""
        bounds = make_bounds(scope, exact, kinds, filter)
        with self._backend.snapshot() as snapshot:
            return snapshot.count(bounds)

    def count_by_time(
        self,
        since: datetime,
        until: datetime,
        step: timedelta,
        scope: Scope = Scope(),  # noqa: B008  # a value
        *,
        exact: bool = False,
        kinds: Iterable[Kind] = (),
        filter: Filter | None = None,
    ) -> TimeCounts:
        """How many records were created in each step of time from `since` until, and without, `until`, by kind.

        Steps are counted from 1970 (UTC): one of a day begins at midnight there. What has no records is left out.

        Raises:
            LimitExceeded: there would be more than `MAX_STEPS` steps.
        """
        check_time("since", since)
        check_time("until", until)
        if step < timedelta(seconds=1):
            raise Invalid("step", "is shorter than a second")
        if (until - since) / step > MAX_STEPS:
            raise LimitExceeded("step", MAX_STEPS, "steps")
        tests = [Where("created_at", ">=", since), Where("created_at", "<", until)]
        bounds = make_bounds(scope, exact, kinds, AllOf(*tests, *([] if filter is None else [filter])))
        with self._backend.snapshot() as snapshot:
            rows = snapshot.count_by_time(bounds, step // timedelta(microseconds=1))
        return [TimeCount(from_micros(begin), Kind(kind), count) for begin, kind, count in rows]

    def scopes(self, under: Scope = Scope(), *, kinds: Iterable[Kind] = ()) -> dict[Scope, int]:  # noqa: B008  # a value
        """Each scope that holds records, of these kinds if any are named, with their number."""
        bounds = make_bounds(under, False, kinds, None)
        with self._backend.snapshot() as snapshot:
            return dict(snapshot.scopes(under, bounds.kinds))


def make_bounds(scope: Scope, exact: bool, kinds: Iterable[Kind], filter: Filter | None) -> Bounds:
    """What a call may see, checked."""
    return Bounds(scope=scope, exact=exact, kinds=cast("tuple[Kind, ...]", kinds), filter=filter)


def _check_id(id: str) -> None:
    check_text("id", id, MAX_ID)


def _count_shared(id: str, others: Iterable[str]) -> int:
    """How many characters the id begins with that one of the others begins with, too."""
    return max(
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(id, other, strict=False))) for other in others
    )
