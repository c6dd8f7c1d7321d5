"""The memory of the project that a process is bound to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.opening import exists, load_settings, resolve_store
from ...values.errors import CofioError, Invalid, Unavailable

if TYPE_CHECKING:
    from datetime import datetime

    from ...engine.engine import Engine

SETTLE_AFTER = 50  # records outside of the word index after which a process that wrote takes them in before it ends


class ProjectStore:
    """The memory of a project: opened when first needed, and made when something is first put there."""

    def __init__(self, root: str, store: str | None = None, *, clock: Callable[[], datetime] | None = None) -> None:
        self._root = Path(root)
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self.wrote = False

    def engine(self, *, make: bool = False) -> Engine | None:
        """The memory; None when there is none yet and none is to be made.

        Raises:
            Unavailable: it cannot be used.
        """
        with self._lock:
            self.wrote |= make
            if self._engine is None:
                try:
                    self._engine = self._open(make)
                except (Invalid, OSError) as error:  # a wrong setting or root: no fault of the call
                    raise Unavailable(str(error)) from error
            return self._engine

    def _open(self, make: bool) -> Engine | None:
        address = resolve_store(self._store, start=self._root)
        if not make and not exists(address):
            return None
        if not self._root.is_dir():
            raise Unavailable(f"the project root {self._root} is not a folder")
        from ...engine.engine import Engine

        return Engine.open(address, settings=load_settings(address), clock=self._clock)

    def close(self) -> None:
        """Close the memory; where many short processes wrote and none stayed to index it, index it first."""
        with self._lock:
            if self._engine is None:
                return
            with suppress(CofioError):  # what was put is safe, and the next process tries again
                if self.wrote and self._engine.stats().waiting_for_index >= SETTLE_AFTER:
                    self._engine.settle(limit=0)
            self._engine.close()
