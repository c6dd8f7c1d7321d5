"""The steps of a skill: those that recur in the runs of one kind, with what is the same in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

from ...extractor import Case, Step
from ..lines import MASK, flatten
from .arguments import get_fields, render_arguments, render_call
from .command_templates import keep_common
from .commands import changes_something, find_program, is_generic
from .remedies import MENDED, find_remedy
from .results import SHOWS
from .steps import has_worked

MOST_STEPS = 10
MOST_VALUES = 12  # of an argument that are compared
MOST_CHOICES = 3


class Key(NamedTuple):
    """What makes two steps of different runs the same step."""

    tool: str
    program: str
    """What a tool that runs commands was told to run."""
    to_mend: bool
    """Whether it failed, and the same call worked after what the run did about it: a test before the repair."""
    again: bool
    """Whether the same call was made before something was changed: a look at what came of it."""


Way: TypeAlias = dict[Key, list[Step]]
"""The steps of a case by what they are, in the order of their first use."""


def collect_steps(case: Case, *, tried: bool) -> Way:
    """The steps of a case that worked or were to be mended, or all that were tried, in the order of their first use."""
    way: Way = {}
    for at, step in enumerate(case.steps):
        to_mend = is_to_mend(case, at)
        if tried or to_mend or has_worked(step):
            program = find_program(step) if is_generic(step.tool) else ""
            key = Key(flatten(step.tool, 80), program, to_mend, _is_repeated(case.steps, at))
            way.setdefault(key, []).append(step)
    return way


def is_to_mend(case: Case, at: int) -> bool:
    """Whether a command failed, and the same one worked after what the run did about it."""
    step = case.steps[at]
    return step.failed and is_generic(step.tool) and find_remedy(case.steps, at).startswith(MENDED)


def _is_repeated(steps: Sequence[Step], at: int) -> bool:
    """Whether a call that changes nothing was made before, with the same arguments, and something was changed since."""
    if changes_something(steps[at]):
        return False
    call = steps[at].tool, steps[at].arguments
    same = (index for index in range(at - 1, -1, -1) if (steps[index].tool, steps[index].arguments) == call)
    before = next((index for index in same if has_worked(steps[index])), at)
    return any(has_worked(step) and changes_something(step) for step in steps[before:at])


def find_recurring(ways: Sequence[Way]) -> list[Key]:
    """The keys that more than half of the cases have, in their usual order; where they share none, the last one's.

    If none of them finds out what is wrong, the newest that does is added: who only repairs, repairs blindly.
    """
    counts = Counter(key for way in ways for key in way)
    often = [key for key in counts if counts[key] * 2 > len(ways)]
    if not often:
        often = next((list(way) for way in reversed(ways) if way), [])
    elif diagnoses := [key for way in reversed(ways) for key in way if _shows_error(way[key])]:
        often += [] if set(often) & set(diagnoses) or any(key.to_mend for key in often) else diagnoses[:1]
    positions: dict[Key, list[float]] = {key: [] for key in often}
    for way in ways:
        for position, key in enumerate(way):
            if key in positions:
                positions[key].append(position / len(way))
    most = sorted(often, key=lambda key: -counts[key])[:MOST_STEPS]
    return sorted(most, key=lambda key: sum(positions[key]) / len(positions[key]))


def _shows_error(steps: Sequence[Step]) -> bool:
    return any(step.result.startswith(SHOWS) for step in steps)


def measure_agreement(keys: Sequence[Key], ways: Sequence[Way]) -> float:
    """The mean share of steps that a case and the skill have in common."""
    shares = [len(way.keys() & set(keys)) / len(way.keys() | set(keys)) for way in ways if way or keys]
    return sum(shares) / len(shares) if shares else 0.0


def find_choices(keys: Sequence[Key], ways: Sequence[Way]) -> tuple[int, list[Step]]:
    """What single runs changed, each in its own way, after the step that finds out what is wrong; before which step.

    The commands of a repair may differ by what was found, and a skill without one would leave the repair out.
    """
    finds = next(
        (at for at, key in enumerate(keys) if key.to_mend or any(_shows_error(way.get(key, ())) for way in ways)),
        len(keys),
    )
    chosen: list[Step] = []
    for way in reversed(ways):
        order = list(way)
        if finds < len(keys) and keys[finds] in way:
            last = max(order.index(key) for key in keys if key in way)
            own = [key for key in order[order.index(keys[finds]) : last] if key not in keys and key.program]
            chosen += [way[key][0] for key in own if changes_something(way[key][0])][:1]
    later = range(finds + 1, len(keys))
    acts = (at for at in later if any(changes_something(step) for way in ways for step in way.get(keys[at], ())))
    return next(acts, finds + 1), chosen[:MOST_CHOICES]


def render_steps(keys: Sequence[Key], ways: Sequence[Way]) -> list[str]:
    """The steps of a skill, a line each."""
    lines = [_render_step(key, ways) for key in keys]
    at, chosen = find_choices(keys, ways)
    if chosen:
        lines.insert(at, f"By what that shows: {', or '.join(f'`{render_call(step)}`' for step in chosen)}")
    return lines


def _render_step(key: Key, ways: Sequence[Way]) -> str:
    """A step with the arguments that stay the same, and the names of those that vary."""
    steps = [step for way in ways for step in way.get(key, ())]
    runs = sum(key in way for way in ways)
    several = sum(len({step.arguments for step in way[key]}) > 1 for way in ways if key in way) * 2 > runs
    arguments: dict[str, str] = {}
    counts = Counter(name for step in steps for name in get_fields(step))
    for name in counts:
        if counts[name] * 2 < len(steps):
            continue
        values = list(dict.fromkeys(item for step in steps if (item := get_fields(step).get(name)) is not None))
        arguments[name] = (
            values[0] if len(values) == 1 and MASK not in values else _render_placeholder(name, key, values)
        )
    return (
        f"`{key.tool}({render_arguments(arguments)})`"
        + ", several times" * several
        + ", which fails at first" * key.to_mend
        + ", once more" * key.again
    )


def _render_placeholder(name: str, key: Key, values: Sequence[str]) -> str:
    if key.program and len(values) > 1 and " " in values[0]:
        return reduce(keep_common, values[1:MOST_VALUES], values[0])
    return f"<{name or 'input'}>"
