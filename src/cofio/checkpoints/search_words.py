"""The words that a checkpoint is found by: those that its change and its metadata bring."""

from __future__ import annotations

import json
import zlib
from typing import Any

from ..backends.checkpoint_interface import Link
from ..text.tokenizer import split_words
from ..values.records import json_words
from .deltas import KEYS, PARTS, VALUE
from .packing import decode_body


def find_link_words(link: Link) -> str:
    """The words that a stored checkpoint brings; of a damaged one, those of its metadata."""
    try:
        content = decode_body(link.body)[0]
        return find_new_words([VALUE, content] if link.base is None else content, link.metadata)
    except (ValueError, LookupError, TypeError, zlib.error):
        return find_new_words([VALUE, None], link.metadata)


def find_new_words(change: list[Any], metadata: str) -> str:
    """The words that a change and its metadata bring, in the form that they are searched in."""
    return " ".join(split_words("\n".join(json_words([_collect_new(change), json.loads(metadata)]))))


def _collect_new(change: list[Any]) -> Any:
    """What is new in a change."""
    kind, *rest = change
    if kind == VALUE:
        return rest[0]
    if kind == KEYS:
        return [_collect_new(inner) for inner in rest[0].values()]
    if kind == PARTS:
        parts = (part for part in rest[0] if not isinstance(part[-1], int))
        return [part[0] if len(part) == 1 else _collect_new(part[1]) for part in parts]
    return rest[2]
