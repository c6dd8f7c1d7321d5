"""A stretch is read once, when it is carved: by words and vectors where MiniLM is installed, else by words alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_until

from cofio import Engine, Kind, Scope, Settings, Unavailable
from cofio.conversations.conversations import Conversations
from cofio.conversations.message_records import fields
from cofio.conversations.projects import Project
from cofio.conversations.stretches import REFINE
from cofio.conversations.tasks import ConversationJobs
from cofio.engine.jobs import JobRunner, list_jobs
from cofio.extract.extractor import Message
from cofio.values.records import Json

PROJECT = Project()
AT = datetime(2026, 5, 11, 9, tzinfo=UTC)
SAID = (
    "just moved to Berlin, wife's name is Ana",
    "my spirit animal is a burnt out printer",
    "ditched notion for anytype",
    "sold the vespa, cycling now",
    "welder by trade, ten years in a shipyard",
    "kids are finally asleep",
    "always answer in bullet points please",
    "my old tabby was put to sleep in March",  # surely over by its vector, and not by its words
    "I keep bees. My wife's name is Ana.",
)
WORDS_ONLY = Settings(embedder="none", background=False, vault=False, sync="normal")
NAMED = replace(WORDS_ONLY, llm_base_url="http://127.0.0.1:9/v1", llm_model="small")


@pytest.fixture
def engine(tmp_path: Path, models: Path) -> Iterator[Engine]:
    settings = replace(WORDS_ONLY, embedder="minilm", models=str(models), fetch_model=False)
    with Engine.open(tmp_path / "store", settings=settings) as opened:
        yield opened


def _append(engine: Engine, *said: str) -> None:
    messages = [
        Message(id=f"m{number}", sender="kim", name="Kim", at=AT, text=text) for number, text in enumerate(said)
    ]
    Conversations(engine).append(PROJECT, "s", messages)


def _carve(engine: Engine, **options: Any) -> list[str]:
    """Carve what waits, and return the texts of all that was made of it, and what the profile says has ended."""
    Conversations(engine, **options).carve(PROJECT, "s", whole=True)
    kinds = (Kind.FACT, Kind.PROFILE, Kind.EPISODE)
    found = engine.list(PROJECT.owner("user", "kim"), exact=True, kinds=kinds, limit=100)
    (profile,) = (fields(record) for record in found if record.kind is Kind.PROFILE)
    return [*sorted(record.text for record in found), str(profile.get("ended_info"))]


def _read_by_words(folder: Path) -> list[str]:
    with Engine.open(folder, settings=WORDS_ONLY) as other:
        _append(other, *SAID)
        return _carve(other)


def _watch_embedder(engine: Engine, monkeypatch: pytest.MonkeyPatch, note: Callable[[Sequence[str]], object]) -> None:
    """Call `note` with the texts before each call of the embedder."""
    embedder = engine.embedder()
    assert embedder is not None
    embed = embedder.embed

    def embed_noted(_: object, texts: Sequence[str]) -> object:
        note(texts)
        return embed(texts)

    monkeypatch.setattr(type(embedder), "embed", embed_noted)


def test_a_carve_gives_the_same_whether_messages_have_their_vectors_or_not(engine: Engine, tmp_path: Path) -> None:
    _append(engine, *SAID)
    at_once = _carve(engine)
    assert not list_jobs(engine, REFINE)
    with Engine.open(tmp_path / "other", settings=engine.settings) as other:
        _append(other, *SAID)
        other.settle()
        assert _carve(other) == at_once
    assert _read_by_words(tmp_path / "words") != at_once


def test_a_vector_of_the_whole_message_is_not_made_again_for_its_sentence(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _append(engine, *SAID)
    engine.settle()
    made: list[str] = []
    _watch_embedder(engine, monkeypatch, made.extend)
    _carve(engine)
    assert made == ["I keep bees.", "My wife's name is Ana."]


def test_others_write_while_a_stretch_is_embedded(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _append(engine, *SAID)
    with Engine.open(tmp_path / "store", settings=WORDS_ONLY) as other:
        _watch_embedder(engine, monkeypatch, lambda _: other.put(Scope("notes"), "now", text="written"))
        assert _carve(engine)
        assert other.get(Scope("notes"), "now")


def test_where_embedding_fails_a_stretch_is_read_by_its_words(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Sequence[str]) -> None:
        raise Unavailable("the model's files are torn")

    _append(engine, *SAID)
    _watch_embedder(engine, monkeypatch, fail)
    assert _carve(engine) == _read_by_words(tmp_path / "words")


def test_a_carve_leaves_a_job_only_where_the_settings_name_a_model_and_it_is_to_be_used(tmp_path: Path) -> None:
    for number, (settings, options, jobs) in enumerate(
        [(WORDS_ONLY, {}, 0), (NAMED, {}, 1), (NAMED, {"uses_model": False}, 0)]
    ):
        with Engine.open(tmp_path / str(number), settings=settings) as engine:
            _append(engine, *SAID)
            assert _carve(engine, **options)
            assert len(list_jobs(engine, REFINE)) == jobs


def test_a_server_without_a_model_deletes_the_jobs_that_were_left_for_one(tmp_path: Path) -> None:
    data: Json = {"task": "refine", "status": "queued", "attempts": 0, "session_id": "s", "episodes": [], "cases": []}
    with Engine.open(tmp_path / "store", settings=NAMED) as engine:
        _append(engine, *SAID)
        assert _carve(engine)
        engine.put(PROJECT.scope / "job", "job_1", kind=Kind.LEDGER, data=data)  # as earlier versions wrote it
    with Engine.open(tmp_path / "store", settings=WORDS_ONLY) as engine:
        jobs = ConversationJobs(Conversations(engine))
        runner = JobRunner(engine, jobs.make_handlers())
        jobs.add_chores(runner)
        assert len(list_jobs(engine, REFINE)) == 2
        runner.start()
        wait_until(lambda: not list_jobs(engine, REFINE))
        runner.close(PATIENCE)
