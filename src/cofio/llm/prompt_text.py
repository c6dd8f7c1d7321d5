"""Conversations, runs and cases as a model reads them: numbered, dated, cut to fit, with secrets masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from ..extract.extractor import Case, Message, Recalled, Skill
from ..extract.rules.lexicon import WEEKDAYS
from ..extract.rules.lines import clean, mask_line
from ..extract.rules.messages.sentences import read_sentences
from ..extract.rules.messages.speakers import get_name
from ..extract.rules.narration.dates import format_day
from .token_counts import fitted, trimmed

MOST = 24_000
"""Tokens of a conversation, or of anything else that is put into a prompt."""
_RESULT = 1_000  # tokens of what a tool gave
_ARGUMENTS = 800
_SPEECH = 3_000  # of one message of a run
_BACKGROUND = 150  # tokens of a tool's call or result where the talk is what matters
_CASE = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A conversation as it was told, and which messages can be a source: by their numbers."""

    text: str
    sources: Mapping[int, Message]


def conversation(messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> Told:
    """The talk, without what the memory itself had given to it."""
    numbers, heads, bodies = [], [], []
    for number, message in enumerate(messages, 1):
        body = _said(message, recalled)
        if body:
            numbers.append(number)
            at = message.at.astimezone(zone)
            heads.append(
                (f"== {WEEKDAYS[at.weekday()].title()}, {format_day(at)}", f"[{number}] {at:%H:%M} {_speaker(message)}")
            )
            bodies.append(body)
    lines: list[str] = []
    today = ""
    for (date, head), body in zip(heads, fitted(bodies, max(MOST // 2, MOST - 16 * len(heads))), strict=True):
        if date != today:
            lines.append(date)
            today = date
        lines.append(f"{head}: {_indented(body)}")
    sources = {number: messages[number - 1] for number in numbers if messages[number - 1].role != "tool"}
    return Told(text="\n".join(lines), sources=sources)


def run(messages: Sequence[Message]) -> str:
    """An agent's work: what was asked and answered, every call of a tool, and what came of it."""
    tools = {call.id: call.name for message in messages for call in message.calls}
    lines: list[str] = []
    for message in messages:
        if message.role == "tool":
            tool = tools.get(message.answers or "", "a tool")
            lines.append(f"RESULT of {tool}: {_indented(trimmed(_hidden(message.text), _RESULT))}")
            continue
        if message.text.strip():
            role = "AGENT" if message.role == "assistant" else "USER"
            lines.append(f"{role}: {_indented(trimmed(_hidden(message.text), _SPEECH))}")
        lines += [f"CALL {call.name}: {trimmed(_hidden(call.arguments), _ARGUMENTS)}" for call in message.calls]
    return "\n".join(fitted(lines, MOST))


def cases(known: Sequence[Case]) -> str:
    """Cases, oldest first."""
    told = [
        f"Case {number}, quality {case.quality:.2f}\nIntent: {case.intent}\nApproach:\n{case.approach}"
        + (f"\nInsight: {case.insight}" if case.insight else "")
        for number, case in enumerate(known, 1)
    ]
    return "\n\n".join(fitted([trimmed(_hidden(each), _CASE) for each in told], MOST))


def known_skill(skill: Skill | None) -> str:
    """A skill as it stands."""
    if skill is None:
        return "(There is none yet.)"
    return trimmed(f"{skill.name}\n{skill.description}\n\n{skill.content}", _RESULT * 3)


def numbered(texts: Sequence[str], most: int = MOST) -> str:
    """Texts, each with its number."""
    cut = fitted([clean(text).strip() for text in texts], most)
    return "\n".join(f"[{number}] {_indented(text)}" for number, text in enumerate(cut, 1)) or "(None.)"


def _said(message: Message, recalled: Recalled) -> str:
    if message.role == "tool":
        return trimmed(_hidden(message.text), _BACKGROUND)
    parts = [mask_line(sentence.text) for sentence in read_sentences(clean(message.text), recalled)]
    calls = [f"(calls {call.name}: {_hidden(call.arguments)})" for call in message.calls]
    return "\n".join([*parts, *(trimmed(call, _BACKGROUND) for call in calls)])


def _speaker(message: Message) -> str:
    return f"{get_name(message)} (a tool's result)" if message.role == "tool" else get_name(message)


def _hidden(text: str) -> str:
    return mask_line(clean(text)).strip()


def _indented(text: str) -> str:
    """The text with its later lines set in, so that none of them can pass for a line of ours."""
    return text.replace("\r", "\n").replace("\n", "\n    ")
