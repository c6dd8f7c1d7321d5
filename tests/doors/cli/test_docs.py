"""docs/cli.md names every command and option, and its examples print what it says."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.config.settings import Settings
from cofio.doors.cli import main
from cofio.doors.cli.command_line import build_parser
from cofio.doors.cli.parser import Parser
from cofio.doors.cli.record_options import IMPORTANCES, KINDS
from cofio.embed.minilm import MINILM
from cofio.embed.model_files import is_installed
from cofio.values.records import Importance, Kind

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r"^## cofio (\w+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
ID = re.compile(r"\b01[0-9a-hjkmnp-tv-z]{24}\b")
_VARYING = [
    (re.compile(r"\bcofio_[\w-]{43}(?![\w-])"), "TOKEN"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00| UTC)"), "TIME"),
    (re.compile(r"\d+(\.\d+)? [KMGT]?B\b"), "SIZE"),
    (re.compile(r"^words\t\d+", re.MULTILINE), "words NUMBER"),
    (re.compile(r"\d+(\.\d+)+"), "NUMBER"),
    (ID, "ID"),
    (re.compile(r"\b01[0-9a-hjkmnp-tv-z]{6,23}\b"), "ID"),  # as people see it
]


def examples() -> Iterator[tuple[str, str]]:
    """Every command that the page shows, with what it prints on both streams, in order."""
    for block in _BLOCK.findall(PAGE.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def sections() -> dict[str, str]:
    """What the page says of each command."""
    return dict(_SECTION.findall(PAGE.read_text()))


def commands() -> dict[str, Parser]:
    """Each command's parser; a command's verbs count to it."""
    (action,) = [each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(action.choices)


def options(command: Parser) -> Iterator[str]:
    """Every option and argument of a command, as it is written."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, its in action.choices.items():
                yield verb
                yield from options(its)
        elif action.option_strings:
            yield from action.option_strings
        else:
            yield str(action.metavar)


def test_the_page_has_a_section_for_every_command_and_no_other() -> None:
    assert list(sections()) == list(commands())


@pytest.mark.parametrize("name", commands())
def test_every_option_is_documented_and_the_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    introduction = PAGE.read_text().partition("\n## ")[0]
    for option in options(commands()[name]):
        common = option in ("-h", "--help", "--store", "--json")
        text = introduction if common else sections()[name]
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"{option} of {name} is not documented"
    assert main([name, "--help"]) == 0
    assert f"example:\n  cofio {name}" in capsys.readouterr().out


def test_the_help_names_every_kind_and_importance() -> None:
    assert KINDS.replace(" or ", ", ").split(", ") == list(Kind)
    assert IMPORTANCES.replace(" or ", ", ").split(", ") == list(Importance)


def test_the_examples_print_what_the_page_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COFIO_EMBEDDER")
    models = Settings().models_folder
    if not is_installed(models, MINILM):
        pytest.skip("the page's scores are those of the model, which is not installed")
    monkeypatch.setenv("COFIO_MODELS", str(models))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))  # what other programs left in ours is not on the page
    meant: dict[str, str] = {}  # the ids of the page, as they are here
    for command, expected in examples():
        typed = ID.sub(lambda found: meant.get(found[0], found[0]), command)
        printed = run(typed, monkeypatch).replace(str(folder), "/home/me").replace(str(models), "/home/me/models")
        meant.update(zip(ID.findall(expected), ID.findall(printed), strict=False))
        assert steady(printed) == steady(expected), command


def run(typed: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a command prints, on stdout and stderr as they come."""
    said, _, line = typed.rpartition(" | ")
    words = shlex.split(said)
    given = f"{words[1]}\n" if words else ""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        main(shlex.split(line)[1:])
    screen.seek(0)
    return screen.read()


def steady(text: str) -> str:
    """The text without what differs from run to run."""
    for varying, name in _VARYING:
        text = varying.sub(name, text)
    return text
