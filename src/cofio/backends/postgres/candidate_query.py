"""The statement that finds the candidates of a search: by words and by vectors.

BM25 is computed from the postings of the scopes within bounds: how many records hold a word is counted there and not
elsewhere. The formulas are those of `text.bm25`, and lengths count as in a store in a folder, so that both rank alike.

Vectors of a small scope are all compared. For a large one the index is walked from the nearest vector outwards, of
whatever scope, until enough are within bounds. Where that does not come to an end soon, all are compared after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...text import bm25
from ...values.query import Bounds
from . import hnsw
from .conditions import Values, select_scopes, select_time, within
from .record_rows import number_term

CANDIDATE = "r.no, r.id, r.scope, r.parent, r.position, r.author, r.created_at"
# How many vectors are compared one after the other in the time in which the index brings one row.
WALK_COST = 25
AVERAGE_BYTES = 256 * 1024  # of the table of sizes that are read for the average length
LONGEST_WALK = 20_000  # rows that the index is asked for; it has compared some ten times as many vectors by then
# A length as tantivy has it, which ranks the words of a store in a folder: in one byte, from 40 on rounded down.
_STEP = "(1 << (floor(ln(p.words - 24) / ln(2) + 1e-9)::integer - 3))"
_ROUNDED = f"CASE WHEN p.words < 40 THEN p.words ELSE p.words - (p.words - 24) % {_STEP} END"
_NORM = f"({bm25.K1} * ({1 - bm25.B} + {bm25.B} * {{}} / size.average))"
_LENGTH_NORM, _ROUNDED_NORM = _NORM.format("p.words"), _NORM.format(f"({_ROUNDED})")
# How long a record is on average, in the whole store as in a folder; of very many scopes by some pages of their sizes.
_SIZE = f"""
size AS MATERIALIZED (
    SELECT greatest(coalesce(sum(records), 0), 0)::float8 AS records, (
        SELECT greatest(coalesce(sum(words)::float8 / nullif(sum(records), 0), 1), 1) FROM @scope_size
        TABLESAMPLE SYSTEM (least(100, 100 * {AVERAGE_BYTES}::float8 / greatest(pg_relation_size('@scope_size'), 1)))
        REPEATABLE (0)
    ) AS average
    FROM @scope_size WHERE scope = ANY({{scopes}})
)
"""
# The words that are looked up, with how many records hold each; of very many the rarest.
_WORDS = f"""
p AS MATERIALIZED (
    SELECT scope, term, no, words, count FROM @posting
    WHERE scope = ANY({{scopes}}) AND term = ANY({{terms}})
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
           sum(word.weight * p.count / (p.count + {_ROUNDED_NORM})) * (1 + min{_LENGTH_NORM}) AS weights
    FROM p JOIN word USING (term), size GROUP BY p.scope, p.no, p.words
)
"""
_SCORE = f"weights * {bm25.NORM_SCALE} / ({1 + bm25.NORM_BASE} + words / {bm25.NORM_WORDS}::float8)"
_TELLING = f"(SELECT sum(weight) FROM (SELECT weight FROM word ORDER BY weight DESC LIMIT {bm25.TELLING}) AS w)"
# Beside the candidates, as if it were one, each word that was looked up: its number in the place of a row's.
_WEIGHTS = (
    "SELECT weight, NULL::integer, NULL::float8, NULL::float8, NULL::boolean, term, ''::text, 0::bigint, NULL::text,"
    " NULL::bigint, ''::text, 0::bigint FROM word"
)


class VectorQuery(NamedTuple):
    """What is to be near, and whose vectors are compared with it."""

    vector: str
    width: int
    embedder: str
    number: int
    """The embedder's number, as far as this process knows; the index is over the vectors of one number. 0 for none."""


class CandidateQuery:
    """Builds the statement of one search: a record that is found in both ways comes twice, and then come the words."""

    def __init__(self, bounds: Bounds, clock: int, depth: int, flat_depth: int) -> None:
        """`flat_depth` candidates of each signal are enough where no record within the scope has a parent."""
        self._values = Values()
        self._bounds = bounds
        self._scopes = select_scopes(bounds, self._values)
        self._condition = within(bounds, select_time(clock, self._values), self._values, scope=False)
        has_parents = f"EXISTS (SELECT FROM @record r WHERE r.scope = ANY({self._scopes}) AND r.parent IS NOT NULL)"
        deep, flat = self._values.add(depth, "bigint"), self._values.add(flat_depth, "bigint")
        self._reach = f"reach AS MATERIALIZED (SELECT CASE WHEN {has_parents} THEN {deep} ELSE {flat} END AS depth)"
        self._depth = "(SELECT depth FROM reach)"

    def build(self, words: Sequence[str], wanted: VectorQuery | None) -> tuple[str, list[object]]:
        """Return the statement and its values: the candidates by words, those by vector, and what each word weighs."""
        parts, selects = [_SIZE.format(scopes=self._scopes), self._reach], []
        vector = "" if wanted is None else self._values.add(wanted.vector, "@@halfvec")
        if wanted is not None:
            parts += self._find_by_vector(wanted, vector)
            selects.append(f"SELECT NULL::float8, NULL::integer, NULL::float8, r.cosine, true, {CANDIDATE} FROM near r")
        if words:
            parts += self._find_by_words(words)
            cosine = (
                f"(SELECT -(v.data <#> {vector}) FROM @vector v WHERE v.scope = r.scope AND v.no = r.no"
                " AND v.embedder = (SELECT embedder FROM way))"
            )
            selects.append(
                f"SELECT r.weights, r.words, {_TELLING}, {cosine if vector else 'NULL::float8'}, false, {CANDIDATE}"
                " FROM keyword r"
            )
            selects.append(_WEIGHTS)
        return f"WITH {', '.join(parts)} {' UNION ALL '.join(selects)}", self._values.list

    def _find_by_words(self, words: Sequence[str]) -> list[str]:
        terms = self._values.add([number_term(word) for word in words], "bigint[]")
        return [
            _WORDS.format(scopes=self._scopes, terms=terms),
            f"keyword AS (SELECT k.words, k.weights, r.* FROM (SELECT *, {_SCORE} AS score FROM scored"
            f" ORDER BY score DESC, no DESC) AS k CROSS JOIN LATERAL ({self._read_record('k')}) AS r"
            f" ORDER BY k.score DESC, k.no DESC LIMIT {self._depth})",
        ]

    def _find_by_vector(self, wanted: VectorQuery, vector: str) -> list[str]:
        """The nearest; vectors of another size cannot be compared, and the search says so."""
        of_embedder = (
            f"FROM @embedder e, size WHERE e.name = {self._values.add(wanted.embedder, 'text')}"
            f" AND e.dimensions = {self._values.add(wanted.width, 'integer')}"
        )
        if not wanted.number:
            way = f"way AS MATERIALIZED (SELECT e.no AS embedder {of_embedder})"
            return [way, f"near AS ({self._compare_all(vector, '')})"]
        # A walk brings one row within bounds in every e.vectors / size.records.
        way = (
            f"way AS MATERIALIZED (SELECT e.no AS embedder, e.no = {wanted.number} AND e.breadth > 0"
            f" AND size.records >= {hnsw.LARGE}"
            f" AND size.records * size.records >= {WALK_COST} * {self._depth} * e.vectors"
            f" AND {hnsw.IS_VALID.format(number=wanted.number)} AS by_index,"
            f" least({LONGEST_WALK}, greatest(4 * {self._depth}, size.records / {WALK_COST}))::bigint AS longest"
            f" {of_embedder})"
        )
        indexed = hnsw.cast_vector(wanted.width)
        inside = f" AND w.scope = ANY({self._scopes})" if self._bounds.exact or self._bounds.scope.names else ""
        walk = (
            "walk AS MATERIALIZED (SELECT w.cosine, r.* FROM ("
            f"SELECT v.scope, v.no, -(v.data <#> {vector}) AS cosine FROM @vector v WHERE v.embedder = {wanted.number}"
            f" ORDER BY {indexed} <#> {vector} LIMIT (SELECT longest FROM way)) AS w"
            f" CROSS JOIN LATERAL ({self._read_record('w')}) AS r"
            f" WHERE (SELECT by_index FROM way){inside} LIMIT {self._depth})"
        )
        is_short = f"(SELECT count(*) FROM walk) < {self._depth}"
        return [
            way,
            walk,
            f"every AS ({self._compare_all(vector, f' AND {is_short}')})",
            f"near AS (SELECT * FROM walk WHERE NOT {is_short} UNION ALL SELECT * FROM every)",
        ]

    def _compare_all(self, vector: str, condition: str) -> str:
        """SQL of the nearest of all vectors within bounds."""
        of_scopes = f"v.scope = ANY({self._scopes}) AND v.embedder = (SELECT embedder FROM way){condition}"
        if self._bounds.filter is None:
            return self._compare_one_by_one(vector, of_scopes)
        # A filter may leave few of many: those are looked for first, and their vectors compared.
        is_small = f"(SELECT records FROM size) < {hnsw.LARGE}"
        return (
            f"({self._compare_one_by_one(vector, f'{of_scopes} AND {is_small}')}) UNION ALL ("
            f"SELECT -(v.data <#> {vector}) AS cosine, {CANDIDATE} FROM @vector v JOIN @record r"
            f" ON r.scope = v.scope AND r.no = v.no WHERE {of_scopes} AND NOT {is_small} AND {self._condition}"
            f" ORDER BY cosine DESC, no DESC LIMIT {self._depth})"
        )

    def _compare_one_by_one(self, vector: str, condition: str) -> str:
        """SQL that goes through the vectors from the nearest on until enough of their records are within bounds."""
        return (
            f"SELECT n.cosine, r.* FROM (SELECT v.scope, v.no, -(v.data <#> {vector}) AS cosine FROM @vector v"
            f" WHERE {condition} ORDER BY cosine DESC, no DESC) AS n CROSS JOIN LATERAL ({self._read_record('n')}) AS r"
            f" ORDER BY n.cosine DESC, n.no DESC LIMIT {self._depth}"
        )

    def _read_record(self, row: str) -> str:
        """SQL of the record that a row is of, if it is within bounds, whatever its scope.

        With a limit, so that rows are always looked up one by one and stay in their order.
        """
        return (
            f"SELECT {CANDIDATE} FROM @record r WHERE r.scope = {row}.scope AND r.no = {row}.no AND {self._condition}"
            " LIMIT 1"
        )
