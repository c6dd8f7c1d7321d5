"""JSON-RPC 2.0 over a pair of pipes, one message a line: the loop under every door on stdin and stdout.

The reader never waits for a call: what takes time runs beside it, so that a `ping` is answered at once. Changes are
made one after the other, in the order in which they were asked for; a call that only looks sees every change that was
asked for before it, and waits for no other look.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import BinaryIO, Protocol, TypeAlias

from ..model import Json

Id: TypeAlias = str | int
Params: TypeAlias = "dict[str, Json]"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_FRAME = 16 * 1024 * 1024  # bytes; a text at its limit, every character escaped, is within it
LOOKS = 4  # so many calls that only look run at once
WAITING = 256  # with so many calls unanswered the reader waits, and so does the client's pipe
GRACE = 0.5  # seconds that calls have to end after the client has gone

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Refused(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Lane(Enum):
    """How a request is run."""

    AT_ONCE = auto()
    """By the reader itself: it takes no time."""
    LOOK = auto()
    """Beside others, after the changes that were asked for before it."""
    CHANGE = auto()
    """After the changes that were asked for before it."""


class Server(Protocol):
    """What answers the messages of one connection."""

    @property
    def batches(self) -> bool:
        """Whether the protocol, as agreed with the client, knows arrays of messages."""

    def lane(self, method: str, params: Params) -> Lane:
        """How this request is to be run."""

    def request(self, method: str, params: Params) -> Json:
        """The request's result.

        Raises:
            Refused: it is answered with an error instead.
        """

    def notification(self, method: str, params: Params) -> Id | None:
        """Take note of something that wants no answer; the id of the request that it takes back, if it does."""


@dataclass(slots=True)
class _Call:
    """A request that runs beside the reader."""

    id: Id
    method: str
    params: Params
    answer: Callable[[Json], None]
    after: threading.Event | None
    """Set once the changes that were asked for before this are made."""
    done: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False


class Connection:
    """One client, from its first message until it goes."""

    def __init__(self, server: Server, reads: BinaryIO, writes: BinaryIO) -> None:
        self._server = server
        self._reads = reads
        self._writes = writes
        self._writing = threading.Lock()
        self._calls: dict[Id, _Call] = {}
        self._slots = threading.Semaphore(WAITING)
        self._changes: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._looks: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._last_change: threading.Event | None = None
        self._workers = {Lane.CHANGE: 0, Lane.LOOK: 0}
        self._gone = False

    def run(self) -> bool:
        """Answer messages until the client closes its end; whether every call had ended by then or soon after."""
        while not self._gone:
            line = self._reads.readline(MAX_FRAME + 1)
            if not line:
                break
            if len(line) > MAX_FRAME:
                self._skip_rest(line)
                self._send(_error(None, INVALID_REQUEST, f"a message may have {MAX_FRAME:,} bytes, this one has more"))
            elif line.strip():
                self._receive(line)
        until = time.monotonic() + GRACE
        return all(call.done.wait(max(0.0, until - time.monotonic())) for call in list(self._calls.values()))

    def _skip_rest(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._reads.readline(1 << 16)

    def _receive(self, line: bytes) -> None:
        try:
            message: Json = json.loads(line.decode(), parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "not JSON"
            self._send(_error(None, PARSE_ERROR, f"Parse error: the line is {reason}"))
            return
        if not isinstance(message, list):
            self._handle(message, self._send)
        elif not self._server.batches:
            self._send(_error(None, INVALID_REQUEST, "this protocol knows no batches: send one message a line"))
        elif not message:
            self._send(_error(None, INVALID_REQUEST, "the batch is empty"))
        else:
            gathered = _Gathered(len(message), self._send)
            for each in message:
                self._handle(each, gathered.answer)

    def _handle(self, message: Json, answer: Callable[[Json], None]) -> None:
        """Answer a request, take note of a notification; anything else is a mistake of the client's.

        `answer` is called once, now or later; with None where there is nothing to say.
        """
        if not isinstance(message, dict):
            answer(_error(None, INVALID_REQUEST, "a message is an object"))
            return
        method, params, given = message.get("method"), message.get("params", {}), message.get("id")
        if method is None and ("result" in message or "error" in message):
            answer(None)  # it answers a question that was never asked
            return
        known = as_id(given)
        if message.get("jsonrpc") != "2.0":
            answer(_error(known, INVALID_REQUEST, 'a message says "jsonrpc": "2.0"'))
        elif not isinstance(method, str):
            answer(_error(known, INVALID_REQUEST, "a message names its method"))
        elif "id" not in message:
            # What wants no answer gets none, however wrong it is.
            if isinstance(params, dict):
                self._note(method, params)
            answer(None)
        elif known is None:
            answer(_error(None, INVALID_REQUEST, "an id is a string or a whole number"))
        elif not isinstance(params, dict):
            answer(_error(known, INVALID_PARAMS, "params is an object"))
        else:
            self._start(known, method, params, answer)

    def _note(self, method: str, params: Params) -> None:
        taken_back = self._server.notification(method, params)
        call = self._calls.get(taken_back) if taken_back is not None else None
        if call is not None:
            call.cancelled = True

    def _start(self, given: Id, method: str, params: Params, answer: Callable[[Json], None]) -> None:
        lane = self._server.lane(method, params)
        if lane is Lane.AT_ONCE:
            answer(self._result(given, method, params))
            return
        self._slots.acquire()
        call = _Call(given, method, params, answer, self._last_change)
        self._calls[given] = call
        if lane is Lane.CHANGE:
            self._last_change = call.done
        work, most = (self._changes, 1) if lane is Lane.CHANGE else (self._looks, LOOKS)
        if self._workers[lane] < min(most, len(self._calls)):
            self._workers[lane] += 1
            # A thread that a stuck call holds must not hold up the process's end.
            threading.Thread(target=self._work, args=(work,), name=f"cofio-{lane.name.lower()}", daemon=True).start()
        work.put(call)

    def _work(self, work: queue.SimpleQueue[_Call]) -> None:
        while True:
            call = work.get()
            if call.after is not None:
                call.after.wait()
            answer = None if call.cancelled else self._result(call.id, call.method, call.params)
            call.answer(None if call.cancelled else answer)
            if self._calls.get(call.id) is call:
                del self._calls[call.id]
            call.done.set()
            self._slots.release()

    def _result(self, given: Id, method: str, params: Params) -> Json:
        try:
            return {"jsonrpc": "2.0", "id": given, "result": self._server.request(method, params)}
        except Refused as error:
            return _error(given, error.code, error.message, error.data)
        except Exception as error:  # a fault of ours: the client gets an answer, and the connection lives on
            return _error(given, INTERNAL_ERROR, f"cofio has a fault: {type(error).__name__}: {error}")

    def _send(self, message: Json) -> None:
        if message is None or self._gone:
            return
        try:
            frame = _encode(message).encode() + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold and UTF-8 cannot
            frame = _encode_ascii(message).encode() + b"\n"
        try:
            with self._writing:
                self._writes.write(frame)
                self._writes.flush()
        except (BrokenPipeError, ValueError):  # the client has closed its end, or we ours
            self._gone = True


class _Gathered:
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


def _error(given: Id | None, code: int, message: str, data: Json = None) -> Json:
    error: dict[str, Json] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": given, "error": error}


def as_id(value: Json) -> Id | None:
    """The value as the id of a request; None when it cannot be one."""
    return value if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)) else None


def _no_number(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")
