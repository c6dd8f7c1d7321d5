"""What an agent is reminded of when its user asks something: the few memories that bear on it, or nothing.

A wrong reminder costs more than a missing one: it is read by a model that did not ask for it. So a memory needs more
than to be the best that was found; the words that it has in common with the prompt must tell something. Only words are
compared, since the model that makes vectors takes longer to load than a prompt may wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from ..engine.engine import Engine
from ..text.fence import strip_tagged_lines
from ..text.tokenizer import split_query, split_words
from ..values.query import Hit, Query
from ..values.records import Kind, Scope, check_text
from .injections import (
    Injection,
    MemoryLine,
    build_injection,
    check_budget,
    is_question,
    merge_echoes,
    render_snippet,
    unwrap,
)
from .prompt_words import PromptWords
from .shown_records import SessionView, ShownRecords

BUDGET = 600
"""The tokens that a prompt's reminders may cost."""
MOST_HITS = 3
MAX_PROMPT = 1_048_576
KINDS = (Kind.TURN, Kind.FACT, Kind.CASE, Kind.NOTE, Kind.MEMORY)
"""What is recalled. An episode or a skill retells these at length, and a profile is told when a session begins."""
LEAST_WORDS = 2  # that a prompt must have to be about something
FLOOR = 0.9
"""What the words that a memory shares with a prompt must tell, as `prompt_words.py` weighs them: one that is not common
nor frequent here, or two that are."""
SHARE = 0.2  # of what the prompt tells that the words in common must be
NEAR = 0.8  # of what the best memory's words tell that another's must, to be shown beside it
_READ = 1500  # characters of a prompt that are looked at: what it is about stands at its beginning
_CANDIDATES = 40
_FILE_HITS = 2
_COMPARED = 100  # records that were shown last, with which new ones are compared
_COMMAND = re.compile(r"\s*[/!#][\w:-]+\s*")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def recall(engine: Engine, prompt: str, scopes: Sequence[Scope], *, session: str, budget: int = BUDGET) -> Injection:
    """What bears on a prompt of what the scopes hold: at most three memories, none that the session has seen.

    The first scope is where it is noted what the session was shown.

    Raises:
        Invalid: the prompt, the session or the budget cannot be one.
    """
    check_text("prompt", prompt, MAX_PROMPT)
    check_budget(budget)
    shown = ShownRecords(engine, scopes[0], session)
    text = _prepare(prompt)
    words = split_query(text)
    if len(words) < LEAST_WORDS:
        return Injection()
    view = shown.load()
    asked = PromptWords(words)
    sought = asked.expand(text)
    hits = [hit for scope in scopes for hit in _search(engine, sought, scope) if not view.has(hit.record)]
    fresh = merge_echoes(_choose(hits, asked), _list_shown_words(engine, view))
    return _show(shown, fresh[:MOST_HITS], budget)


def recall_file(engine: Engine, path: str, scopes: Sequence[Scope], *, session: str, budget: int = BUDGET) -> Injection:
    """What is known of a file that an agent is about to change: memories that name it, none that the session has seen.

    Raises:
        Invalid: the path, the session or the budget cannot be one.
    """
    check_text("path", path, MAX_PROMPT)
    check_budget(budget)
    name = PurePath(path).name
    if len(name) < 3:
        return Injection()
    shown = ShownRecords(engine, scopes[0], session)
    view = shown.load()
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    records = [
        hit.record
        for scope in scopes
        for hit in engine.search(
            Query(name, scope=scope, kinds=(Kind.FACT, Kind.NOTE, Kind.MEMORY), mode="keyword", limit=12, floor=0.0)
        )
        if named.search(f"{hit.record.title} {hit.record.text}") and not view.has(hit.record)
    ]
    lines = [render_snippet(record, split_query(name)) for record in records]
    fresh = merge_echoes(lines, _list_shown_words(engine, view))
    return _show(shown, fresh[:_FILE_HITS], budget)


def restart(engine: Engine, scopes: Sequence[Scope], session: str) -> None:
    """Let a session be shown again what it has lost, as after a compaction."""
    ShownRecords(engine, scopes[0], session).clear()


def _show(shown: ShownRecords, lines: Sequence[MemoryLine], budget: int) -> Injection:
    """The block of these lines, noted as shown; less what another process has shown meanwhile."""
    injection = build_injection({"": lines}, budget)
    if not injection:
        return injection
    told = [line for line in lines if line.record in injection.records]
    fresh = shown.add([*injection.records, *(each for line in told for each in line.echoes)])
    if set(injection.records).issubset(fresh):
        return injection
    return build_injection({"": [line for line in told if line.record in fresh]}, budget)


def _choose(hits: Iterable[Hit], asked: PromptWords) -> list[MemoryLine]:
    """The lines of the memories whose words tell enough, those that tell the most first."""
    hits = [hit for hit in hits if not is_question(hit.record)]
    lines = [render_snippet(hit.record, tuple(asked.words)) for hit in hits]
    told = asked.weigh([split_words(line.text) for line in lines])
    floor = max(FLOOR, SHARE * asked.total, NEAR * max(told, default=0.0))
    order = sorted(range(len(hits)), key=lambda at: (-told[at], -hits[at].score))
    return [lines[at] for at in order if told[at] >= floor]


def _prepare(prompt: str) -> str:
    """What a prompt is about: without what was recalled before, without code, and without a client's command."""
    text = _CODE.sub(" ", strip_tagged_lines(prompt[: 4 * _READ]))
    return _COMMAND.sub("", text, count=1)[:_READ] if _COMMAND.match(text) else text[:_READ]


def _search(engine: Engine, text: str, scope: Scope) -> Iterable[Hit]:
    return engine.search(Query(text, scope=scope, kinds=KINDS, mode="keyword", limit=_CANDIDATES, floor=0.0))


def _list_shown_words(engine: Engine, view: SessionView) -> list[set[str]]:
    """The words of the last records that a session was shown."""
    records = engine.read_many(view.records[-_COMPARED:])
    return [set(split_query(unwrap(record.text or record.title))) for record in records if record is not None]
