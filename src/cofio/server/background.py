"""The background work of a server: indexes and vectors, jobs, Markdown files, expiry.

The only worker of a server does it beside its requests. Where there are several, a process of its own does it, which
loads no web server, so that it starts soon and stays small.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from ..conversations.conversations import Conversations
from ..conversations.tasks import ConversationJobs
from ..doors.lazy_memory import Memory
from ..doors.rest.assistant import Assistant, open_assistant
from ..engine.background import WorkSharing
from ..engine.jobs import JobRunner
from ..http.admission import ServerLoad
from ..http.logs import flush_log, say
from ..http.metrics import Metrics
from ..system.processes import lower_process_priority
from ..vault.lifecycle import AttachedVault
from .options import ServerOptions

EXIT_SECONDS = 1.6  # after which a process that was told to stop ends, whatever it still waits for
CLOSE_SECONDS = 0.3  # that calls and jobs under way have once the server has stopped
VAULT_RETRY_SECONDS = 30.0
BEAT_SECONDS = 0.5
NEW_WRITE, NEW_JOB = b"w", b"j"  # why a worker wakes the background process
NICE = 10  # few clients wait for the background work


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """An open memory, and what works on it."""

    memory: Memory
    metrics: Metrics
    assistant: Assistant | None
    conversations: Conversations
    notify: Callable[[], None]
    """Call it when there is a new job."""


@contextmanager
def open_services(
    options: ServerOptions,
    sharing: WorkSharing | None,
    *,
    notify: Callable[[], None] | None = None,
    load: ServerLoad | None = None,
    owner: str | None = None,
) -> Iterator[Services]:
    """Open the memory of a server, and do its background work unless another process, which `notify` wakes, does it.

    Raises:
        CofioError: the store, the vault or a setting cannot be used.
    """
    is_background = notify is None
    settings, home = options.settings, options.address.home
    own_settings = settings if is_background else replace(settings, background=False)
    memory = Memory(options.address, own_settings, say=say, sharing=sharing, takes_over=is_background, is_server=True)
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        engine = memory.engine  # a store that cannot be used is reported now, not to the first client
        metrics = Metrics(lambda: memory.engine, load, has_model=bool(settings.llm_base_url))
        observe = metrics.count_model_usage if settings.llm_base_url else None
        assistant = open_assistant(settings, home, lambda: memory.engine, observe=observe)
        reader, spending = (None, None) if assistant is None else (assistant.reader, assistant.spending)
        vault = stack.enter_context(closing(AttachedVault(engine, home, settings)))
        mirror = vault.make_mirror(notify or (lambda: runner.notice()))
        conversations = Conversations(engine, reader=reader, mirror=mirror)
        if notify is None:
            jobs = ConversationJobs(conversations, spending, quiet=timedelta(minutes=settings.quiet_after))
            runner = JobRunner(engine, {**jobs.make_handlers(), **vault.make_handlers()}, owner=owner)
            runner.on_failure = metrics.count_failed_job
            jobs.add_chores(runner)
            vault.watch(conversations)
            runner.add_chore(VAULT_RETRY_SECONDS, lambda: vault.watch(conversations))
            stack.callback(runner.close, CLOSE_SECONDS)
            if assistant is not None:
                stack.callback(assistant.close)
            stack.callback(runner.stop)
            runner.start()
            notify = runner.notice
        yield Services(memory=memory, metrics=metrics, assistant=assistant, conversations=conversations, notify=notify)


def exit_soon(code: int) -> None:
    """End this process in a moment, even if threads of it do not end: all acknowledged writes are durable."""

    def end() -> None:
        time.sleep(EXIT_SECONDS)
        flush_log()
        os._exit(code)

    threading.Thread(target=end, name="cofio-exit", daemon=True).start()


def run_background(
    options: ServerOptions, *, owner: str, wake: int, ready: Callable[[], None], beat: Callable[[], None]
) -> None:
    """Be the background process of a server until SIGTERM.

    `owner` names the claims of this server's jobs; workers write to the pipe `wake` when there may be work. `ready` is
    called once the store is open, and `beat` twice a second.
    """
    has_ended = threading.Event()

    def end(*_: object) -> None:
        exit_soon(0)
        has_ended.set()

    def keep_beating() -> None:
        while not has_ended.wait(BEAT_SECONDS):
            beat()

    def listen() -> None:
        while reasons := os.read(wake, 4096):
            services.memory.engine.notice()
            if NEW_JOB in reasons:
                services.notify()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=keep_beating, name="cofio-beat", daemon=True).start()
    lower_process_priority(NICE)  # of the threads that this one starts from now on
    with open_services(options, WorkSharing(is_apart=True), owner=owner) as services:
        threading.Thread(target=listen, name="cofio-wake", daemon=True).start()
        ready()
        has_ended.wait()
