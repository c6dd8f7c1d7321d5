"""The door on stdin and stdout: both eras of the protocol, on the small loop of our own.

The SDK would cost more than a second of start-up in every process that a client spawns, and a millisecond a call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from ...config.address import StoreAddress
from ...config.settings import Settings
from ...text.display import neutralise_line
from ...values.errors import CofioError
from ...values.records import Json
from ..jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Connection,
    Id,
    Lane,
    Params,
    RpcError,
    claim_stdout,
    parse_id,
    shut_down,
)
from ..lazy_memory import Memory
from .surface import CAPABILITIES, INFO, INSTRUCTIONS, STATELESS, Surface, describe_error
from .tools import TOOLS

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BATCHES = "2025-03-26"  # the one revision that knows arrays of messages
UNSUPPORTED_VERSION = -32022

_META = "io.modelcontextprotocol/"
_VERSION, _CLIENT = f"{_META}protocolVersion", f"{_META}clientCapabilities"
_CACHEABLE = ("server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read",
           "prompts/list")  # fmt: skip


class Server:
    """One client's server. Its first request decides the era: a handshake, or a version with every request."""

    def __init__(self, memory: Memory, *, allow_secrets: bool = False, structured: bool = False) -> None:
        self._memory = memory
        self._surface = surface = Surface(memory, allow_secrets=allow_secrets, structured=structured)
        self._methods: dict[str, Callable[[Params], dict[str, Json]]] = {
            "ping": lambda _: {},
            "tools/list": lambda _: surface.list_tools(),
            "tools/call": self._call_tool,
            "resources/list": lambda params: surface.list_resources(_get_cursor(params)),
            "resources/templates/list": lambda _: surface.list_templates(),
            "resources/read": lambda params: surface.read_resource(_get_text(params, "uri")),
            "prompts/list": lambda _: surface.list_prompts(),
            "prompts/get": lambda params: surface.get_prompt(_get_text(params, "name"), _get_arguments(params)),
        }
        self._revision: str | None = None
        """The revision of the handshake."""
        self._stateless = False

    @property
    def allows_batches(self) -> bool:
        """Whether the agreed revision knows arrays of messages."""
        return self._revision == BATCHES

    def choose_lane(self, method: str, params: Params) -> Lane:
        """How a request is run: what needs the memory, beside the reader."""
        if method in ("initialize", "server/discover"):
            return Lane.INLINE
        self._memory.prepare()  # the client is being answered: now the memory may take the time that it needs
        if method in ("resources/list", "resources/read", "prompts/get"):
            return Lane.READ
        if method != "tools/call":
            return Lane.INLINE
        name = params.get("name")
        tool = TOOLS.get(name) if isinstance(name, str) else None
        return Lane.READ if tool is None or tool.reads else Lane.WRITE

    def receive_notification(self, method: str, params: Params) -> Id | None:
        """Take note of a notification; the id of the request that it cancels."""
        if method == "notifications/initialized":
            self._memory.prepare()
        return parse_id(params.get("requestId")) if method == "notifications/cancelled" else None

    def run_request(self, method: str, params: Params) -> Json:
        """The result of a request.

        Raises:
            RpcError: the request cannot be answered in the era that the connection is in, or at all.
        """
        meta = params.get("_meta")
        has_envelope = method != "initialize" and isinstance(meta, dict) and _VERSION in meta
        if has_envelope and self._revision is not None:
            raise RpcError(INVALID_REQUEST, f"this connection began with a handshake, which {STATELESS} does not have")
        if not has_envelope and not self._stateless:
            return self._shake_hands(params) if method == "initialize" else self._run_method(method, params)
        if method == "initialize":
            raise RpcError(UNSUPPORTED_VERSION, f"this connection speaks {STATELESS}, which has no handshake",
                          {"supported": [STATELESS]})  # fmt: skip
        _check_envelope(meta)
        self._stateless = True
        result = self._describe_server() if method == "server/discover" else self._run_method(method, params)
        result |= {"resultType": "complete", "_meta": {f"{_META}serverInfo": INFO}}
        return result | ({"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {})

    def _shake_hands(self, params: Params) -> dict[str, Json]:
        version = params.get("protocolVersion")
        if not isinstance(version, str):
            raise RpcError(INVALID_PARAMS, "initialize says the protocolVersion that it wants, as in 2025-11-25")
        self._revision = version if version in HANDSHAKE else HANDSHAKE[-1]
        return {
            "protocolVersion": self._revision, "capabilities": CAPABILITIES, "serverInfo": INFO,
            "instructions": INSTRUCTIONS,
        }  # fmt: skip

    def _describe_server(self) -> dict[str, Json]:
        return {"supportedVersions": [STATELESS], "capabilities": CAPABILITIES, "instructions": INSTRUCTIONS}

    def _run_method(self, method: str, params: Params) -> dict[str, Json]:
        """What both eras have in common."""
        ask = self._methods.get(method)
        if ask is None or (method == "ping" and self._stateless):
            raise RpcError(METHOD_NOT_FOUND, "Method not found", method)
        try:
            return ask(params)
        except CofioError as error:
            raise describe_error(error, method=method, stateless=self._stateless) from None

    def _call_tool(self, params: Params) -> dict[str, Json]:
        return self._surface.call_tool(_get_text(params, "name"), _get_arguments(params))


def _get_text(params: Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} is a string")
    return value


def _get_arguments(params: Params) -> dict[str, Json]:
    arguments = params.get("arguments")
    if not isinstance(arguments, dict | None):
        raise RpcError(INVALID_PARAMS, "arguments is an object")
    return arguments or {}


def _get_cursor(params: Params) -> str | None:
    return None if params.get("cursor") is None else _get_text(params, "cursor")


def _check_envelope(meta: Json) -> None:
    """Raise RpcError unless a request says which revision it is of, and that is one that is served here."""
    if not isinstance(meta, dict) or _VERSION not in meta or _CLIENT not in meta:
        raise RpcError(INVALID_PARAMS, f"params._meta has to hold {_VERSION} and {_CLIENT}")
    version = meta[_VERSION]
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"{_VERSION} is a string")
    if version != STATELESS:
        versions: dict[str, Json] = {"supported": [STATELESS], "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", versions)


def run(address: StoreAddress, settings: Settings, *, allow_secrets: bool) -> int:
    """Serve the client on stdin and stdout until it closes its end; the exit code."""
    if sys.stdin.isatty():
        _say("this speaks MCP and is started by a client, which `cofio mcp config` tells how; Ctrl-D ends it")
    reads, writes = sys.stdin.buffer, claim_stdout()
    memory = Memory(address, replace(settings, allow_secrets=allow_secrets), say=_say)
    server = Server(memory, allow_secrets=allow_secrets, structured=settings.structured)
    left = Connection(server, reads, writes).run()
    if left:
        _say(f"the client has gone, and {left} of its calls with it")
    return shut_down(writes, memory.close, left)


def _say(line: str) -> None:
    print(f"cofio: {neutralise_line(line)}", file=sys.stderr, flush=True)
