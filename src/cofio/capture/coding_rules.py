"""The extractor of coding sessions: what the rules find in any conversation, and the lessons of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo

from ..extract.extractor import Extraction, Fact, Message, Recalled
from ..extract.rules import Rules
from .command_runs import WorkList, find_fixes
from .lessons import Lesson, find_lessons


class CodingRules(Rules):
    """Rules that have looked at all that waits: what one stretch says, a later one may take back."""

    def __init__(self) -> None:
        self._lessons: list[Lesson] = []
        self.lesson_count = 0
        """How many lessons were told since the start."""

    def prepare(self, messages: Sequence[Message], work: WorkList, before: Sequence[Message] = ()) -> None:
        """Look at the messages whose stretches are extracted next, and at the list of work as it is now.

        `before` is what was said right before them, and was extracted then: it tells what is corrected, or fixed.
        """
        everything = [*before, *messages]
        known = {message.id for message in before}
        found = [*find_lessons(everything), *find_fixes(everything)]
        self._lessons = [each for each in found if each.messages[-1] not in known] + work.list_lessons()

    def extract(self, messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> Extraction:
        """What one stretch holds, with those of the lessons that end in it."""
        extraction = super().extract(messages, zone, recalled)
        here = {message.id for message in messages}
        lessons = [each for each in self._lessons if each.messages[-1] in here and not recalled(each.text)]
        self.lesson_count += len(lessons)
        facts = {
            each.text: Fact(text=each.text, speaker=each.speaker, at=each.at, messages=each.messages, label=each.label)
            for each in lessons
        }
        others = [fact for fact in extraction.facts if fact.text not in facts]
        return replace(extraction, facts=(*facts.values(), *others))
