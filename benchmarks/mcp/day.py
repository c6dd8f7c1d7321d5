"""An agent's day with its memory: what it writes down, what it asks, and what goes wrong on the way."""

from __future__ import annotations

from .models import Call, Written

_Note = tuple[str, str, list[str], str]
_NOTES: tuple[_Note, ...] = (
    (
        "Bookings API: signed links instead of sessions",
        "Chose signed links that last 20 minutes over server sessions: the booking service runs in three "
        "regions and shares no store. The signing key rotates every 14 days.",
        ["bookings", "decision"],
        "high",
    ),
    (
        "Releases: Wednesdays before noon",
        "We release on Wednesdays before noon, from `main`, because the harbour office is staffed then and "
        "can switch the kiosks back.",
        ["release"],
        "medium",
    ),
    (
        "Payment callbacks: check the raw body",
        "Callbacks of the payment provider failed their signature check because the framework parsed the body"
        " first. Fixed in src/pay/callback.py: the check reads the raw bytes.",
        ["payments", "bugfix"],
        "high",
    ),
    (
        "Database: connect through the pooler",
        "All services connect to the pooler on port 6543. It does not keep prepared statements, so they are "
        "switched off in the driver.",
        ["database", "decision"],
        "medium",
    ),
    (
        "Customer Fjordline Kystfart",
        "Largest operator, 41 boats. Contact is Ingrid Solberg, who wants everything in writing. Needs single"
        " sign-on before 2027-02-01; invoices are due after 45 days.",
        ["customer"],
        "critical",
    ),
    (
        "Who is who",
        "Ingrid Solberg: buyer at Fjordline. Tomasz: our on-call lead. Amira: designer of the kiosk screens, "
        "works from Tuesday to Thursday.",
        ["people"],
        "medium",
    ),
    (
        "Flaky: test_departure_board",
        "test_departure_board fails about once in thirty runs: it compares with the clock of the machine. "
        "Freeze the time in the fixture; the ticket is HARB-318.",
        ["tests"],
        "medium",
    ),
    (
        "Rate limits of the public API",
        "60 requests a minute for each key, 600 for partners. Answers over the limit are 429 with Retry-After.",
        ["api"],
        "medium",
    ),
    (
        "Sprint 21: review",
        "Velocity 34. Done: kiosk reboot, callback fix. Carried over: timetable import.",
        ["sprint"],
        "low",
    ),
    (
        "Sprint 22: review",
        "Velocity 29, two people ill. Done: pooler. Carried over: timetable import, seat map.",
        ["sprint"],
        "low",
    ),
    (
        "Sprint 23: review",
        "Velocity 37. Done: timetable import, seat map. Nothing carried over.",
        ["sprint"],
        "low",
    ),
    (
        "Kiosk: reboot at 03:30",
        "Kiosks restart every night at 03:30 because the card reader's driver leaks memory. The vendor has "
        "promised a fix for spring.",
        ["kiosk"],
        "medium",
    ),
    (
        "Timetable import: odd days",
        "The port authority's file names days from Sunday = 1. Our table starts with Monday = 0; the importer"
        " converts in `shift_day`.",
        ["import", "bugfix"],
        "medium",
    ),
    (
        "Colour of the buttons",
        "Buttons that cost money are orange, all others are blue; agreed with Amira on 2026-10-20.",
        ["design", "decision"],
        "low",
    ),
    (
        "Backups",
        "A dump is made at 02:00 and kept for 35 days in another region. Restoring takes about 50 minutes; "
        "last tried on 2026-09-12.",
        ["database", "operations"],
        "high",
    ),
    (
        "Secrets live in the vault",
        "No keys in the repository. Services read them at start from the vault under harbour/<service>.",
        ["security"],
        "high",
    ),
)
NOTES: tuple[Call, ...] = tuple(
    (
        "write_context",
        {"topic": topic, "content": content, "tags": tags}
        | ({} if importance == "medium" else {"importance": importance}),
    )
    for topic, content, tags, importance in _NOTES
)
_RELEASES, _SPRINT, _COLOURS = 1, 8, 13  # which note is meant

RIGHT: tuple[str | None, ...] = (
    "Bookings API", "Bookings API", "Releases", "Payment callbacks", "Database", "Payment callbacks",
    "Bookings API|Database|Colour", "Releases", "Database", "Database", "Customer", "Who is who", "Flaky",
    "Rate limits", None, None, "Sprint 22", "Payment callbacks",
)  # fmt: skip
"""How the topic begins that answers each of the first searches; None where nothing does."""

REST: tuple[Call, ...] = (
    ("search_context", {"query": "why did we not use sessions for bookings?"}),
    ("search_context", {"query": "how do customers stay signed in"}),
    ("search_context", {"query": "when can we ship to production?"}),
    ("search_context", {"query": "calback signiture fails"}),
    ("search_context", {"query": "databse pooler prot"}),
    ("search_context", {"query": "payment provider", "tags": ["payments"]}),
    ("search_context", {"query": "decision", "tags": ["decision"]}),
    ("search_context", {"query": "¿qué día publicamos?"}),
    ("search_context", {"query": "Warum gibt es keine vorbereiteten Anweisungen in der Datenbank?"}),
    ("search_context", {"query": "为什么 pooler 不保留语句"}),
    ("search_context", {"query": "Which customer needs single sign-on, and by when?"}),
    ("search_context", {"query": "who is Tomasz"}),
    ("search_context", {"query": "unstable tests"}),
    ("search_context", {"query": "how many requests may a client make"}),
    ("search_context", {"query": "what is the capital of France"}),
    ("search_context", {"query": "kubernetes helm chart"}),
    ("search_context", {"query": "velocity sprint 22"}),
    ("search_context", {"query": "src/pay/callback.py"}),
    ("list_context", {}),
    ("list_context", {"limit": 6}),
    ("list_context", {"tags": ["decision"]}),
    ("read_context", {"id": Written(_RELEASES)}),
    ("read_context", {"id": "0000000000"}),
    ("delete_context", {"id": Written(_SPRINT)}),
    (
        "write_context",
        {
            "topic": "Releases: Thursdays before noon",
            "content": "Since 2026-11-12 we release on Thursdays before noon, from `main`.",
            "tags": ["release"],
            "replaces": Written(_RELEASES),
        },
    ),
    (
        "write_context",
        {
            "topic": "Colour of the buttons",
            "content": "Buttons that cost money are green, all others are blue; agreed with Amira on 2026-11-10.",
            "tags": ["design", "decision"],
        },
    ),
    ("search_context", {"query": "which day do we release", "top_k": 3}),
    ("delete_context", {"id": Written(_COLOURS)}),
    ("set_state", {"key": "current_phase", "value": "seat map"}),
    ("set_state", {"key": "run_042", "value": {"phase": "import", "step": 3, "done": False}}),
    ("get_state", {"key": "current_phase"}),
    ("get_state", {"key": "run_042"}),
    ("get_state", {"key": "project_tags"}),
    ("search_context", {"query": "sprint", "top_k": 0}),
    ("search_context", {"query": "sprint", "search_mode": "fuzzy"}),
    ("write_context", {"topic": "No content"}),
)
"""What is asked once the notes are there: 19 searches, and each of the other tools."""
