"""The process that does a server's background work: indexes and vectors, jobs, Markdown files, expiry.

It loads no web server, so that it starts soon and stays small.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import timedelta

from ..conversations.conversations import Conversations
from ..conversations.tasks import ConversationJobs
from ..doors.lazy_memory import Memory
from ..doors.rest.assistant import open_assistant
from ..engine.background import WorkSharing
from ..engine.jobs import JobRunner
from ..http.logs import say
from ..http.metrics import Metrics
from ..system.processes import lower_process_priority
from ..values.errors import Unavailable
from ..vault.journal import JournalError
from ..vault.lifecycle import AttachedVault
from .options import ServerOptions

NICE = 10  # few clients wait for the background work
BEAT_SECONDS = 0.5
CLOSE_SECONDS = 0.8  # that jobs have to end after the server has stopped
VAULT_RETRY_SECONDS = 30.0
Notice = Callable[[], None]
_log = logging.getLogger("cofio.vault")


def run_background(
    options: ServerOptions, *, owner: str, wakes: Callable[[Notice, Notice], None], ready: Notice, beat: Notice
) -> None:
    """Do the background work of a server until SIGTERM.

    `owner` names the claims of this server's jobs. `wakes` is given what to call when a worker has written, and when it
    has enqueued a job. `ready` is called once the store is open, and `beat` twice a second.

    Raises:
        CofioError: the store, or a setting, cannot be used.
    """
    has_ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: has_ended.set())
    threading.Thread(target=_beat, args=[beat, has_ended], name="cofio-beat", daemon=True).start()
    lower_process_priority(NICE)  # of the threads that this one starts from now on
    settings, home = options.settings, options.address.home
    memory = Memory(options.address, settings, say=say, sharing=WorkSharing(is_apart=True), is_server=True)
    with ExitStack() as stack:
        stack.enter_context(closing(memory))
        engine = memory.engine
        metrics = Metrics(lambda: memory.engine, has_model=bool(settings.llm_base_url))
        observe = metrics.count_model_usage if settings.llm_base_url else None
        assistant = open_assistant(settings, home, lambda: memory.engine, observe=observe)
        reader, spending = (None, None) if assistant is None else (assistant.reader, assistant.spending)
        vault = stack.enter_context(closing(AttachedVault(engine, home, settings)))
        conversations = Conversations(engine, reader=reader, mirror=vault.make_mirror(lambda: runner.notice()))
        jobs = ConversationJobs(conversations, spending, quiet=timedelta(minutes=settings.quiet_after))
        runner = JobRunner(engine, {**jobs.make_handlers(), **vault.make_handlers()}, owner=owner)
        runner.on_failure = metrics.count_failed_job
        add_background_work(runner, jobs, vault, conversations)
        stack.callback(runner.close, CLOSE_SECONDS)
        if assistant is not None:
            stack.callback(assistant.close)
        stack.callback(runner.stop)
        runner.start()
        wakes(engine.notice, runner.notice)
        ready()
        has_ended.wait()


def _beat(beat: Callable[[], None], has_ended: threading.Event) -> None:
    while not has_ended.wait(BEAT_SECONDS):
        beat()


def add_background_work(
    runner: JobRunner, jobs: ConversationJobs, vault: AttachedVault, conversations: Conversations
) -> None:
    """Have a runner carve silent sessions, and see to the vault, now and when its disk can be used again.

    Raises:
        Unavailable: the vault is another server's, or a link that the user has not vouched for.
    """
    jobs.add_chores(runner)

    def watch() -> None:
        try:
            vault.watch(conversations)
        except (Unavailable, OSError, JournalError) as error:
            if isinstance(error, Unavailable) and not isinstance(error.__cause__, OSError | JournalError):
                raise
            _log.warning("the vault cannot be used, which is tried again: %s", error)

    watch()
    runner.add_chore(VAULT_RETRY_SECONDS, watch)
