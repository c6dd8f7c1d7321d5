"""What people and agents say that is worth more than the rest: decisions, corrections, preferences, things to remember.

Rules of English alone. They miss much, and are to claim little that is not so: a question is none of these, quoted text
and code are not read, and what is taken back in the next turn was never said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..extract.extractor import Message
from .private_text import list_remembered
from .withdrawals import find_withdrawals

DECISION, CORRECTION, PREFERENCE, REMEMBER, FIX, TODO = (
    "decision",
    "correction",
    "preference",
    "remember",
    "fix",
    "todo",
)
LABELS = (DECISION, CORRECTION, PREFERENCE, REMEMBER, FIX, TODO)
"""The tags of the records that are made of lessons."""
_LONGEST = 400  # characters of a sentence
_MOST = 4  # of one sort in one message
_SHORT = 3  # words up to which a sentence needs the next one to say something
_READ = 12_000  # characters of a message

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"(?m)^[ \t]*(?:>|\||[$#%] ).*$")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=\S)|\n+")
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)]|#{1,6})\s+")
_OPENING = (
    r"(?:(?:ok(?:ay)?|yes|yeah|yep|right|so|then|and|alright|well|fine|good|great|sure|cool|but|please)[,.! ]+){0,3}"
)
_REASON = re.compile(r"(?i)\b(?:because|since|so that|as it|as they|due to|in order to|to avoid|to keep|otherwise)\b")

_TAKES_BACK = re.compile(
    r"(?i)\W{0,3}(?:(?:actually|no|wait|hmm+|oh|sorry)[,.! ]+){0,3}(?:never ?mind|scratch that"
    r"|forget (?:that|it|what i said)|ignore (?:that|my last)|undo\b|revert\b|roll (?:that|it) back|take that back"
    r"|i was wrong|my mistake|on second thoughts?|cancel that|(?:please )?don['’]?t do that|let['’]?s not)\b"
)
_CHOICES = r"(?:use|go with|keep|stick|switch|make|move|put|call|name|drop|avoid|store|support)"
_DECIDES = re.compile(
    rf"(?i)\W{{0,3}}{_OPENING}(?:(?:actually|on second thoughts?),? )?(?:"
    rf"let['’]?s (?:just |rather |instead )?(?:{_CHOICES}|do it)\b"
    rf"|we(?:['’]ll| will|['’]re going to| are going to| should) (?:just )?{_CHOICES}\b"
    r"|(?:i['’]ve |i have |i |we['’]ve |we have |we )(?:decided|chose|chosen|agreed|settled)\b"
    r"|(?:the |our )?decision(?: is)?:|go(?:ing)? with \S)"
)
_ORDERS = re.compile(
    rf"(?i)\W{{0,3}}{_OPENING}(?:use|keep|put|store|call|name|make|write|run|do(?:n['’]?t| not)|avoid)\s+\S"
)
_AGENT_DECIDES = re.compile(
    r"(?i)\b(?:i(?:['’]ve| have|['’]ll| will)? (?:decided|chosen|chose|went with|opted|picked|kept|go with)"
    r"|(?:the |our |key )?decision:|we (?:decided|chose|agreed|settled))\b"
)
_CORRECTS = re.compile(
    r"(?i)\W{0,3}(?:"
    r"(?:no|nope|nah|wrong|incorrect|not quite|not like that|stop|wait|actually|nein|non)\b"
    r"(?! (?:problem|worries|idea|rush|need|thanks|thank|one|longer|matter|doubt|more|further|changes?)\b)"
    r"(?:[\s,.!:;–—-]+|$)"
    r"|(?:that|this|it)(?:['’]?s| is| was)(?:n['’]t| not)? (?:wrong|incorrect|right|what i|how (?:we|i)|correct)\b"
    r"|(?:please )?(?:don['’]?t|do not|never) \w|(?:please )?stop \w+ing\b"
    r"|i (?:said|told you|asked (?:you )?(?:for|to)|meant)\b"
    r"|you (?:forgot|missed|should(?:n['’]?t| not)? have|keep|broke|misunderstood)\b)"
)
_RIGHT = re.compile(r"(?i)\W{0,3}(?:that|this|it)(?:['’]?s| is| was) (?:right|what i|how (?:we|i)|correct)\b")
_INSTEAD = re.compile(
    r"(?i)(?:\b(?:instead of|rather than|and not)|, not|\b(?:don['’]?t|do not|never|stop) us(?:e|ing))\s+"
    r"(?:the |a |an )?[`'\"]?(?!(?:that|this|it|them|the|use|using|to|be|a|an)\b)(?P<old>[\w./@+-]{2,40})"
)
_PREFERS = re.compile(
    r"(?i)\b(?:always|never|from now on|in (?:the )?future|by default|i (?:prefer|hate|dislike|don['’]?t like)"
    r"|we (?:always|never|prefer)|in this (?:repo|repository|project|codebase)|(?:our|the) convention|house rule)\b"
)
_STATES = re.compile(
    r"(?i)\b(?:it|this|that|there|they|he|she)\b(?:['’]s|['’]ll| is| was| will| has)? ?(?:always|never)\b"
    r"|\bnever ?mind\b|\bno longer\b"
)
_PERSONAL = re.compile(
    r"(?i)\bi (?:prefer|hate|dislike|don['’]?t like|always|never)\b|\bcall me\b|\bmy (?:name|editor|shell|keyboard)\b"
)
_LOCAL = re.compile(r"(?i)\b(?:in|for) (?:this|the|our) (?:repo|repository|project|codebase|package)\b|\bhere\b")
_REMEMBERS = re.compile(r"(?i)#(?:remember|skip)\b")
_REASON_FOLLOWS = re.compile(r"(?i)(?:because|reason:|otherwise|that way)\b")
_DONE = re.compile(r'"(?:command|cmd|file_path|path)": "((?:[^"\\]|\\.){1,120})"')
_AGENT = "The agent: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Something that was said or done and is worth telling in a later session."""

    label: str
    text: str
    speaker: str
    """The sender's id."""
    at: datetime
    messages: tuple[str, ...]
    """The ids of the messages that it was taken from."""
    turn: int = 0
    """The number of the turn that it was said in."""


def find_lessons(messages: Sequence[Message]) -> list[Lesson]:
    """What the messages teach, in order, less what a later one takes back."""
    found: list[Lesson] = []
    turn = 0
    acted: Message | None = None
    has_answered = False
    for message in messages:
        if message.role == "user":
            turn += 1
            text = clean_prose(message.text)
            found = [each for each in found if not is_withdrawn(each, text, turn)]
            found += _read_prompt(message, text, turn, acted, is_answer=has_answered)
            acted = None
        elif message.role == "assistant":
            has_answered = True
            acted = message if message.calls else acted
            found += _read_answer(message, turn)
    return found


def clean_prose(text: str) -> str:
    """A text less its code and its quotations."""
    text = text[:_READ]
    return _QUOTED.sub("", _CODE.sub("\n", text)) if "`" in text or "\n" in text or text[:1] in ">|$#%" else text


def is_withdrawn(lesson: Lesson, prompt: str, turn: int) -> bool:
    """Whether a prompt takes back what was said before: in the turn before it, or by naming what is not to be."""
    if lesson.label in (PREFERENCE, REMEMBER) and any(each.covers(lesson.text) for each in find_withdrawals(prompt)):
        return True
    if lesson.label not in (DECISION, PREFERENCE, CORRECTION):
        return False
    if turn - lesson.turn <= 1 and (takes_back(prompt) or turns_down(prompt, lesson)):
        return True
    return lesson.label != CORRECTION and names_as_old(prompt, lesson.text)


def takes_back(prompt: str) -> bool:
    """Whether a prompt takes back what was said right before it, and not something else by its name."""
    return _TAKES_BACK.match(prompt) is not None and not find_withdrawals(prompt)


def turns_down(prompt: str, lesson: Lesson) -> bool:
    """Whether a prompt corrects what an agent has decided by itself."""
    return lesson.label == DECISION and lesson.text.startswith(_AGENT) and _is_correction(prompt)


def names_as_old(prompt: str, text: str) -> bool:
    """Whether a prompt says "… instead of X", and X is what the text is for."""
    olds = [found["old"].strip(".,;:").lower() for found in _INSTEAD.finditer(prompt[:2_000])]
    words = {word.strip(".,;:") for word in re.findall(r"[\w./@+-]+", text.lower())}
    return any(old in words and not _INSTEAD.search(text) for old in olds)


def is_personal(text: str) -> bool:
    """Whether a preference is the user's own, wherever they work, rather than a repository's."""
    return _PERSONAL.search(text) is not None and _LOCAL.search(text) is None


def _read_prompt(message: Message, text: str, turn: int, acted: Message | None, *, is_answer: bool) -> Iterator[Lesson]:
    """The lessons of a prompt; `acted` is the last message before it in which the agent did something."""
    for remembered in list_remembered(text):
        yield _make(REMEMBER, remembered, message, turn)
    counts = dict.fromkeys(LABELS, 0)
    sentences = [*split_sentences(text)]
    words = 0
    for number, sentence in enumerate(sentences):
        label = _judge(sentence, is_early=words <= _SHORT, is_answer=is_answer)
        words += len(sentence.split())
        if label is None or counts[label] == _MOST:
            continue
        counts[label] += 1
        following = sentences[number + 1] if number + 1 < len(sentences) else ""
        if following and (len(sentence.split()) <= _SHORT or _REASON_FOLLOWS.match(following)):
            sentence = f"{sentence} {following}"
        context = _find_context(acted) if label == CORRECTION else ""
        yield _make(label, f"{sentence[:_LONGEST]}{context}", message, turn)


def _judge(sentence: str, *, is_early: bool, is_answer: bool) -> str | None:
    """What sort of lesson a user's sentence is; None for most. `is_early`: at most a "Good." was said before it."""
    if sentence.rstrip("\"') ").endswith("?") or _REMEMBERS.search(sentence) or find_withdrawals(sentence):
        return None
    if is_answer and is_early and _is_correction(sentence):
        return CORRECTION
    if _PREFERS.search(sentence) and not _STATES.search(sentence):
        return PREFERENCE
    if _DECIDES.match(sentence) and len(sentence.split()) > 2:
        return DECISION
    if is_answer and _ORDERS.match(sentence) and _INSTEAD.search(sentence):
        return CORRECTION
    if _ORDERS.match(sentence) and _REASON.search(sentence):
        return DECISION
    return None


def _is_correction(sentence: str) -> bool:
    if _RIGHT.match(sentence) or _TAKES_BACK.match(sentence):
        return False
    return _CORRECTS.match(sentence) is not None


def _read_answer(message: Message, turn: int) -> Iterator[Lesson]:
    """What an agent has decided: only with its reason, for much is said on the way that is not meant to last."""
    count = 0
    for sentence in split_sentences(clean_prose(message.text)):
        if _AGENT_DECIDES.search(sentence) and _REASON.search(sentence) and not sentence.endswith("?"):
            yield _make(DECISION, f"{_AGENT}{sentence[:_LONGEST]}", message, turn)
            count += 1
            if count == _MOST:
                return


def _find_context(acted: Message | None) -> str:
    """What the agent had done, for a correction that does not say so."""
    calls = () if acted is None else acted.calls
    found = next((one for call in reversed(calls) if (one := _DONE.search(call.arguments))), None)
    return f" (after `{found[1]}`)" if found else ""


def split_sentences(text: str) -> Iterator[str]:
    """The sentences of a prose text, each on one line."""
    for part in _END.split(text):
        sentence = " ".join(_BULLET.sub("", part).split())
        if len(sentence) > 2:
            yield sentence


def _make(label: str, text: str, message: Message, turn: int) -> Lesson:
    return Lesson(label=label, text=text, speaker=message.sender, at=message.at, messages=(message.id,), turn=turn)
