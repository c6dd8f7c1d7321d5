"""Who does not know the commands by heart, or mistypes one, is told what there is and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio import __version__
from cofio.config.suggestions import SYNONYMS
from cofio.doors.cli.command_line import build_parser
from cofio.values.query import FIELDS

from .conftest import Cofio


@pytest.mark.parametrize("topic", [["search"], ["vault", "sync"], []])
def test_help_is_the_help_of_the_command(cofio: Cofio, topic: list[str]) -> None:
    ran = cofio("help", *topic)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == cofio(*topic, "--help").out


def test_the_version_is_a_command_too(cofio: Cofio) -> None:
    assert cofio("version").out == cofio("--version").out == f"cofio {__version__}\n"
    assert cofio("version", "--json").json == {"version": __version__}


@pytest.mark.parametrize(
    ("argv", "said", "more"),
    [
        ([], "usage: cofio", ""),
        (["serach", "x"], "cofio: serach is not a command; did you mean search?", "cofio --help"),
        (["Delete", "x"], "Delete is not a command; did you mean rm?", "cofio --help"),
        (["help", "vault", "snyc"], "snyc is not a verb of `cofio vault`; did you mean sync?", "cofio help --help"),
        (["help", "add", "more"], "`cofio add` has no more", "cofio help --help"),
        (["zzz"], "zzz is not a command; use add, search, list", "cofio --help"),
        (["search", "x", "--limt=3"], "there is no option --limt; did you mean --limit?", "cofio search --help"),
        (["search", "x", "--top", "5"], "there is no option --top; did you mean --limit?", "cofio search --help"),
        (["search", "x", "--zzz"], "cofio search: there is no option --zzz\n", "cofio search --help"),
        (["list", "-store", "y"], "there is no option -store; did you mean --store?\n", "cofio list --help"),
        (["chat", "import", "f", "--projct", "p"], "did you mean --project?", "cofio chat import --help"),
        (["list", "--kind", "facts"], "facts is not a kind; did you mean fact?", "cofio list --help"),
        (["add", "x", "--importance", "hihg"], "did you mean high?", "cofio add --help"),
        (["mcp", "config", "clade-code"], "did you mean claude-code?", "cofio mcp config --help"),
        (["search", "x", "--mode", "keywords"], "did you mean keyword?", "cofio search --help"),
        (["token", "delete", "x"], "delete is not a verb of `cofio token`; did you mean rm?\n", "cofio token --help"),
        (["vault"], "cofio vault: say what to do: status, sync, rebuild, adopt", "cofio vault --help"),
        (["show", "a", "b"], "cofio show: b is too much", "cofio show --help"),
        (["list", "--limit", "ten"], "'ten' is not a whole number", "cofio list --help"),
        (["list", "--where", "kind=notes"], "kind: 'notes' is not known; did you mean note?", "cofio list --help"),
        (["import", "evros"], "there is no file evros; did you mean everos?", "cofio import --help"),
        (["import", "mem0", "folder"], "mem0 is not a product whose memory can be taken over", "cofio import --help"),
        (["search", "  "], "cofio search: say what to look for", "cofio search --help"),
        (["completion", "powershell"], "powershell is not known; use bash, zsh or fish", "cofio completion --help"),
    ],
)
def test_a_slip_is_told_with_what_was_meant_and_where_to_read_more(
    cofio: Cofio, folder: Path, argv: list[str], said: str, more: str
) -> None:
    ran = cofio(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not more or ran.err.endswith(f"Try `{more}`.\n")
    assert list(folder.iterdir()) == []


def test_every_synonym_means_something_that_there_is() -> None:
    words: set[str] = set()
    readers = [build_parser()]
    while readers:
        reader = readers.pop()
        words |= {*reader._option_string_actions, *(name for action in reader.commands() for name in action.choices)}
        readers += [each for action in reader.commands() for each in action.choices.values()]
    assert {meant for every in SYNONYMS.values() for meant in every} <= words | set(FIELDS)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["export", "no/such/x.jsonl"], "there is no folder {0}/no/such, so {0}/no/such/x.jsonl cannot be used"),
        (["export", "."], "{0} is a folder; name a file"),
        (["backup", "a-file/copy"], "a-file/copy cannot be reached: there is no folder"),
        (["add", "x", "--store", "a-file/under"], "cannot be made or written (Not a directory): name another folder"),
    ],
)
def test_a_path_that_is_of_no_use_is_told_by_its_own_name(
    cofio: Cofio, folder: Path, argv: list[str], said: str
) -> None:
    cofio("add", "x")
    (folder / "a-file").write_text("x")
    ran = cofio(*argv)
    assert (ran.code, ran.out) == (1, "")
    assert said.format(folder) in ran.err
    assert "Errno" not in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == [".cofio", "a-file"]
