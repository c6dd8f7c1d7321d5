"""Cases of one kind grow into a skill: the steps that recur, the pitfalls, and how far it is to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from cofio.extract.extractor import Case, Message, Skill, Step
from cofio.extract.rules.agent_runs.skills import build_skill
from cofio.extract.rules.agent_runs.task_kinds import is_alike

from . import runs
from .runs import case, folded


def cases_of(messages: Sequence[list[Message]]) -> list[Case]:
    """The cases of several runs."""
    return [found for run in messages if (found := case(run)) is not None]


def read(found: Skill) -> str:
    """A skill as it is read, its long lines folded."""
    return folded(
        f"{found.name}\n{found.description}\nConfidence: {found.confidence}, maturity: "
        f"{found.maturity}\n\n{found.content}"
    )


def step(tool: str, *, failed: bool = False, **arguments: str) -> Step:
    """A step with its arguments."""
    inside = ", ".join(f'"{name}": "{value}"' for name, value in arguments.items())
    return Step(tool=tool, arguments="{" + inside + "}", result="no" if failed else "ok", failed=failed)


def a_case(intent: str = "Water the plants.", quality: float = 0.85, steps: Sequence[Step] = (), **more: str) -> Case:
    """A case that went as it is told."""
    made = tuple(steps) or (step("open_valve", garden="front"),)
    insight = more.get("insight")
    return Case(intent=intent, approach="", insight=insight, quality=quality, steps=made, outcome="", messages=())


def test_booking_tables_becomes_a_skill() -> None:
    assert read(build_skill(cases_of(runs.TABLES))) == snapshot("""\
book-table
For requests like "Book a table for two at Luigi's tonight at 8.": find_restaurant, then book_table.
Confidence: 0.58, maturity: 0.48

## When to use
When asked for something like: Book a table for two at Luigi's tonight at 8.
Needs `find_restaurant` and `book_table`.

## Steps
1. `find_restaurant(name=<name>, city=Oslo)`
2. `book_table(restaurant=<restaurant>, people=<people>, time=<time>, channel=web)`

## Pitfalls
- `book_table(restaurant=r-3, people=6, time=19:00, channel=web)` failed: no table for 6 at 19:00. It worked
    with time=20:30 instead of 19:00.
- `find_restaurant(name=Hitchhiker, city=Oslo)` failed: 404: no such restaurant. Nothing was seen to help.

## Seen
4 runs, 3 succeeded:
- Book a table for two at Luigi's tonight at 8.
- Reserve a table for 6 at Nobu on Friday at 7 pm.
- Book a table at Maaemo for our anniversary on 12 June.\
""")


def test_mending_tests_becomes_a_skill() -> None:
    assert read(build_skill(cases_of(runs.TESTS))) == snapshot("""\
fix-test
For requests like "Fix the failing test in the invoice parser.": pytest, then read_file, then edit_file.
Confidence: 0.73, maturity: 0.56

## When to use
When asked for something like: Fix the failing test in the invoice parser.
Needs `bash`, `read_file` and `edit_file`.

## Steps
1. `bash(command=<…> pytest -q tests/<…>.py)`, which fails at first
2. `read_file(path=<path>)`
3. `edit_file(path=<path>, old=<old>, new=<new>)`
4. `bash(command=<…> pytest -q tests/<…>.py)`

## Pitfalls
- `read_file(path=export.py)` failed: file not found: export.py. It worked with path=src/export.py instead of
    export.py.

## Seen
3 runs, 3 succeeded:
- Fix the failing test in the invoice parser.
- The test test_leap_year in our calendar module has been failing since yesterday; find out why and fix it.
- Fix the two failing tests of the exporter.\
""")


def test_what_never_worked_has_only_potential_steps() -> None:
    assert read(build_skill(cases_of([runs.DEPLOYMENT]))) == snapshot("""\
deploy-billing-service
For requests like "Deploy version 2.4.1 of the billing service to production.": build_image, then deploy, then
    rollback (not seen to work yet).
Confidence: 0.1, maturity: 0.0

## When to use
When asked for something like: Deploy version 2.4.1 of the billing service to production.
Needs `build_image`, `deploy` and `rollback`.

## Potential Steps
1. `build_image(service=billing, version=2.4.1)`
2. `deploy(service=billing, version=2.4.1, env=production, token=<token>)`
3. `rollback(service=billing, env=production)`

## Pitfalls
- `deploy(service=billing, version=2.4.1, env=production, token=***)` failed: 503: health check failed:
    connection to payments-db refused. Nothing was seen to help.

## Seen
1 run, 0 succeeded:
- Deploy version 2.4.1 of the billing service to production.\
""")


def test_the_runs_of_a_skill_are_alike() -> None:
    for kind in (runs.TABLES, runs.TESTS):
        found = cases_of(kind)
        assert all(is_alike(one, other) for one, other in pairwise(found))
    assert not is_alike(cases_of(runs.TABLES)[0], cases_of(runs.TESTS)[0])


def test_a_name_stays_when_cases_are_added() -> None:
    for kind in (runs.TABLES, runs.TESTS):
        found = cases_of(kind)
        names = {build_skill(found[: count + 1]).name for count in range(len(found))}
        assert len(names) == 1


def test_one_case_is_little_and_ten_that_agree_are_much() -> None:
    one, ten = build_skill([a_case()]), build_skill([a_case()] * 10)
    assert (one.confidence, one.maturity) == (0.5, 0.25)
    assert (ten.confidence, ten.maturity) == (0.91, 0.94)


def test_trust_grows_with_success_and_falls_with_failure() -> None:
    for count in range(1, 9):
        good = [a_case()] * count
        now, more, less = build_skill(good), build_skill([*good, a_case()]), build_skill([*good, a_case(quality=0.1)])
        assert less.confidence < now.confidence < more.confidence <= 0.95
        assert less.maturity < more.maturity
        assert now.maturity < more.maturity


def test_cases_that_went_about_it_differently_are_trusted_less() -> None:
    agreed = build_skill([a_case()] * 4)
    differing = build_skill([a_case(steps=[step(f"way_{at}")]) for at in range(4)])
    assert differing.confidence < agreed.confidence
    assert differing.maturity < agreed.maturity


def test_arguments_that_stay_are_named_and_those_that_vary_are_places_to_fill() -> None:
    found = build_skill(
        [a_case(steps=[step("open_valve", garden=place, pressure="low")]) for place in ("front", "back")]
    )
    assert "1. `open_valve(garden=<garden>, pressure=low)`" in found.content


def test_steps_that_only_one_of_many_took_are_left_out() -> None:
    usual = [step("open_valve"), step("wait"), step("close_valve")]
    found = build_skill([a_case(steps=usual), a_case(steps=usual), a_case(steps=[*usual, step("sweep")])])
    assert "1. `open_valve()`\n2. `wait()`\n3. `close_valve()`\n\n## Pitfalls" in found.content


def test_pitfalls_are_at_most_four_and_the_most_helpful_come_first() -> None:
    failures = [replace(step("try_it", failed=True, way=name), result=f"{name} is closed") for name in "abcdef"]
    helped = [step("lift", failed=True, floor="1"), step("lift", floor="1")]
    found = build_skill([a_case(quality=0.2, steps=[*failures, *helped])])
    pitfalls = found.content.split("## Pitfalls\n")[1].split("\n\n")[0].splitlines()
    assert len(pitfalls) == 4
    assert pitfalls[0] == "- `lift(floor=1)` failed: no. It worked at a later try."


def test_the_same_failure_in_several_runs_is_one_pitfall() -> None:
    broken = [replace(step("lift", failed=True, floor=floor), result=f"error {floor}") for floor in "12"]
    found = build_skill([a_case(steps=[each]) for each in broken])
    assert found.content.count("`lift(floor=1)` failed: error 1 (in 2 runs).") == 1


def test_what_a_user_put_right_is_a_pitfall_too() -> None:
    found = build_skill([a_case(insight='The user\'s correction led to the result: "no, the back garden"')])
    assert '- The user\'s correction led to the result: "no, the back garden"' in found.content


def test_a_skill_does_not_claim_more_runs_than_it_was_made_of() -> None:
    many = [a_case(quality=0.1), *[a_case()] * 50]
    assert "## Seen\nThe last 50 runs, 50 succeeded:\n" in build_skill(many).content
    assert build_skill(many) == build_skill(many[1:])
    assert "## Seen\n49 runs, 49 succeeded:\n" in build_skill(many[2:]).content


def test_a_skill_of_nothing_is_empty_and_sound() -> None:
    found = build_skill([])
    assert (found.name, found.confidence, found.maturity) == ("task", 0.1, 0.0)
    assert (
        build_skill([Case(intent="", approach="", insight=None, quality=0.9, steps=(), outcome="", messages=())]).name
        == "task"
    )


STEPS = st.builds(
    Step,
    tool=st.sampled_from(["bash", "open_valve", "lift"]) | st.text(max_size=8),
    arguments=st.sampled_from(['{"command": "git push"}', '{"a": 1}', "{", "raw"]) | st.text(max_size=20),
    result=st.sampled_from(["ok", "no result", "closed"]) | st.text(max_size=20),
    failed=st.booleans(),
)
CASES = st.lists(
    st.builds(
        Case,
        intent=st.sampled_from(["Book a table.", "Fix the test.", "Einen Tisch reservieren."]) | st.text(max_size=40),
        approach=st.just(""),
        insight=st.none() | st.text(max_size=20),
        quality=st.floats(0, 1),
        steps=st.lists(STEPS, max_size=5).map(tuple),
        outcome=st.just(""),
        messages=st.just(()),
    ),
    max_size=8,
)


@given(cases=CASES)
def test_any_cases_give_the_same_sound_skill_each_time(cases: list[Case]) -> None:
    found = build_skill(cases)
    assert found == build_skill(cases)
    assert 0 <= found.confidence <= 0.95
    assert 0 <= found.maturity <= 1
    assert found.name
    assert not set(found.name) & set("/\\. \n\0")
    assert "\n" not in found.description
    headings = [line for line in found.content.splitlines() if line.startswith("## ")]
    steps = "## Steps" if any(each.quality >= 0.5 for each in cases) else "## Potential Steps"
    assert [line for line in headings if line in ("## When to use", steps, "## Pitfalls", "## Seen")] == [
        "## When to use", steps, "## Pitfalls", "## Seen",
    ]  # fmt: skip


@given(intents=st.permutations(["Water the roses.", "Water the lawn.", "Sprinkle the hedge."]), count=st.integers(1, 3))
def test_cases_that_differ_in_nothing_but_age_give_the_same_steps_and_trust(intents: list[str], count: int) -> None:
    found, usual = build_skill([a_case(each) for each in intents[:count]]), build_skill([a_case()] * count)
    assert (found.confidence, found.maturity) == (usual.confidence, usual.maturity)
    assert "1. `open_valve(garden=front)`\n\n## Pitfalls\nNone seen yet.\n" in found.content


def test_ties_are_settled_by_age() -> None:
    first, second = a_case("Water the roses."), a_case("Water the lawn.")
    assert "like: Water the roses." in build_skill([first, second]).content
    assert "like: Water the lawn." in build_skill([second, first]).content
