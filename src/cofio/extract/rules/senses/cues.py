"""The features of a sentence that a sense is judged by: cues, how it is written, its words, and its runs of letters.

Cues are data, by language, in `cues.txt`; what counts as one is decided there and not here. All that is found has a
bit of one number, so that a sentence is read in one pass over its words.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from .word_groups import GROUPS, find_group

GRAMS, WORDS, PAIRS_OF_WORDS = 2048, 2048, 2048
"""Runs of three and of four letters, words, and words that follow each other share this many features each."""
LONGEST = 400  # characters of a sentence that are read
SHORT = 4  # words

_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_UNSPACED_RUN = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")
_LONGEST_UNSPACED = 4  # characters of a word in a script without spaces
_TOKEN = re.compile(r"[^\W_](?:[\w'+/&.-]*[\w+])?|[^\w\s]")
_LEAD = re.compile(
    r"(?:(?:hi|hiya|hello|hey|yo|ok|okay|well|so|um|uh|btw|also|oh|and|but|right|anyway|hallo|hola|bonjour|salut|ciao|oi"
    r"|olá|buenas|moin)\b(?: there| again| all)?[,!.:]* +|你好[，,。！]? *)+(?=\S)"
)
_SELF = ("me", "my", "we")
_NO = frozenset({"no", "nothing", "none", "keine", "kein", "sin", "sans", "pas", "niente", "sem"})
_LENGTHS = tuple((count, f"longer {count}") for count in (1, 2, 3, 5, 8, 12, 20))
_TELLING = tuple((count, f"telling {count}") for count in (1, 2, 3, 5))
_ASKS = re.compile(r"[?？؟][ !)\"”']*$")
_COLON = re.compile(r"[:：](?![\d)(])")
_CAPITAL = re.compile(r"(?<=\w )[A-Z][a-z]")
_DIGIT = re.compile(r"\d")
_MARKS = tuple(
    (name, frozenset(characters))
    for name, characters in (
        ("question", "?？؟"), ("marks", "\"“”«»「『"), ("exclaims", "!！"), ("comma", ",，"), ("code", "<>={}|`\\"),
    )
)  # fmt: skip
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
    *(name for _, name in _LENGTHS), *(name for _, name in _TELLING),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues:
    """The cues by how they are found, each as bits: words, beginnings of words, phrases by their first word, anywhere.

    The bits of a cue at the start of a sentence are `count` higher, those of one in its second word twice that.
    """

    count: int
    words: Mapping[str, int]
    beginnings: Mapping[str, int]
    phrases: Mapping[str, tuple[tuple[str, int], ...]]
    anywhere: tuple[tuple[str, int], ...]
    names: tuple[str, ...]
    """The name of each bit."""
    bits: Mapping[str, int]
    self_bits: int
    topic_bits: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    """What is found when both of two are: the bits of both, and the one that is set then."""


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
    pairs = [pair for pair in _PAIRS if all(one.split()[-1] in names or one in _SHAPES for one in pair)]
    listed = [*names, *(f"starts {name}" for name in names), *(f"second {name}" for name in names), *_SHAPES]
    listed += [f"{one} & {other}" for one, other in pairs]
    bits = {name: 1 << number for number, name in enumerate(listed)}
    assert len(bits) == len(listed), "a cue has the name of a shape"
    phrases: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    anywhere: list[tuple[str, int]] = []
    whole, beginnings = dict[str, int](), dict[str, int]()
    for word, cues in found.items():
        mask = sum(bits[cue] for cue in cues)
        if _UNSPACED.search(word) or not word[:1].isalnum():
            anywhere.append((word, mask))
        elif " " in word or ";" in word:
            tokens = _TOKEN.findall(word)
            phrases[tokens[0]].append((f" {' '.join(tokens)} ", mask))
        elif word.endswith("*"):
            beginnings[word[:-1]] = mask
        else:
            whole[word] = mask
    return Cues(
        count=len(names), words=whole, beginnings=beginnings, names=tuple(listed), bits=bits,
        phrases={first: tuple(each) for first, each in phrases.items()}, anywhere=tuple(anywhere),
        self_bits=sum(bits[name] for name in _SELF), topic_bits=tuple(bits[name] for name in _TOPICS),
        pairs=tuple((bits[one] | bits[other], bits[f"{one} & {other}"]) for one, other in pairs),
    )  # fmt: skip


def count_features() -> int:
    """How many features there are."""
    return len(load_cues().names) + GROUPS + WORDS + PAIRS_OF_WORDS + GRAMS


def count_cues() -> int:
    """How many features have a name; after them come groups of words, words, pairs of words, and runs of letters."""
    return len(load_cues().names)


@lru_cache(maxsize=256)
def find_cues(sentence: str) -> frozenset[str]:
    """The names of what was found in a sentence: cues, whether it starts with them, and how it is written."""
    cues = load_cues()
    return frozenset(cues.names[number] for number in _list_bits(_read_cues(sentence)[0]))


def list_features(sentence: str) -> list[int]:
    """The numbers of the features that a sentence has."""
    cues = load_cues()
    found, tokens = _read_cues(sentence)
    start = len(cues.names)
    hashes = [_read_token(token)[1] for token in tokens]
    groups = {_read_token(token)[2] for token in tokens}
    if not sentence.isascii():
        groups.update(group for run in _UNSPACED_RUN.findall(sentence) for group in _find_unspaced_groups(run))
    groups.discard(-1)
    numbers = [*_list_bits(found), *(start + group for group in groups)]
    start += GROUPS
    numbers += {start + each % WORDS for each in hashes}
    start += WORDS
    follow = zip([0, *hashes], [*hashes, 1], strict=True)
    numbers += {start + (one * 31 + other) % PAIRS_OF_WORDS for one, other in follow}
    start += PAIRS_OF_WORDS
    numbers += [start + gram for gram in find_grams(sentence)]
    return numbers


def find_grams(sentence: str) -> set[int]:
    """The checksums of a sentence's runs of three and of four letters."""
    low = f" {sentence[:LONGEST].lower().strip()} "
    checksum = zlib.crc32
    if low.isascii():
        data = low.encode()
        found = {checksum(data[at : at + 3]) % GRAMS for at in range(len(data) - 2)}
        found.update([checksum(data[at : at + 4]) % GRAMS for at in range(len(data) - 3)])
        return found
    runs = (low[at : at + size] for size in (3, 4) for at in range(len(low) - size + 1))
    return {checksum(run.encode("utf-8", "replace")) % GRAMS for run in runs}


@lru_cache(maxsize=2048)
def _read_token(token: str) -> tuple[int, int, int]:
    """The cues of one word, its checksum, and the group of words that it is in, or -1."""
    cues = load_cues()
    own = cues.words.get(token, 0)
    bare = token[:-2] if token.endswith("'s") else token
    if not own and bare != token:
        own = cues.words.get(bare, 0)
    if not own and token not in cues.words:
        for size in range(min(len(token), 10), 2, -1):
            if own := cues.beginnings.get(token[:size], 0):
                break
    return own, zlib.crc32(token.encode("utf-8", "replace")), find_group(bare)


def _find_unspaced_groups(run: str) -> Iterator[int]:
    """The groups of the longest words that a run of a script without spaces can be cut into."""
    at = 0
    while at < len(run):
        for size in range(min(_LONGEST_UNSPACED, len(run) - at), 0, -1):
            group = find_group(run[at : at + size])
            if group >= 0:
                yield group
                break
        else:
            size = 1
        at += size


@lru_cache(maxsize=256)
def _read_cues(sentence: str) -> tuple[int, Sequence[str]]:
    """The bits of what was found in a sentence, and its words."""
    cues = load_cues()
    text = sentence[:LONGEST].replace("’", "'").strip()
    low = text.lower()
    lead = _LEAD.match(low)
    found = cues.bits["bias"]
    if lead is not None:
        found |= cues.bits["greets"]
        text, low = text[lead.end() :], low[lead.end() :]
    tokens = _TOKEN.findall(low)
    flat, telling = f" {' '.join(tokens)} ", 0
    for at, token in enumerate(tokens):
        own = _read_token(token)[0]
        if own:
            found |= own << cues.count * (at + 1) | own if at < 2 else own
        elif len(token) > 2:
            telling += 1
        for phrase, mask in cues.phrases.get(token, ()):
            if phrase in flat:
                found |= mask << cues.count | mask if flat.startswith(phrase) else mask
    for word, mask in () if low.isascii() else cues.anywhere:
        if word in low:
            found |= mask << cues.count | mask if low.startswith(word) else mask
    for name in _describe_shape(text, low, tokens, telling):
        found |= cues.bits[name]
    return found | _combine(found, cues), tokens


def _describe_shape(text: str, low: str, tokens: Sequence[str], telling: int) -> Iterator[str]:
    """How a sentence is written."""
    characters = frozenset(text)
    for name, marks in _MARKS:
        if not characters.isdisjoint(marks):
            yield name
            if name == "question" and _ASKS.search(text):
                yield "asks"
    if text.endswith((".", "。")):
        yield "stops"
    if (":" in characters or "：" in characters) and _COLON.search(text):
        yield "colon"
    if _DIGIT.search(text):
        yield "digit"
    if text == low:
        yield "lower"
    elif _CAPITAL.search(text):
        yield "capital"
    if tokens and tokens[0] in _NO:
        yield "starts no"
    unspaced = not text.isascii() and _UNSPACED.search(text) is not None
    if unspaced:
        yield "unspaced"
    length = len(text) / 3 if unspaced else len([token for token in tokens if token[0].isalnum()])
    if length <= SHORT:
        yield "short"
    yield from [name for count, name in _LENGTHS if length > count]
    yield from [name for count, name in _TELLING if telling >= count]


def _combine(found: int, cues: Cues) -> int:
    """The bits of what several of them mean together."""
    bits = cues.bits
    topics = len([topic for topic in cues.topic_bits if found & topic])
    more = bits["self"] if found & cues.self_bits else bits["no self"]
    more |= bits["topic"] if topics else bits["no topic"]
    if topics > 1:
        more |= bits["topics"]
    if not found & bits["tell"]:
        more |= bits["no tell"]
    whole = found | more
    for both, pair in cues.pairs:
        if whole & both == both:
            more |= pair
    return more


def _list_bits(found: int) -> list[int]:
    """The numbers of the bits that are set."""
    numbers: list[int] = []
    while found:
        lowest = found & -found
        numbers.append(lowest.bit_length() - 1)
        found ^= lowest
    return numbers
