"""Whether the memory of a store was lost: what shows it is written down before a new database hides it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ..system.safe_files import read_file
from ..values.errors import Unavailable

DATABASE = "memory.db"
MARK = "memory.lost"
UNFINISHED = "memory.db.partial"  # what the database of a copy is called until all of the copy is there
_LONGEST = 4096  # bytes of the mark
_BEGUN = "begun anew as "
_SIGNS = {"index": "index/words-*", "vectors": "vectors/*", "vault": "vault/.state/state.db"}


def check_whole(store: Path) -> None:
    """See to it that a folder is not a copy of a store that is being made, or that was never finished.

    Raises:
        Unavailable: it is one.
    """
    if (store / UNFINISHED).exists() and not (store / DATABASE).exists():
        raise Unavailable(
            f"there is no memory in {store}, but a copy that is being made, or was not finished: run the backup or the"
            " copy again, or choose another folder"
        )


def find_remains(store: Path) -> list[str]:
    """The parts of a store that are there although its memory.db is missing or empty: so there once was one."""
    with suppress(OSError):
        if (store / DATABASE).stat().st_size:
            return []
    return [part for part, sign in _SIGNS.items() if next(store.glob(sign), None) is not None]


def note_loss(store: Path) -> None:
    """Leave a mark in a store whose memory.db was lost and is about to be created again, until the loss is settled."""
    parts = find_remains(store)
    if parts:
        with suppress(OSError), (store / MARK).open("x", encoding="utf-8", newline="\n") as file:
            file.write(f"memory.db was missing or empty beside {', '.join(parts)}; `cofio doctor` tells more\n")


def follow_up_loss(store: Path, id: str) -> None:
    """Write into the mark, if there is one, which database was created; remove it when another database is there."""
    with suppress(OSError, Unavailable):
        text = (read_file(store / MARK, limit=_LONGEST) or b"").decode(errors="replace")
        if text and _BEGUN not in text:
            with (store / MARK).open("a", encoding="utf-8", newline="\n") as file:
                file.write(f"{_BEGUN}{id}\n")
        elif text and id not in text:  # a backup was put back
            settle_loss(store)


def find_loss(store: Path) -> str:
    """That the memory of a store was lost, and how it is restored, in a sentence; empty when it was not."""
    mark = store / MARK
    try:
        noted = datetime.fromtimestamp(mark.lstat().st_mtime, UTC)
    except OSError:  # not there, or in a folder that cannot be used, which is reported when the store is opened
        return ""
    vault, restore = store / "vault", ""
    if vault.is_dir():
        restore = f", or run `cofio import everos {vault}`, which restores what the vault holds"
    return (
        f"memory.db was missing or empty although there was a memory in {store}, and was begun anew on"
        f" {noted:%Y-%m-%d at %H:%M} UTC: put a backup of it back{restore}. If it is not wanted back, remove {mark}"
    )


def settle_loss(store: Path) -> None:
    """Take the mark away: what was lost is restored, or is not wanted."""
    (store / MARK).unlink(missing_ok=True)
