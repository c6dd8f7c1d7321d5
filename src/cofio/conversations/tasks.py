"""Deferred work on conversations: requests that were acknowledged before they were carried out, what a model is to
refine, and sessions that are never flushed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Literal, cast, get_args

from ..engine.engine import Engine
from ..engine.jobs import Handler, Handlers, JobRunner, apply_possible, get_job_scope, list_jobs, make_job, read_job
from ..llm import Usage
from ..values.changes import Edit, Put
from ..values.errors import CofioError
from ..values.query import MAX_LIST, Where
from ..values.records import Json, Kind, Record, Scope
from ..values.scopes import CONVERSATIONS, JOBS
from .conversations import TASK, Conversations, make_line
from .idle import find_quiet_sessions
from .projects import Project
from .stretches import REFINE
from .usage import ModelUsage

_log = logging.getLogger("cofio.rest")
RETENTION = timedelta(days=7)
MAX_SESSION_TASKS, MAX_PROJECT_TASKS = 50, 200  # unfinished tasks of one session, and of one project
MAX_TASKS = 1000  # unfinished tasks of a store; a runner looks at no more of them
MAX_ATTEMPTS = 5  # at a task, before it counts as failed
MAX_TASKS_RUNNING = 4
MAX_MODEL_CALLS = 3  # jobs that wait for a model at once
SETTLE_POLL_SECONDS = 0.05
QUIET_SCANS = 4  # looks for silent sessions within the time after which one counts as silent
MIN_QUIET_SECONDS, MAX_QUIET_SECONDS = 0.1, 300.0  # between them
TaskType = Literal["memory_add", "memory_flush"]
TASK_TYPES: tuple[str, ...] = get_args(TaskType)


def make_record_id(task: str) -> str:
    """Return the id of a task's record, by that of its request."""
    return f"{TASK}-{task}"


def get_project(record: Record) -> Project:
    """Return the project of a job, finished or not."""
    names = record.scope.names
    app, name = names[len(JOBS.names) + 1 :][:2] if record.scope in JOBS else names[1:3]
    return Project(app=app, name=name)


def get_archive(record: Record) -> Scope:
    """Return the scope that finished jobs of a project are kept in."""
    return get_project(record).scope / "job"


def make_task(
    project: Project, session: str, request: str, task: TaskType,
    *, messages: int = 0, defers: bool = False, carves: Sequence[str] = (),
) -> Put:  # fmt: skip
    """Return the change that enqueues a task. `defers`: its messages wait for a flush; `carves`: what a flush is about.

    A flush is about the messages that were there when it came in, not those that come after it.
    """
    data: dict[str, Json] = {
        "task": task, "session_id": session, "message_count": messages, "defers": defers, "carves": list(carves),
        "result": None, "error_code": None,
    }  # fmt: skip
    return make_job(TASK, make_line(project, session), data, name=request, ttl=RETENTION)


def wait_until_refined(
    engine: Engine, project: Project, session: str, seconds: float, is_stopping: Callable[[], bool]
) -> str | None:
    """Wait until a model has refined a session's records; return why it has not, or None when it has."""
    until, line = time.monotonic() + seconds, Scope(project.app, project.name)
    while jobs := list_jobs(engine, REFINE, line, filter=Where("data.session_id", "=", session)):
        error = next((read_job(job)["error"] for job in jobs if read_job(job)["status"] == "waiting"), None)
        if error is not None or is_stopping() or time.monotonic() >= until:
            return str(error or "it has not answered yet")
        time.sleep(SETTLE_POLL_SECONDS)
    return None


def sum_usage(engine: Engine, project: Project, session: str) -> Usage:
    """Return what the model was asked for a session's records, as far as their jobs are still stored."""
    selection = Where("data.session_id", "=", session)
    jobs = engine.list(project.scope / "job", exact=True, kinds=(Kind.LEDGER,), filter=selection, limit=MAX_LIST)
    total = Usage()
    for job in jobs:
        usage = read_job(job).get("usage")
        if isinstance(usage, dict):
            total = total.plus(int(str(usage["calls"])), int(str(usage["tokens"])))
    return total


class ConversationJobs:
    """Carries out the tasks and refinements of conversations."""

    def __init__(
        self, conversations: Conversations, spending: ModelUsage | None = None, *, quiet: timedelta = timedelta()
    ) -> None:
        """`spending` counts what the model costs, where there is one.

        A session without a message for the time `quiet` is carved.
        """
        self._conversations = conversations
        self._spending = spending
        self._quiet = quiet

    def make_handlers(self) -> Handlers:
        """Return the handlers of the jobs that this process can carry out."""
        task = Handler(
            run=self._run_task, archive=get_archive, in_order=True, max_attempts=MAX_ATTEMPTS,
            max_running=MAX_TASKS_RUNNING,
        )  # fmt: skip
        if self._spending is not None:
            refine = partial(self._refine, self._spending)
            return {TASK: task, REFINE: Handler(run=refine, archive=get_archive, max_running=MAX_MODEL_CALLS)}
        if self._conversations.engine.shared_values is None:
            return {TASK: task, REFINE: lambda jobs: None}  # nobody can carry these out, so they are deleted
        return {TASK: task}  # another machine's server may have a model

    def add_chores(self, runner: JobRunner) -> None:
        """Have sessions carved that nobody flushes, and jobs moved that an earlier version left."""
        self._move_old_jobs()
        if self._quiet:
            seconds = self._quiet.total_seconds() / QUIET_SCANS
            runner.add_chore(max(MIN_QUIET_SECONDS, min(MAX_QUIET_SECONDS, seconds)), self._carve_quiet)

    def _run_task(self, job: Record) -> dict[str, Json]:
        conversations, task = self._conversations, read_job(job)
        project, session = get_project(job), str(task["session_id"])
        if task["task"] == "memory_flush":
            among = {str(each) for each in cast("list[str]", task["carves"])}
            carved = conversations.carve(project, session, whole=True, among=among)
            return {"result": "extracted" if carved else "no_extraction", "carves": []}
        carved = 0 if task["defers"] else conversations.carve(project, session)
        return {"result": "extracted" if carved else "accumulated", "carves": []}

    def _refine(self, spending: ModelUsage, job: Record) -> dict[str, Json]:
        with spending.count_usage() as spent:
            is_refined = self._conversations.refine(get_project(job), read_job(job))
        usage: dict[str, Json] = {"calls": spent().calls, "tokens": spent().tokens}
        return {"result": "refined" if is_refined else "left as it is", "usage": usage}

    def _carve_quiet(self) -> None:
        """Carve the sessions that have fallen silent. Several servers may do so at once: one of them does it."""
        engine = self._conversations.engine
        for project, session in find_quiet_sessions(engine, engine.read_clock() - self._quiet):
            try:
                self._conversations.carve(project, session, whole=True)
            except Exception as error:  # one that cannot be carved must not keep the others
                _log.error("a session that has fallen silent could not be carved: %s", type(error).__name__)

    def _move_old_jobs(self) -> None:
        """Move the unfinished jobs of an earlier version into the queue."""
        engine, unfinished = self._conversations.engine, Where("data.status", "in", ("queued", "running", "waiting"))
        if engine.read_only:
            return
        changes = []
        for job in engine.list(CONVERSATIONS, kinds=(Kind.LEDGER,), filter=unfinished, limit=MAX_LIST, newest=False):
            data, project = {**read_job(job), "status": "queued", "attempts": 0}, get_project(job)
            if data.get("task") in TASK_TYPES:
                scope = get_job_scope(TASK, make_line(project, str(data["session_id"])))
            else:
                scope = get_job_scope(REFINE, Scope(project.app, project.name))
            changes.append(Edit(id=job.id, if_version=job.version, fields={"scope": scope, "data": data}))
        with suppress(CofioError):  # the disk may be full
            apply_possible(engine, changes)  # another server may do the same
