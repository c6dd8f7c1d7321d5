"""An OpenAI-compatible endpoint on this machine, for chat completions and for responses, which plays a script.

with Endpoint() as endpoint:
    endpoint.script = ["Hello!", Call("add", {"a": 1, "b": 2}), "It is three."]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any

from tests.waiting import join


@dataclass(frozen=True, slots=True)
class Call:
    """The model wants a tool to be called."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str = "call_1"


class Endpoint:
    """The server; `asked` are the bodies of the requests that came."""

    def __init__(self) -> None:
        self.script: list[str | Call] = []
        self.asked: list[dict[str, Any]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.asked.append(body)
                said = endpoint.script.pop(0)
                shape = SHAPES[self.path.removeprefix("/v1")]
                answer = json.dumps(shape(said, len(endpoint.asked))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """The API's root."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def play(self, *script: str | Call) -> None:
        """Say this next."""
        self.script = list(script)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        join(self._thread)


def texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What is said in the messages, or items, of a request."""
    said = []
    for message in messages:
        content = message.get("content", message.get("output"))
        said.append(content if isinstance(content, str) else "".join(part.get("text", "") for part in content or []))
    return said


def _completion(said: str | Call, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if isinstance(said, Call):
        function = {"name": said.name, "arguments": json.dumps(said.arguments)}
        message["tool_calls"] = [{"id": said.id, "type": "function", "function": function}]
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1_700_000_000, "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }  # fmt: skip


def _response(said: str | Call, number: int) -> dict[str, Any]:
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [{"type": "summary_text", "text": "I ponder."}]}
    if isinstance(said, Call):
        output: dict[str, Any] = {
            "type": "function_call", "id": f"fc_{number}", "call_id": said.id, "name": said.name,
            "arguments": json.dumps(said.arguments), "status": "completed",
        }  # fmt: skip
    else:
        content = [{"type": "output_text", "text": said, "annotations": []}]
        output = {
            "type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content,
        }  # fmt: skip
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1_700_000_000, "model": "scripted",
        "status": "completed", "output": [thought, output], "parallel_tool_calls": False, "tool_choice": "auto",
        "tools": [], "usage": USAGE,
    }  # fmt: skip


def _compaction(said: str | Call, number: int) -> dict[str, Any]:
    message = {"type": "message", "id": "m", "role": "user", "content": [{"type": "input_text", "text": said}]}
    compaction = {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "gAAAA"}
    return {
        "id": f"resp_{number}", "object": "response.compaction", "created_at": 1_700_000_000,
        "output": [message, compaction], "usage": USAGE,
    }  # fmt: skip


USAGE = {
    "input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip
SHAPES = {"/chat/completions": _completion, "/responses": _response, "/responses/compact": _compaction}
