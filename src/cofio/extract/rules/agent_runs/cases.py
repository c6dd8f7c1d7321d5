"""Cases by rules: what an agent was asked, the steps it took, what helped, and how well it went."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from itertools import groupby, islice

from ...extractor import Case, Message, Step
from ..lines import cut, flatten
from .arguments import get_fields, render_arguments, render_call
from .commands import find_program, looks_up
from .intents import find_intent, list_sentences
from .remedies import find_remedy, find_repairs, render_repairs
from .results import NO_RESULT, SHOWS
from .runs import Run, split_runs
from .steps import find_steps, has_worked
from .vocabulary import get_phrases

MOST_CASES = 5  # of a stretch
OUTCOME = 240  # characters of the last answer
MAX_STEPS = 200  # of a longer run, the first and the last are kept
LINES = 24  # of an approach
_PLAIN = 12  # steps up to which each has a line of its own
_SAID = 2_000  # characters of an answer or a remark that are judged
CORRECTION = "The user's correction led to the result"
UNANSWERED = "none, the run ended without an answer"

QUALITY = {
    "any run": 0.5,
    "the last step worked": 0.15,
    "the last step failed": -0.15,
    "every step failed": -0.2,  # in proportion, where some did
    "there is a final answer": 0.2,
    "there is no final answer": -0.2,
    "the answer admits failure": -0.4,
    "the user is content": 0.15,
    "the user is not": -0.4,
}
"""What a run's quality is the sum of, within 0 and 1."""


def find_cases(messages: Sequence[Message], zone: tzinfo) -> list[Case]:
    """What became of each request, at most five: those for which a user asked and an assistant called a tool.

    Nothing in a case depends on the hour, so that the zone makes no difference.
    """
    return list(islice((found for run in split_runs(messages) if (found := _build_case(run)) is not None), MOST_CASES))


def _build_case(of: Run) -> Case | None:
    run = of.messages
    steps = find_steps(run)
    intent = find_intent(run) if steps else ""
    if not intent:
        return None
    answer = _find_answer(run)
    outcome = _summarize_outcome(answer)
    admits = _admits_failure(answer)
    return Case(
        intent=intent,
        approach=_render_approach(steps, outcome),
        insight=None if admits else _find_insight(run, steps),
        quality=_rate_run(of, steps, answer, admits=admits),
        steps=steps if len(steps) <= MAX_STEPS else steps[: MAX_STEPS // 2] + steps[-MAX_STEPS // 2 :],
        outcome=outcome,
        messages=tuple(message.id for message in run),
    )


def _find_answer(run: Sequence[Message]) -> str:
    """The last words of an assistant after the last tool call; empty when there are none."""
    for message in reversed(run):
        if message.calls:
            return ""
        if message.role == "assistant" and message.text.strip() and not _is_pleasantry(message.text):
            return message.text
    return ""


def _is_pleasantry(text: str) -> bool:
    """Whether a text is only the reply to thanks or to a reproach."""
    return len(text) <= 80 and get_phrases("pleasantry", r"\W{0,3}").match(text.strip()) is not None


def _summarize_outcome(answer: str) -> str:
    """The first sentences of an answer, as many as fit."""
    summary = ""
    for sentence in list_sentences(answer):
        if sentence.startswith("|"):  # a table
            break
        if summary and get_phrases("offer").fullmatch(sentence):
            continue
        plain = flatten(re.sub(r"[*`|]{1,9}", "", sentence[:2_000]), OUTCOME)
        if summary and len(summary) + len(plain) + 1 > OUTCOME:
            break
        summary = f"{summary}{'' if not summary or summary[-1] in '.!?:…。！？' else '.'} {plain}".strip()
    return summary or flatten(answer, OUTCOME)


def _render_approach(steps: Sequence[Step], outcome: str) -> str:
    """A numbered line for each step, and how it ended; in a long run a tool that is called on end has one line."""
    spans = [[step] for step in steps]
    if len(steps) > _PLAIN:
        spans = [list(span) for _, span in groupby(steps, key=lambda step: step.tool)]
    lines: list[str] = []
    at = 1
    for span in spans:
        number = f"{at}-{at + len(span) - 1}" if len(span) > 1 else str(at)
        lines.append(f"{number}. {_render_span(span)}")
        at += len(span)
    if len(lines) > LINES:
        left_out = Counter(step.tool for span in spans[LINES // 2 : -LINES // 2 + 1] for step in span)
        named = ", ".join(f"{tool} ×{count}" for tool, count in left_out.most_common(4))
        lines[LINES // 2 : -LINES // 2 + 1] = [f"… {left_out.total()} more steps ({named})"]
    return "\n".join([*lines, f"Outcome: {outcome or UNANSWERED}"])


def _render_span(span: Sequence[Step]) -> str:
    """One call with its result, or several of one tool in one line."""
    failed = [step for step in span if step.failed]
    if len(span) == 1:
        return f"{render_call(span[0])}: {'failed: ' if failed else ''}{span[0].result}"
    silent = sum(step.result == NO_RESULT for step in span)
    counts = [f"{len(span) - len(failed) - silent} worked"] if len(span) > len(failed) + silent else []
    counts += [f"{silent} without result"] if silent else []
    counts += [f"{len(failed)} failed: {failed[-1].result}"] if failed else []
    return f"{span[0].tool} ×{len(span)}{_render_variants(span)}: {', '.join(counts)}"


def _render_variants(span: Sequence[Step]) -> str:
    """The first few values of the argument that differs between the calls."""
    arguments = [get_fields(step) for step in span]
    for key in arguments[0]:
        values = list(dict.fromkeys(cut(each.get(key, "…"), 60) for each in arguments))
        if len(values) > 1:
            named = ", ".join(values[:3]) + (", …" if len(values) > 3 else "")
            return f" ({key}={named})" if key else f" ({named})"
    return f" ({render_arguments(arguments[0])})" if arguments[0] else ""


def _find_insight(run: Sequence[Message], steps: Sequence[Step]) -> str | None:
    """What turned failure into success: a user's word, what was different about the call that worked, or the change
    after a log had shown what was wrong. That a look at something failed at first comes last.
    """
    corrected = _find_correction(run, steps)
    if corrected and has_worked(steps[-1]):
        return f'{CORRECTION}: "{corrected}"'
    failures = [at for at in range(len(steps) - 1, -1, -1) if steps[at].failed]
    looks = [at for at in failures if looks_up(steps[at])]
    for at in failures:
        if at not in looks and (told := _tell_remedy(steps, at)):
            return told
    if (found := find_repairs(steps)) and has_worked(steps[-1]) and _find_answer(run):
        shown = steps[found[0]]
        what = cut(shown.result.removeprefix(SHOWS), 120)
        return (
            f"{render_call(shown, 80)} showed what was wrong ({what}), and what helped was {render_repairs(found[1])}."
        )
    return next((told for at in looks if (told := _tell_remedy(steps, at))), None)


def _tell_remedy(steps: Sequence[Step], at: int) -> str:
    """A failure and what helped, as a sentence; empty where nothing can be shown to have."""
    helped = find_remedy(steps, at)
    if not helped:
        return ""
    what = render_call(steps[at], 80) if find_program(steps[at]) and " instead" not in helped else steps[at].tool
    return f"{what} failed ({cut(steps[at].result, 100)}) and {helped}."


def _find_correction(run: Sequence[Message], steps: Sequence[Step]) -> str:
    """The last thing that a user put right between two tool calls."""
    found, before = "", 0
    for message in run:
        before += len(message.calls)
        if message.role != "user" or not 0 < before < len(steps) or len(message.text) > 400:
            continue
        remark = flatten(message.text, 160)
        failed = any(step.failed for step in steps[before - 1 : before])
        if "?" not in remark and (
            get_phrases("objection").match(remark) or (failed and get_phrases("change").search(remark))
        ):
            found = remark
    return found


def _admits_failure(answer: str) -> bool:
    """Whether an answer says that it did not work, and nothing else was done for it."""
    parts = [part[:600] for part in list_sentences(answer[:_SAID])[:6]]
    return any(get_phrases("admits failure").search(part) and not get_phrases("instead").search(part) for part in parts)


def _rate_run(of: Run, steps: Sequence[Step], answer: str, *, admits: bool) -> float:
    """The sum of the signals in `QUALITY` that the run shows."""
    run = of.messages
    after = max(at for at, message in enumerate(run) if message.calls)
    remarks = [message.text for message in run[after:] if message.role == "user"]
    content = _judge_contentment([*remarks, of.remark])
    failed = sum(step.failed for step in steps) / len(steps)
    signals = {
        "any run": 1.0,
        "the last step worked": has_worked(steps[-1]),
        "the last step failed": steps[-1].failed,
        "every step failed": failed,
        "there is a final answer": bool(answer),
        "there is no final answer": not answer,
        "the answer admits failure": admits,
        "the user is content": content is True,
        "the user is not": content is False,
    }
    return round(min(1.0, max(0.0, sum(QUALITY[name] * share for name, share in signals.items()))), 2)


def _judge_contentment(remarks: Sequence[str]) -> bool | None:
    """Whether the user was content by the last remark that tells; None when none does."""
    for remark in (remark[:_SAID] for remark in reversed(remarks)):
        if get_phrases("discontent").search(remark) or get_phrases("reproach").search(remark):
            return False
        if get_phrases("content").search(remark):
            return None if " but " in remark else True
    return None
