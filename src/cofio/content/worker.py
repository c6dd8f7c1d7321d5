"""A process that reads one document and ends: what a parser does to it, it does to no one else.

`python -m cofio.content.worker KIND CHARSET [marked]` takes the document on stdin and answers on stdout (a pipe): with
its text, the headings marked if that is asked for, and exit code 0, or with the reason why it cannot be read and exit
code 3. A parser that gives up ends with 4 or a signal.
"""

from __future__ import annotations

import os
import sys

from ..system.processes import limit_resources
from .media_types import Kind
from .message_items import Unreadable
from .worker_pool import GAVE_UP, MEMORY, REFUSED, SECONDS


def main() -> int:
    """Read what is on stdin, within limits that the process sets for itself before it looks at it."""
    sys.excepthook = lambda *_: os._exit(GAVE_UP)
    limit_resources(seconds=SECONDS, memory=MEMORY)
    kind, charset, data = Kind(sys.argv[1]), sys.argv[2] or None, sys.stdin.buffer.read()
    try:
        code, answer = 0, _read(kind, data, charset, marked=sys.argv[3:] == ["marked"])
    except Unreadable as refused:
        code, answer = REFUSED, refused.reason
    sys.stdout.buffer.write(answer.encode(errors="replace"))
    return code


def _read(kind: Kind, data: bytes, charset: str | None, *, marked: bool) -> str:
    if kind is Kind.PDF:
        from .pdf import read_pdf

        return read_pdf(data, marked=marked)
    if kind is Kind.OFFICE:
        from .office import read_office

        return read_office(data, marked=marked)
    if kind is Kind.EMAIL:
        from .mail import read_mail

        return read_mail(data)
    from .markup import read_page

    return read_page(data, charset, marked=marked)


if __name__ == "__main__":
    sys.exit(main())
