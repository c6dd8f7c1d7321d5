"""The page in a real browser: every screen and action, by keyboard alone, in every form, and when things go wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from cofio import Engine, Kind, Scope, Settings
from cofio.conversations.conversations import Conversations
from cofio.doors.example_memory import ExampleMemory
from cofio.doors.page import view_table
from cofio.doors.web.tokens import Tokens
from cofio.values.changes import Edit
from cofio.values.records import Draft
from cofio.vault.vault import Vault

from .real_browser import AXE, PageServerProcess, Tab, open_chromium
from .test_security import HOSTILE

SETTINGS = Settings(background=False, embedder="hashed", sync="normal")
SCREENS = sorted(view.name for view in view_table.VIEWS)
pytestmark = pytest.mark.folder_only("it is about the browser; the views are tested on every backend")
OpenTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    with open_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServerProcess]:
    """A server of two workers on the example memory, a hostile one beside it, and notes to edit."""
    store = tmp_path_factory.mktemp("page") / "store"
    with Engine.open(store, settings=SETTINGS) as engine:
        with closing(Vault(engine, store / "vault")) as vault:
            conversations = Conversations(engine, mirror=vault)
            ExampleMemory(conversations).load()
            make_vault_conflict(conversations, vault)
        for text in HOSTILE:
            engine.write(Scope("hostile", text[:90]), title=text, text=text, tags=[text[:90]], author=text[:90])
        engine.write(Scope("huge"), title="huge", text="word " * 50_000)
        for number in range(12):
            engine.write(Scope("edit"), title=f"Note {number}", text=f"The note with the number {number}.")
    serving = PageServerProcess(store, "--workers", "2")
    yield serving
    serving.end()


def make_vault_conflict(conversations: Conversations, vault: Vault) -> None:
    """Have a person and the memory change one episode."""
    episode = conversations.engine.list(kinds=(Kind.EPISODE,), limit=1)[0]
    file = next(file for file in vault.folder.rglob("episode-*.md") if episode.title in file.read_text())
    file.write_text(file.read_text().replace(episode.title, "The person's subject"))
    conversations.apply([Edit(id=episode.id, fields={"title": "The memory's subject"})])


@pytest.fixture
def open_tab(chromium: Browser, server: PageServerProcess) -> Iterator[OpenTab]:
    """Opens windows that share nothing with each other, and that must not have complained by the end."""
    tabs: list[Tab] = []

    def make(url: str | None = None, **options: Any) -> Tab:
        tabs.append(Tab(chromium, url or server.url, **options))
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.close()


def find_record(tab: Tab, words: str) -> str:
    """The address of the first record that a search finds."""
    link = tab.open(f"/?q={words}").locator("#results .hit-title a").first
    return str(link.get_attribute("href"))


def open_screen(tab: Tab, name: str) -> None:
    """Go to a screen."""
    tab.open(find_record(tab, "allergic") if name == "record" else f"/page/{name}")


@pytest.mark.requirement("page:typing")
def test_results_appear_as_one_types_and_the_address_follows(open_tab: OpenTab) -> None:
    tab = open_tab()
    page = tab.open("/")
    page.keyboard.type("allergic nuts")  # the box has the focus from the start
    expect(page.locator("#results .hit mark").first).to_have_text("allergic")
    expect(page).to_have_url("/?q=allergic+nuts")
    page.keyboard.press("Control+A")
    page.keyboard.type("release day")
    expect(page.locator("#results .hit-title", has_text="Release day")).to_be_visible()
    page.reload()
    expect(page.locator("input[type=search]")).to_have_value("release day")
    page.get_by_label("words alone").check()
    expect(page).to_have_url("/?q=release+day&mode=keyword")
    page.locator('.facet a[href*="mode=keyword"]', has_text="note").first.click()
    expect(page).to_have_url("/?q=release+day&mode=keyword&kind=note")
    page.locator("input[type=search]").fill("staging")
    expect(page).to_have_url("/?q=staging&mode=keyword&kind=note")
    page.go_back()
    assert tab.complaints == []


@pytest.mark.requirement("page:why-not")
def test_why_not_is_a_link_away(open_tab: OpenTab) -> None:
    page = open_tab().open("/?q=allergic+to+nuts")
    page.get_by_role("link", name="why not").click()
    expect(page.get_by_role("heading", name="Why not these?")).to_be_visible()


@pytest.mark.requirement("page:keyboard")
def test_a_record_is_found_edited_and_deleted_without_a_mouse(open_tab: OpenTab) -> None:
    tab = open_tab()
    page = tab.open("/?q=note&scope=edit")
    tab.press("j", "j", "k")
    first = tab.get_focus()
    assert first.startswith("Note")
    tab.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(first)
    tab.press("e")
    box = page.get_by_label("Text", exact=True)
    expect(box).to_be_focused()
    tab.press("Control+End")
    page.keyboard.type(" And more.")
    tab.press("Control+Enter")
    expect(page.get_by_role("status")).to_have_text("Saved.")
    expect(page.locator(".record-text")).to_contain_text("And more.")
    tab.press("d")
    expect(page.get_by_role("button", name="Delete")).to_be_focused()
    tab.press("Escape")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    tab.press("d")
    expect(page.get_by_role("button", name="Delete")).to_be_focused()
    tab.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text(f"Deleted: {first}")
    tab.press("Escape", "?")  # out of the box, which has the focus
    expect(page.get_by_role("dialog")).to_contain_text("go to the search")
    tab.press("Escape", "/")
    expect(page.locator("input[type=search]")).to_be_focused()
    tab.press("Escape")
    expect(page.locator("input[type=search]")).not_to_be_focused()
    assert tab.complaints == []


@pytest.mark.requirement("page:keyboard")
def test_the_first_stop_of_the_tab_key_leads_past_the_navigation(open_tab: OpenTab) -> None:
    tab = open_tab()
    page = tab.open("/page/start")
    tab.press("Tab")
    assert tab.get_focus() == "Skip to the content"
    tab.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


@pytest.mark.requirement("page:script-free")
def test_search_edit_and_delete_work_without_script(open_tab: OpenTab) -> None:
    tab = open_tab(java_script_enabled=False)
    page = tab.open("/?scope=edit")
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


@pytest.mark.requirement("page:themes")
def test_times_are_in_the_zone_of_the_reader_in_as_many_characters(open_tab: OpenTab) -> None:
    tab = open_tab(timezone_id="Asia/Kolkata")
    page = tab.open(find_record(tab, "allergic"))
    moment = page.locator(".facts time").first
    expect(page.locator("[data-zone]")).to_have_text("Times in Asia/Calcutta")
    utc = str(moment.get_attribute("datetime"))
    shown = moment.inner_text()
    assert len(shown) == len("2026-01-01 00:00")
    minutes = (int(shown[11:13]) * 60 + int(shown[14:16])) - (int(utc[11:13]) * 60 + int(utc[14:16]))
    assert minutes % 1440 == 330


@pytest.mark.requirement("page:themes")
@pytest.mark.parametrize("name", SCREENS)
def test_every_screen_fits_a_phone_and_a_double_zoom_and_does_not_shift(open_tab: OpenTab, name: str) -> None:
    tab = open_tab(viewport={"width": 360, "height": 740})
    tab.page.add_init_script(
        "window.shift = 0; new PerformanceObserver((list) => { for (const each of list.getEntries())"
        " if (!each.hadRecentInput) window.shift += each.value; }).observe({type: 'layout-shift', buffered: true});"
    )
    for width in (360, 640, 1280):  # a screen of 1280 at 200 % is one of 640
        tab.page.set_viewport_size({"width": width, "height": 740})
        open_screen(tab, name)
        tab.page.wait_for_load_state("load")
        wide = tab.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} px wider than {width}"
        assert tab.page.evaluate("window.shift") < 0.02, f"{name} shifts at {width}"
    assert tab.complaints == []


@pytest.mark.requirement("page:accessible", "page:themes")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_any_screen(open_tab: OpenTab, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: `make .node/installed` brings it")
    tab = open_tab(color_scheme=scheme, bypass_csp=True)
    only = "" if scheme == "light" else ", runOnly: ['color-contrast']"  # nothing else is different in the dark
    faults: list[str] = []
    addresses = [*(f"/page/{name}" for name in SCREENS if name != "record"), "/?q=allergic&near=1", "/page/signin"]
    record = find_record(tab, "allergic")
    for address in [*addresses, record, f"{record}&delete=1", find_record(tab, "number") + "&edit=1"]:
        page = tab.open(address)
        page.add_script_tag(content=AXE.read_text())
        result = page.evaluate(f"axe.run({{resultTypes: ['violations']{only}}})")
        faults += [
            f"{address}: {each['id']}: {node['target']} {node['failureSummary']}"
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]
    assert not faults, "\n".join(faults)


@pytest.mark.requirement("page:text")
def test_hostile_records_run_nothing_in_a_browser(open_tab: OpenTab) -> None:
    tab = open_tab()
    page = tab.open("/?scope=hostile")
    addresses = [str(each.get_attribute("href")) for each in page.locator(".hit-title a").all()]
    assert len(addresses) == len(HOSTILE)
    for address in addresses:
        for more in ("", "&edit=1", "&delete=1"):
            page = tab.open(address + more)
            assert page.title() != "pwned"
    for name in SCREENS:
        open_screen(tab, name)
        assert tab.page.title() != "pwned"
    tab.open("/?q=word&scope=huge")
    assert tab.complaints == []


@pytest.mark.requirement("page:two-browsers")
def test_of_two_who_edit_one_record_the_second_is_told(open_tab: OpenTab) -> None:
    ours, theirs = open_tab(), open_tab()
    address = find_record(ours, "%22number+9%22&scope=edit") + "&edit=1"
    ours.open(address)
    theirs.open(address)
    for tab, text in ((theirs, "Theirs."), (ours, "Ours.")):
        tab.page.get_by_label("Text", exact=True).fill(text)
        tab.page.get_by_role("button", name="Save").click()
    expect(theirs.page.get_by_role("status")).to_have_text("Saved.")
    expect(ours.page.get_by_role("alert")).to_contain_text("has changed since you opened it")
    expect(ours.page.locator(".diff")).to_contain_text("Theirs.")
    expect(ours.page.get_by_label("Text", exact=True)).to_have_value("Ours.")
    ours.page.get_by_role("button", name="Save").click()
    expect(ours.page.get_by_role("status")).to_have_text("Saved.")
    expect(ours.page.locator(".record-text")).to_have_text("Ours.")


@pytest.mark.requirement("page:example", "page:restart", "page:sign-in")
def test_an_empty_store_a_restart_and_a_token_that_is_made_meanwhile(
    chromium: Browser, open_tab: OpenTab, tmp_path: Path
) -> None:
    serving = PageServerProcess(tmp_path / "store", "--workers", "0")
    try:
        tab = open_tab(serving.url)
        page = tab.open("/")
        page.get_by_role("button", name="Load an example memory").click()
        expect(page.locator("#results .hit", has_text="allergic").first).to_be_visible()
        serving.end()
        page.locator("input[type=search]").fill("release")
        expect(page.locator("#results [role=status]")).to_contain_text("does not answer")
        serving.start()
        page.locator("input[type=search]").fill("release day")
        expect(page.locator("#results .hit-title", has_text="Release day")).to_be_visible()
        page.goto("/page/start")
        page.get_by_role("button", name="Take it away").click()  # with the form of before the restart
        expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is remembered yet")
        token = Tokens(tmp_path / "store").add("laptop")
        page.goto("/page/start")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        page.get_by_label("Token").fill("cofio_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("not known here")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is remembered yet")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    finally:
        serving.end()


@pytest.mark.requirement("page:start")
def test_what_a_client_needs_is_copied_by_a_button(open_tab: OpenTab) -> None:
    tab = open_tab(permissions=["clipboard-read", "clipboard-write"])
    page = tab.open("/page/start")
    page.locator("[data-copy=claude-code]").click()
    expect(page.locator("[data-copy=claude-code]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith(
        "claude mcp add --transport http cofio http://127"
    )


@pytest.mark.requirement("page:live")
@pytest.mark.requirement("page:searches")
def test_what_is_written_and_searched_for_appears_on_the_open_page(
    open_tab: OpenTab, server: PageServerProcess
) -> None:
    tabs = [open_tab() for _ in range(4)]  # so that both workers have one
    for tab in tabs:
        tab.open("/page/activity")
        expect(tab.page.locator("[data-live-text]")).to_have_text("Live")
    with httpx2.Client(base_url=server.url) as client:
        text = "The harbour <b>crane</b> is inspected on Mondays."
        call_tool(client, "write_context", topic="Crane & hook", content=text)
        for tab in tabs:
            entry = tab.page.locator("[data-list] article").first
            expect(entry.locator("h3")).to_have_text("Crane & hook")
            expect(entry.locator(".prose")).to_have_text(text)
            expect(entry.locator(".door")).to_have_text("via MCP")
        call_tool(client, "search_context", query="harbour crane")
        for tab in tabs:
            entry = tab.page.locator("[data-searches] article").first
            expect(entry.locator("h3")).to_have_text("harbour crane")
            expect(entry.locator("li a").first).to_have_text("Crane & hook")
    assert [tab.complaints for tab in tabs] == [[]] * 4


def call_tool(client: httpx2.Client, name: str, **arguments: Any) -> None:
    """Call a tool over MCP, in the era that needs no session."""
    version = "2026-07-28"
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": meta},
    }  # fmt: skip
    headers = {
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version, "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }  # fmt: skip
    answer = client.post("/mcp", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert not answer.json()["result"].get("isError"), answer.text


@pytest.mark.requirement("page:decisions")
def test_a_review_is_done_by_keys(open_tab: OpenTab, server: PageServerProcess) -> None:
    with httpx2.Client(base_url=server.url) as client:
        for day in ("Tuesday", "Thursday"):
            call_tool(client, "write_context", topic="Market day", content=f"The market opens on {day} morning.")
        for end in ("", " at the quay"):
            call_tool(client, "write_context", topic="Ferry tickets", content=f"Ferry tickets are sold by Olsen{end}.")
    tab = open_tab()
    page = tab.open("/page/review?scope=mcp")
    items = page.locator("form.review")
    expect(items).to_have_count(2)
    tab.press("j")
    expect(items.first).to_contain_text("Market day")
    tab.press("y")
    expect(items).to_have_count(1)
    expect(page.locator(".toast")).to_contain_text("Kept")
    tab.press("m")
    expect(page.locator(".empty h2")).to_have_text("Nothing to look at here")
    assert tab.complaints == []


@pytest.mark.requirement("page:decisions")
def test_a_conflict_of_the_vault_is_merged_by_hand_without_a_mouse(open_tab: OpenTab) -> None:
    tab = open_tab()
    page = tab.open("/page/review?sort=vault")
    items = page.locator("form.review")
    expect(items).to_have_count(1)
    expect(items.locator("mark").first).to_have_text("person")
    tab.press("m")
    box = items.get_by_role("textbox")
    expect(box).to_be_focused()
    box.fill(box.input_value().replace("The person's subject", "The subject of both"))
    tab.press("Control+Enter")
    expect(page.locator(".empty h2")).to_have_text("Nothing to look at here")
    page = tab.open("/?q=the+subject+of+both&kind=episode")
    expect(page.locator("#results .hit-title").first).to_have_text("The subject of both")
    assert tab.complaints == []


@pytest.mark.requirement("page:days")
def test_a_column_of_the_strip_leads_to_its_day(open_tab: OpenTab) -> None:
    tab = open_tab()
    page = tab.open("/page/days")
    column = page.locator(".plot a.column").last
    day = str(column.get_attribute("aria-label")).partition(":")[0]
    column.focus()
    tab.press("Enter")
    page.wait_for_url(f"**day={day}*")
    expect(page.locator(".diary h3").first).to_be_visible()
    tab.press("[")
    page.wait_for_url(lambda url: f"&day={day}" not in url)
    assert page.locator(".plot a.column[tabindex='0']").count() == 1
    page.locator(".plot a.current").focus()
    tab.press("ArrowRight")
    assert str(page.evaluate("document.activeElement.getAttribute('aria-label')")).startswith(day)
    assert tab.complaints == []


@pytest.mark.requirement("page:live")
def test_a_server_that_stops_ends_its_streams_first(tmp_path: Path) -> None:
    serving = PageServerProcess(tmp_path / "store", "--workers", "1")
    with httpx2.stream("GET", f"{serving.url}/api/page/activity/stream", timeout=30) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")
        serving.end()
        assert [*lines][-1] == ""  # whole, and not broken off as what is late is


@pytest.mark.requirement("page:bounded")
@pytest.mark.skipif(
    os.environ.get("COFIO_TORTURE") != "1", reason="a hundred thousand records: `make torture` has them"
)
def test_every_screen_is_shown_of_a_hundred_thousand_records(open_tab: OpenTab, tmp_path: Path) -> None:
    with Engine.open(tmp_path / "store", settings=SETTINGS) as engine:
        for batch in range(100):
            texts = (f"record {batch} of {number} about boats and harbours" for number in range(1000))
            engine.write_many(Draft(scope=Scope("many", str(batch)), text=text, author="sam") for text in texts)
        engine.settle()
    serving = PageServerProcess(tmp_path / "store", "--workers", "1")
    try:
        tab = open_tab(serving.url)
        for name in SCREENS:
            tab.open("/?q=record+50" if name in ("record", "search") else f"/page/{name}")
            expect(tab.page.locator("h1")).to_have_count(1)
            assert len(tab.page.content()) < 300_000
        assert tab.complaints == []
    finally:
        serving.end()
