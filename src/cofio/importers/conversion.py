"""How an entry of agent-memory-store becomes a draft: what it has no limit for is fitted to ours, and told."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from ..values.errors import Invalid
from ..values.records import (
    MAX_AUTHOR,
    MAX_ID,
    MAX_TAG,
    MAX_TAGS,
    MAX_TITLE,
    Draft,
    Importance,
    Json,
    Kind,
    check_time,
)
from ..values.scopes import MCP
from .agent_memory_files import Chunk, Raw, StateEntry

SOURCE = "agent-memory-store"
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FittedDraft:
    """The draft of an entry, and in sentences what had to be changed to make it one."""

    draft: Draft
    changes: tuple[str, ...]


def fit_chunk(chunk: Chunk) -> FittedDraft:
    """The note that a chunk becomes.

    Raises:
        Invalid: there is nothing in it, or more than a record can hold.
    """
    changes: list[str] = []
    topic, content = _to_text("topic", chunk.topic, changes), _to_text("content", chunk.content, changes)
    agent = _to_text("agent", chunk.agent, changes)
    data: Json = None
    if len(agent) > MAX_AUTHOR:
        changes.append(f"the agent is cut after {MAX_AUTHOR} characters, and stands whole in the data")
        data = {"agent": agent}
    title = topic
    if len(topic) > MAX_TITLE:
        changes.append("the topic is too long for a title, and stands whole on top of the text")
        title, content = topic[: MAX_TITLE - 1] + "…", f"{topic}\n\n{content}"
    created, updated = (
        _parse_time("created_at", chunk.created_at, changes),
        _parse_time("updated_at", chunk.updated_at, changes),
    )
    if not created and not updated:
        changes.append("it has no time, and gets that of its file")
    draft = Draft(
        scope=MCP,
        kind=Kind.NOTE,
        id=fit_id(chunk, changes),
        title=title,
        text=content,
        author=agent[:MAX_AUTHOR],
        data=data,
        tags=_parse_tags(chunk.tags, changes),
        importance=_parse_importance(chunk.importance, changes),
        source=SOURCE,
        created_at=created or updated or chunk.fallback_time,
        updated_at=updated or created or chunk.fallback_time,
        expires_at=_parse_time("expires_at", chunk.expires_at, changes),
        version=1,
    )
    return FittedDraft(draft, tuple(changes))


def fit_state(state: StateEntry) -> FittedDraft:
    """The state record that an entry of the state becomes.

    Raises:
        Invalid: its key or value is more than a record can hold.
    """
    changes: list[str] = []
    key = _to_text("key", state.key, changes)
    updated = _parse_time("updated_at", state.updated_at, changes) or state.fallback_time
    draft = Draft(
        scope=MCP,
        kind=Kind.STATE,
        key=key,
        id=f"{SOURCE}-state-{_hash(key)}",  # the same each time, so that twice is once
        data=_parse_value(state.value, changes),
        source=SOURCE,
        created_at=updated,
        updated_at=updated,
        version=1,
    )
    return FittedDraft(draft, tuple(changes))


def render_name(raw: Raw) -> str:
    """An id or a key as it can be shown."""
    return _to_text("name", raw, [])[:200]


def join_peer_text(chunk: Chunk) -> str:
    """The text that agent-memory-store makes a chunk's embedding of."""
    topic, content = _to_text("topic", chunk.topic, []), _to_text("content", chunk.content, [])
    return f"{topic} {' '.join(_parse_tags(chunk.tags, []))} {content[:800]}".strip()


def fit_id(chunk: Chunk, changes: list[str]) -> str:
    """The chunk's id, or one that is made of it where it cannot be a record's."""
    id_given = _to_text("id", chunk.id, changes)
    if 0 < len(id_given) <= MAX_ID:
        return id_given
    new_id = f"{SOURCE}-{_hash(id_given or join_peer_text(chunk))}"  # one without an id is known by what it says
    changes.append(f"its id is {'too long' if id_given else 'missing'}, and becomes {new_id}")
    return new_id


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _to_text(name: str, raw: Raw, changes: list[str]) -> str:
    """A value as text that can be stored."""
    if isinstance(raw, bytes):
        text = raw.decode("utf-8", "replace")
        if "\N{REPLACEMENT CHARACTER}" in text and text.encode() != raw:
            changes.append(f"the {name} is not UTF-8 everywhere; \N{REPLACEMENT CHARACTER} marks where")
    else:
        text = raw or ""
    return _make_storable(name, text, changes)


def _make_storable(name: str, text: str, changes: list[str]) -> str:
    if "\0" in text:
        changes.append(f"NUL characters are left out of the {name}")
        text = text.replace("\0", "")
    if not text.isascii() and _HALF.search(text):
        changes.append(f"the {name} holds half a surrogate pair; \N{REPLACEMENT CHARACTER} marks where")
        text = _HALF.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def _parse_tags(raw: Raw | list[object], changes: list[str]) -> tuple[str, ...]:
    """Tags from JSON, or from the list or the line of commas that YAML gave."""
    value: object = raw
    if isinstance(raw, bytes):
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            changes.append("its tags are no JSON, and left out")
            return ()
    if isinstance(value, str):
        value = [tag.strip() for tag in value.split(",")]
    if not isinstance(value, list):
        if value is not None:
            changes.append("its tags are no list, and left out")
        return ()
    texts = [_make_storable("tags", str(tag), changes) if isinstance(tag, str | int | float) else "" for tag in value]
    fit = list(dict.fromkeys(text for text in texts if 0 < len(text) <= MAX_TAG))
    left = [text for text in dict.fromkeys(texts) if not 0 < len(text) <= MAX_TAG] + fit[MAX_TAGS:]
    if left:
        named = ", ".join(repr(text[:40]) for text in left[:5])
        changes.append(f"{len(left):,} of its tags are left out: {named}{', …' if len(left) > 5 else ''}")
    return tuple(fit[:MAX_TAGS])


def _parse_importance(raw: Raw, changes: list[str]) -> Importance:
    text = _to_text("importance", raw, changes)
    try:
        return Importance(text.strip().lower())
    except ValueError:
        changes.append(f"its importance {text[:40]!r} is none of ours, and becomes medium")
        return Importance.MEDIUM


def _parse_time(name: str, raw: Raw, changes: list[str]) -> datetime | None:
    """A time in UTC; None for none, and for what is no time."""
    text = _to_text(name, raw, changes).strip()
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
        moment = read if read.tzinfo else read.replace(tzinfo=UTC)
        check_time(name, moment)
    except (ValueError, OverflowError, Invalid):
        changes.append(f"its {name} {text[:40]!r} is no time that can be kept, and left out")
        return None
    return moment


def _parse_value(raw: Raw, changes: list[str]) -> Json:
    """A state's value from its JSON; what is none is kept as the text that it is."""
    text = _to_text("value", raw, changes)

    def refuse(name: str) -> Json:
        raise ValueError(f"{name} is not JSON")

    try:
        value: Json = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        changes.append("its value is no JSON, and kept as text")
        return text
    return _clean(value, changes, 0)


def _clean(value: Json, changes: list[str], depth: int) -> Json:
    """JSON whose texts can all be stored."""
    if isinstance(value, str):
        return _make_storable("value", value, changes)
    if depth > 100:  # far deeper than a record takes, which the draft will say
        return value
    if isinstance(value, list):
        return [_clean(inner, changes, depth + 1) for inner in value]
    if isinstance(value, dict):
        return {
            _make_storable("value", name, changes): _clean(inner, changes, depth + 1) for name, inner in value.items()
        }
    return value
