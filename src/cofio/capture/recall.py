"""What an agent is reminded of when its user asks something: the few memories that bear on it, or nothing.

A wrong reminder costs more than a missing one: it is read by a model that did not ask for it. So a memory needs more
than to be the best that was found; the words that it has in common with the prompt must tell something. Only words are
compared, since the model that makes vectors takes longer to load than a prompt may wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from ..engine.engine import Engine
from ..text.fence import strip_tagged_lines
from ..text.tokenizer import find_snippet, split_query
from ..values.query import Hit, Query
from ..values.records import Kind, Record, Scope, check_text
from .injections import LONGEST_LINE, Injection, MemoryLine, build_injection, check_budget, render_line
from .shown_records import ShownRecords

BUDGET = 600
"""The tokens that a prompt's reminders may cost."""
MOST_HITS = 3
MAX_PROMPT = 1_048_576
KINDS = (Kind.TURN, Kind.FACT, Kind.CASE, Kind.NOTE, Kind.MEMORY)
"""What is recalled. An episode or a skill retells these at length, and a profile is told when a session begins."""
FLOOR = 0.3
"""The least relevance that a memory must have, by `engine/calibration.py`."""
LEAST_WORDS = 2  # of the prompt that a memory must hold
_READ = 1500  # characters of a prompt that are looked at: what it is about stands at its beginning
_CANDIDATES = 24
_FILE_HITS = 2
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
    if len(split_query(text)) < LEAST_WORDS:
        return Injection()
    view = shown.load()
    hits = [hit for scope in scopes for hit in _search(engine, text, scope) if _is_telling(hit)]
    hits.sort(key=lambda hit: -hit.score)
    chosen = list(_drop_echoes(hit for hit in hits if not view.has(hit.record)))[:MOST_HITS]
    return _show(shown, [(hit.record, split_query(text)) for hit in chosen], budget)


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
    return _show(shown, [(record, split_query(name)) for record in records[:_FILE_HITS]], budget)


def restart(engine: Engine, scopes: Sequence[Scope], session: str) -> None:
    """Let a session be shown again what it has lost, as after a compaction."""
    ShownRecords(engine, scopes[0], session).clear()


def _show(shown: ShownRecords, chosen: Sequence[tuple[Record, tuple[str, ...]]], budget: int) -> Injection:
    """The block of these records, noted as shown; less what another process has shown meanwhile."""
    lines = [_render(record, words) for record, words in chosen]
    injection = build_injection({"": lines}, budget)
    if not injection:
        return injection
    fresh = shown.add(injection.records)
    if len(fresh) == len(injection.records):
        return injection
    return build_injection({"": [line for line in lines if line.record in fresh]}, budget)


def _render(record: Record, words: tuple[str, ...]) -> MemoryLine:
    text = record.text or record.title
    if record.title and record.title not in text[: len(record.title) + 20]:
        text = f"{record.title}: {text}"
    return render_line(record, find_snippet(text, words, LONGEST_LINE))


def _prepare(prompt: str) -> str:
    """What a prompt is about: without what was recalled before, without code, and without a client's command."""
    text = _CODE.sub(" ", strip_tagged_lines(prompt[: 4 * _READ]))
    return _COMMAND.sub("", text, count=1)[:_READ] if _COMMAND.match(text) else text[:_READ]


def _search(engine: Engine, text: str, scope: Scope) -> Iterable[Hit]:
    return engine.search(Query(text, scope=scope, kinds=KINDS, mode="keyword", limit=_CANDIDATES, floor=0.0))


def _is_telling(hit: Hit) -> bool:
    """Whether what a hit has in common with the prompt is enough to bring it up unasked."""
    return hit.score >= FLOOR and len(hit.why.words) >= LEAST_WORDS


def _drop_echoes(hits: Iterable[Hit]) -> Iterator[Hit]:
    """The hits, less those whose words one before it has: a message is also a fact, and is kept by all who heard it."""
    told: list[set[str]] = []
    for hit in hits:
        words = set(split_query(hit.record.text))
        if not any(len(words & other) >= 0.8 * min(len(words), len(other)) for other in told):
            told.append(words)
            yield hit
