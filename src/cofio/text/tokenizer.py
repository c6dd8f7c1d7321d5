"""How text becomes words: one tokeniser for writing, for searching and for every backend.

Words are Unicode, lower case, without accents, stemmed as English; scripts that are written without
spaces become pairs of characters; an emoji is a word. Nothing in a text is ever syntax.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

import Stemmer

from ..values.records import Json, Record, json_words
from .languages import find_stop_words

MAX_WORD = 64
LONGEST_NAME = 200  # a longer run of letters and digits is a blob, not a name to be taken apart
SNIPPET = 200
SEEN = 20_000  # characters of a long text that a snippet is looked for in
REMEMBERED, SHORT = 512, 2_000  # how many texts have their words remembered, and how many characters each may have

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"  # kana, Han, Hangul
    "\U00020000-\U0003ffff"
)
_INDIC = "\u0900-\u0963\u0966-\u0dff"  # letters and the marks that belong to them
_SYMBOLS = (
    "\u00a2-\u00a5\u20a0-\u20cf\u2200-\u22ff\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u2bff\U0001f000-\U0001faff"
)
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")
_ASCII_PLAIN = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}
_LANGUAGE = re.compile(r"\b([A-Za-z])(\+\+|#)")
_CAMEL = re.compile(r"[A-Z](?<=[a-z0-9][A-Z])")  # in this order: there are fewer capitals to look at
_CAMEL_RUN = re.compile(r"(?<![A-Za-z0-9])[A-Z]*+[a-z0-9]++[A-Z][A-Za-z0-9]*+")  # never steps back: long runs are slow
_CAMEL_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a about after again all also am an and any are as at be because been before being both but by can could did "
        "do does doing don dont down during each few for from further had has have having he her here hers herself him "
        "himself his how i if im in into is isnt it its itself just let me more most my myself no nor not now of off "
        "on once only or other our ours out over own please same she should so some such than that thats the their "
        "theirs them themselves then there these they this those through to too under until up us very was we were "
        "what whats when where which while who whom why will with would you your yours",
    )
)

MAX_STEMS = 50_000
_stemmer = Stemmer.Stemmer("english", 0)


class _Stems(dict[str, str]):
    """Words and the forms that they are indexed by: a look-up is three times as fast as the stemmer and its cache."""

    def __missing__(self, word: str) -> str:
        if len(self) >= MAX_STEMS:
            self.clear()
        stem: str = _stemmer.stemWord(word).replace("'", "")[:MAX_WORD]
        self[word] = stem
        return stem


_stems = _Stems()


def split_words(text: str) -> list[str]:
    """The words of `text` as they are indexed, in order, repeats included."""
    return _finish(_split_parts(text))


def split_stored(text: str) -> list[str]:
    """The same for a text that is being stored, or was: it is soon split again, to be compared or indexed."""
    return _finish(_split_stored(text))


@lru_cache(maxsize=512)
def split_query(text: str) -> tuple[str, ...]:
    """The distinct words to look for: those of `text` less the stop words of its language, unless it has no others."""
    plain = _split(text, single=False)
    others = find_stop_words(text)
    telling = [word for word in plain if word.replace("'", "") not in STOP_WORDS and word not in others]
    return tuple(dict.fromkeys(_finish(telling or plain)))


def split_record(
    *, title: str, text: str, tags: Iterable[str], author: str, key: str | None, data: Json
) -> Sequence[str]:
    """The words a record is found by: its title twice over, text, tags, author, key and, lacking text, data."""
    parts = _list_parts(title, text, tags, author, key, data)
    return _finish([word for part in parts for word in _split_stored(part)])


def count_words(*, title: str, text: str, tags: Iterable[str], author: str, key: str | None, data: Json) -> int:
    """Return how many words `split_record` makes of a record, without making them: every write has to know."""
    return sum([len(_split_stored(part)) for part in _list_parts(title, text, tags, author, key, data)])


def build_embed_text(*, title: str, text: str, tags: Iterable[str], data: Json) -> str:
    """The text that a record's vector is made of; empty when there is nothing to embed."""
    body = text or " ".join(json_words(data))
    return "\n".join(part for part in (title, " ".join(tags), body[:4000]) if part).strip()


def match_words(record: Record, queried: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the `queried` words the record holds."""
    present = set(
        split_record(
            title=record.title, text=record.text, tags=record.tags,
            author=record.author, key=record.key, data=record.data,
        )
    )  # fmt: skip
    return tuple(word for word in queried if word in present)


def find_snippet(text: str, queried: tuple[str, ...], width: int = SNIPPET) -> str:
    """The part of `text`, on one line, that holds most of the `queried` words."""
    flat = " ".join(text[:SEEN].split())
    if len(flat) <= width:
        return flat
    wanted = set(queried)
    starts = [m.start() for m in re.finditer(r"\S+", flat) if wanted.intersection(split_words(m.group()))]
    best = max(starts, key=lambda at: bisect_left(starts, at + width) - bisect_left(starts, at), default=0)
    start = max(0, min(best - width // 5, len(flat) - width))
    return ("…" if start else "") + flat[start : start + width].strip() + ("…" if start + width < len(flat) else "")


def _list_parts(title: str, text: str, tags: Iterable[str], author: str, key: str | None, data: Json) -> Iterable[str]:
    """Return the texts that a record is found by, none of them empty."""
    parts = [title, title, *tags, author, key or "", text or "\n".join(json_words(data))]
    return filter(None, parts)


def _split_stored(text: str) -> Sequence[str]:
    return _split_short(text) if len(text) <= SHORT else _split_parts(text)


@lru_cache(maxsize=REMEMBERED)
def _split_short(text: str) -> Sequence[str]:
    return _split_parts(text)


def _split_parts(text: str) -> list[str]:
    """Words before stemming, with the parts of names such as `parseDate`."""
    plain = _split(text, single=True)
    if _CAMEL.search(text):
        runs = [run for run in _CAMEL_RUN.findall(text) if len(run) <= LONGEST_NAME]
        plain += [part.lower() for run in runs for part in _CAMEL_PART.findall(run)]
    return plain


def _split(text: str, *, single: bool) -> list[str]:
    """Words before stemming; `single` adds the single characters of unspaced scripts to their pairs."""
    if "+" in text or "#" in text:
        text = _LANGUAGE.sub(lambda name: f" {name[1]}{'sharp' if name[2] == '#' else 'plusplus'} ", text)
    if text.isascii():
        return _ASCII_WORD.findall(text.lower()) if "'" in text else text.translate(_ASCII_PLAIN).split()
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    words, is_unspaced, accents = _compile_patterns()
    folded = unicodedata.normalize("NFC", accents.sub("", unicodedata.normalize("NFD", folded)))
    found: list[str] = []
    for word in words.findall(folded):
        if is_unspaced.match(word):
            found.extend(word[i : i + 2] for i in range(max(1, len(word) - 1)))
            if single and len(word) > 1:
                found.extend(word)
        else:
            found.append(word)
    return found


@cache
def _compile_patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """What finds words, scripts without spaces, and accents, beyond ASCII: many processes end without any of it."""
    words = rf"[{_UNSPACED}]+|[{_SYMBOLS}]|(?:(?![{_UNSPACED}{_SYMBOLS}])[^\W_]|[{_INDIC}])+(?:'[^\W_{_UNSPACED}]+)*"
    # Latin, Greek and Cyrillic accents, Hebrew points, Arabic vowel signs
    accents = (
        "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]"
    )
    return re.compile(words), re.compile(rf"[{_UNSPACED}]"), re.compile(accents)


def _finish(plain: Iterable[str]) -> list[str]:
    return list(map(_stems.__getitem__, plain))  # in half the time of a loop
