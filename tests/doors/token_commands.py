"""Tokens as an owner makes them, by the command: wherever the store keeps them."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable

from tests.waiting import wait_until

from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.http.tokens import FRESH


def add_token(store: StoreAddress, name: str) -> str:
    """Make a token; return it."""
    return _run(store, "add", name).strip()


def remove_token(store: StoreAddress, name: str) -> None:
    """Take a token away."""
    _run(store, "rm", name)


def hold(store: StoreAddress, condition: Callable[[], bool]) -> None:
    """See that a change of the tokens counts: at once in a folder, and within a moment on a database."""
    if store.folder is None:  # each worker knows of it by itself, within this time
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 2 * FRESH and condition())
    assert condition()


def _run(store: StoreAddress, *words: str) -> str:
    printed, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        code = main(["--store", store.spell(), "token", *words])
    assert code == 0, told.getvalue()
    return printed.getvalue()
