"""What the tests of the memory tool share: the tool on an empty memory, and a Messages API that plays a script."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cofio import Engine, Record, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.files import Result, Tree, dispatch, home

SETTINGS = Settings(background=False, embedder="none", sync="normal")


class Tool:
    """The tool, called by a command's name: `tool.view(path=…)`."""

    def __init__(self, engine: Engine, scope: Scope, **options: Any) -> None:
        self.engine = engine
        self.scope = scope
        self.options = options
        self.tree = Tree(engine, scope)

    def run(self, command: object) -> Result:
        """What a whole command comes to."""
        return dispatch(self.engine, self.scope, command, **self.options)

    def __getattr__(self, name: str) -> Callable[..., Result]:
        return lambda **fields: self.run({"command": name, **fields})

    def made(self, path: str, text: str = "") -> str:
        """Make a file; its path."""
        said = self.create(path=path, file_text=text)
        assert not said.is_error, said
        return path

    def text(self, path: str) -> str | None:
        """What a file holds; None when there is none."""
        file = self.tree.get_file(path)
        return None if file is None else file.text

    @property
    def files(self) -> dict[str, str]:
        """Every file with its text."""
        return {str(file.key): file.text for file in self.tree.list_files()}

    @property
    def everything(self) -> list[Record]:
        """Every record of the store: what must be the same after an error."""
        return sorted(self.engine.export(), key=lambda record: record.id)

    def refuses(self, command: object) -> str:
        """The error text of a command that changes nothing."""
        before = self.everything
        said = self.run(command)
        assert said.is_error, said
        assert self.everything == before
        return said.content


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with nothing set."""
    for name in [
        name for name in os.environ if name.startswith(("COFIO_", "ANTHROPIC_")) or name == "AGENT_STORE_PATH"
    ]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def engine(store_address: StoreAddress) -> Iterator[Engine]:
    """An empty memory without background work."""
    with Engine.open(store_address, settings=SETTINGS, embedder=HashedEmbedder()) as opened:
        yield opened


@pytest.fixture
def tool(engine: Engine) -> Tool:
    """The tool with the documentation's strings."""
    return Tool(engine, home())


@pytest.fixture
def sdk(engine: Engine) -> Tool:
    """The tool with the SDK's strings, on the same files."""
    return Tool(engine, home(), strings="sdk")


class MessagesApi:
    """Answers as Claude would who works through a list of commands; with whole histories (1.x) and threads (2.x)."""

    def __init__(self, script: list[Any]) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.threaded = False
        api = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = json.dumps(api.answer(body)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The next message of the assistant."""
        self.requests.append(body)
        thread = body.get("thread") or {}
        self.threaded = self.threaded or bool(thread)
        if thread.get("type") == "continue":
            turn = int(thread["previous_message_id"].removeprefix("msg_")) + 1
        else:
            turn = sum(message["role"] == "assistant" for message in body["messages"])
        more = turn < len(self.script)
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "memory"}
        content = [use | {"input": self.script[turn]}] if more else [{"type": "text", "text": "done"}]
        return {
            "id": f"msg_{turn}", "type": "message", "role": "assistant", "model": body["model"], "content": content,
            "stop_reason": "tool_use" if more else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip

    @property
    def results(self) -> list[tuple[str, bool]]:
        """What came back for each tool_use, in order: the text, and whether it was an error."""
        found: dict[str, tuple[str, bool]] = {}
        for request in self.requests:
            for message in request["messages"]:
                blocks = message["content"] if isinstance(message["content"], list) else []
                for block in blocks:
                    if block["type"] == "tool_result":
                        found[block["tool_use_id"]] = (_text(block["content"]), block.get("is_error", False))
        return [found[f"toolu_{turn}"] for turn in range(len(found))]

    def close(self) -> None:
        """Stop the server."""
        self.server.shutdown()
        self.server.server_close()


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


@pytest.fixture
def messages_api() -> Iterator[Callable[[list[Any]], MessagesApi]]:
    """Starts a Messages API that plays a script."""
    running: list[MessagesApi] = []

    def start(script: list[Any]) -> MessagesApi:
        running.append(MessagesApi(script))
        return running[-1]

    yield start
    for each in running:
        each.close()
