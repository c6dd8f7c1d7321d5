"""`cofio token`: tokens that are limited, and what is said of wrong limits."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio.http.tokens import FILE, Tokens

from .conftest import Cofio, Ran


def test_a_token_is_made_with_its_limits_and_listed_with_them(cofio: Cofio, folder: Path) -> None:
    made = {
        name: cofio("token", "add", name, *limits).out.strip()
        for name, limits in {
            "laptop": [],
            "app": ["--app", "shop"],
            "project": ["--app", "shop", "--project", "web"],
            "reader": ["--read-only"],
            "dashboard": ["--app", "shop", "--project", "web", "--read-only"],
        }.items()
    }
    rows = cofio("token", "list").rows
    assert [(name, limits) for name, _, limits in rows] == [
        ("laptop", "everything"),
        ("app", "the app shop"),
        ("project", "the project web of the app shop"),
        ("reader", "reading"),
        ("dashboard", "reading in the project web of the app shop"),
    ]
    listed = cofio("token", "list", "--json").out
    assert [json.loads(line) for line in listed.splitlines()][3:] == [
        {"name": "reader", "made": rows[3][1], "app": None, "project": None, "access": "read"},
        {"name": "dashboard", "made": rows[4][1], "app": "shop", "project": "web", "access": "read"},
    ]
    for name, shown in made.items():
        found = Tokens(folder / ".cofio").find(shown)
        assert found is not None
        assert found.name == name
        assert shown not in listed


def test_a_person_and_a_program_are_told_of_the_limits(cofio: Cofio, terminal: Callable[..., Ran]) -> None:
    ran = cofio("token", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "there are no tokens: every client on this machine is let in; `cofio token add NAME` makes one" in ran.err
    assert cofio("token", "list", "--json").err == ""
    said = cofio("token", "add", "t", "--app", "shop", "--read-only", "--json").json
    assert str(said.pop("token")).startswith("cofio_")
    assert said == {"name": "t", "app": "shop", "project": None, "access": "read"}
    assert "reading in the app shop" in terminal("token", "list").err


def test_a_full_disk_leaves_the_tokens_as_they_were_and_nothing_beside_them(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    cofio("token", "add", "first")
    before = (folder / ".cofio" / FILE).read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    for argv in (["token", "add", "second"], ["token", "rm", "first"]):
        ran = cofio(*argv)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == f"cofio: the disk that holds {folder}/.cofio/{FILE} is full; free some space and try again\n"
        left = {path.name: path.read_bytes() for path in (folder / ".cofio").iterdir() if path.name != "trusted"}
        assert left == {FILE: before}


@pytest.mark.parametrize("content", ["", "{}", '[{"name": "x"}]', "\xff", "[" * 100_000])
def test_the_doctor_finds_a_damaged_file_and_says_what_to_do(cofio: Cofio, folder: Path, content: str) -> None:
    cofio("add", "x")
    cofio("token", "add", "t")
    (folder / ".cofio" / FILE).write_bytes(content.encode("latin-1"))
    for argv in (["doctor"], ["doctor", "--fix"]):
        ran = cofio(*argv)
        assert ran.code == 1
        (problem,) = [row[1] for row in ran.rows if row[0] == "problem"]
        assert problem.startswith(f"{folder}/.cofio/{FILE} is damaged (")
        assert problem.endswith("): remove it, and make the tokens anew; until then no client is let in")
    assert cofio("doctor", "--json").json["ok"] is False


def test_the_doctor_closes_a_file_that_others_may_read_but_follows_no_link_and_opens_no_pipe(
    cofio: Cofio, folder: Path
) -> None:
    cofio("add", "x")
    cofio("token", "add", "t")
    elsewhere, file = folder / "elsewhere", folder / ".cofio" / FILE
    file.chmod(0o640)
    problem = f"others may look into {file}: its permissions are 0640, not 0600"
    ran = cofio("doctor")
    assert (ran.code, ran.rows[-1]) == (1, ["problem", problem])
    ran = cofio("doctor", "--fix")
    assert (ran.code, ran.rows[-2:]) == (0, [["mended", problem], ["ok", "nothing is wrong"]])
    elsewhere.write_text("[]")
    elsewhere.chmod(0o644)
    file.unlink()
    file.symlink_to(elsewhere)
    assert cofio("doctor", "--fix").rows[-1][1].startswith(f"{file} is a link; a memory's own files must not be links")
    assert elsewhere.stat().st_mode & 0o777 == 0o644
    file.unlink()
    os.mkfifo(file, 0o600)
    ran = cofio("doctor")
    assert (ran.code, ran.rows[-1][0]) == (1, "problem")
    assert ran.rows[-1][1].startswith(f"{file} is not a plain file")


@pytest.mark.parametrize("options", [["--project", "web"], ["--project", ""], ["--app"], ["--read-only=yes"]])
def test_wrong_options_are_wrong_usage(cofio: Cofio, folder: Path, options: list[str]) -> None:
    ran = cofio("token", "add", "t", *options)
    assert (ran.code, ran.out) == (2, "")
    assert ("--project needs --app" in ran.err) == ("--project" in options)
    assert not (folder / ".cofio" / FILE).exists()


@pytest.mark.parametrize("options", [["--app=.."], ["--app=shop", "--project="], ["--app=\x1b[31m"]])
def test_a_name_that_cannot_be_is_told_in_one_line(cofio: Cofio, folder: Path, options: list[str]) -> None:
    ran = cofio("token", "add", "t", *options)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("cofio: project: " if len(options) == 2 else "cofio: app: ")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert not (folder / ".cofio" / FILE).exists()


def test_a_token_without_limits_is_good_for_everything_and_unknown_limits_are_not_guessed(
    cofio: Cofio, folder: Path
) -> None:
    (folder / ".cofio").mkdir()
    (folder / ".cofio" / FILE).write_text('[{"name": "old", "made": "2026-01-01T00:00:00+00:00", "hash": "0"}]')
    assert cofio("token", "list").rows == [["old", "2026-01-01T00:00:00+00:00", "everything"]]
    assert cofio("token", "list", "--json").json["access"] == "all"
    (folder / ".cofio" / FILE).write_text('[{"name": "t", "made": "", "hash": "0", "access": "write"}]')
    ran = cofio("token", "list")
    assert ran.code == 1
    assert "access" in ran.err
    assert FILE in ran.err
