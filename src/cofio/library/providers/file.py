"""Checkpoints as files of JSON: a folder for each thread, a file for each checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...system.atomic_files import TEMPORARY, replace_path
from ...system.disk import sync_path
from ...system.windows_names import make_folder_name
from ..checkpointer import CheckpointerCapabilities
from ..concurrency import in_thread
from .document_checkpointer import Clock
from .named_files import NamedFilesCheckpointer, encode_name

__all__ = ["FileCheckpointer"]

_UNFINISHED = (TEMPORARY, ".part")  # the second as earlier versions wrote them
_PATIENCE = 100


class FileCheckpointer(NamedFilesCheckpointer):
    """Keeps each checkpoint in a file of its own, `BASE_DIR/THREAD/TURN.ID.json`, which people can read too.

    A file is written elsewhere, brought to the disk and then named, so that it is there whole or not at all, also after
    a power cut. Any number of processes may use the folder at once. Listing reads names only; what asks for metadata
    (`query_by_metadata`, `list_with_metadata`) and `search` read the files, so they suit thousands, not millions. A
    thread is copied file by file: stopped half way, the copy ends there.

    Args:
        base_dir: The folder; it is made with the first checkpoint.
        pretty: Whether the JSON is indented.
    """

    def __init__(
        self,
        base_dir: str | os.PathLike[str] = ".cofio_checkpoints",
        pretty: bool = True,
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(clock=clock, pretty=pretty)
        self.base_dir = Path(base_dir)

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        return CheckpointerCapabilities.all_but("ttl")

    def get_storage_path(self) -> Path:
        """Get the folder of the checkpoints."""
        return self.base_dir

    async def get_disk_usage(self, thread_id: str | None = None) -> int:
        """Count the bytes of a thread's files, or of all."""
        return await in_thread(self._size, None if thread_id is None else encode_name(thread_id))

    async def vacuum(self, older_than_days: int = 30) -> int:
        """Forget old checkpoints, and what writers that were stopped half way left behind."""
        removed = await super().vacuum(older_than_days)
        await in_thread(self._sweep)
        return removed

    def _size(self, folder: str | None) -> int:
        total = 0
        for place, name in self._names(folder, None):
            try:
                total += (self._place(place) / name).stat().st_size
            except FileNotFoundError:
                continue  # removed meanwhile
        return total

    def _sweep(self) -> None:
        """Remove unfinished files that were not written to for a day, and folders without any."""
        day_ago = self._now().timestamp() - 86_400
        for folder in self._folders():
            for path in self._place(folder).glob("*"):
                try:
                    if path.suffix in _UNFINISHED and path.stat().st_mtime < day_ago:
                        path.unlink()
                except FileNotFoundError:
                    continue
            self._fold(folder)

    def _folders(self) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.base_dir) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def _names(self, folder: str | None, few: int | None) -> Iterator[tuple[str, str]]:
        for place in self._folders() if folder is None else [folder]:
            try:
                names = sorted(name for name in os.listdir(self._place(place)) if name.endswith(".json"))
            except FileNotFoundError:
                continue
            for name in names:
                yield place, name

    def _place(self, folder: str) -> Path:
        return self.base_dir / make_folder_name(folder)

    def _read(self, folder: str, name: str) -> bytes | None:
        try:
            return (self._place(folder) / name).read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, folder: str, name: str, content: bytes) -> None:
        place = self._place(folder)
        for attempt in range(_PATIENCE):
            try:
                changed = _make(place)
                with replace_path(place / name, mode=0o666) as file:
                    file.write(content)
                break
            except FileNotFoundError:
                # Another process removed the folder with the last of its files.
                if attempt + 1 == _PATIENCE:
                    raise
        for each in changed:
            _sync(each)

    def _erase(self, folder: str, name: str) -> bool:
        try:
            (self._place(folder) / name).unlink()
        except FileNotFoundError:
            return False
        _sync(self._place(folder))
        self._fold(folder)
        return True

    def _fold(self, folder: str) -> None:
        """Remove a folder that holds nothing any more."""
        try:
            self._place(folder).rmdir()
        except OSError:  # it holds something, or is gone: both are well
            return

    def __repr__(self) -> str:
        return f"FileCheckpointer(base_dir={self.base_dir!r})"


def _make(place: Path) -> list[Path]:
    """Make a folder, with those above it; the folders that have a new name in them."""
    try:
        place.mkdir()
    except FileExistsError:
        return []
    except FileNotFoundError:
        above = _make(place.parent)
        with suppress(FileExistsError):
            place.mkdir()
        return [*above, place.parent]
    return [place.parent]


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    try:
        sync_path(folder)
    except FileNotFoundError:
        return  # gone, and so are its names
