"""The values within a statement about oneself: places, trades, employers, things one likes."""

from __future__ import annotations

import re

from ....text.tokenizer import STOP_WORDS, split_words
from ..lexicon import ADVERBS, PARTICIPLES, VAGUE, VERBS, get_words, parse_words

_EDGES = " .,!?;:'\"()"
_CONNECTS = parse_words("de del la las los el of the am an der upon sur da do dos di ob und")
_MOODS, _NOT_PLACES, _TRADES = get_words("moods"), get_words("not places"), get_words("trades")
_STOP = re.compile(
    r"[,;.!?()]| (?:and|but|because|so|since|when|while|where|which|who|after|before|until|though|although|now"
    r"|right now|at the moment|these days|nowadays|again|last|next|this|yesterday|today|tomorrow|for (?:work|now|a"
    r"|an|the|two|three|over|almost|about|\d+)|for (?:\w+ ){1,2}(?:years?|months?|weeks?)|with|from|in (?:19"
    r"|20)\d\d|in (?:january|february|march|april|may|june|july|august|september|october|november|december)|anymore"
    r"|any more|already|recently|i|too|as well|ago|by|full time|full-time|part time|part-time"
    r"|thanks)\b.*|$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[;.!?()]|, | (?:but|because|so|since|when|while|although|though|if|than i|as i|and i|that i|which|anymore"
    r"|any more|too|as well|thanks)\b.*|$",
    re.IGNORECASE,
)
_BAD_OBJECT = re.compile(
    r"(?:it|its|it's|that|this|these|those|you|your|how|when|what|where|who|why|him|her|them|they|everything|all"
    r"|one|some|both|any ?thing|nothing|something|anyone|being|having|seeing you|to (?:be|see|know|think|say|hear"
    r"|have|get|make|do)|the (?!sea\b|outdoors|ocean|mountains|beach|forest|cold|snow|rain|winter|summer|theatre"
    r"|theater|opera|(?-i:[A-Z]))|idea|which|any|such|so|as|most of|our|us|we|a lot|a good|a little|very|more|less"
    r"|working with you|talking|my (?:new|old)|there|each|every|not)\b",
    re.IGNORECASE,
)
_PROPOSAL = re.compile(r"\b(?:idea|plan|option|suggestion|proposal|approach|version|choice)\b", re.IGNORECASE)
_LIST = re.compile(r"[a-z]+(?:, [a-z]+)*,? (?:and|or) [a-z]+")
_SMALL = re.compile(
    r"(?<=.) (?:in|on|at|with|for|every|during|from|of|by|after|before|near|around|to|over|more|a lot|very|so|as"
    r"|and|or|this|next|last|these|anymore)\b.*",
    re.I,
)
_OBJECT_STOPS = ADVERBS | parse_words(
    "don't a an the my their to really eating drinking playing going having cup glass some"
)
_NOT_KIDS = parse_words(
    "hungry tired happy sad angry sick ill busy home late early ready scared lazy cold hot old young new "
    "short tall small big "
    "smart dumb shy mad glad sleepy thirsty alone single married vegan here there back male female boy "
    "girl man woman kid kinda "
    "american british german french irish english spanish norwegian swedish danish chinese indian mexican "
    "canadian dead alive "
    "free poor rich broke strong weak blind deaf gay straight trans gonna in at on from only about nearly almost "
    "silly weird broken lonely curious jealous nervous excited anxious sorry"
)
_MINE = re.compile(r"\bmy\b", re.IGNORECASE)
_NOT_ME = re.compile(r"\b(?:me|i|we|our|us|you|your|mine|myself)\b", re.IGNORECASE)
_NO_WORKPLACE = parse_words("weekend night home it this that fun least all first me myself you us them free")


def trim(value: str) -> str:
    """A value up to where the sentence goes on to something else."""
    found = _STOP.search(value)
    return (value[: found.start()] if found else value).strip(_EDGES)


def parse_location(value: str) -> str | None:
    """A place: a name with capitals, or, where all is in lower case, one word."""
    parts: list[str] = []
    rest = value.split()
    for at, word in enumerate(rest):
        bare = word.strip(_EDGES)
        following = rest[at + 1][:1].isupper() if at + 1 < len(rest) else False
        named = bare[:1].isupper() or (bare in _CONNECTS and following)
        if not named or word[0] == "(" or bare in ("I", "I'm", "I've"):
            break
        parts.append(word)
        if (word[-1] in ".!?;:)" and bare.lower() not in ("st", "mt", "ft")) or (
            word[-1] == "," and (not following or "," in " ".join(parts[:-1]))
        ):
            break
    found = " ".join(parts).strip(_EDGES)
    after = rest[len(parts)].lower() if len(parts) < len(rest) else ""
    if found:
        around = {after, *(word.lower().strip(_EDGES) for word in found.split())}
        other = after in ("framework", "group") or after[:1].isdigit()
        return None if other or not around.isdisjoint(_NOT_PLACES) else found
    single = trim(value)
    if value.islower() and " " not in single and single.isalpha() and single not in STOP_WORDS | _MOODS | _NOT_PLACES:
        return single
    return None


def parse_person(value: str) -> str | None:
    """A person's name: one to three words with capitals."""
    found = trim(value).split()
    if not 1 <= len(found) <= 3 or not all(word[:1].isupper() for word in found):
        return None
    return " ".join(found)


def parse_lowercase_name(value: str) -> str | None:
    """A name that someone wrote without its capital, where it can hardly be another word."""
    word = value.strip(_EDGES).lower()
    if not word:
        return ""
    plain = word in STOP_WORDS | ADVERBS | VAGUE | VERBS | _TRADES | PARTICIPLES | _NOT_KIDS
    return None if plain or word.endswith(("ed", "ing", "ful", "less", "ous")) else word.capitalize()


def parse_trade(value: str) -> str | None:
    """What someone is by trade, with its article: "a night nurse"."""
    found = re.split(r" (?:at|for|in|on|with|of|by)\b", trim(value), maxsplit=1)[0].strip()
    parts = found.split()
    if not 2 <= len(parts) <= 6 or parts[0].lower() not in ("a", "an", "the"):
        return None
    return found if parts[-1].lower() in _TRADES and not _NOT_ME.search(found) else None


def parse_employer(value: str) -> str | None:
    """Whom someone works for: a name, or "a hospital in Bergen"."""
    found = re.split(r" as\b", trim(value), maxsplit=1)[0].strip()
    parts = found.split()
    if not parts or len(parts) > 7 or parts[0].lower() in _NO_WORKPLACE or _NOT_ME.search(found):
        return None
    named = parts[0][:1].isupper() or parts[0].lower() in ("a", "an", "the")
    vague = parts[-1].lower() in ("moment", "time", "living", "while", "weekend", "week", "day", "money", "fun")
    return found if named and not vague else None


def parse_liking(value: str) -> str | None:
    """What someone likes or does not like, as long as it means something by itself."""
    found = None if _LIST.fullmatch(value) else _CLAUSE.search(value)
    thing = (value[: found.start()] if found else value).strip(_EDGES)
    if not thing or len(thing) > 120 or _BAD_OBJECT.match(thing) or _PROPOSAL.search(thing):
        return None
    thing = _MINE.sub("their", thing)
    dangles = re.search(r"\b(?:him|her|them|it)$", thing, re.IGNORECASE)
    return None if dangles or _NOT_ME.search(thing) or not normalize_thing(thing) else thing


def split_things(thing: str) -> list[str]:
    """The single things of "coffee, tea and bread"; a longer phrase stays as it is."""
    parts = [part.strip() for part in re.split(r",? (?:and|or) |, ", thing)]
    return parts if all(part.isalpha() and part.islower() for part in parts) else [thing]


def normalize_thing(thing: str) -> str:
    """What identifies a thing however it is worded: up to three stems."""
    head = _SMALL.sub("", thing.lower(), count=1)
    stems = [stem for word in head.split() if word.strip(_EDGES) not in _OBJECT_STOPS for stem in split_words(word)]
    return " ".join(stems[:3])


def parse_clause(value: str) -> str | None:
    """A longer value, up to the end of its clause, such as "Blue Bottle in SOMA"."""
    found = _CLAUSE.search(value)
    thing = _MINE.sub("their", (value[: found.start()] if found else value).strip(_EDGES))
    return None if not thing or len(thing) > 160 or _NOT_ME.search(thing) else thing
