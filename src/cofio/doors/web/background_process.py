"""The process of a server that does its background work. It loads no web server, so that it is there soon and small."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import Any

from ...conversations import second_reading
from ...conversations.conversations import Conversations
from ...engine.background import WorkSharing
from ...system.processes import lower_process_priority
from ...vault.lifecycle import AttachedVault
from ..lazy_memory import Memory
from ..rest.assistant import open_assistant
from ..rest.jobs import Jobs
from ..rest.remote_jobs import JobsDesk
from .links import HEAD, Link, Question, Receptionist
from .logs import say
from .membership import Membership
from .options import ServerOptions

NICE = 19  # the lowest priority: no one waits for the background work
HEARTBEAT = 0.2  # seconds between two signs of life
MAX_WAITS = 64  # calls of workers that are answered at once; most of them wait for a model
CLOSE_SECONDS = 2.0  # seconds that jobs have to end after the server has stopped


def run_background(options: ServerOptions, member: Membership, announce: Callable[[], None]) -> None:
    """Do the background work of a server until SIGTERM; `announce` is called once the store is open.

    Raises:
        CofioError: the store, or a setting, cannot be used.
    """
    settings, home, board = options.settings, options.address.home, member.board
    board.clear_wake()
    memory = Memory(options.address, settings, say=say, sharing=WorkSharing(is_busy=board.has_busy_threads))
    assistant = open_assistant(settings, home, lambda: memory.engine, observe=member.count_model_usage)
    reader, spending = (None, None) if assistant is None else (assistant.reader, assistant.spending)
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        vault = stack.enter_context(closing(AttachedVault(home, settings)))
        engine = memory.engine
        board.set_incomplete(memory.incomplete is not None)
        conversations = Conversations(
            engine, zone=settings.zone, reader=reader, mirror=vault.mirror(engine),
            reads_twice=second_reading.is_possible(engine),
        )  # fmt: skip
        jobs = Jobs(conversations, spending, quiet=timedelta(minutes=settings.quiet_after))
        stack.callback(jobs.close, CLOSE_SECONDS)
        if assistant is not None:
            stack.callback(assistant.close)
        stack.callback(jobs.stop)
        jobs.resume()
        vault.watch(conversations)
        loop = BackgroundLoop(memory, vault, JobsDesk(jobs, board), member)
        loop.show_life()  # before a worker can be asked how it is
        announce()
        lower_process_priority(NICE)
        asyncio.run(loop.run(jobs.stop))


class BackgroundLoop:
    """Hears what workers tell the background process, and answers what they ask."""

    def __init__(self, memory: Memory, vault: AttachedVault, desk: JobsDesk, member: Membership) -> None:
        self._memory = memory
        self._vault = vault
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
            self.show_life()
            try:
                await asyncio.wait_for(has_ended.wait(), HEARTBEAT)
            except TimeoutError:
                continue
        stop_waiting()
        await receptionist.stop(0.0)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def show_life(self) -> None:
        """Put on the board that this process is alive, and how it is getting on."""
        board = self._member.board
        board.beat()
        board.clear_wake()  # one that was killed may have noted that it wakes this process, and not done it
        board.set_incomplete(self._memory.incomplete is not None)
        self._desk.publish()

    def _note(self, message: Question) -> None:
        if message["kind"] == "wake":
            self._member.board.clear_wake()
            self._memory.engine.notice()
            self._vault.notice()
        else:
            self._desk.note(message)

    async def _answer(self, question: Question, link: Link) -> None:
        loop = asyncio.get_running_loop()
        answer: dict[str, Any] = await loop.run_in_executor(self._threads, self._desk.answer, question)
        await link.send(HEAD, json.dumps(answer).encode())
