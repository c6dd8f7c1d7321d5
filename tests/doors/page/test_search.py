"""The search of the page: what is found, why, how it is narrowed down, and what is not shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from cofio import Engine, Kind, Scope, Settings
from cofio.conversations.conversations import Conversations, Project
from cofio.doors.page.renderer import mark_words
from cofio.doors.page.search_view import COUNTED, MOST_HITS, PAGE, SearchModel, SignalBar, build_search
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.extract.extractor import Message
from cofio.values.errors import Invalid

from .conftest import Browser

Ask = Callable[..., ViewRequest]


@pytest.fixture
def harbour(memory: Engine) -> Engine:
    """A memory with a few notes of two scopes."""
    day = datetime(2026, 2, 3, 9, tzinfo=UTC)
    memory.write(
        Scope("mcp", "harbour"), title="Release day", text="We ship on Thursdays at ten.", tags=["ops", "release"],
        author="sam", source="mcp", created_at=day,
    )  # fmt: skip
    memory.write(
        Scope("mcp", "harbour"), title="Staging", text="Staging is wiped before every release.", tags=["ops"],
        author="jonas", source="mcp", created_at=day,
    )  # fmt: skip
    memory.write(Scope("notes"), text="The release party is on a boat.", author="mira", source="cli")
    memory.put(Scope("notes"), "phase", data={"phase": "release", "bugs": 3}, kind=Kind.STATE)
    return memory


def titles(model: SearchModel) -> list[str]:
    """What the hits are headed with."""
    return [hit.headline for hit in model.hits]


@pytest.mark.requirement("page:superseded")
def test_a_hit_says_what_holds_now_in_its_place_and_since_when(tmp_path: Path, ask: Ask, models: Path) -> None:
    project, settings = Project(app="default", name="default"), Settings(background=False, models=str(models))
    with Engine.open(tmp_path / "coffee", settings=settings) as engine:
        for day, text in ((1, "I drink four cups of coffee a day."), (20, "I drink two cups of coffee a day now.")):
            said = Message(id=f"m{day}", sender="alice", name="Alice", at=datetime(2026, 3, day, tzinfo=UTC), text=text)
            Conversations(engine).append(project, f"s{day}", [said])
            Conversations(engine).carve(project, f"s{day}", whole=True)
        engine.settle()
        request = replace(ask(q="how much coffee does Alice drink", kind="fact"), engine=engine)
        newer, older = build_search(request).hits
        assert (newer.successor, newer.superseded_at) == ("", None)
        assert (older.successor, older.superseded_at) == (newer.entry.link, datetime(2026, 3, 20, tzinfo=UTC))


@pytest.mark.requirement("page:facets", "page:reach")
def test_facets_count_what_was_found_in_reach_and_their_links_narrow_it_down(harbour: Engine, ask: Ask) -> None:
    facets = {facet.name: {each.value: each.count for each in facet.values} for facet in build_search(ask()).facets}
    assert facets["scope"] == {"mcp": 2, "notes": 2}
    assert facets["kind"] == {"note": 3, "state": 1}
    assert facets["author"] == {"sam": 1, "jonas": 1, "mira": 1}
    assert facets["tag"] == {"ops": 2, "release": 1}
    assert facets["source"]["mcp"] == 2
    assert facets["day"]["2026-02-03"] == 2
    for narrowed in (
        ask(kind="state"), ask(author="mira"), ask(tag=["ops", "release"]), ask(source="cli"), ask(scope="notes/x"),
    ):  # fmt: skip
        assert len(build_search(narrowed).hits) == (0 if narrowed.get("scope") else 1)
    assert set(titles(build_search(ask(day="2026-02-03")))) == {"Release day", "Staging"}
    assert set(titles(build_search(ask(q="release", tag="ops")))) == {"Release day", "Staging"}

    def find_link(request: ViewRequest, name: str, value: str) -> str:
        facets = {facet.name: facet for facet in build_search(request).facets}
        return urlsplit(next(each.link for each in facets[name].values if each.value == value)).query

    assert find_link(ask(q="release", kind="note"), "tag", "ops") == "q=release&kind=note&tag=ops"
    assert find_link(ask(q="release", tag="ops"), "tag", "ops") == "q=release"  # of an active one
    assert find_link(ask(q="release"), "scope", "mcp") == "q=release&scope=mcp"
    assert find_link(ask(q="release", scope="mcp"), "scope", "mcp") == "q=release"
    for parameters in ({}, {"q": "release"}, {"q": "release", "near": "1"}):  # of one whose token is limited
        model = build_search(ask(Viewer(reach=Scope("mcp")), **parameters))
        assert {hit.entry.scope.names[0] for hit in (*model.hits, *model.near)} == {"mcp"}
        scopes = {each.value for facet in model.facets if facet.name == "scope" for each in facet.values}
        assert all(each.startswith("mcp") for each in scopes)
        assert "mira" not in str(model.facets)


@pytest.mark.requirement("page:signals", "page:links")
def test_each_hit_has_a_bar_for_each_signal_and_its_words_marked_and_the_json_has_the_same(
    harbour: Engine, browser: Browser, ask: Ask
) -> None:
    hit = build_search(ask(q="when do we ship a release")).hits[0]
    assert {signal.name for signal in hit.signals} >= {"keyword", "semantic"}
    assert all(0 <= signal.width <= 100 for signal in hit.signals)
    page = browser.show("/?q=release")
    assert "<mark>Release</mark> day" in page
    data = browser.read("search", q="release")
    assert all(hit["entry"]["id"] in page for hit in data["hits"])
    assert data["links"]["json"] == "/api/page/search?q=release"
    assert browser.client.get(data["links"]["json"]).json()["hits"] == data["hits"] != []
    assert '<svg class="meter bar-keyword"' in page
    assert SignalBar(name="date", label="date", share=0.2, width=20).style == "context"
    assert SignalBar(name="keyword", label="words", share=-0.2, width=20).style == "against"


@pytest.mark.requirement("page:signals")
@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("We ship & deploy", ["ship"], "We <mark>ship</mark> &amp; deploy"),
        ("Shipping <b>boats</b>", ["ship", "boat"], "<mark>Shipping</mark> &lt;b&gt;<mark>boats</mark>&lt;/b&gt;"),
        ("nothing", [], "nothing"),
        ("東京都の天気", ["東京"], "<mark>東京</mark>都の天気"),
        ("the cat's\u202etail", ["tail"], "the cat&#39;s\N{REPLACEMENT CHARACTER}<mark>tail</mark>"),
    ],
)
def test_words_are_marked_in_escaped_text(text: str, words: list[str], marked: str) -> None:
    assert mark_words(text, words) == marked


@pytest.mark.requirement("page:why-not")
def test_what_stood_below_the_floor_is_told_with_what_it_lacks(harbour: Engine, ask: Ask, browser: Browser) -> None:
    nothing = build_search(ask(q="zebra crossing in winter"))
    assert nothing.hits == ()
    asked = build_search(ask(q="zebra crossing in winter", near="1"))
    assert asked.near
    assert all(0 < hit.missing <= asked.floor for hit in asked.near)
    page = browser.show("/?q=zebra+crossing+in+winter&near=1")
    assert "Nothing relevant" in page
    assert "Why not these?" in page


@pytest.mark.requirement("page:search")
def test_where_nothing_fits_a_filter_a_link_leads_to_the_search_without_it(harbour: Engine, browser: Browser) -> None:
    assert '<a href="/">Look everywhere</a>' in browser.show("/?tag=nothing")


@pytest.mark.requirement("page:bounded")
def test_hits_come_by_pages_and_the_store_is_never_loaded(memory: Engine, ask: Ask) -> None:
    for number in range(COUNTED + 30):
        memory.write(Scope("many"), text=f"boat number {number}")
    first = build_search(ask())
    assert (len(first.hits), first.count, first.is_more) == (PAGE, COUNTED, True)
    assert first.links["previous"] == ""
    seen, model = [], first
    while True:
        seen += [hit.headline for hit in model.hits]
        if not model.links["next"]:
            break
        model = build_search(ask(offset=parse_qs(urlsplit(model.links["next"]).query)["offset"][0]))
    assert seen == [f"boat number {number}" for number in reversed(range(COUNTED + 30))]
    assert model.links["previous"]
    assert build_search(ask(offset="5000")).hits == ()
    found = build_search(ask(q="boat"))
    assert (len(found.hits), found.is_more) == (PAGE, True)
    last = build_search(ask(q="boat", offset=str(MOST_HITS - PAGE)))
    assert len(last.hits) == PAGE
    assert last.links["next"] == ""


@pytest.mark.requirement("page:search")
def test_a_search_finds_by_words_without_words_lists_the_last_written_and_refuses_what_makes_no_sense(
    harbour: Engine, browser: Browser, ask: Ask
) -> None:
    model = build_search(ask(q="release"))
    assert set(titles(model)) == {"Release day", "Staging", "The release party is on a boat.", "phase"}
    assert model.degraded == ""
    assert all(0 <= hit.score <= 1 for hit in model.hits)
    model = build_search(ask())
    assert (titles(model)[0], len(model.hits)) == ("phase", 4)
    assert all(hit.signals == () for hit in model.hits)
    wrong = [
        {"mode": "magic"}, {"kind": "wish"}, {"day": "yesterday"}, {"day": "0001-01-01"}, {"offset": "-1"},
        {"offset": "999999"},
    ]  # fmt: skip
    for parameters in wrong:
        with pytest.raises(Invalid):
            build_search(ask(**parameters))
    answer = browser.client.get("/api/page/search", params=wrong[0])
    assert (answer.status_code, bool(answer.json()["error"]["message"])) == (422, True)
    page = browser.client.get("/page/search", params=wrong[0], headers={"Accept": "text/html"})
    assert (page.status_code, "Not understood" in page.text) == (422, True)
