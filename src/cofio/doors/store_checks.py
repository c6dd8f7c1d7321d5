"""What is looked at around a memory, rather than in it: its folder, its disk, its vault, its last backup."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ..config.address import StoreAddress
from ..engine.engine import Engine
from ..engine.opening import find_loss
from ..http.tokens import Tokens
from ..system.atomic_files import replace_path
from ..system.disk import has_permissions
from ..system.safe_files import read_file
from ..text.display import render_size
from ..values.errors import Unavailable

LEAST_SPACE = 100_000_000  # bytes; with less than this left on the disk, the doctor says so
BACKUP_NOTE = "last-backup.json"
LONGEST_NOTE = 65_536  # bytes


class Backup(NamedTuple):
    """The last copy that was made of a memory: when, and where to."""

    at: datetime
    target: str


def find_faults_around(address: StoreAddress, tokens: Tokens) -> list[str]:
    """What is wrong around the memory rather than in it."""
    faults, home = list[str](), address.home
    if not home.exists():  # as on a machine from which the database was not used yet
        return faults
    mode, free = home.stat().st_mode & 0o777, shutil.disk_usage(home).free
    if mode & 0o077 and has_permissions():
        faults.append(f"others may look into {home}: its permissions are {mode:04o}, not 0700")
    if free < LEAST_SPACE:
        faults.append(f"the disk of {home} has only {render_size(free)} left; free some space")
    return [*faults, *filter(None, [find_loss(address)]), *tokens.check()]


def find_vault_faults(engine: Engine, store: Path) -> list[str]:
    """What is wrong between a memory and its vault, if it has one."""
    from ..vault.journal import JournalError
    from ..vault.lifecycle import find_detachment

    try:
        why = find_detachment(engine, store)
    except (OSError, JournalError) as error:
        return [f"the vault cannot be looked at: {error}"]
    except Unavailable as error:
        return [str(error)]
    return [why] if why else []


def note_backup(home: Path, target: Path, at: datetime) -> None:
    """Note beside a memory that it was copied, when and where to. What cannot be noted is no reason to fail."""
    with suppress(OSError), replace_path(home / BACKUP_NOTE) as file:
        file.write(json.dumps({"at": at.isoformat(timespec="seconds"), "target": str(target)}).encode())


def read_backup(home: Path) -> Backup | None:
    """The last copy that `cofio backup` made of a memory from this machine; None if it made none."""
    with suppress(OSError, ValueError, KeyError, TypeError, Unavailable):
        note = json.loads(read_file(home / BACKUP_NOTE, limit=LONGEST_NOTE) or b"")
        return Backup(datetime.fromisoformat(note["at"]).astimezone(UTC), str(note["target"]))
    return None
