"""A piece of a message that may not be text, who can look at it, and why it cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..values.records import Json

MAX_BYTES = 50 * 1024 * 1024
"""The largest document, in whatever way it comes."""


class Unreadable(Exception):
    """Why an item cannot be read, in a sentence for its sender."""

    def __init__(self, reason: str, *, item: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.item = item
        """Which of the items that were to be read it is, counted from 0."""


class UnknownKind(Unreadable):
    """The type of a document is unknown, or is not the declared one: its sender has to declare it."""


class NoText(Unreadable):
    """A document that could be read, and says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A piece of a message, as the API words it: a `text`, the address of a document, or the document itself."""

    type: str
    """text, html, email, pdf, doc, image or audio."""
    text: str | None = None
    uri: str | None = None
    base64: str | None = None
    ext: str | None = None
    """What the name of such a file ends in."""
    name: str | None = None
    extras: Json = None
    """What the sender tells a model about it."""


class Viewer(Protocol):
    """A model that can look and listen."""

    def describe(self, media: bytes, mime: str, *, name: str | None, hint: str) -> str:
        """What an image shows or what is said in a recording; `hint` is what the sender tells about it, as JSON.

        Raises:
            Unavailable: the model cannot be asked now.
        """
