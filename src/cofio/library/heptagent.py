"""The memory tool by the names of heptagent-memory-tool-backend: commands, a dispatcher, a limit for each quest.

Paths are relative, `create` never overwrites, `str_replace` takes the first of several places, and a quest has 20
calls, however many workers share it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, cast

from ..engine.engine import Engine
from ..files import Limiter as QuestRateLimiter
from ..files import Result as MemoryResult
from ..files import dispatch, home
from ..files.texts import RATE_LIMITED
from ..values.errors import CofioError, Invalid
from .concurrency import in_thread

__all__ = [
    "CofioMemoryBackend", "Create", "Delete", "Insert", "MemoryBackend", "MemoryCommand", "MemoryDispatcher",
    "MemoryResult", "QuestRateLimiter", "Rename", "StrReplace", "View",
]  # fmt: skip


class MemoryCommand:
    """One of the six commands: `MemoryCommand.Create(path="a.md", file_text="…")`, or as a model has written it."""

    name: ClassVar[str]
    View: ClassVar[type[View]]
    Create: ClassVar[type[Create]]
    StrReplace: ClassVar[type[StrReplace]]
    Insert: ClassVar[type[Insert]]
    Delete: ClassVar[type[Delete]]
    Rename: ClassVar[type[Rename]]

    @staticmethod
    def from_json(command: str | bytes | Mapping[str, Any]) -> MemoryCommand:
        """Parse the input of a tool call: JSON, or what it was parsed to.

        Raises:
            Invalid: the command is not known, or a field is missing, of another type, or not one of its own.
        """
        try:
            values = json.loads(command) if isinstance(command, str | bytes) else command
        except (ValueError, RecursionError) as error:
            raise Invalid("command", f"is not JSON ({error})") from error
        if not isinstance(values, Mapping):
            raise Invalid("command", f"expected an object, got {type(values).__name__}")
        arguments = dict(values)
        kind = _KINDS.get(str(arguments.pop("command", None)))
        if kind is None:
            raise Invalid("command", f"{values.get('command')!r} is not one of {', '.join(_KINDS)}")
        known = {field.name for field in fields(kind)}
        if unknown := sorted(map(str, arguments.keys() - known)):
            raise Invalid(unknown[0], f"is no field of {kind.name}, which has {', '.join(sorted(known))}")
        missing = known - arguments.keys() - {"view_range"}
        if missing:
            raise Invalid(min(missing), f"is missing from {kind.name}")
        parsed: MemoryCommand = kind(**arguments)
        return parsed

    def to_dict(self) -> dict[str, Any]:
        """Return the command as the input of a tool call."""
        return {"command": self.name, **asdict(cast(Any, self))}  # each command is a dataclass

    def __post_init__(self) -> None:
        for field, value in self.to_dict().items():
            if field == "view_range":
                numbers = value if isinstance(value, list | tuple) else ()
                good = value is None or (len(numbers) == 2 and all(type(each) is int for each in numbers))
                expected = "two whole numbers"
            else:
                kind = int if field == "insert_line" else str
                good, expected = type(value) is kind, "a whole number" if kind is int else "a text"
            if not good:
                raise Invalid(field, f"expected {expected}, got {value!r:.100}")


@dataclass(frozen=True, slots=True)
class View(MemoryCommand):
    """Read a file, or some of its lines, counted from 1; or list a directory."""

    name: ClassVar[str] = "view"
    path: str
    view_range: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Create(MemoryCommand):
    """Make a file that is not there yet."""

    name: ClassVar[str] = "create"
    path: str
    file_text: str


@dataclass(frozen=True, slots=True)
class StrReplace(MemoryCommand):
    """Replace the first occurrence of a text."""

    name: ClassVar[str] = "str_replace"
    path: str
    old_str: str
    new_str: str


@dataclass(frozen=True, slots=True)
class Insert(MemoryCommand):
    """Insert a text after a line; after 0, at the beginning."""

    name: ClassVar[str] = "insert"
    path: str
    insert_line: int
    insert_text: str


@dataclass(frozen=True, slots=True)
class Delete(MemoryCommand):
    """Delete a file."""

    name: ClassVar[str] = "delete"
    path: str


@dataclass(frozen=True, slots=True)
class Rename(MemoryCommand):
    """Rename a file."""

    name: ClassVar[str] = "rename"
    old_path: str
    new_path: str


_KINDS: dict[str, Any] = {kind.name: kind for kind in (View, Create, StrReplace, Insert, Delete, Rename)}
for _kind in _KINDS.values():
    setattr(MemoryCommand, _kind.__name__, _kind)


class MemoryBackend(Protocol):
    """Where files are kept. One of your own has these six coroutines, and refuses paths that it does not like."""

    async def view(self, path: str, view_range: Sequence[int] | None) -> MemoryResult: ...
    async def create(self, path: str, file_text: str) -> MemoryResult: ...
    async def str_replace(self, path: str, old_str: str, new_str: str) -> MemoryResult: ...
    async def insert(self, path: str, insert_line: int, insert_text: str) -> MemoryResult: ...
    async def delete(self, path: str) -> MemoryResult: ...
    async def rename(self, old_path: str, new_path: str) -> MemoryResult: ...


class CofioMemoryBackend:
    """Files in a memory, those of one owner: where heptagent has `RedbMemoryBackend`."""

    def __init__(self, engine: Engine, owner: str = "default") -> None:
        """`owner` is whose files these are, as a quest's."""
        self._engine = engine
        self._scope = home(owner)

    async def view(self, path: str, view_range: Sequence[int] | None = None) -> MemoryResult:
        """Read a file, or list a directory."""
        return await self._run(View(path, view_range))

    async def create(self, path: str, file_text: str) -> MemoryResult:
        """Make a file."""
        return await self._run(Create(path, file_text))

    async def str_replace(self, path: str, old_str: str, new_str: str) -> MemoryResult:
        """Replace the first occurrence of a text."""
        return await self._run(StrReplace(path, old_str, new_str))

    async def insert(self, path: str, insert_line: int, insert_text: str) -> MemoryResult:
        """Insert a text after a line."""
        return await self._run(Insert(path, insert_line, insert_text))

    async def delete(self, path: str) -> MemoryResult:
        """Delete a file."""
        return await self._run(Delete(path))

    async def rename(self, old_path: str, new_path: str) -> MemoryResult:
        """Rename a file."""
        return await self._run(Rename(old_path, new_path))

    async def _run(self, command: MemoryCommand) -> MemoryResult:
        return await in_thread(
            dispatch, self._engine, self._scope, command.to_dict(), paths="relative", replace_first=True
        )


class MemoryDispatcher:
    """Carries out commands on a backend, as many as a quest may have."""

    def __init__(self, backend: MemoryBackend, limiter: QuestRateLimiter | None = None) -> None:
        """Without a `limiter`, a quest has 20 calls. Several dispatchers may share one."""
        self._backend = backend
        self._limiter = limiter or QuestRateLimiter()

    async def dispatch(self, command: MemoryCommand | Mapping[str, Any] | str | bytes) -> MemoryResult:
        """Carry out a command. Whatever is wrong with it is an error for the model; every call counts."""
        if not self._limiter.take():
            return MemoryResult(RATE_LIMITED, is_error=True)
        try:
            known = command if isinstance(command, MemoryCommand) else MemoryCommand.from_json(command)
            arguments = {name: value for name, value in known.to_dict().items() if name != "command"}
            result: MemoryResult = await getattr(self._backend, known.name)(**arguments)
        except CofioError as error:
            return MemoryResult(f"Error: {error}", is_error=True)
        return result

    def reset_for_new_quest(self) -> None:
        """Start the count of the calls again."""
        self._limiter.reset_for_new_quest()
