"""What an agent was shown in a session, kept in the store, so that nothing comes twice whichever process shows it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from datetime import timedelta

from ..engine.engine import Engine
from ..values.changes import Change, Put
from ..values.records import Draft, Json, Kind, Scope, check_text

MAX_SESSION = 256
_LEDGER = "recalls"
_MOST = 2000  # records of one session
_LIFETIME = timedelta(days=30)
_BUSY = "too many are asking in this session at once; try again"
_SOURCE = "recall"


class ShownRecords:
    """The ids of the records that one session's agent was shown."""

    def __init__(self, engine: Engine, scope: Scope, session: str) -> None:
        check_text("session", session, MAX_SESSION, empty=False)
        self._engine = engine
        self._scope = scope / _LEDGER
        # A name of any letters, of which none tells whose session it was.
        self._key = hashlib.blake2b(session.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def load(self) -> frozenset[str]:
        """All that was shown since the session began, or was last compacted."""
        return frozenset(self._read()[0])

    def add(self, ids: Collection[str]) -> list[str]:
        """Note that these are shown; those of them that no other process has shown meanwhile."""
        fresh: list[str] = []

        def find_changes() -> list[Change]:
            stored, version = self._read()
            fresh[:] = [each for each in dict.fromkeys(ids) if each not in stored]
            return [self._put([*stored, *fresh][-_MOST:], version)] if fresh else []

        self._engine.change(find_changes, busy=_BUSY)
        return fresh

    def clear(self) -> None:
        """Forget what was shown: the agent has lost it, as by a compaction, and may need it again."""

        def find_changes() -> list[Change]:
            stored, version = self._read()
            return [self._put([], version)] if stored else []

        self._engine.change(find_changes, busy=_BUSY)

    def _read(self) -> tuple[list[str], int]:
        record = self._engine.get(self._scope, self._key, kind=Kind.LEDGER)
        data = record.data if record is not None else None
        shown = data.get("shown") if isinstance(data, dict) else None
        version = 0 if record is None else record.version
        return [each for each in shown if isinstance(each, str)] if isinstance(shown, list) else [], version

    def _put(self, ids: Iterable[str], version: int) -> Put:
        shown: list[Json] = [*ids]
        draft = Draft(scope=self._scope, kind=Kind.LEDGER, key=self._key, data={"shown": shown}, source=_SOURCE)
        return Put(draft=draft, how="key", if_version=version, ttl=_LIFETIME)
