"""What a process knows to have vectors beyond what the database says."""

from __future__ import annotations

from cofio.backends.sqlite.vector_rows import EmbeddedChanges


def test_it_holds_for_one_embedder_and_not_for_a_database_that_was_put_back() -> None:
    embedded = EmbeddedChanges()
    embedded.note(7, 1, 10)
    assert embedded.find(7, 1, seen=3, newest=12) == 10
    assert embedded.find(7, 1, seen=11, newest=12) == 11
    assert embedded.find(7, 1, seen=3, newest=9) == 3
    assert embedded.find(7, 2, seen=3, newest=12) == 3
    assert embedded.find(8, 1, seen=3, newest=12) == 3
