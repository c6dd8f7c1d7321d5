"""A search within one Bounds: candidates by words and by vectors in one statement, of one moment.

All that is asked for at once goes in one trip to the server: one for the candidates, one for what is around them, one
for their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...text import bm25
from ...values.errors import Invalid
from ...values.query import Bounds
from ...values.records import Record
from ...values.times import to_micros
from ..record_columns import decode_record, unpack_vector
from ..search_interface import CONTENT_CHARACTERS, Backlog, Candidate, Candidates, Content, Surroundings
from ..store_time import compute_store_time
from .candidate_query import CANDIDATE, CandidateQuery, VectorQuery
from .conditions import EMBEDDED, SEARCHABLE, Values, select_scopes, within
from .database import Connection, Connections, Cursor, FirstAnswer
from .hnsw import SETTINGS
from .record_rows import COLUMNS, OPEN_SNAPSHOT, number_term
from .vector_rows import FindWriter, UnembeddedRecords, encode_vector, find_unembedded

if TYPE_CHECKING:
    from ...values.changes import Vector

MANY = 2000  # a backlog is counted no further in a search
GIVEN_AT_ONCE = 1_000_000  # numbers of given vectors that are in memory at a time
_CONTENT = (
    f"left(r.title || E'\\n' || left(r.text, {CONTENT_CHARACTERS}), {CONTENT_CHARACTERS}), r.created_at, v.token_codes"
)


class PostgresSearcher:
    """A search within one Bounds, on the snapshot that its last `candidates` or `nearest` took."""

    def __init__(
        self, connections: Connections, bounds: Bounds, clock: Callable[[], datetime], find_writer: FindWriter
    ) -> None:
        """`find_writer` gives connections on which something can be changed: these may lead to a standby."""
        self._connections = connections
        self._find_writer = find_writer
        self._bounds = bounds
        self._clock = clock
        self._snapshot = ExitStack()
        self._connection: Connection | None = None
        self._opening: FirstAnswer | None = None
        self._scopes: dict[int, int] = {}
        """The scope of each row that was seen."""
        self._vector: str | None = None
        self._embedder = 0

    def candidates(
        self, words: Sequence[str], vector: Vector | None, embedder: str | None, *, depth: int, flat_depth: int
    ) -> Candidates:
        """Return the best records by words, and as many by vector."""
        connection = self._take_snapshot()
        self._scopes = {}
        wanted = None
        if vector is not None and embedder is not None:
            number = self._connections.embedders.get(embedder, 0)
            wanted = VectorQuery(encode_vector(vector), len(vector), embedder, number)
        self._vector = None if wanted is None else wanted.vector
        facts = self._connections.execute(connection, *self._ask_facts(embedder))
        cursor = None
        if words or wanted is not None:
            query = CandidateQuery(self._bounds, to_micros(self._clock()), depth, flat_depth)
            cursor = self._connections.execute(connection, *query.build(words, wanted))
        ((self._embedder, dimensions, missing, *_),) = facts.fetchall()
        if embedder is not None:
            self._connections.embedders[embedder] = self._embedder
        if vector is not None and dimensions not in (0, len(vector)):
            raise Invalid("vector", f"has {len(vector)} numbers; the vectors of {embedder} here have {dimensions}")
        backlog = Backlog(lost_words=False, vectors=0 if missing > MANY else missing, many=missing > MANY)
        rows = cursor.fetchall() if cursor is not None else []
        return self._sort(rows, words, has_vector=vector is not None, backlog=backlog)

    def _sort(
        self, rows: Sequence[tuple[Any, ...]], words: Sequence[str], *, has_vector: bool, backlog: Backlog
    ) -> Candidates:
        """Return the rows as candidates, the best first."""
        keyword: dict[int, bm25.WordScore] = {}
        semantic: dict[int, float] = {}
        known: dict[int, Candidate] = {}
        near: set[int] = set()
        by_term: dict[int, float] = {}
        for weights, length, telling, cosine, is_near, *row in rows:
            if is_near is None:  # a word, and not a record
                by_term[row[0]] = weights
                continue
            candidate = Candidate._make(row)
            self._scopes[candidate.row] = candidate.scope
            if weights is not None:
                score = weights * bm25.NORM_SCALE / (1 + bm25.NORM_BASE + length / bm25.NORM_WORDS)
                keyword[candidate.row] = bm25.WordScore(score, min(1.0, weights / telling))
            if cosine is not None:
                semantic[candidate.row] = cosine
                if is_near:
                    near.add(candidate.row)
            known[candidate.row] = candidate
        by_words = sorted(keyword, key=lambda row: (-keyword[row].score, -row))
        by_vector = sorted(semantic, key=lambda row: (row not in near, -semantic[row], -row))
        order = dict.fromkeys([*by_words, *by_vector])
        return Candidates(
            keyword={row: keyword[row] for row in by_words},
            semantic={row: semantic[row] for row in by_vector},
            nearest=len(near) if has_vector else None,
            rows={row: known[row] for row in order},
            weights={word: by_term[term] for word in words if (term := number_term(word)) in by_term},
            backlog=backlog,
        )

    def find_records(self, words: Sequence[str], limit: int) -> list[Record]:
        """Return the records that match the words best."""
        found = self.candidates(words, None, None, depth=limit, flat_depth=limit)
        records = self.records([*found.keyword])
        return [records[row] for row in found.keyword]

    def find_unembedded(self, embedder: str, limit: int, most: int) -> UnembeddedRecords | None:
        """Return records that have no vector of their present text."""
        self._leave_snapshot()
        return find_unembedded(
            self._connections, embedder, self._bounds, to_micros(self._clock()), self._go_to_writer, limit=limit,
            most=most,
        )  # fmt: skip

    def _go_to_writer(self) -> Connections:
        """Return connections on which something can be changed; the search goes on there, and sees it."""
        self._connections = self._find_writer()
        return self._connections

    def around(self, candidates: Sequence[Candidate], reach: int, also: Sequence[int]) -> Surroundings:
        """Return the records near these under the same parent, but for those already weighed as candidates."""
        # Both are asked before either is fetched, and so go in one trip.
        in_candidates = self._ask_contents(also) if also else None
        near = self._ask_around(candidates, reach)
        rows = near.fetchall() if near is not None else []
        found = {row[0]: Candidate._make(row[:-4]) for row in rows}
        self._scopes |= {row: candidate.scope for row, candidate in found.items()}
        contents = {row: Content(*content) for row, *content in in_candidates.fetchall()} if in_candidates else {}
        return Surroundings(
            rows=found,
            semantic={row[0]: row[-4] for row in rows if row[-4] is not None},
            contents=contents | {row[0]: Content(*row[-3:]) for row in rows},
        )

    def _ask_contents(self, rows: Sequence[int]) -> Cursor:
        """Ask what is in candidates."""
        return self._connections.execute(
            self._open(),
            f"SELECT r.no, {_CONTENT} FROM unnest($1::bigint[], $2::bigint[]) AS wanted (scope, no)"
            " JOIN @record r ON r.scope = wanted.scope AND r.no = wanted.no"
            " LEFT JOIN @vector v ON v.scope = r.scope AND v.embedder = $3::integer AND v.no = r.no",
            ([self._scopes[row] for row in rows], [*rows], self._embedder),
        )

    def _ask_around(self, candidates: Sequence[Candidate], reach: int) -> Cursor | None:
        """Ask for what stands near candidates, with its cosine and what is in it; None where none has a position."""
        seeds = [each for each in candidates if each.parent is not None and each.position is not None]
        if not seeds:
            return None
        values = Values(
            [each.scope for each in seeds], [each.parent for each in seeds], [each.position for each in seeds], reach,
            [*self._scopes], self._vector, self._embedder,
        )  # fmt: skip
        condition = within(self._bounds, self._now, values)
        return self._connections.execute(
            self._open(),
            f"SELECT DISTINCT ON (r.no) {CANDIDATE}, -(v.data <#> $6::@@halfvec) AS cosine, {_CONTENT}"
            " FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS seed (scope, parent, position)"
            " JOIN @record r ON r.scope = seed.scope AND r.parent = seed.parent"
            " AND r.position BETWEEN seed.position - $4::bigint AND seed.position + $4::bigint"
            " LEFT JOIN @vector v ON v.scope = r.scope AND v.embedder = $7::integer AND v.no = r.no"
            f" WHERE NOT r.no = ANY($5::bigint[]) AND {SEARCHABLE} AND {condition} ORDER BY r.no",
            values.list,
        )

    def nearest(self, vector: Sequence[float], limit: int) -> dict[int, float]:
        """Return the records whose given vectors are nearest to this one, each of which is compared."""
        import numpy as np

        connection = self._take_snapshot()
        values = Values(len(vector))
        condition = within(self._bounds, self._now, values)
        rows = self._connections.execute(
            connection,
            "SELECT r.no, r.scope, g.data FROM @record r JOIN @given g ON g.scope = r.scope AND g.no = r.no"
            f" WHERE g.dims = $1::integer AND {SEARCHABLE} AND {condition}",
            values.list,
        )
        wanted = np.asarray(vector, np.float64)
        wanted /= np.linalg.norm(wanted)
        best: dict[int, float] = {}
        while some := rows.fetchmany(max(1, GIVEN_AT_ONCE // len(vector))):
            given = np.asarray([unpack_vector(data) for _, _, data in some], np.float64)
            cosines = np.vecdot(given, wanted) / np.sqrt(np.einsum("ij,ij->i", given, given))
            for (row, scope, _), cosine in zip(some, cosines.tolist(), strict=True):
                self._scopes[row] = scope
                best[row] = max(cosine, best.get(row, -1.0))
        return {row: best[row] for row in sorted(best, key=lambda row: (-best[row], -row))[:limit]}

    def records(self, rows: Sequence[int]) -> dict[int, Record]:
        """Return the records of candidates."""
        if not rows:
            return {}
        cursor = self._connections.execute(
            self._open(),
            f"SELECT r.no, {COLUMNS} FROM unnest($1::bigint[], $2::bigint[]) AS wanted (scope, no)"
            " JOIN @record r ON r.scope = wanted.scope AND r.no = wanted.no",
            ([self._scopes[row] for row in rows], [*rows]),
        )
        self._leave_snapshot()  # in the same trip, which brings the rows
        return {row[0]: decode_record(row[1:]) for row in cursor.fetchall()}

    def close(self) -> None:
        """Leave the snapshot."""
        self._leave_snapshot()

    # The snapshot, and what it says of the store.

    def _take_snapshot(self) -> Connection:
        self._leave_snapshot()
        self._connection, self._opening = self._snapshot.enter_context(self._connections.snapshot(OPEN_SNAPSHOT))
        return self._connection

    def _leave_snapshot(self) -> None:
        self._connection = self._opening = None
        self._scopes = {}
        self._snapshot.close()

    def _open(self) -> Connection:
        assert self._connection is not None, "there are no candidates yet"
        return self._connection

    @property
    def _now(self) -> int:
        """The store's time in the snapshot."""
        assert self._opening is not None
        return compute_store_time(to_micros(self._clock()), self._opening.fetch()[-1])

    def _ask_facts(self, embedder: str | None) -> tuple[str, list[object]]:
        """The statement that says which embedder it is and how many records have no vector of it yet.

        It also sets what the search of an index needs.
        """
        values = Values(embedder)
        scopes = select_scopes(self._bounds, values)
        kinds = ""
        if self._bounds.kinds:
            kinds = f" AND r.kind = ANY({values.add([str(kind) for kind in self._bounds.kinds], 'text[]')})"
        missing = (
            f"SELECT count(*) FROM (SELECT FROM @unembedded u JOIN @record r ON r.scope = u.scope AND r.no = u.no"
            f" WHERE u.embedder = e.no AND u.scope = ANY({scopes}){kinds} LIMIT {MANY + 1}) AS m"
        )
        unknown = (
            f"SELECT count(*) FROM (SELECT FROM @record r WHERE e.no IS NULL AND $1::text IS NOT NULL AND"
            f" r.scope = ANY({scopes}) AND {EMBEDDED}{kinds} LIMIT {MANY + 1}) AS m"
        )
        sql = (
            f"SELECT coalesce(e.no, 0), coalesce(e.dimensions, 0), ({missing}) + ({unknown}),"
            f" {SETTINGS.format(breadth='e.breadth')}"
            " FROM (SELECT $1::text AS name) AS n LEFT JOIN @embedder e ON e.name = n.name"
        )
        return sql, values.list


@contextmanager
def open_searcher(
    connections: Connections, bounds: Bounds, clock: Callable[[], datetime], find_writer: FindWriter
) -> Iterator[PostgresSearcher]:
    """A search within bounds, which leaves its snapshot at the end."""
    searcher = PostgresSearcher(connections, bounds, clock, find_writer)
    try:
        yield searcher
    finally:
        searcher.close()
