"""Lists as people see them: the text first at any width, and nothing that cofio keeps for its own use."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from cofio import Engine, Kind, Scope

from .conftest import Cofio, Ran

STYLE = re.compile(r"\x1b\[[\d;]*m")
ANNA = Scope("rest", "default", "default", "user", "Anna")
TEXT = "The deploy runs on Fridays at noon, once all of the tests are green and somebody has looked."


@pytest.fixture
def records(memory: Engine) -> None:
    """What people wrote, the newest with a long id in a long scope, and what is internal."""
    memory.put(Scope("cofio", "imports"), "mark", data={"done": True}, kind=Kind.STATE)
    memory.put(ANNA / "ledger", "count", data={"ep": 1}, kind=Kind.LEDGER)
    memory.write(Scope("mcp"), text="an earlier state", kind=Kind.REVISION)
    memory.write(Scope("mcp"), text="日本語のノート、とても長いので切られます。" * 4)
    memory.put(Scope("mcp"), "branch", text="main")
    memory.put(ANNA, "af_20261116_00000001", text="Anna lives in Oslo.", kind=Kind.FACT)
    memory.write(ANNA, text=TEXT, kind=Kind.TURN, id="turn-05388892b989c9dcbb7a09e7183c0fe98da5da77")


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(("columns", "least"), [(120, 60), (50, 30), (24, 8)])
def test_the_text_has_most_of_the_room(terminal: Callable[..., Ran], columns: int, least: int) -> None:
    lines = STYLE.sub("", terminal("list", columns=columns).err).splitlines()
    assert all(cell_len(line.rstrip()) <= columns for line in lines)
    rows = [line for line in lines if line.strip()][1:]
    assert len(rows) == 4
    assert rows[0].startswith(TEXT[:least])
    assert rows[0].split()[-1] == "turn-053"
    assert rows[1].startswith("Anna lives in Oslo."[:least])
    assert rows[2].startswith("branch: main"[:least])


@pytest.mark.usefixtures("records")
def test_internals_are_listed_when_asked_for(cofio: Cofio) -> None:
    def kinds(*argv: str) -> list[str]:
        return [row[1] for row in cofio("list", *argv).rows]

    assert kinds() == ["turn", "fact", "item", "note"]
    assert kinds("--where", "kind!=item") == ["turn", "fact", "note"]
    assert kinds("--all") == ["turn", "fact", "item", "note", "revision", "ledger", "state"]
    assert kinds("--kind", "ledger") == ["ledger"]
    assert kinds("--kind", "revision", "--kind", "state") == ["revision"]
    assert kinds("--scope", "cofio") == ["state"]
    assert len(cofio("list", "--json").out.splitlines()) == 4


@pytest.mark.usefixtures("records")
def test_scopes_count_what_is_listed(cofio: Cofio) -> None:
    assert cofio("scopes").rows == [["mcp", "2"], [str(ANNA), "2"]]
    assert [row[1] for row in cofio("scopes", "--all").rows] == ["1", "3", "2", "1"]
    assert cofio("scopes", "--scope", "cofio").rows == [["cofio/imports", "1"]]


def test_a_list_says_that_there_is_more_or_nothing_but_internals(cofio: Cofio, memory: Engine) -> None:
    memory.put(Scope("mcp"), "count", data=1, kind=Kind.LEDGER)
    assert cofio("list").err == "cofio: no records here but what cofio keeps for its own use, which --all lists\n"
    assert cofio("list", "--all").err == ""
    for number in range(51):
        memory.write(Scope("mcp"), text=f"note {number}")
    assert cofio("list").err == "cofio: 50 of 51 records; --offset 50 goes on\n"


@pytest.mark.usefixtures("records")
def test_stats_are_sentences_for_people_and_numbers_for_programs(cofio: Cofio) -> None:
    said = dict(cofio("stats").rows)
    assert said["records"] == "4, and 3 that cofio keeps for its own use"
    assert ["info", f"records: {said['records']}"] in cofio("doctor").rows
    assert said["vectors"] == "none"
    assert said["waiting"] == "7 records for the word index and 5 records for vectors"
    assert "fault" not in said
    numbers = cofio("stats", "--json").json
    assert (numbers["records"], numbers["background_fault"], numbers["bytes_vectors"]) == (7, "", 0)
