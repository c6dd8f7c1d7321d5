"""What each door does with a secret in what it is sent: one table, which every door asks before it stores anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Literal, TypeAlias, cast

from ..values.errors import Invalid
from ..values.records import MAX_AUTHOR, MAX_TAG, MAX_TITLE, Draft, Json
from .scanner import find_in_json, mask_in_json

__all__ = ["POLICY", "Door", "Handling", "admit", "admit_draft"]

Door: TypeAlias = Literal[
    "mcp",
    "memory_tool",
    "animus",
    "cli",
    "rest",
    "chat_import",
    "take_over",
    "vault",
    "import",
    "checkpoints",
    "library",
]


class Handling(StrEnum):
    """What becomes of a secret."""

    REFUSE = "refuse"
    """Nothing is stored, and whoever sent it is told: an agent or a person who can say it in another way."""
    MASK = "mask"
    """All else is stored, with a mark in its place: what streams in unattended must not be lost for one word of it."""
    KEEP = "keep"
    """It is stored as it is: a copy or a program's own state must come back exactly."""


POLICY: Mapping[Door, Handling] = {
    "mcp": Handling.REFUSE,
    "memory_tool": Handling.REFUSE,
    "animus": Handling.REFUSE,
    "cli": Handling.REFUSE,
    "rest": Handling.MASK,
    "chat_import": Handling.MASK,
    "take_over": Handling.MASK,
    "vault": Handling.MASK,
    "import": Handling.KEEP,
    "checkpoints": Handling.KEEP,
    "library": Handling.KEEP,
}
"""Doors that keep need not ask; they stand here so that the table tells of every door."""

_ALLOWING = {"cli": "`--allow-secrets` takes it in all the same"}


def admit(door: Door, given: Mapping[str, Json], *, allow: bool) -> Mapping[str, Json]:
    """The values as the door may store them, by their names; the very same object when nothing in them is masked.

    `allow` is the setting `allow_secrets`, with which every door keeps them.

    Raises:
        Invalid: the door refuses, and a value holds what looks like a secret.
    """
    handling = Handling.KEEP if allow else POLICY[door]
    if handling is Handling.KEEP:
        return given
    if handling is Handling.MASK:
        masked = {name: mask_in_json(value) for name, value in given.items()}
        return given if all(masked[name] is given[name] for name in given) else masked
    for name, value in given.items():
        secret = find_in_json(value)
        if secret is not None:
            how = _ALLOWING.get(door, "the owner of this memory can allow secrets with `--allow-secrets`")
            raise Invalid(
                name,
                f"line {secret.line} looks like {secret.what}, and memory is no place for secrets: nothing was saved;"
                f' say where it is kept instead, as in "the API key is in .env as OPENAI_API_KEY" ({how})',
            )
    return given


def admit_draft(door: Door, draft: Draft, *, allow: bool) -> Draft:
    """The draft as the door may store it, but for its ids and its key; the very same when nothing is masked.

    Raises:
        Invalid: the door refuses, and the draft holds what looks like a secret; or it is too long once masked.
    """
    tags: list[Json] = [*draft.tags]
    given: dict[str, Json] = {
        "title": draft.title, "text": draft.text, "data": draft.data, "author": draft.author, "tags": tags,
    }  # fmt: skip
    kept = admit(door, given, allow=allow)
    if kept is given:
        return draft
    return replace(
        draft, title=cast(str, kept["title"])[:MAX_TITLE], text=cast(str, kept["text"]), data=kept["data"],
        author=cast(str, kept["author"])[:MAX_AUTHOR],
        tags=tuple(tag[:MAX_TAG] for tag in cast("list[str]", kept["tags"])),
    )  # fmt: skip
