"""Whether the memory of a store was lost: what shows it is written down before a new database hides it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

MARK = "memory.lost"
_SIGNS = {"index": "index/words-*", "vectors": "vectors/*", "vault": "vault/.state/state.db"}


def find_remains(store: Path) -> list[str]:
    """The parts of a store that are there although its memory.db is missing or empty: so there once was one."""
    with suppress(OSError):
        if (store / "memory.db").stat().st_size:
            return []
    return [part for part, sign in _SIGNS.items() if next(store.glob(sign), None) is not None]


def note_loss(store: Path) -> None:
    """Leave a mark in a store whose memory.db is about to be made anew though there was one, until it is seen to."""
    parts = find_remains(store)
    if parts:
        with suppress(OSError), (store / MARK).open("x") as file:
            file.write(f"memory.db was missing or empty beside {', '.join(parts)}; `cofio doctor` tells more\n")


def find_loss(store: Path) -> str:
    """That the memory of a store was lost, and how it is restored, in a sentence; empty when it was not."""
    mark = store / MARK
    try:
        noted = datetime.fromtimestamp(mark.lstat().st_mtime, UTC)
    except OSError:  # not there, or in no folder that can be used, which whoever opens the store is told
        return ""
    return (
        f"memory.db was missing or empty although there was a memory in {store}, and was begun anew on"
        f" {noted:%Y-%m-%d at %H:%M} UTC: put a backup of it back, or run `cofio import everos {store / 'vault'}`,"
        f" which restores what the vault holds; then remove {mark}"
    )


def settle_loss(store: Path) -> None:
    """Take the mark away: what was lost is restored, or is not wanted."""
    (store / MARK).unlink(missing_ok=True)
