"""Deferred work: requests that were acknowledged before they were carried out, sessions that are never flushed, and
what a model may improve.

A job is a record, so it outlives the server that took it down; whichever server starts next does it.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count

from ...conversations.conversations import Conversations, Project
from ...conversations.idle import find_quiet_sessions
from ...conversations.message_records import fields
from ...conversations.usage import ModelUsage
from ...engine.engine import Engine
from ...llm import Usage
from ...values.changes import Delete
from ...values.errors import CofioError, Conflict, NotFound, Unavailable
from ...values.query import MAX_LIST, AllOf, Where
from ...values.records import Json, Kind, Record, Scope
from ...values.scopes import CONVERSATIONS
from ..web.failures import RequestError
from . import tasks
from .claims import Claims

WORKERS = 4  # jobs at once: one that waits for a model does not keep the others
AT_MODEL = WORKERS - 1  # of them, those that may wait for a model: there is always one for what clients wait for
STAND_BACK = 300.0  # seconds that a job which takes the processor waits for what searches miss, at most
SCAN_PAUSE = 60.0  # seconds between looks for what other servers left
QUIET_SCANS = 4  # looks for silent sessions within the time after which one counts as silent
SHORTEST_QUIET, LONGEST_QUIET = 0.1, 300.0  # seconds between them, at least and at most
FIRST, LONGEST = 5.0, 3600.0  # seconds until a job that failed is tried again: at first, and at most
SHORT = 0.1  # seconds until a job is looked at again that another server has just begun
ATTEMPTS = 5  # at a task, before it counts as failed
TRIES = 50  # at taking down how a task went, while other servers take down that they begin it
RETRY_AFTER = 1  # seconds that a client is asked to wait when there is no room for its request
_log = logging.getLogger("cofio.rest")
UNFINISHED = Where("data.status", "in", ("queued", "running", "waiting"))


@dataclass(frozen=True, slots=True)
class _Job:
    project: Project
    session: str
    id: str | None
    """The key of a job's record; None for the tasks of the session, in their order."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """How the tasks of a server are getting on."""

    alive: bool
    accepting: bool
    pending: int
    oldest: datetime | None
    """When the task came in that has waited longest."""
    failed: int
    """How many have failed since the server started."""
    faulted_at: datetime | None
    """When one last failed by a fault of the server's own."""
    open_count: int = 0
    """How many jobs are yet to be done: tasks, and what the model is to do."""
    trouble: str | None = None
    """Why the last job that needed a model could not be done; None when it could."""


class Jobs:
    """Does jobs in threads of its own, which start with the first."""

    def __init__(
        self,
        conversations: Conversations,
        spending: ModelUsage | None = None,
        *,
        quiet: timedelta = timedelta(),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`spending` counts what the model costs, where there is one.

        A session to which nothing has come for the time `quiet` is carved; with none, it waits for a flush.
        """
        self._conversations = conversations
        self._spending = spending
        self._quiet = quiet
        self._clock = clock
        self._claims = Claims(conversations)
        self._due: list[tuple[float, int, _Job]] = []
        self._due_lines: list[tuple[float, int, _Job]] = []
        self._at_model = 0
        self._numbers = count()
        self._active: set[_Job] = set()
        self._again: set[_Job] = set()
        self._open: Counter[tuple[Project, str]] = Counter()
        self._lines: dict[tuple[Project, str], dict[str, datetime]] = {}
        self._condition = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._is_closing = False
        self._next_scan = time.monotonic() + SCAN_PAUSE
        self._next_quiet_scan = time.monotonic() if quiet else float("inf")
        self._is_scanning = False
        self._failures = 0
        self._faulted_at: datetime | None = None
        self.trouble: str | None = None
        """Why the last job that needed a model could not be done; None when it could."""

    @property
    def queue(self) -> QueueState:
        """How the tasks are getting on that this server knows of."""
        with self._condition:
            times = [at for line in self._lines.values() for at in line.values()]
            alive = not self._threads or any(thread.is_alive() for thread in self._threads)
            return QueueState(
                alive=alive, accepting=not self._is_closing, pending=len(times), oldest=min(times, default=None),
                failed=self._failures, faulted_at=self._faulted_at, open_count=sum(self._open.values()),
                trouble=self.trouble,
            )  # fmt: skip

    def count_waiting(self, project: Project, session: str) -> int:
        """How many tasks of a session are not finished, whichever server took them in."""
        return tasks.count_waiting(self._conversations.engine, project, session)

    def check_room(self, ahead: int) -> None:
        """Raise RequestError if there is no room for a task behind the `ahead` ones of its session."""
        with self._condition:
            total = sum(map(len, self._lines.values()))
        check_room(ahead, total)

    def enqueue_task(self, project: Project, session: str, task: str) -> None:
        """Carry out a task that has been taken down, after those of its session that came before it."""
        with self._condition:
            self._lines.setdefault((project, session), {})[task] = self._clock()
        self._enqueue(_Job(project, session, None))

    def enqueue_jobs(self, project: Project, session: str) -> None:
        """Take up what a session's carving left to do."""
        selection = AllOf(Where("data.session_id", "=", session), UNFINISHED)
        self._enqueue_all(project.scope / "job", selection)

    def resume(self) -> None:
        """Take up what was left undone when a server ended, now and from time to time: others may end, too."""
        self._enqueue_all(CONVERSATIONS, UNFINISHED)
        with self._condition:
            if not self._threads and not self._is_closing:
                self._start()

    def wait_until_settled(self, project: Project, session: str, seconds: float) -> bool:
        """Wait until nothing is left to do for a session, but no longer than that; whether it is so.

        A model that could not be asked of late is not waited for: what it has to do is tried again some time.
        """
        with self._condition:
            self._condition.wait_for(
                lambda: self._is_closing or not self._open[(project, session)] or self.trouble is not None, seconds
            )
            return not self._open[(project, session)]

    def sum_usage(self, project: Project, session: str) -> Usage:
        """What the model was asked for a session's records, as far as their jobs are still stored."""
        return sum_usage(self._conversations.engine, project, session)

    def stop(self) -> None:
        """Begin no more jobs, and end every wait for one: what is not done is left to the next server."""
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()

    def close(self, seconds: float = 5.0) -> None:
        """End with the jobs that are being done, if they end within this time."""
        self.stop()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))  # one that takes longer is left to itself: it is not done

    def _enqueue_all(self, scope: Scope, selection: AllOf | Where) -> None:
        engine = self._conversations.engine
        for record in engine.list(scope, kinds=(Kind.LEDGER,), filter=selection, limit=MAX_LIST, newest=False):
            is_for_others = (
                not self._conversations.is_refined and self._claims.are_shared and fields(record)["task"] == "refine"
            )
            if record.key is not None and not is_for_others:
                project, session = tasks.get_project(record), str(fields(record)["session_id"])
                is_task = fields(record).get("task") in tasks.TASK_TYPES
                if is_task:
                    with self._condition:
                        self._lines.setdefault((project, session), {}).setdefault(record.key, record.created_at)
                self._enqueue(_Job(project, session, None if is_task else record.key))

    def _enqueue(self, job: _Job, after: float = 0.0) -> None:
        with self._condition:
            if job in self._active:
                if job.id is None:
                    self._again.add(job)  # it may have looked for the last time
                return
            self._active.add(job)
            self._open[(job.project, job.session)] += 1
            self._push(job, after)
            self._start_if_needed()

    def _start_if_needed(self) -> None:
        # The thread that looks around is not there for jobs meanwhile: 1,000 silent sessions keep it for seconds.
        if len(self._threads) < min(WORKERS, len(self._active)) + self._is_scanning:
            self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="cofio-jobs", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _push(self, job: _Job, after: float) -> None:
        due = self._due_lines if job.id is None else self._due
        heapq.heappush(due, (time.monotonic() + after, next(self._numbers), job))
        self._condition.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            again: float | None = None
            try:
                again = self._run_tasks(job) if job.id is None else self._run_job(job, job.id)
            except CofioError:  # the store cannot be used: the job is taken up again by the next server
                pass
            except Exception as error:  # a thread that ended would do no more jobs
                _log.error("the job %s failed with %s", job.id or "of a session", type(error).__name__)
            with self._condition:
                self._at_model -= job.id is not None
                if again is None and job in self._again:
                    again = 0.0
                self._again.discard(job)
                if again is None:
                    self._active.discard(job)
                    self._open[(job.project, job.session)] -= 1
                    self._open += Counter()  # what is at 0 is dropped
                else:
                    self._push(job, again)
                self._condition.notify_all()

    def _next(self) -> _Job | None:
        while True:
            with self._condition:
                if self._is_closing:
                    return None
                now = time.monotonic()
                if (job := self._pop(now)) is not None:
                    return job
                if now >= self._next_scan and not self._is_scanning:
                    self._next_scan = now + SCAN_PAUSE
                    scan = self._look_for_jobs
                elif now >= self._next_quiet_scan and not self._is_scanning:
                    often = self._quiet.total_seconds() / QUIET_SCANS
                    self._next_quiet_scan = now + max(SHORTEST_QUIET, min(LONGEST_QUIET, often))
                    scan = self._carve_quiet
                else:
                    has_room, stands_back = self._has_room(), self._stands_back(now)
                    able = [self._due_lines, *([self._due] if has_room and not stands_back else [])]
                    due = [queue[0][0] for queue in able if queue]
                    due += [now + SHORT] if stands_back and has_room else []
                    due += [] if self._is_scanning else [self._next_scan, self._next_quiet_scan]
                    self._condition.wait(min(due) - now if due else None)
                    continue
                self._is_scanning = True
                self._start_if_needed()
            try:
                with suppress(CofioError):  # the store may be busy, or about to be closed
                    scan()
            finally:
                with self._condition:
                    self._is_scanning = False
                    self._condition.notify_all()

    def _pop(self, now: float) -> _Job | None:
        """What is due and can be done: tasks first, for clients wait for them."""
        if self._due_lines and self._due_lines[0][0] <= now:
            return heapq.heappop(self._due_lines)[2]
        if self._due and self._due[0][0] <= now and self._has_room() and not self._stands_back(now):
            self._at_model += 1
            return heapq.heappop(self._due)[2]
        return None

    def _has_room(self) -> bool:
        """Whether one more of the jobs can be done that no client waits for."""
        return self._at_model < (AT_MODEL if self._conversations.has_model else 1)

    def _stands_back(self, now: float) -> bool:
        """Whether a job that is due, and is for this processor and no model's, is to wait for more urgent work."""
        if self._conversations.has_model or not self._due:
            return False
        return 0 <= now - self._due[0][0] < STAND_BACK and self._conversations.engine.is_behind

    def _look_for_jobs(self) -> None:
        self._enqueue_all(CONVERSATIONS, UNFINISHED)

    def _carve_quiet(self) -> None:
        """Carve the sessions that have fallen silent. Servers that do so at once see to it that one does."""
        conversations = self._conversations
        for project, session in find_quiet_sessions(conversations.engine, self._clock() - self._quiet):
            if self._is_closing:
                return
            try:
                if conversations.carve(project, session, whole=True) and conversations.is_refined:
                    self.enqueue_jobs(project, session)
            except CofioError:  # it is looked at again later
                continue
            except Exception as error:  # one that cannot be carved must not keep the others, nor end the thread
                _log.error("a session that has fallen silent could not be carved: %s", type(error).__name__)

    def _run_tasks(self, job: _Job) -> float | None:
        """Carry out the tasks of a session; in how many seconds to go on, if that is not all."""
        engine, session = self._conversations.engine, (job.project, job.session)
        while not self._is_closing:
            with self._condition:
                before = set(self._lines.get(session, ()))
            waiting = tasks.list_waiting(engine, *session)
            with self._condition:
                line = self._lines.setdefault(session, {})
                for key in before - {str(task.key) for task in waiting}:  # deleted, or done by another server
                    line.pop(key, None)
                line |= {str(task.key): task.created_at for task in waiting}
                if not line:
                    del self._lines[session]
            if not waiting:
                return None
            try:
                again = self._run_task(job.project, job.session, waiting[0])
            except (Conflict, NotFound):  # another server is at it, or it was deleted: look again
                continue
            if again is not None:
                return again
        return None

    def _run_task(self, project: Project, session: str, task: Record) -> float | None:
        """Carry out a task; in how many seconds it is to be tried again, if it is.

        Raises:
            Conflict, NotFound: the task is no longer what it was.
        """
        conversations = self._conversations
        engine = conversations.engine
        if wait := self._claims.measure_wait(task):
            return wait
        attempts = int(str(fields(task)["attempts"])) + 1
        if attempts > ATTEMPTS:  # each time the server ended while it was at it
            self._fail(project, task, "no server could finish it", "attempts_exhausted")
            return None
        (begun,) = engine.apply([tasks.mark_started(task, self._claims.make())])
        assert isinstance(begun, Record)
        try:
            with self._claims.hold(begun):
                result = self._carve_for(conversations, project, session, begun)
        except (Conflict, NotFound, Unavailable) as error:
            if engine.closed:
                raise Unavailable("the store was closed") from error
            if attempts < ATTEMPTS:
                engine.apply([tasks.mark_queued(begun)])
                return min(LONGEST, FIRST * 2.0 ** (attempts - 1))
            self._fail(project, begun, str(error), type(error).__name__)
        except CofioError as error:
            self._fail(project, begun, str(error), type(error).__name__)
        except Exception as error:  # a fault of our own must not keep those behind it waiting for ever
            _log.error("the task %s failed with %s", task.key, type(error).__name__)
            with self._condition:
                self._faulted_at = self._clock()
            self._fail(project, begun, "Internal server error", type(error).__name__)
        else:
            self._finish(project, begun, result=result)
        return None

    def _fail(self, project: Project, task: Record, error: str, code: str) -> None:
        self._finish(project, task, error=error[:1000], code=code)
        with self._condition:
            self._failures += 1

    def _finish(
        self,
        project: Project,
        task: Record,
        *,
        result: str | None = None,
        error: str | None = None,
        code: str | None = None,
    ) -> None:
        """Take down how a task went, unless another server, which was at it too, has done so."""
        engine = self._conversations.engine
        for _ in range(TRIES):
            try:
                engine.apply([tasks.mark_finished(project, task, result=result, error=error, code=code)])
            except Conflict:
                task = engine.read(task.id)
                if fields(task)["status"] in ("done", "failed"):
                    return
            else:
                return
        raise Conflict(task.id)

    def _carve_for(self, conversations: Conversations, project: Project, session: str, task: Record) -> str:
        """Carve what a task is about; what came of it."""
        task_fields = fields(task)
        if task_fields["task"] == "memory_flush":
            among = task_fields["carves"]
            assert isinstance(among, list)
            carved = conversations.carve(project, session, whole=True, among={str(each) for each in among})
            nothing = "no_extraction"
        else:
            carved = 0 if task_fields["defers"] else conversations.carve(project, session)
            nothing = "accumulated"
        if carved and conversations.is_refined:
            self.enqueue_jobs(project, session)
        return "extracted" if carved else nothing

    def _run_job(self, job: _Job, id: str) -> float | None:
        """Do a job; in how many seconds it is to be tried again, if it is."""
        conversations = self._conversations
        job_record = conversations.engine.get(job.project.scope / "job", id, kind=Kind.LEDGER)
        if job_record is None or fields(job_record)["status"] in ("done", "failed"):
            return None
        if wait := self._claims.measure_wait(job_record):
            return wait
        if fields(job_record)["task"] == "refine" and conversations.is_refined and not conversations.has_model:
            return self._read_again(job, job_record)
        attempts = int(str(fields(job_record)["attempts"])) + 1
        try:
            job_record = _mark(
                conversations, job_record, job_record.version, status="running", attempts=attempts,
                **self._claims.make(),
            )  # fmt: skip
        except Conflict:  # another server was faster
            return SHORT
        usage: Json = None
        pause = min(LONGEST, FIRST * 2.0 ** min(attempts - 1, 20))
        try:
            if fields(job_record)["task"] == "refine" and conversations.is_refined:
                with ExitStack() as stack:
                    spent = None if self._spending is None else stack.enter_context(self._spending.count_usage())
                    stack.enter_context(self._claims.hold(job_record))
                    done = conversations.refine(job.project, fields(job_record))
                result, self.trouble = "refined" if done else "left as it is", None
                usage = None if spent is None else {"calls": spent().calls, "tokens": spent().tokens}
            else:
                result = "extracted" if conversations.carve(job.project, job.session) else "accumulated"
        except (Conflict, NotFound):  # a record changed meanwhile: look again
            _mark(conversations, job_record, status="queued")
            return pause
        except Unavailable as error:
            if conversations.engine.closed:
                raise
            if self._is_closing:  # the next server asks, and does not begin with a failure
                _mark(conversations, job_record, status="queued")
                return None
            self.trouble = str(error)
            _mark(conversations, job_record, status="waiting", error=str(error)[:1000])
            return pause
        except CofioError as error:
            _mark(conversations, job_record, status="failed", error=str(error)[:1000])
            return None
        _mark(conversations, job_record, status="done", result=result, error=None, usage=usage)
        return None

    def _read_again(self, job: _Job, job_record: Record) -> float | None:
        """Do a job that needs no model. It is taken down only when it is over: to do it twice does no harm.

        Returns in how many seconds it is to be tried again, if it is.
        """
        conversations = self._conversations
        attempts = int(str(fields(job_record)["attempts"])) + 1
        changes: dict[str, Json]
        try:
            conversations.refine(job.project, fields(job_record))
        except (Conflict, NotFound):  # a record changed meanwhile: look again
            changes = {"status": "queued"}
        except Unavailable as error:
            if conversations.engine.closed or self._is_closing:
                return None
            changes = {"status": "waiting", "error": str(error)[:1000]}
        except CofioError as error:
            changes = {"status": "failed", "error": str(error)[:1000]}
        else:
            with suppress(Conflict, NotFound):  # another server is at it, has done it, or its session was deleted
                conversations.engine.apply([Delete(id=job_record.id, if_version=job_record.version)])
            return None
        with suppress(Conflict):
            _mark(conversations, job_record, job_record.version, attempts=attempts, **changes)
        return None if changes["status"] == "failed" else min(LONGEST, FIRST * 2.0 ** min(attempts - 1, 20))


def _mark(conversations: Conversations, job: Record, if_version: int | None = None, /, **changes: Json) -> Record:
    try:
        return conversations.engine.edit(job.id, if_version=if_version, data={**fields(job), **changes})
    except NotFound:  # it was deleted with its session
        return job


def check_room(ahead: int, total: int) -> None:
    """Raise RequestError if there is no room for a task behind `ahead` ones of its session and `total` ones of all."""
    if ahead >= tasks.MAX_LINE or total >= tasks.MAX_OPEN:
        most = f"{tasks.MAX_LINE} requests of this session" if ahead >= tasks.MAX_LINE else f"{tasks.MAX_OPEN} requests"
        raise RequestError(
            429,
            f"{most} are waiting already, so this was not accepted; send it again in a moment",
            code="QUEUE_SATURATED",
            headers={"Retry-After": str(RETRY_AFTER)},
        )


def sum_usage(engine: Engine, project: Project, session: str) -> Usage:
    """What the model was asked for a session's records, as far as their jobs are still stored."""
    of_it = Where("data.session_id", "=", session)
    jobs = engine.list(project.scope / "job", exact=True, kinds=(Kind.LEDGER,), filter=of_it, limit=MAX_LIST)
    total = Usage()
    for job in jobs:
        usage = fields(job).get("usage")
        if isinstance(usage, dict):
            total = total.plus(int(str(usage["calls"])), int(str(usage["tokens"])))
    return total
