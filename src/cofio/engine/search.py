"""Where a search happens: candidates by words and by vectors, one ranking, hits that say how likely and why."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ..backends.search_interface import Backlog, Candidate, Candidates, Content, Searcher
from ..embed import Embedder, TokenEmbedder
from ..text.tokenizer import match_words, split_query, split_words
from ..values.errors import Invalid, Unavailable
from ..values.query import Bounds, Hit, Page, Query, SearchReport, Signal, Why
from ..values.records import Draft, Record, Similar
from . import ranking
from .calibration import estimate_relevance, make_monotone
from .currency import name_successors, order_alike, order_current
from .features import Features, find_positions, get_day, measure_features
from .fresh_vectors import MOST
from .language_hint import suggest_model
from .text_features import find_exact
from .weights import NAME, WEIGHTS, Evidence, Weights, scale_weights

if TYPE_CHECKING:
    from ..embed import QueryTokens
    from ..values.changes import Vector

DEPTH = 150  # the fewest candidates that each signal is asked for
FLAT_DEPTH = 40  # the fewest, where nothing that stands around a candidate counts
NAME_DEPTH = 60  # the fewest where a name is asked for: what holds it as a whole may hold its parts no oftener
EXPANDED = 20  # how many of the best bring their surroundings along
READ, READ_FLAT = 48, 15  # how many of the best are read and ranked, at least; the others are far from the first
READ_BY_VECTORS, READ_FLAT_BY_VECTORS = 120, 24  # where there are no words to go by, and what is read tells more
BESIDE, TOGETHER = 0.3, 0.3  # what good turns beside it, and the best of its session, are worth for being read
MORE = 1.5  # how many times the hits asked for are read
FURTHER = 0.3  # of the store's floor: what a hit must reach that comes after one that reached it
NEAR, NEAR_COSINE = 3, 0.25  # what is named of those that the floor left out, when it left nothing
ALIKE, ALIKE_CANDIDATES = 0.7, 20  # the share of words in common that makes two records near-duplicates
_SIGNALS = ("words", "meaning")  # whose shares a hit names beside their scores; the others are its context


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector, as its embedder makes it, and whose it is; or why there is none."""

    vector: Vector | None = None
    embedder: str | None = None
    missing: str | None = None
    tokens: QueryTokens | None = None


@dataclass(frozen=True, slots=True)
class _Scores:
    """What each candidate is ranked by, in the order of Features."""

    total: list[float]
    shares: dict[str, list[float]]
    """What of the total each feature gave."""
    chance: list[float]
    """The probability that each is relevant, by what is known of it alone."""
    is_by_ranks: bool


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
        if isinstance(embedder, TokenEmbedder):
            own, tokens = embedder.embed_query_with_tokens(query.text)
            return QueryVector(own, embedder.id, tokens=tokens)
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
        found = find_candidates(searcher, query, asked, wanted)
        if add_vectors is not None and 0 < found.backlog.vectors <= MOST and add_vectors(searcher):
            found = find_candidates(searcher, query, asked, wanted)
    except Invalid as error:
        if query.vector is not None:
            raise
        # The embedder's vectors have changed their size; those of the old size are about to be replaced.
        problems.append(_describe_missing(query, str(error)))
        wanted = replace(wanted, vector=None, tokens=None)
        found = find_candidates(searcher, query, asked, wanted)
    by_words, number = len(found.keyword), len(found.rows)
    found, contents, features = gather_features(searcher, query, asked, found, wanted)
    ranked = _rank(found, features, fusion)
    order = sorted(range(len(features.rows)), key=lambda at: (ranked.total[at], features.rows[at]), reverse=True)
    order = order_alike(order, ranked.total, query.text, get_day(query), features.rows, contents)
    chances = make_monotone([ranked.chance[at] for at in order])
    successors: dict[int, int] = {}
    if query.current:  # what takes the place of another takes its probability, too
        order, successors = order_current(order, ranked.total, query.text, list(found.rows.values()), contents)
    passing = _count_passing(chances, floor, is_given=query.floor is not None)
    problems += _describe_backlog(found.backlog, query) + suggest_model(query.text, wanted.embedder, found)
    first = _pick_first(order[:passing], query, list(found.rows.values()))
    near = [] if passing else [at for at in order if _is_near(features, at)][:NEAR]
    # Where ranks are fused, the sums are reported that agent-memory-store reports; they are no probabilities.
    scores = [ranked.total[at] for at in order] if ranked.is_by_ranks else [round(chance, 4) for chance in chances]
    score_of = dict(zip(order, scores, strict=True))
    hits = _make_hits(searcher, first or near, found, features, ranked, score_of, asked)
    if successors:
        hits = name_successors(hits, successors, list(found.rows.values()))
    return Page(
        hits=hits if first else (),
        near=hits if near else (),
        searched=SearchReport(
            scope=query.scope, kinds=query.kinds, mode=query.mode, words=asked, keyword=by_words,
            semantic=found.nearest,
        ),
        cut=max(number, len(order)) - passing,
        degraded="; ".join(problems) or None,
    )  # fmt: skip


def _is_near(features: Features, at: int) -> bool:
    """Whether something speaks for a candidate that did not reach the floor: a word, or a cosine that is not chance."""
    return features.cover[at] > 0 or (features.cosine[at] or 0.0) >= NEAR_COSINE


def _count_passing(chances: Sequence[float], floor: float, *, is_given: bool) -> int:
    """Return how many of the first are hits, by their probabilities, which fall.

    The floor of the store decides whether there is an answer at all; where there is one, what may add to it is less
    likely by itself. A floor that was given with the query holds for each hit.
    """
    if not is_given and chances and chances[0] >= floor:
        floor *= FURTHER
    return sum(chance >= floor for chance in chances)


def gather_features(
    searcher: Searcher, query: Query, asked: Sequence[str], found: Candidates, wanted: QueryVector
) -> tuple[Candidates, Mapping[int, Content], Features]:
    """Return the candidates with those around them, what is in them, and what is known of each."""
    found, contents = _read_contents(searcher, query, found)
    return found, contents, measure_features(query, asked, found, contents, wanted.tokens)


def find_candidates(searcher: Searcher, query: Query, asked: Sequence[str], wanted: QueryVector) -> Candidates:
    """Return the best by words and by vectors, as far as the mode of the query wants them."""
    looked_up = asked if query.mode != "semantic" else ()
    least = 4 * query.limit
    # A word's candidate far down can come first only by what stands around it.
    flat_depth = max(NAME_DEPTH if find_exact(query.text) else FLAT_DEPTH, least)
    return searcher.candidates(
        looked_up, wanted.vector, wanted.embedder, depth=max(DEPTH, least), flat_depth=flat_depth
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


def _read_contents(searcher: Searcher, query: Query, found: Candidates) -> tuple[Candidates, Mapping[int, Content]]:
    """Read the contents of the best candidates, and bring in the turns around the best of a session.

    An answer often stands beside the words that find it.
    """
    if not found.rows:
        return found, {}
    best, in_session = _order_by_strength(found)
    together, alone = (READ, READ_FLAT) if found.keyword else (READ_BY_VECTORS, READ_FLAT_BY_VECTORS)
    most = max(together if in_session else alone, math.ceil(MORE * query.limit))
    if find_exact(query.text):
        most = max(most, NAME_DEPTH)
    best = best[:most]
    around = searcher.around([found.rows[row] for row in in_session[:EXPANDED]], ranking.REACH, best)
    near = {row: found.semantic[row] for row in best if row in found.semantic}
    found = replace(
        found,
        keyword={row: match for row, match in found.keyword.items() if row in around.contents},
        semantic=near | around.semantic,
        rows={row: found.rows[row] for row in best} | around.rows,
    )
    return found, around.contents


def _order_by_strength(found: Candidates) -> tuple[list[int], list[int]]:
    """Return the candidates, best first by what is known of them unread, and those of them that stand in a session.

    A turn among good ones is likely to be good: what stands around it is known by its position alone.
    """
    candidates = found.rows.values()
    strength = dict.fromkeys(found.rows, 0.0)
    scores = [score for score, _ in found.keyword.values()]
    strength.update(zip(found.keyword, ranking.normalize(scores, 0.0), strict=True))
    for row, cosine in zip(found.semantic, ranking.normalize(list(found.semantic.values())), strict=True):
        strength[row] += cosine
    in_session = {each.row for each in candidates if each.parent is not None and each.position is not None}
    if in_session:
        own = list(strength.values())
        positions = find_positions(candidates)
        beside, together = ranking.measure_neighbours(own, positions), ranking.measure_session(own, positions)
        strength = {
            row: score + BESIDE * near + TOGETHER * best
            for row, score, near, best in zip(strength, own, beside, together, strict=True)
        }
    best = sorted(strength, key=strength.__getitem__, reverse=True)
    return best, [row for row in best if row in in_session]


def _rank(found: Candidates, features: Features, fusion: str) -> _Scores:
    """Give each candidate one total, the sum of what its features are worth, and a probability."""
    evidence = _name_evidence(found, features)
    columns, weights = features.columns, WEIGHTS[evidence]
    alone, together = weights.notes, weights.mix(features.length)
    if features.is_name:
        alone, together = {**alone, "exact": NAME}, {**together, "exact": NAME}
    if features.positions is not None and None in features.positions.sessions:
        together = scale_weights(together, alone)
    is_by_ranks = fusion == "rrf" and bool(found.keyword and found.semantic)
    if is_by_ranks:
        columns, alone, together = _fuse_ranks(found, columns, alone, together)
    sessions: Sequence[int | None] = [None] * len(features.rows)
    if features.positions is not None:
        sessions = features.positions.sessions
    shares: dict[str, list[float]] = {}
    total = [0.0] * len(features.rows)
    for name, column in columns.items():
        by_itself, in_session = alone.get(name, 0.0), together.get(name, 0.0)
        if not by_itself and not in_session:
            continue
        if features.positions is None:
            share = [by_itself * value for value in column]
        else:
            share = [
                (by_itself if session is None else in_session) * value
                for value, session in zip(column, sessions, strict=True)
            ]
        shares[name] = share
        total = [one + other for one, other in zip(total, share, strict=True)]
    chance = estimate_relevance(features, total, evidence, found.nearest)
    gains = _lift_parents(total, chance, list(found.rows.values()))
    if gains:
        shares["children"] = gains
        total = [one + other for one, other in zip(total, gains, strict=True)]
    return _Scores(total, shares, chance, is_by_ranks)


def _name_evidence(found: Candidates, features: Features) -> Evidence:
    if not found.semantic:
        return "words"
    if "tokens" in features.columns:
        return "words+vectors+tokens" if found.keyword else "vectors+tokens"
    return "words+vectors" if found.keyword else "vectors"


def _fuse_ranks(
    found: Candidates, columns: Mapping[str, list[float]], alone: Weights, together: Weights
) -> tuple[dict[str, list[float]], Weights, Weights]:
    """Return features and weights in which ranks by words and by vectors take the place of their scores."""
    ranks = ranking.rank({row: match.score for row, match in found.keyword.items()})
    fused = ranking.fuse_ranks(ranks, ranking.rank(found.semantic))
    unit = max(map(sum, fused.values()))  # sums of ranks are small: what else counts is made as small
    shares = [fused.get(row, (0.0, 0.0)) for row in found.rows]
    by_rank = {"words": [by_words for by_words, _ in shares], "meaning": [by_meaning for _, by_meaning in shares]}
    left_out = {"window", "tokens", "exact", "adjacent", *by_rank}
    rest = {name: [unit * value for value in column] for name, column in columns.items() if name not in left_out}
    whole = dict.fromkeys(by_rank, 1.0)
    return by_rank | rest, {**alone, **whole}, {**together, **whole}


def _lift_parents(total: Sequence[float], chance: list[float], candidates: Sequence[Candidate]) -> list[float]:
    """Return what each record gains to be as good as the best under it: an episode as its best fact or turn.

    Its probability is raised likewise. Where no candidate is under another there is nothing to gain: [].
    """
    among = {each.parent for each in candidates}.intersection(each.id for each in candidates)
    if not among:
        return []
    best: dict[str | None, tuple[float, float]] = dict.fromkeys(among, (0.0, 0.0))
    for at, each in enumerate(candidates):
        if each.parent in best:
            score, likely = best[each.parent]
            best[each.parent] = max(score, total[at]), max(likely, chance[at])
    gains = [0.0] * len(candidates)
    for at, each in enumerate(candidates):
        if each.id in best:
            score, likely = best[each.id]
            gains[at], chance[at] = max(0.0, score - total[at]), max(likely, chance[at])
    return gains


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
    searcher: Searcher,
    chosen: Sequence[int],
    found: Candidates,
    features: Features,
    ranked: _Scores,
    scores: Mapping[int, float],
    asked: tuple[str, ...],
) -> tuple[Hit, ...]:
    if not chosen:
        return ()
    records = searcher.records([features.rows[at] for at in chosen])
    word_ranks = {row: number for number, row in enumerate(found.keyword, 1)}
    by_cosine = sorted(zip(found.semantic.values(), found.semantic, strict=True))
    hits = []
    for at in chosen:
        row = features.rows[at]
        share = {name: shares[at] for name, shares in ranked.shares.items() if shares[at]}
        match, cosine = found.keyword.get(row), found.semantic.get(row)
        by_words, by_meaning = (
            share.pop(name, 0.0) if there is not None else 0.0
            for name, there in zip(_SIGNALS, (match, cosine), strict=True)
        )
        why = Why(
            keyword=None
            if match is None
            else Signal(score=match.score, rank=word_ranks[row], share=by_words, relevance=match.relevance),
            semantic=None
            if cosine is None
            else Signal(
                score=cosine, rank=_find_rank(by_cosine, (cosine, row)), share=by_meaning,
                relevance=min(1.0, max(0.0, cosine)),
            ),
            context=share,
            total=ranked.total[at],
            find_words=partial(match_words, records[row], asked),
        )  # fmt: skip
        hits.append(Hit(record=records[row], score=scores[at], why=why))
    return tuple(hits)


def like(draft: Draft | Record) -> Bounds:
    """Return the bounds of the records that a draft may be compared with: those of its scope and kind."""
    return Bounds(scope=draft.scope, exact=True, kinds=(draft.kind,), filter=None)


def find_duplicates(searcher: Searcher, draft: Draft | Record) -> tuple[Similar, ...]:
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
