"""Anthropic's memory tool for the tool runner of their Python SDK, versions 1 and 2: `tools=[MemoryTool()]`.

The SDK takes more than a second to import, and comes with the extra `anthropic`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from ..config.installation import install_command
from ..engine.engine import Engine
from ..files import Limiter, Result, Tree, dispatch, home
from ..files.inputs import Options

try:
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise ImportError(
        f"cofio.library.anthropic needs Anthropic's SDK, version 1.13 or newer: {install_command('anthropic')}"
    ) from error

if TYPE_CHECKING:
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from ..files.paths import Spelling
    from ..files.texts import Strings

__all__ = ["AsyncMemoryTool", "MemoryTool"]


class _Files:
    """The files that a tool works on: those of an owner, in an engine of the caller's or of our own."""

    def __init__(
        self, store: Engine | str | os.PathLike[str] | None, owner: str, options: Options, calls: int | None
    ) -> None:
        self._scope = home(owner)
        self._options = options
        self.limiter = None if calls is None else Limiter(calls)
        self._own = None if isinstance(store, Engine) else Engine.open(store)
        self._engine = store if isinstance(store, Engine) else cast(Engine, self._own)

    def run(self, command: object) -> str:
        """What a command came to; raises ToolError, whose text the SDK sends as it is, with `is_error`."""
        options = self._options
        result: Result = dispatch(
            self._engine, self._scope, command, strings=options.strings, overwrite=options.overwrite,
            paths=options.paths, replace_first=options.replace_first, limiter=self.limiter,
        )  # fmt: skip
        if result.is_error:
            raise ToolError(result.content)
        return result.content

    def clear(self) -> str:
        """Forget every file of the owner, with all that they held before."""
        for scope in (self._scope, Tree(self._engine, self._scope).history):
            self._engine.drop(scope)
        return "All memory cleared"

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._own is not None:
            self._own.close()


class MemoryTool(BetaAbstractMemoryTool):
    """Claude's memory tool on a cofio store: give it to `client.beta.messages.tool_runner(tools=[…])`.

    Each owner has files of their own. Everything that is written is durable, is found by a search through any other
    door of the store, and keeps its history.
    """

    def __init__(
        self,
        store: Engine | str | os.PathLike[str] | None = None,
        owner: str = "default",
        *,
        strings: Strings = "docs",
        overwrite: bool = False,
        paths: Spelling = "any",
        replace_first: bool = False,
        calls: int | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        """`store` is an engine, or the folder of one; None is the folder that `Engine.open()` takes.

        `calls` is how many commands there may be until `reset_for_new_quest()`; None is any number. The other options
        are those of `cofio.files.Options`.

        Raises:
            Invalid: an option is wrong.
            Unavailable: the folder cannot be used.
        """
        super().__init__(cache_control=cache_control)
        options = Options(strings=strings, overwrite=overwrite, paths=paths, replace_first=replace_first)
        self._files = _Files(store, owner, options, calls)

    def call(self, input: object) -> str:
        """Carry out the input of a `tool_use` as it came: the SDK's own commands are built without a check."""
        return self._files.run(input)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file or a directory."""
        return self._files.run(_fields(command))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file."""
        return self._files.run(_fields(command))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text in a file."""
        return self._files.run(_fields(command))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line of a file."""
        return self._files.run(_fields(command))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file or a directory."""
        return self._files.run(_fields(command))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory."""
        return self._files.run(_fields(command))

    def clear_all_memory(self) -> str:
        """Forget every file of the owner, with all that they held before."""
        return self._files.clear()

    def reset_for_new_quest(self) -> None:
        """Reset the count of calls, if they are counted."""
        if self._files.limiter is not None:
            self._files.limiter.reset_for_new_quest()

    def close(self) -> None:
        """Close the store, if the tool opened it."""
        self._files.close()

    def __enter__(self) -> MemoryTool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`: each command runs in a thread, beside the event loop."""

    def __init__(
        self,
        store: Engine | str | os.PathLike[str] | None = None,
        owner: str = "default",
        *,
        strings: Strings = "docs",
        overwrite: bool = False,
        paths: Spelling = "any",
        replace_first: bool = False,
        calls: int | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        """As for `MemoryTool`."""
        super().__init__(cache_control=cache_control)
        options = Options(strings=strings, overwrite=overwrite, paths=paths, replace_first=replace_first)
        self._files = _Files(store, owner, options, calls)

    async def call(self, input: object) -> str:
        """Carry out the input of a `tool_use` as it came."""
        return await to_thread.run_sync(self._files.run, input)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file or a directory."""
        return await self.call(_fields(command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file."""
        return await self.call(_fields(command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text in a file."""
        return await self.call(_fields(command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line of a file."""
        return await self.call(_fields(command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file or a directory."""
        return await self.call(_fields(command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory."""
        return await self.call(_fields(command))

    async def clear_all_memory(self) -> str:
        """Forget every file of the owner, with all that they held before."""
        return await to_thread.run_sync(self._files.clear)

    def reset_for_new_quest(self) -> None:
        """Reset the count of calls, if they are counted."""
        if self._files.limiter is not None:
            self._files.limiter.reset_for_new_quest()

    def close(self) -> None:
        """Close the store, if the tool opened it."""
        self._files.close()

    async def __aenter__(self) -> AsyncMemoryTool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _fields(command: Any) -> Mapping[str, object]:
    """The fields of one of the SDK's commands, those that were given."""
    return cast(Mapping[str, object], command.to_dict(warnings=False))
