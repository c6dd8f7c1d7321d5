"""A disk that remembers every write and sync, and can tell what a power cut at any moment could have left."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import apsw

SECTOR = 512
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that SQLite did to a file, and whether it synced the folder too, which makes deletes last."""

    what: Literal["write", "truncate", "sync", "delete"]
    file: str
    place: int = 0
    data: bytes = b""
    folder: bool = False


class Recorder(apsw.VFS):
    """A disk for SQLite that works like the default one and keeps a log of all that is done to it."""

    def __init__(self) -> None:
        self.name = f"recorder-{next(_numbers)}"
        self.log: list[Event] = []
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802  # SQLite's name
        """A file on this disk."""
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Remove a file."""
        super().xDelete(filename, syncdir)
        self.log.append(Event("delete", Path(filename).name, folder=bool(syncdir)))


class _File(apsw.VFSFile):
    """A file on a Recorder."""

    def __init__(self, disk: Recorder, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        self._log = disk.log
        self._name = path.name
        self._new = not path.exists()
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._log.append(Event("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self._log.append(Event("truncate", self._name, size))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        # The first sync of a new file is one of its folder too, lest the file be lost.
        self._log.append(Event("sync", self._name, folder=self._new))
        self._new = False


def image(log: list[Event], cut: int, choose: random.Random) -> dict[str, bytes]:
    """What the files may hold when the power is cut after the first `cut` events.

    All that was synced is there. Of what came after, any sectors are, and the last of them in part.
    """
    files: dict[str, bytes] = {}
    folder = max((at for at, event in enumerate(log[:cut]) if event.folder), default=-1)
    for name in sorted({event.file for event in log[:cut]}):
        content: bytearray | None = bytearray()
        events = [(at, event) for at, event in enumerate(log[:cut]) if event.file == name]
        synced = max(
            (at for at, event in events if event.what == "sync" or (event.what == "delete" and at <= folder)),
            default=-1,
        )
        for at, event in events:
            if at <= synced:
                content = _done(content, event)
                continue
            for piece in _pieces(event):
                if choose.random() < 0.5:
                    content = _done(content, piece)
            if event.data and choose.random() < 0.3:
                last = _pieces(event)[-1]
                content = _done(
                    content, Event("write", name, last.place, last.data[: choose.randrange(len(last.data))])
                )
        if content is not None:
            files[name] = bytes(content)
    return files


def _done(content: bytearray | None, event: Event) -> bytearray | None:
    """The content of a file after the event; None for no file."""
    if event.what == "delete":
        return None
    content = bytearray() if content is None else content
    if event.what == "truncate":
        del content[event.place :]
    elif event.what == "write":
        content.extend(bytes(max(0, event.place - len(content))))
        content[event.place : event.place + len(event.data)] = event.data
    return content


def _pieces(event: Event) -> list[Event]:
    """A write as the writes of its sectors."""
    if event.what != "write":
        return [event]
    places = [event.place, *range((event.place // SECTOR + 1) * SECTOR, event.place + len(event.data), SECTOR)]
    ends = [*places[1:], event.place + len(event.data)]
    return [
        Event("write", event.file, start, event.data[start - event.place : end - event.place])
        for start, end in zip(places, ends, strict=True)
    ]
