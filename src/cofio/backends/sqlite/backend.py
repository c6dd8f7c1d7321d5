"""The embedded backend as a whole: what each door's read and write becomes in the parts beside this file."""

from __future__ import annotations

import array
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from ...errors import Invalid, Unavailable
from ...model import Kind, Record, Scope
from ...text import embed_text
from .. import Backlog, Bounds, Brief, Change, EmbedBatch, Match, Progress, Put, ToEmbed
from . import checks
from .database import Database, fetch, translated
from .filters import Condition, micros, within, within_scope
from .records import COLUMNS, Changing, moment, prepare, record_of, steady
from .words import Damaged, Loaded, State, WordIndex, WordSearch, narrowed, watched

if TYPE_CHECKING:
    from .. import Vector
    from .vectors import Codes, Near, VectorIndex

DEEPER = 4  # how much further to look, when too few of the candidates turn out to be within bounds
EXACT = 40  # so many of the nearest by int8 are scored from the vectors themselves
FEW = 1000  # so few records that pass a filter are named to the word index
SELECTIVE = 10_000  # a filter that leaves fewer records than this is worked out before the vectors are scanned
MANY = 2000  # a backlog is looked at no further in a search: counting would take longer than searching
REBUILD_AT_ONCE = 20_000  # a lost index of so few records is rebuilt before the search that missed it goes on

_BRIEF = "no, id, scope, parent, position, author, created_at, words, seq, text_seq"


_leases: set[int] = set()


def _let_go() -> None:
    """A forked child has no part in its parent's lease, which would otherwise last as long as the child does."""
    for handle in _leases:
        os.close(handle)
    _leases.clear()


os.register_at_fork(after_in_child=_let_go)


class SqliteBackend:
    """A store in a folder: memory.db, index/ and vectors/."""

    def __init__(self, folder: Path, *, sync: str = "full", vfs: str | None = None) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name in ("index", "vectors"):
                (folder / name).mkdir(exist_ok=True, mode=0o700)
        except FileExistsError as error:
            raise Invalid("store", f"{folder} is a file; a store is a folder") from error
        except OSError as error:
            raise Unavailable(f"{folder} cannot be made ({error}); choose another folder") from error
        self._database = Database(folder / "memory.db", sync=sync, vfs=vfs)
        self._words = WordIndex(folder / "index", self._database)
        self._vectors: dict[str, VectorIndex] = {}
        self._aligned = False

    # Reading and writing records.

    def apply(self, changes: Sequence[Change], now: datetime) -> list[Record | int]:
        """Make all of the changes, durably, or none."""
        if not self._aligned:
            self._words.align()
            self._aligned = True
        # The slow part of a write, taking the text apart, is done before the store is locked.
        prepared = {id(change.draft): prepare(change.draft) for change in changes if isinstance(change, Put)}
        return self._database.write(lambda connection: Changing(connection, now, prepared).apply(changes))

    @contextmanager
    def reading(self, now: datetime, *, words: bool = False) -> Iterator[SqliteView]:
        """A consistent look that includes every write acknowledged before it was taken."""
        if not words:
            with self._database.reading() as connection:
                yield SqliteView(self, connection, State.read(connection), None, now)
            return
        with self._database.borrowed() as connection:
            yield SqliteView(self, connection, *self.look(connection), now)

    def look(self, connection: apsw.Connection) -> tuple[State, Loaded | None]:
        """Begin a snapshot with the index that belongs to it, which is first rebuilt if it is lost and small."""
        for _ in range(100):
            state, loaded = self._words.look(connection)
            if state.tail_seq <= state.indexed_seq or state.records > REBUILD_AT_ONCE:
                return state, loaded
            connection.execute("ROLLBACK")
            try:
                with self.lease() as mine:
                    if mine:
                        self._words.take_in(1)
            except Unavailable:
                break
            if not mine:
                time.sleep(0.1)  # whoever has it is about to do this
        return self._words.look(connection)  # what can be found without the index is found

    def mend(self, connection: apsw.Connection, state: State) -> tuple[State, Loaded | None]:
        """Give up an index that turned out to be damaged, and begin another snapshot with a new one."""
        connection.execute("ROLLBACK")
        self._words.forget(state.index)
        return self.look(connection)

    def export(self, bounds: Bounds, now: datetime) -> Iterator[Record]:
        """Every record within bounds, oldest change first."""
        with self._database.reading() as connection:
            at = steady(micros(now), State.read(connection).updated)
            condition = within(bounds, at, by_row=False)
            for row in connection.execute(
                f"SELECT {COLUMNS} FROM record WHERE {condition.sql} ORDER BY seq", condition.values
            ):
                yield record_of(row)

    # Derived work.

    @contextmanager
    def lease(self) -> Iterator[bool]:
        """Hold the store's lock file: the kernel lets go of it when the process dies, however it dies."""
        with translated(self.folder):
            handle = os.open(self.folder / "lease", os.O_CREAT | os.O_RDWR, 0o600)
        _leases.add(handle)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                self._words.release_writer()
        finally:
            _leases.discard(handle)
            os.close(handle)

    def index_words(self, limit: int) -> int:
        """Take changed records into the word index."""
        with translated(self.folder / "index"):
            return self._words.take_in(limit)

    def to_embed(self, embedder: str, limit: int) -> EmbedBatch | None:
        """The next records that need a vector."""
        with self._database.reading() as connection:
            number, seen = _seen_seq(connection, embedder)
            newest = State.read(connection).seq
            if seen >= newest:
                return None
            rows = fetch(
                connection,
                "SELECT record.no, record.text_seq, seq, title, text, tags, record.data FROM record"
                " LEFT JOIN vector ON vector.embedder = ? AND vector.no = record.no"
                " WHERE seq > ? AND vector.text_seq IS NOT record.text_seq ORDER BY seq LIMIT ?",
                (number, seen, limit),
            )
        upto = rows[-1][2] if len(rows) == limit else newest
        return EmbedBatch(tuple(_to_embed(row) for row in rows), upto, number)

    def store_vectors(self, embedder: str, batch: EmbedBatch, vectors: Vector | None) -> None:
        """Keep the vectors of a batch, but for records whose text changed meanwhile."""
        data = [] if vectors is None else [row.tobytes() for row in vectors.astype("<f2")]

        def store(connection: apsw.Connection) -> None:
            width = 0 if vectors is None else vectors.shape[1]
            number, vseq, updated = _embedder(connection, embedder, width)
            for item, blob in zip(batch.items, data, strict=True):
                vseq += 1
                connection.execute(
                    "INSERT OR REPLACE INTO vector (embedder, no, vseq, text_seq, data)"
                    " SELECT ?, no, ?, text_seq, ? FROM record WHERE no = ? AND text_seq = ?",
                    (number, vseq, blob, item.no, item.text_seq),
                )
            connection.execute(
                "UPDATE embedder SET vseq = ?, seen_seq = max(seen_seq, ?), seen_at = ? WHERE no = ?",
                (vseq, batch.upto if batch.embedder in (0, number) else 0, updated, number),
            )

        self._database.write(store)

    def index_vectors(self, embedder: str) -> int:
        """Bring the vector codes up to date when enough has gathered."""
        with translated(self.folder / "vectors"):
            return self.vectors(embedder).bring_up()

    def vectors(self, embedder: str) -> VectorIndex:
        """The vector codes of an embedder. numpy is loaded here, and not before it is needed."""
        from .vectors import VectorIndex

        if embedder not in self._vectors:
            self._vectors[embedder] = VectorIndex(self.folder / "vectors", self._database, embedder)
        return self._vectors[embedder]

    def purge(self, before: datetime) -> int:
        """Remove the records that expired before then."""
        with self._database.reading() as connection:
            if not connection.execute("SELECT 1 FROM record WHERE expires_at <= ? LIMIT 1", (micros(before),)).get:
                return 0
        return self._database.write(lambda connection: Changing(connection, before).purge(micros(before)))

    def waiting(self, embedder: str) -> int:
        """How many records have no vector of their present text."""
        with self._database.reading() as connection:
            return int(
                connection.execute(
                    "SELECT count(*) FROM record LEFT JOIN vector ON vector.no = record.no"
                    " AND vector.embedder = (SELECT no FROM embedder WHERE name = ?1)"
                    " WHERE seq > ifnull((SELECT seen_seq FROM embedder WHERE name = ?1), 0)"
                    " AND vector.text_seq IS NOT record.text_seq",
                    (embedder,),
                ).get
            )

    def tidy(self, now: datetime) -> None:
        """Move the write-ahead log into the database, and the store's time past what has expired."""
        self._database.checkpoint()
        at = micros(now)
        with self._database.reading() as connection:
            updated = State.read(connection).updated
            ended = connection.execute(
                "SELECT 1 FROM record WHERE expires_at > ? AND expires_at <= ? LIMIT 1", (updated, at)
            ).get
        if ended:
            sql = "UPDATE meta SET value = max(value, ?) WHERE key = 'updated'"
            self._database.write(lambda connection: connection.execute(sql, (at,)).get)

    def note_fault(self, fault: str) -> None:
        """Keep why background work failed, or that it does not."""
        with self._database.reading() as connection:
            known = connection.execute("SELECT value FROM meta WHERE key = 'fault'").get
        if known != fault:
            sql = "UPDATE meta SET value = ? WHERE key = 'fault'"
            self._database.write(lambda connection: connection.execute(sql, (fault,)).get)

    def rebuild(self, embedder: str | None, now: datetime, progress: Progress | None = None) -> None:
        """Make everything derived anew; what has expired goes, as do the vectors of any other embedder."""
        self.purge(now)
        with self._leased(), translated(self.folder):
            with self._database.reading() as connection:
                miscounted = checks.miscounted(connection)

            def reset(connection: apsw.Connection) -> None:
                if miscounted:
                    checks.recount(connection)
                connection.execute("DELETE FROM segment")
                if embedder is not None:
                    _forget_embedders(connection, "name <> ?", embedder)

            self._database.write(reset)
            self._words.rebuild(progress)
            with self._database.reading() as connection:
                names = [name for (name,) in fetch(connection, "SELECT name FROM embedder")]
            for number, name in enumerate(names):
                self.vectors(name).bring_up()
                if progress:
                    progress("vectors", number + 1, len(names))

    def forget_vectors(self) -> None:
        """Drop every vector, so that all records are embedded again."""

        self._database.write(lambda connection: _forget_embedders(connection, "1"))

    # For people.

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store."""
        return checks.check(self._database, self._words, self.folder, embedder, progress)

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store into a new folder while others go on writing."""
        place = Path(target)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise Invalid("target", f"{place} exists and is not an empty folder")
        try:
            with translated(place):
                place.mkdir(parents=True, exist_ok=True, mode=0o700)
                checks.copy(self._database, place / "memory.db", progress)
                if (self.folder / "cofio.toml").is_file():
                    shutil.copyfile(self.folder / "cofio.toml", place / "cofio.toml")
                    (place / "cofio.toml").chmod(0o600)
            copy = SqliteBackend(place)
            try:
                with copy._leased():
                    copy._words.rebuild(progress)
            finally:
                copy.close()
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)  # half a copy is none, and would be in the next one's way
            raise

    def stats(self, now: datetime) -> dict[str, int | str]:
        """Numbers about the store for people."""
        return checks.stats(self._database, self.folder, micros(now))

    def close(self) -> None:
        """Let go of files and connections."""
        self._database.close()

    @contextmanager
    def _leased(self) -> Iterator[None]:
        """Hold the lease, waiting for whoever has it to finish their piece of work."""
        for _ in range(600):
            with self.lease() as mine:
                if mine:
                    yield
                    return
            time.sleep(0.1)
        raise Unavailable("another process is indexing this store and does not let go; try again later")


class SqliteView:
    """One consistent look at a store."""

    def __init__(
        self, backend: SqliteBackend, connection: apsw.Connection, state: State, loaded: Loaded | None, now: datetime
    ) -> None:
        self._backend = backend
        self._connection = connection
        self._state = state
        self._loaded = loaded
        self._at = steady(micros(now), state.updated)
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

    def listed(self, bounds: Bounds, *, limit: int, offset: int, newest: bool) -> list[Record]:
        """Records within bounds in the order in which they last changed."""
        condition = within(bounds, self._at, by_row=False)
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM record WHERE {condition.sql}"
            f" ORDER BY seq {'DESC' if newest else 'ASC'} LIMIT ? OFFSET ?",
            (*condition.values, limit, offset),
        )
        return [record_of(row) for row in rows]

    def count(self, bounds: Bounds) -> int:
        """How many records are within bounds."""
        condition = within(bounds, self._at, by_row=False)
        return int(self._connection.execute(f"SELECT count(*) FROM record WHERE {condition.sql}", condition.values).get)

    def scopes(self, under: Scope) -> list[tuple[Scope, int]]:
        """Each scope that holds records, with their number."""
        rows = self._connection.execute(
            "SELECT path, count(*) FROM record JOIN scope ON scope.no = record.scope"
            " WHERE path >= ? AND path < ? AND (expires_at IS NULL OR expires_at > ?) GROUP BY path ORDER BY path",
            (under.path, under.path + b"\xff", self._at),
        )
        return [(Scope.from_path(path), count) for path, count in rows]

    def keyword(self, words: Sequence[str], bounds: Bounds, limit: int) -> list[Match]:
        """The best candidates by words."""
        try:
            return self._keyword(words, bounds, limit)
        except Damaged:
            # No more than candidates has been read so far: a later look can take the place of this one.
            self._known.clear()
            self._state, self._loaded = self._backend.mend(self._connection, self._state)
            return self._keyword(words, bounds, limit)

    def _keyword(self, words: Sequence[str], bounds: Bounds, limit: int) -> list[Match]:
        """The best candidates from the tail and from the index, as long as the row agrees."""
        with watched():
            search = WordSearch(self._connection, self._state, self._loaded, words, bounds, self._few(bounds))
        condition = within(bounds, self._at, by_row=True)
        found = {no: search.tail[no] for no in self._seen(search.tail, condition)}
        depth, done = limit, 0
        while True:
            with watched():
                hits = search.indexed(depth)
            fresh = {no: (seq, score) for no, seq, score in hits[done:]}
            for no in self._seen(fresh, condition):
                seq, score = fresh[no]
                if self._known[no].seq == seq:  # else the record has changed since, and is in the tail
                    found[no] = score
            if len(hits) < depth or len(found) >= limit:
                break
            depth, done = depth * DEEPER, len(hits)
        matches = [search.match(no, score, self._known[no].words) for no, score in found.items()]
        matches.sort(key=lambda match: (-match.score, -match.no))
        return matches[:limit]

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

        from .vectors import Near

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
                    "SELECT no FROM record WHERE parent = ? AND position BETWEEN ? AND ? AND scope = ?",
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

    def backlog(self, embedder: str | None, bounds: Bounds) -> Backlog:
        """What a search within these bounds cannot see yet."""
        vectors, many = 0, False
        if embedder is not None:
            number, seen = _seen_seq(self._connection, embedder)
            if seen < self._state.seq:
                condition = within_scope(bounds)
                looked, vectors = self._connection.execute(
                    f"SELECT count(*), ifnull(sum(vector.text_seq IS NOT record.text_seq AND {condition.sql}), 0)"
                    " FROM (SELECT no, text_seq, scope FROM record WHERE seq > ? LIMIT ?) AS record"
                    " LEFT JOIN vector ON vector.embedder = ? AND vector.no = record.no",
                    (*condition.values, seen, MANY, number),
                ).get
                many = looked == MANY
        return Backlog(lost_words=self._state.tail_seq > self._state.indexed_seq, vectors=vectors, many=many)

    def _one(self, where: str, *values: str | bytes) -> Record | None:
        row = self._connection.execute(
            f"SELECT {COLUMNS} FROM record WHERE {where} AND (expires_at IS NULL OR expires_at > ?)",
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


def _numbers(nos: Iterable[int]) -> object:
    """A list of numbers that can be bound to one parameter."""
    return apsw.carray(array.array("q", nos))


def _to_embed(row: tuple[int, int, int, str, str, str, str]) -> ToEmbed:
    no, text_seq, _, title, text, tags, data = row
    return ToEmbed(no, text_seq, embed_text(title=title, text=text, tags=json.loads(tags), data=json.loads(data)))


def _seen_seq(connection: apsw.Connection, name: str) -> tuple[int, int]:
    """An embedder's number, and the change up to which every record has its vector."""
    row = connection.execute("SELECT no, seen_seq FROM embedder WHERE name = ?", (name,)).get
    return row or (0, 0)


def _embedder(connection: apsw.Connection, name: str, width: int) -> tuple[int, int, int]:
    """An embedder's number, its newest vector's order, and the store's time.

    Vectors of another width than before cannot be compared with those: then it starts afresh.
    """
    _forget_embedders(connection, "name = ? AND ? NOT IN (0, dimensions) AND dimensions <> 0", name, width)
    connection.execute("INSERT OR IGNORE INTO embedder (name) VALUES (?)", (name,))
    if width:
        connection.execute("UPDATE embedder SET dimensions = ? WHERE name = ? AND dimensions = 0", (width, name))
    number, vseq = connection.execute("SELECT no, vseq FROM embedder WHERE name = ?", (name,)).get
    return number, vseq, connection.execute("SELECT value FROM meta WHERE key = 'updated'").get


def _forget_embedders(connection: apsw.Connection, which: str, *values: str | int) -> None:
    """Drop the vectors of some embedders. Their numbers are never used again, so no process mistakes new for old."""
    for (number,) in fetch(connection, f"SELECT no FROM embedder WHERE {which}", values):
        for table in ("segment", "vector"):
            connection.execute(f"DELETE FROM {table} WHERE embedder = ?", (number,))
        connection.execute("DELETE FROM embedder WHERE no = ?", (number,))
