"""What keeps a statement out of a profile, however it sounds: it is not so, not now, or not about its speaker."""

from __future__ import annotations

import re

from ..senses.cues import find_cues

_NOT_SO = re.compile(
    r"\b(?:if|would(?! (?:love|like) to)|might|wish|maybe|perhaps|probably|unless|imagine|suppose|pretend|almost"
    r"|kidding|joking|jk|used to|hypothetically|dream(?:ed|t)|not sure|said|says|told|wrote|writes|replied|thinks"
    r"|claims|claimed"
    r"|according to|believes|heard|then|until|in (?:my|the|this|a) (?:novel|story|book|game|dreams?|scenario"
    r"|example)|character)\b|[\"“”«»?]",
    re.IGNORECASE,
)
_IDIOM = re.compile(r"\bto hate\b|\bless than\b|\bi could\b|\bor rather\b|\bin theory\b|\bengaged in\b", re.IGNORECASE)
_UNREAL = re.compile(
    r"\b(?:if|wish|imagine|suppose|pretend|kidding|joking|hypothetically|dream(?:ed|t)|in (?:my|the|this|a) (?:novel"
    r"|story"
    r"|book|game|dreams?))\b|[\"“”«»?]",
    re.IGNORECASE,
)
_REPORTED = re.compile(r"\b(?:said|says|wrote|writes|replied|claims|claimed|according to)\b", re.IGNORECASE)
_JEST = re.compile(r"\b(?:just kidding|jk|only joking)\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(?<!since )(?:19|20)\d\d\b")
_ONCE = re.compile(
    r"\b(?:back then|back in|at the time|as a (?:child|kid|boy|girl|teenager|teen|student|young \w+)|when i was"
    r"|in (?:college|high"
    r" school|my (?:twenties|thirties|youth|teens|childhood))|in the (?:19|20)?\d0s|growing up|at uni(?:versity)?"
    r"|decades ago|in"
    r" the past|years? later|long ago)\b",
    re.IGNORECASE,
)
_TODAY = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|right now|rn|this (?:morning|afternoon|evening)|last night|just now"
    r"|an? (?:minute|hour) ago|heute|gestern|hoy|ayer|aujourd'hui|hier|oggi|ieri|hoje|ontem)\b|今天|昨天|今日|昨日",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"\b(?<!every )(?:on|by|until|till|this|next) (?:mon|tues|wednes|thurs|fri|satur|sun)day\b(?! (?:and|or|to)\b)"
    r"|\bon (?:\d{1,2}(?:st|nd|rd|th)? (?:of )?)?(?:january|february|march|april|may|june|july|august|september|october"
    r"|november|december)\b|\bam (?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)\b",
    re.IGNORECASE,
)
"""A day on which something is once; what is so on Mondays is another thing."""
_DATED = frozenset({"plan", "name", "family"})
_WAS = re.compile(r"(?:i|we) (?:worked|lived|studied|owned|loved|liked|was an?|were|used to)\b", re.IGNORECASE)
_MAYBE = re.compile(r"\b(?:maybe|perhaps|probably|might|almost|not sure)\b", re.IGNORECASE)
_WISH = re.compile(r"\b(?:want|hope|hoping|plan|planning|would (?:like|love)|'d (?:like|love)) to\b", re.IGNORECASE)
_THING = re.compile(r"(?:the|this|that|there|it|der|die|das|el|la|los|las|le|les|il|lo|o|os)\b", re.IGNORECASE)
_EVENTFUL = frozenset({"plan", "work", "home", "family", "pet"})
"""Kinds of knowledge in which a single day changes something for good."""
_SELF = frozenset({"me", "my", "we", "family", "pet"})


def is_not_so(text: str) -> bool:
    """Whether a statement is a hypothesis, a quotation or an idiom, or about what is over."""
    return _NOT_SO.search(text) is not None or _IDIOM.search(text) is not None


def is_unreal(text: str) -> bool:
    """Whether a statement is a hypothesis or fiction."""
    return _UNREAL.search(text) is not None


def is_jest(text: str) -> bool:
    """Whether someone says that they were joking."""
    return _JEST.search(text) is not None


def is_long_ago(text: str, year: int) -> bool:
    """Whether a statement is about another time than the present year and the one before."""
    return _ONCE.search(text) is not None or any(int(found) < year - 1 for found in _YEAR.findall(text))


def may_stand(text: str, kind: str, *, ended: bool) -> bool:
    """Whether a statement may stand in a profile in its own words."""
    if is_unreal(text) or _IDIOM.search(text) or _REPORTED.search(text) or _ONCE.search(text):
        return False
    if _MAYBE.search(text) or (kind != "plan" and _WISH.search(text)):
        return False
    cues = find_cues(text)
    if "you" in cues or (_THING.match(text) and not cues & _SELF):
        return False
    if kind == "home" and "tool" in cues:  # who moved to Linux lives where they lived
        return False
    if not ended and (_WAS.match(text) or (kind not in _DATED and _DATE.search(text))):
        return False
    return ended or kind in _EVENTFUL or not _TODAY.search(text)
