"""Where a search happens: candidates by words and by vectors, one score, a floor, hits that explain themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ..backends.search_interface import Backlog, Candidate, Candidates, Searcher
from ..embed import Embedder
from ..text.tokenizer import match_words, split_query, split_words
from ..values.errors import Invalid, Unavailable
from ..values.query import Bounds, Hit, Page, Query, SearchReport, Signal, Why
from ..values.records import Draft, Record, Similar
from . import ranking
from .ranking import Position

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
    """Each candidate's total and what it is made of, by row."""

    total: dict[int, float]
    shares: dict[int, tuple[float, float]]
    context: dict[int, dict[str, float]]
    relevance: dict[int, tuple[float, float]]
    """How much words and vectors each say for a candidate, from 0 to 1, whatever the other candidates are."""


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


def search(searcher: Searcher, query: Query, wanted: QueryVector, *, floor: float, fusion: str) -> Page:
    """Answer `query` by a searcher within its bounds."""
    asked = split_query(query.text)
    problems = [wanted.missing] if wanted.missing else []
    try:
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
    positions = _find_positions(found.rows)
    scores = _score(query, found, positions, asked, fusion)
    if query.floor is None:
        floor *= LENIENT + (1 - LENIENT) * min(1.0, len(found.rows) / DEPTH) if found.keyword else LENIENT
    passing = _filter_by_floor(found, scores.relevance, positions, floor)
    passing.sort(key=lambda row: (-scores.total[row], -row))
    problems += _describe_backlog(found.backlog, query)
    first = _pick_first(passing, query, found.rows)
    near = [] if passing else _find_nearest_to_floor(scores.relevance)
    hits = _make_hits(searcher.records(first or near), first or near, found, scores, asked)
    return Page(
        hits=hits if first else (),
        near=hits if near else (),
        searched=SearchReport(
            scope=query.scope, kinds=query.kinds, mode=query.mode, words=asked, keyword=by_words,
            semantic=found.nearest,
        ),
        cut=len(scores.total) - len(passing),
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
    cosines = ranking.normalize(found.semantic)
    word_scores = ranking.normalize(_word_scores(found), 0.0)
    in_session.sort(key=lambda row: -(word_scores.get(row, 0.0) + cosines.get(row, 0.0)))
    best = [found.rows[row] for row in in_session[:EXPANDED]]
    around = searcher.around(best, ranking.REACH)
    return replace(found, rows=found.rows | around.rows, semantic=found.semantic | around.semantic)


def _word_scores(found: Candidates) -> dict[int, float]:
    return {row: match.score for row, match in found.keyword.items()}


def _find_positions(candidates: Mapping[int, Candidate]) -> dict[int, Position]:
    """Return where each candidate stands; nothing when none stands in a session."""
    if all(candidate.parent is None for candidate in candidates.values()):
        return {}
    return {
        row: Position(
            (each.scope, each.parent) if each.parent is not None else None, each.position, each.author, each.created_at
        )
        for row, each in candidates.items()
    }


def _score(
    query: Query, found: Candidates, positions: Mapping[int, Position], asked: Sequence[str], fusion: str
) -> _Scores:
    """Give each candidate one total: the signals fused, then what its surroundings add."""
    word_scores = _word_scores(found)
    if positions and word_scores:
        window = ranking.sum_windows(word_scores, positions)
        own = 1 - ranking.WINDOW
        word_scores = {row: own * word_scores.get(row, 0.0) + ranking.WINDOW * window[row] for row in positions}
    shares = _fuse(found, word_scores, query, fusion)
    total = {row: by_words + by_meaning for row, (by_words, by_meaning) in shares.items()}
    # A turn without a word of the query has this from the turns around it.
    context = {row: {"window": share} for row, (share, _) in shares.items() if share and row not in found.keyword}
    if positions:
        authors = {row: _author_names(each.author) for row, each in positions.items() if each.session is not None}
        # Ranks fused give scores of another size than sums of normalised ones, for which these gains are meant.
        unit = max(total.values(), default=0.0) if fusion == "rrf" else 1.0
        gains = {
            "neighbours": ranking.weigh_neighbours(total, positions),
            "author": {row: unit * gain for row, gain in ranking.weigh_author(asked, authors).items()},
            "date": {row: unit * gain for row, gain in ranking.weigh_date(query.text, positions).items()},
        }
        for name, gained in gains.items():
            _add_gain(name, gained, total, context)
        _add_gain("session", ranking.weigh_session(total, positions), total, context)
        _add_gain("children", _weigh_children(total, found.rows), total, context)
    matched, near = found.keyword, {row: min(1.0, max(0.0, cosine)) for row, cosine in found.semantic.items()}
    relevance = {row: (matched[row].relevance if row in matched else 0.0, near.get(row, 0.0)) for row in total}
    return _Scores(total, shares, context, relevance)


def _fuse(
    found: Candidates, word_scores: dict[int, float], query: Query, fusion: str
) -> dict[int, tuple[float, float]]:
    """Return what words and vectors each give to a candidate's total."""
    if fusion == "rrf" and query.mode == "hybrid" and found.semantic:
        fused = ranking.fuse_ranks(ranking.rank(_word_scores(found)), ranking.rank(found.semantic))
        return {row: fused.get(row, (0.0, 0.0)) for row in found.rows}
    weight = ranking.KEYWORD_WEIGHT if found.semantic and found.keyword else (0.0 if found.semantic else 1.0)
    by_words = ranking.normalize(word_scores, 0.0)
    by_meaning = ranking.normalize(found.semantic)
    other = 1 - weight
    return {row: (weight * by_words.get(row, 0.0), other * by_meaning.get(row, 0.0)) for row in found.rows}


def _weigh_children(total: dict[int, float], candidates: Mapping[int, Candidate]) -> dict[int, float]:
    """Return what each record gains to be as good as the best under it: an episode as its best fact or turn."""
    by_id = {candidate.id: row for row, candidate in candidates.items()}
    best: dict[int, float] = {}
    for row, candidate in candidates.items():
        parent = by_id.get(candidate.parent) if candidate.parent is not None else None
        if parent is not None:
            best[parent] = max(best.get(parent, 0.0), total[row])
    return {row: score - total[row] for row, score in best.items() if score > total[row]}


def _add_gain(
    name: str, gained: dict[int, float], total: dict[int, float], context: dict[int, dict[str, float]]
) -> None:
    for row, gain in gained.items():
        total[row] += gain
        context.setdefault(row, {})[name] = gain


def _filter_by_floor(
    found: Candidates, relevance: dict[int, tuple[float, float]], positions: Mapping[int, Position], floor: float
) -> list[int]:
    """Return those that reach the floor, and those beside one that does: an answer need not repeat the question."""
    if floor <= 0:
        return list(found.rows)
    strong = {row for row in found.rows if max(relevance[row]) >= floor}
    if not strong or not positions:
        return list(strong)
    lifted = ranking.sum_windows(dict.fromkeys(strong, 1.0), positions)
    return [row for row in found.rows if lifted[row] > 0]


def _find_nearest_to_floor(relevance: dict[int, tuple[float, float]]) -> list[int]:
    """Return the candidates nearest to the floor: a paraphrase in a note of five words often stays below it."""
    best = sorted(relevance, key=lambda row: (-max(relevance[row]), -row))
    return [row for row in best[:NEAR] if max(relevance[row]) >= NEAR_LEAST]


def _pick_first(passing: list[int], query: Query, candidates: Mapping[int, Candidate]) -> list[int]:
    """Return the best of the candidates, as many as are asked for."""
    if query.each is None:
        return passing[: query.limit]
    families: dict[str, Counter[bool]] = {}
    chosen = []
    for row in passing:
        candidate = candidates[row]
        name, has_position = candidate.parent or candidate.id, candidate.position is not None
        if name not in families and len(families) < query.limit:
            families[name] = Counter()
        if name in families and families[name][has_position] < query.each:
            families[name][has_position] += 1
            chosen.append(row)
    return chosen


def _make_hits(
    records: Mapping[int, Record], rows: Sequence[int], found: Candidates, scores: _Scores, asked: tuple[str, ...]
) -> tuple[Hit, ...]:
    word_ranks = {row: number for number, row in enumerate(found.keyword, 1)}
    meaning_ranks = ranking.rank(found.semantic)
    hits = []
    for row in rows:
        by_words, by_meaning = scores.shares[row]
        keyword, semantic = scores.relevance[row]
        why = Why(
            keyword=Signal(score=found.keyword[row].score, rank=word_ranks[row], share=by_words, relevance=keyword)
            if row in found.keyword
            else None,
            semantic=Signal(score=found.semantic[row], rank=meaning_ranks[row], share=by_meaning, relevance=semantic)
            if row in found.semantic
            else None,
            context=scores.context.get(row, {}),
            find_words=partial(match_words, records[row], asked),
        )
        hits.append(Hit(record=records[row], score=scores.total[row], why=why))
    return tuple(hits)


@lru_cache(maxsize=4096)
def _author_names(author: str) -> frozenset[str]:
    return frozenset(split_words(author))


def like(draft: Draft) -> Bounds:
    """Return the bounds of the records that a draft may be compared with: those of its scope and kind."""
    return Bounds(scope=draft.scope, exact=True, kinds=(draft.kind,), filter=None)


def find_records(searcher: Searcher, asked: Sequence[str], limit: int) -> list[Record]:
    """Return the records that match the words best, in no order."""
    found = searcher.candidates(asked, None, None, depth=limit, flat_depth=limit)
    return list(searcher.records(list(found.rows)).values())


def find_duplicates(searcher: Searcher, draft: Draft) -> tuple[Similar, ...]:
    """Return the records that say nearly the same as a draft, the most alike first."""
    mine = set(split_words(draft.text))
    if not mine:
        return ()
    alike = []
    for record in find_records(searcher, tuple(mine), ALIKE_CANDIDATES):
        theirs = set(split_words(record.text))
        likeness = len(mine & theirs) / len(mine | theirs)
        if likeness >= ALIKE:
            alike.append(Similar(id=record.id, title=record.title, likeness=likeness))
    return tuple(sorted(alike, key=lambda each: -each.likeness))
