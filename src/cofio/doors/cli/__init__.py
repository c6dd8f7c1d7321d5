"""The command line: the memory for people and for scripts.

Results go to stdout and everything else to stderr. The exit code is 0 when all went well, 1 after an error,
2 after wrong usage, 130 after Ctrl-C and 141 when the reader of the output has gone.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ...values.errors import CofioError, Conflict, LimitExceeded, NotFound

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main"]

_REMEDIES: dict[type[CofioError], str] = {
    NotFound: "; `cofio list` shows what there is",
    Conflict: "; look at it again with `cofio show`, then try again",
    LimitExceeded: "; make it shorter",
}
_FULL = (errno.ENOSPC, errno.EDQUOT)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["hook"] and not {"-h", "--help"}.intersection(words):
        import gc

        gc.disable()  # the process ends before there is anything to collect
        from ..hooks.class_cache import ClassCache, find_cache_file

        cache = ClassCache(find_cache_file())
        cache.install()
        from ..hooks.hook_process import run_hook  # an agent waits for it: not even the parser is loaded

        return run_hook(words[1:], cache)
    from ...system.streams import prepare_streams

    prepare_streams()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _abandon_output()
        return 141
    except OSError as error:
        _report_failure(error)
        _abandon_output()
        return 1
    return code


def _note(sentence: str) -> None:
    from .terminal import note  # not before it is needed

    note(sentence)


def _report_failure(error: OSError) -> None:
    from .terminal import note

    name = "" if error.filename is None else os.fsdecode(error.filename)
    folder = os.path.dirname(name)
    if not name:
        note(f"the output: {error.strerror or error}")
    elif error.errno in _FULL:
        note(f"the disk that holds {name} is full; free some space and try again")
    elif error.errno == errno.ENOENT and folder and not os.path.exists(folder):
        note(f"there is no folder {folder}, so {name} cannot be used; make it first, or name another")
    elif error.errno == errno.ENOENT:
        note(f"there is no file {name}; name one that is there")
    elif error.errno == errno.EISDIR:
        note(f"{name} is a folder; name a file")
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        note(f"{name} may not be read or written by you ({error.strerror}); name another, or change its permissions")
    else:
        note(f"{name}: {error.strerror or error}")


def _run(argv: Sequence[str] | None) -> int:
    from ...config.notices import show_notices
    from .command_line import build_parser  # which a hook does without

    top = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could be typed
        from .completion import complete

        complete(top)
    try:
        args = top.parse_args(argv)
    except SystemExit as end:
        return int(end.code or 0)
    if args.command is None:
        top.print_help(sys.stderr)
        return 2
    show_notices(_note)
    try:
        return _load_command(args.run)(args)
    except CofioError as error:
        _note(f"{error}{_REMEDIES.get(type(error), '')}")
        return 1


def _load_command(run: str) -> Callable[[Namespace], int]:
    """The function that runs a command. A client may wait for it: nothing of other commands is loaded."""
    module, _, name = run.partition(":")
    command: Callable[[Namespace], int] = getattr(import_module(f".{module}", __name__), name)
    return command


def _abandon_output() -> None:
    """Let the interpreter's last flush go nowhere, so that it does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(nowhere, stream.fileno())
        except io.UnsupportedOperation:  # a stream that is no file
            continue
    os.close(nowhere)
