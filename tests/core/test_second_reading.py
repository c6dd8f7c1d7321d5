"""What a flush left is bettered in the background, by vectors, and only where that changes something."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cofio import Engine, Kind, Settings
from cofio.conversations.conversations import Conversations
from cofio.conversations.message_records import fields
from cofio.conversations.projects import Project
from cofio.conversations.second_reading import is_possible
from cofio.extract.extractor import Message

PROJECT = Project()
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
    at = datetime(2026, 5, 11, 9, tzinfo=UTC)
    messages = [
        Message(id=f"m{number}", sender="kim", name="Kim", at=at, text=text) for number, text in enumerate(SAID)
    ]
    conversations.append(PROJECT, "s", messages)
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


def test_a_second_reading_changes_nothing_when_it_is_done_again(engine: Engine) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _carve(conversations)
    flushed = _list_all(engine)
    assert _refine(engine, conversations)
    once = _list_all(engine)
    assert not _refine(engine, conversations)
    assert _list_all(engine) == once != flushed


def test_a_second_reading_leaves_facts_that_both_readings_have(engine: Engine) -> None:
    conversations = Conversations(engine, reads_twice=is_possible(engine))
    _carve(conversations)
    before = {text: (known, version) for known, version, text in _list_all(engine)}
    _refine(engine, conversations)
    after = {text: (known, version) for known, version, text in _list_all(engine)}
    facts = [text for text in before.keys() & after.keys() if text.startswith("Kim")]
    assert facts
    assert all(before[text] == after[text] for text in facts)


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


def test_without_an_embedder_there_is_no_second_reading(tmp_path: Path) -> None:
    settings = Settings(embedder="none", background=False, vault=False)
    with Engine.open(tmp_path / "store", settings=settings) as engine:
        assert not is_possible(engine)
        conversations = Conversations(engine, reads_twice=is_possible(engine))
        _carve(conversations)
        assert not engine.list(PROJECT.scope / "job", kinds=(Kind.LEDGER,), limit=10)
        assert not conversations.is_refined
