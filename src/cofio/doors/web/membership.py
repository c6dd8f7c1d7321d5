"""What a process of a server knows of its part in it: which one it is, and how it reaches the others."""

from __future__ import annotations

from dataclasses import dataclass

from .board import Board, SharedCounts
from .links import Switchboard


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One process of several that are one server."""

    number: int
    board: Board
    counts: tuple[SharedCounts, ...]
    """The counts of all processes, by their numbers; a process adds to its own."""
    switchboard: Switchboard

    @property
    def own_counts(self) -> SharedCounts:
        """The counts that this process adds to."""
        return self.counts[self.number]

    def wake_background(self) -> None:
        """Have the background process look for work, unless it is about to."""
        if self.board.claim_wake() and not self.switchboard.send(self.board.background, {"kind": "wake"}):
            self.board.clear_wake()

    def count_model_usage(self, calls: int, tokens: int) -> None:
        """Count what a model was asked."""
        self.own_counts.add("model\tcalls", calls)
        self.own_counts.add("model\ttokens", tokens)
