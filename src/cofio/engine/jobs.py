"""The queue of a store: work that is carried out after the call that asked for it was answered.

A job is a record under `JOBS`, written in the transaction that it belongs to, so no crash can part the two. Any process
with a handler for its kind claims it by a conditional write. A claim holds for LEASE_SECONDS and is renewed while the
work goes on, so the jobs of a process that was killed are free again soon.

Missing vectors and expired records need no job: an index of the store lists them already, with claims of its own.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, cast

from ..values.changes import Change, Delete, Edit, Put
from ..values.errors import CofioError, Conflict, NotFound, Unavailable
from ..values.query import Filter
from ..values.records import Draft, Json, Kind, Record, Scope
from ..values.scopes import JOBS
from .engine import Engine

JOB_KINDS = ("task", "refine", "markdown")
GATHER_SECONDS = 0.02  # in which more jobs may come, that one look finds
POLL_SECONDS = 5.0  # between two looks for jobs that other processes left
LEASE_SECONDS = 10.0
RETRY_PAUSE_SECONDS = 1.0  # after which a job is looked at again that could not even be claimed
RENEW_SECONDS = LEASE_SECONDS / 4
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 5.0, 3600.0
MAX_LOSSES = 5  # processes that may end while they carry out one job, before it counts as failed
MAX_LISTED = 500  # jobs of one kind that are looked at in one round
MAX_ERROR_CHARACTERS = 1000
_log = logging.getLogger("cofio.jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """Carries out the jobs of one kind."""

    run: Callable[[Record], Mapping[str, Json] | None]
    """Carries out a job; returns fields to keep with it. Conflict, NotFound and Unavailable mean: try again later."""
    archive: Callable[[Record], Scope] | None = None
    """Scope that a finished job moves to. Without one it is deleted."""
    in_order: bool = False
    """Carry out the jobs of one scope one after another, oldest first."""
    is_repeatable: bool = False
    """Carrying it out twice does no harm, so it needs no claim."""
    max_running: int = 4
    max_attempts: int | None = None


class QueueDepth(NamedTuple):
    """The unfinished jobs of one kind."""

    jobs: int
    oldest: datetime | None


def make_job(
    kind: str,
    line: Scope,
    data: Mapping[str, Json],
    *,
    key: str | None = None,
    id: str | None = None,
    ttl: timedelta | None = None,
) -> Put:
    """Return the change that enqueues a job. Jobs of the same kind and `line` can be carried out in order."""
    draft = Draft(
        scope=Scope(*JOBS.names, kind, *line.names), kind=Kind.LEDGER, id=id, key=key or f"job_{secrets.token_hex(12)}",
        data={"status": "queued", "attempts": 0, "error": None, **data}, source="jobs",
    )  # fmt: skip
    return Put(draft=draft, how="key", if_version=0, ttl=ttl)


def read_job(job: Record) -> dict[str, Json]:
    """Return the fields of a job."""
    return cast("dict[str, Json]", job.data)


def list_jobs(
    engine: Engine,
    kind: str,
    line: Scope = Scope(),  # noqa: B008  # a value
    *,
    filter: Filter | None = None,
    limit: int = MAX_LISTED,
) -> list[Record]:
    """Return the unfinished jobs of a kind, oldest first."""
    scope = Scope(*JOBS.names, kind, *line.names)
    return engine.list(scope, kinds=(Kind.LEDGER,), filter=filter, limit=limit, newest=False, order="created")


def measure_queue(engine: Engine, kind: str) -> QueueDepth:
    """Count the unfinished jobs of a kind."""
    scope = JOBS / kind
    oldest = engine.list(scope, kinds=(Kind.LEDGER,), limit=1, newest=False, order="created")
    return (
        QueueDepth(engine.count(scope, kinds=(Kind.LEDGER,)), oldest[0].created_at) if oldest else QueueDepth(0, None)
    )


class JobRunner:
    """Carries out the jobs of a store, in threads of its own, until it is stopped."""

    def __init__(self, engine: Engine, handlers: Mapping[str, Handler], *, owner: str | None = None) -> None:
        """`owner` names the claims of this runner; a successor with the same name takes them over at once."""
        self._engine = engine
        self._handlers = handlers
        self._owner = owner or secrets.token_hex(8)
        self._process = secrets.token_hex(8)
        self._chores: list[_Chore] = []
        self._running: dict[str, tuple[str, Record]] = {}
        """The jobs that threads of this process carry out, by their ids, with their kinds."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_stopping = False
        self._pool = ThreadPoolExecutor(sum(each.max_running for each in handlers.values()) + 1, "cofio-jobs")
        self._thread = threading.Thread(target=self._run, name="cofio-job-queue", daemon=True)
        self.on_failure: Callable[[str], None] = lambda kind: None
        """Called with the kind of each job that has failed for good."""

    def add_chore(self, seconds: float, work: Callable[[], None]) -> None:
        """Have `work` done every so many seconds, too."""
        self._chores.append(_Chore(seconds, work))

    def start(self) -> None:
        """Begin to carry out jobs, those that an earlier process left included."""
        self._thread.start()

    def notice(self) -> None:
        """Look for new jobs now."""
        self._wake.set()

    def stop(self) -> None:
        """Begin no more jobs."""
        self._is_stopping = True
        self._wake.set()

    def close(self, seconds: float) -> None:
        """Stop, and wait up to `seconds` for the jobs at hand; what is not done is left to the next process."""
        self.stop()
        until = time.monotonic() + seconds
        if self._thread.is_alive():
            self._thread.join(seconds)
        self._pool.shutdown(wait=False, cancel_futures=True)
        while self._running and time.monotonic() < until:
            time.sleep(0.01)

    def _run(self) -> None:
        while not self._is_stopping:
            pause = POLL_SECONDS
            try:
                self._renew_claims()
                pause = self._start_due()
            except CofioError:  # the store is busy, full or gone: look again
                pause = RENEW_SECONDS
            except Exception:  # a thread that ended would do no more jobs
                _log.exception("the job queue failed")
            if self._wake.wait(max(GATHER_SECONDS, pause)) and not self._is_stopping:
                time.sleep(GATHER_SECONDS)
            self._wake.clear()

    def _start_due(self) -> float:
        """Start the jobs and chores that are due; return the seconds until the next look."""
        now = time.monotonic()
        for chore in self._chores:
            if chore.is_due(now):
                chore.begin()
                self._pool.submit(chore.run)
        pause = min([POLL_SECONDS, *(chore.measure_wait(now) for chore in self._chores)])
        if self._running:
            pause = min(pause, RENEW_SECONDS)
        for kind, handler in self._handlers.items():
            for job, wait in self._list_startable(kind, handler):
                if wait > 0:
                    pause = min(pause, wait)
                elif self._is_stopping or self._count_running(kind) >= handler.max_running:
                    break
                else:
                    with self._lock:
                        self._running[job.id] = kind, job
                    future = self._pool.submit(self._carry_out, kind, handler, job)
                    future.add_done_callback(partial(self._forget_cancelled, job.id))
        return pause

    def _forget_cancelled(self, id: str, future: Future[None]) -> None:
        if future.cancelled():
            with self._lock:
                self._running.pop(id, None)

    def _list_startable(self, kind: str, handler: Handler) -> Iterator[tuple[Record, float]]:
        """Yield the jobs that no thread of this process has, each with the seconds until it may be started."""
        jobs = list_jobs(self._engine, kind)
        if not jobs:
            return
        now = self._engine.read_clock()
        lines: set[Scope] = set()
        for job in jobs:
            if handler.in_order:
                if job.scope in lines:
                    continue
                lines.add(job.scope)
            if job.id not in self._running and "status" in read_job(job):
                yield job, self._measure_wait(job, now)

    def _measure_wait(self, job: Record, now: datetime) -> float:
        known = read_job(job)
        due = _parse_time(known.get("due"))
        if known["status"] == "running" and known.get("owner") != self._owner:
            due = _parse_time(known.get("lease_until"))
        return 0.0 if due is None else (due - now).total_seconds()

    def _count_running(self, kind: str) -> int:
        with self._lock:
            return sum(each == kind for each, _ in self._running.values())

    def _carry_out(self, kind: str, handler: Handler, job: Record) -> None:
        try:
            if not handler.is_repeatable:
                job = self._claim(kind, job)
                if int(str(read_job(job).get("losses", 0))) >= MAX_LOSSES:
                    self._fail(kind, handler, job, "no server could finish it", "attempts_exhausted")
                    return
            self._run_handler(kind, handler, job)
        except (Conflict, NotFound):  # another process has it, has done it, or it was deleted
            pass
        except CofioError:  # the store cannot be used: the job stays, and is claimed again later
            time.sleep(RETRY_PAUSE_SECONDS)
        except Exception as error:  # a record that is no job, as of another version
            _log.error("the job %s cannot be carried out: %s", job.key, type(error).__name__)
            time.sleep(RETRY_PAUSE_SECONDS)
        finally:
            with self._lock:
                self._running.pop(job.id, None)
            self._wake.set()

    def _run_handler(self, kind: str, handler: Handler, job: Record) -> None:
        try:
            fields = handler.run(job)
        except (Conflict, NotFound, Unavailable) as error:
            attempts = int(str(read_job(job)["attempts"])) + 1
            if self._engine.closed or self._is_stopping:  # no fault of the job's
                self._update_latest(job, {"status": "queued"})
            elif handler.max_attempts is not None and attempts >= handler.max_attempts:
                self._fail(kind, handler, job, str(error), type(error).__name__)
            else:
                self._put_off(job, attempts, error)
        except CofioError as error:
            self._fail(kind, handler, job, str(error), type(error).__name__)
        except Exception as error:  # a fault of our own must not keep those behind it waiting for ever
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.error("the job %s failed with %s\n%s", job.key, type(error).__name__, frames)
            if handler.archive is None:  # nobody would know that it is missing
                self._put_off(job, int(str(read_job(job)["attempts"])) + 1, Unavailable(type(error).__name__))
            else:
                self._fail(kind, handler, job, "Internal server error", type(error).__name__)
        else:
            self._finish(handler, job, {"status": "done", "error": None, **(fields or {})})

    def _claim(self, kind: str, job: Record) -> Record:
        known = read_job(job)
        # One that is still "running" was another process's, which ended without a word.
        was_lost = known["status"] == "running" and known.get("process") != self._process
        losses = int(str(known.get("losses", 0))) + was_lost
        fields: dict[str, Json] = {"status": "running", "losses": losses, **self._make_lease()}
        return self._change(job, fields, kind)

    def _make_lease(self) -> dict[str, Json]:
        until = self._engine.read_clock() + timedelta(seconds=LEASE_SECONDS)
        return {"owner": self._owner, "process": self._process, "lease_until": until.isoformat()}

    def _renew_claims(self) -> None:
        with self._lock:
            held = [
                (kind, job)
                for kind, job in self._running.values()
                if not self._handlers[kind].is_repeatable and read_job(job)["status"] == "running"
            ]
        for kind, job in held:
            with suppress(Conflict, NotFound):  # it has just ended, or was deleted
                self._change(job, self._make_lease(), kind)

    def _change(self, job: Record, fields: Mapping[str, Json], kind: str | None = None) -> Record:
        """Change fields of a job that nobody else has changed; with a `kind`, note the new state as the running one."""
        (changed,) = self._engine.apply(
            [Edit(id=job.id, fields={"data": {**read_job(job), **fields}}, if_version=job.version)]
        )
        assert isinstance(changed, Record)
        if kind is not None:
            with self._lock:
                if job.id in self._running:
                    self._running[job.id] = kind, changed
        return changed

    def _put_off(self, job: Record, attempts: int, error: CofioError) -> None:
        pause = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(attempts - 1, 20))
        due = self._engine.read_clock() + timedelta(seconds=pause)
        status = "waiting" if isinstance(error, Unavailable) else "queued"
        fields: dict[str, Json] = {"status": status, "attempts": attempts, "due": due.isoformat()}
        self._update_latest(job, {**fields, "error": str(error)[:MAX_ERROR_CHARACTERS]})

    def _update_latest(self, job: Record, fields: Mapping[str, Json]) -> None:
        for latest in self._read_latest(job):
            with suppress(Conflict):
                self._change(latest, fields)
                return

    def _fail(self, kind: str, handler: Handler, job: Record, error: str, code: str) -> None:
        failure: dict[str, Json] = {"status": "failed", "error": error[:MAX_ERROR_CHARACTERS], "error_code": code}
        self._finish(handler, job, failure)
        self.on_failure(kind)

    def _finish(self, handler: Handler, job: Record, fields: Mapping[str, Json]) -> None:
        """Take a job out of the queue."""
        for latest in self._read_latest(job):
            change: Change = Delete(id=job.id, if_version=latest.version)
            if handler.archive is not None:
                data = {**read_job(latest), **fields}
                ended = {"scope": handler.archive(job), "data": data}
                change = Edit(id=job.id, fields=ended, if_version=latest.version)
            with suppress(Conflict):
                self._engine.apply([change])
                return

    def _read_latest(self, job: Record) -> Iterator[Record]:
        """Yield a job as it is stored now, again and again, for as long as it is this runner's to change."""
        for _ in range(50):  # its claim may be renewed at the same moment
            with self._lock:
                _, latest = self._running.get(job.id, ("", job))
            yield latest
            latest = self._engine.read(job.id)
            if latest.scope != job.scope or read_job(latest).get("owner", self._owner) != self._owner:
                return
            yield latest


class _Chore:
    """Work that is done at intervals."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self._seconds = seconds
        self._work = work
        self._next = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def measure_wait(self, now: float) -> float:
        return max(0.05, self._next - now)

    def begin(self) -> None:
        self._next = float("inf")

    def run(self) -> None:
        try:
            self._work()
        except CofioError:  # the store may be busy, or about to be closed
            pass
        except Exception as error:
            _log.error("background work failed with %s", type(error).__name__)
        finally:
            self._next = time.monotonic() + self._seconds


def _parse_time(text: Json) -> datetime | None:
    return None if text is None else datetime.fromisoformat(str(text))
