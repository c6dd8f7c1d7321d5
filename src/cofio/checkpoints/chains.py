"""Chains: which earlier state a state is stored as a change of, and what becomes of the changes when one is deleted.

Saves are counted from the last whole state, which is at position 0. `base_position` says which position a save is
best a change of, so that a load goes through few changes and a save writes little. Checkpoints in rows
(`checkpoints.py`) and over a storage of one's own (`library/delta.py`) both choose by it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..backends.checkpoint_interface import CheckpointRows, Link, ThreadKey
from ..values.errors import Unavailable
from .deltas import RADIX, VALUE, State, base_position, diff, patch
from .packing import decode_body, encode_state, pack
from .search_words import find_new_words


class InChain(Protocol):
    """A checkpoint as part of a chain."""

    @property
    def depth(self) -> int:
        """How many changes lead to it from a whole state."""

    @property
    def position(self) -> int:
        """How many saves came after the whole state that it goes back to."""


C = TypeVar("C", bound=InChain)


class BaseChoice(Generic[C]):
    """Chooses what the save after `newest` is stored as a change of: offer it the chain of the newest, nearest first.

    `limit` is how deep a chain may become. There is no base for the save that begins a new chain.
    """

    def __init__(self, newest: int, limit: int) -> None:
        self.position = newest + 1
        self.best: C | None = None
        self._limit = limit
        self.is_made = self.position >= RADIX**limit
        """Whether nothing that is offered would change the choice."""

    def offer(self, step: C) -> None:
        """Consider a step. The wanted one is on the chain, unless something was deleted: then the nearest is taken."""
        if self.is_made or step.depth >= self._limit:
            return
        self.is_made = step.position == base_position(self.position)
        if self.is_made or self.best is None:
            self.best = step

    def choose(self, steps: Iterable[C]) -> C | None:
        """The choice among all steps of a chain."""
        for step in steps:
            self.offer(step)
        return self.best


class Step(NamedTuple):
    """A stored checkpoint in the chain of another."""

    row: int
    depth: int
    position: int


class LoadedState(NamedTuple):
    """A state in memory, with the chain that leads to it, itself last."""

    id: str
    state: State
    chain: tuple[Step, ...]
    size: int
    """About how many bytes of JSON the state is: those of the whole state and the changes that it is made of."""

    @property
    def memory(self) -> int:
        """About how many bytes of memory it takes: a number of JSON's 2 bytes is an object of 28 and a pointer of 8."""
        return 2048 + 4 * self.size

    def extend(self, base: Step, position: int) -> LoadedState:
        """The chain with one step more, which is a change of `base` and has no row yet."""
        return self._replace(chain=(*self.chain, Step(0, base.depth + 1, position)))


def encode_next(base: LoadedState | None, id: str, state: State, short: int) -> tuple[LoadedState, bytes]:
    """A state's body as a change of `base`, or whole where a change would take more than half of that; and the state
    with its chain. A change shorter than `short` is not compressed, nor a whole state of up to four times that: every
    load begins with it.
    """
    if base is not None:
        plain = encode_state(find_change(base.state, state))
        if len(plain) * 2 <= base.size:  # as most are: the whole state need not be encoded to know
            return base._replace(id=id, state=state, size=base.size + len(plain)), pack(plain, short)
    whole = encode_state(state)
    if base is not None and len(plain) * 2 <= len(whole):
        return base._replace(id=id, state=state, size=len(whole)), pack(plain, short)
    return LoadedState(id, state, (Step(0, 0, 0),), len(whole)), pack(whole, 4 * short)


def build_state(links: Sequence[Link]) -> State:
    """The state of the first link, whose chain ends with a whole state.

    Raises:
        Unavailable: a link is damaged.
    """
    state: State = None
    for link in reversed(links):
        state, _ = follow_link(state, link, links[0].id)
    return state


def follow_link(state: State, link: Link, wanted: str) -> tuple[State, int]:
    """The state of a checkpoint from that of its base, and how many bytes of JSON its body holds.

    Raises:
        Unavailable: the link is damaged, and so the checkpoint that is wanted.
    """
    try:
        content, length = decode_body(link.body)
        return (content if link.base is None else patch(state, content)), length
    except (ValueError, RecursionError, zlib.error) as error:
        raise Unavailable(f"checkpoint {wanted!r} is damaged ({error}); restore a backup") from error


def find_change(old: State, new: State) -> list[Any]:
    """The change between two states; what is too deep to be taken apart is written whole."""
    try:
        return diff(old, new)
    except (RecursionError, ValueError):
        return [VALUE, new]


def delete_and_rebase(rows: CheckpointRows, thread: ThreadKey, doomed: Sequence[int]) -> None:
    """Delete checkpoints, after storing what was a change of theirs as a change of something that stays.

    That is the nearest in its own chain; else it is stored whole, once: its siblings become changes of it.
    """
    if not doomed:
        return
    going = set(doomed)
    promoted: tuple[int, State] | None = None
    for child in rows.children(thread, doomed):
        if child.row in going:
            continue
        links = rows.chain(child.row)
        try:
            state = build_state(links)
        except Unavailable:
            continue  # it cannot be read, with or without what it was a change of; `check` reports it
        stays = next((at for at, link in enumerate(links) if at and link.row not in going), None)
        change: list[Any] = [VALUE, state]
        if stays is not None:
            change = find_change(build_state(links[stays:]), state)
            rows.rebase(child.row, links[stays].row, links[stays].depth + 1, pack(encode_state(change)))
        elif promoted is not None:
            change = find_change(promoted[1], state)
            rows.rebase(child.row, promoted[0], 1, pack(encode_state(change)))
        else:
            promoted = (child.row, state)
            rows.rebase(child.row, None, 0, pack(encode_state(state)))
        rows.index_words(thread.space, [(child.row, find_new_words(change, child.metadata))], rebased=True)
    rows.delete(doomed)
