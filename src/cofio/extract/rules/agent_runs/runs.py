"""Where an agent's work on one request ends and its work on the next begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from ....text.tokenizer import split_words
from ...extractor import Message
from .intents import (
    OBJECTS,
    REPROACH,
    find_telling_words,
    get_first_word,
    is_request,
    list_sentences,
    strip_greeting,
    strip_politeness,
)
from .task_kinds import is_generic
from .vocabulary import REFINING_VERBS

_SEEN = 2_000  # characters of a message that are compared with others
_CLOSING = re.compile(r"(?i)\b(?:else|help you|help with|further|assist)\b")
_BUT = re.compile(r"(?i)(?:(?:yes|ok(?:ay)?|great|thanks?|thank you|nice|good|fine|danke)\b[\s,.!–—-]*){0,3}but\b")
_QUESTION = re.compile(
    r"(?i)(?:what|which|who|whose|where|when|why|how|is|are|was|were|do|does|did|can|could|will|would|has|have|should)"
    r"(?:['’]s|['’]re)?\b(?! about\b)"
)
_BACK = re.compile(  # points at what was said before, wherever it stands
    r"(?i)\b(?:instead|again|rather|the same|nochmal|stattdessen|lieber|the (?:\w{1,20} )?ones?)\b"
)
_POINTS = re.compile(  # points back where no thing has been named yet
    r"(?i)\b(?:it|them|they|these|those|one|there|es|ihn|dort)\b"
    r"|\b(?:this|that|das)\b(?=\W*$|[,.;!?]| (?:for|to|with|in|on|at|from|too|please|as|an|by|one)\b)"
)


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
    for at in range(first, len(messages)):
        message = messages[at]
        if (
            message.role == "user"
            and _is_answered(part)
            and _begins_run(message.text[:_SEEN], part, messages[at + 1 :])
        ):
            found.append(Run(part, _find_remark(message.text[:_SEEN])))
            part = []
        part.append(message)
    return [*found, Run(part, "")] if part else found


def _is_answered(part: Sequence[Message]) -> bool:
    """Whether the last that was not a user's is an answer of an assistant."""
    last = next((message for message in reversed(part) if message.role != "user"), None)
    return last is not None and last.role == "assistant" and not last.calls and bool(last.text.strip())


def _begins_run(text: str, part: Sequence[Message], later: Sequence[Message]) -> bool:
    """Whether a user's words after an answer are another request."""
    if OBJECTS.match(strip_greeting(text)) or REPROACH.search(text) or _BUT.match(text.strip()):
        return False
    tools = _collect_tools(part)
    next_tools = _collect_tools(takewhile(lambda message: message.role != "user", later))
    is_other = bool(tools and next_tools) and not tools & next_tools
    request = next((each for each in list_sentences(text) if _asks_something(each)), "")
    if not request:  # in another language only what is done for it can tell
        return is_other and len(find_telling_words(text)) >= 3 and not _points_back(text) and not _BACK.search(text)
    if _points_back(strip_greeting(request)) or not find_telling_words(request):
        return False
    shares = _shares_topic(find_telling_words(request), part)
    if shares and _asks_back(part):
        return False
    refines = get_first_word(strip_politeness(request)) in REFINING_VERBS
    return is_other or not refines or not (shares or (bool(tools & next_tools) and " the " in request))


def _shares_topic(things: Sequence[str], part: Sequence[Message]) -> bool:
    """Whether one of the things was spoken of before."""
    earlier = " ".join(message.text[:_SEEN] for message in part if message.role != "tool").lower()
    return bool(
        set(things) & set(re.findall(r"\w+", earlier)) or set(split_words(" ".join(things))) & set(split_words(earlier))
    )


def _asks_something(sentence: str) -> bool:
    return is_request(sentence) or (sentence.endswith("?") and _QUESTION.match(strip_greeting(sentence)) is not None)


def _points_back(sentence: str) -> bool:
    """Whether a sentence cannot be understood without what was said before it."""
    if _BACK.search(sentence):
        return True
    pointer = _POINTS.search(sentence)
    return pointer is not None and not find_telling_words(sentence[: pointer.start()])


def _asks_back(part: Sequence[Message]) -> bool:
    """Whether the last answer ends with a question about the task."""
    answer = next((message.text for message in reversed(part) if message.role == "assistant"), "")
    last = answer.strip()[-300:]
    return last.endswith(("?", "？")) and not _CLOSING.search(re.split(r"(?<=[.!?])\s", last)[-1])


def _collect_tools(messages: Iterable[Message]) -> set[str]:
    return {call.name for message in messages for call in message.calls if not is_generic(call.name)}


def _find_remark(text: str) -> str:
    """What stands before the request in the message that begins a run: "Thanks! Now book a taxi."."""
    return " ".join(takewhile(lambda sentence: not _asks_something(sentence), list_sentences(text)))
