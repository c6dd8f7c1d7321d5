"""What a flush left is bettered in the background, by vectors, and only where that changes something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.waiting import PATIENCE, wait_until

from cofio import Conflict, Engine, Invalid, Kind, Record, Settings, Unavailable
from cofio.conversations.conversations import Conversations
from cofio.conversations.message_records import fields
from cofio.conversations.projects import Project
from cofio.conversations.second_reading import is_possible
from cofio.doors.rest.jobs import Jobs
from cofio.extract.extractor import Message

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
)


@pytest.fixture
def engine(tmp_path: Path, models: Path) -> Iterator[Engine]:
    settings = Settings(embedder="minilm", models=str(models), background=False, vault=False, fetch_model=False)
    with Engine.open(tmp_path / "store", settings=settings) as opened:
        yield opened


def _carve(conversations: Conversations) -> None:
    _append(conversations, *SAID)
    conversations.carve(PROJECT, "s", whole=True)


def _refine(engine: Engine, conversations: Conversations) -> bool:
    """Do the jobs that the carve left; whether one of them changed something."""
    jobs = engine.list(PROJECT.scope / "job", kinds=(Kind.LEDGER,), limit=10)
    assert jobs
    changed = [conversations.refine(PROJECT, fields(job)) for job in jobs]
    return any(changed)


def _list_all(engine: Engine) -> list[tuple[str, int, str]]:
    home = PROJECT.owner("user", "kim")
    kinds = (Kind.FACT, Kind.PROFILE, Kind.EPISODE)
    found = engine.list(home, exact=True, kinds=kinds, limit=100)
    return sorted((record.id, record.version, record.text) for record in found)


def test_a_second_reading_leaves_facts_that_both_have_and_changes_nothing_when_it_is_done_again(engine: Engine) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _carve(conversations)
    flushed = _list_all(engine)
    assert _refine(engine, conversations)
    once = _list_all(engine)
    assert not _refine(engine, conversations)
    assert _list_all(engine) == once != flushed
    facts = {each for each in flushed if each[2].startswith("Kim")}
    both = facts & {*once}
    assert {text for _, _, text in both} == {text for _, _, text in facts} & {text for _, _, text in once} != set()


def test_a_second_reading_keeps_what_a_person_changed_in_the_profile(engine: Engine) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _carve(conversations)
    (profile,) = engine.list(PROJECT.owner("user", "kim"), exact=True, kinds=(Kind.PROFILE,), limit=1)
    items = fields(profile)["explicit_info"]
    assert isinstance(items, list)
    engine.edit(profile.id, data={**fields(profile), "explicit_info": items[:1]})
    edited = engine.read(profile.id)
    _refine(engine, conversations)
    assert engine.read(profile.id) == edited


def _list_jobs(engine: Engine) -> list[Record]:
    return engine.list(PROJECT.scope / "job", kinds=(Kind.LEDGER,), limit=10)


def _append(conversations: Conversations, *said: str) -> None:
    messages = [
        Message(id=f"m{number}", sender="kim", name="Kim", at=AT, text=text) for number, text in enumerate(said)
    ]
    conversations.append(PROJECT, "s", messages)


def test_a_stretch_whose_messages_have_vectors_is_read_with_them_at_once(engine: Engine, tmp_path: Path) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _append(conversations, *SAID)
    engine.settle()
    conversations.carve(PROJECT, "s", whole=True)
    assert not _list_jobs(engine)  # nothing is left to better
    settings = replace(engine.settings, vault=False)
    with Engine.open(tmp_path / "other", settings=settings) as other:
        twice = Conversations(other, reads_twice=is_possible(other))
        _append(twice, *SAID)
        twice.carve(PROJECT, "s", whole=True)
        assert _refine(other, twice)
        assert sorted(text for _, _, text in _list_all(engine)) == sorted(text for _, _, text in _list_all(other))


def test_a_message_of_several_sentences_leaves_a_job_as_does_one_without_a_vector(engine: Engine) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _append(conversations, "I keep bees. My wife's name is Ana.")
    engine.settle()
    conversations.carve(PROJECT, "s", whole=True)
    assert len(_list_jobs(engine)) == 1
    conversations.append(PROJECT, "s", [Message(id="next", sender="kim", name="Kim", at=AT, text="I am a welder")])
    engine.settle()
    conversations.append(PROJECT, "s", [Message(id="last", sender="kim", name="Kim", at=AT, text="I sold the boat")])
    conversations.carve(PROJECT, "s", whole=True)
    assert len(_list_jobs(engine)) == 2


def test_a_vector_of_the_whole_message_is_not_made_again_for_its_sentence(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _append(conversations, *SAID, "I keep bees. My wife's name is Ana.")
    conversations.carve(PROJECT, "s", whole=True)
    engine.settle()
    embedder, made = engine.embedder(), list[str]()
    assert embedder is not None
    embed = embedder.embed

    def note(texts: Sequence[str]) -> object:
        made.extend(texts)
        return embed(texts)

    monkeypatch.setattr(type(embedder), "embed", lambda _, texts: note(texts))
    _refine(engine, conversations)
    assert made == ["I keep bees.", "My wife's name is Ana."]


def test_a_second_reading_waits_while_vectors_wait(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _carve(conversations)
    left = _list_jobs(engine)
    assert left
    behind, asked = [True], list[bool]()

    def is_behind(_: Engine) -> bool:
        asked.append(True)
        return behind[0]

    monkeypatch.setattr(Engine, "is_behind", property(is_behind))
    jobs = Jobs(conversations)
    jobs.resume()
    try:
        wait_until(lambda: len(asked) > 1)  # it looked, waited and looked again
        assert _list_jobs(engine) == left
        behind[0] = False
        assert jobs.wait_until_settled(PROJECT, "s", PATIENCE)
        assert not _list_jobs(engine)
    finally:
        jobs.close()


@pytest.mark.parametrize(
    ("error", "status"),
    [(Invalid("text", "too long"), "failed"), (Conflict("x"), "queued"), (Unavailable("no model"), "waiting")],
)
def test_a_second_reading_that_fails_is_taken_down_and_not_tried_at_once_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception, status: str
) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _append(conversations, "I keep bees. My wife's name is Ana.")
    conversations.carve(PROJECT, "s", whole=True)
    tried: list[int] = []

    def fail(*_: object) -> bool:
        tried.append(1)
        raise error

    monkeypatch.setattr(conversations, "refine", fail)
    jobs = Jobs(conversations)
    jobs.resume()
    try:
        wait_until(lambda: [fields(job)["status"] for job in _list_jobs(engine)] == [status] and tried)
        wait_until(lambda: int(str(fields(_list_jobs(engine)[0])["attempts"])) == 1)
    finally:
        jobs.close()
    assert len(tried) == 1


def test_without_an_embedder_there_is_no_second_reading(tmp_path: Path) -> None:
    settings = Settings(embedder="none", background=False, vault=False)
    with Engine.open(tmp_path / "store", settings=settings) as engine:
        assert not is_possible(engine)
        conversations = Conversations(engine, reads_twice=is_possible(engine))
        _carve(conversations)
        assert not engine.list(PROJECT.scope / "job", kinds=(Kind.LEDGER,), limit=10)
        assert not conversations.is_refined
