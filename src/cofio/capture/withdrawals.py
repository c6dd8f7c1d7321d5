"""What a user takes back by its name: "forget that I prefer tabs", "I no longer want emojis".

What is taken back in the turn right after it, or replaced by something else, is found by `lessons.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..text.tokenizer import split_query, split_words

_READ = 2_000  # characters of a prompt
_MOST_WORDS = 8  # of what is taken back; more say no longer what it is
_HINTS = (
    "forget",
    "ignore",
    "disregard",
    "drop",
    "remember",
    "my mind",
    "no longer",
    "any more",
    "anymore",
    "any longer",
)
_WHAT = r"(?P<what>[^.!?;\n]{2,160})"
_WANTS = r"(?:want|prefer|like|love|need|use|write|insist on)"
_REFUSES = r"(?:hate|dislike|mind|object to)"
_FORGETS = re.compile(
    r"(?i)\b(?:forget|ignore|disregard|drop|don['’]?t remember) (?:(?:that |the fact that |what i said about how )"
    rf"(?:i|we) (?:always |never |really |only )*(?:{_WANTS}|{_REFUSES}|do(?:n['’]?t| not))\s+"
    rf"|(?:what i said about |my (?:preference|wish|rule) (?:for|about|of|on) )){_WHAT}"
)
_CHANGES_MIND = re.compile(rf"(?i)\bi(?:['’]ve| have)? changed my mind (?:about|on) {_WHAT}")
_VERB = rf"(?:always |never |really |ever )?(?P<verb>{_WANTS}|{_REFUSES})"
_NO_LONGER = re.compile(rf"(?i)\bi no longer {_VERB}\s+{_WHAT}")
_NOT_ANY_MORE = re.compile(
    rf"(?i)\bi (?:don['’]?t|do not) {_VERB}\s+(?P<what>[^.!?;\n]{{2,160}}?)\s+any ?(?:more|longer)\b"
)
_NEGATIVE = re.compile(rf"(?i)\b(?:never|not|no|without|avoid|stop|don['’]?t|{_REFUSES[3:-1]})\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """One thing that a user takes back."""

    words: frozenset[str]
    """What it is about, as words are indexed."""
    is_wish: bool | None
    """Whether it was wanted, rather than refused; None if the user does not say."""

    def covers(self, lesson: str) -> bool:
        """Whether a lesson is what is taken back."""
        if not self.words.issubset(split_words(lesson)):
            return False
        return self.is_wish is None or self.is_wish != bool(_NEGATIVE.search(lesson))


@lru_cache(maxsize=64)
def find_withdrawals(prompt: str) -> tuple[Withdrawal, ...]:
    """What a prompt takes back by its name. Each lesson of a session is compared with each later prompt."""
    text = prompt[:_READ]
    lowered = text.lower()
    return tuple(_find(text)) if any(hint in lowered for hint in _HINTS) else ()


def withdraw_lesson(lesson: str) -> Withdrawal:
    """That a lesson itself is taken back, whatever says the same."""
    return Withdrawal(words=frozenset(split_query(lesson)), is_wish=None)


def _find(text: str) -> Iterator[Withdrawal]:
    for found in _FORGETS.finditer(text):
        yield from _make(found["what"], is_wish=None)
    for found in _CHANGES_MIND.finditer(text):
        yield from _make(found["what"], is_wish=None)
    for pattern in (_NO_LONGER, _NOT_ANY_MORE):
        for found in pattern.finditer(text):
            yield from _make(found["what"], is_wish=re.fullmatch(_REFUSES, found["verb"], re.IGNORECASE) is None)


def _make(what: str, *, is_wish: bool | None) -> Iterator[Withdrawal]:
    words = split_query(what) if any(len(word) > 2 for word in what.split()) else ()
    if 0 < len(words) <= _MOST_WORDS:
        yield Withdrawal(words=frozenset(words), is_wish=is_wish)
