"""JSON-RPC 2.0 over a pair of pipes, one message a line: the loop under every door on stdin and stdout.

The thread that reads a message answers it, for to hand it to another costs more than most calls take. If that takes
long, another thread goes on reading, so that a slow call holds up no `ping`. Changes are made one after the other, in
the order in which they were asked for; a call that only reads sees every change that was asked for before it, and waits
for no other look.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import BinaryIO, Protocol, TypeAlias

from ..http.json_limits import JsonLimits, TooComplex, refuse_constant
from ..text.jsonl import escape_breaks
from ..values.records import MAX_DIGITS, Json

Id: TypeAlias = str | int
Params: TypeAlias = "dict[str, Json]"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_FRAME = 16 * 1024 * 1024  # bytes; a text at its limit, every character escaped, is within it
LIMITS = JsonLimits(values=2_000_000, depth=1000, text=None)  # there is one client, so no other waits for it
SLOW = 0.01  # seconds after which another thread goes on reading
QUIET = 1.0  # seconds without a call after which slow ones are not watched for
BUSY = 64  # slow calls at once; more are refused for the moment
GRACE = 0.5  # seconds that calls have to end after the client has gone
CLOSE_SECONDS = 0.4  # seconds that closing may take; with GRACE, less than a second from the client's end to ours

_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,18}|"[\w.-]{1,100}")\s*[,}]')
_ID_LAST = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[\w.-]{1,100}")\s*\}\s*$')
_BOM = "\ufeff".encode()
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class RpcError(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Lane(Enum):
    """How a request is run."""

    INLINE = auto()
    """Before the next message is read: it takes no time."""
    READ = auto()
    """Beside others, after the changes that were asked for before it."""
    WRITE = auto()
    """After the changes that were asked for before it."""


class Server(Protocol):
    """What answers the messages of one connection."""

    @property
    def allows_batches(self) -> bool:
        """Whether the protocol, as agreed with the client, knows arrays of messages."""

    def choose_lane(self, method: str, params: Params) -> Lane:
        """How this request is to be run."""

    def run_request(self, method: str, params: Params) -> Json:
        """The request's result.

        Raises:
            RpcError: it is answered with an error instead.
        """

    def receive_notification(self, method: str, params: Params) -> Id | None:
        """Take note of something that wants no answer; the id of the request that it takes back, if it does."""


class _Completion:
    """Whether a call has ended: what `threading.Event` does, for a tenth of the time. Every call has one."""

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Say that the call has ended, once."""
        self._is_set = True
        self._lock.release()

    def wait(self, seconds: float = -1) -> bool:
        """Wait until the call has ended, or for this many seconds at most; return whether it has ended."""
        if not self._is_set and self._lock.acquire(timeout=seconds):
            self._lock.release()  # for the next one that waits
        return self._is_set


@dataclass(slots=True, eq=False)
class _Call:
    """A request that may take time."""

    id: Json
    method: str
    params: Params
    answer: Callable[[Json], None]
    after: _Completion | None
    """Set once the changes that were asked for before this are made."""
    done: _Completion = field(default_factory=_Completion)
    is_cancelled: bool = False


class Connection:
    """One client, from its first message until it goes."""

    def __init__(
        self,
        server: Server,
        reads: BinaryIO,
        writes: BinaryIO,
        *,
        on_malformed: Callable[[str], None] | None = None,
        is_finished: Callable[[], bool] = lambda: False,
        grace: float = GRACE,
    ) -> None:
        """Nothing is read before `run`.

        With `on_malformed`, a line that is no message gets no answer: the function is called with the reason instead.
        Any JSON, null too, is then the id of a request. Without it, such a line is answered with an error, and an id is
        a string or a whole number. `is_finished` is asked before each message whether the client has announced that it
        was the last. `grace` is how many seconds calls have to end after the client has closed its end unannounced.
        """
        self._server = server
        self._on_malformed = on_malformed
        self._is_finished = is_finished
        self._grace = grace
        self._reads = reads
        self._writes = writes
        self._write_lock = threading.Lock()
        self._turn = threading.Lock()
        """Held by the thread that reads, until what it read is known to those after it."""
        self._count = threading.Lock()
        self._free = 1
        """Threads that read or are about to; more than one would only wake each other up."""
        self._read = 0
        """How many calls have been read."""
        self._activity = threading.Event()
        self._end_event = threading.Event()
        self._calls: set[_Call] = set()
        self._last_write: _Completion | None = None

    def run(self) -> int:
        """Answer messages until the client closes its end; how many calls had not ended soon after."""
        # All are daemons: a thread that a stuck call holds must not hold up the process's end.
        threading.Thread(target=self._watch, name="cofio-watching", daemon=True).start()
        threading.Thread(target=self._serve, name="cofio-reading", daemon=True).start()
        self._end_event.wait()
        until = time.monotonic() + (GRACE if self._is_finished() else self._grace)
        return sum(not call.done.wait(max(0.0, until - time.monotonic())) for call in list(self._calls))

    def _serve(self) -> None:
        """Read messages and answer them, until the client has gone or another thread does it."""
        try:
            self._answer_all()
        except BaseException:  # whatever it is: without a reader the connection is over
            self._end()
            raise

    def _answer_all(self) -> None:
        while True:
            with self._turn:
                calls = [] if self._end_event.is_set() else self._read_message()
            if not calls:
                if self._end_event.is_set():
                    return
                continue
            with self._count:
                self._free -= 1
                self._read += 1
            if not self._activity.is_set():
                self._activity.set()
            for call in calls:
                self._run(call)
            with self._count:
                if self._free:
                    return
                self._free += 1

    def _watch(self) -> None:
        """Let another thread read on whenever every one has been at its call for a while."""
        quiet = 0.0
        while not self._end_event.is_set():
            self._activity.wait()
            before = self._read
            if self._end_event.wait(SLOW):
                return
            with self._count:
                stuck = not self._free and self._read == before
                quiet = 0.0 if self._read != before or not self._free else quiet + SLOW
                if stuck:
                    self._free += 1
                elif quiet >= QUIET:
                    self._activity.clear()
                    quiet = 0.0
            if stuck:
                threading.Thread(target=self._serve, name="cofio-reading", daemon=True).start()

    def _read_message(self) -> list[_Call]:
        """Read a message, and answer it if that takes no time; the calls that it asks for otherwise."""
        line = b"" if self._is_finished() else self._reads.readline(MAX_FRAME + 1)
        if not line:
            self._end()
        elif len(line) > MAX_FRAME:
            found_id, problem = self._skip_rest(line), f"a message may have {MAX_FRAME:,} bytes, this one has more"
            if found_id is None:
                self._refuse(None, INVALID_REQUEST, problem, self._send)
            else:
                self._send(_make_error(found_id, INVALID_REQUEST, problem))
        elif line.strip():
            return self._receive(line)
        return []

    def _end(self) -> None:
        self._end_event.set()
        self._activity.set()

    def _skip_rest(self, line: bytes) -> Id | None:
        """Pass over the rest of a message that is too long; its id, if it stands where clients put it."""
        start, end = line[:200], line[-200:]
        while line and not line.endswith(b"\n"):
            line = self._reads.readline(1 << 16)
            end = (end + line)[-200:]
        return _find_id(start, end)

    def _receive(self, line: bytes) -> list[_Call]:
        calls: list[_Call] = []
        try:
            if len(line) > LIMITS.values:  # a shorter one cannot hold as many, and how deep it is, the parser sees
                LIMITS.check(line)
            message: Json = _decode(line.removeprefix(_BOM).decode())
        except (TooComplex, _TooLarge) as error:
            found_id = _find_id(line[:200], line[-200:])
            if found_id is not None:
                self._send(_make_error(found_id, INVALID_PARAMS, str(error)))
                return calls
            self._refuse(None, PARSE_ERROR, f"Parse error: {error}", self._send)
            return calls
        except (ValueError, RecursionError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not JSON"
            self._refuse(None, PARSE_ERROR, f"Parse error: the line is {reason}", self._send)
            return calls
        if not isinstance(message, list):
            self._handle(message, self._send, calls)
        elif not self._server.allows_batches:
            problem = "this protocol knows no batches: send one message a line"
            self._refuse(None, INVALID_REQUEST, problem, self._send)
        elif not message:
            self._send(_make_error(None, INVALID_REQUEST, "the batch is empty"))
        else:
            batch = _BatchAnswer(len(message), self._send)
            for each in message:
                self._handle(each, batch.answer, calls)
        return calls

    def _refuse(self, request_id: Id | None, code: int, problem: str, answer: Callable[[Json], None]) -> None:
        """Answer what is no message with an error, or drop it where that is the custom."""
        if self._on_malformed is None:
            answer(_make_error(request_id, code, problem))
        else:
            self._on_malformed(problem)
            answer(None)

    def _handle(self, message: Json, answer: Callable[[Json], None], calls: list[_Call]) -> None:
        """Answer a request, take note of a notification; anything else is a mistake of the client's.

        `answer` is called once, with None where there is nothing to say: now or, for one of `calls`, later.
        """
        if not isinstance(message, dict):
            self._refuse(None, INVALID_REQUEST, "a message is an object", answer)
            return
        method, params, request_id = message.get("method"), message.get("params", {}), message.get("id")
        if method is None and ("result" in message or "error" in message):
            answer(None)  # it answers a question that was never asked
            return
        lenient, valid_id = self._on_malformed is not None, parse_id(request_id)
        params = {} if lenient and params is None else params
        if message.get("jsonrpc") != "2.0":
            self._refuse(valid_id, INVALID_REQUEST, 'a message says "jsonrpc": "2.0"', answer)
        elif not isinstance(method, str) or (lenient and not method):
            self._refuse(valid_id, INVALID_REQUEST, "a message names its method", answer)
        elif "id" not in message:
            # What wants no answer gets none, however wrong it is.
            if isinstance(params, dict):
                self._notify(method, params)
            answer(None)
        elif valid_id is None and not lenient:
            answer(_make_error(None, INVALID_REQUEST, "an id is a string or a whole number"))
        elif not isinstance(params, dict):
            answer(_make_error(request_id, INVALID_PARAMS, "params is an object"))
        else:
            lane = self._server.choose_lane(method, params)
            if lane is Lane.INLINE:
                answer(self._run_request(request_id, method, params))
            elif len(self._calls) >= BUSY:
                answer(_make_error(request_id, INTERNAL_ERROR, f"{BUSY} calls are at work already: try again"))
            else:
                calls.append(self._register(lane, _Call(request_id, method, params, answer, self._last_write)))

    def _register(self, lane: Lane, call: _Call) -> _Call:
        """The call, which those after it now know of."""
        self._calls.add(call)
        if lane is Lane.WRITE:
            self._last_write = call.done
        return call

    def _notify(self, method: str, params: Params) -> None:
        cancelled_id = self._server.receive_notification(method, params)
        if cancelled_id is not None:
            for call in list(self._calls):
                call.is_cancelled |= call.id == cancelled_id

    def _run(self, call: _Call) -> None:
        if call.after is not None:
            call.after.wait()
        answer = None if call.is_cancelled else self._run_request(call.id, call.method, call.params)
        call.answer(None if call.is_cancelled else answer)
        self._calls.discard(call)
        call.done.set()

    def _run_request(self, request_id: Json, method: str, params: Params) -> Json:
        try:
            return {"jsonrpc": "2.0", "id": request_id, "result": self._server.run_request(method, params)}
        except RpcError as error:
            return _make_error(request_id, error.code, error.message, error.data)
        except Exception as error:  # a fault of ours: the client gets an answer, and the connection lives on
            return _make_error(request_id, INTERNAL_ERROR, f"cofio has a fault: {type(error).__name__}: {error}")

    def _send(self, message: Json) -> None:
        if message is None:
            return
        try:
            frame = escape_breaks(_encode(message)).encode() + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold and UTF-8 cannot
            frame = _encode_ascii(message).encode() + b"\n"
        # Numbers that JSON does not have cannot get here: none comes in, and the engine refuses to store them.
        try:
            with self._write_lock:
                self._writes.write(frame)
                self._writes.flush()
        except (OSError, ValueError):  # the client has closed its end (for which Windows has several codes), or we ours
            self._end()


class _BatchAnswer:
    """The answers to a batch, sent as one array once all are in."""

    def __init__(self, size: int, send: Callable[[Json], None]) -> None:
        self._left = size
        self._answers: list[Json] = []
        self._send = send
        self._lock = threading.Lock()

    def answer(self, message: Json) -> None:
        """Take in the answer to one of the batch; None for one that gets none."""
        with self._lock:
            self._left -= 1
            if message is not None:
                self._answers.append(message)
            if self._left == 0 and self._answers:
                self._send(self._answers)


def _make_error(request_id: Json, code: int, message: str, data: Json = None) -> Json:
    error: dict[str, Json] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def claim_stdout() -> BinaryIO:
    """Return the stream to the client, and make it private: what any library prints goes to stderr from now on."""
    sys.stdout.flush()
    mine = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(mine, "wb")


def shut_down(writes: BinaryIO, close: Callable[[], None], left: int) -> int:
    """End a door after its client has gone: `close` what it used, and give `left` calls up; the exit code."""

    def end() -> None:
        close()
        with suppress(OSError):  # the client has gone, perhaps in the middle of an answer
            writes.close()

    closer = threading.Thread(target=end, daemon=True)
    closer.start()
    closer.join(CLOSE_SECONDS)
    if left or closer.is_alive():
        # Whatever still runs, be it a model that loads or an endpoint that does not answer, must not hold up the end.
        # Nothing is lost with it: what was acknowledged is on the disk.
        os._exit(1 if left else 0)
    return 0


def parse_id(value: Json) -> Id | None:
    """The value as the id of a request; None when it cannot be one."""
    return value if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)) else None


class _TooLarge(ValueError):
    """A number that could be read, perhaps, but never be written again."""


def _parse_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _TooLarge(f"{text[:30]} is too large a number")
    return number


def _parse_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _TooLarge(f"{text[:30]}… has more than {MAX_DIGITS:,} digits")
    return int(text)


_decode = json.JSONDecoder(parse_constant=refuse_constant, parse_float=_parse_float, parse_int=_parse_int).decode


def _find_id(start: bytes, end: bytes) -> Id | None:
    """The id of a message that cannot be read as a whole, if it stands where clients put it."""
    match = _ID_FIRST.match(start) or _ID_LAST.search(end)
    return parse_id(json.loads(match[1])) if match else None
