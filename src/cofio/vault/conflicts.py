"""What people wrote that could not be taken in: kept beside its file until somebody has settled it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import tzinfo
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..engine.engine import Engine
from ..secrets.policy import admit
from ..values.changes import Change
from ..values.errors import Invalid, NotFound, Unavailable
from ..values.records import Record, Scope
from .layout import Location, Parts, join_parts, parse_location
from .lifecycle import check_links, find_detachment
from .renderer import Renderer, find_changes, split_entries
from .sync import make_change
from .vault import FOLDER
from .writer import Stamp, Tree

MARK = ".conflict-"
LARGEST = 1_000_000  # bytes of a version that is read


class ConflictFile(NamedTuple):
    """A person's version of one or more entries, and what the memory says in their place."""

    path: str
    """Below the vault's folder."""
    beside: str
    """The file that it was put beside."""
    home: Scope
    """Whose entries they are; the empty scope when that cannot be told."""
    theirs: str = ""
    ours: str = ""
    """How the same entries read now; empty when there are none."""
    obstacle: str = ""
    """Why the memory cannot take the person's version; empty when it can."""


class ConflictFiles:
    """The versions of people that are kept beside the files of a store's vault."""

    def __init__(self, engine: Engine, store: Path, zone: tzinfo) -> None:
        """`zone` is the one that the files tell times in."""
        self._engine = engine
        self._store = store
        self._tree = Tree(store / FOLDER)
        self._renderer = Renderer(zone)

    def list_all(self, limit: int) -> list[ConflictFile]:
        """Every version that is kept, up to a number of them.

        Raises:
            Unavailable: the vault is a link that the user has not vouched for.
        """
        check_links(self._store, self._tree.folder)
        return [self._read(path, stamp) for path, stamp in islice(self._walk(), limit)]

    def get(self, path: str) -> ConflictFile:
        """The version that is kept at a path.

        Raises:
            NotFound: there is none.
            Unavailable: the vault is a link that the user has not vouched for.
        """
        return self._read(*self._find(path))

    def remove(self, path: str) -> None:
        """Remove a version: the memory stays as it is.

        Raises:
            NotFound: there is none at this path.
            Unavailable: the vault is a link that the user has not vouched for.
        """
        self._tree.remove(self._find(path)[0])

    def plan_changes(self, found: ConflictFile, text: str) -> list[Change]:
        """The changes that make the memory say what a text says, which is a version as it was kept, or edited.

        Raises:
            Invalid: the text cannot be read, is of other entries, or holds what looks like a secret; or the memory
                has no record of an entry.
            Unavailable: the files are not this memory's, or seem not to be.
        """
        if found.obstacle:
            raise Invalid("file", found.obstacle)
        if reason := find_detachment(self._engine, self._store):
            raise Unavailable(reason)
        located = parse_location(tuple(found.beside.split("/")))
        assert located is not None  # else there would be an obstacle
        entries = _split(located, text.encode())
        if entries.keys() != _split(located, found.theirs.encode()).keys():
            raise Invalid("text", "is not of the same entries: leave their markers and ids as they are")
        changes: list[Change] = []
        for record in self._find_records(located, entries):
            edits = find_changes(record, self._renderer.render(record), entries[str(record.key)])
            if edits:
                allow = self._engine.settings.allow_secrets
                changes.append(make_change(record, admit("page", edits, allow=allow)))
        return changes

    def _find(self, path: str) -> tuple[Parts, Stamp]:
        check_links(self._store, self._tree.folder)
        for parts, stamp in self._walk():
            if join_parts(parts) == path:
                return parts, stamp
        raise NotFound(path)

    def _walk(self) -> Iterator[tuple[Parts, Stamp]]:
        for path, stamp in self._tree.walk():
            name = join_parts(path)
            if MARK in path[-1] and name.encode(errors="replace").decode() == name:  # else it cannot be asked for
                yield path, stamp

    def _read(self, path: Parts, stamp: Stamp) -> ConflictFile:
        beside = _find_beside(path)
        located = parse_location(beside)
        home = Scope() if located is None else located.home
        found = ConflictFile(join_parts(path), join_parts(beside), home)
        if located is None:
            found = found._replace(obstacle="it is beside none of the vault's own files")
        if stamp.size > LARGEST:
            return found._replace(obstacle=f"it is longer than {LARGEST:,} bytes")
        try:
            current = self._tree.read(path)
        except Invalid as error:  # no plain file any more
            return found._replace(obstacle=_describe(error))
        content = b"" if current is None else current.content
        found = found._replace(theirs=content.decode(errors="replace"))
        try:
            records = [] if located is None else self._find_records(located, _split(located, content))
        except Invalid as error:
            return found._replace(obstacle=_describe(error))
        return found._replace(ours="\n".join(map(self._renderer.render, records)))

    def _find_records(self, located: Location, keys: Collection[str]) -> list[Record]:
        """The records of some entries.

        Raises:
            Invalid: there is none of one of them.
        """
        records = self._engine.get_many([(located.home, key) for key in keys], kind=located.kind)
        for key, record in zip(keys, records, strict=True):
            if record is None:
                raise Invalid("file", f"has {key}, of which the memory has no record")
        return [record for record in records if record is not None]


def _describe(error: Invalid) -> str:
    return f"it {error.problem}" if error.field == "file" else str(error)


def _find_beside(path: Parts) -> Parts:
    return (*path[:-1], f"{path[-1].partition(MARK)[0]}.md")


def _split(located: Location, content: bytes) -> dict[str, str]:
    """The entries that a version is of, by their keys."""
    entries = split_entries(located, content)
    if not entries:
        raise Invalid("file", "has no entry")
    return dict(entries)
