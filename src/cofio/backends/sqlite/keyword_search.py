"""A search by words: BM25 over the word index and the tail, as if they were one.

What the counts mean is said by `text/bm25.py`; tantivy scores as it does, and its scores are turned into that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, cast

import tantivy

from ...text import bm25
from ...text.bm25 import WordScore
from ...values.query import AllOf, Bounds, Filter, Where
from ...values.records import Scope
from .tail import Tail
from .word_index import IndexHit, IndexSnapshot, LoadedIndex, make_facet

_Found: TypeAlias = tuple[float, tantivy.DocAddress]
MOST_COUNTED = 8  # facets, one of which a record must have, of which it is counted how many records do


class Restriction(NamedTuple):
    """What the index leaves out, beside what the words do not find and what is out of the scope or of another kind."""

    facets: bool = True
    """Whether it leaves out what lacks the facets that the filter asks for."""
    rows: Sequence[int] | None = None
    """The only rows that it does not leave out."""
    between: tuple[int, int] | None = None
    """The first and the last row that it does not leave out."""


class WordSearch:
    """One search by words, against one snapshot: candidates in falling order of score, to any depth.

    How rare a word is, is judged within the search's scope: what other scopes hold has no say in it.
    """

    def __init__(self, snapshot: IndexSnapshot, words: Sequence[str], bounds: Bounds) -> None:
        state, loaded, tail = snapshot
        self._loaded = loaded
        self._bounds = bounds
        frequency = {word: loaded.searcher.doc_freq("body", word) if loaded else 0 for word in words}
        path, exact = bounds.scope.path, bounds.exact
        tail_total = len(tail.records(path, exact, state.seq))
        fresh = {word: tail.count_word(word, path, exact, state.seq) if tail_total else {} for word in words}
        words = bm25.pick_words(words, {word: frequency[word] + len(fresh[word]) for word in words})
        scoped = [each for each in _make_scope_facets(bounds) if loaded and not loaded.all_have(each)]
        everywhere = loaded.searcher.num_docs if loaded else 0
        total = tail_total + (loaded.count(scoped) if scoped else loaded.records) if loaded else tail_total
        weights: list[tuple[str, float, float]] = []
        for word in words:
            anywhere = frequency[word]
            inside = loaded.count(scoped, word) if loaded and anywhere and scoped else anywhere
            weight = bm25.weigh_word(inside + len(fresh[word]), total)
            boost = weight / bm25.idf(anywhere, max(anywhere, everywhere)) if inside else 1.0
            weights.append((word, weight, boost))
        weights.sort(key=lambda each: -each[1])
        self._weights = weights
        """Each word, the rarest first, with its weight and what makes tantivy's weight of it that."""
        self.weights = {word: weight for word, weight, _ in weights}
        """How much each word tells within the scope."""
        self._average = state.average
        self.score = bm25.make_scorer(state.average, bm25.sum_telling([weight for _, weight, _ in weights]))
        """Turn a BM25 score, and the number of words in the record, into what ranking wants."""
        self.tail = self._score_tail(tail, fresh)
        """The tail's candidates, the best first: row, score, and the change that each was made by."""

    def search_index(
        self,
        limit: int,
        restriction: Restriction,
        *,
        skip: int = 0,
        select: Callable[[list[int]], list[int]] | None = None,
    ) -> tuple[list[IndexHit], bool]:
        """Return the `limit` best of the index, without the first that are skipped and those that are not selected.

        `select` says at which places of a list of rows those are that stay. Also return whether there may be more.
        """
        if self._loaded is None or not self._weights or (restriction.rows is not None and not restriction.rows):
            return [], False
        searcher, query = self._loaded.searcher, self._make_query(self._loaded, restriction)
        hits = searcher.search(query, limit - skip, count=False, offset=skip).hits
        is_full = len(hits) >= limit - skip
        rows = _read_numbers(searcher, "no", hits)
        if select is not None and hits:
            selected = select(rows)
            rows, hits = [rows[at] for at in selected], [hits[at] for at in selected]
        found = zip(rows, _read_numbers(searcher, "seq", hits), hits, strict=True)
        return [IndexHit(row, seq, score) for row, seq, (score, _) in found], is_full

    def _make_query(self, loaded: LoadedIndex, restriction: Restriction) -> tantivy.Query:
        query, schema = tantivy.Query, loaded.index.schema
        any_word = []
        for word, _, boost in self._weights:
            term = query.term_query(schema, "body", word, "freq")
            any_word.append((tantivy.Occur.Should, term if boost == 1.0 else query.boost_query(term, boost)))
        words = query.boolean_query(any_word)
        must = [(tantivy.Occur.Must, words)]
        for group in _make_facet_groups(self._bounds, with_filter=restriction.facets):
            if len(group) <= MOST_COUNTED and loaded.all_found_have(group):
                continue  # a search that asks for nothing but words may pass over most of them
            any_facet = [(tantivy.Occur.Should, query.term_query(schema, "facet", each, "basic")) for each in group]
            # A filter must not add to the score, so it counts for nothing.
            must.append((tantivy.Occur.Must, query.const_score_query(query.boolean_query(any_facet), 0.0)))
        if restriction.rows is not None:
            # Terms one by one: tantivy takes six times as long for a set of them.
            few = query.boolean_query(
                [(tantivy.Occur.Should, query.term_query(schema, "no", row)) for row in restriction.rows]
            )
            must.append((tantivy.Occur.Must, query.const_score_query(few, 0.0)))
        if restriction.between is not None:
            span = query.range_query(schema, "no", tantivy.FieldType.Unsigned, *restriction.between)
            must.append((tantivy.Occur.Must, query.const_score_query(span, 0.0)))
        return query.boolean_query(must) if len(must) > 1 else words

    def _score_tail(self, tail: Tail, fresh: dict[str, dict[int, int]]) -> list[tuple[int, WordScore, int]]:
        versions, scores = tail.versions, dict[int, float]()
        for word, weight, _ in self._weights:
            score_word = bm25.make_word_scorer(weight, self._average)
            for seq, count in fresh[word].items():
                scores[seq] = scores.get(seq, 0.0) + score_word(count, versions[seq].length)
        ranked = []
        for seq, bm25_score in scores.items():
            row, _, length = versions[seq]
            score = self.score(bm25_score, length)
            ranked.append((score[0], row, score, seq))
        ranked.sort(reverse=True)  # by the score and then by the row, which no two have in common
        return [(row, score, seq) for _, row, score, seq in ranked]


def _read_numbers(searcher: tantivy.Searcher, field: str, hits: Sequence[_Found]) -> list[int]:
    """Return a number of each of the records found; 0, which no record has, where a damaged file lacks it."""
    numbers = cast("list[int | None]", searcher.fast_field_values(field, [address for _, address in hits]))
    return [number or 0 for number in numbers] if None in numbers else cast("list[int]", numbers)


def _make_scope_facets(bounds: Bounds) -> Iterator[str]:
    if bounds.exact:
        yield make_facet("exact", bounds.scope.path)
    elif bounds.scope.names:
        yield make_facet("under", bounds.scope.path)


def _make_facet_groups(bounds: Bounds, *, with_filter: bool) -> Iterator[list[str]]:
    """Sets of facets, one of each of which every record within bounds has."""
    yield from ([each] for each in _make_scope_facets(bounds))
    if bounds.kinds:
        yield [make_facet("kind", kind.encode()) for kind in bounds.kinds]
    if with_filter and bounds.filter is not None:
        yield from _make_filter_groups(bounds.filter)


def is_narrowed(filter_: Filter) -> bool:
    """Whether facets say all that a filter asks."""
    if isinstance(filter_, AllOf):
        return all(is_narrowed(part) for part in filter_.parts)
    return isinstance(filter_, Where) and bool(list(_make_filter_groups(filter_)))


def _make_filter_groups(filter_: Filter) -> Iterator[list[str]]:
    if isinstance(filter_, AllOf):
        for part in filter_.parts:
            yield from _make_filter_groups(part)
    elif isinstance(filter_, Where) and filter_.operator in ("=", "in", "has"):
        field = {"tags": "tag", "kind": "kind", "author": "author", "source": "source"}.get(filter_.name)
        values = filter_.value if isinstance(filter_.value, tuple) else (filter_.value,)
        if field is not None:
            yield [make_facet(field, (str(v).casefold() if field == "tag" else str(v)).encode()) for v in values]
        elif filter_.name == "scope" and values:
            how = "under" if filter_.operator == "has" else "exact"
            scopes = [value for value in values if isinstance(value, Scope)]
            if how == "exact" or all(scope.names for scope in scopes):
                yield [make_facet(how, scope.path) for scope in scopes]
