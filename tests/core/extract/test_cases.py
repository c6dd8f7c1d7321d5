"""Runs of agents become cases: what was asked, what was done about it, what helped, and how well it went."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from cofio.extract.extractor import Call, Case, Message, Step
from cofio.extract.rules.agent_runs.cases import LINES, MAX_STEPS, MOST_CASES, find_cases
from cofio.extract.rules.agent_runs.intents import INTENT, find_intent
from cofio.extract.rules.agent_runs.results import LINE, summarize_result
from cofio.extract.rules.agent_runs.task_kinds import is_alike

from . import runs
from .runs import START, Turn, calls, case, folded, run, says, user


def told_of(messages: list[Message]) -> str:
    """A case as it is read, its long lines folded."""
    found = case(messages)
    assert found is not None
    return folded(f"{found.intent}\n{found.approach}\nInsight: {found.insight}\nQuality: {found.quality}")


def of(asked: str, *tools: str) -> Case:
    """A case of a request and tools that worked."""
    steps = tuple(Step(tool=tool, arguments="{}", result="ok", failed=False) for tool in tools)
    return Case(intent=asked, approach="", insight=None, quality=0.85, steps=steps, outcome="", messages=())


def asked(*texts: str) -> str:
    """What is understood of a user's words."""
    return find_intent([Message(id=str(at), sender="ana", at=START, text=text) for at, text in enumerate(texts)])


def test_a_flight_is_booked_at_the_second_try() -> None:
    assert told_of(runs.FLIGHT) == snapshot("""\
Find me a flight from Oslo to London on 5 June; book the cheapest one for two people.
1. search_flights(from=OSL, to=LHR, date=2026-06-05): 3 flights (DY1310, BA762, SK805), currency=EUR
2. book_flight(flight=DY1310, seats=2): failed: only 1 seat left on DY1310
3. book_flight(flight=BA762, seats=2, api_key=***): booking=QX7LTR, total=280
Outcome: Booked: BA762 on 5 June for two people, 280 EUR in all. DY1310 was cheaper but had only one seat
    left. The booking is QX7LTR.
Insight: book_flight failed (only 1 seat left on DY1310) and worked with flight=BA762 instead of DY1310.
Quality: 0.93\
""")


def test_a_failing_test_is_mended() -> None:
    assert told_of(runs.FAILING_TEST) == snapshot("""\
The test test_leap_year in our calendar module has been failing since yesterday; find out why and fix it.
1. bash(command=pytest -q tests/test_calendar.py): failed: 1 failed, 3 passed in 0.12s
2. read_file(path=src/calendar_days.py): def is_leap(year: int) -> bool: (3 lines)
3. edit_file(path=src/calendar_days.py, old=return year % 4 == 0, new=return year % 4 == 0 and (year % 100…):
    Replaced 1 occurrence.
4. bash(command=pytest -q tests/test_calendar.py): 4 passed in 0.09s
Outcome: Fixed. is_leap took every fourth year for a leap year; 1900 is not one. All four tests pass now.
Insight: bash(command=pytest -q tests/test_calendar.py) failed (1 failed, 3 passed in 0.12s) and worked after
    edit_file(path=src/calendar_days.py, old=return year % 4 == 0, …).
Quality: 0.8\
""")


def test_a_query_is_put_right() -> None:
    assert told_of(runs.SQL) == snapshot("""\
How many orders did we ship to Norway in May?
1. run_sql(query=SELECT count(*) FROM orders WHERE country = 'NO' AND shipped >= '2026-05-01'): failed: column
    "country" does not exist
2. describe_table(table=orders): 4 columns (id, ship_country, shipped_at, …)
3. run_sql(query=SELECT count(*) FROM orders WHERE ship_country = 'NO' AND shipped_at >= '2026-05-01' AND
    shipped_at < '2026-06-01'): 1 row ([412]), row_count=1
Outcome: In May 412 orders were shipped to Norway.
Insight: run_sql failed (column "country" does not exist) and worked with query=…ship_country = 'NO' AND
    shipped_at >= '2026-05-01' AND… instead of …country = 'NO' AND shipped >= '2026-05-01'.
Quality: 0.78\
""")


def test_a_meeting_is_moved_twice() -> None:
    assert told_of(runs.CALENDAR) == snapshot("""\
Move my meeting with Jonas from Tuesday to Thursday afternoon (then: make it 3 pm instead).
1. list_events(from=2026-06-02, to=2026-06-04): 2 items (Jonas: budget, Stand-up)
2. update_event(id=ev_81, start=2026-06-04T14:00): status=confirmed, id=ev_81, start=2026-06-04T14:00
3. update_event(id=ev_81, start=2026-06-04T15:00): status=confirmed, id=ev_81, start=2026-06-04T15:00
Outcome: Done: Thursday at 15:00.
Insight: None
Quality: 0.85\
""")


def test_calls_that_are_made_at_once_are_steps_of_their_own() -> None:
    assert told_of(runs.HOME) == snapshot("""\
Turn off all the lights downstairs and set the heating to 17 degrees.
1. set_light(room=kitchen, on=false): ok
2. set_light(room=hall, on=false): ok
3. set_light(room=living room, on=false): failed: lamp does not answer
4. set_heating(degrees=17): target=17, current=20.5
5. set_light(room=living room, on=false): ok
Outcome: All lights downstairs are off and the heating is set to 17 °C. The lamp in the living room needed a
    second try.
Insight: set_light failed (lamp does not answer) and worked at a later try.
Quality: 0.81\
""")


def test_a_page_is_read_from_elsewhere() -> None:
    assert told_of(runs.RESEARCH) == snapshot("""\
Which heat pumps work well below -20 °C? I'd like a short comparison with sources.
1. web_search(query=heat pump performance below -20 C field test): 1. Field test of cold-climate heat pumps -
    example.org/field (3 lines)
2. fetch_page(url=https://example.org/field): failed: HTTP 403 Forbidden
3. fetch_cached(url=https://example.org/field): Field test of cold-climate heat pumps (4 lines)
Outcome: Three of twelve units in a two-winter field test kept a COP above 2 at -25 °C (example.org/field). I
    found no second source.
Insight: fetch_page failed (HTTP 403 Forbidden) and fetch_cached(url=https://example.org/field) worked
    instead.
Quality: 0.78\
""")


def test_a_long_run_is_told_in_a_few_lines() -> None:
    assert told_of(runs.REFACTOR) == snapshot("""\
Rename the function parse_date to read_date everywhere in src/, then run the tests.
1. bash(command=grep -rln parse_date src): src/a.py (6 lines)
2-7. read_file ×6 (path=src/a.py, src/b.py, src/c.py, …): 6 worked
8-14. edit_file ×7 (path=src/a.py, src/b.py, src/c.py, …): 6 worked, 1 failed: old string is not unique, pass
    all=true
15. bash(command=python -m pytest -q): 24 passed in 1.84s
Outcome: parse_date is called read_date in all six files, and the 24 tests pass.
Insight: edit_file failed (old string is not unique, pass all=true) and worked with all=true.
Quality: 0.99\
""")


def test_a_deployment_that_failed_is_said_to_have_failed() -> None:
    assert told_of(runs.DEPLOYMENT) == snapshot("""\
Deploy version 2.4.1 of the billing service to production.
1. build_image(service=billing, version=2.4.1): status=ok, image=registry.local/billing:2.4.1
2. deploy(service=billing, version=2.4.1, env=production, token=***): failed: 503: health check failed:
    connection to payments-db refused
3. deploy(service=billing, version=2.4.1, env=production, token=***): failed: 503: health check failed:
    connection to payments-db refused
4. rollback(service=billing, env=production): status=ok, version=2.4.0
Outcome: I'm sorry, but I couldn't deploy 2.4.1: its health check cannot reach payments-db. Production runs
    2.4.0 again.
Insight: None
Quality: 0.0\
""")


def test_a_users_correction_is_what_helped() -> None:
    assert told_of(runs.STAGING) == snapshot("""\
Run the database migration for the shop (then: use the staging server).
1. run_migration(database=shop, server=prod-1): failed: permission denied for schema public
2. run_migration(database=shop, server=staging-1): Applied 3 migrations.
Outcome: The migration ran on staging-1: 3 migrations were applied.
Insight: The user's correction led to the result: "no, use the staging server"
Quality: 0.75\
""")


def test_a_run_that_was_cut_off_has_no_outcome() -> None:
    assert told_of(runs.CUT_OFF) == snapshot("""\
Summarise the last 20 support tickets about refunds and mail the summary to Petra.
1. list_tickets(topic=refund, limit=20): 20 tickets (Refund 0, Refund 1, Refund 2, …)
2. get_ticket(id=900): no result
3. get_ticket(id=901): no result
Outcome: none, the run ended without an answer
Insight: None
Quality: 0.3\
""")


def test_a_request_in_another_language_is_quoted() -> None:
    assert told_of(runs.GERMAN) == snapshot("""\
Für morgen um 19 Uhr einen Tisch für vier Personen im Lindenhof reservieren.
1. find_restaurant(name=Lindenhof): name=Lindenhof, city=Leipzig, phone=0341 555 017
2. book_table(restaurant=Lindenhof, people=4, time=2026-06-02T19:00): confirmed=true, reference=LH-209
Outcome: Der Tisch für vier ist reserviert: morgen um 19 Uhr im Lindenhof, Nummer LH-209.
Insight: None
Quality: 1.0\
""")


def test_a_job_is_repaired_with_the_right_program() -> None:
    assert told_of(runs.DEPENDENCY) == snapshot("""\
Our nightly backup job isn't running; check what's wrong with it.
1. bash(command=systemctl status backup): failed: exit code 3: Active: failed (Result: exit-code)
2. bash(command=journalctl -u backup -n 20): shows an error: Jun 01 02:00:01 backup[811]: ModuleNotFoundError:
    No module named 'zstd' (2 lines)
3. bash(command=pip install zstd): failed: bash: pip: command not found
4. bash(command=/opt/backup/bin/pip install zstd): Successfully installed zstd-1.5.5
5. bash(command=PGPASSWORD=*** systemctl restart backup && systemctl status backup): Active: active (running)
Outcome: The backup was missing the module zstd. I installed it into the job's own environment, and the job
    runs again.
Insight: bash failed (bash: pip: command not found) and worked with command=/opt/backup/bin/pip install zstd
    instead of pip install zstd.
Quality: 0.77\
""")


def test_two_tasks_of_one_stretch_are_two_cases() -> None:
    assert "\n\n".join(
        folded(f"{found.intent}\n{found.approach}\nInsight: {found.insight}\nQuality: {found.quality}")
        for found in find_cases(runs.WEATHER_THEN_TAXI, UTC)
    ) == snapshot("""\
What's the weather in Bergen tomorrow?
1. get_weather(city=Bergen): sky=rain, degrees=12
Outcome: It will rain in Bergen, at 12 degrees.
Insight: None
Quality: 1.0

Book a taxi to the airport for 7 am.
1. book_taxi(to=airport, time=07:00): failed: no car before 07:30
2. book_taxi(to=airport, time=07:30): car=T-12
Outcome: A taxi comes at 7:30; there was none at 7.
Insight: book_taxi failed (no car before 07:30) and worked with time=07:30 instead of 07:00.
Quality: 0.35\
""")  # fmt: skip
    first, second = find_cases(runs.WEATHER_THEN_TAXI, UTC)
    assert [*first.messages, *second.messages] == [message.id for message in runs.WEATHER_THEN_TAXI]


WEATHER = (user("What's the weather in Bergen tomorrow?"), calls(("get_weather", {"city": "Bergen"}, "rain")))
TAXI = (user("Book a taxi to the airport."), calls(("book_taxi", {"to": "airport"}, "T-1")), says("It is booked."))


def intents(*turns: Turn) -> list[str]:
    """What the cases of a conversation are about."""
    return [found.intent for found in find_cases(run(*turns), UTC)]


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("Book a taxi to the airport at 7.", "Book a taxi to the airport at 7."),
        ("Thanks! Could you also book a taxi to the airport?", "Book a taxi to the airport."),
        ("Yes, book me a taxi to the airport.", "Book me a taxi to the airport."),
        ("I need a taxi to the airport at 7.", "I need a taxi to the airport at 7."),
        ("Danke! Bestell mir bitte ein Taxi zum Flughafen.", "Bestell mir bitte ein Taxi zum Flughafen."),
    ],
)
def test_another_request_after_the_answer_begins_another_case(said: str, understood: str) -> None:
    assert intents(*WEATHER, says("Rain."), user(said), *TAXI[1:]) == [
        "What's the weather in Bergen tomorrow?",
        understood,
    ]


@pytest.mark.parametrize(
    "said",
    [
        "Thanks!",
        "And to the station?",
        "What about the station?",
        "No, I meant the station.",
        "That's wrong. Book the taxi to the station.",
        "Change the time to 8.",
        "Can you make it 8?",
        "Can you book one for Ana too?",
        "Try again, please.",
        "Thanks, but book the bigger car.",
        "But you should have asked me before becoming admin!",
        "Send it to Ana.",
        "Could you use a cheaper taxi?",
        "Why did you change the time?",
    ],
)
def test_thanks_corrections_and_refinements_stay_with_their_task(said: str) -> None:
    (found,) = intents(*TAXI, user(said), *TAXI[1:])
    assert found.startswith("Book a taxi to the airport")


def test_an_answer_to_a_question_of_the_agent_is_no_new_task() -> None:
    assert intents(user("Book a taxi to the airport."), says("For what time?"), user("Take the taxi at 7."), *TAXI[1:])[
        0
    ] == ("Book a taxi to the airport.")  # fmt: skip
    flights = calls(("search_flights", {"to": "FCO"}, "A, B and C"))
    booked = calls(("book_flight", {"flight": "B"}, "ok"))
    assert intents(
        user("Find me a flight to Rome."), flights, says("There are A, B and C. Which one?"), user("Book B for two."),
        booked, says("Booked."),
    ) == ["Find me a flight to Rome."]  # fmt: skip


def test_what_needed_no_tool_is_no_case_and_spoils_none() -> None:
    talk = (user("What is the capital of Peru?"), says("Lima."))
    assert intents(*talk, *TAXI) == intents(*TAXI, *talk) == ["Book a taxi to the airport."]
    (found,) = find_cases(run(*TAXI, *talk), UTC)
    assert found.outcome == "It is booked."


def test_a_stretch_has_at_most_five_cases() -> None:
    many = [turn for at in range(8) for turn in (user(f"What's the weather in town {at}?"), WEATHER[1], says("Rain."))]
    assert len(find_cases(run(*many), UTC)) == MOST_CASES


def test_there_is_no_case_without_a_user_or_without_a_tool() -> None:
    assert case([]) is None
    assert case(run(user("What is the capital of Peru?"), says("Lima."))) is None
    assert case(run(calls(("ping", {}, "ok")), says("Done."))) is None
    assert case(run(calls(("ping", {}, "ok")), user("Hello, who are you?"), says("A bot."))) is None
    assert case(run(user("  "), calls(("ping", {}, "ok")))) is None


def test_what_comes_before_the_first_user_is_ignored() -> None:
    found = case(
        [*run(calls(("warm_up", {}, "ok"))), *run(user("Ping db-1."), calls(("ping", {"host": "db-1"}, "ok")))]
    )
    assert found is not None
    assert [step.tool for step in found.steps] == ["ping"]
    assert found.messages == ("m1", "m2", "m3")


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("Hi, could you please book a table for four on Friday?", "Book a table for four on Friday."),
        ("hey Claude, what's the weather in Bergen tomorrow?", "What's the weather in Bergen tomorrow?"),
        ("I need a hotel in Rome for 3 nights, max 120 EUR.", "I need a hotel in Rome for 3 nights, max 120 EUR."),
        (
            "We get 500s on /checkout since 14:00. Can you look into it?",
            "We get 500s on /checkout since 14:00; look into it.",
        ),
        ("Please, can you tell me how many users we have? Thanks!", "Tell me how many users we have."),
        ("```\nValueError: bad day\n```\nFix this please", "Fix this: ValueError: bad day."),
        ("Would you mind booking a taxi for 7 am?", "Would you mind booking a taxi for 7 am?"),
        ("I was wondering if you could help me find a dentist.", "Find a dentist."),
        ("Good morning team! Hope you are well. Quick question: which orders are late?", "Which orders are late?"),
        (
            "Could you cancel my call with Dr. Smith and let him know?",
            "Cancel my call with Dr. Smith and let him know.",
        ),
        ("Your task is to summarise the report in three bullets.", "Summarise the report in three bullets."),
        ("I have a problem. When I log in, the page stays blank.", "When I log in, the page stays blank."),
        ("@agent deploy v2.3 to staging", "Deploy v2.3 to staging."),
        ("帮我订一张明天去北京的火车票。谢谢！", "帮我订一张明天去北京的火车票。"),
        ("Bonjour, peux-tu réserver une table pour deux ce soir ?", "Réserver une table pour deux ce soir."),
        ("The printer on floor 3 is broken again", "The printer on floor 3 is broken again."),
        ("x = 1\n" * 2_000 + "\nPlease explain this file.", "Explain this file."),
    ],
)
def test_a_request_is_said_without_the_politeness_around_it(said: str, understood: str) -> None:
    assert asked(said) == understood


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("Bitte buche einen Zug nach Wien am 3. Juni.", "Buche einen Zug nach Wien am 3. Juni."),
        ("Book a table at St. John for 8 p.m. on Friday.", "Book a table at St. John for 8 p.m. on Friday."),
        ("Order 2 lamps (e.g. from Ikea) for Dr. Vu.", "Order 2 lamps (e.g. from Ikea) for Dr. Vu."),
    ],
)
def test_a_request_is_not_cut_at_a_dot_within_it(said: str, understood: str) -> None:
    assert asked(said) == understood


def test_a_greeting_alone_is_not_the_request() -> None:
    assert asked("Hi!", "Please order more paper.") == "Order more paper."
    assert asked("Hi!") == "Hi!"


@pytest.mark.parametrize("text", runs.FAILURES)
def test_a_failure_is_known(text: str) -> None:
    assert summarize_result(text)[1], summarize_result(text)


@pytest.mark.parametrize("text", runs.NO_FAILURES)
def test_what_only_speaks_of_errors_is_no_failure(text: str) -> None:
    assert not summarize_result(text)[1], summarize_result(text)


@pytest.mark.parametrize(
    "text",
    [
        "# How errors are handled\n\nerror: is printed first\n",
        "10:01 pytest\n10:02 1 failed\nProcess completed with exit code 1.",
        "log:\nTraceback (most recent call last):\nKeyError: 1",
    ],
)
def test_a_text_about_errors_can_be_read_without_failing(text: str) -> None:
    assert not summarize_result(text, reads=True)[1]


def failed(tool: str, arguments: object, result: str) -> bool:
    """Whether a call with this result is taken for a failure."""
    found = case(run(user("Look at what went wrong."), calls((tool, arguments, result)), says("Done.")))
    assert found is not None
    return found.steps[0].failed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("error.log", "ERROR failed to connect"),
        ("error.log", "Error: connection refused by db-1"),
        ("auth.log", "sshd: permission denied for root"),
        ("error.log", "ERROR: file not found: /srv/www/index.html"),
        ("crash.log", "Traceback (most recent call last):\n  x()\nKeyError: 1"),
        ("tests.log", "1 failed, 3 passed in 0.2s"),
        ("build.log", "exit code 1"),
        ("answer.json", '{"status": 500, "error": "boom"}'),
    ],
)
def test_what_a_text_speaks_of_is_no_failure_to_read_it(name: str, text: str) -> None:
    assert not failed("read_file", {"path": name}, text)
    assert not failed("view", {"file_path": name}, text)
    if name.endswith(".log") and "exit code" not in text:
        assert not failed("bash", {"command": f"cat /var/log/{name}"}, text)
        assert not failed("bash", {"command": f"tail -n 50 /var/log/{name} | grep -v x"}, text)


@pytest.mark.parametrize(
    "text",
    [
        "Error: file not found: a/error.log",
        "Permission denied",
        "permission denied: a/error.log",
        "a/error.log does not exist",
        "Error: ENOENT: no such file or directory, open 'a/error.log'",
        "cat: a/error.log: No such file or directory",
        "Traceback (most recent call last):\n  open()\nFileNotFoundError: [Errno 2] No such file: 'a/error.log'",
        '{"error": "could not open the file"}',
        '{"content": [{"type": "text", "text": "no"}], "isError": true}',
    ],
)
def test_what_a_tool_says_of_its_own_reading_is_a_failure(text: str) -> None:
    assert failed("read_file", {"path": "a/error.log"}, text)


def test_a_command_that_reads_and_then_does_something_is_judged_by_that() -> None:
    assert failed("bash", {"command": "cat a.log && pytest -q"}, "1 failed, 3 passed in 0.2s")
    assert failed("bash", {"command": "cat a.log"}, "exit code 1\ncat: a.log: No such file or directory")


@pytest.mark.parametrize(
    ("result", "line"),
    [
        ({"flights": [], "next": None}, "0 flights"),
        ({"rows": [[412]]}, "1 row ([412])"),
        ([{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}], "4 items (a, b, c, …)"),
        ({"ok": True}, "ok"),
        ({"message": "3 mails sent", "ids": [1, 2, 3]}, "3 mails sent, 3 ids (1, 2, 3)"),
        ({"ok": False}, "no reason given"),
        ({"statusCode": 401, "message": "Unauthorized"}, "401: Unauthorized"),
        ({"errors": [{"message": "Field x is missing"}]}, "Field x is missing"),
        ({"exit_code": 2, "stdout": "", "stderr": "usage: x"}, "exit code 2: usage: x"),
        ({"error": "Traceback (most recent call last):\n  File a\nValueError: bad day"}, "ValueError: bad day"),
        (
            {"exit_code": 1, "stderr": "Traceback (most recent call last):\n  File a\nKeyError: 7"},
            "exit code 1: KeyError: 7",
        ),
        ([{"type": "text", "text": "All well."}], "All well."),
        ([{"type": "text", "text": '{"error": "no seats"}'}], "no seats"),
        ({"content": [{"type": "text", "text": "nope"}], "isError": True}, "nope"),
        ({}, "empty"),
    ],
)
def test_json_is_told_by_what_it_holds(result: object, line: str) -> None:
    assert summarize_result(json.dumps(result))[0] == line


def test_secrets_are_masked() -> None:
    found = case(
        run(
            user("Fetch the report with password: hunter22 please."),
            calls(
                (
                    "login",
                    {"user": "ana", "password": "hunter22", "options": {"api_key": "hunter22"}},
                    "token=hunter22abc",
                ),
                (
                    "bash",
                    {"command": "curl -H 'Authorization: Bearer hunter22hunter22' https://ana:hunter22@x.org"},
                    "ok",
                ),
                ("bash", "PASSWORD=hunter22 make report --token hunter22 {", "ok"),
            ),
            says("Here it is."),
        )
    )
    assert found is not None
    assert "***" in found.approach
    assert "hunter22" not in repr(found)


def test_arguments_that_are_no_json_are_shown_as_they_are() -> None:
    found = case(run(user("Count the lines of a.txt."), calls(("shell", "wc -l\n  a.txt", "12 a.txt"))))
    assert found is not None
    assert found.approach.startswith("1. shell(wc -l a.txt): 12 a.txt\n")


def results_of(*messages: tuple[str, str | None]) -> list[str]:
    """The results of calls and answers, each given by its id; a call has no text."""
    made = [Message(id="u", sender="ana", at=START, text="Do what is to be done.")]
    for name, text in messages:
        if text is None:
            call = Call(id=name, name="do", arguments="{}")
            made.append(Message(id="a", sender="agent", role="assistant", at=START, calls=(call,)))
        else:
            made.append(Message(id="t", sender="tools", role="tool", at=START, text=text, answers=name))
    found = case(made)
    assert found is not None
    return [step.result for step in found.steps]


def test_results_are_matched_by_id_however_they_come() -> None:
    assert results_of(("a", None), ("b", None), ("b", "of b"), ("a", "of a")) == ["of a", "of b"]
    assert results_of(("a", None), ("a", "first"), ("a", None), ("a", "second")) == ["first", "second"]
    assert results_of(("a", None), ("a", None), ("a", "first"), ("a", "second")) == ["first", "second"]
    assert results_of(("a", None), ("a", None), ("a", "late")) == ["no result", "late"]
    assert results_of(("a", "early"), ("a", None), ("x", "of none")) == ["no result"]


def test_a_result_without_an_id_answers_the_latest_calls_in_order() -> None:
    made = run(user("Ping both hosts."), calls(("ping", {"host": "a"}, "one"), ("ping", {"host": "b"}, "two")))
    found = case([replace(message, answers=None) for message in made])
    assert found is not None
    assert [step.result for step in found.steps] == ["one", "two"]


def quality(*turns: Turn) -> float:
    found = case(run(user("Restart the mail server."), *turns))
    assert found is not None
    return found.quality


def test_quality_follows_the_signals() -> None:
    worked = calls(("restart", {"host": "mail"}, "restarted"))
    failed = calls(("restart", {"host": "mail"}, "Error: timeout"))
    done = says("The mail server runs again.")
    assert quality(worked, done) == 0.85
    assert quality(worked, done, user("Perfect, works now!")) == 1.0
    assert quality(worked, done, user("thanks"), says("You're welcome!")) == 1.0
    assert quality(worked, done, user("No, it's still broken.")) == 0.45
    assert quality(worked, done, user("But you should have asked me before becoming admin!")) == 0.45
    assert quality(worked, done, user("You did it without asking."), says("Sorry."), user("ok")) == 0.45
    assert quality(worked, done, user("Thanks. What's the time in Rome?"), says("Noon.")) == 1.0
    assert quality(failed, worked, done) == 0.75
    assert quality(failed, says("I'm sorry, I couldn't restart it.")) == 0.0
    assert quality(worked) == 0.45
    assert quality(calls(("restart", {}, None))) == 0.3
    assert quality(worked, says("I couldn't restart it gently, so I stopped and started it.")) == 0.85


def insight(*turns: Turn) -> str | None:
    found = case(run(user("Get the figures for May."), *turns, says("Here they are.")))
    assert found is not None
    return found.insight


def test_an_insight_is_only_what_can_be_shown() -> None:
    failed, worked = "Error: timeout", "12 figures"
    assert insight(calls(("get", {"month": "may"}, worked))) is None
    assert insight(calls(("get", {"month": "may"}, failed)), calls(("notify", {"who": "ana"}, "sent"))) is None
    assert insight(calls(("get", {"month": "may"}, failed)), calls(("get", {"month": "may"}, worked))) == (
        "get failed (timeout) and worked at a later try."
    )
    assert insight(
        calls(("get", {"month": "may", "year": 26}, failed)), calls(("get", {"month": "may", "year": 2026}, worked))
    ) == ("get failed (timeout) and worked with year=2026 instead of 26.")
    assert insight(
        calls(("get", {"month": "may", "fast": True}, failed)), calls(("get", {"month": "may"}, worked))
    ) == ("get failed (timeout) and worked with no fast.")
    assert insight(calls(("get", {"name": "may"}, failed)), calls(("get", {"id": 5}, worked))) == (
        "get failed (timeout) and worked with id=5 and no name."
    )
    assert insight(calls(("get", {"a": 1, "b": 2}, failed)), calls(("get", {"a": 3, "b": 4}, worked))) is None
    assert insight(calls(("get", {"month": "may"}, worked)), user("no thanks"), calls(("close", {}, "ok"))) is None


def test_what_lifted_a_refusal_is_an_insight() -> None:
    get, denied = {"month": "may"}, {"error": "permission denied"}
    assert insight(
        calls(("get", get, denied)), calls(("become_admin", {}, "ok")), calls(("get", get, "12 figures"))
    ) == snapshot("get failed (permission denied) and worked after become_admin().")  # fmt: skip
    assert insight(
        calls(("bash", {"command": "cat /srv/may.csv"}, "cat: /srv/may.csv: Permission denied")),
        calls(("bash", {"command": "sudo cat /srv/may.csv"}, "12,13")),
    ) == snapshot(
        "bash failed (cat: /srv/may.csv: Permission denied) and worked with command=sudo cat /srv/may.csv instead of "
        "cat /srv/may.csv."
    )  # fmt: skip
    assert insight(
        calls(("restart_service", {"name": "figures"}, denied)),
        calls(("admin_shell", {"command": "systemctl restart figures"}, "ok")),
    ) == snapshot(
        "restart_service failed (permission denied) and admin_shell(command=systemctl restart figures) worked instead."
    )  # fmt: skip
    assert insight(calls(("get", get, denied)), calls(("list_users", {}, "3")), calls(("close", {}, "ok"))) is None


@pytest.mark.parametrize(("first", "tools", "second", "others"), runs.SAME_KIND)
def test_tasks_of_one_kind_are_alike(first: str, tools: tuple[str, ...], second: str, others: tuple[str, ...]) -> None:
    assert is_alike(of(first, *tools), of(second, *others))
    assert is_alike(of(second, *others), of(first, *tools))


def of_call(asked: str, call: tuple[str, dict[str, str]]) -> Case:
    """A case of a request and one call that worked."""
    step = Step(tool=call[0], arguments=json.dumps(call[1]), result="ok", failed=False)
    return replace(of(asked), steps=(step,))


@pytest.mark.parametrize(("first", "call", "second", "other"), runs.SAME_COMMAND)
def test_the_same_command_for_the_same_end_is_of_one_kind(
    first: str, call: tuple[str, dict[str, str]], second: str, other: tuple[str, dict[str, str]]
) -> None:
    assert is_alike(of_call(first, call), of_call(second, other))
    assert is_alike(of_call(second, other), of_call(first, call))


@pytest.mark.parametrize(("first", "call", "second", "other"), runs.ANOTHER_COMMAND)
def test_what_destroys_is_never_alike_to_what_does_not(
    first: str, call: tuple[str, dict[str, str]], second: str, other: tuple[str, dict[str, str]]
) -> None:
    assert not is_alike(of_call(first, call), of_call(second, other))
    assert not is_alike(of_call(second, other), of_call(first, call))


@pytest.mark.parametrize(("first", "tools", "second", "others"), runs.ANOTHER_KIND)
def test_tasks_of_another_kind_are_not_alike(
    first: str, tools: tuple[str, ...], second: str, others: tuple[str, ...]
) -> None:
    assert not is_alike(of(first, *tools), of(second, *others))
    assert not is_alike(of(second, *others), of(first, *tools))


def test_a_run_of_a_thousand_steps_stays_short() -> None:
    steps = [calls((f"tool_{at % 7}", {"at": at}, "Error: no" if at % 3 else "ok")) for at in range(1_000)]
    found = case(run(user("Do it all."), *steps, says("Done.")))
    assert found is not None
    assert len(found.approach.splitlines()) == LINES + 1
    assert "more steps (tool_" in found.approach
    assert len(found.steps) == MAX_STEPS


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 20_000, "a" * 1_000_000, "error: " * 100_000, "`" * 500_000, "\\ud800" * 9, '"\\ud800"'],
)
def test_hostile_texts_are_told_shortly(text: str) -> None:
    found = case(run(user("Fix it. " + text), calls(("do", text, text)), says(text)))
    assert found is not None
    assert len(found.intent) <= INTENT
    assert len(found.approach) < 1_000
    found.approach.encode()


SAID = st.text(max_size=60) | st.sampled_from(
    [
        "Hi",
        "no, use b instead",
        "thanks",
        "Book a table.",
        "I couldn't",
        "Traceback (most recent call last):\nKeyError: 1",
    ]
)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | SAID,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "status", "ok", "message", "password", "rows", "exit_code", "x"]) | SAID,
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)
TEXTS = SAID | DATA.map(json.dumps)
IDS = st.sampled_from(["a", "b", ""])
CALLS = st.builds(Call, id=IDS, name=st.sampled_from(["bash", "get_x"]) | st.text(max_size=9), arguments=TEXTS)
MESSAGES = st.lists(
    st.builds(
        Message,
        id=st.text(max_size=3),
        sender=st.just("ana"),
        role=st.sampled_from(["user", "assistant", "tool"]),
        at=st.just(START),
        text=TEXTS,
        calls=st.lists(CALLS, max_size=3).map(tuple),
        answers=st.none() | IDS,
    ),
    max_size=14,
)


@given(messages=MESSAGES)
def test_any_messages_give_the_same_sound_cases_each_time(messages: list[Message]) -> None:
    told = find_cases(messages, UTC)
    assert told == find_cases(messages, UTC)
    assert len(told) <= MOST_CASES
    for found in told:
        assert 0 <= found.quality <= 1
        assert 0 < len(found.intent) <= INTENT
        assert found.steps
        assert all(len(step.result) <= LINE + 20 for step in found.steps)
        assert "\n" not in found.intent + (found.insight or "") + found.outcome
        assert isinstance(is_alike(found, found), bool)
        repr(found).encode()


@given(messages=MESSAGES, others=MESSAGES)
def test_alike_is_the_same_both_ways(messages: list[Message], others: list[Message]) -> None:
    first, second = case(messages), case(others)
    if first is not None and second is not None:
        assert is_alike(first, second) == is_alike(second, first)
