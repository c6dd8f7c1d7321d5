"""An older copy of a database that is put back in its place while it is open."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw


def put_back(copy: Path, database: Path) -> None:
    """Write the content of one database over that of another that is open."""
    with (
        closing(apsw.Connection(str(copy))) as source,
        closing(apsw.Connection(str(database))) as target,
        target.backup("main", source, "main") as backup,
    ):
        while not backup.done:
            backup.step(100)
