"""`cofio documents`: files become documents, are found, shown, replaced and forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cofio.config.address import StoreAddress
from cofio.doors.cli import main

GUIDE = "# Tides\n\nHigh water is at noon.\n\n## Low water\n\nSix hours later.\n"
SECRET = "gh" + "p_" + "a8Kd02mXq91LsPz7Rt" + "VbYw34NcEfGh56Jk78"


@pytest.fixture(autouse=True)
def here(store: StoreAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file in it, and no memory yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COFIO_EMBEDDER", "none")
    monkeypatch.setenv("COFIO_STORE", store.spell())
    (tmp_path / "tides.md").write_text(GUIDE)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints."""
    assert main(list(words)) == code
    printed = capsys.readouterr()
    return printed.out if code == 0 else printed.err


def add(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The id of a document that was taken in."""
    return str(json.loads(run(capsys, "documents", "add", *words, "--json"))["id"])


def test_a_file_is_taken_in_found_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    known, title, topics = run(capsys, "documents", "add", "tides.md").strip().split("\t")
    assert (title, topics) == ("tides", "2 topics")
    assert "tides > Low water" in run(capsys, "search", "six hours later", "--kind", "topic")
    assert run(capsys, "documents", "list").split("\t")[:2] == [known, "tides"]
    shown = run(capsys, "documents", "show", known[:8])
    assert (
        shown
        == f"tides\nHigh water is at noon. Topics: Tides; Low water.\n\nTides  ({known}_1)\nLow water  ({known}_2)\n"
    )
    assert run(capsys, "documents", "show", known, "--text") == GUIDE
    assert json.loads(run(capsys, "documents", "show", known, "--json", "--text"))["text"] == GUIDE.strip()


def test_a_document_is_replaced_under_its_id(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    known = add(capsys, "tides.md", "--title", "The tides", "--category", "Sea")
    (here / "new.md").write_text("All is new.")
    assert add(capsys, "new.md", "--replace", known[:10]) == known
    listed = json.loads(run(capsys, "documents", "list", "--json"))
    assert (listed["title"], listed["category"], listed["topics"]) == ("The tides", "Sea", 1)
    assert run(capsys, "documents", "show", known, "--text") == "All is new.\n"


def test_a_document_is_forgotten_with_all_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (("documents", "rm"), ("rm",)):
        known = add(capsys, "tides.md")
        assert "cofio documents rm" in run(capsys, "rm", f"{known}_1", code=1)
        run(capsys, *command, known)
        assert run(capsys, "list", "--all") == ""
    assert "cofio documents list" in run(capsys, "documents", "show", "nothing-like-it", code=1)


def test_a_document_is_replaced_rather_than_edited(capsys: pytest.CaptureFixture[str]) -> None:
    known = add(capsys, "tides.md")
    for part in (known, f"{known}_1"):
        assert "`cofio documents add --replace`" in run(capsys, "edit", part, "--text", "x", code=1)
    assert run(capsys, "documents", "show", known, "--text") == GUIDE


def test_what_cannot_be_taken_in_is_told_and_the_rest_is(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "empty.md").write_text("")
    (here / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    assert main(["documents", "add", "empty.md", "old.doc", "tides.md"]) == 1
    printed = capsys.readouterr()
    assert "empty.md: The document holds no text." in printed.err
    assert "old.doc: " in printed.err
    assert "2 topics" in printed.out
    assert "nowhere.md" in run(capsys, "documents", "add", "nowhere.md", code=1)
    assert "regular file" in run(capsys, "documents", "add", "/dev/null", code=1)


def test_a_file_of_which_nobody_knows_what_it_is_needs_another_name(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "mystery").write_bytes(bytes(64))
    assert main(["documents", "add", "mystery"]) == 1
    told = capsys.readouterr().err
    assert "mystery: What the file is cannot be told" in told
    assert "give it a name that ends in what it is, such as .pdf" in told


def test_a_secret_is_refused_unless_it_is_allowed(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "key.md").write_text(f"# Access\n\nPush with {SECRET} as before.")
    assert "--allow-secrets" in run(capsys, "documents", "add", "key.md", code=1)
    known = add(capsys, "key.md", "--allow-secrets")
    assert SECRET in run(capsys, "documents", "show", known, "--text")


def test_each_project_has_documents_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    known = add(capsys, "tides.md", "--app", "shop", "--project", "web")
    assert run(capsys, "documents", "list") == ""
    run(capsys, "documents", "rm", known, code=1)
    assert known in run(capsys, "documents", "list", "--app", "shop", "--project", "web")


def test_options_for_one_file_are_refused_for_several(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (("--title", "T"), ("--replace", "d_1234")):
        assert "cofio documents add --help" in run(capsys, "documents", "add", "a.md", "b.md", *option, code=2)
