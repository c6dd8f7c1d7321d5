"""Checkpoints that are found by the names of their files or objects: one listing tells what there is, newest first.

A thread is a folder, a checkpoint a document in it, and the name of the document is `TURN.ID.json`. The turn is the
time of saving in nanoseconds, counted down, so that names sort newest first. Nothing that is there is written again:
saving an id once more adds a document, and takes the ones that it replaces away afterwards. Until then, and also when
a crash comes between, the newest one counts. So there is no index that two writers could take from each other.
"""

from __future__ import annotations

import hashlib
import re
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from ...values.errors import Unavailable
from ...values.times import from_micros, to_micros
from .document_checkpointer import Clock, Document, DocumentCheckpointer, Heading, decode, encode, refuse_target

__all__ = ["NamedFilesCheckpointer", "decode_name", "encode_name"]

_LAST = 2**63
_NAME = re.compile(r"([0-9a-f]{16})\.([^.]+)\.json")
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST = 160  # with the turn and `.json` well below the 255 bytes that file systems take
_PATIENCE = 100


class _Entry(NamedTuple):
    """A document, by its name."""

    folder: str
    name: str
    turn: int
    spelling: str

    @property
    def created_at(self) -> datetime:
        return from_micros(self.turn // 1000)


class NamedFilesCheckpointer(DocumentCheckpointer):
    """A shelf of documents that have names; a subclass lists, reads, writes and erases them."""

    def __init__(self, *, clock: Clock | None = None, pretty: bool = False) -> None:
        super().__init__(clock=clock)
        self.pretty = pretty
        self._last = 0
        self._lock = threading.Lock()

    @abstractmethod
    def _names(self, folder: str | None, few: int | None) -> Iterable[tuple[str, str]]:
        """List the folders and names of documents, those of one folder in the order of their names.

        `few` is how many will do, unless they turn out to be something else than checkpoints.
        """

    @abstractmethod
    def _read(self, folder: str, name: str) -> bytes | None:
        """Read a document; None when it is gone."""

    @abstractmethod
    def _write(self, folder: str, name: str, content: bytes) -> None:
        """Write a document, whole or not at all."""

    @abstractmethod
    def _erase(self, folder: str, name: str) -> bool:
        """Take a document away; whether it was there."""

    def _put(self, thread: str, id: str, state: dict[str, Any], metadata: dict[str, Any], *, fresh: bool) -> None:
        there = self._all(encode_name(thread), None if not fresh else 1)
        added = self._add(thread, id, state, metadata, max((each.turn for each in there), default=0))
        for each in there:
            if each.spelling == added.spelling and each.turn < added.turn:
                self._erase(each.folder, each.name)

    def _add(self, thread: str, id: str, state: dict[str, Any], metadata: dict[str, Any], after: int) -> _Entry:
        """Write a document of a later turn than `after`."""
        folder, spelling, turn = encode_name(thread), encode_name(id), self._next(after)
        entry = _Entry(folder, f"{_LAST - turn:016x}.{spelling}.json", turn, spelling)
        document = {
            "checkpoint_id": id,
            "thread_id": thread,
            "created_at": entry.created_at.isoformat(),
            "state": state,
            "metadata": metadata,
        }
        self._write(folder, entry.name, encode(document, pretty=self.pretty).encode())
        return entry

    def _copy(self, source: str, target: str) -> bool:
        if self._has(target, None):
            raise refuse_target(target)
        copied = False
        for document in self._documents(source):  # each has an id of its own, and there was none before
            self._add(target, document.id, document.state, document.metadata, 0)
            copied = True
        return copied

    def _next(self, newest: int) -> int:
        """Take a turn of its own: now, or where the clock does not get past the last one, the one after it."""
        now = to_micros(self._now()) * 1000
        with self._lock:
            self._last = max(now, newest + 1, self._last + 1)
            return self._last

    def _get(self, thread: str, id: str | None) -> Document | None:
        folder = encode_name(thread)
        spelling = None if id is None else encode_name(id)
        for _ in range(_PATIENCE):
            there = self._all(folder, 1 if spelling is None else None)
            entry = next((each for each in there if spelling in (None, each.spelling)), None)
            if entry is None:
                return None
            found = self._document(entry)
            if found is not None:
                return found
            # It was replaced or removed between the two looks: look again.
        raise Unavailable(f"a checkpoint in {folder} is listed, but cannot be read")

    def _document(self, entry: _Entry) -> Document | None:
        content = self._read(entry.folder, entry.name)
        if content is None:
            return None
        try:
            kept = decode(content)
            return Document(
                thread=kept["thread_id"],
                id=kept["checkpoint_id"],
                created_at=entry.created_at,
                metadata=kept["metadata"],
                turn=entry.turn,
                state=kept["state"],
            )
        except (ValueError, TypeError, LookupError):
            raise Unavailable(
                f"{entry.folder}/{entry.name} is no checkpoint; put back what was there, or remove it"
            ) from None

    def _has(self, thread: str, id: str | None) -> bool:
        folder = encode_name(thread)
        if id is None:
            return bool(self._all(folder, 1))
        spelling = encode_name(id)
        return any(entry.spelling == spelling for entry in self._all(folder))

    def _ids(self, thread: str, limit: int) -> list[str]:
        ids: list[str] = []
        for entry in self._current(encode_name(thread)):
            known = decode_name(entry.spelling)
            if known is None and (document := self._document(entry)):
                known = document.id
            if known is not None:
                ids.append(known)
            if len(ids) == limit:
                break
        return ids

    def _headings(self, thread: str | None, limit: int) -> Iterator[Heading]:
        entries = self._current(None if thread is None else encode_name(thread))
        for entry in entries:
            if limit < 1:
                return
            document = self._document(entry)
            if document is not None:
                limit -= 1
                yield document

    def _documents(self, thread: str | None = None) -> Iterator[Document]:
        for entry in reversed(self._current(None if thread is None else encode_name(thread))):
            document = self._document(entry)
            if document is not None:
                yield document

    def _remove(self, thread: str, id: str | None) -> bool:
        spelling = None if id is None else encode_name(id)
        return self._erase_all(each for each in self._all(encode_name(thread)) if spelling in (None, each.spelling))

    def _expunge(self, heading: Heading) -> bool:
        spelling = encode_name(heading.id)
        there = [each for each in self._all(encode_name(heading.thread)) if each.spelling == spelling]
        return bool(there) and there[0].turn == heading.turn and self._erase_all(there)

    def _erase_all(self, entries: Iterable[_Entry]) -> bool:
        """Erase entries, the oldest first: were this to stop half way, nothing that was replaced would come back."""
        oldest_first = sorted(entries, key=lambda each: each.turn)
        return sum(self._erase(entry.folder, entry.name) for entry in oldest_first) > 0

    def _delete_older(self, than: datetime) -> int:
        # One listing is enough: what is saved again after it has another name, and stays.
        each_one: dict[tuple[str, str], list[_Entry]] = {}
        for entry in self._all(None):
            each_one.setdefault((entry.folder, entry.spelling), []).append(entry)
        return sum(self._erase_all(entries) for entries in each_one.values() if entries[0].created_at < than)

    def _threads(self) -> Iterator[str]:
        seen = set()
        for entry in self._current(None):
            if entry.folder not in seen:
                thread = decode_name(entry.folder)
                if thread is None:
                    document = self._document(entry)
                    if document is None:
                        continue
                    thread = document.thread
                seen.add(entry.folder)
                yield thread

    def _all(self, folder: str | None, most: int | None = None) -> list[_Entry]:
        """List what there is, newest first, also what was replaced and is still there; of one folder, `most` of it."""
        named = ((place, name, _NAME.fullmatch(name)) for place, name in self._names(folder, most))
        entries = (_Entry(place, name, _LAST - int(match[1], 16), match[2]) for place, name, match in named if match)
        return sorted(islice(entries, most), key=lambda each: (-each.turn, each.folder, each.name))

    def _current(self, folder: str | None) -> list[_Entry]:
        """List the newest entry of each checkpoint, newest first."""
        current: dict[tuple[str, str], _Entry] = {}
        for entry in self._all(folder):
            current.setdefault((entry.folder, entry.spelling), entry)
        return list(current.values())


def encode_name(id: str) -> str:
    """Write an id as a name, a different one for each id, on every file system.

    Small letters, digits, `-` and `_` stand for themselves, any other byte of its UTF-8 is `%` and two digits: so no
    name leads out of its folder, and none differs from another by case or by how an accent is composed. What would be
    too long for a name ends in `~` and a digest instead; no other name has a `~`.
    """
    written = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in id.encode())
    if len(written) <= _LONGEST:
        return written
    return f"{written[:80]}~{hashlib.sha256(id.encode()).hexdigest()}"


def decode_name(name: str) -> str | None:
    """Read an id from its name; None for one that was too long, which only the document knows."""
    return None if "~" in name else unquote(name)
