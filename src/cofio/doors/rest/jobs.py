"""Deferred work: sessions that are carved after their messages were acknowledged.

A job is a record, so it outlives the server that took it down; whichever server starts next does it.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from ...errors import CofioError, Conflict, NotFound
from ...model import Json, Kind, Record, Scope
from ...query import MAX_LIST, Where
from ...sessions import Conversations, Place
from ...sessions.places import ROOT
from ...sessions.turns import SOURCE, fields

KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class _Job:
    place: Place
    id: str


class Jobs:
    """Carves, one at a time, in a thread of its own that starts with the first job."""

    def __init__(self, conversations: Callable[[], Conversations]) -> None:
        self._conversations = conversations
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def defer(self, place: Place, session: str, count: int) -> str:
        """Take down that a session is to be carved; the job's id."""
        job = f"job_{secrets.token_hex(12)}"
        data: dict[str, Json] = {
            "status": "queued", "session_id": session, "message_count": count, "result": None, "error": None,
        }  # fmt: skip
        self._conversations().engine.put(
            place.scope / "job", job, kind=Kind.LEDGER, data=data, source=SOURCE, ttl=KEPT, if_version=0
        )
        self._enqueue(_Job(place, job))
        return job

    def resume(self) -> None:
        """Take up what was left undone when a server ended."""
        unfinished = Where("data.status", "in", ("queued", "running"))
        engine = self._conversations().engine
        for record in engine.list(Scope(ROOT), kinds=(Kind.LEDGER,), filter=unfinished, limit=MAX_LIST, newest=False):
            if record.key is not None:
                _, app, project, *_ = record.scope.names
                self._enqueue(_Job(Place(app=app, project=project), record.key))

    def close(self) -> None:
        """End with the job that is being done; the others wait for the next server."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            self._queue.put(None)
            thread.join(timeout=10)

    def _enqueue(self, job: _Job) -> None:
        self._queue.put(job)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="cofio-jobs", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                self._do(job)
            except CofioError:
                continue  # the store cannot be used, or the job is gone: it is taken up again by the next server

    def _do(self, job: _Job) -> None:
        conversations = self._conversations()
        kept = conversations.engine.get(job.place.scope / "job", job.id, kind=Kind.LEDGER)
        if kept is None or fields(kept)["status"] in ("done", "failed"):
            return
        kept = self._mark(conversations, kept, status="running")
        try:
            carved = conversations.carve(job.place, str(fields(kept)["session_id"]))
        except CofioError as error:
            self._mark(conversations, kept, status="failed", error=str(error))
            return
        self._mark(conversations, kept, status="done", result="extracted" if carved else "accumulated")

    def _mark(self, conversations: Conversations, job: Record, **changed: Json) -> Record:
        try:
            return conversations.engine.edit(job.id, data={**fields(job), **changed})
        except (Conflict, NotFound):  # it was deleted with its session
            return job
