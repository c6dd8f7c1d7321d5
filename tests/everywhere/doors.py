"""Every door open on one store, each as its own clients use it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from starlette.applications import Starlette
from starlette.testclient import TestClient
from tests.doors.animus.conftest import Inside
from tests.doors.mcp.conftest import SETTINGS, Pipes, Tools
from tests.doors.rest.conftest import Api, serving

from cofio import Engine
from cofio.config.address import StoreAddress
from cofio.doors import cli
from cofio.doors.lazy_memory import Memory
from cofio.doors.memory_tool import http as memory_tool
from cofio.embed.hashed import HashedEmbedder
from cofio.library.cofio_store import CofioStore
from cofio.library.langgraph.store import CofioLangGraphStore

T = TypeVar("T")


class Doors:
    """Clients of every door: MCP, Animus, REST, the memory tool, the library's two stores and the command line.

    MCP, Animus, REST and the library have an engine each, as processes of their own would; the command line opens one
    for each command. That of the library and that of MCP work in the background.
    """

    mcp: Tools
    animus: Inside
    api: Api
    engine: Engine
    library: CofioStore
    langgraph: CofioLangGraphStore

    def __init__(self, store: StoreAddress, root: Path) -> None:
        self.store = store
        self.root = root
        self.loop = asyncio.new_event_loop()
        self._open()

    def _open(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, COFIO_STORE=self.store.spell()))  # for a plugin of Animus
            self.engine = stack.enter_context(Engine.open(self.store, settings=SETTINGS))
            self.library = CofioStore(self.engine)
            self.langgraph = CofioLangGraphStore(self.engine)
            memory = Memory(self.store, SETTINGS, say=lambda _: None)
            stack.callback(memory.close)
            pipes = Pipes(memory)
            stack.callback(pipes.close)
            self.mcp = Tools(pipes)
            self.api, _ = stack.enter_context(serving(self.store, embedder=HashedEmbedder()))
            tool = Starlette(routes=memory_tool.make_routes(lambda: self.api.engine))
            self._files = stack.enter_context(TestClient(tool, base_url="http://localhost"))
            self.animus = Inside()
            stack.callback(self.animus.close)
            self.animus.initialize(self.root)
            self._stack = stack.pop_all()

    def restart(self) -> None:
        """Close every door, and open it again."""
        self._stack.close()
        self._open()

    def close(self) -> None:
        """Close every door."""
        self._stack.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self.loop.run_until_complete(call)

    def files(self, owner: str, command: str, **fields: str) -> tuple[str, bool]:
        """What the memory tool answers to a command, and whether that is an error."""
        answer = self._files.post(memory_tool.PATH, params={"owner": owner}, json={"command": command, **fields})
        assert answer.status_code == 200, answer.text
        said = json.loads(answer.content)
        return said["content"], said["is_error"]

    def cli(self, *argv: str, code: int = 0) -> str:
        """What a command prints."""
        printed, noted = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(noted):
            ended = cli.main([*argv, "--store", self.store.spell()])
        for stream in (printed, noted):
            stream.seek(0)
        assert ended == code, (argv, noted.read())
        return printed.read()
