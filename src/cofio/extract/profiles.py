"""A person's profile as it is stored: taking in what was learned of them, and taking it back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias, cast

from ..model import Json
from ..text import STOP_WORDS, words
from . import Entry

Item: TypeAlias = dict[str, Json]
"""One thing that is known: its category, topic, description, evidence, time and origin, and what it superseded."""

MOST_ITEMS = 100
DEEPEST = 5
LONGEST_SUMMARY = 300

_TELLING = ("name", "job", "employer", "home", "relationship", "family", "origin", "diet", "allergy", "pet", "favorite")
_GENERAL = STOP_WORDS | frozenset(words("no longer not live work own like eat job home have has anymore married drive"))


def merged(profile: Mapping[str, Json] | None, entries: Iterable[Entry], *, session: str) -> dict[str, Json]:
    """The profile with the entries taken in: of each topic the latest counts, and keeps what it superseded under it.

    Taking in the same entries again changes nothing. An entry that comes late is put under what was said after it.
    """
    known = dict(profile or {})
    topics = {_text(item, "topic") or _text(item, "description"): _chain(item) for item in _items(known)}
    newest = _number(known.get("profile_timestamp_ms"))
    for entry in sorted(entries, key=lambda entry: entry.at):
        at = round(entry.at.timestamp() * 1000)
        newest = max(newest, at)
        chain = topics.get(entry.topic, [])
        if entry.ended:
            if chain and at >= _time(chain[0]) and _ends(entry, chain[0]):
                del topics[entry.topic]
        else:
            topics[entry.topic] = _with(chain, _item(entry, at, session))
    return _document(known, topics.values(), newest)


def without(profile: Mapping[str, Json], messages: Collection[str]) -> dict[str, Json] | None:
    """The profile less what those messages said; what that had superseded comes back. None when nothing is left."""
    kept = [
        [item for item in _chain(top) if _text(item, "message_id") not in messages] for top in _items(profile)
    ]  # fmt: skip
    chains = [_settled(chain) for chain in kept if chain]
    if not chains and not profile.get("implicit_traits"):
        return None
    return _document(dict(profile), chains, max((_time(chain[0]) for chain in chains), default=0))


def _document(known: dict[str, Json], chains: Iterable[list[Item]], newest: int) -> dict[str, Json]:
    tops = [_linked(chain) for chain in chains if chain]
    if len(tops) > MOST_ITEMS:
        tops.sort(key=lambda item: (not _is_single(item), -_time(item), _text(item, "topic")))
        # What a person has one of outlives the things of which there are many; then the newer outlives the older.
        tops = tops[:MOST_ITEMS]
    tops.sort(key=lambda item: (_time(item), _text(item, "topic")))
    return {
        **known,
        "summary": _summary(tops),
        "explicit_info": cast(Json, tops),
        "implicit_traits": known.get("implicit_traits") or [],
        "profile_timestamp_ms": newest,
    }


def _item(entry: Entry, at: int, session: str) -> Item:
    return {
        "category": entry.category,
        "topic": entry.topic,
        "description": entry.description,
        "evidence": entry.evidence,
        "timestamp_ms": at,
        "message_id": entry.message,
        "session_id": session,
    }


def _with(chain: list[Item], item: Item) -> list[Item]:
    """The chain, newest first, with one more item in its place."""
    same = (_text(item, "description"), _text(item, "message_id"))
    if any((_text(one, "description"), _text(one, "message_id")) == same for one in chain):
        return chain
    if len(chain) > DEEPEST and _time(item) <= _time(chain[-1]):
        return chain
    at = next((place for place, one in enumerate(chain) if _time(one) <= _time(item)), len(chain))
    return _settled([*chain[:at], item, *chain[at:]])


def _settled(chain: list[Item]) -> list[Item]:
    """The chain without repetitions, of which the first that was said stays, and no deeper than it may be."""
    kept: list[Item] = []
    for item in chain:
        if kept and _text(kept[-1], "description") == _text(item, "description"):
            kept.pop()
        kept.append(item)
    return kept[: DEEPEST + 1]


def _chain(item: Item) -> list[Item]:
    """An item and what it superseded, newest first, each without the link to the next."""
    found: list[Item] = []
    link: Json = item
    while isinstance(link, dict) and len(found) <= DEEPEST:
        found.append({name: value for name, value in link.items() if name != "supersedes"})
        link = link.get("supersedes")
    return found


def _linked(chain: list[Item]) -> Item:
    linked: Item | None = None
    for item in reversed(chain):
        linked = item if linked is None else {**item, "supersedes": cast(Json, linked)}
    assert linked is not None
    return linked


def _ends(entry: Entry, item: Item) -> bool:
    """Whether what ended is what is known: to have left Berlin does not end living in Oslo."""
    ended, held = _particulars(entry.description), _particulars(_text(item, "description"))
    return not ended or not held or not ended.isdisjoint(held)


def _particulars(description: str) -> set[str]:
    return set(words(description)) - _GENERAL


def _is_single(item: Item) -> bool:
    topic = _text(item, "topic")
    return ":" not in topic or topic.startswith("favorite:")


def _summary(tops: list[Item]) -> str:
    """The most telling descriptions, as many as there is room for."""

    def rank(item: Item) -> tuple[int, int]:
        head = _text(item, "topic").partition(":")[0]
        return (_TELLING.index(head) if head in _TELLING else len(_TELLING), -_time(item))

    summary = ""
    for item in sorted(tops, key=rank):
        longer = f"{summary} {_text(item, 'description')}".strip()
        if len(longer) <= LONGEST_SUMMARY:
            summary = longer
    return summary


def _items(profile: Mapping[str, Json]) -> list[Item]:
    items = profile.get("explicit_info")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _text(item: Item, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _time(item: Item) -> int:
    return _number(item.get("timestamp_ms"))


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
