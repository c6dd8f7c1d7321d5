"""The command that fills a memory with an invented team's, to try things out on, and takes it away again."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ...conversations.conversations import Conversations, Project
from ...conversations.deletion import forget
from ...extract.extractor import Message
from ...files import Tree, dispatch, home
from ...values.changes import Delete, Drop
from ...values.errors import Conflict, NotFound, Unavailable
from ...values.query import MAX_LIST
from ...values.records import Draft, Importance, Json, Kind, Record
from ...values.scopes import DEMO
from ...vault.lifecycle import use_vault
from . import vault_commands
from .context import FEW, load_settings, open_memory, scrub, settle
from .terminal import choose_output, note, render_record_count, render_scope
from .visibility import VISIBLE

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...vault.vault import Vault

SOURCE = "demo"
OWNER = "demo"
TALKS = Project(app="demo", name="demo")
SCOPES = (DEMO, TALKS.scope, home(OWNER))
"""All that the demo ever writes to."""
_LEDGER = "records"  # the key under which it keeps which records are its own

NOTES = (
    (
        "Release day",
        "We ship on Thursdays at ten, never on a Friday. Sam watches the dashboards for an hour and may roll back"
        " without asking.",
        "release,ops", "sam", Importance.HIGH,
    ),
    (
        "Why PostgreSQL",
        "We left MongoDB in spring: bookings need transactions across boats and payments. Jonas wrote the migration;"
        " the old dumps are kept until next summer.",
        "decision,database", "jonas", Importance.MEDIUM,
    ),
    (
        "Double bookings in May",
        "Two families rented the same boat, because the lock was taken after the payment. Since then the booking row"
        " is locked first, and a test tries it with 50 customers at once.",
        "incident", "jonas", Importance.HIGH,
    ),
    (
        "Tone of the app",
        "Write to one person, in short sentences, without exclamation marks. A price always has its currency.",
        "design", "aiko", Importance.MEDIUM,
    ),
    (
        "Staging",
        "staging.harbour.example has last night's copy of production with all names replaced. It is wiped on Mondays.",
        "ops", "sam", Importance.MEDIUM,
    ),
    (
        "Session length",
        "A sign-in lasts 30 days on a phone and 12 hours in a browser; after that the refresh token is refused.",
        "auth", "jonas", Importance.MEDIUM,
    ),
    (
        "What customers ask for",
        "Most letters are about cancelling in bad weather. Mira wants a refund within one click by autumn.",
        "product", "mira", Importance.LOW,
    ),
)  # fmt: skip
RUNBOOK = """# When the bookings stop

1. Look at the payment provider's status page first: it was that four times out of five.
2. Restart the worker, never the database.
3. Tell the harbour masters by text message; their numbers are in the office safe.
"""
TALK = (
    ("jonas", "I'm allergic to nuts, so please find a place for the team lunch that is careful about that."),
    ("assistant", "Noted. Is Thursday still the day?"),
    ("jonas", "Yes, after the release. I moved to Bergen in March, so somewhere near the fish market would be good."),
    ("assistant", "The Salt Loft is two minutes from there and marks nuts on its menu."),
    ("jonas", "Perfect. My sister Ingrid works at the harbour office, she will join us."),
)
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
        is_ours = _find_own(engine) is None and _claim(engine)
        if is_ours:
            _write(engine, Conversations(engine, zone=settings.zone, mirror=vault))
        elif not _find_own(engine):
            raise Unavailable(
                "another `cofio demo` is just putting it here, or was cut short: wait a moment, or clear what there is"
                " of it with `cofio demo --remove`"
            )
        records = len(_list_visible(engine))
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


def _write(engine: Engine, conversations: Conversations) -> None:
    """Put the records in; after each part, those that are the demo's own are noted."""
    now = datetime.now(UTC).replace(microsecond=0)
    engine.write_many(
        Draft(
            scope=DEMO / "harbour", title=title, text=text, tags=tuple(tags.split(",")), author=author,
            importance=importance, source=SOURCE,
        )
        for title, text, tags, author, importance in NOTES
    )  # fmt: skip
    engine.put(DEMO / "harbour", "branch", text="release/2.4", source=SOURCE)
    state: dict[str, Json] = {"version": "2.4", "phase": "testing", "open_bugs": 3}
    engine.put(DEMO / "harbour", "release", data=state, title="Release 2.4", kind=Kind.STATE, source=SOURCE)
    _note_own(engine)
    command = {"command": "create", "path": "/memories/runbook.md", "file_text": RUNBOOK}
    dispatch(engine, home(OWNER), command, source=SOURCE)
    _note_own(engine)
    began = now - timedelta(days=2)
    messages = [
        Message(
            id=f"demo-{number}", sender=sender, name=sender.capitalize(), text=text,
            role="assistant" if sender == "assistant" else "user", at=began + timedelta(minutes=number),
        )
        for number, (sender, text) in enumerate(TALK)
    ]  # fmt: skip
    conversations.append(TALKS, "team-lunch", messages)
    conversations.carve(TALKS, "team-lunch", whole=True)
    _note_own(engine)


def _note_own(engine: Engine) -> None:
    """Remember which records are the demo's, so that it never takes away others."""
    ids: list[Json] = [record.id for record in _list_visible(engine)]
    engine.put(DEMO, _LEDGER, data=ids, kind=Kind.LEDGER, source=SOURCE)


def _find_own(engine: Engine) -> set[str] | None:
    """The ids of the demo's records; None when it is not here."""
    ledger = engine.get(DEMO, _LEDGER, kind=Kind.LEDGER)
    return None if ledger is None or not isinstance(ledger.data, list) else {str(each) for each in ledger.data}


def _list_visible(engine: Engine) -> list[Record]:
    return [record for scope in SCOPES for record in engine.list(scope, kinds=VISIBLE, limit=MAX_LIST)]


def _claim(engine: Engine) -> bool:
    """Take on the writing of the demo; False when another process was first, so that it is never written twice.

    Raises:
        Unavailable: its scopes hold records of somebody else.
    """
    records = _list_visible(engine)
    if records and _find_own(engine) is None:
        where = ", ".join(sorted({render_scope(record.scope) for record in records}))
        raise Unavailable(
            f"{where} already holds {render_record_count(len(records))} of yours, so nothing was written: try the demo"
            " in a memory of its own, with --store demo-memory"
        )
    try:
        engine.put(DEMO, _LEDGER, data=[], kind=Kind.LEDGER, source=SOURCE, if_version=0)
    except Conflict:
        return False
    return True


def _remove(args: Namespace) -> int:
    with open_memory(args) as engine:
        own = _find_own(engine)
        if own is None:
            raise Unavailable("the demo is not in this memory: nothing was taken away; `cofio demo` brings it")
        here = {record.id for record in _list_visible(engine)}
        left = len(here - own)
        with vault_commands.follow_vault(args, engine) as vault:
            _forget(engine, vault, here & own, whole=not left)
        removed = len(here & own)
        choose_output(as_json=args.json).print_done(
            f"took the demo away: {render_record_count(removed)}", removed=removed, left=left
        )
        sys.stdout.flush()
        if left:
            note(f"{render_record_count(left)} that others put there {'stays' if left == 1 else 'stay'}")
        scrub(engine)
    return 0


def _forget(engine: Engine, vault: Vault | None, ids: Iterable[str], *, whole: bool) -> None:
    """Forget the demo's records, and with `whole` all that came to be around them."""
    for each in () if whole else ids:
        try:
            forget(engine, vault, Delete(id=each))
        except NotFound:  # it went with another that it was made of
            continue
    if not whole:
        ledger = engine.get(DEMO, _LEDGER, kind=Kind.LEDGER)
        if ledger is not None:
            engine.delete(ledger.id)
        return
    for scope in (*SCOPES, Tree(engine, home(OWNER)).history):
        forget(engine, vault, Drop(scope=scope))
