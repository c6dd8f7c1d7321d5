"""Who does not know the commands by heart, or mistypes one, is told what there is and what was meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from cofio import __version__
from cofio.config.suggestions import SYNONYMS, suggest
from cofio.doors.cli.command_line import build_parser
from cofio.values.query import FIELDS

from .conftest import Cofio, Ran


@pytest.mark.parametrize("topic", [["search"], ["vault", "sync"], ["chat", "import"], []])
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
        (["serach", "x"], "cofio: serach is not a command; did you mean search?", "cofio --help"),
        (["help", "serach"], "cofio help: serach is not a command; did you mean search?", "cofio help --help"),
        (["help", "vault", "snyc"], "snyc is not a verb of `cofio vault`; did you mean sync?", "cofio help --help"),
        (["help", "add", "more"], "`cofio add` has no more", "cofio help --help"),
        (["zzz"], "zzz is not a command; use add, search, list", "cofio --help"),
        (["search", "x", "--limt", "3"], "there is no option --limt; did you mean --limit?", "cofio search --help"),
        (["search", "x", "--limt=3"], "there is no option --limt; did you mean --limit?", "cofio search --help"),
        (["search", "x", "--zzz"], "cofio search: there is no option --zzz\n", "cofio search --help"),
        (["chat", "import", "f", "--projct", "p"], "did you mean --project?", "cofio chat import --help"),
        (["list", "--kind", "facts"], "facts is not a kind; did you mean fact?", "cofio list --help"),
        (["add", "x", "--importance", "hihg"], "did you mean high?", "cofio add --help"),
        (["mcp", "config", "clade-code"], "did you mean claude-code?", "cofio mcp config --help"),
        (["search", "x", "--mode", "keywords"], "did you mean keyword?", "cofio search --help"),
        (["vault", "stauts"], "stauts is not a verb of `cofio vault`; did you mean status?", "cofio vault --help"),
        (["vault"], "cofio vault: say what to do: status, sync, rebuild, adopt", "cofio vault --help"),
        (["show", "a", "b"], "cofio show: b is too much", "cofio show --help"),
        (["token", "add", "x", "--project", "p"], "cofio token add: --project needs --app", "cofio token add --help"),
        (["list", "--limit", "ten"], "'ten' is not a whole number", "cofio list --help"),
        (["search", "x", "--floor", "2"], "'2' is not a number from 0 to 1", "cofio search --help"),
        (["list", "--where", "autor=pm"], "'autor' is not a field; did you mean author?", "cofio list --help"),
        (["list", "--where", "kind=notes"], "kind: 'notes' is not known; did you mean note?", "cofio list --help"),
        (["import", "evros"], "there is no file evros; did you mean everos?", "cofio import --help"),
        (["search", "  "], "cofio search: say what to look for", "cofio search --help"),
    ],
)
def test_a_slip_is_told_with_what_was_meant_and_where_to_read_more(
    cofio: Cofio, folder: Path, argv: list[str], said: str, more: str
) -> None:
    ran = cofio(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.endswith(f"Try `{more}`.\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("written", "meant"), [("LIST", "list"), ("sarch", "search"), ("q", None), ("", None)])
def test_only_what_is_alike_is_suggested(written: str, meant: str | None) -> None:
    assert suggest(written, ["list", "search", "Add"]) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("remove", "rm"), ("delete", "rm"), ("forget", "rm"), ("get", "show"), ("find", "search"), ("update", "edit"),
        ("remember", "add"), ("start", "serve"), ("ls", "list"), ("check", "doctor"), ("status", "stats"),
        ("settings", "config"), ("Delete", "rm"),
    ],
)  # fmt: skip
def test_a_command_of_another_program_is_known_by_what_it_is_called_here(
    cofio: Cofio, written: str, meant: str
) -> None:
    ran = cofio(written, "x")
    assert ran.code == 2
    assert f"{written} is not a command; did you mean {meant}?" in ran.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rm", "--force", "x"], "there is no option --force; did you mean --yes?\n"),
        (["search", "x", "--top", "5"], "there is no option --top; did you mean --limit?\n"),
        (["add", "x", "--file", "y"], "there is no option --file\n"),
        (["add", "x", "--flag"], "there is no option --flag\n"),
        (["list", "-store", "y"], "there is no option -store; did you mean --store?\n"),
        (["list", "--type", "fact"], "there is no option --type; did you mean --kind?\n"),
        (["token", "delete", "x"], "delete is not a verb of `cofio token`; did you mean rm?\n"),
    ],
)
def test_an_option_is_suggested_for_what_it_says_and_not_for_its_dashes(
    cofio: Cofio, argv: list[str], said: str
) -> None:
    ran = cofio(*argv)
    assert ran.code == 2
    assert said in ran.err


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
        (["import", "nothing.jsonl"], "there is no file nothing.jsonl"),
        (["import", "."], "{1} is a folder; name a file"),
        (["chat", "import", "nothing.json"], "there is no file nothing.json"),
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
    assert said.format(folder, ".") in ran.err
    assert "Errno" not in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == [".cofio", "a-file"]


def test_no_tokens_are_told(cofio: Cofio) -> None:
    ran = cofio("token", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "there are no tokens: every client on this machine is let in; `cofio token add NAME` makes one" in ran.err
    assert cofio("token", "list", "--json").err == ""


def test_the_help_of_serve_names_every_door(cofio: Cofio) -> None:
    shown = " ".join(cofio("serve", "--help").out.split())
    assert all(each in shown for each in ("/mcp", "REST", "/threads/", "/api/v1/memory-tool"))


def test_several_tags_may_stand_in_one_option(cofio: Cofio) -> None:
    added = cofio("add", "x", "--tag", "a, b,a", "--tag", "c", "--json").out
    assert json.loads(added)["tags"] == ["a", "b", "c"]


def test_config_at_a_terminal_fits(terminal: Callable[..., Ran]) -> None:
    lines = terminal("config", columns=80, NO_COLOR="1", TERM="xterm").err.splitlines()
    assert any(line.startswith("floor") for line in lines)


def test_every_command_names_a_function_that_is_there() -> None:
    (commands,) = build_parser().commands()
    for name, command in commands.choices.items():
        module, _, function = command.get_default("run").partition(":")
        run = getattr(import_module(f"cofio.doors.cli.{module}"), function)
        assert run.__doc__, name
