"""The start of the page: an empty store, the example, and what clients need to be told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cofio import Engine, Scope
from cofio.doors.page.start_view import build_start
from cofio.doors.page.view_types import ViewRequest

from .conftest import Browser

Ask = Callable[..., ViewRequest]


@pytest.mark.requirement("page:home", "page:example", "page:script-free")
def test_an_empty_store_shows_the_start_first_and_the_example_comes_and_goes_by_a_button(browser: Browser) -> None:
    assert "Nothing is remembered yet" in browser.show("/")
    assert browser.client.get("/").json()["mcp"] == "/mcp"  # other clients learn where the doors are
    answer = browser.post("/page/start/example")
    assert answer.status_code == 303
    page = browser.show(answer.headers["location"])
    assert "allergic to nuts" in page
    assert "The example is here" in page
    assert "Take it away" in browser.show("/page/start")
    mine = browser.engine.write(Scope("notes"), text="a first note")
    assert "a first note" in browser.show("/")
    assert browser.post("/page/start/remove-example").status_code == 303
    assert [each.id for each in browser.engine.list()] == [mine.id]
    again = browser.post("/page/start/remove-example")
    assert again.status_code == 409
    assert "nothing was taken away" in again.text
    browser.engine.write(Scope("demo"), text="mine")
    refused = browser.post("/page/start/example")
    assert refused.status_code == 409
    assert "nothing was written" in refused.text
    assert browser.engine.count() == 2


@pytest.mark.requirement("page:start")
def test_each_client_is_told_the_address_of_this_server_and_who_has_written_is_shown(
    browser: Browser, memory: Engine, ask: Ask
) -> None:
    assert "claude mcp add --transport http cofio http://127.0.0.1/mcp" in browser.show("/page/start")
    clients = browser.read("start")["clients"]
    assert {each["id"] for each in clients} >= {"claude-code", "cursor", "vscode", "codex", "opencode"}
    assert all("http://127.0.0.1" in each["text"] or "cofio " in each["text"] for each in clients)
    for author in ("claude", "codex"):
        memory.write(Scope("a"), text="one", source="mcp", author=author)
    last = memory.write(Scope("a"), text="three", source="cli")
    writers = build_start(ask()).writers
    assert [(each.door, each.count) for each in writers] == [("command line", 1), ("MCP", 2)]
    assert (writers[0].last, writers[1].authors) == (last.updated_at, ("codex", "claude"))


@pytest.mark.requirement("page:start")
def test_what_lies_on_the_machine_is_found_to_import(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVEROS_MEMORY__ROOT", str(tmp_path / "none"))
    monkeypatch.setenv("AGENT_STORE_PATH", str(tmp_path / "peer"))
    assert not any(each.is_here for each in build_start(ask()).imports)
    (tmp_path / "peer" / "chunks").mkdir(parents=True)
    (tmp_path / "peer" / "chunks" / "a.md").write_text("a chunk")
    assert [each.name for each in build_start(ask()).imports if each.is_here] == ["agent-memory-store"]
