"""A process of a server that takes requests, beside others that do the same."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from types import FrameType

from starlette.types import ASGIApp

from ...content import FetchPolicy
from ...conversations import second_reading
from ...conversations.conversations import Conversations
from ...engine.background import WorkSharing
from ...system.busy_threads import BusyThreads
from ...vault.lifecycle import AttachedVault
from ..lazy_memory import Memory
from ..mcp.http import Door
from ..mcp.session_routes import SessionRouter
from ..rest import http as rest
from ..rest.assistant import open_assistant
from ..rest.remote_jobs import RemoteJobs
from .acceptor import Acceptor, SharingAcceptor
from .connections import Connection
from .links import Link, Question, Receptionist
from .listener import check_exposure
from .logs import say
from .membership import Membership
from .metrics import LoadReport, Metrics
from .open_streams import OpenStreams
from .options import ServerOptions
from .overload import ServerLoad
from .relay import Relay, answer_for
from .server import PATIENCE, HttpServer, build_application
from .tokens import Tokens


def run_worker(
    options: ServerOptions, member: Membership, announce: Callable[[], None], *, listener: socket.socket
) -> None:
    """Take requests until SIGTERM; `announce` is called once they are taken.

    Raises:
        CofioError: the store, or a setting, cannot be used.
    """
    home, board, processes = options.address.home, member.board, member.board.workers
    settings = replace(options.settings, background=False)  # another process does it
    load = ServerLoad(BusyThreads(partial(board.set_busy_threads, member.number)))
    memory = Memory(
        options.address, settings, say=say,
        sharing=WorkSharing(notify=member.wake_background, has_queue=load.has_queue),
        is_incomplete=board.is_incomplete,
    )  # fmt: skip
    assistant = open_assistant(settings, home, lambda: memory.engine, observe=member.count_model_usage)
    if assistant is not None:
        member.count_model_usage(0, 0)  # so that there is a number from the start
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        vault = stack.enter_context(closing(AttachedVault(home, settings, notify=member.wake_background)))
        engine = memory.engine
        reader = None if assistant is None else assistant.reader
        door = rest.Door(
            Conversations(
                engine,
                zone=settings.zone,
                reader=reader,
                mirror=vault.mirror(engine),
                reads_twice=second_reading.is_possible(engine),
            ),
            RemoteJobs(engine, member.switchboard, board, member.number),
            settings.zone,
            assistant=assistant,
            fetch_policy=FetchPolicy.parse(settings.fetch),
            folder=home,
            load=load,
            processes=processes,
        )
        stack.enter_context(closing(door))
        sessions, streams = SharedSessions(member), OpenStreams()
        application = build_application(
            options, memory, door, Metrics(lambda: memory.engine, member=member), load,
            strict=check_exposure(Tokens(engine.shared_values or home), home, options.host, options.names),
            listener=listener, share_sessions=sessions, member=member, streams=streams,
        )  # fmt: skip
        report = LoadReport(load, member.own_counts)
        server = WorkerServer(application, announce, door.stop_waiting, member, sessions, report, streams)
        server.run(sockets=[listener])


class SharedSessions:
    """The sessions of MCP, each of which one worker holds."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._door: Door | None = None
        self._router: SessionRouter | None = None
        self._tasks: set[asyncio.Task[bool]] = set()

    def report(self, own: int) -> None:
        """Tell the other workers how many sessions this one holds."""
        self._member.board.set_sessions(self._member.number, own)

    def count(self) -> int:
        """How many sessions the other workers hold."""
        counts = self._member.board.list_sessions()
        return sum(counts) - counts[self._member.number]

    def end_one(self, own: int) -> bool:
        """Have the worker that holds the most sessions end an idle one; whether it holds more, and was told."""
        most, number = max((count, number) for number, count in enumerate(self._member.board.list_sessions()))
        is_here = number == self._member.number or most <= own
        # The event loop waits for no one.
        return not is_here and self._member.switchboard.send(number, {"kind": "end session"}, wait=False)

    def note(self, _: Question) -> None:
        """End an idle session, as another worker has told."""
        assert self._door is not None
        task = asyncio.get_running_loop().create_task(self._door.end_idle())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def wrap(self, door: Door) -> ASGIApp:
        """Put before the door of this worker what has each request answered by the worker that holds its session."""
        member, self._door = self._member, door
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
        report: LoadReport,
        streams: OpenStreams,
    ) -> None:
        super().__init__(application, announce, hurry, streams=streams, processes=member.board.workers)
        self._member = member
        self._report = report
        self._receptionist = Receptionist(
            member.switchboard.own, answer=sessions.answer, note=sessions.note, take_over=self._take_over
        )
        if member.board.workers > 1:
            self._pool.hand_over = self._hand_over

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests, and say so."""
        self._receptionist.start()
        await super().startup(sockets)

    def _make_acceptor(self, listener: socket.socket) -> Acceptor:
        return SharingAcceptor(
            listener, self._make_protocol, lambda: len(self.server_state.connections), board=self._member.board,
            number=self._member.number,
        )  # fmt: skip

    def _hand_over(self, descriptor: int) -> bool:
        """Give a connection to a worker that is at work for no one, while this one is; whether there is such a one."""
        # Half of what it may have: a connection more must never cost another client its own.
        idle = self._member.board.find_idle_worker(self._member.number, self._pool.limit // 2)
        return idle is not None and self._member.switchboard.hand_over(idle, descriptor)

    def _take_over(self, connection: socket.socket) -> None:
        """Go on with a connection that another worker has had."""
        if self._acceptors:
            self._acceptors[0].open(connection, self._make_taken_over)
        else:  # it was for a worker that was killed, in the place of which this one is about to start
            connection.close()

    def _make_taken_over(self) -> Connection:
        protocol = self._make_protocol()
        assert isinstance(protocol, Connection)
        protocol.take_over()
        return protocol

    async def on_tick(self, counter: int) -> bool:
        """Tell the others how many connections are open, and what waits, ten times a second."""
        self._report.publish()
        self._member.board.set_connections(self._member.number, len(self.server_state.connections))
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End by SIGTERM alone: what Ctrl-C means, the parent says."""
        if sig == signal.SIGTERM:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, and end those that are open, here and at other workers."""
        self._streams.end_all()
        self._pool.hand_over = None  # the others end, too
        for acceptor in self._acceptors:
            acceptor.stop()
        # First: the sessions that others' requests belong to end with the application.
        await self._receptionist.stop(PATIENCE)
        await super().shutdown([])
