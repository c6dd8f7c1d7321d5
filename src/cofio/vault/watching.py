"""The watcher: what people do to the files is taken in while a server runs."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path as Folder

from ..errors import CofioError
from .folders import Stamp
from .layout import STATE, Path
from .syncing import Synced, Syncing

QUIET = 1.0  # seconds that a file must have been left alone: an editor may write it in several pieces
PATIENCE = 5.0  # seconds that a close waits for a look that does not end
SETTLE = 5.0  # seconds after which what was written is forced to the disk
_log = logging.getLogger("cofio.vault")


class Watcher:
    """Looks at files that have changed, in a thread of its own, until it is stopped."""

    def __init__(self, syncing: Syncing, told: Callable[[Synced], None] | None = None) -> None:
        """`told` is called with what came of each look."""
        self._syncing = syncing
        self._vault = syncing.vault
        self._told = told
        self._stop = threading.Event()
        self._waiting: dict[Path, tuple[Stamp | None, float]] = {}
        self._settled = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="cofio-vault", daemon=True)

    def start(self) -> None:
        """Watch from now on; what was done before is looked at first."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        from watchfiles import watch

        changes = watch(
            self._vault.folder, stop_event=self._stop, watch_filter=_is_ours, step=100, debounce=400,
            rust_timeout=500, yield_on_timeout=True, raise_interrupt=False,
        )  # fmt: skip
        self._tried(self._begun)
        for found in changes:
            for _, name in found:
                self._noticed(Folder(name))
            self._tried(self._look)
            if self._stop.is_set():
                return

    def _begun(self) -> None:
        """Complete what a crash left, and take in what was done while nobody watched."""
        self._vault.complete()
        self._tell(self._syncing.sync() if self._vault.stale else self._syncing.look())

    def _noticed(self, file: Folder) -> None:
        try:
            path = file.relative_to(self._vault.folder).parts
        except ValueError:
            return
        if file.suffix == ".md":
            self._waiting[path] = (None, 0.0)
        elif not file.exists():  # a folder that was moved away: of what was in it, nothing else is told
            for name in self._vault.state.files("/".join(path)):
                self._waiting[tuple(name.split("/"))] = (None, 0.0)

    def _look(self) -> None:
        """Look at the files that are not as we left them, and have been left alone for a while."""
        now, due = time.monotonic(), []
        for path, (seen, since) in [*self._waiting.items()]:
            if self._vault.located(path) is None:
                del self._waiting[path]
                continue
            stamp = self._vault.tree.stamp(path)
            if since and stamp == seen:
                if now - since >= QUIET:
                    due.append(path)
                    del self._waiting[path]
            elif stamp == self._vault.state.file("/".join(path), []).stamp:
                del self._waiting[path]  # our own doing
            else:
                self._waiting[path] = (stamp, now)
        if due:
            self._tell(self._syncing.look(due))
        if now - self._settled > SETTLE:
            self._settled = now
            self._vault.settle()

    def _tell(self, synced: Synced) -> None:
        if synced.problems:
            _log.warning("the vault has %d things to look at: see `cofio vault status`", synced.problems)
        if self._told is not None:
            self._told(synced)

    def _tried(self, does: Callable[[], None]) -> None:
        try:
            does()
        except (CofioError, OSError, sqlite3.Error) as error:
            if not self._stop.is_set():
                # It is looked at again when it changes again, or by the next start.
                _log.warning("the vault could not be looked at: %s", error)


def _is_ours(_: object, name: str) -> bool:
    return f"/{STATE}/" not in name and not name.endswith(".tmp")
