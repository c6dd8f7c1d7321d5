"""How a sentence is meant: as a question, a courtesy, a request, or as something that is so."""

from __future__ import annotations

import re
from enum import Enum

from ..lexicon import parse_words
from .courtesies import is_courtesy, is_pleasantry


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


_OUTSIDE = re.compile(r"^[\W_]+|[\W_]+$")
_ASKING = re.compile(
    r"(?:(?:and |so |but |also |ok |okay |hey )?(?:(?:what|where|when|who|why|how|which)(?:'s|'re|'d)? (?:is|are|am"
    r"|do|does|did|was|were|can|could|will|would|should|has|have|much|many|long|often|far|come|about|time|kind|sort"
    r"|if|a(?=bout)|to|the(?= (?:best|status|weather|time|difference|plan)))\b|(?:what|where|who|how|when|why)'s\b"
    r"|(?:do|does|did|is|are|am|was|were|can|could|will|would|should|has|have|had|isn't|aren't|don't|doesn't|didn't"
    r"|won't|wouldn't|couldn't|can't) (?:you|i|we|they|he|she|anyone|anybody|someone|there|the|this|that|my|your"
    r"|our|it(?= (?!to|again|now|for|later|yourself|like|in|on|at)))\b))",
    re.IGNORECASE,
)
_NOT_ASKING = re.compile(r"(?:do|have|let) (?:the|this|that|my|your|it)\b", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:(?:and|so|but|also|ok|okay|then|now|first|next|finally),? )?(?:please|pls|kindly|(?:can|could|would"
    r"|will) you|let's|lets|(?:i (?:need|want|would like)|i'd like) you to|i (?:want|need|would like) to (?:know"
    r"|ask|understand|see|check|make sure)|i'd like to (?:know|ask|understand|see|check|order|get)|i(?:'m"
    r"| am) (?:asking|wondering|looking for (?:a way|help|advice|some))|i wonder|wondering|any (?:idea|thoughts"
    r"|suggestions|chance|tips)|just (?=(?:tell|give|show|send|let)\b)|never mind|don't (?:forget|worry|tell|use"
    r"|include|add|change|do|be|mention|touch|delete|ask)|do not (?:forget|use|include|add|change|touch|delete)"
    r"|remind me|help me|tell me|show me|give me|let me|make sure|remember to|how about|what about|pretend|imagine"
    r"|suppose|assume|say i|let's say)\b",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"(?:(?:and|so|but|also|ok|okay|then|now|first|next|finally|just),? )?(add|analyze|analyse|append|ask|book"
    r"|brainstorm|bring|build|buy|calculate|call|cancel|change|check|choose|clean|clarify|classify|come|compare"
    r"|complete|compute|confirm|consider|continue|convert|copy|correct|count|create|debug|define|delete|deploy"
    r"|describe|design|do|double-check|download|draft|draw|edit|email|explain|extract|fetch|fill|find|fix|focus"
    r"|format|forget|generate|get|give|go|guess|help|hold|ignore|implement|improve|include|install|keep|leave|let"
    r"|list|listen|look|make|merge|move|name|note|open|order|outline|pay|pick|plan|play|point|post|prepare|print"
    r"|proceed|proofread|propose|provide|pull|push|put|query|read|recommend|refactor|remember|remind|remove|rename"
    r"|replace|reply|report|research|reschedule|reserve|reset|respond|restart|retry|return|review|revise|rewrite"
    r"|run|save|say|scan|schedule|search|see|select|send|set|share|ship|shorten|show|simplify|skip|sort|split|start"
    r"|stick|stop|submit|suggest|summarize|summarise|switch|take|talk|tell|test|think|transfer|translate|try|turn"
    r"|update|upload|use|verify|wait|walk|watch|write)\b",
    re.IGNORECASE,
)
_FINITE = parse_words(
    "is are was were has had will would can could should isn't wasn't starts begins ends went costs takes comes "
    "came changed keeps says said shows runs failed passed got seems looks works needs"
)
_ENDS_ASKING = re.compile(r"[?？؟][\s!.?)”\"'*]*[^\w\"”]*$|(?:か|吗|呢|ですか|ますか)[。.]?$")
_PLEASE = re.compile(r"^please\b|\bplease$", re.IGNORECASE)
_SAID_WITHIN = re.compile(r'\w[,:]? ["“].*[?？!]["”]$')
_TELLING_LEAD = re.compile(
    r"(?:please |pls |also |so |and |but )*(?:remember|note|keep in mind|don't forget|do not forget|be aware"
    r"|remember this|(?:can you |could you )?remind me(?= that\b)|don't let me forget(?= that\b))(?: that "
    r"|[:,]? )(?=(?:i|i'm|i've|i'd|i'll|my|our|we)\b)",
    re.IGNORECASE,
)


def classify_manner(sentence: str) -> Manner:
    """How a sentence is meant, by its words alone."""
    bare = _OUTSIDE.sub("", sentence[:400])
    if not bare:
        return Manner.COURTESY
    if _asks(sentence, bare):
        return Manner.COURTESY if is_pleasantry(bare) else Manner.QUESTION
    if is_courtesy(bare) or _introduces(sentence, bare):
        return Manner.COURTESY
    if _TELLING_LEAD.match(bare):
        return Manner.STATEMENT
    if _ASKS.match(bare) or _is_order(bare) or _PLEASE.search(bare):
        return Manner.REQUEST
    return Manner.STATEMENT


def strip_lead(sentence: str) -> str:
    """A statement less the words that ask to remember it."""
    return sentence[lead.end() :] if (lead := _TELLING_LEAD.match(sentence)) else sentence


def _asks(sentence: str, bare: str) -> bool:
    if _ENDS_ASKING.search(sentence[-40:]):
        return not (len(sentence) <= 1000 and _SAID_WITHIN.search(sentence))
    if sentence.rstrip().endswith((".", "!", "。", "！", ":")):
        return False
    return _ASKING.match(bare) is not None and not _NOT_ASKING.match(bare)


def _introduces(sentence: str, bare: str) -> bool:
    """Whether a line only says that something follows: "Here is the function:" """
    return sentence.rstrip().endswith(":") and len(bare) <= 80 and bare[:5].lower() in ("here ", "here'")


def _is_order(bare: str) -> bool:
    order = _ORDERS.match(bare)
    if order is None:
        return False
    if bare[order.end() : order.end() + 1] == ",":  # "Wait, …" and "Look, …" ask for nothing
        return False
    following = bare[order.end() : order.end() + 60].lower().split()[:3]
    # "Book club is on Tuesday" begins with a noun, and so does "Call quality was poor".
    return bool(following) and not (_FINITE & set(following) and following[0] not in ("what", "which", "who", "that"))
