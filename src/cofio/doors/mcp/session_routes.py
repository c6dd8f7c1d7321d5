"""Which of several workers answers a request over MCP: the one that holds its session, which the session's id names."""

from __future__ import annotations

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from ..web.board import Board
from ..web.overload import REFUSAL, RETRY_AFTER
from ..web.relay import LONGEST_WAIT, AnswerTimeout, BrokenOff, Relay, Unreachable

BROKEN_OFF = (
    "the process that held this session ended before it answered; it may have been done: look before you ask again"
)
UNANSWERED = (
    f"the process that holds this session did not answer within {LONGEST_WAIT:g} seconds; it may have been done:"
    " look before you ask again"
)
_NAME = MCP_SESSION_ID_HEADER.lower().encode()


class SessionRouter:
    """Stands before a worker's door: it adds the worker's number to the id of each new session, and takes it off again.

    A request of a session that another worker holds goes there, however its connection came here.
    """

    def __init__(self, door: ASGIApp, number: int, board: Board, relay: Relay) -> None:
        self._door = door
        self._number = number
        self._board = board
        self._relay = relay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER, "")
        name, _, owner = session.rpartition("-")
        number = int(owner) if name and owner.isdecimal() and len(owner) < 4 else self._number
        if number == self._number:
            await self.answer(scope, receive, send)
            return
        if not self._board.is_up(number) or number == self._board.background:
            # The session is lost, as if the server had been started again; this is what the SDK answers then.
            await _render_failure(404, "Session not found")(scope, receive, send)
            return
        try:
            await self._relay.pass_on(number, scope, receive, send)
        except Unreachable:
            headers = {"Retry-After": str(RETRY_AFTER)}
            await _render_failure(503, REFUSAL, headers)(scope, receive, send)
        except BrokenOff:
            await _render_failure(502, BROKEN_OFF)(scope, receive, send)
        except AnswerTimeout:
            await _render_failure(504, UNANSWERED)(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose session, if it has one, is held here."""
        suffix = f"-{self._number}".encode()

        async def send_with_number(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, value + suffix if name.lower() == _NAME else value) for name, value in message["headers"]
                ]
                message = {**message, "headers": headers}
            await send(message)

        headers = [
            (name, value.removesuffix(suffix) if name == _NAME else value) for name, value in scope["headers"]
        ]  # fmt: skip
        await self._door({**scope, "headers": headers}, receive, send_with_number)


def _render_failure(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    failure = {"code": INVALID_REQUEST if status == 404 else INTERNAL_ERROR, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": failure}, status, headers)
