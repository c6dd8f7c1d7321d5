"""The page in a real browser: every screen and action, by keyboard alone, in every form, and when things go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.servers import cofio, free_port

from cofio import Engine, Kind, Scope, Settings
from cofio.conversations.conversations import Conversations
from cofio.doors.example_memory import ExampleMemory
from cofio.doors.page import view_table
from cofio.http.tokens import Tokens
from cofio.values.changes import Edit
from cofio.vault.vault import Vault

from .real_browser import AXE, Tab
from .test_security import HOSTILE

pytestmark = pytest.mark.usefixtures("wide")

SETTINGS = Settings(background=False, embedder="hashed", sync="normal")
SCREENS = sorted(view.name for view in view_table.VIEWS)
OpenTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the server: the example memory with a conflict, a hostile one beside it, and notes to edit."""
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
    return store


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """A server of two workers."""
    with cofio("--store", str(folder), "--workers", "2") as url:
        yield url


def make_vault_conflict(conversations: Conversations, vault: Vault) -> None:
    """Have a person and the memory change one episode."""
    episode = conversations.engine.list(kinds=(Kind.EPISODE,), limit=1)[0]
    file = next(file for file in vault.folder.rglob("episode-*.md") if episode.title in file.read_text())
    file.write_text(file.read_text().replace(episode.title, "The person's subject"))
    conversations.apply([Edit(id=episode.id, fields={"title": "The memory's subject"})])


@pytest.fixture
def open_tab(open_window: OpenTab, server: str) -> OpenTab:
    """Opens windows at the server."""
    return lambda **options: open_window(server, **options)


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
    page = tab.open("/?q=allergic+nuts")
    page.locator("input[type=search]").fill("release day")
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


@pytest.mark.requirement("page:keyboard")
def test_a_record_is_found_and_deleted_and_help_shown_without_a_mouse(open_tab: OpenTab) -> None:
    tab = open_tab()
    page = tab.open("/?q=note&scope=edit")
    tab.press("j", "j", "k")
    first = tab.get_focus()
    assert first.startswith("Note")
    tab.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(first)
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
    tab.open("/page/start")
    tab.press("Tab")
    assert tab.get_focus() == "Skip to the content"
    tab.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    assert tab.complaints == []


@pytest.mark.requirement("page:themes", "page:start")
def test_times_are_in_the_zone_of_the_reader_and_what_a_client_needs_is_copied_by_a_button(open_tab: OpenTab) -> None:
    tab = open_tab(timezone_id="Asia/Kolkata", permissions=["clipboard-read", "clipboard-write"])
    page = tab.open(find_record(tab, "allergic"))
    moment = page.locator(".facts time").first
    expect(page.locator("[data-zone]")).to_have_text("Times in Asia/Calcutta")
    utc = str(moment.get_attribute("datetime"))
    shown = moment.inner_text()
    assert len(shown) == len("2026-01-01 00:00")
    minutes = (int(shown[11:13]) * 60 + int(shown[14:16])) - (int(utc[11:13]) * 60 + int(utc[14:16]))
    assert minutes % 1440 == 330
    tab.open("/page/start")
    page.locator("[data-copy=claude-code]").click()
    expect(page.locator("[data-copy=claude-code]")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("claude mcp add --transport http cofio http://127")


@pytest.mark.requirement("page:themes")
def test_every_screen_fits_a_phone_and_a_double_zoom_and_does_not_shift(open_tab: OpenTab) -> None:
    tab = open_tab(viewport={"width": 360, "height": 740})
    tab.page.add_init_script(
        "window.shift = 0; new PerformanceObserver((list) => { for (const each of list.getEntries())"
        " if (!each.hadRecentInput) window.shift += each.value; }).observe({type: 'layout-shift', buffered: true});"
    )
    for name, width in product(SCREENS, (360, 640, 1280)):  # a screen of 1280 at 200 % is one of 640
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


@pytest.mark.requirement("page:example", "page:restart", "page:sign-in")
def test_an_empty_store_a_restart_and_a_token_that_is_made_meanwhile(open_window: OpenTab, tmp_path: Path) -> None:
    arguments = ["--store", str(tmp_path / "store"), "--workers", "0", "--port", str(free_port())]
    with cofio(*arguments) as url:
        page = open_window(url).open("/")
        page.get_by_role("button", name="Load an example memory").click()
        expect(page.locator("#results .hit", has_text="allergic").first).to_be_visible()
    page.locator("input[type=search]").fill("release")
    expect(page.locator("#results [role=status]")).to_contain_text("does not answer")
    with cofio(*arguments):
        page.locator("input[type=search]").fill("release day")
        expect(page.locator("#results .hit-title", has_text="Release day")).to_be_visible()
        page.goto("/page/start")
        page.get_by_role("button", name="Take it away").click()  # with the form of before the restart
        expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is remembered yet")
        token = Tokens(tmp_path / "store").add("laptop")
        page.goto("/page/start")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is remembered yet")
        assert page.evaluate("document.cookie") == ""
        link = f'<a href="{url}/page/start">your memory</a>'
        page.route("http://elsewhere.test/", lambda route: route.fulfill(body=link, content_type="text/html"))
        page.goto("http://elsewhere.test/")
        page.get_by_role("link", name="your memory").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")  # other sites' links carry no session
        page.get_by_role("link", name="go on").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is remembered yet")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


@pytest.mark.requirement("page:decisions")
def test_a_review_is_done_by_keys(open_tab: OpenTab, folder: Path) -> None:
    with Engine.open(folder, settings=SETTINGS) as engine:
        for day in ("Tuesday", "Thursday"):
            engine.write(Scope("town"), title="Market day", text=f"The market opens on {day} morning.")
        for end in ("", " at the quay"):
            engine.write(Scope("town"), title="Ferry tickets", text=f"Ferry tickets are sold by Olsen{end}.")
    tab = open_tab()
    page = tab.open("/page/review?scope=town")
    items = page.locator("form.review")
    expect(items).to_have_count(2)
    tab.press("j")
    expect(items.first).to_contain_text("Market day")
    tab.press("y")
    expect(items).to_have_count(1)
    expect(page.locator(".toast")).to_contain_text("Kept")
    tab.press("m")
    expect(page.locator(".empty h2")).to_have_text("Nothing to look at here")
    tab.open("/page/review?sort=vault")
    expect(items.locator("mark").first).to_have_text("person")
    tab.press("m")
    box = items.get_by_role("textbox")
    expect(box).to_be_focused()
    box.fill(box.input_value().replace("The person's subject", "The subject of both"))
    tab.press("Control+Enter")
    expect(page.locator(".empty h2")).to_have_text("Nothing to look at here")
    tab.open("/?q=the+subject+of+both&kind=episode")
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
