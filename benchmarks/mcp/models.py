"""Models whose answers are written beforehand, behind the HTTP API that each client expects.

A real client that talks to one starts its MCP servers, declares their tools and passes their answers on as it always
does; what it sends is kept, and is exactly what a model would have read.
"""

from __future__ import annotations

import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Json: TypeAlias = Any
Call: TypeAlias = "tuple[str, dict[str, Json]]"
"""A tool by its own name, without what a client puts before it, and its arguments."""

DONE, WRITE = "done", "write_context"
_CHUNK_ID = re.compile(r"[0-9a-f]{10}\b")


@dataclass(frozen=True)
class Written:
    """Stands in a call for the id that an earlier write was answered with: the first is 0."""

    number: int


@dataclass
class Transcript:
    """What a model was shown of one MCP server."""

    declarations: list[Json] = field(default_factory=list)
    """The server's tools as declared to the model."""
    extra: dict[str, int] = field(default_factory=dict)
    """All other tools that it was offered, with the length of their declarations."""
    preamble: str = ""
    """Everything before the first tool call, as JSON: the client's own prompt, with the server's instructions in it."""
    calls: list[Call] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    """What each call came to, as the model was told."""


class Model(ABC):
    """A script of tool calls: one an answer, then a word to end with."""

    def __init__(self, tools: Sequence[str], calls: Sequence[Call], earlier: Transcript | None = None) -> None:
        """`earlier` is of a session before this one, whose writes count as this one's."""
        self._tools, self._calls = frozenset(tools), list(calls)
        self._earlier = earlier or Transcript()
        self.transcript = Transcript()
        self._lock = threading.Lock()

    def answer(self, path: str, request: Json) -> tuple[str, bytes]:
        """The type and the body of the answer to a request, in the API's form."""
        with self._lock:
            declared = self.find_tools(request)
            if not declared:  # a client's own question, such as for a title
                return self.render(path, request, None)
            shown = self.transcript
            shown.declarations = [tool for name, tool in declared if self._bare(name) in self._tools]
            shown.extra = {
                name: len(render_json(tool)) for name, tool in declared if self._bare(name) not in self._tools
            }
            if not shown.declarations:  # the client did not wait for its servers: nothing can be called yet
                return self.render(path, request, None)
            shown.results = self.find_results(request)
            if not shown.calls:
                shown.preamble = render_json(self.find_preamble(request))
            if len(shown.results) < len(shown.calls) or len(shown.calls) == len(self._calls):
                return self.render(path, request, None)
            tool, arguments = self._calls[len(shown.calls)]
            filled = {name: self._fill(value) for name, value in arguments.items()}
            shown.calls.append((tool, filled))
            name = next((name for name, _ in declared if self._bare(name) == tool), tool)
            return self.render(path, request, (name, filled))

    def _bare(self, name: str) -> str:
        return next((tool for tool in self._tools if name.endswith(tool)), name)

    def _fill(self, value: Json) -> Json:
        if not isinstance(value, Written):
            return value
        said = [
            pair for shown in (self._earlier, self.transcript) for pair in zip(shown.calls, shown.results, strict=False)
        ]
        writes = [result for (tool, _), result in said if tool == WRITE]
        found = _CHUNK_ID.search(writes[value.number])
        assert found, writes[value.number]
        return found[0]

    @abstractmethod
    def find_tools(self, request: Json) -> list[tuple[str, Json]]:
        """The tools that a request declares, with the names to call them by."""

    @abstractmethod
    def find_results(self, request: Json) -> list[str]:
        """The results of tool calls in a request, in order."""

    @abstractmethod
    def find_preamble(self, request: Json) -> Json:
        """What a request says before any tool was called."""

    @abstractmethod
    def render(self, path: str, request: Json, call: Call | None) -> tuple[str, bytes]:
        """An answer that calls a tool, or the last one."""


class AnthropicModel(Model):
    """The Messages API."""

    def find_tools(self, request: Json) -> list[tuple[str, Json]]:
        return [(tool.get("name", ""), tool) for tool in request.get("tools", [])]

    def find_results(self, request: Json) -> list[str]:
        blocks = [
            block
            for message in request.get("messages", [])
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
        return [join_text(block.get("content", "")) for block in blocks]

    def find_preamble(self, request: Json) -> Json:
        return [request.get("system", ""), request.get("messages", [])]

    def render(self, path: str, request: Json, call: Call | None) -> tuple[str, bytes]:
        if "count_tokens" in path:
            return _json({"input_tokens": 10})
        number = len(self.transcript.calls)
        block: dict[str, Json] = {"type": "text", "text": DONE}
        delta: Json = {"type": "text_delta", "text": DONE}
        if call is not None:
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": call[1]}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        stop = "tool_use" if call else "end_turn"
        message = {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": request.get("model", "scripted"),
            "content": [block], "stop_reason": stop, "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        if not request.get("stream"):
            return _json(message)
        nothing: dict[str, Json] = {"input": {}} if call else {"text": ""}
        events: list[Json] = [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": block | nothing},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        return _events(events, named=True)


class OpenAIModel(Model):
    """The Responses API, where a namespace may hold tools."""

    def find_tools(self, request: Json) -> list[tuple[str, Json]]:
        found: list[tuple[str, Json]] = []
        for tool in request.get("tools", []):
            if tool.get("type") == "namespace":
                found += [(f"{tool['name']}\0{each['name']}", each) for each in tool["tools"]]
            else:
                found.append((tool.get("name", tool.get("type", "")), tool))
        return found

    def find_results(self, request: Json) -> list[str]:
        said = [item for item in request.get("input", []) if item.get("type") == "function_call_output"]
        return [join_text(item["output"]) for item in said]

    def find_preamble(self, request: Json) -> Json:
        spaces = [tool.get("description") for tool in request.get("tools", []) if tool.get("type") == "namespace"]
        return [request.get("instructions", ""), request.get("input", []), spaces]

    def render(self, path: str, request: Json, call: Call | None) -> tuple[str, bytes]:
        number = len(self.transcript.calls)
        item: Json = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": DONE}]}
        if call is not None:
            space, _, name = call[0].rpartition("\0")
            item = {
                "type": "function_call",
                "call_id": f"call_{number}",
                "name": name,
                "arguments": json.dumps(call[1]),
            }
            item |= {"namespace": space} if space else {}
        response = {"id": f"resp_{number}"}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events: list[Json] = [
            {"type": "response.created", "response": response},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response | {"usage": usage, "output": [item]}},
        ]
        return _events(events, named=True)


class GeminiModel(Model):
    """The Gemini API."""

    def find_tools(self, request: Json) -> list[tuple[str, Json]]:
        declared = [each for tool in request.get("tools", []) for each in tool.get("functionDeclarations", [])]
        return [(each["name"], each) for each in declared]

    def find_results(self, request: Json) -> list[str]:
        parts = [part for content in request.get("contents", []) for part in content.get("parts", [])]
        said = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        return [render_json(each) for each in said]

    def find_preamble(self, request: Json) -> Json:
        return [request.get("systemInstruction", ""), request.get("contents", [])]

    def render(self, path: str, request: Json, call: Call | None) -> tuple[str, bytes]:
        part: Json = {"functionCall": {"name": call[0], "args": call[1]}} if call else {"text": DONE}
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        }
        return _events([answer], named=False) if "stream" in path else _json(answer)


def join_text(content: Json) -> str:
    """The text of a result, which may come in blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", json.dumps(block)) for block in content)


def render_json(value: Json) -> str:
    """A value as compact JSON, in which a letter is a character."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json(value: Json) -> tuple[str, bytes]:
    return "application/json", json.dumps(value).encode()


def _events(events: Sequence[Json], *, named: bool) -> tuple[str, bytes]:
    lines = (f"event: {event['type']}\n" if named else "" for event in events)
    body = "".join(f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True))
    return "text/event-stream", body.encode()


@contextmanager
def listen(model: Model) -> Iterator[str]:
    """Serve the model on a free port of this machine; the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self._send(*model.answer(self.path, json.loads(self.rfile.read(length) or b"{}")))

        def do_GET(self) -> None:
            self._send(*_json({}))

        def do_HEAD(self) -> None:
            self._send(*_json({}))

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
