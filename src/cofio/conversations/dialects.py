"""What a model's endpoint takes, kept in the store: a server that starts again, or another, need not find it out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta

from ..engine.engine import Engine
from ..engine.retries import Busy
from ..llm import Dialect
from ..values.changes import Change, Put
from ..values.records import Draft, Kind
from ..values.scopes import MODEL_USAGE
from .message_records import fields

KEPT = timedelta(days=7)
"""After which it is found out again: the endpoint may have been updated."""


class StoredDialects:
    """Keeps what endpoints take in a store."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def load(self, url: str, model: str) -> Dialect | None:
        """Return what a model's endpoint is known to take; None when nothing is known, or nothing of late."""
        record = self._engine().get(MODEL_USAGE, _make_key(url, model), kind=Kind.LEDGER)
        return None if record is None else Dialect.decode(fields(record))

    def save(self, url: str, model: str, dialect: Dialect) -> None:
        """Keep what a model's endpoint takes."""
        draft = Draft(scope=MODEL_USAGE, key=_make_key(url, model), kind=Kind.LEDGER, data=asdict(dialect))

        def put() -> list[Change]:
            return [Put(draft=draft, how="key", ttl=KEPT)]

        with suppress(Busy):  # it is found out again, at the price of a call or two
            self._engine().change(put)


def _make_key(url: str, model: str) -> str:
    return f"dialect-{hashlib.blake2b(f'{url} {model}'.encode(), digest_size=12).hexdigest()}"
