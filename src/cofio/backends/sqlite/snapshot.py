"""One consistent look at a store: what a read or a search sees, and how candidates are judged by their rows."""

from __future__ import annotations

import array
import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import apsw

from ...values.query import Bounds, Order
from ...values.records import Heading, Kind, Record, Scope
from ..search_interface import Backlog, Brief, Match
from .conditions import Condition, micros, within, within_scope
from .database import fetch
from .keyword_search import WordSearch, narrowed
from .record_rows import COLUMNS, HEADING, given_with, heading_of, moment, record_of, steady, text_digest
from .word_index import Damaged, Look, watched

if TYPE_CHECKING:
    from ...values.changes import Vector
    from .backend import SqliteBackend
    from .vector_codes import Codes, Near

DEEPER = 4  # how much further to look, when too few of the candidates turn out to be within bounds
EXACT = 40  # so many of the nearest by int8 are scored from the vectors themselves
FEW = 1000  # so few records that pass a filter are named to the word index
SELECTIVE = 10_000  # a filter that leaves fewer records than this is worked out before the vectors are scanned
GIVEN_AT_ONCE = 1_000_000  # numbers of given vectors that are in memory at a time
MANY = 2000  # a backlog is looked at no further in a search: counting would take longer than searching
_BRIEF = "no, id, scope, parent, position, author, created_at, words, seq, text_seq"


class SqliteView:
    """One consistent look at a store."""

    def __init__(self, backend: SqliteBackend, connection: apsw.Connection, look: Look, now: datetime) -> None:
        self._backend = backend
        self._connection = connection
        self._look = look
        self._at = steady(micros(now), look.state.updated)
        self._known: dict[int, Brief] = {}
        self._loaded_codes: dict[str, list[Codes]] = {}
        self._passing: list[int] | None = None
        self.now = moment(self._at)

    def read(self, record_id: str) -> Record | None:
        """The record with this id."""
        return self._one("id = ?", record_id)

    def get(self, scope: Scope, kind: Kind, key: str) -> Record | None:
        """The record with this key."""
        return self._one(
            "scope = (SELECT no FROM scope WHERE path = ?) AND kind = ? AND key = ?", scope.path, kind, key
        )

    def same(self, scope: Scope, kind: Kind, text: str) -> Record | None:
        """The oldest record of the scope and kind with just this text, white space apart."""
        return self._one(
            "digest = ? AND scope = (SELECT no FROM scope WHERE path = ?) AND kind = ?",
            text_digest(text), scope.path, kind, order="no",
        )  # fmt: skip

    def ids(self, prefix: str, limit: int) -> list[str]:
        """The ids that begin so, in their order."""
        rows = self._connection.execute(
            "SELECT id FROM record WHERE id >= ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY id LIMIT ?",
            (prefix, self._at, limit),
        )
        return list(takewhile(lambda found: found.startswith(prefix), (row[0] for row in rows)))

    def adjacent_ids(self, record_id: str) -> tuple[str, str]:
        """The ids next before and next after this one in their order, also of what has expired; "" for none."""
        before, after = self._connection.execute(
            "SELECT (SELECT max(id) FROM record WHERE id < ?1), (SELECT min(id) FROM record WHERE id > ?1)",
            (record_id,),
        ).get
        return before or "", after or ""

    def listed(
        self, bounds: Bounds, *, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> list[Record]:
        """Records within bounds in the order in which they last changed, or were made."""
        return [record_of(row) for row in self._page(COLUMNS, bounds, limit, offset, newest, order)]

    def headings(
        self, bounds: Bounds, *, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> list[Heading]:
        """The same without their texts, which are not read."""
        return [heading_of(row) for row in self._page(HEADING, bounds, limit, offset, newest, order)]

    def _page(
        self, columns: str, bounds: Bounds, limit: int, offset: int, newest: bool, order: Order = "changed"
    ) -> apsw.Cursor:
        condition = within(bounds, self._at, by_row=False)
        way = "DESC" if newest else "ASC"
        by = {"changed": "seq {0}", "created": "created_at {0}, seq {0}", "written": "created_at {0}, no {0}"}[order]
        return self._connection.execute(
            f"SELECT {columns} FROM record WHERE {condition.sql} ORDER BY {by.format(way)} LIMIT ? OFFSET ?",
            (*condition.values, limit, offset),
        )

    def count(self, bounds: Bounds) -> int:
        """How many records are within bounds."""
        condition = within(bounds, self._at, by_row=False)
        return int(self._connection.execute(f"SELECT count(*) FROM record WHERE {condition.sql}", condition.values).get)

    def scopes(self, under: Scope, kinds: Sequence[Kind] = ()) -> list[tuple[Scope, int]]:
        """Each scope that holds records, of these kinds if any are named, with their number."""
        among = f" AND kind IN ({','.join('?' * len(kinds))})" if kinds else ""
        rows = self._connection.execute(
            "SELECT path, count(*) FROM record JOIN scope ON scope.no = record.scope WHERE path >= ? AND path < ?"
            f" AND (expires_at IS NULL OR expires_at > ?){among} GROUP BY path ORDER BY path",
            (under.path, under.path + b"\xff", self._at, *kinds),
        )
        return [(Scope.from_path(path), count) for path, count in rows]

    def keyword(self, words: Sequence[str], bounds: Bounds, limit: int) -> list[Match]:
        """The best candidates by words."""
        try:
            return self._keyword(words, bounds, limit)
        except Damaged:
            # No more than candidates has been read so far: a later look can take the place of this one.
            self._known.clear()
            self._look = self._backend.mend(self._connection, self._look.state)
            return self._keyword(words, bounds, limit)

    def _keyword(self, words: Sequence[str], bounds: Bounds, limit: int) -> list[Match]:
        """The best candidates from the tail and from the index, as long as the row agrees."""
        with watched():
            search = WordSearch(self._look, words, bounds, self._few(bounds))
        condition = within(bounds, self._at, by_row=True)
        found: dict[int, Match] = {}
        depth, done = limit, 0
        while done < len(search.tail) and len(found) < limit:
            some = search.tail[done:depth]
            self._seen([match.no for match, _ in some], condition)
            found |= {match.no: match for match, seq in some if self._is(match.no, seq)}
            depth, done = depth * DEEPER, depth
        depth, done = limit, 0
        while True:
            with watched():
                hits = search.indexed(depth)
            self._seen([no for no, _, _ in hits[done:]], condition)
            found |= {
                no: search.match(no, score, self._known[no].words)
                for no, seq, score in hits[done:]
                if self._is(no, seq)  # else the record has changed since, and is in the tail
            }
            if len(hits) < depth or len(found) >= limit:
                break
            depth, done = depth * DEEPER, len(hits)
        return sorted(found.values(), key=lambda match: (-match.score, -match.no))[:limit]

    def _is(self, no: int, seq: int) -> bool:
        """Whether a record that was looked at is within bounds and was last changed by this change."""
        known = self._known.get(no)
        return known is not None and known.seq == seq

    def semantic(self, vector: Vector, embedder: str, bounds: Bounds, limit: int) -> list[Match]:
        """The nearest candidates by vector, the best of them scored exactly."""
        condition = within(bounds, self._at, by_row=True)
        found: dict[int, float] = {}
        for near in self._backend.vectors(embedder).nearest(
            self._connection, self._codes(embedder, vector), vector, bounds, self._allowed(bounds)
        ):
            start, step = 0, limit
            while start < len(near.no) and len(found) < limit:
                piece = near.take(slice(start, start + step))
                self._seen(piece.no.tolist(), condition)
                found |= self._present(piece)
                start, step = start + step, step * DEEPER
            if len(found) >= limit:
                break
        best = sorted(found, key=lambda no: -found[no])
        found |= self._exact(vector, embedder, best[:EXACT])
        matches = [Match(no, found[no], min(1.0, max(0.0, found[no]))) for no in best[:limit]]
        return sorted(matches, key=lambda match: (-match.score, -match.no))

    def cosines(self, vector: Vector, embedder: str, nos: Sequence[int]) -> dict[int, float]:
        """The cosine of each of these candidates that has a vector, as near as its code comes to it."""
        import numpy as np

        from .vector_codes import Near

        parts = self._codes(embedder, vector)
        if not nos or not parts:
            return {}
        sought = np.unique(np.array(nos, np.int64))
        return self._present(Near.of(parts, [part.places(sought) for part in parts], vector))

    def _codes(self, embedder: str, vector: Vector) -> list[Codes]:
        """The codes of every vector in this look."""
        if embedder not in self._loaded_codes:
            self._loaded_codes[embedder] = self._backend.vectors(embedder).current(self._connection, len(vector))
        return self._loaded_codes[embedder]

    def _present(self, near: Near) -> dict[int, float]:
        """Of rows found, the scores of those that are within bounds and of the record's present text."""
        rows = zip(near.no.tolist(), near.text_seq.tolist(), near.score.tolist(), strict=True)
        known = self._known
        return {no: score for no, text_seq, score in rows if no in known and known[no].text_seq == text_seq}

    def nearest(self, vector: Sequence[float], bounds: Bounds, limit: int) -> list[Match]:
        """The records whose given vectors are nearest to this one, each of which is looked at."""
        condition = within(bounds, self._at, by_row=False)
        rows = self._connection.execute(
            "SELECT no, data FROM given WHERE dims = ? AND no IN"
            f" (SELECT no FROM record WHERE kind NOT IN ('revision', 'ledger') AND {condition.sql})",
            (len(vector), *condition.values),
        )
        best: dict[int, float] = {}
        while some := list(islice(rows, max(1, GIVEN_AT_ONCE // len(vector)))):
            best |= _nearer(some, vector, best, exact=False)
            # One that goes comes back if another vector of it is near enough.
            best = dict(heapq.nlargest(limit, best.items(), key=lambda each: (each[1], each[0])))
        if not best:
            return []
        last = fetch(
            self._connection,
            "SELECT no, data FROM given WHERE dims = ? AND no IN (SELECT value FROM carray(?))",
            (len(vector), _numbers(best)),
        )
        exact = _nearer(last, vector, {}, exact=True)
        found = sorted(exact.items(), key=lambda each: (-each[1], -each[0]))
        return [Match(no, cosine, min(1.0, max(0.0, cosine))) for no, cosine in found]

    def given(self, record_id: str) -> dict[str, tuple[float, ...]]:
        """The vectors that were given with a record."""
        return given_with(self._connection, record_id) if self.read(record_id) else {}

    def briefs(self, nos: Sequence[int]) -> dict[int, Brief]:
        """What ranking needs to know of these candidates."""
        return {no: self._known[no] for no in nos}

    def neighbours(self, of: Sequence[Brief], reach: int, bounds: Bounds) -> list[Brief]:
        """The records within bounds that stand near these under the same parent."""
        condition = within(bounds, self._at, by_row=True)
        nos: set[int] = set()
        for brief in of:
            assert brief.position is not None
            nos.update(
                no for (no,) in self._connection.execute(
                    "SELECT no FROM record WHERE parent = ? AND position BETWEEN ? AND ? AND scope = ?"
                    " AND kind NOT IN ('revision', 'ledger')",
                    (brief.parent, brief.position - reach, brief.position + reach, brief.scope),
                )
            )  # fmt: skip
        fresh = nos - self._known.keys()
        return [self._known[no] for no in self._seen(fresh, condition)]

    def records(self, nos: Sequence[int]) -> dict[int, Record]:
        """The records with these numbers."""
        if not nos:
            return {}
        rows = self._connection.execute(
            f"SELECT no, {COLUMNS} FROM record WHERE no IN (SELECT value FROM carray(?))", (_numbers(nos),)
        )
        return {row[0]: record_of(row[1:]) for row in rows}

    def in_sessions(self) -> bool:
        """Whether any record stands under another."""
        return bool(self._connection.execute("SELECT EXISTS (SELECT 1 FROM record WHERE parent IS NOT NULL)").get)

    def backlog(self, embedder: str | None, bounds: Bounds) -> Backlog:
        """What a search within these bounds cannot see yet."""
        vectors, many = 0, False
        if embedder is not None:
            number, seen = seen_seq(self._connection, embedder)
            if seen < self._look.state.seq:
                condition = within_scope(bounds)
                looked, vectors = self._connection.execute(
                    f"SELECT count(*), ifnull(sum(vector.text_seq IS NOT record.text_seq AND {condition.sql}), 0)"
                    " FROM (SELECT no, text_seq, scope FROM record WHERE seq > ? LIMIT ?) AS record"
                    " LEFT JOIN vector ON vector.embedder = ? AND vector.no = record.no",
                    (*condition.values, seen, MANY, number),
                ).get
                many = looked == MANY
        return Backlog(lost_words=self._look.state.tail_seq > self._look.state.indexed_seq, vectors=vectors, many=many)

    def _one(self, where: str, *values: str | bytes, order: str = "") -> Record | None:
        first = f" ORDER BY {order} LIMIT 1" if order else ""
        row = self._connection.execute(
            f"SELECT {COLUMNS} FROM record WHERE {where} AND (expires_at IS NULL OR expires_at > ?){first}",
            (*values, self._at),
        ).get
        return None if row is None else record_of(row)

    def _seen(self, nos: Iterable[int], condition: Condition) -> list[int]:
        """Those of the numbers that are within bounds."""
        asked = [no for no in nos if no not in self._known]
        if asked:
            rows = self._connection.execute(
                f"SELECT {_BRIEF} FROM record WHERE no IN (SELECT value FROM carray(?)) AND {condition.sql}",
                (_numbers(asked), *condition.values),
            )
            self._known.update((row[0], Brief._make(row)) for row in rows)
        return [no for no in nos if no in self._known]

    def _allowed(self, bounds: Bounds) -> list[int] | None:
        """The records that pass a filter, when there are few enough to be worth knowing before the search."""
        if bounds.filter is None:
            return None
        if self._passing is None:
            condition = within(bounds, self._at, by_row=False)
            rows = fetch(
                self._connection, f"SELECT no FROM record WHERE {condition.sql} LIMIT ?", (*condition.values, SELECTIVE)
            )
            self._passing = [no for (no,) in rows]
        return self._passing if len(self._passing) < SELECTIVE else None

    def _few(self, bounds: Bounds) -> list[int] | None:
        """The same for the word index, which looks each of them up, and knows the common filters itself."""
        if bounds.filter is None or narrowed(bounds.filter):
            return None
        allowed = self._allowed(bounds)
        return allowed if allowed is not None and len(allowed) <= FEW else None

    def _exact(self, vector: Vector, embedder: str, nos: Sequence[int]) -> dict[int, float]:
        """The exact cosine of each of these records, whose vectors are of their present text."""
        import numpy as np

        if not nos:
            return {}
        rows = fetch(
            self._connection,
            "SELECT no, data FROM vector"
            " WHERE embedder = (SELECT no FROM embedder WHERE name = ?) AND no IN (SELECT value FROM carray(?))",
            (embedder, _numbers(nos)),
        )
        stored = np.frombuffer(b"".join(row[1] for row in rows), "<f2").astype(np.float32).reshape(len(rows), -1)
        return dict(zip((row[0] for row in rows), (stored @ vector).tolist(), strict=True))


def _nearer(
    rows: Sequence[tuple[int, bytes]], vector: Sequence[float], known: dict[int, float], *, exact: bool
) -> dict[int, float]:
    """The greatest cosine that each record of the rows has by now, in double precision if it is to be `exact`."""
    import numpy as np

    stored = np.frombuffer(b"".join(data for _, data in rows), "<f4").reshape(len(rows), -1)
    given = stored.astype(np.float64) if exact else stored
    sought = np.asarray(vector, np.float64)
    cosines = (given @ (sought / np.linalg.norm(sought)).astype(given.dtype)) / np.sqrt(
        np.einsum("ij,ij->i", given, given)
    )
    best: dict[int, float] = {}
    for (no, _), cosine in zip(rows, cosines.tolist(), strict=True):
        best[no] = max(cosine, best.get(no, known.get(no, -1.0)))
    return best


def seen_seq(connection: apsw.Connection, name: str) -> tuple[int, int]:
    """An embedder's number, and the change up to which every record has its vector."""
    row = connection.execute("SELECT no, seen_seq FROM embedder WHERE name = ?", (name,)).get
    return row or (0, 0)


def _numbers(nos: Iterable[int]) -> object:
    """A list of numbers that can be bound to one parameter."""
    return apsw.carray(array.array("q", nos))
