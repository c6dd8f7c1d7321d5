"""`cofio documents`: files become documents, are found, shown, replaced and forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Cofio

GUIDE = "# Tides\n\nHigh water is at noon.\n\n## Low water\n\nSix hours later.\n"
SECRET = "gh" + "p_" + "a8Kd02mXq91LsPz7Rt" + "VbYw34NcEfGh56Jk78"


@pytest.fixture(autouse=True)
def tides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in a folder that has no memory yet."""
    monkeypatch.setenv("COFIO_EMBEDDER", "none")
    (folder / "tides.md").write_text(GUIDE)


def run(cofio: Cofio, *words: str, code: int = 0) -> str:
    """What a command prints."""
    ran = cofio(*words)
    assert ran.code == code
    return ran.out if code == 0 else ran.err


def add(cofio: Cofio, *words: str) -> str:
    """The id of a document that was taken in."""
    return str(json.loads(run(cofio, "documents", "add", *words, "--json"))["id"])


def test_a_file_is_taken_in_found_and_shown(cofio: Cofio) -> None:
    known, title, topics = run(cofio, "documents", "add", "tides.md").strip().split("\t")
    assert (title, topics) == ("tides", "2 topics")
    assert "tides > Low water" in run(cofio, "search", "six hours later", "--kind", "topic")
    assert run(cofio, "documents", "list").split("\t")[:2] == [known, "tides"]
    shown = run(cofio, "documents", "show", known[:8])
    assert (
        shown
        == f"tides\nHigh water is at noon. Topics: Tides; Low water.\n\nTides  ({known}_1)\nLow water  ({known}_2)\n"
    )
    assert run(cofio, "documents", "show", known, "--text") == GUIDE
    assert json.loads(run(cofio, "documents", "show", known, "--json", "--text"))["text"] == GUIDE.strip()


def test_a_document_is_replaced_under_its_id(cofio: Cofio, folder: Path) -> None:
    known = add(cofio, "tides.md", "--title", "The tides", "--category", "Sea")
    (folder / "new.md").write_text("All is new.")
    assert add(cofio, "new.md", "--replace", known[:10]) == known
    listed = json.loads(run(cofio, "documents", "list", "--json"))
    assert (listed["title"], listed["category"], listed["topics"]) == ("The tides", "Sea", 1)
    for part in (known, f"{known}_1"):
        assert "`cofio documents add --replace`" in run(cofio, "edit", part, "--text", "x", code=1)
    assert run(cofio, "documents", "show", known, "--text") == "All is new.\n"


def test_a_document_is_forgotten_with_all_that_it_has(cofio: Cofio) -> None:
    for command in (("documents", "rm"), ("rm",)):
        known = add(cofio, "tides.md")
        assert "cofio documents rm" in run(cofio, "rm", f"{known}_1", code=1)
        run(cofio, *command, known)
        assert run(cofio, "list", "--all") == ""
    assert "cofio documents list" in run(cofio, "documents", "show", "nothing-like-it", code=1)


def test_what_cannot_be_taken_in_is_told_and_the_rest_is(cofio: Cofio, folder: Path) -> None:
    (folder / "empty.md").write_text("")
    (folder / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    (folder / "mystery").write_bytes(bytes(64))
    printed = cofio("documents", "add", "empty.md", "old.doc", "mystery", "tides.md")
    assert printed.code == 1
    assert "empty.md: The document holds no text." in printed.err
    assert "old.doc: " in printed.err
    assert "give it a name that ends in what it is, such as .pdf" in printed.err
    assert "2 topics" in printed.out
    assert "nowhere.md" in run(cofio, "documents", "add", "nowhere.md", code=1)
    assert "regular file" in run(cofio, "documents", "add", "/dev/null", code=1)


def test_a_secret_is_refused_unless_it_is_allowed(cofio: Cofio, folder: Path) -> None:
    (folder / "key.md").write_text(f"# Access\n\nPush with {SECRET} as before.")
    assert "--allow-secrets" in run(cofio, "documents", "add", "key.md", code=1)
    known = add(cofio, "key.md", "--allow-secrets")
    assert SECRET in run(cofio, "documents", "show", known, "--text")


def test_each_project_has_documents_of_its_own(cofio: Cofio) -> None:
    known = add(cofio, "tides.md", "--app", "shop", "--project", "web")
    assert run(cofio, "documents", "list") == ""
    run(cofio, "documents", "rm", known, code=1)
    assert known in run(cofio, "documents", "list", "--app", "shop", "--project", "web")


def test_options_for_one_file_are_refused_for_several(cofio: Cofio) -> None:
    for option in (("--title", "T"), ("--replace", "d_1234")):
        assert "cofio documents add --help" in run(cofio, "documents", "add", "a.md", "b.md", *option, code=2)
