"""Requests that are answered before they are carried out: in order, once, whatever happens to the server."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cofio import Conflict, Scope, Unavailable
from cofio.config.address import StoreAddress
from cofio.conversations import tasks
from cofio.conversations.conversations import Conversations
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.jobs import count_jobs
from cofio.http.tokens import Tokens

from .conftest import CLIMBING, COFFEE, DAY, MINUTE, Api, T, enveloped, failed, said, serving


@pytest.mark.requirement("add.defer")
def test_a_deferred_add_is_only_kept_until_a_flush(api: Api) -> None:
    messages = [said(CLIMBING), said(COFFEE, T + DAY)]  # on two days: it would be carved
    assert api.add(*messages, defer_extraction=True) == "accumulated"
    assert len(api.waiting()) == 2
    assert api.finished(api.queue(said("More.", T + 2 * DAY), defer_extraction=True))["status"] == "success"
    assert len(api.waiting()) == 3
    assert api.get() == []
    assert api.flush() == "extracted"
    assert len(api.get()) == 3


class Held:
    """A server whose tasks wait until they are let go."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self._free = threading.Event()
        real = Conversations.carve

        def carve(conversations: Conversations, *args: Any, **more: Any) -> int:
            if threading.current_thread().name.startswith("cofio-jobs"):
                assert self._free.wait(60)
            return real(conversations, *args, **more)

        monkeypatch.setattr(Conversations, "carve", carve)
        self.api = api

    def let_go(self) -> None:
        """Have the tasks carried out."""
        self._free.set()


@pytest.fixture
def held(api: Api, monkeypatch: pytest.MonkeyPatch) -> Held:
    """A server whose tasks wait until they are let go."""
    return Held(api, monkeypatch)


@pytest.mark.requirement("tasks.order", "flush.queued")
def test_what_comes_after_a_queued_request_is_queued_behind_it_and_a_flush_takes_what_came_before(held: Held) -> None:
    api = held.api
    first = api.queue(said(CLIMBING))
    behind = api.post("add", {"session_id": "s", "messages": [said("I bike to work.", T + MINUTE)]})
    assert enveloped(behind, 202) == {"status": "queued", "message_count": 1, "pending": 2}
    flushed = api.post("flush", {"session_id": "s"})
    assert enveloped(flushed, 202) == {"status": "queued", "message_count": 0, "pending": 3}
    last = api.queue(said(COFFEE, T + 2 * MINUTE))
    assert api.add(said("Elsewhere."), session="t") == "accumulated"  # no other session waits
    order = [first, behind.json()["request_id"], flushed.json()["request_id"], last]
    assert {api.read(f"tasks/{task}")["status"] for task in order} <= {"queued", "processing"}
    assert [each["id"] for each in api.read("tasks", session_id="s")["items"]] == order[::-1]
    assert api.read(f"tasks/{order[2]}")["task_type"] == "memory_flush"
    assert len(api.waiting()) == 3  # nothing is hidden meanwhile
    held.let_go()
    times = [api.finished(task)["finished_at"] for task in order]
    assert times == sorted(times)
    (episode,) = api.get()
    assert "bike" in episode["episode"]
    assert "coffee" not in episode["episode"]
    assert [each["content"] for each in api.waiting()] == [COFFEE]
    assert api.flush() == "extracted"  # at once: nothing is queued any more


@pytest.mark.requirement("tasks.room")
def test_a_line_that_is_too_long_is_refused_and_nothing_of_it_kept(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    api = held.api
    for number in range(tasks.MAX_SESSION_TASKS):
        api.queue(said(f"Message {number}.", T + number))
    for call, body in (
        ("add", {"messages": [said("Too much.", T + DAY)], "async_mode": True}),
        ("add", {"messages": [said("Too much.", T + DAY)]}),
        ("flush", {}),
    ):
        answer = api.post(call, {"session_id": "s", **body})
        assert "50 requests of this session are waiting already" in failed(answer, 429, code="QUEUE_SATURATED")
        assert int(answer.headers["retry-after"]) > 0
    old = api.client.post("/api/v1/memory/flush", json={"session_id": "s"})
    assert failed(old, 429, code="QUEUE_SATURATED")
    assert len(api.waiting()) == tasks.MAX_SESSION_TASKS
    assert api.client.get("/health").json()["memorize_queue"]["pending"] == tasks.MAX_SESSION_TASKS
    other = {"session_id": "other", "messages": [said("Hi.")], "async_mode": True}
    for limit, of, app in (("MAX_PROJECT_TASKS", " of this project", "default"), ("MAX_TASKS", "", "shop")):
        monkeypatch.setattr(tasks, limit, tasks.MAX_SESSION_TASKS)
        answer = api.post("add", {**other, "app_id": app})
        assert f"50 requests{of} are waiting" in failed(answer, 429, code="QUEUE_SATURATED")
    assert api.waiting("other") == []
    assert api.add(said("Hi."), session="other") == "accumulated"
    held.let_go()


@pytest.mark.requirement("tasks.listed", "tasks.one")
def test_tasks_are_listed_by_session_and_status_and_in_pages(api: Api) -> None:
    sent = [api.queue(said("Hi."), session=f"s{number % 2}") for number in range(5)]
    for task in sent:
        api.finished(task)
    page = api.read("tasks")
    assert (page["total"], page["page"], page["page_size"]) == (5, 1, 20)
    assert [each["id"] for each in page["items"]] == sent[::-1]
    assert [each["id"] for each in api.read("tasks", page=2, page_size=2)["items"]] == [sent[2], sent[1]]
    assert [each["id"] for each in api.read("tasks", session_id="s1")["items"]] == [sent[3], sent[1]]
    assert api.read("tasks", status="success")["total"] == 5
    for status in ("queued", "processing", "failed"):
        assert api.read("tasks", status=status) == {"total": 0, "page": 1, "page_size": 20, "items": []}
    assert api.read("tasks", page_size=5000)["page_size"] == 100
    assert api.read("tasks", app_id="other")["total"] == 0
    assert api.client.get("/api/v1/tasks").json()["data"] == page
    for query, message in (
        ({"status": "lost"}, "Input should be 'queued', 'processing', 'success' or 'failed': status"),
        ({"page": [1, 2]}, "more than once: page"),
        ({f"n{n}": n for n in range(70)}, "more than 64 fields"),
    ):
        assert message in api.read("tasks", 422, **query)
    for missing in ("nope", "0" * 32, "x" * 1000, "%00", "café"):
        assert "tasks are kept for 7 days" in failed(api.client.get(f"/api/v2/tasks/{missing}"), 404)
    assert 'path="/api/v2/tasks/{task_id}",status="404"' in api.client.get("/metrics").text


@pytest.mark.requirement("tasks.isolated", "auth.tokens")
def test_a_token_sees_the_tasks_of_its_own_app_alone(guarded: tuple[Api, Tokens]) -> None:
    api, known = guarded
    mine, other = api.queue(said("Hi."), app_id="shop"), api.queue(said("Hi."))
    headers = {"Authorization": f"Bearer {known.add('shop', app='shop', access='read')}"}
    for version in ("v1", "v2"):
        base = f"/api/{version}/tasks"
        assert api.client.get(f"{base}/{mine}").status_code == 401
        assert enveloped(api.client.get(f"{base}/{mine}", headers=headers))["id"] == mine
        unknown = failed(api.client.get(f"{base}/{'0' * 32}", headers=headers), 404)
        assert failed(api.client.get(f"{base}/{other}", headers=headers), 404) == unknown.replace("0" * 32, other)
        assert failed(api.client.get(base, headers=headers), 403)
        (listed,) = enveloped(api.client.get(f"{base}?app_id=shop", headers=headers))["items"]
        assert listed["id"] == mine


@pytest.mark.requirement("tasks.kept")
def test_tasks_are_kept_for_seven_days(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        task = api.queue(said(CLIMBING))
        api.finished(task)
        kept = api.engine.read(tasks.make_record_id(task))
        assert kept.expires_at == kept.created_at + timedelta(days=7)
        api.engine.edit(kept.id, expires_at=datetime.now(UTC) - timedelta(seconds=1))
        assert api.read(f"tasks/{task}", 404)
        assert api.read("tasks")["total"] == 0


@pytest.mark.requirement("tasks.failed")
@pytest.mark.parametrize(
    ("error", "tries", "told", "code"),
    [
        (Conflict("x"), 5, "x", "Conflict"),
        (Unavailable("the disk is full"), 5, "the disk is full", "Unavailable"),
        (RuntimeError("SECRET"), 1, "Internal server error", "RuntimeError"),
    ],
)
def test_a_task_that_fails_says_why_and_leaves_its_messages_and_its_line_alone(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, tries: int, told: str, code: str
) -> None:
    tried = []

    def carve(*_: Any, **__: Any) -> int:
        tried.append(1)
        raise error

    monkeypatch.setattr("cofio.engine.jobs.FIRST_RETRY_SECONDS", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(Conversations, "carve", carve)
        task = api.finished(api.queue(said(CLIMBING)))
        assert (task["status"], task["error_code"]) == ("failed", code)
        assert told in task["error"]
        assert len(tried) == tries
        assert api.client.get("/health").json()["memorize_queue"]["failed"] == 1
    assert len(api.waiting()) == 1
    assert api.flush() == "extracted"


@pytest.mark.requirement("tasks.order", "server.several")
def test_two_servers_carry_out_one_line_between_them(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder()) as (one, _), serving(store, embedder=HashedEmbedder()) as (two, _):
        sent = []
        for number in range(20):
            api = (one, two)[number % 2]
            sent.append(api.queue(said(f"On day {number} I saw bird {number}.", T + number * DAY)))
        for task in sent:
            assert two.finished(task)["status"] == "success"
        assert count_jobs(one.engine, "task", Scope("default", "default", "s")) == 0
        assert one.flush() == "extracted"
        days = [datetime.fromisoformat(each["timestamp"]) for each in one.get(page_size=100, sort_order="asc")]
        assert days == [datetime.fromtimestamp(T / 1000, UTC) + timedelta(days=day) for day in range(20)]
