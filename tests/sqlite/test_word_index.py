"""What the word index is asked for beside words: facets that every record has which words can find are left out."""

from __future__ import annotations

from pathlib import Path

from cofio import Engine, Kind, Query, Scope, Settings
from cofio.backends.sqlite import SqliteBackend
from cofio.backends.sqlite.word_index import LoadedIndex, make_facet

QUIET = Settings(background=False, embedder="none", sync="normal")
HOME = Scope("a")
NOTES, FACTS = (make_facet("kind", kind.encode()) for kind in (Kind.NOTE, Kind.FACT))


def load_index(memory: Engine) -> LoadedIndex:
    """The index with all that was written."""
    memory.settle()
    memory.search(Query("fig", mode="keyword"))
    backend = memory._backend
    assert isinstance(backend, SqliteBackend)
    loaded = backend._words._loaded
    assert loaded is not None
    return loaded


def test_facets_need_not_be_asked_for_that_all_have_whom_words_can_find(tmp_path: Path) -> None:
    with Engine.open(tmp_path, settings=QUIET) as memory:
        memory.write(HOME, text="fig")
        memory.put(Scope("b"), "count", data={"fig": 1}, kind=Kind.LEDGER)
        loaded = load_index(memory)
        assert not loaded.all_have(NOTES)
        assert loaded.all_found_have([NOTES])
        assert loaded.all_found_have([make_facet("exact", HOME.path)])
        fact = memory.write(HOME, text="fig and plum", kind=Kind.FACT)
        loaded = load_index(memory)
        assert not loaded.all_found_have([NOTES])
        assert loaded.all_found_have([NOTES, FACTS])
        found = memory.search(Query("fig", mode="keyword", scope=HOME, exact=True, kinds=(Kind.FACT, Kind.TURN)))
        assert [hit.record.id for hit in found] == [fact.id]
