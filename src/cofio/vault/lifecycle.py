"""How a door has a vault beside its memory: for one command, or for as long as a server runs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ..config.settings import Settings, read_claims
from ..config.trust import is_trusted
from ..conversations.conversations import Conversations
from ..engine.engine import Engine
from ..engine.jobs import Handlers
from ..system.disk import leads_elsewhere
from ..system.safe_files import check_entries
from ..values.errors import Unavailable
from .attachment import Attachment
from .journal import Journal, JournalError
from .layout import STATE
from .queued_mirror import MARKDOWN, QueuedMirror, write_files
from .sync import SyncResult, VaultSync
from .trash import Trash
from .vault import FOLDER, Vault
from .vault_owner import claim_vault
from .watcher import Watcher
from .writer import Tree

_log = logging.getLogger("cofio.vault")


def open_vault(engine: Engine, store: Path, settings: Settings) -> Vault | None:
    """The vault of a store; None when its settings turn it off, and then what is there is known to be outdated.

    A store that is read-only has none, for nothing in it changes.

    Raises:
        Unavailable: its folder cannot be used.
    """
    try:
        return _open_vault(engine, store, settings)
    except (OSError, JournalError) as error:
        raise Unavailable(_describe_fault(store, error)) from error


def _open_vault(engine: Engine, store: Path, settings: Settings) -> Vault | None:
    engine.verify()  # else a folder would be made where the store was
    if engine.read_only:
        return None
    folder = store / FOLDER
    try:
        check_links(store, folder)
        if settings.vault:
            return _open_claimed(engine, Vault(engine, folder, zone=settings.zone))
        if (folder / STATE).is_dir():
            _leave(engine, folder)
    except (OSError, JournalError, Unavailable):
        if settings.vault:
            raise
    return None


def _describe_fault(store: Path, error: Exception) -> str:
    without = "`vault = false` in cofio.toml, or COFIO_VAULT=false, does without"
    return f"the vault in {store / FOLDER} cannot be used ({error}): {without}"


def _open_claimed(engine: Engine, vault: Vault) -> Vault:
    """Return a vault that is this machine's to keep."""
    if engine.shared_values is not None:
        try:
            claim_vault(engine.shared_values, vault.journal)
        except Unavailable:
            vault.close()
            raise
    return vault


def _leave(engine: Engine, folder: Path) -> None:
    """Know that the files do not follow any more, and keep nothing that a deletion would not reach."""
    journal = Journal(folder)
    try:
        is_ours = journal.get_about("store") in ("", engine.identity().store)
        if is_ours and not Attachment(engine, journal, folder).is_of_another():
            with journal.lock():
                journal.set_about(complete="")
            Trash(Tree(folder)).clear()
    finally:
        journal.close()


def find_detachment(engine: Engine, store: Path) -> str:
    """Why the vault of a store is left alone, and what helps; empty when it is not, or when there is none.

    Raises:
        Unavailable: it is, or begins with, a link that the user has not vouched for.
        OSError, JournalError: its folder cannot be used.
    """
    folder = store / FOLDER
    check_links(store, folder)
    if not os.access(folder / STATE / "state.db", os.W_OK):  # none, or on a disk where nothing can come to harm
        return ""
    journal = Journal(folder)
    try:
        return Attachment(engine, journal, folder).find_trouble()
    finally:
        journal.close()


def check_links(store: Path, folder: Path) -> None:
    """Raise Unavailable if the vault is, or begins with, a link that the user has not vouched for."""
    if leads_elsewhere(folder) and not is_trusted(store, read_claims(store)):
        raise Unavailable(
            f"{folder} is a link, and this memory was not made here, was moved, or its project brings the link:"
            " remove it, or let it count with `cofio trust`"
        )
    check_entries(folder, folders=(STATE,))
    names = (f"{name}{suffix}" for name in ("state.db",) for suffix in ("", "-wal", "-shm", "-journal"))
    check_entries(folder / STATE, files=[*names])


@contextmanager
def use_vault(engine: Engine, store: Path, settings: Settings) -> Iterator[Vault | None]:
    """The vault of a store, for one command.

    Raises:
        Unavailable: its folder cannot be used, or the store is read-only.
    """
    if engine.read_only:
        raise Unavailable(f"the memory in {store} is read-only, so its vault cannot be looked after here")
    vault = open_vault(engine, store, settings)
    try:
        yield vault
    finally:
        if vault is not None:
            vault.close()


class AttachedVault:
    """The vault beside a server: it follows from the first call on, and takes in what people do to its files."""

    def __init__(
        self, engine: Engine, store: Path, settings: Settings, on_sync: Callable[[SyncResult], None] | None = None
    ) -> None:
        self._engine = engine
        self._store = store
        self._settings = settings
        self._on_sync = on_sync
        self._lock = threading.Lock()
        self._vault: Vault | None = None
        self._watcher: Watcher | None = None

    def open(self) -> Vault | None:
        """Return the vault, opened by now; None when the settings turn it off.

        Raises:
            Unavailable: its folder cannot be used.
        """
        with self._lock:
            if self._vault is None:
                self._vault = open_vault(self._engine, self._store, self._settings)
            return self._vault

    def make_mirror(self, notice: Callable[[], None]) -> QueuedMirror | None:
        """Return what enqueues the writing of files with each change, and calls `notice`; None without a vault."""
        if not self._settings.vault or self._engine.read_only:
            return None
        return QueuedMirror(self._engine, self.open, notice)

    def make_handlers(self) -> Handlers:
        """Return the handler of the jobs that write files."""
        return {MARKDOWN: partial(write_files, self.open)}

    def watch(self, conversations: Conversations) -> None:
        """Have what a crash left completed, and watch from now on, unless a watcher does so already.

        A disk that cannot be used is logged: call this again later.

        Raises:
            Unavailable: the vault is another server's, or a link that the user has not vouched for.
        """
        try:
            vault = self.open()
        except Unavailable as error:
            if not isinstance(error.__cause__, OSError | JournalError):
                raise
            _log.warning("the vault cannot be used, which is tried again: %s", error)
            return
        if vault is not None and (self._watcher is None or not self._watcher.is_running):
            # What people do to the files is followed at once: it is compared with what they are to say then.
            own = Conversations(conversations.engine, mirror=vault)
            self._watcher = Watcher(VaultSync(vault, own), self._on_sync)
            self._watcher.start()

    def close(self) -> None:
        """Stop watching, and close the files."""
        if self._watcher is not None:
            self._watcher.stop()
        if self._vault is not None:
            self._vault.close()
