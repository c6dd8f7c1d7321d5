"""The page works in a real browser, with script and without; test_browser.py has all the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.servers import cofio

from cofio import Engine, Scope

from .conftest import SETTINGS
from .real_browser import Tab

OpenWindow = Callable[..., Tab]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a few notes."""
    store = tmp_path_factory.mktemp("page") / "store"
    with Engine.open(store, settings=SETTINGS) as engine:
        for number in range(12):
            engine.write(Scope("edit"), title=f"Note {number}", text=f"The note with the number {number}.")
    return store


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """A server on the notes."""
    with cofio("--store", str(folder), "--workers", "0") as url:
        yield url


@pytest.mark.requirement("page:typing", "page:keyboard")
def test_results_appear_as_one_types_and_a_record_is_edited_by_keys(open_window: OpenWindow, server: str) -> None:
    tab = open_window(server)
    page = tab.open("/")
    page.keyboard.type("number 5")  # the box has the focus from the start
    expect(page.locator("#results .hit mark").first).to_be_visible()
    expect(page).to_have_url("/?q=number+5")
    page.get_by_role("link", name="Note 5").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Note 5")
    tab.press("e")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    tab.press("Control+End")
    page.keyboard.type(" And more.")
    tab.press("Control+Enter")
    expect(page.get_by_role("status")).to_have_text("Saved.")
    expect(page.locator(".record-text")).to_contain_text("And more.")
    assert tab.complaints == []


@pytest.mark.requirement("page:script-free")
def test_search_edit_and_delete_work_without_script(open_window: OpenWindow, server: str) -> None:
    page = open_window(server, java_script_enabled=False).open("/?scope=edit")
    page.locator("input[type=search]").fill("number 7")
    page.get_by_role("button", name="Search").click()
    expect(page).to_have_url("/?q=number+7&mode=hybrid&scope=edit")
    page.get_by_role("link", name="Note 7").click()
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("Title").fill("Note seven")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Note seven")
    expect(page.locator("footer [data-zone]")).to_have_text("Times in UTC")
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status").first).to_contain_text("Deleted: Note seven")


@pytest.mark.requirement("page:text", "page:edit")
def test_what_a_form_sends_back_untouched_stays_as_it_was_though_it_is_not_seen(
    open_window: OpenWindow, server: str, folder: Path
) -> None:
    hidden = "\u05d0\u200f\u202e \u00adsoft \ufeff \u200b \x1b[31m &amp; <b></textarea><script>x</script>"
    page = open_window(server).page
    with Engine.open(folder, settings=SETTINGS) as engine:
        record = engine.write(
            Scope("a\u200b"), title=f"t\u202e{hidden}", text=f"\n{hidden}\n\tlone\rreturn", tags=["x\u200by"],
            data={"k\u200b": f"{hidden}\n"},
        )  # fmt: skip
        page.goto(f"/page/record?id={record.id}&edit=1")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_be_visible()
        assert engine.read(record.id) == record
        page.goto(f"/page/record?id={record.id}&edit=1")
        page.get_by_label("Tags").fill("other")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_have_text("Saved.")
        after = engine.read(record.id)
        assert (after.title, after.text, after.data, after.tags) == (record.title, record.text, record.data, ("other",))
