"""The command that agents run, where its options stand before its name; else `main` runs it without any of this."""

from __future__ import annotations

from argparse import Namespace

from ..hooks.hook_process import run_hook


def answer_event(args: Namespace) -> int:
    """Answer one event of a coding agent."""
    options = {"--store": args.store, "--event": args.event}
    return run_hook([args.client, *(word for name, value in options.items() if value for word in (name, value))])
