"""The API of real servers: the page's own commands, servers that are ended and killed, and several on one store."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.llm.scripted import Scripted, right, slow
from tests.servers import free_port
from tests.waiting import wait_for, wait_until

from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.engine.jobs import LEASE_SECONDS, RUNNERS
from cofio.values.records import Kind, Record, Scope

from ..token_commands import add_token
from .conftest import DAY, HOUR, PREFIX, SETTINGS, Json, T, said

pytestmark = pytest.mark.usefixtures("process")

KILLS = 4
DOCUMENTS = "/api/v2/knowledge/documents"
CURL = r"""
TS=$(date +%s)
curl -X POST http://127.0.0.1:8000/api/v1/memory/add \
  -H 'Content-Type: application/json' \
  -d "{
    \"session_id\": \"demo-002\",
    \"app_id\": \"default\",
    \"project_id\": \"default\",
    \"messages\": [
      {\"sender_id\": \"alice\", \"role\": \"user\", \"timestamp\": $TS, \"content\": \"I love climbing in Yosemite every spring.\"},
      {\"sender_id\": \"alice\", \"role\": \"user\", \"timestamp\": $((TS+10)), \"content\": \"My favorite coffee shop is Blue Bottle in SOMA.\"},
      {\"sender_id\": \"alice\", \"role\": \"user\", \"timestamp\": $((TS+20)), \"content\": \"I bike to work most days.\"}
    ]
  }"
echo
curl -X POST http://127.0.0.1:8000/api/v1/memory/flush \
  -H 'Content-Type: application/json' \
  -d '{"session_id":"demo-002","app_id":"default","project_id":"default"}'
echo
curl -X POST http://127.0.0.1:8000/api/v1/memory/search \
  -H 'Content-Type: application/json' \
  -d '{
    "user_id": "alice",
    "app_id": "default",
    "project_id": "default",
    "query": "Where do I like to climb?",
    "top_k": 5
  }'
"""  # noqa: E501  # as the page has it


class Server:
    """A server in a process of its own."""

    def __init__(self, store: StoreAddress, folder: Path, *arguments: str, **environ: str) -> None:
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("COFIO_", "EVEROS_"))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cofio", "serve", "--store", store.spell(), *arguments],
            cwd=folder, env={**bare, "COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal", **environ},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    @property
    def port(self) -> int:
        """Where it listens; waits until it does."""
        if not hasattr(self, "_port"):
            assert self.process.stdout
            told = self.process.stdout.readline()
            assert told, self.process.communicate(timeout=60)[1]
            found = re.search(r"http://127\.0\.0\.1:(\d+)", told)
            assert found, told
            self._port = int(found[1])
        return self._port

    def connect(self) -> http.client.HTTPConnection:
        """A connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stop it; its exit code, and what it said to its log."""
        self.process.send_signal(how)
        _, said_ = self.process.communicate(timeout=60)
        return self.process.returncode, said_


def ask(connection: http.client.HTTPConnection, call: str, body: Json) -> tuple[int, Json]:
    """The status and body that a call is answered with."""
    connection.request("POST", f"{PREFIX}/{call}", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    told: Json = json.loads(answer.read())
    return answer.status, told


def wait_for_job(connection: http.client.HTTPConnection) -> Json:
    """The only job of a server, once it is done."""

    def read() -> Json:
        (job,) = ask(connection, "jobs", {})[1]["data"]["jobs"]
        return dict(job)

    return wait_for(read, lambda job: job["status"] == "done")


def wait_for_task(connection: http.client.HTTPConnection, task: str) -> Json:
    """A task, once it is finished."""

    def read() -> Json:
        connection.request("GET", f"/api/v2/tasks/{task}")
        return dict(json.loads(connection.getresponse().read())["data"])

    return wait_for(read, lambda found: found["status"] in ("success", "failed"))


Start = Callable[..., Server]


@pytest.fixture
def start(store_address: StoreAddress, tmp_path: Path) -> Iterator[Start]:
    """Starts servers on one store, which are ended with the test."""
    started: list[Server] = []

    def run(*arguments: str, **environ: str) -> Server:
        started.append(Server(store_address, tmp_path, *(arguments or ("--port", "0")), **environ))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate(timeout=60)


@pytest.mark.skipif(not shutil.which("curl"), reason="the page's commands are curl's")
@pytest.mark.requirement(
    "docs.setting", "examples.curl", "settings.port", "settings.host", "settings.prefix", "auth.none"
)
def test_the_commands_of_the_page_do_what_it_shows(start: Start) -> None:
    port = free_port()
    assert start("--json", EVEROS_API__PORT=str(port), EVEROS_API__HOST="127.0.0.1").port == port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/docs") as page:
        assert page.status == 200
    script = CURL.replace("127.0.0.1:8000", f"127.0.0.1:{port}").replace("curl", "curl -sS")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    added, flushed, found = (json.loads(line) for line in done.stdout.splitlines() if line)
    assert added["data"] == {"message_count": 3, "status": "accumulated"}
    assert flushed["data"] == {"status": "extracted"}
    assert len({each["request_id"] for each in (added, flushed, found)}) == 3
    data = found["data"]
    (episode,) = data.pop("episodes")
    assert data == {"profiles": [], "agent_cases": [], "agent_skills": [], "unprocessed_messages": []}
    assert episode["id"].startswith("alice_ep_20")
    assert episode["id"].endswith("_00000001")
    assert (episode["session_id"], episode["sender_ids"], episode["type"]) == ("demo-002", ["alice"], "Conversation")
    assert episode["timestamp"].endswith("Z")
    assert "Yosemite" in episode["atomic_facts"][0]["content"]


@pytest.mark.requirement(
    "settings.port", "settings.zone", "docs.setting", "errors.logs", "server.sigterm", "sessions.quiet"
)
def test_settings_come_from_variables_and_flags(start: Start) -> None:
    port = free_port()
    taken = {"EVEROS_API__PORT": "1", "EVEROS_MEMORY__TIMEZONE": "Asia/Shanghai"}
    taken |= {"COFIO_DOCS": "false", "COFIO_QUIET_AFTER": "0.001"}  # so that nobody has to flush
    server = start("--host", "127.0.0.1", "--port", str(port), **taken)
    assert server.port == port
    with closing(server.connect()) as connection:
        assert ask(connection, "add", {"session_id": "s", "messages": [said("I live in Xanadu.")]})[0] == 200
        asked = {"user_id": "alice", "memory_type": "episode"}
        (episode,) = wait_for(lambda: ask(connection, "get", asked)[1]["data"]["episodes"], bool)
        assert episode["timestamp"] == "2026-05-28T19:30:36+08:00"
        _, failed = ask(connection, "get", {"user_id": "Xanadu"})
        assert failed["error"]["timestamp"].endswith("+08:00")
        connection.request("GET", "/openapi.json")
        assert connection.getresponse().status == 404
    with closing(socket.create_connection(("127.0.0.1", port))) as leaving:
        leaving.sendall(f"POST {PREFIX}/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{{".encode())
    code, log = server.end()
    assert code == 0
    assert "Traceback" not in log
    assert "Xanadu" not in log
    assert "alice" not in log


@pytest.mark.requirement("docs.setting", "docs.page")
def test_the_description_is_shown_beyond_loopback_by_setting_alone(start: Start, store: StoreAddress) -> None:
    def shown(server: Server, **headers: str) -> tuple[int, str]:
        with closing(server.connect()) as connection:
            connection.request("GET", "/docs", headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    token = {"Authorization": f"Bearer {add_token(store, 'laptop')}"}
    public = ("--port", "0", "--allow-host", "memory.example.org")
    hidden = start(*public)
    assert shown(hidden)[0] == 401
    status, told = shown(hidden, **token)
    assert (status, "COFIO_DOCS=true" in told) == (404, True)
    assert shown(start(*public, COFIO_DOCS="true"), **token)[0] == 200


# What a store must hold.


def turns(engine: Engine, session: str) -> list[Record]:
    """Every message of a session, wherever it is kept."""
    found = engine.list(Scope("rest"), kinds=(Kind.TURN,), limit=10_000)
    return [record for record in found if isinstance(record.data, dict) and record.data["session_id"] == session]


def check_whole(engine: Engine, session: str) -> set[str]:
    """What a session's messages say: each waits, or is evidence of one episode; nothing hangs in the air."""
    records = {record.id: record for record in engine.list(Scope("rest"), limit=10_000)}
    episodes = [record for record in records.values() if record.kind is Kind.EPISODE]
    found = turns(engine, session)
    assert max(Counter(record.text for record in found).values(), default=1) == 1
    for record in found:
        waits = record.scope.names[3] == "session"
        assert waits == (record.parent is None)
        assert waits or records[str(record.parent)].kind is Kind.EPISODE
    for record in records.values():
        if record.kind is Kind.FACT:
            assert records[str(record.parent)].kind is Kind.EPISODE
    for episode in episodes:
        assert isinstance(episode.data, dict)
        made_of: Any = episode.data["turns"]
        assert made_of
        assert all(records[each].parent == episode.id for each in made_of)
    keys = [(record.scope, record.key) for record in episodes]
    assert len(keys) == len(set(keys))
    return {record.text for record in found}


class Writer(threading.Thread):
    """A client that adds and flushes until its server is gone."""

    def __init__(self, server: Server, name: str, enough: int) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.word = name
        self.enough = enough
        self.acknowledged: list[list[str]] = []
        self.doubtful: list[str] = []
        self.reached = threading.Event()

    def run(self) -> None:
        """Work."""
        with closing(self.server.connect()) as connection, suppress(OSError, http.client.HTTPException):
            for n in range(10_000):
                self.doubtful = [f"I like {self.word}{n}x{part}." for part in range(2)]
                messages = [
                    said(text, T + (n * 2 + part) * 8 * HOUR) for part, text in enumerate(self.doubtful)
                ]  # every few of them begin another day
                status, _ = ask(connection, "add", {"session_id": "s", "messages": messages})
                assert status == 200
                self.acknowledged.append(self.doubtful)
                self.doubtful = []
                if len(self.acknowledged) == self.enough:
                    self.reached.set()
                if n % 4 == 3:
                    assert ask(connection, "flush", {"session_id": "s"})[0] == 200
        self.reached.set()


@pytest.mark.requirement("server.killed", "tasks.durable", "flush.whole", "consistency.write", "add.whole")
def test_a_server_that_is_killed_loses_and_doubles_nothing(start: Start, store: StoreAddress) -> None:
    said_before: set[str] = set()
    alone = ("--port", "0", "--workers", "0")  # so that all of it is killed at once
    following = start(*alone)
    for kill in range(KILLS):
        server, following = following, start(*alone)  # the next one starts beside it, as it would after a crash
        writer = Writer(server, f"w{kill}n", enough=3 + 2 * kill)
        writer.start()
        assert writer.reached.wait(60)
        server.end(signal.SIGKILL)
        writer.join(60)
        acknowledged = {text for batch in writer.acknowledged for text in batch}
        assert acknowledged
        with Engine.open(store, settings=SETTINGS) as engine:
            there = check_whole(engine, "s")
        assert said_before | acknowledged <= there
        doubtful = there - said_before - acknowledged
        assert doubtful in (set(), set(writer.doubtful))
        said_before = there
    queued = []
    with closing(following.connect()) as connection:
        for number in range(12):  # on a day each
            body = {"session_id": f"q{number % 3}", "messages": [said(f"I saw bird {number}.", T + number * DAY)]}
            status, told = ask(connection, "add", {**body, "async_mode": True})
            assert status == 202
            queued.append(told["request_id"])
    following.end(signal.SIGKILL)
    last = start(*alone)
    with closing(last.connect()) as connection:
        for task in queued:
            assert wait_for_task(connection, task)["status"] == "success"
        assert ask(connection, "flush", {"session_id": "s"})[0] == 200
    last.end()
    with Engine.open(store, settings=SETTINGS) as engine:
        assert check_whole(engine, "s") == said_before
        assert all(record.parent for record in turns(engine, "s"))
        assert sum(len(check_whole(engine, f"q{number}")) for number in range(3)) == 12
        assert engine.check() == []


@pytest.mark.requirement("server.several", "add.concurrent", "add.order", "flush.whole")
def test_several_servers_add_to_one_session_at_once(start: Start, store: StoreAddress) -> None:
    servers = [start("--port", "0", "--workers", "0") for _ in range(3)]
    ready = threading.Barrier(3)

    def work(number: int) -> set[int]:
        with closing(servers[number].connect()) as connection:
            ready.wait(60)
            told = set()
            for n in range(25):
                messages = [said(f"I like n{n} of {number}.", T + n * 4 * HOUR + number, f"user{number}")]
                told.add(ask(connection, "add", {"session_id": "s", "messages": messages})[0])
            for n in range(5):
                messages = [said(f"Waiting {n} of {number}.", T + 9 * DAY + n, f"user{number}")]
                told.add(ask(connection, "add", {"session_id": "open", "messages": messages})[0])
            ready.wait(60)
            return {*told, ask(connection, "flush", {"session_id": "s"})[0]}

    with ThreadPoolExecutor(3) as pool:
        assert [told for each in pool.map(work, range(3)) for told in each] == [200] * 3
    for server in servers:
        assert server.end()[0] == 0
    expected = {f"I like n{n} of {number}." for n in range(25) for number in range(3)}
    with Engine.open(store, settings=SETTINGS) as engine:
        carved = turns(engine, "s")
        assert {record.text for record in carved} == expected
        assert all(record.parent for record in carved)
        by_owner = Counter((record.scope, record.text) for record in carved)
        assert set(by_owner.values()) == {1}
        for number in range(3):
            home = Scope("rest", "default", "default", "user", f"user{number}")
            own = {record.text for record in carved if record.scope == home}
            assert {f"I like n{n} of {number}." for n in range(25)} <= own
        open_ = Scope("rest", "default", "default", "session", "open")
        waiting = engine.list(open_, kinds=(Kind.TURN,), limit=1000, newest=False, order="created")
        assert len(waiting) == 15
        for number in range(3):
            mine = [record.text for record in waiting if record.text.endswith(f"of {number}.")]
            assert mine == [f"Waiting {n} of {number}." for n in range(5)]
        assert engine.list(kinds=(Kind.EPISODE,))


def end_claims(store: StoreAddress) -> None:
    """Let what a killed server had claimed be free, as if its heartbeat had expired."""
    with Engine.open(store, settings=SETTINGS) as engine:
        (beat,) = engine.list(RUNNERS)
        assert beat.expires_at is not None
        assert beat.expires_at <= engine.read_clock() + timedelta(seconds=LEASE_SECONDS)
        engine.drop(RUNNERS)


@pytest.mark.requirement("model.killed")
def test_a_server_that_is_killed_while_the_model_thinks_loses_nothing_and_the_next_goes_on(
    start: Start, store: StoreAddress
) -> None:
    messages = [said("I live in Oslo."), said("I live in Bergen.", T + DAY)]
    with Scripted(slow) as silent:
        first = start("--port", "0", "--workers", "0", COFIO_LLM_BASE_URL=silent.url, COFIO_LLM_MODEL="m")
        with closing(first.connect()) as line:
            assert ask(line, "add", {"session_id": "s", "messages": messages})[1]["data"]["status"] == "extracted"
            wait_until(lambda: silent.calls)  # the job has begun
            first.process.kill()
            first.process.wait(60)
    end_claims(store)
    with Scripted(right) as model:
        second = start(COFIO_LLM_BASE_URL=model.url, COFIO_LLM_MODEL="m")
        with closing(second.connect()) as line:
            assert wait_for_job(line)["result"] == "refined"
            data = ask(line, "get", {"user_id": "alice", "memory_type": "episode"})[1]["data"]
            assert [episode["subject"] for episode in data["episodes"]] == ["What Alice talked about"]
            query = {"user_id": "alice", "query": "x", "filters": {"session_id": "s"}}
            assert len(ask(line, "search", query)[1]["data"]["unprocessed_messages"]) == 1
        assert second.end()[0] == 0


@pytest.mark.requirement("server.sigterm", "model.stopped")
def test_a_server_that_is_stopped_waits_for_no_model(start: Start) -> None:
    answers: dict[str, tuple[int, Json]] = {}
    with Scripted(slow) as silent:
        server = start(COFIO_LLM_BASE_URL=silent.url, COFIO_LLM_MODEL="m")

        def flush() -> None:
            with closing(server.connect()) as line:
                ask(line, "add", {"session_id": "s", "messages": [said("I live in Oslo.")]})
                answers["flush"] = ask(line, "flush", {"session_id": "s"})

        def upload() -> None:
            head = '--b\r\nContent-Disposition: form-data; name="title"\r\n\r\nA plan\r\n--b\r\n'
            head += 'Content-Disposition: form-data; name="file"; filename="plan.md"\r\n\r\n'
            body = f"{head}# Food\n\nWe eat bread and cheese.\n\r\n--b--\r\n"
            with closing(server.connect()) as line:
                line.request("POST", DOCUMENTS, body, {"Content-Type": "multipart/form-data; boundary=b"})
                answer = line.getresponse()
                answers["upload"] = answer.status, json.loads(answer.read())

        _ = server.port
        clients = [threading.Thread(target=does) for does in (flush, upload)]
        for client in clients:
            client.start()
        wait_until(lambda: len(silent.calls) >= 2)
        assert {call.task for call in silent.calls} == {"document", "episode"}
        _, log = server.end()  # which waits for less than the model has to answer
        for client in clients:
            client.join(60)
    assert "Traceback" not in log
    status, told = answers["upload"]
    assert status == 201
    assert "the model could not be asked" in told["meta"]["notes"][0]
    status, told = answers["flush"]
    assert (status, told["data"]) == (200, {"status": "extracted"})
    assert "the rules' records" in told["meta"]["notes"][0]
    with Scripted(right) as model:  # and the next server has the document, and goes on with the job
        second = start(COFIO_LLM_BASE_URL=model.url, COFIO_LLM_MODEL="m")
        with closing(second.connect()) as line:
            job = wait_for_job(line)
            assert (job["result"], job["error"]) == ("refined", None)
            line.request("GET", DOCUMENTS)
            (document,) = json.loads(line.getresponse().read())["data"]["documents"]
            assert document["title"] == "A plan"


@pytest.mark.requirement("knowledge.spool")
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux says which files a process has open")
def test_a_file_that_is_sent_waits_in_the_store_without_a_name_and_ends_with_a_killed_server(
    start: Start, store: StoreAddress, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    server = start("--port", "0", "--workers", "0", TMPDIR=str(temporary))
    mark = b"zanzibarian quokka "
    with closing(server.connect()) as client:
        client.putrequest("POST", DOCUMENTS)
        client.putheader("Content-Type", "multipart/form-data; boundary=x")
        client.putheader("Content-Length", "9000000")
        client.endheaders(b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n')
        client.send(mark * 200_000)
        open_files = partial(_open_files, server.process.pid)
        (file,) = wait_for(lambda: [each for each in open_files() if mark in _read_beginning(each)], bool)
        where = os.readlink(file)
        assert Path(where).parent == store.home
        assert where.endswith(" (deleted)")
        assert file.stat().st_mode & 0o777 == 0o600
        assert list(temporary.iterdir()) == []
        server.end(signal.SIGKILL)
    files = [each for folder in (tmp_path, store.home) for each in folder.rglob("*") if each.is_file()]
    assert files
    assert not any(mark in each.read_bytes() for each in files)


def _open_files(process: int) -> list[Path]:
    """The open files of a server, in all of its processes."""
    with suppress(FileNotFoundError):
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [file for each in (process, *children) for file in Path(f"/proc/{each}/fd").iterdir()]
    return []


def _read_beginning(file: Path) -> bytes:
    with suppress(OSError):
        if file.is_file():
            with file.open("rb") as opened:
                return opened.read(1000)
    return b""
