"""Cases of one kind grow into a skill: the steps that recur, the pitfalls, and how far it is to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cofio.extract.extractor import Case, Step
from cofio.extract.rules.agent_runs.skills import build_skill

from .runs import calls, case, run, says, user


def step(tool: str, *, failed: bool = False, **arguments: str) -> Step:
    """A step with its arguments."""
    inside = ", ".join(f'"{name}": "{value}"' for name, value in arguments.items())
    return Step(tool=tool, arguments="{" + inside + "}", result="no" if failed else "ok", failed=failed)


def a_case(intent: str = "Water the plants.", quality: float = 0.85, steps: Sequence[Step] = (), **more: str) -> Case:
    """A case that went as it is told."""
    made = tuple(steps) or (step("open_valve", garden="front"),)
    insight = more.get("insight")
    return Case(intent=intent, approach="", insight=insight, quality=quality, steps=made, outcome="", messages=())


def test_runs_that_mend_something_become_a_skill_that_says_what_fails_at_first() -> None:
    def mend(asked: str, name: str) -> Case:
        test = {"command": f"pytest -q tests/test_{name}.py"}
        found = case(
            run(
                user(asked),
                calls(("bash", test, "1 failed, 3 passed in 0.12s")),
                calls(("read_file", {"path": f"{name}.py"}, f"Error: file not found: {name}.py")),
                calls(("read_file", {"path": f"src/{name}.py"}, "def parse(row): ...")),
                calls(("edit_file", {"path": f"src/{name}.py", "old": "...", "new": name}, "Replaced 1 occurrence.")),
                calls(("bash", test, "4 passed in 0.09s")),
                says("Fixed."),
            )
        )
        assert found is not None
        return found

    cases = [mend(f"Fix the failing test of the {name}.", name) for name in ("invoice", "export")]
    found = build_skill(cases)
    assert found.name == build_skill(cases[:1]).name
    steps = found.content.split("## Steps\n")[1].split("\n\n")[0].splitlines()
    assert [each.split("`")[1].partition("(")[0] for each in steps] == ["bash", "read_file", "edit_file", "bash"]
    assert steps[0].endswith(", which fails at first")
    pitfalls = found.content.split("## Pitfalls\n")[1].split("\n\n")[0]
    assert "path=src/invoice.py instead of invoice.py" in pitfalls
    never = build_skill([a_case(quality=0.1, steps=[step("deploy", failed=True, to="production")])])
    assert (never.confidence, never.maturity) == (0.1, 0.0)
    assert "## Potential Steps\n1. `deploy(to=production)`" in never.content


def test_trust_grows_with_success_and_falls_with_failure_and_disagreement() -> None:
    for count in range(1, 9):
        good = [a_case()] * count
        now, more, less = build_skill(good), build_skill([*good, a_case()]), build_skill([*good, a_case(quality=0.1)])
        assert less.confidence < now.confidence < more.confidence <= 0.95
        assert less.maturity < more.maturity
        assert now.maturity < more.maturity
    agreed = build_skill([a_case()] * 4)
    differing = build_skill([a_case(steps=[step(f"way_{at}")]) for at in range(4)])
    assert differing.confidence < agreed.confidence
    assert differing.maturity < agreed.maturity


def test_arguments_that_stay_are_named_and_those_that_vary_are_places_to_fill() -> None:
    found = build_skill(
        [a_case(steps=[step("open_valve", garden=place, pressure="low")]) for place in ("front", "back")]
    )
    assert "1. `open_valve(garden=<garden>, pressure=low)`" in found.content
    usual = [step("open_valve"), step("wait"), step("close_valve")]
    found = build_skill([a_case(steps=usual), a_case(steps=usual), a_case(steps=[*usual, step("sweep")])])
    assert "1. `open_valve()`\n2. `wait()`\n3. `close_valve()`\n\n## Pitfalls" in found.content, "no step of one alone"


def test_pitfalls_are_at_most_four_and_the_most_helpful_come_first() -> None:
    failures = [replace(step("try_it", failed=True, way=name), result=f"{name} is closed") for name in "abcdef"]
    helped = [step("lift", failed=True, floor="1"), step("lift", floor="1")]
    found = build_skill([a_case(quality=0.2, steps=[*failures, *helped])])
    pitfalls = found.content.split("## Pitfalls\n")[1].split("\n\n")[0].splitlines()
    assert len(pitfalls) == 4
    assert pitfalls[0] == "- `lift(floor=1)` failed: no. It worked at a later try."


def test_the_same_failure_in_several_runs_is_one_pitfall_and_a_correction_is_another() -> None:
    broken = [replace(step("lift", failed=True, floor=floor), result=f"error {floor}") for floor in "12"]
    found = build_skill([a_case(steps=[each]) for each in broken])
    assert found.content.count("`lift(floor=1)` failed: error 1 (in 2 runs).") == 1
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
