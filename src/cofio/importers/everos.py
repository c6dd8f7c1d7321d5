"""Reading the memory of EverOS 1.0: a tree of Markdown files, which stays as it is.

Any tree may be given. Nothing is followed out of it, and what cannot be kept is refused by name and told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..system.folders import OpenFolder, walk
from ..values.errors import Invalid
from ..values.records import Kind, check_text
from . import markdown_entries

__all__ = ["Memory", "Tree", "has_memory"]

LARGEST = 67_108_864  # bytes of a file
DEFAULTS = {"default_app": "default", "default_project": "default"}
_NAME = re.compile(r"[a-zA-Z0-9_.@+-]{1,128}")
_DAILY = {
    ("users", "episodes"): ("episode", Kind.EPISODE),
    ("users", ".atomic_facts"): ("atomic_fact", Kind.FACT),
    ("agents", ".cases"): ("agent_case", Kind.CASE),
}
_PREFIXES = {Kind.EPISODE: "ep", Kind.FACT: "af", Kind.CASE: "ac"}
_DAY = re.compile(r"-\d{4}-\d{2}-\d{2}\.md")
_ENTRY = re.compile(r"([a-z]{2})_\d{8}_\d{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One thing that is remembered there: whose it is, its id within what that owner has, and what is said of it."""

    app: str
    project: str
    owner: str
    kind: Kind
    id: str
    path: str
    changed: datetime
    """When its file was last changed."""
    content: Mapping[str, Any]
    """The lines and sections of an entry, or the front matter of a file and its body as `content`."""


@dataclass(slots=True)
class Tree:
    """The files of a memory, and what was found wrong with them."""

    root: Path
    left_out: dict[str, int] = field(default_factory=dict)
    """How many there are of what has no place here."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """The files and entries that cannot be taken, and why."""

    def read_memories(self) -> Iterator[Memory]:
        """Everything that is remembered, owner by owner, each owner's episodes before the facts."""
        root = self.root.resolve()

        def unread(error: OSError) -> None:
            self.refused.append((_make_printable(str(error.filename)), error.strerror or "cannot be read"))

        for below, folders, names, opened in walk(root, unread):
            # Below the owners, a folder that begins with a dot holds memory; above them, none of ours.
            folders[:] = sorted(each for each in folders if len(below) == 4 or not each.startswith("."))
            folders.sort(key=lambda name: name.startswith("."))
            for name in names:
                if name.endswith(".md") and ".conflict-" not in name:
                    yield from self._read_file((*below, name), opened)

    def _read_file(self, path: tuple[str, ...], folder: OpenFolder) -> Iterator[Memory]:
        shown = _make_printable("/".join(path))
        what = _find_kind(path)
        if what is None:
            if len(path) > 2 and path[2] == "knowledge":
                self._leave_out("documents of the knowledge base")
            elif len(path) == 6 and path[4] == ".foresights":
                self._leave_out("days of foresights")
            return
        try:
            names = [_parse_name(part) for part in path[:4]]
            text, changed = _read_text(folder, path[-1])
            owned: dict[str, Any] = {
                "app": DEFAULTS.get(path[0], names[0]), "project": DEFAULTS.get(path[1], names[1]), "owner": names[3],
                "path": shown, "changed": changed,
            }  # fmt: skip
            if what in (Kind.PROFILE, Kind.SKILL):
                front, body = markdown_entries.split_front_matter(text)
                if not front:
                    raise Invalid("file", "has no front matter")
                id = "profile" if what is Kind.PROFILE else str(front.get("id") or "")  # noqa: A001
                content = markdown_entries.unescape_controls(body.strip("\n").rstrip())
                yield Memory(**owned, kind=what, id=id, content={**front, "content": content})
                return
            yield from self._read_entries(text, what, owned)
        except Invalid as error:
            self.refused.append((shown, error.problem))
        except OSError as error:
            self.refused.append((shown, error.strerror or "cannot be read"))

    def _read_entries(self, text: str, kind: Kind, owned: Mapping[str, Any]) -> Iterator[Memory]:
        seen: set[str] = set()
        for span in markdown_entries.find_spans(text):
            named = _ENTRY.fullmatch(span.id)
            if named is None or named[1] != _PREFIXES[kind]:
                self.refused.append((f"{owned['path']} {span.id}", "has no id of such an entry"))
            elif span.id in seen:
                self.refused.append((f"{owned['path']} {span.id}", "is there twice; the first was taken"))
            else:
                seen.add(span.id)
                fields = markdown_entries.parse_fields(text[span.start : span.end])
                yield Memory(**owned, kind=kind, id=span.id, content={**fields.lines, **fields.sections})

    def _leave_out(self, what: str) -> None:
        self.left_out[what] = self.left_out.get(what, 0) + 1


def has_memory(path: Path) -> bool:
    """Whether a folder holds such a memory."""
    return any(next(path.glob(f"*/*/{track}/*"), None) for track in ("users", "agents"))


def _find_kind(path: tuple[str, ...]) -> Kind | None:
    """The kind of memory that a file at this path holds."""
    if len(path) == 5 and path[2] == "users" and path[4] == "user.md":
        return Kind.PROFILE
    if len(path) == 7 and path[2] == "agents" and path[4] == "skills" and path[6] == "SKILL.md":
        return Kind.SKILL if path[5].startswith("skill_") else None
    stem, kind = _DAILY.get((path[2], path[4]), ("", None)) if len(path) == 6 else ("", None)
    return kind if kind and path[5].startswith(stem) and _DAY.fullmatch(path[5][len(stem) :]) else None


def _parse_name(written: str) -> str:
    """The name that a folder stands for."""
    name = unquote(written)
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise Invalid("name", f"the folder {_make_printable(written)!r} is not named for an app, a project or an owner")
    return name


def _read_text(folder: OpenFolder, name: str) -> tuple[str, datetime]:
    content, there = folder.read(name, LARGEST)
    if len(content) > LARGEST:
        raise Invalid("file", f"is longer than {LARGEST:,} bytes")
    try:
        text = markdown_entries.normalize_lines(content.decode())
    except UnicodeDecodeError:
        raise Invalid("file", "is no UTF-8 text") from None
    check_text("file", text, LARGEST)
    return text, datetime.fromtimestamp(int(there.st_mtime), UTC)


def _make_printable(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
