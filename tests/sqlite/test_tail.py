"""What the word index does not have yet: each look finds what there was when it was taken, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sqlite.older_copy import put_back

from cofio import Draft, Engine, Query, Scope, Settings, Unavailable
from cofio.backends.sqlite import SqliteBackend, tail, upkeep
from cofio.backends.sqlite import word_index as index_of_words
from cofio.backends.sqlite.searcher import SearchIndexes, SnapshotSearch
from cofio.backends.sqlite.word_index import IndexSnapshot, WordIndex
from cofio.text.tokenizer import split_query
from cofio.values.query import Bounds
from cofio.values.times import to_micros

QUIET = Settings(background=False, embedder="none", sync="normal")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
ROOT = Scope()
SCOPES = (Scope("a"), Scope("a", "b"), Scope("ab"))
WORDS = ("apple", "pear", "plum")

words = st.sampled_from(WORDS)
scopes = st.sampled_from(SCOPES)
picks = st.integers(0, 20)
acts = st.one_of(
    st.tuples(st.just("write"), scopes, words),
    st.tuples(st.just("edit"), picks, words),
    st.tuples(st.just("move"), picks, scopes),
    st.tuples(st.just("delete"), picks),
    st.tuples(st.just("index"), st.integers(1, 4)),
    st.tuples(st.just("forget")),
    st.tuples(st.just("look"), st.booleans()),
)


class Look(NamedTuple):
    """A snapshot of a store, to be searched within any bounds."""

    connection: apsw.Connection
    snapshot: IndexSnapshot
    indexes: SearchIndexes

    def find(self, word: str, bounds: Bounds, limit: int) -> tuple[SnapshotSearch, dict[int, float]]:
        """The scores of the records that are found by a word, and the search that found them."""
        search = SnapshotSearch(self.connection, self.snapshot, bounds, to_micros(NOW), self.indexes)
        candidates = search.candidates(split_query(word), None, None, depth=limit, flat_depth=limit)
        return search, {row: match.score for row, match in candidates.keyword.items()}


class Store:
    """A folder with two backends on it, as two processes have them."""

    def __init__(self, folder: Path) -> None:
        self.backends = [SqliteBackend(folder, sync="normal", clock=lambda: NOW) for _ in range(2)]
        self.memory = Engine(self.backends[0], settings=QUIET)

    @contextmanager
    def look(self, at: int) -> Iterator[Look]:
        """A look at the store by one of the backends."""
        backend = self.backends[at]
        with backend._database.borrow() as connection:
            yield Look(connection, backend._indexes.open_snapshot(connection), backend._indexes)

    def index(self, limit: int) -> int:
        """Take some changes into the word index."""
        with self.backends[0].derived.lock.try_acquire() as locked:
            assert locked
            return self.backends[0].derived.index_words(limit)

    def close(self) -> None:
        """Close both."""
        self.memory.close()
        self.backends[1].close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store, empty."""
    opened = Store(tmp_path)
    yield opened
    opened.close()


def found(view: Look, word: str, scope: Scope = ROOT, *, exact: bool = False) -> set[str]:
    """The ids of the records that a look finds by a word."""
    search, matches = view.find(word, Bounds(scope=scope, exact=exact, kinds=(), filter=None), 100_000)
    return {record.id for record in search.records(list(matches)).values()}


def scores(view: Look, word: str) -> dict[int, float]:
    """The scores of the records that a look finds by a word."""
    bounds = Bounds(scope=Scope("a"), exact=False, kinds=(), filter=None)
    return view.find(word, bounds, 1000)[1]


def agree(view: Look, known: dict[str, tuple[Scope, str]]) -> None:
    """A look finds each record that is known by its word, within its scope, and no other."""
    for word in WORDS:
        for scope in (ROOT, *SCOPES):
            for exact in (False, True):
                assert found(view, word, scope, exact=exact) == {
                    record_id
                    for record_id, (where, text) in known.items()
                    if text == word and (where == scope if exact else where.names[: len(scope.names)] == scope.names)
                }


def change(store: Store, known: dict[str, tuple[Scope, str]], act: tuple[Any, ...]) -> None:
    """Do one thing to the store and to what is known of it."""
    name, *told = act
    ids = list(known)
    if name == "write":
        known[store.memory.write(told[0], text=told[1]).id] = (told[0], told[1])
    elif name == "index":
        store.index(told[0])
    elif name == "forget":
        store.memory.reindex()
    elif ids:
        record_id = ids[told[0] % len(ids)]
        if name == "delete":
            store.memory.delete(record_id)
            del known[record_id]
        elif name == "edit":
            store.memory.edit(record_id, text=told[1])
            known[record_id] = (known[record_id][0], told[1])
        else:
            store.memory.edit(record_id, scope=told[1])
            known[record_id] = (told[1], known[record_id][1])


@given(acts=st.lists(acts, max_size=25))
def test_looks_taken_at_any_time_each_find_what_there_was_then(acts: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch, ExitStack() as open_:
        patch.setattr(tail, "SPARE", 1)  # it is rebuilt often
        patch.setattr(index_of_words, "STEP", 8)  # and indexed in small steps
        store = Store(Path(folder))
        open_.callback(store.close)
        known: dict[str, tuple[Scope, str]] = {}
        looks: list[tuple[Look, dict[str, tuple[Scope, str]]]] = []
        for act in acts:
            if act[0] == "look":
                looks.append((open_.enter_context(store.look(act[1])), dict(known)))
            else:
                change(store, known, act)
        for view, then in looks:
            agree(view, then)
        for at in range(2):
            with store.look(at) as view:
                agree(view, known)
        assert store.memory.check() == []


def test_two_threads_with_different_snapshots_each_see_their_own(store: Store) -> None:
    first = store.memory.write(SCOPES[0], text="apple")
    second = store.memory.write(SCOPES[0], text="apple pear")
    looked, changed = threading.Event(), threading.Event()
    seen: list[object] = []

    def early() -> None:
        with store.look(0) as view:
            before = scores(view, "apple")
            looked.set()
            assert changed.wait(60)
            seen.extend([found(view, "apple"), found(view, "plum"), scores(view, "apple") == before])

    thread = threading.Thread(target=early)
    thread.start()
    assert looked.wait(60)
    store.memory.edit(first.id, text="plum")
    store.memory.delete(second.id)
    third = store.memory.write(SCOPES[0], text="apple")
    with store.look(0) as view:
        assert found(view, "apple") == {third.id}
        assert found(view, "plum") == {first.id}
        store.index(100)
        with store.look(0) as later:
            assert found(later, "apple") == {third.id}
        assert found(view, "apple") == {third.id}
    changed.set()
    thread.join(60)
    assert seen == [{first.id, second.id}, set(), True]


@pytest.mark.parametrize("meanwhile", ["edited", "deleted", "indexed"])
def test_a_look_that_another_one_overtakes_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    store.memory.write(SCOPES[0], text="apple")
    with store.look(0) as view:
        assert len(found(view, "apple")) == 1
    record = store.memory.write(SCOPES[0], text="pear")
    catch_up = WordIndex._catch_up_tail

    def overtaken(index: WordIndex, *begun: Any) -> Any:
        """Let another have a later look before this one, which has begun, comes to the tail."""
        monkeypatch.undo()
        if meanwhile == "edited":
            store.memory.edit(record.id, text="plum")
        elif meanwhile == "deleted":
            store.memory.delete(record.id)
        else:
            store.index(10)
        with store.look(0) as view:
            assert len(found(view, "apple")) == 1
        return catch_up(index, *begun)

    monkeypatch.setattr(WordIndex, "_catch_up_tail", overtaken)
    with store.look(0) as view:
        assert len(found(view, "apple")) == 1
        assert found(view, "plum") == ({record.id} if meanwhile == "edited" else set())
        assert found(view, "pear") == ({record.id} if meanwhile == "indexed" else set())


@pytest.mark.parametrize("indexed", [0, 7, 1000])
def test_a_process_that_slept_through_many_changes_wakes_up_to_what_is(store: Store, indexed: int) -> None:
    asleep = Engine(store.backends[1], settings=QUIET)
    records = store.memory.write_many([Draft(scope=SCOPES[n % 3], text=f"apple number{n}") for n in range(60)])
    assert len(asleep.search(Query("apple", mode="keyword", limit=100))) == 60
    for number, record in enumerate(records):
        if number % 3 == 0:
            store.memory.delete(record.id)
        elif number % 3 == 1:
            store.memory.edit(record.id, text=f"pear number{number}")
            store.memory.edit(record.id, text=f"plum number{number}")
        if number == 40:
            assert len(asleep.search(Query("plum", mode="keyword", limit=100))) == 14
    if indexed:
        store.index(indexed)
    fresh = store.memory.write(SCOPES[0], text="apple fresh")
    for engine in (asleep, store.memory):
        hits = engine.search(Query("apple", mode="keyword", limit=100))
        assert {hit.record.id for hit in hits} == {fresh.id, *(record.id for record in records[2::3])}
        assert {hit.record.id for hit in engine.search(Query("plum", mode="keyword", limit=100))} == {
            record.id for record in records[1::3]
        }
        assert not engine.search(Query("pear", mode="keyword"))
        assert engine.check() == []


def count_waiting(store: Store) -> int:
    """How many changes the word index lacks."""
    return int(store.memory.stats()["waiting_for_index"])


def test_a_load_that_nothing_is_done_for_in_the_background_leaves_a_short_tail(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LONG_TAIL", 50)
    for batch in (1, 20, 200):
        for _ in range(0, 200, batch):
            store.memory.write_many([Draft(scope=SCOPES[0], text="apple") for _ in range(batch)])
            assert count_waiting(store) < 50
    for at in range(2):
        with store.look(at) as view:
            assert len(found(view, "apple")) == 600
            assert len(view.snapshot.tail.versions) < 50
    assert store.memory.check() == []


def test_a_write_is_done_though_its_words_cannot_be_indexed_now(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LONG_TAIL", 5)

    def refuse(*_: object) -> int:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(WordIndex, "index_changes", refuse)
        for number in range(20):
            store.memory.write(SCOPES[0], text=f"apple n{number}")
        assert count_waiting(store) == 20
    with store.backends[1].derived.lock.try_acquire() as locked:  # another process indexes
        assert locked
        store.memory.write_many([Draft(scope=SCOPES[0], text="apple") for _ in range(20)])
        assert count_waiting(store) == 40
        with store.look(1) as view:
            assert len(found(view, "apple")) == 40
    store.memory.write_many([Draft(scope=SCOPES[0], text="apple") for _ in range(5)])
    assert count_waiting(store) == 0


def test_a_search_that_breaks_off_while_catching_up_leaves_nothing_behind(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.memory.write(SCOPES[0], text="apple apple")
    with store.look(0) as view:
        before = scores(view, "apple")
        store.memory.write_many([Draft(scope=SCOPES[0], text="apple") for _ in range(3)])
        rows: list[object] = []

        def broken(*fields: Any) -> list[str]:
            rows.append(fields)
            if len(rows) == 2:
                raise KeyboardInterrupt
            return ["appl"]

        with monkeypatch.context() as patch:
            patch.setattr(tail, "read_words", broken)
            with pytest.raises(KeyboardInterrupt), store.look(0):
                pass
        assert scores(view, "apple") == before
        assert found(view, "apple") == {first.id}
    with store.look(0) as view, store.look(1) as other:
        assert len(scores(view, "apple")) == 4
        assert scores(view, "apple") == scores(other, "apple")


def test_a_search_finds_only_what_there_is_when_what_was_put_back_has_come_as_far_again(tmp_path: Path) -> None:
    with (
        Engine.open(tmp_path / "store", settings=QUIET) as memory,
        Engine.open(tmp_path / "store", settings=QUIET) as another,
    ):
        memory.write(ROOT, text="apple")
        put_back(tmp_path / "store" / "memory.db", tmp_path / "copy.db")
        for _ in range(5):
            memory.write(ROOT, text="pear")
        assert len(memory.search(Query("pear", mode="keyword"))) == 5
        put_back(tmp_path / "copy.db", tmp_path / "store" / "memory.db")
        for _ in range(6):
            another.write(ROOT, text="quince")
        assert len(memory.search(Query("quince", mode="keyword"))) == 6
        assert len(memory.search(Query("pear", mode="keyword"))) == 0
