"""How the files follow a server's changes in the background: a call lists what it changes, and a thread writes it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from ..conversations.mirror import VisibleRecord
from ..engine.engine import Answers
from ..values.errors import CofioError, Conflict, Invalid, NotFound, Unavailable
from ..values.records import Draft
from .journal import JournalError
from .vault import Vault

PAUSE = 0.1  # seconds that changes are left to gather: those of one file are then written at once
ROUND = 5.0  # seconds after which it is seen whether other processes have listed something
PATIENCE = 5.0  # seconds that a stop waits for a file that cannot be written
_log = logging.getLogger("cofio.vault")


class MirrorQueue:
    """A mirror whose changes are listed for a follower, in this process or another."""

    def __init__(self, vault: Vault, notice: Callable[[], None]) -> None:
        """Call `notice` after each change that is listed."""
        self._vault = vault
        self._notice = notice

    @contextmanager
    def track_change(self, visible: Sequence[VisibleRecord], *, at_once: bool = False) -> Iterator[Answers]:
        """Around a change in the database: the files show it soon after this ends or, `at_once`, when it ends."""
        if at_once:
            with self._vault.track_change(visible) as answers:
                yield answers
            return
        changes = self._vault.changes
        try:
            number = changes.begin(visible)
        except JournalError as error:
            _log.warning("the vault cannot be written: %s", error)
            yield []
            return
        try:
            yield []
        except (Conflict, NotFound, Invalid):  # nothing was changed
            changes.remove([number])
            raise
        except BaseException:
            with suppress(JournalError):  # it is listed, and followed when this process has ended
                changes.abandon(number)
            self._notice()
            raise
        try:
            changes.finish(number, visible)
        except JournalError as error:  # it is still listed, as one that this process is at
            _log.warning("the vault cannot be written: %s", error)
        self._notice()

    def discard(self, is_meant: Callable[[Draft], bool]) -> None:
        """Keep nothing in the trash that holds a record that is to be forgotten for good."""
        self._vault.discard(is_meant)


class Follower:
    """Has the files follow the changes that are listed, in a thread of its own, until it is stopped."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cofio-vault-follower", daemon=True)

    def start(self) -> None:
        """Follow from now on."""
        self._thread.start()

    def notice(self) -> None:
        """Wake up, as something was listed."""
        self._wake.set()

    def stop(self) -> None:
        """Follow what is listed by now, and no more."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(ROUND)
            is_last = self._stop.wait(PAUSE)
            self._wake.clear()
            try:
                self._vault.follow_changes()
            except (CofioError, OSError, JournalError) as error:
                is_logged = isinstance(error, Unavailable) and error.public is not None  # by the store, once
                if not is_last and not is_logged:  # what is left at the end, the next start does
                    _log.warning("the vault could not be written, which is tried again: %s", error)
