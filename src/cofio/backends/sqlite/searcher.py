"""A search within one Bounds: candidates by words and by vectors, as long as their rows say that they may be seen.

Each step of a statement releases the interpreter lock and takes it again, for which it may have to wait while other
threads compute. So rows come back in one step, as JSON or as joined bytes, and a search makes few statements.
"""

from __future__ import annotations

import array
import heapq
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import apsw

from ...text.bm25 import WordScore
from ...values.errors import Unavailable
from ...values.query import Bounds
from ...values.records import Record
from ...values.times import to_micros
from ..record_columns import decode_record
from ..search_interface import CONTENT_CHARACTERS, Backlog, Candidate, Candidates, Content, Surroundings
from ..store_time import compute_store_time
from .conditions import EMBEDDED as _EMBEDDED
from .conditions import SEARCHABLE as _SEARCHABLE
from .conditions import changed_within, within, within_scope
from .database import Database, fetch
from .keyword_search import Restriction, WordSearch, is_narrowed
from .record_rows import JSON_COLUMNS
from .vector_rows import CODES_SCHEMA, EmbeddedChanges, SqliteUnembedded, find_unembedded
from .word_index import IndexDamage, IndexHit, IndexSnapshot, WordIndex, open_wordless_snapshot, translate_damage

if TYPE_CHECKING:
    from ...values.changes import Vector
    from .filter_columns import FilterColumns, RowFilter
    from .vector_codes import Codes, Nearest, VectorIndex

T = TypeVar("T")

DEEPER = 4  # how much further to look, when too few of the candidates turn out to be within bounds
EXACT = 40  # how many of the nearest by int8 are scored from the vectors themselves
FEW = 4000  # so few records that pass a filter are named to the word index
HITS_FOR_A_ROW = 8  # what it costs the word index to be named one, in hits that are held against the filter
SELECTIVE = 10_000  # a filter that leaves fewer records than this is worked out before the vectors are scanned
MOST_HITS = (
    8000  # the most that words are to find for a filter to be held against them; an eighth if the index knows it
)
AMPLE = 1.25  # how many more than are likely needed are looked up, where a filter is to leave enough
SMALL, SMALL_BY_WORDS = 2000, 20_000  # so few records are walked through for a filter, within a scope or in all
GIVEN_AT_ONCE = 1_000_000  # numbers of given vectors that are in memory at a time
MANY = 2000  # a backlog is counted no further in a search: counting would take longer than searching
RECORDS_AT_ONCE = 32  # records in one value, which SQLite keeps below 1 GB: each may have some megabytes
REBUILD_AT_ONCE = 20_000  # a lost index of so few records is rebuilt before the search that missed it goes on
_FLAT_ROW = "words, seq, text_seq, no, id"  # all that is needed of a row where none has a parent
_ROW = f"{_FLAT_ROW}, scope, parent, position, author, created_at"
_WORDS, _LAST_CHANGE, _TEXT_CHANGE, _CANDIDATE = 0, 1, 2, 3  # where in a row each stands or, the last, begins
_WHOLE_ROW, _RECORD = f"words, seq, text_seq, no, {JSON_COLUMNS}", 4  # and where its record begins
_NO_PARENT = tuple(Candidate._field_defaults.values())
_HAS_PARENTS = "EXISTS (SELECT 1 FROM record WHERE parent IS NOT NULL)"
_AMONG = "no IN (SELECT value FROM carray(?))"
# Each number is that of a row and, in its lowest bits, how far past it a stretch of positions reaches.
_STRETCHES = (
    "(SELECT parent AS seed_parent, scope AS seed_scope, position AS seed_position, value & 4095 AS length"
    " FROM carray(?) CROSS JOIN record ON no = value >> 12) CROSS JOIN record"
)
_AROUND = (
    "parent = seed_parent AND position BETWEEN seed_position - ? AND seed_position + length"
    f" AND no NOT IN (SELECT value FROM carray(?)) AND +scope = seed_scope AND {_SEARCHABLE}"
)
# What ranking reads of rows that are selected by `{rows}`: with each whether there are codes of its present text, and
# how long they are; the codes themselves are joined.
_CONTENTS = (
    "SELECT json_group_array(json_array(record.no,"
    f" substr(title || char(10) || substr(text, 1, {CONTENT_CHARACTERS}), 1, {CONTENT_CHARACTERS}),"
    " record.created_at, length({codes}))), CAST(group_concat({codes}, '') AS BLOB)"
    " FROM ({rows}) AS wanted CROSS JOIN record ON record.no = wanted.no"
    " LEFT JOIN vector ON vector.embedder = ? AND vector.no = record.no AND vector.text_seq = record.text_seq"
)


class SearchIndexes:
    """The indexes of a store, and the snapshots of the database that they fit."""

    def __init__(
        self,
        words: WordIndex,
        vectors: Callable[[str], VectorIndex],
        try_lock: Callable[[], AbstractContextManager[bool]],
        database: Database,
    ) -> None:
        self._words = words
        self._database = database
        self._try_lock = try_lock
        self.vectors = vectors
        """Return the vector codes of an embedder."""
        self.embedded = EmbeddedChanges()

    @cached_property
    def columns(self) -> FilterColumns:
        """The columns that filters are tested by. numpy is loaded here, and not before it is needed."""
        from .filter_columns import FilterColumns

        return FilterColumns(self._database)

    def open_snapshot(self, connection: apsw.Connection) -> IndexSnapshot:
        """Begin a snapshot with the word index that belongs to it, which is first rebuilt if it is lost and small."""
        for _ in range(100):
            snapshot = self._words.open_snapshot(connection)
            if not snapshot.lost_words or snapshot.state.records > REBUILD_AT_ONCE or self._database.read_only:
                return snapshot
            connection.execute("ROLLBACK")
            try:
                with self._try_lock() as is_locked:
                    if is_locked:
                        self._words.index_changes(1)
            except Unavailable:
                break
            if not is_locked:
                time.sleep(0.1)  # the process that has the lock is about to do this
        return self._words.open_snapshot(connection)  # what can be found without the index is found

    def reopen_after_damage(self, connection: apsw.Connection, damaged: IndexSnapshot) -> IndexSnapshot:
        """Give up a word index that turned out to be damaged, and begin another snapshot with a new one."""
        connection.execute("ROLLBACK")
        self._words.discard(damaged.state.index)
        return self.open_snapshot(connection)


class SqliteSearcher:
    """A search within one Bounds, on the snapshot that its last `candidates` or `nearest` took."""

    def __init__(
        self, connection: apsw.Connection, bounds: Bounds, indexes: SearchIndexes, clock: Callable[[], datetime]
    ) -> None:
        self._connection = connection
        self._bounds = bounds
        self._indexes = indexes
        self._clock = clock
        self._search: SnapshotSearch | None = None

    def candidates(
        self, words: Sequence[str], vector: Vector | None, embedder: str | None, *, depth: int, flat_depth: int
    ) -> Candidates:
        """Return the best records by words, and as many by vector."""
        return self._run_search(
            lambda search: search.candidates(words, vector, embedder, depth=depth, flat_depth=flat_depth),
            by_words=bool(words),
        )

    def find_records(self, words: Sequence[str], limit: int) -> list[Record]:
        """Return the records that match the words best."""
        return self._run_search(lambda search: search.find_records(words, limit), by_words=True)

    def _run_search(self, work: Callable[[SnapshotSearch], T], *, by_words: bool) -> T:
        """Return what `work` finds on a new snapshot."""
        self._leave_snapshot()
        snapshot = (self._indexes.open_snapshot if by_words else open_wordless_snapshot)(self._connection)
        try:
            return work(self._search_on(snapshot))
        except IndexDamage:
            # Nothing that the damaged snapshot has shown was returned: another can replace it.
            return work(self._search_on(self._indexes.reopen_after_damage(self._connection, snapshot)))

    def find_unembedded(self, embedder: str, limit: int, most: int) -> SqliteUnembedded | None:
        """Return records that changed lately and have no vector of their present text."""
        self._leave_snapshot()
        return find_unembedded(
            self._connection, embedder, self._bounds, to_micros(self._clock()),
            limit=limit, most=most, embedded=self._indexes.embedded,
        )  # fmt: skip

    def around(self, candidates: Sequence[Candidate], reach: int, also: Sequence[int]) -> Surroundings:
        """Return the records near these under the same parent, but for those already weighed as candidates."""
        return self._open_search().around(candidates, reach, also)

    def nearest(self, vector: Sequence[float], limit: int) -> dict[int, float]:
        """Return the records whose given vectors are nearest to this one, each of which is compared."""
        self._leave_snapshot()
        return self._search_on(open_wordless_snapshot(self._connection)).nearest(vector, limit)

    def records(self, rows: Sequence[int]) -> dict[int, Record]:
        """Return the records of candidates."""
        return self._open_search().records(rows) if rows else {}

    def _open_search(self) -> SnapshotSearch:
        assert self._search is not None, "there are no candidates yet"
        return self._search

    def _search_on(self, snapshot: IndexSnapshot) -> SnapshotSearch:
        at = compute_store_time(to_micros(self._clock()), snapshot.state.updated)
        self._search = SnapshotSearch(self._connection, snapshot, self._bounds, at, self._indexes)
        return self._search

    def _leave_snapshot(self) -> None:
        self._search = None
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


class _StoreFacts(NamedTuple):
    """What the snapshot says of the store as a whole."""

    has_parents: bool
    """Whether any record stands under another."""
    embedder: int
    """The number of the embedder; 0 for one that has no vectors yet."""
    newest_vector: int
    embedded_upto: int
    """The change up to which every record has its vector."""
    segments: list[tuple[str, int]]
    """The files of vector codes, each with the newest vector in it."""
    has_token_codes: bool
    """Whether vectors have a column for them."""


_NO_FACTS = _StoreFacts(False, 0, 0, 0, [], False)


class SnapshotSearch:
    """A search within one Bounds on one snapshot; what it has learnt of rows is true of no other."""

    def __init__(
        self,
        connection: apsw.Connection,
        snapshot: IndexSnapshot,
        bounds: Bounds,
        at: int,
        indexes: SearchIndexes,
    ) -> None:
        self._connection = connection
        self._snapshot = snapshot
        self._bounds = bounds
        self._at = at
        self._indexes = indexes
        self._row_filter: RowFilter | None = None
        self._condition = within(bounds, at, by_row=True)
        self._checked: set[int] = set()
        """The rows that were held against the bounds."""
        self._within: dict[int, list[Any]] = {}
        """The columns of those of them that are within the bounds."""
        self._passing: list[int] | None = None
        self._facts = _NO_FACTS
        self._columns = _FLAT_ROW
        """What is loaded of each row."""
        self._vector: Vector | None = None
        self._codes: list[Codes] = []
        self._cosines: dict[int, float] = {}
        """What was computed from the vectors themselves, whether or not they are of the present text."""

    def candidates(
        self, words: Sequence[str], vector: Vector | None, embedder: str | None, *, depth: int, flat_depth: int
    ) -> Candidates:
        """Return the best records by words, and as many by vector."""
        self._facts = self._read_facts(embedder)
        self._columns = _ROW if self._facts.has_parents else _FLAT_ROW
        self._row_filter = self._open_row_filter(by_vector=vector is not None)
        depth = depth if self._facts.has_parents else flat_depth
        by_words: WordSearch | None = None
        found: Iterator[list[IndexHit]] = iter(())
        if words:
            with translate_damage():
                by_words = WordSearch(self._snapshot, words, self._bounds)
            found = self._search_words(by_words, depth)
        hits = next(found, [])
        pieces = self._scan_vectors(vector, embedder) if vector is not None and embedder else iter(())
        first = next(pieces, None)
        near = first.row[:depth].tolist() if first is not None else []
        # What follows needs most of these rows: one statement reads them all.
        tail = self._select_tail(by_words) if by_words else []
        in_tail = (row for row, _, _ in tail[:depth])
        self._load(chain(in_tail, (hit.row for hit in hits), near), near[:EXACT])
        keyword = self._pick_by_words(by_words, tail, chain([hits], found), depth) if by_words else {}
        semantic = self._pick_by_vector(chain([first], pieces), depth) if first is not None else {}
        return Candidates(
            keyword=keyword,
            semantic=semantic | self._estimate_cosines([row for row in keyword if row not in semantic]),
            nearest=None if vector is None else len(semantic),
            rows=self._make_candidates(chain(keyword, semantic)),
            weights=by_words.weights if by_words else {},
            backlog=self._find_backlog(embedder),
        )

    def find_records(self, words: Sequence[str], limit: int) -> list[Record]:
        """Return the records that match the words best."""
        self._columns = _WHOLE_ROW  # nearly every row that is looked at becomes a record: one statement reads them
        with translate_damage():
            by_words = WordSearch(self._snapshot, words, self._bounds)
        found = self._search_words(by_words, limit)
        hits, tail = next(found, []), self._select_tail(by_words)
        self._load(chain((row for row, _, _ in tail[:limit]), (hit.row for hit in hits)))
        rows = self._pick_by_words(by_words, tail, chain([hits], found), limit)
        return [_decode_json_row(self._within[row][_RECORD:]) for row in rows]

    def around(self, candidates: Sequence[Candidate], reach: int, also: Sequence[int]) -> Surroundings:
        """Return the records near these under the same parent, but for those already weighed as candidates."""
        stretches = array.array("q", _join_stretches(candidates, reach))
        rows, before, values = "SELECT value AS no FROM carray(?)", "", list[object]()
        found = "'[]'"
        if stretches:
            # Materialized, so that the rows are found once.
            before = (
                f"WITH near AS MATERIALIZED (SELECT no AS number, json_array({self._columns}) AS columns"
                f" FROM {_STRETCHES} WHERE {_AROUND} AND {self._condition.sql}) "
            )
            values = [_bind_numbers(stretches), reach, _bind_numbers(self._checked), *self._condition.values]
            found, rows = "(SELECT json_group_array(json(columns)) FROM near)", f"{rows} UNION SELECT number FROM near"
        contents = _CONTENTS.format(codes="token_codes" if self._facts.has_token_codes else "NULL", rows=rows)
        columns, texts, codes = self._connection.execute(
            f"{before}SELECT {found}, * FROM ({contents})", (*values, _bind_numbers(also), self._facts.embedder)
        ).get
        near = {row[_CANDIDATE]: row for row in json.loads(columns)}
        self._within |= near
        return Surroundings(
            rows=self._make_candidates(sorted(near)),
            semantic=self._estimate_cosines(sorted(near)),
            contents=_split_contents(json.loads(texts), codes or b""),
        )

    def nearest(self, vector: Sequence[float], limit: int) -> dict[int, float]:
        """Return the records whose given vectors are nearest to this one, each of which is compared."""
        condition = within(self._bounds, self._at, by_row=False)
        rows = self._connection.execute(
            "SELECT no, data FROM given WHERE dims = ? AND no IN"
            f" (SELECT no FROM record WHERE {_SEARCHABLE} AND {condition.sql})",
            (len(vector), *condition.values),
        )
        best: dict[int, float] = {}
        while some := list(islice(rows, max(1, GIVEN_AT_ONCE // len(vector)))):
            best |= _compare(some, vector, best, exact=False)
            # One that is dropped here comes back if another vector of it is near enough.
            best = dict(heapq.nlargest(limit, best.items(), key=lambda each: (each[1], each[0])))
        if not best:
            return {}
        last = fetch(
            self._connection, f"SELECT no, data FROM given WHERE dims = ? AND {_AMONG}",
            (len(vector), _bind_numbers(best)),
        )  # fmt: skip
        exact = _compare(last, vector, {}, exact=True)
        return dict(sorted(exact.items(), key=lambda each: (-each[1], -each[0])))

    def records(self, rows: Sequence[int]) -> dict[int, Record]:
        """Return the records with these rows."""
        found: dict[int, Record] = {}
        for start in range(0, len(rows), RECORDS_AT_ONCE):
            sql = f"SELECT json_group_array(json_array(no, {JSON_COLUMNS})) FROM record WHERE {_AMONG}"
            some = _bind_numbers(rows[start : start + RECORDS_AT_ONCE])
            for row, *columns in json.loads(self._connection.execute(sql, (some,)).get):
                found[row] = _decode_json_row(columns)
        return found

    # What the store and its rows are.

    def _read_facts(self, embedder: str | None) -> _StoreFacts:
        if embedder is None:
            return _NO_FACTS._replace(has_parents=bool(self._connection.execute(f"SELECT {_HAS_PARENTS}").get))
        has_parents, number, newest, seen, segments, schema = self._connection.execute(
            f"SELECT {_HAS_PARENTS}, ifnull(embedder.no, 0), ifnull(vseq, 0),"
            " ifnull(seen_seq, 0), (SELECT json_group_array(json_array(name, high)) FROM"
            " (SELECT name, high FROM segment WHERE segment.embedder = embedder.no ORDER BY high)),"
            " (SELECT user_version FROM pragma_user_version)"
            " FROM state LEFT JOIN embedder ON name = ?",
            (embedder,),
        ).get
        state = self._snapshot.state
        upto = self._indexes.embedded.find(state.generation, number, seen, state.seq)
        return _StoreFacts(
            bool(has_parents), number, newest, upto, json.loads(segments), has_token_codes=schema >= CODES_SCHEMA
        )

    def _make_candidates(self, rows: Iterable[int]) -> dict[int, Candidate]:
        within, rest = self._within, () if self._facts.has_parents else _NO_PARENT
        # As Candidate(…) does, without a call in Python for each.
        return {row: tuple.__new__(Candidate, (*within[row][_CANDIDATE:], *rest)) for row in rows}

    def _load(self, rows: Iterable[int], near: Sequence[int] = ()) -> None:
        """Hold rows against the bounds; remember what ranking needs of those within, and the cosines of the `near`."""
        unknown = set(rows) - self._checked
        if unknown:
            self._checked |= unknown
            self._fetch(_AMONG, _bind_numbers(unknown), near=near)

    def _fetch(self, where: str, *values: object, near: Sequence[int] = ()) -> None:
        """Load the rows within bounds of which `where` holds, and the cosines of those `near`, in any case."""
        columns = self._columns
        sql = f"SELECT json_group_array(json_array({columns})) FROM record WHERE {where} AND {self._condition.sql}"
        values += tuple(self._condition.values)
        if not near:
            rows = self._connection.execute(sql, values).get
        else:
            # Blobs are joined as if they were text, byte by byte.
            vectors = "SELECT json_group_array(no), CAST(group_concat(data, '') AS BLOB) FROM vector"
            rows, compared, data = self._connection.execute(
                f"SELECT * FROM ({sql}), ({vectors} WHERE embedder = ? AND {_AMONG})",
                (*values, self._facts.embedder, _bind_numbers(near)),
            ).get
            if data:
                self._compute_cosines(json.loads(compared), data)
        self._within |= {row[_CANDIDATE]: row for row in json.loads(rows)}

    def _open_row_filter(self, *, by_vector: bool) -> RowFilter | None:
        """Return which rows may pass the filter, where that is known, or worth knowing, for every row."""
        filter_, state = self._bounds.filter, self._snapshot.state
        if filter_ is None or state.records <= (SMALL if by_vector else SMALL_BY_WORDS):
            return None
        return self._indexes.columns.open(self._connection, state, filter_, known_only=self._is_scope_small())

    def _is_scope_small(self) -> bool:
        """Whether so few records are in the scope that each can be held against the filter."""
        condition = within_scope(self._bounds, by_row=False)
        if not condition.parts:
            return False
        sql = f"SELECT count(*) FROM (SELECT 1 FROM record WHERE {condition.sql} LIMIT ?)"
        return int(self._connection.execute(sql, (*condition.values, SMALL)).get) < SMALL

    def _find_passing(self) -> list[int] | None:
        """Return the rows that pass a filter, when there are few enough to be worth knowing before the search."""
        if self._bounds.filter is None:
            return None
        if self._passing is None:
            condition = within(self._bounds, self._at, by_row=False)
            sql = f"SELECT json_group_array(no) FROM (SELECT no FROM record WHERE {condition.sql} LIMIT ?)"
            self._passing = json.loads(self._connection.execute(sql, (*condition.values, SELECTIVE)).get)
        return self._passing if len(self._passing) < SELECTIVE else None

    def _find_few(self) -> list[int] | None:
        """The same for the word index, which looks each of them up, and knows the common filters itself."""
        if self._bounds.filter is None or is_narrowed(self._bounds.filter):
            return None
        passing = self._find_passing()
        return passing if passing is not None and len(passing) <= FEW else None

    def _find_backlog(self, embedder: str | None) -> Backlog:
        """Return what a search within these bounds cannot see yet."""
        vectors, facts = 0, self._facts
        if embedder and facts.embedded_upto < self._snapshot.state.seq:
            recent, condition = changed_within(self._bounds, facts.embedded_upto), within_scope(self._bounds)
            # Numbers alone first, which the index has: past that many nothing is counted.
            sql = f"SELECT EXISTS (SELECT 1 FROM record WHERE {recent.sql} LIMIT 1 OFFSET ?)"
            if self._connection.execute(sql, (*recent.values, MANY - 1)).get:
                return Backlog(lost_words=self._snapshot.lost_words, vectors=0, many=True)
            if self._bounds.kinds:
                condition.add(f"kind IN ({', '.join('?' * len(self._bounds.kinds))})", *self._bounds.kinds)
            vectors = self._connection.execute(
                f"SELECT count(*) FROM record WHERE {recent.sql} AND {_EMBEDDED} AND {condition.sql}"
                " AND (SELECT text_seq FROM vector WHERE vector.embedder = ? AND vector.no = record.no)"
                " IS NOT record.text_seq",
                (*recent.values, *condition.values, facts.embedder),
            ).get
        return Backlog(lost_words=self._snapshot.lost_words, vectors=vectors, many=False)

    # Candidates by words.

    def _search_words(self, search: WordSearch, limit: int) -> Iterator[list[IndexHit]]:
        """Return what the index finds and the filter may let through, the best first, in growing pieces.

        There are at most `limit` in the first; a later piece may begin with what was in one before.
        """
        select = self._row_filter.select if self._row_filter is not None else None
        for restriction, depth, most in self._choose_restrictions(limit):
            done, has_more = 0, True
            while has_more and depth <= most:
                with translate_damage():
                    hits, has_more = search.search_index(depth, restriction, skip=done, select=select)
                yield hits[:limit]
                yield hits[limit:]
                depth, done = depth * DEEPER, depth
            if not has_more:
                return

    def _choose_restrictions(self, limit: int) -> Iterator[tuple[Restriction, int, float]]:
        """Return ways to have the index leave out what the filter does.

        With each, how many hits are likely to leave `limit`, and how many are the most to look at in this way.
        """
        row_filter, filter_ = self._row_filter, self._bounds.filter
        if row_filter is None or filter_ is None:
            yield Restriction(rows=self._find_few()), limit, math.inf
            return
        depth, has_facets = _deepen(limit, row_filter.share), is_narrowed(filter_)
        by_name = HITS_FOR_A_ROW * row_filter.estimate  # what it costs to name the rows that pass
        is_common = depth <= (MOST_HITS // 12 if has_facets else MOST_HITS)
        if is_common and not row_filter.is_together and depth <= by_name:
            if has_facets:
                yield Restriction(facets=False), depth, depth
            elif row_filter.estimate > FEW:
                yield Restriction(facets=False), depth, math.inf
                return
            else:  # if words do not find enough of those that pass for what it costs to name these, they are named
                yield Restriction(facets=False), depth, by_name
                yield Restriction(rows=row_filter.selection.tolist()), limit, math.inf
                return
        if has_facets:
            yield Restriction(), limit, math.inf
        elif len(selection := row_filter.selection):
            depth = _deepen(limit, row_filter.density)
            if len(selection) <= FEW and HITS_FOR_A_ROW * len(selection) < depth:
                yield Restriction(rows=selection.tolist()), limit, math.inf
            else:
                between = int(selection[0]), int(selection[-1])
                yield Restriction(between=between), max(limit, min(depth, MOST_HITS)), math.inf

    def _select_tail(self, search: WordSearch) -> list[tuple[int, WordScore, int]]:
        """Return those of the tail's candidates that may pass the filter."""
        if self._row_filter is None or not search.tail:
            return search.tail
        return [search.tail[at] for at in self._row_filter.select([row for row, _, _ in search.tail])]

    def _pick_by_words(
        self,
        search: WordSearch,
        tail: Sequence[tuple[int, WordScore, int]],
        pieces: Iterable[list[IndexHit]],
        limit: int,
    ) -> dict[int, WordScore]:
        """Return the best from the tail and from the index, as long as the row agrees.

        The `pieces` are the index's best; more of them are taken while too few are within bounds.
        """
        found: dict[int, WordScore] = {}
        known, score = self._within, search.score
        depth, done = limit, 0
        while done < len(tail) and len(found) < limit:
            some = tail[done:depth]
            self._load(row for row, _, _ in some)
            found |= {
                row: score
                for row, score, seq in some
                if (columns := known.get(row)) is not None and columns[_LAST_CHANGE] == seq
            }
            depth, done = depth * DEEPER, depth
        by_index: dict[int, WordScore] = {}
        for hits in pieces:
            self._load(hit.row for hit in hits)
            by_index |= {
                row: score(bm25, columns[_WORDS])
                for row, seq, bm25 in hits
                # One of another change has changed since, and is in the tail.
                if (columns := known.get(row)) is not None and columns[_LAST_CHANGE] == seq
            }
            if len(by_index) >= limit:
                break
        found |= islice(by_index.items(), limit)
        # By the score and then by the row: no two matches are compared.
        best = sorted([(match[0], row) for row, match in found.items()], reverse=True)
        return {row: found[row] for _, row in best[:limit]}

    # Candidates by vector.

    def _scan_vectors(self, vector: Vector, embedder: str) -> Iterator[Nearest]:
        """Return what is nearest to the vector by its code, in growing pieces."""
        index, facts, self._vector = self._indexes.vectors(embedder), self._facts, vector
        if facts.embedder:
            self._codes = index.load(
                self._connection, facts.embedder, facts.newest_vector, facts.segments,
                generation=self._snapshot.state.generation, dimensions=len(vector),
            )  # fmt: skip
        allowed = self._row_filter.table if self._row_filter is not None else self._find_passing()
        return index.nearest(self._connection, self._codes, vector, self._bounds, allowed)

    def _pick_by_vector(self, pieces: Iterable[Nearest], limit: int) -> dict[int, float]:
        """Return the nearest that are within bounds, the best of them with their exact cosine."""
        found: dict[int, float] = {}
        for near in pieces:
            start, step = 0, limit
            while start < len(near.row) and len(found) < limit:
                piece = near.take(slice(start, start + step))
                self._load(piece.row.tolist())
                found |= self._select_current(piece)
                start, step = start + step, step * DEEPER
            if len(found) >= limit:
                break
        best = sorted(found, key=lambda row: -found[row])
        if missing := [row for row in best[:EXACT] if row not in self._cosines]:
            self._fetch("0", near=missing)
        found |= {row: self._cosines[row] for row in best[:EXACT] if row in self._cosines}
        return {row: found[row] for row in sorted(best[:limit], key=lambda row: (-found[row], -row))}

    def _estimate_cosines(self, rows: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each of these rows that has a vector, as near as its code comes to it."""
        if self._vector is None or not rows or not self._codes:
            return {}
        import numpy as np

        from .vector_codes import Nearest

        wanted = np.array(sorted(rows), np.int64)
        picked = [part.locate(wanted) for part in self._codes]
        return self._select_current(Nearest.of(self._codes, picked, self._vector))

    def _select_current(self, near: Nearest) -> dict[int, float]:
        """Return the scores of those that are within bounds and of the record's present text."""
        known = self._within
        rows = zip(near.row.tolist(), near.text_seq.tolist(), near.score.tolist(), strict=True)
        return {
            row: score
            for row, text_seq, score in rows
            if (columns := known.get(row)) is not None and columns[_TEXT_CHANGE] == text_seq
        }

    def _compute_cosines(self, rows: Sequence[int], data: bytes) -> None:
        """Remember the exact cosine of each of these rows, whose vectors are joined in `data`."""
        import numpy as np

        assert self._vector is not None
        stored = np.frombuffer(data, "<f2").astype(np.float32).reshape(len(rows), -1)
        self._cosines.update(zip(rows, np.vecdot(stored, self._vector).tolist(), strict=True))


def _decode_json_row(columns: Sequence[Any]) -> Record:
    """Return the record of JSON_COLUMNS."""
    record_id, path, *rest = columns
    return decode_record((record_id, bytes.fromhex(path), *rest))


def _split_contents(rows: Iterable[tuple[int, str, int, int | None]], joined: bytes) -> dict[int, Content]:
    """Return what is in each row: its text, its time, and its codes by their length, which are joined in this order."""
    contents, start = dict[int, Content](), 0
    for row, text, created_at, length in rows:
        end = start + (length or 0)
        contents[row] = Content(text, created_at, None if length is None else joined[start:end])
        start = end
    return contents


def _deepen(limit: int, share: float) -> int:
    """Return how many have to be looked at for `limit` to be left, where a share of them is."""
    return limit if share >= 1 else math.ceil(limit * AMPLE / max(share, 1e-9))


def _compare(
    rows: Sequence[tuple[int, bytes]], vector: Sequence[float], known: dict[int, float], *, exact: bool
) -> dict[int, float]:
    """Return the greatest cosine that each record of the rows has by now, `exact` in double precision."""
    import numpy as np

    stored = np.frombuffer(b"".join(data for _, data in rows), "<f4").reshape(len(rows), -1)
    given = stored.astype(np.float64) if exact else stored
    wanted = np.asarray(vector, np.float64)
    unit = (wanted / np.linalg.norm(wanted)).astype(given.dtype)
    cosines = np.vecdot(given, unit) / np.sqrt(np.einsum("ij,ij->i", given, given))
    best: dict[int, float] = {}
    for (row, _), cosine in zip(rows, cosines.tolist(), strict=True):
        best[row] = max(cosine, best.get(row, known.get(row, -1.0)))
    return best


def _join_stretches(candidates: Iterable[Candidate], reach: int) -> Iterator[int]:
    """Return the stretches of positions within reach of candidates, joined where they overlap, for _STRETCHES."""
    ordered = sorted(
        [
            (each.scope, each.parent, each.position, each.row)
            for each in candidates
            if each.parent is not None and each.position is not None
        ]
    )
    session, first, last, row = (0, ""), 0, 0, 0
    for scope, parent, position, each in ordered:
        if row and session == (scope, parent) and position - reach <= last and position + reach - first <= 4095:
            last = position + reach
            continue
        if row:
            yield row << 12 | last - first
        session, first, last, row = (scope, parent), position, position + reach, each
    if row:
        yield row << 12 | last - first


def _bind_numbers(numbers: Iterable[int]) -> object:
    """Return a list of numbers as one bound value."""
    # The buffer of an empty array is nowhere, and may be refused for its alignment: no row has the number 0.
    return apsw.carray(array.array("q", numbers) or array.array("q", [0]))
