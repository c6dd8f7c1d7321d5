"""What becomes of a sentence: whether it is kept as a fact, is an instruction, or lasts enough for a profile.

The rules of `messages` decide first whose words they are: what is quoted, pasted, played or code is never judged. How a
sentence is meant by its grammar then moves the bar that its sense has to reach. The bars were chosen on hands that the
weights had not seen (`python -m benchmarks.fit_extraction --cross`).
"""

from __future__ import annotations

import re

from ..messages.manner import Manner, strip_lead
from ..messages.sentences import Sentence
from ..narration.reported_speech import is_certain
from .classifier import Sense, judge_sentence
from .cues import find_cues

_NOISE = {Manner.STATEMENT: 0.45, Manner.REQUEST: 0.15, Manner.QUESTION: 0.1}
"""The most that may speak for noise in a sentence that is kept."""
_CERTAIN = 0.95
"""The same of a statement whose grammar is certain: where rules can tell it in the third person, it says something."""
_INSTRUCTION = {Manner.STATEMENT: 0.3, Manner.REQUEST: 0.3, Manner.QUESTION: 0.7}
_STANDING = frozenset({"always", "dont", "yours", "only", "remember", "intro"})
"""What shows that a request is meant for more than this once."""
SHORTEST_HEAD = 3  # words before a request
_REQUEST_TAIL = re.compile(
    r",? (?:so |and |but |then )?(?:please|pls|plz|(?:can|could|would|will) (?:you|u))\b.*$", re.IGNORECASE | re.DOTALL
)
_TOLD, _LEAST = 0.6, 0.3
_LASTING, _SURE, _SURE_WITHOUT_CUE = 0.62, 0.3, 0.6
_FRAGMENT = re.compile(r"(?:\d+|a|an|one|two|three|four|five|six|ten)? ?[\w'-]+[.!]?", re.IGNORECASE)
"""A word, or "two nights": it answers something, or stands in a list."""
_ENDED, _ENDED_WITH_CUE = 0.35, 0.12
_DOUBTS = frozenset({"jest", "marks", "question", "code", "colon"})
"""What keeps a sentence out of a profile, however sure its sense is."""
_HINTS = frozenset({"if", "maybe", "quote", "translate", "correct", "play", "paste"})
"""What makes a profile want to be surer."""
_SURER = 0.75


def judge(one: Sentence) -> Sense | None:
    """The sense of a sentence in the speaker's own words; None where they are not, or where nothing is said."""
    if one.manner not in _NOISE:
        return None
    text = strip_lead(one.text)
    head = _REQUEST_TAIL.sub("", text)
    if head != text and len(head.split()) >= SHORTEST_HEAD and (own := judge_sentence(head)).knowledge >= _TOLD:
        return own  # "I'm allergic to nuts, so please find another place"
    return judge_sentence(text)


def is_instruction(one: Sentence) -> bool:
    """Whether it says how an assistant is to behave from now on."""
    sense = judge(one)
    if sense is None or sense.instruction < _INSTRUCTION[one.manner]:
        return False
    return one.manner is Manner.STATEMENT or not find_cues(one.text).isdisjoint(_STANDING)


def is_kept(one: Sentence) -> bool:
    """Whether it tells something, or asks for something that lasts."""
    sense = judge(one)
    if sense is None or one.text.rstrip().endswith((":", ",")):
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
    """Whether it says that something no longer holds: surely, or likely and with a word for it."""
    sense = judge(one)
    return sense is not None and sense.ended >= (_ENDED_WITH_CUE if "ended" in find_cues(one.text) else _ENDED)


def is_lasting(one: Sentence) -> bool:
    """Whether it may stand in the profile of its speaker, in its own words."""
    sense = judge(one)
    if sense is None or not is_plainly_told(one) or is_instruction(one) or sense.certainty < _SURE:
        return False
    cues = find_cues(one.text)
    if sense.kind not in cues and sense.certainty < _SURE_WITHOUT_CUE:
        return False
    return not cues & _DOUBTS and sense.knowledge >= (_SURER if cues & _HINTS else _LASTING)
