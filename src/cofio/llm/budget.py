"""How much a model may be asked on one day (of UTC), as values; who keeps the count is decided elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from ..values.errors import Invalid

_AMOUNT = re.compile(r"(\d{1,3}(?:_?\d{3})*|\d{1,15})([kKmM]?)")
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a day has cost so far."""

    calls: int = 0
    tokens: int = 0

    def plus(self, calls: int, tokens: int) -> Usage:
        """What it has cost with that added."""
        return Usage(calls=self.calls + calls, tokens=self.tokens + tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """What remains of a day's budget, never below 0; None where there is no limit."""

    calls: int | None
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that a day may cost; None where there is no limit."""

    calls: int | None = None
    tokens: int | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """The budget that is written as `calls=1000,tokens=2M`, either part alone, or `off` for no limit.

        Raises:
            Invalid: it is written differently.
        """
        if text.strip().lower() in ("", "off"):
            return cls()
        amounts: dict[str, int] = {}
        for part in text.split(","):
            name, _, amount = (piece.strip() for piece in part.partition("="))
            number = _AMOUNT.fullmatch(amount)
            if name not in ("calls", "tokens") or name in amounts or number is None:
                raise Invalid("llm_budget", f"{text!r} is not a budget; use calls=1000,tokens=2M, or off")
            amounts[name] = int(number[1].replace("_", "")) * _TIMES[number[2].lower()]
        return cls(**amounts)

    def find_remainder(self, spent: Usage) -> Remainder:
        """What remains after that."""
        return Remainder(
            calls=None if self.calls is None else max(0, self.calls - spent.calls),
            tokens=None if self.tokens is None else max(0, self.tokens - spent.tokens),
        )

    def refusal(self, spent: Usage) -> str | None:
        """Why nothing more may be asked today; None as long as something may."""
        left = self.find_remainder(spent)
        if left.calls == 0:
            return f"today's budget of {self.calls:,} calls to the model is spent"
        if left.tokens == 0:
            return f"today's budget of {self.tokens:,} tokens is spent"
        return None


def get_day(at: datetime) -> date:
    """The day whose budget a moment belongs to."""
    return at.astimezone(UTC).date()


def get_next_day(at: datetime) -> datetime:
    """When the next budget begins."""
    midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(days=1)
