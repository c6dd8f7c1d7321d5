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
def test_sessions_are_listed_and_show_episodes_facts_and_the_turns_that_they_come_from(talks: Engine, ask: Ask) -> None:
    run = Scope("openai-agents", "run-7")  # the transcript of a library is a session, too
    for number in range(3):
        talks.write(run, kind=Kind.TURN, text=f"line {number}", position=number, author="user")
    sessions = {each.name: each for each in build_conversations(ask()).sessions}
    assert set(sessions) == {"s1", "s2", "s3", "run-7"}
    assert (sessions["s1"].owners, sessions["s1"].scope) == (("alice",), SHOP.scope)
    assert "Berlin" in " ".join(sessions["s1"].subjects)
    assert (sessions["s3"].waiting, sessions["s3"].subjects) == (1, ())
    assert (sessions["run-7"].scope, sessions["run-7"].waiting) == (Scope("openai-agents"), 3)
    model = build_conversations(ask(scope="openai-agents", session="run-7"))
    assert [turn.text for turn in model.turns] == ["line 0", "line 1", "line 2"]
    (episode,) = build_conversations(ask(scope=str(SHOP.scope), session="s1")).episodes
    assert episode.owner == "alice"
    assert [turn.text for turn in episode.turns] == ["I live in Berlin.", "I love climbing in Yosemite every spring."]
    facts = {each.fact.title: each.evidence for each in episode.facts}
    assert len(facts) >= 2
    (about_climbing,) = (evidence for title, evidence in facts.items() if "climbing" in title)
    (quote,) = about_climbing
    assert (quote.text, quote.author) == ("I love climbing in Yosemite every spring.", "Alice")
    assert talks.read(quote.id).kind is Kind.TURN
    waiting = build_conversations(ask(scope=str(SHOP.scope), session="s3"))
    assert (waiting.episodes, [turn.text for turn in waiting.turns]) == ((), ["Hello again."])
    with pytest.raises(NotFound):
        build_conversations(ask(scope=str(SHOP.scope), session="nothing"))


@pytest.mark.requirement("page:people")
def test_a_profile_shows_what_holds_what_it_superseded_what_ended_and_what_was_asked_for(
    talks: Engine, ask: Ask, browser: Browser
) -> None:
    said = [
        "I no longer have a dog.",
        "Always answer in bullet points.",
        "From now on, always answer in full sentences.",
    ]
    for number, line in enumerate(said, 4):
        talk(talks, f"s{number}", line, at=START + timedelta(days=5 + number))
    (person,) = build_conversations(ask(tab="people")).people
    assert person.name == "alice"
    profile = build_conversations(ask(person=person.link.partition("person=")[2])).person
    assert profile is not None
    home = next(each for each in profile.current if each.topic == "home")
    assert "Oslo" in home.description
    assert home.evidence == "I moved to Oslo."
    assert ["Berlin" in each.description for each in home.superseded] == [True]
    assert talks.read(home.link.partition("id=")[2]).text == "I moved to Oslo."
    (dog,) = profile.ended
    assert [old.description for old in dog.superseded] == ["Has a dog called Rex."]
    newest = profile.instructions[0]
    assert talks.read(newest.link.partition("id=")[2]).text == said[-1]
    shown = browser.show(person.link)
    assert shown.index("Asked of the assistant") < shown.index("full sentences") < shown.index("Known now")


@pytest.mark.requirement("page:sessions", "page:people")
def test_records_and_profiles_of_any_shape_can_be_shown(memory: Engine, ask: Ask) -> None:
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
    circle: dict[str, object] = {"topic": "home", "timestamp_ms": "soon", "evidence": 7}
    circle["supersedes"] = circle
    item = make_item(circle, {})  # type: ignore[arg-type]  # it comes from a file
    assert (item.topic, item.at, item.evidence) == ("home", None, "")
    assert len(item.superseded) == conversations_view.DEEPEST - 1


@pytest.mark.requirement("page:reach")
def test_a_limited_token_sees_its_own_conversations_alone_and_only_a_profile_is_a_person(
    talks: Engine, ask: Ask
) -> None:
    talk(talks, "s9", "I live in Rome.", project=Project(app="bank", name="main"), sender="bob")
    viewer = Viewer(reach=Scope("rest", "bank"))
    assert [each.name for each in build_conversations(ask(viewer)).sessions] == ["s9"]
    assert [each.name for each in build_conversations(ask(viewer, tab="people")).people] == ["bob"]
    (alice,) = (each for each in build_conversations(ask(tab="people")).people if each.name == "alice")
    note = talks.write(Scope("notes"), text="a note")
    for request in (ask(viewer, person=alice.link.partition("person=")[2]), ask(person=note.id)):
        with pytest.raises(NotFound):
            build_conversations(request)


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
