"""How files reach the disk and take others' places, in the way of each system."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import apsw
import pytest

from cofio.backends.sqlite.copy_target import CopyTarget
from cofio.backends.sqlite.database import Database
from cofio.backends.sqlite.database_files import make_immutable_uri
from cofio.system import disk


def test_a_sync_on_macos_goes_through_the_cache_of_the_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: synced.append(f"full {command}"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append("fsync"))
    disk.sync_path(tmp_path)
    assert synced == ["full 51"]

    def unable(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "fcntl", unable)
    disk.sync_path(tmp_path)
    assert synced == ["full 51", "fsync"]


def test_a_sync_on_windows_takes_files_that_may_be_written_and_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    get_mode = fcntl.fcntl
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "fsync", lambda descriptor: modes.append(get_mode(descriptor, fcntl.F_GETFL) & os.O_RDWR))
    (tmp_path / "file").write_bytes(b"kept")
    disk.sync_path(tmp_path)
    assert modes == []
    disk.sync_path(tmp_path / "file")
    assert modes == [os.O_RDWR]
    assert (tmp_path / "file").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("platform", "sync", "full"), [("darwin", "full", 1), ("darwin", "normal", 0), ("linux", "full", 0)]
)
def test_a_commit_on_macos_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, sync: str, full: int
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    database = Database(tmp_path / "memory.db", sync=sync)
    try:
        with database.borrow() as connection:
            assert connection.pragma("fullfsync") == full
            assert connection.pragma("checkpoint_fullfsync") == full
    finally:
        database.close()


def test_a_file_that_somebody_has_open_on_windows_is_replaced_once_they_close_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, tries, pauses = os.replace, [3], list[float]()

    def replace(source: object, target: object) -> None:
        tries[0] -= 1
        if tries[0] >= 0:
            raise PermissionError(errno.EACCES, "Access is denied")
        really(cast(str, source), cast(str, target))

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(time, "sleep", pauses.append)
    (tmp_path / "new").write_bytes(b"new")
    with pytest.raises(PermissionError):  # elsewhere it means what it says
        disk.replace(tmp_path / "new", tmp_path / "file")
    monkeypatch.setattr(sys, "platform", "win32")
    disk.replace(tmp_path / "new", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert len(pauses) == 2
    tries[0] = 1000
    with pytest.raises(PermissionError):
        disk.replace(tmp_path / "file", tmp_path / "other")
    assert sum(pauses) < 5


def test_a_file_that_is_read_on_windows_stays_until_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlink(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "The file is in use")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        with pytest.raises(PermissionError):
            disk.remove_unused(tmp_path / "file")
        patch.setattr(sys, "platform", "win32")
        disk.remove_unused(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"")
    disk.remove_unused(tmp_path / "file")
    disk.remove_unused(tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_where_nobody_may_make_links_there_are_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def symlink(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "A required privilege is not held by the client")

    (tmp_path / "file").write_bytes(b"content")
    disk.make_alias(tmp_path / "file", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    monkeypatch.setattr(os, "symlink", symlink)
    with pytest.raises(OSError, match="privilege"):
        disk.make_alias(tmp_path / "file", tmp_path / "copy")
    monkeypatch.setattr(sys, "platform", "win32")
    disk.make_alias(tmp_path / "file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"content"


def test_a_junction_is_a_link(tmp_path: Path) -> None:
    folder = os.lstat(tmp_path)
    assert not disk.is_link(folder)
    junction = SimpleNamespace(st_mode=folder.st_mode, st_reparse_tag=0xA0000003)
    assert disk.is_link(cast(os.stat_result, junction))


def test_the_number_of_a_file_fits_into_the_database() -> None:
    longest = SimpleNamespace(st_ino=2**128 - 1)
    number = disk.read_file_number(cast(os.stat_result, longest))
    connection = apsw.Connection(":memory:")
    assert connection.execute("SELECT ?", (number,)).get == number


def test_a_database_that_nobody_changes_is_opened_by_a_name_with_any_character(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%25é" / "memory.db"
    path.parent.mkdir()
    apsw.Connection(str(path)).execute("CREATE TABLE found (x)")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    opened = apsw.Connection(make_immutable_uri(path), flags=flags)
    assert opened.execute("SELECT name FROM sqlite_schema").get == "found"


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_copy_that_fails_leaves_nothing_and_takes_nothing_from_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    unlink = os.unlink
    copy = CopyTarget(tmp_path / "copy")
    lease = copy._lock_handle

    def unlink_unless_open(path: Path, **named: Any) -> None:
        if platform == "win32" and os.path.basename(path) == "lease" and not closed:
            raise PermissionError(errno.EACCES, "The file is in use")
        unlink(path, **named)

    closed: list[int] = []
    close = os.close

    def close_and_begin_anew(descriptor: int) -> None:
        close(descriptor)
        if descriptor != lease or closed:
            return
        closed.append(descriptor)
        if platform == "linux":
            (tmp_path / "copy").mkdir()
            (tmp_path / "copy" / "lease").touch()

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "unlink", unlink_unless_open)
    monkeypatch.setattr(os, "close", close_and_begin_anew)
    copy.__exit__(None, None, None)
    monkeypatch.undo()
    assert (tmp_path / "copy" / "lease").exists() == (platform == "linux")
    assert (tmp_path / "copy").exists() == (platform == "linux")
