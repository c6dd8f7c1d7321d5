"""How a `file:` URI is read: from a folder that the owner allows, and nothing that only looks like it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from ..system.folders import descend, open_folder
from ..system.user_folders import convert_uri_path
from ..values.errors import Invalid
from .decoder import make_too_large
from .fetch_policy import FetchPolicy
from .message_items import Unreadable


def read_file_uri(uri: str, fetching: FetchPolicy) -> tuple[bytes, str]:
    """The bytes of a file, and its path.

    Raises:
        Unreadable: it is not in an allowed folder, not a file, or too large.
    """
    path = _parse_path(uri)
    # Links are followed here, and the check is on where they lead; below none is followed, so it stays true.
    real = Path(os.path.realpath(path))
    for folder in fetching.folders:
        root = Path(os.path.realpath(folder))
        if real != root and real.is_relative_to(root):
            return _read(root, real.relative_to(root).parts, fetching.max_bytes), str(real)
    raise Unreadable("The file is not in a folder that the owner of this server allows it to read: send it as base64.")


def _parse_path(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise Unreadable("The URI is not well formed.") from None
    if parts.netloc.lower() not in ("", "localhost"):
        raise Unreadable("The URI names a file of another machine: only file:///path is read.")
    if parts.query or parts.fragment or "?" in uri or "#" in uri:
        raise Unreadable("In a file's URI, ? is written %3F and # is written %23.")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    path = convert_uri_path(path)
    if not os.path.isabs(path) or "\0" in path:
        raise Unreadable("The URI does not name a file by its full path, as file:///path does.")
    return path


def _read(root: Path, names: tuple[str, ...], limit: int) -> bytes:
    """Open one folder after the other, without following links, so that none can be exchanged on the way."""
    try:
        with closing(open_folder(root)) as opened, descend(opened, names[:-1]) as folder:
            data, _ = folder.read(names[-1], limit)
    except OSError:
        raise Unreadable("There is no such file in the folder, or the server may not read it.") from None
    except Invalid:
        raise Unreadable("The URI names something that is not a regular file.") from None
    if len(data) > limit:
        raise make_too_large(limit)
    return data
