"""Lasting things that people say of themselves: where they live, what they do, whom and what they love."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ...extractor import Entry
from ..lexicon import get_pattern, list_names
from ..messages.manner import Manner
from ..messages.turns import Turn
from ..narration.dates import add_dates
from ..narration.reported_speech import extract_core, shorten, strip_time
from ..senses.verdicts import shows_text
from .corrections import Correction, find_correction
from .spoken_entries import find_instruction, find_spoken
from .statement_values import normalize_thing
from .traits import load_traits
from .vetoes import is_jest, is_long_ago, is_not_so

_Key: TypeAlias = tuple[str, str, str]

MOST = 40  # entries of one person in one stretch
LONGEST_EVIDENCE = 300
LONGEST_STATEMENT = 400  # characters, beyond which a sentence tells more than one thing

_AND = re.compile(r",? and (?!i\b)|, ")
_OF_ONESELF = re.compile(r"(?:i|im|my|call me)\b", re.IGNORECASE)
_ANSWERS = "answers "
_LASTING = frozenset({"Background", "Identity", "Health", "Relationship"})
_PROPER = re.compile(r"(?<=[a-z,] )(?:[A-Z][\w'-]*(?: [A-Z][\w'-]*)*|\d[\d.,]*\d|\d)")


def find_entries(turns: Sequence[Turn]) -> dict[str, tuple[Entry, ...]]:
    """What each user said of themself that lasts, by the sender's id, in the order in which it was said."""
    found: dict[str, dict[_Key, Entry]] = {}
    alone = len({turn.message.sender for turn in turns}) <= 2
    names = frozenset(turn.name for turn in turns)
    for turn in turns:
        if turn.message.role == "user":
            mine = found.setdefault(turn.message.sender, {})
            for entry in _find_in_turn(turn, alone, names - {turn.name}, mine):
                mine.setdefault((entry.message, entry.topic, entry.description), entry)
    return {sender: tuple(mine.values())[-MOST:] for sender, mine in found.items() if mine}


def _find_in_turn(turn: Turn, alone: bool, others: frozenset[str], mine: Mapping[_Key, Entry]) -> Iterator[Entry]:
    """The entries of one turn; none where all of it was said in jest. `mine` is what the speaker said before."""
    if any(is_jest(one.text) for one in turn.sentences):
        return
    opens = True
    for sentence in turn.sentences:
        answered = _complete_answer(turn, sentence.text) if alone and opens else None
        opens = opens and sentence.manner is Manner.COURTESY
        if shows_text(sentence):
            return
        if len(sentence.text) > LONGEST_STATEMENT:
            continue
        states = sentence.manner is Manner.STATEMENT
        if states and answered is None and (meant := find_correction(sentence.text)):
            yield from _apply_correction(meant, sentence.text, turn, list(mine.values()))
            continue
        if instruction := find_instruction(sentence, turn):
            yield instruction
        if not states:
            if sentence.manner in (Manner.QUESTION, Manner.REQUEST):  # "I'm on warfarin, so is grapefruit fine?"
                yield from find_spoken(sentence, turn)
            continue
        text = extract_core(answered or sentence.text)
        read, looks = _read_statement(text, sentence.text, turn, others)
        if instruction is not None:  # "I prefer short answers" is nothing that someone likes
            yield from (entry for entry in read if entry.topic == "name")
        elif read:
            yield from read
        elif not looks and answered is None:  # what looks like a trait and gave none tells nothing that lasts
            yield from find_spoken(sentence, turn)


def _read_statement(text: str, evidence: str, turn: Turn, others: frozenset[str]) -> tuple[list[Entry], bool]:
    """The entries of one statement, one for each topic of a clause, and whether it looks like a trait at all."""
    timeless = strip_time(text)
    untrue = is_not_so(timeless)
    found: list[Entry] = []
    looks = False
    long_ago = is_long_ago(text, turn.said_at.year)
    for part in _split_clauses(timeless):
        if not _OF_ONESELF.match(part):
            continue
        if part.rpartition(", ")[2] in others:
            part = part.rpartition(", ")[0]
        past = long_ago and get_pattern("happened").match(part) is not None
        seen: set[str] = set()
        for trait in load_traits():
            match = trait.pattern.match(part)
            if match is None:
                continue
            looks = looks or trait.topic != "job"  # "I'm a night owl" tells something else
            for topic, says in trait.read(match):
                if topic not in seen and not untrue and not (past and trait.category not in _LASTING):
                    seen.add(topic)
                    found.append(_build_entry(trait.category, topic, says, evidence, turn, ended=trait.ended))
    return found, looks


def _apply_correction(meant: Correction, evidence: str, turn: Turn, before: list[Entry]) -> Iterator[Entry]:
    """The speaker's last entry that holds the wrong value, with the right one in its place."""
    for entry in reversed(before):
        names = _PROPER.findall(entry.description)
        old = meant.old or next((one for one in names if one[:1].isdigit() == meant.new[:1].isdigit()), "")
        if entry.ended or not old or not re.search(rf"\b{re.escape(old)}\b", entry.description):
            continue
        says = re.sub(rf"\b{re.escape(old)}\b", lambda _: meant.new, entry.description)
        topic = entry.topic
        for one, other in ((old.lower(), meant.new.lower()), (normalize_thing(old), normalize_thing(meant.new))):
            topic = topic.replace(one, other) if one and topic == entry.topic else topic
        yield _build_entry(entry.category, topic, says, evidence, turn)
        if topic != entry.topic:
            yield _build_entry(entry.category, entry.topic, f"Not so: {entry.description}", evidence, turn, ended=True)
        return


def _complete_answer(turn: Turn, text: str) -> str | None:
    """A short answer as the whole sentence that it stands for."""
    text = get_pattern("yes").sub("", text)
    if (
        turn.question is None
        or len(text.split()) > 6
        or get_pattern("no").match(text)
        or re.match(r"(?:i|i'm|my|we|it|in|at|near)\b", text, re.I)
    ):
        return None
    if favorite := get_pattern("asked about a favorite").search(turn.question.text):
        return f"My favorite {favorite[1]} is {text}"
    asked = turn.question.text
    start = next((name for name in list_names(_ANSWERS) if get_pattern(name).search(asked)), None)
    if start is None:
        return None
    if "allergic" in start:
        text = text[:1].lower() + text[1:]
    return f"{start.removeprefix(_ANSWERS)} {text}"


def _split_clauses(text: str) -> Iterator[str]:
    """The clauses of a sentence that have the speaker for their subject, each beginning with it."""
    for part in get_pattern("next clause").split(text):
        have = get_pattern("i own").match(part)
        things = _AND.split(part[have.end() :]) if have and " and " in part else []
        if len(things) > 1 and all(map(get_pattern("counted").match, things)):  # "a dog, a labrador" is one
            yield from (f"I have {each}" for each in things)
            continue
        second = get_pattern("second verb").search(part)
        if second and part[:2].lower() == "i " and not get_pattern("not finite").search(part[: second.start()]):
            yield part[: second.start()]
            yield f"I {part[second.end() :]}"
        else:
            yield part


def _build_entry(category: str, topic: str, says: str, evidence: str, turn: Turn, *, ended: bool = False) -> Entry:
    says = re.sub(r"\s+", " ", says)
    return Entry(
        topic=topic[:120],
        category=category,
        description=shorten(add_dates(says[:1].upper() + says[1:], turn.said_at), 240),
        evidence=shorten(evidence, LONGEST_EVIDENCE),
        at=turn.message.at,
        message=turn.message.id,
        ended=ended,
    )
