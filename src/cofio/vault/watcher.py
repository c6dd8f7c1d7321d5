"""The watcher: what people do to the files is taken in while a server runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ..values.errors import CofioError, Unavailable
from .journal import JournalError
from .layout import STATE, Parts, join_parts
from .sync import SyncFinding, SyncResult, VaultSync
from .writer import Stamp

ABSENT = 60.0  # seconds that something must be missing before it is forgotten: sync tools and editors put it back
QUIET = 1.0  # seconds that a file must have been left alone: an editor may write it in several pieces
RETRY_SECONDS = 30.0  # after which the first look is tried again that could not be taken
PATIENCE = 5.0  # seconds that a close waits for a look that does not end
SETTLE = 5.0  # seconds after which what was written is forced to the disk
PURGE = 3600.0  # seconds after which it is seen what has been in the trash for too long
_log = logging.getLogger("cofio.vault")


class Watcher:
    """Looks at files that have changed, in a thread of its own, until it is stopped."""

    def __init__(
        self, syncing: VaultSync, on_sync: Callable[[SyncResult], None] | None = None, *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`on_sync` is called with what came of each look; the `clock` tells seconds."""
        self._syncing = syncing
        self._vault = syncing.vault
        self._on_sync = on_sync
        self._stop = threading.Event()
        self._clock = clock
        self._waiting: dict[Parts, tuple[Stamp | None, float]] = {}
        self._missing: dict[SyncFinding, float] = {}
        self._settled = self._purged = self._tried = time.monotonic()
        self._has_begun = False
        self._thread = threading.Thread(target=self._retry, args=[self._run], name="cofio-vault", daemon=True)

    @property
    def is_running(self) -> bool:
        """Tell whether its thread watches; one that the system refused to watch has ended."""
        return self._thread.is_alive()

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
        self._retry(self._begin)
        for found in changes:
            for _, name in found:
                self._notice(Path(name))
            if not self._has_begun and time.monotonic() - self._tried >= RETRY_SECONDS:
                self._retry(self._begin)
            self._retry(self._look)
            if self._stop.is_set():
                return

    def _begin(self) -> None:
        """Complete what a crash left, and take in what was done while no watcher ran."""
        self._tried = time.monotonic()
        if self._vault.detachment:
            self._report(SyncResult())
        else:
            self._vault.complete()
            sync = self._syncing.sync if self._vault.stale else self._syncing.sync_files
            self._report(self._track(sync(is_due=self._is_due)))
        self._has_begun = True

    def _notice(self, file: Path) -> None:
        try:
            path = file.relative_to(self._vault.folder).parts
        except ValueError:
            return
        if file.suffix == ".md":
            self._waiting[path] = (None, 0.0)
        elif not file.exists():  # a folder that was moved away: of what was in it, nothing else is told
            for name in self._vault.journal.list_files("/".join(path)):
                self._waiting[tuple(name.split("/"))] = (None, 0.0)

    def _look(self) -> None:
        """Look at the files that are not as we left them, and have been left alone for a while."""
        now, due = time.monotonic(), []
        for path, (last, since) in [*self._waiting.items()]:
            if self._vault.locate(path) is None:
                del self._waiting[path]
                continue
            stamp = self._vault.tree.read_stamp(path)
            if since and stamp == last:
                if now - since >= QUIET:
                    due.append(path)
                    del self._waiting[path]
            elif stamp == self._vault.journal.read_file("/".join(path), []).stamp:
                del self._waiting[path]  # our own doing
            else:
                self._waiting[path] = (stamp, now)
        due += {tuple(finding.path.split("/")) for finding in self._missing if self._is_due(finding)} - {*due}
        if due and not self._vault.detachment:
            try:
                synced = self._syncing.sync_files(due, is_due=self._is_due)
            except (CofioError, OSError, JournalError):
                self._missing.clear()  # as of what changed: it is looked at again by the next start
                raise
            self._report(self._track(synced, due))
        if now - self._purged > PURGE:
            self._purged = now
            self._vault.purge()
        if now - self._settled > SETTLE:
            self._settled = now
            self._vault.settle()

    def _is_due(self, finding: SyncFinding) -> bool:
        """Whether something has been missing for so long that it is to be forgotten."""
        return finding in self._missing and self._clock() - self._missing[finding] >= ABSENT

    def _track(self, synced: SyncResult, paths: Iterable[Parts] = ()) -> SyncResult:
        """Know since when things are missing, of the files that were looked at."""
        now, looked = self._clock(), None if paths is None else {*map(join_parts, paths)}
        others = {
            finding: since
            for finding, since in self._missing.items()
            if looked is not None and finding.path not in looked
        }
        self._missing = others | {finding: self._missing.get(finding, now) for finding in synced.missing}
        return synced

    def _report(self, synced: SyncResult) -> None:
        if synced.problems:
            _log.warning("the vault has %d things to look at: see `cofio vault status`", synced.problems)
        if self._on_sync is not None:
            self._on_sync(synced)

    def _retry(self, does: Callable[[], None]) -> None:
        try:
            does()
        except (CofioError, OSError, JournalError) as error:
            is_logged = isinstance(error, Unavailable) and error.is_logged
            if not self._stop.is_set() and not is_logged:
                # It is looked at again when it changes again, or by the next start.
                self._vault.report_fault(error)


def _is_ours(_: object, name: str) -> bool:
    return f"/{STATE}/" not in name and not name.endswith(".tmp")
