"""How memory is found again: a user's episodes by the best of what they hold, an agent's cases and skills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..embed import TokenEmbedder
from ..engine.calibration import estimate_whole
from ..engine.engine import Engine
from ..engine.ranking import is_about_asker
from ..engine.search import FURTHER
from ..text.tokenizer import split_query, split_words
from ..values.query import MAX_LIST, AllOf, Filter, Hit, Mode, Page, Query, Where, Why
from ..values.records import Kind, Record, Scope
from .message_records import fields
from .projects import Project, public_id

EACH = 6  # how many of the facts, and of the messages, that an episode is found by count
BEST_MESSAGE = (1, EACH)  # but where no least cosine is asked for, only the best of the messages does
FACT_FLOOR = 0.25  # the relevance that a fact needs to be shown with its episode, which was found already
PART_FLOOR = 0.1  # of the store's floor: what a message or a fact must reach to speak for its episode
FEW_FACTS = 3  # below which an episode shows those beside what it was found by, too
BESIDE = 3  # episodes that are given where the first answers, however likely the others are
MESSAGE = 600  # characters of the longest message that is shown with its episode: a longer one is what facts are for
AT_ONCE = 150  # sessions that are named in one filter


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """What is looked for, and how."""

    text: str
    mode: Mode = "hybrid"
    limit: int
    radius: float | None = None
    """The least cosine that a hit must have; one that has none, because it was found by words alone, may stay."""
    floor: float | None = 0.0
    """The least score of a hit; None for the store's."""
    filter: Filter | None = None


@dataclass(slots=True)
class MemoryHit:
    """An episode, a case or a skill that answers, with the facts under it that do."""

    record: Record
    score: float
    why: Why
    """Why the best of its parts was found."""
    facts: list[Hit] = field(default_factory=list)
    """May have among them the message of the user that it was found by, if facts do not tell all of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found, best first, and why it may be incomplete."""

    hits: list[MemoryHit]
    degraded: str | None
    is_near: bool = False
    """Whether nothing was found although something came near: a floor of 0 would give it."""


def search_episodes(engine: Engine, home: Scope, query: MemoryQuery) -> Answer:
    """A user's episodes. Each is as good as the best of itself, its facts and its messages."""
    each = BEST_MESSAGE if query.radius is None else EACH
    asker = find_asker(engine, home, query.text)
    settings = engine.settings
    # Whether there is an answer is decided below, by the episode; here, only what can be no part of one is left out.
    is_decided = query.floor is not None or not _compares_tokens(engine, query)
    part = query if is_decided else replace(query, floor=PART_FLOOR * settings.floor)
    page = _search(engine, home, (Kind.EPISODE, Kind.FACT, Kind.TURN), part, each=each, asker=asker, current=True)
    groups: dict[str, list[Hit]] = {}
    for hit in page:
        of = hit.record.id if hit.record.kind is Kind.EPISODE else hit.record.parent
        if of is not None:
            groups.setdefault(of, []).append(hit)
    near = {episode: hits for episode, hits in groups.items() if _is_near(hits, query.radius)}
    episodes = _load_episodes(engine, near)
    records = {hit.record.id: hit.record for hit in page}
    found: list[MemoryHit] = []
    least = FACT_FLOOR if engine.settings.floor else 0.0
    for episode, hits in near.items():
        if episode in episodes:
            facts = [_name_successor(hit, records) for hit in hits if _is_fact(hit, least)]
            found.append(MemoryHit(episodes[episode], hits[0].score, hits[0].why, facts))
    if found and settings.fusion != "rrf":
        found[0].score = round(estimate_whole(found[0].score), 4)
    if found and not is_decided:
        if found[0].score < settings.floor:
            return Answer([], page.degraded, is_near=True)
        least = FURTHER * settings.floor
        found = [hit for place, hit in enumerate(found) if place < BESIDE or hit.score >= least]
        _add_facts(engine, home, found[:BESIDE], near)
        for first in found[:BESIDE]:
            _add_message(home.names[-1], first, near[first.record.id], records)
    return Answer(found, page.degraded, bool(page.near))


def _add_facts(engine: Engine, home: Scope, episodes: Sequence[MemoryHit], groups: Mapping[str, Sequence[Hit]]) -> None:
    """Show with episodes, beside the few facts that are hits, those that were said next to what each was found by.

    An answer often stands beside the words that find it: in the reply to a question, or a sentence further on.
    """
    anchors = {
        each.record.id: part
        for each in episodes
        if len(each.facts) < FEW_FACTS
        and (part := next((hit for hit in groups[each.record.id] if hit.record.kind is not Kind.EPISODE), None))
    }
    if not anchors:
        return
    below = Where("parent", "in", tuple(anchors))
    facts = engine.list(home, exact=True, kinds=(Kind.FACT,), filter=below, limit=MAX_LIST, newest=False)
    for each in episodes:
        anchor = anchors.get(each.record.id)
        if anchor is not None:
            shown = {hit.record.id for hit in each.facts}
            others = [fact for fact in facts if fact.parent == each.record.id and fact.id not in shown]
            others.sort(key=lambda fact: abs(fact.created_at - anchor.record.created_at))
            each.facts += [Hit(record=fact, score=0.0, why=Why()) for fact in others[: EACH - len(each.facts)]]


def _add_message(user: str, episode: MemoryHit, hits: Sequence[Hit], records: Mapping[str, Record]) -> None:
    """Show among an episode's facts the message of the user that it was found by, if it says more than they do.

    Not every clause becomes a fact, and what was asked for may stand in one that did not.
    """
    message = next((hit for hit in hits if hit.record.kind is Kind.TURN and _is_by(hit.record, user)), None)
    if message is None or not episode.facts or len(message.record.text) > MESSAGE:
        return
    told = {word for fact in episode.facts for word in split_words(fact.record.text)}
    if set(split_query(message.record.text)) - told:
        place = sum(fact.score >= message.score for fact in episode.facts)
        episode.facts.insert(place, _name_successor(message, records))


def _is_by(record: Record, user: str) -> bool:
    data = fields(record)
    return data.get("sender_id") == user and data.get("role") == "user"


def search_agent(engine: Engine, home: Scope, kind: Kind, query: MemoryQuery) -> Answer:
    """An agent's cases, or its skills."""
    page = _search(engine, home, (kind,), query)
    found = [MemoryHit(hit.record, hit.score, hit.why) for hit in page if _is_near([hit], query.radius)]
    return Answer(found, page.degraded, bool(page.near))


def is_waiting(engine: Engine, project: Project, user: str) -> bool:
    """Whether the user has said something that has not been carved yet."""
    return bool(engine.headings(project.scope / "session", kinds=(Kind.TURN,), filter=_match_sender(user), limit=1))


def search_waiting(engine: Engine, project: Project, user: str, query: MemoryQuery) -> Answer:
    """Messages that have not been carved yet, of the sessions in which the user has a part."""
    sessions = project.scope / "session"
    there = engine.list(sessions, kinds=(Kind.TURN,), filter=_match_sender(user), limit=MAX_LIST)
    mine = list(dict.fromkeys(record.scope for record in there))
    found, degraded, is_near = [], None, False
    for start in range(0, len(mine), AT_ONCE):
        some = Where("scope", "in", tuple(mine[start : start + AT_ONCE]))
        page = engine.search(
            Query(
                query.text, scope=sessions, kinds=(Kind.TURN,), mode=query.mode, limit=query.limit, floor=query.floor,
                filter=some if query.filter is None else AllOf(some, query.filter),
            )
        )  # fmt: skip
        found += [MemoryHit(hit.record, hit.score, hit.why) for hit in page if _is_near([hit], query.radius)]
        degraded, is_near = degraded or page.degraded, is_near or bool(page.near)
    best = sorted(found, key=lambda each: -each.score)[: query.limit]
    return Answer(best, degraded, is_near and not best)


def _match_sender(user: str) -> Filter:
    return AllOf(Where("data.sender_id", "=", user), Where("data.role", "=", "user"))


def _search(
    engine: Engine,
    home: Scope,
    kinds: tuple[Kind, ...],
    query: MemoryQuery,
    each: int | tuple[int, int] | None = None,
    asker: tuple[str, ...] = (),
    current: bool = False,
) -> Page:
    return engine.search(
        Query(
            query.text, scope=home, exact=True, kinds=kinds, filter=query.filter, mode=query.mode, limit=query.limit,
            each=each, floor=query.floor, asker=asker, current=current,
        )
    )  # fmt: skip


def find_asker(engine: Engine, home: Scope, question: str) -> tuple[str, ...]:
    """Return the names that a user is known by as an author, if the question speaks of them: the newest, and the id."""
    if not is_about_asker(question):
        return ()
    user = home.names[-1]
    latest = engine.headings(
        home, exact=True, kinds=(Kind.TURN,), filter=Where("data.sender_id", "=", user), limit=1, newest=True
    )
    return (*(each.author for each in latest), user)


def _is_near(hits: Sequence[Hit], radius: float | None) -> bool:
    cosines = [hit.why.semantic.score for hit in hits if hit.why.semantic is not None]
    return radius is None or not cosines or max(cosines) >= radius


def _compares_tokens(engine: Engine, query: MemoryQuery) -> bool:
    """Whether scores tell enough to hold the floor against a whole episode: others are high where nothing answers."""
    settings = engine.settings
    if query.mode == "keyword" or not settings.token_codes or settings.fusion == "rrf":
        return False
    return isinstance(engine.embedder(), TokenEmbedder)


def _is_fact(hit: Hit, floor: float) -> bool:
    return hit.record.kind is Kind.FACT and _is_relevant(hit, floor)


def _name_successor(hit: Hit, records: Mapping[str, Record]) -> Hit:
    """A hit with the name by which clients know what says something newer; with none where that is no hit itself."""
    later = records.get(hit.superseded_by or "")
    if later is None:
        return hit if hit.superseded_by is None else replace(hit, superseded_by=None, superseded_at=None)
    is_fact = later.kind is Kind.FACT
    return replace(hit, superseded_by=public_id(later) if is_fact else str(fields(later).get("message_id", later.id)))


def _is_relevant(hit: Hit, floor: float) -> bool:
    """Whether a fact answers by itself, rather than by what stands around it."""
    signals = [signal for signal in (hit.why.keyword, hit.why.semantic) if signal is not None]
    return any(signal.relevance >= floor for signal in signals)


def _load_episodes(engine: Engine, groups: Mapping[str, Sequence[Hit]]) -> dict[str, Record]:
    """Return the episodes that hits belong to, by their ids: those that are hits themselves, and the others read."""
    found = {hit.record.id: hit.record for hits in groups.values() for hit in hits if hit.record.kind is Kind.EPISODE}
    others = engine.read_many(each for each in groups if each not in found)
    # None where messages stand alone, or the episode was deleted since.
    return found | {each.id: each for each in others if each is not None and each.kind is Kind.EPISODE}
