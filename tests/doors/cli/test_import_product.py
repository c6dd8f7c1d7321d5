"""`cofio import agent-memory-store`: another product's memory is taken over and told of."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cofio.config.address import StoreAddress

from ...importing.peer import Peer, contents, turned, vector
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


def test_a_memory_is_taken_over_from_the_products_own_folder(
    cofio: Cofio, peer: Peer, folder: Path, default_store: StoreAddress
) -> None:
    peer.write("Auth: chose JWT", "Stateless.", id="abc123def0", tags=["auth"], agent="pm")
    peer.set("branch", "main")
    before = contents(folder / ".agent-memory-store")
    ran = cofio("import", "agent-memory-store")
    assert ran.out == "imported 2 records from .agent-memory-store (1 chunk and 1 state)\n"
    assert ran.err == f"cofio: made a new memory in {default_store}\n"
    assert ran.code == 0
    assert cofio("show", "abc123def0").out.endswith("Stateless.\n")
    assert cofio("show", "--key", "branch", "--kind", "state", "--json").json["data"] == "main"
    assert [row[2] for row in cofio("search", "jwt", "--scope", "mcp").rows] == ["abc123def0"]
    assert cofio("stats", "--json").json["waiting_for_vectors"] == 0
    assert contents(folder / ".agent-memory-store") == before


def test_a_second_time_changes_nothing_and_says_so(cofio: Cofio, peer: Peer) -> None:
    peer.many(3)
    cofio("import", "agent-memory-store")
    before = cofio("export", "--scope", "mcp").out
    again = cofio("import", "agent-memory-store")
    assert again.out == (
        "imported 0 records from .agent-memory-store (3 chunks and 0 states);"
        " 3 records were here already, as new or newer\n"
    )
    assert cofio("import", "agent-memory-store", "--json").json == {
        "imported": 0, "kept": 3, "chunks": 3, "states": 0, "vectors": 0, "expired": 0, "masked": 0, "changed": 0,
        "refused": 0,
    }  # fmt: skip
    assert cofio("export", "--scope", "mcp").out == before


@pytest.mark.folder_only("stores that are named are folders")
def test_the_folder_may_be_named_or_set(cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("named", "set"):
        peer = Peer(folder / name)
        peer.write(name)
        peer.stop()
    assert "from named (1 chunk" in cofio("import", "agent-memory-store", "named").out
    monkeypatch.setenv("COFIO_STORE", str(folder / ".cofio"))
    monkeypatch.setenv("AGENT_STORE_PATH", str(folder / "set"))
    assert f"from {folder / 'set'} (1 chunk" in cofio("import", "agent-memory-store").out
    assert "from named/store.db (1 chunk" in cofio("import", "agent-memory-store", "named/store.db").out
    assert len(cofio("list", "--scope", "mcp").rows) == 2


@pytest.mark.folder_only("the memory is in the product's folder")
def test_the_memory_may_live_in_the_products_folder(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer(folder / "shared")
    peer.many(5)
    peer.stop()
    before = (folder / "shared" / "store.db").read_bytes()
    monkeypatch.setenv("AGENT_STORE_PATH", str(folder / "shared"))
    assert cofio("import", "agent-memory-store").code == 0
    assert (folder / "shared" / "memory.db").is_file()
    assert len(cofio("list", "--scope", "mcp").rows) == 5
    assert cofio("import", "agent-memory-store").out.startswith("imported 0 records")
    assert (folder / "shared" / "store.db").read_bytes() == before


def test_what_is_refused_fitted_and_expired_is_told(cofio: Cofio, peer: Peer) -> None:
    peer.write("", "", id="nothing")
    peer.write("Odd", id="odd", importance="urgent")
    peer.write("Old", expires="2020-01-01T00:00:00.000Z")
    ran = cofio("import", "agent-memory-store")
    assert ran.code == 1
    assert ran.out == (
        "imported 1 record from .agent-memory-store (1 chunk and 0 states); 1 chunk had expired; 1 refused\n"
    )
    assert "cofio: odd: its importance 'urgent' is none of ours, and becomes medium\n" in ran.err
    assert "cofio: nothing refused: text: is empty; a record without a key needs text or a title" in ran.err
    said = cofio("import", "agent-memory-store", "--json")
    assert said.code == 1
    assert (said.json["expired"], said.json["changed"], said.json["refused"]) == (1, 1, 1)


@pytest.mark.folder_only("stores that are named are folders")
def test_vectors_are_kept_or_made_or_left_for_later(cofio: Cofio, peer: Peer) -> None:
    peer.many(5, embedded=True)
    kept = cofio("import", "agent-memory-store", "--store", "kept", "--no-vectors", "--json")
    assert kept.json["vectors"] == 5
    assert cofio("stats", "--store", "kept", "--json").json["vectors:hashed-384"] == 5
    for number in range(5):
        peer.write("Other", f"{number}", id=f"{number:010x}", embedding=turned(vector("Other", f"{number}")))
    made = cofio("import", "agent-memory-store", "--store", "made")
    assert "cofio: its vectors are not kept: they are unlike those of hashed-384" in made.err
    assert cofio("stats", "--store", "made", "--json").json["waiting_for_vectors"] == 0
    cofio("import", "agent-memory-store", "--store", "later", "--no-vectors")
    stats = cofio("stats", "--store", "later", "--json").json
    assert (stats["waiting_for_vectors"], stats["waiting_for_index"]) == (6, 0)  # with the mark that it is done


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


def test_a_damaged_or_foreign_file_is_told(cofio: Cofio, folder: Path) -> None:
    (folder / "store.db").write_bytes(b"garbage" * 1000)
    ran = cofio("import", "agent-memory-store", ".")
    assert (ran.code, ran.out) == (1, "")
    assert "is no database; name the folder that holds the store.db" in ran.err


@pytest.mark.folder_only("no store is opened")
@pytest.mark.parametrize("product", ["mem0", "memory.jsonl", "-"])
def test_a_folder_with_any_other_name_is_wrong_usage(cofio: Cofio, folder: Path, product: str) -> None:
    ran = cofio("import", product, "folder")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"cofio import: {product} is not a product whose memory can be taken over; agent-memory-store and everos are\n"
        "Try `cofio import --help`.\n"
    )
    assert list(folder.iterdir()) == []


def test_someone_who_watches_sees_how_far_it_is(terminal: Callable[..., Ran], peer: Peer) -> None:
    peer.many(1200)
    ran = terminal("import", "agent-memory-store")
    assert ran.code == 0
    assert "taking over" in ran.err
    assert "imported 1,200 records from .agent-memory-store" in ran.err


def test_it_is_a_command_of_the_shell(command: Callable[[str], subprocess.CompletedProcess[str]], peer: Peer) -> None:
    peer.write("One")
    ran = command("cofio import agent-memory-store --json && cofio list --scope mcp --json")
    first, second = ran.stdout.splitlines()
    assert json.loads(first)["imported"] == 1
    assert json.loads(second)["title"] == "One"
