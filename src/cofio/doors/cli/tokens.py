"""The command that sees to the server's tokens."""

from __future__ import annotations

from argparse import Namespace

from ...config.address import StoreAddress
from ...engine.opening import resolve_store
from ...http.tokens import FILE, Access, Tokens, open_tokens
from ...values.errors import Conflict, NotFound
from .parser import report_misuse
from .terminal import choose_output, note


def manage_tokens(args: Namespace) -> int:
    """Make, list or end tokens."""
    if args.verb == "add" and args.project is not None and args.app is None:
        return report_misuse(args, "--project needs --app: the app that it is a project of")
    address = resolve_store(args.store)
    with open_tokens(address, make=args.verb == "add") as tokens:
        return _run_verb(args, address, tokens)


def _run_verb(args: Namespace, address: StoreAddress, tokens: Tokens) -> int:
    out = choose_output(as_json=args.json)
    try:
        if args.verb == "add":
            access: Access = "read" if args.read_only else "all"
            text = tokens.add(args.name, app=args.app, project=args.project, access=access)
            out.print_done(text, name=args.name, token=text, app=args.app, project=args.project, access=access)
            note("keep it now: it is stored as a hash and cannot be shown again")
            note(f"from now on every client of a server on {address} needs one")
        elif args.verb == "rm":
            tokens.remove(args.name)
            out.print_done(f"ended the token {args.name}", removed=args.name)
            if not tokens.all():
                way = "" if address.folder is None else f", or {address.home / FILE} is removed"
                note(f"it was the last: clients are let in again once there is another{way}")
        else:
            entries = tokens.all()
            if not entries and not args.json:
                note("there are no tokens: every client on this machine is let in; `cofio token add NAME` makes one")
            for each in entries:
                out.print_done(
                    f"{each.name}\t{each.made}\t{each.limits or 'everything'}",
                    name=each.name, made=each.made, app=each.app, project=each.project, access=each.access,
                )  # fmt: skip
    except Conflict:
        note(f"there is a token {args.name} already: take another name, or end it with `cofio token rm`")
        return 1
    except NotFound:
        note(f"there is no token {args.name}; `cofio token list` shows what there is")
        return 1
    return 0
