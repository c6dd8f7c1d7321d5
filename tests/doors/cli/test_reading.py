"""`cofio list`, `show`, `scopes`, `stats` and `rm`: what is remembered can be seen, and forgotten."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio import Engine, Scope

from .conftest import Cofio, Ran


@pytest.fixture
def ids(cofio: Cofio) -> list[str]:
    """Three records, the oldest first."""
    return [
        cofio("add", "one", "--title", "First").id,
        cofio("add", "two\nlines\tand tabs", "--scope", "team/a", "--kind", "fact").id,
        cofio("add", "three", "--key", "k", "--scope", "team").id,
    ]


def test_list_has_the_last_changed_first_on_a_line_each(cofio: Cofio, ids: list[str]) -> None:
    rows = cofio("list").rows
    assert [row[0] for row in rows] == ids[::-1]
    assert [row[1:3] + row[4:] for row in rows] == [
        ["item", "team", "k", "three"],
        ["fact", "team/a", "", "two lines and tabs"],
        ["note", "mcp", "First", "one"],
    ]
    lines = cofio("list", "--oldest", "--json").out
    assert [json.loads(line)["id"] for line in lines.splitlines()] == ids
    assert lines == cofio("export").out


def test_list_keeps_to_its_bounds_and_says_when_there_is_more(cofio: Cofio, ids: list[str]) -> None:
    def listed(*argv: str) -> list[str]:
        return [row[0] for row in cofio("list", *argv).rows]

    assert listed("--oldest") == ids
    assert listed("--scope", "team") == [ids[2], ids[1]]
    assert listed("--scope", "team", "--exact") == [ids[2]]
    assert listed("--kind", "fact", "--kind", "note") == [ids[1], ids[0]]
    assert listed("--limit", "1", "--offset", "1") == [ids[1]]
    assert cofio("list", "--limit", "2").err == "cofio: 2 of 3 records; --offset 2 goes on\n"
    assert cofio("list", "--limit", "3").err == ""
    assert cofio("list", "--scope", "nowhere").err == "cofio: no records here\n"
    assert cofio("list", "--offset", "9").err == "cofio: no records here after the first 3\n"


def test_show_prints_every_field_and_the_text_whole(cofio: Cofio) -> None:
    shown = cofio("show", cofio("add", "line 1\n\tline 2", "--title", "T", "--tag", "a", "--tag", "b", "--ttl", "1d",
                                "--data", '{"é": 1}', "--author", "me").id).out  # fmt: skip
    fields, _, text = shown.partition("\n\n")
    rows = dict(line.split("\t") for line in fields.splitlines())
    assert text == "line 1\n\tline 2\n"
    assert (rows["title"], rows["tags"], rows["data"], rows["author"]) == ("T", "a, b", '{"é": 1}', "me")
    assert {"id", "scope", "kind", "importance", "created_at", "updated_at", "expires_at", "version"} <= rows.keys()


def test_show_finds_by_key(cofio: Cofio, ids: list[str]) -> None:
    assert cofio("show", "--key", "k", "--scope", "team", "--json").json["id"] == ids[2]
    for argv in (["--key", "k"], ["--key", "k", "--scope", "team", "--kind", "note"]):
        missing = cofio("show", *argv)
        assert missing.code == 1
        assert "with the key 'k'; `cofio list` shows what there is" in missing.err


@pytest.mark.parametrize(
    "argv", [["show"], ["show", "some-id", "--key", "k"], ["rm"], ["rm", "some-id", "--scope", "team"]]
)
def test_what_is_meant_is_named_once(cofio: Cofio, argv: list[str]) -> None:
    assert cofio(*argv).code == 2


def test_scopes_and_stats_count(cofio: Cofio, ids: list[str], memory: Engine) -> None:
    rows = dict(cofio("stats").rows)
    assert (rows["records"], rows["vectors"]) == ("3", "3 by hashed-384")
    memory.write(Scope(), text="at the root")
    assert cofio("scopes").rows == [["/", "1"], ["mcp", "1"], ["team", "1"], ["team/a", "1"]]
    assert cofio("scopes", "--scope", "team/a").rows == [["team/a", "1"]]
    assert cofio("scopes", "--scope", "mcp", "--json").json == {"scopes": [{"scope": ["mcp"], "records": 1}]}


def test_rm_forgets_the_records_named_or_none_when_one_id_is_wrong(cofio: Cofio, ids: list[str]) -> None:
    ran = cofio("rm", ids[0], "nosuchid")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "cofio: nothing found with id 'nosuchid'; `cofio list` shows what there is\n"
    assert len(cofio("list").rows) == 3
    assert cofio("rm", ids[0], ids[1], ids[0]).out == "forgot 2 records\n"
    assert [row[0] for row in cofio("list").rows] == [ids[2]]


def test_rm_of_a_scope_needs_a_yes_where_nobody_can_be_asked(cofio: Cofio, ids: list[str]) -> None:
    refused = cofio("rm", "--scope", "team", stdin="y\n")
    assert refused.code == 2
    assert "needs --yes" in refused.err
    assert len(cofio("list").rows) == 3
    assert cofio("rm", "--scope", "team", "--yes", "--json").json == {"removed": 2}
    assert [row[0] for row in cofio("list").rows] == [ids[0]]


@pytest.mark.parametrize(("answer", "left"), [("YES", 1), ("n", 3), ("", 3)])
def test_rm_of_a_scope_asks_at_a_terminal(
    cofio: Cofio, ids: list[str], terminal: Callable[..., Ran], answer: str, left: int
) -> None:
    ran = terminal("rm", "--scope", "team", typed=f"{answer}\n")
    assert "Forget 2 records in team for good? [y/N]" in ran.err
    assert ran.code == (0 if left == 1 else 1)
    assert len(cofio("list").rows) == left


def test_only_add_and_import_make_a_memory(cofio: Cofio, folder: Path) -> None:
    for argv in (["search", "x"], ["list"], ["show", "x"], ["rm", "x"], ["scopes"], ["stats"], ["reindex"], ["doctor"],
                 ["backup", "copy"], ["export"]):  # fmt: skip
        ran = cofio(*argv)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith(f"cofio: there is no memory in {folder / '.cofio'}: `cofio add` makes one")
    assert list(folder.iterdir()) == []


def test_the_store_is_named_before_or_after_the_command_or_in_the_environment_or_found_upwards(
    cofio: Cofio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cofio("add", "x", "--store", "elsewhere")
    assert (folder / "elsewhere" / "memory.db").exists()
    assert len(cofio("--store", "elsewhere", "list").rows) == 1
    assert cofio("--json", "--store", "elsewhere", "stats").json["records"] == 1
    cofio("add", "y")
    cofio("add", "z")
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")
    assert len(cofio("list").rows) == 2
    monkeypatch.setenv("COFIO_STORE", str(folder / "elsewhere"))
    assert len(cofio("list").rows) == 1


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("", "cofio: store: is empty; give a folder"),
        ("mysql://host/db", "cofio: store: mysql:// is not a kind of store"),
        ("a-file", "is a file; a store is a folder"),
        ("foreign", "is a database of some other program; choose another folder"),
        ("damaged", "is damaged"),
    ],
)
def test_a_store_that_cannot_be_used_is_told(cofio: Cofio, folder: Path, store: str, said: str) -> None:
    (folder / "a-file").write_text("hello")
    for name, content in (("foreign", None), ("damaged", b"not a database at all" * 100)):
        (folder / name).mkdir()
        if content is None:
            with contextlib.closing(sqlite3.connect(folder / name / "memory.db")) as connection:
                connection.execute("CREATE TABLE theirs (x)")
        else:
            (folder / name / "memory.db").write_bytes(content)
    ran = cofio("add", "x", "--store", store)
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
