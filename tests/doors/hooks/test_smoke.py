"""What hooks tell an agent, on every backend."""

from __future__ import annotations

import pytest

from cofio import Engine, Scope
from cofio.config.address import StoreAddress
from cofio.library import AgentMemory

from .conftest import PROMPT, RETRIES, SETTINGS


@pytest.mark.requirement("start.digest", "prompt.recall", "prompt.once", "compact.again")
def test_a_program_can_remind_its_agent_as_hooks_do(store: StoreAddress) -> None:
    with Engine.open(store, settings=SETTINGS) as engine:
        memory = AgentMemory(engine, Scope("shop"), personal=Scope("ann"))
        assert not memory.brief()
        engine.write(Scope("shop"), text=RETRIES, tags=["decision"])
        engine.write(Scope("ann"), text="Answer in British English.", tags=["preference"])
        engine.write(Scope("other"), text="The uploader of another shop never retries.", tags=["decision"])
        digest = memory.brief()
        assert "Decisions:" in digest.text
        assert "Answer in British English." in digest.text
        assert "another shop" not in digest.text
        assert RETRIES in memory.recall(PROMPT, "one").text
        assert not memory.recall(PROMPT, "one")
        memory.restart("one")
        assert RETRIES in memory.recall(PROMPT, "one").text
        assert memory.brief(session="two").records == digest.records
        assert not memory.recall(PROMPT, "two")
