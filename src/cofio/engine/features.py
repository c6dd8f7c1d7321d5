"""What is known of each candidate of a search, as features: lists of numbers from 0 to 1, in one order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from ..backends.search_interface import Candidate, Candidates, Content
from ..text.bm25 import sum_telling
from ..values.query import Query
from . import ranking
from .ranking import Positions
from .text_features import QueryWords, TextFeatures, measure_exact, read_text

if TYPE_CHECKING:
    from ..embed import QueryTokens

# What the best of a signal must reach for the signal to have its full say.
FULL_COVER, FULL_COSINE, FULL_LIKENESS = 0.7, 0.25, 0.4
NO_COSINE, NO_LIKENESS = 0.0, 0.25  # what texts that have nothing to do with a query reach
WHOLE = 0.999  # all of a query's words, but for how numbers are rounded


@dataclass(frozen=True, slots=True)
class Features:
    """What is known of each candidate, in lists of one order."""

    rows: list[int]
    columns: dict[str, list[float]]
    """What ranking goes by; a feature that says nothing of any candidate is not there."""
    positions: Positions | None
    """Where the candidates stand; None when none stands in a session."""
    length: float
    """How long the turns are, from those of people (0) to those of an assistant (1)."""
    cover: list[float]
    """The share of the query that the words of each cover."""
    cosine: list[float | None]
    likeness: list[float | None]
    """How like the query's tokens the tokens of each are; None where they are not known."""
    is_name: bool
    """Whether the query is nothing but a name or a quotation, which a record holds or does not."""


def measure_features(
    query: Query, asked: Sequence[str], found: Candidates, contents: Mapping[int, Content], tokens: QueryTokens | None
) -> Features:
    """Return what is known of the candidates of a query."""
    rows, candidates = list(found.rows), list(found.rows.values())
    words = QueryWords.read(query.text, asked, found.weights)
    texts = [contents[row].text for row in rows]
    read = list(map(read_text, texts))
    positions = None
    if any(each.parent is not None for each in candidates):
        positions = find_positions(candidates)
    by_author = {
        author: words.find_held(f" {' '.join(_split_name(author))} ") for author in {each.author for each in candidates}
    }
    held = [
        words.find_held(each.joined) | by_author[candidate.author]
        for each, candidate in zip(read, candidates, strict=True)
    ]
    whole = sum(words.weights.values()) or 1.0
    worth = {each: words.sum_weights(each) for each in set(held)}
    cover = [worth[each] / whole for each in held]
    # Words may stand further down in a long text, or in what is not read here: tags, a key, data.
    telling = sum_telling(sorted(words.weights.values(), reverse=True)) / whole
    for at, row in enumerate(rows):
        if (match := found.keyword.get(row)) is not None:
            cover[at] = max(cover[at], match.relevance * telling)
    columns: dict[str, list[float]] = {}
    own = _measure_words(found, rows, cover)
    if own:
        columns["words"] = own
    cosine = [found.semantic.get(row) for row in rows]
    likeness = _measure_likeness(candidates, contents, tokens, found.weights)
    nothing = [0.0] * len(rows)
    if found.semantic:
        columns["meaning"] = ranking.normalize_known(cosine, own or nothing, NO_COSINE, FULL_COSINE)
        if any(each is not None for each in likeness):
            columns["tokens"] = ranking.normalize_known(likeness, columns["meaning"], NO_LIKENESS, FULL_LIKENESS)
    if words.exact:
        columns["exact"] = [measure_exact(words.exact, text) for text in texts]
        for at, row in enumerate(rows):
            match = found.keyword.get(row)
            if not held[at] and match is not None and match.relevance >= WHOLE:
                columns["exact"][at] = 1.0  # it stands in what is not read here
    if words.pairs:
        columns["adjacent"] = [
            words.count_adjacent(each) if bits & (bits - 1) else 0.0  # it holds two words or more
            for each, bits in zip(read, held, strict=True)
        ]
    length = 0.0
    if positions is not None:
        windows = ranking.join_windows(held, positions)
        worth |= {each: words.sum_weights(each) for each in set(windows) - worth.keys()}
        surrounding = [worth[each] / whole for each in windows]
        length = ranking.measure_length(
            [each.word_count for each, session in zip(read, positions.sessions, strict=True) if session is not None]
        )
        columns |= _measure_surroundings(query, asked, found, texts, read, positions, columns, surrounding)
    return Features(rows, columns, positions, length, cover, cosine, likeness, words.is_name)


def find_positions(candidates: Iterable[Candidate]) -> Positions:
    """Find where the candidates stand."""
    pairs = [((each.scope, each.parent), each.position) for each in candidates]
    return Positions.find([session for session, _ in pairs], [position for _, position in pairs])


def get_day(query: Query) -> date:
    """Return the day on which a query is asked."""
    return (query.asked_at or datetime.now(UTC)).date()


def _measure_words(found: Candidates, rows: Sequence[int], cover: Sequence[float]) -> list[float]:
    if not found.keyword:
        return []
    scores = [found.keyword[row].score if row in found.keyword else 0.0 for row in rows]
    share = min(1.0, max(cover) / FULL_COVER)
    return [share * each for each in ranking.normalize(scores, 0.0)]


def _measure_likeness(
    candidates: Sequence[Candidate],
    contents: Mapping[int, Content],
    tokens: QueryTokens | None,
    weights: Mapping[str, float],
) -> list[float | None]:
    """Return how like the query's tokens those of each candidate are, each token counted by how rare its word is.

    What a query calls an author by is as good as said by them: people do not name themselves in what they say.
    """
    likeness: list[float | None] = [None] * len(candidates)
    coded = [(at, own) for at, each in enumerate(candidates) if (own := contents[each.row].codes)]
    if tokens is None or not coded:
        return likeness
    import numpy as np

    from ..embed.token_codes import score

    codes = [each for _, each in coded]
    counts = np.array(weigh_tokens(tokens.words, weights), np.float32)
    names = {author: _split_name(author) for author in {each.author for each in candidates}}
    known = frozenset[str]().union(*names.values())
    of_names = np.array([_stem(word) in known for word in tokens.words])
    scores = score(tokens.matrix, counts, codes)
    if of_names.any() and counts[of_names].any():
        share = float(counts[of_names].sum() / counts.sum())
        by_name = score(tokens.matrix, np.where(of_names, counts, np.float32(0)), codes)
        named = {_stem(word) for word, is_name in zip(tokens.words, of_names.tolist(), strict=True) if is_name}
        is_theirs = np.array([bool(names[candidates[at].author] & named) for at, _ in coded])
        scores = scores + np.where(is_theirs, share * (1 - by_name), 0)
    for (at, _), each in zip(coded, scores.tolist(), strict=True):
        likeness[at] = each
    return likeness


def weigh_tokens(words: Sequence[str], weights: Mapping[str, float]) -> list[float]:
    """Return what each token of a query counts, by the weight of the word that it is a piece of."""
    stems = [_stem(word) for word in words]
    counted = [weights.get(stem, 0.0) if stem else 0.0 for stem in stems]
    if not any(counted):
        counted = [1.0 if stem else 0.0 for stem in stems]
    return counted if any(counted) else [1.0] * len(words)


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """Return the form that a word is looked up by; "" for one that tells nothing."""
    from ..text.tokenizer import STOP_WORDS, split_words

    if word in STOP_WORDS:
        return ""
    stems = split_words(word)
    return stems[0] if stems else ""


def _measure_surroundings(
    query: Query,
    asked: Sequence[str],
    found: Candidates,
    texts: Sequence[str],
    read: Sequence[TextFeatures],
    positions: Positions,
    columns: Mapping[str, list[float]],
    surrounding: Sequence[float],
) -> dict[str, list[float]]:
    """Return the features of candidates that stand in a session."""
    candidates = list(found.rows.values())
    counts = [float(each.word_count) for each in read]
    nothing = [0.0] * len(candidates)
    measured: dict[str, list[float]] = {}
    if found.keyword:
        measured["window"] = ranking.normalize(ranking.score_windows(surrounding, counts, positions), 0.0)
    by_words = _average(columns.get("words"), measured.get("window")) or nothing
    by_meaning = columns.get("tokens") or columns.get("meaning") or []
    base = _average(by_words, by_meaning) if found.keyword else list(by_meaning)
    measured["neighbours"] = ranking.measure_neighbours(base, positions)
    measured["session"] = ranking.measure_session(base, positions)
    authors = [each.author for each in candidates]
    names = {author: _split_name(author) for author in set(authors)}
    askers = query.askers if ranking.is_about_asker(query.text) else ()
    who, by = ranking.match_author(asked, authors, names, positions, askers)
    if by:
        measured[who] = by
    dates = ranking.match_dates(query.text, get_day(query), texts, [each.created_at for each in candidates], positions)
    if dates:
        measured["date"] = dates
    sessions = positions.sessions
    questions = [0.0 if session is None else each.question for each, session in zip(read, sessions, strict=True)]
    measured["question"] = questions
    measured["reply"] = ranking.measure_reply(base, questions, positions)
    measured["length"] = [0.0 if session is None else each.length for each, session in zip(read, sessions, strict=True)]
    return measured


def _average(*columns: Sequence[float] | None) -> list[float]:
    there = [column for column in columns if column]
    return [sum(each) / len(there) for each in zip(*there, strict=True)]


_split_name = lru_cache(maxsize=4096)(ranking.split_name)
