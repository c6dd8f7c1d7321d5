"""Which backend a store's address stands for, and whether there is a store: nothing else imports a backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import lost_store
from ..config.address import StoreAddress
from ..config.settings import LOCK_SECONDS, Settings, find_store
from ..values.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ..backends.interface import Backend, SharedValues
    from ..backends.postgres import PostgresBackend
    from ..backends.store_copy import Inventory, Loader
    from ..values.progress import Progress


def resolve_store(
    store: str | os.PathLike[str] | StoreAddress | None = None, *, start: Path | None = None
) -> StoreAddress:
    """The address that `find_store` finds.

    Raises:
        Invalid: it is no address.
    """
    return find_store(store, start=start)


def open_backend(
    address: StoreAddress,
    settings: Settings,
    clock: Callable[[], datetime] | None = None,
    *,
    lock_seconds: float = LOCK_SECONDS,
    keep_reserve: bool = False,
) -> Backend:
    """The backend of the store at an address; the store is made if there is none. Without a clock it has its own.

    The last two are for a store in a folder: for how long a write waits for another process's, and whether space is
    set aside for deletes on a full disk.

    Raises:
        Unavailable: the store cannot be used, or was written by a newer cofio.
    """
    if address.folder is None:
        return _import_postgres()(
            address.spell(), name=str(address), sync=settings.sync, pool_size=settings.pool_size, clock=clock,
            row_security=settings.row_security,
            copy_to_folder=_copy_to_folder, read_url=settings.read_store, replica_lag=settings.replica_lag,
        )  # fmt: skip
    from ..backends.sqlite import SqliteBackend  # with its driver and index: not before there is something to open

    return SqliteBackend(
        address.folder, sync=settings.sync, clock=clock, lock_seconds=lock_seconds, keep_reserve=keep_reserve
    )


def load_settings(address: StoreAddress) -> Settings:
    """The settings of the store at an address, with those that its servers have in common.

    Raises:
        Invalid: a setting is wrong.
        Unavailable: the database cannot be reached.
    """
    return Settings.load(address.home, shared=read_agreement(address))


def read_agreement(address: StoreAddress) -> dict[str, object] | None:
    """The settings that all servers of the store have in common; None where each machine has its own, as in a folder.

    Raises:
        Unavailable: the database cannot be reached.
    """
    if address.folder is not None:
        return None
    from . import agreement

    return agreement.decode_agreement(_import_postgres().read_shared(address.spell(), agreement.NAME))


@contextmanager
def open_shared_values(address: StoreAddress) -> Iterator[SharedValues | None]:
    """What all processes on the store have in common, for a block; None for a folder. The store is made if need be.

    Raises:
        Unavailable: the database cannot be reached.
    """
    if address.folder is not None:
        yield None
        return
    with closing(open_backend(address, Settings())) as backend:
        yield backend.shared_values


def exists(address: StoreAddress) -> bool:
    """Whether there is a store at the address."""
    if address.folder is None:
        return _import_postgres().find_store(address.spell()) is not None
    return (address.folder / lost_store.DATABASE).exists()


def read_store_id(address: StoreAddress) -> tuple[int, int] | None:
    """What tells the store at an address from any other that may be there instead; None when there is none.

    In a folder it is the database's file, as a copy of that is another store to a program that has the first one open.

    Raises:
        Unavailable: the server of the store cannot be asked.
    """
    if address.folder is None:
        import struct
        from hashlib import blake2b  # which few programs need

        store = _import_postgres().find_store(address.spell())
        return None if store is None else struct.unpack("<qq", blake2b(store.encode(), digest_size=16).digest())
    try:
        found = (address.folder / lost_store.DATABASE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_absence(address: StoreAddress) -> None:
    """See to it that a store that does not exist was neither lost nor is a copy that is not finished.

    Raises:
        Unavailable: there are parts of one; the message says how to restore it.
    """
    folder = address.folder
    if folder is None:
        return
    lost_store.check_whole(folder)
    if parts := lost_store.find_remains(folder):
        raise Unavailable(
            f"memory.db is gone from {folder}, but {', '.join(parts)} of it {'is' if len(parts) == 1 else 'are'}"
            f" there: put a backup of it back, or run `cofio import everos {folder / 'vault'}`, which restores what"
            " the vault holds"
        )


def find_loss(address: StoreAddress) -> str:
    """That the memory of the store was lost, and how it is restored, in a sentence; empty when it was not."""
    return "" if address.folder is None else lost_store.find_loss(address.folder)


def settle_loss(address: StoreAddress) -> None:
    """Forget that the memory of the store was lost: it is restored, or is not wanted."""
    if address.folder is not None:
        lost_store.settle_loss(address.folder)


def copy_store(source: StoreAddress, target: StoreAddress, progress: Progress | None = None) -> Inventory:
    """Copy a store to another address, of another kind if need be, and compare the two; what was copied.

    One that was cut off goes on when it is called again.

    Raises:
        Invalid: the target holds a memory.
        Unavailable: there is no such source, one of the two fails, or the copy is not like its source.
    """
    from ..backends import store_copy

    if not exists(source):
        check_absence(source)
        raise Unavailable(f"there is no memory in {source}")
    with closing(open_backend(source, Settings())) as store, _open_loader(target, store.identity().store) as loader:
        return store_copy.copy(store, loader, progress)


def _open_loader(target: StoreAddress, store: str) -> AbstractContextManager[Loader]:
    if target.folder is None:
        return _import_postgres().open_loader(target.spell(), str(target), store)
    if exists(target):
        raise Invalid("target", f"{target} holds a memory; name a folder that is empty or does not exist")
    from ..backends.sqlite import SqliteBackend

    return SqliteBackend.open_loader(target.folder, store, resume=True)


def _copy_to_folder(source: Backend, target: str, progress: Progress | None) -> None:
    """Make a store in a new folder of one that is elsewhere; it is there when it is whole."""
    from ..backends import store_copy
    from ..backends.sqlite import SqliteBackend

    with SqliteBackend.open_loader(Path(target), source.identity().store, resume=False) as loader:
        store_copy.copy(source, loader, progress)


def _import_postgres() -> type[PostgresBackend]:
    try:
        from ..backends.postgres import PostgresBackend
    except ImportError as error:
        from ..config.installation import install_command

        raise Unavailable(f"a store on PostgreSQL needs {error.name}: {install_command('postgresql')}") from error
    return PostgresBackend
