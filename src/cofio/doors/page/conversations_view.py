"""The conversations: sessions with their episodes, facts and turns; people, and what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from ...conversations.message_records import make_turn_id
from ...conversations.projects import Project
from ...conversations.stored_fields import PROFILE_INSTRUCTIONS
from ...engine.engine import Engine
from ...extract.profiles import Item
from ...values.errors import NotFound
from ...values.query import Where
from ...values.records import Json, Kind, Record, Scope
from ...values.scopes import CONVERSATIONS
from ...values.times import from_millis
from .list_entries import LONG_EXCERPT, Entry, make_entry
from .view_types import OFFSET, SCOPE, Parameter, View, ViewRequest, make_link

PAGE = 50  # episodes from which the list of sessions is made, people, and turns of a transcript
EPISODES = 10  # of a session on one page
FACTS, TURNS = 100, 200  # of one episode
LATEST = 200  # turns among which sessions are looked for that have no episode yet
QUOTE = 600  # characters of a turn that are quoted as evidence
MAX_OFFSET = 100_000
DEEPEST = 20  # links of a chain that are followed
_ENDED, _CURRENT, _TRAITS = "ended_info", "explicit_info", "implicit_traits"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """A session in the list."""

    name: str
    scope: Scope
    """The project that it is of, or the scope of its turns."""
    link: str
    at: datetime
    """When its last episode ended, or its last turn came in."""
    subjects: tuple[str, ...]
    """What its episodes on this page are about."""
    owners: tuple[str, ...]
    waiting: int
    """How many of the last turns are in no episode yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """A turn that something is known from."""

    id: str
    link: str
    author: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactEntry:
    """A fact, with the turns that it was taken from."""

    fact: Entry
    evidence: tuple[Quotation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEntry:
    """An episode, with the facts that were taken from it and its turns."""

    episode: Entry
    owner: str
    summary: str
    facts: tuple[FactEntry, ...]
    turns: tuple[Quotation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonEntry:
    """A person of whom something is known."""

    name: str
    scope: Scope
    link: str
    summary: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileItem:
    """Something that is, or was, known of a person."""

    topic: str
    category: str
    description: str
    evidence: str
    at: datetime | None
    link: str
    """Where the turn is that says it; empty if it is not there any more."""
    superseded: tuple[ProfileItem, ...] = ()
    """What it took the place of, or ended, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonProfile:
    """All that is known of a person."""

    name: str
    scope: Scope
    record: str
    """Where the record of the profile is."""
    summary: str
    updated_at: datetime
    instructions: tuple[ProfileItem, ...]
    """What they asked of the assistant, the newest first."""
    current: tuple[ProfileItem, ...]
    ended: tuple[ProfileItem, ...]
    traits: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationsModel:
    """The list of sessions or of people, or one of them."""

    tab: str
    scope: Scope
    sessions: tuple[SessionEntry, ...] = ()
    people: tuple[PersonEntry, ...] = ()
    session: str = ""
    episodes: tuple[EpisodeEntry, ...] = ()
    turns: tuple[Quotation, ...] = ()
    """The turns of the session that are in no episode."""
    person: PersonProfile | None = None
    offset: int = 0
    before: str = ""
    next: str = ""


def build_conversations(request: ViewRequest) -> ConversationsModel:
    """The sessions or the people within a scope, or one of them."""
    engine, scope = request.engine, request.get_scope()
    offset = request.get_int("offset", 0, 0, MAX_OFFSET)
    tab = "people" if request.get("tab") == "people" or request.get("person") else "sessions"
    if request.get("person"):
        return _show_person(request, scope)
    if request.get("session"):
        return _show_session(engine, scope, request.get("session"), offset)
    own: dict[str, object] = {"tab": tab if tab == "people" else None, "scope": scope if request.get("scope") else None}
    if tab == "people":
        profiles = engine.list(scope, kinds=(Kind.PROFILE,), limit=PAGE + 1, offset=offset)
        people = tuple(_make_person_entry(each) for each in profiles[:PAGE])
        return ConversationsModel(tab=tab, scope=scope, people=people, **_page(own, offset, len(profiles), PAGE))
    episodes = engine.list(scope, kinds=(Kind.EPISODE,), limit=PAGE + 1, offset=offset, order="created")
    sessions = list_sessions(engine, scope, episodes[:PAGE], with_waiting=not offset)
    return ConversationsModel(tab=tab, scope=scope, sessions=sessions, **_page(own, offset, len(episodes), PAGE))


def list_sessions(
    engine: Engine, scope: Scope, episodes: Iterable[Record], *, with_waiting: bool
) -> tuple[SessionEntry, ...]:
    """The sessions that episodes are of, and those that the last turns are in, the newest first."""
    found: dict[tuple[Scope, str], list[Record]] = {}
    for episode in episodes:
        session = _get_text(episode.data, "session_id")
        if len(episode.scope.names) >= 3 and session:
            found.setdefault((Scope(*episode.scope.names[:3]), session), []).append(episode)
    waiting: dict[tuple[Scope, str], list[datetime]] = {}
    for turn in engine.headings(scope, kinds=(Kind.TURN,), limit=LATEST) if with_waiting else ():
        if (place := _find_session(turn.scope)) is not None:
            waiting.setdefault(place, []).append(turn.updated_at)
    entries = []
    for home, name in dict.fromkeys([*waiting, *found]):
        mine, times = found.get((home, name), []), waiting.get((home, name), [])
        entries.append(
            SessionEntry(
                name=name, scope=home, link=make_link("conversations", scope=home, session=name),
                at=max([*(each.created_at for each in mine), *times]),
                subjects=tuple(dict.fromkeys(each.title for each in mine if each.title))[:5],
                owners=tuple(dict.fromkeys(each.scope.names[-1] for each in mine)), waiting=len(times),
            )
        )  # fmt: skip
    return tuple(sorted(entries, key=lambda each: each.at, reverse=True))


def _find_session(scope: Scope) -> tuple[Scope, str] | None:
    """The session whose turns a scope holds; None for turns that an episode was made of."""
    if scope in CONVERSATIONS:
        is_session = len(scope.names) == 5 and scope.names[3] == "session"
        return (Scope(*scope.names[:3]), scope.names[4]) if is_session else None
    if not scope.names:
        return None
    return Scope(*scope.names[:-1]), scope.names[-1]


def _show_session(engine: Engine, scope: Scope, name: str, offset: int) -> ConversationsModel:
    """A session with its episodes, or with its turns where no one makes episodes of them.

    Raises:
        NotFound: there is nothing of it in the scope.
    """
    is_carved = scope in CONVERSATIONS and len(scope.names) >= 3
    of_it = Where("data.session_id", "=", name)
    episodes = (
        engine.list(scope, kinds=(Kind.EPISODE,), filter=of_it, limit=EPISODES + 1, offset=offset, order="created",
                    newest=False)
        if is_carved
        else []
    )  # fmt: skip
    size = EPISODES if episodes else PAGE
    home = scope / "session" / name if is_carved else scope / name
    turns = engine.list(
        home, exact=True, kinds=(Kind.TURN,), limit=PAGE + 1, offset=0 if episodes else offset, newest=False,
        order="written",
    )  # fmt: skip
    if not episodes and not turns and not offset:
        raise NotFound(name)
    own: dict[str, object] = {"scope": scope, "session": name}
    return ConversationsModel(
        tab="sessions", scope=scope, session=name,
        episodes=tuple(_make_episode(engine, each) for each in episodes[:EPISODES]),
        turns=tuple(_quote(each) for each in turns[:PAGE]),
        **_page(own, offset, len(episodes) if episodes else len(turns), size),
    )  # fmt: skip


def _make_episode(engine: Engine, episode: Record) -> EpisodeEntry:
    under = Where("parent", "=", episode.id)
    facts = engine.list(
        episode.scope, exact=True, kinds=(Kind.FACT,), filter=under, limit=FACTS, order="written", newest=False
    )
    turns = engine.list(
        episode.scope, exact=True, kinds=(Kind.TURN,), filter=under, limit=TURNS, order="written", newest=False
    )
    by_message = {_get_text(turn.data, "message_id"): turn for turn in turns}
    return EpisodeEntry(
        episode=make_entry(episode, length=LONG_EXCERPT), owner=episode.scope.names[-1],
        summary=_get_text(episode.data, "summary"), turns=tuple(_quote(turn) for turn in turns),
        facts=tuple(
            FactEntry(
                fact=make_entry(fact),
                evidence=tuple(_quote(by_message[each]) for each in _list_messages(fact) if each in by_message),
            )
            for fact in facts
        ),
    )  # fmt: skip


def _show_person(request: ViewRequest, scope: Scope) -> ConversationsModel:
    record = request.engine.read(request.get("person"))
    request.viewer.check_sees(record)
    if record.kind is not Kind.PROFILE:
        raise NotFound(record.id)
    data = record.data if isinstance(record.data, dict) else {}
    items = [item for name in (PROFILE_INSTRUCTIONS, _CURRENT, _ENDED) for item in _list_items(data, name)]
    links = _find_turns(request.engine, record.scope, items)
    person = PersonProfile(
        name=record.scope.names[-1] if record.scope.names else record.id, scope=record.scope,
        record=make_link("record", id=record.id), summary=_get_text(data, "summary"), updated_at=record.updated_at,
        instructions=tuple(make_item(each, links) for each in _list_items(data, PROFILE_INSTRUCTIONS)),
        current=tuple(make_item(each, links) for each in reversed(_list_items(data, _CURRENT))),
        ended=tuple(make_item(each, links) for each in _list_items(data, _ENDED)),
        traits=tuple(_describe_trait(each) for each in _list_values(data, _TRAITS)),
    )  # fmt: skip
    return ConversationsModel(tab="people", scope=scope, person=person)


def make_item(item: Item, links: Mapping[tuple[str, str], str]) -> ProfileItem:
    """Something that is known, with what it superseded."""
    first, *others = [*_follow(item)]
    return _make_single(first, links, tuple(_make_single(each, links) for each in others))


def _make_single(
    item: Item, links: Mapping[tuple[str, str], str], superseded: tuple[ProfileItem, ...] = ()
) -> ProfileItem:
    at = item.get("timestamp_ms")
    return ProfileItem(
        topic=_get_text(item, "topic"), category=_get_text(item, "category"),
        description=_get_text(item, "description") or _get_text(item, "text"),
        evidence=_get_text(item, "evidence")[:QUOTE],
        at=from_millis(at) if isinstance(at, int) and 0 < at < 10**14 else None,
        link=links.get(_get_source(item), ""), superseded=superseded,
    )  # fmt: skip


def _find_turns(engine: Engine, home: Scope, items: Iterable[Item]) -> dict[tuple[str, str], str]:
    """Where the turns are that items were taken from, by session and message, as far as they are still there."""
    if len(home.names) < 3:
        return {}
    project = Project(app=home.names[1], name=home.names[2])
    sources = dict.fromkeys(_get_source(each) for item in items for each in _follow(item))
    wanted = [(source, make_turn_id(project, *source)) for source in sources if all(source)]
    records = engine.read_many(each for _, each in wanted)
    return {
        source: make_link("record", id=record.id)
        for (source, _), record in zip(wanted, records, strict=True)
        if record is not None
    }


def _follow(item: Item) -> Iterator[Item]:
    """An item, and what it superseded, the newest first."""
    link: Json = item
    for _ in range(DEEPEST):
        if not isinstance(link, dict):
            return
        yield link
        link = link.get("supersedes")


def _make_person_entry(profile: Record) -> PersonEntry:
    name = profile.scope.names[-1] if profile.scope.names else profile.id
    return PersonEntry(
        name=name, scope=profile.scope, link=make_link("conversations", person=profile.id),
        summary=_get_text(profile.data, "summary") or profile.text[:QUOTE], updated_at=profile.updated_at,
    )  # fmt: skip


def _quote(turn: Record) -> Quotation:
    text = _get_text(turn.data, "said") or turn.text
    return Quotation(
        id=turn.id, link=make_link("record", id=turn.id), author=turn.author or _get_text(turn.data, "role"),
        at=turn.created_at, text=text if len(text) <= QUOTE else f"{text[:QUOTE]} …",
    )  # fmt: skip


def _describe_trait(trait: Json) -> str:
    if isinstance(trait, dict):
        return _get_text(trait, "description") or _get_text(trait, "trait")
    return str(trait)


def _list_messages(fact: Record) -> list[str]:
    messages = fact.data.get("messages") if isinstance(fact.data, dict) else None
    return [str(each) for each in messages] if isinstance(messages, list) else []


def _list_items(data: Mapping[str, Json], name: str) -> list[Item]:
    return [each for each in _list_values(data, name) if isinstance(each, dict)]


def _list_values(data: Mapping[str, Json], name: str) -> list[Json]:
    values = data.get(name)
    return values if isinstance(values, list) else []


def _get_source(item: Item) -> tuple[str, str]:
    return _get_text(item, "session_id"), _get_text(item, "message_id")


def _get_text(data: Json, name: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""


class _Pages(TypedDict):
    """Which page of a list it is, and where those before and after it are."""

    offset: int
    before: str
    next: str


def _page(own: Mapping[str, object], offset: int, count: int, size: int) -> _Pages:
    return {
        "offset": offset,
        "before": make_link("conversations", **own, offset=max(0, offset - size) or None) if offset else "",
        "next": make_link("conversations", **own, offset=offset + size) if count > size else "",
    }


VIEW = View(
    name="conversations",
    title="Conversations",
    build=build_conversations,
    summary="Show sessions with their episodes, facts and turns, and people with what is known of them.",
    parameters=(
        SCOPE,
        Parameter(name="tab", description="What is listed.", schema={"enum": ["sessions", "people"]}),
        Parameter(name="session", description="The session that is shown, of the project that `scope` names."),
        Parameter(name="person", description="The id of the profile that is shown."),
        OFFSET,
    ),
)
