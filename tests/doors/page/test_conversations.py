"""Conversations: sessions, their episodes, facts and turns; people, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from cofio import Engine, Kind, NotFound, Scope
from cofio.conversations.conversations import Conversations, Project
from cofio.doors.page import conversations_view
from cofio.doors.page.conversations_view import build_conversations, make_item
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.extract.extractor import Message

from .conftest import Browser

Ask = Callable[..., ViewRequest]
START = datetime(2026, 2, 1, 9, tzinfo=UTC)
SHOP = Project(app="shop", name="main")


def talk(
    memory: Engine, session: str, *lines: str, sender: str = "alice", at: datetime = START, whole: bool = True,
    project: Project = SHOP,
) -> None:  # fmt: skip
    conversations = Conversations(memory)
    messages = [
        Message(
            id=f"{session}-{number}", sender=sender, name=sender.title(), at=at + timedelta(minutes=number), text=line
        )
        for number, line in enumerate(lines)
    ]
    conversations.append(project, session, messages)
    if whole:
        conversations.carve(project, session, whole=True)


@pytest.fixture
def talks(memory: Engine) -> Engine:
    """A memory of three sessions, one of which is not carved yet."""
    talk(memory, "s1", "I live in Berlin.", "I love climbing in Yosemite every spring.")
    talk(memory, "s2", "I moved to Oslo.", "I have a dog called Rex.", at=START + timedelta(days=3))
    talk(memory, "s3", "Hello again.", at=START + timedelta(days=5), whole=False)
    return memory


@pytest.mark.requirement("page:sessions")
def test_sessions_are_listed_with_what_they_are_about(talks: Engine, ask: Ask) -> None:
    model = build_conversations(ask())
    sessions = {each.name: each for each in model.sessions}
    assert set(sessions) == {"s1", "s2", "s3"}
    assert (sessions["s1"].owners, sessions["s1"].scope) == (("alice",), SHOP.scope)
    assert "Berlin" in " ".join(sessions["s1"].subjects)
    assert (sessions["s3"].waiting, sessions["s3"].subjects) == (1, ())


@pytest.mark.requirement("page:sessions")
def test_a_session_shows_episodes_facts_and_the_turns_that_they_come_from(talks: Engine, ask: Ask) -> None:
    model = build_conversations(ask(scope=str(SHOP.scope), session="s1"))
    (episode,) = model.episodes
    assert episode.owner == "alice"
    assert [turn.text for turn in episode.turns] == ["I live in Berlin.", "I love climbing in Yosemite every spring."]
    facts = {each.fact.title: each.evidence for each in episode.facts}
    assert len(facts) >= 2
    (about_climbing,) = (evidence for title, evidence in facts.items() if "climbing" in title)
    assert [(quote.text, quote.author) for quote in about_climbing] == [
        ("I love climbing in Yosemite every spring.", "Alice")
    ]
    assert talks.read(about_climbing[0].id).kind is Kind.TURN


@pytest.mark.requirement("page:sessions")
def test_turns_that_wait_are_shown_as_they_came(talks: Engine, ask: Ask) -> None:
    model = build_conversations(ask(scope=str(SHOP.scope), session="s3"))
    assert model.episodes == ()
    assert [turn.text for turn in model.turns] == ["Hello again."]
    with pytest.raises(NotFound):
        build_conversations(ask(scope=str(SHOP.scope), session="nothing"))


@pytest.mark.requirement("page:sessions")
def test_the_transcript_of_a_library_is_a_session_too(memory: Engine, ask: Ask) -> None:
    scope = Scope("openai-agents", "run-7")
    for number in range(3):
        memory.write(scope, kind=Kind.TURN, text=f"line {number}", position=number, author="user")
    (session,) = build_conversations(ask()).sessions
    assert (session.name, session.scope, session.waiting) == ("run-7", Scope("openai-agents"), 3)
    model = build_conversations(ask(scope="openai-agents", session="run-7"))
    assert [turn.text for turn in model.turns] == ["line 0", "line 1", "line 2"]


@pytest.mark.requirement("page:people")
def test_a_profile_shows_what_superseded_what_with_its_evidence(talks: Engine, ask: Ask) -> None:
    (person,) = build_conversations(ask(tab="people")).people
    assert person.name == "alice"
    profile = build_conversations(ask(person=person.link.partition("person=")[2])).person
    assert profile is not None
    home = next(each for each in profile.current if each.topic == "home")
    assert "Oslo" in home.description
    assert home.evidence == "I moved to Oslo."
    assert ["Berlin" in each.description for each in home.superseded] == [True]
    assert talks.read(home.link.partition("id=")[2]).text == "I moved to Oslo."


@pytest.mark.requirement("page:people")
def test_what_a_person_asked_of_the_assistant_comes_first_in_their_words(
    talks: Engine, ask: Ask, browser: Browser
) -> None:
    talk(talks, "s5", "Always answer in bullet points.", at=START + timedelta(days=7))
    talk(talks, "s6", "From now on, always answer in full sentences.", at=START + timedelta(days=8))
    (person,) = build_conversations(ask(tab="people")).people
    profile = build_conversations(ask(person=person.link.partition("person=")[2])).person
    assert profile is not None
    newest = profile.instructions[0]
    assert "full sentences" in newest.description
    assert talks.read(newest.link.partition("id=")[2]).text == "From now on, always answer in full sentences."
    shown = browser.show(person.link)
    assert shown.index("Asked of the assistant") < shown.index("full sentences") < shown.index("Known now")


@pytest.mark.requirement("page:people")
def test_what_has_ended_is_shown_with_what_it_ended(talks: Engine, ask: Ask) -> None:
    talk(talks, "s4", "I no longer have a dog.", at=START + timedelta(days=9))
    (person,) = build_conversations(ask(tab="people")).people
    profile = build_conversations(ask(person=person.link.partition("person=")[2])).person
    assert profile is not None
    assert [("dog" in each.description, [old.description for old in each.superseded]) for each in profile.ended] == [
        (True, ["Has a dog called Rex."])
    ]


@pytest.mark.requirement("page:people")
def test_a_profile_of_any_shape_can_be_shown() -> None:
    circle: dict[str, object] = {"topic": "home", "timestamp_ms": "soon", "evidence": 7}
    circle["supersedes"] = circle
    item = make_item(circle, {})  # type: ignore[arg-type]  # it comes from a file
    assert (item.topic, item.at, item.evidence) == ("home", None, "")
    assert len(item.superseded) == conversations_view.DEEPEST - 1


@pytest.mark.requirement("page:sessions")
def test_records_of_any_shape_can_be_shown(memory: Engine, ask: Ask) -> None:
    for scope in (Scope(), Scope("rest"), Scope("rest", "shop"), SHOP.scope, SHOP.owner("user", "ann"), Scope("other")):
        for kind in (Kind.TURN, Kind.EPISODE, Kind.FACT, Kind.PROFILE):
            memory.write(scope, kind=kind, text="by hand")
            memory.write(scope, kind=kind, text="with data", data=["session_id", {"session_id": 7}])
            memory.write(scope, kind=kind, text="with more", data={"session_id": "s1", "messages": 7, "summary": []})
            memory.write(scope, kind=kind, text="with all", data={"explicit_info": [7, {}], "implicit_traits": 7})
    for session in build_conversations(ask()).sessions:
        build_conversations(ask(scope=str(session.scope), session=session.name))
    for person in build_conversations(ask(tab="people")).people:
        build_conversations(ask(person=person.link.partition("person=")[2]))


@pytest.mark.requirement("page:people")
def test_only_a_profile_is_a_person(memory: Engine, ask: Ask) -> None:
    note = memory.write(Scope("notes"), text="a note")
    with pytest.raises(NotFound):
        build_conversations(ask(person=note.id))


@pytest.mark.requirement("page:reach")
def test_a_limited_token_sees_its_own_conversations_alone(talks: Engine, ask: Ask) -> None:
    talk(talks, "s9", "I live in Rome.", project=Project(app="bank", name="main"), sender="bob")
    viewer = Viewer(reach=Scope("rest", "bank"))
    assert [each.name for each in build_conversations(ask(viewer)).sessions] == ["s9"]
    assert [each.name for each in build_conversations(ask(viewer, tab="people")).people] == ["bob"]
    (alice,) = (each for each in build_conversations(ask(tab="people")).people if each.name == "alice")
    with pytest.raises(NotFound):
        build_conversations(ask(viewer, person=alice.link.partition("person=")[2]))


@pytest.mark.requirement("page:bounded")
def test_sessions_are_paged(memory: Engine, ask: Ask) -> None:
    for number in range(conversations_view.PAGE + 1):
        data: dict[str, object] = {"session_id": f"s{number}", "summary": "x"}
        memory.write(
            SHOP.owner("user", "ann"), kind=Kind.EPISODE, title=f"episode {number}", text="x", data=data,  # type: ignore[arg-type]
            created_at=START + timedelta(hours=number),
        )  # fmt: skip
    first = build_conversations(ask())
    assert (len(first.sessions), first.sessions[0].name) == (conversations_view.PAGE, f"s{conversations_view.PAGE}")
    assert [each.name for each in build_conversations(ask(offset=str(conversations_view.PAGE))).sessions] == ["s0"]
    assert first.next


@pytest.mark.requirement("page:sessions")
@pytest.mark.requirement("page:people")
def test_the_pages_show_it(browser: Browser) -> None:
    assert "No conversations yet" in browser.show("/page/conversations")
    assert "Nothing is known" in browser.show("/page/conversations?tab=people")
    talk(browser.engine, "s<1>", "I live in <b>Berlin</b>.", "I work as a nurse.")
    assert "s&lt;1&gt;" in browser.show("/page/conversations")
    text = browser.show("/page/conversations?scope=rest/shop/main&session=s%3C1%3E")
    assert "&lt;b&gt;Berlin&lt;/b&gt;" in text
    (person,) = browser.read("conversations", tab="people")["people"]
    assert "nurse" in browser.show(person["link"])
