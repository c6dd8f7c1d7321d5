"""`cofio serve`: who is let in, who is not, and what is said when it cannot start."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cofio.config.address import StoreAddress
from cofio.doors import threads
from cofio.doors.cli import main
from cofio.doors.memory_tool import http as memory_tool
from cofio.doors.rest import http as rest
from cofio.doors.web.tokens import FILE, Tokens, open_tokens
from cofio.values.errors import Conflict, Invalid, NotFound, Unavailable

from ..token_commands import add_token, remove_token

ENVIRON = {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"}
LIST = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/list",
    "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                         "io.modelcontextprotocol/clientCapabilities": {}}},
}  # fmt: skip
MCP = {
    "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
}  # fmt: skip
HALF = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"

DOCUMENTS = "/api/v2/knowledge/documents"
FORM_TYPE = {"Content-Type": "multipart/form-data; boundary=x"}
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nplanted\r\n'
    b'--x\r\nContent-Disposition: form-data; name="title"\r\n\r\nPlanted\r\n--x--\r\n'
)
BEFORE_THE_STORE = pytest.mark.folder_only("it is decided before the store is asked")


class Serving:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *arguments: str, nofile: int | None = None) -> None:
        """`nofile` is how many files it may have open."""
        limited = [] if nofile is None else ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(nofile)]
        self.process = subprocess.Popen(
            [*limited, sys.executable, "-m", "cofio", "serve", *arguments],
            cwd=folder,
            env=os.environ | ENVIRON,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.said = self.process.stdout.readline().strip()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.said.rsplit(":", 1)[1].split("/")[0])

    def get(self, path: str = "/", body: object = None, **headers: str) -> tuple[int, dict[str, str], str]:
        """The status, headers and body that a request is answered with: a GET, or a POST where there is a body."""
        return self.ask("GET" if body is None else "POST", path, body, **headers)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], str]:
        """The status, headers and body that a request is answered with."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        finally:
            connection.close()

    def tools(self, **headers: str) -> int:
        """The status that a list of the tools is answered with."""
        return self.get("/mcp", LIST, **MCP, **headers)[0]

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Stop it; the exit code and what it said."""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


Start = Callable[..., Serving]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with nothing set."""
    for name in [name for name in os.environ if name.startswith("COFIO_") or name == "AGENT_STORE_PATH"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(folder: Path, default_store: StoreAddress) -> Iterator[Start]:
    """Starts servers that are ended with the test."""
    started: list[Serving] = []

    def run(*arguments: str, nofile: int | None = None) -> Serving:
        serving = Serving(folder, *(arguments or ("--port", "0")), nofile=nofile)
        started.append(serving)
        return serving

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate(timeout=60)


def test_it_says_where_it_listens_and_ends_when_asked(start: Start, default_store: StoreAddress) -> None:
    server = start()
    assert server.said == f"http://127.0.0.1:{server.port}/mcp"
    assert server.get()[0] == 200
    assert json.loads(server.get()[2])["mcp"] == "/mcp"
    assert json.loads(server.get("/health")[2])["status"] == "ok"
    assert server.get("/nope")[0] == 404
    assert server.tools() == 200
    code, _, err = server.end(signal.SIGINT)
    assert code == 130
    assert str(default_store) in err
    assert "Traceback" not in err


@BEFORE_THE_STORE
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_says_when_it_was_stopped_and_that_nothing_is_lost(start: Start, how: signal.Signals, code: int) -> None:
    ended, _, err = start().end(how)
    assert ended == code
    assert err.splitlines()[-1] == "cofio: stopped; all that was written is kept. Goodbye"


def test_files_of_claude_s_memory_tool_are_kept_and_found_through_mcp(
    start: Start, default_store: StoreAddress
) -> None:
    server = start()
    made = {"command": "create", "path": "/memories/zebra.md", "file_text": "The zebra has stripes."}
    json_type = {"Content-Type": "application/json"}
    status, _, body = server.get("/api/v1/memory-tool?owner=alice", made, **json_type)
    assert (status, json.loads(body)) == (
        200, {"content": "File created successfully at: /memories/zebra.md", "is_error": False},
    )  # fmt: skip
    call = LIST | {"method": "tools/call"}
    params = LIST["params"] | {"name": "search_context", "arguments": {"query": "zebra", "everywhere": True}}  # type: ignore[operator]
    headers = MCP | {"Mcp-Method": "tools/call", "Mcp-Name": "search_context"}
    found = server.get("/mcp", call | {"params": params}, **headers)[2]
    assert "files/alice" in json.loads(found)["result"]["content"][0]["text"]
    add_token(default_store, "laptop")
    assert server.get("/api/v1/memory-tool", made, **json_type)[0] == 401
    assert server.get("/api/v1/memory-tool", made, Host="evil.example", **json_type)[0] == 421


@BEFORE_THE_STORE
def test_with_json_it_says_so_in_json(start: Start, tmp_path: Path) -> None:
    server = start("--json", "--port", "0", "--store", str(tmp_path / "else"))
    said = json.loads(server.said)
    assert said["mcp"] == f"{said['url']}/mcp"
    assert said["store"] == str(tmp_path / "else")


@BEFORE_THE_STORE
def test_only_this_server_s_names_are_answered_on_every_route(start: Start, tmp_path: Path) -> None:
    server = start()
    for host in ("127.0.0.1", "localhost", f"LOCALHOST:{server.port}", "[::1]"):
        assert server.get(Host=host)[0] == 200, host
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "",
        "[",
        "127.0.0.2",
        "10.0.0.1",
    ):
        for path in ("/", "/health", "/mcp", "/nope"):
            status, _, body = server.get(path, Host=host)
            assert status in (400, 421), (host, path)
        assert "evil" not in host or "--allow-host" in body
    assert server.tools(Host="evil.example") == 421


@BEFORE_THE_STORE
def test_a_further_name_needs_a_token(start: Start, tmp_path: Path) -> None:
    refused = start("--port", "0", "--allow-host", "memory.example")
    assert refused.process.wait(30) == 1
    token = Tokens(tmp_path / ".cofio").add("laptop")
    server = start("--port", "0", "--allow-host", "memory.example")
    assert server.tools(Host="memory.example") == 401
    assert server.tools(Host="memory.example:443", Authorization=f"Bearer {token}") == 200
    assert server.tools(Host="192.168.1.5", Authorization=f"Bearer {token}") == 200  # no name, so no one else's
    assert server.tools(Host="evil.example", Authorization=f"Bearer {token}") == 421


@BEFORE_THE_STORE
def test_pages_of_other_sites_and_of_other_ports_are_turned_away_on_every_route(start: Start) -> None:
    server = start()
    status, _, said = server.get(DOCUMENTS, FORM, **FORM_TYPE, Origin=f"http://127.0.0.1:{server.port}")
    assert status == 201, said
    known = json.loads(said)["data"]["doc_id"]
    at = json.loads(server.get(f"{DOCUMENTS}/{known}")[2])["data"]["updated_at"]
    assert server.tools(Origin=f"http://127.0.0.1:{server.port}") == 200
    assert server.tools(Host=f"LOCALHOST:{server.port}", Origin=f"http://localhost:{server.port}") == 200
    assert server.tools(Host="localhost", Origin="http://localhost") == 200  # the port that browsers leave out
    for origin in (
        "http://localhost:3000", "http://127.0.0.1:3000", f"http://localhost:{server.port}", "http://localhost",
        f"https://127.0.0.1:{server.port}", "https://localhost", "http://evil.example", "null", "",
        "http://localhost.evil.example", f"http://127.0.0.1:{server.port}@evil.example", "file://", "http://[",
        f"http://127.0.0.1:{server.port}/x", f"http://127.0.0.1:{server.port}.evil.example",
    ):  # fmt: skip
        for path in ("/", "/health", "/mcp", "/metrics", "/nope"):
            assert server.get(path, Origin=origin)[0] == 403, (origin, path)
        made = {"command": "create", "path": "/memories/a.md", "file_text": "planted"}
        for path, body in (("/api/v1/memory-tool", made), ("/threads/t/checkpoints", {"state": {}}), ("/mcp", LIST)):
            status, _, said = server.get(path, body, **MCP, Origin=origin)
            assert (status, "--allow-origin" in said) == (403, True), (origin, path)
        for path in (DOCUMENTS, f"{DOCUMENTS}/{known}"):  # a form is what every page may send without asking first
            status, _, said = server.ask("POST" if path == DOCUMENTS else "PUT", path, FORM, **FORM_TYPE, Origin=origin)
            assert (status, "--allow-origin" in said) == (403, True), (origin, path)
    assert json.loads(server.get(DOCUMENTS)[2])["data"]["total"] == 1
    assert json.loads(server.get(f"{DOCUMENTS}/{known}")[2])["data"]["updated_at"] == at
    assert json.loads(server.get("/threads/t/checkpoints")[2]) == {"checkpoints": []}


@BEFORE_THE_STORE
def test_pages_behind_a_proxy_are_its_own(start: Start, tmp_path: Path) -> None:
    token = Tokens(tmp_path / ".cofio").add("laptop")
    server = start("--port", "0", "--allow-host", "memory.example")
    shown = {"Authorization": f"Bearer {token}"}
    for host, origin in (
        ("memory.example", "https://memory.example"), ("memory.example:8443", "https://memory.example:8443"),
        (f"127.0.0.1:{server.port}", "https://memory.example"),
    ):  # fmt: skip
        assert server.tools(Host=host, Origin=origin, **shown) == 200, (host, origin)
    for origin in ("https://memory.example:3000", "https://memory.example.evil", "http://localhost"):
        assert server.tools(Host="memory.example", Origin=origin, **shown) == 403, origin


@BEFORE_THE_STORE
def test_pages_of_a_site_that_the_owner_lets_in_are_answered_and_no_others(start: Start, tmp_path: Path) -> None:
    server = start("--port", "0", "--allow-origin", "http://localhost:6274", "--allow-origin", "https://App.Example/")
    Tokens(tmp_path / ".cofio").add("laptop")
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,mcp-session-id"}
    for origin in ("http://localhost:6274", "https://app.example"):
        status, headers, _ = server.ask("OPTIONS", "/mcp", Origin=origin, **asked)  # as a browser asks first
        assert (status, headers["access-control-allow-origin"]) == (200, origin)
        status, headers, _ = server.get("/mcp", LIST, **MCP, Origin=origin)
        assert (status, headers["access-control-allow-origin"]) == (401, origin)  # a token is needed all the same
        assert "mcp-session-id" in headers["access-control-expose-headers"]
    for origin in ("http://localhost:3000", "http://app.example", "null"):
        assert server.tools(Origin=origin) == 403
        assert server.ask("OPTIONS", "/mcp", Origin=origin, **asked)[0] == 400
    refused = start("--port", "0", "--allow-origin", "localhost")
    assert refused.process.wait(30) == 2
    assert refused.process.stderr
    assert "http://localhost:3000" in refused.process.stderr.read()


@BEFORE_THE_STORE
def test_a_silent_crowd_leaves_the_others_answered(start: Start, tmp_path: Path) -> None:
    server = start("--port", "0", nofile=256)
    crowd: list[socket.socket] = []
    try:
        for number in range(400):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            crowd.append(one)
            with suppress(ConnectionError):  # it may have had to make room already
                one.sendall((b"", b"POST /mcp HTTP/1.1\r\nHost: loc", HALF)[number % 3])
            if number % 20 == 0:
                assert server.tools() == 200
        assert server.get("/health")[0] == 200
    finally:
        for one in crowd:
            one.close()
    code, _, err = server.end()
    assert code == 0
    assert 0 < err.count("connections are taken") < 10  # a line a minute
    assert "Traceback" not in err


@BEFORE_THE_STORE
def test_a_body_that_is_small_on_the_wire_and_large_in_memory_is_refused(start: Start) -> None:
    server = start()
    lists = b",".join([b"[]"] * 20_000_000)
    for _ in range(3):  # what was refused is not kept
        status, _, said = server.get("/threads/t/checkpoints", b'{"state":{"a":[' + lists + b"]}}", **MCP)
        assert (status, "values" in said) == (422, True)
    parent = server.process.pid
    for process in (parent, *Path(f"/proc/{parent}/task/{parent}/children").read_text().split()):
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        assert peak
        assert int(peak[1]) < 200 * 1024


def test_a_token_is_needed_once_there_is_one_and_its_end_holds_at_once(
    start: Start, default_store: StoreAddress
) -> None:
    server = start()
    assert server.tools() == 200
    token = add_token(default_store, "laptop")
    assert server.tools() == 401
    status, headers, body = server.get("/mcp", LIST, **MCP)
    assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="cofio"')
    assert "cofio token add" in body
    assert server.tools(Authorization=f"Bearer {token}") == 200
    assert server.tools(Authorization=f"bearer  {token}") == 200
    for wrong in ("Bearer", "Bearer ", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Basic {token}", token, "Bearer é"):
        assert server.tools(Authorization=wrong) == 401, wrong
    assert server.get("/")[0] == 401
    assert server.get("/health")[0] == 200
    remove_token(default_store, "laptop")
    assert server.tools(Authorization=f"Bearer {token}") == 401
    assert server.tools() == 401  # the end of the last token lets nobody in
    other = add_token(default_store, "other")
    assert server.tools(Authorization=f"Bearer {other}") == 200


@BEFORE_THE_STORE
def test_a_token_that_is_limited_opens_the_rest_door_alone(start: Start, tmp_path: Path) -> None:
    server = start()
    tokens = Tokens(tmp_path / ".cofio")
    limited = {"Authorization": f"Bearer {tokens.add('dashboard', app='shop', access='read')}"}
    assert server.tools(**limited) == 403
    for path in ("/", "/mcp", "/metrics", "/docs", "/openapi.json", "/api/v1/memory-tool", "/api/v1/memory", "/nope"):
        for body in (None, LIST):
            status, headers, said = server.get(path, body, **limited)
            assert status == 403, path
            assert "reading in the app shop" in str(json.loads(said)["error"])
            assert len(headers["x-request-id"]) == 32
    assert server.get("/health", **limited)[0] == 200
    for path in ("/api/v1/memory/../../../mcp", "/api/v1/memory/..%2f..%2f..%2fmcp", "/api/v1/memory/%2e%2e/../mcp"):
        assert server.get(path, LIST, **MCP, **limited)[0] == 404, path  # under the prefix, and led nowhere
    for path in ("//api/v1/memory/add", "/API/v1/memory/add", "/mcp/api/v1/memory/", "/mcp?/api/v1/memory/"):
        assert server.get(path, LIST, **MCP, **limited)[0] == 403, path
    assert server.tools(Authorization=f"Bearer {tokens.add('laptop')}") == 200


@BEFORE_THE_STORE
def test_a_damaged_list_of_tokens_lets_nobody_in(start: Start, tmp_path: Path) -> None:
    server = start()
    kept = '"name": "x", "made": "x", "hash": '
    for damaged in (
        '[{"name": "x"', "{}", "[5]", "null", "[" * 100_000, f"[{{{kept} 5}}]", f'[{{{kept} "\\ud800"}}]',
        f'[{{{kept} "x", "access": "write"}}]', f'[{{{kept} "x", "access": null}}]', f'[{{{kept} "x", "until": "x"}}]',
    ):  # fmt: skip
        (tmp_path / ".cofio" / FILE).write_text(damaged)
        status, _, body = server.get("/mcp", LIST, **MCP)
        assert status == 503, damaged
        assert FILE in body
    (tmp_path / ".cofio" / FILE).unlink()
    (tmp_path / ".cofio" / FILE).mkdir()
    assert server.tools() == 503


@BEFORE_THE_STORE
def test_an_address_that_others_can_reach_needs_a_token(start: Start, tmp_path: Path) -> None:
    refused = start("--host", "0.0.0.0", "--port", "0")
    assert refused.said == ""
    assert refused.process.wait(30) == 1
    assert refused.process.stderr
    assert "cofio token add" in refused.process.stderr.read()
    token = Tokens(tmp_path / ".cofio").add("laptop")
    server = start("--host", "0.0.0.0", "--port", "0")
    assert server.tools() == 401
    assert server.tools(Authorization=f"Bearer {token}") == 200
    assert server.tools(Authorization=f"Bearer {token}", Host="evil.example") == 421
    assert server.tools(Authorization=f"Bearer {token}", Host=socket.gethostname()) == 200
    Tokens(tmp_path / ".cofio").remove("laptop")
    assert server.tools() == 401  # still one that others can reach


@BEFORE_THE_STORE
def test_an_address_that_cannot_be_used_is_told_in_one_line(start: Start, tmp_path: Path) -> None:
    server = start()
    Tokens(tmp_path / ".cofio").add("laptop")
    for arguments in (("--port", str(server.port)), ("--port", "0", "--host", "256.1.1.1")):
        other = start(*arguments)
        assert other.said == ""
        assert other.process.wait(30) == 1
        assert other.process.stderr
        err = other.process.stderr.read()
        assert len(err.splitlines()) == 1, err
        assert "--port" in err


def test_a_setting_that_cannot_be_used_is_told_before_a_store_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COFIO_FETCH", "no/folder")
    store = tmp_path / "store"
    assert main(["--store", str(store), "serve", "--port", "0"]) == 1
    assert "fetch" in capsys.readouterr().err
    assert not store.exists()


@pytest.mark.parametrize("port", ["70000", "-1", "http", "8.5"])
def test_a_port_that_is_none_is_wrong_usage(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", port]) == 2
    assert "--port" in capsys.readouterr().err


@BEFORE_THE_STORE
def test_bad_requests_are_answered_and_the_server_lives_on(start: Start) -> None:
    server = start()
    for body in (b"", b"{", b"[]", b"5", b"\xff", b'{"jsonrpc":"2.0"}', b"[" * 50_000):
        assert 400 <= server.get("/mcp", body, **MCP)[0] < 500, body[:20]
    huge = b'{"x":"' + b"y" * (17 * 1024 * 1024) + b'"}'
    with suppress(BrokenPipeError, ConnectionResetError):  # the server need not hear it all out
        assert server.get("/mcp", huge, **MCP)[0] == 413
    assert server.tools() == 200


def test_many_clients_at_once_are_served(start: Start) -> None:
    server = start()
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(server.tools())) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 40


# The tokens themselves.


def named(tokens: Tokens, shown: str) -> str:
    """The name of a token that there is."""
    found = tokens.find(shown)
    assert found is not None
    return found.name


@pytest.mark.folder_only("the file of tokens")
def test_tokens_are_kept_as_hashes_in_a_file_for_the_owner_alone(store: StoreAddress) -> None:
    tokens = Tokens(store.home)
    assert tokens.all() == ()
    assert tokens.find("anything") is None
    made = {name: tokens.add(name) for name in ("laptop", "phone", "日本 🦓")}
    assert len(set(made.values())) == 3
    file = store.home / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    for name, token in made.items():
        assert token.startswith("cofio_")
        assert len(token) > 40
        assert token not in file.read_text()
        assert named(Tokens(store.home), token) == name
    assert [each.name for each in tokens.all()] == list(made)
    tokens.remove("phone")
    assert tokens.find(made["phone"]) is None
    assert named(tokens, made["laptop"]) == "laptop"


def test_bad_names_are_refused_and_change_nothing(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.add("laptop")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(Conflict):
        tokens.add("laptop")
    for name in ("", "x" * 101, "a\nb", "a\0b"):
        with pytest.raises(Invalid):
            tokens.add(name)
    with pytest.raises(NotFound):
        tokens.remove("phone")
    assert (tmp_path / FILE).read_bytes() == before
    (tmp_path / FILE).write_text("{}")
    (tmp_path / FILE).write_text("[5]")
    with pytest.raises(Unavailable):
        Tokens(tmp_path).all()


def test_tokens_made_at_once_are_all_kept(tmp_path: Path) -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda n=n: made.append(Tokens(tmp_path).add(f"t{n}"))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {named(Tokens(tmp_path), token) for token in made} == {f"t{n}" for n in range(20)}


@pytest.mark.folder_only("the file of tokens")
def test_the_command_makes_lists_and_ends_tokens(
    store: StoreAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COFIO_STORE", store.spell())
    assert main(["token", "add", "laptop"]) == 0
    said = capsys.readouterr()
    token = said.out.strip()
    with open_tokens(store) as tokens:
        assert named(tokens, token) == "laptop"
    assert "cannot be shown again" in said.err
    assert str(store) in said.err
    assert main(["token", "add", "phone", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "phone"
    assert main(["token", "list"]) == 0
    listed = capsys.readouterr().out
    assert [line.split("\t")[0] for line in listed.splitlines()] == ["laptop", "phone"]
    assert token not in listed
    assert main(["token", "add", "laptop"]) == 1
    assert main(["token", "rm", "nobody"]) == 1
    assert capsys.readouterr().err.count("\n") == 2
    assert main(["token", "rm", "laptop"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["token", "rm", "phone"]) == 0
    assert "it was the last" in capsys.readouterr().err
    with open_tokens(store) as tokens:
        assert tokens.find(token) is None


def test_the_help_names_the_addresses_that_are_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for address in ("/mcp", rest.PREFIX, threads.PREFIX, memory_tool.PATH):
        assert re.search(rf" {re.escape(address)}[,.]? ", told), address
