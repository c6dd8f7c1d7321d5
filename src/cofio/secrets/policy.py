"""What each door does with a secret in what it is sent: one table, which every door asks before it stores anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Literal, TypeAlias, cast

from ..values.errors import Invalid
from ..values.records import MAX_AUTHOR, MAX_TAG, MAX_TITLE, Draft, Json
from .scanner import find_in_json, mask_in_json

__all__ = ["POLICY", "Door", "SecretAction", "admit", "admit_draft"]

Door: TypeAlias = Literal[
    "mcp",
    "memory_tool",
    "animus",
    "cli",
    "page",
    "rest",
    "chat_import",
    "capture",
    "take_over",
    "vault",
    "import",
    "checkpoints",
    "library",
]


class SecretAction(StrEnum):
    """What becomes of a secret."""

    REFUSE = "refuse"
    """Nothing is stored, and the sender gets an error: an agent or a person who can say it in another way."""
    MASK = "mask"
    """All else is stored, with a mark in its place: what streams in unattended must not be lost for one word of it."""
    KEEP = "keep"
    """It is stored as it is: a copy or a program's own state must come back exactly."""


POLICY: Mapping[Door, SecretAction] = {
    "mcp": SecretAction.REFUSE,
    "memory_tool": SecretAction.REFUSE,
    "animus": SecretAction.REFUSE,
    "cli": SecretAction.REFUSE,
    "page": SecretAction.REFUSE,
    "rest": SecretAction.MASK,
    "chat_import": SecretAction.MASK,
    "capture": SecretAction.MASK,
    "take_over": SecretAction.MASK,
    "vault": SecretAction.MASK,
    "import": SecretAction.KEEP,
    "checkpoints": SecretAction.KEEP,
    "library": SecretAction.KEEP,
}
"""Doors that keep need not ask; they stand here so that the table tells of every door."""

_ALLOWING = {"cli": "`--allow-secrets` takes it in all the same"}


def admit(door: Door, values: Mapping[str, Json], *, allow: bool) -> Mapping[str, Json]:
    """The values as the door may store them, by their names; the very same object when nothing in them is masked.

    `allow` is the setting `allow_secrets`, with which every door keeps them.

    Raises:
        Invalid: the door refuses, and a value holds what looks like a secret.
    """
    handling = SecretAction.KEEP if allow else POLICY[door]
    if handling is SecretAction.KEEP:
        return values
    if handling is SecretAction.MASK:
        masked = {name: mask_in_json(value) for name, value in values.items()}
        return values if all(masked[name] is values[name] for name in values) else masked
    if find_in_json([*values.values()]) is None:  # one look at all of them, which nearly always finds nothing
        return values
    for name, value in values.items():
        secret = find_in_json(value)
        if secret is not None:
            how = _ALLOWING.get(door, "the owner of this memory can allow secrets with `--allow-secrets`")
            raise Invalid(
                name,
                f"line {secret.line} looks like {secret.what}, and memory is no place for secrets: nothing was saved;"
                f' say where it is kept instead, as in "the API key is in .env as OPENAI_API_KEY" ({how})',
            )
    return values


def admit_draft(door: Door, draft: Draft, *, allow: bool) -> Draft:
    """The draft as the door may store it, but for its ids and its key; the very same when nothing is masked.

    Raises:
        Invalid: the door refuses, and the draft holds what looks like a secret; or it is too long once masked.
    """
    tags: list[Json] = [*draft.tags]
    values: dict[str, Json] = {
        "title": draft.title, "text": draft.text, "data": draft.data, "author": draft.author, "tags": tags,
    }  # fmt: skip
    admitted = admit(door, values, allow=allow)
    if admitted is values:
        return draft
    return replace(
        draft, title=cast(str, admitted["title"])[:MAX_TITLE], text=cast(str, admitted["text"]), data=admitted["data"],
        author=cast(str, admitted["author"])[:MAX_AUTHOR],
        tags=tuple(tag[:MAX_TAG] for tag in cast("list[str]", admitted["tags"])),
    )  # fmt: skip
