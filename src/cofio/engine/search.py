"""Where a search happens: candidates by words and by vectors, one score, a floor, hits that explain themselves."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from operator import add
from typing import TYPE_CHECKING

from ..backends.search_interface import Backlog, Candidate, Candidates, Searcher
from ..embed import Embedder
from ..text.tokenizer import match_words, split_query, split_words
from ..values.errors import Invalid, Unavailable
from ..values.query import Bounds, Hit, Page, Query, SearchReport, Signal, Why
from ..values.records import Draft, Similar
from . import ranking
from .fresh_vectors import MOST
from .ranking import Positions

if TYPE_CHECKING:
    from ..values.changes import Vector

DEPTH = 100  # the fewest candidates that each signal is asked for
FLAT_DEPTH = 40  # the fewest that words are asked for, where nothing that stands around a candidate counts
EXPANDED = 30  # how many of the best bring their surroundings along
# What is asked of the best of few candidates, of the store's floor: among many, one that is off the topic comes near by
# chance. Also of all where none has a word of the query to speak for it: cosines of paraphrases are low.
LENIENT = 0.55
NEAR, NEAR_LEAST = 3, 0.2  # what is named of those that the floor left out, when it left nothing
ALIKE, ALIKE_CANDIDATES = 0.7, 20  # the share of words in common that makes two records near-duplicates


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector, of length 1, and whose it is; or why there is none."""

    vector: Vector | None = None
    embedder: str | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class _Scores:
    """Each candidate's row, its total and what that is made of, in lists of one order."""

    rows: list[int]
    total: list[float]
    by_words: list[float]
    by_meaning: list[float]
    gains: dict[str, list[float]]
    """What was added for each thing that stands around a candidate; an empty list where it had no say."""
    positions: Positions | None
    """Where the candidates stand; None when none stands in a session."""


def embed_query(query: Query, embedder: Embedder | None, missing: str | None) -> QueryVector:
    """Embed a query. `missing` says why there is no embedder, when the user did not choose to have none."""
    if query.mode == "keyword":
        return QueryVector()
    if embedder is None:
        return QueryVector(missing=_describe_missing(query, missing or "this store has no embedder"))
    import numpy as np

    if query.vector is not None:
        vector = np.asarray(query.vector, np.float64)
        return QueryVector((vector / np.linalg.norm(vector)).astype(np.float32), embedder.id)
    if not query.text.strip():
        return QueryVector(embedder=embedder.id)
    try:
        return QueryVector(embedder.embed_query(query.text), embedder.id)
    except Unavailable as error:
        return QueryVector(missing=_describe_missing(query, error.public or str(error)))


def search(
    searcher: Searcher,
    query: Query,
    wanted: QueryVector,
    *,
    floor: float,
    fusion: str,
    add_vectors: Callable[[Searcher], bool] | None = None,
) -> Page:
    """Answer `query` by a searcher within its bounds.

    Where a few records have no vector yet, `add_vectors` may make some; then candidates are looked for again, since it
    has left their snapshot.
    """
    asked = split_query(query.text)
    problems = [wanted.missing] if wanted.missing else []
    try:
        found = _find_candidates(searcher, query, asked, wanted)
        if add_vectors is not None and 0 < found.backlog.vectors <= MOST and add_vectors(searcher):
            found = _find_candidates(searcher, query, asked, wanted)
    except Invalid as error:
        if query.vector is not None:
            raise
        # The embedder's vectors have changed their size; those of the old size are about to be replaced.
        problems.append(_describe_missing(query, str(error)))
        wanted = replace(wanted, vector=None)
        found = _find_candidates(searcher, query, asked, wanted)
    by_words = len(found.keyword)
    found = _add_surroundings(searcher, found)
    scores = _score(query, found, asked, fusion)
    if query.floor is None:
        floor *= LENIENT + (1 - LENIENT) * min(1.0, len(found.rows) / DEPTH) if found.keyword else LENIENT
    passing = _filter_by_floor(found, scores, floor)
    ordered = sorted([(scores.total[at], scores.rows[at], at) for at in passing], reverse=True)
    problems += _describe_backlog(found.backlog, query)
    first = _pick_first([at for _, _, at in ordered], query, list(found.rows.values()))
    near = [] if ordered else _find_nearest_to_floor(found, scores.rows)
    hits = _make_hits(searcher, first or near, found, scores, asked)
    return Page(
        hits=hits if first else (),
        near=hits if near else (),
        searched=SearchReport(
            scope=query.scope, kinds=query.kinds, mode=query.mode, words=asked, keyword=by_words,
            semantic=found.nearest,
        ),
        cut=len(scores.rows) - len(ordered),
        degraded="; ".join(problems) or None,
    )  # fmt: skip


def _find_candidates(searcher: Searcher, query: Query, asked: Sequence[str], wanted: QueryVector) -> Candidates:
    looked_up = asked if query.mode != "semantic" else ()
    least = 4 * query.limit
    # A word's candidate far down can come first only by what stands around it.
    return searcher.candidates(
        looked_up, wanted.vector, wanted.embedder, depth=max(DEPTH, least), flat_depth=max(FLAT_DEPTH, least)
    )


def _describe_missing(query: Query, reason: str) -> str:
    return f"{'searched by words only' if query.mode == 'hybrid' else 'nothing was searched'}: {reason}"


def _describe_backlog(backlog: Backlog, query: Query) -> list[str]:
    """Return what this search could not see, in sentences."""
    problems = []
    if backlog.lost_words and query.mode != "semantic":
        problems.append("the word index is being rebuilt: older records are not found by words until it is done")
    if backlog.many:
        problems.append("many records have no vector yet and are found by their words only")
    elif backlog.vectors:
        one = backlog.vectors == 1
        have = "1 record has" if one else f"{backlog.vectors:,} records have"
        problems.append(f"{have} no vector yet and {'is found by its' if one else 'are found by their'} words only")
    return problems


def _add_surroundings(searcher: Searcher, found: Candidates) -> Candidates:
    """Bring in the turns around the best candidates: an answer often stands beside the words that find it."""
    in_session = [row for row, each in found.rows.items() if each.parent is not None and each.position is not None]
    if not in_session:
        return found
    strength = dict(zip(found.keyword, ranking.normalize(_word_scores(found), 0.0), strict=True))
    for row, cosine in zip(found.semantic, ranking.normalize(list(found.semantic.values())), strict=True):
        strength[row] = strength.get(row, 0.0) + cosine
    in_session.sort(key=strength.__getitem__, reverse=True)
    best = [found.rows[row] for row in in_session[:EXPANDED]]
    around = searcher.around(best, ranking.REACH)
    return replace(found, rows=found.rows | around.rows, semantic=found.semantic | around.semantic)


def _word_scores(found: Candidates) -> list[float]:
    return [score for score, _ in found.keyword.values()]


def _score(query: Query, found: Candidates, asked: Sequence[str], fusion: str) -> _Scores:
    """Give each candidate one total: the signals fused, then what its surroundings add."""
    rows, keyword = list(found.rows), found.keyword
    word_scores = [keyword[row].score if row in keyword else 0.0 for row in rows] if keyword else []
    if all(each.parent is None for each in found.rows.values()):
        by_words, by_meaning = _fuse(found, word_scores, query, fusion)
        return _Scores(rows, list(map(add, by_words, by_meaning)), by_words, by_meaning, {}, None)
    _, ids, scopes, parents, numbers, authors, created_at = zip(*found.rows.values(), strict=True)
    positions = Positions.find(list(zip(scopes, parents, strict=True)), numbers)
    if word_scores:
        own, around = 1 - ranking.WINDOW, ranking.WINDOW
        windows = ranking.sum_windows(word_scores, positions)
        word_scores = [own * score + around * window for score, window in zip(word_scores, windows, strict=True)]
    by_words, by_meaning = _fuse(found, word_scores, query, fusion)
    total = list(map(add, by_words, by_meaning))
    # Ranks fused give scores of another size than sums of normalised ones, for which these gains are meant.
    unit = max(total) if fusion == "rrf" else 1.0
    names = {author: _split_author(author) for author in set(authors)}
    today = (query.asked_at or datetime.now(UTC)).date()
    askers = query.askers if ranking.is_about_asker(query.text) else ()
    gains = {
        "neighbours": ranking.weigh_neighbours(total, positions),
        "author": [unit * gain for gain in ranking.weigh_author(asked, authors, names, positions, askers)],
        "date": [unit * gain for gain in ranking.weigh_date(query.text, today, created_at, positions)],
    }
    for gained in gains.values():
        if gained:
            total = list(map(add, total, gained))
    gains["session"] = ranking.weigh_session(total, positions)
    total = list(map(add, total, gains["session"]))
    gains["children"] = _weigh_children(total, ids, parents)
    if gains["children"]:
        total = list(map(add, total, gains["children"]))
    return _Scores(rows, total, by_words, by_meaning, gains, positions)


def _fuse(
    found: Candidates, word_scores: Sequence[float], query: Query, fusion: str
) -> tuple[list[float], list[float]]:
    """Return what words and vectors each give to the candidates' totals. Without matches there are no word scores."""
    if fusion == "rrf" and query.mode == "hybrid" and found.semantic:
        ranks = ranking.rank({row: match.score for row, match in found.keyword.items()})
        fused = ranking.fuse_ranks(ranks, ranking.rank(found.semantic))
        shares = [fused.get(row, (0.0, 0.0)) for row in found.rows]
        return [by_words for by_words, _ in shares], [by_meaning for _, by_meaning in shares]
    nothing = [0.0] * len(found.rows)
    weight = ranking.KEYWORD_WEIGHT if found.semantic and found.keyword else (0.0 if found.semantic else 1.0)
    by_words = [weight * score for score in ranking.normalize(word_scores, 0.0)] or nothing
    if not found.semantic:
        return by_words, nothing
    other = 1 - weight
    cosines = ranking.normalize(list(found.semantic.values()))
    find = dict(zip(found.semantic, cosines, strict=True)).get
    return by_words, [other * find(row, 0.0) for row in found.rows]


def _weigh_children(total: Sequence[float], ids: Sequence[str], parents: Sequence[str | None]) -> list[float]:
    """Return what each record gains to be as good as the best under it: an episode as its best fact or turn.

    Where no candidate is under another there is nothing to gain: [].
    """
    among = set(parents).intersection(ids)
    if not among:
        return []
    best: dict[str | None, float] = dict.fromkeys(among, 0.0)
    for parent, score in zip(parents, total, strict=True):
        if parent in best and score > best[parent]:
            best[parent] = score
    return [max(0.0, best[each] - score) if each in best else 0.0 for each, score in zip(ids, total, strict=True)]


def _filter_by_floor(found: Candidates, scores: _Scores, floor: float) -> Iterable[int]:
    """Return who reaches the floor, and who stands beside one that does: an answer need not repeat the question."""
    if floor <= 0:
        return range(len(scores.rows))
    keyword, semantic = found.keyword, found.semantic
    strong = [
        semantic.get(row, 0.0) >= floor or (row in keyword and keyword[row].relevance >= floor) for row in scores.rows
    ]
    reached = ranking.sum_windows(strong, scores.positions) if scores.positions is not None else strong
    return [at for at, count in enumerate(reached) if count]


def _weigh_relevance(found: Candidates, row: int) -> tuple[float, float]:
    """Return how much words and vectors each say for a candidate, from 0 to 1, whatever the other candidates are."""
    match = found.keyword.get(row)
    return match.relevance if match else 0.0, min(1.0, max(0.0, found.semantic.get(row, 0.0)))


def _find_nearest_to_floor(found: Candidates, rows: Sequence[int]) -> list[int]:
    """Return the candidates nearest to the floor: a paraphrase in a note of five words often stays below it."""
    relevance = [max(_weigh_relevance(found, row)) for row in rows]
    best = heapq.nlargest(NEAR, zip(relevance, rows, range(len(rows)), strict=True))
    return [at for score, _, at in best if score >= NEAR_LEAST]


def _pick_first(ordered: Sequence[int], query: Query, candidates: Sequence[Candidate]) -> Sequence[int]:
    """Return the best of the candidates, as many as are asked for."""
    if query.each is None:
        return ordered[: query.limit]
    with_position, without = query.each if isinstance(query.each, tuple) else (query.each, query.each)
    families: dict[str, Counter[bool]] = {}
    chosen = []
    for at in ordered:
        candidate = candidates[at]
        name, has_position = candidate.parent or candidate.id, candidate.position is not None
        if name not in families and len(families) < query.limit:
            families[name] = Counter()
        if name in families and families[name][has_position] < (with_position if has_position else without):
            families[name][has_position] += 1
            chosen.append(at)
    return chosen


def _find_rank(ordered: Sequence[tuple[float, int]], one: tuple[float, int]) -> int:
    """Return the rank of one of these scores and rows, 1 for the last of them, which is the best."""
    return len(ordered) - bisect_left(ordered, one)


def _make_hits(
    searcher: Searcher, chosen: Sequence[int], found: Candidates, scores: _Scores, asked: tuple[str, ...]
) -> tuple[Hit, ...]:
    if not chosen:
        return ()
    records = searcher.records([scores.rows[at] for at in chosen])
    word_ranks = {row: number for number, row in enumerate(found.keyword, 1)}
    by_cosine = sorted(zip(found.semantic.values(), found.semantic, strict=True))
    hits = []
    for at in chosen:
        row, by_words = scores.rows[at], scores.by_words[at]
        keyword, semantic = _weigh_relevance(found, row)
        match, cosine = found.keyword.get(row), found.semantic.get(row)
        context = {name: gained[at] for name, gained in scores.gains.items() if gained and gained[at]}
        if match is None and by_words:
            context = {"window": by_words} | context  # it has no word of the query: this is from the turns around it
        why = Why(
            keyword=None
            if match is None
            else Signal(score=match.score, rank=word_ranks[row], share=by_words, relevance=keyword),
            semantic=None
            if cosine is None
            else Signal(
                score=cosine, rank=_find_rank(by_cosine, (cosine, row)), share=scores.by_meaning[at], relevance=semantic
            ),
            context=context,
            find_words=partial(match_words, records[row], asked),
        )
        hits.append(Hit(record=records[row], score=scores.total[at], why=why))
    return tuple(hits)


@lru_cache(maxsize=4096)
def _split_author(author: str) -> frozenset[str]:
    return frozenset(split_words(author))


def like(draft: Draft) -> Bounds:
    """Return the bounds of the records that a draft may be compared with: those of its scope and kind."""
    return Bounds(scope=draft.scope, exact=True, kinds=(draft.kind,), filter=None)


def find_duplicates(searcher: Searcher, draft: Draft) -> tuple[Similar, ...]:
    """Return the records that say nearly the same as a draft, the most alike first."""
    mine = set(split_words(draft.text))
    if not mine:
        return ()
    alike = []
    for record in searcher.find_records(tuple(mine), ALIKE_CANDIDATES):
        theirs = set(split_words(record.text))
        likeness = len(mine & theirs) / len(mine | theirs)
        if likeness >= ALIKE:
            alike.append(Similar(id=record.id, title=record.title, likeness=likeness))
    return tuple(sorted(alike, key=lambda each: -each.likeness))
