"""A memory's own files are never opened through a link, and nothing else in their place is waited for."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from cofio import Engine, Invalid, Query, Scope, Settings, Unavailable
from cofio.backends.sqlite.checksums import Soundness
from cofio.embed.hashed import HashedEmbedder
from cofio.http.tokens import Tokens

QUIET = Settings(background=False, embedder="none")
FILES = ("memory.db", "memory.db-wal", "memory.db-shm", "memory.db-journal", "lease", "reserve")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Another memory and other things of the user's, which a store has no business with."""
    folder = tmp_path / "private"
    with Engine.open(folder, settings=QUIET) as memory:
        memory.write(Scope("demo"), text="The walrus merger closes on Friday.")
        memory.settle()
    (folder / "words-0").mkdir()
    (folder / "words-0" / "diary.txt").write_text("mine")
    (folder / "1-2.codes").write_text("mine")
    return folder


def listed(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, and what it holds."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def hostile(tmp_path: Path, name: str, target: str | Path) -> Path:
    """A store that came with a link."""
    store = tmp_path / "project" / ".cofio"
    store.mkdir(parents=True)
    (store / name).symlink_to(target)
    return store


@pytest.mark.parametrize("name", [*FILES, "index", "vectors"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_place_of_a_file_of_the_memory_is_refused(
    tmp_path: Path, outside: Path, name: str, there: bool
) -> None:
    target = outside / ("" if name in ("index", "vectors") else "memory.db") if there else tmp_path / "new"
    store, before = hostile(tmp_path, name, os.path.relpath(target, tmp_path / "project" / ".cofio")), listed(outside)
    with pytest.raises(Unavailable, match=rf"{name} is a link; a memory's own files must not be links: remove it"):
        Engine.open(store, settings=QUIET)
    assert listed(outside) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", [*FILES, "index", "vectors"])
def test_a_pipe_in_their_place_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(Unavailable, match=f"{name} is not a (plain file|folder)"):
        Engine.open(tmp_path, settings=QUIET)


def test_a_lease_that_becomes_a_link_is_refused(tmp_path: Path, outside: Path) -> None:
    with Engine.open(tmp_path / "store", settings=QUIET) as memory:
        memory.write(Scope("demo"), text="hello")
        (tmp_path / "store" / "lease").symlink_to(tmp_path / "new")
        with pytest.raises(Unavailable, match="lease is a link"):
            memory.settle()
        assert not (tmp_path / "new").exists()


def test_a_database_that_becomes_a_link_is_not_read(tmp_path: Path, outside: Path) -> None:
    database = tmp_path / "store" / "memory.db"
    with Engine.open(tmp_path / "store", settings=QUIET) as memory:
        database.rename(tmp_path / "old.db")
        database.symlink_to(outside / "memory.db")
        with pytest.raises(Unavailable):
            memory.count()


def test_the_folder_of_a_memory_may_be_a_link_that_the_user_names(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    with Engine.open(tmp_path / "link", settings=QUIET) as memory:
        assert len(memory.search(Query(text="walrus"))) == 1


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_tokens_are_not_read_through_a_link(tmp_path: Path, kind: str) -> None:
    (tmp_path / "victim").write_text("[]")
    if kind == "link":
        (tmp_path / "tokens.json").symlink_to("victim")
    else:
        os.mkfifo(tmp_path / "tokens.json")
    tokens = Tokens(tmp_path)
    for work in (tokens.all, lambda: tokens.add("laptop"), lambda: tokens.are_required, lambda: tokens.find("x")):
        with pytest.raises(Unavailable, match=r"tokens\.json is (a link|not a plain file)"):
            work()
    assert (tmp_path / "victim").read_text() == "[]"
    (tmp_path / "victim").unlink()
    with pytest.raises(Unavailable):  # a link that leads nowhere lets nobody in
        _ = tokens.are_required


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_settings_that_are_no_file_are_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "cofio.toml"
    os.mkfifo(file) if kind == "pipe" else file.mkdir()
    with pytest.raises(Invalid, match=r"cofio\.toml is not a plain file"):
        Settings.load(tmp_path, {})


@pytest.mark.parametrize("target", ["secret", "nowhere", "pipe", "cofio.toml", ".", "settings"])
def test_settings_behind_a_strangers_link_are_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, target: str
) -> None:
    (tmp_path / "secret").write_text("a = secret")
    (tmp_path / "settings").write_text("floor = 0.5\nllm_base_url = 'http://127.0.0.1:1'")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "cofio.toml").symlink_to(target)
    assert Settings.load(tmp_path, {"COFIO_LLM_MODEL": "m"}) == Settings()
    (told,) = caplog.messages
    assert told == (
        f"cofio: ignored {tmp_path / 'cofio.toml'}, which is a link (this memory was not made here, was moved, or its"
        " project brings the file: `cofio trust` lets it count); without that, llm_model from elsewhere cannot count"
        " either"
    )
    Engine.open(tmp_path).close()


def test_settings_behind_a_link_of_the_users_own_count(tmp_path: Path) -> None:
    store = tmp_path / "store"
    Engine.open(store, settings=QUIET).close()
    (tmp_path / "mine.toml").write_text("floor = 0.5\nfetch = 'example.org'")
    (store / "cofio.toml").symlink_to("../mine.toml")
    assert (Settings.load(store, {}).floor, Settings.load(store, {}).fetch) == (0.5, "example.org")
    (tmp_path / "mine.toml").write_text("florr = 0.5")
    with pytest.raises(Invalid, match="florr"):
        Settings.load(store, {})
    (tmp_path / "mine.toml").unlink()
    assert Settings.load(store, {}) == Settings()


@pytest.mark.parametrize("name", ["words-0", "../../private/words-0", "{private}/words-0"])
def test_an_index_that_a_foreign_database_names_elsewhere_is_rebuilt_here(
    tmp_path: Path, outside: Path, name: str
) -> None:
    store = tmp_path / "project" / ".cofio"
    with Engine.open(store, settings=QUIET) as memory:
        memory.write(Scope("demo"), text="hello there")
        memory.settle()
    before = listed(outside)
    (store / "index" / "words-0").symlink_to(outside / "words-0")
    with apsw.Connection(str(store / "memory.db")) as connection:
        connection.execute("UPDATE state SET index_name = ?", (name.format(private=outside),))
    connection.close()
    with Engine.open(store, settings=QUIET) as memory:
        assert len(memory.search(Query(text="hello"))) == 1
        memory.write(Scope("demo"), text="hello again")
        memory.settle()
        memory.reindex()
        assert len(memory.search(Query(text="hello"))) == 2
        assert memory.check() == []
    assert listed(outside) == before


def test_an_index_that_holds_a_link_is_rebuilt(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "store", settings=QUIET) as memory:
        memory.write(Scope("demo"), text="hello there")
        memory.settle()
    (index,) = (tmp_path / "store" / "index").glob("words-*")
    (index / ".tantivy-writer.lock").unlink(missing_ok=True)
    (index / ".tantivy-writer.lock").symlink_to(tmp_path / "new")
    with Engine.open(tmp_path / "store", settings=QUIET) as memory:
        memory.write(Scope("demo"), text="hello again")
        memory.settle()
        assert len(memory.search(Query(text="hello"))) == 2
    assert not (tmp_path / "new").exists()
    assert not index.exists()


def test_vector_codes_behind_links_are_not_used_and_pipes_not_waited_for(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as memory:
        memory.write(Scope("demo"), text="hello there")
        memory.settle()
    os.mkfifo(tmp_path / "pipe")
    (store / "vectors" / "1-1.codes").symlink_to(tmp_path / "pipe")
    with apsw.Connection(str(store / "memory.db")) as connection:
        for high, name in enumerate(["1-1.codes", "../../pipe", str(tmp_path / "pipe")], 1):
            connection.execute(
                "INSERT INTO segment (embedder, high, low, name) SELECT no, ?, ?, ? FROM embedder",
                (high, high - 1, name),
            )
    connection.close()
    with Engine.open(store, settings=QUIET, embedder=HashedEmbedder()) as memory:
        assert len(memory.check()) == 3
        assert len(memory.search(Query(text="hello there", floor=0.0))) == 1
        memory.reindex()
        assert memory.check() == []
    assert (tmp_path / "pipe").exists()


def test_what_is_known_of_files_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    big = tmp_path / "index" / "big"
    big.write_bytes(b"x" * 9 * 2**20)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "sound.tmp").symlink_to("victim")
    assert Soundness(tmp_path / "sound.json").holds([big], lambda _: True)
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (tmp_path / "sound.json").exists()
    (tmp_path / "sound.tmp").unlink()
    os.mkfifo(tmp_path / "sound.json")
    assert Soundness(tmp_path / "sound.json").holds([big], lambda _: True)
