"""The blocks that an agent is shown: within their budget whatever they are made of, and never mistaken for its user."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import Engine, Invalid, Kind, Scope
from cofio.capture import user_scope
from cofio.capture.injections import MemoryLine, build_injection
from cofio.extract.rules.messages.recalled_text import strip_blocks
from cofio.library import AgentMemory
from cofio.text.fence import strip_tagged_lines
from cofio.text.token_counts import count_tokens
from cofio.values.records import Json

from .conftest import PROMPT, RETRIES, SETTINGS, make_repository

LINES = st.lists(st.text(max_size=200).map(lambda text: " ".join(text.split())), max_size=8)


@pytest.mark.requirement("budget.tokens", "budget.fence")
@given(sections=st.dictionaries(st.sampled_from(["", "Decisions:", "Open work:"]), LINES), budget=st.integers(50, 400))
def test_no_block_has_more_tokens_than_its_budget_and_none_can_be_ended(
    sections: dict[str, list[str]], budget: int
) -> None:
    lines = {
        heading: [MemoryLine(text=text, record=f"{heading}{number}") for number, text in enumerate(texts)]
        for heading, texts in sections.items()
    }
    block = build_injection(lines, budget)
    assert block.tokens == count_tokens(block.text) <= budget
    assert block.text.count("<recalled-memory>") == block.text.count("</recalled-memory>") == bool(block)
    talk = f"Before.\n{block.text}\nAfter."
    assert strip_tagged_lines(talk).split() == strip_blocks(talk).split() == ["Before.", "After."]


@pytest.mark.requirement("budget.tokens")
def test_a_long_section_leaves_room_for_the_others() -> None:
    many = [MemoryLine(text=f"- decision number {number} of very many", record=f"d{number}") for number in range(100)]
    block = build_injection({"Decisions:": many, "Open work:": [MemoryLine(text="- port it", record="w")]}, 200)
    assert "w" in block.records
    assert len(block.records) > 5


@pytest.mark.requirement("budget.tokens")
def test_a_budget_or_a_session_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "store", settings=SETTINGS) as engine:
        memory = AgentMemory(engine, Scope("shop"))
        for budget in (49, 20_001, True):
            with pytest.raises(Invalid, match="budget"):
                memory.brief(budget)
            with pytest.raises(Invalid, match="budget"):
                memory.recall("How often do we retry?", "s", budget)
        with pytest.raises(Invalid, match="session"):
            memory.recall("How often do we retry?", "")


@pytest.mark.requirement("budget.tokens", "place.repository")
def test_a_program_can_tell_its_agent_what_is_known_of_one_user(tmp_path: Path) -> None:
    clone = make_repository(tmp_path / "one", "git@git.example:team/uploader.git")
    with Engine.open(tmp_path / "store", settings=SETTINGS) as engine:
        memory = AgentMemory.for_user(engine, "ann", app="shop")
        assert "nothing is known of the user yet" in memory.context().text
        others = AgentMemory.for_user(engine, "bob", app="shop")._scopes[0]
        for home, text in ((memory._scopes[0], "call me Sam"), (others, "call me Bob"), (user_scope(), "use tabs")):
            data: Json = {"instructions": [{"text": text, "timestamp_ms": 1779967836000}]}
            engine.put(home, "profile", kind=Kind.PROFILE, data=data)
        engine.write(memory._scopes[0], text=RETRIES)
        told = memory.context(PROMPT, budget=400)
        assert RETRIES in told.text
        assert "- 2026-05-28 call me Sam" in told.text
        assert "Bob" not in told.text
        assert told.tokens <= 400
        assert "use tabs" in AgentMemory.for_folder(engine, clone).context().text
        for query, budget in (("x" * 10_001, 100), ("\0", 100), ("", 49)):
            with pytest.raises(Invalid):
                memory.context(query, budget)


@pytest.mark.requirement("start.instructions", "budget.tokens")
def test_a_digest_begins_with_what_the_user_asked_of_the_assistant(tmp_path: Path) -> None:
    clone = make_repository(tmp_path / "one", "git@git.example:team/uploader.git")
    with Engine.open(tmp_path / "store", settings=SETTINGS) as engine:
        memory = AgentMemory.for_folder(engine, clone)
        repository, own = memory._scopes[0], memory._homes[0]
        for number in range(40):
            engine.write(repository, text=f"Decision {number}: the part {number} is built by hand.", tags=["decision"])
        assert "asked of the assistant" not in memory.brief().text
        for home, at, text in ((own, 1, "answer in bullet points"), (user_scope(), 2, "never add emoji")):
            data: Json = {"instructions": [{"text": text, "timestamp_ms": 1779967836000 + at}]}
            engine.put(home, "profile", kind=Kind.PROFILE, data=data)
        other: Json = {"instructions": [{"text": "answer like a pirate", "timestamp_ms": 1}]}
        engine.put(Scope(*own.names[:-1], "someone-else"), "profile", kind=Kind.PROFILE, data=other)
        engine.write(repository, text="Never add emoji.", tags=["preference"])
        told = memory.brief(budget=200)
        lines = told.text.splitlines()
        first = next(at for at, line in enumerate(lines) if "asked of the assistant (" in line)
        assert lines[first + 1 : first + 3] == ["- 2026-05-28 never add emoji", "- 2026-05-28 answer in bullet points"]
        assert "holds until they say otherwise" in told.text
        assert "Decision" not in "".join(lines[:first])
        assert "Decision" in told.text
        assert ("pirate" in told.text, told.text.casefold().count("never add emoji")) == (False, 1)
        assert told.tokens <= 200


@pytest.mark.requirement("prompt.once")
def test_what_was_told_is_not_told_again_in_another_record(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "store", settings=SETTINGS) as engine:
        memory = AgentMemory(engine, Scope("shop"))
        engine.write(Scope("shop"), text="Done.", tags=["decision"])
        engine.write(Scope("shop"), text=RETRIES, tags=["decision"])
        engine.write(Scope("shop"), text=f'Ann said: "{RETRIES}"', kind=Kind.FACT)
        assert len(memory.brief(session="one").records) == 2
        assert not memory.recall(PROMPT, "one")
        engine.write(Scope("shop"), text="How the gateway fails over is done by the uploader itself, in retry.py.")
        assert "retry.py" in memory.recall(PROMPT, "one").text


@pytest.mark.requirement("place.repository")
def test_a_folder_stands_for_its_repository(tmp_path: Path) -> None:
    clones = [make_repository(tmp_path / name, "git@git.example:team/uploader.git") for name in ("one", "two")]
    namesake = make_repository(tmp_path / "three", "git@git.example:others/uploader.git")
    with Engine.open(tmp_path / "store", settings=SETTINGS) as engine:
        scope = AgentMemory.for_folder(engine, clones[0])._scopes[0]
        engine.write(scope, text=RETRIES)
        assert RETRIES in AgentMemory.for_folder(engine, clones[1] / "src").recall(PROMPT, "s").text
        assert not AgentMemory.for_folder(engine, namesake).recall(PROMPT, "s")
