"""Ids are written and shown short: as much of the beginning as tells a record from all others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cofio import Engine, Kind, Scope
from cofio.conversations.conversations import Project
from cofio.values.records import Json

from .conftest import Cofio, Ran

IDS = ("abcdef-first", "abcdef-second", "xyz-third", "xyz")


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


@pytest.mark.parametrize("argv", [["show"], ["rm"], ["edit", "--title", "x"]], ids=lambda argv: argv[0])
def test_a_beginning_that_several_share_is_told_with_the_candidates_and_does_nothing(
    cofio: Cofio, argv: list[str]
) -> None:
    before = cofio("export").out
    ran = cofio(argv[0], "abcdef", *argv[1:])
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "cofio: 2 ids begin with abcdef:",
        "cofio:   abcdef-f  note  what abcdef-first says",
        "cofio:   abcdef-s  note  what abcdef-second says",
        "cofio: id: abcdef is not enough of it, so nothing was done: write more characters",
    ]
    assert cofio("export").out == before


@pytest.mark.parametrize("kind", [Kind.LEDGER, Kind.REVISION])
def test_of_what_cofio_keeps_for_its_own_use_a_candidate_shows_the_kind_alone(
    cofio: Cofio, memory: Engine, kind: Kind
) -> None:
    memory.write(Scope("mcp"), text="eJzLSM3JyVcozy/KSQEAGgsEXQ==", title="packed", kind=kind, id="abcdef-third")
    shown = cofio("show", "abcdef").err.splitlines()
    assert shown[1] == "cofio:   abcdef-f  note  what abcdef-first says"
    assert shown[3] == f"cofio:   abcdef-t  {kind}"


ACTIONS = pytest.mark.parametrize("argv", [["show"], ["rm"], ["edit", "--text", "x"]], ids=lambda argv: argv[0])


@ACTIONS
def test_an_id_that_others_continue_is_not_meant_by_less_than_all_of_it(
    cofio: Cofio, memory: Engine, argv: list[str]
) -> None:
    for each in ("note-1", "note-10"):
        memory.write(Scope("mcp"), text=f"what {each} says", id=each)
    before = cofio("export").out
    ran = cofio(argv[0], "note", *argv[1:])
    assert (ran.code, ran.out) == (1, "")
    assert "2 ids begin with note:" in ran.err
    assert cofio("export").out == before
    assert cofio(argv[0], "note-1", *argv[1:]).code == 0
    assert cofio("show", "note-10", "--json").json["text"] == "what note-10 says"


def add_document(engine: Engine, known: str, topics: int) -> None:
    """A document as `cofio documents add` keeps it, under an id that a test can choose."""
    home = Project().scope / "knowledge"
    data: Json = {"topic_count": topics, "category_id": "Other", "source_name": "a.md"}
    engine.write(home, text=f"what {known} says", kind=Kind.DOCUMENT, id=known, data=data)
    for number in range(1, topics + 1):
        engine.write(home / known, text=f"topic {number}", kind=Kind.TOPIC, id=f"{known}_{number}", position=number)


@ACTIONS
def test_a_document_with_many_topics_hides_no_other_that_begins_so(
    cofio: Cofio, memory: Engine, argv: list[str]
) -> None:
    add_document(memory, "d_cf93", 12)
    add_document(memory, "d_cfff", 0)
    before = cofio("export").out
    ran = cofio(argv[0], "d_cf", *argv[1:])
    assert (ran.code, ran.out) == (1, "")
    assert "more than 8 ids begin with d_cf:" in ran.err
    assert cofio("export").out == before


@ACTIONS
def test_a_record_that_is_no_topic_is_not_taken_for_one(cofio: Cofio, memory: Engine, argv: list[str]) -> None:
    add_document(memory, "d_cf93", 2)
    memory.write(Scope("mcp"), text="of its own", id="d_cf93_7")
    before = cofio("export").out
    ran = cofio(argv[0], "d_cf", *argv[1:])
    assert (ran.code, ran.out) == (1, "")
    assert "4 ids begin with d_cf:" in ran.err
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


@pytest.mark.parametrize("argv", [["show"], ["rm"]], ids=lambda argv: argv[0])
def test_too_short_a_beginning_is_refused(cofio: Cofio, argv: list[str]) -> None:
    ran = cofio(*argv, "abc")
    assert ran.code == 1
    assert "abc is not a whole id, and too short for the beginning of one: write 4 characters" in ran.err
    assert len(cofio("list").rows) == 4


def test_an_id_that_nothing_has_is_told(cofio: Cofio) -> None:
    assert cofio("show", "abcdefg").err == "cofio: nothing found with id 'abcdefg'; `cofio list` shows what there is\n"


def test_rm_by_a_beginning_says_what_it_forgot(cofio: Cofio) -> None:
    ran = cofio("rm", "abcdef-s", IDS[2])
    assert ran.out == "forgot 2 records\n"
    assert ran.err == "cofio: abcdef-second was: what abcdef-second says\n"
    assert [row[0] for row in cofio("list", "--oldest").rows] == [IDS[0], IDS[3]]


def test_rm_forgets_nothing_when_one_beginning_is_not_enough(cofio: Cofio) -> None:
    assert cofio("rm", IDS[3], "abcdef").code == 1
    assert len(cofio("list").rows) == 4


def test_a_revision_of_a_file_is_restored_by_the_beginning_of_its_id(cofio: Cofio) -> None:
    cofio("files", "write", "a.md", "one")
    cofio("files", "write", "a.md", "two")
    cofio("files", "write", "a.md", "three")
    second, first = (row[0] for row in cofio("files", "log", "a.md").rows)
    length = next(n for n in range(4, 27) if first[:n] != second[:n])
    assert cofio("files", "restore", "a.md", first[: length + 12]).code == 0
    assert cofio("files", "cat", "a.md").out == "one"


def test_a_terminal_shows_ids_that_can_be_typed(cofio: Cofio, terminal: Callable[..., Ran]) -> None:
    listed = terminal("list", NO_COLOR="1").err
    shown = [line.split()[-1] for line in listed.splitlines()[1:5]]
    assert sorted(shown) == ["abcdef-f", "abcdef-s", "xyz", "xyz-third"[:8]]
    assert [cofio("show", each, "--json").json["id"] for each in sorted(shown)] == [IDS[0], IDS[1], IDS[3], IDS[2]]
    assert " · abcdef-f" in terminal("search", "first", NO_COLOR="1").err


def test_pipes_and_json_get_ids_whole(cofio: Cofio) -> None:
    assert sorted(row[0] for row in cofio("list").rows) == sorted(IDS)
    assert cofio("search", "first").rows[0][2] == IDS[0]


def test_the_log_of_a_file_ends_with_short_ids_at_a_terminal(cofio: Cofio, terminal: Callable[..., Ran]) -> None:
    cofio("files", "write", "a.md", "one")
    cofio("files", "write", "a.md", "two")
    (row,) = cofio("files", "log", "a.md").rows
    shown = terminal("files", "log", "a.md").err.split()
    assert shown[-2] == "/memories/a.md"
    assert row[0].startswith(shown[-1])
    assert len(shown[-1]) < len(row[0])
