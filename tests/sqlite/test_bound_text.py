"""No NUL is ever bound as text: SQLite would take it, and PostgreSQL refuses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from tests.everywhere.doors import Doors

from cofio import Invalid, Kind, Query, Scope, Where
from cofio.config.address import StoreAddress
from cofio.library.langgraph import CofioSaver


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that any connection binds to any statement."""
    texts: list[str] = []

    def trace(_cursor: apsw.Cursor, _sql: str, values: Sequence[Any] | Mapping[str, Any] | None) -> bool:
        each = values.values() if isinstance(values, Mapping) else values or ()
        texts.extend(value for value in each if isinstance(value, str))
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, watch])
    return texts


@pytest.fixture
def doors(bound: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doors]:
    """Every door on one store, whose connections are watched."""
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")
    monkeypatch.setenv("COFIO_SYNC", "normal")
    opened = Doors(StoreAddress(folder=tmp_path / ".cofio"), tmp_path)
    yield opened
    opened.close()


def test_no_door_binds_a_nul_as_text(doors: Doors, bound: list[str]) -> None:
    engine = doors.engine
    note = doors.mcp.write("A topic", "walrus in the note", tags=["x"])
    assert doors.mcp.set_state(key="k", value={"nul": "a\0b"}).error
    doors.animus.error("memory/put", {"scope": {"project_id": "p"}, "key": "k", "value": "a\0b"})
    doors.animus.put({"project_id": "p"}, "k", {"note": "walrus in the item"})
    for key, value in (("k", "a\0b"), ("k\0", "walrus")):
        with pytest.raises(Invalid):
            doors.run(doors.library.put(("a", "b"), key, value))
    doors.run(doors.library.put(("a", "b"), "k", {"note": "walrus"}))
    doors.langgraph.put(("a",), "l", {"note": "walrus"})
    doors.files("default", "create", path="/memories/d/a.md", file_text="walrus")
    doors.files("default", "rename", old_path="/memories/d", new_path="/memories/e")
    doors.files("default", "view", path="/memories")
    message = {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": "I love walruses."}
    doors.api.add(message, session="s")
    doors.api.flush("s")
    doors.api.search("walrus")
    engine.settle()
    for mode in ("bm25", "hybrid"):
        assert "walrus" in doors.mcp.search_context(query="walrus \0", search_mode=mode, everywhere=True).text
    assert engine.list(Scope("store"), kinds=[Kind.ITEM], filter=Where("key", ">=", "k"))
    assert engine.ids(note[:4]) == [note]
    assert engine.search(Query("walrus", scope=Scope("files")))
    doors.langgraph.search(("a",), query="walrus", filter={"note": "walrus"})
    doors.langgraph.list_namespaces(prefix=("a",))
    doors.cli("export")
    doors.cli("rm", "--scope", "mcp", "--yes")
    assert len(bound) > 100, "nothing was watched"
    assert [text for text in bound if "\0" in text] == []


def test_a_saver_binds_no_nul_as_text(tmp_path: Path, bound: list[str]) -> None:
    with CofioSaver.open(tmp_path / "store") as saver:
        config: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for _ in range(3):
            config = saver.put(config, empty_checkpoint(), {"source": "loop", "step": 1, "parents": {}}, {})
            saver.put_writes(config, [("channel", "a value \0")], "task")
        assert len(list(saver.list(config))) == 1
        assert len(list(saver.list({"configurable": {"thread_id": "t"}}, before=config))) == 2
        assert len(list(saver.list({"configurable": {"thread_id": "t"}}, limit=2))) == 2
        saver.delete_thread("t")
    assert len(bound) > 20, "nothing was watched"
    assert [text for text in bound if "\0" in text] == []
