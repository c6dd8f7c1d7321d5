"""Why a hit was found: in sentences for people, with the numbers for who wants them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from ...text.tokenizer import split_query
from ...values.query import Hit, Page, Signal

_NEARNESS = ((0.6, "very close to"), (0.45, "close to"), (0.3, "loosely related to"))
_SURROUNDINGS = {
    "window": "What was said just before or after it holds words of the query.",
    "neighbours": "What was said just before or after it fits, too.",
    "author": "The query names who said it.",
    "date": "It is from the time that the query asks about.",
    "session": "The conversation that it is part of fits.",
    "children": "Something that belongs to it, as a fact or a message, fits best.",
}
_BETWEEN = re.compile(r"[\s!\"$%&()*,./:;<=>?@\[\\\]^_`{|}~-]+")


def explain(hit: Hit, page: Page, query: str, *, verbose: bool = False) -> list[str]:
    """A sentence for each reason that the query found the hit; with `verbose`, a line of numbers for each, too."""
    said = [_by_words(hit, page, query)] if page.searched.mode != "semantic" else []
    if hit.why.semantic is not None:
        said.append(_by_meaning(hit.why.semantic, page))
    said += [_SURROUNDINGS.get(name, f"Its {name} adds to it.") for name, gain in hit.why.context.items() if gain > 0]
    return [*said, *_numbers(hit)] if verbose else said


def _by_words(hit: Hit, page: Page, query: str) -> str:
    words = _as_written(query, hit.why.words)
    if not words or hit.why.keyword is None:
        return "It holds none of the query's words."
    held = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"It holds {held}, {_place(hit.why.keyword, page.searched.keyword)} by words."


def _as_written(query: str, held: Iterable[str]) -> list[str]:
    """The words of the query that are held, as somebody typed them rather than as they are indexed."""
    left = dict.fromkeys(held)
    said: list[str] = []
    for written in _BETWEEN.split(query):
        stems = split_query(written)
        found = [stem for stem in stems if stem in left]
        if not found:
            continue
        # Of a run in a script without spaces only parts may be held, which are no stems.
        said += [_strip(written)] if len(found) == len(stems) else found
        for stem in found:
            del left[stem]
    return [*said, *left]


def _strip(written: str) -> str:
    """A word without the quotation marks and the like around it; C# keeps its own."""
    marks = "".join(char for char in set(written) if unicodedata.category(char)[0] == "P" and char != "#")
    return written.strip(marks)


def _by_meaning(signal: Signal, page: Page) -> str:
    near = next((words for least, words in _NEARNESS if signal.score >= least), "far from")
    return f"Its meaning is {near} the query's, {_place(signal, page.searched.semantic or 0)} by meaning."


def _place(signal: Signal, of: int) -> str:
    if signal.rank is None:
        return "though not among the best"
    if signal.rank == 1:
        return "the best" if of > 1 else "the only one found"
    return f"number {signal.rank:,} of {of:,}"


def _numbers(hit: Hit) -> list[str]:
    why = hit.why
    said = [_signal("keyword", "score", why.keyword)] if why.keyword else []
    said += [_signal("semantic", "cosine", why.semantic)] if why.semantic else []
    if why.context:
        said.append("context: " + ", ".join(f"{name} {gain:+.3f}" for name, gain in why.context.items()))
    return said


def _signal(name: str, unit: str, signal: Signal) -> str:
    rank = "" if signal.rank is None else f", rank {signal.rank}"
    return f"{name}: {unit} {signal.score:.3f}{rank}, share {signal.share:.3f}, relevance {signal.relevance:.3f}"
