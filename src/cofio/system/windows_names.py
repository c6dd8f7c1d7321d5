"""Which names of files Windows takes for something else: a device, a drive, a part of a file, or another name."""

from __future__ import annotations

import re
import sys

_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:\..*)?", re.IGNORECASE | re.DOTALL
)
_SPECIAL = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def is_device(name: str) -> bool:
    """Whether a name means a device on Windows, in whatever folder, and with whatever ending."""
    return _DEVICE.fullmatch(name) is not None


def is_plain(name: str) -> bool:
    """Whether a name means, on Windows too, one entry of its folder and nothing else."""
    return bool(name) and not _SPECIAL.search(name) and name[-1] not in ". " and not is_device(name)


def make_folder_name(name: str) -> str:
    """A name, or on Windows, where it would mean a device, one that does not; it ends in `~` then."""
    return f"{name}~" if sys.platform == "win32" and is_device(name) else name
