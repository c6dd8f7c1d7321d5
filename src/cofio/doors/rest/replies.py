"""What a call is given about who makes it, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...http.tokens import Token
from ...llm import Usage

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the id of the request, and the token that was shown, if any."""

    request_id: str
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class File:
    """What is sent as it is, without an envelope, with the headers that it needs."""

    data: bytes
    mime: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its data, its status, and what a client should know about how it came about."""

    data: Data
    status: int = 200
    notes: tuple[str, ...] = ()
    """What was asked for and not done, or done in another way."""
    usage: Usage | None = None
    """What a model was asked for it."""
    degraded: str | None = None
    """Why an answer may be incomplete for the moment."""
    file: File | None = None
    """What is sent in the place of the data."""
