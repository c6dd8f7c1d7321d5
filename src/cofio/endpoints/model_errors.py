"""Why a model gave no answer that can be used."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..values.errors import Unavailable

Reason: TypeAlias = Literal["down", "slow", "busy", "refused", "budget", "nonsense"]
"""down: out of reach, or failing. busy: it asks for time. refused: it takes no such request. budget: ours is spent."""


class Failed(Unavailable):
    """The model cannot be asked now. Neither what it was sent nor the key is in the message."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason: Reason = reason


class Nonsense(Failed):
    """The model answered, and the answer cannot be used."""

    def __init__(self, problem: str) -> None:
        super().__init__("nonsense", problem)
