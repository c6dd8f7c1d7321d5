"""The command that fills a memory with an invented team's, to try things out on, and takes it away again."""

from __future__ import annotations

import sys
from argparse import Namespace

from ...conversations.conversations import Conversations
from ...values.errors import Unavailable
from ...vault.lifecycle import use_vault
from ..example_memory import ABSENT, SCOPES, ExampleMemory
from . import vault_commands
from .context import FEW, load_settings, open_memory, scrub, settle
from .terminal import choose_output, note, render_record_count, render_scope

TRIES = (
    "cofio search when do we ship --scope demo --why",
    "cofio search what can jonas not eat",
    "cofio list --scope demo",
)


def run_demo(args: Namespace) -> int:
    """Fill the memory, or take away what the demo put there."""
    return _remove(args) if args.remove else _fill(args)


def _fill(args: Namespace) -> int:
    address, settings = load_settings(args)
    with open_memory(args, make=True) as engine, use_vault(engine, address.home, settings) as vault:
        example = ExampleMemory(Conversations(engine, mirror=vault, uses_model=False))
        is_ours = example.load()
        records = len(example.list_records())
        where = ", ".join(map(render_scope, SCOPES))
        beginning = "put" if is_ours else "the demo is here already:"
        choose_output(as_json=args.json).print_done(
            f"{beginning} {render_record_count(records)} of an invented team in {where}",
            records=records, scopes=[*map(render_scope, SCOPES)], made=is_ours, tries=[*TRIES],
        )  # fmt: skip
        sys.stdout.flush()
        settle(engine, limit=FEW)
    if not args.json:
        note("now try:")
        for line in TRIES:
            note(f"  {line}")
        note("`cofio demo --remove` takes it all away again")
    return 0


def _remove(args: Namespace) -> int:
    with open_memory(args) as engine:
        if not ExampleMemory(Conversations(engine)).is_here:
            raise Unavailable(ABSENT)
        with vault_commands.follow_vault(args, engine) as vault:
            removal = ExampleMemory(Conversations(engine, mirror=vault)).remove()
        removed, left = removal.removed, removal.left
        choose_output(as_json=args.json).print_done(
            f"took the demo away: {render_record_count(removed)}", removed=removed, left=left
        )
        sys.stdout.flush()
        if left:
            note(f"{render_record_count(left)} that others put there {'stays' if left == 1 else 'stay'}")
        scrub(engine)
    return 0
