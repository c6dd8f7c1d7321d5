"""Where each record stands in the vault: paths that nothing escapes from, and the way back from a path."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote, unquote

from ..errors import Invalid
from ..model import Kind, Scope
from ..sessions.places import PREFIXES, ROOT

Path: TypeAlias = tuple[str, ...]
"""The names that lead from the vault to a file."""

STATE = ".state"
TRACKS = {"user": "users", "agent": "agents"}
DAILY = {
    Kind.EPISODE: ("episodes", "episode"),
    Kind.FACT: (".atomic_facts", "atomic_fact"),
    Kind.CASE: (".cases", "agent_case"),
}
SHOWN = (*DAILY, Kind.PROFILE, Kind.SKILL)
PROFILE, SKILL = "user.md", "SKILL.md"
DEFAULTS = ("default_app", "default_project")
LONGEST_NAME = 200  # bytes of a folder's name; file systems take 255
LONGEST_SKILL = 50

_SAFE = re.compile(r"[a-zA-Z0-9_@+-][a-zA-Z0-9_.@+-]*")
_KEY = re.compile(r"[a-z]{2}_(\d{8})_(\d+)")
_DAY = re.compile(r"([a-z_]+)-(\d{4}-\d{2}-\d{2})\.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """What a file of the vault is for."""

    home: Scope
    kind: Kind
    day: str = ""


class Layout:
    """Paths by owner, kind and day."""

    def __init__(self, *, folded: bool = False) -> None:
        """`folded`: the file system takes A and a for the same, so capitals are written otherwise."""
        self._folded = folded

    def under(self, scope: Scope) -> Path:
        """The folder of an app, a project or an owner."""
        _, *names = scope.names
        places = [self._default(name, default) for name, default in zip(names, DEFAULTS, strict=False)]
        track = [TRACKS[name] for name in names[2:3]]
        return (*places, *track, *map(self._segment, names[3:4]))

    def daily(self, home: Scope, kind: Kind, key: str) -> Path:
        """The file of a day's episodes, facts or cases."""
        folder, stem = DAILY[kind]
        return (*self.under(home), folder, f"{stem}-{day_of(key)}.md")

    def profile(self, home: Scope) -> Path:
        """The file of a user's profile."""
        return (*self.under(home), PROFILE)

    def skills(self, home: Scope, named: Mapping[str, str]) -> dict[str, Path]:
        """The files of an agent's skills, given the name of each by key."""
        taken: set[str] = set()
        found: dict[str, Path] = {}
        for key in sorted(named, key=order):
            name = skill_name(named[key])
            if name.casefold() in taken:
                name = f"{name}-{hashlib.blake2b(key.encode(), digest_size=4).hexdigest()}"
            taken.add(name.casefold())
            found[key] = (*self.under(home), "skills", f"skill_{name}", SKILL)
        return found

    def located(self, path: Path) -> Located | None:
        """What a file is for, by its path; None when it is none of ours."""
        if len(path) < 5:
            return None
        app, project, tracks, owner, *rest = path
        track = next((track for track, folder in TRACKS.items() if folder == tracks), None)
        if track is None:
            return None
        both = zip((app, project), DEFAULTS, strict=True)
        places = ["default" if name == default else unquote(name) for name, default in both]
        try:
            home = Scope(ROOT, *places, track, unquote(owner))
        except Invalid:  # no text, or too long
            return None
        if self.under(home) != path[:4]:  # written otherwise than we would
            return None
        if rest == [PROFILE] and track == "user":
            return Located(home=home, kind=Kind.PROFILE)
        if len(rest) == 3 and rest[0] == "skills" and rest[1].startswith("skill_") and rest[2] == SKILL:
            return Located(home=home, kind=Kind.SKILL) if track == "agent" else None
        named = _DAY.fullmatch(rest[1]) if len(rest) == 2 else None
        for kind, (folder, stem) in DAILY.items():
            if named and (rest[0], named[1]) == (folder, stem) and (kind is Kind.CASE) == (track == "agent"):
                return Located(home=home, kind=kind, day=named[2])
        return None

    def _default(self, name: str, default: str) -> str:
        if name == "default":
            return default
        return default.replace("_", "%5F") if name == default else self._segment(name)

    def _segment(self, name: str) -> str:
        """A name as a folder's: itself where that is safe everywhere; a percent sign is in no safe name."""
        if _SAFE.fullmatch(name) and not self._folded and len(name) <= LONGEST_NAME:
            return name
        safe = quote(name, safe="@+")
        if safe.startswith("."):
            safe = "%2E" + safe[1:]
        if self._folded:
            safe = re.sub("%..|[A-Z]", lambda found: found[0] if found[0][0] == "%" else f"%{ord(found[0]):X}", safe)
        if len(safe) > LONGEST_NAME:
            # Not to be read back, and so a file in it is only written: no name that a door takes is this long.
            return f"{safe[: LONGEST_NAME - 20]}%{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"
        return safe


def day_of(key: str) -> str:
    """The day that a record's key names, as 2026-05-28."""
    found = _KEY.fullmatch(key)
    day = found[1] if found else "00000000"
    return f"{day[:4]}-{day[4:6]}-{day[6:]}"


def is_key(kind: Kind, key: str) -> bool:
    """Whether this can be the key of such a record."""
    return _KEY.fullmatch(key) is not None and key.startswith(f"{PREFIXES[kind]}_")


def order(key: str) -> tuple[str, int, str]:
    """What the keys of a kind are sorted by: day and number, however many digits that has."""
    found = _KEY.fullmatch(key)
    return (found[1], int(found[2]), key) if found else ("", 0, key)


def skill_name(name: str) -> str:
    """A skill's name as part of a folder's: letters, digits and - . _ alone, never a dot in front, never empty."""
    safe = re.sub(r"[^\w\-.]", "", re.sub(r"\s+", "_", name.strip()))[:LONGEST_SKILL].strip(".")
    return safe or "unnamed"


def written(path: Path) -> str:
    """A path as the state keeps it and people read it."""
    return "/".join(path)
