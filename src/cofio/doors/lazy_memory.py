"""The memory as a server holds it: opened when first needed, taken over from where it was kept before."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.address import StoreAddress
from ..config.settings import LOCK_SECONDS, Settings
from ..system.disk import leads_elsewhere
from ..values.errors import CofioError, Unavailable

if TYPE_CHECKING:
    from ..engine.background import WorkSharing
    from ..engine.engine import Engine


PATIENCE = 10.0  # seconds that the first calls wait for an older memory to come in
SERVER_LOCK_SECONDS = 5.0  # that a write of a server waits for another process's; then its client is told to try again


class Memory:
    """One store for one server. Opening it costs a tenth of a second, which no client is made to wait for."""

    def __init__(
        self,
        address: StoreAddress,
        settings: Settings,
        *,
        say: Callable[[str], None],
        sharing: WorkSharing | None = None,
        takes_over: bool = True,
        is_server: bool = False,
    ) -> None:
        """`say` is told, a line at a time, what a person who looks at the server's log would want to know.

        Without `takes_over`, another process of the server takes over an older memory. `sharing`: who does the derived
        work. `is_server`: many clients share it, so none waits for long, and a full disk has room for deletes.
        """
        self._address = address
        self._settings = settings
        self._say = say
        self._sharing = sharing
        self._takes_over = takes_over
        self._is_server = is_server
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._takeover: threading.Thread | None = None
        self._patience = 0.0
        self._preparation: threading.Thread | None = None
        self._is_closed = False

    @property
    def engine(self) -> Engine:
        """The memory, opened by now. While an older one is being taken over, it is waited for, for some seconds.

        Raises:
            Unavailable: the folder cannot be used; the next call tries again.
        """
        with self._lock:
            if self._is_closed:
                raise Unavailable("the server is closing")
            if self._engine is None:
                self._engine = self._open()
            engine, takeover = self._engine, self._takeover
        if takeover is not None:
            # Else an agent would find the memory empty, and begin one of its own.
            takeover.join(max(0.0, self._patience - time.monotonic()))
        return engine

    @property
    def incomplete(self) -> str | None:
        """Why not all that will be in the memory is there yet; None when it is."""
        if self._takeover is None or not self._takeover.is_alive():
            return None
        return "an older memory is still being taken over: what is not found may be about to come in"

    def verify(self) -> None:
        """See that the memory is still where it was opened, if it was, without waiting for anything.

        Raises:
            Unavailable: it was deleted, moved or replaced; the server has to be started again.
        """
        if self._engine is not None:
            self._engine.verify()

    def _open(self) -> Engine:
        from ..engine.engine import Engine
        from ..engine.opening import find_loss
        from ..importers import agent_memory_store

        lock_seconds = SERVER_LOCK_SECONDS if self._is_server else LOCK_SECONDS
        engine = Engine.open(
            self._address, settings=self._settings, sharing=self._sharing, lock_seconds=lock_seconds,
            keep_reserve=self._is_server,
        )  # fmt: skip
        if not self._takes_over:
            return engine
        if loss := find_loss(self._address):
            self._say(loss)
        self._report_model()
        if not engine.read_only:
            self._takeover = agent_memory_store.take_over(engine, _find_older_homes(self._say), self._say)
        self._patience = time.monotonic() + PATIENCE
        return engine

    def _report_model(self) -> None:
        """Say so if there is no model, unless it is about to be fetched, which is told then."""
        from ..embed.models import MODELS
        from ..embed.provision import is_switched_off, read_state

        model = MODELS.get(self._settings.embedder)
        if model is not None:
            model_state = read_state(self._settings.models_folder, model)
            is_coming = model_state.kind == "missing" and self._settings.fetch_model and not is_switched_off()
            if model_state.kind != "ready" and not is_coming:
                self._say(f"memory is searched by words only: {model_state}")

    def prepare(self) -> None:
        """Begin to open the memory, unless that has begun."""
        if self._preparation is None:
            self._preparation = threading.Thread(target=self._prepare, name="cofio-opening", daemon=True)
            self._preparation.start()

    def _prepare(self) -> None:
        try:
            _ = self.engine
        except CofioError as error:  # the calls that need it will say so, too
            self._say(str(error))

    def close(self) -> None:
        """Close the store, if it is open."""
        with self._lock:
            self._is_closed = True
            if self._engine is not None:
                self._engine.close()


def _find_older_homes(say: Callable[[str], None]) -> list[Path]:
    """Where agent-memory-store would keep its memory if it were started here."""
    variable = os.environ.get("AGENT_STORE_PATH")
    home = Path(variable or ".agent-memory-store").expanduser()
    if not variable and _holds_link(home):
        say(f"{home} holds a link, so it is not taken over unasked: `cofio import agent-memory-store` does that")
        return []
    return [home]


def _holds_link(home: Path) -> bool:
    """Whether a folder that was not named is a link or holds one, which a project may have brought along."""
    try:
        with os.scandir(home) as entries:
            return leads_elsewhere(home) or any(map(leads_elsewhere, entries))
    except OSError:
        return False  # there is none, or its reader will report it
