"""What the tests of the REST door share: the whole application on an empty memory, and a strict client."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.content import FetchPolicy
from cofio.conversations.conversations import Conversations
from cofio.conversations.tasks import ConversationJobs
from cofio.doors.rest import http as rest
from cofio.doors.rest.assistant import open_assistant
from cofio.embed.hashed import HashedEmbedder
from cofio.engine.jobs import JobRunner
from cofio.http.metrics import Metrics
from cofio.http.tokens import Tokens

from ...conftest import BackendUnderTest
from ...waiting import wait_for
from ..application import make_app

PREFIX, ALIAS = "/api/v2/memory", "/api/v1/memory"
CALLS = ("add", "flush", "search", "get", "delete", "update", "brief", "recall", "context", "jobs")
T = 1779967836000
"""2026-05-28T11:30:36Z, which is a Thursday, in milliseconds."""
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SETTINGS = Settings(background=False, embedder="none", sync="normal")
PLURALS = {"episode": "episodes", "profile": "profiles", "agent_case": "agent_cases", "agent_skill": "agent_skills"}
Json = dict[str, Any]

VALID: dict[str, Json] = {
    "add": {"session_id": "s", "messages": [{"sender_id": "alice", "role": "user", "timestamp": T, "content": "Hi."}]},
    "flush": {"session_id": "s"},
    "search": {"user_id": "alice", "query": "climbing"},
    "get": {"user_id": "alice", "memory_type": "episode"},
    "delete": {"session_id": "s"},
    "update": {"id": "alice_ep_20260528_00000001", "subject": "A subject"},
    "brief": {},
    "recall": {"session_id": "s", "prompt": "Where does Alice climb?"},
    "context": {"user_id": "alice", "query": "Where does Alice climb?"},
    "jobs": {},
}
"""A body for each call that nothing is wrong with."""

CLIMBING = "I love climbing in Yosemite every spring."
COFFEE = "My favorite coffee shop is Blue Bottle in SOMA."
BIKE = "I bike to work most days."


def said(content: object, at: int = T, sender: str = "alice", role: str = "user", **more: Any) -> Json:
    """A message."""
    return {"sender_id": sender, "role": role, "timestamp": at, "content": content, **more}


def enveloped(answer: Response, status: int = 200) -> Any:
    """The data of an answer that is as it should be."""
    body = check_envelope(answer, status)
    assert set(body) - {"meta"} == {"request_id", "data"}
    return body["data"]


def check_envelope(answer: Response, status: int) -> Json:
    """The body of an answer, which is JSON and has an id."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body: Json = json.loads(answer.content.decode())
    assert re.fullmatch(r"[0-9a-f]{32}", body["request_id"])
    assert answer.headers["x-request-id"] == body["request_id"]
    return body


def expected_code(path: str, status: int) -> str:
    """The code of a failure: today's under /api/v2, and that of the seed elsewhere."""
    if not path.startswith("/api/v2/"):
        return "SYSTEM_ERROR" if status >= 500 else "HTTP_ERROR"
    return {
        400: "BAD_REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED",
        409: "CONFLICT", 413: "PAYLOAD_TOO_LARGE", 415: "UNSUPPORTED_FORMAT", 421: "MISDIRECTED_REQUEST",
        422: "INVALID_INPUT", 429: "QUEUE_SATURATED", 500: "INTERNAL_ERROR", 503: "EXTERNAL_SERVICE_UNAVAILABLE",
    }[status]  # fmt: skip


def failed(answer: Response, status: int, path: str | None = None, code: str | None = None) -> str:
    """The message of an answer that is a failure, and is told as one."""
    body = check_envelope(answer, status)
    assert set(body) == {"request_id", "error"}
    error = body["error"]
    assert set(error) == {"code", "message", "timestamp", "path"}
    assert error["code"] == (code or expected_code(error["path"], status))
    assert datetime.fromisoformat(error["timestamp"]).tzinfo is not None
    assert path is None or error["path"] == path
    message = error["message"]
    assert isinstance(message, str)
    assert message
    return message


class Api:
    """A client of the API."""

    def __init__(self, client: TestClient, engine: Engine, door: rest.Door, jobs: JobRunner) -> None:
        self.client = client
        self.engine = engine
        self.door = door
        self.jobs = jobs

    def post(self, call: str, body: Any = None, **headers: str) -> Response:
        """The answer to a body: bytes as they are, anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): at for name, at in headers.items()}}
        return self.client.post(f"{PREFIX}/{call}", content=content, headers=sent)

    def ok(self, call: str, status: int = 200, /, **body: Any) -> Any:
        """The data that a call gives."""
        return enveloped(self.post(call, body), status)

    def refused(self, call: str, body: Any, status: int = 422) -> str:
        """Why a call is refused."""
        return failed(self.post(call, body), status, f"{PREFIX}/{call}")

    def add(self, *messages: Json, session: str = "s", **more: Any) -> str:
        """Send messages; what became of them."""
        data = self.ok("add", session_id=session, messages=list(messages), **more)
        assert data["message_count"] == len(messages)
        status: str = data["status"]
        return status

    def flush(self, session: str = "s", **more: Any) -> str:
        """Carve a session; what became of it."""
        data = self.ok("flush", session_id=session, **more)
        assert set(data) == {"status"}
        status: str = data["status"]
        return status

    def told(self, *contents: str, session: str = "s", sender: str = "alice", at: int = T, **more: Any) -> None:
        """Have a user say things, and have them carved."""
        self.add(*(said(each, at + n * 10_000, sender) for n, each in enumerate(contents)), session=session, **more)
        assert self.flush(session, **more) == "extracted"

    def get(self, kind: str = "episode", owner: str = "alice", **more: Any) -> list[Json]:
        """An owner's records of a kind."""
        track = "user_id" if kind in ("episode", "profile", "atomic_fact") else "agent_id"
        data = self.ok("get", **{track: owner, "memory_type": kind, **more})
        found: list[Json] = data["atomic_facts" if kind == "atomic_fact" else PLURALS[kind]]
        return found

    def search(self, query: str, user: str = "alice", **more: Any) -> Json:
        """What a search finds for a user."""
        found: Json = self.ok("search", **{"user_id": user, "query": query, **more})
        return found

    def waiting(self, session: str = "s", user: str = "alice", **more: Any) -> list[Json]:
        """The messages of a session that have not been carved, as one who takes part in it sees them."""
        found: list[Json] = self.search("anything", user, filters={"session_id": session}, **more)[
            "unprocessed_messages"
        ]
        return found

    def queue(self, *messages: Json, session: str = "s", **more: Any) -> str:
        """Send messages that are carved later; the id of the task."""
        answer = self.post("add", {"session_id": session, "messages": list(messages), "async_mode": True, **more})
        assert enveloped(answer, 202)["status"] == "queued"
        task: str = answer.json()["request_id"]
        return task

    def read(self, path: str, status: int = 200, /, **query: Any) -> Any:
        """The data at an address, or why there is none."""
        answer = self.client.get(f"/api/v2/{path}", params=query)
        return enveloped(answer) if status == 200 else failed(answer, status, f"/api/v2/{path}")

    def finished(self, task: str) -> Json:
        """A task once it is finished."""
        return wait_for(
            lambda: dict(self.read(f"tasks/{task}")), lambda found: found["status"] in ("success", "failed")
        )

    def done(self, job: str, **place: Any) -> Json:
        """A job once it is done."""

        def read() -> Json:
            (found,) = self.ok("jobs", job_id=job, **place)["jobs"]
            return dict(found)

        return wait_for(read, lambda found: found["status"] in ("done", "failed"))

    def waiting_for_model(self) -> list[Json]:
        """The jobs that wait because a model could not be asked, once there are any."""
        return wait_for(lambda: list(self.ok("jobs", status="waiting")["jobs"]), bool)

    def everything(self) -> list[Json]:
        """All that is stored: what must be the same after a refusal."""
        records = sorted(self.engine.export(), key=lambda record: record.id)
        return [{"id": each.id, "text": each.text, "data": each.data, "version": each.version} for each in records]

    def run(self, session: str = "run", agent: str = "coder", user: str = "alice", at: int = T, **more: Any) -> None:
        """Have an agent do a task with tools, and have it carved."""
        self.add(*agent_run(agent, user, at), session=session, **more)
        assert self.flush(session, **more) == "extracted"


def call(id: str, name: str, arguments: Json) -> Json:
    """A tool call."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def agent_run(agent: str = "coder", user: str = "alice", at: int = T) -> list[Json]:
    """The messages of a task that an agent does with several tools, one of which fails at first."""
    test, file, setting = {"path": "tests/test_login.py"}, "payments/config.py", "TOKEN_SECONDS = 1"
    failure = "FAILED tests/test_login.py::test_login - AssertionError: token expired"
    edit = {"path": file, "text": "TOKEN_SECONDS = 3600"}
    steps: list[tuple[str, str, Json, str]] = [
        ("I will look at the failing test first.", "run_tests", test, failure),
        ("The token expires too early. I will read the configuration.", "read_file", {"path": file}, setting),
        ("I will raise the lifetime of the token.", "edit_file", edit, "File edited."),
        ("Now the tests again.", "run_tests", test, "1 passed in 0.12s"),
    ]
    messages = [said("Please fix the failing login test in the payments service.", at, user)]
    for n, (words, tool, arguments, result) in enumerate(steps, 1):
        made = [call(f"c{n}", tool, arguments)]
        messages.append(said(words, at + 2000 * n - 1000, agent, "assistant", tool_calls=made))
        messages.append(said(result, at + 2000 * n, agent, "tool", tool_call_id=f"c{n}"))
    done = "The login test passes now: the token lived for one second only, and lives for an hour now."
    messages.append(said(done, at + 9000, agent, "assistant"))
    return [*messages, said("Great, thanks, that works!", at + 10_000, user)]


@contextmanager
def serving(
    store: StoreAddress, zone: tzinfo = UTC, *, docs: bool = False, embedder: HashedEmbedder | None = None,
    model: str = "", budget: str = "off", fetch: str = "off", quiet: timedelta = timedelta(),
    allow_secrets: bool = False, wait: float = 30.0,
) -> Iterator[tuple[Api, Tokens]]:  # fmt: skip
    """The whole application on a store, as `cofio serve` puts it together."""
    settings = replace(SETTINGS, allow_secrets=allow_secrets, docs=docs, timezone=str(zone))
    with Engine.open(store, settings=settings, embedder=embedder) as engine:
        tokens = Tokens(engine.shared_values or store.home)
        chosen = replace(
            settings, llm_base_url=model, llm_model="scripted" if model else "", llm_budget=budget, llm_wait=wait
        )
        metrics = Metrics(lambda: engine, has_model=bool(model))
        observe = metrics.count_model_usage if model else None
        assistant = open_assistant(chosen, store.home, lambda: engine, observe=observe)
        reader, spending = (None, None) if assistant is None else (assistant.reader, assistant.spending)
        conversations = Conversations(engine, reader=reader)
        jobs = ConversationJobs(conversations, spending, quiet=quiet)
        runner = JobRunner(engine, jobs.make_handlers())
        jobs.add_chores(runner)
        runner.on_failure = metrics.count_failed_job
        door = rest.Door(
            conversations, zone, assistant=assistant, fetch_policy=FetchPolicy.parse(fetch), folder=store.home,
            wake=runner.notice, count_failed=metrics.read_failed_jobs,
        )  # fmt: skip
        whole = make_app(store, engine, door=door, metrics=metrics)
        runner.start()
        with closing(door), TestClient(whole, base_url="http://localhost") as client:
            yield Api(client, engine, door, runner), tokens
            door.stop_waiting()  # for a model
            runner.close(5.0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with nothing set."""
    for name in [name for name in os.environ if name.startswith(("COFIO_", "EVEROS_")) or name == "AGENT_STORE_PATH"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name in ("FIRST_RETRY_SECONDS", "POLL_SECONDS"):  # no test waits for failed or left jobs
        monkeypatch.setattr(f"cofio.engine.jobs.{name}", 0.2)
    return tmp_path


@pytest.fixture
def api(store_address: StoreAddress) -> Iterator[Api]:
    """The API on an empty memory, in UTC."""
    with serving(store_address, embedder=HashedEmbedder()) as (api, _):
        yield api


@pytest.fixture(scope="session")
def empty(backend_under_test: BackendUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The API on a memory that stays empty."""
    with serving(backend_under_test.address(tmp_path_factory.mktemp("empty")), embedder=HashedEmbedder()) as (api, _):
        yield api


@pytest.fixture
def bare(empty: Api) -> Iterator[Api]:
    """The API for requests that are all refused, or change nothing."""
    yield empty
    assert empty.everything() == []


@pytest.fixture
def shanghai(store_address: StoreAddress) -> Iterator[Api]:
    """The API where it is eight hours later."""
    with serving(store_address, ZoneInfo("Asia/Shanghai"), embedder=HashedEmbedder()) as (api, _):
        yield api


@pytest.fixture
def guarded(store_address: StoreAddress) -> Iterator[tuple[Api, Tokens]]:
    """The API and the tokens that it asks for once there are any."""
    with serving(store_address, embedder=HashedEmbedder()) as both:
        yield both
