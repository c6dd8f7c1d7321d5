"""The extractor that needs no model: rules of English, and quotation where they do not reach."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from ..extractor import Case, Extraction, Message, Recalled, Skill
from .boundaries import boundaries
from .cases import alike, cases
from .entries import entries
from .episodes import episode
from .facts import facts
from .skills import skill
from .turns import turns

__all__ = ["Rules"]


class Rules:
    """Reads conversations by rules alone: the same words always give the same result, at once and for nothing."""

    name = "rules"

    def boundaries(self, messages: Sequence[Message], zone: tzinfo) -> list[int]:
        """Where finished stretches end: after so many messages each, increasing, the last below their number."""
        return boundaries(messages, zone)

    def extract(self, messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> Extraction:
        """What one stretch holds."""
        if not messages:
            return Extraction()
        read = turns(messages, zone, recalled)
        return Extraction(
            episode=episode(read),
            facts=facts(read),
            profiles=entries(read),
            cases=tuple(cases(messages, zone)),
            heard={turn.message.id: turn.heard for turn in read if turn.heard is not None},
        )

    def alike(self, case: Case, other: Case) -> bool:
        """Whether two cases are of the same kind of task."""
        return alike(case, other)

    def skill(self, cases: Sequence[Case]) -> Skill:
        """What the cases of one kind of task, oldest first, have in common."""
        return skill(cases)
