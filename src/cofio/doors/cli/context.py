"""How a command opens the memory, and brings up to date what it should find."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...config.lost_store import check_whole, find_loss, find_remains
from ...config.settings import Settings, find_store
from ...engine.engine import Engine
from ...values.errors import Unavailable
from ...values.records import check_text
from .terminal import Bar, note

MAX_PATH = 4096
SCRUB_SECONDS = 2.0  # that forgetting may take until nothing is left in any file
FEW = 64  # so many records are embedded on the way, without much of a wait: a second or two


def place(args: Namespace) -> tuple[Path, Settings]:
    """The folder of the memory, which may not be there yet, and its settings."""
    folder = find_store(args.store)
    check_text("store", str(folder), MAX_PATH)  # the database opens no file whose name is not text
    settings = Settings.load(folder)
    return folder, replace(settings, allow_secrets=True) if "allow_secrets" in args and args.allow_secrets else settings


@contextmanager
def opened(args: Namespace, *, make: bool = False) -> Iterator[Engine]:
    """The memory; only a command that writes may `make` one."""
    folder, settings = place(args)
    there = exists(folder)
    if not there and not make:
        check_whole(folder)
        if parts := find_remains(folder):
            raise Unavailable(
                f"memory.db is gone from {folder}, but {', '.join(parts)} of it {'is' if len(parts) == 1 else 'are'}"
                f" there: put a backup of it back, or run `cofio import everos {folder / 'vault'}`, which restores what"
                " the vault holds"
            )
        raise Unavailable(f"there is no memory in {folder}: `cofio add` makes one, --store names another folder")
    known = find_loss(folder)
    with Engine.open(folder, settings=replace(settings, background=False)) as engine:
        if not known and (lost := find_loss(folder)):
            note(lost)
        elif not there:
            note(f"made a new memory in {folder}")
        yield engine


def exists(folder: Path) -> bool:
    """Whether there is a memory in the folder."""
    return (folder / "memory.db").exists()


def waiting(engine: Engine) -> int:
    """How many records wait for vectors that can be made here."""
    return int(engine.stats()["waiting_for_vectors"]) if engine.embedder() is not None else 0


def settle(engine: Engine, *, limit: int | None = None) -> bool:
    """Index and embed what waits; whether it could. Nothing depends on its being done now: a failure is only told."""
    try:
        with Bar("indexing", after=0.5 if limit else 0.0, expect=limit or waiting(engine)) as bar:
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
