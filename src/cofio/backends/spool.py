"""Rows spooled to memory or a file, so that a slow consumer keeps no transaction open."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Any, TypeVar

from ..values.errors import Unavailable

T = TypeVar("T", bound=tuple[Any, ...])
IN_MEMORY = 8 * 2**20  # bytes; what is longer goes into a file without a name, which ends with the process
_LENGTH = 8  # bytes that say how many a row takes in the file


def spool(read: Callable[[], Generator[T]], folder: Path | None) -> Iterator[T]:
    """Read rows of plain values to their end, at once, and give them one by one, from memory or a file in `folder`.

    Without a folder, the file is where the system has temporary ones.

    If reading them ends with Unavailable, so does this, after the rows before: what can be read of a damaged database
    is worth having. If there is no room for them, they are given as they are read.
    """
    with ExitStack() as stack:
        file: IO[bytes] | None = None
        first: list[bytes] = []
        size, count, failure = 0, 0, None
        try:
            with closing(read()) as rows:
                for row in rows:
                    data = marshal.dumps(row)
                    size += len(data)
                    if size <= IN_MEMORY:
                        first.append(data)
                        continue
                    if file is None:
                        import tempfile  # not free, and few processes come here

                        file = stack.enter_context(tempfile.TemporaryFile(dir=folder and str(folder)))
                    file.write(len(data).to_bytes(_LENGTH) + data)
                    count += 1
            if file is not None:
                file.seek(0)
        except Unavailable as error:
            failure = error
            if file is not None:
                file.seek(0)
        except OSError:  # the disk is full
            yield from read()
            return
        yield from map(marshal.loads, first)
        if file is not None:
            for _ in range(count):
                yield marshal.loads(file.read(int.from_bytes(file.read(_LENGTH))))  # noqa: S302  # what this process wrote
        if failure is not None:
            raise failure
