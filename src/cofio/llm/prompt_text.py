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
from ..text.token_counts import fit, trim

MOST = 24_000
"""Tokens of a conversation, or of anything else that is put into a prompt."""
_RESULT = 1_000  # tokens of what a tool gave
_ARGUMENTS = 800
_SPEECH = 3_000  # of one message of a run
_BACKGROUND = 150  # tokens of a tool's call or result where the talk is what matters
_CASE = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationText:
    """A conversation as it was told, and which messages can be a source: by their numbers."""

    text: str
    sources: Mapping[int, Message]


def render_conversation(messages: Sequence[Message], zone: tzinfo, recalled: Recalled) -> ConversationText:
    """The talk, without what the memory itself had given to it."""
    numbers, heads, bodies = [], [], []
    for number, message in enumerate(messages, 1):
        body = _render_message(message, recalled)
        if body:
            numbers.append(number)
            at = message.at.astimezone(zone)
            heads.append(
                (
                    f"== {WEEKDAYS[at.weekday()].title()}, {format_day(at)}",
                    f"[{number}] {at:%H:%M} {_name_speaker(message)}",
                )
            )
            bodies.append(body)
    lines: list[str] = []
    today = ""
    for (date, head), body in zip(heads, fit(bodies, max(MOST // 2, MOST - 16 * len(heads))), strict=True):
        if date != today:
            lines.append(date)
            today = date
        lines.append(f"{head}: {_indent(body)}")
    sources = {number: messages[number - 1] for number in numbers if messages[number - 1].role != "tool"}
    return ConversationText(text="\n".join(lines), sources=sources)


def render_run(messages: Sequence[Message]) -> str:
    """An agent's work: what was asked and answered, every call of a tool, and what came of it."""
    tools = {call.id: call.name for message in messages for call in message.calls}
    lines: list[str] = []
    for message in messages:
        if message.role == "tool":
            tool = tools.get(message.answers or "", "a tool")
            lines.append(f"RESULT of {tool}: {_indent(trim(_mask(message.text), _RESULT))}")
            continue
        if message.text.strip():
            role = "AGENT" if message.role == "assistant" else "USER"
            lines.append(f"{role}: {_indent(trim(_mask(message.text), _SPEECH))}")
        lines += [f"CALL {call.name}: {trim(_mask(call.arguments), _ARGUMENTS)}" for call in message.calls]
    return "\n".join(fit(lines, MOST))


def render_cases(cases: Sequence[Case]) -> str:
    """Cases, oldest first."""
    texts = [
        f"Case {number}, quality {case.quality:.2f}\nIntent: {case.intent}\nApproach:\n{case.approach}"
        + (f"\nInsight: {case.insight}" if case.insight else "")
        for number, case in enumerate(cases, 1)
    ]
    return "\n\n".join(fit([trim(_mask(each), _CASE) for each in texts], MOST))


def render_skill(skill: Skill | None) -> str:
    """A skill as it stands."""
    if skill is None:
        return "(There is none yet.)"
    return trim(f"{skill.name}\n{skill.description}\n\n{skill.content}", _RESULT * 3)


def render_numbered(texts: Sequence[str], most: int = MOST) -> str:
    """Texts, each with its number."""
    cut = fit([clean(text).strip() for text in texts], most)
    return "\n".join(f"[{number}] {_indent(text)}" for number, text in enumerate(cut, 1)) or "(None.)"


def _render_message(message: Message, recalled: Recalled) -> str:
    if message.role == "tool":
        return trim(_mask(message.text), _BACKGROUND)
    parts = [mask_line(sentence.text) for sentence in read_sentences(clean(message.text), recalled)]
    calls = [f"(calls {call.name}: {_mask(call.arguments)})" for call in message.calls]
    return "\n".join([*parts, *(trim(call, _BACKGROUND) for call in calls)])


def _name_speaker(message: Message) -> str:
    return f"{get_name(message)} (a tool's result)" if message.role == "tool" else get_name(message)


def _mask(text: str) -> str:
    return mask_line(clean(text)).strip()


def _indent(text: str) -> str:
    """The text with its later lines set in, so that none of them can pass for a line of ours."""
    return text.replace("\r", "\n").replace("\n", "\n    ")
