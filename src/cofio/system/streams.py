"""stdin, stdout and stderr, the same everywhere: UTF-8, one character for a line break, and never a reason to fail."""

from __future__ import annotations

import codecs
import io
import os
import sys

_HANDLER = "cofio-stdout"


def prepare_streams() -> None:
    """Make the streams of this process such; one that its parent has closed leads nowhere."""
    # These stay open as long as we run.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error(_HANDLER, _escape)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        if isinstance(sys.stdout.buffer, io.FileIO):
            # PYTHONUNBUFFERED leaves the buffer out, and then what a disk takes only a part of is lost without a word.
            sys.stdout = open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout.reconfigure(encoding="utf-8", errors=_HANDLER, newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """Names of files that are no UTF-8 come out as they went in; any other half of a surrogate pair as a sign."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    return b"".join(bytes([ord(each) & 0xFF]) if "\udc80" <= each <= "\udcff" else b"?" for each in bad), error.end
