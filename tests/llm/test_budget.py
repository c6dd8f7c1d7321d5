"""A day's budget is a value that says what is left of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from cofio import Engine, Settings
from cofio.conversations.usage import ModelUsage
from cofio.llm import Budget, Remainder, Usage, get_day, get_next_day
from cofio.values.errors import Conflict, Invalid


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("calls=1000,tokens=2000000", Budget(calls=1000, tokens=2_000_000)),
        (" tokens = 2M , calls=1_000 ", Budget(calls=1000, tokens=2_000_000)),
        ("tokens=50k", Budget(tokens=50_000)),
        ("calls=0", Budget(calls=0)),
        ("off", Budget()),
        ("", Budget()),
    ],
)
def test_a_budget_is_read_as_it_is_written(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize(
    "text", ["1000", "calls", "calls=", "calls=-1", "calls=1.5", "euros=3", "calls=1,calls=2", ","]
)
def test_what_is_no_budget_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match="calls=1000,tokens=2M, or off") as refused:
        Budget.parse(text)
    assert refused.value.field == "llm_budget"


def test_a_spent_budget_says_which_of_its_parts_is_spent() -> None:
    budget = Budget(calls=3, tokens=1_000)
    assert budget.refusal(Usage(calls=2, tokens=999)) is None
    assert budget.refusal(Usage(calls=3)) == "today's budget of 3 calls to the model is spent"
    assert budget.refusal(Usage(tokens=1_000)) == "today's budget of 1,000 tokens is spent"
    assert Budget().refusal(Usage(calls=10**9, tokens=10**12)) is None
    assert Budget(calls=0).refusal(Usage()) is not None
    assert budget.find_remainder(Usage(calls=1, tokens=1_500)) == Remainder(calls=2, tokens=0)
    assert Budget().find_remainder(Usage(calls=9, tokens=9)) == Remainder(calls=None, tokens=None)


def test_a_day_begins_at_midnight_of_utc() -> None:
    late = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert get_day(late) == date(2026, 3, 2)
    assert get_next_day(late) == datetime(2026, 3, 3, tzinfo=UTC)


def test_an_answer_is_not_lost_because_too_many_write_what_theirs_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Conflict("another has just spent something")

    monkeypatch.setattr("cofio.engine.retries.time.sleep", lambda _: None)
    with Engine.open(tmp_path, settings=Settings(background=False, embedder="none", sync="normal")) as engine:
        usage = ModelUsage(lambda: engine, Budget())
        usage.spend(1, 10)
        monkeypatch.setattr(Engine, "apply", refuse)
        usage.spend(1, 20)
        assert usage.total == Usage(calls=2, tokens=30)
        assert usage.today() == Usage(calls=1, tokens=10)
