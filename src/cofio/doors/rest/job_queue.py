"""What the calls of the API ask of deferred work, whether it is done in this process or in another."""

from __future__ import annotations

from typing import Protocol

from ...conversations.conversations import Project
from ...llm import Usage
from .jobs import QueueState


class JobQueue(Protocol):
    """Takes down what is to be done later, and knows how that is getting on."""

    @property
    def queue(self) -> QueueState:
        """How the tasks and jobs are getting on."""

    def count_waiting(self, project: Project, session: str) -> int:
        """How many tasks of a session are not finished, whichever server took them in."""

    def check_room(self, ahead: int) -> None:
        """Raise RequestError if there is no room for a task behind the `ahead` ones of its session."""

    def enqueue_task(self, project: Project, session: str, task: str) -> None:
        """Have a task that has been taken down carried out, after those of its session that came before it."""

    def enqueue_jobs(self, project: Project, session: str) -> None:
        """Have what a session's carving left to do taken up."""

    def wait_until_settled(self, project: Project, session: str, seconds: float) -> bool:
        """Wait until nothing is left to do for a session, but no longer than that; whether it is so."""

    def sum_usage(self, project: Project, session: str) -> Usage:
        """What the model was asked for a session's records, as far as their jobs are still stored."""

    def resume(self) -> None:
        """See to it that what was left undone when a server ended is taken up, now and from time to time."""

    def stop(self) -> None:
        """Begin no more jobs, and end every wait for one."""

    def close(self, seconds: float = ...) -> None:
        """End with the jobs that are being done, if they end within this time."""
