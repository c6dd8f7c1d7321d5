"""Requests that are answered before they are carried out: each is a record, so it outlives the server that took it in.

A task that is not finished stands in its session's line, under its session; a finished one with all of its project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal, get_args

from ...conversations.conversations import Project
from ...conversations.message_records import SOURCE, fields
from ...engine.engine import Engine
from ...values.changes import Edit, Put
from ...values.records import Draft, Json, Kind, Record, Scope

RETENTION = timedelta(days=7)
MAX_LINE = 50  # tasks of one session that are not finished
MAX_OPEN = 200  # tasks of one server that are not finished
TaskType = Literal["memory_add", "memory_flush"]
TASK_TYPES: tuple[str, ...] = get_args(TaskType)


def get_line_scope(project: Project, session: str) -> Scope:
    """Where the tasks of a session wait."""
    return project.scope / "job" / session


def make_record_id(task: str) -> str:
    """The id of a task's record, by that of its request."""
    return f"task-{task}"


def get_project(record: Record) -> Project:
    """The project that a job or a task is of."""
    _, app, name, *_ = record.scope.names
    return Project(app=app, name=name)


def make_task(
    project: Project,
    session: str,
    request: str,
    task: TaskType,
    *,
    messages: int = 0,
    defers: bool = False,
    carves: Sequence[str] = (),
) -> Put:
    """The change that takes a task down. `defers`: its messages wait for a flush; `carves`: what a flush is about.

    A flush is about the messages that were there when it came in: those that come after it are not its business.
    """
    data: dict[str, Json] = {
        "task": task, "status": "queued", "session_id": session, "message_count": messages, "defers": defers,
        "carves": list(carves), "result": None, "error": None, "error_code": None, "attempts": 0,
    }  # fmt: skip
    draft = Draft(
        scope=get_line_scope(project, session), kind=Kind.LEDGER, id=make_record_id(request), key=request, data=data,
        source=SOURCE,
    )  # fmt: skip
    return Put(draft=draft, how="key", if_version=0, ttl=RETENTION)


def list_waiting(engine: Engine, project: Project, session: str) -> list[Record]:
    """The tasks of a session that are not finished, in the order in which they came in."""
    return engine.list(
        get_line_scope(project, session),
        exact=True,
        kinds=(Kind.LEDGER,),
        limit=2 * MAX_LINE,
        newest=False,
        order="created",
    )


def count_waiting(engine: Engine, project: Project, session: str) -> int:
    """How many tasks of a session are not finished."""
    return engine.count(get_line_scope(project, session), exact=True, kinds=(Kind.LEDGER,))


def mark_started(task: Record, claim: Mapping[str, Json] | None = None) -> Edit:
    """The change that takes down that a task is about to be carried out, and who claims it."""
    attempts = int(str(fields(task)["attempts"])) + 1
    data = {**fields(task), "status": "running", "attempts": attempts, **(claim or {})}
    return Edit(id=task.id, fields={"data": data}, if_version=task.version)


def mark_queued(task: Record) -> Edit:
    """The change that takes down that a task is to be tried again."""
    return Edit(id=task.id, fields={"data": {**fields(task), "status": "queued"}}, if_version=task.version)


def mark_finished(
    project: Project, task: Record, *, result: str | None = None, error: str | None = None, code: str | None = None
) -> Edit:
    """The change that takes down how a task went, and takes it out of its line."""
    data: dict[str, Json] = {
        **fields(task), "status": "done" if error is None else "failed", "result": result, "error": error,
        "error_code": code, "carves": [],
    }  # fmt: skip
    return Edit(id=task.id, fields={"scope": project.scope / "job", "data": data}, if_version=task.version)
