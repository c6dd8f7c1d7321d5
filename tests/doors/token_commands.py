"""Tokens as an owner makes them, by the command: wherever the store keeps them."""

from __future__ import annotations

import contextlib
import io

from cofio.config.address import StoreAddress
from cofio.doors.cli import main


def add_token(store: StoreAddress, name: str) -> str:
    """Make a token; return it."""
    return _run(store, "add", name).strip()


def remove_token(store: StoreAddress, name: str) -> None:
    """Take a token away."""
    _run(store, "rm", name)


def _run(store: StoreAddress, *words: str) -> str:
    printed, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        code = main(["--store", store.spell(), "token", *words])
    assert code == 0, told.getvalue()
    return printed.getvalue()
