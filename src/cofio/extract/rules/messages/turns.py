"""A conversation as it is read: who said what, when it was there, and which question it answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache

from ....text.tokenizer import STOP_WORDS, split_words
from ...extractor import Message, Recalled
from ..lexicon import VAGUE, parse_words
from .borrowed_text import SpeakerState, mark_borrowed
from .manner import Manner
from .sentences import Sentence, read_message
from .speakers import get_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the message that it was asked in."""

    text: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message that was read."""

    message: Message
    name: str
    """What to call the speaker."""
    said_at: datetime
    """The local time."""
    sentences: tuple[Sentence, ...]
    question: Question | None = None
    """The question of someone else that came right before."""
    own_text: str | None = None
    """What is left of the message, where some of it had been recalled."""


MOST_NAMES = 8  # with which a recalled sentence may begin

_NAME = re.compile(r"(?<=[^\s.!?:] )[A-Z][\w'-]*")
_NOT_NAMES = parse_words("I I'm I've I'd I'll I’m OK Ok")
_COMMON = frozenset(
    split_words(" ".join((*STOP_WORDS, *VAGUE, "i'm", "i've", "i'll", "i'd", "it's", "don't", "that's")))
)


def read_turns(messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> list[Turn]:
    """The messages, read; the results of tools are left out."""
    found: list[Turn] = []
    names = tuple(dict.fromkeys(get_name(message) for message in messages if message.role == "user"))[:MOST_NAMES]
    borrowed: dict[str, SpeakerState] = {}
    for message in messages:
        if message.role == "tool":
            continue
        text = read_message(message.text, recalled, names)
        before = found[-1] if found and found[-1].message.sender != message.sender else None
        sentences = text.sentences
        if message.role == "user":
            speaker = borrowed.setdefault(message.sender, SpeakerState())
            sentences = mark_borrowed(sentences, speaker, before.message.text[:1000] if before else "")
        turn = Turn(
            message=message,
            name=get_name(message),
            said_at=message.at.astimezone(zone),
            sentences=sentences,
            question=_find_question(before) if before else None,
            own_text=text.own_text,
        )
        found.append(turn)
    return found


def _find_question(turn: Turn) -> Question | None:
    """The question that a turn ends with."""
    for sentence in reversed(turn.sentences):
        if sentence.manner is Manner.QUESTION:
            return Question(text=sentence.text, message=turn.message.id)
        if sentence.manner is not Manner.COURTESY:
            break
    return None


@lru_cache(maxsize=2048)
def count_telling_words(text: str) -> int:
    """How many different words of a sentence tell something."""
    return len({word for word in split_words(text[:1000]) if word not in _COMMON and (len(word) > 1 or word.isdigit())})


def has_name(text: str) -> bool:
    """Whether a sentence holds a proper noun, as far as capitals show, or a number."""
    return any(found not in _NOT_NAMES for found in _NAME.findall(text[:1000])) or any(map(str.isdigit, text[:1000]))
