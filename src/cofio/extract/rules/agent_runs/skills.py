"""Skills by rules: what the cases of one kind of task have in common."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from ....text.tokenizer import split_words
from ...extractor import GROWN_FROM, Case, Skill
from ..lines import cut, flatten, split_name
from .arguments import render_call
from .cases import CORRECTION
from .commands import changes_something, find_program, is_generic
from .intents import INTENT
from .remedies import find_remedy
from .skill_steps import Key, collect_steps, find_recurring, is_to_mend, measure_agreement, render_steps
from .steps import has_worked
from .task_kinds import find_kinds, find_meaning, find_orders

SUCCESS = 0.5  # the quality from which a case counts as one that worked
MOST_PITFALLS = 4
MOST_SEEN = 3
CAP = 0.95
UNPROVEN = 0.1  # the confidence in a way that has never been seen to work
_UNNEEDED = 2  # the rank of a failure that a run could do without


def build_skill(cases: Sequence[Case]) -> Skill:
    """What the cases of one kind of task, oldest first, have in common; of more than `GROWN_FROM`, the newest.

    With n cases of which s worked, and their agreement a (the mean share of steps that one which worked has in common
    with the skill, 0 to 1):

    - confidence = s / (n + 1) · (0.7 + 0.3·a), at most 0.95; 0.1 when none worked
    - maturity = (1 - 0.75ⁿ) · s / n · (0.5 + 0.5·a)
    """
    cases = cases[-GROWN_FROM:]
    good = [case for case in cases if case.quality >= SUCCESS]
    ways = [collect_steps(case, tried=not good) for case in good or cases]
    keys = find_recurring(ways)
    agreement = measure_agreement(keys, ways)
    count, share = len(cases), len(good) / max(1, len(cases))
    confidence = min(CAP, len(good) / (count + 1) * (0.7 + 0.3 * agreement)) if good else UNPROVEN
    example = flatten(max(good or cases, key=lambda case: case.quality).intent if cases else "", INTENT)
    tools = list(dict.fromkeys(key.tool for key in keys))
    actions = list(dict.fromkeys(key.program or key.tool for key in keys))
    return Skill(
        name=_build_name(cases),
        description=_describe(example, actions, good=bool(good)),
        content=_render_content(cases, keys, render_steps(keys, ways), example, tools),
        confidence=round(confidence, 2),
        maturity=round((1 - 0.75**count) * share * (0.5 + 0.5 * agreement), 2),
    )


def _build_name(cases: Sequence[Case]) -> str:
    """A slug of what is to be done and with what: the words of the oldest request that at least half of all share.

    Later cases can only take words away, so that the name is soon stable.
    """
    requests = [find_kinds(case.intent) for case in cases]
    counts = Counter(stem for request in requests for stem in set(request.values()))
    for case, request in zip(cases, requests, strict=True):
        orders = find_orders(case.intent)
        common = {word: stem for word, stem in request.items() if counts[stem] * 2 >= len(cases)}
        verb = next((word for word in orders if word in common), "")
        verb = find_meaning(case.intent, verb) or verb
        tools = {stem for step in case.steps for stem in split_words(" ".join(split_name(step.tool)))}
        things = [word for word in common if word not in orders]
        phrase = things[:2] if " ".join(things[:2]) in case.intent.lower() else things[:1]
        telling = [word for word in things if common[word] in tools][:1] or phrase
        if verb and (named := _slugify([verb, *telling])):
            return named
    used = [step.tool for case in cases[:1] for step in case.steps if has_worked(step)] or ["task"]
    return _slugify(split_name(next((tool for tool in reversed(used) if not is_generic(tool)), used[-1]))[:3]) or "task"


def _slugify(parts: Sequence[str]) -> str:
    plain = unicodedata.normalize("NFKD", " ".join(part for part in parts if part)).casefold()
    return "-".join(re.findall(r"[^\W_]+", "".join(c for c in plain if not unicodedata.combining(c))))[:60].strip("-")


def _describe(example: str, actions: Sequence[str], *, good: bool) -> str:
    request = f'For requests like "{cut(example, 160) or "a task"}"'
    return (
        f"{request}: {', then '.join(actions[:5])}{'' if good else ' (not seen to work yet)'}." if actions else request
    )


def _render_content(
    cases: Sequence[Case], keys: Sequence[Key], steps: Sequence[str], example: str, tools: Sequence[str]
) -> str:
    good = sum(case.quality >= SUCCESS for case in cases)
    count = f"The last {len(cases)} runs" if len(cases) == GROWN_FROM else f"{len(cases)} run{'s' * (len(cases) != 1)}"
    needs = [f"`{tool}`" for tool in tools]
    named = " and ".join([", ".join(needs[:-1]), needs[-1]] if len(needs) > 1 else needs)
    return "\n".join(
        [
            "## When to use",
            f"When asked for something like: {example or 'not stated'}",
            *([f"Needs {named}."] if tools else []),
            "",
            "## Steps" if good else "## Potential Steps",
            *([f"{at}. {step}" for at, step in enumerate(steps, 1)] or ["None were seen."]),
            "",
            "## Pitfalls",
            *(_find_pitfalls(cases, keys) or ["None seen yet."]),
            "",
            "## Seen",
            f"{count}, {good} succeeded:",
            *(
                f"- {flatten(case.intent, INTENT)}"
                for case in sorted(cases, key=lambda case: -case.quality)[:MOST_SEEN]
            ),
        ]
    )


def _find_pitfalls(cases: Sequence[Case], keys: Sequence[Key]) -> list[str]:
    """The failures that were seen, each with what helped: those with a remedy first, then by the number of runs.

    A failure that is a step of the skill is none, nor is one that a single run which succeeded could do without, nor
    a look at something that is not there.
    """
    runs: dict[tuple[str, str], set[int]] = {}
    lines: dict[tuple[str, str], tuple[int, str, str]] = {}
    mended = {(key.tool, key.program) for key in keys if key.to_mend}
    for number, case in enumerate(cases):
        for at, step in enumerate(case.steps):
            if not step.failed or (is_to_mend(case, at) and (flatten(step.tool, 80), find_program(step)) in mended):
                continue
            kind = step.tool, re.sub(r"\d+|\"[^\"]{0,80}\"|'[^']{0,80}'", "#", step.result)[:60]
            runs.setdefault(kind, set()).add(number)
            rank, helped = _describe_remedy(case, at)
            if kind not in lines or rank < lines[kind][0]:
                lines[kind] = rank, f"`{render_call(step)}` failed: {step.result.rstrip('.')}", helped
    real = [kind for kind, (rank, *_) in lines.items() if rank < _UNNEEDED + (len(runs[kind]) > 1)]
    order = sorted(real, key=lambda kind: (lines[kind][0], -len(runs[kind])))
    often = {kind: f" (in {len(found)} runs)" if len(found) > 1 else "" for kind, found in runs.items()}
    rendered = [f"- {lines[kind][1]}{often[kind]}. {lines[kind][2]}" for kind in order]
    rendered += [
        f"- {flatten(case.insight, INTENT)}"
        for case in cases
        if case.insight and case.insight.startswith(CORRECTION) and not any(step.failed for step in case.steps)
    ]
    return list(dict.fromkeys(rendered))[:MOST_PITFALLS]


def _describe_remedy(case: Case, at: int) -> tuple[int, str]:
    """What helped after a failure, as a sentence, with its rank among others."""
    if helped := find_remedy(case.steps, at):
        return 0, f"It {helped}." if helped.startswith("worked") else f"{helped}."
    if case.quality < SUCCESS:
        return 1, "Nothing was seen to help."
    return _UNNEEDED if changes_something(case.steps[at]) else _UNNEEDED + 1, "The run succeeded without it."
