"""A search by words: BM25 over the word index and the tail, as if they were one.

tantivy's k1 and b cannot be set. What it scores is turned into what is wanted of it: see `WordSearch.match`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import tantivy

from ...values.query import AllOf, Bounds, Filter, Where
from ...values.records import Scope
from ..search_interface import Match
from .tail import Tail
from .word_index import Loaded, Look, facet

K1, B = 1.2, 0.75  # tantivy's own, which cannot be set; the tail is scored with them too
# What a word counts for in a record of so many words. Absolute, not beside the store's average: the same constants fit
# turns of 28 words and messages of 300, which no k1 and b do.
NORM_BASE, NORM_WORDS, NORM_SCALE = 0.2, 200, 1.6
TELLING = 3  # how many of a query's rarest words a record should hold to be wholly relevant
MOST_WORDS = 48  # of a long query only its rarest words are looked up


class WordSearch:
    """One search by words, against one snapshot: candidates in falling order of score, as far as asked.

    How rare a word is, is judged within the search's scope: what other scopes hold has no say in it.
    """

    def __init__(
        self,
        look: Look,
        words: Sequence[str],
        bounds: Bounds,
        allowed: Sequence[int] | None,
    ) -> None:
        state, loaded, tail = look
        self._loaded = loaded
        self._bounds = bounds
        self._allowed = allowed
        frequency = {word: loaded.searcher.doc_freq("body", word) if loaded else 0 for word in words}
        path, exact = bounds.scope.path, bounds.exact
        tail_total = len(tail.records(path, exact, state.seq))
        fresh = {word: tail.holding(word, path, exact, state.seq) if tail_total else {} for word in words}
        if len(words) > MOST_WORDS:
            holders = {word: frequency[word] + len(fresh[word]) for word in words}
            words = sorted(words, key=lambda word: (holders[word] == 0, holders[word]))[:MOST_WORDS]
        scoped = [each for each in _scope_facets(bounds) if loaded and not loaded.all_have(each)]
        everywhere = loaded.searcher.num_docs if loaded else 0
        total = tail_total + (loaded.holding(scoped) if scoped else loaded.records) if loaded else tail_total
        shares: list[tuple[str, float, float]] = []
        for word in words:
            known = frequency[word]
            inside = loaded.holding(scoped, word) if loaded and known and scoped else known
            holding = inside + len(fresh[word])
            # A word that nobody has is no rarer than one that a single record has.
            weight = _idf(max(1, holding), max(total, holding, 1))
            shares.append((word, weight, weight / _idf(known, max(known, everywhere)) if inside else 1.0))
        shares.sort(key=lambda share: -share[1])
        self._words = shares
        self._ideal = sum(weight for _, weight, _ in self._words[:TELLING])
        self._average = state.average
        self.tail = self._scored(tail, fresh)

    def match(self, no: int, score: float, length: int) -> Match:
        """The candidate with tantivy's BM25 score turned into what is wanted of it, given the record's length.

        Both follow from the formula for a word that stands once, and are exact where no word stands twice: the
        score with a norm of the length in words, and the sum of the weights of the words that the record holds.
        """
        ratio = length / self._average
        weights = score * (1 + _norm(K1, B, ratio)) / (K1 + 1)
        score = weights * NORM_SCALE / (1 + NORM_BASE + length / NORM_WORDS)
        return Match(no, score, min(1.0, weights / self._ideal))

    def indexed(self, limit: int) -> list[tuple[int, int, float]]:
        """The index's best: number, the change it was indexed at, score."""
        if self._loaded is None or not self._words:
            return []
        searcher = self._loaded.searcher
        hits = searcher.search(self._query(self._loaded), limit, count=False).hits
        places = [place for _, place in hits]
        nos = searcher.fast_field_values("no", places)
        seqs = searcher.fast_field_values("seq", places)
        return [(int(no or 0), int(seq or 0), score) for no, seq, (score, _) in zip(nos, seqs, hits, strict=True)]

    def _query(self, loaded: Loaded) -> tantivy.Query:
        query, schema = tantivy.Query, loaded.index.schema
        sought = []
        for word, _, boost in self._words:
            term = query.term_query(schema, "body", word, "freq")
            sought.append((tantivy.Occur.Should, term if boost == 1.0 else query.boost_query(term, boost)))
        must = [(tantivy.Occur.Must, query.boolean_query(sought))]
        for group in _groups(self._bounds):
            if len(group) == 1 and loaded.all_have(group[0]):
                continue  # a search that asks for nothing but words may pass over most of them
            anyone = [(tantivy.Occur.Should, query.term_query(schema, "facet", each, "basic")) for each in group]
            # A filter must not add to the score, so it counts for nothing.
            must.append((tantivy.Occur.Must, query.const_score_query(query.boolean_query(anyone), 0.0)))
        if self._allowed is not None:
            few = query.term_set_query(schema, "no", list(self._allowed))
            must.append((tantivy.Occur.Must, query.const_score_query(few, 0.0)))
        return query.boolean_query(must)

    def _scored(self, tail: Tail, fresh: dict[str, dict[int, int]]) -> list[tuple[Match, int]]:
        """The tail's candidates, the best first, each with the change that it was made by."""
        scores: dict[int, float] = {}
        for word, weight, _ in self._words:
            for seq, count in fresh[word].items():
                norm = _norm(K1, B, tail.versions[seq].length / self._average)
                scores[seq] = scores.get(seq, 0.0) + weight * count * (K1 + 1) / (count + norm)
        versions = ((tail.versions[seq], score, seq) for seq, score in scores.items())
        found = [(self.match(version.no, score, version.length), seq) for version, score, seq in versions]
        return sorted(found, key=lambda each: (-each[0].score, -each[0].no))


def _norm(k1: float, b: float, ratio: float) -> float:
    return k1 * (1 - b + b * ratio)


def _idf(holding: int, total: int) -> float:
    """BM25's weight of a word that `holding` of `total` records have."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def _scope_facets(bounds: Bounds) -> Iterator[str]:
    if bounds.exact:
        yield facet("exact", bounds.scope.path)
    elif bounds.scope.names:
        yield facet("under", bounds.scope.path)


def _groups(bounds: Bounds) -> Iterator[list[str]]:
    """Sets of facets, one of each of which every record within bounds has."""
    yield from ([each] for each in _scope_facets(bounds))
    if bounds.kinds:
        yield [facet("kind", kind.encode()) for kind in bounds.kinds]
    if bounds.filter is not None:
        yield from _filter_groups(bounds.filter)


def narrowed(filter_: Filter) -> bool:
    """Whether facets say all that a filter asks."""
    if isinstance(filter_, AllOf):
        return all(narrowed(part) for part in filter_.parts)
    return isinstance(filter_, Where) and bool(list(_filter_groups(filter_)))


def _filter_groups(filter_: Filter) -> Iterator[list[str]]:
    if isinstance(filter_, AllOf):
        for part in filter_.parts:
            yield from _filter_groups(part)
    elif isinstance(filter_, Where) and filter_.operator in ("=", "in", "has"):
        field = {"tags": "tag", "kind": "kind", "author": "author", "source": "source"}.get(filter_.name)
        values = filter_.value if isinstance(filter_.value, tuple) else (filter_.value,)
        if field is not None:
            yield [facet(field, (str(v).casefold() if field == "tag" else str(v)).encode()) for v in values]
        elif filter_.name == "scope" and values:
            how = "under" if filter_.operator == "has" else "exact"
            scopes = [value for value in values if isinstance(value, Scope)]
            if how == "exact" or all(scope.names for scope in scopes):
                yield [facet(how, scope.path) for scope in scopes]
