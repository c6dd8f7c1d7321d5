"""What the files of an owner held before, and how it is brought back."""

from __future__ import annotations

from ..engine.engine import Engine
from ..values.errors import Invalid, NotFound
from ..values.records import Scope
from .commands import Result, dispatch
from .paths import BadPath, canonicalize
from .tree import Revision, Tree


def log(engine: Engine, scope: Scope, path: str) -> list[Revision]:
    """What the file at a path held before, the latest first: of one that was deleted, too.

    Raises:
        Invalid: the path names nothing in the tree.
    """
    return Tree(engine, scope).log(_canonicalize(path))


def restore(
    engine: Engine, scope: Scope, path: str, revision: str | None = None, *, source: str = "memory_tool"
) -> Result:
    """Give the file at a path the text of a revision by its id, or else of its latest; what it holds now is kept.

    Raises:
        NotFound: the file has no such revision, or none at all.
        Invalid: the path names nothing in the tree.
    """
    wanted = next((each for each in log(engine, scope, path) if revision in (None, each.id)), None)
    if wanted is None:
        raise NotFound(revision or path)
    command = {"command": "create", "path": path, "file_text": wanted.text}
    return dispatch(engine, scope, command, overwrite=True, source=source)


def _canonicalize(path: str) -> str:
    try:
        return canonicalize(path)
    except BadPath as bad:
        raise Invalid("path", bad.template.format(path=path)) from None
