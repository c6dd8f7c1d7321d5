"""What LangGraph is given either stands on an engine that somebody else closes, or opens and closes its own."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self, TypeVar

from ...config.settings import Settings
from ...engine.engine import Engine
from ..concurrency import in_thread

T = TypeVar("T", bound="EngineOwner")


class EngineOwner:
    """Closes what it opened, and nothing else; to be used in a `with` or `async with` block, or closed by hand."""

    _owned: Engine | None = None
    _folder: TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Close the memory, if it was opened for this. Nothing that was stored depends on it."""
        if self._owned is not None:
            self._owned.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(self.close)


def open_owned(make: Callable[[Engine], T], store: str | PathLike[str] | None, settings: Settings | None = None) -> T:
    """What `make` makes on an engine that is opened for it."""
    engine = Engine.open(store, settings=settings)
    try:
        made = make(engine)
    except BaseException:
        engine.close()
        raise
    made._owned = engine
    return made


def open_connection(make: Callable[[Engine], T], conn_string: str) -> T:
    """The same for a connection string, where ":memory:" is a folder that is removed at the end."""
    if conn_string != ":memory:":
        return open_owned(make, conn_string)
    folder = TemporaryDirectory(prefix="cofio-", ignore_cleanup_errors=True)
    try:
        made = open_owned(make, folder.name)
    except BaseException:
        folder.cleanup()
        raise
    made._folder = folder
    return made
