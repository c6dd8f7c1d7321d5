"""Records as rows: how they are read within one snapshot, and written within one transaction.

Statements are sent without waiting for the answer of the one before, as long as it is not needed: a change takes two
trips to the server, however many tables it touches. A record that is written alone is one statement, and takes one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg import errors

from ...text.tokenizer import split_record
from ...values.query import Bounds, Window
from ...values.records import NOT_SEARCHABLE, Kind, Record, Scope
from ...values.times import from_micros, to_micros
from ..record_columns import decode_headings, decode_record, pack_vector, unpack_vector
from ..record_interface import GivenVectors, Headings, PreparedText, Records
from ..store_time import SLACK, compute_store_time
from .conditions import LIVE, Values, digest, select_scopes, within
from .database import Connection, Connections, Cursor, FirstAnswer, WholeChange

if TYPE_CHECKING:
    from ...values.changes import Vector
    from .checkpoint_rows import PostgresCheckpoints

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]  # inside of PostgresRecords, `list` is a verb
ScopeGrowth: TypeAlias = defaultdict[Scope, list[int]]
MOST_COUNTED = 32767  # of one word in one record
# Another number after the tables, or the whole server, were put back from a copy, or the server crashed: what it had
# not written by then is lost, and numbers are given again. And the store's newest time.
_GENERATION = (
    "hashtextextended(concat_ws(' ', pg_relation_filenode('@save'), extract(epoch FROM pg_postmaster_start_time()),"
    " CASE WHEN NOT pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END), 0)"
)
OPEN_SNAPSHOT = f"SELECT {_GENERATION} AS generation, coalesce(max(at), 0) AS at FROM @moment"
OPEN_TRANSACTION = (
    f"SELECT coalesce((SELECT needs FROM @state), 0) AS needs, {_GENERATION} AS generation,"
    " coalesce(max(at), 0) AS at FROM @moment"
)
# A slot that no other writer has at the moment, or a new one: there are as many as have ever written at once.
_NEW_SLOT = "floor(random() * 2147483647)::integer"
_TAKE_SLOT = (
    "coalesce((SELECT f.slot FROM @scope_size f WHERE f.scope = {scope} LIMIT 1 FOR UPDATE SKIP LOCKED),"
    f" {_NEW_SLOT})"
)
_PATH = "(SELECT s.path FROM @scope s WHERE s.no = r.scope)"
HEADING = f"r.id, {_PATH}, r.kind, r.key, r.title, r.tags, r.importance, r.author, r.updated_at"
COLUMNS = (
    f"r.id, {_PATH}, r.kind, r.key, r.title, r.text, r.data, r.tags, r.importance, "
    "r.author, r.source, r.parent, r.position, r.created_at, r.updated_at, r.expires_at, r.version"
)
_SCOPE_NO = "(SELECT s.no FROM @scope s WHERE s.digest = {}::bytea)"
_AT_ID = "@record_id i JOIN @record r ON r.scope = i.scope AND r.no = i.no WHERE i.id = $1"
_BY_ID = f"SELECT {COLUMNS} FROM {_AT_ID}"
_BY_IDS = _BY_ID.replace("i.id = $1", "i.id = ANY($1::text[])")
_AT_KEY = f"@record r WHERE r.scope = {_SCOPE_NO.format('$1')} AND r.kind = $2 AND r.key_digest = $3 AND r.key = $4"
_BY_KEY = f"SELECT {COLUMNS} FROM {_AT_KEY}"
_BY_DIGEST = (
    f"SELECT {COLUMNS} FROM @record r WHERE r.scope = {_SCOPE_NO.format('$1')} AND r.digest = $2 AND r.kind = $3"
    f" AND {LIVE.format('$4::bigint')} ORDER BY r.no LIMIT 1"
)
_MAKE_SCOPE = "INSERT INTO @scope (digest, path) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING"
# The parts of a new record, from `new`: its number and that of its scope.
_INSERT_PARTS = """
record AS (
    INSERT INTO @record
        (scope, no, id, kind, key, key_digest, seq, text_seq, words, terms, digest, parent, position, author,
         created_at, updated_at, expires_at, version, importance, source, tags, folded, title, data, fields, text)
    SELECT scope, no, $2::text, $3::text, $4::text, $5::bytea, no, no, $6::integer, $7::bigint[], $8::bytea, $9::text,
           $10::bigint, $11::text, $12::bigint, $13::bigint, $14::bigint, $15::bigint, $16::text, $17::text, $18::text,
           $19::text[], $20::text, $21::text, $22::jsonb, $23::text FROM new
),
id AS (INSERT INTO @record_id (id, scope, no) SELECT $2::text, scope, no FROM new),
posting AS (
    INSERT INTO @posting (scope, term, no, words, count)
    SELECT scope, term, no, $6::integer, count FROM new, unnest($7::bigint[], $24::smallint[]) AS counts (term, count)
),
unembedded AS (
    INSERT INTO @unembedded (scope, embedder, no, seq)
    SELECT new.scope, e.no, new.no, new.no FROM new, @embedder e WHERE $25::boolean
)"""
_INSERT = f"""
WITH new AS MATERIALIZED (SELECT nextval('@change') AS no, {_SCOPE_NO.format("$1")} AS scope),
{_INSERT_PARTS}
SELECT 1 FROM new
"""
# The record is locked by then: what is read here stays.
_OLD = "SELECT r.scope, r.no, r.words, r.terms FROM " + _AT_ID
_FORGET_WORDS = f"""
WITH old AS MATERIALIZED ({_OLD}),
posting AS (
    DELETE FROM @posting p USING old WHERE p.scope = old.scope AND p.no = old.no AND p.term = ANY(old.terms)
)
INSERT INTO @scope_size AS z (scope, slot, records, words)
SELECT old.scope, {_TAKE_SLOT.format(scope="old.scope")}, -1, -old.words FROM old
ON CONFLICT (scope, slot) DO UPDATE SET records = z.records + excluded.records, words = z.words + excluded.words
"""
_UPDATE = f"""
WITH new AS MATERIALIZED (SELECT nextval('@change') AS seq, {_SCOPE_NO.format("$2")} AS scope),
id AS (UPDATE @record_id i SET scope = new.scope FROM new WHERE i.id = $1 AND i.scope <> new.scope)
UPDATE @record r SET
    scope = new.scope, kind = $3, key = $4, key_digest = $5, seq = new.seq,
    text_seq = CASE WHEN $23::boolean THEN new.seq ELSE r.text_seq END, words = $6, terms = $7::bigint[], digest = $8,
    parent = $9, position = $10, author = $11, updated_at = $12, expires_at = $13, version = $14, importance = $15,
    source = $16, tags = $17, folded = $18::text[], title = $19, data = $20, fields = $21::jsonb, text = $22
FROM new, @record_id i WHERE i.id = $1 AND r.scope = i.scope AND r.no = i.no
"""
_ADD_WORDS = """
INSERT INTO @posting (scope, term, no, words, count)
SELECT i.scope, term, i.no, $2::integer, count
FROM @record_id i, unnest($3::bigint[], $4::smallint[]) AS counts (term, count)
WHERE i.id = $1
"""
_MOVE = [
    f"UPDATE {table} t SET scope = i.scope FROM @record_id i"
    f" WHERE i.id = $1 AND t.no = i.no AND t.scope = {_SCOPE_NO.format('$2')}"
    for table in ("@vector", "@unembedded", "@given")
]
_FORGET_VECTORS = "DELETE FROM @vector v USING @record_id i WHERE i.id = $1 AND v.scope = i.scope AND v.no = i.no"
_FORGET_GIVEN = "DELETE FROM @given g USING @record_id i WHERE i.id = $1 AND g.scope = i.scope AND g.no = i.no"
_ADD_UNEMBEDDED = """
INSERT INTO @unembedded (scope, embedder, no, seq)
SELECT r.scope, e.no, r.no, r.seq FROM @embedder e, @record_id i JOIN @record r ON r.scope = i.scope AND r.no = i.no
WHERE i.id = $1 AND $2::boolean
ON CONFLICT (scope, no, embedder) DO UPDATE SET seq = excluded.seq, claim = NULL, until = NULL
"""
_ADD_GIVEN = """
INSERT INTO @given (scope, no, place, part, dims, data)
SELECT i.scope, i.no, place, part, dims, data
FROM @record_id i, unnest($2::text[], $3::integer[], $4::bytea[]) WITH ORDINALITY AS given (part, dims, data, place)
WHERE i.id = $1
"""
_GROW = f"""
INSERT INTO @scope_size AS z (scope, slot, records, words)
SELECT s.no, {_TAKE_SLOT.format(scope="s.no")}, more.records, more.words
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS more (digest, records, words) JOIN @scope s USING (digest)
ORDER BY s.no
ON CONFLICT (scope, slot) DO UPDATE SET records = z.records + excluded.records, words = z.words + excluded.words
"""
NOTE_MOMENT = f"""
INSERT INTO @moment AS m (slot, at, changes)
SELECT coalesce((SELECT slot FROM @moment WHERE slot >= 0 LIMIT 1 FOR UPDATE SKIP LOCKED), {_NEW_SLOT}),
       $1::bigint, $2::bigint
ON CONFLICT (slot) DO UPDATE SET at = greatest(m.at, excluded.at), changes = m.changes + excluded.changes
"""
# A new record with all that goes with it, and the mark of its transaction. Where the store's time is later than the
# record's, or the store is a newer version's, it divides by zero, and the longer way is taken.
_INSERT_WHOLE = f"""
WITH new AS MATERIALIZED (
    SELECT nextval('@change') AS no, {_SCOPE_NO.format("$1")} AS scope,
           1 / (coalesce((SELECT max(at) FROM @moment), 0) <= $26::bigint
                AND coalesce((SELECT needs FROM @state), 0) <= $27::integer)::integer AS checked
),
{_INSERT_PARTS},
size AS (
    INSERT INTO @scope_size AS z (scope, slot, records, words)
    SELECT scope, {_TAKE_SLOT.format(scope="new.scope")}, 1, $6::integer FROM new
    ON CONFLICT (scope, slot) DO UPDATE SET records = z.records + excluded.records, words = z.words + excluded.words
),
moment AS ({NOTE_MOMENT.replace("$1", "$26").replace("$2::bigint", "1")}),
mark AS (INSERT INTO @commit_mark (at, token) VALUES ($28, $29))
SELECT {{sync}} FROM new
"""
CORRECT_TIME = "UPDATE @moment SET at = $1 WHERE at > $1"
# In one statement, so that all parts are of the same records: others may write meanwhile.
_DELETE = f"""
WITH gone AS (DELETE FROM @record r WHERE {{which}} RETURNING r.id, r.scope, r.no, r.words, r.terms),
id AS (DELETE FROM @record_id i USING gone WHERE i.id = gone.id),
posting AS (
    DELETE FROM @posting p USING (SELECT scope, no, unnest(terms) AS term FROM gone) AS old
    WHERE p.scope = old.scope AND p.term = old.term AND p.no = old.no
),
vector AS (DELETE FROM @vector v USING gone WHERE v.scope = gone.scope AND v.no = gone.no),
unembedded AS (DELETE FROM @unembedded u USING gone WHERE u.scope = gone.scope AND u.no = gone.no),
given AS (DELETE FROM @given g USING gone WHERE g.scope = gone.scope AND g.no = gone.no),
size AS (
    INSERT INTO @scope_size AS z (scope, slot, records, words)
    SELECT less.scope, {_TAKE_SLOT.format(scope="less.scope")}, -less.records, -less.words
    FROM (SELECT scope, count(*) AS records, sum(words) AS words FROM gone GROUP BY scope ORDER BY scope) AS less
    ON CONFLICT (scope, slot) DO UPDATE SET records = z.records + excluded.records, words = z.words + excluded.words
)
SELECT count(*) FROM gone
"""
_LOCK = "SELECT 1 FROM @record r WHERE {which} ORDER BY r.scope, r.no FOR UPDATE"
_IS_ID = "(r.scope, r.no) = (SELECT i.scope, i.no FROM @record_id i WHERE i.id = $1)"
# One that looks for a free key, or for the same text, and then writes keeps others from doing so meanwhile.
_LOCK_NAME = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_SHARE_NAME = "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))"
_ORDERS = {
    "changed": "r.seq {0}",
    "created": "r.created_at {0}, r.seq {0}",
    "written": "r.created_at {0}, r.no {0}",
    "expires": "r.expires_at IS NULL {0}, r.expires_at {0}, r.no {0}",
}
# Rounded down, also before 1970: % has the sign of what it divides.
_STEP_BEGIN = "r.created_at - (r.created_at % {0} + {0}) % {0}"


@lru_cache(maxsize=50_000)
def number_term(word: str) -> int:
    """The number that stands for a word in `posting`."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little", signed=True)


class PostgresRecords:
    """The records in the snapshot or transaction that is open on a connection."""

    def __init__(self, connections: Connections, connection: Connection, opening: FirstAnswer, clock: datetime) -> None:
        self._connections = connections
        self._connection = connection
        self._opening = opening
        self._clock = to_micros(clock)
        self._at: int | None = None

    @property
    def at(self) -> int:
        """The store's time, in microseconds since 1970."""
        if self._at is None:
            self._at = self._find_time()
        return self._at

    def _find_time(self) -> int:
        return compute_store_time(self._clock, self._opening.fetch()[-1])

    @property
    def now(self) -> datetime:
        """The moment that expiry is judged by."""
        return from_micros(self.at)

    @property
    def checkpoints(self) -> PostgresCheckpoints:
        """The checkpoints."""
        from .checkpoint_rows import PostgresCheckpoints  # many programs need none

        return PostgresCheckpoints(self._connections, self._connection, self.at, self._opening.fetch()[-2])

    def by_id(self, record_id: str) -> Record | None:
        """The record with this id, even if it has expired."""
        return self._one(_BY_ID, record_id)

    def by_ids(self, record_ids: Sequence[str]) -> dict[str, Record]:
        """The records with these ids, by them, even if they have expired."""
        rows = self._fetch(_BY_IDS, ([*record_ids],))
        if any(row[1] is None for row in rows):
            raise errors.SerializationFailure("a record was moved meanwhile")
        return {row[0]: decode_record(row) for row in rows}

    def by_key(self, scope: Scope, kind: Kind, key: str) -> Record | None:
        """The record with this key, even if it has expired."""
        return self._one(_BY_KEY, digest(scope.path), str(kind), digest(key), key)

    def by_digest(self, scope: Scope, kind: Kind, digest_: bytes) -> Record | None:
        """The oldest record of the scope and kind with this digest that has not expired."""
        return self._one(_BY_DIGEST, digest(scope.path), digest_, str(kind), self.at)

    def ids(self, prefix: str, limit: int) -> list[str]:
        """The ids that begin so, in their order."""
        rows = self._fetch(
            "SELECT i.id FROM @record_id i JOIN @record r ON r.scope = i.scope AND r.no = i.no"
            f" WHERE i.id >= $1 AND starts_with(i.id, $1) AND {LIVE.format('$2::bigint')} ORDER BY i.id LIMIT $3",
            (prefix, self.at, limit),
        )
        return [row[0] for row in rows]

    def adjacent_ids(self, record_id: str) -> tuple[str, str]:
        """The ids next before and next after this one in their order, also of what has expired; "" for none."""
        ((before, after),) = self._fetch(
            "SELECT (SELECT max(id) FROM @record_id WHERE id < $1), (SELECT min(id) FROM @record_id WHERE id > $1)",
            (record_id,),
        )
        return before or "", after or ""

    def list(self, bounds: Bounds, window: Window) -> Records:
        """Records within bounds that have not expired."""
        return list(map(decode_record, self._select(COLUMNS, bounds, window)))

    def headings(self, bounds: Bounds, window: Window) -> Headings:
        """The same without their texts, which are not read."""
        return decode_headings(self._select(HEADING, bounds, window))

    def count(self, bounds: Bounds) -> int:
        """How many records within bounds have not expired."""
        values = Values()
        condition = within(bounds, self.at, values)
        return int(self._fetch(f"SELECT count(*) FROM @record r WHERE {condition}", values.list)[0][0])

    def count_by_time(self, bounds: Bounds, step: int) -> Sequence[tuple[int, str, int]]:
        """How many records within bounds were created in each step of this many microseconds, by kind."""
        values = Values()
        condition = within(bounds, self.at, values)
        begin = _STEP_BEGIN.format(values.add(step, "bigint"))
        return self._fetch(
            f"SELECT {begin}, r.kind, count(*) FROM @record r WHERE {condition} GROUP BY 1, 2"
            ' ORDER BY 1, r.kind COLLATE "C"',
            values.list,
        )

    def scopes(self, under: Scope, kinds: Sequence[Kind] = ()) -> Sequence[tuple[Scope, int]]:
        """Each scope that holds records, of these kinds if any are named, with their number."""
        values = Values()
        condition = within(Bounds(scope=under, kinds=tuple(kinds)), self.at, values)
        rows = self._fetch(
            f"SELECT s.path, n.count FROM (SELECT r.scope, count(*) FROM @record r WHERE {condition} GROUP BY r.scope)"
            " AS n JOIN @scope s ON s.no = n.scope ORDER BY s.path",
            values.list,
        )
        return [(Scope.from_path(path), count) for path, count in rows]

    def given_vectors(self, record_id: str) -> GivenVectors:
        """The vectors that were given with a record."""
        rows = self._fetch(
            "SELECT g.part, g.data FROM @record_id i JOIN @given g ON g.scope = i.scope AND g.no = i.no"
            " WHERE i.id = $1 ORDER BY g.part",
            (record_id,),
        )
        return {part: unpack_vector(data) for part, data in rows}

    def made_vectors(self, embedder: str, record_ids: Sequence[str]) -> dict[str, Vector]:
        """The vectors that an embedder made of the present texts of records, by their ids."""
        from .vector_rows import decode_vector  # which needs numpy

        rows = self._fetch(
            "SELECT i.id, @@halfvec_send(v.data) FROM @embedder e JOIN @record_id i ON i.id = ANY($2::text[])"
            " JOIN @vector v ON v.scope = i.scope AND v.no = i.no AND v.embedder = e.no WHERE e.name = $1",
            (embedder, list(record_ids)),
        )
        return {record_id: decode_vector(data) for record_id, data in rows}

    def _one(self, sql: str, *values: object) -> Record | None:
        row = self._run(sql, values).fetchone()
        if row is None:
            return None
        if row[1] is None:  # it was moved to a scope that is newer than this statement
            raise errors.SerializationFailure("the record was moved meanwhile")
        return decode_record(row)

    def _select(self, columns: str, bounds: Bounds, window: Window) -> Rows:
        values = Values()
        condition = within(bounds, self.at, values)
        order = _ORDERS[window.order].format("DESC" if window.newest else "ASC")
        limit, offset = values.add(window.limit), values.add(window.offset)
        return self._fetch(
            f"SELECT {columns} FROM @record r WHERE {condition} ORDER BY {order} LIMIT {limit} OFFSET {offset}",
            values.list,
        )

    def _run(self, sql: str, values: Sequence[object] = ()) -> Cursor:
        return self._connections.execute(self._connection, sql, values)

    def _fetch(self, sql: str, values: Sequence[object] = ()) -> Rows:
        return self._run(sql, values).fetchall()


class PostgresTransaction(PostgresRecords):
    """The records in a write transaction; `finish` ends it with the counters that go with the changes.

    Other transactions run beside it, and each statement sees what they have committed by then. So what is read to be
    changed is locked until the commit, and what is found missing is kept so, by a lock of its name or a unique index.
    """

    def __init__(self, connections: Connections, connection: Connection, opening: FirstAnswer, clock: datetime) -> None:
        super().__init__(connections, connection, opening, clock)
        self._growth: ScopeGrowth = defaultdict(lambda: [0, 0])
        self._scope_of: dict[str, Scope] = {}
        """The scope of each record that was read or written."""
        self._changes = 0
        self._has_dropped = False
        """Whether a scope was dropped, which counts for the store's time although nothing may have been in it."""
        self._waiting: tuple[Record, PreparedText] | None = None
        """A new record that is not sent yet, since all of the transaction may be this record."""

    def _find_time(self) -> int:
        """The store's time; as long as the transaction has not begun it is this process's clock, which is checked."""
        return super()._find_time() if self._opening.has_begun else self._clock

    def _run(self, sql: str, values: Sequence[object] = ()) -> Cursor:
        if not self._opening.has_begun:
            self._begin()
        return super()._run(sql, values)

    @property
    def checkpoints(self) -> PostgresCheckpoints:
        """The checkpoints."""
        if not self._opening.has_begun:
            self._begin()
        return super().checkpoints

    def _begin(self) -> None:
        """Begin the transaction, which needs more than one statement, with the record that was to be all of it."""
        self._opening.begin()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._insert(*waiting)
        if self._at is not None and self._at != super()._find_time():
            raise errors.SerializationFailure("the store's time is another than this process's clock")

    def finish(self) -> WholeChange | None:
        """Write the sizes of the scopes, and the store's time, if records were changed.

        A transaction that has not begun, since all that it is to do is to add a record, is returned as a whole change.
        """
        if self._waiting is not None:
            record, text = self._waiting
            return WholeChange(_INSERT_WHOLE, (*_encode_insert(record, text), self.at, self._connections.newest_step))
        grown = {scope: more for scope, more in self._growth.items() if any(more)}
        if grown:
            self._run(
                _GROW,
                (
                    [digest(scope.path) for scope in grown], [records for records, _ in grown.values()],
                    [words for _, words in grown.values()],
                ),
            )  # fmt: skip
        if self._changes or self._has_dropped:
            self.note_time()
        return None

    def note_time(self) -> None:
        """Write the store's time, which is not to go back from here, or which a clock that was ahead had wrong."""
        if self._opening.fetch()[-1] > self.at + SLACK:
            self._run(CORRECT_TIME, (self.at,))
        self._run(NOTE_MOMENT, (self.at, self._changes))

    def purge(self, before: int, limit: int) -> int:
        """Delete some of what expired before then."""
        which = "r.expires_at <= $1"
        some = f"(r.scope, r.no) IN (SELECT r.scope, r.no FROM @record r WHERE {which} LIMIT $2 FOR UPDATE SKIP LOCKED)"
        ((count,),) = self._fetch(_DELETE.format(which=some), (before, limit))
        if count:
            self._run(NOTE_MOMENT, (0, count))
        return int(count)

    def rebuild_words(self, scope: int) -> None:
        """Write the words of all records of a scope again, and count them; all who write wait meanwhile."""
        self._run("LOCK TABLE @record, @posting, @scope_size IN SHARE ROW EXCLUSIVE MODE")
        rows = self._fetch(f"SELECT r.no, {COLUMNS} FROM @record r WHERE r.scope = $1", (scope,))
        self._run("DELETE FROM @posting WHERE scope = $1", (scope,))
        total = 0
        for number, *columns in rows:
            split = _split(decode_record(tuple(columns)))
            terms, words = _count_terms(split), len(split)
            total += words
            self._run(
                "INSERT INTO @posting (scope, term, no, words, count)"
                " SELECT $1, term, $2, $3, count FROM unnest($4::bigint[], $5::smallint[]) AS counts (term, count)",
                (scope, number, words, encode_numbers(terms), encode_numbers(terms.values())),
            )
            self._run(
                "UPDATE @record SET words = $3, terms = $4::bigint[] WHERE scope = $1 AND no = $2",
                (scope, number, words, encode_numbers(terms)),
            )
        self._run("DELETE FROM @scope_size WHERE scope = $1", (scope,))
        self._run("INSERT INTO @scope_size VALUES ($1, 0, $2, $3)", (scope, len(rows), total))

    def by_id(self, record_id: str) -> Record | None:
        """The record with this id, even if it has expired; it is kept from others."""
        return self._lock(f"{_BY_ID} FOR UPDATE", record_id)

    def by_key(self, scope: Scope, kind: Kind, key: str) -> Record | None:
        """The record with this key, even if it has expired; it is kept from others."""
        return self._lock(f"{_BY_KEY} FOR UPDATE", digest(scope.path), str(kind), digest(key), key)

    def by_digest(self, scope: Scope, kind: Kind, digest_: bytes) -> Record | None:
        """The oldest record of the scope and kind with this digest that has not expired."""
        # Not of this text alone: of two who write the same texts in another order each would wait for the other.
        self._run(_LOCK_NAME, (f"{self._connections.schema} texts {scope.path.hex()} {kind}",))
        return super().by_digest(scope, kind, digest_)

    def first_key(self, scope: Scope, kind: Kind, first: str, past: str) -> tuple[str, int] | None:
        """The lowest key from `first` up to, and without, `past` that has not expired, and its record's version."""
        self._run(_LOCK_NAME, (self._name_keys(scope, kind),))
        rows = self._fetch(
            f"SELECT r.key, r.version FROM @record r WHERE r.scope = {_SCOPE_NO.format('$1')} AND r.kind = $2"
            " AND left(r.key, 200) >= left($3, 200) AND left(r.key, 200) <= left($4, 200)"
            f" AND r.key >= $3 AND r.key < $4 AND {LIVE.format('$5::bigint')} ORDER BY r.key LIMIT 1",
            (digest(scope.path), str(kind), first, past, self.at),
        )
        return (rows[0][0], rows[0][1]) if rows else None

    def insert(self, record: Record, text: PreparedText, given: GivenVectors) -> None:
        """Add a record."""
        is_plain = record.key is None and not given and record.scope.path in self._connections.known_scopes
        if is_plain and not self._opening.has_begun and self._waiting is None:
            self._waiting = (record, text)
            return
        self._insert(record, text)
        self._store_given(record.id, given)

    def _insert(self, record: Record, text: PreparedText) -> None:
        self._prepare_change(record)
        self._run(_INSERT, _encode_insert(record, text))
        self._grow(record.scope, 1, text.words)
        self._scope_of[record.id] = record.scope

    def update(self, record: Record, text: PreparedText, given: GivenVectors | None, *, restated: bool) -> None:
        """Write a record in place of the one with its id."""
        self._prepare_change(record)
        terms = _count_terms(_split(record))
        old_scope = self._scope_of[record.id]  # the rules never change what they have not read
        self._run(_FORGET_WORDS, (record.id,))
        self._run(
            _UPDATE,
            (
                record.id, digest(record.scope.path), str(record.kind), record.key, _digest_key(record), text.words,
                encode_numbers(terms), text.digest, record.parent, record.position, record.author,
                to_micros(record.updated_at), _to_micros(record.expires_at), record.version, str(record.importance),
                record.source, text.tags, _fold(record.tags), record.title, text.data, _encode_fields(text),
                record.text, restated,
            ),
        )  # fmt: skip
        self._run(_ADD_WORDS, (record.id, text.words, encode_numbers(terms), encode_numbers(terms.values())))
        self._grow(record.scope, 1, text.words)
        if old_scope != record.scope:
            for statement in _MOVE:
                self._run(statement, (record.id, digest(old_scope.path)))
            self._scope_of[record.id] = record.scope
        if restated:
            self._run(_FORGET_VECTORS, (record.id,))
            self._run(_ADD_UNEMBEDDED, (record.id, record.kind.has_vector))
        if given is not None:
            self._run(_FORGET_GIVEN, (record.id,))
            self._store_given(record.id, given)

    def delete(self, record_id: str) -> int:
        """Delete a record, with everything derived from it."""
        return self._remove(_IS_ID, (record_id,))

    def drop_scope(self, scope: Scope) -> int:
        """Delete the records of a scope and all under it."""
        self._has_dropped = True
        values = Values()
        return self._remove(f"r.scope = ANY({select_scopes(Bounds(scope=scope), values)})", values.list)

    def set_expiry(self, record_id: str, expires_at: datetime | None) -> None:
        """Let a record expire at this time, or never, unless it has expired already."""
        self._changes += 1
        self._run(
            "UPDATE @record r SET expires_at = $2 FROM @record_id i"
            f" WHERE i.id = $1 AND r.scope = i.scope AND r.no = i.no AND {LIVE.format('$3::bigint')}",
            (record_id, None if expires_at is None else max(to_micros(expires_at), self.at + 1), self.at),
        )

    def store_vectors(self, embedder: str, vectors: Mapping[str, Vector], codes: Mapping[str, bytes]) -> None:
        """Store vectors, by the ids of their records, where a record has none of its present text."""
        from .vector_rows import store_precomputed  # which needs numpy

        if not self._opening.has_begun:
            self._begin()
        store_precomputed(self._connections, self._connection, embedder, vectors, codes)

    def _lock(self, sql: str, *values: object) -> Record | None:
        """The record that a statement finds, which no other changes until the commit."""
        record = self._one(sql, *values)
        if record is not None:
            self._scope_of[record.id] = record.scope
        return record

    def _prepare_change(self, record: Record) -> None:
        """Note that a record is about to be stored, and see to it that its scope is there and its key stays free."""
        self._changes += 1
        path = record.scope.path
        if path not in self._connections.known_scopes:
            self._run(_MAKE_SCOPE, (digest(path), path))
            self._connections.note_scope(path)
        if record.key is not None:
            self._run(_SHARE_NAME, (self._name_keys(record.scope, record.kind),))

    def _name_keys(self, scope: Scope, kind: Kind) -> str:
        """What stands for all keys of a scope and kind, free or not."""
        return f"{self._connections.schema} keys {scope.path.hex()} {kind}"

    def _grow(self, scope: Scope, records: int, words: int) -> None:
        more = self._growth[scope]
        more[0] += records
        more[1] += words

    def _store_given(self, record_id: str, given: GivenVectors) -> None:
        if given:
            sizes, packed = [len(each) for each in given.values()], [pack_vector(each) for each in given.values()]
            self._run(_ADD_GIVEN, (record_id, [*given], sizes, packed))

    def _remove(self, which: str, values: Sequence[object]) -> int:
        """Delete the records of which `which` holds, and everything derived from them."""
        self._run(_LOCK.format(which=which), values)
        ((count,),) = self._fetch(_DELETE.format(which=which), values)
        self._changes += count
        return int(count)


def encode_record(record: Record, text: PreparedText) -> Row:
    """What the columns of a new record hold from `id` on, and how often it holds each of its words."""
    terms = _count_terms(_split(record))
    return (
        record.id, str(record.kind), record.key, _digest_key(record), text.words, encode_numbers(terms), text.digest,
        record.parent, record.position, record.author, to_micros(record.created_at), to_micros(record.updated_at),
        _to_micros(record.expires_at), record.version, str(record.importance), record.source, text.tags,
        _fold(record.tags), record.title, text.data, _encode_fields(text), record.text, encode_numbers(terms.values()),
    )  # fmt: skip


def _encode_insert(record: Record, text: PreparedText) -> Row:
    """The values of what adds a record."""
    return (digest(record.scope.path), *encode_record(record, text), record.kind.has_vector)


def _split(record: Record) -> Sequence[str]:
    if record.kind in NOT_SEARCHABLE:
        return ()
    return split_record(
        title=record.title, text=record.text, tags=record.tags, author=record.author, key=record.key, data=record.data
    )


def encode_numbers(numbers: Iterable[int]) -> str:
    """An array of numbers as PostgreSQL writes it, for which psycopg takes far longer."""
    return f"{{{','.join(map(str, numbers))}}}"


def _count_terms(words: Sequence[str]) -> dict[int, int]:
    """How often each of the words stands there, by its number."""
    return {number_term(word): min(count, MOST_COUNTED) for word, count in Counter(words).items()}


def _digest_key(record: Record) -> bytes | None:
    return None if record.key is None else digest(record.key)


def _encode_fields(text: PreparedText) -> str | None:
    return None if text.data == "null" else text.data


def _fold(tags: Sequence[str]) -> list[str]:
    return sorted({tag.casefold() for tag in tags})


def _to_micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
