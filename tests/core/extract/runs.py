"""Runs of agents, written by hand: what was asked, what the tools were called with, what they said."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cofio.extract.extractor import Call, Case, Message, Role
from cofio.extract.rules.agent_runs.cases import find_cases

START = datetime(2026, 6, 1, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What someone says, or the calls of an assistant: name, arguments and result each."""

    role: Role
    text: str = ""
    made: tuple[tuple[str, object, object], ...] = ()


def user(text: str) -> Turn:
    """A word of the user."""
    return Turn(role="user", text=text)


def says(text: str) -> Turn:
    """A word of the assistant."""
    return Turn(role="assistant", text=text)


def calls(*made: tuple[str, object, object]) -> Turn:
    """Tool calls of one message: name, arguments and result each; a result of None never comes."""
    return Turn(role="assistant", made=made)


def run(*turns: Turn) -> list[Message]:
    """The messages of a run."""
    messages: list[Message] = []

    def add(role: Role, text: str, made: Sequence[Call] = (), answers: str | None = None) -> None:
        sender = {"user": "ana", "assistant": "agent", "tool": "tools"}[role]
        at = START + timedelta(seconds=20 * len(messages))
        number = f"m{len(messages) + 1}"
        messages.append(
            Message(id=number, sender=sender, role=role, at=at, text=text, calls=tuple(made), answers=answers)
        )

    for turn in turns:
        made = [
            Call(id=f"c{len(messages)}-{number}", name=name, arguments=_text(arguments))
            for number, (name, arguments, _) in enumerate(turn.made)
        ]
        add(turn.role, turn.text, made)
        for call, (_, _, result) in zip(made, turn.made, strict=True):
            if result is not None:
                add("tool", _text(result), answers=call.id)
    return messages


def case(messages: Sequence[Message]) -> Case | None:
    """The first case of a conversation."""
    return next(iter(find_cases(messages, UTC)), None)


def folded(text: str) -> str:
    """Lines of at most 110 characters; what goes on in the next one is indented."""
    lines = (
        textwrap.wrap(line, 110, subsequent_indent="    ", break_long_words=False) or [""] for line in text.split("\n")
    )
    return "\n".join(part for line in lines for part in line)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


FLIGHT = run(
    user(
        "Hi there! Could you please find me a flight from Oslo to London on 5 June? Book the "
        "cheapest one for two people."
    ),
    calls(
        (
            "search_flights",
            {"from": "OSL", "to": "LHR", "date": "2026-06-05"},
            {
                "flights": [
                    {"number": "DY1310", "price": 89},
                    {"number": "BA762", "price": 140},
                    {"number": "SK805", "price": 155},
                ],
                "currency": "EUR",
            },
        )
    ),
    calls(("book_flight", {"flight": "DY1310", "seats": 2}, {"ok": False, "error": "only 1 seat left on DY1310"})),
    calls(
        (
            "book_flight",
            {"flight": "BA762", "seats": 2, "api_key": "k-4471"},
            {"ok": True, "booking": "QX7LTR", "total": 280},
        )
    ),
    says(
        "Booked: BA762 on 5 June for two people, 280 EUR in all. DY1310 was cheaper but had only "
        "one seat left. The booking is QX7LTR."
    ),
    user("Perfect, thanks!"),
)

FAILING_TEST = run(
    user(
        "The test test_leap_year in our calendar module has been failing since yesterday. Please "
        "find out why and fix it."
    ),
    calls(
        (
            "bash",
            {"command": "pytest -q tests/test_calendar.py"},
            "F...                                      [100%]\n=== FAILURES ===\n    def test_leap_year():\n"
            ">       assert days(2, 1900) == 28\nE       assert 29 == 28\n\ntests/test_calendar.py:14: AssertionError\n"
            "=== short test summary info ===\nFAILED tests/test_calendar.py::test_leap_year - assert 29 == 28\n"
            "1 failed, 3 passed in 0.12s",
        )
    ),
    calls(
        (
            "read_file",
            {"path": "src/calendar_days.py"},
            "def is_leap(year: int) -> bool:\n    # error: centuries are not handled\n    return year % 4 == 0\n",
        )
    ),
    calls(
        (
            "edit_file",
            {
                "path": "src/calendar_days.py",
                "old": "return year % 4 == 0",
                "new": "return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
            },
            "Replaced 1 occurrence.",
        )
    ),
    calls(
        (
            "bash",
            {"command": "pytest -q tests/test_calendar.py"},
            "....                        [100%]\n4 passed in 0.09s",
        )
    ),
    says("Fixed. `is_leap` took every fourth year for a leap year; 1900 is not one. All four tests pass now."),
)

SQL = run(
    user("How many orders did we ship to Norway in May?"),
    calls(
        (
            "run_sql",
            {"query": "SELECT count(*) FROM orders WHERE country = 'NO' AND shipped >= '2026-05-01'"},
            'ERROR: column "country" does not exist\nLINE 1: SELECT count(*) FROM orders WHERE country',
        )
    ),
    calls(
        (
            "describe_table",
            {"table": "orders"},
            {"columns": [{"name": "id"}, {"name": "ship_country"}, {"name": "shipped_at"}, {"name": "total"}]},
        )
    ),
    calls(
        (
            "run_sql",
            {
                "query": (
                    "SELECT count(*) FROM orders WHERE ship_country = 'NO' AND shipped_at >= '2026-05-01' AND "
                    "shipped_at < '2026-06-01'"
                )
            },
            {"rows": [[412]], "row_count": 1},
        )
    ),
    says("In May 412 orders were shipped to Norway."),
)

CALENDAR = run(
    user("good morning, I need to move my meeting with Jonas from Tuesday to Thursday afternoon"),
    calls(
        (
            "list_events",
            {"from": "2026-06-02", "to": "2026-06-04"},
            [
                {"id": "ev_81", "title": "Jonas: budget", "start": "2026-06-02T10:00"},
                {"id": "ev_84", "title": "Stand-up"},
            ],
        )
    ),
    calls(
        (
            "update_event",
            {"id": "ev_81", "start": "2026-06-04T14:00"},
            {"status": "confirmed", "id": "ev_81", "start": "2026-06-04T14:00"},
        )
    ),
    says("Your meeting with Jonas is on Thursday at 14:00 now."),
    user("make it 3 pm instead"),
    calls(
        (
            "update_event",
            {"id": "ev_81", "start": "2026-06-04T15:00"},
            {"status": "confirmed", "id": "ev_81", "start": "2026-06-04T15:00"},
        )
    ),
    says("Done: Thursday at 15:00."),
)

HOME = run(
    user("Turn off all the lights downstairs and set the heating to 17 degrees, please"),
    calls(
        ("set_light", {"room": "kitchen", "on": False}, {"ok": True}),
        ("set_light", {"room": "hall", "on": False}, {"ok": True}),
        (
            "set_light",
            {"room": "living room", "on": False},
            {"ok": False, "error": {"code": "unreachable", "message": "lamp does not answer"}},
        ),
        ("set_heating", {"degrees": 17}, {"ok": True, "target": 17, "current": 20.5}),
    ),
    calls(("set_light", {"room": "living room", "on": False}, {"ok": True})),
    says(
        "All lights downstairs are off and the heating is set to 17 °C. The lamp in the living "
        "room needed a second try."
    ),
)

RESEARCH = run(
    user("Which heat pumps work well below -20 °C? I'd like a short comparison with sources."),
    calls(
        (
            "web_search",
            {"query": "heat pump performance below -20 C field test"},
            (
                "1. Field test of cold-climate heat pumps - example.org/field\n2. Error codes of heat "
                "pumps - example.org/errors\n3. Buyer's guide"
            ),
        )
    ),
    calls(("fetch_page", {"url": "https://example.org/field"}, "HTTP 403 Forbidden")),
    calls(
        (
            "fetch_cached",
            {"url": "https://example.org/field"},
            (
                "Field test of cold-climate heat pumps\n\nTwelve units were measured through two "
                "winters.\nThree kept a COP above 2 at -25 °C."
            ),
        )
    ),
    says(
        "Three of twelve units in a two-winter field test kept a COP above 2 at -25 °C "
        "(example.org/field). I found no second source."
    ),
)

REFACTOR = run(
    user("Rename the function parse_date to read_date everywhere in src/, then run the tests."),
    calls(
        ("bash", {"command": "grep -rln parse_date src"}, "src/a.py\nsrc/b.py\nsrc/c.py\nsrc/d.py\nsrc/e.py\nsrc/f.py")
    ),
    *(
        calls(
            ("read_file", {"path": f"src/{name}.py"}, f"from dates import parse_date\n\nwhen = parse_date('{name}')\n")
        )
        for name in "abcdef"
    ),
    *(
        calls(
            (
                "edit_file",
                {"path": f"src/{name}.py", "old": "parse_date", "new": "read_date"},
                "Replaced 2 occurrences." if name != "d" else "Error: old string is not unique, pass all=true",
            )
        )
        for name in "abcdef"
    ),
    calls(
        (
            "edit_file",
            {"path": "src/d.py", "old": "parse_date", "new": "read_date", "all": True},
            "Replaced 5 occurrences.",
        )
    ),
    calls(("bash", {"command": "python -m pytest -q"}, "........................ [100%]\n24 passed in 1.84s")),
    says("`parse_date` is called `read_date` in all six files, and the 24 tests pass."),
    user("works, thank you"),
)

DEPLOYMENT = run(
    user("Deploy version 2.4.1 of the billing service to production."),
    calls(
        (
            "build_image",
            {"service": "billing", "version": "2.4.1"},
            {"status": "ok", "image": "registry.local/billing:2.4.1"},
        )
    ),
    calls(
        (
            "deploy",
            {"service": "billing", "version": "2.4.1", "env": "production", "token": "hunter2-hunter2"},
            {"status": 503, "message": "health check failed: connection to payments-db refused"},
        )
    ),
    calls(
        (
            "deploy",
            {"service": "billing", "version": "2.4.1", "env": "production", "token": "hunter2-hunter2"},
            {"status": 503, "message": "health check failed: connection to payments-db refused"},
        )
    ),
    calls(("rollback", {"service": "billing", "env": "production"}, {"status": "ok", "version": "2.4.0"})),
    says(
        "I'm sorry, but I couldn't deploy 2.4.1: its health check cannot reach payments-db. "
        "Production runs 2.4.0 again."
    ),
    user("that's wrong, the database is up"),
)

STAGING = run(
    user("Run the database migration for the shop, please."),
    calls(("run_migration", {"database": "shop", "server": "prod-1"}, "permission denied for schema public")),
    says("The migration was refused on prod-1."),
    user("no, use the staging server"),
    calls(("run_migration", {"database": "shop", "server": "staging-1"}, "Applied 3 migrations.")),
    says("The migration ran on staging-1: 3 migrations were applied."),
)

CUT_OFF = run(
    user("Summarise the last 20 support tickets about refunds and mail the summary to Petra."),
    calls(
        (
            "list_tickets",
            {"topic": "refund", "limit": 20},
            {"tickets": [{"id": 900 + n, "subject": f"Refund {n}"} for n in range(20)], "next": None},
        )
    ),
    calls(("get_ticket", {"id": 900}, None), ("get_ticket", {"id": 901}, None)),
)

GERMAN = run(
    user("Hallo! Kannst du bitte für morgen um 19 Uhr einen Tisch für vier Personen im Lindenhof reservieren?"),
    calls(
        ("find_restaurant", {"name": "Lindenhof"}, {"name": "Lindenhof", "city": "Leipzig", "phone": "0341 555 017"})
    ),
    calls(
        (
            "book_table",
            {"restaurant": "Lindenhof", "people": 4, "time": "2026-06-02T19:00"},
            {"confirmed": True, "reference": "LH-209"},
        )
    ),
    says("Der Tisch für vier ist reserviert: morgen um 19 Uhr im Lindenhof, Nummer LH-209."),
    user("Danke!"),
)

DEPENDENCY = run(
    user("hey, our nightly backup job isn't running. can you check what's wrong with it?"),
    calls(
        (
            "bash",
            {"command": "systemctl status backup"},
            "backup.service - nightly backup\n   Active: failed (Result: exit-code)\nexit code 3",
        )
    ),
    calls(
        (
            "bash",
            {"command": "journalctl -u backup -n 20"},
            (
                "Jun 01 02:00:01 backup[811]: Traceback (most recent call last):\nJun 01 02:00:01 "
                "backup[811]: ModuleNotFoundError: No module named 'zstd'"
            ),
        )
    ),
    calls(("bash", {"command": "pip install zstd"}, "bash: pip: command not found")),
    calls(
        ("bash", {"command": "/opt/backup/bin/pip install zstd"}, "Collecting zstd\nSuccessfully installed zstd-1.5.5")
    ),
    calls(
        (
            "bash",
            {"command": "PGPASSWORD=hunter2 systemctl restart backup && systemctl status backup"},
            "Active: active (running)\nexit code 0",
        )
    ),
    says(
        "The backup was missing the module zstd. I installed it into the job's own environment, and the job runs again."
    ),
)

TABLES = [
    run(
        user("Book a table for two at Luigi's tonight at 8, please."),
        calls(("find_restaurant", {"name": "Luigi's", "city": "Oslo"}, {"id": "r-17", "name": "Luigi's"})),
        calls(
            ("book_table", {"restaurant": "r-17", "people": 2, "time": "20:00", "channel": "web"}, {"confirmed": True})
        ),
        says("Your table for two at Luigi's is booked for 20:00."),
        user("Perfect, thanks"),
    ),
    run(
        user("Hi! Can you reserve a table for 6 at Nobu on Friday at 7 pm?"),
        calls(("find_restaurant", {"name": "Nobu", "city": "Oslo"}, {"id": "r-3", "name": "Nobu"})),
        calls(
            (
                "book_table",
                {"restaurant": "r-3", "people": 6, "time": "19:00", "channel": "web"},
                {"confirmed": False, "error": "no table for 6 at 19:00"},
            )
        ),
        calls(
            (
                "book_table",
                {"restaurant": "r-3", "people": 6, "time": "20:30", "channel": "web"},
                {"confirmed": True, "reference": "N-88"},
            )
        ),
        says("Nobu had nothing at 19:00, so I took 20:30 on Friday for six."),
        user("ok great"),
    ),
    run(
        user("I'd like to book a table at Maaemo for our anniversary on 12 June."),
        calls(("find_restaurant", {"name": "Maaemo", "city": "Oslo"}, {"id": "r-41", "name": "Maaemo"})),
        calls(
            (
                "book_table",
                {"restaurant": "r-41", "people": 2, "time": "19:00", "channel": "web"},
                {"confirmed": True, "reference": "M-2"},
            )
        ),
        calls(("add_event", {"title": "Dinner at Maaemo", "date": "2026-06-12"}, {"id": "ev_9"})),
        says("Maaemo is booked for 12 June at 19:00 and stands in your calendar."),
    ),
    run(
        user("Book a table for three at Hitchhiker tomorrow."),
        calls(
            (
                "find_restaurant",
                {"name": "Hitchhiker", "city": "Oslo"},
                {"status": 404, "message": "no such restaurant"},
            )
        ),
        says("I'm sorry, I couldn't find a restaurant of that name in Oslo."),
    ),
]
TESTS = [
    FAILING_TEST,
    run(
        user("Fix the failing test in the invoice parser."),
        calls(
            ("bash", {"command": "pytest -q tests/test_invoice.py"}, "E   KeyError: 'vat'\n1 failed, 8 passed in 0.31s")
        ),
        calls(("read_file", {"path": "src/invoice.py"}, "def parse(row):\n    return row['vat']\n")),
        calls(
            (
                "edit_file",
                {"path": "src/invoice.py", "old": "row['vat']", "new": "row.get('vat', 0)"},
                "Replaced 1 occurrence.",
            )
        ),
        calls(("bash", {"command": "pytest -q tests/test_invoice.py"}, "9 passed in 0.28s")),
        calls(("bash", {"command": "git commit -am 'Invoices without VAT'"}, "[main 41f] Invoices without VAT")),
        says("The parser takes invoices without VAT now; all nine tests pass."),
        user("thanks, works"),
    ),
    run(
        user("could you fix the two failing tests of the exporter?"),
        calls(("bash", {"command": "python -m pytest -q tests/test_export.py"}, "2 failed, 4 passed in 0.5s")),
        calls(("read_file", {"path": "export.py"}, "Error: file not found: export.py")),
        calls(("read_file", {"path": "src/export.py"}, "import csv\n\ndef export(rows):\n    ...\n")),
        calls(
            ("edit_file", {"path": "src/export.py", "old": "...", "new": "csv.writer(out)"}, "Replaced 1 occurrence.")
        ),
        calls(("bash", {"command": "python -m pytest -q tests/test_export.py"}, "6 passed in 0.4s")),
        says("Both tests of the exporter pass."),
    ),
]

TABLE = ("find_restaurant", "book_table")
FLIGHTS = ("search_flights", "book_flight")
CODE = ("bash", "read_file", "edit_file")
EVENTS = ("list_events", "update_event")
SAME_KIND = [
    (
        "Cancel my subscription to the gym.",
        ("find_subscription", "cancel_subscription"),
        "Please cancel the Netflix subscription",
        ("find_subscription", "cancel_subscription"),
    ),
    (
        "Refund order 8812.",
        ("get_order", "refund_order"),
        "The customer wants a refund for order 77, issue it.",
        ("get_order", "refund_order"),
    ),
    (
        "Write unit tests for the date parser.",
        ("bash", "read_file", "edit_file"),
        "Add unit tests for the mailer.",
        ("bash", "read_file", "edit_file"),
    ),
    ("Bump the version to 2.1 and tag a release.", ("bash",), "Tag a new release, version 3.0.", ("bash",)),
    ("Summarise this article in three bullets.", ("fetch",), "Summarise the article at example.org.", ("fetch",)),
    ("Play some jazz in the kitchen.", ("play_music",), "Play the new Adele album.", ("play_music",)),
    ("Set an alarm for 7 am.", ("set_alarm",), "Wake me up with an alarm at 6.", ("set_alarm",)),
    ("Remind me to call mum tomorrow.", ("create_reminder",), "Set a reminder to buy milk.", ("create_reminder",)),
    ("Resize the images in assets to 800 px.", ("bash",), "Resize all images in the blog folder.", ("bash", "glob")),
    (
        "Review pull request 41.",
        ("get_pull_request", "add_comment"),
        "Review the pull request of Jonas.",
        ("get_pull_request", "add_comment"),
    ),
    ("Restart the mail server.", ("restart_service",), "The web server hangs, restart it.", ("restart_service",)),
    ("Book a table for two at Luigi's tonight.", TABLE, "Reserve a table for 6 at Nobu on Friday.", TABLE),
    (
        "Find me a flight from Oslo to London on 5 June; book the cheapest.",
        FLIGHTS,
        "Book a flight to Rome for Monday.",
        FLIGHTS,
    ),
    ("Fix the failing test in the parser.", CODE, "Fix the failing test test_dates in the calendar module.", CODE),
    ("Debug the failing unit tests.", ("bash", "edit_file"), "Fix the unit tests that are failing.", CODE),
    ("Move my meeting with Jonas to Thursday.", EVENTS, "Reschedule the meeting with Ana to 3 pm.", EVENTS),
    ("Turn off the lights in the kitchen.", ("set_light",), "Switch on the hall lights.", ("set_light",)),
    (
        "Deploy version 2.4.1 of the billing service to production.",
        ("build_image", "deploy"),
        "Deploy the search service 1.9 to staging.",
        ("build_image", "deploy"),
    ),
    (
        "Rename the function parse_date to read_date everywhere.",
        CODE,
        "Rename the function load to read_all.",
        ("grep", "edit_file"),
    ),
    (
        "Summarise the last 20 support tickets about refunds.",
        ("list_tickets", "get_ticket"),
        "Summarize yesterday's support tickets about shipping.",
        ("list_tickets", "get_ticket"),
    ),
    (
        "What is the weather in Bergen tomorrow?",
        ("get_weather",),
        "What's the weather like in Porto this weekend?",
        ("get_weather",),
    ),
    (
        "Order two pizzas from Mario's.",
        ("find_restaurant", "place_order"),
        "Buy a pizza and a salad from Bella.",
        ("place_order",),
    ),
    (
        "How many orders did we ship to Norway in May?",
        ("run_sql",),
        "How many orders were shipped to Peru in April?",
        ("run_sql",),
    ),
    (
        "Send an email to Petra about the budget.",
        ("send_email",),
        "Email Jonas the budget figures.",
        ("find_contact", "send_email"),
    ),
    ("Convert report.docx to PDF.", ("bash",), "Convert the invoice.docx to a PDF file.", ("convert_file",)),
    (
        "Für morgen einen Tisch für vier Personen im Lindenhof reservieren.",
        TABLE,
        "Einen Tisch für zwei Personen im Adler reservieren.",
        TABLE,
    ),
    (
        "Upgrade the Python dependencies and run the tests.",
        ("bash",),
        "Upgrade all dependencies, then run the test suite.",
        ("bash", "edit_file"),
    ),
]
ANOTHER_KIND = [
    (
        "Write unit tests for the date parser.",
        ("bash", "read_file", "edit_file"),
        "Fix the bug in the date parser.",
        ("bash", "read_file", "edit_file"),
    ),
    ("Refund order 8812.", ("get_order", "refund_order"), "Where is order 8812?", ("get_order",)),
    ("Play some jazz in the kitchen.", ("play_music",), "Turn on the kitchen lights.", ("set_light",)),
    ("Resize the images in assets.", ("bash",), "Delete unused images in assets.", ("bash",)),
    ("Find a hotel in Paris.", ("web_search",), "Find a plumber in Paris.", ("web_search",)),
    (
        "Add a login page.",
        ("bash", "read_file", "edit_file"),
        "Add a search box to the header.",
        ("bash", "read_file", "edit_file"),
    ),
    (
        "Review pull request 41.",
        ("get_pull_request",),
        "Merge pull request 41.",
        ("get_pull_request", "merge_pull_request"),
    ),
    ("Explain how the cache works.", ("read_file", "grep"), "Clear the cache on web-1.", ("bash",)),
    ("Set an alarm for 7 am.", ("set_alarm",), "Set the thermostat to 20.", ("set_thermostat",)),
    ("Create a budget spreadsheet.", ("create_file",), "Create a logo for the shop.", ("create_image",)),
    ("Check the weather in Oslo.", ("get_weather",), "Check the status of flight DY1310.", ("get_flight",)),
    ("Book a table for two at Luigi's tonight.", TABLE, "Book a flight to Rome for Monday.", FLIGHTS),
    ("Fix the failing login test.", CODE, "Write a test for the login form.", CODE),
    ("Fix the failing test in the parser.", CODE, "Rename the function parse_date to read_date.", CODE),
    ("Summarise the README.", ("read_file",), "Find all TODO comments in the project.", ("read_file", "grep")),
    ("Which heat pumps work well below -20 °C?", ("web_search",), "Who won the chess world cup?", ("web_search",)),
    (
        "How many orders did we ship to Norway in May?",
        ("run_sql",),
        "Which customers have not paid their invoices?",
        ("run_sql",),
    ),
    ("Move my meeting with Jonas to Thursday.", EVENTS, "Cancel my gym membership.", ("open_page", "submit_form")),
    (
        "Deploy the billing service to production.",
        ("build_image", "deploy"),
        "Roll back the database of the shop.",
        ("restore_backup",),
    ),
    ("Turn off the lights in the kitchen.", ("set_light",), "Play some jazz in the kitchen.", ("play_music",)),
    ("Install zstd on the backup server.", ("bash",), "Delete old log files on the backup server.", ("bash",)),
    (
        "Translate the contract into French.",
        ("read_file", "write_file"),
        "Review the contract for risks.",
        ("read_file",),
    ),
    (
        "Send an email to Petra about the budget.",
        ("send_email",),
        "Make a chart of the budget.",
        ("run_sql", "draw_chart"),
    ),
    ("Order two pizzas from Mario's.", ("place_order",), "Track my order 4471.", ("get_order",)),
    ("Check the disk space of db-1.", ("bash",), "Check whether the certificates expire soon.", ("bash",)),
    (
        "Create a ticket for the broken printer.",
        ("create_ticket",),
        "Close all tickets that Jonas opened.",
        ("list_tickets", "close_ticket"),
    ),
    ("Add dark mode to the settings page.", CODE, "Add a changelog entry for 1.4.", CODE),
    ("Search for cheap hotels in Rome.", ("search",), "Search for the owner of invoice 88.", ("search",)),
    (
        "Einen Tisch für zwei im Adler reservieren.",
        ("bash",),
        "Die Logdateien auf dem Server für den Kunden löschen.",
        ("bash",),
    ),
]

FAILURES = [
    "src/server.ts(4,22): error TS7006: Parameter 'e' implicitly has an 'any' type.",
    "main.c:12:5: fatal error: foo.h: No such file or directory",
    "No replacement was performed, old_str `x` did not appear verbatim in /app/config.py.",
    "Error: no such table users",
    'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    x()\nValueError: bad value 7',
    "ls: cannot access 'x': No such file or directory",
    "exit code 1\nstdout:\n\nstderr:\nmake: *** No rule to make target 'test'.  Stop.",
    "HTTP/1.1 404 Not Found\ncontent-type: text/html",
    "404 Not Found",
    "User 42 not found.",
    "permission denied",
    '{"ok": false}',
    '{"error": {"message": "rate limited", "type": "x"}}',
    '{"status": 500, "body": "oops"}',
    '{"success": false, "message": "Card declined"}',
    '{"exit_code": 2, "stdout": "", "stderr": "usage: x"}',
    '[{"type":"text","text":"Error executing tool: boom"}]',
    '{"content":[{"type":"text","text":"nope"}],"isError":true}',
    "ModuleNotFoundError: No module named 'x'",
    "src/a.py:3: error: Incompatible types\nFound 1 error in 1 file (checked 3 source files)",
    "fatal: not a git repository",
    "npm ERR! code E404",
    "Request timed out after 30s",
    "panic: runtime error",
    "error[E0308]: mismatched types\n --> src/main.rs",
    "{'error': 'city not found'}",
    "TypeError: x is not a function\n    at a.js:3",
    "The operation failed because the disk is full.",
    "Command exited with code 127",
    "<error>no such file</error>",
    "FAIL src/a.test.ts\nTests: 1 failed, 3 passed, 4 total",
    "\x1b[31merror\x1b[0m: build failed",
    "Could not resolve host: example.org",
    '{"result": null, "error": "x"}',
    '{"errors":[{"message":"Field x missing"}]}',
    '{"statusCode":401,"message":"Unauthorized"}',
    "```\nError: x\n```",
    "Process finished with exit code 1",
    "curl: (6) Could not resolve host: x",
    '{"status":"error","message":"boom"}',
    '  File "x.py", line 1\n    def\n       ^\nSyntaxError: invalid syntax',
    "Build failed with 2 errors.",
    "building\nlinking\nmore\nError: creating the queue: it exists already",
    "> app@1 build\n> tsc\n\nnpm error code ELIFECYCLE",
    "Error 500",
]
NO_FAILURES = [
    "0 errors, 0 warnings",
    "No errors found",
    "error handling docs: see chapter 3",
    "Error handling in Go\n====\n",
    "12 passed in 0.3s",
    "exit code 0\n3 files",
    "Found 3 errors (3 fixed, 0 remaining).",
    '{"ok": true, "errors": []}',
    '{"status": 200, "data": {"a": 1}}',
    '{"error": null, "result": "fine"}',
    "Retried 3 failed jobs: all succeeded.",
    "450 Main Street, Springfield",
    "400 rows returned",
    "",
    '{"flights": []}',
    "[]",
    '{"count": 3, "status": "confirmed"}',
    "Success: no issues found in 3 source files",
    "The error was fixed.",
    "Deleted 404 rows",
    '{"code": 0, "message": ""}',
    "Process exited with code 0\nWarning: 1 deprecated",
    "Errors: 0",
    "Tests: 4 passed, 4 total",
    "404 tests passed",
    '{"code": 450, "name": "bus line"}',
    "Invalidated 3 caches.",
    "Aborted jobs: 0",
]

WEATHER_THEN_TAXI = run(
    user("What's the weather in Bergen tomorrow?"),
    calls(("get_weather", {"city": "Bergen"}, {"sky": "rain", "degrees": 12})),
    says("It will rain in Bergen, at 12 degrees. Anything else?"),
    user("Great, thanks. Now book a taxi to the airport for 7 am."),
    calls(("book_taxi", {"to": "airport", "time": "07:00"}, {"error": "no car before 07:30"})),
    calls(("book_taxi", {"to": "airport", "time": "07:30"}, {"car": "T-12"})),
    says("A taxi comes at 7:30; there was none at 7."),
    user("But you should have asked me first!"),
    says("I'm sorry, I should have."),
)


def ssh(command: str) -> tuple[str, dict[str, str]]:
    """A call that runs a command on a host."""
    return "ssh", {"host": "prod-1", "command": command}


def query(sql: str) -> tuple[str, dict[str, str]]:
    """A call that runs a statement."""
    return "run_query", {"query": sql}


def kubectl(arguments: str) -> tuple[str, dict[str, str]]:
    """A call of kubectl."""
    return "kubectl", {"args": arguments}


SAME_COMMAND = [
    (
        "Restart the web service on prod-1.",
        ssh("systemctl restart web"),
        "Restart the mail service on prod-2.",
        ssh("sudo systemctl restart mail"),
    ),
    (
        "Restart the web service on prod-1.",
        ssh("systemctl restart web"),
        "Please reboot the billing service.",
        ssh("systemctl restart billing"),
    ),
    ("Check the disk space of web-1.", ssh("df -h"), "How much disk space is left on web-2?", ssh("df -h")),
    ("How many test users are there?", query("SELECT 1"), "How many users are there?", query("select count(*) from u")),
]
ANOTHER_COMMAND = [
    (
        "Restart the web service on prod-1.",
        ssh("systemctl restart web"),
        "Delete the old backups on prod-1.",
        ssh("rm -rf /var/backups/2024"),
    ),
    (
        "Restart the web service on prod-1.",
        ssh("systemctl restart web"),
        "Stop the web service on prod-1.",
        ssh("systemctl stop web"),
    ),
    ("Which old backups are on prod-1?", ssh("ls /b"), "Delete the old backups on prod-1.", ssh("rm -rf /b")),
    ("List the old backups.", ssh("ls /b"), "Find the old backups and delete them.", ssh("rm -rf /b")),
    ("Are there old backups on prod-1?", ssh("ls"), "Old backups fill prod-1, please get rid of them.", ssh("rm -r b")),
    ("The old backups on prod-1 again.", ssh("ls /b"), "The old backups on prod-1.", ssh("cd /b && ls; rm -rf *")),
    (
        "The old service on prod-1 again.",
        ("bash", {"command": "ssh -t root@prod-1 'systemctl restart web'"}),
        "The old service on prod-1 is big.",
        ("bash", {"command": "ssh prod-1 rm -rf /srv/web"}),
    ),
    ("Wipe the disks on db-1.", ssh("dd if=/dev/zero of=/dev/sda"), "Check the disks on db-1.", ssh("df -h")),
    ("Clear out the old logs on web-1.", ssh("rm a.log"), "Look into the old logs on web-1.", ssh("cat a.log")),
    (
        "The old backups on prod-1 fill the disk.",
        ssh("rm -rf /b"),
        "The old backups on prod-1 are slow.",
        ssh("systemctl restart backup"),
    ),
    (
        "Delete the pod api-7 in staging.",
        kubectl("delete pod api-7"),
        "Scale the pod api-7 in staging.",
        kubectl("scale deploy api"),
    ),
    (
        "Use kubectl to delete the old pods.",
        kubectl("delete pod a"),
        "Use kubectl to list the old pods.",
        kubectl("get"),
    ),
    ("Remove the test users.", query("DELETE FROM users"), "How many test users are there?", query("SELECT 1")),
    ("Drop the orders table.", query("DROP TABLE orders"), "Create the orders table.", query("CREATE TABLE orders")),
    ("Update the address of Ana.", ("crm", {}), "Delete the address of Ana.", ("crm", {})),
    ("Remind me to call mum.", ("create_reminder", {}), "Call mum.", ("phone", {})),
]
