"""Where a user's configuration, data and caches are, by the custom of each system."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_DRIVE = re.compile(r"/[A-Za-z]:(?=/|$)")


def find_config_folder() -> Path | None:
    """The user's own configuration folder, `cofio` in XDG_CONFIG_HOME, ~/.config, ~/Library/Application Support on
    macOS, or %APPDATA% on Windows; None for a user without a home.
    """
    return _find("XDG_CONFIG_HOME", "APPDATA", "~/.config", "~/Library/Application Support", "~/AppData/Roaming")


def find_cache_folder() -> Path | None:
    """The folder of what can be fetched again, `cofio` in XDG_CACHE_HOME, ~/.cache, ~/Library/Caches on macOS, or
    %LOCALAPPDATA% on Windows; None for a user without a home.
    """
    return _find("XDG_CACHE_HOME", "LOCALAPPDATA", "~/.cache", "~/Library/Caches", "~/AppData/Local")


def find_data_folder() -> Path | None:
    """The folder of what a user would miss, `cofio` in XDG_DATA_HOME, ~/.local/share, ~/Library/Application Support on
    macOS, or %LOCALAPPDATA% on Windows; None for a user without a home.
    """
    return _find("XDG_DATA_HOME", "LOCALAPPDATA", "~/.local/share", "~/Library/Application Support", "~/AppData/Local")


def _find(variable: str, windows_variable: str, plain: str, macos: str, windows: str) -> Path | None:
    # A relative one would be part of whatever folder we are in, and is invalid.
    named, home = os.environ.get(variable, ""), plain
    if sys.platform == "darwin":
        home = macos
    elif sys.platform == "win32":
        named, home = named or os.environ.get(windows_variable, ""), windows
    base = named if os.path.isabs(named) else os.path.expanduser(home)
    return Path(base, "cofio") if os.path.isabs(base) else None


def convert_uri_path(path: str) -> str:
    """The path of a file as the system writes it, of the path in its URI: Windows' drives have no / before them."""
    return path[1:] if sys.platform == "win32" and _DRIVE.match(path) else path
