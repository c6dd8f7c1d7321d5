"""The extractor of coding sessions: what the rules find in any conversation, and the lessons of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from itertools import pairwise

from ..extract.extractor import Case, Extraction, Fact, Message, Recalled
from ..extract.rules import Rules
from ..extract.rules.agent_runs.cases import MOST_CASES, find_cases
from .command_runs import WorkList, find_fixes
from .lessons import Lesson, find_lessons

_MOST = 120  # messages of a stretch of several turns
_LONGEST = 400  # and of one of a single turn


class CodingRules(Rules):
    """Rules that have looked at all that waits: what one stretch says, a later one may take back."""

    uses_vectors = False  # a hook has no time to load the model

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

    def find_boundaries(self, messages: Sequence[Message], zone: tzinfo) -> list[int]:
        """Return the indexes at which to cut, ascending: each before a prompt, as what is said tells.

        Tool calls, of which a turn can have hundreds, do not count as talk. A turn that is longer than a stretch may be
        is cut as in any conversation.
        """
        spoken = [at for at, message in enumerate(messages) if _is_spoken(message)]
        wanted = {spoken[cut] for cut in super().find_boundaries([messages[at] for at in spoken], zone)}
        starts = [at for at, message in enumerate(messages) if message.role == "user" and at]
        cuts: list[int] = []
        begin = 0
        for start, end in pairwise([0, *starts, len(messages)]):
            if start and (end - begin > _MOST or any(start <= cut < end for cut in wanted)):
                cuts.append(start)
                begin = start
            if end - begin > _LONGEST:
                cuts += [begin + cut for cut in super().find_boundaries(messages[begin:end], zone)]
                begin = cuts[-1] if cuts else begin
        return cuts

    def extract(self, messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> Extraction:
        """What one stretch holds, with those of the lessons that end in it.

        It is retold without its tool calls: those are what cases are made of.
        """
        spoken = [replace(message, calls=()) for message in messages if _is_spoken(message)]
        extraction = replace(super().extract(spoken, zone, recalled), cases=_list_cases(messages, zone))
        here = {message.id for message in messages}
        lessons = [each for each in self._lessons if each.messages[-1] in here and not recalled(each.text)]
        self.lesson_count += len(lessons)
        facts = {
            each.text: Fact(text=each.text, speaker=each.speaker, at=each.at, messages=each.messages, label=each.label)
            for each in lessons
        }
        others = [fact for fact in extraction.facts if fact.text not in facts]
        return replace(extraction, facts=(*facts.values(), *others))


def _list_cases(messages: Sequence[Message], zone: tzinfo) -> tuple[Case, ...]:
    """The cases of all turns, some turns at a time; with them goes the prompt that follows, which judges the last."""
    starts = [at for at, message in enumerate(messages) if message.role == "user"]
    edges = [0, *starts[MOST_CASES::MOST_CASES], len(messages)]
    return tuple(case for begin, end in pairwise(edges) for case in find_cases(messages[begin : end + 1], zone))


def _is_spoken(message: Message) -> bool:
    return message.role != "tool" and bool(message.text.strip())
