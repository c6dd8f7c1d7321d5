"""Whether a store is sound: the database, its counters and tags, and each derived part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw

from ...values.progress import Progress
from ...values.times import from_micros
from .database import Database, fetch
from .word_index import IndexDamage, IndexState, WordIndex

STUCK_MICROS = 10 * 60 * 1_000_000
LARGE_LOG = 256 * 2**20  # bytes of the log that readers keep in use, from which on it is reported


def check(
    database: Database, words: WordIndex, folder: Path, embedder: str | None, progress: Progress | None
) -> list[str]:
    """What is wrong, in sentences: the database itself, its counters and tags, then each derived part."""
    parts: list[Callable[[apsw.Connection], Iterator[str]]] = [
        _check_integrity,
        _check_counters,
        _check_tags,
        partial(_check_progress, embedder),
    ]
    found = [sentence for sentence in [find_stuck_log(database)] if sentence]
    with database.open_fresh() as connection:
        for number, part in enumerate(parts):
            found.extend(part(connection))
            if progress:
                progress("checks", number + 1, len(parts) + 2)
    found.extend(_check_word_index(database, words))
    if progress:
        progress("checks", len(parts) + 1, len(parts) + 2)
    found.extend(_check_codes(database, folder / "vectors"))
    if progress:
        progress("checks", len(parts) + 2, len(parts) + 2)
    return found


def is_miscounted(connection: apsw.Connection) -> bool:
    """Whether the counters or the tags do not follow from the records."""
    orphans = "SELECT 1 FROM vector WHERE no NOT IN (SELECT no FROM record) LIMIT 1"
    return any(True for part in (_check_counters, _check_tags) for _ in part(connection)) or bool(
        connection.execute(orphans).get
    )


def recount(connection: apsw.Connection) -> None:
    """Put right the counters and the tags, which follow from the records."""
    connection.execute(
        "UPDATE state SET records = (SELECT count(*) FROM record),"
        " words = (SELECT ifnull(sum(words), 0) FROM record);"
        "DELETE FROM tag"
    )
    for row, tags in fetch(connection, "SELECT no, tags FROM record WHERE tags <> '[]'"):
        for tag in {tag.casefold() for tag in json.loads(tags)}:
            connection.execute("INSERT INTO tag (tag, no) VALUES (?, ?)", (tag, row))
    connection.execute("DELETE FROM vector WHERE no NOT IN (SELECT no FROM record)")


def find_stuck_log(database: Database) -> str:
    """Move the log into the database; a sentence if much of it cannot be, because some program still reads it."""
    size = database.checkpoint()
    if size < LARGE_LOG:
        return ""
    log = f"{database.path.name}-wal"
    return f"{log} grows, {size >> 20} MiB by now: some program has been reading for long and does not end; stop it"


def _check_integrity(connection: apsw.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield f"memory.db: {line}"
    for table, row, *_ in connection.execute("PRAGMA foreign_key_check"):
        yield f"memory.db: row {row} of {table} refers to something that is not there"


def _check_counters(connection: apsw.Connection) -> Iterator[str]:
    state = IndexState.read(connection)
    records, words = connection.execute("SELECT count(*), ifnull(sum(words), 0) FROM record").get
    if (records, words) != (state.records, state.words):
        yield f"the counters say {state.records} records of {state.words} words; there are {records} of {words}"


def _check_tags(connection: apsw.Connection) -> Iterator[str]:
    stored = set(connection.execute("SELECT tag, no FROM tag"))
    expected = {
        (tag.casefold(), row)
        for row, tags in connection.execute("SELECT no, tags FROM record WHERE tags <> '[]'")
        for tag in json.loads(tags)
    }
    if stored != expected:
        yield f"{len(stored ^ expected)} tags of records and of the tag table differ"


def _check_progress(embedder: str | None, connection: apsw.Connection) -> Iterator[str]:
    """Find derived work that no process does: fine for a moment, a fault when the store has long been in use since."""
    state = IndexState.read(connection)
    works = [("the word index", state.indexed_seq, state.indexed_at)]
    works += fetch(connection, "SELECT 'vectors', seen_seq, seen_at FROM embedder WHERE name = ?", (embedder,))
    for what, upto, at in works:
        count = connection.execute("SELECT count(*) FROM record WHERE seq > ?", (upto,)).get
        if count and at and state.updated - at > STUCK_MICROS:
            yield f"{count} records wait for {what}, last brought up to date at {from_micros(at):%Y-%m-%d %H:%M} UTC"
    if state.tail_seq > state.indexed_seq:
        yield "the word index is incomplete: older records cannot be found by words until it is rebuilt"
    if state.fault:
        yield f"background work fails: {state.fault}"


def _check_word_index(database: Database, words: WordIndex) -> Iterator[str]:
    """The word index and the tail together must hold exactly the records, each once and as it is now."""
    with database.borrow() as connection:
        state, loaded, tail = words.open_snapshot(connection)
        try:
            entries = loaded.list_rows() if loaded else []
            damage = words.find_damage(loaded) if loaded else []
        except IndexDamage as error:
            entries, damage = [], [str(error)]
        truth: dict[int, int] = dict(connection.execute("SELECT no, seq FROM record"))
        new = set(
            connection.execute(
                "SELECT seq, record.no, path FROM record JOIN scope ON scope.no = record.scope WHERE seq > ?",
                (state.tail_seq,),
            )
        )
        deleted = {row for (row,) in connection.execute("SELECT no FROM gone")}
    waiting = {(seq, *tail.versions[seq][:2]) for seq in tail.records(b"", False, state.seq)}
    indexed = dict(entries)
    missing = sum(1 for row, seq in truth.items() if indexed.get(row) != seq and seq <= state.tail_seq)
    extra = sum(1 for row in indexed if row not in truth and row not in deleted) + len(entries) - len(indexed)
    if damage:
        yield f"the word index is damaged: {', '.join(damage)}"
    if missing:
        yield f"{missing} records are missing from the word index"
    if extra:
        yield f"the word index holds {extra} records that were deleted or changed"
    if new != waiting:
        yield f"{len(new ^ waiting)} new records and those that this process has of them differ; start it anew"


def _check_codes(database: Database, folder: Path) -> Iterator[str]:
    """Each file of vector codes must hold what its vectors give; numpy is loaded only if there are any."""
    with database.snapshot() as connection:
        segments = fetch(connection, "SELECT embedder, low, high, name FROM segment")
        orphans = connection.execute("SELECT count(*) FROM vector WHERE no NOT IN (SELECT no FROM record)").get
        if orphans:
            yield f"{orphans} vectors belong to no record"
        if segments:
            from .vector_codes import is_faulty

            for embedder, low, high, name in segments:
                if is_faulty(connection, folder / name, embedder, low, high) and _is_named(database, name):
                    yield f"vectors/{name} is missing, torn or out of date"


def _is_named(database: Database, name: str) -> bool:
    """Whether the store still names a file of codes: one that was replaced during a check is removed."""
    with database.snapshot() as connection:
        return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM segment WHERE name = ?)", (name,)).get)
