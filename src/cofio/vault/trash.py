"""The vault's trash: what was forgotten because it vanished from the files, until it returns or some days are over.

Of an entry that vanished because its record did, without a call that is known to have deleted it, the text is kept.

An item is a file of lines: what the entry was and how it read, then each record as it was before it went or was
changed. What is deleted in any other way than by its absence never comes here, and takes along what of it is here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from ..conversations.deletion import KINDS
from ..conversations.message_records import fields
from ..conversations.mirror import VisibleRecord
from ..conversations.stretches import make_profile_put
from ..engine.engine import Engine
from ..extract.profiles import restore_messages
from ..importers import markdown_entries
from ..system.disk import leads_elsewhere
from ..text.jsonl import read_line, write_line
from ..values.changes import Change, Edit, Put
from ..values.errors import Invalid, NotFound
from ..values.records import Draft, Json, Kind, Record, Scope
from .layout import STATE, Parts
from .writer import Tree

FOLDER = "trash"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashItem:
    """An entry that vanished: how it read, and the records that were forgotten or changed with it.

    They are None where it was the record that was gone first: then nothing is known of it but how it read.
    """

    visible: VisibleRecord
    text: str
    records: tuple[Draft, ...] | None


class Trash:
    """The items under `.state/trash`, which only the owner may read."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def put(self, visible: VisibleRecord, text: str, records: Sequence[Record] | None) -> None:
        """Keep what is about to be forgotten; it is on the disk when this returns.

        The records are None if there are none any more.

        Raises:
            OSError: it cannot be kept.
        """
        head = {"scope": visible.scope.names, "kind": visible.kind, "key": visible.key, "text": text}
        first = json.dumps(head if records is not None else {**head, "lost": True})
        lines = [first, *map(write_line, records or ())]
        path = _make_path(visible)
        self._tree.write(path, ["".join(f"{line}\n" for line in lines).encode()], self._tree.read_stamp(path))
        self._tree.force(path)

    def find(self, visible: VisibleRecord) -> TrashItem | None:
        """What is kept of an entry; None when there is nothing, or nothing that can be read."""
        path = _make_path(visible)
        with suppress(Invalid, ValueError, KeyError, TypeError, AttributeError):
            found = self._read(path)
            return found if found is not None and found.records is not None else None
        return None

    def remove(self, visible: VisibleRecord) -> None:
        """Keep an entry no longer."""
        self._tree.remove(_make_path(visible))

    def discard(self, is_meant: Callable[[Draft], bool]) -> None:
        """Remove every item that holds such a record, or that cannot be read."""
        for path, _ in self._list_items():
            try:
                found = self._read(path)
                is_doomed = found is None or any(
                    map(is_meant, [_infer(found)] if found.records is None else found.records)
                )
            except (Invalid, ValueError, KeyError, TypeError, AttributeError):
                is_doomed = True
            if is_doomed:
                self._tree.remove(path)

    def purge(self, before: datetime) -> None:
        """Remove what was put here before then."""
        for path, changed in self._list_items():
            if changed < before.timestamp():
                self._tree.remove(path)

    def clear(self) -> None:
        """Remove everything."""
        for path, _ in self._list_items():
            self._tree.remove(path)

    def _list_items(self) -> Iterator[tuple[Parts, float]]:
        folder = self._tree.folder / STATE / FOLDER
        if folder.is_dir() and not leads_elsewhere(folder):
            with os.scandir(folder) as found:
                items = [((STATE, FOLDER, each.name), each.stat(follow_symlinks=False).st_mtime) for each in found]
            yield from items

    def _read(self, path: Parts) -> TrashItem | None:
        stored = self._tree.read(path)
        if stored is None:
            return None
        first, *lines = stored.content.decode().removesuffix("\n").split("\n")
        head, records = json.loads(first), tuple(map(read_line, lines))
        if any(each.kind not in KINDS or [*each.scope.names[:3]] != head["scope"][:3] for each in records):
            raise Invalid("trash", "holds what is not of the same project")
        visible = VisibleRecord(Scope(*head["scope"]), Kind(head["kind"]), str(head["key"]))
        return TrashItem(visible=visible, text=str(head["text"]), records=None if head.get("lost") else records)


def plan_restoration(engine: Engine, records: Sequence[Draft]) -> list[Change]:
    """What brings forgotten records back: all that are not there, and in those that are, what was taken out of them."""
    changes: list[Change] = []
    for record in records:
        stored = _find_stored(engine, record)
        if record.kind is Kind.PROFILE and isinstance(record.data, dict) and stored is not None:
            changes.append(
                make_profile_put(record.scope, restore_messages(fields(stored), record.data), stored.version)
            )
        elif record.kind is Kind.SKILL and stored is not None:
            if stored.version == (record.version or 0) + 1:  # not changed by others since
                edited = {"title": record.title, "text": record.text, "data": record.data}
                changes.append(Edit(id=stored.id, fields=edited, if_version=stored.version))
        elif stored is None:
            changes.append(Put(draft=record, how="restore"))
    return changes


def _find_stored(engine: Engine, record: Draft) -> Record | None:
    """Return the record that is stored now under the key or id of a forgotten one."""
    if record.key:
        return engine.get(record.scope, record.key, kind=record.kind)
    try:
        return engine.read(record.id or "")
    except NotFound:
        return None


def _infer(item: TrashItem) -> Draft:
    """As much of a record as can be read out of its entry.

    Raises:
        Invalid: it cannot be read.
    """
    if item.visible.kind in (Kind.PROFILE, Kind.SKILL):
        data, _ = markdown_entries.split_front_matter(item.text)
    else:
        lines = markdown_entries.parse_fields(item.text).lines
        senders: Json = dict.fromkeys(markdown_entries.parse_names(lines.get("sender_ids", "")), True)
        data = {"session_id": lines.get("session_id", ""), "senders": senders}
    return Draft(scope=item.visible.scope, kind=item.visible.kind or Kind.NOTE, key=item.visible.key, data=data)


def _make_path(visible: VisibleRecord) -> Parts:
    named = "\0".join([*visible.scope.names, Kind(visible.kind).value if visible.kind else "", visible.key])
    return (STATE, FOLDER, f"{hashlib.blake2b(named.encode(), digest_size=16).hexdigest()}.jsonl")
