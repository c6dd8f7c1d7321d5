"""What made a call that failed work after all: another argument, another tool, or what was changed in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ....text.tokenizer import STOP_WORDS, split_words
from ...extractor import Step
from ..lines import MASK, cut, split_name
from .arguments import SHOWN, get_fields, render_call
from .commands import changes_something, find_program, is_generic
from .results import SHOWS
from .steps import has_worked
from .vocabulary import get_phrases

MENDED = "worked after"
_LONG = 12  # characters of an argument that is not shared by chance
_LATER = 50  # steps after a failure among which one that worked is looked for
_MOST_REPAIRS = 2
_SAME_START = 3  # words with which two commands or statements begin that are variants of one
_RESEMBLES = 0.6  # the share of pairs of letters that two variants of one argument have in common
_REPAIR = 90  # characters of a repair


def find_remedy(run: Sequence[Step], at: int) -> str:
    """What made the call that failed at `at` work later in the run; empty when nothing can be shown to have."""
    failed, later = run[at], run[at + 1 : at + 1 + _LATER]
    again = {index: step for index, step in enumerate(later) if step.tool == failed.tool and has_worked(step)}
    likely = {index: shared for index, step in again.items() if (shared := _count_shared(failed, step)) is not None}
    if likely:
        index = max(likely, key=lambda index: likely[index])
        if changes := _describe_changes(get_fields(failed), get_fields(later[index])):
            sources = [step for step in later[:index] if _provides_argument(step, failed, later[index])]
            return f"worked with {changes}" + (f" after {render_repairs(sources[-1:])}" if sources else "")
        repairs = [step for step in later[:index] if _may_help(step, failed)]
        return f"{MENDED} {render_repairs(repairs[-_MOST_REPAIRS:])}" if repairs else "worked at a later try"
    other = next((step for step in later[:1] if has_worked(step) and _stands_in(step, failed)), None)
    return f"{render_call(other, SHOWN)} worked instead" if other is not None else ""


def find_repairs(run: Sequence[Step]) -> tuple[int, Sequence[Step]] | None:
    """The step of a run that showed what was wrong without failing, and what was changed after it, if anything was."""
    at = next((at for at, step in enumerate(run) if step.result.startswith(SHOWS)), len(run))
    repairs = [step for step in run[at + 1 :] if has_worked(step) and changes_something(step)]
    return (at, repairs[:_MOST_REPAIRS]) if repairs else None


def render_repairs(repairs: Sequence[Step]) -> str:
    """Steps in the order in which they were done, on one line."""
    return ", then ".join(render_call(step, _REPAIR) for step in repairs)


def _count_shared(before: Step, after: Step) -> int | None:
    """How many arguments a later call has in common with an earlier one; None when it is another call altogether."""
    old, new = get_fields(before), get_fields(after)
    if find_program(before) != find_program(after):
        return None
    shared = sum(old.get(key) == item for key, item in new.items())
    if shared or not (old or new):
        return shared
    other_name = len(old) == len(new) == 1 and old.keys() != new.keys()
    return 0 if other_name or (len(new) == 1 and _resembles(old, new)) else None


def _resembles(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether the one argument of a call is a variant of what it was, and not another thing."""
    before, after = (" ".join(each.values()).lower() for each in (old, new))
    pairs, others = ({a + b for a, b in pairwise(text)} for text in (before, after))
    if min(len(pairs), len(others)) < 2:
        return False
    same_start = before.split()[:_SAME_START] == after.split()[:_SAME_START]
    return same_start or 2 * len(pairs & others) >= _RESEMBLES * (len(pairs) + len(others))


def _provides_argument(step: Step, failed: Step, worked: Step) -> bool:
    """Whether what a step changed gave an argument that the call which failed had not."""
    new = set(get_fields(worked).values()) - set(get_fields(failed).values())
    return changes_something(step) and has_worked(step) and any(len(item) > 2 and item in step.result for item in new)


def _describe_changes(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Which arguments are new, from what to what; empty when none is."""
    changed = {key: item for key, item in new.items() if old.get(key) != item and item != MASK}
    parts = [_describe_change(key, old.get(key), item) for key, item in list(changed.items())[:2]]
    parts += [f"no {key}" for key in old if key not in new][: 2 - len(parts)]
    return " and ".join(parts)


def _describe_change(key: str, old: str | None, new: str) -> str:
    if old is not None and max(len(old), len(new)) > SHOWN:  # from the word on where they part
        same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        if start := old.rfind(" ", 0, same) + 1:
            old, new = f"…{old[start:]}", f"…{new[start:]}"
    named = f"{key}={cut(new, SHOWN)}" if key else cut(new, SHOWN)
    return f"{named} instead of {cut(old, SHOWN)}" if old is not None else named


def _may_help(step: Step, failed: Step) -> bool:
    """Whether a step may be why a call worked at last: it changed something that has to do with the failure.

    What a tool for everything changed may be anything; what another did is known by the words of the failure.
    """
    if not has_worked(step) or (step.tool == failed.tool and step.arguments == failed.arguments):
        return False
    if not changes_something(step):
        return _lifts_refusal(step, failed)
    if is_generic(step.tool) or step.tool == failed.tool or _lifts_refusal(step, failed):
        return True
    own = set(split_name(step.tool)) - set(split_name(failed.tool))
    told = _find_words(failed.result, *get_fields(failed).values())
    return not told.isdisjoint(_find_words(*own, *get_fields(step).values()))


def _find_words(*texts: str) -> set[str]:
    return {word for word in split_words(" ".join(texts)[:1_000]) if len(word) > 2 and word not in STOP_WORDS}


def _lifts_refusal(step: Step, failed: Step) -> bool:
    """Whether a call was refused for want of a right, and a later one is about rights."""
    about_rights = get_phrases("rights", "(?<![a-z])", "(?![a-z])").search(render_call(step))
    return about_rights is not None and get_phrases("refused").search(failed.result) is not None


def _stands_in(step: Step, failed: Step) -> bool:
    """Whether another call does what one that failed was to do: it holds the same, and is named alike or may more."""
    items = [item for item in get_fields(failed).values() if len(item) > 2 and item != MASK]
    repeated = [item for item in items if any(item in each for each in get_fields(step).values())]
    is_alike = step.tool != failed.tool and bool(set(split_name(step.tool)) & set(split_name(failed.tool)))
    return bool(repeated) and (is_alike or any(len(item) >= _LONG for item in repeated) or _lifts_refusal(step, failed))
