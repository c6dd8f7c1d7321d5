"""What belongs to a record: what it came from, what was made of it, and what says something like it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import cast

from ...conversations.message_records import make_turn_id
from ...conversations.projects import Project, parse_public_id, public_id
from ...conversations.stored_fields import PROFILE_ITEMS, SOURCE_CASES
from ...engine.engine import Engine
from ...values.query import Query, Where
from ...values.records import NOT_SEARCHABLE, Json, Kind, Record
from ...values.scopes import CONVERSATIONS
from .list_entries import Entry, make_entry
from .viewer import Viewer

MOST = 50  # relatives of one sort
SIMILAR = 8
TEXT = 600  # characters of a text that others are looked for by
QUOTE = 700  # characters of a message that is quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A record with the beginning of its text, which is quoted."""

    entry: Entry
    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relatives:
    """The relatives of a record, each sort bounded."""

    evidence: tuple[Quote, ...]
    """What it was made of: messages, quoted; cases of a skill; the document of a topic."""
    offspring: tuple[Entry, ...]
    """What was made of it: facts of a message or an episode, a skill of a case, topics of a document."""
    similar: tuple[tuple[Entry, float], ...]
    """What says something like it, with how relevant that is."""
    is_more: bool
    """Whether there is more of a sort than is shown."""


def find_relatives(engine: Engine, viewer: Viewer, record: Record) -> Relatives:
    """Find the relatives of a record that the viewer sees."""
    evidence = _list_seen(viewer, _find_evidence(engine, record), record)
    quoted = {each.id for each in evidence}
    offspring = [each for each in _list_seen(viewer, _find_offspring(engine, record), record) if each.id not in quoted]
    known = {record.id, *(each.id for each in (*evidence, *offspring))}
    return Relatives(
        evidence=tuple(
            Quote(entry=make_entry(each), text=each.text[:QUOTE], is_cut=len(each.text) > QUOTE)
            for each in evidence[:MOST]
        ),
        offspring=tuple(make_entry(each) for each in offspring[:MOST]),
        similar=tuple(_find_similar(engine, viewer, record, known)),
        is_more=max(len(evidence), len(offspring)) > MOST,
    )


def find_project(record: Record) -> Project | None:
    """The project of an app that a record of a conversation belongs to; None for any other record."""
    names = record.scope.names
    if record.scope not in CONVERSATIONS or len(names) < 4:
        return None
    return Project(app=names[1], name=names[2])


def _list_seen(viewer: Viewer, records: Iterable[Record | None], record: Record) -> list[Record]:
    seen = {each.id: each for each in islice(records, MOST + 1) if each is not None and viewer.sees(each)}
    seen.pop(record.id, None)
    return list(seen.values())


def _get_data(record: Record) -> dict[str, Json]:
    return record.data if isinstance(record.data, dict) else {}


def _get_texts(value: Json) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _find_evidence(engine: Engine, record: Record) -> Iterable[Record | None]:
    """What a record was made of, and then what it belongs to."""
    data, project = _get_data(record), find_project(record)
    if record.kind is Kind.EPISODE:
        yield from engine.read_many(_get_texts(data.get("turns"))[: MOST + 1])
    elif record.kind in (Kind.FACT, Kind.CASE) and project is not None:
        session = str(data.get("session_id", ""))
        messages = _get_texts(data.get("messages"))[:MOST]
        yield from engine.read_many(make_turn_id(project, session, each) for each in messages)
    elif record.kind is Kind.PROFILE and project is not None:
        yield from engine.read_many(
            make_turn_id(project, session, message) for session, message in _list_origins(data)[:MOST]
        )
    elif record.kind is Kind.SKILL and project is not None:
        names = [parse_public_id(each) for each in _get_texts(data.get(SOURCE_CASES))[:MOST]]
        pairs = [(project.owner(name.track, name.owner), name.key) for name in names if name is not None]
        yield from engine.get_many(pairs, kind=Kind.CASE)
    if record.parent is not None:
        yield from engine.read_many([record.parent])


def _list_origins(data: dict[str, Json]) -> list[tuple[str, str]]:
    """The sessions and messages that the items of a profile were learned from."""
    items = [each for each in cast("list[Json]", data.get(PROFILE_ITEMS) or []) if isinstance(each, dict)]
    pairs = [(str(each.get("session_id", "")), each.get("message_id")) for each in items]
    return list(dict.fromkeys((session, message) for session, message in pairs if isinstance(message, str)))


def _find_offspring(engine: Engine, record: Record) -> Iterable[Record]:
    """What was made of a record, or belongs to it."""
    kinds = tuple(kind for kind in Kind if kind not in NOT_SEARCHABLE)
    if record.kind is Kind.TURN and record.parent is not None:
        message = _get_data(record).get("message_id")
        facts = engine.list(
            record.scope, exact=True, kinds=(Kind.FACT,), filter=Where("parent", "=", record.parent), limit=10 * MOST
        )
        yield from (fact for fact in facts if message in _get_texts(_get_data(fact).get("messages")))
    elif record.kind is Kind.CASE:
        skills = engine.list(record.scope, exact=True, kinds=(Kind.SKILL,), limit=10 * MOST)
        yield from (skill for skill in skills if public_id(record) in _get_texts(_get_data(skill).get(SOURCE_CASES)))
    elif record.kind is Kind.DOCUMENT:
        yield from engine.list(record.scope / record.id, kinds=(Kind.TOPIC,), limit=MOST + 1, newest=False)
    children = engine.list(filter=Where("parent", "=", record.id), kinds=kinds, limit=2 * MOST, newest=False)
    # What was learned comes before what was said.
    yield from sorted(children, key=lambda each: (each.kind is Kind.TURN, each.position or 0))


def _find_similar(
    engine: Engine, viewer: Viewer, record: Record, known: Iterable[str]
) -> Iterable[tuple[Entry, float]]:
    text = " ".join(part for part in (record.title, record.text[:TEXT]) if part).strip()
    if not text or not record.kind.is_searchable:
        return
    kinds = _choose_kinds(record.kind)
    left_out = frozenset(known)
    page = engine.search(Query(text, scope=viewer.reach, kinds=kinds, limit=SIMILAR + len(left_out)))
    others = [hit for hit in page if hit.record.id not in left_out][:SIMILAR]
    for hit in others:
        yield make_entry(hit.record), min(1.0, max(0.0, hit.score))


def _choose_kinds(kind: Kind) -> tuple[Kind, ...]:
    """The kinds that a record is compared with: a fact with facts, not with the message that says the same."""
    return (kind,) if kind in (Kind.FACT, Kind.TURN, Kind.EPISODE, Kind.TOPIC) else ()
