"""Rows spooled to memory or a file, so that a slow consumer keeps no transaction open."""

from __future__ import annotations

import marshal
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from ...values.errors import Unavailable

T = TypeVar("T", bound=tuple[Any, ...])
IN_MEMORY = 8 * 2**20  # bytes; what is longer goes into a file without a name, which ends with the process


def spool(read: Callable[[], Generator[T]], folder: Path) -> Iterator[T]:
    """Read rows of plain values to their end, at once, and give them one by one, from memory or a file in `folder`.

    If reading them ends with Unavailable, so does this, after the rows before: what can be read of a damaged database
    is worth having. If there is no room for them, they are given as they are read.
    """
    with tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(folder)) as file:
        count, failure = 0, None
        try:
            with closing(read()) as rows:
                for row in rows:
                    file.write(marshal.dumps(row))
                    count += 1
            file.seek(0)
        except Unavailable as error:
            failure = error
            file.seek(0)
        except OSError:  # the disk is full
            yield from read()
            return
        for _ in range(count):
            yield marshal.load(file)  # noqa: S302  # what this process wrote, where no other can
        if failure is not None:
            raise failure
