"""What changed between two states of a thread, as a reader sees it: which part, what it was, and what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Literal, TypeAlias

from ...checkpoints.deltas import same
from ...values.records import Json

Sort: TypeAlias = Literal["new", "old", "changed"]
MOST_CHANGES = 300
LONGEST = 4_000  # characters of a value that are shown
MOST_ITEMS = 500  # of a list, between what is the same at both ends, that are compared one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A part of a state that is new, is gone, or has become something else."""

    path: str
    """Where it is, as `messages[2].content`."""
    sort: Sort
    old: str
    new: str


def compare_states(old: Json, new: Json) -> tuple[StateChange, ...]:
    """The parts in which two states differ, in the order of the newer one."""
    changes: list[StateChange] = []
    for change in _compare("", old, new):
        changes.append(change)
        if len(changes) >= MOST_CHANGES:
            break
    return tuple(changes)


def render_value(value: Json) -> str:
    """A value as a person reads it: text as it is, everything else as JSON in lines."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters)"


def _compare(path: str, old: Json, new: Json) -> Iterator[StateChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*new, *(each for each in old if each not in new)]:
            inner = f"{path}.{name}" if path else name
            if name not in old:
                yield StateChange(path=inner, sort="new", old="", new=render_value(new[name]))
            elif name not in new:
                yield StateChange(path=inner, sort="old", old=render_value(old[name]), new="")
            else:
                yield from _compare(inner, old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(path, old, new)
    elif not same(old, new):
        yield StateChange(path=path or "(all)", sort="changed", old=render_value(old), new=render_value(new))


def _compare_lists(path: str, old: list[Json], new: list[Json]) -> Iterator[StateChange]:
    """What was put in or taken out of a list; a part that was replaced by as many others is compared with them."""
    before, after = [_mark(each) for each in old], [_mark(each) for each in new]
    begin = _count_equal(before, after)
    rest = _count_equal(before[begin:][::-1], after[begin:][::-1])
    old_middle, new_middle = (marks[begin : len(marks) - rest][:MOST_ITEMS] for marks in (before, after))
    for operation, *places in SequenceMatcher(None, old_middle, new_middle).get_opcodes():
        start, end, to_start, to_end = (begin + each for each in places)
        if operation == "equal":
            continue
        if end - start == to_end - to_start:
            for one, other in zip(range(start, end), range(to_start, to_end), strict=True):
                yield from _compare(f"{path}[{other}]", old[one], new[other])
            continue
        for one in range(start, end):
            yield StateChange(path=f"{path}[{one}]", sort="old", old=render_value(old[one]), new="")
        for other in range(to_start, to_end):
            yield StateChange(path=f"{path}[{other}]", sort="new", old="", new=render_value(new[other]))


def _count_equal(one: Sequence[str], other: Sequence[str]) -> int:
    """How many elements two lists have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _mark(value: Json) -> str:
    """What is the same for equal values alone."""
    return json.dumps(value, ensure_ascii=False)
