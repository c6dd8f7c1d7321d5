"""Requests that are answered before they are carried out: in order, once, whatever happens to the server."""

from __future__ import annotations

import http.client
import json
import re
import signal
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio import Conflict, Engine, Unavailable
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations, Project
from cofio.doors.rest import tasks
from cofio.doors.web.tokens import Tokens
from cofio.embed.hashed import HashedEmbedder

from ...conftest import BackendUnderTest
from ...waiting import wait_for
from .conftest import CLIMBING, COFFEE, DAY, MINUTE, Api, T, enveloped, failed, said, serving
from .test_process import Start, ask, check_whole, start

__all__ = ["start"]

READ = {"id", "status", "task_type", "error", "error_code", "created_at", "finished_at"}


@pytest.mark.requirement("add.async", "tasks.one")
def test_an_async_add_is_answered_with_its_place_in_the_line_and_then_carried_out(api: Api) -> None:
    body = {"session_id": "s", "messages": [said(CLIMBING), said(COFFEE, T + DAY)], "async_mode": True}
    answer = api.post("add", body)
    assert enveloped(answer, 202) == {"status": "queued", "message_count": 2, "pending": 1}
    task = api.finished(answer.json()["request_id"])
    assert set(task) == READ
    assert task["id"] == answer.json()["request_id"]
    assert (task["status"], task["task_type"], task["error"], task["error_code"]) == (
        "success",
        "memory_add",
        None,
        None,
    )
    assert task["created_at"] <= task["finished_at"]
    assert len(api.get()) == 1
    assert [each["content"] for each in api.waiting()] == [COFFEE]


@pytest.mark.requirement("add.async", "add.whole")
def test_an_async_add_is_checked_as_any_other_and_kept_once(api: Api) -> None:
    sent = [api.queue(said(CLIMBING, message_id="x")) for _ in range(3)]
    assert len(set(sent)) == 3
    assert {api.finished(task)["status"] for task in sent} == {"success"}
    assert len(api.waiting()) == 1
    body = {"session_id": "s", "async_mode": True}
    api.refused("add", {**body, "messages": [said("Other.", message_id="x")]}, 409)
    api.refused("add", {**body, "messages": []})
    assert api.read("tasks")["total"] == 3


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
            if threading.current_thread().name == "cofio-jobs":
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


@pytest.mark.requirement("tasks.order", "flush.queued", "sessions.model")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=st.lists(st.sampled_from(["later", "now", "deferred", "flush"]), min_size=1, max_size=10))
def test_however_calls_are_mixed_each_flush_takes_what_came_before_it(
    backend_under_test: BackendUnderTest, tmp_path_factory: pytest.TempPathFactory, calls: list[str]
) -> None:
    with (
        pytest.MonkeyPatch.context() as patched,
        serving(backend_under_test.address(tmp_path_factory.mktemp("mixed")), embedder=HashedEmbedder()) as (api, _),
    ):
        held = Held(api, patched)
        sent, flushes, group = [api.queue(said("I like thing0 best."))], 0, {"I like thing0 best.": 0}
        for number, call in enumerate(calls, 1):
            text = f"I like thing{number} best."
            if call == "flush":
                answer, flushes = api.post("flush", {"session_id": "s"}), flushes + 1
            else:
                how = {"async_mode": call == "later", "defer_extraction": call == "deferred"}
                answer = api.post("add", {"session_id": "s", "messages": [said(text, T + number * 1000)], **how})
                group[text] = flushes
            assert enveloped(answer, 202)["pending"] == number + 1
            sent.append(answer.json()["request_id"])
        held.let_go()
        times = [api.finished(task)["finished_at"] for task in sent]
        assert times == sorted(times)
        waiting = {each["content"] for each in api.waiting()}
        assert waiting == {text for text, flush in group.items() if flush == flushes}
        carved = [set(re.findall(r"thing\d+", each["episode"])) for each in api.get(page_size=100)]
        of = {text.split()[2]: flush for text, flush in group.items()}
        assert sum(map(len, carved)) + len(waiting) == len(group)
        assert all(len({of[thing] for thing in episode}) == 1 for episode in carved)


@pytest.mark.requirement("tasks.room")
def test_a_line_that_is_too_long_is_refused_and_nothing_of_it_kept(held: Held) -> None:
    api = held.api
    for number in range(tasks.MAX_LINE):
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
    assert len(api.waiting()) == tasks.MAX_LINE
    assert api.client.get("/health").json()["memorize_queue"]["pending"] == tasks.MAX_LINE
    held.let_go()


@pytest.mark.requirement("tasks.room")
def test_a_server_takes_in_no_more_than_it_has_room_for(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_OPEN", 3)
    for number in range(3):
        held.api.queue(said("Hi."), session=f"s{number}")
    body = {"session_id": "other", "messages": [said("Hi.")]}
    assert failed(held.api.post("add", {**body, "async_mode": True}), 429, code="QUEUE_SATURATED")
    assert held.api.waiting("other") == []
    assert held.api.add(said("Hi."), session="other") == "accumulated"
    held.let_go()


@pytest.mark.requirement("add.too-large")
def test_a_body_that_is_too_large_is_a_413_under_either_version(bare: Api) -> None:
    body = b'{"x": "' + b"y" * 16_777_216 + b'"}'
    for version in ("v1", "v2"):
        sent = {"Content-Type": "application/json"}
        answer = bare.client.post(f"/api/{version}/memory/add", content=body, headers=sent)
        assert "send less at once" in failed(answer, 413, code="PAYLOAD_TOO_LARGE")


@pytest.mark.requirement("tasks.listed")
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
        ({"page": 0}, "greater than or equal to 1: page"),
        ({"page": "x"}, "valid integer"),
        ({"page_size": 0}, "greater than or equal to 1: page_size"),
        ({"zzz": 1}, "Extra inputs are not permitted: zzz"),
        ({"app_id": ".."}, "reserved"),
        ({"page": [1, 2]}, "more than once: page"),
    ):
        assert message in api.read("tasks", 422, **query)


@pytest.mark.requirement("tasks.one")
@pytest.mark.parametrize("task", ["nope", "0" * 32, "x" * 1000, "%00", "café"])
def test_a_task_that_is_not_there_is_a_404(bare: Api, task: str) -> None:
    answer = bare.client.get(f"/api/v2/tasks/{task}")
    assert "tasks are kept for 7 days" in failed(answer, 404)
    assert 'path="/api/v2/tasks/{task_id}",status="404"' in bare.client.get("/metrics").text


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
        assert kept.expires_at is not None
        assert abs(kept.expires_at - kept.created_at - timedelta(days=7)) < timedelta(seconds=1)
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

    monkeypatch.setattr("cofio.doors.rest.jobs.FIRST", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(Conversations, "carve", carve)
        task = api.finished(api.queue(said(CLIMBING)))
        assert (task["status"], task["error_code"]) == ("failed", code)
        assert told in task["error"]
        assert len(tried) == tries
        assert api.client.get("/health").json()["memorize_queue"]["failed"] == 1
    assert len(api.waiting()) == 1
    assert api.flush() == "extracted"


@pytest.mark.requirement("tasks.failed")
def test_a_task_that_ends_the_server_each_time_is_not_tried_for_ever(store: StoreAddress, tmp_path: Path) -> None:
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        api.door.jobs.close()
        task = api.queue(said(CLIMBING))
    with Engine.open(store) as engine:
        for _ in range(5):
            engine.apply([tasks.mark_started(engine.read(tasks.make_record_id(task)))])
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        api.door.jobs.resume()
        assert api.finished(task)["error_code"] == "attempts_exhausted"
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
        assert tasks.count_waiting(one.engine, Project(), "s") == 0
        assert one.flush() == "extracted"
        assert sorted(each["timestamp"] for each in one.get(page_size=100)) == [
            (datetime.fromtimestamp(T / 1000, UTC) + timedelta(days=day)).isoformat().replace("+00:00", "Z")
            for day in range(20)
        ]


@pytest.mark.requirement("tasks.durable", "server.killed")
def test_what_was_queued_survives_a_kill_and_is_carried_out_once_and_in_order(
    start: Start, store: StoreAddress
) -> None:
    server = start()
    sent: list[str] = []
    with closing(server.connect()) as connection:
        for number in range(40):
            body = {
                "session_id": f"s{number % 3}", "async_mode": True,
                "messages": [said(f"On day {number} I saw bird {number}.", T + number * DAY)],
            }  # fmt: skip
            status, told = ask(connection, "add", body)
            assert status == 202
            sent.append(told["request_id"])
        status, told = ask(connection, "flush", {"session_id": "s0"})
        if status == 202:
            sent.append(told["request_id"])
    server.end(signal.SIGKILL)
    second = start()
    with closing(second.connect()) as connection:
        for task in sent:
            assert _finished(connection, task)["status"] == "success"
    second.end()
    with Engine.open(store) as engine:
        said_ = [text for session in ("s0", "s1", "s2") for text in check_whole(engine, session)]
    assert len(said_) == 40


def _finished(connection: http.client.HTTPConnection, task: str) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        connection.request("GET", f"/api/v2/tasks/{task}")
        return dict(json.loads(connection.getresponse().read())["data"])

    return wait_for(read, lambda found: found["status"] in ("success", "failed"))
