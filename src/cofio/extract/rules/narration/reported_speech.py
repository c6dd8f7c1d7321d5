"""What someone said, told by another: in the third person where the grammar is certain, and quoted where it is not.

A quotation is always right; a sentence that was turned wrongly puts words into someone's mouth.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

from ..lexicon import ADVERBS, FOREIGN, MODALS, NOT_PAST, OTHERS, PARTICIPLES, PASTS, VERBS, get_pattern, get_words
from ..messages.manner import strip_lead
from ..messages.speakers import capitalize_name
from .dates import add_dates

LONGEST = 500

_TAIL = re.compile(r"[\s!.…]*(?:[:;]-?[)DP(]|<3|[^\w\s.,;:!?\"'”’()\[\]/%$€£°+&*-])*[\s!.…]*$")
_AFTER_FULL_STOP = re.compile("(?<=[。！？]) ")  # such a full stop has its space within
_SPACE = re.compile(r"\s+")
_UNCERTAIN = re.compile(r":(?!\d)|[\"“”«»;()\[\]{}<>|=`…/?]|(?<!\*)\*\*?(?!\*)| [-–—] |—|\.\.|(?<=[a-z]{3}\. )[a-z]")
_EDGES = ".,!'"
_CLOSED, _NOT_OWNED, _JOINS = get_words("closed"), get_words("not owned"), get_words("joins")
_FINITE, _SPEAKER = get_words("finite"), get_words("speaker")
_THEY, _ALSO_VERBS = get_words("they"), get_words("same in the past")
_CHANGED = dict(each.split("=") for each in get_words("third person"))


@lru_cache(maxsize=2048)
def extract_core(sentence: str) -> str:
    """A sentence less what only opens or closes it: "Actually," or "by the way", marks of joy, the final stop."""
    text = strip_lead(_SPACE.sub(" ", sentence[:2000]).replace("’", "'").strip())
    for _ in range(4):
        lead = get_pattern("opener").match(text)
        if lead is None or lead.end() == len(text):
            break
        text = strip_lead(text[lead.end() :].lstrip())
    tail = _TAIL.search(text, max(0, len(text) - 30))
    text = text[: tail.start()] if tail else text
    aside = get_pattern("aside").search(text, max(0, len(text) - 20))
    return text[: aside.start()] if aside else text


def report(sentence: str, name: str, said_at: datetime, others: frozenset[str] = frozenset()) -> str:
    """The sentence of `name` as another would tell it, with dates, at most LONGEST characters long.

    `others` are the names of those who may be spoken to.
    """
    turned = to_third_person(sentence, name, others)
    return shorten(add_dates(turned, said_at, tense_of=sentence)) if turned else quote(sentence, name, said_at)


def quote(sentence: str, name: str, said_at: datetime, verb: str = "said") -> str:
    """The sentence as a quotation; dates stand in square brackets, and are not part of what was said."""
    return f"{capitalize_name(name)} {verb}: {put_in_marks(sentence, said_at)}"


def put_in_marks(sentence: str, said_at: datetime, longest: int = LONGEST - 50, question: str = "") -> str:
    """The words between quotation marks, closed by a full stop if they have no end of their own."""
    words = shorten(add_dates(_SPACE.sub(" ", sentence).strip(), said_at, "[]", f"{question} {sentence}"), longest)
    words = _AFTER_FULL_STOP.sub("", words).replace('"', "'").replace("“", "'").replace("”", "'")
    ended = words.rstrip("'’」』)]").endswith((".", "!", "?", "…", "。", "！", "？", "؟", "۔", "।", ":"))
    return f'"{words}"' if ended else f'"{words}".'


def shorten(text: str, longest: int = LONGEST) -> str:
    """`text`, or as many whole words of it as there is room for."""
    if len(text) <= longest:
        return text
    head = text[: longest - 1]
    at = head.rfind(" ", longest // 2)
    return f"{head[: at if at > 0 else len(head)].rstrip(' ,;:')}…"


@lru_cache(maxsize=2048)
def to_third_person(sentence: str, name: str, others: frozenset[str] = frozenset()) -> str | None:
    """A statement about its speaker in the third person, or None unless its grammar is certain."""
    text = extract_core(sentence)
    if len(text) > LONGEST or _UNCERTAIN.search(text) or get_pattern("says who").search(text, max(0, len(text) - 60)):
        return None
    when = get_pattern("time opener").match(text)
    opener, rest = (text[: when.end()], text[when.end() :]) if when else ("", text)
    words = rest.split(" ")
    plain = [word.strip(_EDGES).lower() for word in words]
    known = {*plain, *(word.strip(",").lower() for word in opener.split())}
    if OTHERS & known or FOREIGN & {word.strip(_EDGES) for word in words} or _addresses_someone(words, others):
        return None
    if plain[0] == "my" and not when:
        return _report_possession(words, plain, name)
    if not _SPEAKER & set(plain[1:]) <= {"my", "me", "myself"}:
        return None
    turned = _inflect_verb(plain)
    if turned is None or not _THEY.isdisjoint(plain):
        return None
    verb, after = turned
    if words[after - 1][-1:] == "," and after < len(words):  # "I am, however, …"
        return None
    if verb == "is" and after < len(words) and words[after][:1].isupper():  # "I'm Tom": any name
        return None
    if _may_go_on(words, plain, after):
        return None
    start = f"{opener[:1].upper()}{opener[1:]}{name}" if when else capitalize_name(name)
    adverbs = words[1 : after - 1]
    return " ".join((start, *adverbs, verb, *_turn_pronouns(words[after:], name, "their"))) + "."


def is_certain(sentence: str) -> bool:
    """Whether a sentence can be told in the third person."""
    return to_third_person(sentence, "They") is not None


def strip_time(text: str) -> str:
    """A sentence less the time that it begins with: "Two years ago I moved" becomes "I moved"."""
    return text[when.end() :] if (when := get_pattern("time opener").match(text)) else text


def _addresses_someone(words: list[str], others: frozenset[str]) -> bool:
    """Whether a sentence ends, or begins, by calling someone who is there."""
    ends = len(words) > 2 and words[-2].endswith(",") and words[-1].strip(_EDGES) in others
    return ends or words[0].rstrip(",") in others


def _report_possession(words: list[str], plain: list[str], name: str) -> str | None:
    """A sentence that begins with "my": only the pronouns change."""
    if (
        len(words) < 4
        or plain[1] in _NOT_OWNED
        or _SPEAKER & set(plain[1:]) - {"my", "me"}
        or not _has_finite_verb(plain)
    ):
        return None
    owner = capitalize_name(name)
    return " ".join([f"{owner}'s", *_turn_pronouns(words[1:], name, f"{name}'s")]) + "."


def has_verb(text: str) -> bool:
    """Whether there seems to be an English verb in it."""
    plain = [word.strip(_EDGES).lower() for word in text.split()]
    return (
        not VERBS.isdisjoint(plain)
        or _has_finite_verb(["", "", *plain])
        or any(word.endswith("ing") or "'" in word for word in plain)
    )


def _has_finite_verb(plain: list[str]) -> bool:
    """Whether there is a verb that goes with a third person already."""
    return any(
        word in _FINITE or word in PASTS or word.endswith("'s") or word in MODALS
        or (word.endswith("s") and (word[:-1] in VERBS or word[:-2] in VERBS or f"{word[:-3]}y" in VERBS))
        or (word.endswith("ed") and word not in NOT_PAST)
        or word[:-1] in _ALSO_VERBS
        for word in plain[2:]
    )  # fmt: skip


def _inflect_verb(plain: list[str]) -> tuple[str, int] | None:
    """The verb of "I …" in the third person, and where the words after it begin."""
    first = plain[0]
    if first in ("i'm", "im"):
        return "is", 1
    if first == "i'll":
        return "will", 1
    if first in ("i've", "ive"):
        return "has", 1
    at = 1
    while at < len(plain) and plain[at] in ADVERBS and at <= 3:
        at += 1
    if at >= len(plain):
        return None
    verb = plain[at]
    if first == "i'd":
        return _expand_contraction(verb)
    if first != "i":
        return None
    same = verb in PASTS or verb in MODALS or (verb.endswith("ed") and len(verb) > 3 and verb not in NOT_PAST)
    if same:
        return verb, at + 1
    if verb in _CHANGED:
        return _CHANGED[verb], at + 1
    return (_add_s(verb), at + 1) if verb in VERBS else None


def _expand_contraction(verb: str) -> tuple[str, int] | None:
    """What the 'd of "I'd" is short for."""
    if verb == "better" or verb in PARTICIPLES - VERBS - _ALSO_VERBS or verb.endswith("ed"):
        return "had", 1
    return ("would", 1) if verb in VERBS or verb in ("be", "rather", "have") else None


def _add_s(verb: str) -> str:
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _may_go_on(words: list[str], plain: list[str], start: int) -> bool:
    """Whether a second verb may follow that would have to be turned as well: "… and work at Acme"."""
    for at in range(start, len(plain)):
        joined = plain[at] in _JOINS or words[at].endswith(",")
        if not joined:
            continue
        following = at + 1
        while following < len(plain) and (plain[following] in ADVERBS or plain[following] in _JOINS):
            following += 1
        if following >= len(plain):
            continue
        word = plain[following]
        if words[following][:1].isupper() or not word.isalpha() or word.endswith("ing"):
            continue
        if word in VERBS or word in _CHANGED or word in _ALSO_VERBS:
            return True
        closed = word in _CLOSED or word.endswith(("ed", "s")) or word in PASTS or word in MODALS
        ends = following + 1 == len(plain) or words[following].endswith(",") or plain[following + 1] in _JOINS
        if not closed and not ends:  # "tea." is a thing, "employ six people" may be a deed
            return True
    return False


def _turn_pronouns(words: list[str], name: str, owner: str) -> list[str]:
    """The words after the verb, with the speaker's pronouns turned."""
    turned = {"me": name, "my": owner, "myself": "themself"}
    return [
        word if (plain := word.strip(_EDGES)).lower() not in turned else word.replace(plain, turned[plain.lower()])
        for word in words
    ]
