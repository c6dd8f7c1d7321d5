"""What a call of the API is: its address under each version, what it takes and gives, and how its input is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.types import Receive, Scope

from ...http.bodies import BodyTooLong, read_body
from ...http.errors import RequestError
from ...http.json_limits import BadJson, JsonLimits, TooComplex
from .examples import Example
from .operations import Operations
from .replies import Caller, Reply

VERSIONS = ("/api/v2", "/api/v1")  # the first is canonical, the second an alias of the same calls
FORM = "multipart/form-data"
MAX_BODY = 16_777_216  # bytes
MAX_FIELDS = 64  # of a query string
LIMITS = JsonLimits()
NO_BODY = (
    "Field required: the body, which is missing; send a JSON object"
    " (with curl: -H 'Content-Type: application/json' -d '{...}')"
)


class Parse(Protocol):
    """Gives the fields of a request. For a large one that takes its time, so it is called beside the event loop."""

    size: int
    """Bytes to parse."""

    def __call__(self) -> object: ...


class Fields:
    """The fields of a request."""

    def __init__(self, parse: Callable[[], object], size: int = 0) -> None:
        self._parse = parse
        self.size = size

    def __call__(self) -> object:
        return self._parse()


Reader = Callable[[Scope, Receive, Path | None], Awaitable[Parse]]
"""Takes in a request; what is large may wait in a folder, if there is one. Both may raise RequestError."""


async def read_json(scope: Scope, receive: Receive, folder: Path | None) -> Parse:
    """Take in a body of JSON."""
    try:
        body = await read_body(scope, receive, MAX_BODY)
    except BodyTooLong as error:
        raise RequestError(413, f"{error}; send less at once", code="PAYLOAD_TOO_LARGE") from error
    fields = get_path_fields(scope)
    return Fields(partial(parse_json, body, fields), len(body))


async def read_query(scope: Scope, receive: Receive, folder: Path | None) -> Parse:
    """Take in what stands in the address: the query string, and the parts of the path that have a name."""
    return Fields(partial(_parse_query, scope))


async def read_nothing(scope: Scope, receive: Receive, folder: Path | None) -> Parse:
    """Pass over whatever was sent."""
    return Fields(dict)


def get_path_fields(scope: Scope) -> dict[str, Any]:
    """The parts of the path that have a name."""
    return dict(scope.get("path_params", {}))


def parse_json(body: bytes | bytearray, fields: Mapping[str, Any] | None = None) -> object:
    """Parse the JSON of a body; `fields` are added to its own."""
    if not body:
        raise RequestError(422, NO_BODY)
    try:
        parsed = LIMITS.parse(body)
    except TooComplex as error:
        raise RequestError(422, str(error)) from error
    except BadJson as error:
        raise RequestError(422, f"JSON decode error: {error}") from error
    return {**parsed, **fields} if fields and isinstance(parsed, dict) else parsed


def _parse_query(scope: Scope) -> object:
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise RequestError(422, f"the query string is not UTF-8, or has more than {MAX_FIELDS} fields") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise RequestError(422, f"it is given more than once: {twice}")
    return {**fields, **get_path_fields(scope)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the API. Whatever makes one gets it under every version, with its limits, envelope and numbers.

    A token that is limited is held to the app and the project that a `ProjectRequest` names before the call is made;
    a call that takes another is given the token, and has to see to that itself.
    """

    name: str
    path: str
    """Its address below a version, as in `memory/add`; a part in braces is a field of what it takes."""
    takes: type[BaseModel]
    gives: Mapping[int, type[BaseModel] | None]
    """What is in the answer, by its status; None for a file, or for nothing."""
    does: Callable[[Operations, Any, Caller], Reply]
    writes: bool
    waits_for_model: bool = False
    method: str = "POST"
    reads: Reader = field(default=read_json)
    media: str = "application/json"
    """The type of the body, where there is one."""
    bare: bool = False
    """Whether the answer is its data alone, without an envelope."""
    example: Example = field(default_factory=lambda: Example(answers={}))

    @property
    def uploads(self) -> bool:
        """Whether it takes a file, which has to wait for its turn: other calls do not wait for it."""
        return self.media == FORM

    @property
    def has_body(self) -> bool:
        """Whether what it takes comes in a body, rather than in the address."""
        return self.reads not in (read_query, read_nothing)

    @property
    def addresses(self) -> list[str]:
        """Its address under each version, the canonical one first."""
        return [f"{version}/{self.path}" for version in VERSIONS]
