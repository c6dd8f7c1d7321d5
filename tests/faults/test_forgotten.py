"""What was deleted or replaced can soon be read in no file of the store, also while a server runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
import tantivy
from tests.waiting import wait_until

from cofio import Draft, Engine, Scope, Settings
from cofio.backends.sqlite import SqliteBackend
from cofio.embed.hashed import HashedEmbedder
from cofio.text.tokenizer import split_words

DEMO = Scope("demo")
PATIENCE = 60.0  # seconds that the background work of a busy machine is given
NOTE, SAID, STATE, KNOWN, FILE = "quaggafoal", "axolotlgill", "numbatclaw", "tapirsnout", "dugongtail"
FOUND = "numbatclawnumbatclaw"  # what a search of checkpoints takes in


def remains(store: Path, *sought: str) -> list[str]:
    """Where the words still are: in the bytes of any file, or in a dictionary of the word index."""
    found = [
        f"{word} in {path.relative_to(store)}"
        for path in store.rglob("*")
        if path.is_file()
        for word in sought
        if word[:8].encode() in _bytes(path).lower()
    ]
    for folder in (store / "index").glob("words-*"):
        index = tantivy.Index.open(str(folder))
        index.reload()
        searcher = index.searcher()
        found += [
            f"{word} in the terms of {folder.name}"
            for word in sought
            for stem in split_words(word)
            if searcher.doc_freq("body", stem)
        ]
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # the store is in use
        return b""


def is_forgotten(store: Path, *sought: str) -> bool:
    try:
        return not remains(store, *sought)
    except ValueError:  # the index was just being written
        return False


def opened(store: Path, *, background: bool = False, **more: Any) -> Engine:
    settings = Settings(background=background, embedder="none", sync="normal")
    return Engine.open(store, settings=settings, **more)


def fill(engine: Engine, count: int) -> list[str]:
    """Remember so many things, in several segments."""
    ids = []
    for start in range(0, count, 1000):
        drafts = [
            Draft(scope=DEMO, text=f"filler {number} about things") for number in range(start, min(start + 1000, count))
        ]
        ids += [record.id for record in engine.write_many(drafts)]
        engine.settle()
    return ids


def cofio(store: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "cofio", *arguments, "--store", str(store)],
        env=environ(), capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    return ran.stdout.strip()


def environ() -> dict[str, str]:
    return {**os.environ, "COFIO_EMBEDDER": "none", "COFIO_SYNC": "normal"}


@contextmanager
def serving(store: Path) -> Iterator[Callable[..., Any]]:
    """A real server; what it is called with is a path, and a body or a method."""
    command = [sys.executable, "-m", "cofio", "--store", str(store), "serve", "--port", "0"]
    with subprocess.Popen(command, env=environ(), stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+\d", line)))

            def call(path: str, body: Any = None, method: str = "POST") -> Any:
                data = None if body is None else json.dumps(body).encode()
                sent = urllib.request.Request(address + path, data, {"content-type": "application/json"}, method=method)
                with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:
                    return json.load(answer)

            yield call
        finally:
            server.terminate()
            server.wait(PATIENCE)


def test_a_server_leaves_nothing_of_what_was_deleted_in_any_file(tmp_path: Path) -> None:
    store = tmp_path / "store"
    note = cofio(store, "add", f"The {NOTE} sleeps.", "--title", NOTE)
    cofio(store, "add", "The heron stays.")
    cofio(store, "files", "write", "a.md", f"the {FILE} is white")
    with serving(store) as call:
        message = {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": f"I live in {SAID}."}
        call("/api/v1/memory/add", {"session_id": "s", "messages": [message]})
        call("/api/v1/memory/flush", {"session_id": "s"})
        saved = {"state": {"said": [STATE * 3]}, "checkpoint_id": "c", "metadata": {"who": KNOWN}}
        call("/threads/t/checkpoints", saved)
        call("/threads/t/checkpoints", {**saved, "state": {"said": [FOUND]}})
        assert remains(store, NOTE)
        assert remains(store, SAID)
        assert remains(store, STATE)
        assert remains(store, KNOWN)
        cofio(store, "rm", note)  # a command beside the server
        call("/api/v1/memory/delete", {"session_id": "s"})
        call("/threads/t/checkpoints", method="DELETE")
        call("/api/v1/memory-tool", {"command": "delete", "path": "/memories/a.md"})
        cofio(store, "rm", "--scope", "history/files", "--yes")
        wait_until(lambda: is_forgotten(store, NOTE, SAID, STATE, KNOWN, FILE))
    assert remains(store, NOTE, SAID, STATE, KNOWN, FILE) == []
    assert "heron" in cofio(store, "list")


def test_a_command_and_the_doctor_leave_nothing_of_what_was_forgotten(tmp_path: Path) -> None:
    store = tmp_path / "store"
    note = cofio(store, "add", f"The {SAID} sleeps.", "--title", SAID)
    with opened(store) as engine:
        doomed = engine.write(DEMO, text=f"the {NOTE} patient")
        fill(engine, 100)
    cofio(store, "rm", note)
    assert remains(store, SAID) == []
    with opened(store) as engine:
        engine.delete(doomed.id)
        engine.settle()
        assert list(engine.remains()) == ["words of records"]
    assert remains(store, NOTE)
    assert "`cofio doctor --fix` removes them now" in cofio(store, "doctor")
    assert "nothing of it is left" in cofio(store, "doctor", "--fix")
    assert remains(store, NOTE) == []


def test_the_background_work_removes_what_was_replaced_or_has_expired(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with opened(store, background=True) as engine:
        edited = engine.write(DEMO, text=f"the {NOTE} patient")
        engine.put(DEMO, "key", text=f"the {SAID}", ttl=3600)
        engine.checkpoints.save("library", "t", "c", {"said": STATE})
        fill(engine, 100)
        engine.edit(edited.id, text="somebody")
        engine.put(DEMO, "key", text="something else", ttl=3600)
        engine.checkpoints.save("library", "t", "c", {"said": "nothing"})
        wait_until(lambda: is_forgotten(store, NOTE, SAID, STATE))
        assert engine.read(edited.id).text == "somebody"
        assert engine.check() == []


def test_files_of_codes_are_written_anew_without_deleted_vectors(tmp_path: Path) -> None:
    with opened(tmp_path / "store", embedder=HashedEmbedder()) as engine:
        ids = fill(engine, 6000)
        codes = {file.name: file.stat().st_size for file in (tmp_path / "store" / "vectors").glob("*.codes")}
        for each in ids[10:15]:
            engine.delete(each)
        engine.settle()
        assert engine.remains()["vectors"]
        assert engine.scrub()
        left = {file.name: file.stat().st_size for file in (tmp_path / "store" / "vectors").glob("*.codes")}
        assert sum(left.values()) < sum(codes.values())
        assert engine.remains() == {}
        assert engine.check() == []
        for each in ids[20:]:
            engine.delete(each)
        engine.scrub()
        assert engine.check() == []
        assert engine.search("filler 3 about things")[0].record.text == "filler 3 about things"


@pytest.mark.parametrize("how", ["scrub", "reindex"])
def test_words_of_deleted_records_and_checkpoints_leave_the_database(tmp_path: Path, how: str) -> None:
    store = tmp_path / "store"
    with opened(store) as engine:
        doomed = engine.write(DEMO, text=f"the {NOTE} patient")
        fill(engine, 100)
        for number in range(300):
            engine.checkpoints.save("library", f"t{number}", "c", {"said": f"word{number} other"})
        engine.checkpoints.save("library", "secret", "c", {"said": FOUND})
        assert len(engine.checkpoints.search("library", FOUND)) == 1
        engine.delete(doomed.id)
        engine.checkpoints.delete("library", "secret")
        assert engine.remains()["words of checkpoints"] == 1
        getattr(engine, how)()
        assert remains(store, NOTE, FOUND) == []
        assert len(engine.checkpoints.search("library", "word7")) == 1


def test_a_database_that_is_written_anew_has_no_deleted_words_in_its_gaps(tmp_path: Path) -> None:
    """SQLite zeroes what it deletes, but not the copies that it leaves when it moves rows between pages."""
    chance = Random(1)
    backend = SqliteBackend(tmp_path / "store", sync="normal")
    living: dict[int, str] = {}

    def change(connection: apsw.Connection) -> None:
        connection.execute(
            "CREATE TABLE plain (no INTEGER PRIMARY KEY, id TEXT UNIQUE, text TEXT);"
            "CREATE TABLE keyed (a, b, text, PRIMARY KEY (a, b)) WITHOUT ROWID"
        )
        for number in range(20_000):
            word = f"word{number:06}q"
            if living and chance.random() < 0.45:
                no = chance.choice(list(living))
                connection.execute("DELETE FROM keyed WHERE b = ?", (living.pop(no),))
                connection.execute("DELETE FROM plain WHERE no = ?", (no,))
                continue
            text = f"{word} " * chance.choice((1, 3, 20, 200, 1200))
            connection.execute("INSERT INTO plain VALUES (?, ?, ?)", (number, word, text))
            short = (chance.randrange(50), word, word * chance.choice((1, 10, 100)))
            connection.execute("INSERT INTO keyed VALUES (?, ?, ?)", short)
            living[number] = word

    backend._database.write(change)
    assert backend.derived.erasure.compact()
    held = set(re.findall(r"word\d{6}q", (tmp_path / "store" / "memory.db").read_bytes().decode("latin-1")))
    assert held == set(living.values())
    backend.close()
