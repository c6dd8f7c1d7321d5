"""An invented team's memory to try things out on: put into a store, and taken away again without others' records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..conversations.conversations import Conversations, Project
from ..extract.extractor import Message
from ..files import Tree, dispatch, home
from ..values.changes import Delete, Drop
from ..values.errors import Conflict, NotFound, Unavailable
from ..values.query import MAX_LIST
from ..values.records import NOT_SEARCHABLE, Draft, Importance, Json, Kind, Record
from ..values.scopes import DEMO

SOURCE = "demo"
OWNER = "demo"
TALKS = Project(app="demo", name="demo")
SCOPES = (DEMO, TALKS.scope, home(OWNER))
"""All that the example ever writes to."""
VISIBLE = tuple(kind for kind in Kind if kind not in NOT_SEARCHABLE)
ABSENT = "the demo is not in this memory: nothing was taken away; `cofio demo` brings it"
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


@dataclass(frozen=True, slots=True)
class Removal:
    """How many records of the example went, and how many that others put there stay."""

    removed: int
    left: int


class ExampleMemory:
    """The example in one store. Several processes may load it at once: it is written once."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations
        self._engine = conversations.engine

    @property
    def is_here(self) -> bool:
        """Whether the example is in the store, or is just being put there."""
        return self._find_own() is not None

    def list_records(self) -> list[Record]:
        """The records of its scopes that people see."""
        return [each for scope in SCOPES for each in self._engine.list(scope, kinds=VISIBLE, limit=MAX_LIST)]

    def load(self) -> bool:
        """Put the example in; False if it is there already.

        Raises:
            Unavailable: its scopes hold records of somebody else, or another process is just at it.
        """
        if not self.is_here and self._claim():
            self._write()
            return True
        if not self._find_own():
            raise Unavailable(
                "another `cofio demo` is just putting it here, or was cut short: wait a moment, or clear what there is"
                " of it with `cofio demo --remove`"
            )
        return False

    def remove(self) -> Removal:
        """Take the example away, and leave what others have put beside it.

        Raises:
            Unavailable: it is not here.
        """
        own = self._find_own()
        if own is None:
            raise Unavailable(ABSENT)
        here = {record.id for record in self.list_records()}
        left = len(here - own)
        self._forget(here & own, whole=not left)
        return Removal(len(here & own), left)

    def _write(self) -> None:
        """Put the records in; after each part, those that are the demo's own are noted."""
        self._engine.write_many(
            Draft(
                scope=DEMO / "harbour", title=title, text=text, tags=tuple(tags.split(",")), author=author,
                importance=importance, source=SOURCE,
            )
            for title, text, tags, author, importance in NOTES
        )  # fmt: skip
        self._engine.put(DEMO / "harbour", "branch", text="release/2.4", source=SOURCE)
        state: dict[str, Json] = {"version": "2.4", "phase": "testing", "open_bugs": 3}
        self._engine.put(DEMO / "harbour", "release", data=state, title="Release 2.4", kind=Kind.STATE, source=SOURCE)
        self._note_own()
        command = {"command": "create", "path": "/memories/runbook.md", "file_text": RUNBOOK}
        dispatch(self._engine, home(OWNER), command, source=SOURCE)
        self._note_own()
        noon = datetime.now(UTC).replace(hour=12, minute=30, second=0, microsecond=0)
        began = noon - timedelta(days=2)  # at lunch: a talk that goes on past midnight is two
        messages = [
            Message(
                id=f"demo-{number}", sender=sender, name=sender.capitalize(), text=text,
                role="assistant" if sender == "assistant" else "user", at=began + timedelta(minutes=number),
            )
            for number, (sender, text) in enumerate(TALK)
        ]  # fmt: skip
        self._conversations.append(TALKS, "team-lunch", messages)
        self._conversations.carve(TALKS, "team-lunch", whole=True)
        self._note_own()

    def _note_own(self) -> None:
        """Remember which records are the demo's, so that it never takes away others."""
        ids: list[Json] = [record.id for record in self.list_records()]
        self._engine.put(DEMO, _LEDGER, data=ids, kind=Kind.LEDGER, source=SOURCE)

    def _find_own(self) -> set[str] | None:
        """The ids of the demo's records; None when it is not here."""
        ledger = self._engine.get(DEMO, _LEDGER, kind=Kind.LEDGER)
        return None if ledger is None or not isinstance(ledger.data, list) else {str(each) for each in ledger.data}

    def _claim(self) -> bool:
        """Take on the writing of the demo; False when another process was first, so that it is never written twice.

        Raises:
            Unavailable: its scopes hold records of somebody else.
        """
        records = self.list_records()
        if records and self._find_own() is None:
            where = ", ".join(sorted({str(record.scope) for record in records}))
            raise Unavailable(
                f"{where} already holds {_count(records)} of yours, so nothing was written: try the demo"
                " in a memory of its own, with --store demo-memory"
            )
        try:
            self._engine.put(DEMO, _LEDGER, data=[], kind=Kind.LEDGER, source=SOURCE, if_version=0)
        except Conflict:
            return False
        return True

    def _forget(self, ids: Iterable[str], *, whole: bool) -> None:
        """Forget the demo's records, and with `whole` all that came to be around them."""
        for each in () if whole else ids:
            try:
                self._conversations.forget(Delete(id=each))
            except NotFound:  # it went with another that it was made of
                continue
        if not whole:
            ledger = self._engine.get(DEMO, _LEDGER, kind=Kind.LEDGER)
            if ledger is not None:
                self._engine.delete(ledger.id)
            return
        for scope in (*SCOPES, Tree(self._engine, home(OWNER)).history):
            self._conversations.forget(Drop(scope=scope))


def _count(records: list[Record]) -> str:
    return f"{len(records):,} record{'' if len(records) == 1 else 's'}"
