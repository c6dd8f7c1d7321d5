"""Which memory a hook may use: one that is there, and that its user made."""

from __future__ import annotations

from pathlib import Path

from ...config.address import StoreAddress
from ...config.settings import STORE_FOLDER
from ...config.trust import is_marked
from ...engine.opening import exists, resolve_store
from ...values.errors import Unavailable


def find_personal_store() -> StoreAddress:
    """The memory of what agents do wherever no project has one of its own: `.cofio` in the user's home folder.

    Raises:
        Unavailable: the user has no home folder.
    """
    try:
        return StoreAddress(folder=Path.home() / STORE_FOLDER)
    except RuntimeError:
        raise Unavailable("this user has no home folder: give the memory's with --store") from None


def find_hook_store(store: str | None, folder: Path) -> StoreAddress:
    """The memory that a hook in this folder uses: the one given, else COFIO_STORE's, else its project's, else the
    user's own.

    Memory is put before a model unasked, so a project's own counts only if this user made or trusted it: one that
    came with a repository would be a stranger's word.

    Raises:
        Unavailable: there is none.
    """
    address = resolve_store(store, start=folder)
    is_found = address.folder is not None and address.folder.name == STORE_FOLDER and store is None
    if is_found and address.folder is not None and not (exists(address) and is_marked(address.folder)):
        address = find_personal_store()
    if not exists(address):
        raise Unavailable(f"there is no memory in {address}: `cofio hooks install` makes one")
    return address
