"""A store that is deleted, moved or replaced while it is open: nothing is acknowledged, no newcomer is touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from cofio import Draft, Engine, Query, Scope, Settings, Unavailable
from cofio.backends.sqlite import SqliteBackend
from cofio.backends.upkeep_interface import Index, Purge, ReportFault, Tidy
from cofio.embed.hashed import HashedEmbedder

QUIET = Settings(background=False, embedder="hashed", sync="normal")
HERE = Scope("here")
SAID = "was deleted, moved or replaced while it was open; start this program again"
WAYS = ("delete", "move", "replace")
ways = pytest.mark.parametrize("how", WAYS)
CALLS: dict[str, Callable[[Engine], object]] = {
    "write": lambda engine: engine.write(HERE, text="lost"),
    "write_many": lambda engine: engine.write_many([Draft(scope=HERE, text="lost") for _ in range(3)]),
    "put": lambda engine: engine.put(HERE, "key", data=1),
    "delete": lambda engine: engine.delete("first"),
    "read": lambda engine: engine.read("first"),
    "list": lambda engine: engine.list(HERE),
    "search": lambda engine: engine.search(Query("walrus")),
    "by words": lambda engine: engine.search(Query("walrus", mode="keyword")),
    "export": lambda engine: list(engine.export()),
    "stats": lambda engine: engine.stats(),
    "check": lambda engine: engine.check(),
    "settle": lambda engine: engine.settle(),
    "reindex": lambda engine: engine.reindex(),
    "purge": lambda engine: engine.purge(),
    "save": lambda engine: engine.checkpoints.save("space", "thread", "other", {"a": 2}),
    "load": lambda engine: engine.checkpoints.load("space", "thread", "saved"),
    "verify": lambda engine: engine.verify(),
}


class Place:
    """A folder with a store that can be taken away, and the one that may come in its place."""

    def __init__(self, base: Path) -> None:
        self.store = base / "store"
        self.elsewhere = base / "elsewhere"
        self._newcomer = base / "newcomer"
        with Engine.open(base / "other", settings=QUIET) as other:
            other.write(HERE, id="settled", text="walrus of the newcomer")
            other.settle()
            other.write(HERE, id="logged", text="another walrus of the newcomer")
            shutil.copytree(base / "other", self._newcomer)  # with what is still in its log
        shutil.rmtree(base / "other")

    def lose(self, how: str) -> dict[str, bytes]:
        """Take the store away; what is at its place now."""
        if how == "delete":
            shutil.rmtree(self.store)
        else:
            self.store.rename(self.elsewhere)
        if how == "replace":
            self._newcomer.rename(self.store)
        return self.files()

    def files(self) -> dict[str, bytes]:
        """Every file and folder at the store's place."""
        return {
            str(file.relative_to(self.store)): file.read_bytes() if file.is_file() else b""
            for file in sorted(self.store.parent.rglob("store/**/*"))
        }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Where the store is."""
    return Place(tmp_path)


@pytest.fixture
def engine(place: Place) -> Iterator[Engine]:
    """A memory with a little in it, some of which is in the word index."""
    with Engine.open(place.store, settings=QUIET) as opened:
        opened.write(HERE, id="first", text="walrus of the store")
        opened.settle()
        opened.write(HERE, id="second", text="another walrus of the store")
        opened.checkpoints.save("space", "thread", "saved", {"a": 1})
        yield opened


@ways
def test_every_call_says_that_the_store_is_gone_and_to_start_again(place: Place, engine: Engine, how: str) -> None:
    there = place.lose(how)
    for name, call in CALLS.items():
        with pytest.raises(Unavailable, match=SAID):
            call(engine)
        assert place.files() == there, f"{name} has touched what is there now"
    engine.close()
    assert place.files() == there, "closing has touched what is there now"


@pytest.mark.parametrize("name", CALLS)
def test_whichever_call_comes_first_finds_out(place: Place, engine: Engine, name: str) -> None:
    there = place.lose("replace")
    with pytest.raises(Unavailable, match=SAID):
        CALLS[name](engine)
    engine.close()
    assert place.files() == there


@ways
def test_an_engine_that_is_only_closed_leaves_what_is_there_now_alone(
    place: Place, engine: Engine, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    there = place.lose(how)
    engine.close()
    assert place.files() == there
    assert caplog.records == []
    if how == "replace":
        with Engine.open(place.store, settings=QUIET) as newcomer:
            assert {record.id for record in newcomer.list()} == {"settled", "logged"}
            assert newcomer.check() == []
    if how != "delete":  # what was moved has all that was acknowledged
        with Engine.open(place.elsewhere, settings=QUIET) as moved:
            assert {record.id for record in moved.list()} == {"first", "second"}
            assert moved.checkpoints.load("space", "thread", "saved") is not None
            assert moved.check() == []


@ways
def test_a_store_that_goes_in_the_middle_of_a_write_acknowledges_nothing(place: Place, how: str) -> None:
    backend = SqliteBackend(place.store)

    def work(connection: apsw.Connection) -> None:
        connection.execute("UPDATE state SET fault = 'x'")
        place.lose(how)

    with pytest.raises(Unavailable, match=SAID):
        backend._database.write(work)
    there = place.files()
    backend.close()
    assert place.files() == there


def test_a_log_that_is_removed_alone_is_noticed_too(place: Place, engine: Engine) -> None:
    (place.store / "memory.db-wal").unlink()
    with pytest.raises(Unavailable, match=SAID):
        engine.write(HERE, text="lost")
    with pytest.raises(Unavailable, match=SAID):
        engine.read("first")
    engine.close()
    with Engine.open(place.store, settings=QUIET) as again:
        assert {record.id for record in again.list()} >= {"first", "second"}, "what was acknowledged before is lost"
        assert again.check() == []


@ways
def test_background_work_makes_nothing_where_the_store_was(place: Place, how: str) -> None:
    backend, embedder = SqliteBackend(place.store), HashedEmbedder()
    with Engine(backend, settings=QUIET, embedder=embedder) as engine:
        for number in range(3):
            engine.write(HERE, text=f"walrus {number}")
        with backend.claim(embedder.id, 10) as batch:
            assert batch is not None
            there = place.lose(how)
            works: list[Callable[[], object]] = [
                lambda: backend.derived.index_words(100),
                lambda: batch.store(embedder.embed(batch.texts)),
                lambda: backend.derived.index_vectors(embedder.id),
                lambda: backend.rebuild(None),
                *(partial(backend.upkeep, task) for task in (Index(limit=10), Tidy(), Purge(), ReportFault("a fault"))),
            ]
            for work in works:
                with pytest.raises(Unavailable, match=SAID):
                    work()
                assert place.files() == there
        with pytest.raises(Unavailable, match=SAID), backend.claim(embedder.id, 10):
            pass
        assert place.files() == there


def test_it_is_logged_once_and_a_stranger_is_told_no_folder(
    place: Place, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    place.lose("delete")
    for _ in range(3):
        with pytest.raises(Unavailable) as raised:
            engine.read("first")
        assert "start the program that serves it again" in str(raised.value.public)
        assert str(place.store) not in str(raised.value.public)
    assert [SAID in line.getMessage() for line in caplog.records] == [True]


def test_another_working_folder_does_not_look_like_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Engine.open("relative", settings=QUIET) as engine:
        monkeypatch.chdir("/")
        record = engine.write(HERE, text="walrus")
        engine.settle()
        assert [hit.record for hit in engine.search(Query("walrus", mode="keyword"))] == [record]
        assert list(engine.export()) == [record]
    with Engine.open(tmp_path / "relative", settings=QUIET) as again:
        assert again.read(record.id) == record
        assert again.check() == []
