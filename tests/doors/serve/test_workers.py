"""`cofio serve` with several processes: one server to its clients, whichever answers, is killed or stands still."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import TextContent
from tests.waiting import wait_until

import mcp
from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.config.settings import Settings
from cofio.doors.cli import main
from cofio.server.parent import choose_workers
from cofio.values.errors import Invalid

from ..token_commands import add_token, hold, remove_token
from .conftest import GOODBYE, Server, Start, ask, is_gone, remove

ADD = "/api/v1/memory/add"


def make_message(text: str) -> dict[str, Any]:
    return {"sender_id": "alice", "role": "user", "timestamp": 1779967836000, "content": text}


def write(connection: http.client.HTTPConnection, session: str, text: str) -> None:
    """Have a conversation of one message remembered."""
    answer = ask(connection, ADD, {"session_id": session, "messages": [make_message(text)]})
    assert answer.status == 200, answer.text
    assert ask(connection, "/api/v1/memory/flush", {"session_id": session}).status == 200


def search(connection: http.client.HTTPConnection, query: str) -> str:
    """Return the answer to a search."""
    answer = ask(connection, "/api/v1/memory/search", {"user_id": "alice", "query": query})
    assert answer.status == 200, answer.text
    return answer.text


def find_worker(connection: http.client.HTTPConnection) -> int:
    """Return the id of the process at the other end of a connection."""
    ask(connection, "/")
    own = f"0100007F:{connection.sock.getsockname()[1]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    (inode,) = [row[9] for row in rows if row[2] == own]
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            if any(os.readlink(each) == f"socket:[{inode}]" for each in folder.iterdir()):
                return int(folder.parent.name)
    raise AssertionError("nobody has the connection")


Connections = tuple[Server, list[http.client.HTTPConnection]]


@pytest.fixture
def connections(start: Start) -> Iterator[Connections]:
    """A server with two workers, and a connection to each."""
    server = start("--workers", "2")
    with ExitStack() as stack:
        found: dict[int, http.client.HTTPConnection] = {}

        def connect() -> bool:
            connections = [stack.enter_context(closing(server.connect())) for _ in range(8)]
            with suppress(ValueError, AssertionError):  # one that was closed meanwhile
                found.update({find_worker(each): each for each in connections})
            return len(found) == 2

        wait_until(connect)
        yield server, [*found.values()]


def test_what_is_written_through_one_worker_is_found_through_the_other_at_once(connections: Connections) -> None:
    one, other = connections[1]
    for number in range(3):
        write(one, f"s{number}", f"The zebra{number} lives in Oslo.")
        assert f"zebra{number}" in search(other, f"zebra{number}")
        write(other, f"t{number}", f"The heron{number} lives in Bergen.")
        assert f"heron{number}" in search(one, f"heron{number}")


async def use_tools(address: str, number: int) -> None:
    """Write and search as a client of the SDK, with several requests at once."""
    async with mcp.Client(address, mode="legacy") as client:

        async def find() -> None:
            found = await client.call_tool("search_context", {"query": f"otter{number}"})
            assert isinstance(found.content[0], TextContent)
            assert f"otter{number}" in found.content[0].text

        note = {"topic": f"Note {number}", "content": f"The otter{number} swims."}
        assert not (await client.call_tool("write_context", note)).is_error
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(find)


def test_many_clients_of_the_sdk_are_served_by_all_workers(start: Start) -> None:
    server = start("--workers", "3")

    async def use() -> None:
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(use_tools, server.first_line, number)

    anyio.run(use)
    code, log = server.end()
    assert (code, len(log.splitlines())) == (0, 3), log


def test_a_worker_that_is_killed_is_started_again_and_nothing_that_was_acknowledged_is_lost(
    connections: Connections,
) -> None:
    server, found = connections
    write(found[0], "s", "The zebra lives in Oslo.")
    workers = [process for name, process in server.find_children().items() if name != "background"]

    def is_replaced(process: int) -> bool:
        children = server.find_children()
        return len(children) == 3 and process not in children.values()

    for process in workers:
        os.kill(process, signal.SIGKILL)
        wait_until(partial(is_replaced, process))
    wait_until(lambda: server.ask("/health").status == 200)
    with closing(server.connect()) as connection:
        assert "zebra" in search(connection, "zebra")
        write(connection, "t", "The heron lives in Bergen.")
    code, log = server.end()
    assert code == 0
    assert log.count("ended by SIGKILL: it is started again in 0.1 s") == 2
    assert "Traceback" not in log


def test_a_background_process_that_is_killed_is_started_again_and_does_what_was_left(start: Start) -> None:
    server = start("--workers", "2")
    background = server.find_children()["background"]
    os.kill(background, signal.SIGKILL)
    answer = server.ask(
        ADD, {"session_id": "s", "async_mode": True, "messages": [make_message("The zebra lives in Oslo.")]}
    )
    assert answer.status == 202, answer.text
    wait_until(lambda: server.find_children().get("background", background) != background)
    jobs = {"app_id": "default", "project_id": "default", "job_id": answer.parse()["request_id"]}
    wait_until(lambda: '"done"' in server.ask("/api/v1/memory/jobs", jobs).text)
    wait_until(lambda: "\ncofio_store_waiting_for_vectors 0.0\n" in server.ask("/metrics").text)
    health = server.ask("/health").parse()
    assert (health["status"], health["memorize_queue"]["healthy"]) == ("ok", True)
    code, log = server.end()
    assert (code, "the background process ended by SIGKILL" in log) == (0, True)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_worker_that_is_started_again_neither_makes_a_store_nor_opens_one_that_replaced_its_own(
    start: Start, store: StoreAddress, tmp_path: Path, how: str
) -> None:
    server = start("--workers", "2")
    server.ask(ADD, {"session_id": "s", "messages": [make_message("The zebra lives in Oslo.")]})
    if how == "replaced":
        assert main(["--store", store.spell(), "backup", str(tmp_path / "copy")]) == 0
        store.home.rename(tmp_path / "elsewhere")
        (tmp_path / "copy").rename(store.home)
    else:
        wait_until(lambda: remove(store.home))
    worker = server.find_worker()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: is_gone(worker))
    assert server.process.stderr is not None
    line = next(line for line in server.process.stderr if "could not start" in line)
    assert "was deleted, moved or replaced; start this program again" in line
    assert store.home.exists() == (how == "replaced")
    assert not list(store.home.glob("*-wal"))


def test_when_the_parent_is_killed_all_end_and_the_port_is_free(start: Start) -> None:
    server = start("--workers", "2")
    port, processes = server.port, [*server.find_children().values()]
    assert len(processes) == 3
    server.process.kill()
    wait_until(lambda: all(map(is_gone, processes)))
    assert start("--workers", "2", "--port", str(port)).port == port


def test_a_request_under_way_is_answered_although_the_server_is_stopped(
    connections: Connections, store: StoreAddress
) -> None:
    server, found = connections
    bodies = dict[int, bytes]()
    for number, connection in enumerate(found):
        message = make_message(f"The zebra{number} lives in Oslo.")
        body = bodies[number] = json.dumps({"session_id": f"s{number}", "messages": [message]}).encode()
        connection.putrequest("POST", ADD)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:20])
        connection.sock.sendall(body[20:-1])
    processes = server.find_children().values()
    server.process.send_signal(signal.SIGTERM)
    for number, connection in enumerate(found):
        connection.sock.sendall(bodies[number][-1:])
        assert connection.getresponse().status == 200
    code, log = server.wait()
    assert (code, log.splitlines()[-1]) == (0, GOODBYE)
    assert all(map(is_gone, processes))
    with Engine.open(store, settings=Settings(embedder="none")) as engine:
        assert engine.stats().records == 2


def test_ctrl_c_ends_all_processes_once(start: Start) -> None:
    server = start("--workers", "2")
    processes = [*server.find_children().values()]
    for process in processes:  # as a terminal does
        os.kill(process, signal.SIGINT)
    code, log = server.end(signal.SIGINT)
    assert (code, log.splitlines()[-1]) == (130, GOODBYE)
    assert "started again" not in log
    assert all(map(is_gone, processes))


def test_the_numbers_are_those_of_all_processes_and_survive_a_kill(connections: Connections) -> None:
    server, found = connections

    def count_requests(text: str) -> int:
        return int(float(re.findall(r'cofio_http_requests_total\{method="GET",path="/",status="200"\} (.*)', text)[0]))

    before = count_requests(server.ask("/metrics").text)
    for connection in found:
        for _ in range(5):
            ask(connection, "/")
    for connection in found:
        text = ask(connection, "/metrics").text
        assert count_requests(text) == before + 10
        assert f'cofio_http_request_duration_seconds_count{{method="GET",path="/"}} {before + 10}.0' in text
        assert "cofio_store_records" in text
    for name, process in server.find_children().items():
        if name != "background":
            os.kill(process, signal.SIGKILL)
    texts: list[str] = []

    def is_answered() -> bool:
        with suppress(OSError, http.client.HTTPException):
            texts.append(server.ask("/metrics").text)
        return bool(texts)

    wait_until(is_answered)
    assert count_requests(texts[0]) == before + 10


def test_a_token_counts_in_all_workers_as_soon_as_there_is_one(connections: Connections, store: StoreAddress) -> None:
    _, found = connections
    shown = {"Authorization": f"Bearer {add_token(store, 'laptop')}"}
    hold(store, lambda: {ask(each, "/").status for each in found} == {401})
    assert {ask(each, "/", **shown).status for each in found} == {200}
    remove_token(store, "laptop")
    hold(store, lambda: {ask(each, "/", **shown).status for each in found} == {401})


def test_the_number_of_workers_is_a_setting_and_one_is_a_single_process(start: Start) -> None:
    assert len(start("--json", COFIO_WORKERS="2").find_children()) == 3
    assert start("--workers", "1", COFIO_WORKERS="2").find_children() == {}


def test_by_default_there_is_a_worker_for_each_core_and_on_windows_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.server.parent.count_cores", lambda: 3)
    assert [choose_workers(wanted) for wanted in (None, 0, 1, 8)] == [3, 1, 1, 8]
    monkeypatch.setattr("cofio.server.parent.count_cores", lambda: 64)
    assert choose_workers(None) == 8
    monkeypatch.setattr(sys, "platform", "win32")
    assert choose_workers(None) == choose_workers(1) == 1
    with pytest.raises(Invalid, match="Windows"):
        choose_workers(2)


# What stands still.


def test_a_process_that_stands_still_is_killed_and_replaced(connections: Connections) -> None:
    server, found = connections
    write(found[0], "s", "The zebra lives in Oslo.")
    before = server.find_children()
    for process in before.values():
        os.kill(process, signal.SIGSTOP)
    wait_until(lambda: len(server.find_children()) == 3 and not {*before.values()} & {*server.find_children().values()})
    wait_until(lambda: server.ask("/health").status == 200)
    with closing(server.connect()) as connection:
        assert "zebra" in search(connection, "zebra")
    code, log = server.end()
    assert (code, log.count("stands still: it is killed")) == (0, 3)


def test_a_server_whose_log_nobody_reads_goes_on_and_ends_when_asked(start: Start) -> None:
    server = start("--workers", "2")
    for _ in range(4000):  # more than a pipe holds, were each of them logged
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 5) as line:
            line.sendall(b"\0 nonsense\r\n\r\n")
            line.recv(100)
    for _ in range(4):
        assert server.ask("/health").status == 200
    server.process.terminate()
    assert server.process.wait(20) == 0


@pytest.mark.parametrize("door", ["rest", "threads", "mcp"])
def test_a_stop_under_load_answers_or_refuses_every_call(start: Start, door: str) -> None:
    server = start("--workers", "2")
    statuses, is_over = list[int](), threading.Event()
    params = {"name": "write_context", "arguments": {"topic": "t", "content": "c"}}
    calls: dict[str, tuple[str, Any]] = {
        "rest": (ADD, {"session_id": "s", "messages": [make_message("Hi.")]}),
        "threads": ("/threads/t/checkpoints", {"state": {"n": 1}}),
        "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}),
    }

    def call() -> None:
        while not is_over.is_set():
            with suppress(OSError, http.client.HTTPException), closing(server.connect()) as connection:
                while not is_over.is_set():
                    statuses.append(ask(connection, *calls[door]).status)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(statuses) > 20)
    code, log = server.end()
    is_over.set()
    for thread in threads:
        thread.join(30)
    assert (code, "Traceback" in log) == (0, False), log
    assert {*statuses} <= {200, 201, 503}
