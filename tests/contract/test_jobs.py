"""The job queue: what is due is found, a job is done once, and a process that ends takes no other jobs with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from cofio import Engine, Kind, Scope
from cofio.conversations.projects import Project
from cofio.conversations.tasks import wait_until_refined
from cofio.engine import jobs
from cofio.values.records import Json, Record

from ..conftest import Clock
from ..waiting import PATIENCE, wait_until

LINE, DONE = Scope("app", "project"), Scope("done")


class Work:
    """A handler whose jobs wait until they are let go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def run(self, job: Record) -> Mapping[str, Json]:
        self.begun.append(str(job.key))
        assert self.may_end.wait(PATIENCE)
        return {"done_by": self.name}


@contextmanager
def running(engine: Engine, work: Work, owner: str | None = None) -> Iterator[jobs.JobRunner]:
    """Carry out tasks, and Markdown jobs with them, which are there to see that a runner has looked around."""
    task = jobs.Handler(run=work.run, archive=lambda job: DONE)
    runner = jobs.JobRunner(engine, {"task": task, "markdown": lambda batch: None}, owner=owner)
    runner.start()
    try:
        yield runner
    finally:
        work.may_end.set()
        runner.close(PATIENCE)


def enqueue(engine: Engine, *names: str, **fields: Json) -> None:
    engine.apply([jobs.make_job("task", LINE, fields, name=name) for name in names])


def test_a_runner_that_was_paused_drops_the_result_of_a_job_that_another_has_taken_over(
    memory: Engine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "RENEW_SECONDS", 3600.0)
    enqueue(memory, "a")
    paused, other = Work("paused"), Work("other")
    with running(memory, paused):
        wait_until(lambda: paused.begun)
        with running(memory, other) as runner:
            memory.apply([jobs.make_job("markdown", LINE, {})])
            runner.notice()
            wait_until(lambda: not jobs.count_jobs(memory, "markdown"))
            assert not other.begun
            clock.advance(jobs.LEASE_SECONDS)
            runner.notice()
            wait_until(lambda: other.begun)
    assert jobs.read_job(memory.read("task-a")) | {"owner": ""} == {
        "status": "done", "attempts": 0, "error": None, "owner": "", "losses": 1, "done_by": "other",
    }  # fmt: skip


def test_a_successor_carries_out_lost_jobs_at_once_one_at_a_time_and_not_for_ever(memory: Engine) -> None:
    memory.put(jobs.RUNNERS, "server:killed", kind=Kind.LEDGER)  # whose heartbeat has not expired yet
    enqueue(memory, "a", "b", "c", status="running", owner="server:killed")
    enqueue(memory, "d", status="running", owner="server:killed", losses=jobs.MAX_LOSSES - 1)
    work = Work("next")
    with running(memory, work, owner="server") as runner:
        wait_until(lambda: work.begun)
        memory.apply([jobs.make_job("markdown", LINE, {})])
        runner.notice()
        wait_until(lambda: not jobs.count_jobs(memory, "markdown"))
        assert len(work.begun) == 1
        work.may_end.set()
        wait_until(lambda: not jobs.count_jobs(memory, "task"))
    assert sorted(work.begun) == ["a", "b", "c"]
    assert jobs.read_job(memory.read("task-d"))["error_code"] == "attempts_exhausted"


def test_jobs_that_are_put_off_hide_no_others(memory: Engine) -> None:
    later: dict[str, Json] = {"status": "waiting", "attempts": 1, "due": "9999", "session_id": "s", "error": "no model"}
    memory.apply([jobs.make_job(kind, LINE, later) for kind in ("task", "refine") for _ in range(jobs.MAX_LISTED)])
    enqueue(memory, "a")
    memory.apply([jobs.make_job("refine", LINE, {"session_id": "t"})])
    work = Work("any")
    with running(memory, work):
        wait_until(lambda: work.begun == ["a"])
    project = Project(app="app", name="project")
    assert wait_until_refined(memory, project, "t", 0.0, lambda: False) == "it has not answered yet"
    assert wait_until_refined(memory, project, "u", 0.0, lambda: False) is None
