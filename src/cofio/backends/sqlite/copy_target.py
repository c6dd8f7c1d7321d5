"""A copy of a store while it is being made: until it is whole it has no memory.db, so no process opens it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from ...config.lost_store import UNFINISHED
from ...system.disk import keeps_open_files, sync_path
from ...system.locks import try_lock
from ...values.errors import Invalid, Unavailable

_PARTS = frozenset({"index", "vectors", "lease", "cofio.toml"})


class CopyTarget:
    """A folder that a copy is made in, for its `with` block; what the block does not complete is removed again.

    A process that is killed leaves what it has made so far. The next copy into the folder removes that, or goes on.
    """

    def __init__(self, folder: Path, *, resume: bool = False) -> None:
        """With `resume`, what there is of an unfinished copy stays, now and when this one is not completed.

        Raises:
            Invalid: the folder exists, and holds something else than an unfinished copy.
            Unavailable: another process is making a copy there.
        """
        self.folder = folder
        self.database = folder / UNFINISHED
        self._is_new = not folder.exists()
        self._is_complete = False
        self._resume = resume
        if not self._is_new and not _is_free(folder):
            raise Invalid("target", f"{folder} exists and is not an empty folder")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_handle = os.open(folder / "lease", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            self._lock()
        except BaseException:
            os.close(self._lock_handle)
            raise

    def _lock(self) -> None:
        """Lock the folder, and clear it."""
        if not try_lock(self._lock_handle):
            raise Unavailable(f"another copy is being made in {self.folder} at the moment")
        if not _is_free(self.folder):  # another process has just completed one
            raise Invalid("target", f"{self.folder} exists and is not an empty folder")
        if not self._resume:
            self._clear()
        self.database.touch(0o600)  # before the rest: it tells what this folder is, should this process be killed
        for name in ("index", "vectors"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)

    def __enter__(self) -> CopyTarget:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = not self._is_complete and not self._resume and not (self.folder / "memory.db").exists()
        if failed:
            with suppress(OSError):  # the first failure is the one to report
                self._clear()
                self._remove()
        os.close(self._lock_handle)
        if failed and keeps_open_files():  # elsewhere it may be the next one's by now, who has just begun
            with suppress(OSError):
                self._remove()

    def _remove(self) -> None:
        (self.folder / "lease").unlink()
        if self._is_new:
            self.folder.rmdir()

    def complete(self) -> None:
        """Force all of it to the disk, and then give the database its name."""
        for folder, _, files in os.walk(self.folder):
            for name in files:
                sync_path(Path(folder, name))
            sync_path(folder)
        self._rename_database()
        self._is_complete = True
        sync_path(self.folder)
        sync_path(self.folder.absolute().parent)

    def _rename_database(self) -> None:
        """Give the database its name, unless another process has begun a memory here meanwhile."""
        name = self.folder / "memory.db"
        try:
            os.link(self.database, name)
        except OSError:
            if name.exists():
                raise Unavailable(f"a memory was begun in {self.folder} meanwhile; choose another folder") from None
            self.database.rename(name)  # on a disk that knows no second name of a file
        else:
            self.database.unlink()

    def _clear(self) -> None:
        """Remove all but the lock file, and last the mark of an unfinished copy."""
        for file in sorted(self.folder.iterdir(), key=lambda file: file.name == UNFINISHED):
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            elif file.name != "lease":
                file.unlink()


def _is_free(folder: Path) -> bool:
    """Whether a folder is empty, or holds nothing but an unfinished copy."""
    if not folder.is_dir():
        return False
    names = {file.name for file in folder.iterdir()}
    ours = {name for name in names if name in _PARTS or name.startswith(UNFINISHED)}
    return names == ours and (UNFINISHED in names or names <= {"lease"})
