"""The start of the page: an empty store, the example, and what clients need to be told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cofio import Engine, Scope
from cofio.doors.page.start_view import build_start
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer

from .conftest import Browser

Ask = Callable[..., ViewRequest]


@pytest.mark.requirement("page:example")
def test_an_empty_store_shows_the_start_first(browser: Browser) -> None:
    assert "Nothing is remembered yet" in browser.show("/")
    browser.engine.write(Scope("notes"), text="a first note")
    assert "a first note" in browser.show("/")


@pytest.mark.requirement("page:example", "page:script-free")
def test_the_example_comes_by_a_button_and_goes_by_one(browser: Browser) -> None:
    answer = browser.post("/page/start/example")
    assert answer.status_code == 303
    page = browser.show(answer.headers["location"])
    assert "allergic to nuts" in page
    assert "The example is here" in page
    assert "Take it away" in browser.show("/page/start")
    mine = browser.engine.write(Scope("notes"), text="mine")
    assert browser.post("/page/start/remove-example").status_code == 303
    assert [each.id for each in browser.engine.list()] == [mine.id]
    again = browser.post("/page/start/remove-example")
    assert again.status_code == 409
    assert "nothing was taken away" in again.text


@pytest.mark.requirement("page:example")
def test_the_example_is_never_put_among_the_records_of_others(browser: Browser) -> None:
    browser.engine.write(Scope("demo"), text="mine")
    answer = browser.post("/page/start/example")
    assert answer.status_code == 409
    assert "nothing was written" in answer.text
    assert browser.engine.count() == 1


@pytest.mark.requirement("page:start")
def test_each_client_is_told_the_address_of_this_server(browser: Browser) -> None:
    page = browser.show("/page/start")
    assert "claude mcp add --transport http cofio http://127.0.0.1/mcp" in page
    data = browser.read("start")
    assert {each["id"] for each in data["clients"]} >= {"claude-code", "cursor", "vscode", "codex", "opencode"}
    assert all("http://127.0.0.1" in each["text"] or "cofio " in each["text"] for each in data["clients"])


@pytest.mark.requirement("page:start")
def test_who_has_written_is_shown_with_the_last_time(memory: Engine, ask: Ask) -> None:
    memory.write(Scope("a"), text="one", source="mcp", author="claude")
    memory.write(Scope("a"), text="two", source="mcp", author="codex")
    last = memory.write(Scope("a"), text="three", source="cli")
    writers = build_start(ask()).writers
    assert [(each.door, each.count) for each in writers] == [("command line", 1), ("MCP", 2)]
    assert writers[0].last == last.updated_at
    assert writers[1].authors == ("codex", "claude")


@pytest.mark.requirement("page:start")
def test_what_lies_on_the_machine_is_found_to_import(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVEROS_MEMORY__ROOT", str(tmp_path / "none"))
    monkeypatch.setenv("AGENT_STORE_PATH", str(tmp_path / "peer"))
    assert not any(each.is_here for each in build_start(ask()).imports)
    (tmp_path / "peer" / "chunks").mkdir(parents=True)
    (tmp_path / "peer" / "chunks" / "a.md").write_text("a chunk")
    assert [each.name for each in build_start(ask()).imports if each.is_here] == ["agent-memory-store"]


@pytest.mark.requirement("page:reach")
def test_a_limited_viewer_learns_nothing_of_others_at_the_start(memory: Engine, ask: Ask) -> None:
    memory.write(Scope("notes"), text="one", author="sam")
    model = build_start(ask(Viewer(reach=Scope("rest", "shop"))))
    assert model.is_empty
    assert model.writers == ()
    assert model.imports == ()
    assert not model.has_example
