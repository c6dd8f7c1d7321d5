"""Which backend a store's address stands for, and whether there is a store: nothing else imports a backend."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import lost_store
from ..config.address import StoreAddress
from ..config.settings import Settings, find_store
from ..values.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ..backends.interface import Backend


def resolve_store(
    store: str | os.PathLike[str] | StoreAddress | None = None, *, start: Path | None = None
) -> StoreAddress:
    """The address that `find_store` finds, of a kind of store that this version can open.

    Raises:
        Invalid: it is no address, or no backend of this version has such stores.
    """
    address = find_store(store, start=start)
    _get_folder(address)
    return address


def open_backend(address: StoreAddress, settings: Settings, clock: Callable[[], datetime] | None = None) -> Backend:
    """The backend of the store at an address; the store is made if there is none. Without a clock it has its own.

    Raises:
        Invalid: no backend of this version has such stores.
        Unavailable: the store cannot be used, or was written by a newer cofio.
    """
    folder = _get_folder(address)
    from ..backends.sqlite import SqliteBackend  # with its driver and index: not before there is something to open

    return SqliteBackend(folder, sync=settings.sync, clock=clock)


def exists(address: StoreAddress) -> bool:
    """Whether there is a store at the address."""
    return (_get_folder(address) / lost_store.DATABASE).exists()


def read_file_id(address: StoreAddress) -> tuple[int, int] | None:
    """What tells the file of the store at an address from any other file that is there at the same time, its copy too;
    None when there is none.
    """
    try:
        found = (_get_folder(address) / lost_store.DATABASE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_absence(address: StoreAddress) -> None:
    """See to it that a store that does not exist was neither lost nor is a copy that is not finished.

    Raises:
        Unavailable: there are parts of one; the message says how to restore it.
    """
    folder = _get_folder(address)
    lost_store.check_whole(folder)
    if parts := lost_store.find_remains(folder):
        raise Unavailable(
            f"memory.db is gone from {folder}, but {', '.join(parts)} of it {'is' if len(parts) == 1 else 'are'}"
            f" there: put a backup of it back, or run `cofio import everos {folder / 'vault'}`, which restores what"
            " the vault holds"
        )


def find_loss(address: StoreAddress) -> str:
    """That the memory of the store was lost, and how it is restored, in a sentence; empty when it was not."""
    return lost_store.find_loss(_get_folder(address))


def settle_loss(address: StoreAddress) -> None:
    """Forget that the memory of the store was lost: it is restored, or is not wanted."""
    lost_store.settle_loss(_get_folder(address))


def _get_folder(address: StoreAddress) -> Path:
    if address.folder is None:
        raise address.refuse()
    return address.folder
