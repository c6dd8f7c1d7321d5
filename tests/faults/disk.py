"""Disks that fail on command: one that SQLite is told to use, and one beneath the one that it uses anyway."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import apsw

Call = Literal["write", "sync", "truncate"]
_numbers = itertools.count()


class Fault:
    """A call that is to fail: the so-manieth of its kind, alone or with all of its kind that follow."""

    def __init__(self, call: Call, at: int, *, lasting: bool = False) -> None:
        self._call = call
        self._at = at
        self._lasting = lasting
        self._seen = 0
        self.struck = False

    def strikes(self, call: Call) -> bool:
        """Whether this very call is to fail."""
        if call != self._call:
            return False
        self._seen += 1
        hit = self._seen > self._at if self._lasting else self._seen == self._at + 1
        self.struck = self.struck or hit
        return hit


class Disk(apsw.VFS):
    """A disk for SQLite that works like the default one, but for its fault."""

    def __init__(self) -> None:
        self.name = f"disk-{next(_numbers)}"
        self.fault: Fault | None = None
        self.error: type[apsw.Error] = apsw.IOError
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802  # SQLite's name
        """A file on this disk."""
        return _File(self, name, flags)

    def meet(self, call: Call) -> None:
        """Fail this call, if it is to fail."""
        if self.fault is not None and self.fault.strikes(call):
            raise self.error(f"{call} failed, as told")


class _File(apsw.VFSFile):
    """A file on a Disk."""

    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.meet("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.meet("sync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.meet("truncate")
        super().xTruncate(size)


@contextmanager
def failing_calls(fault: Fault, errno: int) -> Iterator[None]:
    """Make the operating system's own answer to SQLite an error, after half of the bytes when it is a write.

    Unlike an error that a Disk raises, SQLite may decide that it does not matter, as it does when it comes in the
    checkpoint that follows a commit.
    """
    vfs = apsw.VFS(f"calls-{next(_numbers)}", "unix")
    size, offset = ctypes.c_size_t, ctypes.c_longlong
    write_type = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, size, offset, use_errno=True)
    truncate_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, offset, use_errno=True)
    really_write = write_type(vfs.xGetSystemCall("pwrite64") or 0)
    really_truncate = truncate_type(vfs.xGetSystemCall("ftruncate") or 0)
    halves: set[int] = set()

    def write(file: int, data: int, length: int, place: int) -> int:
        if place in halves:
            halves.clear()
        elif not fault.strikes("write"):
            return int(really_write(file, data, length, place))
        elif length > 1:
            halves.add(place + length // 2)  # SQLite asks for the rest, and is then told why it is not to be had
            return int(really_write(file, data, length // 2, place))
        ctypes.set_errno(errno)
        return -1

    def truncate(file: int, length: int) -> int:
        if not fault.strikes("truncate"):
            return int(really_truncate(file, length))
        ctypes.set_errno(errno)
        return -1

    calls: list[tuple[str, Callable[..., int]]] = [
        ("pwrite64", write_type(write)),
        ("ftruncate", truncate_type(truncate)),
    ]
    for name, function in calls:
        vfs.xSetSystemCall(name, ctypes.cast(function, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]  # a pointer
    try:
        yield
    finally:
        for name, _ in calls:
            vfs.xSetSystemCall(name, 0)
        vfs.unregister()
