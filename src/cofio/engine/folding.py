"""One statement, one hit: a message, the facts made of it and its episode say the same, and are found together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..values.query import Hit
from ..values.records import Kind
from ..values.scopes import CONVERSATIONS

NEARLY = 0.8  # a fact with so much of the relevance of its conversation's best hit stands for it
EACH = 6  # messages, and as many records made of messages, that are weighed for one hit
_OF_EPISODES = frozenset({Kind.FACT, Kind.TURN})


def fold_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return one hit for each statement, in the order of the best of each; the others are its `others`."""
    families = _group_statements(hits)
    folded: dict[str, Hit] = {}
    for family in families:
        chosen = _choose(family)
        # Those who took part in a conversation have a copy of it each; and what was said twice was last said then.
        key = " ".join(chosen.record.text.split()) if chosen.record.kind in _OF_EPISODES else chosen.record.id
        first = folded.get(key)
        if first is None:
            folded[key] = chosen
        else:
            newer, older = (chosen, first) if chosen.record.created_at > first.record.created_at else (first, chosen)
            others = (*newer.others, replace(older, others=()), *older.others)
            folded[key] = replace(newer, score=first.score, others=others)
    return [hit for hit in folded.values() if not _is_told(hit, folded.values())]


def _group_statements(hits: Iterable[Hit]) -> list[list[Hit]]:
    """Return the hits of each message: itself, the facts made of it, and its episode if it is the best of that."""
    statements: dict[tuple[str, object], list[Hit]] = {}
    episodes: list[Hit] = []
    for hit in hits:
        record = hit.record
        if record.kind in _OF_EPISODES and record.parent is not None and record.scope in CONVERSATIONS:
            statements.setdefault((record.parent, record.created_at), []).append(hit)
        elif record.kind is Kind.EPISODE:
            episodes.append(hit)
        else:
            statements[record.id, None] = [hit]
    best = {parent: statement for (parent, _), statement in reversed(statements.items())}
    for episode in episodes:
        own = best.get(episode.record.id)
        if own is None:
            statements[episode.record.id, None] = [episode]
        else:
            own.append(episode)
    return sorted(statements.values(), key=lambda statement: -max(hit.score for hit in statement))


def _choose(family: Sequence[Hit]) -> Hit:
    """Return the best hit; or a fact that is nearly as relevant, which says the same in one sentence."""
    best = max(family, key=lambda hit: hit.score)
    enough = NEARLY * _get_relevance(best)
    facts = [hit for hit in family if hit.record.kind is Kind.FACT and _get_relevance(hit) >= enough]
    chosen = facts[0] if facts else best
    return replace(chosen, score=best.score, others=tuple(hit for hit in family if hit is not chosen))


def _get_relevance(hit: Hit) -> float:
    signals = (hit.why.keyword, hit.why.semantic)
    return max((signal.relevance for signal in signals if signal is not None), default=0.0)


def _is_told(hit: Hit, hits: Iterable[Hit]) -> bool:
    """Return whether a hit is a profile that sums up what other hits of the same user say."""
    if hit.record.kind is not Kind.PROFILE:
        return False
    return any(other.record.scope == hit.record.scope for other in hits if other is not hit)
