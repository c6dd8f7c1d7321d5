"""Single facts: what was said, one sentence each, that can be read without the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...extractor import Fact
from ..lexicon import get_pattern, get_words
from ..messages.manner import Manner
from ..messages.turns import Turn, count_telling_words, has_name
from ..profile.corrections import find_correction
from ..senses.verdicts import is_kept, is_plainly_told
from .reported_speech import extract_core, has_verb, put_in_marks, quote, report, shorten, to_third_person

MOST = 60
LONGEST_ANSWER = 8  # words, beyond which an answer is read without its question
LONGEST_QUESTION = 200
LEAST_TOLD = 2  # telling words of what an assistant did

_EDGES = ".,!?;:'\")("
_SPEAKERS, _DANGLES = get_words("speaker") | get_words("speakers"), get_words("dangles")

_ANSWER = ""


def find_facts(turns: Sequence[Turn]) -> tuple[Fact, ...]:
    """The facts of a conversation, in the order in which they were said, each once."""
    found: dict[str, Fact] = {}
    users = {turn.message.sender: turn.name for turn in turns if turn.message.role == "user"}
    names = frozenset(turn.name for turn in turns) | frozenset(turn.name.split()[0] for turn in turns if turn.name)
    for turn in turns:
        told_in = (
            _find_in_user_turn(turn, names)
            if turn.message.role == "user"
            else _find_in_assistant_turn(turn, list(users.values()))
        )
        for text, messages in told_in:
            if len(found) >= MOST:
                return tuple(found.values())
            fact = Fact(text=shorten(text), speaker=turn.message.sender, at=turn.message.at, messages=messages)
            found.setdefault(text.casefold(), fact)
    return tuple(found.values())


def _find_in_user_turn(turn: Turn, names: frozenset[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a user said of themself and of the world, as far as it means something alone."""
    others = names - {turn.name}
    first, group = True, list[str]()
    for sentence in turn.sentences:
        text, opens = sentence.text, first
        first = (
            first
            and not get_pattern("yes or no").fullmatch(text)
            and (sentence.manner is Manner.COURTESY or not count_telling_words(text))
        )
        answers = turn.question is not None and opens and _is_answer(turn, text, sentence.manner)
        states = is_kept(sentence)
        alone = states and is_plainly_told(sentence)
        corrects = sentence.manner is Manner.STATEMENT and not answers and find_correction(text) is not None
        hangs = sentence.manner is Manner.STATEMENT and refers_back(text) and not text.rstrip().endswith((":", ","))
        if hangs and group and not answers and not corrects:
            if (alone or count_telling_words(text) >= 2) and sum(map(len, group)) + len(text) < 400:
                group.append(text)
            continue
        yield from _merge_group(group, turn, others)
        group = []
        if answers:
            group = [_ANSWER, text]
        elif corrects:
            yield quote(text, turn.name, turn.said_at, "corrected"), (turn.message.id,)
        elif (alone and not get_pattern("pronoun").match(text)) or (
            states and not refers_back(text) and stands_alone(text)
        ):
            group = [text]
    yield from _merge_group(group, turn, others)


def _merge_group(group: list[str], turn: Turn, others: frozenset[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """One fact of a sentence and those that hang on it; the first of an answer stands for its question."""
    own = (turn.message.id,)
    if group and group[0] == _ANSWER and turn.question is not None:
        question = shorten(turn.question.text, LONGEST_QUESTION).replace('"', "'")
        words = put_in_marks(" ".join(group[1:]), turn.said_at, 250, question)
        yield f'Asked "{question}", {turn.name} said: {words}', (turn.question.message, *own)
    elif len(group) > 1:
        yield quote(" ".join(group), turn.name, turn.said_at), own
    elif group:
        yield report(group[0], turn.name, turn.said_at, others), own


def _is_answer(turn: Turn, text: str, manner: Manner) -> bool:
    """Whether a sentence needs the question before it to mean something, and means something with it."""
    question = turn.question
    assert question is not None
    if manner is Manner.COURTESY:
        says = get_pattern("yes or no").fullmatch(text.strip()) and get_pattern("asked about you").search(question.text)
        return bool(says) and not get_pattern("asked about now").search(question.text)
    if manner is not Manner.STATEMENT or text.rstrip().endswith(":"):
        return False
    if not count_telling_words(text) and not has_name(text):
        return False
    short = len(text.split()) <= LONGEST_ANSWER and to_third_person(text, turn.name) is None
    return short or refers_back(text)


def refers_back(text: str) -> bool:
    """Whether a statement speaks of something that was named before it."""
    bare = extract_core(text)
    if get_pattern("hangs").match(bare):
        return True
    first, *rest = (word.strip(_EDGES).lower() for word in bare.split(" ")[:5])
    return first in _SPEAKERS and not _DANGLES.isdisjoint(rest)


def stands_alone(text: str) -> bool:
    """Whether there is enough in a statement to be worth remembering by itself."""
    count, length = count_telling_words(extract_core(text)), len(text.split())
    if count and to_third_person(text, "Someone"):  # a whole sentence about the speaker, such as "I'm vegetarian"
        return True
    if length > 1 and count >= 2 and get_pattern("speaks of oneself").match(text):
        return True
    if text.isascii() and (length < 4 or (text[-1] not in ".!" and not has_verb(text))):
        return False  # "Two nights" answers a question that is not there, "oat milk" stands in a list
    return count >= 2 or (count == 1 and has_name(text))


def _find_in_assistant_turn(turn: Turn, users: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What an assistant did, promised, or told about the user; what it explained is no fact about anyone."""
    to = f"told {users[0]}" if len(users) == 1 else "said"
    for sentence in turn.sentences:
        text = extract_core(sentence.text)
        if sentence.manner is not Manner.STATEMENT or sentence.text.rstrip().endswith(":"):
            continue
        if count_telling_words(text) < LEAST_TOLD:
            continue
        did = get_pattern("deed").match(text) and not get_pattern("empty deed").match(text)
        if did and not refers_back(text):
            certain = to_third_person(sentence.text, turn.name) is not None
            done = (
                report(sentence.text, turn.name, turn.said_at)
                if certain
                else quote(sentence.text, turn.name, turn.said_at, to)
            )
            yield done, (turn.message.id,)
        elif get_pattern("told the user").match(text) and has_name(text):
            yield quote(sentence.text, turn.name, turn.said_at, to), (turn.message.id,)
