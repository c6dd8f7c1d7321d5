"""Deferred work: sessions that are carved after their messages were acknowledged, and records that a model may better.

A job is a record, so it outlives the server that took it down; whichever server starts next does it.
"""

from __future__ import annotations

import heapq
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from ...errors import CofioError, Conflict, NotFound, Unavailable
from ...llm import Spent
from ...model import Json, Kind, Record, Scope
from ...query import MAX_LIST, AllOf, Where
from ...sessions import Conversations, Place
from ...sessions.places import ROOT
from ...sessions.spending import Spending
from ...sessions.turns import SOURCE, fields

KEPT = timedelta(days=7)
WORKERS = 4  # jobs at once: one that waits for a model does not keep the others
LOOK = 60.0  # seconds between looks for what other servers left
FIRST, LONGEST = 5.0, 3600.0  # seconds until a job that failed is tried again: at first, and at most
_log = logging.getLogger("cofio.rest")
UNFINISHED = Where("data.status", "in", ("queued", "running", "waiting"))


@dataclass(frozen=True, slots=True)
class _Job:
    place: Place
    session: str
    id: str


class Jobs:
    """Does jobs in threads of its own, which start with the first."""

    def __init__(self, conversations: Callable[[], Conversations], spending: Spending | None = None) -> None:
        """`spending` counts what the model costs, where there is one."""
        self._conversations = conversations
        self._spending = spending
        self._due: list[tuple[float, int, _Job]] = []
        self._numbers = count()
        self._known: set[str] = set()
        self._open: Counter[tuple[Place, str]] = Counter()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._look = time.monotonic() + LOOK
        self.trouble: str | None = None
        """Why the last job that needed a model could not be done; None when it could."""

    @property
    def waiting(self) -> int:
        """How many jobs are yet to be done."""
        with self._changed:
            return sum(self._open.values())

    def defer(self, place: Place, session: str, messages: int) -> str:
        """Take down that a session is to be carved; the job's id."""
        job = f"job_{secrets.token_hex(12)}"
        data: dict[str, Json] = {
            "task": "carve", "status": "queued", "session_id": session, "message_count": messages, "result": None,
            "error": None, "attempts": 0,
        }  # fmt: skip
        self._conversations().engine.put(
            place.scope / "job", job, kind=Kind.LEDGER, data=data, source=SOURCE, ttl=KEPT, if_version=0
        )
        self._take(_Job(place, session, job))
        return job

    def take_up(self, place: Place, session: str) -> None:
        """Take up what a session's carving left to do."""
        wanted = AllOf(Where("data.session_id", "=", session), UNFINISHED)
        self._take_all(place.scope / "job", wanted)

    def resume(self) -> None:
        """Take up what was left undone when a server ended, now and from time to time: others may end, too."""
        self._take_all(Scope(ROOT), UNFINISHED)
        with self._changed:
            if not self._threads and not self._closing:
                self._start()

    def settled(self, place: Place, session: str, seconds: float) -> bool:
        """Wait until nothing is left to do for a session, but no longer than that; whether it is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closing or not self._open[(place, session)], seconds)

    def spent(self, place: Place, session: str) -> Spent:
        """What the model was asked for a session's records, as far as their jobs are still kept."""
        of_it = Where("data.session_id", "=", session)
        jobs = self._conversations().engine.list(
            place.scope / "job", exact=True, kinds=(Kind.LEDGER,), filter=of_it, limit=MAX_LIST
        )
        total = Spent()
        for job in jobs:
            usage = fields(job).get("usage")
            if isinstance(usage, dict):
                total = total.plus(int(str(usage["calls"])), int(str(usage["tokens"])))
        return total

    def close(self) -> None:
        """End with the jobs that are being done; the others wait for the next server."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)  # one that waits for a model is left to itself: its job is not done

    def _take_all(self, scope: Scope, wanted: AllOf | Where) -> None:
        engine = self._conversations().engine
        for record in engine.list(scope, kinds=(Kind.LEDGER,), filter=wanted, limit=MAX_LIST, newest=False):
            if record.key is not None:
                _, app, project, *_ = record.scope.names
                self._take(_Job(Place(app=app, project=project), str(fields(record)["session_id"]), record.key))

    def _take(self, job: _Job, after: float = 0.0) -> None:
        with self._changed:
            if job.id in self._known:
                return
            self._known.add(job.id)
            self._open[(job.place, job.session)] += 1
            self._push(job, after)
            if len(self._threads) < min(WORKERS, len(self._known)):
                self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="cofio-jobs", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _push(self, job: _Job, after: float) -> None:
        heapq.heappush(self._due, (time.monotonic() + after, next(self._numbers), job))
        self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            again: float | None = None
            try:
                again = self._do(job)
            except CofioError:  # the store cannot be used: the job is taken up again by the next server
                pass
            except Exception as error:  # a thread that ended would do no more jobs
                _log.error("the job %s failed with %s", job.id, type(error).__name__)
            with self._changed:
                if again is None:
                    self._known.discard(job.id)
                    self._open[(job.place, job.session)] -= 1
                    self._open += Counter()  # what is at 0 is not kept
                    self._changed.notify_all()
                else:
                    self._push(job, again)

    def _next(self) -> _Job | None:
        while True:
            with self._changed:
                if self._closing:
                    return None
                now = time.monotonic()
                if self._due and self._due[0][0] <= now:
                    return heapq.heappop(self._due)[2]
                looks = now >= self._look
                if not looks:
                    self._changed.wait(min([self._look, *(due for due, _, _ in self._due[:1])]) - now)
                    continue
                self._look = now + LOOK
            with suppress(CofioError):  # the store may be busy, or about to be closed
                self._take_all(Scope(ROOT), UNFINISHED)

    def _do(self, job: _Job) -> float | None:
        """Do a job; in how many seconds it is to be tried again, if it is."""
        conversations = self._conversations()
        kept = conversations.engine.get(job.place.scope / "job", job.id, kind=Kind.LEDGER)
        if kept is None or fields(kept)["status"] in ("done", "failed"):
            return None
        attempts = int(str(fields(kept)["attempts"])) + 1
        kept = _marked(conversations, kept, status="running", attempts=attempts)
        usage: Json = None
        pause = min(LONGEST, FIRST * 2.0 ** min(attempts - 1, 20))
        try:
            if fields(kept)["task"] == "refine" and self._spending is not None:
                with self._spending.counting() as spent:
                    done = conversations.refine(job.place, fields(kept))
                result, self.trouble = "refined" if done else "left as it is", None
                usage = {"calls": spent().calls, "tokens": spent().tokens}
            else:
                result = "extracted" if conversations.carve(job.place, job.session) else "accumulated"
        except (Conflict, NotFound):  # a record changed meanwhile: look again
            _marked(conversations, kept, status="queued")
            return pause
        except Unavailable as error:
            if conversations.engine.closed:
                raise
            self.trouble = str(error)
            _marked(conversations, kept, status="waiting", error=str(error)[:1000])
            return pause
        except CofioError as error:
            _marked(conversations, kept, status="failed", error=str(error)[:1000])
            return None
        _marked(conversations, kept, status="done", result=result, error=None, usage=usage)
        return None


def _marked(conversations: Conversations, job: Record, **changed: Json) -> Record:
    try:
        return conversations.engine.edit(job.id, data={**fields(job), **changed})
    except NotFound:  # it was deleted with its session
        return job
