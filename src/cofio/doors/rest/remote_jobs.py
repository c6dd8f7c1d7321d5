"""Deferred work that a process of its own does: what workers tell and ask it, and how it answers."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from datetime import datetime

from ...conversations.conversations import Project
from ...engine.engine import Engine
from ...llm import Usage
from ...system.busy_threads import wait_elsewhere
from ...values.errors import CofioError, Unavailable
from ..web.board import Board
from ..web.links import Question, Switchboard, wait_for_answer
from . import tasks
from .jobs import Jobs, QueueState, check_room, sum_usage

PATIENCE = 2.0  # seconds beyond those that a wait may take, in which the background process answers
LATE = 5.0  # seconds without a sign of it, after which it does not get on
MAX_TROUBLE = 250  # characters of what it says is wrong: each may take twelve bytes of the report
LONGEST_SILENCE = 30.0  # seconds without a sign of it, after which the server is not well


class RemoteJobs:
    """The queue as a worker has it: tasks are records, and the background process hears of each."""

    def __init__(self, engine: Engine, switchboard: Switchboard, board: Board, number: int) -> None:
        """`number` is the worker's."""
        self._engine = engine
        self._switchboard = switchboard
        self._board = board
        self._number = number
        self._lock = threading.Lock()
        self._waits: set[socket.socket] = set()
        self._is_closing = False

    @property
    def queue(self) -> QueueState:
        """How the tasks and jobs are getting on, as the background process last put on the board.

        Raises:
            Unavailable: nothing was heard of it for long.
        """
        board, silence = self._board, self._board.measure_silence()
        if silence > LONGEST_SILENCE:
            sentence = "the process that does the background work has ended and could not be started again"
            raise Unavailable(sentence, public=sentence)
        report = json.loads(board.read_report())
        return QueueState(
            alive=report["alive"] and board.is_up(board.background) and silence < LATE,
            accepting=not self._is_closing, pending=board.count_tasks(), oldest=_parse_time(report["oldest"]),
            failed=report["failed"], faulted_at=_parse_time(report["faulted_at"]), open_count=report["open_count"],
            trouble=report["trouble"],
        )  # fmt: skip

    def count_waiting(self, project: Project, session: str) -> int:
        """How many tasks of a session are not finished, whichever server took them in."""
        return tasks.count_waiting(self._engine, project, session)

    def check_room(self, ahead: int) -> None:
        """Raise RequestError if there is no room for a task behind the `ahead` ones of its session."""
        check_room(ahead, self._board.count_tasks())

    def enqueue_task(self, project: Project, session: str, task: str) -> None:
        """Have a task carried out. If the background process does not hear of it, it finds the record later."""
        message = {"kind": "task", "worker": self._number, "of": _name(project, session), "task": task}
        with self._lock:
            self._board.add_tasks_sent(self._number, 1)
        if not self._switchboard.send(self._board.background, message):
            with self._lock:
                self._board.add_tasks_sent(self._number, -1)

    def enqueue_jobs(self, project: Project, session: str) -> None:
        """Have what a session's carving left to do taken up."""
        self._switchboard.send(self._board.background, {"kind": "jobs", "of": _name(project, session)})

    def wait_until_settled(self, project: Project, session: str, seconds: float) -> bool:
        """Wait until nothing is left to do for a session, but no longer than that; whether it is so."""
        end = self._switchboard.call(self._board.background) if self._board.is_up(self._board.background) else None
        if end is None:
            return False
        with end:
            with self._lock:
                if self._is_closing:
                    return False
                self._waits.add(end)
            question = {"kind": "settle", "of": _name(project, session), "seconds": seconds}
            with wait_elsewhere():
                answer = wait_for_answer(end, question, seconds + PATIENCE)
            with self._lock:
                self._waits.discard(end)
        return answer is not None and bool(answer["settled"])

    def sum_usage(self, project: Project, session: str) -> Usage:
        """What the model was asked for a session's records, as far as their jobs are still stored."""
        return sum_usage(self._engine, project, session)

    def resume(self) -> None:
        """Do nothing: the background process takes up by itself what was left undone."""

    def stop(self) -> None:
        """End every wait for a job."""
        with self._lock:
            self._is_closing = True
            for end in self._waits:
                with suppress(OSError):  # it is over already
                    end.shutdown(socket.SHUT_RDWR)

    def close(self, seconds: float = 0.0) -> None:
        """End every wait for a job; the background process goes on with the jobs themselves."""
        self.stop()


class JobsDesk:
    """The background process's side of it: it tells the queue what workers have taken down, and answers for it."""

    def __init__(self, jobs: Jobs, board: Board) -> None:
        self._jobs = jobs
        self._board = board

    def note(self, message: Question) -> None:
        """Take up what a worker has told."""
        project, session = _parse_name(message["of"])
        if message["kind"] == "task":
            self._jobs.enqueue_task(project, session, message["task"])
            self.publish()
            self._board.count_task_received(message["worker"])
        else:
            with suppress(CofioError):  # the store cannot be used: what was told is found again later
                self._jobs.enqueue_jobs(project, session)

    def answer(self, question: Question) -> Question:
        """Answer a worker that asks about a session: it waits until that is settled."""
        project, session = _parse_name(question["of"])
        with suppress(CofioError):
            self._jobs.enqueue_jobs(project, session)  # in case that is not heard yet
        return {"settled": self._jobs.wait_until_settled(project, session, question["seconds"])}

    def publish(self) -> None:
        """Put on the board how many tasks are not finished, and how they are getting on."""
        state = self._jobs.queue
        report = {
            "alive": state.alive, "oldest": _render_time(state.oldest), "failed": state.failed,
            "faulted_at": _render_time(state.faulted_at), "open_count": state.open_count,
            "trouble": None if state.trouble is None else state.trouble[:MAX_TROUBLE],
        }  # fmt: skip
        self._board.set_tasks(state.pending)
        self._board.write_report(json.dumps(report).encode())


def _name(project: Project, session: str) -> list[str]:
    return [project.app, project.name, session]


def _parse_name(names: list[str]) -> tuple[Project, str]:
    app, name, session = names
    return Project(app=app, name=name), session


def _render_time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
