"""A search within one Bounds: candidates by words and by vectors in one statement, of one moment.

BM25 is computed from the postings of the scopes within bounds: how many records hold a word, and how many words a
record has, are counted there and nowhere else. The formulas are those of `text.bm25`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from ...text import bm25
from ...values.errors import Invalid
from ...values.query import Bounds
from ...values.records import Record
from ...values.times import to_micros
from ..record_columns import decode_record, unpack_vector
from ..search_interface import Backlog, Candidate, Candidates, Surroundings
from ..store_time import compute_store_time
from .conditions import SEARCHABLE, Values, select_scopes, select_time, within
from .database import Connection, Connections, FirstAnswer
from .record_rows import COLUMNS, OPEN_SNAPSHOT, number_term
from .vector_rows import FindWriter, UnembeddedRecords, encode_vector, find_unembedded

if TYPE_CHECKING:
    from ...values.changes import Vector

MANY = 2000  # a backlog is counted no further in a search
GIVEN_AT_ONCE = 1_000_000  # numbers of given vectors that are in memory at a time
_ROW = "r.no, r.id, r.scope, r.parent, r.position, r.author, r.created_at"
_LENGTH_NORM = f"({bm25.K1} * ({1 - bm25.B} + {bm25.B} * p.words / size.average))"
# The words that are looked up, with how many records hold each; of very many the rarest.
_WORDS = f"""
p AS MATERIALIZED (
    SELECT scope, term, no, words, count FROM @posting
    WHERE scope = ANY({{scopes}}) AND term = ANY({{terms}})
),
size AS MATERIALIZED (
    SELECT greatest(coalesce(sum(records), 0), 0)::float8 AS records,
           greatest(coalesce(sum(words), 0)::float8 / greatest(coalesce(sum(records), 0), 1), 1) AS average
    FROM @scope_size WHERE scope = ANY({{scopes}})
),
word AS MATERIALIZED (
    SELECT q.term,
           ln(1 + (greatest(size.records, held, 1) - greatest(held, 1) + 0.5) / (greatest(held, 1) + 0.5)) AS weight
    FROM (
        SELECT q.term, coalesce(h.held, 0)::float8 AS held
        FROM unnest({{terms}}) WITH ORDINALITY AS q (term, place)
        LEFT JOIN (SELECT term, count(*) AS held FROM p GROUP BY term) AS h USING (term)
        ORDER BY coalesce(h.held, 0) = 0, h.held, q.place LIMIT {bm25.MOST_WORDS}
    ) AS q, size
),
scored AS (
    SELECT p.scope, p.no, p.words,
           sum(word.weight * p.count / (p.count + {_LENGTH_NORM})) * (1 + min{_LENGTH_NORM}) AS weights
    FROM p JOIN word USING (term), size GROUP BY p.scope, p.no, p.words
)
"""
_SCORE = f"weights * {bm25.NORM_SCALE} / ({1 + bm25.NORM_BASE} + words / {bm25.NORM_WORDS}::float8)"
_TELLING = f"(SELECT sum(weight) FROM (SELECT weight FROM word ORDER BY weight DESC LIMIT {bm25.TELLING}) AS w)"


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
        self._vector = None if vector is None or embedder is None else encode_vector(vector)
        facts = self._connections.execute(connection, *self._ask_facts(embedder))
        width = 0 if vector is None else len(vector)
        cursor = None
        if words or self._vector is not None:
            statement = self._ask_candidates(words, embedder, width, depth=depth, flat_depth=flat_depth)
            cursor = self._connections.execute(connection, *statement)
        ((self._embedder, dimensions, missing),) = facts.fetchall()
        if vector is not None and dimensions not in (0, width):
            raise Invalid("vector", f"has {width} numbers; the vectors of {embedder} here have {dimensions}")
        rows = cursor.fetchall() if cursor is not None else []
        keyword: dict[int, bm25.WordScore] = {}
        semantic: dict[int, float] = {}
        known: dict[int, Candidate] = {}
        near: set[int] = set()
        for weights, length, telling, cosine, is_near, *row in rows:
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
            nearest=None if vector is None else len(near),
            rows={row: known[row] for row in order},
            backlog=Backlog(lost_words=False, vectors=0 if missing > MANY else missing, many=missing > MANY),
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
            self._connections, embedder, self._bounds, to_micros(self._clock()), self._find_writer, limit=limit,
            most=most,
        )  # fmt: skip

    def around(self, candidates: Sequence[Candidate], reach: int) -> Surroundings:
        """Return the records near these under the same parent, but for those already weighed as candidates."""
        seeds = [each for each in candidates if each.parent is not None and each.position is not None]
        if not seeds:
            return Surroundings(rows={}, semantic={})
        values = Values(
            [each.scope for each in seeds], [each.parent for each in seeds], [each.position for each in seeds], reach,
            [*self._scopes], self._vector, self._embedder,
        )  # fmt: skip
        condition = within(self._bounds, self._now, values)
        rows = self._connections.execute(
            self._open(),
            f"SELECT DISTINCT ON (r.no) {_ROW}, -(v.data <#> $6::@@halfvec) AS cosine"
            " FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS seed (scope, parent, position)"
            " JOIN @record r ON r.scope = seed.scope AND r.parent = seed.parent"
            " AND r.position BETWEEN seed.position - $4::bigint AND seed.position + $4::bigint"
            " LEFT JOIN @vector v ON v.scope = r.scope AND v.embedder = $7::integer AND v.no = r.no"
            f" WHERE NOT r.no = ANY($5::bigint[]) AND {SEARCHABLE} AND {condition} ORDER BY r.no",
            values.list,
        ).fetchall()
        found = {row[0]: Candidate._make(row[:-1]) for row in rows}
        self._scopes |= {row: candidate.scope for row, candidate in found.items()}
        return Surroundings(rows=found, semantic={row[0]: row[-1] for row in rows if row[-1] is not None})

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
            cosines = (given @ wanted) / np.sqrt(np.einsum("ij,ij->i", given, given))
            for (row, scope, _), cosine in zip(some, cosines.tolist(), strict=True):
                self._scopes[row] = scope
                best[row] = max(cosine, best.get(row, -1.0))
        return {row: best[row] for row in sorted(best, key=lambda row: (-best[row], -row))[:limit]}

    def records(self, rows: Sequence[int]) -> dict[int, Record]:
        """Return the records of candidates."""
        if not rows:
            return {}
        found = self._connections.execute(
            self._open(),
            f"SELECT r.no, {COLUMNS} FROM unnest($1::bigint[], $2::bigint[]) AS wanted (scope, no)"
            " JOIN @record r ON r.scope = wanted.scope AND r.no = wanted.no",
            ([self._scopes[row] for row in rows], [*rows]),
        )
        return {row[0]: decode_record(row[1:]) for row in found.fetchall()}

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
        """The statement that says which embedder it is, and how many records have no vector of it yet."""
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
            f" r.scope = ANY({scopes}) AND {SEARCHABLE}{kinds} LIMIT {MANY + 1}) AS m"
        )
        sql = (
            f"SELECT coalesce(e.no, 0), coalesce(e.dimensions, 0), ({missing}) + ({unknown})"
            " FROM (SELECT $1::text AS name) AS n LEFT JOIN @embedder e ON e.name = n.name"
        )
        return sql, values.list

    def _ask_candidates(
        self, words: Sequence[str], embedder: str | None, width: int, *, depth: int, flat_depth: int
    ) -> tuple[str, list[object]]:
        """The statement of all candidates, each once."""
        values = Values()
        scopes = select_scopes(self._bounds, values)
        now = select_time(to_micros(self._clock()), values)
        condition = within(self._bounds, now, values, scope=False)
        parts, most = [], values.add(depth, "bigint")
        if words:
            terms = values.add([number_term(word) for word in words], "bigint[]")
            flat = values.add(flat_depth, "bigint")
            has_parents = f"EXISTS (SELECT FROM @record r WHERE r.scope = ANY({scopes}) AND r.parent IS NOT NULL)"
            parts.append(_WORDS.format(scopes=scopes, terms=terms))
            parts.append(
                f"keyword AS (SELECT r.scope, r.no, k.words, k.weights FROM (SELECT *, {_SCORE} AS score FROM scored"
                " ORDER BY score DESC, no DESC) AS k CROSS JOIN LATERAL"
                f" (SELECT r.scope, r.no FROM @record r WHERE r.scope = k.scope AND r.no = k.no AND {condition}) AS r"
                f" ORDER BY k.score DESC, k.no DESC LIMIT CASE WHEN {has_parents} THEN {most} ELSE {flat} END)"
            )
        else:
            parts.append(
                "word AS (SELECT 0::float8 AS weight WHERE false), keyword AS ("
                "SELECT 0::bigint AS scope, 0::bigint AS no, 0 AS words, 0::float8 AS weights WHERE false)"
            )
        if self._vector is not None:
            vector = values.add(self._vector, "@@halfvec")
            # Vectors of another size cannot be compared, which is told by the facts.
            number = (
                f"(SELECT e.no FROM @embedder e WHERE e.name = {values.add(embedder, 'text')}"
                f" AND e.dimensions = {values.add(width, 'integer')})"
            )
            parts.append(
                f"near AS (SELECT n.scope, n.no, n.cosine FROM (SELECT v.scope, v.no, -(v.data <#> {vector}) AS cosine"
                f" FROM @vector v WHERE v.scope = ANY({scopes}) AND v.embedder = {number}"
                " ORDER BY cosine DESC, no DESC) AS n CROSS JOIN LATERAL"
                f" (SELECT FROM @record r WHERE r.scope = n.scope AND r.no = n.no AND {condition}) AS r"
                f" ORDER BY n.cosine DESC, n.no DESC LIMIT {most})"
            )
            cosine = (
                f"coalesce(near.cosine, (SELECT -(v.data <#> {vector}) FROM @vector v WHERE v.scope = r.scope"
                f" AND v.embedder = {number} AND v.no = r.no))"
            )
        else:
            parts.append("near AS (SELECT 0::bigint AS scope, 0::bigint AS no, NULL::float8 AS cosine WHERE false)")
            cosine = "NULL::float8"
        sql = (
            f"WITH {', '.join(parts)}"
            f" SELECT keyword.weights, keyword.words, {_TELLING}, {cosine}, near.no IS NOT NULL, {_ROW}"
            " FROM keyword FULL JOIN near ON near.scope = keyword.scope AND near.no = keyword.no"
            " JOIN @record r ON r.scope = coalesce(keyword.scope, near.scope) AND r.no = coalesce(keyword.no, near.no)"
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
