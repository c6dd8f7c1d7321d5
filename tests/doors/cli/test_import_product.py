"""`cofio import agent-memory-store`: another product's memory is taken over and told of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ...importing.peer import Peer, contents
from .conftest import Cofio, Ran


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of the product is set."""
    monkeypatch.delenv("AGENT_STORE_PATH", raising=False)


@pytest.fixture
def peer(folder: Path) -> Iterator[Peer]:
    """The product, running where it runs when it is told nothing."""
    running = Peer(folder / ".agent-memory-store")
    yield running
    running.stop()


def test_a_memory_is_taken_over_from_the_products_own_folder_and_once(cofio: Cofio, peer: Peer, folder: Path) -> None:
    peer.write("Auth: chose JWT", "Stateless.", id="abc123def0", tags=["auth"], agent="pm")
    peer.set("branch", "main")
    product = contents(folder / ".agent-memory-store")
    ran = cofio("import", "agent-memory-store")
    assert ran.out == "imported 2 records from .agent-memory-store (1 chunk and 1 state)\n"
    assert ran.err == f"cofio: made a new memory in {folder / '.cofio'}\n"
    assert ran.code == 0
    assert cofio("show", "abc123def0").out.endswith("Stateless.\n")
    assert cofio("show", "--key", "branch", "--kind", "state", "--json").json["data"] == "main"
    assert [row[2] for row in cofio("search", "jwt", "--scope", "mcp").rows] == ["abc123def0"]
    assert cofio("stats", "--json").json["waiting_for_vectors"] == 0
    before = cofio("export", "--scope", "mcp").out
    again = cofio("import", "agent-memory-store").out
    assert again.endswith("; 2 records were here already, as new or newer\n")
    assert cofio("import", "agent-memory-store", "--json").json == {
        "imported": 0, "kept": 2, "chunks": 1, "states": 1, "vectors": 0, "expired": 0, "masked": 0, "changed": 0,
        "refused": 0,
    }  # fmt: skip
    assert cofio("export", "--scope", "mcp").out == before
    assert contents(folder / ".agent-memory-store") == product


def test_the_folder_may_be_named_or_set_and_the_memory_may_live_in_it(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("named", "set"):
        peer = Peer(folder / name)
        peer.write(name)
        peer.stop()
    before = (folder / "set" / "store.db").read_bytes()
    assert "from named (1 chunk" in cofio("import", "agent-memory-store", "named").out
    assert "from named/store.db (1 chunk" in cofio("import", "agent-memory-store", "named/store.db").out
    monkeypatch.setenv("AGENT_STORE_PATH", str(folder / "set"))
    assert f"from {folder / 'set'} (1 chunk" in cofio("import", "agent-memory-store").out
    assert (folder / "set" / "memory.db").is_file()
    assert [row[4] for row in cofio("list", "--scope", "mcp").rows] == ["set"]
    assert cofio("import", "agent-memory-store").out.startswith("imported 0 records")
    assert (folder / "set" / "store.db").read_bytes() == before


def test_what_is_refused_fitted_and_expired_is_told(cofio: Cofio, peer: Peer) -> None:
    peer.write("", "", id="nothing")
    peer.write("Odd", id="odd", importance="urgent")
    peer.write("Old", expires="2020-01-01T00:00:00.000Z")
    ran = cofio("import", "agent-memory-store", "--no-vectors")
    assert ran.code == 1
    assert ran.out == (
        "imported 1 record from .agent-memory-store (1 chunk and 0 states); 1 chunk had expired; 1 refused\n"
    )
    assert "cofio: odd: its importance 'urgent' is none of ours, and becomes medium\n" in ran.err
    assert "cofio: nothing refused: text: is empty; a record without a key needs text or a title" in ran.err
    said = cofio("import", "agent-memory-store", "--json")
    assert said.code == 1
    assert (said.json["expired"], said.json["changed"], said.json["refused"]) == (1, 1, 1)


@pytest.mark.parametrize("path", [[], ["nowhere"], ["empty"]])
def test_where_there_is_no_memory_it_is_told_and_none_is_made(cofio: Cofio, folder: Path, path: list[str]) -> None:
    (folder / "empty").mkdir()
    ran = cofio("import", "agent-memory-store", *path)
    assert (ran.code, ran.out) == (1, "")
    named = path[0] if path else ".agent-memory-store"
    assert ran.err == (
        f"cofio: there is no memory of agent-memory-store in {named}: name the folder that holds its store.db\n"
    )
    assert [file.name for file in folder.iterdir()] == ["empty"]
    (folder / "empty" / "store.db").write_bytes(b"garbage" * 1000)
    ran = cofio("import", "agent-memory-store", "empty")
    assert (ran.code, ran.out) == (1, "")
    assert "is no database; name the folder that holds the store.db" in ran.err


def test_someone_who_watches_sees_how_far_it_is(terminal: Callable[..., Ran], peer: Peer) -> None:
    peer.many(1200)
    ran = terminal("import", "agent-memory-store")
    assert ran.code == 0
    assert "taking over" in ran.err
    assert "imported 1,200 records from .agent-memory-store" in ran.err
