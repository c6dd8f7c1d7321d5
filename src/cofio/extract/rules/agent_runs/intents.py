"""What a user asked for, in one sentence of their own words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....text.tokenizer import STOP_WORDS, split_words
from ...extractor import Message
from ..lines import cut, flatten
from ..messages.sentences import split_sentences
from .results import summarize_result
from .vocabulary import get_phrases, get_words

INTENT = 300  # characters
_SEEN = 4_000  # characters of a message that a request is looked for in, from its beginning and from its end
_SEPARATORS = " \t,!.:;–—-"
_CODE = re.compile(r"```[^`]{0,200000}(?:```|$)")
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def list_sentences(text: str) -> list[str]:
    """The sentences and lines of the beginning of a text, without code."""
    seen = _CODE.sub(" ", text.strip()[:_SEEN])
    pieces = (piece for line in seen.splitlines() for piece in split_sentences(line))
    return [part for piece in pieces if (part := piece.strip(" \t#*>•-"))]


def find_intent(messages: Sequence[Message]) -> str:
    """What the first user who says more than hello asks for, and what they changed about it before the last call."""
    asking = [message for message in messages if message.role == "user" and split_words(message.text[:_SEEN])]
    first = next((message for message in asking if _has_substance(message.text)), next(iter(asking), None))
    if first is None:
        return ""
    request = _find_request(first.text)
    calls = [at for at, message in enumerate(messages) if message.calls] or [0]
    later = [message for message in messages[calls[0] : calls[-1]] if message.role == "user" and message is not first]
    for change in [line for message in later if (line := _find_refinement(message.text))][:2]:
        if len(request) + len(change) + 10 <= INTENT:
            request = f"{request.rstrip('.?!').rstrip(')')}{'; ' if request.endswith(').') else ' (then: '}{change})."
    return request


def _has_substance(text: str) -> bool:
    rest = strip_greeting(text.strip()[:_SEEN])
    return len([word for word in split_words(rest) if word not in STOP_WORDS]) >= 2 or len(rest) > 30


def strip_greeting(sentence: str) -> str:
    """A sentence without greeting and filler at its beginning."""
    for _ in range(8):
        found = get_phrases("greeting").match(sentence) or get_phrases("filler").match(sentence)
        if found is None:
            break
        sentence = sentence[found.end() :].lstrip(_SEPARATORS)
    return sentence


def is_request(sentence: str) -> bool:
    """Whether a sentence asks for something to be done."""
    plain = strip_greeting(sentence)
    opens = get_phrases("opener").match(plain) or get_phrases("wants").match(plain)
    return bool(opens) or get_first_word(plain) in get_words("verbs")


def get_first_word(sentence: str) -> str:
    """The first word, in small letters."""
    found = re.match(r"[^\W\d_]+", sentence)
    return found[0].lower() if found else ""


def _find_request(text: str) -> str:
    """The sentences of a message that ask, with the one before where they do not say what it is about."""
    parts = [part for part in list_sentences(text) if split_words(strip_greeting(part))]
    asking = [at for at, part in enumerate(parts) if is_request(part)]
    if not asking and len(text) > _SEEN:  # a long paste, and the request after it
        late = [part for part in list_sentences(text.strip()[-_SEEN:])[1:] if is_request(part) or _is_question(part)]
        if late:
            return _finish_sentence(strip_politeness(late[-1]))
    if not parts:
        return flatten(text, INTENT)
    asking = asking or [at for at, part in enumerate(parts) if _is_question(part)][:1]
    first = asking[0] if asking else next((at for at, part in enumerate(parts) if not _is_vague(part)), 0)
    request = strip_politeness(parts[first])
    if asking and first and _is_question(parts[first - 1]):
        request = f"{flatten(strip_greeting(parts[first - 1]), 180)} {request}"
    elif asking and first and _is_vague(request):
        about = max(parts[first - 1 :: -1][:3], key=lambda part: len(find_telling_words(part)))
        request = f"{flatten(strip_greeting(about), 180).rstrip('.!:;')}; {_lower_first(request)}"
    elif not first and _is_vague(request) and (code := _CODE.search(text[:_SEEN])):
        request = f"{request.rstrip('.!?: ')}: {summarize_result(code[0])[0]}"
    for at in range(first + 1, min(first + 3, len(parts))):
        more = strip_politeness(parts[at])
        if at not in asking or len(request) + len(more) > 200:
            break
        request = f"{request.rstrip('.!')}; {_lower_first(more)}"
    return _finish_sentence(request)


def _is_question(part: str) -> bool:
    return part.rstrip().endswith(("?", "？"))


def _is_vague(request: str) -> bool:
    """Whether a request only points at what it is about: "Find out why and fix it"."""
    return len(find_telling_words(request)) < 2


def find_telling_words(sentence: str) -> list[str]:
    """The words of a sentence that say what it is about."""
    found = (re.sub("['’]", "", word) for word in _TOKEN.findall(sentence.lower()))
    return [word for word in found if word not in STOP_WORDS and word not in get_words("verbs")]


def strip_politeness(sentence: str) -> str:
    """A request without politeness around it."""
    plain = strip_greeting(flatten(sentence, INTENT * 2))
    opened = False
    while (opener := get_phrases("opener").match(plain)) and plain[opener.end() :].strip(" ?.!"):
        plain, opened = strip_greeting(plain[opener.end() :].lstrip()), True
    if opened:
        plain = plain.rstrip().removesuffix("?")
    for _ in range(3):
        short = get_phrases("courtesy", r"[\s,;–—-]*\b", r"[\s.!?]*$").sub("", plain)
        if not short or short == plain:
            break
        asked = _is_question(plain) and not opened and get_first_word(short) not in get_words("verbs")
        plain = short + ("?" if asked else "")
    return plain.strip() or flatten(sentence, INTENT)


def _lower_first(request: str) -> str:
    first = get_first_word(request)
    is_plain = first in get_words("verbs") or (first in STOP_WORDS and first != "i")
    return request[:1].lower() + request[1:] if is_plain else request


def _finish_sentence(request: str) -> str:
    """A request as a sentence: a capital in front, a stop behind."""
    request = cut(request.strip(), INTENT - 1).rstrip(" ,;:")
    first = get_first_word(request)
    if first and request[: len(first)].islower() and not request.startswith("://", len(first)):
        request = request[0].upper() + request[1:]
    return request if request.rstrip("\"'”’)")[-1:] in tuple(".?!…。？！") else request + "."


def _find_refinement(text: str) -> str:
    """A short later word that changes the request; empty when it is something else."""
    line = flatten(text, 200).rstrip(".! ")
    plain = line
    while found := get_phrases("interjection").match(plain):
        plain = plain[found.end() :].lstrip(_SEPARATORS)
    refines = plain != line or get_phrases("refinement").match(plain)
    return (
        (plain or line)
        if len(line) <= 90 and "?" not in line and refines and get_phrases("change").search(line)
        else ""
    )
