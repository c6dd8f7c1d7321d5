"""How messages become memory: the Extractor protocol, and the values that go in and come out.

An extractor only reads messages and says what they hold. What is stored, where, and under which id is decided above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Literal, Protocol, TypeAlias

from ..values.records import Json

GROWN_FROM = 50
"""A skill is derived from this many of its newest cases."""
Role: TypeAlias = Literal["user", "assistant", "tool"]
Recalled: TypeAlias = Callable[[str], bool]
"""Whether a sentence is one that the memory itself holds, so that someone is repeating what was recalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call of an assistant: its id, the tool's name, and the arguments as JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    id: str
    sender: str
    name: str | None = None
    """What people call the sender, where it is known."""
    role: Role = "user"
    at: datetime
    text: str = ""
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    """The call that this is the result of; only with the role `tool`."""
    content: Json = None
    """What was sent, where it was more than a text: kept, and not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A stretch of conversation, told so that it can be read on its own."""

    subject: str
    summary: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that was said, as a sentence that names who said it."""

    text: str
    speaker: str
    """The sender's id."""
    at: datetime
    messages: tuple[str, ...]
    """The ids of the messages that it was taken from."""
    label: str | None = None
    """What sort of fact it is, where that is known, such as "decision"; the record has it as its tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something lasting about a person. A later entry of the same topic takes the place of an earlier one."""

    topic: str
    """What it is about, e.g. "home" or "likes:climbing"."""
    category: str
    description: str
    evidence: str
    """The words that it was taken from."""
    at: datetime
    message: str
    ended: bool = False
    """Whether it says that the topic no longer holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One tool call of an agent's run, and what came of it."""

    tool: str
    arguments: str
    result: str
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What an agent was asked to do in one run, how it went about it, and how well that went (0 to 1)."""

    intent: str
    approach: str
    insight: str | None
    quality: float
    steps: tuple[Step, ...]
    outcome: str
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A way of doing a kind of task that has been seen to work, or to fail, in several cases."""

    name: str
    description: str
    content: str
    confidence: float
    maturity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What a stretch of conversation holds."""

    episode: Episode | None = None
    facts: tuple[Fact, ...] = ()
    profiles: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    """What was learned of each user, by the sender's id."""
    cases: tuple[Case, ...] = ()
    """What was done for each request that an agent used tools for, in order."""
    own_texts: Mapping[str, str] = field(default_factory=dict)
    """For each message that repeated what the memory holds, by its id: the text that is left without that."""


class Extractor(Protocol):
    """Reads conversations. The same messages always give the same result, or an error that may be tried again."""

    name: str
    uses_vectors: bool
    """Whether to judge sentences by their vectors too (see `vector_reading`) where there is time to embed them."""

    def find_boundaries(self, messages: Sequence[Message], zone: tzinfo) -> list[int]:
        """Return the indexes at which to cut, ascending; the open tail is not cut."""

    def extract(self, messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> Extraction:
        """Extract what one stretch holds."""

    def are_alike(self, case: Case, other: Case) -> bool:
        """Whether two cases are of the same kind of task."""

    def build_skill(self, cases: Sequence[Case]) -> Skill:
        """Derive a skill from the cases of one kind of task, oldest first; only the newest `GROWN_FROM` count."""
