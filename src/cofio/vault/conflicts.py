"""What people wrote that could not be taken in: kept beside its file until somebody has looked at it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..values.errors import Invalid, NotFound
from .layout import Parts, join_parts
from .lifecycle import check_links
from .vault import FOLDER
from .writer import Tree

MARK = ".conflict-"
READ = 20_000  # bytes of each file that are read


class ConflictFile(NamedTuple):
    """A person's version of something, and the file that it was put beside."""

    path: str
    """Below the vault's folder."""
    text: str
    beside: str
    current: str
    """What that file says now; empty when it is gone."""


def list_conflicts(store: Path, limit: int) -> list[ConflictFile]:
    """The versions of people that are kept beside the files of a store's vault, up to a number of them.

    Raises:
        Unavailable: the vault is a link that the user has not vouched for.
    """
    folder = store / FOLDER
    check_links(store, folder)
    tree = Tree(folder)
    found = (path for path, _ in tree.walk() if MARK in path[-1])
    return [_read_conflict(tree, path) for path in islice(found, limit)]


def remove_conflict(store: Path, path: str) -> None:
    """Remove a version that was kept beside a file.

    Raises:
        NotFound: there is none at this path.
        Unavailable: the vault is a link that the user has not vouched for.
    """
    folder = store / FOLDER
    check_links(store, folder)
    tree = Tree(folder)
    wanted = next((each for each, _ in tree.walk() if MARK in each[-1] and join_parts(each) == path), None)
    if wanted is None:
        raise NotFound(path)
    tree.remove(wanted)


def _read_conflict(tree: Tree, path: Parts) -> ConflictFile:
    beside = (*path[:-1], f"{path[-1].partition(MARK)[0]}.md")
    return ConflictFile(join_parts(path), _read_text(tree, path), join_parts(beside), _read_text(tree, beside))


def _read_text(tree: Tree, path: Parts) -> str:
    try:
        found = tree.read(path)
    except Invalid:  # no plain file any more
        return ""
    return "" if found is None else found.content[:READ].decode(errors="replace")
