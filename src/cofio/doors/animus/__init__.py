"""The Animus `memory_store` plugin: a process that the host starts for a project, often for a single call.

Everything is imported by what needs it, for the start is paid again with every call.
"""

from __future__ import annotations

import os
import sys

USAGE = """\
usage: animus-memory-cofio [--manifest | -m] [--error-codes seed|crate]

The Animus memory_store plugin. The host starts it and speaks JSON-RPC on stdin and stdout.

  -m, --manifest             print the manifest and end
  --error-codes seed|crate   -323xx (the default) or -324xx for the errors of memory; also COFIO_ANIMUS_ERROR_CODES
"""
CODES_VARIABLE = "COFIO_ANIMUS_ERROR_CODES"
PROFILES = ("seed", "crate")

__all__ = ["main", "start"]


def main() -> int:
    """Run `animus-memory-cofio` as it was called; the exit code."""
    from ...system.streams import prepare_streams

    prepare_streams()
    words = sys.argv[1:]
    manifest, error_codes = False, None
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word in ("-h", "--help"):
            sys.stderr.write(USAGE)
            return 0
        if word in ("-m", "--manifest"):
            manifest = True
        elif name == "--error-codes" and (equals or words):
            error_codes = value if equals else words.pop(0)
        else:
            return _report_misuse(f"{word} is not understood here")
    try:
        return start(manifest=manifest, error_codes=error_codes)
    except KeyboardInterrupt:
        return 130


def start(*, manifest: bool = False, error_codes: str | None = None, store: str | None = None) -> int:
    """Print the manifest, or serve the host on stdin and stdout until it goes; the exit code."""
    if manifest:
        from .protocol import render_manifest

        sys.stdout.write(render_manifest())
        return 0
    codes = error_codes or os.environ.get(CODES_VARIABLE) or PROFILES[0]
    if codes not in PROFILES:
        return _report_misuse(f"error codes are those of {' or '.join(PROFILES)}, not {codes!r}")
    if sys.stdin is None or sys.stdin.isatty():
        return _report_misuse("the Animus host starts this and speaks JSON-RPC with it; --help tells more")
    from .plugin import run

    return run(codes=codes, store=store)


def _report_misuse(sentence: str) -> int:
    from ...text.display import neutralise_line

    sys.stderr.write(f"animus-memory-cofio: {neutralise_line(sentence)}\n")
    return 2
