"""The API over HTTP: bodies are bounded, tokens held to their limits, and every answer has its envelope."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...content import ContentReader, FetchPolicy
from ...conversations.conversations import Conversations
from ...conversations.projects import Project
from ...engine.jobs import JOB_KINDS, get_job_scope
from ...http.admission import (
    MAX_LARGE_CALL_SECONDS,
    CallQueue,
    ServerLoad,
    get_client,
    get_gone_check,
)
from ...http.bodies import SMALL_BODY_BYTES, is_large
from ...http.errors import FaultLog, RequestError, describe_failure, get_request_id, render_failure
from ...text.jsonl import dump_line
from ...values.records import Scope as MemoryScope
from ...values.scopes import CONVERSATIONS, MODEL_USAGE
from .assistant import Assistant
from .calls import VERSIONS, Call, Fields, Parse
from .catalogue import CALLS
from .forms import Upload
from .health import describe_health
from .operations import Operations
from .replies import Caller
from .requests import ProjectRequest

DEGRADED = "x-cofio-degraded"
PREFIX = f"{VERSIONS[0]}/memory"
WRITERS = 16  # calls that change something at once: most of them wait, and those that wait share a commit
READERS = 4  # calls that only look at once: they hardly wait, so more would but get into each other's way
CLOSE_SECONDS = 2.0  # that calls have to end after the server has stopped
UPLOADERS = 3  # files that are read and stored at once: a large one takes some 200 MB for that, and a model its time
MAX_CLIENT_NAME = 128  # characters of an app's or a project's name
STOPPED = "The server was stopped before this was finished; it may have been done: look before you send it again"
_faults = FaultLog(logging.getLogger("cofio.rest"))


AREAS = tuple(dict.fromkeys(f"{version}/{call.path.partition('/')[0]}" for version in VERSIONS for call in CALLS))
"""What the addresses begin with at which tokens are held to their limits here."""


def checks_tokens(path: str) -> bool:
    """Whether a token that is limited may ask for the path, because a call there holds it to its limits."""
    return path.startswith(_PREFIXES) or path in _ADDRESSES


_PREFIXES = tuple(f"{area}/" for area in AREAS)
_ADDRESSES = frozenset(address for call in CALLS for address in call.addresses if "{" not in address)


class _CallApp:
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
        conversations: Conversations,
        zone: tzinfo,
        *,
        assistant: Assistant | None = None,
        fetch_policy: FetchPolicy = FetchPolicy(),  # noqa: B008  # frozen, and it allows nothing
        folder: Path | None = None,
        load: ServerLoad | None = None,
        processes: int = 1,
        wake: Callable[[], None] | None = None,
        count_failed: Callable[[], int] | None = None,
    ) -> None:
        """Files that are sent wait in `folder`, which only this user can read; without one they stay in memory.

        `load` is that of the server that the door belongs to. `processes` share the work of the server, so that each
        needs fewer threads for it. `wake` is called when there is a new job; `count_failed` counts those that failed.
        """
        self.conversations = conversations
        self._zone = zone
        self._folder = folder
        self._assistant = assistant
        self._count_failed = count_failed
        self._content_reader = ContentReader(fetch_policy, None if assistant is None else assistant.model)
        self._operations = Operations(conversations, zone, wake or (lambda: None), assistant, self._content_reader)
        self._load = load = load or ServerLoad()
        writers, large = max(4, WRITERS // processes), MAX_LARGE_CALL_SECONDS
        self._writers = CallQueue(writers, "rest", load)
        self._flushers = CallQueue(writers, "rest", load, max_seconds=large)  # which wait for a model, and for no other
        self._readers = CallQueue(max(2, READERS // processes), "rest", load)
        self._uploaders = CallQueue(max(1, UPLOADERS // processes), "rest", load, max_seconds=large)

    def make_routes(self) -> list[Route]:
        """The addresses of the calls."""
        return [
            Route(address, _CallApp(self, call), methods=[call.method]) for call in CALLS for address in call.addresses
        ]

    def check_health(self) -> dict[str, Any]:
        """Return what the server can do and how it is getting on, as far as that is known without waiting."""
        failed = 0 if self._count_failed is None else self._count_failed()
        return describe_health(self.conversations.engine, has_model=self._assistant is not None, failed=failed)

    def stop_waiting(self) -> None:
        """Let no call wait for a model any more: they go on at once as if it could not be asked."""
        self._operations.is_stopping = True
        if self._assistant is not None:
            self._assistant.close()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Finish the calls at hand, as far as they can be finished within `seconds`; those behind them are dropped."""
        self.stop_waiting()
        self._content_reader.close()  # the time that it had is over
        self._load.close(seconds)

    async def answer(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in a request for a call, and send what comes of it."""
        queue = self._choose_queue(call)
        client = get_client(scope)
        try:
            if is_large(scope):  # it would be read for nothing
                queue.check_room()
            parse = await call.reads(scope, receive, self._folder)
            if parse.size <= SMALL_BODY_BYTES:  # so soon done that it is not worth a thread
                fields = parse()
                parse = Fields(lambda: fields)
                client = client or _name_project(fields)
        except RequestError as error:
            response: Response = render_failure(scope, error, self._zone)
        else:
            is_gone = None if call.writes else get_gone_check(scope)
            try:
                response = await queue.run(partial(self._reply, call, parse, scope), is_gone, client=client)
            except RequestError as error:
                if isinstance(parse, Upload):
                    parse.close()
                response = render_failure(scope, error, self._zone)
            except CancelledError:  # the time is up that a server which is being stopped gives to its calls
                response = render_failure(scope, RequestError(503, STOPPED), self._zone)
        await response(scope, receive, send)

    def _choose_queue(self, call: Call) -> CallQueue:
        if call.uploads:
            return self._uploaders
        if call.waits_for_model and self._assistant is not None:
            return self._flushers
        return self._writers if call.writes else self._readers

    def _reply(self, call: Call, parse: Parse, scope: Scope) -> Response:
        try:
            request = _validate(call.takes, parse())
            caller = Caller(get_request_id(scope), scope["state"].get("token"))
            if isinstance(request, ProjectRequest) and caller.token is not None:
                refusal = caller.token.find_refusal(app=request.app_id, project=request.project_id, writes=call.writes)
                if refusal:
                    raise RequestError(403, refusal)
            do = partial(call.does, self._operations, request, caller)
            with self.conversations.engine.restrict(*_find_reach(request, caller)):
                # What a call that changes something reads, it reads where it is changed.
                reply = do() if call.writes else self.conversations.engine.run_on_replica(do)
        except Exception as error:  # every failure has its envelope, also an unexpected one
            failure = describe_failure(error)
            if failure.status >= 500:
                _faults.report(f"{get_request_id(scope)} to {scope['path']}", error)
            return render_failure(scope, failure, self._zone)
        if reply.file is not None:
            return Response(reply.file.data, reply.status, reply.file.headers, media_type=reply.file.mime)
        if reply.status == 204:
            return Response(status_code=204)
        if call.bare:
            return Response(dump_line(reply.data).encode(), reply.status, media_type="application/json")
        envelope: dict[str, Any] = {"request_id": get_request_id(scope), "data": reply.data}
        meta: dict[str, Any] = {"notes": list(reply.notes)} if reply.notes else {}
        if reply.usage is not None and reply.usage.calls:
            meta["usage"] = {"calls": reply.usage.calls, "tokens": reply.usage.tokens}
        if meta:
            envelope["meta"] = meta
        content = dump_line(envelope, separators=(",", ":")).encode()
        # In a header: the envelope of an answer that is about to be complete is the same as that of one that is.
        headers = {DEGRADED: _make_ascii(reply.degraded)} if reply.degraded else None
        return Response(content, reply.status, headers, media_type="application/json")


def _find_reach(request: BaseModel, caller: Caller) -> tuple[MemoryScope, ...]:
    """The scopes that a call is about: those of its project, or of what its token is limited to; or all."""
    if isinstance(request, ProjectRequest):
        home = Project(app=request.app_id, name=request.project_id).scope
    elif caller.token is not None and caller.token.app is not None:
        home = CONVERSATIONS / caller.token.app
        home = home if caller.token.project is None else home / caller.token.project
    else:
        return (MemoryScope(),)
    return home, MODEL_USAGE, *(get_job_scope(kind, MemoryScope(*home.names[1:])) for kind in JOB_KINDS)


def _name_project(fields: object) -> str:
    """Return the app and project of a call, by which waiting is shared fairly where there are no several tokens."""
    names = (fields.get("app_id"), fields.get("project_id")) if isinstance(fields, dict) else ()
    return "/".join(each[:MAX_CLIENT_NAME] for each in names if isinstance(each, str))


def _make_ascii(sentence: str) -> str:
    return "".join(letter if " " <= letter <= "~" else "?" for letter in sentence)


def _validate(takes: type[BaseModel], body: object) -> BaseModel:
    try:
        return takes.model_validate(body, from_attributes=True)
    except ValidationError as error:
        raise RequestError(422, describe_first_error(error)) from error


def describe_first_error(error: ValidationError) -> str:
    """The first thing that is wrong with a body, and where it is."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{first['msg']}: {where}" if where else first["msg"]
