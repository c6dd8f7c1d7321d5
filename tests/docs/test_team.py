"""docs/team.md: its proxies pass every door on, its backup runs, its commands and its unit name what there is."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

import pytest
from tests.content.serving import make_certificate
from tests.servers import free_port
from tests.waiting import wait_for

from cofio import Engine, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.doors.cli.command_line import build_parser

PAGE = (Path(__file__).parents[2] / "docs" / "team.md").read_text()
NAME = "memory.example.com"
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


def read_blocks(language: str) -> list[str]:
    """The blocks of code of the page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def read_commands() -> list[str]:
    """Every command of the page that is cofio's."""
    lines = [line for block in read_blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("cofio ")]


@pytest.fixture
def environ(store: StoreAddress, tmp_path: Path) -> dict[str, str]:
    """What a process is started with: nothing of the developer's own, and `cofio` on the PATH."""
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "EVEROS_", "AGENT_STORE"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return ours | {
        "COFIO_EMBEDDER": "hashed",
        "COFIO_STORE": store.spell(),
        "PATH": path,
        "HOME": str(tmp_path),
    }


@pytest.fixture
def token(environ: dict[str, str]) -> str:
    """A token of the store."""
    Engine.open(environ["COFIO_STORE"], settings=Settings(embedder="none", background=False)).close()
    done = subprocess.run(["cofio", "token", "add", "laptop"], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def port(environ: dict[str, str], token: str) -> Iterator[str]:
    """The port of a server that is told the proxy's name."""
    command = ["cofio", "serve", "--port", "0", "--allow-host", NAME]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        yield server.stdout.readline().strip().removesuffix("/mcp").rpartition(":")[2]
        server.terminate()


def ask_all(connect: Callable[[], HTTPConnection], token: str) -> None:
    """Ask every door through a proxy, as a client outside would."""

    def ask(method: str, path: str, body: object = None, shown: str = "") -> tuple[int, str]:
        headers = {"Host": NAME, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= {"Authorization": f"Bearer {shown}"} if shown else {}
        with closing(connect()) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def check_health() -> object:
        try:
            return ask("GET", "/health")[0]
        except (OSError, HTTPException) as error:
            return error

    wait_for(check_health, lambda status: status == 200)  # until the proxy listens and finds the server
    assert ask("GET", "/metrics")[0] == 401
    assert "cofio_store_records" in ask("GET", "/metrics", shown=token)[1]
    assert ask("POST", "/mcp", HELLO)[0] == 401
    status, answer = ask("POST", "/mcp", HELLO, token)
    assert status == 200
    assert '"serverInfo"' in answer
    found = ask("POST", "/api/v2/memory/search", {"user_id": "maya", "query": "peanuts"}, token)
    assert found[0] == 200
    large = {"session_id": "s", "messages": [
        {"sender_id": "maya", "role": "user", "timestamp": 1779967816, "content": "word " * 200_000},
    ]}  # fmt: skip
    assert ask("POST", "/api/v2/memory/add", large, token)[0] == 200


def test_nginx_passes_every_door_on(port: str, token: str, tmp_path: Path) -> None:
    if not shutil.which("nginx"):
        pytest.skip("there is no nginx on this machine")
    (block,) = read_blocks("nginx")
    certificate, there = make_certificate(tmp_path, NAME), free_port()
    for shown, here in (
        ("443", f"127.0.0.1:{there}"), (f"/etc/ssl/{NAME}.pem", str(certificate)),
        (f"/etc/ssl/{NAME}.key", str(certificate)), ("127.0.0.1:8427", f"127.0.0.1:{port}"),
    ):  # fmt: skip
        assert shown in block
        block = block.replace(shown, here)
    files = "".join(
        f"{name}_temp_path {tmp_path}/{name};\n" for name in ("proxy", "client_body", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""  # whose folder the temporary files are in
    whole = f"{user}daemon off;\npid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{files}{block}\n}}\n"
    (tmp_path / "nginx.conf").write_text(whole)
    context = ssl.create_default_context(cafile=str(certificate))

    class Connection(HTTPSConnection):
        def connect(self) -> None:  # the name is not in any name server
            raw = socket.create_connection(("127.0.0.1", there), 30)
            self.sock = context.wrap_socket(raw, server_hostname=NAME)

    with running(["nginx", "-e", str(tmp_path / "errors"), "-c", str(tmp_path / "nginx.conf")]):
        ask_all(lambda: Connection(NAME), token)


def test_caddy_passes_every_door_on(port: str, token: str, tmp_path: Path) -> None:
    if not shutil.which("caddy"):
        pytest.skip("there is no caddy on this machine")
    (block,) = [block for block in read_blocks("text") if "reverse_proxy" in block]
    there = free_port()
    # Without a certificate, which only a machine that others can reach is given.
    block = block.replace(f"{NAME} {{", f"http://{NAME}:{there} {{").replace("127.0.0.1:8427", f"127.0.0.1:{port}")
    (tmp_path / "Caddyfile").write_text(f"{{\n\tadmin off\n}}\n{block}")
    with running(["caddy", "run", "--config", str(tmp_path / "Caddyfile")], HOME=str(tmp_path)):
        ask_all(lambda: HTTPConnection("127.0.0.1", there, timeout=30), token)


@contextmanager
def running(command: list[str], **environ: str) -> Iterator[None]:
    """A proxy for as long as it is needed."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=os.environ | environ, stdout=quiet, stderr=quiet) as process:
        try:
            yield
        finally:
            process.terminate()


def test_the_backup_keeps_the_last_fourteen(environ: dict[str, str], tmp_path: Path) -> None:
    (script,) = read_blocks("bash")
    backups = tmp_path / "backups"
    for day in range(1, 16):
        (backups / f"2026-01-{day:02}T000000Z" / "index").mkdir(parents=True)
    with Engine.open(environ["COFIO_STORE"], settings=Settings(embedder="none", background=False)) as engine:
        engine.write(Scope("team"), text="The release is on Thursday.")
        done = subprocess.run(
            ["bash", "-c", script], env=environ | {"BACKUPS": str(backups)}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    kept = sorted(each.name for each in backups.iterdir())
    assert len(kept) == 14
    assert kept[0] == "2026-01-03T000000Z"
    with Engine.open(backups / kept[-1], settings=Settings(embedder="none", background=False)) as copy:
        assert [record.text for record in copy.list()] == ["The release is on Thursday."]


def test_the_commands_of_the_page_are_commands() -> None:
    assert len(read_commands()) >= 7
    for command in read_commands():
        assert build_parser().parse_args(shlex.split(command)[1:]).command
