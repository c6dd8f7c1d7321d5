"""A person's profile as it is stored: taking in what was learned of them, and taking it back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from ..text.tokenizer import STOP_WORDS, words
from ..values.records import Json
from .extractor import Entry

Item: TypeAlias = dict[str, Json]
"""One thing that is known: its category, topic, description, evidence, time and origin, and what it superseded.

A document holds what is so in `explicit_info`, and in `ended_info` what has ended, with what it ended under it.
"""

MOST_ITEMS = 100
DEEPEST = 5
LONGEST_SUMMARY = 300

_SAID = ("evidence", "timestamp_ms", "message_id", "session_id")

_TELLING = ("name", "job", "employer", "home", "relationship", "family", "origin", "diet", "allergy", "pet", "favorite")
_GENERAL = STOP_WORDS | frozenset(words("no longer not live work own like eat job home have has anymore married drive"))


@dataclass(slots=True)
class _Ending:
    """That something no longer holds, and what it ended, by topic, newest first."""

    item: Item
    hidden: dict[str, list[Item]] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """What is known, by topic, newest first, and what has ended, newest first."""

    shown: dict[str, list[Item]]
    endings: list[_Ending]

    def take(self, item: Item, *, ended: bool) -> None:
        """Take in one more item, unless it is there already."""
        topic = _text(item, "topic")
        if ended:
            if not any(_origin(one.item) == _origin(item) for one in self.endings):
                self.endings.insert(0, _Ending(item))
                for other in [one for one in self.topics() if _covers(topic, one)]:
                    self.settle(other)
            return
        held = [*self.shown.get(topic, ()), *(one for end in self.endings for one in end.hidden.get(topic, ()))]
        if not any(_origin(one) == _origin(item) for one in held):
            self.shown[topic] = [item, *self.shown.get(topic, ())]
            self.settle(topic)

    def topics(self) -> list[str]:
        """All that something is or was known of."""
        return list(dict.fromkeys([*self.shown, *(topic for ending in self.endings for topic in ending.hidden)]))

    def settle(self, topic: str) -> None:
        """Hide what an ending that was said after it ends; the time at which something was said decides."""
        said: list[tuple[Item, _Ending | None]] = [(item, None) for item in self.shown.pop(topic, ())]
        for ending in self.endings:
            if _covers(_text(ending.item, "topic"), topic):
                said.append((ending.item, ending))
                said += [(item, None) for item in ending.hidden.pop(topic, ())]
        said.sort(key=lambda pair: -_time(pair[0]))  # of what was said at the same time, the order stays
        chain: list[Item] = []
        for item, end in reversed(said):
            if end is None:
                chain.insert(0, item)
            elif chain and _ends(item, chain[0]):
                end.hidden[topic] = chain
                chain = []
        if chain:
            self.shown[topic] = chain


def merged(profile: Mapping[str, Json] | None, entries: Iterable[Entry], *, session: str) -> dict[str, Json]:
    """The profile with the entries taken in: of each topic the latest counts, and keeps what it superseded under it.

    Taking in the same entries again changes nothing. An entry that comes late is put under what was said after it, or
    under what ended it since. What a person has set (`edited`) is left as it is.
    """
    document = dict(profile or {})
    known = _known(document)
    newest = _number(document.get("profile_timestamp_ms"))
    for entry in sorted(entries, key=lambda entry: entry.at):
        at = round(entry.at.timestamp() * 1000)
        newest = max(newest, at)
        known.take(_item(entry, at, session), ended=entry.ended)
    return _document(document, known, newest)


def without(profile: Mapping[str, Json], messages: Collection[tuple[str, str]]) -> dict[str, Json] | None:
    """The profile less what those messages, by session and id, said; what that had superseded or ended comes back.

    None when nothing is left.
    """
    gone = frozenset(messages)
    known = _known(profile)
    for ending in known.endings:
        if _source(ending.item) in gone:
            for topic, chain in ending.hidden.items():
                known.shown.setdefault(topic, []).extend(chain)
    known.endings = [ending for ending in known.endings if _source(ending.item) not in gone]
    for chains in (known.shown, *(ending.hidden for ending in known.endings)):
        for topic, chain in chains.items():
            chains[topic] = [item for item in chain if _source(item) not in gone]
    for topic in known.topics():
        known.settle(topic)
    if not known.shown and not known.endings and not profile.get("implicit_traits") and not profile.get("edited"):
        return None
    times = [_time(chain[0]) for chain in known.shown.values()] + [_time(ending.item) for ending in known.endings]
    return _document(dict(profile), known, max(times, default=0))


def rejoin(
    profile: Mapping[str, Json], earlier: Mapping[str, Json], messages: Collection[tuple[str, str]] | None = None
) -> dict[str, Json]:
    """The profile with what messages, by session and id, or any, had told in an `earlier` state of it: the way back
    from `without`. What a person wrote there is not taken.
    """
    document = dict(profile)
    known, before = _known(document), _known(earlier)
    newest = _number(document.get("profile_timestamp_ms"))
    chains = [*before.shown.values(), *(chain for ending in before.endings for chain in ending.hidden.values())]
    told = [(item, False) for chain in chains for item in chain] + [(ending.item, True) for ending in before.endings]
    for item, ended in sorted(told, key=lambda each: _time(each[0])):
        if _text(item, "topic") and _text(item, "message_id") and (messages is None or _source(item) in messages):
            newest = max(newest, _time(item))
            known.take(item, ended=ended)
    return _document(document, known, newest)


def _known(profile: Mapping[str, Json]) -> _Known:
    """What a document holds; items that a person wrote without a topic of their own stay apart."""
    shown: dict[str, list[Item]] = {}
    for number, item in enumerate(_items(profile, "explicit_info")):
        topic = _text(item, "topic") or _text(item, "description")
        shown[f"{topic}\0{number}" if not topic or topic in shown else topic] = _chain(item)
    endings: list[_Ending] = []
    for item in _items(profile, "ended_info"):
        ended, *chain = _chain(item)
        if not endings or _origin(endings[-1].item) != _origin(ended):
            endings.append(_Ending(ended))
        if chain:
            endings[-1].hidden[_text(chain[0], "topic")] = chain
    return _Known(shown=shown, endings=endings)


def _document(document: dict[str, Json], known: _Known, newest: int) -> dict[str, Json]:
    tops = [_linked(chain) for chain in known.shown.values()]
    if len(tops) > MOST_ITEMS:
        tops.sort(key=lambda item: (not _is_single(item), -_time(item), _text(item, "topic")))
        # What a person has one of outlives the things of which there are many; then the newer outlives the older.
        tops = tops[:MOST_ITEMS]
    tops.sort(key=lambda item: (_time(item), _text(item, "topic")))
    edited = document.get("edited")
    own = isinstance(edited, list) and "summary" in edited and "summary" in document
    written: dict[str, Json] = {
        **document,
        "summary": document["summary"] if own else _summary(tops),
        "explicit_info": cast(Json, tops),
        "implicit_traits": document.get("implicit_traits") or [],
        "profile_timestamp_ms": newest,
    }
    written.pop("ended_info", None)
    known.endings.sort(key=lambda ending: (-_time(ending.item), _text(ending.item, "topic")))
    if ended := [item for ending in known.endings[:MOST_ITEMS] for item in _ended(ending)]:
        written["ended_info"] = cast(Json, ended)
    return written


def _ended(ending: _Ending) -> list[Item]:
    """An ending as it is stored: once for each topic that it ended."""
    chains = [_linked(chain) for _, chain in sorted(ending.hidden.items())]
    return [{**ending.item, "supersedes": cast(Json, chain)} for chain in chains] or [ending.item]


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


def _source(item: Item) -> tuple[str, str]:
    return _text(item, "session_id"), _text(item, "message_id")


def _origin(item: Item) -> tuple[str, str, str, str]:
    return _text(item, "topic"), _text(item, "description"), *_source(item)


def _covers(ended: str, topic: str) -> bool:
    """Whether what is said of one topic holds for another: to have no dog any more is to have no dog called Rex."""
    return topic == ended or topic.startswith(f"{ended}:")


def _chain(item: Item) -> list[Item]:
    """An item and what it superseded, newest first, each as often as it was said and without the links."""
    found: list[Item] = []
    link: Json = item
    depth = 0
    while isinstance(link, dict) and depth <= DEEPEST + 1:
        own = {name: value for name, value in link.items() if name not in ("supersedes", "repeated")}
        found += [{**own, **again} for again in _items(link, "repeated")]
        found.append(own)
        link = link.get("supersedes")
        depth += 1
    return found


def _linked(chain: list[Item]) -> Item:
    """A chain as one item: each under what superseded it, and when one was only said again, the first that said it."""
    told: list[list[Item]] = []
    for item in chain:
        if told and _text(told[-1][-1], "description") == _text(item, "description"):
            told[-1].append(item)
        else:
            told.append([item])
    linked: Item = {}
    for *later, first in reversed(told[: DEEPEST + 1]):
        repeated = [{name: item.get(name) for name in _SAID} for item in later[:DEEPEST]]
        linked = {
            **first,
            **({"repeated": cast(Json, repeated)} if repeated else {}),
            **({"supersedes": cast(Json, linked)} if linked else {}),
        }
    return linked


def _ends(ending: Item, item: Item) -> bool:
    """Whether what ended is what is known: to have left Berlin does not end living in Oslo."""
    ended, held = _particulars(_text(ending, "description")), _particulars(_text(item, "description"))
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


def _items(profile: Mapping[str, Json], name: str) -> list[Item]:
    items = profile.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _text(item: Item, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _time(item: Item) -> int:
    return _number(item.get("timestamp_ms"))


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
