"""`cofio doctor` says what waits for the model that betters conversations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations, Project
from cofio.doors.cli import main
from cofio.extract.extractor import Extraction, Message


class Silent:
    """A model that is never asked."""

    name = "llm:silent"

    def read(self, *args: object) -> Extraction:
        raise NotImplementedError

    skill = read


def test_the_doctor_tells_what_waits_for_the_model(
    store: StoreAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COFIO_EMBEDDER", "none")
    monkeypatch.setenv("COFIO_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("COFIO_LLM_MODEL", "small")
    with Engine.open(store, settings=Settings(embedder="none", background=False)) as engine:
        pass
    main(["--store", store.spell(), "doctor"])
    assert "small, nothing waits for it" in capsys.readouterr().out
    with Engine.open(store, settings=Settings(embedder="none", background=False)) as engine:
        conversations = Conversations(engine, reader=Silent())  # type: ignore[arg-type]  # it is not asked
        message = Message(id="", sender="ann", at=datetime(2026, 5, 28, tzinfo=UTC), text="I live in Oslo.")
        conversations.append(Project(), "s", [message])
        assert conversations.carve(Project(), "s", whole=True) == 1
    main(["--store", store.spell(), "doctor"])
    assert "1 stretches of conversation wait for it" in capsys.readouterr().out
