"""What a model makes of captured work: better told, and the lessons stay what they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.llm.scripted import Scripted

from cofio import Engine, Kind, Record, Settings
from cofio.capture import find_repository
from cofio.conversations.conversations import Conversations
from cofio.conversations.message_records import fields
from cofio.llm import Model
from cofio.llm.model_extractor import ModelExtractor

from .made import run, say, user
from .test_capture import capture

SETTINGS = Settings(embedder="none", background=False, sync="normal")
STEPS = [
    user("Let's keep the queue in PostgreSQL because it needs transactions. The hull of the Marigold is green."),
    run("npm install", "added 3 packages"),
    say("The queue is in PostgreSQL."),
    user("no, use pnpm"),
    run("pnpm install", "done"),
    say("Installed with pnpm."),
]


def list_facts(engine: Engine) -> list[Record]:
    """All facts, in order."""
    return sorted((each for each in engine.each() if each.kind is Kind.FACT), key=lambda each: each.key or "")


def list_jobs(engine: Engine) -> list[Record]:
    """What a server is to give its model."""
    return [each for each in engine.each() if each.kind is Kind.LEDGER and fields(each).get("task") == "refine"]


@pytest.mark.requirement("capture.model")
def test_a_model_betters_what_was_captured_and_lessons_keep_their_words_and_tags(
    home: Path, boats: Path, tmp_path: Path
) -> None:
    with Engine.open(tmp_path / "without", settings=SETTINGS) as engine:
        capture(engine, home, STEPS, boats)
        assert list_jobs(engine) == []
    with (
        Scripted() as model,
        Engine.open(
            tmp_path / "store", settings=replace(SETTINGS, llm_base_url=model.url, llm_model="scripted")
        ) as engine,
    ):
        capture(engine, home, STEPS, boats)
        before = list_facts(engine)
        lessons = [each for each in before if each.tags]
        assert {tag for each in lessons for tag in each.tags} == {"decision", "correction"}
        assert len(before) > len(lessons)
        jobs = list_jobs(engine)
        assert jobs
        asked = Model(model.url, "scripted", spend=lambda calls, tokens: None)
        reader = Conversations(engine, reader=ModelExtractor(asked))
        assert all(reader.refine(find_repository(boats).project, fields(job)) for job in jobs)
        asked.close()
        after = list_facts(engine)
        assert [each for each in after if each.tags] == lessons
        better = [each for each in after if not each.tags]
        assert better
        assert {fields(each)["extractor"] for each in better} == {"llm:scripted"}
        assert {(each.kind, each.source) for each in better} == {(each.kind, each.source) for each in lessons}
        episodes = [each for each in engine.each() if each.kind is Kind.EPISODE]
        assert {fields(each)["extractor"] for each in episodes} == {"llm:scripted"}
        assert {fields(each)["session_id"] for each in [*after, *episodes]} == {fields(lessons[0])["session_id"]}
