"""Where one stretch of conversation ends and another begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise

from ...text.tokenizer import STOP_WORDS, split_words
from ..extractor import Message
from .lexicon import VAGUE, get_pattern, get_words

GAP = timedelta(hours=4)
MOST_MESSAGES = 50
MOST_CHARACTERS = 32_000  # about 8,000 tokens
SIDE = 3  # messages that a topic must have before it can be left, and before it counts as taken up
WINDOW = 8
TELLING = 12  # words on either side of a change of topic, less than which show nothing
READ = 2_000  # characters of a message that tell its topic

_COMMON = frozenset(split_words(" ".join((*STOP_WORDS, *VAGUE, *get_words("in any talk")))))


def find_boundaries(messages: Sequence[Message], zone: tzinfo) -> list[int]:
    """Return the indexes at which to cut, ascending; the open tail is not cut."""
    forced = _find_forced_cuts(messages, zone)
    free = _mark_free_positions(messages)
    cuts: list[int] = []
    start, size, due = 0, 0, False
    for at, message in enumerate(messages):
        due = due or (at > start and at in forced)
        full = at - start >= MOST_MESSAGES or (at > start and size + len(message.text) > MOST_CHARACTERS)
        if (due or full) and at > start and (best := _find_last_free(free, start, at, back=full and not due)):
            cuts.append(best)
            start, due = best, False
            size = sum(len(one.text) for one in messages[best:at])
        size += len(message.text)
    edges = [0, *cuts, len(messages)]
    drifts = [cut for low, high in pairwise(edges) for cut in _find_drifts(messages, free, low, high)]
    return sorted({*cuts, *drifts})


def _find_forced_cuts(messages: Sequence[Message], zone: tzinfo) -> set[int]:
    """Where the day changes, where there was a long silence, and where a user says that the topic changes."""
    found: set[int] = set()
    before = None
    for at, message in enumerate(messages):
        day = message.at.astimezone(zone).date()
        if before is not None:
            said_so = message.role == "user" and get_pattern("new topic").match(message.text, 0, 200)
            if day != before or message.at - messages[at - 1].at >= GAP or said_so:
                found.add(at)
        before = day
    return found


def _mark_free_positions(messages: Sequence[Message]) -> list[bool]:
    """Before which messages a cut would tear no tool call from its result, and no result from what is made of it."""
    free = [True] * len(messages)
    calls = {call.id: at for at, message in enumerate(messages) for call in message.calls}
    for at, message in enumerate(messages):
        if message.role != "tool":
            continue
        for between in range(calls.get(message.answers or "", at - 1) + 1, at + 1):
            free[max(0, between)] = False
        if at + 1 < len(messages) and messages[at + 1].role != "user":
            free[at + 1] = False
    return free


def _find_last_free(free: list[bool], start: int, at: int, *, back: bool) -> int | None:
    """Where to cut when a cut before `at` is due: there, or, when a stretch is only full, at a place before."""
    if free[at]:
        return at
    if back:
        return next((index for index in range(at - 1, start, -1) if free[index]), None)
    return None


def _find_drifts(messages: Sequence[Message], free: list[bool], low: int, high: int) -> list[int]:
    """Where, within a stretch, users leave one topic for another with hardly a word in common."""
    talk = [at for at in range(low, high) if messages[at].role != "tool" and messages[at].text.strip()]
    cuts: list[int] = []
    start = 0
    while (best := _find_drift(messages, free, talk[start:])) is not None:
        cuts.append(talk[start + best])
        start += best
    return cuts


def _find_drift(messages: Sequence[Message], free: list[bool], talk: list[int]) -> int | None:
    """The first place in `talk` where the topic changes."""
    for index in range(SIDE, len(talk) - SIDE + 1):
        message = messages[talk[index]]
        if message.role != "user" or not free[talk[index]] or get_pattern("same topic").match(message.text):
            continue
        own = find_topic_words(message.text)
        if len(own) < 2 or any(
            not own.isdisjoint(find_topic_words(messages[at].text)) for at in talk[:index][-WINDOW:]
        ):
            continue
        before = frozenset().union(*(find_topic_words(messages[at].text) for at in talk[:index][-WINDOW:]))
        after = frozenset().union(*(find_topic_words(messages[at].text) for at in talk[index:][:WINDOW]))
        fewer = min(len(before), len(after))
        if fewer >= TELLING and len(before & after) <= fewer * 0.05:
            return index
    return None


def find_topic_words(text: str) -> frozenset[str]:
    """The stems of the words of a message that may show its topic."""
    return _stem_topic_words(text[:READ])  # the cache must not hold on to the rest of a document


@lru_cache(maxsize=2048)
def _stem_topic_words(text: str) -> frozenset[str]:
    return frozenset(word for word in split_words(text) if len(word) > 2 and word not in _COMMON)
