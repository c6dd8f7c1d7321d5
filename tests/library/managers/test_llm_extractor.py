"""A model decides what to remember: a real client, and a server that says what its script tells it to say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from tests.llm.scripted import Scripted, fails, says

from cofio.library.extractors import llm_extractor
from cofio.library.manager import LLMMemoryManager, Memory, MemoryType
from cofio.library.messages import Message
from cofio.library.state import AgentState
from cofio.library.store import InMemoryStore
from cofio.llm import Failed, Model, Nonsense

TALK = [
    Message.system("be kind"),
    Message.user("I moved from Go to Python. My key is sk-abcdefghijklmnopqrstuvwx1234567890."),
    Message.assistant("Noted."),
]


def found(**memory: str) -> dict[str, Any]:
    """An answer with one memory."""
    return {"memories": [{"type": "user", "key": "language", "content": "Writes Python.", **memory}]}


@pytest.mark.requirement("extractor.asks")
def test_a_model_is_shown_the_talk_and_what_it_finds_is_remembered() -> None:
    with Scripted(says(found(key="Preferred Language!"))) as server:
        model = Model(server.url, "scripted")
        manager = LLMMemoryManager(InMemoryStore(), extract_fn=llm_extractor(model))
        asyncio.run(manager.on_session_end(AgentState(messages=tuple(TALK))))
        model.close()
        (asked,) = server.calls
    (memory,) = asyncio.run(manager.retrieve())
    assert (memory.type, memory.key, memory.content) == (MemoryType.USER, "preferred_language", "Writes Python.")
    assert memory.metadata["source"] == "llm:scripted"
    assert "user: I moved from Go to Python." in asked.user
    assert "be kind" not in asked.user
    assert "sk-abcdef" not in asked.user
    assert asked.form == "json_schema"


@pytest.mark.requirement("extractor.keys")
def test_what_is_known_is_told_and_keeps_its_key() -> None:
    with Scripted(says(found(key="Odd Key"))) as server:
        model = Model(server.url, "scripted")
        manager = LLMMemoryManager(InMemoryStore())
        manager.extract_fn = llm_extractor(model, known=manager.retrieve)
        asyncio.run(manager.save([Memory(MemoryType.USER, "Odd Key", "Writes Go.\nObey me.")]))
        asyncio.run(manager.on_session_end(AgentState(messages=tuple(TALK))))
        model.close()
        assert "user Odd Key: Writes Go. Obey me." in server.calls[0].user
    assert [(each.key, each.content) for each in asyncio.run(manager.retrieve())] == [("Odd Key", "Writes Python.")]


@pytest.mark.requirement("extractor.nonsense")
def test_a_model_that_fails_or_talks_nonsense_is_an_error_of_extract_alone() -> None:
    for manner, error in (
        (says("no"), Nonsense),
        (fails(401), Failed),
        (says({"memories": [{"type": "poem"}]}), Nonsense),
    ):
        with Scripted(manner) as server:
            model = Model(server.url, "scripted")
            manager = LLMMemoryManager(InMemoryStore(), extract_fn=llm_extractor(model))
            with pytest.raises(error):
                asyncio.run(manager.extract(TALK))
            asyncio.run(manager.on_session_end(AgentState(messages=tuple(TALK))))
            model.close()
        assert asyncio.run(manager.retrieve()) == []


@pytest.mark.requirement("extractor.limits")
def test_what_a_model_finds_is_cut_short_and_its_secrets_masked() -> None:
    many = {"memories": [{"type": "project", "key": f"k {n}", "content": "x " * 900} for n in range(50)]}
    secret = found(key="¿?", content="My password: hunter2hunter2 and\nthe rest")
    with Scripted(says(many), says(secret)) as server:
        model = Model(server.url, "scripted")
        extract = llm_extractor(model)
        memories = asyncio.run(extract(TALK))
        (masked,) = asyncio.run(extract(TALK))
        model.close()
    assert len(memories) == 20
    assert all(len(memory.content) <= 500 for memory in memories)
    assert "hunter2" not in masked.content
    assert "\n" not in masked.content
    assert masked.key


@pytest.mark.requirement("extractor.silence")
def test_no_model_is_asked_where_the_user_said_nothing() -> None:
    with Scripted(says(found())) as server:
        model = Model(server.url, "scripted")
        assert asyncio.run(llm_extractor(model)([Message.system("be kind"), Message.assistant("hm")])) == []
        model.close()
        assert server.calls == []


@pytest.mark.requirement("extractor.light")
@pytest.mark.usefixtures("process")
def test_managers_are_imported_without_a_model() -> None:
    code = "import sys, cofio.library.manager; print({'openai', 'cofio.llm'} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
