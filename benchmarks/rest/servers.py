"""The servers that are measured, how each is started, and the client that all are driven by."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]

HOST = "127.0.0.1"
PATIENCE = 120.0  # seconds; a server that has not answered by then is stuck
INSTALLING = 1800.0
REST = 2.0  # seconds after which a connection is made anew before it is used: uvicorn closes one after 5
PEER, PEER_VERSION = "everos", "1.0.2"
PEER_FOLDER = Path(__file__).parents[2] / ".cache" / f"{PEER}-{PEER_VERSION}"
COFIO, ALIKE = "cofio", "cofio, the stand-in's vectors"
_PYTHONS = ("python3.12", "python3.13", "python3.14", "python3")
# tiktoken downloads this file when it is first used, unless it finds it under the SHA-1 of its address; tiktoken checks
# what it holds. The wheel of litellm has it, so that it can be had from the package registry.
_ENCODING, _ENCODING_WHEEL = "fb374d419588a4632f3f557e76b4b70aebbca790", "litellm==1.80.0"


@dataclass(frozen=True)
class Product:
    """A server that can be started on a folder."""

    name: str
    command: tuple[str, ...]
    """`{port}` and `{folder}` stand for what is known only then, and `{model}` for the stand-in's address."""
    settings: tuple[tuple[str, str], ...] = ()

    def started(self, **known: str) -> tuple[list[str], dict[str, str]]:
        """The command and the variables that it is started with."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COFIO_", "EVEROS_"))}
        return (
            [part.format(**known) for part in self.command],
            kept | {name: value.format(**known) for name, value in self.settings},
        )


_SERVE = (
    str(Path(sysconfig.get_path("scripts")) / "cofio"), "serve", "--port", "{port}", "--store", "{folder}",
)  # fmt: skip
PLAIN = Product(COFIO, _SERVE)


def choose_workers(count: int | None) -> Product:
    """cofio with so many processes to answer with, where it knows the option; None leaves the choice to it."""
    if count is None:
        return PLAIN
    shown = subprocess.run([_SERVE[0], "serve", "--help"], check=True, timeout=PATIENCE, capture_output=True, text=True)
    if "--workers" not in shown.stdout:
        print("this cofio serve does not know --workers: it runs without", file=sys.stderr, flush=True)
        return PLAIN
    return Product(f"{COFIO} --workers {count}", (*_SERVE, "--workers", str(count)))


WITH_THEIR_VECTORS = Product(
    ALIKE, _SERVE,
    (("COFIO_EMBEDDER", "remote"), ("COFIO_EMBED_URL", "{model}"), ("COFIO_EMBED_MODEL", "standin")),
)  # fmt: skip


def found_peer(python: str | None = None) -> tuple[Product | None, str]:
    """The peer and what it is, or none and why; `python` is the one to make its environment with."""
    try:
        return _installed_peer(python)
    except LookupError as error:
        reason = str(error.args[0])
    except subprocess.CalledProcessError as error:
        reason = ((error.stderr or "").strip().splitlines() or [str(error)])[-1]
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error)
    return None, f"{PEER} could not be installed here, so cofio was measured alone: {reason}"


def _installed_peer(python: str | None) -> tuple[Product, str]:
    environment, encodings = PEER_FOLDER / "venv", PEER_FOLDER / "tiktoken"
    inside = environment / "bin" / "python"
    if not (encodings / _ENCODING).exists():  # it comes last
        chosen = _python(python)
        print(f"installing {PEER} {PEER_VERSION} into {PEER_FOLDER}, once …", file=sys.stderr, flush=True)
        _run(chosen, "-m", "venv", "--clear", str(environment))
        _run(str(inside), "-m", "pip", "install", "--quiet", f"{PEER}=={PEER_VERSION}", "httpx")
        with tempfile.TemporaryDirectory() as folder:
            _run(str(inside), "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, _ENCODING_WHEEL)
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                held = wheel.read(f"litellm/litellm_core_utils/tokenizers/{_ENCODING}")
        encodings.mkdir(parents=True, exist_ok=True)
        (encodings / _ENCODING).write_bytes(held)
    asked = "import platform as p, importlib.metadata as m; print(p.python_version(), m.version('lancedb'))"
    version, lancedb = _run(str(inside), "-c", asked).split()
    settings = {
        f"EVEROS_{part}__{name}": value
        for part in ("LLM", "EMBEDDING")
        for name, value in {"MODEL": "standin", "API_KEY": "none", "BASE_URL": "{model}"}.items()
    }
    settings |= {
        "EVEROS_MEMORY__ROOT": "{folder}", "EVEROS_CONFIG_FILE": "{folder}.toml", "EVEROS_LOG_LEVEL": "WARNING",
        "TIKTOKEN_CACHE_DIR": str(encodings),
    }  # fmt: skip
    command = (str(environment / "bin" / PEER), "server", "start", "--host", HOST, "--port", "{port}")
    return Product(PEER, command, tuple(settings.items())), (
        f"The peer is {PEER} {PEER_VERSION} on Python {version} (lancedb {lancedb}), as it comes: mode `agent`, no"
        " reranker."
    )


def _python(given: str | None) -> str:
    """A Python that is new enough for the peer.

    Raises:
        LookupError: there is none.
    """
    for name in (given,) if given else _PYTHONS:
        found = shutil.which(name)
        if found is None:
            continue
        asked = [found, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:  # a shim may stand for nothing
            return found
    raise LookupError("it needs Python 3.12 or later, and there is none on PATH (or name one with --python)")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, timeout=INSTALLING, capture_output=True, text=True).stdout


class Client:
    """One connection that stays open, and one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._line: socket.socket | None = None
        self._used = 0.0

    def post(self, call: str, body: Body) -> tuple[float, Body]:
        """Ask; the milliseconds until the whole answer was there, and its data.

        Raises:
            RuntimeError: it was not answered with 200.
        """
        taken, status, said = self.send(request(call, body))
        if status != 200:
            raise RuntimeError(f"{call} {json.dumps(body)[:300]} was answered with {status} {said[:500]!r}")
        return taken, json.loads(said)["data"]

    def send(self, asked: bytes) -> tuple[float, int, bytes]:
        """Send a request that is written out already; the milliseconds, the status and the body."""
        if self._line is None or time.monotonic() - self._used > REST:
            self.close()
            self._line = socket.create_connection((HOST, self._port), timeout=PATIENCE)
            self._line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start = time.perf_counter()
        self._line.sendall(asked)
        got, whole, status = b"", 0, 0
        while not whole or len(got) < whole:
            part = self._line.recv(1 << 20)
            if not part:
                raise ConnectionError("the server has closed the connection")
            got += part
            if not whole and (found := head(got)):
                status, whole = found
        taken = (time.perf_counter() - start) * 1000
        self._used = time.monotonic()
        return taken, status, got[got.index(b"\r\n\r\n") + 4 :]

    def close(self) -> None:
        """Let go of the connection."""
        if self._line is not None:
            self._line.close()
            self._line = None


def request(call: str, body: Body) -> bytes:
    """A request to one of the four endpoints, as it goes over the wire."""
    made = json.dumps(body).encode()
    return (
        f"POST /api/v1/memory/{call} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(made)}\r\n\r\n"
    ).encode() + made


def head(got: bytes) -> tuple[int, int] | None:
    """The status and the length of the whole answer, once its head is there."""
    end = got.find(b"\r\n\r\n")
    if end < 0:
        return None
    lines = got[:end].lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
    return int(lines[0].split()[1]), end + 4 + length


@dataclass
class Server:
    """A server that runs."""

    name: str
    pid: int
    port: int
    client: Client

    def rss(self) -> float:
        """The resident memory of all its processes in MiB; what two of them share counts twice."""
        return sum(_memory(pid, "VmRSS") for pid in _tree(self.pid))

    def anonymous(self) -> float:
        """How much of that, in MiB, is no page of a file: an index that is mapped grows with the store it is of."""
        return sum(_memory(pid, "RssAnon") for pid in _tree(self.pid))

    def worked(self) -> float:
        """The seconds of processor time that its processes have used."""
        return sum(_worked(pid) for pid in _tree(self.pid))

    def descriptors(self) -> int:
        """How many files and connections its processes have open."""
        return sum(_descriptors(pid) for pid in _tree(self.pid))


def _tree(pid: int) -> list[int]:
    """A process, and all that descend from it."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, task.read_text().split())
    return [pid, *(each for child in children for each in _tree(child))]


def _memory(pid: int, name: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


def _worked(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


@contextmanager
def running(product: Product, folder: Path, model: str) -> Iterator[Server]:
    """The product's server on a folder, until it is done with."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command, environment = product.started(port=str(port), folder=str(folder), model=model)
    with (
        tempfile.TemporaryFile() as says,
        subprocess.Popen(
            command, cwd=folder.parent, env=environment, stdin=subprocess.DEVNULL, stdout=says, stderr=says
        ) as process,
    ):
        client = Client(port)
        try:
            _wait_for(process, port)
            yield Server(product.name, process.pid, port, client)
        except (RuntimeError, ConnectionError) as error:
            says.seek(0)
            error.add_note(f"{product.name} said: …{says.read().decode(errors='replace')[-3000:]}")
            raise
        finally:
            client.close()
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"the server does not answer (it has ended with {process.returncode})")


@contextmanager
def standin() -> Iterator[str]:
    """The address of a stand-in for the models."""
    command = [sys.executable, "-m", "benchmarks.standin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def quiet(servers: Sequence[Server], *, seconds: float = 60.0) -> None:
    """Wait until none of the servers has anything left to do in the background."""
    until = time.monotonic() + seconds
    calm = 0
    before = [server.worked() for server in servers]
    while calm < 2 and time.monotonic() < until:
        time.sleep(0.2)
        after = [server.worked() for server in servers]
        calm = calm + 1 if all(b - a <= 0.021 for a, b in zip(before, after, strict=True)) else 0
        before = after
