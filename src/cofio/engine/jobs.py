"""The queue of a store: work that is carried out after the call that asked for it was answered.

A job is a record under `JOBS`, written in the transaction that it belongs to, so no crash can part the two. Any process
with a handler for its kind claims it by a conditional write. The claim names the runner, which renews a heartbeat
record while it works: when that has expired, its jobs are free again. Only its runner changes a claimed job. One that
was paused for too long finds its job changed by another, and drops the result.

Missing vectors and expired records need no job: an index of the store lists them already, with claims of its own.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeAlias, cast

from ..values.changes import Change, Delete, Edit, Put
from ..values.errors import CofioError, Conflict, NotFound, Unavailable
from ..values.query import AnyOf, Filter, Where
from ..values.records import Draft, Json, Kind, Record, Scope
from ..values.scopes import JOBS
from .engine import Engine

JOB_KINDS = ("task", "refine", "markdown")
RUNNERS = JOBS / "runner"  # scope of the heartbeats
WHOLE_STORE = Scope()
GATHER_SECONDS = 0.02  # in which more jobs may come, that one look finds
POLL_SECONDS = 5.0  # between two looks for jobs that other processes left or that were put off
LEASE_SECONDS = 10.0  # that a heartbeat lasts
RENEW_SECONDS = LEASE_SECONDS / 4
RETRY_PAUSE_SECONDS = 1.0  # before a thread goes on after a failure, as when the store is busy
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 5.0, 3600.0
MAX_LOSSES = 5  # processes that may end while they carry out one job, before it counts as failed
MAX_LISTED = 1000  # jobs of one kind that are looked at in one round
MAX_BATCH = 100  # jobs that are carried out at once
MAX_ERROR_CHARACTERS = 1000
_log = logging.getLogger("cofio.jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """Carries out the jobs of one kind, each once."""

    run: Callable[[Record], Mapping[str, Json]]
    """Carries out a job; returns fields to keep with it. Conflict, NotFound and Unavailable mean: try again later."""
    archive: Callable[[Record], Scope]
    """Returns the scope that a finished job moves to."""
    in_order: bool = False
    """Carry out the jobs of one scope one after another, oldest first."""
    max_running: int = 4
    max_attempts: int | None = None


RunBatch: TypeAlias = Callable[[Sequence[Record]], None]
"""Carries out jobs of a kind that may be carried out twice. They need no claim, and are deleted when it returns.

Of several jobs that fail together, each is tried again with fewer others.
"""

Handlers: TypeAlias = Mapping[str, Handler | RunBatch]
"""What carries out jobs, by their kind."""


class QueueDepth(NamedTuple):
    """The unfinished jobs of one kind."""

    jobs: int
    oldest: datetime | None


class _Running(NamedTuple):
    kind: str
    jobs: Sequence[Record]
    future: Future[None]


def get_job_scope(kind: str, line: Scope = WHOLE_STORE) -> Scope:
    """Return the scope of the unfinished jobs of a kind, or of one line of them."""
    return Scope(*JOBS.names, kind, *line.names)


def make_job(
    kind: str, line: Scope, data: Mapping[str, Json], *, name: str | None = None, ttl: timedelta | None = None
) -> Put:
    """Return the change that enqueues a job. Jobs of the same kind and `line` can be carried out in order.

    A job with a `name` has it as its key, and the id KIND-NAME.
    """
    draft = Draft(
        scope=get_job_scope(kind, line), kind=Kind.LEDGER, id=f"{kind}-{name}" if name else None,
        key=name or f"job_{secrets.token_hex(12)}",
        data={"status": "queued", "attempts": 0, "error": None, **data}, source="jobs",
    )  # fmt: skip
    return Put(draft=draft, how="key", if_version=0, ttl=ttl)


def read_job(job: Record) -> dict[str, Json]:
    """Return the fields of a job."""
    return cast("dict[str, Json]", job.data)


def list_jobs(
    engine: Engine, kind: str, line: Scope = WHOLE_STORE, *, filter: Filter | None = None, limit: int = MAX_LISTED
) -> list[Record]:
    """Return the unfinished jobs of a kind, oldest first."""
    scope = get_job_scope(kind, line)
    return engine.list(scope, kinds=(Kind.LEDGER,), filter=filter, limit=limit, newest=False, order="created")


def count_jobs(engine: Engine, kind: str, line: Scope = WHOLE_STORE) -> int:
    """Return how many jobs of a kind are not finished."""
    return engine.count(get_job_scope(kind, line), kinds=(Kind.LEDGER,))


def measure_queue(engine: Engine, kind: str) -> QueueDepth:
    """Count the unfinished jobs of a kind."""
    oldest = list_jobs(engine, kind, limit=1)
    return QueueDepth(count_jobs(engine, kind), oldest[0].created_at) if oldest else QueueDepth(0, None)


def apply_possible(engine: Engine, changes: Sequence[Change]) -> int:
    """Make changes together, but for those that another process has made impossible; return how many were made."""
    try:
        if changes:
            engine.apply(changes)
    except (Conflict, NotFound):
        half = len(changes) // 2
        return apply_possible(engine, changes[:half]) + apply_possible(engine, changes[half:]) if half else 0
    return len(changes)


def run_batch(engine: Engine, run: RunBatch, jobs: Sequence[Record]) -> int:
    """Carry out jobs and delete them; return how many. A job that fails by itself is put off."""
    try:
        run(jobs)
    except Exception as error:  # one job must not keep the others waiting for ever
        if half := len(jobs) // 2:
            return run_batch(engine, run, jobs[:half]) + run_batch(engine, run, jobs[half:])
        apply_possible(engine, [_put_off(engine, jobs[0], error)])
        return 0
    return apply_possible(engine, [Delete(id=job.id) for job in jobs])


class JobRunner:
    """Carries out the jobs of a store, in threads of its own, until it is stopped."""

    def __init__(self, engine: Engine, handlers: Handlers, *, owner: str | None = None) -> None:
        """A successor with the same `owner` takes over the claims of this runner at once."""
        self._engine = engine
        self._handlers = handlers
        self._family = f"{owner or secrets.token_hex(8)}:"
        self._owner = self._family + secrets.token_hex(8)
        self._next_beat = 0.0
        self._running: list[_Running] = []
        self._wake = threading.Event()
        self._is_stopping = threading.Event()
        threads = sum(each.max_running if isinstance(each, Handler) else 1 for each in handlers.values())
        self._pool = ThreadPoolExecutor(threads, "cofio-jobs")
        self._threads: list[threading.Thread] = []
        self.add_chore(POLL_SECONDS, self._start_due, wake=self._wake)
        self.add_chore(RENEW_SECONDS, self._keep_claims)
        self.on_failure: Callable[[str], None] = lambda kind: None
        """Called with the kind of each job that has failed for good."""

    def add_chore(self, seconds: float, work: Callable[[], None], *, wake: threading.Event | None = None) -> None:
        """Have `work` done every so many seconds, too, and when `wake` is set."""
        arguments = seconds, work, wake or self._is_stopping
        self._threads.append(threading.Thread(target=self._repeat, args=arguments, name="cofio-queue", daemon=True))

    def start(self) -> None:
        """Begin to carry out jobs, those that an earlier process left included."""
        for thread in self._threads:
            thread.start()

    def notice(self) -> None:
        """Look for new jobs now."""
        self._wake.set()

    def stop(self) -> None:
        """Begin no more jobs."""
        self._is_stopping.set()
        self._wake.set()

    def close(self, seconds: float) -> None:
        """Stop, and wait up to `seconds` for the jobs at hand; what is not done is left to the next process."""
        self.stop()
        until = time.monotonic() + seconds
        if self._threads[0].is_alive():
            self._threads[0].join(seconds)
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait([each.future for each in self._running], max(0.0, until - time.monotonic()))

    def _repeat(self, seconds: float, work: Callable[[], None], wake: threading.Event) -> None:
        while not self._is_stopping.is_set():
            self._attempt(work)
            if not self._is_stopping.is_set():  # else a look that clears `wake` would have this wait for nothing
                wake.wait(seconds)

    def _attempt(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (Conflict, NotFound):  # another process has the job, has done it, or it was deleted
            pass
        except Exception as error:  # the store may be busy, full or gone: look again later
            if not isinstance(error, CofioError):
                _log_fault("background work", error)
            self._is_stopping.wait(RETRY_PAUSE_SECONDS)

    def _start_due(self) -> None:
        time.sleep(GATHER_SECONDS)
        self._wake.clear()
        self._running = [each for each in self._running if not each.future.done()]
        now = self._engine.read_clock().isoformat()
        for kind, handler in self._handlers.items():
            running = {job.id: job for each in self._running if each.kind == kind for job in each.jobs}
            if not isinstance(handler, Handler):
                if not running and (batch := self._list_due(kind, now)):
                    self._submit(kind, batch, partial(run_batch, self._engine, handler, batch))
                continue
            for job in self._list_free(kind, handler, now):
                if job.id in running:
                    continue
                # What ended a process runs alone: no other job of its kind is lost with it again.
                has_suspect = bool(running) and any(map(_was_lost, (job, *running.values())))
                if has_suspect or len(running) >= handler.max_running or self._is_stopping.is_set():
                    break
                self._beat()
                self._submit(kind, [job], partial(self._claim_and_run, kind, handler, job))
                running[job.id] = job

    def _list_due(self, kind: str, now: str) -> list[Record]:
        is_due = AnyOf(Where("data.attempts", "=", 0), Where("data.due", "<=", now))
        return list_jobs(self._engine, kind, filter=is_due, limit=MAX_BATCH)

    def _list_free(self, kind: str, handler: Handler, now: str) -> Iterator[Record]:
        """Yield the jobs that are due, first in their line if order counts, and claimed by no live runner."""
        lines: set[Scope] = set()
        # A job that is put off holds up those behind it in its line, so it has to be seen, too.
        for job in list_jobs(self._engine, kind) if handler.in_order else self._list_due(kind, now):
            if handler.in_order and job.scope in lines:
                continue
            lines.add(job.scope)
            known = read_job(job)
            owner = str(known.get("owner"))
            is_free = (
                known.get("status") != "running"
                or owner.startswith(self._family)
                or self._engine.get(RUNNERS, owner, kind=Kind.LEDGER) is None
            )
            if is_free and str(known.get("due") or "") <= now:
                yield job

    def _submit(self, kind: str, jobs: Sequence[Record], work: Callable[[], object]) -> None:
        future = self._pool.submit(self._attempt, work)
        self._running.append(_Running(kind, jobs, future))
        future.add_done_callback(lambda _: self._wake.set())

    def _keep_claims(self) -> None:
        if any(isinstance(self._handlers[each.kind], Handler) for each in self._running):
            self._beat()

    def _beat(self) -> None:
        """Renew the heartbeat, unless that was done a moment ago."""
        if time.monotonic() >= self._next_beat:
            draft = Draft(scope=RUNNERS, kind=Kind.LEDGER, key=self._owner, source="jobs")
            self._engine.apply([Put(draft=draft, how="key", ttl=timedelta(seconds=LEASE_SECONDS))])
            self._next_beat = time.monotonic() + RENEW_SECONDS

    def _claim_and_run(self, kind: str, handler: Handler, job: Record) -> None:
        # One that is still "running" was another process's, which ended without a word.
        is_lost = read_job(job).get("status") == "running" and read_job(job).get("owner") != self._owner
        losses = _get_count(job, "losses") + is_lost
        (claimed,) = self._engine.apply([_edit(job, {"status": "running", "owner": self._owner, "losses": losses})])
        (ended,) = self._engine.apply([self._carry_out(handler, cast(Record, claimed))])
        if read_job(cast(Record, ended))["status"] == "failed":
            self.on_failure(kind)

    def _carry_out(self, handler: Handler, job: Record) -> Edit:
        """Carry out a job; return the change that archives it or puts it off."""
        if _get_count(job, "losses") >= MAX_LOSSES:
            return _make_failure(handler, job, "no server could finish it", "attempts_exhausted")
        try:
            fields = handler.run(job)
        except Exception as error:
            can_retry = isinstance(error, Conflict | NotFound | Unavailable)
            if can_retry and (self._engine.closed or self._is_stopping.is_set()):  # no fault of the job's
                return _edit(job, {"status": "queued"})
            if can_retry and (handler.max_attempts is None or _get_count(job, "attempts") + 1 < handler.max_attempts):
                return _put_off(self._engine, job, error)
            return _make_failure(handler, job, _describe(job, error), type(error).__name__)
        return _edit(job, {"status": "done", "error": None, **fields}, handler.archive(job))


def _edit(job: Record, fields: Mapping[str, Json], scope: Scope | None = None) -> Edit:
    """Return the change of a job that nobody else has changed."""
    changed = {"data": {**read_job(job), **fields}, "scope": scope or job.scope}
    return Edit(id=job.id, fields=changed, if_version=job.version)


def _put_off(engine: Engine, job: Record, error: Exception) -> Edit:
    """Return the change after which a job waits until it is tried again, longer each time."""
    attempts = _get_count(job, "attempts") + 1
    pause = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(attempts - 1, 20))
    due = engine.read_clock() + timedelta(seconds=pause)
    status = "queued" if isinstance(error, Conflict | NotFound) else "waiting"
    reason = _describe(job, error)[:MAX_ERROR_CHARACTERS]
    return _edit(job, {"status": status, "attempts": attempts, "due": due.isoformat(), "error": reason})


def _make_failure(handler: Handler, job: Record, error: str, code: str) -> Edit:
    failure: dict[str, Json] = {"status": "failed", "error": error[:MAX_ERROR_CHARACTERS], "error_code": code}
    return _edit(job, failure, handler.archive(job))


def _describe(job: Record, error: Exception) -> str:
    """Return why a job failed; a fault of our own is logged, and no user is told more of it."""
    if isinstance(error, CofioError):
        return str(error)
    _log_fault(f"the job {job.key}", error)
    return "Internal server error"


def _log_fault(what: str, error: Exception) -> None:
    """Log where a fault came from; its message may hold what was said."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.error("%s failed with %s\n%s", what, type(error).__name__, frames)


def _was_lost(job: Record) -> bool:
    """Return whether a process has ended while it carried out a job."""
    return read_job(job).get("status") == "running" or _get_count(job, "losses") > 0


def _get_count(job: Record, name: str) -> int:
    return int(str(read_job(job).get(name, 0)))
