"""What a model should know of its user before it answers: a block for a prompt, within a budget of tokens.

What the user has asked of the assistant comes first, word for word; then what is known of them, and, where there is a
question, what was said before that answers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..conversations.retrieval import find_asker
from ..conversations.stored_fields import PROFILE_ENDINGS, PROFILE_INSTRUCTIONS, PROFILE_ITEMS
from ..conversations.stretches import PROFILE
from ..engine.engine import Engine
from ..text.tokenizer import split_query
from ..values.query import MAX_QUERY, Hit, Query
from ..values.records import Kind, Record, Scope, check_text
from .injections import (
    Injection,
    MemoryLine,
    build_injection,
    build_remark,
    check_budget,
    is_question,
    merge_echoes,
    render_snippet,
)
from .profile_lines import INSTRUCTIONS, NOTE, ProfileField, list_fields, list_instructions, render_fields

BUDGET = 1000
"""The tokens that a context may cost."""
KINDS = (Kind.FACT, Kind.TURN, Kind.NOTE, Kind.MEMORY)
"""What answers a question. An episode retells these at length, and the profile is there already."""
MOST_HITS = 6
KNOWN = "Known of the user:"
HITS = "Said before, on the question:"
ENDED = "No longer so:"
_NOTHING = "From earlier sessions, by cofio: nothing is known of the user yet."
_NO_HITS = "From earlier sessions, by cofio: nothing is known of the user, and nothing bears on the question."
_NO_ROOM = "From earlier sessions, by cofio: something is known, but not within this budget of tokens."
_CANDIDATES = 4 * MOST_HITS  # as a message and the facts that were made of it say the same
_NEAR = 0.25  # the cosine that a turn of the assistant needs, if it has no word of the question
_MOST_ENDED = 8
_TELLING = (
    "name", "called", "pronouns", "home", "location", "timezone", "schedule", "job", "employer", "work", "relationship",
    "family", "pet", "diet", "allergy", "health", "language",
)  # fmt: skip
"""The topics that come first among what is known; the others follow, the newest first."""


def build_context(engine: Engine, homes: Sequence[Scope], *, query: str = "", budget: int = BUDGET) -> Injection:
    """What is known of the user whose memory these scopes are, and what in them answers a question, if there is one.

    A profile is that of the very scope, and hits come from it and all under it. When there is nothing to tell, the
    block says so.

    Raises:
        Invalid: the question or the budget cannot be one.
    """
    check_text("query", query, MAX_QUERY)
    check_budget(budget)
    profiles = [each for home in homes if (each := engine.get(home, PROFILE, kind=Kind.PROFILE)) is not None]
    instructions = list_instructions(profiles)
    known = _list_known(profiles)
    told = [set(split_query(line.text)) for line in (*instructions, *known)]
    hits, degraded = _find_hits(engine, homes, query, told) if query.strip() else ([], None)
    ended = render_fields(list_fields(profiles, PROFILE_ENDINGS), "description")[:_MOST_ENDED]
    injection = build_injection(
        {KNOWN: known, HITS: hits}, budget, note=NOTE, first={INSTRUCTIONS: instructions}, last={ENDED: ended}
    )
    if not injection:
        is_known = instructions or known or hits or ended
        injection = build_remark(_NO_ROOM if is_known else _NO_HITS if query.strip() else _NOTHING)
    return replace(injection, degraded=degraded)


def list_profile(engine: Engine, home: Scope) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is known of a user, and what they have asked of the assistant, a sentence each."""
    profile = engine.get(home, PROFILE, kind=Kind.PROFILE)
    profiles = [] if profile is None else [profile]
    items = sorted(list_fields(profiles, PROFILE_ITEMS), key=lambda item: (_rank(item), -item.at))
    wishes = sorted(list_fields(profiles, PROFILE_INSTRUCTIONS), key=lambda item: -item.at)
    known = dict.fromkeys(item.get_text("description") for item in items)
    return tuple(filter(None, known)), tuple(filter(None, dict.fromkeys(item.get_text("text") for item in wishes)))


def _list_known(profiles: Iterable[Record]) -> list[MemoryLine]:
    """What holds of the user: what one asks first of anyone, then the newest."""
    items = list_fields(profiles, PROFILE_ITEMS)
    return render_fields(sorted(items, key=lambda item: (_rank(item), -item.at)), "description")


def _find_hits(
    engine: Engine, homes: Iterable[Scope], query: str, told: Sequence[set[str]]
) -> tuple[list[MemoryLine], str | None]:
    """What answers a question and was not told, best first; and why something may be missing."""
    words = split_query(query)
    hits: list[Hit] = []
    degraded = None
    for home in homes:
        page = engine.search(
            Query(
                query, scope=home, kinds=KINDS, limit=_CANDIDATES, asker=find_asker(engine, home, query), current=True
            )
        )
        hits += page
        degraded = degraded or page.degraded
    hits.sort(key=lambda hit: -hit.score)
    lines = [_render_hit(hit, words) for hit in hits if not is_question(hit.record) and not _is_filler(hit)]
    return merge_echoes(lines, told)[:MOST_HITS], degraded


def _is_filler(hit: Hit) -> bool:
    """Whether it is an assistant's turn that was found by what stands around it alone, as "Noted!" is."""
    is_own = hit.why.keyword is not None or (hit.why.semantic is not None and hit.why.semantic.relevance >= _NEAR)
    return not is_own and isinstance(hit.record.data, dict) and hit.record.data.get("role") == "assistant"


def _render_hit(hit: Hit, words: tuple[str, ...]) -> MemoryLine:
    """A hit as a line, which says if something newer was said on the same."""
    line = render_snippet(hit.record, words)
    since = hit.superseded_at
    return line if since is None else replace(line, text=f"{line.text} (newer on this: {since:%Y-%m-%d})")


def _rank(item: ProfileField) -> int:
    heads = [item.get_text(field).partition(":")[0].casefold() for field in ("topic", "category")]
    return next((_TELLING.index(head) for head in heads if head in _TELLING), len(_TELLING))
