"""The values within a statement about oneself: places, trades, employers, things one likes."""

from __future__ import annotations

import re

from ....text.tokenizer import STOP_WORDS, split_words
from ..lexicon import ADVERBS, get_pattern, get_words

_EDGES = " .,!?;:'\"()"
_MOODS, _NOT_PLACES, _TRADES = get_words("moods"), get_words("not places"), get_words("trades")
_CONNECTS, _NO_WORKPLACE = get_words("within a place"), get_words("no workplace")
_OBJECT_STOPS = ADVERBS | get_words("not the thing")
_LIST = re.compile(r"[a-z]+(?:, [a-z]+)*,? (?:and|or) [a-z]+")
_MINE = re.compile(r"\bmy\b", re.IGNORECASE)
_NOT_ME = re.compile(r"\b(?:me|i|we|our|us|you|your|mine|myself)\b", re.IGNORECASE)


def trim(value: str) -> str:
    """A value up to where the sentence goes on to something else."""
    found = get_pattern("value ends").search(value)
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
    found = None if _LIST.fullmatch(value) else get_pattern("clause ends").search(value)
    thing = (value[: found.start()] if found else value).strip(_EDGES)
    if (
        not thing
        or len(thing) > 120
        or get_pattern("nothing to like").match(thing)
        or get_pattern("proposal").search(thing)
    ):
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
    head = get_pattern("after the thing").sub("", thing.lower(), count=1)
    stems = [stem for word in head.split() if word.strip(_EDGES) not in _OBJECT_STOPS for stem in split_words(word)]
    return " ".join(stems[:3])


def parse_clause(value: str) -> str | None:
    """A longer value, up to the end of its clause, such as "Blue Bottle in SOMA"."""
    found = get_pattern("clause ends").search(value)
    thing = _MINE.sub("their", (value[: found.start()] if found else value).strip(_EDGES))
    return None if not thing or len(thing) > 160 or _NOT_ME.search(thing) else thing
