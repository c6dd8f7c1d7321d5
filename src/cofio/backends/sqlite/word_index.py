"""The word index: tantivy in a folder beside the database, and the tail of what it does not have yet.

The database is the truth. `indexed_seq` says up to which change the index has everything; a change after that
is in the tail, which each process reads from the records. Order makes it safe: the index commits first, then one
transaction publishes the new `indexed_seq`. A reader takes its snapshot of the database only with an index at
least as new as the snapshot names, and with the tail as of that snapshot, so each record is in one or the other.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import apsw
import tantivy

from ...system.disk import leads_elsewhere, make_alias
from ...values.errors import Unavailable
from ...values.progress import Progress
from ...values.records import NOT_SEARCHABLE
from ..record_columns import decode_tags
from .checksums import Soundness
from .database import Database, fetch, read_generation, retry_while_busy
from .tail import Tail, read_words

HEAP = 30_000_000
STEP = 2_000_000  # characters that are indexed before what was done is published: some tenths of a second
MOST_TAIL = 20_000  # records whose words a process reads into memory, where an index is damaged and read-only
SCANNED = 10_000  # documents of which the numbers are read at a time
MOST_COUNTS = 10_000  # counts of an index that are cached before they are dropped
LAYOUT = "1"  # of the index's fields and tokens: a change here rebuilds every index
_STATE = "SELECT store, seq, records, words, index_name, indexed_seq, indexed_at, tail_seq, updated, fault FROM state"
_SCOPE_PATH = "(SELECT path FROM scope WHERE scope.no = record.scope)"
_COLUMNS = f"no, seq, {_SCOPE_PATH}, kind, key, source, author, tags, title, data, text"
_Row: TypeAlias = tuple[int, int, bytes, str, str | None, str, str, str, str, str, str]
_PARTS = ("idx", "pos", "term", "store", "fast", "fieldnorm")  # the files of a segment
_NAME = re.compile(r"words-[0-9a-f]+")
_MARK = 0  # the number of the document that says whose index this is and how far it goes


@dataclass(frozen=True, slots=True)
class IndexState:
    """What the database says of the index, at one moment."""

    generation: int
    """Another one after the database was put back."""
    store: str
    seq: int
    records: int
    words: int
    index: str
    indexed_seq: int
    indexed_at: int
    tail_seq: int
    updated: int
    fault: str

    @property
    def average(self) -> float:
        """How many words a record has, on average."""
        return max(1.0, self.words / max(1, self.records))

    @classmethod
    def read(cls, connection: apsw.Connection) -> IndexState:
        """The state as `connection` sees it."""
        return cls(read_generation(connection), *connection.execute(_STATE).get)


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """An index as this process last opened it: good for every change up to `seq`."""

    name: str
    seq: int
    index: tantivy.Index
    searcher: tantivy.Searcher
    counts: dict[tuple[str, ...], int] = field(default_factory=dict)
    """What has been counted so far: the index as opened does not change."""

    def count(self, facets: Sequence[str], word: str | None = None) -> int:
        """How many records have all of the facets, and the word when one is given."""
        key = (*facets, "" if word is None else f"word {word}")
        count = self.counts.get(key)
        if count is None:
            schema = self.index.schema
            terms = [tantivy.Query.term_query(schema, "facet", each, "basic") for each in facets]
            if word is not None:
                terms.append(tantivy.Query.term_query(schema, "body", word, "basic"))
            count = self._remember(key, tantivy.Query.boolean_query([(tantivy.Occur.Must, term) for term in terms]))
        return count

    def all_have(self, facet: str) -> bool:
        """Whether every record has the facet."""
        return self.count((facet,)) >= self.records

    def all_found_have(self, facets: Sequence[str]) -> bool:
        """Whether every record that words can find has one of the facets, so that there is no need to ask for them."""
        return self._count_found(facets) >= self._count_found(())

    def _count_found(self, facets: Sequence[str]) -> int:
        """How many records that words can find have one of the facets or, where none is given, any."""
        key = ("found", *facets)
        count = self.counts.get(key)
        if count is None:
            schema, query = self.index.schema, tantivy.Query
            terms = [query.term_query(schema, "facet", each, "basic") for each in facets] or [query.all_query()]
            parts = [(tantivy.Occur.Must, query.boolean_query([(tantivy.Occur.Should, term) for term in terms]))]
            for each in _WORDLESS:
                parts.append((tantivy.Occur.MustNot, query.term_query(schema, "facet", each, "basic")))
            parts.append((tantivy.Occur.MustNot, query.term_query(schema, "no", _MARK)))
            count = self._remember(key, query.boolean_query(parts))
        return count

    def _remember(self, key: tuple[str, ...], query: tantivy.Query) -> int:
        """Count what a query finds."""
        count = int(self.searcher.search(query, 1, count=True).count)  # type: ignore[attr-defined]  # not in its stubs
        if len(self.counts) >= MOST_COUNTS:
            self.counts.clear()
        self.counts[key] = count
        return count

    @property
    def records(self) -> int:
        """How many records there are; one document is the index's mark, and no record."""
        return max(0, self.searcher.num_docs - 1)

    def list_rows(self) -> list[tuple[int, int]]:
        """Return every record row in the index, with the change that it was indexed at."""
        with translate_damage():
            hits = self.searcher.search(tantivy.Query.all_query(), max(1, self.searcher.num_docs), count=False).hits
            addresses = [address for _, address in hits]
            rows = self.searcher.fast_field_values("no", addresses)
            seqs = self.searcher.fast_field_values("seq", addresses)
            return [(int(row), int(seq or 0)) for row, seq in zip(rows, seqs, strict=True) if row]


@dataclass(slots=True)
class _Writer:
    """A writer on an index that may hold records up to the change `newest`, published or not."""

    name: str
    index: tantivy.Index
    open: tantivy.IndexWriter
    newest: int


class _Segment(NamedTuple):
    """A part of the index that is written once: its order among them, and how many documents it has and lost."""

    order: int
    id: str
    size: int
    deleted: int


class IndexHit(NamedTuple):
    """A record that the index found: its row, the change it was indexed at, and tantivy's BM25 score."""

    row: int
    seq: int
    score: float


class IndexSnapshot(NamedTuple):
    """What a search by words works on: a snapshot's state, the index that has all that the snapshot says it has, and
    the words of the rest.
    """

    state: IndexState
    loaded: LoadedIndex | None
    tail: Tail

    @property
    def lost_words(self) -> bool:
        """Whether some records cannot be found by words until the index is rebuilt."""
        return self.state.tail_seq > self.state.indexed_seq


_NO_WORDS = Tail(0)


def open_wordless_snapshot(connection: apsw.Connection) -> IndexSnapshot:
    """Begin a snapshot of the database for a search that looks for no words."""
    connection.execute("BEGIN")
    return IndexSnapshot(retry_while_busy(lambda: IndexState.read(connection)), None, _NO_WORDS)


class IndexDamage(Exception):
    """The index is missing, torn, or another store's; or tantivy failed for some other reason."""


@contextmanager
def translate_damage() -> Iterator[None]:
    """Turn whatever tantivy says when it fails, its panics included, into IndexDamage."""
    try:
        yield
    except (ValueError, KeyError, OSError, RuntimeError) as error:
        raise IndexDamage(str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # which has no other name, and is no Exception
            raise
        raise IndexDamage(str(error)) from error


@contextmanager
def translate_write_failure() -> Iterator[None]:
    """Turn whatever tantivy says when it cannot write into Unavailable."""
    try:
        with translate_damage():
            yield
    except IndexDamage as error:
        raise Unavailable(f"the word index cannot be written ({error})") from error


class WordIndex:
    """The word index of one store, for reading by many threads and for writing by the lease's holder."""

    def __init__(self, folder: Path, database: Database) -> None:
        self._folder = folder
        self._database = database
        self._loading = threading.Lock()
        self._loaded: LoadedIndex | None = None
        self._writer: _Writer | None = None
        self._soundness = Soundness(folder / "sound.json")
        self._catching_up = threading.Lock()
        self._tail = Tail(0)
        self._tail_generation = 0
        self._clean = b""
        self._cursor = ("", 0)
        self.removals = 0
        """How many documents this process has taken out of the index."""

    def open_snapshot(self, connection: apsw.Connection) -> IndexSnapshot:
        """Begin a snapshot of the database for which there is an index that has all that the snapshot says it has."""
        usable, overtaken = True, 0
        for _ in range(100):
            connection.execute("BEGIN")
            state = retry_while_busy(lambda: IndexState.read(connection))  # the first read fixes the moment
            if not usable or (self._database.read_only and not state.index):
                # Where no index can be made, the tail is of all records, if these are few enough.
                whole = self._database.read_only and state.records <= MOST_TAIL
                state = replace(state, index="", indexed_seq=0, tail_seq=0 if whole else state.tail_seq)
            loaded = self._loaded if state.index else None
            fits = loaded and loaded.name == state.index and state.indexed_seq <= loaded.seq <= state.seq
            if fits or not state.index:
                tail = self._catch_up_tail(connection, state)
                if tail is not None:
                    return IndexSnapshot(state, loaded, tail)
                connection.execute("ROLLBACK")
                overtaken += 1
                if overtaken > 10:  # no other snapshot has been so quick: the database was put back
                    with self._catching_up:
                        self._tail = Tail(state.tail_seq)
            else:
                connection.execute("ROLLBACK")
                try:
                    self._load(state)
                except Unavailable:  # damaged, on a disk so full, or read-only, that this cannot even be noted
                    usable = False
        raise Unavailable("the word index keeps changing under this reader; run `cofio doctor`")

    def _catch_up_tail(self, connection: apsw.Connection, state: IndexState) -> Tail | None:
        """The tail as of a snapshot; None when it has been caught up with a later one, which is to be had."""
        with self._catching_up:
            if self._tail_generation != state.generation:
                self._tail, self._tail_generation = Tail(state.tail_seq), state.generation
            tail = self._tail
            if tail.low > state.tail_seq or tail.upto > state.seq:
                return None
            if tail.low < state.tail_seq or tail.upto < state.seq:
                self._tail = Tail(state.tail_seq)  # if this fails, the next one begins from the start
                tail = tail.cut(state.tail_seq)
                tail.catch_up(connection, state.seq)
                self._tail = tail
            return tail

    def align(self) -> None:
        """See to it that the index knows of no later change than the database, which may have been put back.

        To be done before a process first writes: the changes to come are numbered like those that were lost.
        """
        with self._database.snapshot() as connection:
            state = IndexState.read(connection)
        if state.index:
            self._load(state)

    def index_changes(self, limit: int) -> int:
        """Index up to `limit` changed records, fewer if they are long, and publish; how many changes were taken, or
        at least `limit` when there are more.
        """
        with self._database.snapshot() as connection:
            state = IndexState.read(connection)
            with self._catching_up:
                if self._tail.low < state.tail_seq:  # a process that searches no more must not keep it for ever
                    self._tail = self._tail.cut(state.tail_seq)
            if state.indexed_seq >= state.seq:
                return 0
            rows, whole = _read_next_rows(connection, state.indexed_seq, limit)
            upto = state.seq if whole else rows[-1][1]
            gone = fetch(connection, "SELECT no FROM gone WHERE seq > ? AND seq <= ?", (state.indexed_seq, upto))
        if state.tail_seq > state.indexed_seq:
            return self.rebuild()
        with self._undo_on_failure(state.index):
            try:
                writer = self._open_writer(state)
            except IndexDamage:
                self.discard(state.index)
                return self.rebuild()
            stale = [_MARK, *(row for (row,) in gone), *(row[0] for row in rows if row[0] <= writer.newest)]
            writer.newest = max(writer.newest, upto)
            self.removals += len(stale) - 1
            with translate_write_failure():
                writer.open.delete_documents_by_query(tantivy.Query.term_set_query(_SCHEMA, "no", stale))
                for row in rows:
                    writer.open.add_document(_make_document(row))
                writer.open.add_document(_make_mark(writer.newest, state.store))
                writer.open.commit()
            self._database.write(lambda connection: _publish(connection, writer.name, state.index, upto))
        self._sweep(writer.name)
        return len(rows) + len(gone) if whole else max(limit, len(rows) + len(gone))

    def count_stale(self) -> int:
        """How many documents are in segments that also hold the words of deleted ones."""
        with self._database.snapshot() as connection:
            state = IndexState.read(connection)
        with suppress(IndexDamage):
            return sum(segment.size for segment in self._find_stale_segments(state)[1])
        return 0

    def rewrite(self, limit: int) -> int:
        """Rewrite up to `limit` documents of two such segments; how many documents are left in such segments.

        A deleted document's words stay in its segment until all the others have left it: then its files are removed.
        """
        with self._database.snapshot() as connection:
            state = IndexState.read(connection)
        try:
            self._sweep(state.index)
            for choose in (min, max):  # or those that are left soon would keep the largest waiting for ever
                opened, stale = self._find_stale_segments(state)
                if opened is None:
                    return 0
                if stale:
                    self._rewrite_segment(state, opened, choose(stale, key=lambda segment: segment.size), limit)
            # tantivy keeps the files of a segment that a searcher of this process may read.
            del opened
            if self._loaded is not None:
                self._load(state)
            with translate_write_failure():
                self._open_writer(state).open.garbage_collect_files()
            return sum(segment.size for segment in self._find_stale_segments(state)[1])
        except IndexDamage:
            return 0  # the next change or search starts a new index

    def _find_stale_segments(self, state: IndexState) -> tuple[LoadedIndex | None, list[_Segment]]:
        """The index, and its segments that hold words of deleted documents; none at all when no file can hold any."""
        if not state.index:
            return None, []
        folder = self._folder / state.index
        with translate_damage():
            meta = (folder / "meta.json").read_bytes()
            if meta == self._clean:
                return None, []
            opened = self._open_index(state)
            segments = [
                _Segment(order, each["segment_id"], each["max_doc"], (each["deletes"] or {}).get("num_deleted_docs", 0))
                for order, each in enumerate(json.loads(meta)["segments"])
            ]
            # The marks of earlier commits are deleted documents too, of no words. All but one are.
            marks = opened.searcher.doc_freq("no", _MARK)
            stale = []
            if sum(segment.deleted for segment in segments) >= marks:
                stale = [each for each in segments if _is_stale(opened, each)]
            if not stale and _list_index_files(folder) == {file.name for file in _list_files(folder, meta)}:
                self._clean = meta
                return None, []
            return opened, stale

    def _rewrite_segment(self, state: IndexState, opened: LoadedIndex, segment: _Segment, limit: int) -> None:
        """Rewrite the next documents of a segment, which leaves them deleted in it."""
        at = self._cursor[1] if self._cursor[0] == segment.id else 0
        upto = min(at + limit, segment.size)
        with translate_damage():
            numbers = [row for row in _read_rows(opened, segment, at, upto) if row != _MARK]
            query = tantivy.Query.term_set_query(_SCHEMA, "no", numbers)
            hits = opened.searcher.search(query, max(1, len(numbers)), count=False).hits
            addresses = [address for _, address in hits if address.segment_ord == segment.order]
            alive = [int(row or 0) for row in opened.searcher.fast_field_values("no", addresses)]
        with self._database.snapshot() as connection:
            rows = fetch(
                connection,
                f"SELECT {_COLUMNS} FROM record WHERE no IN (SELECT value FROM json_each(?)) AND seq <= ?",
                (json.dumps(alive), state.indexed_seq),  # what has changed since is about to leave the segment anyway
            )
        with self._undo_on_failure(state.index):
            writer = self._open_writer(state)
            with translate_write_failure():
                moved = [_MARK, *(row[0] for row in rows)]
                writer.open.delete_documents_by_query(tantivy.Query.term_set_query(_SCHEMA, "no", moved))
                for row in rows:
                    writer.open.add_document(_make_document(row))
                writer.open.add_document(_make_mark(writer.newest, state.store))
                writer.open.commit()
            self.release_writer()  # with its merges done, before anything else is deleted
        if upto < segment.size:
            self._cursor = (segment.id, upto)
        elif segment.id == self._cursor[0]:
            self._cursor = ("", 0)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Make a new index of every record while the old one, if any, goes on serving; how many were taken."""
        self.release_writer()
        name, done = _make_name(), 0
        with self._database.snapshot() as connection:
            before = IndexState.read(connection).index
        with self._undo_on_failure(before):
            writer = self._writer = _open_new_writer(self._folder / name)
            with self._database.snapshot() as connection:
                state = IndexState.read(connection)
                for row in connection.execute(f"SELECT {_COLUMNS} FROM record ORDER BY seq"):
                    with translate_write_failure():
                        writer.open.add_document(_make_document(row))
                    done += 1
                    if progress and done % 1000 == 0:
                        progress("words", done, state.records)
            with translate_write_failure():
                writer.open.add_document(_make_mark(state.seq, state.store))
                writer.open.commit()
            self.release_writer()
            self._database.write(lambda connection: _publish(connection, name, None, state.seq))
        self._sweep(name)
        if progress:
            progress("words", done, done)
        return done

    def discard(self, name: str) -> None:
        """Start a new index, if the store's is still the one called `name`. Nothing is lost but time."""

        def reset(connection: apsw.Connection) -> None:
            connection.execute("UPDATE state SET index_name = '', indexed_seq = 0 WHERE index_name = ?", (name,))

        self._database.write(reset)
        self._loaded = None

    def release_writer(self) -> None:
        """Let tantivy finish its merges and give up its lock and memory."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with suppress(IndexDamage), translate_damage():  # a merge that fails leaves things as they were
                writer.open.wait_merging_threads()

    def _load(self, state: IndexState) -> None:
        """Open or reload the index that `state` names; when it cannot be used, start over."""
        with self._loading:
            try:
                loaded = self._open_index(state)
                if loaded.seq < state.indexed_seq:
                    raise IndexDamage("older than the database")
            except IndexDamage:
                self._loaded = None
                with self._database.snapshot() as connection:
                    replaced = IndexState.read(connection).index != state.index
                if not replaced:
                    self.discard(state.index)
            else:
                self._loaded = loaded
                with self._database.snapshot() as connection:
                    now = IndexState.read(connection)
                if now.index == loaded.name and loaded.seq > now.seq:
                    self.discard(loaded.name)

    def _open_index(self, state: IndexState) -> LoadedIndex:
        """The index that `state` names, as it is now."""
        with translate_damage():
            index, searcher = self._open_searcher(state.index)
            query = tantivy.Query.boolean_query(
                [
                    (tantivy.Occur.Must, tantivy.Query.term_query(index.schema, "no", _MARK)),
                    (
                        tantivy.Occur.Must,
                        tantivy.Query.term_query(index.schema, "facet", _make_owner_token(state.store), "basic"),
                    ),
                ]
            )
            hits = searcher.search(query, 1, count=False).hits
            seq = searcher.fast_field_values("seq", [hits[0][1]])[0] if hits else None
        if seq is None:
            raise IndexDamage("of another store or layout")
        return LoadedIndex(state.index, int(seq), index, searcher)

    def _open_searcher(self, name: str) -> tuple[tantivy.Index, tantivy.Searcher]:
        """The index of that name as of its last commit, and that of the very files that were verified."""
        loaded, meta = self._loaded, self._folder / name / "meta.json"
        index = loaded.index if loaded and loaded.name == name and not self._database.read_only else None
        if index is None:
            _check_own_files(self._folder, name)
        while True:  # until there was no other commit meanwhile
            commit = meta.read_bytes()
            if self._soundness.holds(_list_files(meta.parent, commit), _is_intact):
                with self._make_lockable_folder(meta.parent) as folder:
                    if index is None:
                        index = tantivy.Index.open(str(folder))
                        index.config_reader("manual")  # else it would reload in a thread of its own, unasked
                    index.reload()
                    searcher = index.searcher()
                if commit == meta.read_bytes():
                    return index, searcher
            elif commit == meta.read_bytes():
                raise IndexDamage(f"{meta.parent} does not hold what was written to it")

    @contextmanager
    def _make_lockable_folder(self, folder: Path) -> Iterator[Path]:
        """A folder with an index's files in which tantivy can make the lock without which it opens none.

        That of a store that is read-only is one of links, which can go as soon as the files are open.
        """
        if not self._database.read_only:
            yield folder
            return
        # What is open cannot be removed on Windows; the rest is.
        import tempfile  # not free, and few processes come here

        with tempfile.TemporaryDirectory(prefix="cofio-", ignore_cleanup_errors=True) as name:
            for file in folder.iterdir():
                if file.suffix != ".lock":
                    make_alias(file, Path(name) / file.name)
            yield Path(name)

    def find_damage(self, loaded: LoadedIndex) -> list[str]:
        """The files of an index that are not as tantivy wrote them, whatever is known of their soundness."""
        folder = self._folder / loaded.name
        with translate_damage():
            while True:
                meta = (folder / "meta.json").read_bytes()
                torn = [
                    f"index/{loaded.name}/{file.name}" for file in _list_files(folder, meta) if not _is_intact(file)
                ]
                if not torn or meta == (folder / "meta.json").read_bytes():  # else they were replaced meanwhile
                    return torn

    def _open_writer(self, state: IndexState) -> _Writer:
        """The writer on the store's index, or on a new one; raises IndexDamage when the store's cannot be used."""
        if self._writer is not None and self._writer.name == state.index:
            return self._writer
        self.release_writer()
        if not state.index:
            self._writer = _open_new_writer(self._folder / _make_name())
            return self._writer
        opened = self._open_index(state)
        if opened.seq < state.indexed_seq:
            raise IndexDamage("older than the database")
        with translate_write_failure():
            writer = opened.index.writer(HEAP, 1)
            # A commit that was killed leaves files whose names the next one would stumble over.
            writer.garbage_collect_files()
            # tantivy gives the first operation the number of the last commit, and a merge then takes it for done.
            writer.delete_documents_by_query(tantivy.Query.empty_query())
        self._writer = _Writer(state.index, opened.index, writer, opened.seq)
        return self._writer

    @contextmanager
    def _undo_on_failure(self, keep: str) -> Iterator[None]:
        """Release the writer and what it wrote outside of the store's index, if a piece of work fails."""
        try:
            yield
        except BaseException:
            self.release_writer()
            with suppress(Unavailable):  # that the store is gone, which is what failed
                self._sweep(keep)
            raise

    def _sweep(self, keep: str) -> None:
        """Remove the folders of indexes that are no longer used; readers that still have them keep the files."""
        self._database.verify()  # else they may be another store's
        for folder in self._folder.glob("words-*"):
            if folder.name != keep:
                import shutil  # not free, and few processes come here

                shutil.rmtree(folder, ignore_errors=True)


def _publish(connection: apsw.Connection, name: str, was: str | None, upto: int) -> None:
    """Say that the index has every change up to `upto`, which takes those out of the tail.

    Not if the store's index is no longer the one that it `was`: then a reader found it damaged meanwhile.
    """
    if was is not None and was != connection.execute("SELECT index_name FROM state").get:
        return
    connection.execute("DELETE FROM gone WHERE seq <= ?", (upto,))
    connection.execute(
        "UPDATE state SET index_name = ?1, indexed_seq = ?2, indexed_at = updated, tail_seq = max(tail_seq, ?2)",
        (name, upto),
    )


def _check_own_files(folder: Path, name: str) -> None:
    """Raise IndexDamage unless that is a folder of plain files: a database from elsewhere may name any."""
    if not _NAME.fullmatch(name) or leads_elsewhere(folder / name):
        raise IndexDamage(f"{name} is not the folder of an index")
    with os.scandir(folder / name) as entries:
        if not all(entry.is_file(follow_symlinks=False) for entry in entries):
            raise IndexDamage(f"{name} holds a link, or something else that is no plain file")


def _make_name() -> str:
    return f"words-{os.urandom(6).hex()}"


def _read_next_rows(connection: apsw.Connection, after: int, limit: int) -> tuple[list[_Row], bool]:
    """The next changed records that are a bearable piece of work, and whether they are all that there are."""
    rows: list[_Row] = []
    size = 0
    for row in connection.execute(f"SELECT {_COLUMNS} FROM record WHERE seq > ? ORDER BY seq", (after,)):
        if len(rows) == limit or (rows and size + len(row[-1]) + len(row[-2]) > STEP):
            return rows, False
        rows.append(row)
        size += len(row[-1]) + len(row[-2])
    return rows, True


def _open_new_writer(folder: Path) -> _Writer:
    with translate_write_failure():
        folder.parent.mkdir(exist_ok=True, mode=0o700)  # and not the store's folder: a store that is gone stays so
        folder.mkdir(mode=0o700)
        index = tantivy.Index(_SCHEMA, path=str(folder))
        return _Writer(folder.name, index, index.writer(HEAP, 1), 0)


def _list_files(folder: Path, meta: bytes) -> Iterator[Path]:
    """The files that make up the index whose meta.json that is."""
    for segment in json.loads(meta)["segments"]:
        name = segment["segment_id"].replace("-", "")
        for part in _PARTS:
            yield folder / f"{name}.{part}"
        if segment["deletes"]:
            yield folder / f"{name}.{segment['deletes']['opstamp']}.del"


def _list_index_files(folder: Path) -> set[str]:
    """The names of the files of segments in an index's folder, also of those that the index has left behind."""
    managed = map(folder.joinpath, json.loads((folder / ".managed.json").read_bytes()))
    return {file.name for file in managed if file.suffix[1:] in (*_PARTS, "del") and file.exists()}


def _read_rows(opened: LoadedIndex, segment: _Segment, at: int, upto: int) -> list[int]:
    """The record numbers of some of a segment's documents, deleted or not."""
    addresses = [tantivy.DocAddress(segment.order, document) for document in range(at, upto)]
    return [int(row or 0) for row in opened.searcher.fast_field_values("no", addresses)]


def _is_stale(opened: LoadedIndex, segment: _Segment) -> bool:
    """Whether a segment holds words of deleted documents: one of them, at most, is a mark of the index."""
    if segment.deleted != 1:
        return segment.deleted > 1
    mark = opened.searcher.search(tantivy.Query.term_query(_SCHEMA, "no", _MARK), 1, count=False).hits
    if any(address.segment_ord == segment.order for _, address in mark):
        return True
    starts = range(0, segment.size, SCANNED)
    return not any(_MARK in _read_rows(opened, segment, at, min(at + SCANNED, segment.size)) for at in starts)


def _is_intact(file: Path) -> bool:
    """Whether a file of tantivy's holds what its footer says it should: a JSON text, its length, a magic number."""
    try:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            end = len(whole) - 8
            length = int.from_bytes(whole[end : end + 4], "little")
            with memoryview(whole) as view, view[: end - length] as body:
                return bool(json.loads(whole[end - length : end])["crc"] == zlib.crc32(body))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("facet", tokenizer_name="whitespace", index_option="basic")
    builder.add_unsigned_field("no", indexed=True, fast=True)
    builder.add_unsigned_field("seq", fast=True)
    return builder.build()


_SCHEMA = _make_schema()


def _make_document(row: _Row) -> tantivy.Document:
    number, seq, path, kind, key, source, author, tags, title, data, text = row
    document = tantivy.Document()
    document.add_unsigned("no", number)
    document.add_unsigned("seq", seq)
    document.add_text("body", " ".join(read_words(kind, title, text, tags, author, key, data)))
    document.add_text("facet", _join_facets(path, kind, source, author, tags))
    return document


def _make_mark(upto: int, store: str) -> tantivy.Document:
    document = tantivy.Document()
    document.add_unsigned("no", _MARK)
    document.add_unsigned("seq", upto)
    document.add_text("facet", _make_owner_token(store))
    return document


def _make_owner_token(store: str) -> str:
    return f"store-{store}-{LAYOUT}"


def _join_facets(path: bytes, kind: str, source: str, author: str, tags: str) -> str:
    """The tokens that bounds are tested by. They only narrow: the database has the last word on each hit."""
    return f"{_join_scope_facets(path)} {_join_origin_facets(kind, source, author)} {_join_tag_facets(tags)}"


# Each by itself comes again and again, and all of them together hardly ever do.
@lru_cache(maxsize=10_000)
def _join_scope_facets(path: bytes) -> str:
    ends = [end for end, byte in enumerate(path, 1) if not byte]
    return " ".join([make_facet("exact", path), *(make_facet("under", path[:end]) for end in ends)])


@lru_cache(maxsize=10_000)
def _join_origin_facets(kind: str, source: str, author: str) -> str:
    named = (("kind", kind), ("source", source), ("author", author))
    return " ".join(make_facet(field, value.encode()) for field, value in named)


@lru_cache(maxsize=10_000)
def _join_tag_facets(tags: str) -> str:
    return " ".join(make_facet("tag", tag.casefold().encode()) for tag in decode_tags(tags))


def make_facet(field: str, value: bytes) -> str:
    """The token that stands for a field's value."""
    return field + hashlib.blake2b(value, digest_size=8).hexdigest()


_WORDLESS = [make_facet("kind", kind.encode()) for kind in sorted(NOT_SEARCHABLE)]
"""The facets of records that no words are indexed of."""
