"""Every conversation gives the records that a person has read and accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from .script import CONVERSATIONS, GOLDENS, HERE, golden, read


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_a_conversation_gives_the_records_that_a_person_accepted(path: Path) -> None:
    assert golden(read(path)) == (GOLDENS / path.name).read_text()


def test_the_examples_of_the_documentation_are_what_the_rules_write() -> None:
    page = " ".join((HERE.parents[2] / "docs" / "extraction.md").read_text().split())
    first, second, profile = (GOLDENS / "moving_home.txt").read_text().split("\n\n")
    shown = [line for line in first.splitlines() if line.startswith(("subject: ", "text: "))]
    shown += [line.partition(" [")[0] for line in (first + second).splitlines() if line.startswith("- Ingrid")][:5]
    for line in shown:
        assert line.partition(" ")[2] in page
    for line in ("Lives in Oslo.", "Lives in Bergen.", "Does not like sailing anymore.", "Loves sailing."):
        assert line in page
        assert line in profile


def test_there_are_enough_conversations_and_no_golden_without_one() -> None:
    assert len(CONVERSATIONS) >= 30
    assert {path.name for path in CONVERSATIONS} == {path.name for path in GOLDENS.glob("*.txt")}
