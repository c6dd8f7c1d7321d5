"""Where a search happens: candidates by words and by vectors, one score, a floor, hits that explain themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ..backends.interface import Bounds, Brief, View
from ..embed import Embedder
from ..text.tokenizer import match_words, query_words, words
from ..values.errors import Invalid, Unavailable
from ..values.query import Hit, Page, Query, Searched, Signal, Why
from ..values.records import Draft, Similar
from . import ranking
from .ranking import Place

if TYPE_CHECKING:
    from ..backends.interface import Vector

CANDIDATES = 100  # the fewest that each signal is asked for
ALONE = 40  # the fewest that words are asked for, where nothing that stands around a candidate counts
EXPANDED = 30  # so many of the best bring their surroundings along
# What is asked of the best of few candidates, of the store's floor: among many, one that is off the topic comes near by
# chance. Also of all where none has a word of the query to speak for it: cosines of paraphrases are low.
LENIENT = 0.55
NEAR, NEAR_LEAST = 3, 0.2  # what is named of those that the floor left out, when it left nothing
ALIKE, ALIKE_CANDIDATES = 0.7, 20  # the share of words in common that makes two records near-duplicates


@dataclass(slots=True)
class _Candidates:
    """The candidates of a search, by their number: each signal's raw scores and what is known of each."""

    keyword: dict[int, float] = field(default_factory=dict)
    semantic: dict[int, float] = field(default_factory=dict)
    relevance: dict[int, float] = field(default_factory=dict)
    """How telling the words are that a candidate holds."""
    briefs: dict[int, Brief] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Scored:
    """Each candidate's total, and what it is made of."""

    total: dict[int, float]
    shares: dict[int, tuple[float, float]]
    context: dict[int, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Sought:
    """What to look for by meaning: the query's vector, of length 1, and whose it is; or why there is none."""

    vector: Vector | None = None
    embedder: str = ""
    missing: str | None = None


def sought(query: Query, embedder: Embedder | None, missing: str | None) -> Sought:
    """Embed a query. `missing` says why there is no embedder, when the user did not choose to have none."""
    if query.mode == "keyword":
        return Sought()
    if embedder is None:
        return Sought(missing=_without_vectors(query, missing or "this store has no embedder"))
    import numpy as np

    if query.vector is not None:
        given = np.asarray(query.vector, np.float64)
        return Sought((given / np.linalg.norm(given)).astype(np.float32), embedder.id)
    if not query.text.strip():
        return Sought(embedder=embedder.id)
    try:
        return Sought(embedder.embed_query(query.text), embedder.id)
    except Unavailable as error:
        return Sought(missing=_without_vectors(query, error.public or str(error)))


def search(view: View, query: Query, sought: Sought, *, floor: float, fusion: str) -> Page:
    """Answer `query` from one consistent look at the store."""
    asked = query_words(query.text)
    bounds = Bounds(scope=query.scope, exact=query.exact, kinds=query.kinds, filter=query.filter)
    depth = max(CANDIDATES, 4 * query.limit)
    found = _Candidates()

    if query.mode != "semantic":
        # A word's candidate far down can come first only by what stands around it.
        enough = depth if view.in_sessions() else max(ALONE, 4 * query.limit)
        matches = view.keyword(asked, bounds, enough)
        found.keyword = {match.no: match.score for match in matches}
        found.relevance = {match.no: match.relevance for match in matches}
    by_words, by_meaning = len(found.keyword), None
    degraded = [sought.missing] if sought.missing else []
    if sought.vector is not None:
        try:
            near = view.semantic(sought.vector, sought.embedder, bounds, depth)
        except Invalid as error:
            if query.vector is not None:
                raise
            # The embedder's vectors have changed their size; those of the old size are about to be made anew.
            degraded.append(_without_vectors(query, str(error)))
        else:
            found.semantic = {match.no: match.score for match in near}
            by_meaning = len(near)
            unseen = [no for no in found.keyword if no not in found.semantic]
            found.semantic |= view.cosines(sought.vector, sought.embedder, unseen)
            found.briefs = view.briefs([*found.keyword, *(m.no for m in near if m.no not in found.keyword)])
            _surround(view, found, bounds, sought)
    if not found.briefs:
        found.briefs = view.briefs(list(found.keyword))
        _surround(view, found, bounds, Sought())

    scored = _score(query, found, asked, fusion)
    relevant = {no: _relevance(no, found) for no in scored.total}
    if query.floor is None:
        floor *= LENIENT + (1 - LENIENT) * min(1.0, len(found.briefs) / CANDIDATES) if found.keyword else LENIENT
    kept = _kept(found, relevant, floor)
    kept.sort(key=lambda no: (-scored.total[no], -no))
    degraded += _unseen(view, query, bounds, sought)
    return Page(
        hits=_hits(view, _first(kept, query, found), found, scored, relevant, asked),
        near=_hits(view, [] if kept else _near(relevant), found, scored, relevant, asked),
        searched=Searched(
            scope=query.scope, kinds=query.kinds, mode=query.mode, words=asked, keyword=by_words, semantic=by_meaning
        ),
        cut=len(scored.total) - len(kept),
        degraded="; ".join(degraded) or None,
    )


def _without_vectors(query: Query, reason: str) -> str:
    return f"{'searched by words only' if query.mode == 'hybrid' else 'nothing was searched'}: {reason}"


def _surround(view: View, found: _Candidates, bounds: Bounds, sought: Sought) -> None:
    """Bring in the turns around the best candidates: an answer often stands beside the words that find it."""
    cosines = ranking.normalised(found.semantic)
    word_scores = ranking.normalised(found.keyword, 0.0)
    in_session = [no for no, brief in found.briefs.items() if brief.parent is not None and brief.position is not None]
    in_session.sort(key=lambda no: -(word_scores.get(no, 0.0) + cosines.get(no, 0.0)))
    best = [found.briefs[no] for no in in_session[:EXPANDED]]
    if not best:
        return
    around = view.neighbours(best, ranking.REACH, bounds)
    found.briefs |= {brief.no: brief for brief in around}
    if sought.vector is not None:
        found.semantic |= view.cosines(sought.vector, sought.embedder, [brief.no for brief in around])


def _score(query: Query, found: _Candidates, asked: Sequence[str], fusion: str) -> _Scored:
    """One total for each candidate: the signals fused, then what its surroundings add."""
    in_session = any(brief.parent is not None for brief in found.briefs.values())
    places = {no: _place(brief) for no, brief in found.briefs.items()} if in_session else {}
    word_scores = found.keyword
    if in_session and word_scores:
        near = ranking.windowed(word_scores, places)
        word_scores = {no: (1 - ranking.WINDOW) * word_scores.get(no, 0.0) + ranking.WINDOW * near[no] for no in places}
    shares = _fused(found, word_scores, query, fusion)
    total = {no: sum(parts) for no, parts in shares.items()}
    # A turn without a word of the query has this from the turns around it.
    context = {no: {"window": by_words} for no, (by_words, _) in shares.items() if by_words and no not in found.keyword}
    if in_session:
        authors = {no: _names(place.author) for no, place in places.items() if place.session is not None}
        # Ranks fused give scores of another size than sums of normalised ones, for which these gains are meant.
        unit = max(total.values(), default=0.0) if fusion == "rrf" else 1.0
        gains = {
            "neighbours": ranking.smoothed(total, places),
            "author": {no: unit * gain for no, gain in ranking.named_author(asked, authors).items()},
            "date": {no: unit * gain for no, gain in ranking.dated(query.text, places).items()},
        }
        for name, gained in gains.items():
            _add(name, gained, total, context)
        _add("session", ranking.session_best(total, places), total, context)
        _add("children", _children(total, found.briefs), total, context)
    return _Scored(total, shares, context)


def _fused(
    found: _Candidates, word_scores: dict[int, float], query: Query, fusion: str
) -> dict[int, tuple[float, float]]:
    """What words and vectors each give to a candidate's total."""
    if fusion == "rrf" and query.mode == "hybrid" and found.semantic:
        fused = ranking.reciprocal(ranking.ranks(found.keyword), ranking.ranks(found.semantic))
        return {no: fused.get(no, (0.0, 0.0)) for no in found.briefs}
    weight = ranking.KEYWORD_WEIGHT if found.semantic and found.keyword else (0.0 if found.semantic else 1.0)
    by_words = ranking.normalised(word_scores, 0.0)
    by_meaning = ranking.normalised(found.semantic)
    return {
        no: (weight * by_words.get(no, 0.0), (1 - weight) * by_meaning.get(no, 0.0) if found.semantic else 0.0)
        for no in found.briefs
    }


def _children(total: dict[int, float], briefs: dict[int, Brief]) -> dict[int, float]:
    """A record is as good as the best of what hangs under it: an episode as its best fact or turn."""
    by_id = {brief.id: no for no, brief in briefs.items()}
    best: dict[int, float] = {}
    for no, brief in briefs.items():
        parent = by_id.get(brief.parent) if brief.parent is not None else None
        if parent is not None:
            best[parent] = max(best.get(parent, 0.0), total[no])
    return {no: score - total[no] for no, score in best.items() if score > total[no]}


def _add(name: str, gained: dict[int, float], total: dict[int, float], context: dict[int, dict[str, float]]) -> None:
    for no, gain in gained.items():
        total[no] += gain
        context.setdefault(no, {})[name] = gain


def _relevance(no: int, found: _Candidates) -> tuple[float, float]:
    """How much words and vectors each say for a candidate, from 0 to 1, whatever the other candidates are."""
    return found.relevance.get(no, 0.0), min(1.0, max(0.0, found.semantic.get(no, 0.0)))


def _kept(found: _Candidates, relevant: dict[int, tuple[float, float]], floor: float) -> list[int]:
    """The candidates that reach the floor, and those that stand beside one: an answer need not repeat the question."""
    strong = {no for no in found.briefs if max(relevant[no]) >= floor}
    if floor <= 0 or not strong:
        return list(found.briefs) if floor <= 0 else []
    if all(brief.parent is None for brief in found.briefs.values()):
        return list(strong)
    places = {no: _place(brief) for no, brief in found.briefs.items()}
    lifted = ranking.windowed(dict.fromkeys(strong, 1.0), places)
    return [no for no in found.briefs if lifted[no] > 0]


def _near(relevant: dict[int, tuple[float, float]]) -> list[int]:
    """The candidates that came nearest to the floor: a paraphrase in a note of five words often stays below it."""
    best = sorted(relevant, key=lambda no: (-max(relevant[no]), -no))
    return [no for no in best[:NEAR] if max(relevant[no]) >= NEAR_LEAST]


def _first(kept: list[int], query: Query, found: _Candidates) -> list[int]:
    """The best of the candidates, as many as are asked for."""
    if query.each is None:
        return kept[: query.limit]
    families: dict[str, Counter[bool]] = {}
    chosen = []
    for no in kept:
        brief = found.briefs[no]
        name, placed = brief.parent or brief.id, brief.position is not None
        if name not in families and len(families) < query.limit:
            families[name] = Counter()
        if name in families and families[name][placed] < query.each:
            families[name][placed] += 1
            chosen.append(no)
    return chosen


def _hits(
    view: View, nos: list[int], found: _Candidates, scored: _Scored,
    relevant: dict[int, tuple[float, float]], asked: tuple[str, ...],
) -> tuple[Hit, ...]:  # fmt: skip
    records = view.records(nos)
    word_ranks, meaning_ranks = ranking.ranks(found.keyword), ranking.ranks(found.semantic)
    hits = []
    for no in nos:
        by_words, by_meaning = scored.shares[no]
        why = Why(
            keyword=Signal(score=found.keyword[no], rank=word_ranks[no], share=by_words, relevance=relevant[no][0])
            if no in found.keyword
            else None,
            semantic=Signal(
                score=found.semantic[no], rank=meaning_ranks[no], share=by_meaning, relevance=relevant[no][1]
            )
            if no in found.semantic
            else None,
            context=scored.context.get(no, {}),
            find_words=partial(match_words, records[no], asked),
        )
        hits.append(Hit(record=records[no], score=scored.total[no], why=why))
    return tuple(hits)


def _unseen(view: View, query: Query, bounds: Bounds, sought: Sought) -> list[str]:
    """What this search could not see, in sentences."""
    said = []
    backlog = view.backlog(sought.embedder or None, bounds)
    if backlog.lost_words and query.mode != "semantic":
        said.append("the word index is being rebuilt: older records are not found by words until it is done")
    if backlog.many:
        said.append("many records have no vector yet and are found by their words only")
    elif backlog.vectors:
        one = backlog.vectors == 1
        have = "1 record has" if one else f"{backlog.vectors:,} records have"
        said.append(f"{have} no vector yet and {'is found by its' if one else 'are found by their'} words only")
    return said


def _place(brief: Brief) -> Place:
    session = (brief.scope, brief.parent) if brief.parent is not None else None
    return Place(session, brief.position, brief.author, brief.created_at)


@lru_cache(maxsize=4096)
def _names(author: str) -> frozenset[str]:
    return frozenset(words(author))


def similar(view: View, draft: Draft) -> tuple[Similar, ...]:
    """Records of the draft's scope and kind that say nearly the same, the most alike first."""
    mine = set(words(draft.text))
    if not mine:
        return ()
    bounds = Bounds(scope=draft.scope, exact=True, kinds=(draft.kind,), filter=None)
    found = view.keyword(tuple(mine), bounds, ALIKE_CANDIDATES)
    alike = []
    for record in view.records([match.no for match in found]).values():
        theirs = set(words(record.text))
        likeness = len(mine & theirs) / len(mine | theirs)
        if likeness >= ALIKE:
            alike.append(Similar(id=record.id, title=record.title, likeness=likeness))
    return tuple(sorted(alike, key=lambda one: -one.likeness))
