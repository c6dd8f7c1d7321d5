"""What is made of agents' runs: cases with the right insight, and one skill of runs of one kind that helps.

usage: python -m benchmarks.agent_runs [--data FILE...] [--failures] [--show GROUP]

`benchmarks/data/agent_runs/` was written for this: runs in groups, with checks. The rules were written with
`development.txt`; `benchmarks/results/agent_runs.md` says what came of the others before they were looked at. A file
of your own is read in the same way; a line begins with

    ==     a group of runs, and its name
    =      a check of the group: `alike` or `not alike`, whether its runs make one skill; `step: A, B | C`, one step
           of the skill holds A, and B or C; `order: A < B`, steps come in this order; `pitfall: …`; `no pitfall: …`
    --     one more run
    U, A   what the user and the assistant say
    >      a call: the tool's name and its arguments as JSON, or `$` and a command
    |      a line of its result
    ?      a check of the run: `failed: 1 3` or `failed: none`, the calls that are taken for failures; `result 2: …`;
           `insight: …`, `insight: none`, `insight not: …`; `intent: …`, `intent not: …`; `outcome: success` or
           `failure`; `cases: 2`, how many cases it gives, where that is not one: all else is then checked of the last

Case does not count. Each check is passed or not; further, each run has to give one case, and none of a group may be
alike to one of another. A check of a skill fails where there is no skill.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cofio.extract.extractor import Call, Case, Message, Skill
from cofio.extract.rules import Rules

from .__main__ import machine

DATA = Path(__file__).parent / "data" / "agent_runs"
FILES = tuple(
    DATA / f"{name}.txt" for name in ("development", "held_back", "held_back_later", "held_back_third", "requests")
)
START = datetime(2026, 4, 1, 9, tzinfo=UTC)
SUCCESS = 0.5
RULES = Rules()


@dataclass(slots=True)
class Run:
    """The messages of one run, and what to check of its case."""

    messages: list[Message] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    count: int = 1
    """How many cases it should give."""

    def say(self, role: str, text: str) -> None:
        """Add what someone says."""
        if role == "U":
            self._add(Message(id="", sender="ana", role="user", at=START, text=text))
        else:
            self._add(Message(id="", sender="agent", role="assistant", at=START, text=text))

    def call(self, line: str) -> None:
        """Add a call, and an empty result of it."""
        name, _, arguments = line.partition(" ")
        if arguments.startswith("$ "):
            arguments = json.dumps({"command": arguments[2:]})
        json.loads(arguments)
        made = Call(id=f"c{len(self.messages)}", name=name, arguments=arguments)
        self._add(Message(id="", sender="agent", role="assistant", at=START, calls=(made,)))
        self._add(Message(id="", sender="tools", role="tool", at=START, answers=made.id))

    def add_result(self, line: str) -> None:
        """Add a line to the result of the last call."""
        last = self.messages.pop()
        assert last.role == "tool", "a result without a call"
        text = f"{last.text}\n{line}" if last.text else line
        self._add(Message(id="", sender="tools", role="tool", at=START, answers=last.answers, text=text))

    def _add(self, message: Message) -> None:
        number = len(self.messages)
        self.messages.append(
            Message(
                id=f"m{number}", sender=message.sender, role=message.role, text=message.text, calls=message.calls,
                answers=message.answers, at=START + timedelta(seconds=10 * number),
            )
        )  # fmt: skip


@dataclass(slots=True)
class Group:
    """Runs that belong together, or look as if they did."""

    name: str
    runs: list[Run] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A check, and whether it was passed."""

    group: str
    check: str
    passed: bool


def load(path: Path) -> list[Group]:
    """The groups of a file."""
    groups: list[Group] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark, _, rest = line.partition(" ")
        if mark == "==":
            groups.append(Group(rest.strip()))
        elif mark == "=":
            groups[-1].checks.append(rest.strip())
        elif mark == "--":
            groups[-1].runs.append(Run())
        elif mark in ("U", "A"):
            groups[-1].runs[-1].say(mark, rest)
        elif mark == ">":
            groups[-1].runs[-1].call(rest)
        elif mark == "|":
            groups[-1].runs[-1].add_result(rest)
        elif mark == "?" and rest.startswith("cases: "):
            groups[-1].runs[-1].count = int(rest.removeprefix("cases: "))
        elif mark == "?":
            groups[-1].runs[-1].checks.append(rest.strip())
        elif mark not in ("", "#"):
            raise SystemExit(f"{path}:{number}: {line!r} begins with no mark that is known")
    return groups


def holds(text: str, wanted: str) -> bool:
    """Whether a text holds all that is wanted: `A, B | C` is A, and B or C."""
    low = text.lower()
    return all(any(each.strip().lower() in low for each in part.split(" | ")) for part in wanted.split(", "))


def judge_case(case: Case | None, check: str) -> bool:
    """Whether the case of a run passes a check."""
    what, _, wanted = check.partition(": ")
    if case is None:
        return False
    if what == "failed":
        failed = [str(at) for at, step in enumerate(case.steps, 1) if step.failed]
        return failed == ([] if wanted == "none" else wanted.split())
    if what == "outcome":
        return (case.quality >= SUCCESS) == (wanted == "success")
    if what == "insight":
        return case.insight is None if wanted == "none" else holds(case.insight or "", wanted)
    if what == "insight not":
        return case.insight is not None and not holds(case.insight, wanted)
    if what in ("intent", "intent not"):
        return holds(case.intent, wanted) == (what == "intent")
    if what.startswith("result "):
        return holds(case.steps[int(what.split()[1]) - 1].result, wanted)
    raise SystemExit(f"no such check of a run: {check!r}")


def judge_skill(skill: Skill | None, check: str) -> bool:
    """Whether the skill of a group passes a check."""
    if skill is None:
        return False
    what, _, wanted = check.partition(": ")
    steps, pitfalls = (_list_lines(skill, heading) for heading in ("Steps", "Pitfalls"))
    if what == "step":
        return any(holds(line, wanted) for line in steps)
    if what == "order":
        at = [next((n for n, line in enumerate(steps) if holds(line, each)), -1) for each in wanted.split(" < ")]
        return -1 not in at and at == sorted(at) and len(set(at)) == len(at)
    if what == "pitfall":
        return any(holds(line, wanted) for line in pitfalls)
    if what == "no pitfall":
        return not any(holds(line, wanted) for line in pitfalls)
    raise SystemExit(f"no such check of a group: {check!r}")


def _list_lines(skill: Skill, heading: str) -> list[str]:
    body = skill.content.partition(f"{heading}\n")[2].partition("\n\n")[0]
    return [line for line in body.splitlines() if line[:1].isdigit() or line.startswith("-")]


def judge(groups: Sequence[Group]) -> Iterator[Verdict]:
    """Every check of these groups."""
    found = [[find_case(run) for run in group.runs] for group in groups]
    for number, (group, cases) in enumerate(zip(groups, found, strict=True)):
        for at, (run, case) in enumerate(zip(group.runs, cases, strict=True), 1):
            yield Verdict(group=group.name, check=f"run {at}: {run.count} case(s)", passed=case is not None)
            for check in run.checks:
                yield Verdict(group=group.name, check=f"run {at}: {check}", passed=judge_case(case, check))
        others = [case for each in found[:number] + found[number + 1 :] for case in each]
        stranger = any(RULES.are_alike(a, b) for a in cases for b in others if a is not None and b is not None)
        yield Verdict(group=group.name, check="no run of another group is alike", passed=not stranger)
        skill = find_skill(cases)
        for check in group.checks:
            passed = (skill is not None) == (check == "alike") if "alike" in check else judge_skill(skill, check)
            yield Verdict(group=group.name, check=check, passed=passed)


def find_case(run: Run) -> Case | None:
    """The last case of a run; None if there are fewer or more than there should be."""
    cases = RULES.extract(run.messages, UTC, lambda _: False).cases
    return cases[-1] if len(cases) == run.count else None


def find_skill(cases: Sequence[Case | None]) -> Skill | None:
    """The skill of cases that are each alike to one before."""
    known = [case for case in cases if case is not None]
    joined = all(any(RULES.are_alike(case, other) for other in known[:at]) for at, case in enumerate(known) if at)
    return RULES.build_skill(known) if len(known) == len(cases) > 1 and joined else None


def render_share(verdicts: Sequence[Verdict]) -> str:
    """How many were passed, and their share."""
    passed = sum(verdict.passed for verdict in verdicts)
    return f"{passed} of {len(verdicts)} ({100 * passed / max(1, len(verdicts)):.0f} %)"


def show(groups: Sequence[Group], wanted: str) -> None:
    """Print what is made of the groups whose name holds `wanted`."""
    for group in groups:
        if wanted in group.name:
            cases = [find_case(run) for run in group.runs]
            for case in cases:
                if case is not None:
                    print(f"{case.intent}\n{case.approach}\nInsight: {case.insight}\nQuality: {case.quality}\n")
            skill = find_skill(cases)
            print(f"Skill: {skill and skill.name}\n{skill and skill.content}\n")


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", type=Path, default=FILES, help="files of runs (default: our own)")
    parser.add_argument("--failures", action="store_true", help="print each check that was not passed")
    parser.add_argument("--show", help="print what is made of the groups with this in their name")
    given = parser.parse_args()
    lines = ["# What is made of agents' runs", "", machine(), "", "| runs | checks passed |", "|---|---|"]
    for path in given.data:
        groups = load(path)
        verdicts = list(judge(groups))
        lines.append(f"| **{path.stem}**: {sum(len(group.runs) for group in groups)} | {render_share(verdicts)} |")
        lines += [
            f"| {group.name} | {render_share([each for each in verdicts if each.group == group.name])} |"
            for group in groups
        ]
        if given.show is not None:
            show(groups, given.show)
        if given.failures:
            print("\n".join(f"{each.group}: {each.check}" for each in verdicts if not each.passed), "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
