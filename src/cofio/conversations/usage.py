"""What a model has cost, day by day: kept in the store, so that several servers share one budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TypeAlias, cast

from ..engine.engine import Engine
from ..engine.retries import Busy
from ..llm import Budget, Usage, get_day
from ..values.changes import Change, Put
from ..values.records import Draft, Json, Kind, Record
from ..values.scopes import MODEL_USAGE
from .message_records import fields

Observer: TypeAlias = Callable[[int, int], None]
"""Told the calls and the tokens that something cost."""


class _ThreadUsage(threading.local):
    """What one thread has spent."""

    usage = Usage()


class ModelUsage:
    """Counts calls and tokens against a day's budget."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        budget: Budget,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        observe: Observer | None = None,
    ) -> None:
        """`observe` is told of each call what it cost."""
        self._observe = observe
        self._engine = engine
        self._budget = budget
        self._clock = clock
        self._mine = _ThreadUsage()
        self._lock = threading.Lock()
        self.total = Usage()
        """What this process has spent since it began."""

    def refusal(self) -> str | None:
        """Why nothing more may be asked today; None as long as something may."""
        return self._budget.refusal(self.today())

    def today(self) -> Usage:
        """What today has cost so far, in all processes."""
        return _parse_usage(self._engine().get(MODEL_USAGE, self._get_day(), kind=Kind.LEDGER))

    def spend(self, calls: int, tokens: int) -> None:
        """Take note of what was just spent."""
        with self._lock:
            self.total = self.total.plus(calls, tokens)
        if self._observe is not None:
            self._observe(calls, tokens)
        self._mine.usage = self._mine.usage.plus(calls, tokens)
        engine = self._engine()

        def add() -> list[Change]:
            stored = engine.get(MODEL_USAGE, self._get_day(), kind=Kind.LEDGER)
            now = _parse_usage(stored).plus(calls, tokens)
            data: dict[str, Json] = {"calls": now.calls, "tokens": now.tokens}
            draft = Draft(scope=MODEL_USAGE, key=self._get_day(), kind=Kind.LEDGER, data=data)
            return [Put(draft=draft, how="key", if_version=0 if stored is None else stored.version)]

        with suppress(Busy):  # what the model has answered, and was paid for, is not lost for that
            engine.change(add)

    @contextmanager
    def count_usage(self) -> Iterator[Callable[[], Usage]]:
        """What this thread spends in here."""
        self._mine.usage = Usage()
        yield lambda: self._mine.usage

    def _get_day(self) -> str:
        return get_day(self._clock()).isoformat()


def _parse_usage(record: Record | None) -> Usage:
    if record is None:
        return Usage()
    data = cast("dict[str, int]", fields(record))
    return Usage(calls=data["calls"], tokens=data["tokens"])
