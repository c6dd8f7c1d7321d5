"""What somebody who mistyped a word may have meant."""

from __future__ import annotations

from collections.abc import Iterable

_LIKENESS = 0.6


def suggest(written: str, known: Iterable[str]) -> str | None:
    """The known word that is most like what was written; None when none is."""
    from difflib import get_close_matches  # not needed by who makes no mistake

    choices = {each.lower(): each for each in known}
    found = get_close_matches(written.lower(), choices, n=1, cutoff=_LIKENESS)
    return choices[found[0]] if found else None


def refuse(written: str, what: str, known: Iterable[str]) -> str:
    """That a word is none of those known, and which one was meant, or else which there are."""
    choices = list(known)
    meant = suggest(written, choices)
    if meant is not None:
        return f"{written} is not {what}; did you mean {meant}?"
    return f"{written} is not {what}; use {', '.join(choices[:-1])} or {choices[-1]}"
