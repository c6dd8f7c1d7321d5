"""Where each record stands in the vault: paths that nothing escapes from, and the way back from a path."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from unicodedata import normalize
from urllib.parse import quote, unquote

from ..conversations.projects import PREFIXES
from ..system.windows_names import is_device
from ..values.errors import Invalid
from ..values.records import Kind, Scope
from ..values.scopes import CONVERSATIONS

Parts: TypeAlias = tuple[str, ...]
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
class Location:
    """What a file of the vault is for."""

    home: Scope
    kind: Kind
    day: str = ""


class Folders(Protocol):
    """Which folder each app, project and owner has."""

    def find_folder(self, home: str) -> str | None:
        """The path of a folder; None when it has none yet."""

    def is_free(self, path: str) -> bool:
        """Whether no folder has this path, nor one that differs from it in capitals alone."""

    def register(self, home: str, path: str) -> None:
        """Keep the path of a folder, which it has from now on."""


class Layout:
    """Paths by owner, kind and day.

    Two names that differ in capitals alone are one folder on many systems, and a vault may be carried from one to
    another: the folder that came first keeps the plain name, and the other's is written with percent signs.
    """

    def __init__(self, *, folded: bool = False, folders: Folders | None = None) -> None:
        """`folded`: the file system takes A and a for the same, so capitals are written otherwise.

        Without `folders`, each has the folder that it would have if it were the first.
        """
        self._folded = folded
        self._folders = folders

    def find_folder(self, scope: Scope, *, register: bool = True) -> Parts:
        """The folder of an app, a project or an owner, which it has from now on if it is to `register`."""
        names = scope.names[1:5]
        if self._folders is None:
            return tuple(self._name_folder(depth, name) for depth, name in enumerate(names))
        registered = self._folders.find_folder("\0".join(names))
        if registered is not None:
            return tuple(registered.split("/"))
        path: Parts = ()
        for depth, name in enumerate(names):
            home = "\0".join(names[: depth + 1])
            registered = self._folders.find_folder(home)
            if registered is not None:
                path = tuple(registered.split("/"))
                continue
            path = (*path, self._name_folder(depth, name))
            if not self._folders.is_free(join_parts(path)):
                path = (*path[:-1], _make_distinct(path[-1]))
            if register:
                self._folders.register(home, join_parts(path))
        return path

    def register(self, path: Parts) -> None:
        """Take down the folders that lead to a file as they are called, if it is we who called them so."""
        names = _parse_names(path)
        if self._folders is None or names is None:
            return
        plain = [Layout()._name_folder(depth, name) for depth, name in enumerate(names)]
        # What Windows has reserved was not always written otherwise.
        if all(
            _escape_reserved(found) in (name, _make_distinct(name)) for found, name in zip(path, plain, strict=False)
        ):
            for depth in range(len(names)):
                self._folders.register("\0".join(names[: depth + 1]), join_parts(path[: depth + 1]))

    def _name_folder(self, depth: int, name: str) -> str:
        if depth < len(DEFAULTS):
            return self._name_default(name, DEFAULTS[depth])
        return TRACKS[name] if depth == len(DEFAULTS) else self._escape_name(name)

    def get_day_path(self, home: Scope, kind: Kind, key: str) -> Parts:
        """The file of a day's episodes, facts or cases."""
        folder, stem = DAILY[kind]
        return (*self.find_folder(home), folder, f"{stem}-{parse_day(key)}.md")

    def get_profile_path(self, home: Scope) -> Parts:
        """The file of a user's profile."""
        return (*self.find_folder(home), PROFILE)

    def get_skill_paths(self, home: Scope, titles: Mapping[str, str]) -> dict[str, Parts]:
        """The files of an agent's skills, given the name of each by key."""
        used: set[str] = set()
        found: dict[str, Parts] = {}
        for key in sorted(titles, key=make_sort_key):
            name = make_skill_name(titles[key])
            # Also twins in NFC and NFD are the same to some systems.
            if (folded := normalize("NFC", name).casefold()) in used:
                name = f"{name}-{hashlib.blake2b(key.encode(), digest_size=4).hexdigest()}"
            used.add(folded)
            found[key] = (*self.find_folder(home), "skills", f"skill_{name}", SKILL)
        return found

    def locate(self, path: Parts) -> Location | None:
        """What a file is for, by its path; None when it is none of ours."""
        located = parse_location(path)
        if located is None or self.find_folder(located.home, register=False) != path[:4]:
            return None  # written otherwise than we would
        return located

    def _name_default(self, name: str, default: str) -> str:
        if name == "default":
            return default
        return default.replace("_", "%5F") if name == default else self._escape_name(name)

    def _escape_name(self, name: str) -> str:
        """A name as a folder's: itself where that is safe everywhere; a percent sign is in no safe name."""
        if _SAFE.fullmatch(name) and not self._folded and len(name) <= LONGEST_NAME:
            return _escape_reserved(name)
        safe = quote(name, safe="@+")
        if safe.startswith("."):
            safe = "%2E" + safe[1:]
        if self._folded:
            safe = _escape_capitals(safe)
        return _escape_reserved(_shorten(safe, name))


def parse_location(path: Parts) -> Location | None:
    """What a file would be for by the names in its path, whether or not we would write them so; None for nothing."""
    names = _parse_names(path)
    if names is None:
        return None
    try:
        home = Scope(*CONVERSATIONS.names, *names)
    except Invalid:  # no text, or too long
        return None
    track, rest = names[2], [*path[4:]]
    if rest == [PROFILE] and track == "user":
        return Location(home=home, kind=Kind.PROFILE)
    if len(rest) == 3 and rest[0] == "skills" and rest[1].startswith("skill_") and rest[2] == SKILL:
        return Location(home=home, kind=Kind.SKILL) if track == "agent" else None
    named = _DAY.fullmatch(rest[1]) if len(rest) == 2 else None
    for kind, (folder, stem) in DAILY.items():
        if named and (rest[0], named[1]) == (folder, stem) and (kind is Kind.CASE) == (track == "agent"):
            return Location(home=home, kind=kind, day=named[2])
    return None


def _parse_names(path: Parts) -> tuple[str, str, str, str] | None:
    """The app, the project, the track and the owner that a file's path names; None when it names none."""
    if len(path) < 5:
        return None
    app, project, tracks, owner, *_ = path
    track = next((track for track, folder in TRACKS.items() if folder == tracks), None)
    if track is None:
        return None
    both = zip((app, project), DEFAULTS, strict=True)
    first, second = ("default" if name == default else unquote(name) for name, default in both)
    return first, second, track, unquote(owner)


def _escape_reserved(name: str) -> str:
    """A folder's name, or another where Windows takes it for a device, or leaves out the dot at its end."""
    if is_device(name):
        name = f"%{ord(name[0]):X}{name[1:]}"
    return f"{name[:-1]}%2E" if name.endswith(".") else name


def _escape_capitals(name: str) -> str:
    """A folder's name with its capitals written with percent signs."""
    return re.sub("%..|[A-Z]", lambda found: found[0] if found[0][0] == "%" else f"%{ord(found[0]):X}", name)


def _make_distinct(name: str) -> str:
    """A folder's name that no other is taken for where capitals do not count: its capitals, or its first letter when
    it has none, are written with percent signs.
    """
    safe = _escape_capitals(name)
    if safe == name:
        safe = re.sub("^((?:%..|[^a-z%])*)([a-z])", lambda found: f"{found[1]}%{ord(found[2]):X}", name)
    return _shorten(safe, name)


def _shorten(safe: str, name: str) -> str:
    """A folder's name, cut off where it is too long for one."""
    if len(safe) <= LONGEST_NAME:
        return safe
    # Not to be read back, and so a file in it is only written: no name that a door takes is this long.
    return f"{safe[: LONGEST_NAME - 20]}%{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def parse_day(key: str) -> str:
    """The day that a record's key names, as 2026-05-28."""
    found = _KEY.fullmatch(key)
    day = found[1] if found else "00000000"
    return f"{day[:4]}-{day[4:6]}-{day[6:]}"


def is_key(kind: Kind, key: str) -> bool:
    """Whether this can be the key of such a record."""
    return _KEY.fullmatch(key) is not None and key.startswith(f"{PREFIXES[kind]}_")


def make_sort_key(key: str) -> tuple[str, int, str]:
    """What the keys of a kind are sorted by: day and number, however many digits that has."""
    found = _KEY.fullmatch(key)
    return (found[1], int(found[2]), key) if found else ("", 0, key)


def make_skill_name(name: str) -> str:
    """A skill's name as part of a folder's: letters, digits and - . _ alone, never a dot in front, never empty."""
    safe = re.sub(r"[^\w\-.]", "", re.sub(r"\s+", "_", name.strip()))[:LONGEST_SKILL].strip(".")
    return safe or "unnamed"


def join_parts(path: Parts) -> str:
    """A path as the journal stores it and people read it."""
    return "/".join(path)
