"""One run of a hook: the client's JSON comes in, at most one JSON goes out, and the client never has to wait or worry.

The work is done in a thread that the process does not wait for longer than its budget. Whatever happens to that thread,
the process ends with exit code 0 and nothing on its streams but an answer that is whole; what happened is in the log.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .client_protocols import HOOK_CLIENTS, TELLING, HookClient, Moment
from .hook_log import HookRun, append_run

if TYPE_CHECKING:
    from .class_cache import ClassCache
    from .client_protocols import HookEvent
    from .hook_actions import Outcome

OFF = "COFIO_HOOKS"
"""The variable that turns hooks off, with `off`."""
PATIENCE = "COFIO_HOOKS_PATIENCE"
"""The variable with the seconds that a hook may take in place of its budget, for a slow machine."""
BUDGETS: Mapping[Moment, float] = {
    Moment.START: 0.3,
    Moment.PROMPT: 0.15,
    Moment.EDIT: 0.15,
    Moment.COMPACT: 10.0,
    Moment.STOP: 2.0,
    Moment.END: 10.0,
}
"""Seconds from the start of the process. What a capture has not read by then is read the next time."""
MOST_INPUT = 8 << 20  # bytes of a client's JSON
_INPUT_SECONDS = 1.0  # that a client may take to write it
_FAILURE_SECONDS = 0.1  # that a thread which failed may take to say why
_PIECE = 1 << 16
_START_FIELD = 19  # of the numbers after the name in /proc/self/stat
_LONGEST_START = 60.0  # seconds; what says that it took longer counts by another clock


@dataclass(slots=True)
class _Work:
    """What is known so far of a run; the thread that does the work fills it in."""

    client: HookClient
    event: HookEvent | None = None
    outcome: Outcome | None = None
    failure: str = ""
    is_read: threading.Event = field(default_factory=threading.Event)
    is_done: threading.Event = field(default_factory=threading.Event)

    def report(self, outcome: Outcome) -> None:
        """Let the answer go out: no one waits for what the thread does after this."""
        self.outcome = outcome
        self.is_done.set()


def run_hook(words: Sequence[str], cache: ClassCache | None = None) -> int:
    """Answer one event of a client, whose name is the first word; always 0: other numbers say something to a client.

    `cache` is what the process was started with, to be saved when the answer is out.
    """
    began, at = time.perf_counter() - _measure_age(), time.time()  # the time that Python took to start counts
    if os.environ.get(OFF, "").strip().lower() in ("off", "0", "false", "no"):
        return 0
    answer = _take_streams()
    name, store, event = _parse_words(words)
    client = HOOK_CLIENTS.get(name)
    if client is None:
        note = f"there is no client {name!r}; there are {', '.join(HOOK_CLIENTS)}"
        append_run(HookRun(at=at, client=name[:40], event=event, outcome="failed", milliseconds=0, note=note))
        return 0
    work = _Work(client=client)
    threading.excepthook = lambda crash: _note_failure(work, crash)
    thread = threading.Thread(target=_do, args=(work, store, event), daemon=True)
    thread.start()
    with suppress(KeyboardInterrupt):
        work.is_read.wait(_INPUT_SECONDS)
        if work.event is not None:
            work.is_done.wait(max(0.0, began + _find_budget(work.event.moment) - time.perf_counter()))
        if work.is_done.is_set() and work.outcome is None:
            thread.join(_FAILURE_SECONDS)
    outcome = work.outcome
    if outcome is not None and work.event is not None and answer is not None:
        with suppress(OSError):
            _write(answer, client.render(work.event, outcome.text))
    if work.event is not None or work.failure:
        append_run(_describe(work, outcome, at, round((time.perf_counter() - began) * 1000)))
    if cache is not None and work.event is not None and work.event.moment in TELLING:
        cache.save()  # what an agent waits for; a capture needs more, which would make the others slower
    # Nothing is left to do: not even to wait for the thread, if it is late.
    os._exit(0)


def _do(work: _Work, store: str | None, event: str) -> None:
    """Read the client's JSON and do what is to be done."""
    try:
        payload = _read_input()
        work.event = work.client.parse(payload, event) if payload is not None else None
    finally:
        work.is_read.set()
    if work.event is None:
        return
    try:
        from .hook_actions import act  # with the engine: not for an event that is none of ours

        act(work.client.name, work.event, store, work.report)
    finally:
        work.is_done.set()


def _read_input() -> dict[str, object] | None:
    """The client's JSON; None for what is no object. It need not close its end: an object that is whole is enough."""
    content = b""
    while len(content) <= MOST_INPUT:
        piece = os.read(0, _PIECE)
        content += piece
        if piece and (len(piece) == _PIECE or not content.rstrip().endswith(b"}")):
            continue
        with suppress(ValueError, RecursionError):
            payload = json.loads(content)
            return payload if isinstance(payload, dict) else None
        if not piece:
            return None
    return None


def _take_streams() -> int | None:
    """Keep stdout for the answer alone, and let all that might be printed go nowhere; None if there is no stdout."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    answer = None
    with suppress(OSError):
        answer = os.dup(1)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    return answer


def _parse_words(words: Sequence[str]) -> tuple[str, str | None, str]:
    """The client, the store and the event of a command line; what else stands there is passed over."""
    name, store, event = "", None, ""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in ("--store", "--event"):
            value = value if equals else next(rest, "")
            store, event = (value, event) if option == "--store" else (store, value)
        elif not word.startswith("-") and not name:
            name = word
    return name, store, event


def _measure_age() -> float:
    """Seconds since the process was started, with those that it waited for a processor where the system tells them."""
    if sys.platform == "linux":
        with suppress(OSError, ValueError, IndexError), open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[_START_FIELD])
            # A tick less: the start is told in whole ones.
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks + 1) / os.sysconf("SC_CLK_TCK")
            if time.process_time() <= age < _LONGEST_START:
                return age
    return time.process_time()


def _find_budget(moment: Moment) -> float:
    try:
        return min(60.0, max(0.0, float(os.environ[PATIENCE])))
    except (KeyError, ValueError):
        return BUDGETS[moment]


def _write(descriptor: int, answer: bytes) -> None:
    while answer:
        answer = answer[os.write(descriptor, answer) :]


def _note_failure(work: _Work, crash: threading.ExceptHookArgs) -> None:
    work.failure = f"{crash.exc_type.__name__}: {crash.exc_value}"


def _describe(work: _Work, outcome: Outcome | None, at: float, milliseconds: int) -> HookRun:
    name = "" if work.event is None else work.event.name
    if outcome is None:
        sort = "failed" if work.failure else "late"
        return HookRun(
            at=at, client=work.client.name, event=name, outcome=sort, milliseconds=milliseconds, note=work.failure
        )
    return HookRun(
        at=at, client=work.client.name, event=name, repository=outcome.repository, outcome=outcome.sort,
        milliseconds=milliseconds, tokens=outcome.tokens, records=outcome.records, note=outcome.note,
    )  # fmt: skip
