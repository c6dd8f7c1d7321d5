"""`cofio files`: the files of the memory tool for people, and copies of them in real folders."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cofio import Engine, Kind
from cofio.doors.cli import folder_copy
from cofio.files import Tree, home

from .conftest import Cofio


def files(memory: Engine, owner: str = "default") -> dict[str | None, str]:
    """Every file with its text."""
    return {file.key: file.text for file in Tree(memory, home(owner)).list_files()}


def test_a_file_is_written_and_printed_as_it_is(cofio: Cofio, memory: Engine) -> None:
    ran = cofio("files", "write", "notes/a.md", stdin="one\ntwo\n")
    assert (ran.code, ran.out) == (0, "wrote notes/a.md\n")
    assert cofio("files", "cat", "/memories/notes/a.md").out == "one\ntwo\n"
    assert cofio("files", "write", "notes/a.md", "three").code == 0
    assert cofio("files", "cat", "notes/a.md").out == "three"
    assert cofio("files", "write", "empty.md", "").code == 0
    assert cofio("files", "write", "b.md", "-", stdin="in").code == 0
    assert files(memory) == {"/memories/b.md": "in", "/memories/empty.md": "", "/memories/notes/a.md": "three"}
    assert cofio("files", "cat", "b.md", "--json").json == {"path": "/memories/b.md", "text": "in", "version": 1}


def test_the_list_shows_every_file_under_a_directory(cofio: Cofio) -> None:
    for path in ("b.md", "d/e/f.md", "d/.hidden"):
        cofio("files", "write", path, "é")
    rows = cofio("files", "ls").rows
    assert [row[2] for row in rows] == ["/memories/b.md", "/memories/d/.hidden", "/memories/d/e/f.md"]
    assert rows[0][0] == "2"
    assert [row[2] for row in cofio("files", "ls", "d").rows] == ["/memories/d/.hidden", "/memories/d/e/f.md"]
    assert [row[2] for row in cofio("files", "ls", "b.md").rows] == ["/memories/b.md"]
    assert (
        cofio("files", "ls", "none").err
        == "cofio: there are no files in /memories/none; `cofio files write` makes one\n"
    )
    shown = [json.loads(line) for line in cofio("files", "ls", "--json").out.splitlines()]
    assert shown[0]["path"] == "/memories/b.md"
    assert set(shown[0]) == {"path", "bytes", "updated_at", "version"}


def test_files_are_edited_moved_and_removed(cofio: Cofio, memory: Engine) -> None:
    cofio("files", "write", "d/a.md", "on Friday")
    assert cofio("files", "edit", "d/a.md", "Friday", "Monday").out == "edited d/a.md\n"
    assert cofio("files", "mv", "d", "e").out == "moved d to e\n"
    assert files(memory) == {"/memories/e/a.md": "on Monday"}
    ran = cofio("files", "rm", "e", "--json")
    assert ran.json == {"done": "rm", "content": "Successfully deleted e"}
    assert files(memory) == {}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("edit", "a.md", "z", "x"), "No replacement was performed, old_str `z` did not appear verbatim in a.md."),
        (("rm", "none"), "The path none does not exist"),
        (("cat", "none"), "there is no file /memories/none; `cofio files ls` shows what there is"),
        (("cat", "../x"), "path: Path ../x would escape /memories directory"),
        (("write", "/etc/passwd", "x"), "Path must start with /memories, got: /etc/passwd"),
        (("restore", "a.md"), "a.md has no earlier state; `cofio files log a.md` shows what there is"),
        (("push", "none"), "there is no folder none"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(
    cofio: Cofio, memory: Engine, argv: tuple[str, ...], said: str
) -> None:
    cofio("files", "write", "a.md", "x")
    cofio("files", "write", "b.md", "y")
    ran = cofio("files", *argv)
    assert (ran.code, ran.out, ran.err) == (1, "", f"cofio: {said}\n")
    assert files(memory) == {"/memories/a.md": "x", "/memories/b.md": "y"}


def test_each_owner_has_files_of_their_own(cofio: Cofio, memory: Engine) -> None:
    cofio("files", "write", "a.md", "mine")
    cofio("files", "write", "a.md", "theirs", "--owner", "pm")
    assert files(memory, "pm") == {"/memories/a.md": "theirs"}
    assert cofio("files", "cat", "a.md").out == "mine"
    assert cofio("files", "ls", "--owner", "").code == 1
    assert "not UTF-8" in cofio("files", "write", "a.md", stdin=b"\xff").err
    assert cofio("search", "mine", "--mode", "keyword").rows[0][3:5] == ["files/default", "/memories/a.md"]


def test_the_log_shows_what_a_file_held_and_restore_brings_it_back(cofio: Cofio, memory: Engine) -> None:
    cofio("files", "write", "a.md", "one")
    cofio("files", "write", "a.md", "two!")
    cofio("files", "rm", "a.md")
    rows = cofio("files", "log", "a.md").rows
    assert [(row[2], row[3], row[4]) for row in rows] == [
        ("delete", "4", "/memories/a.md"), ("edit", "3", "/memories/a.md"),
    ]  # fmt: skip
    assert cofio("files", "restore", "a.md").out == "restored a.md\n"
    assert cofio("files", "cat", "a.md").out == "two!"
    assert cofio("files", "restore", "a.md", rows[1][0]).code == 0
    assert cofio("files", "cat", "a.md").out == "one"
    shown = json.loads(cofio("files", "log", "a.md", "--json").out.splitlines()[0])
    assert set(shown) == {"id", "path", "version", "since", "until", "cause", "bytes"}
    assert cofio("files", "log", "none").err == "cofio: none has held nothing else so far\n"


# Copies.


def test_a_folder_goes_in_and_comes_out_as_it_was(cofio: Cofio, folder: Path, memory: Engine) -> None:
    there = {"a.md": "one\r\n", "d/e/f.txt": "é 日本\n", "d/empty": "", ".hidden": "h"}
    for name, text in there.items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_bytes(text.encode())
    ran = cofio("files", "push", "in")
    assert (ran.code, ran.out) == (0, "copied 4 files from in\n")
    assert files(memory) == {f"/memories/{name}": text for name, text in there.items()}
    (folder / "in" / "a.md").write_text("two")
    assert cofio("files", "push", "in").out == "copied 1 file from in; 3 were the same already\n"
    assert [row[3] for row in cofio("files", "log", "a.md").rows] == ["5"]
    assert cofio("files", "pull", "out", "--json").json == {"copied": 4, "same": 0, "refused": 0}
    assert {
        str(file.relative_to(folder / "out")): file.read_bytes().decode()
        for file in (folder / "out").rglob("*") if file.is_file()
    } == there | {"a.md": "two"}  # fmt: skip
    assert cofio("files", "pull", "out").out == "copied 0 files to out; 4 were the same already\n"


def test_a_part_of_the_tree_can_be_copied(cofio: Cofio, folder: Path, memory: Engine) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "a.md").write_text("x")
    cofio("files", "push", "in", "--path", "notes/deep")
    assert files(memory) == {"/memories/notes/deep/a.md": "x"}
    cofio("files", "pull", "out", "--path", "/memories/notes")
    assert (folder / "out" / "deep" / "a.md").read_text() == "x"
    cofio("files", "pull", "one", "--path", "notes/deep/a.md")
    assert (folder / "one" / "a.md").read_text() == "x"
    ran = cofio("files", "push", "in", "--path", "notes/deep/a.md")
    assert ran.err == "cofio: path: /memories/notes/deep/a.md is a file, or under one, not a directory\n"


def test_what_cannot_be_copied_in_is_named_and_the_rest_is_copied(cofio: Cofio, folder: Path, memory: Engine) -> None:
    (folder / "secret").write_text("secret")
    source = folder / "in"
    (source / "sub").mkdir(parents=True)
    (source / "good.md").write_text("good")
    (source / "image.png").write_bytes(b"\x89PNG\xff")
    (source / "nul").write_bytes(b"a\0b")
    (source / "long").write_bytes(b"x" * 1_048_577)
    (source / "longer").write_bytes(b"x" * 5_000_000)
    (source / "back\\slash").write_text("x")
    (source / "cafe\u0301").write_text("x")
    (source / "caf\u00e9").write_text("y")
    os.mkfifo(source / "pipe")
    (source / "out").symlink_to("../secret")
    (source / "absolute").symlink_to(folder / "secret")
    (source / "up").symlink_to("..")
    (source / "within").symlink_to("sub/../good.md")
    (source / "folder").symlink_to("sub")
    (source / "nowhere").symlink_to("none")
    with open(os.fsencode(source) + b"/\xff", "wb"):
        pass
    ran = cofio("files", "push", "in")
    assert ran.code == 1
    assert sorted(ran.err.splitlines()) == sorted(
        f"cofio: {name} is not copied: it {why}"
        for name, why in {
            "image.png": "is no UTF-8 text",
            "nul": "is no UTF-8 text",
            "long": "is longer than 1,048,576 characters",
            "longer": "is longer than 1,048,576 characters",
            "back\\slash": "has a name that cannot be kept (it holds a backslash)",
            "\\xff": "has a name that cannot be kept (it holds the control character U+DCFF)",
            "caf\u00e9": "has the same name as another, written otherwise",
            "pipe": "is no plain file",
            **dict.fromkeys(
                ("out", "absolute", "up", "within", "folder", "nowhere"), "is a link, and none is followed"
            ),
        }.items()
    )
    assert ran.out == "copied 2 files from in; 14 refused\n"
    assert files(memory) == {"/memories/good.md": "good", "/memories/caf\u00e9": "x"}


def test_a_file_never_takes_the_place_of_a_directory_nor_keeps_the_rest_out(
    cofio: Cofio, folder: Path, memory: Engine
) -> None:
    (folder / "in" / "e\u0301").mkdir(parents=True)
    (folder / "in" / "e\u0301" / "x").write_text("under")
    (folder / "in" / "\u00e9").write_text("file")  # the same name, written otherwise
    (folder / "in" / "good").write_text("good")
    ran = cofio("files", "push", "in")
    assert (ran.code, ran.out) == (1, "copied 2 files from in; 1 refused\n")
    assert files(memory)["/memories/good"] == "good"
    (folder / "other" / "good").mkdir(parents=True)
    (folder / "other" / "good" / "y").write_text("there")
    cofio("files", "write", "d/x", "here")
    (folder / "other" / "d").write_text("there")
    before = files(memory)
    ran = cofio("files", "push", "other")
    assert (ran.code, ran.out) == (1, "copied 0 files from other; 2 refused\n")
    assert files(memory) == before


def test_many_files_deep_down_go_in_by_several_transactions_and_the_memory_itself_does_not(
    cofio: Cofio, folder: Path, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_copy, "MAX_CHANGES", 100)
    deep = folder.joinpath("in", *("d" * 20))
    deep.mkdir(parents=True)
    for number in range(30):
        (deep / str(number)).write_text("x")
    assert cofio("files", "push", ".").out == "copied 30 files from .\n"
    assert len(files(memory)) == 30


def test_nothing_is_written_outside_of_the_folder(cofio: Cofio, folder: Path, memory: Engine) -> None:
    for key in (
        "/memories/../escaped",
        "/etc/escaped",
        "/memories/a/../../escaped",
        "escaped",
        "/memories//x",
        "/memories/",
    ):
        memory.put(home(), key, text="bad", kind=Kind.FILE)
    cofio("files", "write", "good.md", "good")
    cofio("files", "write", "link/x", "good")
    cofio("files", "write", "linked", "good")
    cofio("files", "write", "taken", "good")
    cofio("files", "write", "n" * 300, "good")
    outside, target = folder / "outside", folder / "out"
    (target / "taken").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (target / "link").symlink_to(outside)
    (target / "linked").symlink_to(outside / "kept")
    ran = cofio("files", "pull", "out")
    assert ran.code == 1
    assert (target / "good.md").read_text() == "good"
    assert (target / "linked").read_text() == "good"
    assert not (target / "linked").is_symlink(), "a link is replaced, and what it points at is not"
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"kept": "kept"}
    assert not [each for each in folder.rglob("*escaped*") if ".cofio" not in each.parts]
    assert not list(target.rglob("*.tmp"))
    assert "link/x is not copied: it stands behind a link" in ran.err
    assert "taken is not copied: it has the name of a folder that is there" in ran.err
    assert "is not copied: it has a name that is too long for this machine" in ran.err
    assert "could lead out of the folder" in ran.err
