"""What a model would change in a person's profile, as entries; what the person did not say is left out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from ..extract.extractor import Entry, Message
from ..extract.rules.lines import cut
from ..values.records import Json
from .prompt_text import render_numbered
from .slugs import make_slug, make_topic

MOST = 40
LONGEST_DESCRIPTION, LONGEST_CATEGORY, LONGEST_EVIDENCE = 300, 60, 300
SINGLE = frozenset(["name", "home", "age", "birthday", "origin", "employer", "job", "relationship"])
"""Topics of which a person has one: there, something new takes the place of what was known."""

_MARKS = re.compile(r"[\W_]+")


def list_items(profile: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The things that a profile says."""
    items = profile.get("explicit_info")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def render_items(items: Sequence[Mapping[str, Json]]) -> str:
    """The items as the model sees them, each with its number."""
    return render_numbered(
        [f"{_get_text(item, 'category')}: {_get_text(item, 'description')}" for item in items], most=6_000
    )


def make_entries(
    operations: Sequence[Mapping[str, Any]], items: Sequence[Mapping[str, Json]], messages: Sequence[Message]
) -> tuple[Entry, ...]:
    """The operations as entries: those whose evidence stands in what the person said."""
    texts = [(_normalize(message.text), message) for message in messages]
    entries: dict[tuple[str, bool], Entry] = {}
    for each in operations:
        source = _find_source(each["evidence"], texts)
        if source is None:
            continue
        entry = _make_entry(each, items, source, {topic for topic, _ in entries})
        if entry is not None:
            entries[entry.topic, entry.ended] = entry
    return tuple(sorted(entries.values(), key=lambda entry: entry.at))[:MOST]


def _make_entry(
    each: Mapping[str, Any], items: Sequence[Mapping[str, Json]], source: Message, topics: set[str]
) -> Entry | None:
    item = items[each["item"] - 1] if each["item"] is not None and 1 <= each["item"] <= len(items) else None
    description = cut(" ".join(each["description"].split()), LONGEST_DESCRIPTION)
    if each["action"] != "add" and item is None:
        return None
    if each["action"] == "delete":
        assert item is not None
        description = _get_text(item, "description")  # so that it is this that ends
    if not description:
        return None
    if each["action"] == "add" or item is None:
        about = _make_new_topic(each["topic"], description, topics | {_get_topic(one) for one in items})
    else:
        about = _get_topic(item)
    category = " ".join(each["category"].split()) or (_get_text(item, "category") if item is not None else "")
    return Entry(
        topic=about,
        category=category[:LONGEST_CATEGORY].strip() or "Other",
        description=description,
        evidence=cut(" ".join(each["evidence"].split()), LONGEST_EVIDENCE),
        at=source.at,
        message=source.id,
        ended=each["action"] == "delete",
    )


def _make_new_topic(text: str, description: str, topics: set[str]) -> str:
    """A topic for something new: it does not take the place of another thing, unless there can be only one."""
    about = make_topic(text, description)
    if about not in topics or about in SINGLE:
        return about
    return f"{about.partition(':')[0]}:{make_slug(description, 60) or about.partition(':')[2]}"


def _find_source(evidence: str, texts: Sequence[tuple[str, Message]]) -> Message | None:
    """The message that holds these words, whatever stands between them."""
    words = _normalize(evidence)
    for text, message in texts:
        # A word or two is in everything: as evidence it must be all that was said, or long enough to tell something.
        if words and (words == text or (words in text and (len(words) >= 3 or not words.isascii()))):
            return message
    return None


def _normalize(text: str) -> str:
    return _MARKS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _get_topic(item: Mapping[str, Json]) -> str:
    return _get_text(item, "topic") or _get_text(item, "description")


def _get_text(item: Mapping[str, Json], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""
