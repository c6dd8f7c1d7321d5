"""What somebody who mistyped a word, or took it from another program, may have meant."""

from __future__ import annotations

from collections.abc import Iterable

_LIKENESS = 0.7  # with less, words of the same length are taken for each other: force and store, remove and demo
SYNONYMS = {
    **dict.fromkeys(("remember", "save", "store", "write", "put", "set", "create", "new", "insert", "note"), ("add",)),
    **dict.fromkeys(("remove", "delete", "del", "forget", "erase", "drop"), ("rm",)),
    **dict.fromkeys(("get", "read", "view", "cat", "open"), ("show", "cat")),
    **dict.fromkeys(("find", "query", "recall", "grep", "ask", "lookup"), ("search",)),
    **dict.fromkeys(("update", "change", "modify"), ("edit",)),
    **dict.fromkeys(("ls", "dir"), ("list", "ls")),
    **dict.fromkeys(("rename", "move"), ("mv",)),
    **dict.fromkeys(("start", "run", "server", "daemon"), ("serve",)),
    **dict.fromkeys(("check", "health", "verify", "repair", "fix"), ("doctor",)),
    **dict.fromkeys(("dump", "download"), ("export",)),
    **dict.fromkeys(("load", "restore"), ("import",)),
    **dict.fromkeys(("index", "embed", "rebuild"), ("reindex",)),
    **dict.fromkeys(("settings", "configure"), ("config",)),
    **dict.fromkeys(("info", "status", "count"), ("stats", "--limit")),
    **dict.fromkeys(("force", "f", "y"), ("--force", "--yes")),
    **dict.fromkeys(("top", "n", "k", "max", "first"), ("--limit",)),
    "type": ("--kind", "kind"),
    **dict.fromkeys(("filter", "match"), ("--where",)),
    **dict.fromkeys(("namespace", "ns"), ("--scope", "scope")),
    **dict.fromkeys(("name", "subject"), ("--title", "title")),
    **dict.fromkeys(("content", "body"), ("--text",)),
    **dict.fromkeys(("expires", "expiry", "expire"), ("--ttl",)),
    "db": ("--store",),
}
"""Words that are common elsewhere, each with what it is called here: the first of these that there is, is meant."""


def suggest(written: str, known: Iterable[str]) -> str | None:
    """The known word that says the same as what was written, or is most like it; None when none is."""
    from difflib import get_close_matches  # not needed by who makes no mistake

    choices = {_reduce(each): each for each in known}
    word = _reduce(written)
    if word in choices:
        return choices[word]
    for meant in SYNONYMS.get(word, ()):
        if meant in choices.values():
            return meant
    found = get_close_matches(word, choices, n=1, cutoff=_LIKENESS)
    return choices[found[0]] if found else None


def _reduce(word: str) -> str:
    """A word as it is compared: the dashes before an option make it like no other."""
    return word.lower().lstrip("-")


def refuse(written: str, what: str, known: Iterable[str]) -> str:
    """That a word is none of those known, and which one was meant, or else which there are."""
    choices = list(known)
    meant = suggest(written, choices)
    if meant is not None:
        return f"{written} is not {what}; did you mean {meant}?"
    return f"{written} is not {what}; use {', '.join(choices[:-1])} or {choices[-1]}"
