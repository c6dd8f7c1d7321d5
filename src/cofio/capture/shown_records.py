"""What an agent was shown in a session, kept in the store, so that nothing comes twice whichever process shows it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from ..engine.engine import Engine
from ..values.changes import Change, Put
from ..values.records import Draft, Json, Kind, Record, Scope, check_text

MAX_SESSION = 256
_LEDGER = "recalls"
_MOST = 2000  # records of one session
_LIFETIME = timedelta(days=30)
_BUSY = "too many are asking in this session at once; try again"
_SOURCE = "recall"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """What the agent of a session has in view."""

    session: str
    records: tuple[str, ...] = ()
    """The ids of the records that it was shown, oldest first."""
    lost_until: float = 0.0
    """The time, since 1970, up to which it has lost what was said, by a compaction; 0 if there was none."""
    version: int = 0

    def has(self, record: Record) -> bool:
        """Whether the agent has a record in view: it was shown, or is of the session itself and not lost."""
        if record.id in self.records:
            return True
        is_own = isinstance(record.data, dict) and record.data.get("session_id") == self.session
        return is_own and record.created_at.timestamp() >= self.lost_until


class ShownRecords:
    """The records that one session's agent was shown."""

    def __init__(self, engine: Engine, scope: Scope, session: str) -> None:
        check_text("session", session, MAX_SESSION, empty=False)
        self._engine = engine
        self._session = session
        self._scope = scope / _LEDGER
        # A name of any letters, of which none tells whose session it was.
        self._key = hashlib.blake2b(session.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def load(self) -> SessionView:
        """What the agent has in view by now."""
        record = self._engine.get(self._scope, self._key, kind=Kind.LEDGER)
        data = record.data if record is not None and isinstance(record.data, dict) else {}
        shown, lost = data.get("shown"), data.get("lost_until")
        return SessionView(
            session=self._session, version=0 if record is None else record.version,
            records=tuple(each for each in shown if isinstance(each, str)) if isinstance(shown, list) else (),
            lost_until=lost if isinstance(lost, float) else 0.0,
        )  # fmt: skip

    def add(self, ids: Collection[str]) -> list[str]:
        """Note that these are shown; those of them that no other process has shown meanwhile."""
        fresh: list[str] = []

        def find_changes() -> list[Change]:
            view = self.load()
            fresh[:] = [each for each in dict.fromkeys(ids) if each not in view.records]
            return [self._put([*view.records, *fresh][-_MOST:], view.lost_until, view.version)] if fresh else []

        self._engine.change(find_changes, busy=_BUSY)
        return fresh

    def clear(self) -> None:
        """Note that the agent has lost all so far, as by a compaction, and may need it again."""
        self._engine.change(lambda: [self._put([], time.time(), self.load().version)], busy=_BUSY)

    def _put(self, ids: list[str], lost_until: float, version: int) -> Put:
        shown: list[Json] = [*ids]
        data: Json = {"shown": shown, "lost_until": float(lost_until)}
        draft = Draft(scope=self._scope, kind=Kind.LEDGER, key=self._key, data=data, source=_SOURCE)
        return Put(draft=draft, how="key", if_version=version, ttl=_LIFETIME)
