"""How a sentence is meant: as a question, a courtesy, a request, or as something that is so."""

from __future__ import annotations

import re
from enum import Enum

from ..lexicon import get_pattern, get_words


class Manner(Enum):
    """How a sentence is meant."""

    STATEMENT = "statement"
    QUESTION = "question"
    REQUEST = "request"
    COURTESY = "courtesy"
    """Greetings, thanks, assent and other words that tell nothing."""
    CODE = "code"
    QUOTE = "quote"
    """A passage that the speaker quotes."""
    TEXT = "text"
    """A text that the speaker shows, written by anyone."""
    PLAY = "play"
    """What the speaker says in a part that they play."""


LONGEST_COURTESY = 120
MOST_COURTEOUS = 7  # words

_EDGES = " \t¡¿.!?…,;:)('\"“”‘’*~-–—。！？，、؟۔"
_OUTSIDE = re.compile(r"^[\W_]+|[\W_]+$")
_ENDS_ASKING = re.compile(r"[?？؟][\s!.?)”\"'*]*[^\w\"”]*$|(?:か|吗|呢|ですか|ますか)[。.]?$")
_SAID_WITHIN = re.compile(r'\w[,:]? ["“].*[?？!]["”]$')
_PLEASE = re.compile(r"\bplease$", re.IGNORECASE)
_ORDER = re.compile(r"(?:(?:and|so|but|also|ok|okay|then|now|first|next|finally|just),? )?([a-z-]+)\b", re.IGNORECASE)
_ORDERS, _NOT_ORDERED = get_words("orders"), get_words("not ordered")
_COURTESIES = get_words("courtesies")


def classify_manner(sentence: str) -> Manner:
    """How a sentence is meant, by its words alone."""
    bare = _OUTSIDE.sub("", sentence[:400])
    if not bare:
        return Manner.COURTESY
    if _asks(sentence, bare):
        return Manner.COURTESY if get_pattern("polite question").fullmatch(bare) else Manner.QUESTION
    if _is_courtesy(bare) or _introduces(sentence, bare):
        return Manner.COURTESY
    if get_pattern("asks to remember").match(bare):
        return Manner.STATEMENT
    if get_pattern("requests").match(bare) or _is_order(bare) or _PLEASE.search(bare):
        return Manner.REQUEST
    return Manner.STATEMENT


def strip_lead(sentence: str) -> str:
    """A statement less the words that ask to remember it."""
    return sentence[lead.end() :] if (lead := get_pattern("asks to remember").match(sentence)) else sentence


def _asks(sentence: str, bare: str) -> bool:
    if _ENDS_ASKING.search(sentence[-40:]):
        return not (len(sentence) <= 1000 and _SAID_WITHIN.search(sentence))
    if sentence.rstrip().endswith((".", "!", "。", "！", ":")):
        return False
    return get_pattern("asks without a mark").match(bare) is not None


def _is_courtesy(bare: str) -> bool:
    """Whether a sentence, given without the marks around it, tells nothing."""
    if len(bare) > LONGEST_COURTESY:
        return False
    words = [word for word in (token.strip(_EDGES) for token in bare.lower().split()) if any(map(str.isalnum, word))]
    if len(words) <= MOST_COURTEOUS and _COURTESIES.issuperset(words):
        return True
    rest = bare
    while lead := get_pattern("interjection").match(rest):
        rest = rest[lead.end() :]
    return any(get_pattern("saying").fullmatch(text) for text in {rest, bare}) or bool(
        get_pattern("courtesy").fullmatch(bare)
    )


def _introduces(sentence: str, bare: str) -> bool:
    """Whether a line only says that something follows: "Here is the function:" """
    return sentence.rstrip().endswith(":") and len(bare) <= 80 and bare[:5].lower() in ("here ", "here'")


def _is_order(bare: str) -> bool:
    order = _ORDER.match(bare)
    if order is None or order[1].lower() not in _ORDERS:
        return False
    if bare[order.end() : order.end() + 1] == ",":  # "Wait, …" and "Look, …" ask for nothing
        return False
    following = bare[order.end() : order.end() + 60].lower().split()[:3]
    # "Book club is on Tuesday" begins with a noun, and so does "Call quality was poor".
    return bool(following) and (_NOT_ORDERED.isdisjoint(following) or following[0] in ("what", "which", "who", "that"))
