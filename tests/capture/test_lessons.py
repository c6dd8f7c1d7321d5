"""What is said in a session that is worth telling in a later one, by rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.capture.coding_rules import CodingRules
from cofio.capture.command_runs import WorkList, find_fixes
from cofio.capture.lessons import find_lessons, is_personal
from cofio.capture.private_text import asks_to_skip, strip_injected, strip_private
from cofio.extract.extractor import Call, Message, Role
from cofio.text.fence import fence, tag_lines

from ..tiers import scale_examples
from .made import START, Step, run, say, use, user


def tell(*steps: Step) -> list[Message]:
    """The messages of a script."""
    messages: list[Message] = []
    for number, step in enumerate(steps):
        at = START + timedelta(seconds=number)
        if step.kind == "run":
            call = Call(id=f"c{number}", name=step.tool, arguments=json.dumps(step.arguments))
            messages.append(Message(id=f"m{number}", sender="agent", role="assistant", at=at, calls=(call,)))
            text = f"Exit code 1\n{step.result}" if step.failed else step.result
            messages.append(Message(id=f"r{number}", sender="tool", role="tool", at=at, text=text, answers=call.id))
        else:
            role: Role = "user" if step.kind == "user" else "assistant"
            sender = "sam" if step.kind == "user" else "agent"
            messages.append(Message(id=f"m{number}", sender=sender, role=role, at=at, text=step.text))
    return messages


def list_lessons(*steps: Step) -> list[tuple[str, str]]:
    """The label and the text of each lesson."""
    return [(each.label, each.text) for each in find_lessons(tell(*steps))]


DONE = say("Done.")


@pytest.mark.requirement("lessons.decision")
@pytest.mark.parametrize(
    "text",
    [
        "Let's use PostgreSQL for the queue because SQLite locks.", "Decision: no ORM in this service.",
        "We'll keep the old parser, since clients depend on it.", "Use tabs in the Makefile because make needs them.",
        "We decided to store times as UTC. Because of the summer time.",
    ],
)  # fmt: skip
def test_a_decision_is_kept_with_its_reason(text: str) -> None:
    assert list_lessons(user(f"Thanks for the plan. {text}")) == [("decision", text)]
    reasoned = "I chose tantivy because FTS5 is slower."  # an agent's decision counts only with its reason
    told = list_lessons(user("Go on."), say(f"{reasoned} I went with blue."))
    assert told == [("decision", f"The agent: {reasoned}")]


@pytest.mark.requirement("lessons.correction")
@pytest.mark.parametrize(
    "text",
    [
        "no, use pnpm", "that's wrong, the port is 8080", "don't use mocks, use the real database",
        "I said in the test folder", "you forgot the changelog", "stop adding comments everywhere",
        "actually, the file is in src/hull", "wrong branch, it must be main",
    ],
)  # fmt: skip
def test_a_correction_is_told_with_what_it_corrects(text: str) -> None:
    for before in ("", "Good. But thanks. "):
        assert list_lessons(user("Install it."), run("npm install"), DONE, user(before + text)) == [
            ("correction", f"{text} (after `npm install`)")
        ]


@pytest.mark.requirement("lessons.correction")
@pytest.mark.parametrize(
    "text",
    [
        "no problem", "no, what does it do?", "that's right", "nothing else", "no need to hurry",
        "```\nno, use pnpm\n```", "> no, use pnpm", "Is it wrong?", "It never works on Windows.", "never mind",
    ],
)  # fmt: skip
def test_what_is_no_correction_and_no_preference_is_none(text: str) -> None:
    assert list_lessons(user("Install it."), DONE, user(text)) == []
    assert list_lessons(user("No tests run on main. Find out why.")) == []  # a first prompt corrects nobody


@pytest.mark.requirement("lessons.preference")
@pytest.mark.parametrize(
    ("text", "personal"),
    [
        ("Always run make check before a commit.", False),
        ("I prefer tabs over spaces.", True),
        ("I prefer tabs in this repository.", False),
        ("From now on write the tests first.", False),
        ("In this project we never mock the database.", False),
        ("I always want short answers.", True),
    ],
)
def test_a_preference_is_the_users_own_or_the_repositorys(text: str, personal: bool) -> None:
    assert list_lessons(user(text)) == [("preference", text)]
    assert is_personal(text) == personal


@pytest.mark.requirement("lessons.withdrawn")
@pytest.mark.parametrize("text", ["never mind", "Actually, scratch that.", "on second thought, no", "undo that please"])
def test_what_the_next_turn_takes_back_is_no_fact(text: str) -> None:
    assert list_lessons(user("Let's use MongoDB for this."), DONE, user(text)) == []
    assert list_lessons(user("Let's use MongoDB for this."), DONE, user("Go on."), DONE, user(text)) != []
    told = list_lessons(user("Let's use npm."), DONE, user("Go on."), DONE, user("use pnpm instead of npm"))
    assert told == [("correction", "use pnpm instead of npm")]
    told = list_lessons(user("Store it."), say("I chose MongoDB because it is fast."), user("no, use PostgreSQL"))
    assert told == [("correction", "no, use PostgreSQL")]


@pytest.mark.requirement("lessons.remember")
def test_a_mark_has_the_rest_of_its_line_remembered() -> None:
    told = list_lessons(user("Fix it.\n#remember the staging host is boats-3\nThen go on. #REMEMBER: port 8080"))
    assert told == [("remember", "the staging host is boats-3"), ("remember", "port 8080")]
    assert list_lessons(user("See issue#remember and #remembered, and #remember")) == []


@pytest.mark.requirement("lessons.fix")
def test_a_command_that_passes_after_a_change_teaches_a_fix() -> None:
    messages = tell(
        user("Run the tests."),
        run("pytest tests/test_hull.py", "ImportError: no module named sail", failed=True),
        run("pip install sail"),
        use("Edit", file_path="src/hull.py", old_string="a", new_string="b"),
        run("cat src/hull.py"),
        run("pytest tests/test_hull.py -q", "1 passed"),
    )
    (fix,) = find_fixes(messages)
    assert fix.label == "fix"
    assert fix.text == (
        "`pytest tests/test_hull.py` failed: exit code 1: ImportError: no module named sail. After `pip install sail`"
        " and changing src/hull.py it passed as `pytest tests/test_hull.py -q`."
    )
    assert fix.messages == ("m1", "m5")


@pytest.mark.requirement("lessons.fix")
@pytest.mark.parametrize(
    "steps",
    [
        [run("pytest", "boom", failed=True), run("pytest", "1 passed")],  # it was flaky
        [run("pytest", "boom", failed=True), use("Edit", file_path="a.py"), run("ls", "a.py")],
        [run("grep x y", "", failed=True), use("Edit", file_path="a.py"), run("grep x y", "x")],
        [run("npm test", "boom", failed=True), use("Edit", file_path="a.js"), run("npm run lint", "clean")],
    ],
)
def test_what_changed_nothing_or_ran_something_else_is_no_fix(steps: Sequence[Step]) -> None:
    assert [*find_fixes(tell(*steps))] == []


@pytest.mark.requirement("lessons.todo")
@pytest.mark.parametrize(
    ("tool", "field", "name"),
    [("TodoWrite", "todos", "content"), ("update_plan", "plan", "step"), ("write_todos", "todos", "description")],
)
def test_the_work_that_a_list_leaves_undone_is_open(tool: str, field: str, name: str) -> None:
    def write(*statuses: str) -> Step:
        listed = [{name: f"part {n}", "status": each} for n, each in enumerate(statuses)]
        return Step("run", tool, "ok", False, tool, {field: listed})

    work = WorkList()
    work.follow(tell(user("Do it."), write("pending", "pending"), write("completed", "in_progress")))
    assert [each.text for each in work.list_lessons()] == ["To do: part 1"]
    assert work.done == ["part 0"]
    work.follow(tell(write("completed", "completed")))
    assert work.list_lessons() == []
    one_by_one = WorkList()
    paint = use("TaskCreate", "Task #1 created successfully: hull", subject="paint the hull", description="red")
    mend = use("TaskCreate", "Task #2 created successfully: sail", subject="mend the sail", description="")
    one_by_one.follow(tell(paint, mend, use("TaskUpdate", "Updated task #1", taskId="1", status="completed")))
    assert one_by_one.open == ["mend the sail"]
    again = WorkList(tasks=one_by_one.tasks)
    again.follow(tell(use("TaskUpdate", "Updated task #2", taskId="2", status="completed")))
    assert (again.open, again.done) == ([], ["mend the sail"])


@pytest.mark.requirement("private.injected", "private.marks")
@pytest.mark.parametrize(
    "block",
    [
        tag_lines(['{"text": "The boat is red."}']),
        fence("The boat is red.", "Between the lines marked {mark} is memory."),
        "<system-reminder>\nThe boat is red.\n</system-reminder>",
        "<hook_context>The boat is red.</hook_context>",
    ],
)
def test_what_was_put_into_a_prompt_is_taken_out_again(block: str) -> None:
    assert strip_injected(f"Paint it.\n{block}\nBlue, please.").split() == ["Paint", "it.", "Blue,", "please."]
    assert strip_injected("if a <<< b: pass") == "if a <<< b: pass"
    assert strip_private("a <private>b</private> c <PRIVATE>d\ne</PRIVATE> f <private>g") == "a  c  f "
    assert asks_to_skip("please fix it #skip")
    assert not asks_to_skip("see a#skip, #skipped and <private>#skip</private>")


@pytest.mark.requirement("capture.path")
@settings(max_examples=scale_examples(25))
@given(st.lists(st.sampled_from("uuaaccccc"), max_size=300), st.integers(0, 500))
def test_a_session_is_cut_before_prompts_or_within_a_turn_that_is_too_long(roles: list[str], calls: int) -> None:
    steps = {"u": user("Mend the mast of the boat."), "a": say("It is mended."), "c": run("make")}
    messages = tell(*(steps[role] for role in roles), *[steps["c"]] * calls)
    cuts = CodingRules().find_boundaries(messages, UTC)
    assert cuts == sorted(set(cuts))
    assert all(0 < cut < len(messages) for cut in cuts)
    prompts = [at for at, message in enumerate(messages) if message.role == "user"]
    longest = max((end - begin for begin, end in pairwise([0, *prompts, len(messages)])), default=0)
    assert longest > 400 or set(cuts) <= set(prompts)


@pytest.mark.requirement("capture.path")
def test_every_turn_of_a_stretch_can_be_a_case() -> None:
    turns = [(user(f"Fix the leak in cabin {n}."), run(f"make cabin{n}"), say("Fixed.")) for n in range(12)]
    extraction = CodingRules().extract(tell(*(step for turn in turns for step in turn)), UTC, lambda _: False)
    assert len(extraction.cases) == 12
