"""The commands about the command line itself: its help, its version, and how a shell completes it."""

from __future__ import annotations

import sys
from argparse import Namespace

from ... import __version__
from ...config.suggestions import refuse
from .command_line import build_parser
from .parser import report_misuse


def print_help(args: Namespace) -> int:
    """Print the help of a command, or of all."""
    reader = build_parser()
    for word in args.topic:
        choices = {name: its for action in reader.commands() for name, its in action.choices.items()}
        if word not in choices:
            if not choices:
                return report_misuse(args, f"`{reader.prog}` has no {word}")
            what = "a command" if reader.prog == "cofio" else f"a verb of `{reader.prog}`"
            return report_misuse(args, refuse(word, what, choices))
        reader = choices[word]
    reader.print_help(sys.stdout)
    return 0


def print_version(args: Namespace) -> int:
    """Print the version."""
    from .terminal import choose_output

    choose_output(as_json=args.json).print_done(f"cofio {__version__}", version=__version__)
    return 0


def print_completion(args: Namespace) -> int:
    """Print what makes a shell complete the words of this command line."""
    from .completion import SETUP, render_shell_code
    from .terminal import choose_output, note

    code = render_shell_code(args.shell)
    choose_output(as_json=args.json).print_done(code, shell=args.shell, code=code)
    if sys.stdout.isatty() and not args.json:
        sys.stdout.flush()
        note(f"that is for the shell, not to be read: {SETUP[args.shell]}")
    return 0
