"""A request that another worker has to answer, as only that one holds the session: it goes there and back whole."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .links import BODY, END, HEAD, Link, Question, Switchboard

PARTS = ("method", "path", "scheme", "http_version")
_log = logging.getLogger("cofio.serve")


class Unreachable(Exception):
    """The worker that has to answer takes no more requests just now. Nothing was done."""


class BrokenOff(Exception):
    """The worker that had the request has ended before it answered. What was asked for may have been done."""


class Relay:
    """Passes requests on to other workers."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard

    async def pass_on(self, number: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered by the worker with that number.

        Raises:
            Unreachable: that worker cannot be reached.
            BrokenOff: it has ended, and nothing was answered.
        """
        end = self._switchboard.call(number, wait=False)  # the event loop waits for no one
        if end is None:
            raise Unreachable
        link = await Link.open(end)
        sender = asyncio.ensure_future(_send_request(link, scope, receive))
        try:
            await _receive_answer(link, send)
        finally:
            sender.cancel()
            link.close()


async def _send_request(link: Link, scope: Scope, receive: Receive) -> None:
    """Send a request, and end the link when its client goes."""
    try:
        await link.send(HEAD, json.dumps(_pack_scope(scope)).encode())
        while (message := await receive())["type"] == "http.request":
            if message.get("body"):
                await link.send(BODY, message["body"])
            if not message.get("more_body", False):
                await link.send(END)
    except OSError:  # the worker has gone, which the answer shows
        return
    link.close()


async def _receive_answer(link: Link, send: Send) -> None:
    has_begun = False
    while (frame := await link.receive()) is not None:
        kind, content = frame
        if kind == HEAD:
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
