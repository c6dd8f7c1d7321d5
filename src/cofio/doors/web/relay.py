"""A request that another worker has to answer, as only that one holds the session: it goes there and back whole."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .links import BODY, END, HEAD, Link, Question, Switchboard

LONGEST_WAIT = 60.0  # seconds that another worker has to take in a piece of a request, and to begin its answer
PARTS = ("method", "path", "scheme", "http_version")
_log = logging.getLogger("cofio.serve")


class Unreachable(Exception):
    """The worker that has to answer takes no more requests just now. Nothing was done."""


class BrokenOff(Exception):
    """The worker that had the request has ended before it answered. What was asked for may have been done."""


class AnswerTimeout(Exception):
    """The worker that had the request did not begin to answer in time. What was asked for may have been done."""


class Relay:
    """Passes requests on to other workers."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard

    async def pass_on(self, number: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered by the worker with that number.

        Raises:
            Unreachable: that worker cannot be reached.
            BrokenOff: it has ended, and nothing was answered.
            AnswerTimeout: it has not ended, and did not answer in time either.
        """
        end = self._switchboard.call(number, wait=False)  # the event loop waits for no one
        if end is None:
            raise Unreachable
        link = await Link.open(end)
        try:
            async with asyncio.timeout(LONGEST_WAIT) as limit:
                timer = _AnswerTimer(limit)
                sender = asyncio.ensure_future(_send_request(link, scope, receive, timer))
                try:
                    await _receive_answer(link, send, timer)
                finally:
                    sender.cancel()
        except TimeoutError:
            raise AnswerTimeout from None
        finally:
            link.close()


class _AnswerTimer:
    """Runs while the other worker is waited for, not while the client is, until the answer begins."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._is_over = False

    def start(self) -> None:
        self._set(asyncio.get_running_loop().time() + LONGEST_WAIT)

    def pause(self) -> None:
        self._set(None)

    def end(self) -> None:
        self._set(None)
        self._is_over = True

    def _set(self, when: float | None) -> None:
        if not self._is_over and not self._limit.expired():
            self._limit.reschedule(when)


async def _send_request(link: Link, scope: Scope, receive: Receive, timer: _AnswerTimer) -> None:
    """Send a request, and end the link when its client goes."""
    try:
        await link.send(HEAD, json.dumps(_pack_scope(scope)).encode())
        is_whole = False
        while not is_whole:
            timer.pause()
            message = await receive()
            if message["type"] != "http.request":
                link.close()
                return
            timer.start()
            if message.get("body"):
                await link.send(BODY, message["body"])
            is_whole = not message.get("more_body", False)
        await link.send(END)
        while (await receive())["type"] == "http.request":
            pass
    except OSError:  # the worker has gone, which the answer shows
        return
    link.close()


async def _receive_answer(link: Link, send: Send, timer: _AnswerTimer) -> None:
    has_begun = False
    while (frame := await link.receive()) is not None:
        kind, content = frame
        if kind == HEAD:
            timer.end()  # what has begun may be a stream that stands open
            start = json.loads(content)
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in start["headers"]]
            await send({"type": "http.response.start", "status": start["status"], "headers": headers})
            has_begun = True
        else:
            await send({"type": "http.response.body", "body": content, "more_body": kind == BODY})
        if kind == END:
            return
    if not has_begun:
        raise BrokenOff
    # The connection is closed without an end, so that no one takes what there is of the answer for the whole.
    raise ClientDisconnect


def _pack_scope(scope: Scope) -> Question:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    query = scope["query_string"].decode("latin-1")
    request_id = scope["state"]["request_id"]
    return {
        "kind": "http", "headers": headers, "query": query, "request_id": request_id,
        **{part: scope.get(part, "") for part in PARTS},
    }  # fmt: skip


async def answer_for(app: ASGIApp, question: Question, link: Link) -> None:
    """Have an application answer a request that came over a link."""
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "root_path": "", "client": None, "server": None,
        "raw_path": question["path"].encode(), "query_string": question["query"].encode("latin-1"),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in question["headers"]],
        "state": {"request_id": question["request_id"]},
        **{part: question[part] for part in PARTS},
    }  # fmt: skip

    async def receive() -> Message:
        frame = await link.receive()
        if frame is None:
            return {"type": "http.disconnect"}
        kind, content = frame
        return {"type": "http.request", "body": content, "more_body": kind == BODY}

    has_begun = False

    async def send(message: Message) -> None:
        nonlocal has_begun
        if message["type"] == "http.response.start":
            has_begun = True
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            await link.send(HEAD, json.dumps({"status": message["status"], "headers": headers}).encode())
        else:
            await link.send(BODY if message.get("more_body", False) else END, message.get("body", b""))

    try:
        await app(scope, receive, send)
    except (OSError, ClientDisconnect):  # who asked has gone
        pass
    except Exception as error:  # as a server answers it
        _log.error("request %s failed with %s", question["request_id"], type(error).__name__)
        if not has_begun:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body"})
