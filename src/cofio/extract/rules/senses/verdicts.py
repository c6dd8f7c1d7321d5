"""What becomes of a sentence: whether it is kept as a fact, is an instruction, or lasts enough for a profile.

The rules of `messages` decide first whose words they are: what is quoted, pasted, played or code is never judged. How a
sentence is meant by its grammar then moves the bar that its sense has to reach. The bars were chosen on hands that the
weights had not seen (`python -m benchmarks.fit_extraction --cross`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ..messages.manner import Manner, strip_lead
from ..messages.sentences import Sentence
from ..narration.reported_speech import is_certain
from .classifier import Sense, judge_sentence, judge_words
from .clauses import find_swap, split_clauses, strip_request
from .cues import find_cues

_NOISE = {Manner.STATEMENT: 0.4, Manner.REQUEST: 0.15, Manner.QUESTION: 0.1}
"""The most that may speak for noise in a sentence that is kept."""
_CERTAIN = 0.95
"""The same of a statement whose grammar is certain: where rules can tell it in the third person, it says something."""
_INSTRUCTION = {Manner.STATEMENT: 0.5, Manner.REQUEST: 0.5, Manner.QUESTION: 0.8}
_STANDING = frozenset({"always", "dont", "yours", "only", "remember", "intro"})
"""What shows that a request is meant for more than this once."""
_THING = re.compile(r"(?:the|there|this|that|it|it's|we) ", re.IGNORECASE)
"""How a statement begins that is seldom one; "the fewer words the better, always" has a word for it."""
SHORTEST_HEAD = 3  # words before a request or a question
_TOLD, _LEAST = 0.6, 0.3
_LASTING, _SURE, _SURE_WITHOUT_CUE = 0.8, 0.35, 0.6
_FRAGMENT = re.compile(
    r"(?:i|we) (?:do|did|am|will|can|have|would|could)[.!]?"
    r"|(?:\d+|a|an|one|two|three|four|five|six|ten)? ?[\w'-]+[.!]?",
    re.IGNORECASE,
)
"""A word, or "two nights": it answers something, or stands in a list."""
_ENDED, _HELD = 0.8, 0.1
"""What ended is at least this likely to have, and what holds is at most."""
_SHOWING, _SHOWN = frozenset({"play", "translate", "correct", "paste"}), 0.8
_SAID_BY_ANOTHER = re.compile(r", (?!i\b|we\b)[\w']+ (?:said|says|goes|wrote|told me)[.!]?$", re.IGNORECASE)
_HOLDS = 0.6
_NOW = re.compile(
    r"\b(?:now|instead|these days|jetzt|stattdessen|ahora|maintenant|adesso|ora|agora)\b|现在|今は", re.IGNORECASE
)
_DOUBTS = frozenset({"jest", "marks", "question", "code", "colon"})
"""What keeps a sentence out of a profile, however sure its sense is."""
_HINTS = frozenset({"if", "maybe", "quote", "translate", "correct", "play", "paste"})
"""What makes a profile want to be surer."""
_SURER = 0.85


def is_judged(one: Sentence) -> bool:
    """Whether a sentence is in the speaker's own words, and says something."""
    return one.manner in _NOISE


def judge(one: Sentence) -> Sense | None:
    """The sense of a sentence in the speaker's own words; None where they are not, or where nothing is said."""
    if not is_judged(one):
        return None
    return judge_sentence(find_told(one))


def find_told(one: Sentence) -> str:
    """The words of a sentence that are judged: where something is told before what it asks, only that."""
    return _find_told(one.text)


@lru_cache(maxsize=256)
def _find_told(sentence: str) -> str:
    text = strip_lead(sentence)
    head = strip_request(text)
    if head != text and len(head.split()) >= SHORTEST_HEAD and judge_words(head).knowledge >= _TOLD:
        return head  # "I'm allergic to nuts, so please find another place"
    return text


def is_instruction(one: Sentence) -> bool:
    """Whether it says how an assistant is to behave from now on."""
    sense = judge(one)
    if sense is None or sense.instruction < _INSTRUCTION[one.manner]:
        return False
    cues = find_cues(one.text)
    if one.manner is Manner.STATEMENT and not _THING.match(one.text):
        return True
    return not cues.isdisjoint(_STANDING)


def is_kept(one: Sentence) -> bool:
    """Whether it tells something, or asks for something that lasts."""
    sense = judge(one)
    if sense is None or one.text.rstrip().endswith((":", ",")) or _SAID_BY_ANOTHER.search(one.text):
        return False
    if is_instruction(one):
        return True
    if sense.noise < _NOISE[one.manner]:
        return one.manner is Manner.STATEMENT or sense.knowledge >= _TOLD
    return one.manner is Manner.STATEMENT and sense.noise < _CERTAIN and is_certain(one.text)


def is_plainly_told(one: Sentence) -> bool:
    """Whether it needs no other sentence to be worth keeping: something of its speaker, or an instruction."""
    sense = judge(one)
    if sense is None or (one.text.isascii() and _FRAGMENT.fullmatch(one.text)):
        return False
    return (sense.knowledge >= _LEAST and sense.noise < 1 - _TOLD) or is_instruction(one)


def is_ended(one: Sentence) -> bool:
    """Whether it says that something no longer holds."""
    sense = judge(one)
    return sense is not None and (sense.ended >= _ENDED or find_swap(find_told(one)) is not None)


def shows_text(one: Sentence) -> bool:
    """Whether from here on a message holds a text of another, or a part that is played: nothing of its speaker."""
    if not is_judged(one) or find_cues(one.text).isdisjoint(_SHOWING):
        return False
    return judge_sentence(strip_lead(one.text)).noise >= _SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """What took the place of something that ended: its words, and of what class it is, where that is known."""

    text: str
    kind: str | None = None


def split_ended(text: str) -> tuple[str, Successor | None]:
    """What ended by a sentence, and what holds in its place, if it says that, too."""
    swap = find_swap(text)
    if swap is not None:
        return swap.old, Successor(text=swap.new)
    clauses = split_clauses(text)
    senses = [judge_sentence(clause) for clause in clauses]
    over = [clause for clause, sense in zip(clauses, senses, strict=True) if sense.ended >= _ENDED]
    for clause, sense in zip(clauses, senses, strict=True):
        if over and clause not in over and _holds(clause, sense):
            return ", ".join(each for each in clauses if each != clause), Successor(text=clause, kind=sense.kind)
    return text, None


def _holds(clause: str, sense: Sense) -> bool:
    """Whether a part of a sentence tells what is so now."""
    cues = find_cues(clause)
    return (
        sense.knowledge >= _HOLDS and sense.ended < _HELD and "ended" not in cues
        and (_NOW.search(clause) is not None or sense.certainty >= _SURE_WITHOUT_CUE)
    )  # fmt: skip


def is_lasting(one: Sentence) -> bool:
    """Whether it may stand in the profile of its speaker, in its own words: whether it holds or ended must be plain."""
    sense = judge(one)
    if sense is None or not is_plainly_told(one) or is_instruction(one):
        return False
    if not is_ended(one) and (sense.ended >= _HELD or sense.certainty < _SURE):
        return False
    cues = find_cues(find_told(one))
    return not cues & _DOUBTS and sense.knowledge >= (_SURER if cues & _HINTS else _LASTING)
