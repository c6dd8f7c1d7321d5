"""`cofio demo`: something to try things out on, that takes nobody's records away with it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cofio import Engine, Kind, Scope
from cofio.doors.cli.demo import TRIES

from .conftest import Cofio


def test_it_fills_a_memory_with_records_of_several_kinds_and_what_it_says_to_try_finds_something(cofio: Cofio) -> None:
    ran = cofio("demo")
    assert ran.code == 0
    assert "of an invented team in demo, rest/demo/demo, files/demo" in ran.out
    kinds = {row[1] for row in cofio("list", "--limit", "100").rows}
    assert kinds >= {"note", "item", "state", "file", "turn", "episode", "fact", "profile"}
    for line in TRIES:
        assert f"cofio:   {line}\n" in ran.err
        tried = cofio(*shlex.split(line)[1:])
        assert (tried.code, bool(tried.rows)) == (0, True), line
    before = cofio("export").out
    assert cofio("demo", "--json").json["made"] is False
    assert cofio("export").out == before


@pytest.mark.usefixtures("process")
def test_several_at_once_write_it_once(cofio: Cofio, folder: Path) -> None:
    cofio("add", "mine")
    command = [sys.executable, "-m", "cofio", "demo", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ended = [(*process.communicate(timeout=60), process.returncode) for process in running]
    assert [json.loads(out)["made"] for out, _, code in ended if code == 0].count(True) == 1
    assert all("another `cofio demo` is just putting it here" in err for _, err, code in ended if code)
    assert cofio("demo", "--remove").out == "took the demo away: 21 records\n"
    assert [row[-1] for row in cofio("list").rows] == ["mine"]


def test_one_that_was_cut_short_is_told_and_cleared(cofio: Cofio, memory: Engine) -> None:
    memory.put(Scope("demo"), "records", data=[], kind=Kind.LEDGER)
    before = cofio("export").out
    ran = cofio("demo")
    assert (ran.code, ran.out) == (1, "")
    assert "another `cofio demo` is just putting it here, or was cut short" in ran.err
    assert cofio("export").out == before
    assert cofio("demo", "--remove").code == 0
    assert cofio("demo", "--json").json["made"] is True


def test_it_is_taken_away_whole(cofio: Cofio, store_home: Path) -> None:
    cofio("add", "mine")
    before = cofio("export").out
    cofio("demo")
    cofio("files", "write", "runbook.md", "changed", "--owner", "demo")
    assert cofio("demo", "--remove").out == "took the demo away: 21 records\n"
    assert cofio("export").out == before
    assert not [*(store_home / "vault").rglob("*.md")]
    ran = cofio("demo", "--remove")
    assert ran.code == 1
    assert "the demo is not in this memory" in ran.err


def test_what_others_put_beside_it_stays(cofio: Cofio, memory: Engine) -> None:
    cofio("demo")
    scopes = ("demo", "demo/harbour", "rest/demo/demo/user/jonas", "files/demo")
    own = [memory.write(Scope.parse(scope), text="written by somebody else").id for scope in scopes]
    ran = cofio("demo", "--remove")
    assert "4 records that others put there stay" in ran.err
    assert sorted(row[0] for row in cofio("list").rows) == sorted(own)
    assert cofio("demo").code == 1


def test_it_does_not_mix_with_what_is_there(cofio: Cofio, memory: Engine) -> None:
    memory.write(Scope("demo"), text="mine", kind=Kind.NOTE)
    before = cofio("export").out
    for argv in (["demo"], ["demo", "--remove"]):
        ran = cofio(*argv)
        assert (ran.code, ran.out) == (1, "")
        assert cofio("export").out == before
    assert "demo already holds 1 record of yours, so nothing was written" in cofio("demo").err
