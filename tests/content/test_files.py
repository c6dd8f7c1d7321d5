"""A `file:` URI reads regular files in the folders that the owner allows, and nothing else."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from cofio.content import ContentReader, FetchPolicy, Item, Unreadable
from cofio.values.errors import Invalid


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "allowed"
    (made / "deep").mkdir(parents=True)
    (made / "note.txt").write_text("hello")
    (made / "deep" / "ünï #1?.txt").write_text("deep")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "allowed-not" / "secret.txt").write_text("secret")
    return made


def read(uri: str, *folders: Path, max_bytes: int = 1000) -> str:
    return ContentReader(FetchPolicy(folders=folders, max_bytes=max_bytes)).read_items([Item(type="doc", uri=uri)])[0]


def test_a_file_in_an_allowed_folder_is_read_also_by_links_that_stay_inside(folder: Path) -> None:
    assert read(f"file://{folder}/note.txt", folder) == "hello"
    assert read(f"FILE://localhost{folder}/deep/../note.txt", folder) == "hello"
    assert read(f"file:{folder}/deep/%C3%BCn%C3%AF%20%231%3F.txt", folder) == "deep"
    assert read(f"file://{folder}/note.txt", folder / "deep", folder) == "hello"
    (folder / "link.txt").symlink_to(folder / "note.txt")
    (folder / "deep" / "up").symlink_to("..")
    (folder.parent / "elsewhere").symlink_to(folder)
    for path in (folder / "link.txt", folder / "deep" / "up" / "note.txt", folder.parent / "elsewhere" / "note.txt"):
        assert read(f"file://{path}", folder) == "hello"
    assert read(f"file://{folder}/note.txt", folder.parent / "elsewhere") == "hello"


def test_nothing_outside_is_read_nor_told_apart_from_what_is_not_there(folder: Path) -> None:
    (folder / "out.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "out").symlink_to(folder.parent)
    (folder / "gone.txt").symlink_to(folder.parent / "gone.txt")
    (folder / "loop").symlink_to(folder / "loop")
    said = set()
    for path in (
        "../secret.txt", "..%2Fsecret.txt", "%2e%2e/secret.txt", "out.txt", "out/secret.txt", "gone.txt",
        "../allowed-not/secret.txt", "../gone.txt", "..", "", "deep/../../secret.txt", "../../../../etc/passwd",
    ):  # fmt: skip
        with pytest.raises(Unreadable, match="not in a folder") as caught:
            read(f"file://{folder}/{path}", folder)
        said.add(caught.value.reason)
    assert len(said) == 1
    for path in ("loop", "note.txt/x", "none.txt"):
        with pytest.raises(Unreadable):
            read(f"file://{folder}/{path}", folder)


def test_without_a_folder_no_file_is_read(folder: Path) -> None:
    for fetching in (FetchPolicy(), FetchPolicy.parse("off"), FetchPolicy.parse(""), FetchPolicy.parse("*")):
        with pytest.raises(Unreadable, match="not in a folder"):
            ContentReader(fetching).read_items([Item(type="doc", uri=f"file://{folder}/note.txt")])


def test_only_regular_files_that_are_not_too_large_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "fifo.txt")
    monkeypatch.chdir(folder)  # the path of a socket may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.txt")
        for name in ("fifo.txt", "socket.txt", "deep"):
            with pytest.raises(Unreadable, match="not a regular file"):
                read(f"file://{folder}/{name}", folder)
    with pytest.raises(Unreadable, match="not a regular file"):
        read("file:///dev/zero", Path("/dev"))
    with pytest.raises(Unreadable, match="larger than 4 bytes"):
        read(f"file://{folder}/note.txt", folder, max_bytes=4)
    with pytest.raises(Unreadable, match="larger than 10 bytes"):  # such files have more in them than they say
        read("file:///proc/self/status", Path("/proc"), max_bytes=10)


@pytest.mark.parametrize(
    "uri",
    ["file://evil.example/share/x", "file://127.0.0.1/x", "file:note.txt", "file://", "file:///a%00b", "file:///a?b",
     "file:///a#b", "file://[", "file:////etc/passwd", "file://localhost:80/x", "file://user@localhost/x"],
)  # fmt: skip
def test_a_strange_uri_reads_nothing(folder: Path, uri: str) -> None:
    with pytest.raises(Unreadable):
        read(uri, folder)


@pytest.mark.parametrize(
    "setting", ["/", "./docs", "~/docs", "http://a.test", "a.test:", "a.test:0", "a.test:99999", "*.*", "a b",
                "a.*", "**", "0x7f.1", "on, a_b!", "*a.test"],
)  # fmt: skip
def test_a_setting_names_hosts_and_folders_and_what_is_neither_is_refused(setting: str) -> None:
    with pytest.raises(Invalid):
        FetchPolicy.parse(setting)
    assert FetchPolicy.parse("docs").hosts == ("docs",)  # which could be the name of a host
    fetching = FetchPolicy.parse(" Example.org, *.example.net ,/srv/docs,a.test:8080, ")
    assert fetching == FetchPolicy(hosts=("example.org", "*.example.net", "a.test:8080"), folders=(Path("/srv/docs"),))
    for host, port in (("example.org", 443), ("a.b.example.net", 80), ("a.test", 8080)):
        assert fetching.allows(host, port)
    for host, port in (("www.example.org", 443), ("example.net", 80), ("badexample.net", 80), ("a.test", 80)):
        assert not fetching.allows(host, port)
