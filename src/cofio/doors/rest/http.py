"""The API over HTTP: bodies are bounded, tokens held to their limits, and every answer has its envelope."""

from __future__ import annotations

import logging
import threading
import time
from asyncio import CancelledError, get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...content import ContentReader, FetchPolicy, Unreadable
from ...conversations.conversations import Conversations
from ...conversations.mirror import Mirror
from ...engine.engine import Engine
from ...text.jsonl import dump_line
from ...values.errors import Conflict, Invalid, NotFound, Unavailable
from ..web.http import FaultLog, failure, request_id
from .assistant import Assistant
from .calls import VERSIONS, Call, Parse
from .catalogue import CALLS
from .filters import BadFilter
from .health import describe_health
from .jobs import Jobs
from .operations import Verbs
from .replies import Caller, RequestError
from .requests import Placed

DEGRADED = "x-cofio-degraded"
PREFIX = f"{VERSIONS[0]}/memory"
WRITERS = 16  # calls that change something at once: most of them wait, and those that wait share a commit
READERS = 4  # calls that only look at once: they hardly wait, so more would but get into each other's way
LEAVING = 2.0  # seconds that calls and jobs have to end once nobody waits for their answers any more
UPLOADERS = 3  # files that are read and stored at once: a large one takes some 200 MB for that, and a model its time
STOPPED = "The server was stopped before this was finished; it may have been done: look before you send it again"
_faults = FaultLog(logging.getLogger("cofio.rest"))


AREAS = tuple(dict.fromkeys(f"{version}/{call.path.partition('/')[0]}" for version in VERSIONS for call in CALLS))
"""What the addresses begin with at which tokens are held to their limits here."""


def judges(path: str) -> bool:
    """Whether a token that is limited may ask for the path, because a call there holds it to its limits."""
    return path.startswith(_JUDGED) or path in _WHOLE


_JUDGED = tuple(f"{area}/" for area in AREAS)
_WHOLE = frozenset(address for call in CALLS for address in call.addresses if "{" not in address)


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
        fetching: FetchPolicy = FetchPolicy(),  # noqa: B008  # frozen, and it allows nothing
        mirror: Callable[[Engine], Mirror | None] = lambda _: None,
        quiet: timedelta = timedelta(),  # a value
        folder: Path | None = None,
    ) -> None:
        """`engine` gives the memory when a call comes in, and may raise Unavailable; `mirror` gives what follows it.

        Sessions that have been `quiet` for so long are carved, unless that is no time at all. Files that are sent wait
        in `folder`, where nobody else sees them, and without one in memory.
        """
        self._engine = engine
        self._folder = folder
        self._mirror = mirror
        self._zone = zone
        self._opened: Verbs | None = None
        self._opening = threading.Lock()
        self._writers = ThreadPoolExecutor(WRITERS, "cofio-rest-write")
        self._readers = ThreadPoolExecutor(READERS, "cofio-rest-read")
        self._uploaders = ThreadPoolExecutor(UPLOADERS, "cofio-rest-upload")
        self._assistant = assistant
        self._reading = ContentReader(fetching, None if assistant is None else assistant.model)
        spending = None if assistant is None else assistant.spending
        self.jobs = Jobs(lambda: self._verbs().conversations, spending, quiet=quiet)

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
        return [
            Route(address, _Called(self, call), methods=[call.method]) for call in CALLS for address in call.addresses
        ]

    def health(self) -> dict[str, Any]:
        """What the server can do and how it is getting on, as far as it can be told without waiting for anything.

        Raises:
            Unavailable: the memory cannot be used.
        """
        return describe_health(self._engine(), self.jobs, self._zone, has_model=self._assistant is not None)

    def stop_waiting(self) -> None:
        """Let no call and no job wait for a model any more: they go on at once as if it could not be asked."""
        if self._assistant is not None:
            self._assistant.close()
        self.jobs.stop()

    def close(self) -> None:
        """Finish the calls and the jobs at hand, as far as they can be finished soon; those behind them are dropped."""
        self.stop_waiting()
        self._reading.close()  # the time that it had is over
        pools = (self._writers, self._readers, self._uploaders)
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)

        def wait_for_all() -> None:
            for pool in pools:
                pool.shutdown()

        # A pool is waited for without limit, or not at all: so a thread waits that need not be waited for.
        ending = threading.Thread(target=wait_for_all, name="cofio-rest-end", daemon=True)
        ending.start()
        until = time.monotonic() + LEAVING
        ending.join(LEAVING)
        self.jobs.close(until - time.monotonic())

    async def answer(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in a request for a call, and send what comes of it."""
        try:
            parse = await call.reads(scope, receive, self._folder)
        except RequestError as error:
            response = self._failure(scope, error)
        else:
            threads = self._uploaders if call.uploads else self._writers if call.writes else self._readers
            try:
                response = await get_running_loop().run_in_executor(threads, partial(self._reply, call, parse, scope))
            except CancelledError:  # the time is up that a server which is being stopped gives to its calls
                response = self._failure(scope, RequestError(503, STOPPED))
        await response(scope, receive, send)

    def _failure(self, scope: Scope, error: RequestError) -> Response:
        return failure(scope, error.status, str(error), self._zone, code=error.code, headers=error.headers)

    def _reply(self, call: Call, parse: Parse, scope: Scope) -> Response:
        try:
            asked = _validated(call.takes, parse())
            caller = Caller(request_id(scope), scope["state"].get("token"))
            if isinstance(asked, Placed) and caller.token is not None:
                refused = caller.token.refuses(app=asked.app_id, project=asked.project_id, writes=call.writes)
                if refused:
                    raise RequestError(403, refused)
            reply = call.does(self._verbs(), asked, caller)
        except Exception as error:  # every failure has its envelope, also one that nobody thought of
            told = _told(error)
            if told.status >= 500:
                _faults.report(f"{request_id(scope)} to {scope['path']}", error)
            return self._failure(scope, told)
        if reply.file is not None:
            return Response(reply.file.data, reply.status, reply.file.headers, media_type=reply.file.mime)
        if reply.status == 204:
            return Response(status_code=204)
        if call.bare:
            return Response(dump_line(reply.data).encode(), reply.status, media_type="application/json")
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


def _validated(takes: type[BaseModel], body: object) -> BaseModel:
    try:
        return takes.model_validate(body, from_attributes=True)
    except ValidationError as error:
        raise RequestError(422, first_error(error)) from error


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong with a body, and where it is."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{first['msg']}: {where}" if where else first["msg"]


def _told(error: Exception) -> RequestError:
    """The status and the words for what went wrong."""
    match error:
        case RequestError():
            return error
        case Unreadable():
            return RequestError(415, str(error))
        case BadFilter() | Invalid():
            return RequestError(422, str(error))
        case NotFound():
            return RequestError(404, f"no memory has the id {error.what!r} here")
        case Conflict():
            return RequestError(409, error.what if " " in error.what else str(error))
        case Unavailable():  # whose sentence may name a folder of this machine
            return RequestError(503, error.public or "The memory cannot be used at the moment")
    return RequestError(500, "Internal server error")
