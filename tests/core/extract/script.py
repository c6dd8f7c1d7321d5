"""Conversations as they are written down for tests, and what the rules make of them, for people to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from cofio.extract.extractor import Call, Extraction, Message
from cofio.extract.profiles import merge_entries
from cofio.extract.rules import Rules
from cofio.values.records import Json

HERE = Path(__file__).parent
CONVERSATIONS = sorted((HERE / "conversations").glob("*.txt"))
GOLDENS = HERE / "goldens"

_LINE = re.compile(
    r'\[(?P<at>[\d: -]+)\] (?P<sender>[\w-]+)(?: "(?P<name>[^"]+)")?(?P<assistant> \(assistant\))?'
    r"(?: calls (?P<tool>\w+) (?P<arguments>.*)|(?P<answers> answers)?: ?(?P<text>.*))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A conversation, the zone it took place in, and what the memory had recalled for it."""

    zone: ZoneInfo
    recalled: frozenset[str]
    messages: tuple[Message, ...]


def read(path: Path) -> Script:
    """The conversation in a file: a line `[time] sender "name": text` for each message, which may go on below."""
    zone, recalled = ZoneInfo("UTC"), set[str]()
    turns: list[tuple[re.Match[str], list[str]]] = []
    for line in path.read_text().splitlines():
        if match := _LINE.fullmatch(line):
            turns.append((match, [match["text"] or ""]))
        elif turns:
            turns[-1][1].append(line)
        elif line.startswith("zone: "):
            zone = ZoneInfo(line.removeprefix("zone: "))
        elif line.startswith("recalled: "):
            recalled.add(line.removeprefix("recalled: "))
    return Script(zone=zone, recalled=frozenset(recalled), messages=tuple(_messages(turns, zone)))


def _messages(turns: list[tuple[re.Match[str], list[str]]], zone: ZoneInfo) -> Iterator[Message]:
    for number, (match, lines) in enumerate(turns, 1):
        role: Literal["user", "assistant", "tool"] = "user"
        if match["sender"] == "assistant" or match["assistant"]:
            role = "assistant"
        elif match["answers"]:
            role = "tool"
        tool = match["tool"]
        yield Message(
            id=f"m{number}",
            sender=match["sender"],
            name=match["name"],
            role=role,
            at=datetime.fromisoformat(match["at"]).replace(tzinfo=zone),
            text="\n".join(lines),
            calls=(Call(id=f"c{number}", name=tool, arguments=match["arguments"]),) if tool else (),
            answers=f"c{number - 1}" if match["answers"] else None,
        )


def golden(script: Script) -> str:
    """What the rules make of a conversation, stretch by stretch, and the profiles that are left at its end."""
    rules = Rules()
    cuts = rules.find_boundaries(script.messages, script.zone)
    lines: list[str] = []
    profiles: dict[str, dict[str, Json]] = {}
    for start, end in zip((0, *cuts), (*cuts, len(script.messages)), strict=True):
        found = rules.extract(script.messages[start:end], script.zone, script.recalled.__contains__)
        lines += [f"== messages {start + 1} to {end} ==", *_shown(found), ""]
        for sender, entries in found.profiles.items():
            profiles[sender] = merge_entries(profiles.get(sender), entries, session="s")
    for sender, profile in profiles.items():
        lines += [
            f"== profile of {sender} ==",
            f"summary: {profile['summary']}",
            *_items(profile),
            *_items(profile, "ended_info"),
            "",
        ]
    return "\n".join(lines)


def _shown(found: Extraction) -> Iterator[str]:
    if found.episode is None:
        yield "no episode"
    else:
        yield f"subject: {found.episode.subject}"
        yield f"summary: {found.episode.summary}"
        yield f"text: {found.episode.text}"
    yield "facts:"
    yield from (f"- {fact.text} [{fact.speaker}; {', '.join(fact.messages)}]" for fact in found.facts)
    yield "entries:"
    for sender, entries in found.profiles.items():
        for entry in entries:
            yield f"- {sender}: {entry.topic} ({entry.category}){' ENDED' if entry.ended else ''}: {entry.description}"
    for message, left in found.own_texts.items():
        yield f"heard of {message}: {left!r}"


def _items(profile: dict[str, Json], name: str = "explicit_info") -> Iterator[str]:
    items = profile.get(name, [])
    assert isinstance(items, list)
    for item in items:
        below: Json = item
        said: list[str] = []
        while isinstance(below, dict):
            said.append(f"{below['description']} ({below['message_id']}: {below['evidence']})")
            below = below.get("supersedes")
        assert isinstance(item, dict)
        ended = "ended " if name == "ended_info" else ""
        yield f"- {ended}{item['topic']}: " + "\n    superseded ".join(said)
