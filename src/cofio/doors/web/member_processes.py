"""The processes of a server of several: a worker, which takes requests, and the one that does the background work."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from types import FrameType
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from ...content import FetchPolicy
from ...conversations.conversations import Conversations
from ...engine.background import WorkSharing
from ...system.processes import lower_process_priority
from ...vault.lifecycle import AttachedVault
from ..lazy_memory import Memory
from ..mcp.session_routes import SessionRouter
from ..rest import http as rest
from ..rest.assistant import open_assistant
from ..rest.jobs import Jobs
from ..rest.remote_jobs import JobsDesk, RemoteJobs
from .acceptor import Acceptor
from .links import HEAD, Link, Question, Receptionist
from .listener import check_exposure
from .membership import Membership
from .metrics import Metrics
from .options import ServerOptions
from .relay import Relay, answer_for
from .server import GRACE, HttpServer, build_application, say
from .workers import Workers

NICE = 19  # the lowest priority: no one waits for the background work
HEARTBEAT = 0.2  # seconds between two signs of life of the background process
MAX_WAITS = 64  # calls of workers that the background process answers at once; most of them wait for a model
CLOSE_SECONDS = 2.0  # seconds that jobs have to end after the server has stopped


def run_worker(
    options: ServerOptions, member: Membership, listener: socket.socket, announce: Callable[[], None]
) -> None:
    """Take requests until SIGTERM; `announce` is called once they are taken.

    Raises:
        CofioError: the store, or a setting, cannot be used.
    """
    home, board, processes = options.address.home, member.board, member.board.workers
    settings = replace(options.settings, background=False)  # another process does it
    memory = Memory(
        options.address, settings, say=say, sharing=WorkSharing(notify=member.wake_background),
        is_incomplete=board.is_incomplete,
    )  # fmt: skip
    assistant = open_assistant(settings, home, lambda: memory.engine, observe=member.count_model_usage)
    if assistant is not None:
        member.count_model_usage(0, 0)  # so that there is a number from the start
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        vault = stack.enter_context(closing(AttachedVault(home, settings)))
        engine = memory.engine
        reader = None if assistant is None else assistant.reader
        door = rest.Door(
            Conversations(engine, zone=settings.zone, reader=reader, mirror=vault.mirror(engine)),
            RemoteJobs(engine, member.switchboard, board, member.number),
            settings.zone,
            assistant=assistant,
            fetch_policy=FetchPolicy.parse(settings.fetch),
            folder=home,
            processes=processes,
        )
        stack.enter_context(closing(door))
        sessions = SharedSessions(member)
        application = build_application(
            options, memory, door, Metrics(lambda: memory.engine, member=member),
            strict=check_exposure(home, options.host, options.names), listener=listener, share_sessions=sessions,
            threads_for_health=Workers(2, "cofio-health"),
        )  # fmt: skip
        server = WorkerServer(_count_requests(application, member), announce, door.stop_waiting, member, sessions)
        server.run(sockets=[listener])


class SharedSessions:
    """The sessions of MCP, each of which one worker holds."""

    def __init__(self, member: Membership) -> None:
        self.processes = member.board.workers
        self._member = member
        self._router: SessionRouter | None = None

    def wrap(self, door: ASGIApp) -> ASGIApp:
        """Put before the door of this worker what has each request answered by the worker that holds its session."""
        member = self._member
        self._router = SessionRouter(door, member.number, member.board, Relay(member.switchboard))
        return self._router

    async def answer(self, question: Question, link: Link) -> None:
        """Answer a request of a session that this worker holds, which came in at another."""
        assert self._router is not None
        await answer_for(self._router.answer, question, link)


class WorkerServer(HttpServer):
    """The HTTP server of one worker, which shares its listener with others and answers for them, too."""

    def __init__(
        self,
        application: ASGIApp,
        announce: Callable[[], None],
        hurry: Callable[[], None],
        member: Membership,
        sessions: SharedSessions,
    ) -> None:
        super().__init__(application, announce, hurry, processes=member.board.workers)
        self._member = member
        self._receptionist = Receptionist(member.switchboard.own, answer=sessions.answer, note=_pass_over)
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests, and say so."""
        assert sockets is not None
        announce, self._tell = self._tell, _do_nothing
        await super().startup([])
        self._receptionist.start()
        self._acceptor = Acceptor(
            sockets[0], self._make_protocol, lambda: len(self.server_state.connections), board=self._member.board,
            number=self._member.number,
        )  # fmt: skip
        self._acceptor.start()
        announce()

    def _make_protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    async def on_tick(self, counter: int) -> bool:
        """Tell the others how many connections are open, ten times a second."""
        self._member.board.set_connections(self._member.number, len(self.server_state.connections))
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End by SIGTERM alone: what Ctrl-C means, the parent says."""
        if sig == signal.SIGTERM:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, and end those that are open, here and at other workers."""
        until = time.monotonic() + GRACE
        assert self._acceptor is not None
        self._acceptor.stop()
        await super().shutdown([])
        await self._receptionist.stop(max(0.0, until - time.monotonic()))


def _pass_over(_: Question) -> None:
    """Workers are told nothing."""


def _do_nothing() -> None:
    pass


def _count_requests(app: ASGIApp, member: Membership) -> ASGIApp:
    """Count the requests that are being answered, for which the background work stands back."""

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        # A GET may be a stream that stands open.
        if scope["type"] != "http" or scope["method"] == "GET":
            await app(scope, receive, send)
            return
        member.board.add_requests(member.number, 1)
        try:
            await app(scope, receive, send)
        finally:
            member.board.add_requests(member.number, -1)

    return count


def run_background(options: ServerOptions, member: Membership, announce: Callable[[], None]) -> None:
    """Do the background work of a server until SIGTERM; `announce` is called once the store is open.

    Raises:
        CofioError: the store, or a setting, cannot be used.
    """
    settings, home, board = options.settings, options.address.home, member.board
    board.clear_wake()
    memory = Memory(options.address, settings, say=say, sharing=WorkSharing(is_busy=board.has_requests))
    assistant = open_assistant(settings, home, lambda: memory.engine, observe=member.count_model_usage)
    reader, spending = (None, None) if assistant is None else (assistant.reader, assistant.spending)
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        vault = stack.enter_context(closing(AttachedVault(home, settings)))
        engine = memory.engine
        board.set_incomplete(memory.incomplete is not None)
        conversations = Conversations(engine, zone=settings.zone, reader=reader, mirror=vault.mirror(engine))
        jobs = Jobs(conversations, spending, quiet=timedelta(minutes=settings.quiet_after))
        stack.callback(jobs.close, CLOSE_SECONDS)
        if assistant is not None:
            stack.callback(assistant.close)
        stack.callback(jobs.stop)
        jobs.resume()
        vault.watch(conversations)
        announce()
        lower_process_priority(NICE)
        asyncio.run(BackgroundLoop(memory, JobsDesk(jobs, board), member).run(jobs.stop))


class BackgroundLoop:
    """Hears what workers tell the background process, and answers what they ask."""

    def __init__(self, memory: Memory, desk: JobsDesk, member: Membership) -> None:
        self._memory = memory
        self._desk = desk
        self._member = member
        self._threads = ThreadPoolExecutor(MAX_WAITS, "cofio-answer")

    async def run(self, stop_waiting: Callable[[], None]) -> None:
        """Hear and answer until SIGTERM; then `stop_waiting` ends the waits of those who asked."""
        receptionist = Receptionist(self._member.switchboard.own, answer=self._answer, note=self._note)
        receptionist.start()
        has_ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, has_ended.set)
        while not has_ended.is_set():
            self._show_life()
            try:
                await asyncio.wait_for(has_ended.wait(), HEARTBEAT)
            except TimeoutError:
                continue
        stop_waiting()
        await receptionist.stop(0.0)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _show_life(self) -> None:
        board = self._member.board
        board.beat()
        board.set_incomplete(self._memory.incomplete is not None)
        self._desk.publish()

    def _note(self, message: Question) -> None:
        if message["kind"] == "wake":
            self._member.board.clear_wake()
            self._memory.engine.notice()
        else:
            self._desk.note(message)

    async def _answer(self, question: Question, link: Link) -> None:
        loop = asyncio.get_running_loop()
        answer: dict[str, Any] = await loop.run_in_executor(self._threads, self._desk.answer, question)
        await link.send(HEAD, json.dumps(answer).encode())
