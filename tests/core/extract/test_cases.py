"""Runs of agents become cases: what was asked, what was done about it, what helped, and how well it went."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC

import pytest
from benchmarks.agent_runs import FILES, judge, load
from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Call, Case, Message, Step
from cofio.extract.rules.agent_runs.cases import LINES, MAX_STEPS, MOST_CASES, find_cases
from cofio.extract.rules.agent_runs.intents import INTENT, find_intent
from cofio.extract.rules.agent_runs.results import LINE
from cofio.extract.rules.agent_runs.task_kinds import is_alike

from .runs import START, Turn, calls, case, run, says, user

LEAST_PASSED = 711  # of 726 checks pass; see benchmarks/results/agent_runs.md


def test_labelled_runs_become_the_cases_and_skills_that_they_should() -> None:
    verdicts = [verdict for path in FILES for verdict in judge(load(path))]
    failed = [f"{each.group}: {each.check}" for each in verdicts if not each.passed]
    assert len(verdicts) - len(failed) >= LEAST_PASSED, failed


WEATHER = (user("What's the weather in Bergen tomorrow?"), calls(("get_weather", {"city": "Bergen"}, "rain")))
TAXI = (user("Book a taxi to the airport."), calls(("book_taxi", {"to": "airport"}, "T-1")), says("It is booked."))


def intents(*turns: Turn) -> list[str]:
    """The requests of a conversation's cases."""
    return [found.intent for found in find_cases(run(*turns), UTC)]


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("Thanks! Could you also book a taxi to the airport?", "Book a taxi to the airport."),
        ("I need a taxi to the airport at 7.", "I need a taxi to the airport at 7."),
        ("Danke! Bestell mir bitte ein Taxi zum Flughafen.", "Bestell mir bitte ein Taxi zum Flughafen."),
    ],
)
def test_another_request_after_the_answer_begins_another_case(said: str, understood: str) -> None:
    messages = run(*WEATHER, says("Rain. Anything else?"), user(said), *TAXI[1:])
    first, second = find_cases(messages, UTC)
    assert (first.intent, second.intent) == ("What's the weather in Bergen tomorrow?", understood)
    assert [*first.messages, *second.messages] == [message.id for message in messages]


@pytest.mark.parametrize(
    "said",
    ["Thanks!", "What about the station?", "That's wrong. Book the taxi to the station.", "Can you make it 8?",
     "Try again, please.", "But you should have asked me before becoming admin!", "Send it to Ana."],
)  # fmt: skip
def test_thanks_corrections_and_refinements_stay_with_their_task(said: str) -> None:
    (found,) = intents(*TAXI, user(said), *TAXI[1:])
    assert found.startswith("Book a taxi to the airport")


def test_an_answer_to_a_question_of_the_agent_is_no_new_task() -> None:
    flights = calls(("search_flights", {"to": "FCO"}, "A, B and C"))
    booked = calls(("book_flight", {"flight": "B"}, "ok"))
    assert intents(
        user("Find me a flight to Rome."), flights, says("There are A, B and C. Which one?"), user("Book B for two."),
        booked, says("Booked."),
    ) == ["Find me a flight to Rome."]  # fmt: skip


def test_what_needed_no_tool_or_no_user_is_no_case_and_spoils_none() -> None:
    talk = (user("What is the capital of Peru?"), says("Lima."))
    ping = calls(("ping", {}, "ok"))
    for nothing in ((), talk, (ping, says("Done.")), (ping, *talk), (user("  "), ping)):
        assert intents(*nothing) == []
    assert intents(ping, *talk, *TAXI) == intents(*TAXI, *talk) == ["Book a taxi to the airport."]
    (found,) = find_cases(run(*TAXI, *talk), UTC)
    assert found.outcome == "It is booked."


def test_a_stretch_has_at_most_five_cases() -> None:
    many = [turn for at in range(8) for turn in (user(f"What's the weather in town {at}?"), WEATHER[1], says("Rain."))]
    assert len(find_cases(run(*many), UTC)) == MOST_CASES


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        (["Hi, could you please book a table for four on Friday?"], "Book a table for four on Friday."),
        (["We get 500s on /checkout. Can you look into it?"], "We get 500s on /checkout; look into it."),
        (["```\nValueError: bad day\n```\nFix this please"], "Fix this: ValueError: bad day."),
        (["Good morning! Hope you are well. Quick question: which orders are late?"], "Which orders are late?"),
        (["I have a problem. When I log in, the page stays blank."], "When I log in, the page stays blank."),
        (["帮我订一张明天去北京的火车票。谢谢！"], "帮我订一张明天去北京的火车票。"),
        (["x = 1\n" * 2_000 + "\nPlease explain this file."], "Explain this file."),
        (["Book a table at St. John for 8 p.m. on Friday."], "Book a table at St. John for 8 p.m. on Friday."),
        (["Hi!", "Please order more paper."], "Order more paper."),
        (["Hi!"], "Hi!"),
    ],
)
def test_a_request_is_said_without_the_politeness_around_it(said: list[str], understood: str) -> None:
    messages = [Message(id=str(at), sender="ana", at=START, text=text) for at, text in enumerate(said)]
    assert find_intent(messages) == understood


def test_secrets_are_masked_in_every_part_of_a_case() -> None:
    found = case(
        run(
            user("Fetch the report with password: hunter22 please."),
            calls(
                ("login", {"password": "hunter22", "options": {"api_key": "hunter22"}}, "token=hunter22abc"),
                ("bash", {"command": "curl -H 'Authorization: Bearer hunter22hunter22' https://ana:hunter22@x"}, "ok"),
                ("bash", "PASSWORD=hunter22 make report --token hunter22 {", "ok"),
            ),
            says("Here it is."),
        )
    )
    assert found is not None
    assert "***" in found.approach
    assert "hunter22" not in repr(found)


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
    assert results_of(("a", None), ("a", None), ("a", "late")) == ["no result", "late"]
    assert results_of(("a", "early"), ("a", None), ("x", "of none")) == ["no result"]
    made = run(user("Ping both hosts."), calls(("ping", {"host": "a"}, "one"), ("ping", {"host": "b"}, "two")))
    found = case([replace(message, answers=None) for message in made])
    assert found is not None
    assert [step.result for step in found.steps] == ["one", "two"], "without an id, the latest calls in order"


WORKED = calls(("restart", {"host": "mail"}, "restarted"))
FAILED = calls(("restart", {"host": "mail"}, "Error: timeout"))
DONE = says("The mail server runs again.")


@pytest.mark.parametrize(
    ("turns", "quality"),
    [
        ((WORKED, DONE), 0.85),
        ((WORKED, DONE, user("thanks"), says("You're welcome!")), 1.0),
        ((WORKED, DONE, user("Thanks. What's the time in Rome?"), says("Noon.")), 1.0),
        ((WORKED, DONE, user("No, it's still broken.")), 0.45),
        ((WORKED, DONE, user("You did it without asking."), says("Sorry."), user("ok")), 0.45),
        ((FAILED, WORKED, DONE), 0.75),
        ((FAILED, says("I'm sorry, I couldn't restart it.")), 0.0),
        ((WORKED,), 0.45),
        ((calls(("restart", {}, None)),), 0.3),
        ((WORKED, says("I couldn't restart it gently, so I stopped and started it.")), 0.85),
    ],
)
def test_quality_follows_the_signals(turns: tuple[Turn, ...], quality: float) -> None:
    found = case(run(user("Restart the mail server."), *turns))
    assert found is not None
    assert found.quality == quality


GET, PAGE = {"month": "may"}, {"url": "https://example.org/field"}
NO, DENIED, YES = "Error: timeout", {"error": "permission denied"}, "12 figures"


@pytest.mark.parametrize(
    ("turns", "insight"),
    [
        ([calls(("get", GET, YES))], None),
        ([calls(("get", GET, NO)), calls(("notify", {"who": "ana"}, "sent"))], None),
        ([calls(("get", GET, NO)), calls(("get", GET, YES))], "get failed (timeout) and worked at a later try."),
        ([calls(("get", {**GET, "year": 26}, NO)), calls(("get", {**GET, "year": 2026}, YES))],
         "worked with year=2026 instead of 26."),
        ([calls(("get", {**GET, "fast": True}, NO)), calls(("get", GET, YES))], "worked with no fast."),
        ([calls(("get", {"name": "may"}, NO)), calls(("get", {"id": 5}, YES))], "worked with id=5 and no name."),
        ([calls(("get", {"a": 1, "b": 2}, NO)), calls(("get", {"a": 3, "b": 4}, YES))], None),
        ([calls(("get", GET, DENIED)), calls(("become_admin", {}, "ok")), calls(("get", GET, YES))],
         "worked after become_admin()."),
        ([calls(("fetch_page", PAGE, "HTTP 403 Forbidden")), calls(("fetch_cached", PAGE, "Field test of heat pumps"))],
         "fetch_cached(url=https://example.org/field) worked instead."),
        ([calls(("get", GET, NO)), says("Refused."), user("no, use the other server"),
          calls(("get", {"at": "b"}, YES))], "The user's correction led to the result: \"no, use the other server\""),
        ([calls(("get", GET, YES)), user("no thanks"), calls(("close", {}, "ok"))], None),
        ([calls(("bash", {"command": "npm install", "description": "a"}, "npm ERR! code ERESOLVE")),
          calls(("bash", {"command": "npm install --force", "description": "b"}, "added 3 packages"))],
         "worked with command=npm install --force instead of npm install."),
        ([calls(("bash", {"command": "kubectl logs api"}, "12:01 info starting\n12:02 error ECONNREFUSED\nbye")),
          calls(("bash", {"command": "kubectl set env api DB=pg"}, "env updated"))], "kubectl set env api DB=pg)."),
        ([calls(("bash", {"command": "python a.py"}, "KeyError: 'a'")), calls(("edit_file", {"path": "a.py"}, "ok")),
          calls(("bash", {"command": "python a.py"}, "done"))], "worked after edit_file(path=a.py)."),
        ([calls(("read_file", {"path": "a.py"}, "file not found: a.py")),
          calls(("read_file", {"path": "src/a.py"}, "x"))], "worked with path=src/a.py instead of a.py."),
    ],
)  # fmt: skip
def test_an_insight_is_only_what_can_be_shown(turns: list[Turn], insight: str | None) -> None:
    found = case(run(user("Get the figures for May."), *turns, says("Here they are.")))
    assert found is not None
    assert found.insight is None if insight is None else (found.insight or "").endswith(insight)


def of(asked: str, *calls_made: tuple[str, dict[str, str]]) -> Case:
    """A case of a request and calls that worked."""
    steps = tuple(Step(tool=tool, arguments=json.dumps(given), result="ok", failed=False) for tool, given in calls_made)
    return Case(intent=asked, approach="", insight=None, quality=0.85, steps=steps, outcome="", messages=())


def ssh(command: str) -> tuple[str, dict[str, str]]:
    """A call that runs a command on a host."""
    return "ssh", {"host": "prod-1", "command": command}


@pytest.mark.parametrize(
    ("first", "call", "second", "other"),
    [
        ("The old backups on prod-1 again.", ssh("ls /b"), "The old backups on prod-1.", ssh("cd /b && ls; rm -rf *")),
        ("The service on prod-1 again.", ("bash", {"command": "ssh -t root@prod-1 'systemctl restart web'"}),
         "The service on prod-1 is big.", ("bash", {"command": "ssh prod-1 rm -rf /srv/web"})),
        ("Wipe the disks on db-1.", ssh("dd if=/dev/zero of=/dev/sda"), "Check the disks on db-1.", ssh("df -h")),
        ("Delete the pod api-7.", ("kubectl", {"args": "delete pod api-7"}), "Scale the pod api-7.",
         ("kubectl", {"args": "scale deploy api"})),
        ("Drop the orders table.", ("run_query", {"query": "DROP TABLE orders"}), "Create the orders table.",
         ("run_query", {"query": "CREATE TABLE orders"})),
        ("Update the address of Ana.", ("crm", {}), "Delete the address of Ana.", ("crm", {})),
        ("Book a table at Luigi's.", ("book_table", {}), "Book a flight to Rome.", ("book_flight", {})),
        ("Write unit tests for the parser.", ("edit_file", {}), "Fix the bug in the parser.", ("edit_file", {})),
        ("Einen Tisch im Adler reservieren.", ("bash", {}), "Die Logdateien des Kunden löschen.", ("bash", {})),
    ],
)  # fmt: skip
def test_what_destroys_or_is_of_another_kind_is_not_alike(
    first: str, call: tuple[str, dict[str, str]], second: str, other: tuple[str, dict[str, str]]
) -> None:
    assert not is_alike(of(first, call), of(second, other))
    assert not is_alike(of(second, other), of(first, call))


@pytest.mark.parametrize(
    ("first", "call", "second", "other"),
    [
        ("Restart the web service on prod-1.", ssh("systemctl restart web"), "Please reboot the billing service.",
         ssh("sudo systemctl restart billing")),
        ("Move my meeting with Jonas.", ("update_event", {}), "Reschedule the meeting with Ana.", ("update_event", {})),
        ("Refund order 8812.", ("refund_order", {}), "The customer wants a refund for order 77, issue it.",
         ("refund_order", {})),
        ("Einen Tisch für vier im Lindenhof reservieren.", ("book_table", {}), "Einen Tisch für zwei reservieren.",
         ("book_table", {})),
    ],
)  # fmt: skip
def test_tasks_of_one_kind_are_alike(
    first: str, call: tuple[str, dict[str, str]], second: str, other: tuple[str, dict[str, str]]
) -> None:
    assert is_alike(of(first, call), of(second, other))
    assert is_alike(of(second, other), of(first, call))


def test_a_long_run_stays_short() -> None:
    steps = [calls((f"tool_{at % 7}", {"at": at}, "Error: no" if at % 3 else "ok")) for at in range(1_000)]
    found = case(run(user("Do it all."), *steps, says("Done.")))
    assert found is not None
    assert len(found.approach.splitlines()) == LINES + 1
    assert len(found.steps) == MAX_STEPS
    edits = [
        calls(("edit", {"path": f"{at}.py"}, None if at == 3 else "Error: no" if at == 5 else "ok")) for at in range(9)
    ]
    pings = [calls(("ping", {}, "ok"))] * 5
    found = case(run(user("Edit it all."), *edits, *pings, says("Done.")))
    assert found is not None
    assert found.approach.splitlines()[:2] == [
        "1-9. edit ×9 (path=0.py, 1.py, 2.py, …): 7 worked, 1 without result, 1 failed: no",
        "10-14. ping ×5: 5 worked",
    ]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 20_000, "error: " * 100_000, "`" * 500_000, '"\\ud800"'])
def test_hostile_texts_are_told_shortly(text: str) -> None:
    found = case(run(user("Fix it. " + text), calls(("do", text, text)), says(text)))
    assert found is not None
    assert len(found.intent) <= INTENT
    assert len(found.approach) < 1_000
    found.approach.encode()


SAID = st.text(max_size=60) | st.sampled_from(
    ["Hi", "no, use b instead", "thanks", "Book a table.", "Traceback (most recent call last):\nKeyError: 1"]
)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | SAID,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "status", "ok", "message", "password", "x"]), inner, max_size=4)
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


@given(messages=MESSAGES, others=MESSAGES)
def test_any_messages_give_the_same_sound_cases_each_time(messages: list[Message], others: list[Message]) -> None:
    cases = find_cases(messages, UTC)
    assert cases == find_cases(messages, UTC)
    assert len(cases) <= MOST_CASES
    for found in cases:
        assert 0 <= found.quality <= 1
        assert 0 < len(found.intent) <= INTENT
        assert found.steps
        assert all(len(step.result) <= LINE + 20 for step in found.steps)
        assert "\n" not in found.intent + (found.insight or "") + found.outcome
        repr(found).encode()
    for first, second in zip(cases, find_cases(others, UTC), strict=False):
        assert is_alike(first, second) == is_alike(second, first)
