"""Folders that are held open, by a descriptor and by a path: the same contract, also against whoever moves things."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from cofio.system import disk, folders
from cofio.system.folders import DescriptorFolder, OpenFolder, PathFolder, open_folder, walk
from cofio.system.safe_files import open_file
from cofio.values.errors import Invalid, Unavailable
from cofio.vault.writer import FileChanged, Tree

Opened = Callable[[Path], OpenFolder]


@pytest.fixture(params=["descriptor", "path"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Holds folders open, in either way; those that are open at the end are closed."""
    if request.param == "path":
        monkeypatch.setattr(folders, "_OPENS_FOLDERS", False)
        monkeypatch.setattr(disk, "NOFOLLOW", 0)
    held: list[OpenFolder] = []

    def hold(path: Path) -> OpenFolder:
        held.append(open_folder(path))
        assert isinstance(held[-1], PathFolder if request.param == "path" else DescriptorFolder)
        return held[-1]

    yield hold
    for each in held:
        each.close()


def write(folder: OpenFolder, name: str, content: bytes) -> None:
    """Make a new file."""
    with open(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content)


def test_files_are_made_read_renamed_replaced_and_removed(tmp_path: Path, opened: Opened) -> None:
    folder = opened(tmp_path)
    write(folder, "a", b"one")
    write(folder, "b", b"two")
    with pytest.raises(FileExistsError):
        write(folder, "a", b"again")
    folder.replace("a", "b")
    folder.rename("b", "c")
    assert folder.link("c", "d")
    with pytest.raises(FileExistsError):
        folder.link("c", "d")
    folder.remove("c")
    folder.sync()
    assert (tmp_path / "d").read_bytes() == b"one"
    assert folder.list() == ([], ["d"])
    assert folder.stat("d").st_size == 3
    with pytest.raises(FileNotFoundError):
        folder.stat("c")


def test_folders_are_made_entered_and_removed(tmp_path: Path, opened: Opened) -> None:
    folder = opened(tmp_path)
    folder.make("sub")
    with closing(folder.enter("sub")) as sub:
        write(sub, "x", b"")
    assert (tmp_path / "sub" / "x").exists()
    with pytest.raises(OSError, match="not empty"):
        folder.remove_folder("sub")
    (tmp_path / "sub" / "x").unlink()
    folder.remove_folder("sub")
    assert folder.list() == ([], [])


def test_no_link_is_followed(tmp_path: Path, opened: Opened) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "diary").write_bytes(b"mine")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "folder").symlink_to(private)
    (inside / "file").symlink_to(private / "diary")
    (inside / "nowhere").symlink_to(private / "new")
    folder = opened(inside)
    for name in ("file", "nowhere"):
        for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
            with pytest.raises(OSError, match="symbolic link"):
                os.close(folder.open(name, flags))
    with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
        folder.enter("folder").close()
    assert folder.list() == ([], ["file", "folder", "nowhere"])
    assert os.listdir(private) == ["diary"]
    assert (private / "diary").read_bytes() == b"mine"


def test_a_folder_that_is_exchanged_for_a_link_leads_nowhere_else(tmp_path: Path, opened: Opened) -> None:
    private, inside = tmp_path / "private", tmp_path / "inside"
    private.mkdir()
    inside.mkdir()
    folder = opened(inside)
    inside.rename(tmp_path / "moved")
    inside.symlink_to(private)
    with suppress(OSError):  # a descriptor leads to where the folder is now, a path nowhere
        write(folder, "x", b"")
    assert os.listdir(private) == []
    inside.unlink()
    inside.mkdir()  # another folder of that name is not the one that was opened
    with suppress(OSError):
        write(folder, "y", b"")
    assert os.listdir(inside) == []


def test_what_is_no_folder_is_not_opened_as_one(tmp_path: Path, opened: Opened) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        opened(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "none")
    with pytest.raises(NotADirectoryError):
        opened(tmp_path).enter("file").close()


def test_a_walk_enters_what_is_left_in_the_list_and_follows_no_link(tmp_path: Path, opened: Opened) -> None:
    root = tmp_path / "root"
    for name in ("b/deep/er", "a", "left-out/x"):
        (root / name).mkdir(parents=True)
    (root / "b" / "deep" / "file").write_bytes(b"")
    (root / "a" / "loop").symlink_to(root)
    opened(root)
    seen: list[tuple[tuple[str, ...], list[str]]] = []
    for below, inner, others, folder in walk(root):
        if "left-out" in inner:
            inner.remove("left-out")
        seen.append((below, others))
        for name in others:
            assert folder.stat(name)
    assert seen == [((), []), (("a",), ["loop"]), (("b",), []), (("b", "deep"), ["file"]), (("b", "deep", "er"), [])]


def test_a_walk_tells_what_it_cannot_read_and_goes_on(tmp_path: Path, opened: Opened) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    opened(tmp_path)
    told: list[OSError] = []
    seen = []
    for below, inner, _, folder in walk(tmp_path, told.append):
        seen.append(below)
        if inner:
            folder.remove_folder("a")
    assert seen == [(), ("b",)]
    assert [error.filename for error in told] == [str(tmp_path / "a")]
    assert list(walk(tmp_path / "none", told.append)) == []
    assert isinstance(told[-1], FileNotFoundError)


def test_a_walk_that_is_broken_off_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    before = len(os.listdir("/dev/fd"))
    walking = walk(tmp_path)
    for _ in range(3):
        next(walking)
    assert len(os.listdir("/dev/fd")) > before
    walking.close()  # type: ignore[attr-defined]  # a generator
    assert len(os.listdir("/dev/fd")) == before


def test_the_vault_keeps_its_promises_on_either(tmp_path: Path, opened: Opened) -> None:
    (tmp_path / "vault").mkdir()
    opened(tmp_path)
    tree = Tree(tmp_path / "vault")
    path = ("app", "users", "day.md")
    first = tree.write(path, [b"line one\nline ", b"two\n"], None)
    held = tree.read(path)
    assert held is not None
    assert held == (b"line one\nline two\n", first)
    with pytest.raises(FileChanged):
        tree.write(path, [b"somebody else's"], None)
    second = tree.write(path, [b"changed\n"], first)
    with pytest.raises(FileChanged):
        tree.write(path, [b"late"], first)
    assert tree.read_stamp(path) == second
    tree.force(path)
    assert [(found, stamp) for found, stamp in tree.walk()] == [(path, second)]
    assert tree.rename(("app", "users"), ("app", "people"))
    tree.remove(("app", "people", "day.md"))
    assert os.listdir(tmp_path / "vault") == []
    (tmp_path / "vault" / "app").symlink_to(tmp_path)
    with pytest.raises(Invalid):
        tree.read(path)


def test_a_name_that_is_taken_is_not_written_over_where_files_have_one_name(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path)

    def unable(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    monkeypatch.setattr(folders, "_find_swap", lambda: None)
    tree = Tree(tmp_path)
    stamp = tree.write(("a.md",), [b"one"], None)
    assert tree.write(("a.md",), [b"two"], stamp) != stamp
    assert (tmp_path / "a.md").read_bytes() == b"two"


def test_a_file_of_the_memory_is_opened_through_no_link(tmp_path: Path, opened: Opened) -> None:
    opened(tmp_path)
    (tmp_path / "real").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(Unavailable, match=name):
            open_file(tmp_path / name, os.O_RDWR | os.O_CREAT)
    os.close(open_file(tmp_path / "real", os.O_WRONLY | os.O_TRUNC))
    assert (tmp_path / "real").read_bytes() == b""
    os.close(open_file(tmp_path / "new", os.O_WRONLY | os.O_CREAT))
    assert (tmp_path / "new").exists()
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "none", os.O_RDONLY)


def test_a_file_that_two_make_at_once_is_opened_by_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "NOFOLLOW", 0)
    really, looked = os.lstat, list[object]()

    def late(path: str) -> os.stat_result:
        looked.append(path)
        if len(looked) == 1:  # the other makes it right after this look
            (tmp_path / "lease").write_bytes(b"theirs")
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return really(path)

    monkeypatch.setattr(os, "lstat", late)
    with open(disk.open_plain(tmp_path / "lease", os.O_CREAT | os.O_RDWR), "rb") as file:
        assert file.read() == b"theirs"
    looked.clear()
    with pytest.raises(FileExistsError):
        disk.open_plain(tmp_path / "lease", os.O_CREAT | os.O_EXCL | os.O_RDWR)
