"""Servers of PostgreSQL that a test may stop, kill, copy and replace, and the way to them, which it may cut."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psycopg

from ..servers import find_postgresql, folder_for_postgresql, free_port, give_away
from ..waiting import join, wait_until

AtCommit = Literal["cut", "withhold", "drop answer"]
"""What becomes of a COMMIT: it does not arrive, and the server notices or does not; or its answer is lost."""


@cache
def make_template() -> Path:
    """Make the files of a new server, with pgvector in its database."""
    folder = Path(tempfile.mkdtemp(dir="/tmp" if os.geteuid() == 0 else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    give_away(folder)
    find_postgresql().run(
        "initdb", "-D", folder / "data", "-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8"
    )
    server = Server(folder)
    server.start()
    server.execute("CREATE EXTENSION vector")
    server.stop()
    return folder / "data"


class Server:
    """A server of PostgreSQL, whose files are in `data` in a folder of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.settings = {
            "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off", "max_connections": "40",
            "shared_buffers": "16MB", **settings,
        }  # fmt: skip

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return self.spell("postgres")

    def spell(self, database: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it."""
        options = " ".join(f"-c {name}='{value}'" for name, value in self.settings.items())
        self._control("-o", f"-p {self.port} {options}", "-l", str(self.folder / "log"), "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` as an operator does, `immediate` as if it crashed."""
        self._control("-m", mode, "stop")

    def kill(self) -> None:
        """Kill its first process; the others end when they notice, and only then can it be started again."""
        first = self.find_process()
        others = [process for process, (_, parent) in list_processes().items() if parent == first]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: all(list_processes().get(process, ("Z", 0))[0] == "Z" for process in (first, *others)))
        (self.data / "postmaster.pid").unlink()  # its number is taken until someone asks how it ended

    def restart(self, how: str) -> None:
        """Stop it, or kill it, and start it again."""
        if how == "kill":
            self.kill()
        else:
            self.stop(how)
        self.start()

    def find_process(self) -> int:
        """The id of its first process."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def promote(self) -> None:
        """Let a standby become a server that takes writes."""
        self._control("-w", "promote")

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement as its superuser."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def list_backends(self) -> list[int]:
        """The ids of the processes that serve cofio."""
        return [pid for (pid,) in self.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'cofio'")]

    def close(self) -> None:
        """Stop it for good, in whatever state it is."""
        with suppress(AssertionError):
            self.stop("immediate")

    def _control(self, *arguments: str) -> None:
        find_postgresql().run("pg_ctl", "-D", self.data, *arguments, stdout=subprocess.DEVNULL)


def list_processes() -> dict[int, tuple[str, int]]:
    """The state and the parent of each process of the machine."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            found[int(path.parent.name)] = state, int(parent)
    return found


@contextmanager
def run_server(**settings: str) -> Iterator[Server]:
    """A new server."""
    with folder_for_postgresql() as folder:
        shutil.copytree(make_template(), folder / "data")
        give_away(folder)
        (folder / "data").chmod(0o700)
        server = Server(folder, **settings)
        server.start()
        try:
            yield server
        finally:
            server.close()


@contextmanager
def run_standby(primary: Server, **settings: str) -> Iterator[Server]:
    """A server that follows another."""
    with folder_for_postgresql() as folder:
        copy_server(primary, folder / "data", "-R")
        server = Server(folder, **settings)
        server.start()
        try:
            yield server
        finally:
            server.close()


def copy_server(server: Server, target: Path, *options: str) -> None:
    """Copy a server that runs, with pg_basebackup."""
    find_postgresql().run("pg_basebackup", "-d", server.url, "-D", target, "-c", "fast", "--no-sync", *options)


WHOLE_CHANGE = b" AS checked"  # in the statement that is a transaction by itself
SYNC = b"S\0\0\0\4"  # the message that ends what a client sends before it waits


class Link:
    """A connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.writes = False
        self.is_mute = False
        self.has_answer = threading.Event()

    def close(self) -> None:
        """Cut it at both ends."""
        hang_up(self.client)
        hang_up(self.server)


class Proxy:
    """The way to a server, which can be cut at the moment at which a client commits."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: list[Link] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self._at_commit: AtCommit | None = None
        self._then: Callable[[], None] = lambda: None
        self.has_cut = threading.Event()

    def arm(self, how: AtCommit, then: Callable[[], None] = lambda: None) -> None:
        """Cut the next connection that commits a change, and do something before its client notices."""
        self._at_commit, self._then = how, then

    def close(self) -> None:
        """Close all connections."""
        hang_up(self._listener)
        for link in self._links:
            link.close()
        join(*self._threads)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    hang_up(client)
                    continue
                link = Link(client, server)
                self._links.append(link)
                for pump in (self._pump_up, self._pump_down):
                    self._threads.append(threading.Thread(target=pump, args=[link]))
                    self._threads[-1].start()

    def _pump_up(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.client.recv(1 << 16):
                link.writes = link.writes or b"commit_mark" in data
                is_commit = (link.writes and b"COMMIT\0" in data) or WHOLE_CHANGE in data
                if self._at_commit is not None and is_commit:
                    how, self._at_commit = self._at_commit, None
                    self._cut(link, how, data)
                    return
                link.server.sendall(data)
        hang_up(link.server)

    def _cut(self, link: Link, how: AtCommit, data: bytes) -> None:
        link.is_mute = True
        if how == "withhold" and WHOLE_CHANGE in data:
            link.server.sendall(data[: -len(SYNC)])  # so that it is made, and waits to be committed
        if how == "drop answer":
            link.server.sendall(data)
            link.client.settimeout(0.02)
            wait_until(lambda: self._pass_rest(link))
        if how == "cut":
            hang_up(link.server)
        try:
            self._then()
            self.has_cut.set()
        finally:
            hang_up(link.client)

    def _pass_rest(self, link: Link) -> bool:
        """Pass on what comes after a COMMIT, which asks for its answer; whether that has come."""
        with suppress(TimeoutError):
            link.server.sendall(link.client.recv(1 << 16))
        return link.has_answer.is_set()

    def _pump_down(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.server.recv(1 << 16):
                if not link.is_mute:
                    link.client.sendall(data)
                elif b"COMMIT\0" in data or b"SELECT 1\0" in data:
                    link.has_answer.set()
        link.has_answer.set()
        if not link.is_mute:
            hang_up(link.client)


def hang_up(end: socket.socket) -> None:
    """Close a socket, also for a thread that waits on it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def run_proxy(server: Server) -> Iterator[Proxy]:
    """The way to a server."""
    proxy = Proxy(server.port)
    try:
        yield proxy
    finally:
        proxy.close()
