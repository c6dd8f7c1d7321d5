"""A person's profile as it is stored: taking in what was learned of them, and taking it back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from ..text.tokenizer import STOP_WORDS, split_words
from ..values.records import Json
from .extractor import Entry

Item: TypeAlias = dict[str, Json]
"""One thing that is known: its category, topic, description, evidence, time and origin, and what it superseded.

A document holds what is so in `explicit_info`, and in `ended_info` what has ended, with what it ended under it. What
the person wants of an assistant is in `instructions`, newest first: the words (`text`), what they are about (`topic`),
and when and where they were said; of each topic the latest counts, with what it superseded under it.
"""
ANY_TOPIC: Final = "any:"
"""How the topic of an ending begins that ends any entry of its category with which it shares a telling word."""
INSTRUCTIONS: Final = "instructions"
INSTRUCTION_CATEGORY: Final = "Instructions"
"""The category of entries that go to the list of instructions; their topics begin with `instruction:` until then."""

MOST_ITEMS = 100
DEEPEST = 5
LONGEST_SUMMARY = 300

_SOURCE_FIELDS = ("evidence", "timestamp_ms", "message_id", "session_id")

_INSTRUCTION_TOPIC = "instruction:"
_TELLING = ("name", "job", "employer", "home", "relationship", "family", "origin", "diet", "allergy", "pet", "favorite")
_GENERAL = STOP_WORDS | frozenset(
    split_words(
        "no longer not live work own like eat job home have has anymore married drive called last new old night week "
        "month year day time today"
    )
)


@dataclass(slots=True)
class _EndedTopic:
    """That something no longer holds, and what it ended, by topic, newest first."""

    item: Item
    chains: dict[str, list[Item]] = field(default_factory=dict)


@dataclass(slots=True)
class _ProfileState:
    """What is known, by topic, newest first, and what has ended, newest first."""

    current: dict[str, list[Item]]
    endings: list[_EndedTopic]

    def add(self, item: Item, *, ended: bool) -> None:
        """Take in one more item, unless it is there already."""
        topic = _get_text(item, "topic")
        if ended:
            if not any(_get_origin(one.item) == _get_origin(item) for one in self.endings):
                self.endings.insert(0, _EndedTopic(item))
                for other in [one for one in self.topics() if _covers(topic, one)]:
                    self.settle(other)
            return
        present = [*self.current.get(topic, ()), *(one for end in self.endings for one in end.chains.get(topic, ()))]
        if not any(_get_origin(one) == _get_origin(item) for one in present):
            self.current[topic] = [item, *self.current.get(topic, ())]
            self.settle(topic)

    def topics(self) -> list[str]:
        """All that something is or was known of."""
        return list(dict.fromkeys([*self.current, *(topic for ending in self.endings for topic in ending.chains)]))

    def settle(self, topic: str) -> None:
        """Hide what an ending that was said after it ends; the time at which something was said decides."""
        statements: list[tuple[Item, _EndedTopic | None]] = [(item, None) for item in self.current.pop(topic, ())]
        for ending in self.endings:
            if _covers(_get_text(ending.item, "topic"), topic):
                statements.append((ending.item, ending))
                statements += [(item, None) for item in ending.chains.pop(topic, ())]
        statements.sort(key=lambda pair: -_get_time(pair[0]))  # of what was said at the same time, the order stays
        chain: list[Item] = []
        for item, end in reversed(statements):
            if end is None:
                chain.insert(0, item)
            elif chain and _ends(item, chain[0]):
                end.chains[topic] = chain
                chain = []
        if chain:
            self.current[topic] = chain


def merge_entries(profile: Mapping[str, Json] | None, entries: Iterable[Entry], *, session: str) -> dict[str, Json]:
    """The profile with the entries taken in: of each topic the latest counts, and keeps what it superseded under it.

    Taking in the same entries again changes nothing. An entry that comes late is put under what was said after it, or
    under what ended it since. What a person has set (`edited`) is left as it is.
    """
    document = dict(profile or {})
    known = _parse_profile(document)
    newest = _to_int(document.get("profile_timestamp_ms"))
    for entry in sorted(entries, key=lambda entry: entry.at):
        at = round(entry.at.timestamp() * 1000)
        newest = max(newest, at)
        known.add(_build_item(entry, at, session), ended=entry.ended)
    return _render_profile(document, known, newest)


def remove_messages(profile: Mapping[str, Json], messages: Collection[tuple[str, str]]) -> dict[str, Json] | None:
    """The profile less what those messages, by session and id, said; what that had superseded or ended comes back.

    None when nothing is left.
    """
    gone = frozenset(messages)
    known = _parse_profile(profile)
    for ending in known.endings:
        if _get_source(ending.item) in gone:
            for topic, chain in ending.chains.items():
                known.current.setdefault(topic, []).extend(chain)
    known.endings = [ending for ending in known.endings if _get_source(ending.item) not in gone]
    for chains in (known.current, *(ending.chains for ending in known.endings)):
        for topic, chain in chains.items():
            chains[topic] = [item for item in chain if _get_source(item) not in gone]
    for topic in known.topics():
        known.settle(topic)
    if not known.current and not known.endings and not profile.get("implicit_traits") and not profile.get("edited"):
        return None
    times = [_get_time(chain[0]) for chain in known.current.values()] + [
        _get_time(ending.item) for ending in known.endings
    ]
    return _render_profile(dict(profile), known, max(times, default=0))


def restore_messages(
    profile: Mapping[str, Json], earlier: Mapping[str, Json], messages: Collection[tuple[str, str]] | None = None
) -> dict[str, Json]:
    """The profile with what messages, by session and id, or any, had told in an `earlier` state of it: the way back
    from `remove_messages`. What a person wrote there is not taken.
    """
    document = dict(profile)
    known, before = _parse_profile(document), _parse_profile(earlier)
    newest = _to_int(document.get("profile_timestamp_ms"))
    chains = [*before.current.values(), *(chain for ending in before.endings for chain in ending.chains.values())]
    items = [(item, False) for chain in chains for item in chain] + [(ending.item, True) for ending in before.endings]
    for item, ended in sorted(items, key=lambda each: _get_time(each[0])):
        if (
            _get_text(item, "topic")
            and _get_text(item, "message_id")
            and (messages is None or _get_source(item) in messages)
        ):
            newest = max(newest, _get_time(item))
            known.add(item, ended=ended)
    return _render_profile(document, known, newest)


def _parse_profile(profile: Mapping[str, Json]) -> _ProfileState:
    """What a document holds; items that a person wrote without a topic of their own stay apart."""
    shown: dict[str, list[Item]] = {}
    for number, item in enumerate(_get_items(profile, "explicit_info")):
        topic = _get_text(item, "topic") or _get_text(item, "description")
        shown[f"{topic}\0{number}" if not topic or topic in shown else topic] = _unlink_chain(item)
    for item in _get_items(profile, INSTRUCTIONS):
        chain = [_parse_instruction(each) for each in _unlink_chain(item)]
        shown.setdefault(_get_text(chain[0], "topic"), []).extend(chain)
    endings: list[_EndedTopic] = []
    for item in _get_items(profile, "ended_info"):
        ended, *chain = _unlink_chain(item)
        if not endings or _get_origin(endings[-1].item) != _get_origin(ended):
            endings.append(_EndedTopic(ended))
        if chain:
            endings[-1].chains[_get_text(chain[0], "topic")] = chain
    return _ProfileState(current=shown, endings=endings)


def _render_profile(document: dict[str, Json], known: _ProfileState, newest: int) -> dict[str, Json]:
    every = [_link_chain(chain) for chain in known.current.values()]
    tops = [item for item in every if item.get("category") != INSTRUCTION_CATEGORY]
    if len(tops) > MOST_ITEMS:
        tops.sort(key=lambda item: (not _is_single(item), -_get_time(item), _get_text(item, "topic")))
        # What a person has one of outlives the things of which there are many; then the newer outlives the older.
        tops = tops[:MOST_ITEMS]
    tops.sort(key=lambda item: (_get_time(item), _get_text(item, "topic")))
    edited = document.get("edited")
    own = isinstance(edited, list) and "summary" in edited and "summary" in document
    written: dict[str, Json] = {
        **document,
        "summary": document["summary"] if own else _summarize(tops),
        "explicit_info": cast(Json, tops),
        "implicit_traits": document.get("implicit_traits") or [],
        "profile_timestamp_ms": newest,
    }
    written.pop("ended_info", None)
    written.pop(INSTRUCTIONS, None)
    instructions = [_render_instruction(item) for item in every if item.get("category") == INSTRUCTION_CATEGORY]
    if instructions:
        instructions.sort(key=lambda item: (-_get_time(item), _get_text(item, "topic")))
        written[INSTRUCTIONS] = cast(Json, instructions[:MOST_ITEMS])
    known.endings.sort(key=lambda ending: (-_get_time(ending.item), _get_text(ending.item, "topic")))
    if ended := [item for ending in known.endings[:MOST_ITEMS] for item in _render_ending(ending)]:
        written["ended_info"] = cast(Json, ended)
    return written


def _render_ending(ending: _EndedTopic) -> list[Item]:
    """An ending as it is stored: once for each topic that it ended."""
    chains = [_link_chain(chain) for _, chain in sorted(ending.chains.items())]
    return [{**ending.item, "supersedes": cast(Json, chain)} for chain in chains] or [ending.item]


def _render_instruction(item: Item) -> Item:
    """An instruction as it is stored, with those that it superseded."""
    rendered: Item = {
        "text": item.get("description"),
        "topic": _get_text(item, "topic").removeprefix(_INSTRUCTION_TOPIC),
        **{name: item.get(name) for name in _SOURCE_FIELDS if name != "evidence"},
    }
    if "repeated" in item:
        rendered["repeated"] = item["repeated"]
    older = item.get("supersedes")
    return {**rendered, "supersedes": _render_instruction(older)} if isinstance(older, dict) else rendered


def _parse_instruction(item: Item) -> Item:
    """A stored instruction as any other item; one that a person wrote is about its own words."""
    text = _get_text(item, "text")
    return {
        "category": INSTRUCTION_CATEGORY,
        "topic": _INSTRUCTION_TOPIC + (_get_text(item, "topic") or text),
        "description": text,
        **{name: item.get(name) for name in _SOURCE_FIELDS if name != "evidence"},
    }


def _build_item(entry: Entry, at: int, session: str) -> Item:
    return {
        "category": entry.category,
        "topic": entry.topic,
        "description": entry.description,
        "evidence": entry.evidence,
        "timestamp_ms": at,
        "message_id": entry.message,
        "session_id": session,
    }


def _get_source(item: Item) -> tuple[str, str]:
    return _get_text(item, "session_id"), _get_text(item, "message_id")


def _get_origin(item: Item) -> tuple[str, str, str, str]:
    return _get_text(item, "topic"), _get_text(item, "description"), *_get_source(item)


def _covers(ended: str, topic: str) -> bool:
    """Whether what is said of one topic holds for another: to have no dog any more is to have no dog called Rex."""
    return topic == ended or topic.startswith(f"{ended}:") or ended.startswith(ANY_TOPIC)


def _unlink_chain(item: Item) -> list[Item]:
    """An item and what it superseded, newest first, each as often as it was said and without the links."""
    found: list[Item] = []
    link: Json = item
    depth = 0
    while isinstance(link, dict) and depth <= DEEPEST + 1:
        own = {name: value for name, value in link.items() if name not in ("supersedes", "repeated")}
        found += [{**own, **again} for again in _get_items(link, "repeated")]
        found.append(own)
        link = link.get("supersedes")
        depth += 1
    return found


def _link_chain(chain: list[Item]) -> Item:
    """A chain as one item: each under what superseded it, and when one was only said again, the first that said it."""
    groups: list[list[Item]] = []
    for item in chain:
        if groups and _get_text(groups[-1][-1], "description") == _get_text(item, "description"):
            groups[-1].append(item)
        else:
            groups.append([item])
    linked: Item = {}
    for *later, first in reversed(groups[: DEEPEST + 1]):
        repeated = [{name: item.get(name) for name in _SOURCE_FIELDS} for item in later[:DEEPEST]]
        linked = {
            **first,
            **({"repeated": cast(Json, repeated)} if repeated else {}),
            **({"supersedes": cast(Json, linked)} if linked else {}),
        }
    return linked


def _ends(ending: Item, item: Item) -> bool:
    """Whether what ended is what is known: to have left Berlin does not end living in Oslo."""
    ended, current = (
        _find_particulars(_get_text(ending, "description")),
        _find_particulars(_get_text(item, "description")),
    )
    if _get_text(ending, "topic").startswith(ANY_TOPIC):
        return ending.get("category") == item.get("category") and not ended.isdisjoint(current)
    return not ended or not current or not ended.isdisjoint(current)


def _find_particulars(description: str) -> set[str]:
    return set(split_words(description)) - _GENERAL


def _is_single(item: Item) -> bool:
    topic = _get_text(item, "topic")
    return ":" not in topic or topic.startswith("favorite:")


def _summarize(tops: list[Item]) -> str:
    """The most telling descriptions, as many as there is room for."""

    def rank(item: Item) -> tuple[bool, int, int]:
        head, _, rest = _get_text(item, "topic").partition(":")
        own_words = rest.startswith("said ")  # what was turned into a sentence reads better
        return (own_words, _TELLING.index(head) if head in _TELLING else len(_TELLING), -_get_time(item))

    summary = ""
    for item in sorted(tops, key=rank):
        longer = f"{summary} {_get_text(item, 'description')}".strip()
        if len(longer) <= LONGEST_SUMMARY:
            summary = longer
    return summary


def _get_items(profile: Mapping[str, Json], name: str) -> list[Item]:
    items = profile.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _get_text(item: Item, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _get_time(item: Item) -> int:
    return _to_int(item.get("timestamp_ms"))


def _to_int(value: Json) -> int:
    return value if isinstance(value, int) else 0
