"""The API over HTTP: bodies are bounded, tokens held to their limits, and every answer has its envelope."""

from __future__ import annotations

import json
import logging
import threading
from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import Any, NoReturn

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...content import Fetching, Reading, Unreadable
from ...engine import Engine
from ...errors import Conflict, Invalid, NotFound, Unavailable
from ...jsonl import dump_line
from ...sessions import Conversations
from ...sessions.mirroring import Mirror
from ..http import FaultLog, NotJson, TooLong, failure, read_body, request_id
from ..json_limits import JsonLimits, TooComplex
from ..tokens import Token
from .assistant import Assistant
from .filters import BadFilter
from .jobs import Jobs
from .requests import (
    AddRequest,
    DeleteRequest,
    FlushRequest,
    GetRequest,
    JobsRequest,
    Placed,
    SearchRequest,
    UpdateRequest,
)
from .verbs import Reply, Verbs

DEGRADED = "x-cofio-degraded"
PREFIX = "/api/v1/memory"
MAX_BODY = 16_777_216  # bytes
LIMITS = JsonLimits()
WRITERS = 16  # calls that change something at once: most of them wait, and those that wait share a commit
READERS = 4  # calls that only look at once: they hardly wait, so more would but get into each other's way
_faults = FaultLog(logging.getLogger("cofio.rest"))


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the API: its name, what it takes, and whether it changes anything."""

    name: str
    takes: type[Placed]
    writes: bool
    does: Callable[[Verbs, Any], Reply]


CALLS = (
    Call("add", AddRequest, True, Verbs.add),
    Call("flush", FlushRequest, True, Verbs.flush),
    Call("search", SearchRequest, False, Verbs.search),
    Call("get", GetRequest, False, Verbs.get),
    Call("delete", DeleteRequest, True, Verbs.delete),
    Call("update", UpdateRequest, True, Verbs.update),
    Call("jobs", JobsRequest, False, Verbs.jobs),
)


class _Bad(Exception):
    """A request that cannot be met, with the status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Called:
    """A call as an application of its own, for which no framework is needed."""

    def __init__(self, door: Door, call: Call) -> None:
        self._door = door
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._door.answer(self._call, scope, receive, send)


class Door:
    """Answers the calls of the API, beside the event loop."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        zone: tzinfo,
        *,
        assistant: Assistant | None = None,
        fetching: Fetching = Fetching(),  # noqa: B008  # frozen, and it allows nothing
        mirror: Callable[[Engine], Mirror | None] = lambda _: None,
    ) -> None:
        """`engine` gives the memory when a call comes in, and may raise Unavailable; `mirror` gives what follows it."""
        self._engine = engine
        self._mirror = mirror
        self._zone = zone
        self._opened: Verbs | None = None
        self._opening = threading.Lock()
        self._writers = ThreadPoolExecutor(WRITERS, "cofio-rest-write")
        self._readers = ThreadPoolExecutor(READERS, "cofio-rest-read")
        self._assistant = assistant
        self._reading = Reading(fetching, None if assistant is None else assistant.model)
        self.jobs = Jobs(lambda: self._verbs().conversations, None if assistant is None else assistant.spending)

    def _verbs(self) -> Verbs:
        engine = self._engine()
        with self._opening:
            if self._opened is None:
                reader = None if self._assistant is None else self._assistant.reader
                conversations = Conversations(engine, zone=self._zone, reader=reader, mirror=self._mirror(engine))
                self._opened = Verbs(conversations, self._zone, self.jobs, self._assistant, self._reading)
            return self._opened

    @property
    def conversations(self) -> Conversations:
        """The conversations that the calls are about."""
        return self._verbs().conversations

    def routes(self) -> list[Route]:
        """The addresses of the calls."""
        return [Route(f"{PREFIX}/{call.name}", _Called(self, call), methods=["POST"]) for call in CALLS]

    def health(self) -> dict[str, Any]:
        """How the model is getting on, where there is one."""
        if self._assistant is None:
            return {}
        trouble = self.jobs.trouble
        state = {"status": "ok"} if trouble is None else {"status": "unavailable", "reason": trouble}
        return {"model": {**state, "waiting": self.jobs.waiting}}

    def close(self) -> None:
        """Finish the calls and the job at hand."""
        self._writers.shutdown()
        self._readers.shutdown()
        self.jobs.close()
        if self._assistant is not None:
            self._assistant.close()

    async def answer(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in a request for a call, and send what comes of it."""
        try:
            body = await read_body(scope, receive, MAX_BODY)
        except NotJson as error:
            response: Response = failure(scope, 415, str(error), self._zone)
        except TooLong:
            response = failure(scope, 413, f"the body is longer than {MAX_BODY:,} bytes", self._zone)
        else:
            work = partial(self._reply, call, body, scope)
            threads = self._writers if call.writes else self._readers
            response = await get_running_loop().run_in_executor(threads, work)
        await response(scope, receive, send)

    def _reply(self, call: Call, body: bytearray, scope: Scope) -> Response:
        try:
            asked = _validated(call.takes, _read(body))
            token: Token | None = scope["state"].get("token")
            refused = token and token.refuses(app=asked.app_id, project=asked.project_id, writes=call.writes)
            if refused:
                raise _Bad(403, refused)
            reply = call.does(self._verbs(), asked)
        except Exception as error:  # every failure has its envelope, also one that nobody thought of
            status, message = _told(error)
            if status >= 500:
                _faults.report(f"{request_id(scope)} to {scope['path']}", error)
            return failure(scope, status, message, self._zone)
        envelope: dict[str, Any] = {"request_id": request_id(scope), "data": reply.data}
        meta: dict[str, Any] = {"notes": list(reply.notes)} if reply.notes else {}
        if reply.usage is not None and reply.usage.calls:
            meta["usage"] = {"calls": reply.usage.calls, "tokens": reply.usage.tokens}
        if meta:
            envelope["meta"] = meta
        content = dump_line(envelope, separators=(",", ":")).encode()
        # In a header: the envelope of an answer that is about to be complete is the same as that of one that is.
        headers = {DEGRADED: _ascii(reply.degraded)} if reply.degraded else None
        return Response(content, reply.status, headers, media_type="application/json")


def _ascii(sentence: str) -> str:
    return "".join(letter if " " <= letter <= "~" else "?" for letter in sentence)


def _read(body: bytearray) -> object:
    """The JSON of a body, once it is clear that it is of bearable depth and size."""
    if not body:
        raise _Bad(422, "Field required")
    try:
        LIMITS.check(body)
        return json.loads(body.decode(), parse_constant=_no_number)  # UTF-8 alone: that is what was measured
    except TooComplex as error:
        raise _Bad(422, str(error)) from error
    except json.JSONDecodeError as error:
        raise _Bad(422, f"JSON decode error: {error.pos}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, or a number that is too long
        raise _Bad(422, "JSON decode error: 0") from error


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _validated(takes: type[Placed], body: object) -> Placed:
    try:
        return takes.model_validate(body, from_attributes=True)
    except ValidationError as error:
        raise _Bad(422, first_error(error)) from error


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong with a body, and where it is."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{first['msg']}: {where}" if where else first["msg"]


def _told(error: Exception) -> tuple[int, str]:
    """The status and the words for what went wrong."""
    match error:
        case _Bad():
            return error.status, str(error)
        case Unreadable():
            return 415, str(error)
        case BadFilter() | Invalid():
            return 422, str(error)
        case NotFound():
            return 404, f"no memory has the id {error.what!r} here"
        case Conflict():
            return 409, error.what if " " in error.what else str(error)
        case Unavailable():  # whose sentence may name a folder of this machine
            return 503, error.public or "The memory cannot be used at the moment"
    return 500, "Internal server error"
