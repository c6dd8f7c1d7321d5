"""Which memory hooks use: the user's own, wherever its agents work.

A project's own memory is not looked for: what hooks know is told to a model unasked, and a memory that came with a
repository would be a stranger's word.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...config.address import StoreAddress
from ...config.settings import STORE_FOLDER
from ...engine.opening import exists, resolve_store
from ...values.errors import Unavailable

VARIABLE = "COFIO_STORE"


def choose_hook_store(store: str | None) -> StoreAddress:
    """The address of the memory of hooks: the one given, else COFIO_STORE's, else `.cofio` in the user's home folder.

    Raises:
        Invalid: it is no address.
        Unavailable: the user has no home folder.
    """
    if store is not None or os.environ.get(VARIABLE):
        return resolve_store(store)
    try:
        return StoreAddress(folder=Path.home() / STORE_FOLDER)
    except RuntimeError:
        raise Unavailable("this user has no home folder: give the memory's with --store") from None


def find_hook_store(store: str | None) -> StoreAddress:
    """The memory that hooks use, which is there.

    Raises:
        Invalid: it is no address.
        Unavailable: there is none.
    """
    address = choose_hook_store(store)
    if not exists(address):
        raise Unavailable(f"there is no memory in {address}: `cofio hooks install` makes one")
    return address
