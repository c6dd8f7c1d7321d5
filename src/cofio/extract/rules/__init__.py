"""The extractor that needs no model: rules of English, and quotation where they do not reach."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from ..extractor import Case, Extraction, Message, Recalled, Skill
from .agent_runs.cases import find_cases
from .agent_runs.skills import build_skill
from .agent_runs.task_kinds import is_alike
from .boundaries import find_boundaries
from .messages.turns import Turn, read_turns
from .narration.episodes import build_episode
from .narration.facts import find_facts
from .profile.entries import find_entries

__all__ = ["Rules"]


class Rules:
    """Reads conversations by rules alone: the same words always give the same result, at once and for nothing."""

    name = "rules"
    uses_vectors = True

    def find_boundaries(self, messages: Sequence[Message], zone: tzinfo) -> list[int]:
        """Return the indexes at which to cut, ascending; the open tail is not cut."""
        return find_boundaries(messages, zone)

    def extract(self, messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> Extraction:
        """What one stretch holds."""
        return self.extract_turns(read_turns(messages, zone, recalled), messages, zone)

    def extract_turns(self, read: Sequence[Turn], messages: Sequence[Message], zone: tzinfo) -> Extraction:
        """What one stretch holds, whose messages have been read."""
        if not messages:
            return Extraction()
        return Extraction(
            episode=build_episode(read),
            facts=find_facts(read),
            profiles=find_entries(read),
            cases=tuple(find_cases(messages, zone)),
            own_texts={turn.message.id: turn.own_text for turn in read if turn.own_text is not None},
        )

    def are_alike(self, case: Case, other: Case) -> bool:
        """Whether two cases are of the same kind of task."""
        return is_alike(case, other)

    def build_skill(self, cases: Sequence[Case]) -> Skill:
        """What the cases of one kind of task, oldest first, have in common."""
        return build_skill(cases)
