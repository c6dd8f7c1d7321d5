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
    "reply": "It comes right after a question like this one.",
    "session": "The conversation that it is part of fits.",
    "author": "The query names who said it.",
    "asker": "Whoever asks said it.",
    "date": "It is from the time that the query asks about, or speaks of it.",
    "tokens": "Word by word, it is like the query.",
    "exact": "It holds a name or a quotation of the query as it stands there.",
    "adjacent": "Words that follow each other in the query follow each other in it.",
    "question": "It asks something itself.",
    "length": "It says more than a word or two.",
    "children": "Something that belongs to it, as a fact or a message, fits best.",
}
_BETWEEN = re.compile(r"[\s!\"$%&()*,./:;<=>?@\[\\\]^_`{|}~-]+")


def explain(hit: Hit, page: Page, query: str, *, verbose: bool = False) -> list[str]:
    """A sentence for each reason that the query found the hit; with `verbose`, a line of numbers for each, too."""
    sentences = [_explain_words(hit, page, query)] if page.searched.mode != "semantic" else []
    if hit.why.semantic is not None:
        sentences.append(_explain_meaning(hit.why.semantic, page))
    sentences += [_SURROUNDINGS[name] for name, gain in hit.why.context.items() if gain > 0]
    return [*sentences, *_render_numbers(hit)] if verbose else sentences


def _explain_words(hit: Hit, page: Page, query: str) -> str:
    words = _restore_spelling(query, hit.why.words)
    if not words or hit.why.keyword is None:
        return "It holds none of the query's words."
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"It holds {listed}, {_render_rank(hit.why.keyword, page.searched.keyword)} by words."


def _restore_spelling(query: str, stems: Iterable[str]) -> list[str]:
    """The words of the query that are held, as somebody typed them rather than as they are indexed."""
    left = dict.fromkeys(stems)
    spellings: list[str] = []
    for part in _BETWEEN.split(query):
        part_stems = split_query(part)
        matches = [stem for stem in part_stems if stem in left]
        if not matches:
            continue
        # Of a run in a script without spaces only parts may be held, which are no stems.
        spellings += [_strip(part)] if len(matches) == len(part_stems) else matches
        for stem in matches:
            del left[stem]
    return [*spellings, *left]


def _strip(word: str) -> str:
    """A word without the quotation marks and the like around it; C# keeps its own."""
    marks = "".join(char for char in set(word) if unicodedata.category(char)[0] == "P" and char != "#")
    return word.strip(marks)


def _explain_meaning(signal: Signal, page: Page) -> str:
    near = next((words for least, words in _NEARNESS if signal.score >= least), "far from")
    return f"Its meaning is {near} the query's, {_render_rank(signal, page.searched.semantic or 0)} by meaning."


def _render_rank(signal: Signal, of: int) -> str:
    if signal.rank is None:
        return "though not among the best"
    if signal.rank == 1:
        return "the best" if of > 1 else "the only one found"
    return f"number {signal.rank:,} of {of:,}"


def _render_numbers(hit: Hit) -> list[str]:
    why = hit.why
    lines = [_render_signal("keyword", "score", why.keyword)] if why.keyword else []
    lines += [_render_signal("semantic", "cosine", why.semantic)] if why.semantic else []
    if why.context:
        lines.append("context: " + ", ".join(f"{name} {gain:+.3f}" for name, gain in why.context.items()))
    return lines


def _render_signal(name: str, unit: str, signal: Signal) -> str:
    rank = "" if signal.rank is None else f", rank {signal.rank}"
    return f"{name}: {unit} {signal.score:.3f}{rank}, share {signal.share:.3f}, relevance {signal.relevance:.3f}"
