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
from . import vault_commands
from .context import FEW, count_waiting, load_settings, open_memory, scrub, settle
from .explanations import explain
from .identifiers import resolve, shorten
from .parser import report_misuse
from .terminal import ask, choose_output, note, render_headline, render_record_count, render_scope
from .visibility import build_filter, build_visible_filter, count_visible_scopes, list_visible_kinds

_ELSEWHERE = " but what cofio keeps for its own use, which --all lists"


def add(args: Namespace) -> int:
    """Remember a text, by itself or under a key."""
    if args.key is not None and (args.dedupe or args.similar):
        return report_misuse(args, "--dedupe and --similar do not go with --key: a key holds one record")
    text = _read_text(args)
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
        choose_output(as_json=args.json).print_added(record)
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
    content = {"text": text, "data": args.data}
    if args.key is not None:
        content = {name: {args.key: value} for name, value in content.items()}
    fields = {**content, "title": args.title, "tags": args.tag, "author": args.author}
    admit("cli", fields, allow=settings.allow_secrets)


def _read_text(args: Namespace) -> str:
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
        " ".join(args.query), scope=args.scope, exact=args.exact, kinds=tuple(args.kind), filter=build_filter(args),
        mode=args.mode, limit=args.limit, floor=args.floor, current=True, folds=True,
    )  # fmt: skip
    with open_memory(args) as engine:
        page = engine.search(query)
        without = count_waiting(engine) if page.degraded and query.mode != "keyword" else 0
        if 0 < without <= FEW and settle(engine, limit=FEW):
            page = engine.search(query)
        newer = [hit.superseded_by for hit in page if hit.superseded_by is not None]
        short = shorten(args, engine, list(dict.fromkeys([*(hit.record.id for hit in page), *newer])))
    why = [explain(hit, page, query.text, verbose=args.verbose) if args.why or args.verbose else [] for hit in page]
    choose_output(as_json=args.json).print_hits(page, why, short)
    sys.stdout.flush()
    if not page and not args.json:
        note(_render_nothing(query, page))
    if page.degraded and not args.json:
        note(f"{page.degraded}{'; `cofio reindex` embeds them now' if without > FEW else ''}")
    return 0


def _render_nothing(query: Query, page: Page) -> str:
    """That nothing was found, where it was looked for, and what was left out."""
    searched = page.searched
    counts = [f"{searched.keyword} by words"] if query.mode != "semantic" else []
    if query.mode != "keyword":
        counts.append("meaning was not searched" if searched.semantic is None else f"{searched.semantic} by meaning")
    kinds = f" among {', '.join(searched.kinds)}" if searched.kinds else ""
    tests = " that passes the tests" if query.filter else ""
    where = f"{render_scope(searched.scope)}{kinds}{tests}"
    message = f"nothing found for {query.text!r} in {where} (candidates: {', '.join(counts)})"
    if not page.cut:
        return message
    near = f"; the nearest is: {render_headline(page.near[0].record)}" if page.near else ""
    return f"{message}; {page.cut} were too far off, --floor 0 shows them{near}"


def list_records(args: Namespace) -> int:
    """List records, and say when there are more."""
    bounds = {"exact": args.exact, "kinds": list_visible_kinds(args), "filter": build_visible_filter(args)}
    with open_memory(args) as engine:
        records = engine.list(args.scope, **bounds, limit=args.limit, offset=args.offset, newest=not args.oldest)
        after = args.offset + len(records)
        count = engine.count(args.scope, **bounds) if len(records) in (0, args.limit) else after
        short = shorten(args, engine, [record.id for record in records])
        hides_internal = not (count or args.all) and engine.count(args.scope, exact=args.exact)
    choose_output(as_json=args.json).print_list(records, short)
    sys.stdout.flush()
    if not records:
        note(f"no records here{f' after the first {count:,}' if count else ''}{_ELSEWHERE if hides_internal else ''}")
    elif after < count and not args.json:
        note(f"{len(records):,} of {render_record_count(count)}; --offset {after} goes on")
    return 0


def show(args: Namespace) -> int:
    """Show one record, by its id or its key."""
    if (args.id is None) == (args.key is None):
        return report_misuse(args, "give the id of a record, or its key with --key")
    with open_memory(args) as engine:
        record = resolve(engine, args.id) if args.key is None else engine.get(args.scope, args.key, kind=args.kind)
    if record is None:
        note(
            f"{render_scope(args.scope)} has no {args.kind} with the key {args.key!r}; `cofio list` shows what there is"
        )
        return 1
    choose_output(as_json=args.json).print_record(record)
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
            records = {record.id: record for record in [resolve(engine, each) for each in args.ids]}
            for record in records.values():
                if record.kind is Kind.TOPIC:  # whose words would stay in its document's file
                    document = record.scope.names[-1]
                    raise Invalid(
                        "id", f"{record.id} is a part of {document}: `cofio documents rm {document}` forgets that"
                    )
            with vault_commands.follow_vault(args, engine) as vault:
                removed = sum(forget(engine, vault, Delete(id=each)) for each in records)
            for each in (record_id for record_id in records if record_id not in args.ids):
                note(f"{each} was: {render_headline(records[each])}")
        elif args.yes or ask(
            f"Forget {render_record_count(engine.count(args.scope))} in {render_scope(args.scope)} for good?"
        ):
            with vault_commands.follow_vault(args, engine) as vault:
                removed = forget(engine, vault, Drop(scope=args.scope))
        else:
            note("nothing was forgotten")
            return 1
        choose_output(as_json=args.json).print_done(f"forgot {render_record_count(removed)}", removed=removed)
        sys.stdout.flush()
        scrub(engine)
    return 0


def show_scopes(args: Namespace) -> int:
    """Show the scopes with their numbers."""
    with open_memory(args) as engine:
        counts = count_visible_scopes(args, engine)
    choose_output(as_json=args.json).print_scopes(counts)
    return 0
