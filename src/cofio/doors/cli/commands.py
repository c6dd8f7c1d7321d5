"""The commands about records: read the words, call the engine's verbs, print what came of it."""

from __future__ import annotations

import sys
from argparse import Namespace

from ...conversations.deletion import forget
from ...secrets.policy import admit
from ...values.changes import Delete, Drop
from ...values.errors import Invalid
from ...values.query import Page, Query
from ...values.records import Kind
from ..display import neutralise_line
from . import vault_commands
from .context import FEW, count_waiting, load_settings, open_memory, scrub, settle
from .explanations import explain
from .identifiers import resolve, shorten
from .parser import report_misuse
from .terminal import count_records, headline, note, output, path
from .visibility import asked_filter, visible_filter, visible_kinds, visible_scopes

_ELSEWHERE = " but what cofio keeps for its own use, which --all lists"


def add(args: Namespace) -> int:
    """Remember a text, by itself or under a key."""
    if args.key is not None and (args.dedupe or args.similar):
        return report_misuse(args, "--dedupe and --similar do not go with --key: a key holds one record")
    text = _text(args)
    _refuse_secrets(args, text)
    with open_memory(args, make=True) as engine:
        if args.key is not None:
            record = engine.put(
                args.scope, args.key, text=text, data=args.data, title=args.title, kind=args.kind or "item",
                tags=args.tag, author=args.author, importance=args.importance, ttl=args.ttl, source="cli",
            )  # fmt: skip
        else:
            record = engine.write(
                args.scope, text=text, data=args.data, title=args.title, kind=args.kind or "note", tags=args.tag,
                author=args.author, importance=args.importance, ttl=args.ttl, source="cli",
                dedupe=args.dedupe, similar=args.similar,
            )  # fmt: skip
        output(as_json=args.json).print_added(record)
        sys.stdout.flush()
        if record.existed:
            note("this text was there already; nothing was added")
        short = engine.abbreviate([one.id for one in record.similar])
        for one in record.similar:
            note(f"{one.likeness:.0%} the same as {short[one.id]} {one.title}".rstrip())
        settle(engine, limit=FEW)
    return 0


def _refuse_secrets(args: Namespace, text: str) -> None:
    """Refuse what looks like a secret, unless it is allowed; a key may say that what it holds is one."""
    _, settings = load_settings(args)
    held = {"text": text, "data": args.data}
    if args.key is not None:
        held = {name: {args.key: value} for name, value in held.items()}
    given = {**held, "title": args.title, "tags": args.tag, "author": args.author}
    admit("cli", given, allow=settings.allow_secrets)


def _text(args: Namespace) -> str:
    """What to remember: the words of the command, else what comes in; under a key, data is enough."""
    if args.text and args.text != ["-"]:
        return " ".join(args.text)
    if not args.text and args.key is not None and args.data is not None:
        return ""
    if sys.stdin.isatty():
        note("type what to remember, then Ctrl-D on a line of its own")
    try:
        return sys.stdin.buffer.read().decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise Invalid("text", f"what came in is not UTF-8 ({error.reason} at byte {error.start})") from None


def search(args: Namespace) -> int:
    """Find records, and say so when there are none or when not everything could be searched."""
    if not " ".join(args.query).strip():
        return report_misuse(args, "say what to look for; `cofio list` shows all there is")
    query = Query(
        " ".join(args.query), scope=args.scope, exact=args.exact, kinds=tuple(args.kind), filter=asked_filter(args),
        mode=args.mode, limit=args.limit, floor=args.floor,
    )  # fmt: skip
    with open_memory(args) as engine:
        page = engine.search(query)
        without = count_waiting(engine) if page.degraded and query.mode != "keyword" else 0
        if 0 < without <= FEW and settle(engine, limit=FEW):
            page = engine.search(query)
        short = shorten(args, engine, [hit.record.id for hit in page])
    why = [explain(hit, page, query.text, verbose=args.verbose) if args.why or args.verbose else [] for hit in page]
    output(as_json=args.json).hits(page, why, short)
    sys.stdout.flush()
    if not page and not args.json:
        note(_nothing(query, page))
    if page.degraded and not args.json:
        note(f"{page.degraded}{'; `cofio reindex` embeds them now' if without > FEW else ''}")
    return 0


def _nothing(query: Query, page: Page) -> str:
    """That nothing was found, where it was looked for, and what was left out."""
    seen = page.searched
    counts = [f"{seen.keyword} by words"] if query.mode != "semantic" else []
    if query.mode != "keyword":
        counts.append("meaning was not searched" if seen.semantic is None else f"{seen.semantic} by meaning")
    kinds = f" among {', '.join(seen.kinds)}" if seen.kinds else ""
    tests = " that passes the tests" if query.filter else ""
    said = f"nothing found for {query.text!r} in {path(seen.scope)}{kinds}{tests} (candidates: {', '.join(counts)})"
    if not page.cut:
        return said
    near = f"; the nearest is: {headline(page.near[0].record)}" if page.near else ""
    return f"{said}; {page.cut} were too far off, --floor 0 shows them{near}"


def list_records(args: Namespace) -> int:
    """List records, and say when there are more."""
    bounds = {"exact": args.exact, "kinds": visible_kinds(args), "filter": visible_filter(args)}
    with open_memory(args) as engine:
        found = engine.list(args.scope, **bounds, limit=args.limit, offset=args.offset, newest=not args.oldest)
        after = args.offset + len(found)
        count = engine.count(args.scope, **bounds) if len(found) in (0, args.limit) else after
        short = shorten(args, engine, [record.id for record in found])
        hidden = not (count or args.all) and engine.count(args.scope, exact=args.exact)
    output(as_json=args.json).print_list(found, short)
    sys.stdout.flush()
    if not found:
        note(f"no records here{f' after the first {count:,}' if count else ''}{_ELSEWHERE if hidden else ''}")
    elif after < count and not args.json:
        note(f"{len(found):,} of {count_records(count)}; --offset {after} goes on")
    return 0


def show(args: Namespace) -> int:
    """Show one record, by its id or its key."""
    if (args.id is None) == (args.key is None):
        return report_misuse(args, "give the id of a record, or its key with --key")
    with open_memory(args) as engine:
        record = resolve(engine, args.id) if args.key is None else engine.get(args.scope, args.key, kind=args.kind)
    if record is None:
        note(f"{path(args.scope)} has no {args.kind} with the key {args.key!r}; `cofio list` shows what there is")
        return 1
    output(as_json=args.json).record(record)
    return 0


def remove(args: Namespace) -> int:
    """Forget records; a whole scope only after a yes."""
    if bool(args.ids) == (args.scope is not None):
        return report_misuse(args, "give the ids of records, or a scope with --scope")
    if args.scope is not None and not args.yes and not sys.stdin.isatty():
        return report_misuse(args, "forgetting a scope needs --yes where nobody can be asked")
    with open_memory(args) as engine:
        if args.scope is None:
            # All are found first: with a wrong one among them, nothing is forgotten.
            doomed = {record.id: record for record in [resolve(engine, each) for each in args.ids]}
            for record in doomed.values():
                if record.kind is Kind.TOPIC:  # whose words would stay in its document's file
                    whole = record.scope.names[-1]
                    raise Invalid("id", f"{record.id} is a part of {whole}: `cofio documents rm {whole}` forgets that")
            with vault_commands.follow_vault(args, engine) as vault:
                removed = sum(forget(engine, vault, Delete(id=each)) for each in doomed)
            for each in (known for known in doomed if known not in args.ids):
                note(f"{each} was: {headline(doomed[each])}")
        elif args.yes or _ask(f"Forget {count_records(engine.count(args.scope))} in {path(args.scope)} for good?"):
            with vault_commands.follow_vault(args, engine) as vault:
                removed = forget(engine, vault, Drop(scope=args.scope))
        else:
            note("nothing was forgotten")
            return 1
        output(as_json=args.json).done(f"forgot {count_records(removed)}", removed=removed)
        sys.stdout.flush()
        scrub(engine)
    return 0


def _ask(question: str) -> bool:
    """Whether the person at the terminal says yes."""
    print(f"{neutralise_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_scopes(args: Namespace) -> int:
    """Show the scopes with their numbers."""
    with open_memory(args) as engine:
        counts = visible_scopes(args, engine)
    output(as_json=args.json).scopes(counts)
    return 0
