"""Files that are there whole or not at all, and folders that are entered through no link."""

from __future__ import annotations

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from cofio.system.atomic_files import create_temporary, is_temporary, name_new, replace_file, replace_path
from cofio.system.folders import descend, open_folder
from cofio.values.errors import Invalid


def test_a_file_is_replaced_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replace_path(path, mode=0o640) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        (temporary,) = [each.name for each in tmp_path.iterdir() if each != path]
        assert is_temporary(temporary)
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 & ~0o640 == 0


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="No space") as failed, replace_path(path) as file:
        file.write(b"new")
    assert failed.value.filename == str(path)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file": b"old"}


def test_an_error_of_the_writer_keeps_the_file_that_it_names(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as failed, replace_path(tmp_path / "file"):
        (tmp_path / "other").read_bytes()
    assert failed.value.filename == str(tmp_path / "other")
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError) as failed, replace_path(tmp_path / "none" / "file"):
        pass
    assert failed.value.filename == str(tmp_path / "none" / "file")


def test_a_name_that_is_taken_is_not_given_again(tmp_path: Path) -> None:
    with closing(open_folder(tmp_path)) as folder:
        for number in (1, 2):
            with create_temporary(folder) as temporary:
                temporary.file.write(b"%d" % number)
            if number == 1:
                name_new(folder, temporary.name, "file")
            else:
                with pytest.raises(FileExistsError):
                    name_new(folder, temporary.name, "file")
    assert sorted(os.listdir(tmp_path)) == sorted(["file", temporary.name])
    assert (tmp_path / "file").read_bytes() == b"1"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"safe")
    (tmp_path / "file").symlink_to("victim")
    with closing(open_folder(tmp_path)) as folder, replace_file(folder, "file") as file:
        file.write(b"new")
    assert (tmp_path / "victim").read_bytes() == b"safe"
    assert not (tmp_path / "file").is_symlink()


def test_a_descent_makes_what_is_missing_and_enters_no_link(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    with closing(open_folder(tmp_path / "root")) as root:
        with pytest.raises(FileNotFoundError), descend(root, ["a", "b"]):
            pass
        with descend(root, ["a", "b"], make=0o700) as folder, replace_file(folder, "file") as file:
            file.write(b"12345")
        with descend(root, ["a", "b"]) as folder:
            assert [folder.read("file", limit)[0] for limit in (3, 5)] == [b"1234", b"12345"]
            (tmp_path / "root" / "a" / "b" / "alias").symlink_to("file")
            for name, problem in (("alias", "is a link"), ("..", "is no plain file")):
                with pytest.raises(Invalid, match=problem):
                    folder.read(name, 5)
        with pytest.raises(OSError, match="link") as refused, descend(root, ["link", "x"], make=0o700):
            pass
        assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert os.listdir(tmp_path / "outside") == []
