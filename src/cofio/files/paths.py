"""Which file a path names: one canonical form, and a reason for every path that names none.

The tree is virtual, so no path can reach a file of this machine; the rules are for those who read the paths later, and
for the day when a tree is copied into a real folder.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, TypeAlias

from ..values.records import MAX_KEY

ROOT = "/memories"
MAX_PATH = MAX_KEY
Spelling: TypeAlias = Literal["any", "absolute", "relative"]
"""Which paths are taken: `/memories/a.md` and `a.md` alike, or one of the two alone."""

_ENCODED = re.compile(r"%(?:25)*(?:2e|2f|5c|00)", re.IGNORECASE)
_JOINERS = "\u200c\u200d"  # within words of some scripts, and within emoji
_SLASHES = "\u2044\u2215\u29f8\ufe68"  # look like one, and no compatibility form says so


class BadPath(Exception):
    """The path names nothing in the tree; `template` says why, with {path} where the path goes."""

    def __init__(self, template: str) -> None:
        super().__init__(template)
        self.template = template


OUTSIDE = "Path must start with /memories, got: {path}"
ESCAPES = "Path {path} would escape /memories directory"
NOT_RELATIVE = "Path must be relative to the memory directory, got: {path}"
EMPTY = "Path must not be empty"
TOO_LONG = f"Path must not be longer than {MAX_PATH:,} characters"
UNSAFE = "Path {path} is not valid: it holds "


def canonicalize(path: str, spelling: Spelling = "any") -> str:
    """The one form of a path: `/memories`, or `/memories/` and the names that lead to a file or directory.

    Raises:
        BadPath: it is not in the tree, or is written in a way that may mean something else to someone else.
    """
    if len(path) > MAX_PATH:
        raise BadPath(TOO_LONG)
    if not path:
        raise BadPath(EMPTY)
    _refuse_strange(path)
    # Twins in NFC and NFD look the same, so they name the same file.
    normal = unicodedata.normalize("NFC", path)
    inner = _strip_root(normal, spelling)
    names: list[str] = []
    for name in inner.split("/"):
        _refuse_alike(name)
        if name == ".." and (not names or spelling == "relative"):
            raise BadPath(ESCAPES)
        if name == "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    found = "/".join((ROOT, *names))
    if len(found) > MAX_PATH:
        raise BadPath(TOO_LONG)
    return found


def _strip_root(path: str, spelling: Spelling) -> str:
    """The part of a path that is within the tree."""
    if not path.startswith("/"):
        if spelling == "absolute":
            raise BadPath(OUTSIDE)
        return path
    if spelling == "relative":
        raise BadPath(NOT_RELATIVE)
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise BadPath(OUTSIDE)
    return path[len(ROOT) :]


def _refuse_strange(path: str) -> None:
    """Refuse characters that no name needs, and that others read as something else."""
    if "\\" in path:
        raise BadPath(f"{UNSAFE}a backslash")
    if _ENCODED.search(path):
        raise BadPath(f"{UNSAFE}an encoded dot, slash, backslash or NUL")
    if path.isascii() and path.isprintable():
        return
    for character in path:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _JOINERS:
            raise BadPath(f"{UNSAFE}the control character U+{ord(character):04X}")
        if character in _SLASHES:
            raise BadPath(f"{UNSAFE}what looks like a slash and is none")


def _refuse_alike(name: str) -> None:
    """Refuse a name that compatibility forms turn into a step of a path, as with `‥`, `．．` or `／`."""
    if name.isascii():
        return
    plain = unicodedata.normalize("NFKC", name)
    if plain in (".", "..") or "/" in plain or "\\" in plain:
        raise BadPath(f"{UNSAFE}what looks like a dot or a slash and is none")


def list_parents(path: str) -> list[str]:
    """The directories that a canonical path is in, below the root."""
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(3, len(names))]


def make_range_under(path: str) -> tuple[str, str]:
    """The range of the canonical paths under a directory: from the first up to, and without, the second."""
    return f"{path}/", f"{path}0"  # "0" comes right after "/"


def make_exact_range(path: str) -> tuple[str, str]:
    """The range that is this canonical path alone."""
    return path, f"{path}\1"  # no path holds a control character
