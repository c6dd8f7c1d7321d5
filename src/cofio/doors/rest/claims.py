"""Which server is at a job: on a store that several machines share, a job is one server's until that ends.

A claim stands in the job's record, for a short time, and is renewed while the job is being done. What a server had
claimed that was killed is free when the time is over.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property

from ...conversations.conversations import Conversations
from ...conversations.message_records import fields
from ...engine.engine import Engine
from ...values.errors import CofioError
from ...values.records import Json, Record

LEASE = timedelta(seconds=20)
LOOK_AGAIN = 0.5  # seconds between two looks whether another server has finished a job
RENEWALS = 4  # of a claim within the time that it holds


class Claims:
    """The claims of one server."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    @property
    def _engine(self) -> Engine:
        return self._conversations.engine

    @cached_property
    def _server(self) -> str:
        # Servers on one folder see to it in other ways: what two of them begin at once, one of them finishes.
        return secrets.token_hex(8) if self._engine.shared_values is not None else ""

    @property
    def are_shared(self) -> bool:
        """Whether servers on other machines may do a job that this one cannot do."""
        return bool(self._server)

    def make(self) -> dict[str, Json]:
        """Return what stands in the record of a job that this server claims now."""
        if not self._server:
            return {}
        return {"server": self._server, "claimed_until": self._engine.expiry(LEASE).isoformat()}

    def measure_wait(self, job: Record) -> float:
        """In how many seconds a job is to be looked at again that another server has claimed; 0 when it is free."""
        known = fields(job)
        until = known.get("claimed_until")
        if not self._server or known["status"] != "running" or known.get("server") == self._server or not until:
            return 0.0
        now = self._engine.expiry(LEASE) - LEASE  # by the store's time, which all machines have in common
        left = (datetime.fromisoformat(str(until)) - now).total_seconds()
        return min(LOOK_AGAIN, left) if left > 0 else 0.0

    @contextmanager
    def hold(self, job: Record) -> Iterator[None]:
        """Renew the claim on a job as long as the block takes."""
        if not self._server:
            yield
            return
        has_ended = threading.Event()
        renewal = threading.Thread(target=self._renew, args=(job.id, has_ended), name="cofio-claim", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            has_ended.set()

    def _renew(self, id: str, has_ended: threading.Event) -> None:
        while not has_ended.wait(LEASE.total_seconds() / RENEWALS):
            with suppress(CofioError):  # it was deleted, or is being changed: if it is still ours, the next one counts
                job = self._engine.read(id)
                if fields(job)["status"] != "running" or fields(job).get("server") != self._server:
                    return
                if not has_ended.is_set():
                    self._engine.edit(id, data={**fields(job), **self.make()}, if_version=job.version)
