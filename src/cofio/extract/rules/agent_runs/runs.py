"""Where an agent's work on one request ends and its work on the next begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from ....text.tokenizer import split_words
from ...extractor import Message
from .commands import is_generic
from .intents import find_telling_words, get_first_word, is_request, list_sentences, strip_greeting, strip_politeness
from .vocabulary import get_phrases, get_words

_SEEN = 2_000  # characters of a message that are compared with others
_BUT = re.compile(r"(?i)(?:\w{2,6}(?: you)?\b[\s,.!–—-]*){0,3}but\b")


class Run(NamedTuple):
    """The messages about one request, and what the user said of it as the next one began."""

    messages: Sequence[Message]
    remark: str


def split_runs(messages: Sequence[Message]) -> list[Run]:
    """The parts of a conversation, from its first user on, that are about one request each.

    A new one begins with a request of a user after an assistant's answer. Thanks, corrections, and what changes the
    request that was answered belong to the one before.
    """
    found: list[Run] = []
    first = next((at for at, message in enumerate(messages) if message.role == "user"), len(messages))
    part: list[Message] = []
    for at, message in enumerate(messages[first:], first):
        text = message.text[:_SEEN]
        if message.role == "user" and _is_answered(part) and _begins_run(text, part, messages[at + 1 :]):
            found.append(Run(part, " ".join(takewhile(lambda each: not _asks(each), list_sentences(text)))))
            part = []
        part.append(message)
    return [*found, Run(part, "")] if part else found


def _is_answered(part: Sequence[Message]) -> bool:
    """Whether the last that was not a user's is an answer of an assistant."""
    last = next((message for message in reversed(part) if message.role != "user"), None)
    return last is not None and last.role == "assistant" and not last.calls and bool(last.text.strip())


def _begins_run(text: str, part: Sequence[Message], later: Sequence[Message]) -> bool:
    """Whether a user's words after an answer are another request."""
    objects = get_phrases("objection").match(strip_greeting(text)) or get_phrases("reproach").search(text)
    if objects or _BUT.match(text.strip()):
        return False
    tools = _collect_tools(part)
    next_tools = _collect_tools(takewhile(lambda message: message.role != "user", later))
    is_other = bool(tools and next_tools) and not tools & next_tools
    request = next((each for each in list_sentences(text) if _asks(each)), "")
    if not request:  # in another language only what is done for it can tell
        return is_other and len(find_telling_words(text)) >= 3 and not _points_back(text)
    if _points_back(strip_greeting(request)) or not find_telling_words(request):
        return False
    shares = _shares_topic(find_telling_words(request), part)
    if shares and _asks_back(part):
        return False
    refines = get_first_word(strip_politeness(request)) in get_words("refining verbs")
    return is_other or not refines or not (shares or (bool(tools & next_tools) and " the " in request))


def _shares_topic(things: Sequence[str], part: Sequence[Message]) -> bool:
    """Whether one of the things was spoken of before."""
    earlier = " ".join(message.text[:_SEEN] for message in part if message.role != "tool")
    return bool(set(split_words(" ".join(things))) & set(split_words(earlier)))


def _asks(sentence: str) -> bool:
    asks = sentence.endswith("?") and get_phrases("question").match(strip_greeting(sentence))
    return bool(asks) or is_request(sentence)


def _points_back(sentence: str) -> bool:
    """Whether a sentence cannot be understood without what was said before it."""
    pointer = get_phrases("pointer").search(sentence)
    return pointer is not None and not find_telling_words(sentence[: pointer.start()])


def _asks_back(part: Sequence[Message]) -> bool:
    """Whether the last answer ends with a question about the task."""
    answer = next((message.text for message in reversed(part) if message.role == "assistant"), "")
    return answer.rstrip().endswith(("?", "？"))


def _collect_tools(messages: Iterable[Message]) -> set[str]:
    return {call.name for message in messages for call in message.calls if not is_generic(call.name)}
