"""A record as the lists of the page show it: who wrote what, when and through which door, and how its text begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...values.errors import Invalid
from ...values.query import AllOf, Filter, Where
from ...values.records import NOT_SEARCHABLE, Kind, Record, Scope
from ...values.scopes import INTERNAL
from .view_types import Parameter, make_link

VISIBLE: Final = tuple(kind for kind in Kind if kind not in NOT_SEARCHABLE)
"""The kinds that people are shown: what cofio keeps for its own use is none of them."""
EXCERPT = 280  # characters of a text that a list shows
LONG_EXCERPT = 1_200  # the same where texts are read, and not only looked through
NAME = 80  # characters of a title that is taken from the text
DOORS: Final = {
    "mcp": "MCP", "rest": "REST", "cli": "command line", "python": "Python", "memory_tool": "memory tool",
    "page": "this page", "animus": "Animus", "openai-agents": "Agents SDK", "llama-index": "LlamaIndex",
    "store": "item store", "demo": "demo", "knowledge": "knowledge base", "everos": "import from EverOS",
    "agent-memory-store": "import from agent-memory-store", "example": "the example",
}  # fmt: skip
"""What the sources of records are called."""
KIND: Final = Parameter(
    name="kind", description="Only records of this kind.", schema={"enum": [str(each) for each in VISIBLE]}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a list shows of a record."""

    id: str
    link: str
    scope: Scope
    kind: Kind
    title: str
    text: str
    """The beginning of its text, or of what comes after the part that is its title."""
    is_cut: bool
    """Whether the text goes on."""
    author: str
    source: str
    door: str
    """What its source is called."""
    tags: tuple[str, ...]
    importance: str
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None


def make_entry(record: Record, *, length: int = EXCERPT) -> Entry:
    """What a list shows of a record, with at most this many characters of its text."""
    title, rest = split_name(record)
    text = rest[:length]
    return Entry(
        id=record.id, link=make_link("record", id=record.id), scope=record.scope, kind=record.kind,
        title=title, text=text, is_cut=len(rest) > length, author=record.author,
        source=record.source, door=name_door(record.source), tags=record.tags, importance=str(record.importance),
        version=record.version, created_at=record.created_at, updated_at=record.updated_at,
        expires_at=record.expires_at,
    )  # fmt: skip


def split_name(record: Record) -> tuple[str, str]:
    """What a record is called, and the text that is left: of one without a title, it is called by how it begins."""
    if record.title.strip():
        return record.title, record.text
    if record.kind is Kind.PROFILE and record.scope.names:
        return f"Profile of {record.scope.names[-1]}", record.text
    if record.key and record.kind in (Kind.FILE, Kind.STATE, Kind.ITEM):
        return record.key, record.text
    text = record.text.lstrip()
    line = text[: 2 * NAME].partition("\n")[0]
    if not line:
        return record.key or record.id, ""
    if len(line) <= NAME:
        return line.rstrip(), text[len(line) :].lstrip("\n")
    name = line[: NAME + 1].rpartition(" ")[0] or line[:NAME]
    return f"{name} …", f"… {text[len(name) :].lstrip()}"


def find_name(record: Record) -> str:
    """What a record is called: its title, else its key, else how its text begins."""
    return split_name(record)[0]


def name_door(source: str) -> str:
    """What the source of a record is called."""
    return DOORS.get(source, source)


def choose_kinds(name: str) -> tuple[Kind, ...]:
    """The kinds that are shown: the one of this name, or all that people are shown.

    Raises:
        Invalid: there is no such kind to be shown.
    """
    if not name:
        return VISIBLE
    kind = next((each for each in VISIBLE if each == name), None)
    if kind is None:
        raise Invalid("kind", f"{name!r} is not one of {', '.join(VISIBLE)}")
    return (kind,)


def hide_internal(scope: Scope, *filters: Filter) -> Filter | None:
    """The filter that leaves out what cofio keeps for its own use within a scope, and what else is asked for."""
    own = [Where("scope", "!=", each) for each in INTERNAL if each in scope]
    return AllOf(*own, *filters) if own or filters else None
