"""The features of a sentence that a sense is judged by: cues, how it is written, and its runs of letters.

Cues are data, by language, in `cues.txt`; what counts as one is decided there and not here.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files

GRAMS = 2048
"""Runs of three and of four letters share this many features, by their checksums."""
LONGEST = 400  # characters of a sentence that are read
SHORT = 4  # words

_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_TOKEN = re.compile(r"[^\W_](?:[\w'+/&.-]*[\w+])?|[^\w\s]")
_LEAD = re.compile(
    r"(?:(?:hi|hiya|hello|hey|yo|ok|okay|well|so|um|uh|btw|also|oh|and|but|right|anyway|hallo|hola|bonjour|salut|ciao|oi"
    r"|olá|buenas|moin)\b(?: there| again| all)?[,!.:]* +|你好[，,。！]? *)+(?=\S)"
)
_SELF = ("me", "my", "we")
_NO = frozenset({"no", "nothing", "none", "keine", "kein", "sin", "sans", "pas", "niente", "sem"})
_LENGTHS, _TELLING = (1, 2, 3, 5, 8, 12, 20), (1, 2, 3, 5)
_MARKS = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("question", "[?？؟]"),
        ("asks", r"[?？؟][ !)\"”']*$"),
        ("colon", r"[:：](?![\d)(])"),
        ("marks", r"[\"“”«»「『]"),
        ("exclaims", "[!！]"),
        ("stops", r"[.。]$"),
        ("digit", r"\d"),
        ("capital", r"(?<=\w )[A-Z][a-z]"),
        ("comma", "[,，]"),
        ("code", r"[<>={}|`\\]"),
    )
)
_TOPICS = (
    "home", "work", "family", "pet", "diet", "health", "like", "routine", "language", "tool", "schedule",
    "possession", "plan",
)  # fmt: skip
_PAIRS = (
    ("starts tell", "always"), ("starts tell", "yours"), ("starts tell", "self"), ("starts tell", "no self"),
    ("starts dont", "answer"), ("starts dont", "manner"), ("starts dont", "you"), ("dont", "manner"),
    ("dont", "answer"), ("always", "manner"), ("always", "answer"), ("always", "yours"), ("always", "self"),
    ("always", "time"), ("answer", "manner"), ("yours", "manner"), ("yours", "answer"), ("please", "manner"),
    ("please", "no tell"), ("please", "topic"), ("only", "manner"), ("only", "answer"), ("if", "self"),
    ("if", "topic"), ("ask", "self"), ("starts ask", "topic"), ("starts aux", "you"), ("starts aux", "topic"),
    ("mood", "no topic"), ("mood", "topic"), ("mood", "self"), ("you", "self"), ("other", "no self"),
    ("self", "topic"), ("no self", "topic"), ("no self", "no topic"), ("jest", "self"), ("jest", "topic"),
    ("quote", "marks"), ("quote", "other"), ("translate", "marks"), ("translate", "colon"), ("correct", "marks"),
    ("correct", "colon"), ("tell", "colon"), ("hate", "no self"), ("ended", "topic"), ("ended", "self"),
    ("future", "self"), ("future", "topic"), ("time", "topic"), ("maybe", "self"), ("intro", "short"),
    ("self", "short"), ("topic", "short"), ("no topic", "short"), ("starts tell", "short"), ("starts no", "manner"),
)  # fmt: skip
_SHAPES = (
    "bias", "question", "asks", "colon", "marks", "exclaims", "stops", "lower", "digit", "capital", "comma", "code",
    "unspaced", "self", "no self", "topic", "topics", "no topic", "no tell", "short", "starts no", "greets",
    *(f"longer {count}" for count in _LENGTHS), *(f"telling {count}" for count in _TELLING),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues:
    """The cues by how they are found: whole words, beginnings of words, phrases by their first word, and anywhere."""

    names: tuple[str, ...]
    words: Mapping[str, frozenset[str]]
    beginnings: Mapping[str, frozenset[str]]
    phrases: Mapping[str, tuple[tuple[str, frozenset[str]], ...]]
    anywhere: tuple[tuple[str, frozenset[str]], ...]
    index: Mapping[str, int] = field(default_factory=dict)
    """The number of each feature that has a name."""


@cache
def load_cues() -> Cues:
    """The cues of all languages."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    names: dict[str, None] = {}
    text = files(__package__).joinpath("cues.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        cue, colon, words = line.partition(": ")
        if not colon or line.startswith("#"):
            continue
        names[cue] = None
        for word in words.split(","):
            found[word.strip()].add(cue)
    phrases: defaultdict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    anywhere: list[tuple[str, frozenset[str]]] = []
    words_, beginnings = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
    for word, cues in found.items():
        whole = frozenset(cues)
        if _UNSPACED.search(word) or not word[:1].isalnum():
            anywhere.append((word, whole))
        elif " " in word or ";" in word:
            tokens = _TOKEN.findall(word)
            phrases[tokens[0]].append((f" {' '.join(tokens)} ", whole))
        elif word.endswith("*"):
            beginnings[word[:-1]] = whole
        else:
            words_[word] = whole
    listed = [*names, *(f"starts {name}" for name in names), *(f"second {name}" for name in names), *_SHAPES]
    listed += [f"{one} & {other}" for one, other in _PAIRS]
    return Cues(
        names=tuple(names), words=words_, beginnings=beginnings,
        phrases={first: tuple(each) for first, each in phrases.items()}, anywhere=tuple(anywhere),
        index={name: number for number, name in enumerate(dict.fromkeys(listed))},
    )  # fmt: skip


def count_features() -> int:
    """How many features there are."""
    return len(load_cues().index) + GRAMS


@lru_cache(maxsize=2048)
def find_cues(sentence: str) -> frozenset[str]:
    """The names of what was found in a sentence: cues, whether it starts with them, and how it is written."""
    cues = load_cues()
    text = sentence[:LONGEST].replace("’", "'").strip()
    low = text.lower()
    lead = _LEAD.match(low)
    found = {"bias"}
    if lead is not None:
        found.add("greets")
        text, low = text[lead.end() :], low[lead.end() :]
    tokens = _TOKEN.findall(low)
    flat = f" {' '.join(tokens)} "
    telling = 0
    for at, token in enumerate(tokens):
        own = _look_up(token, cues)
        telling += not own and len(token) > 2
        for phrase, hints in cues.phrases.get(token, ()):
            if phrase in flat:
                found |= hints
                found.update(f"starts {name}" for name in hints if flat.startswith(phrase))
        found |= own
        if at < 2:
            found.update(f"{('starts', 'second')[at]} {name}" for name in own)
    for word, hints in () if low.isascii() else cues.anywhere:
        if word in low:
            found |= hints
            found.update(f"starts {name}" for name in hints if low.startswith(word))
    found |= set(_describe_shape(text, low, tokens, telling))
    return frozenset(found) | frozenset(_combine(found))


def list_features(sentence: str) -> list[int]:
    """The numbers of the features that a sentence has."""
    index = load_cues().index
    named = [index[name] for name in find_cues(sentence) if name in index]
    return named + [len(index) + gram for gram in find_grams(sentence)]


def find_grams(sentence: str) -> set[int]:
    """The checksums of a sentence's runs of three and of four letters."""
    low = f" {sentence[:LONGEST].lower().strip()} "
    return {
        zlib.crc32(low[at : at + size].encode("utf-8", "replace")) % GRAMS
        for size in (3, 4)
        for at in range(len(low) - size + 1)
    }


def _look_up(token: str, cues: Cues) -> frozenset[str]:
    """The cues of one word; one with 's is looked up without it, too."""
    own = cues.words.get(token)
    if own is None and token.endswith("'s"):
        own = cues.words.get(token[:-2])
    if own is not None:
        return own
    for size in range(min(len(token), 10), 2, -1):
        if (hints := cues.beginnings.get(token[:size])) is not None:
            return hints
    return frozenset()


def _describe_shape(text: str, low: str, tokens: list[str], telling: int) -> Iterator[str]:
    """How a sentence is written."""
    yield from (name for name, pattern in _MARKS if pattern.search(text))
    if text == low:
        yield "lower"
    if tokens and tokens[0] in _NO:
        yield "starts no"
    unspaced = _UNSPACED.search(text) is not None
    if unspaced:
        yield "unspaced"
    length = len(text) / 3 if unspaced else sum(token[0].isalnum() for token in tokens)
    if length <= SHORT:
        yield "short"
    yield from (f"longer {count}" for count in _LENGTHS if length > count)
    yield from (f"telling {count}" for count in _TELLING if telling >= count)


def _combine(found: set[str]) -> Iterator[str]:
    """What several of them mean together."""
    topics = sum(name in found for name in _TOPICS)
    whole = set(found)
    whole.add("self" if any(name in found for name in _SELF) else "no self")
    whole.add("topic" if topics else "no topic")
    if topics > 1:
        whole.add("topics")
    if "tell" not in found:
        whole.add("no tell")
    yield from whole - found
    yield from (f"{one} & {other}" for one, other in _PAIRS if one in whole and other in whole)
