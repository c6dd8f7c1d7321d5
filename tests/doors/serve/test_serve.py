"""`cofio serve`: who is let in, who is not, and what is said when it cannot start."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.waiting import join

from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.http.tokens import FILE, Tokens
from cofio.values.errors import Conflict, Invalid, NotFound, Unavailable

from ..token_commands import add_token, hold, remove_token
from .conftest import GOODBYE, Server, Start

HALF = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
DOCUMENTS = "/api/v2/knowledge/documents"
FORM_TYPE = {"Content-Type": "multipart/form-data; boundary=x"}
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nplanted\r\n'
    b'--x\r\nContent-Disposition: form-data; name="title"\r\n\r\nPlanted\r\n--x--\r\n'
)
MANY_PATHS = ("/", "/health", "/mcp", "/metrics", "/nope")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_says_where_it_listens_and_ends_when_asked(
    start: Start, store: StoreAddress, how: signal.Signals, code: int
) -> None:
    server = start("--json")
    printed = json.loads(server.first_line)
    assert (printed["mcp"], printed["store"]) == (f"{printed['url']}/mcp", str(store))
    server.first_line = printed["mcp"]
    assert server.ask("/").parse()["mcp"] == "/mcp"
    assert server.ask("/health").parse()["status"] == "ok"
    assert (server.ask("/nope").status, server.list_tools()) == (404, 200)
    ended, log = server.end(how)
    assert (ended, log.splitlines()[-1]) == (code, GOODBYE)
    assert str(store) in log
    assert "Traceback" not in log


def test_only_this_server_s_names_are_answered_on_every_route(start: Start) -> None:
    server = start()
    for host in ("127.0.0.1", "localhost", f"LOCALHOST:{server.port}", "[::1]"):
        assert server.ask("/", Host=host).status == 200, host
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[", "127.0.0.2"):
        for path in MANY_PATHS:
            answer = server.ask(path, Host=host)
            assert answer.status in (400, 421), (host, path)
        assert "evil" not in host or "--allow-host" in answer.text
    assert server.list_tools(Host="evil.example") == 421


def test_pages_of_other_sites_and_of_other_ports_are_turned_away_on_every_route(start: Start) -> None:
    server = start()
    own = f"http://127.0.0.1:{server.port}"
    made = server.ask(DOCUMENTS, FORM, **FORM_TYPE, Origin=own)
    assert made.status == 201, made.text
    document = f"{DOCUMENTS}/{made.parse()['data']['doc_id']}"
    before = server.ask(document).parse()["data"]["updated_at"]
    assert server.list_tools(Origin=own) == 200
    assert server.list_tools(Host=f"LOCALHOST:{server.port}", Origin=f"http://localhost:{server.port}") == 200
    assert server.list_tools(Host="localhost", Origin="http://localhost") == 200  # the port that browsers leave out
    create = {"command": "create", "path": "/memories/a.md", "file_text": "planted"}
    for origin in (
        "http://localhost:3000", f"http://localhost:{server.port}", f"https://127.0.0.1:{server.port}", "null", "",
        f"{own}@evil.example", "file://", "http://[", f"{own}/x", f"{own}.evil.example",
    ):  # fmt: skip
        for path in MANY_PATHS:
            assert server.ask(path, Origin=origin).status == 403, (origin, path)
        refused = [
            server.ask("/api/v1/memory-tool", create, Origin=origin),
            server.ask("/threads/t/checkpoints", {"state": {}}, Origin=origin),
            server.call_mcp("tools/list", Origin=origin),
            # A form is what every page may send without asking first.
            server.ask(DOCUMENTS, FORM, **FORM_TYPE, Origin=origin),
            server.ask(document, FORM, "PUT", **FORM_TYPE, Origin=origin),
        ]
        assert [(each.status, "--allow-origin" in each.text) for each in refused] == [(403, True)] * 5, origin
    assert server.ask(DOCUMENTS).parse()["data"]["total"] == 1
    assert server.ask(document).parse()["data"]["updated_at"] == before
    assert server.ask("/threads/t/checkpoints").parse() == {"checkpoints": []}


def test_a_further_name_needs_a_token_and_pages_behind_a_proxy_are_its_own(start: Start, store: StoreAddress) -> None:
    assert start("--allow-host", "memory.example").wait()[0] == 1
    shown = bearer(Tokens(store.home).add("laptop"))
    server = start("--allow-host", "memory.example")
    assert server.list_tools(Host="memory.example") == 401
    assert server.list_tools(Host="memory.example:443", **shown) == 200
    assert server.list_tools(Host="192.168.1.5", **shown) == 200  # no name, so no one else's
    assert server.list_tools(Host="evil.example", **shown) == 421
    for host, origin in (
        ("memory.example", "https://memory.example"), ("memory.example:8443", "https://memory.example:8443"),
        (f"127.0.0.1:{server.port}", "https://memory.example"),
    ):  # fmt: skip
        assert server.list_tools(Host=host, Origin=origin, **shown) == 200, (host, origin)
    for origin in ("https://memory.example:3000", "https://memory.example.evil", "http://localhost"):
        assert server.list_tools(Host="memory.example", Origin=origin, **shown) == 403, origin


def test_pages_of_a_site_that_the_owner_lets_in_are_answered_and_no_others(start: Start, store: StoreAddress) -> None:
    server = start("--allow-origin", "http://localhost:6274", "--allow-origin", "https://App.Example/")
    Tokens(store.home).add("laptop")
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,mcp-session-id"}
    for origin in ("http://localhost:6274", "https://app.example"):
        answer = server.ask("/mcp", method="OPTIONS", Origin=origin, **asked)  # as a browser asks first
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, origin)
        answer = server.call_mcp("tools/list", Origin=origin)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (401, origin)  # a token is needed, too
        assert "x-request-id" in answer.headers["access-control-expose-headers"]
    for origin in ("http://localhost:3000", "http://app.example", "null"):
        assert server.list_tools(Origin=origin) == 403
        assert server.ask("/mcp", method="OPTIONS", Origin=origin, **asked).status == 400
    code, log = start("--allow-origin", "localhost").wait()
    assert (code, "http://localhost:3000" in log) == (2, True)


def test_a_silent_crowd_leaves_the_others_answered(start: Start) -> None:
    server = start(max_files=256)
    crowd: list[socket.socket] = []
    try:
        for number in range(400):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            crowd.append(one)
            with suppress(ConnectionError):  # it may have had to make room already
                one.sendall((b"", b"POST /mcp HTTP/1.1\r\nHost: loc", HALF)[number % 3])
            if number % 20 == 0:
                assert server.list_tools() == 200
        assert server.ask("/health").status == 200
    finally:
        for one in crowd:
            one.close()
    code, log = server.end()
    assert code == 0
    assert 0 < log.count("connections are taken") < 10  # a line a minute
    assert "Traceback" not in log


def test_a_body_that_is_small_on_the_wire_and_large_in_memory_is_refused(start: Start) -> None:
    server = start()
    lists = b",".join([b"[]"] * 20_000_000)
    for _ in range(3):  # what was refused is not kept
        answer = server.ask("/threads/t/checkpoints", b'{"state":{"a":[' + lists + b"]}}")
        assert (answer.status, "values" in answer.text) == (422, True)
    for process in (server.process.pid, *server.find_children().values()):
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        assert peak
        assert int(peak[1]) < 200 * 1024


def test_a_token_is_needed_once_there_is_one_and_its_end_holds_at_once(start: Start, store: StoreAddress) -> None:
    server = start()
    assert server.list_tools() == 200
    token = add_token(store, "laptop")
    hold(store, lambda: server.list_tools() == 401)
    answer = server.call_mcp("tools/list")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="cofio"')
    assert "cofio token add" in answer.text
    assert server.list_tools(**bearer(token)) == 200
    assert server.list_tools(Authorization=f"bearer  {token}") == 200
    for wrong in ("Bearer", "Bearer ", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Basic {token}", token, "Bearer é"):
        assert server.list_tools(Authorization=wrong) == 401, wrong
    assert (server.ask("/").status, server.ask("/health").status) == (401, 200)
    limited = bearer(Tokens(store.home).add("dashboard", app="shop", access="read"))  # good for the REST door alone
    for path in ("/api/v1/memory/../../../mcp", "/api/v1/memory/..%2f..%2f..%2fmcp", "/api/v1/memory/%2e%2e/../mcp"):
        assert server.ask(path, {}, **limited).status == 404, path  # under the prefix, and led nowhere
    for path in ("//api/v1/memory/add", "/API/v1/memory/add", "/mcp/api/v1/memory/", "/mcp?/api/v1/memory/"):
        assert server.ask(path, {}, **limited).status == 403, path
    remove_token(store, "laptop")
    remove_token(store, "dashboard")
    hold(store, lambda: server.list_tools(**bearer(token)) == 401)
    assert server.list_tools() == 401  # the end of the last token lets nobody in
    (store.home / FILE).write_text("[5]")
    assert server.list_tools() == 503


def test_an_address_that_others_can_reach_needs_a_token(start: Start, store: StoreAddress) -> None:
    code, log = start("--host", "0.0.0.0").wait()
    assert (code, "cofio token add" in log) == (1, True)
    shown = bearer(Tokens(store.home).add("laptop"))
    server = start("--host", "0.0.0.0")
    assert server.list_tools() == 401
    assert server.list_tools(**shown) == 200
    assert server.list_tools(**shown, Host="evil.example") == 421
    assert server.list_tools(**shown, Host=socket.gethostname()) == 200
    Tokens(store.home).remove("laptop")
    assert server.list_tools() == 401  # still one that others can reach


def test_what_keeps_it_from_starting_is_told_in_one_line(start: Start, store: StoreAddress, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "memory.db").write_bytes(b"This is no database at all." * 1000)
    Tokens(store.home).add("laptop")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = {
            "memory.db": Server(StoreAddress(folder=damaged), tmp_path, "--workers", "2"),
            "budget": start(COFIO_LLM_BASE_URL="http://x", COFIO_LLM_MODEL="y", COFIO_LLM_BUDGET="z"),
            "--port": start("--port", str(taken.getsockname()[1])),
            "256.1.1.1": start("--host", "256.1.1.1"),
        }
        for problem, server in refused.items():
            code, log = server.wait()
            assert (server.first_line, code) == ("", 1)
            assert (len(log.splitlines()), problem in log) == (1, True), log


@pytest.mark.parametrize(
    ("variable", "value", "problem"), [("COFIO_FETCH", "no/folder", "fetch"), ("COFIO_WORKERS", "9", "from 1 to 8")]
)
def test_a_setting_that_cannot_be_used_is_told_before_a_store_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    variable: str, value: str, problem: str,
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, value)
    assert main(["--store", str(tmp_path / "store"), "serve", "--port", "0"]) == 1
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--port", "70000"), ("--port", "-1"), ("--port", "8.5"), ("--workers", "9"), ("--workers", "")],
)
def test_a_number_that_is_none_is_wrong_usage(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", option, value]) == 2
    assert option in capsys.readouterr().err


# The tokens themselves.


def test_tokens_are_kept_as_hashes_in_a_file_for_the_owner_alone(store: StoreAddress) -> None:
    tokens = Tokens(store.home)
    assert (tokens.all(), tokens.find("anything")) == ((), None)
    made: dict[str, str] = {}
    threads = [
        threading.Thread(target=lambda name=name: made.update({name: Tokens(store.home).add(name)}))
        for name in ("日本 🦓", *(f"t{number}" for number in range(20)))  # all at once
    ]
    for thread in threads:
        thread.start()
    join(*threads)
    file = store.home / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    for name, token in made.items():
        found = Tokens(store.home).find(token)
        assert found is not None
        assert found.name == name
        assert (token.startswith("cofio_"), len(token) > 40, token in file.read_text()) == (True, True, False)
    assert {each.name for each in tokens.all()} == set(made)
    assert len(set(made.values())) == 21
    tokens.remove("t7")
    assert tokens.find(made["t7"]) is None
    before = file.read_bytes()
    with pytest.raises(Conflict):
        tokens.add("t8")
    for wrong in ("", "x" * 101, "a\nb", "a\0b"):
        with pytest.raises(Invalid):
            tokens.add(wrong)
    with pytest.raises(NotFound):
        tokens.remove("phone")
    assert file.read_bytes() == before
    file.write_text("{}")
    with pytest.raises(Unavailable):
        Tokens(store.home).all()
