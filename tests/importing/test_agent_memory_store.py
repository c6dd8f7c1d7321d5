"""The memory of agent-memory-store is taken over whole, once, and left as it is."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Stores

from cofio import Draft, Engine, Importance, Invalid, Kind, NotFound, Query, Record, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress
from cofio.embed import Embedder
from cofio.embed.hashed import HashedEmbedder
from cofio.importers.agent_memory_store import SOURCE, Remark, TakeoverResult, has_memory, take, take_over
from cofio.values.scopes import IMPORTS

from .peer import THEN, Peer, contents, turned, vector

MCP = Scope("mcp")
QUIET = Settings(background=False, embedder="none", sync="normal")
EMPTY = "text: is empty; a record without a key needs text or a title to be found by"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The product's folder."""
    return tmp_path / ".agent-memory-store"


@pytest.fixture
def peer(folder: Path) -> Iterator[Peer]:
    """The product, running."""
    running = Peer(folder)
    yield running
    running.stop()


def notes(memory: Engine) -> list[Record]:
    """Every note that MCP clients see."""
    return memory.list(MCP, exact=True, kinds=(Kind.NOTE,), limit=10_000, newest=False)


def state(memory: Engine, key: str) -> Record:
    """What a state's key holds."""
    record = memory.get(MCP, key, kind=Kind.STATE)
    assert record is not None
    return record


def said_of(taken: TakeoverResult, what: str) -> str:
    """All that was told of an entry that is in."""
    assert what not in {remark.what for remark in taken.refused}
    return "; ".join(remark.sentence for remark in taken.changed if remark.what == what)


# What becomes of what.


def test_a_chunk_becomes_a_note_with_all_that_it_had(memory: Engine, peer: Peer, folder: Path) -> None:
    later = "2999-01-02T03:04:05.678Z"
    peer.write(
        "Auth: chose JWT", "Stateless,\nno store. 🔑", id="abc123def0", tags=["auth", "B"], agent="pm",
        importance="critical", created=THEN, updated="2026-04-10T11:12:13.456Z", expires=later,
    )  # fmt: skip
    peer.stop()
    taken = take(memory, folder)
    assert (taken.chunks, taken.states, taken.new, taken.changed, taken.refused) == (1, 0, 1, [], [])
    (record,) = notes(memory)
    assert (record.id, record.title, record.text) == ("abc123def0", "Auth: chose JWT", "Stateless,\nno store. 🔑")
    assert (record.tags, record.author, record.importance) == (("auth", "B"), "pm", Importance.CRITICAL)
    assert (record.scope, record.kind, record.key, record.version) == (MCP, Kind.NOTE, None, 1)
    assert record.source == SOURCE
    assert record.created_at == datetime(2026, 4, 9, 10, tzinfo=UTC)
    assert record.updated_at == datetime(2026, 4, 10, 11, 12, 13, 456_000, tzinfo=UTC)
    assert record.expires_at == datetime(2999, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert [hit.record for hit in memory.search("stateless jwt")] == [record]


def test_a_state_becomes_a_state_whatever_its_value(memory: Engine, peer: Peer, folder: Path) -> None:
    values: list[object] = [None, False, 0, 1.5, "", "text", [], {}, {"a": [1, None, {"b": "ü"}]}, 10**20]
    keys = ["", *(f"key {number}" for number in range(1, len(values)))]
    for key, value in zip(keys, values, strict=True):
        peer.set(key, value)
    taken = take(memory, folder)
    assert (taken.chunks, taken.states, taken.new) == (0, len(values), len(values))
    for key, value in zip(keys, values, strict=True):
        record = state(memory, key)
        assert (record.data, record.source, record.version) == (value, SOURCE, 1)
        assert type(record.data) is type(value)
        assert record.created_at == record.updated_at == datetime(2026, 4, 9, 10, tzinfo=UTC)


def test_what_is_there_is_taken_once_and_in_order_and_what_has_expired_or_is_empty_is_not(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    now = datetime.now(UTC)
    peer.many(1203)
    peer.set("a", 1)
    peer.write("Topic alone", "", updated="never", created="never")
    peer.write("", "content alone")
    peer.write(" ", "\n", id="nothing")
    peer.write("Old", expires=(now - timedelta(minutes=1)).isoformat())
    peer.write("Lasting", expires=(now + timedelta(days=1)).isoformat().replace("+00:00", "Z"))
    for number in (-5, 2**63 - 1):  # rows of any number
        peer.write(f"Row {number}")
        peer.execute(f"UPDATE chunks SET rowid = {number} WHERE topic = 'Row {number}'")
    first = take(memory, folder)
    assert (first.chunks, first.states, first.new, first.expired) == (1208, 1, 1209, 1)
    assert first.refused == [Remark("nothing", EMPTY)]
    titles = [note.title for note in notes(memory)]
    assert [title for title in titles if title.startswith("Topic ")][:1203] == [f"Topic {n}" for n in range(1203)]
    assert {"Topic alone", "", "Lasting", "Row -5", f"Row {2**63 - 1}"} <= {*titles}
    before = [*memory.list(MCP, limit=10_000)]
    again = take(memory, folder)
    assert (again.new, again.chunks, again.states) == (0, 1208, 1)
    assert memory.list(MCP, limit=10_000) == before
    assert memory.check() == []


# Twice, and from both sides.


def test_what_was_changed_there_since_comes_in_and_what_was_changed_here_stays(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    for name in ("one", "edited", "moved"):
        peer.write("Old", "old", id=name)
    peer.set("branch", "main")
    peer.set("ours", "main")
    take(memory, folder)
    memory.edit("edited", text="edited here", source="mcp")
    memory.move("moved", scope=Scope("archive"))
    memory.put(MCP, "ours", data="here", kind=Kind.STATE, source="mcp")
    assert take(memory, folder).new == 0
    peer.write("New", "new", id="one", updated="2026-05-01T00:00:00.000Z")
    peer.write("More", "more", id="two")
    peer.set("branch", "next", updated="2026-05-01T00:00:00.000Z")
    taken = take(memory, folder)
    assert (taken.new, taken.chunks, taken.states, taken.refused) == (3, 4, 2, [])
    assert {note.id: note.text for note in notes(memory)} == {"one": "new", "two": "more", "edited": "edited here"}
    assert memory.read("moved").scope == Scope("archive")
    assert (state(memory, "branch").data, state(memory, "ours").data) == ("next", "here")


@pytest.mark.parametrize(("updated", "stays"), [("2020-01-01", True), ("2999-01-01T00:00:00.000Z", False)])
def test_of_a_state_that_both_have_the_newer_stays(
    memory: Engine, peer: Peer, folder: Path, updated: str, stays: bool
) -> None:
    memory.put(MCP, "branch", data="here", kind=Kind.STATE)
    peer.set("branch", "there", updated=updated)
    take(memory, folder)
    assert state(memory, "branch").data == ("here" if stays else "there")


def test_a_record_that_never_came_from_there_is_not_replaced_for_its_id(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    mine = memory.write(Scope("private"), text="mine", id="taken")
    peer.write("Theirs", id="taken", updated="2999-01-01T00:00:00.000Z")
    peer.write("Other", id="free")
    taken = take(memory, folder)
    assert taken.refused == [Remark("taken", "a record of another scope has this id")]
    assert memory.read("taken") == mine
    assert [note.id for note in notes(memory)] == ["free"]


# What does not fit.


def test_what_is_too_long_for_its_place_stands_whole_in_another(memory: Engine, peer: Peer, folder: Path) -> None:
    topic = "long " * 400
    peer.write(topic, "content", id="long", agent="a" * 300, importance="urgent")
    peer.write("t" * 1000, "content", id="just", importance="HIGH")
    taken = take(memory, folder)
    long, just = notes(memory)
    assert long.text == f"{topic}\n\ncontent"
    assert (len(long.title), long.title[:5], long.title[-1]) == (1000, "long ", "…")
    assert (long.author, long.data, long.importance) == ("a" * 256, {"agent": "a" * 300}, Importance.MEDIUM)
    for part in ("the topic is too long for a title", "the agent is cut", "its importance 'urgent' is none of ours"):
        assert part in said_of(taken, "long")
    assert (just.title, just.text, said_of(taken, "just")) == ("t" * 1000, "content", "")
    assert just.importance is Importance.HIGH


def test_tags_that_do_not_fit_or_are_none_are_left_out_and_named(memory: Engine, peer: Peer, folder: Path) -> None:
    peer.write(id="few", tags=["", "x" * 101, "y" * 100, "y" * 100, "ok"])
    peer.write("2", id="many", tags=[f"t{number}" for number in range(70)])
    raw: dict[str, str | bytes] = {
        "odd": '["a", 5, true, null, ["b"], {"c": 1}, "d\\u0000"]', "line": '"a, b"', "null": "null", "object": "{}",
        "word": "nonsense", "number": "5", "open": "[", "bytes": b"\xff\xfe", "deep": "[" * 100_000,
    }  # fmt: skip
    for name, tags in raw.items():
        peer.write(name, id=name, raw_tags=tags)
    taken = take(memory, folder)
    found = {note.id: note.tags for note in notes(memory)}
    assert found.pop("few") == ("y" * 100, "ok")
    assert said_of(taken, "few") == f"2 of its tags are left out: '', '{'x' * 40}'"
    assert found.pop("many") == tuple(f"t{number}" for number in range(64))
    assert "6 of its tags are left out: 't64', 't65'" in said_of(taken, "many")
    assert (found.pop("odd"), found.pop("line")) == (("a", "5", "True", "d"), ("a", "b"))
    assert set(found.values()) == {()}
    assert [name for name in found if "its tags are no" not in said_of(taken, name)] == ["null"]


def test_what_is_no_text_is_marked_and_nul_characters_are_left_out(memory: Engine, peer: Peer, folder: Path) -> None:
    peer.write("a\0b", b"caf\xe9", id="one", agent="x\0")
    peer.write("whole \N{REPLACEMENT CHARACTER}", id="two")
    peer.execute("INSERT INTO chunks VALUES ('three', CAST(x'ff41' AS TEXT), 'a', '[]', 'low', 'c', NULL, '', '', '')")
    peer.set("ke\0y", {"a\0": ["\0b", "\ud800"]})
    taken = take(memory, folder)
    by_id = {note.id: note for note in notes(memory)}
    assert (by_id["one"].title, by_id["one"].text, by_id["one"].author) == ("ab", "caf\N{REPLACEMENT CHARACTER}", "x")
    assert "NUL characters are left out of the topic" in said_of(taken, "one")
    assert "the content is not UTF-8 everywhere" in said_of(taken, "one")
    assert said_of(taken, "two") == ""
    assert by_id["three"].title == "\N{REPLACEMENT CHARACTER}A"
    assert state(memory, "key").data == {"a": ["b", "\N{REPLACEMENT CHARACTER}"]}
    assert "NUL characters are left out of the value" in said_of(taken, "key")


def test_a_time_that_is_none_gives_way_to_the_other_or_to_that_of_the_file(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    peer.write("1", id="day", created="", updated="2026-01-02")
    peer.write("2", id="bytes", created="2026-01-02 03:04:05", updated=b"\xff")
    peer.write("3", id="late", created="2026-01-02T03:04:05+02:00", updated="+275760-09-13T00:00:00.000Z")
    peer.write("4", id="none", created="never", updated="")
    peer.set("key", 1, updated="?")
    peer.write("5", id="forever", expires="+275760-09-13T00:00:00.000Z")
    peer.stop()
    taken = take(memory, folder)
    changed = datetime.fromtimestamp((folder / "store.db").stat().st_mtime, UTC)
    for name, expected in {
        "day": datetime(2026, 1, 2, tzinfo=UTC), "bytes": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "late": datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC), "none": changed,
    }.items():  # fmt: skip
        assert memory.read(name).created_at == memory.read(name).updated_at == expected
    assert state(memory, "key").updated_at == changed
    assert "its created_at 'never' is no time" in said_of(taken, "none")
    assert "it has no time, and gets that of its file" in said_of(taken, "none")
    assert memory.read("forever").expires_at is None
    assert "its expires_at" in said_of(taken, "forever")


def test_what_cannot_be_fitted_is_told_and_an_id_that_cannot_be_kept_is_made_anew_the_same_each_time(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    peer.write("Huge", "x" * 1_048_577, id="huge")
    peer.write("y" * 2000, "x" * 1_048_000, id="topped")
    peer.write("Full", "x" * 1_048_576, id="full")
    peer.set("k" * 1025, 1)
    peer.set("deep", None, raw="[" * 70 + "]" * 70)
    peer.set("deeper", None, raw="[" * 100_000)
    peer.set("large", "x" * 1_100_000)
    peer.set("nan", None, raw="NaN")
    peer.set("text", None, raw="not JSON")
    peer.set("digits", None, raw="1" * 5000)
    peer.write("Last", id="last")
    peer.write("Long", id="x" * 200)
    peer.write("None", "a", id=None)
    peer.write("None", "b", id=None)
    taken = take(memory, folder)
    assert [note.id for note in notes(memory)][:2] == ["full", "last"]
    assert (taken.chunks, len({note.id for note in notes(memory)})) == (5, 5)
    assert "its id is too long, and becomes agent-memory-store-" in said_of(taken, "x" * 200)
    assert take(memory, folder).new == 0
    assert [state(memory, key).data for key in ("nan", "text", "digits")] == ["NaN", "not JSON", "1" * 5000]
    assert said_of(taken, "nan") == "its value is no JSON, and kept as text"
    refused = {remark.what: remark.sentence for remark in taken.refused}
    assert set(refused) == {"huge", "topped", "k" * 200, "deep", "large"}
    assert refused["huge"] == "text: longer than the limit of 1,048,576 characters"
    assert refused["deep"] == "data: longer than the limit of 64 levels"
    assert state(memory, "deeper").data == "[" * 100_000
    assert memory.check() == []


# The folders of the first versions.


@pytest.fixture
def legacy(folder: Path) -> Path:
    """A folder as the first versions left it."""
    for name in ("chunks", "state", "chunks_backup", "state_backup"):
        (folder / name).mkdir(parents=True)
    (folder / "chunks_backup" / "old.md").write_text("a backup")
    (folder / "state_backup" / "old.json").write_text('{"key": "old", "value": 1}')
    return folder


def test_the_files_of_the_first_versions_are_taken_too(memory: Engine, legacy: Path) -> None:
    (legacy / "chunks" / "a.md").write_text(
        "---\nid: 0123456701\ntopic: 'Auth: chose JWT'\nagent: pm\ntags: [auth, \"b c\", 1.10]\nimportance: high\n"
        "updated: 2026-04-09T10:00:00.000Z\nexpires: 2999-01-01\n---\n\nStateless.\n\n---\n\nNo store.\n"
    )
    (legacy / "chunks" / "b.md").write_text(
        "---\r\ntopic: 12:30\r\ntags:\r\n- one\r\n- two\r\nupdated: '2026-04-10'\r\nexpires: null\r\n---\r\nbody\r\n"
    )
    (legacy / "chunks" / "c.md").write_text("no front matter\n")
    (legacy / "chunks" / "d.md").write_text("---\nexpires: 2020-01-01\n---\nexpired\n")
    (legacy / "chunks" / "e.txt").write_text("no chunk")
    (legacy / "state" / "a.json").write_text(
        '{"key": "branch", "value": {"a": null}, "updated": "2026-04-09T10:00:00Z"}'
    )
    (legacy / "state" / "b.json").write_text('{"key": "", "value": null}')
    before = contents(legacy)
    taken = take(memory, legacy)
    assert (taken.chunks, taken.states, taken.expired, taken.refused) == (3, 2, 1, [])
    first, second, third = notes(memory)
    assert (first.id, first.title, first.author) == ("0123456701", "Auth: chose JWT", "pm")
    assert (first.tags, first.importance) == (("auth", "b c", "1.10"), Importance.HIGH)
    assert first.text == "Stateless.\n\n---\n\nNo store."
    assert first.created_at == first.updated_at == datetime(2026, 4, 9, 10, tzinfo=UTC)
    assert first.expires_at == datetime(2999, 1, 1, tzinfo=UTC)
    assert (second.id, second.title, second.tags, second.text) == ("b", "12:30", ("one", "two"), "body")
    assert (second.updated_at, second.expires_at) == (datetime(2026, 4, 10, tzinfo=UTC), None)
    assert (third.id, third.title, third.text, third.author) == ("c", "Untitled", "no front matter", "global")
    assert state(memory, "branch").data == {"a": None}
    assert state(memory, "").data is None
    assert take(memory, legacy).new == 0
    assert contents(legacy) == before


def test_files_that_are_none_are_told_by_name_and_stop_nothing(memory: Engine, legacy: Path) -> None:
    bad = {
        "chunks/a.md": b"---\ntopic: [\n---\nx", "chunks/b.md": b"---\n- a\n---\nx", "chunks/c.md": b"\xff\xfe",
        "chunks/d.md": b"---\ntopic: &a [*a]\n---\n", "chunks/e.md": b"x" * 8_000_001,
        "state/a.json": b"{", "state/b.json": b"[1]", "state/c.json": b'{"key": 5, "value": 1}',
        "state/d.json": b'{"key": "x"}', "state/e.json": b"[" * 100_000,
    }  # fmt: skip
    for name, written in bad.items():
        (legacy / name).write_bytes(written)
    (legacy / "chunks" / "folder.md").mkdir()
    (legacy / "chunks" / "z.md").write_text("good")
    (legacy / "state" / "z.json").write_text('{"key": "z", "value": 1}')
    taken = take(memory, legacy)
    assert {remark.what for remark in taken.refused} == bad.keys()
    assert {note.id for note in notes(memory)} == {"z"}
    assert state(memory, "z").data == 1
    assert "front matter is not YAML" in taken.refused[0].sentence


# The original.


def test_the_original_stays_as_it_is_and_nothing_appears_beside_it(memory: Engine, peer: Peer, folder: Path) -> None:
    peer.many(600)
    peer.set("a", 1)
    peer.stop()
    before = contents(folder)
    assert list(before) == ["store.db"]
    assert take(memory, folder).chunks == 600
    assert contents(folder) == before
    (folder / "store.db").chmod(0o400)
    folder.chmod(0o500)
    try:
        assert take(memory, folder).chunks == 600
    finally:
        folder.chmod(0o700)
    assert contents(folder) == before


def test_what_is_only_in_the_log_of_a_running_or_killed_product_is_taken(
    stores: Stores, memory: Engine, peer: Peer, folder: Path
) -> None:
    peer.execute("PRAGMA wal_autocheckpoint = 0")
    peer.many(600)
    before = contents(folder)
    assert set(before) == {"store.db", "store.db-shm", "store.db-wal"}
    assert len(before["store.db-wal"]) > 100_000
    left = folder.with_name("left")
    left.mkdir()
    for name, written in before.items():
        (left / name).write_bytes(written)  # and no lock of any process
    assert take(memory, folder).chunks == 600
    assert contents(folder) == before
    peer.write("Goes on")
    assert take(memory, folder).new == 1
    as_left = contents(left)
    with Engine.open(stores.new(), settings=QUIET) as other:
        assert take(other, left).chunks == 600
    assert contents(left) == as_left


def test_a_product_that_writes_meanwhile_is_not_in_the_way_nor_hindered(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    peer.many(1500)
    written: list[str] = []

    def write(stage: str, count: int, total: int) -> None:
        written.append(peer.write(f"Meanwhile {len(written)}"))

    first = take(memory, folder, progress=write)
    assert 1500 <= first.chunks <= 1500 + len(written)
    assert written
    taken = take(memory, folder)
    assert (taken.chunks, taken.refused) == (1500 + len(written), [])


@pytest.mark.parametrize("stays", [True, False])
def test_a_product_that_starts_in_the_middle_is_read_on_under_locks(
    memory: Engine, peer: Peer, folder: Path, stays: bool
) -> None:
    peer.many(1500)
    peer.stop()
    started: list[Peer] = []

    def start(stage: str, count: int, total: int) -> None:
        if not started:
            started.append(Peer(folder))
            started[0].execute("DELETE FROM chunks WHERE rowid > 1400")
            started[0].many(300, start=5000)
            if not stays:
                started[0].stop()

    taken = take(memory, folder, progress=start)
    started[0].stop()
    titles = {note.title for note in notes(memory)}
    assert {f"Topic {number}" for number in (*range(1400), *range(5000, 5300))} == titles
    assert taken.refused == []


def test_the_database_itself_may_be_named_or_linked_to(memory: Engine, peer: Peer, folder: Path) -> None:
    peer.write("One")
    assert take(memory, folder / "store.db").chunks == 1
    peer.stop()
    (folder / "store.db").rename(folder / "of 100% #1?.db")
    assert take(memory, folder / "of 100% #1?.db").chunks == 1
    running = Peer(folder)
    running.write("Two")
    folder.with_name("link").mkdir()
    (folder.with_name("link") / "store.db").symlink_to(folder / "store.db")
    assert take(memory, folder.with_name("link")).new == 1
    running.stop()


@pytest.mark.parametrize("written", [b"", b"not a database" * 100, b"SQLite format 3\0", None])
def test_a_file_that_is_no_database_of_the_product_is_refused(
    memory: Engine, folder: Path, written: bytes | None
) -> None:
    folder.mkdir()
    if written is None:  # of some other program
        peer = Peer(folder)
        peer.execute("DROP TABLE chunks")
        peer.execute("CREATE VIEW chunks AS SELECT 1 AS id, 2 AS topic, 3 AS content")
        peer.stop()
    else:
        (folder / "store.db").write_bytes(written)
    before = (folder / "store.db").read_bytes()
    with pytest.raises((Invalid, Unavailable), match=r"store\.db"):
        take(memory, folder / "store.db")
    assert (folder / "store.db").read_bytes() == before
    assert memory.count() == 0


def test_a_damaged_database_gives_what_can_be_read_and_says_what_would_help(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    peer.many(3000)
    peer.stop()
    whole = (folder / "store.db").read_bytes()
    (folder / "store.db").write_bytes(whole[: len(whole) // 2] + b"\xa5" * (len(whole) - len(whole) // 2))
    with pytest.raises(Unavailable, match=r"is damaged .* `sqlite3 store\.db \.recover`"):
        take(memory, folder)
    assert notes(memory)[-1].title == f"Topic {len(notes(memory)) - 1}"
    assert memory.check() == []


def test_where_there_is_nothing_nothing_is_found_and_older_tables_are_taken_with_what_they_have(
    memory: Engine, folder: Path
) -> None:
    assert not has_memory(folder)
    (folder / "chunks").mkdir(parents=True)
    (folder / "state").mkdir()
    (folder / "store.db").touch()
    assert not has_memory(folder)
    with pytest.raises(Invalid, match="there is no memory of agent-memory-store in"):
        take(memory, folder)
    (folder / "chunks" / "one.md").write_text("x")
    assert has_memory(folder)
    Peer(folder.with_name("other")).stop()
    assert has_memory(folder.with_name("other"))
    assert has_memory(folder.with_name("other") / "store.db")
    older = Peer(folder.with_name("older"))  # a table of an older make is taken with what it has
    older.execute("DROP TABLE chunks; DROP TABLE state; DROP TABLE chunks_fts")
    older.execute("CREATE TABLE chunks (id TEXT PRIMARY KEY, topic TEXT, content TEXT)")
    older.execute("INSERT INTO chunks VALUES ('one', 'Topic', NULL), ('two', NULL, NULL)")
    older.stop()
    taken = take(memory, folder.with_name("older"))
    assert [(note.id, note.title, note.text, note.author) for note in notes(memory)] == [("one", "Topic", "", "")]
    assert taken.refused == [Remark("two", EMPTY)]


# Vectors.


def test_vectors_that_the_embedder_here_would_make_are_kept(memory: Engine, peer: Peer, folder: Path) -> None:
    peer.many(1100, embedded=True)
    peer.write("Odd", "one", embedding=turned(vector("Odd", "one")))  # a few among many do not matter
    taken = take(memory, folder)
    assert (taken.vectors, taken.vectors_left) == (1101, "")
    assert memory.settle() == 1  # the mark that it is done
    assert memory.stats()["waiting_for_vectors"] == 0
    (hit, *_) = memory.search(Query(f"Topic 7 what is known of t{7 * 7919}", mode="semantic"))
    assert hit.record.title == "Topic 7"
    assert memory.check() == []


def test_embeddings_that_are_none_or_of_another_model_are_made_here(memory: Engine, peer: Peer, folder: Path) -> None:
    for number in range(20):
        peer.write(f"T{number}", "c", id=f"{number}", embedding=turned(vector(f"T{number}", "c")))
    taken = take(memory, folder)
    assert taken.vectors == 0
    assert "they are unlike those of hashed-384 (the median cosine is " in taken.vectors_left
    assert memory.settle() == 21
    peer.execute("DELETE FROM chunks")
    good = vector("T", "good")
    zero, nan, large = bytes(1536), struct.pack("<384f", *[float("nan")] * 384), struct.pack("<384f", *[3e38] * 384)
    peer.write("T", "good", embedding=good)
    for number, blob in enumerate([zero, nan, b"", b"x", good[:-4], good + good, "text", 5, None]):
        peer.write("Bad", f"{number}", embedding=blob)
    peer.write("T", "fitted\0", embedding=vector("T", "fitted"))
    taken = take(memory, folder)
    assert (taken.chunks, taken.vectors, taken.refused) == (11, 1, [])
    assert memory.settle() == 11
    peer.write("T", "large", embedding=large)
    assert take(memory, folder).refused == []
    assert memory.check() == []


class Short(HashedEmbedder):
    """An embedder of other vectors."""

    id, dimensions = "short-8", 8


class Silent(HashedEmbedder):
    """An embedder that is out of reach."""

    @property
    def dimensions(self) -> int:
        """Cannot be asked."""
        raise Unavailable("the endpoint cannot be reached")


@pytest.mark.parametrize(
    ("embedder", "settings", "said"),
    [
        (None, QUIET, "there is no embedder here to compare them with"),
        (None, Settings(background=False, models="/nowhere"), "run `cofio model install`, then import again"),
        (Short(), QUIET, "they have 384 numbers, and those of short-8 have 8"),
        (Silent(), QUIET, "they cannot be compared with any: the endpoint cannot be reached"),
    ],
)
def test_vectors_that_cannot_be_compared_are_not_kept_and_it_is_said_why(
    store: StoreAddress, peer: Peer, folder: Path, embedder: Embedder | None, settings: Settings, said: str
) -> None:
    peer.many(10, embedded=True)
    with Engine.open(store, settings=settings, embedder=embedder) as memory:
        taken = take(memory, folder)
        assert (taken.chunks, taken.vectors) == (10, 0)
        assert said in taken.vectors_left
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as memory:
        again = take(memory, folder)
        assert (again.new, again.vectors) == (0, 10)
        assert memory.settle() == 1


# The first start of a server.


def finish(thread: threading.Thread | None) -> None:
    """Wait for a take-over."""
    assert thread is not None
    assert thread.daemon
    thread.join(60)
    assert not thread.is_alive()


def mark(memory: Engine, folder: Path) -> dict[str, object]:
    """How far the take-over of a folder has come."""
    record = memory.get(IMPORTS, str(folder.resolve()), kind=Kind.STATE)
    assert record is not None
    assert isinstance(record.data, dict)
    return dict(record.data)


def test_the_first_start_with_something_takes_it_over_and_the_next_do_not(
    memory: Engine, peer: Peer, folder: Path
) -> None:
    said: list[str] = []
    assert take_over(memory, [folder.with_name("nowhere")], said.append) is None
    finish(take_over(memory, [folder], said.append))  # of a product that was never used
    assert said == []
    peer.many(12)
    peer.set("a", 1)
    peer.write("", "", id="nothing")
    memory.write(Scope("rest", "mcp"), text="x")  # other scopes and kinds are not in its way
    memory.put(MCP, "key", data=1, kind=Kind.ITEM)
    finish(take_over(memory, [folder, folder.with_name("nowhere"), folder], said.append))
    assert said[0] == f"taking over the memory of agent-memory-store in {folder}, which is left as it is"
    assert said[1].startswith(f"took over 12 chunks and 1 state from {folder}, which is left as it was")
    assert f"; 1 could not be taken: `cofio import agent-memory-store {folder}` tells why" in said[1]
    assert (len(notes(memory)), state(memory, "a").data) == (12, 1)
    assert mark(memory, folder)["done"] is True
    memory.drop(MCP)
    peer.write("New")
    assert take_over(memory, [folder], said.append) is None
    assert len(said) == 2


@pytest.mark.parametrize("kind", [Kind.NOTE, Kind.STATE])
def test_a_memory_that_is_in_use_is_not_added_to(memory: Engine, peer: Peer, folder: Path, kind: Kind) -> None:
    peer.write("One")
    memory.put(MCP, "key", data=1, kind=kind)
    said: list[str] = []
    assert take_over(memory, [folder], said.append) is None
    assert memory.count() == 1
    assert [f"`cofio import agent-memory-store {folder}` brings it in" in line for line in said] == [True]


def test_several_folders_are_taken_over_one_after_the_other(memory: Engine, peer: Peer, folder: Path) -> None:
    peer.write("One")
    by_hand = Peer(folder.with_name("by hand"))
    by_hand.write("Three")
    by_hand.stop()
    take(memory, folder.with_name("by hand") / "store.db")
    memory.drop(MCP)
    assert take_over(memory, [folder.with_name("by hand")], pytest.fail) is None  # what was deleted stays so
    other = Peer(folder.with_name("other"))
    other.write("Two", embedding=vector("Two", "content"))
    other.stop()
    said: list[str] = []
    finish(take_over(memory, [folder, folder.with_name("other")], said.append))
    assert {note.title for note in notes(memory)} == {"One", "Two"}
    assert [line.split()[0] for line in said] == ["taking", "took", "taking", "took"]
    assert said[3] == f"took over 1 chunk and 0 states from {folder.with_name('other')}, which is left as it was"


def test_a_failure_is_said_in_a_line_and_tried_again_at_the_next_start(memory: Engine, folder: Path) -> None:
    folder.mkdir()
    (folder / "store.db").write_bytes(b"garbage" * 1000)
    said: list[str] = []
    finish(take_over(memory, [folder], said.append))
    assert said[1].startswith(f"{folder} is not taken over yet: path: ")
    assert said[1].endswith("; the next start goes on with it")
    assert "\n" not in said[1]
    memory.write(MCP, text="written meanwhile")
    (folder / "store.db").unlink()
    peer = Peer(folder)
    peer.write("Mended")
    peer.stop()
    finish(take_over(memory, [folder], said.append))
    assert {note.title for note in notes(memory)} == {"", "Mended"}
    assert mark(memory, folder)["done"] is True


def test_a_folder_that_may_not_be_looked_into_is_said(
    memory: Engine, peer: Peer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.write("One")

    def refuse(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    said: list[str] = []
    assert take_over(memory, [folder], said.append) is None
    assert said == [f"{folder} cannot be looked into for a memory to take over: Permission denied"]


def test_one_process_at_a_time_takes_over(memory: Engine, peer: Peer, folder: Path) -> None:
    peer.write("One")
    go = threading.Event()
    first = take_over(memory, [folder], lambda line: None if go.wait(60) else pytest.fail(line))
    try:
        assert take_over(memory, [folder], pytest.fail) is None
    finally:
        go.set()
    finish(first)
    assert len(notes(memory)) == 1


def test_closing_the_memory_ends_a_take_over_quietly_and_the_next_start_goes_on(
    store: StoreAddress, peer: Peer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.many(1200)
    said: list[str] = []
    begun, closed, real = threading.Event(), threading.Event(), Engine.restore

    def restore(engine: Engine, drafts: Sequence[Draft], **more: Any) -> int:
        if engine.count(MCP):  # a batch is in, and the next one waits for the end
            begun.set()
            closed.wait(60)
        return real(engine, drafts, **more)

    with monkeypatch.context() as patched, Engine.open(store, settings=QUIET) as memory:
        patched.setattr(Engine, "restore", restore)
        thread = take_over(memory, [folder], said.append)
        assert begun.wait(60)
        memory.close()
        closed.set()
        finish(thread)
    assert [line.split()[0] for line in said] == ["taking"]
    with Engine.open(store, settings=QUIET) as memory:
        assert mark(memory, folder)["done"] is False
        assert 0 < memory.count(MCP) < 1200
        finish(take_over(memory, [folder], said.append))
        assert memory.count(MCP) == 1200
        assert said[-1].startswith("took over 1,200 chunks and 0 states")


CHILD = """
import os, signal, sys
from pathlib import Path
from cofio import Engine, Settings
from cofio.importers.agent_memory_store import take_over

batches, real = int(sys.argv[3]), Engine.restore
def restore(*args, **named):
    global batches
    batches -= 1
    if batches < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **named)
Engine.restore = restore
with Engine.open(sys.argv[1], settings=Settings(background=False, embedder="none")) as memory:
    take_over(memory, [Path(sys.argv[2])], lambda line: print(line, flush=True)).join()
"""


@pytest.mark.usefixtures("process")
def test_a_take_over_that_is_killed_goes_on_where_it_was(
    store: StoreAddress, peer: Peer, legacy: Path, folder: Path
) -> None:
    peer.many(2000)
    peer.set("a", 1)
    (legacy / "chunks" / "last.md").write_text("the last")
    before = contents(folder)
    child = subprocess.run([sys.executable, "-c", CHILD, store.spell(), str(folder), "4"], check=False)
    assert child.returncode == -signal.SIGKILL
    with Engine.open(store, settings=QUIET) as memory:
        left = mark(memory, folder)
        assert left["done"] is False
        assert 0 < memory.count(MCP) - 1 == left["chunks"] == left["after"]  # the state came first
        memory.delete(f"{7:010x}")
        memory.edit(f"{8:010x}", text="edited meanwhile")
        said: list[str] = []
        finish(take_over(memory, [folder], said.append))
        assert said[-1].startswith(f"took over 2,001 chunks and 1 state from {folder}, which is left as it was")
        assert memory.count(MCP) == 2001
        with pytest.raises(NotFound):
            memory.read(f"{7:010x}")
        assert memory.read(f"{8:010x}").text == "edited meanwhile"
        assert mark(memory, folder)["done"] is True
        assert take_over(memory, [folder], pytest.fail) is None
        assert memory.check() == []
    assert contents(folder) == before
