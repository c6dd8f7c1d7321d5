"""`cofio edit`: a record's words are changed by its options or in an editor, and nobody's are overwritten."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from cofio import Engine, Scope

from .conftest import Cofio

pytestmark = pytest.mark.usefixtures("process")


@pytest.fixture
def note(cofio: Cofio) -> str:
    """A note."""
    return cofio(
        "add", "-", "--title", "Going live: how", "--tag", "ops,release", stdin="The deploy runs on Fridays."
    ).id


@pytest.fixture
def editor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that runs what is written into it on the file, after the program's own words."""
    script = folder / "my editor.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", f"'{script}' --wait")
    return script


def use(editor: Path, *lines: str) -> None:
    editor.write_text("\n".join(["#!/bin/sh", "set -e", '[ "$1" = --wait ]', 'file="$2"', *lines, ""]))


def test_options_change_what_they_name_and_nothing_else(cofio: Cofio, note: str, memory: Engine) -> None:
    before = memory.read(note)
    ran = cofio("edit", note, "--title", "Deploys")
    assert ran.out.startswith("edited title of ")
    after = memory.read(note)
    assert (after.title, after.text, after.tags) == ("Deploys", before.text, ("ops", "release"))
    assert cofio("edit", note, "--text", "Never.", "--tag", "a,b", "--tag", "c", "--json").json == {
        "id": note, "version": 3, "edited": ["tags", "text"],
    }  # fmt: skip
    assert (memory.read(note).text, memory.read(note).tags) == ("Never.", ("a", "b", "c"))
    cofio("edit", note, "--no-tags")
    assert memory.read(note).tags == ()
    cofio("edit", note, "--stdin", stdin="two\nlines\n")
    assert memory.read(note).text == "two\nlines"


def test_a_record_is_edited_by_its_key_and_found_by_its_new_words(cofio: Cofio, memory: Engine) -> None:
    branch = cofio("add", "main", "--key", "branch").id
    assert cofio("edit", "--key", "branch", "--text", "release").code == 0
    assert memory.read(branch).text == "release"
    assert [row[2] for row in cofio("search", "release", "--mode", "keyword").rows] == [branch]
    assert cofio("search", "main", "--mode", "keyword").rows == []
    assert "`cofio list` shows what there is" in cofio("edit", "--key", "nothing", "--text", "x").err


def test_the_editor_gets_title_tags_and_text(
    cofio: Cofio, note: str, editor: Path, folder: Path, memory: Engine, store_home: Path
) -> None:
    use(
        editor,
        'cp "$file" seen',
        'stat -c %a "$file" > mode',
        "sed -i -e 's/Fridays/Mondays/' -e 's/^tags: .*/tags: x/' \"$file\"",
    )
    assert cofio("edit", note).out.startswith("edited tags and text of ")
    assert (folder / "seen").read_text() == (
        "---\ntitle: Going live: how\ntags: ops, release\n---\nThe deploy runs on Fridays.\n"
    )
    assert (folder / "mode").read_text() == "600\n"
    record = memory.read(note)
    assert (record.title, record.text, record.tags) == ("Going live: how", "The deploy runs on Mondays.", ("x",))
    assert not (store_home / "edits").exists()


def test_a_record_that_changed_meanwhile_is_not_overwritten_and_the_words_are_kept(
    cofio: Cofio, note: str, editor: Path, store_home: Path, memory: Engine
) -> None:
    use(editor, f"{sys.executable} -m cofio edit {note} --title Theirs", 'echo "My own words." >> "$file"')
    ran = cofio("edit", note)
    assert ran.code == 1
    (kept,) = (store_home / "edits").iterdir()
    assert f"what you wrote is in {kept}; take from it what should stay" in ran.err
    assert "has changed" in ran.err
    assert kept.read_text().endswith("My own words.\n")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert (memory.read(note).title, memory.read(note).text) == ("Theirs", "The deploy runs on Fridays.")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['echo "no head" > "$file"'], "does not begin with the title and the tags"),
        (["sed -i 's/^title:/titel:/' \"$file\""], "titel: Going live: how is neither the title nor the tags"),
        (["printf '\\377' >> \"$file\""], "is not UTF-8 text any more"),
        (["printf -- '---\\ntitle:\\ntags:\\n---\\n' > \"$file\""], "text: is empty"),
        (['echo AKIAIOSFODNN7EXAMPLQ >> "$file"'], "memory is no place for secrets"),
        (['echo more >> "$file"', "exit 3"], "ended with 3, so nothing was changed"),
    ],
)
def test_what_cannot_be_taken_is_told_and_kept(
    cofio: Cofio, note: str, editor: Path, store_home: Path, lines: list[str], said: str
) -> None:
    before = cofio("export").out
    use(editor, *lines)
    ran = cofio("edit", note)
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err
    assert len([*(store_home / "edits").iterdir()]) == 1
    assert cofio("export").out == before


@pytest.mark.parametrize(
    ("text", "script", "after"),
    [
        ("one\r\ntwo\r\n", "true", None),
        ("one\ntwo", "sed -i 's/$/\\r/' \"$file\"", None),
        ("one\ntwo", "sed -i 's/two$/three\\r/' \"$file\"", "one\nthree"),
    ],
)
def test_line_ends_are_nobody_s_words(
    cofio: Cofio, memory: Engine, editor: Path, text: str, script: str, after: str | None
) -> None:
    record = memory.write(Scope("mcp"), text=text, title="two\nlines", tags=["a\nb", "c"])
    use(editor, script)
    ran = cofio("edit", record.id)
    assert ran.code == 0
    assert memory.read(record.id).text == (after or text)
    assert (memory.read(record.id).title, memory.read(record.id).tags) == (record.title, record.tags)
    assert ("nothing was changed" in ran.err) == (after is None)


def test_an_editor_that_cannot_be_started_is_told_and_a_blank_one_is_none(
    cofio: Cofio, note: str, editor: Path, store_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, chosen = cofio("export").out, os.environ["VISUAL"]
    monkeypatch.setenv("VISUAL", "vi 'x")
    assert "EDITOR: vi 'x has a quotation mark that is not closed" in cofio("edit", note).err
    monkeypatch.setenv("VISUAL", "no-such-editor")
    ran = cofio("edit", note)
    assert ran.code == 1
    assert "the editor no-such-editor cannot be started (No such file or directory): set EDITOR" in ran.err
    for blank in ("\t ", "''"):
        monkeypatch.setenv("VISUAL", blank)
        monkeypatch.setenv("EDITOR", blank)
        ran = cofio("edit", note)
        assert ran.code == 2
        assert "say what to change: --title, --text" in ran.err
    monkeypatch.setenv("EDITOR", chosen)
    assert cofio("edit", note).err == "cofio: nothing was changed\n"
    monkeypatch.setenv("VISUAL", str(editor))  # a path with spaces
    assert cofio("edit", note).err == "cofio: nothing was changed\n"
    assert cofio("export").out == before
    assert not (store_home / "edits").exists()


@pytest.mark.parametrize("more", [[], ["exit 3"]])
def test_an_editor_that_removes_the_file_changes_nothing(
    cofio: Cofio, note: str, editor: Path, store_home: Path, more: list[str]
) -> None:
    before = cofio("export").out
    use(editor, 'rm "$file"', *more)
    ran = cofio("edit", note)
    assert (ran.code, ran.out) == (1, "")
    assert ("ended with 3" if more else "the editor removed the file") + ", so nothing was changed" in ran.err
    assert cofio("export").out == before
    assert not (store_home / "edits").exists()


@pytest.mark.parametrize("argv", [[], ["id", "--key", "k"], ["id", "--text", "x", "--stdin"]])
def test_wrong_usage_is_told(cofio: Cofio, argv: list[str]) -> None:
    assert cofio("edit", *argv).code == 2


@pytest.mark.parametrize(
    ("kind", "said"),
    [("turn", "stays as it was said"), ("file", "cofio files edit"), ("profile", "vault"), ("ledger", "its own use")],
)
def test_what_is_edited_elsewhere_says_where(cofio: Cofio, memory: Engine, kind: str, said: str) -> None:
    record = memory.write(Scope("mcp"), text="as it is", kind=kind)
    ran = cofio("edit", record.id, "--text", "other")
    assert ran.code == 1
    assert said in ran.err
    assert memory.read(record.id) == record


def test_a_fact_of_a_conversation_is_edited_in_the_vault_too(
    cofio: Cofio, store_home: Path, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_VAULT", "true")
    cofio("chat", "import", "-", "--session", "oslo", stdin="Anna: I moved to Oslo in May, and I love skiing.")
    (fact,) = (row[0] for row in cofio("list", "--kind", "fact").rows)
    assert cofio("edit", fact, "--text", "Anna moved to Bergen.").code == 0
    assert memory.read(fact).text == "Anna moved to Bergen."
    files = [path.read_text() for path in (store_home / "vault").rglob("atomic_fact-*.md")]
    assert any("Anna moved to Bergen." in text for text in files)
    assert "to look at" not in cofio("vault", "status").out
