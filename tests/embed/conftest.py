"""A package index on this machine, asked over real HTTP."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Index:
    """What the server answers, by path, and what it was asked."""

    address: str
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def answer(self, path: str, body: bytes = b"", *, status: int = 200, **headers: str) -> None:
        """Answer this from now on."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, named, body)

    @property
    def paths(self) -> list[str]:
        """What was asked for."""
        return [path for path, _ in self.asked]


@pytest.fixture
def index() -> Iterator[Index]:
    """A server that has nothing yet."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the base class calls it
            served.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            status, headers, body = served.answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Index(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """This machine's own proxies and indexes do not count."""
    import os

    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")) or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NETRC", os.devnull)
    return monkeypatch
