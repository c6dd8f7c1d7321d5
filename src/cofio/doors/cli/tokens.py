"""The command that sees to the server's tokens."""

from __future__ import annotations

from argparse import Namespace

from ...errors import Conflict, NotFound
from ...settings import find_store
from ..tokens import FILE, Tokens
from .terminal import note, output


def token(args: Namespace) -> int:
    """Make, list or end tokens."""
    folder = find_store(args.store)
    tokens = Tokens(folder)
    out = output(as_json=args.json)
    try:
        if args.verb == "add":
            made = tokens.add(args.name)
            out.done(made, name=args.name, token=made)
            note("keep it now: it is stored as a hash and cannot be shown again")
            note(f"from now on every client of a server on {folder} needs one")
        elif args.verb == "rm":
            tokens.remove(args.name)
            out.done(f"ended the token {args.name}", removed=args.name)
            if not tokens.all():
                note(f"it was the last: clients are let in again once there is another, or {folder / FILE} is removed")
        else:
            for each in tokens.all():
                out.done(f"{each.name}\t{each.made}", name=each.name, made=each.made)
    except Conflict:
        note(f"there is a token {args.name} already: take another name, or end it with `cofio token rm`")
        return 1
    except NotFound:
        note(f"there is no token {args.name}; `cofio token list` shows what there is")
        return 1
    return 0
