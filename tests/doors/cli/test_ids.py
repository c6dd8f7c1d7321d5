"""Ids are written and shown short: as much of the beginning as tells a record from all others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cofio import Engine, Kind, Scope
from cofio.conversations.conversations import Project
from cofio.values.records import Json

from .conftest import Cofio, Ran

IDS = ("abcdef-first", "abcdef-second", "xyz-third", "xyz")
ACTIONS = pytest.mark.parametrize("argv", [["show"], ["rm"], ["edit", "--text", "x"]], ids=lambda argv: argv[0])


@pytest.fixture(autouse=True)
def records(memory: Engine) -> None:
    """Four records whose ids are easily told apart, or not."""
    for each in IDS:
        memory.write(Scope("mcp"), text=f"what {each} says", id=each)


@pytest.mark.parametrize(
    ("written", "meant"), [("abcdef-f", IDS[0]), ("xyz-", IDS[2]), ("xyz", IDS[3]), (IDS[1], IDS[1])]
)
def test_show_takes_the_beginning_of_an_id(cofio: Cofio, written: str, meant: str) -> None:
    assert cofio("show", written, "--json").json["id"] == meant


@ACTIONS
def test_a_beginning_that_several_share_is_told_with_the_candidates_and_does_nothing(
    cofio: Cofio, memory: Engine, argv: list[str]
) -> None:
    for each in ("note-1", "note-10"):
        memory.write(Scope("mcp"), text=f"what {each} says", id=each)
    before = cofio("export").out
    ran = cofio(argv[0], "abcdef", *argv[1:])
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "cofio: 2 ids begin with abcdef:",
        "cofio:   abcdef-f  note  what abcdef-first says",
        "cofio:   abcdef-s  note  what abcdef-second says",
        "cofio: id: abcdef is not enough of it, so nothing was done: write more characters",
    ]
    assert "2 ids begin with note:" in cofio(argv[0], "note", *argv[1:]).err
    assert cofio("export").out == before
    assert cofio(argv[0], "note-1", *argv[1:]).code == 0, "the whole id, which another continues"
    assert cofio("show", "note-10", "--json").json["text"] == "what note-10 says"


def test_of_what_cofio_keeps_for_its_own_use_a_candidate_shows_the_kind_alone(cofio: Cofio, memory: Engine) -> None:
    memory.write(Scope("mcp"), text="eJzLSM3JyVcozy/KSQEAGgsEXQ==", title="packed", kind=Kind.LEDGER, id="abcdef-third")
    assert cofio("show", "abcdef").err.splitlines()[3] == "cofio:   abcdef-t  ledger"


def add_document(engine: Engine, known: str, topics: int) -> None:
    """A document as `cofio documents add` keeps it, under an id that a test can choose."""
    home = Project().scope / "knowledge"
    data: Json = {"topic_count": topics, "category_id": "Other", "source_name": "a.md"}
    engine.write(home, text=f"what {known} says", kind=Kind.DOCUMENT, id=known, data=data)
    for number in range(1, topics + 1):
        engine.write(home / known, text=f"topic {number}", kind=Kind.TOPIC, id=f"{known}_{number}", position=number)


@ACTIONS
@pytest.mark.parametrize(("topics", "other", "said"), [(12, "d_cfff", "more than 8 ids"), (2, "d_cf93_7", "4 ids")])
def test_a_document_hides_no_other_record_that_begins_as_it_does(
    cofio: Cofio, memory: Engine, argv: list[str], topics: int, other: str, said: str
) -> None:
    add_document(memory, "d_cf93", topics)
    memory.write(Scope("mcp"), text="of its own", id=other)
    before = cofio("export").out
    ran = cofio(argv[0], "d_cf", *argv[1:])
    assert (ran.code, ran.out) == (1, "")
    assert f"{said} begin with d_cf:" in ran.err
    assert cofio("export").out == before


def test_a_document_alone_is_meant_by_the_beginning_that_its_topics_share(cofio: Cofio, memory: Engine) -> None:
    add_document(memory, "d_cf93", 12)
    assert cofio("show", "d_cf", "--json").json["id"] == "d_cf93"
    assert "cofio documents add --replace" in cofio("edit", "d_cf", "--text", "x").err
    assert cofio("rm", "d_cf").out == "forgot 13 records\n"
    assert "d_cf" not in cofio("export").out


def test_the_whole_id_of_a_document_means_it_though_another_begins_so(cofio: Cofio, memory: Engine) -> None:
    add_document(memory, "d_cf93", 0)
    add_document(memory, "d_cf93aa", 0)
    assert "is not enough of it" in cofio("documents", "show", "d_cf").err
    assert cofio("documents", "show", "d_cf93", "--json").json["id"] == "d_cf93"
    assert cofio("documents", "rm", "d_cf93").code == 0
    assert cofio("documents", "show", "d_cf", "--json").json["id"] == "d_cf93aa"


def test_an_id_that_nothing_has_or_too_little_of_one_is_told(cofio: Cofio) -> None:
    assert cofio("show", "abcdefg").err == "cofio: nothing found with id 'abcdefg'; `cofio list` shows what there is\n"
    ran = cofio("rm", "abc")
    assert ran.code == 1
    assert "abc is not a whole id, and too short for the beginning of one: write 4 characters" in ran.err
    assert len(cofio("list").rows) == 4


def test_rm_by_a_beginning_says_what_it_forgot(cofio: Cofio) -> None:
    assert cofio("rm", IDS[3], "abcdef").code == 1
    assert len(cofio("list").rows) == 4, "one beginning was not enough"
    ran = cofio("rm", "abcdef-s", IDS[2])
    assert ran.out == "forgot 2 records\n"
    assert ran.err == "cofio: abcdef-second was: what abcdef-second says\n"
    assert [row[0] for row in cofio("list", "--oldest").rows] == [IDS[0], IDS[3]]


def test_a_revision_of_a_file_is_shown_and_restored_by_the_beginning_of_its_id(
    cofio: Cofio, terminal: Callable[..., Ran]
) -> None:
    for text in ("one", "two", "three"):
        cofio("files", "write", "a.md", text)
    (_, first) = (row[0] for row in cofio("files", "log", "a.md").rows)
    *_, path, short = terminal("files", "log", "a.md").err.split()
    assert (path, len(short) < len(first), first.startswith(short)) == ("/memories/a.md", True, True)
    assert cofio("files", "restore", "a.md", first[:-1]).code == 0
    assert cofio("files", "cat", "a.md").out == "one"


def test_a_terminal_shows_ids_that_can_be_typed_and_a_pipe_gets_them_whole(
    cofio: Cofio, terminal: Callable[..., Ran]
) -> None:
    listed = terminal("list", NO_COLOR="1").err
    shown = [line.split()[-1] for line in listed.splitlines()[1:5]]
    assert sorted(shown) == ["abcdef-f", "abcdef-s", "xyz", "xyz-third"[:8]]
    assert [cofio("show", each, "--json").json["id"] for each in sorted(shown)] == [IDS[0], IDS[1], IDS[3], IDS[2]]
    assert " · abcdef-f" in terminal("search", "first", NO_COLOR="1").err
    assert sorted(row[0] for row in cofio("list").rows) == sorted(IDS)
    assert cofio("search", "first").rows[0][2] == IDS[0]
