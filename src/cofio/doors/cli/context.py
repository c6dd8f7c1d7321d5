"""How a command opens the memory, and brings up to date what it should find."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...config.address import StoreAddress
from ...config.settings import Settings
from ...engine import opening
from ...engine.engine import Engine
from ...engine.opening import check_absence, exists, find_loss, resolve_store
from ...values.errors import Unavailable
from .terminal import Bar, note

MAX_PATH = 4096
SCRUB_SECONDS = 2.0  # that forgetting may take until nothing is left in any file
FEW = 64  # records that a command embeds before it ends: a wait of a second or two


def load_settings(args: Namespace) -> tuple[StoreAddress, Settings]:
    """The address of the memory, which may not be there yet, and its settings."""
    address = resolve_store(args.store)
    settings = opening.load_settings(address)
    if "allow_secrets" in args and args.allow_secrets:
        settings = replace(settings, allow_secrets=True)
    return address, settings


@contextmanager
def open_memory(args: Namespace, *, make: bool = False) -> Iterator[Engine]:
    """The memory; only a command that writes may `make` one."""
    address, settings = load_settings(args)
    there = exists(address)
    if not there and not make:
        check_absence(address)
        raise Unavailable(f"there is no memory in {address}: `cofio add` makes one, --store names another")
    is_known = bool(find_loss(address))
    with Engine.open(address, settings=replace(settings, background=False)) as engine:
        if not is_known and (loss := find_loss(address)):
            note(loss)
        elif not there:
            note(f"made a new memory in {address}")
        yield engine


def count_waiting(engine: Engine) -> int:
    """How many records wait for vectors that can be made here."""
    return engine.stats().waiting_for_vectors if engine.embedder() is not None else 0


def settle(engine: Engine, *, limit: int | None = None) -> bool:
    """Index and embed what waits; whether it could. Nothing depends on its being done now: a failure is only told."""
    try:
        with Bar("indexing", after=0.5 if limit else 0.0, expect=limit or count_waiting(engine)) as bar:
            engine.settle(bar, limit)
    except Unavailable as error:
        note(f"not everything is embedded yet: {error}")
        return False
    return True


def scrub(engine: Engine) -> None:
    """Make unreadable what was just forgotten, as far as that takes a moment. What is left is told."""
    try:
        done = engine.scrub(seconds=SCRUB_SECONDS)
    except Unavailable as error:
        note(f"forgotten, but not yet removed from every file: {error}")
        return
    if not done:
        note(
            "its words are still in the files of the index: `cofio doctor --fix` removes them now, a server bit by bit"
        )
