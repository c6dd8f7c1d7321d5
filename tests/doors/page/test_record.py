"""A record on the page: what is shown of it, and how it is edited and deleted."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from cofio import Engine, Kind, Record, Scope
from cofio.conversations.conversations import Conversations
from cofio.doors.example_memory import TALKS, ExampleMemory
from cofio.doors.page.neighbourhood import MOST_NODES
from cofio.doors.page.record_view import RecordModel, build_record
from cofio.doors.page.relatives import MOST
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.files import dispatch, home
from cofio.values.query import Where

from .conftest import Browser

Ask = Callable[..., ViewRequest]
SECRET = "gh" + "p_" + "a8Kd02mXq91LsPz7RtVbYw34NcEfGh56Jk78"


@pytest.fixture
def note(memory: Engine) -> Record:
    """A note."""
    return memory.write(
        Scope("mcp", "team"), title="Release day", text="We ship on Thursdays.\nNever on a Friday.", tags=["ops"],
        author="sam", source="mcp", data={"place": "Bergen"},
    )  # fmt: skip


@pytest.fixture
def example(memory: Engine) -> Engine:
    """The example memory: among others an episode with its facts, messages and a profile."""
    ExampleMemory(Conversations(memory)).load()
    return memory


def find(engine: Engine, kind: Kind, words: str = "") -> Record:
    """A record of the kind with the words in its text."""
    return next(each for each in engine.list(kinds=(kind,), newest=False) if words in each.text)


def show(ask: Ask, record: Record, **parameters: str) -> RecordModel:
    """What the page shows of a record."""
    return build_record(ask(id=record.id, **parameters))


@pytest.mark.requirement("page:record")
def test_a_record_is_shown_whole_and_one_that_is_not_there_is_told_in_words(browser: Browser, note: Record) -> None:
    page = browser.show(f"/page/record?id={note.id}")
    facts = ("Release day", "Never on a Friday.", "Bergen", "sam", "MCP", note.id)
    for part in (*facts, 'href="/?tag=ops"', 'href="/?scope=mcp%2Fteam"'):
        assert part in page
    data = browser.read("record", id=note.id)
    assert data["record"]["text"] == note.text
    assert data["record"]["data"] == {"place": "Bergen"}
    answer = browser.get("/page/record?id=nothing")
    assert answer.status_code == 404
    assert "Not here" in answer.text
    assert browser.get("/page/record").status_code == 422
    assert browser.client.get("/api/page/record", params={"id": "nothing"}).json()["error"]["code"] == "HTTP_ERROR"


@pytest.mark.requirement("page:evidence")
def test_records_show_what_they_came_from_and_what_was_made_of_them(
    example: Engine, ask: Ask, browser: Browser
) -> None:
    fact = find(example, Kind.FACT, "allergic")
    evidence = show(ask, fact).relatives.evidence
    assert evidence[0].entry.kind is Kind.TURN
    assert evidence[0].text.startswith("I'm allergic to nuts")
    assert evidence[-1].entry.kind is Kind.EPISODE
    assert "<blockquote" in browser.show(f"/page/record?id={fact.id}")
    offspring = show(ask, find(example, Kind.TURN, "allergic")).relatives.offspring
    assert [each.kind for each in offspring] == [Kind.FACT]
    assert "allergic" in offspring[0].title
    episode = show(ask, find(example, Kind.EPISODE)).relatives
    assert {each.entry.kind for each in episode.evidence} == {Kind.TURN}
    assert {each.kind for each in episode.offspring} == {Kind.FACT}
    profile = show(ask, find(example, Kind.PROFILE)).relatives
    assert any("allergic" in each.text for each in profile.evidence)


@pytest.mark.requirement("page:graph", "page:similar")
def test_more_like_it_is_shown_without_itself_and_a_bounded_graph_of_its_relatives(
    example: Engine, memory: Engine, note: Record, ask: Ask
) -> None:
    other = memory.write(Scope("mcp", "team"), title="Release day of the app", text="We ship on Thursdays at ten.")
    memory.write(Scope("elsewhere"), title="Release day", text="We ship on Thursdays, they say.")
    similar = {entry.id for entry, _ in show(ask, note).relatives.similar}
    assert (note.id in similar, other.id in similar) == (False, True)
    limited = build_record(ask(Viewer(reach=Scope("mcp")), id=note.id)).relatives.similar
    assert {entry.scope.names[0] for entry, _ in limited} == {"mcp"}
    graph = show(ask, find(example, Kind.EPISODE)).graph
    assert graph is not None
    assert [node.is_centre for node in graph.nodes].count(True) == 1
    assert len(graph.edges) == len(graph.nodes) - 1
    for node in graph.nodes:
        assert 0 <= node.x <= graph.width - graph.node_width
        assert 0 <= node.y <= graph.height - graph.node_height
    parent = memory.write(Scope("many"), text="a tree with many leaves")
    for number in range(2 * MOST_NODES):
        memory.write(Scope("many"), text=f"leaf {number}", parent=parent.id)
    model = show(ask, parent)
    assert len(model.relatives.offspring) == MOST
    assert model.relatives.is_more
    assert model.graph is not None
    assert len(model.graph.nodes) <= MOST_NODES
    assert any(node.name.startswith("and ") for node in model.graph.nodes)
    alone = memory.write(Scope("alone"), text="xylophone")
    assert show(ask, alone).graph is None


@pytest.mark.requirement("page:revisions", "page:edit")
def test_a_file_that_is_edited_shows_its_earlier_text_as_a_difference(
    memory: Engine, ask: Ask, browser: Browser
) -> None:
    lines = [f"{number}\n" for number in range(50)]
    dispatch(memory, home("sam"), {"command": "create", "path": "/memories/a.md", "file_text": "".join(lines)})
    file = find(memory, Kind.FILE)
    lines[10], lines[40] = "ten\n", "forty\n"
    browser.post("/page/record/edit", id=file.id, version=file.version, text="".join(lines))
    (revision,) = show(ask, file).revisions
    assert [line.text for line in revision.difference if line.sort == "new"] == ["ten", "forty"]
    assert [line.text for line in revision.difference if line.sort == "old"] == ["10", "40"]
    assert [line.sort for line in revision.difference].count("gap") == 1  # what is the same and far away
    assert "<ins>+ forty</ins>" in browser.show(f"/page/record?id={file.id}")


@pytest.mark.requirement("page:edit", "page:script-free")
def test_a_form_changes_what_a_record_says(browser: Browser, note: Record) -> None:
    page = browser.show(f"/page/record?id={note.id}&edit=1")
    assert 'name="version" value="1"' in page
    answer = browser.post(
        "/page/record/edit", id=note.id, version=1, title="Release  day", text="We ship on Wednesdays.\r\nAlways.",
        tags="ops, release,", importance="high", data='{"place": "Oslo"}',
    )  # fmt: skip
    assert answer.status_code == 303
    after = browser.engine.read(note.id)
    assert (after.title, after.text) == ("Release day", "We ship on Wednesdays.\nAlways.")
    assert (after.tags, str(after.importance), after.data) == (("ops", "release"), "high", {"place": "Oslo"})
    location = parse_qs(urlsplit(answer.headers["location"]).query)
    assert (location["id"], location["notice"]) == ([note.id], ["Saved."])
    assert "Saved." in browser.show(answer.headers["location"])
    told = browser.post("/page/record/edit", accept="application/json", id=note.id, version=2, text="New.")
    assert told.json() == {"location": f"/page/record?id={note.id}", "message": "Saved.", "version": 3}
    late = browser.post("/page/record/edit", accept="application/json", id=note.id, version=1, text="Newer.")
    assert (late.status_code, "has changed since" in late.json()["error"]["message"]) == (409, True)


@pytest.mark.requirement("page:edit")
def test_what_cannot_be_kept_comes_back_in_the_form(browser: Browser, note: Record) -> None:
    wrong = [
        ({"text": f"The token: {SECRET}"}, "memory is no place for secrets"), ({"data": "{oops"}, "is not JSON"),
        ({"importance": "utmost"}, "is not one of"), ({"title": "", "text": " "}, "empty"), ({"text": "a\0b"}, "NUL"),
    ]  # fmt: skip
    for fields, sentence in wrong:
        words = {"title": "New title", "text": "All that I wrote"} | fields
        answer = browser.post("/page/record/edit", id=note.id, version=1, **words)
        assert answer.status_code == 422
        assert sentence in answer.text
        assert "<form" in answer.text
        assert words["title"] in answer.text
    assert browser.engine.read(note.id) == note
    untouched = browser.post("/page/record/edit", id=note.id, version=1, title=note.title, text=note.text)
    assert untouched.status_code == 303
    assert browser.engine.read(note.id) == note


@pytest.mark.requirement("page:edit")
def test_a_fact_that_is_edited_is_marked_and_what_is_not_edited_here_says_why(
    browser: Browser, example: Engine, ask: Ask
) -> None:
    fact = find(example, Kind.FACT, "Bergen")
    browser.post("/page/record/edit", id=fact.id, version=fact.version, text="Jonas moved to Oslo.")
    after = example.read(fact.id)
    assert after.text == "Jonas moved to Oslo."
    assert isinstance(after.data, dict)
    assert after.data["edited"] == ["content"]
    for kind in (Kind.TURN, Kind.PROFILE):
        record = find(example, kind)
        assert show(ask, record, edit="1").is_editing is False
        assert "Not edited here" in browser.show(f"/page/record?id={record.id}&edit=1")
        answer = browser.post("/page/record/edit", id=record.id, version=record.version, text="Something else")
        assert answer.status_code == 422
        assert example.read(record.id) == record


@pytest.mark.requirement("page:two-browsers")
def test_who_edits_what_has_changed_is_shown_both_and_loses_nothing(browser: Browser, note: Record) -> None:
    browser.engine.edit(note.id, text="We ship on Mondays.")
    answer = browser.post("/page/record/edit", id=note.id, version=1, text="We ship on Sundays.")
    assert answer.status_code == 409
    both = ("<del>- We ship on Mondays.</del>", "<ins>+ We ship on Sundays.</ins>", 'name="version" value="2"')
    for part in ("has changed since you opened it", *both):
        assert part in answer.text
    assert browser.engine.read(note.id).text == "We ship on Mondays."
    assert browser.post("/page/record/edit", id=note.id, version=2, text="We ship on Sundays.").status_code == 303
    assert browser.engine.read(note.id).text == "We ship on Sundays."


@pytest.mark.requirement("page:delete", "page:script-free")
def test_an_episode_goes_with_what_was_shown_to_go_along(browser: Browser, example: Engine, ask: Ask) -> None:
    episode = find(example, Kind.EPISODE)
    doom = show(ask, episode, delete="1").doom
    assert doom is not None
    assert doom.counts == {"fact": 4, "turn": 5}
    assert [each.kind for each in doom.changed] == [Kind.PROFILE]
    page = browser.show(f"/page/record?id={episode.id}&delete=1")
    assert "With it go 4 facts, 5 turns" in page
    answer = browser.post("/page/record/delete", id=episode.id, version=doom.version)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/?notice=Deleted")
    kinds = (Kind.EPISODE, Kind.FACT, Kind.TURN, Kind.PROFILE)
    assert example.count(TALKS.scope, kinds=kinds) == 0


@pytest.mark.requirement("page:delete")
def test_what_has_changed_or_belongs_to_more_is_not_deleted_and_a_file_goes_with_its_revisions(
    browser: Browser, example: Engine, note: Record
) -> None:
    browser.engine.edit(note.id, text="Changed.")
    answer = browser.post("/page/record/delete", id=note.id, version=1)
    assert answer.status_code == 409
    assert "has changed since" in answer.text
    turn = find(example, Kind.TURN, "allergic")
    assert "is part of an episode" in browser.show(f"/page/record?id={turn.id}&delete=1")
    assert browser.post("/page/record/delete", id=turn.id, version=turn.version).status_code == 409
    assert example.count(filter=Where("id", "=", turn.id)) == 1
    owner, before = home("sam"), example.count()
    dispatch(example, owner, {"command": "create", "path": "/memories/a.md", "file_text": "one\n"})
    dispatch(example, owner, {"command": "insert", "path": "/memories/a.md", "insert_line": 1, "insert_text": "two\n"})
    file = find(example, Kind.FILE, "two")
    assert browser.post("/page/record/delete", id=file.id, version=file.version).status_code == 303
    assert example.count() == before
