"""What changed between two states, in a form that costs what is new and not what was there before.

A state is made of dictionaries with string keys, lists, strings, bytes, numbers, booleans and None. A change is one of
these lists, which JSON and MessagePack hold as they are:

    [0, value]                         the value itself
    [1, {key: change}, [key …]]        a dictionary with some keys changed or new, and some gone
    [1, {…}, […], [key …]]             the same, with its keys in another order than they would come to stand in
    [2, [part …]]                      a list made of parts: [[value …]] new, [at, count] as before,
                                       [at, change] a change of what was there before
    [3, begin, end, text]              a string or bytes: so much of its beginning and end, and this between

States must not hold themselves. Equal means equal in type as well: 1 is neither 1.0 nor True.
"""

from __future__ import annotations

import marshal
from operator import is_
from typing import Any, TypeAlias

State: TypeAlias = Any
Change: TypeAlias = list[Any]

VALUE, KEYS, PARTS, SPLICE = range(4)
RADIX = 4
_PLAIN = frozenset({str, int, bool, bytes, type(None)})
_ABSENT = object()
SPLICED = 64  # a string that is shorter is written whole: to say what stays of it costs as much


def diff(old: State, new: State) -> Change:
    """The change that makes `new` of `old`."""
    kind = type(new)
    if type(old) is not kind:
        return [VALUE, new]
    if kind is dict:
        return _diff_keys(old, new)
    if kind is list:
        return _diff_parts(old, new)
    if (kind is str or kind is bytes) and len(old) >= SPLICED and len(new) >= SPLICED:
        return _splice(old, new)
    return [VALUE, new]


def patch(old: State, change: Change) -> State:
    """What `change` makes of `old`, which stays as it is; the two share what did not change.

    Raises:
        ValueError: the change is not one of `old`.
    """
    try:
        return _patch(old, change)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"the change does not fit the state: {error!r}") from error


def same(one: State, other: State) -> bool:
    """Whether two states are equal, in their types and the order of their keys too."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in _PLAIN:
        return bool(one == other)
    # Equality is quick to say no; the bytes, in a version that knows no references, tell 1 from 1.0 and from True.
    return bool(one == other) and marshal.dumps(one, 2) == marshal.dumps(other, 2)


def base_position(position: int) -> int:
    """Which of the saves before this one it is best a change of; 0 is the whole state that they began with.

    It is the number without its last digit that is not zero, in base RADIX: 23 (113 in base 4) is a change of 20 (110),
    20 of 16 (100), and 16 of 0. So there are never more changes to go through than a number has digits, and all
    of the positions that one goes through are on the way to the one before it.
    """
    unit = 1
    while position // unit % RADIX == 0:
        unit *= RADIX
    return position - position // unit % RADIX * unit


def _diff_keys(old: dict[str, State], new: dict[str, State]) -> Change:
    changes = {}
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        if before is value:
            continue
        if before is _ABSENT:
            changes[key] = [VALUE, value]
        elif type(value) is str and type(before) is str and len(value) < SPLICED:  # as most are: no call for them
            if value != before:
                changes[key] = [VALUE, value]
        elif not same(before, value):
            changes[key] = diff(before, value)
    keys = [*new]
    if keys == [*old]:  # as most are: nothing has come, gone or moved
        return [KEYS, changes, []]
    gone = [key for key in old if key not in new]
    order = [key for key in old if key in new]
    order += [key for key in new if key not in old]
    return [KEYS, changes, gone] if order == keys else [KEYS, changes, gone, keys]


def _diff_parts(old: list[State], new: list[State]) -> Change:
    """Most lists grow at their end, or lose their beginning and grow at their end; any other turn is found too."""
    begin = _common(old, new)
    left = min(len(old), len(new)) - begin
    end = 0
    while end < left and same(old[-1 - end], new[-1 - end]):
        end += 1
    parts: list[Any] = [[0, begin]] if begin else []
    parts += _middle(old, new[begin : len(new) - end], begin, len(old) - end)
    if end:
        parts.append([len(old) - end, end])
    return [PARTS, _join(parts)]


def _common(old: list[State], new: list[State]) -> int:
    if all(map(is_, old, new)):  # as with most lists that grew: this is quick
        return min(len(old), len(new))
    count = 0
    for one, other in zip(old, new, strict=False):
        if not same(one, other):
            break
        count += 1
    return count


def _middle(old: list[State], new: list[State], begin: int, past: int) -> list[Any]:
    """The parts for `new`, of which the states of `old` from `begin` to `past` are the likely source."""
    if not new:
        return []
    if begin == past:
        return [[new]]
    places: dict[bytes, int] = {}
    for at in range(past - 1, begin - 1, -1):
        places[marshal.dumps(old[at], 2)] = at
    parts: list[Any] = []
    for number, value in enumerate(new):
        at = places.get(marshal.dumps(value, 2), -1)
        if at >= 0:
            parts.append([at, 1])
            continue
        twin = begin + number  # what was edited in place stands where it stood
        change = diff(old[twin], value) if twin < past else [VALUE, value]
        parts.append([[value]] if change[0] == VALUE else [twin, change])
    return parts


def _join(parts: list[Any]) -> list[Any]:
    """The parts with neighbours made one: what is new, and what stood side by side before."""
    joined: list[Any] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and len(part) == len(last) == 1:
            joined[-1] = [last[0] + part[0]]
        elif last is not None and _run(part) and _run(last) and last[0] + last[1] == part[0]:
            joined[-1] = [last[0], last[1] + part[1]]
        else:
            joined.append(part)
    return joined


def _run(part: list[Any]) -> bool:
    return len(part) == 2 and isinstance(part[1], int)


def _splice(old: Any, new: Any) -> Change:
    least = min(len(old), len(new))
    begin = _count_shared(old, new, least)
    end = _count_shared(old[begin:][::-1], new[begin:][::-1], least - begin)
    if begin + end < SPLICED // 2:
        return [VALUE, new]
    return [SPLICE, begin, end, new[begin : len(new) - end]]


def _count_shared(one: Any, other: Any, most: int) -> int:
    """How many characters two strings have in common at their beginning: by halves, each compared at once."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _patch(old: State, change: Change) -> State:
    kind = change[0]
    if kind == VALUE:
        return change[1]
    if kind == KEYS:
        made = old.copy()
        for key in change[2]:
            del made[key]
        for key, inner in change[1].items():
            made[key] = inner[1] if inner[0] == VALUE else _patch(old[key], inner)
        return {key: made[key] for key in change[3]} if len(change) > 3 else made
    if kind == PARTS:
        return _patch_parts(old, change[1])
    if kind == SPLICE and isinstance(old, str | bytes):
        _, begin, end, between = change
        if begin + end > len(old):
            raise ValueError("the change does not fit the state: it keeps more than there is")
        return old[:begin] + between + old[len(old) - end :]
    raise ValueError(f"the change does not fit the state: {kind!r} is no kind of change")


def _patch_parts(old: list[State], parts: list[Any]) -> list[State]:
    made: list[State] = []
    for part in parts:
        if len(part) == 1:
            made += part[0]
        elif isinstance(part[1], int):
            at, count = part
            if at < 0 or count < 0 or at + count > len(old):
                raise ValueError("the change does not fit the state: it keeps more than there is")
            made += old[at : at + count]
        else:
            made.append(_patch(old[part[0]], part[1]))
    return made
