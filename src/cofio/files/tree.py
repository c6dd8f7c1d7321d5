"""The files of one owner: how they are read, and which changes make, edit, move and remove them.

A file is a record of kind `file` whose key is its canonical path; a directory is there as long as a file is under it.
What a change takes away is kept as a revision in the same transaction. Nothing here makes a change: the lists go to
`Engine.apply`, which makes all of one list or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, cast

from ..engine.engine import Engine
from ..secrets.policy import Door
from ..values.changes import Change, Delete, Edit, Put, Vacant
from ..values.errors import Invalid
from ..values.query import MAX_LIST, AllOf, Filter, Where
from ..values.records import MAX_TITLE, Draft, Heading, Kind, Record, Scope
from ..values.scopes import FILE_HISTORY, FILES
from .paths import ROOT, list_parents, make_exact_range, make_range_under

KEPT = 50  # revisions of each file
Cause: TypeAlias = Literal["edit", "delete"]


def home(owner: str = "default") -> Scope:
    """The scope of an owner's files; the owner is a user, a project or a quest."""
    return FILES / owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A text that a file once had: since when, until when, and what ended it."""

    id: str
    path: str
    version: int
    text: str
    since: datetime
    until: datetime
    cause: Cause


class Tree:
    """The files in a scope."""

    def __init__(self, engine: Engine, scope: Scope, *, source: str = "memory_tool") -> None:
        """`source` says by which door what is written came in."""
        if not isinstance(scope, Scope):
            raise Invalid("scope", f"expected a Scope, got {type(scope).__name__}")
        self.engine = engine
        self.scope = scope
        self.history = Scope(*FILE_HISTORY.names, *scope.names)
        self._source = source

    @property
    def door(self) -> Door:
        """By which door what is written comes in."""
        return "cli" if self._source == "cli" else "memory_tool"

    # Reading.

    def get_file(self, path: str) -> Record | None:
        """The file at a canonical path."""
        return self.engine.get(self.scope, path, kind=Kind.FILE)

    def list_files(self, path: str = ROOT) -> list[Record]:
        """The files under a directory, in the order of their paths."""
        first, past = make_range_under(path)
        wanted = AllOf(Where("key", ">=", first), Where("key", "<", past))
        return sorted(self.engine.each(self.scope, exact=True, kinds=(Kind.FILE,), filter=wanted), key=get_path)

    def is_directory(self, path: str) -> bool:
        """Whether something is under the path; the root is always there."""
        first, past = make_range_under(path)
        wanted = AllOf(Where("key", ">=", first), Where("key", "<", past))
        return path == ROOT or bool(
            self.engine.headings(self.scope, exact=True, kinds=(Kind.FILE,), filter=wanted, limit=1)
        )

    def find_file_above(self, path: str) -> str | None:
        """The file that stands where a directory of the path would have to be."""
        return next((each for each in list_parents(path) if self.get_file(each) is not None), None)

    def log(self, path: str) -> list[Revision]:
        """What the file at a path held before, the latest first, and what files that were deleted there held."""
        live = self.get_file(path)
        found = self._list_revisions(f"{live.id}/") if live is not None else []
        for deleted in self._list_revisions(_make_deleted_prefix(path)):
            found += [deleted, *self._list_revisions(f"{_parse_file_id(deleted.key)}/")]
        latest = sorted(found, key=lambda each: (each.created_at, each.position or 0), reverse=True)
        return [_decode_revision(each) for each in latest if isinstance(each.data, dict)]

    def _list_revisions(self, prefix: str) -> list[Record]:
        wanted = _match_prefix(prefix)
        return self.engine.list(self.history, exact=True, kinds=(Kind.REVISION,), filter=wanted, limit=MAX_LIST)

    def _list_revision_headings(self, prefix: str) -> list[Heading]:
        wanted = _match_prefix(prefix)
        return self.engine.headings(self.history, exact=True, kinds=(Kind.REVISION,), filter=wanted, limit=MAX_LIST)

    # Changes.

    def plan_creation(self, path: str, text: str) -> list[Change]:
        """Create a file at a path where there is no file or directory, and no file above it."""
        draft = Draft(
            scope=self.scope,
            kind=Kind.FILE,
            key=path,
            title=_make_title(path),
            text=text,
            position=0,
            source=self._source,
        )
        return [*self._require_free(path, itself=False), Put(draft=draft, how="key", if_version=0)]

    def plan_edit(self, file: Record, text: str) -> list[Change]:
        """Give a file another text, if it still is as it was read; nothing is to be done when it holds that already."""
        if text == file.text:
            return []
        fields: Mapping[str, object] = {"text": text, "position": _count_revisions(file) + 1, "source": self._source}
        return [Edit(id=file.id, fields=fields, if_version=file.version), *self._plan_revision(file, "edit")]

    def plan_removal(self, files: Sequence[Record]) -> list[Change]:
        """Remove files, if they still are as they were read."""
        changes: list[Change] = []
        for file in files:
            changes += [
                Delete(id=file.id, if_version=file.version),
                *self._plan_revision(file, "delete"),
                *self._plan_cleanup(file),
            ]
        return changes

    def plan_move(self, files: Sequence[Record], path: str, target: str) -> list[Change]:
        """Move what is at or under `path` to where there is nothing, if it still is as it was read."""
        changes = self._require_free(target, itself=True)
        for file in files:
            moved = target + get_path(file)[len(path) :]
            fields: Mapping[str, object] = {"key": moved, "title": _make_title(moved)}
            changes.append(Edit(id=file.id, fields=fields, if_version=file.version))
        return changes

    def _require_free(self, path: str, *, itself: bool) -> list[Change]:
        ranges = [
            make_range_under(path),
            *map(make_exact_range, list_parents(path)),
            *([make_exact_range(path)] if itself else []),
        ]
        return [Vacant(scope=self.scope, kind=Kind.FILE, first=first, past=past) for first, past in ranges]

    def _plan_revision(self, file: Record, cause: Cause) -> list[Change]:
        """Store what a file holds as a revision, and delete the oldest when there are too many.

        Those of a file that is there are found by its id, whatever it is called by then; the last one of a file that
        is deleted is found by the path that it had.
        """
        number, path = _count_revisions(file), get_path(file)
        draft = Draft(
            scope=self.history, kind=Kind.REVISION, title=_make_title(path), text=file.text, parent=file.id,
            key=f"{file.id}/{number}" if cause == "edit" else f"{_make_deleted_prefix(path)}{file.id}",
            position=number, source=self._source,
            data={"path": path, "version": file.version, "since": file.updated_at.isoformat(), "cause": cause},
        )  # fmt: skip
        changes: list[Change] = [Put(draft=draft, how="key")]
        if number >= KEPT:
            oldest = self.engine.get(self.history, f"{file.id}/{number - KEPT}", kind=Kind.REVISION)
            if oldest is not None:
                changes.append(Delete(id=oldest.id))
        return changes

    def _plan_cleanup(self, file: Record) -> list[Change]:
        """Delete surplus revisions of earlier files of the same path: one may be made and deleted again and again."""
        room = max(0, KEPT - 1 - _count_revisions(file))
        doomed: list[Heading] = []
        for deleted in self._list_revision_headings(_make_deleted_prefix(get_path(file))):
            left = [deleted, *self._list_revision_headings(f"{_parse_file_id(deleted.key)}/")]
            doomed += left[room:]
            room = max(0, room - len(left))
        return [Delete(id=each.id) for each in doomed]


def get_path(file: Record) -> str:
    """A file's path."""
    assert file.key is not None
    return file.key


def get_size(file: Record) -> int:
    """A file's size in bytes."""
    return len(file.text) if file.text.isascii() else len(file.text.encode())


def _make_title(path: str) -> str:
    return path[-MAX_TITLE:]  # a key may be a little longer than a title


def _make_deleted_prefix(path: str) -> str:
    """Return the prefix of the keys of the last revisions of files deleted at a path; the file's id follows."""
    return f"deleted:{hashlib.blake2b(path.encode(), digest_size=16).hexdigest()}/"


def _parse_file_id(key: str | None) -> str:
    """Return the id of the file that the key of a last revision names."""
    return (key or "").partition("/")[2]


def _match_prefix(prefix: str) -> Filter:
    """Return a filter for keys that begin with this, which ends in a slash."""
    return AllOf(Where("key", ">=", prefix), Where("key", "<", f"{prefix[:-1]}0"))  # "0" comes right after "/"


def _count_revisions(file: Record) -> int:
    """How many revisions of the file there have been."""
    return file.position or 0


def _decode_revision(record: Record) -> Revision:
    data = cast(Mapping[str, object], record.data)
    return Revision(
        id=record.id,
        path=str(data["path"]),
        version=cast(int, data["version"]),
        text=record.text,
        since=datetime.fromisoformat(str(data["since"])),
        until=record.created_at,
        cause=cast(Cause, data["cause"]),
    )
