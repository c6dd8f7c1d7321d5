"""The API described for programs, as an OpenAPI document, and the addresses at which it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ... import __version__
from .calls import VERSIONS, Call
from .catalogue import CALLS
from .descriptions import FIELDS
from .health import Health
from .page import POLICY, render_page

SCHEMA = "/openapi.json"
PAGES = ("/docs", "/redoc")
OFF = (
    "the description of the API is not shown here, where others could see it: its owner can show it by starting the"
    " server with COFIO_DOCS=true, or with `docs = true` in cofio.toml"
)
REFERENCE = "#/components/schemas/"
DESCRIPTION = f"""\
Conversations in, memory out: episodes, facts, profiles, cases and skills.

Send messages to a session with `add`. They are kept at once, and become memory when a stretch of the conversation is \
finished, when the session is flushed, or when nothing has come to it for a while; until then they are found with \
`include_unprocessed`.

Every address below `{VERSIONS[0]}` is also there below `{VERSIONS[1]}`. Answers come as `{{"request_id", "data"}}`, \
and failures as `{{"request_id", "error"}}`. Where there are tokens, send one as `Authorization: Bearer TOKEN`.

The same server has other doors to the same memory: MCP at `/mcp`, Claude's memory tool at `/api/v1/memory-tool`, \
agents' checkpoints at `/threads/`, numbers for Prometheus at `/metrics`, and a page for people at `/`."""
_FAILURES = {
    "400": "The request is not HTTP as it should be.",
    "401": "A token is needed.",
    "403": "The token, or the page that asks, may not do this.",
    "404": "Nothing has this id.",
    "409": "It has changed, or its id is taken.",
    "413": "The body is too long.",
    "415": "The body does not say that it is JSON, or a piece of content cannot be read here.",
    "421": "The server does not answer to the name that it was addressed by.",
    "422": "Something about the request is wrong; the message says what.",
    "429": "Too much is waiting already; `Retry-After` says when to send it again.",
    "500": "A fault of the server's own.",
    "503": "The memory cannot be used at the moment, or too many calls wait: then `Retry-After` is there, too.",
}

_FILES = {
    200: {
        "description": "The file, as it is.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    204: {"description": "There is nothing to tell."},
}
"""Answers without an envelope."""


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str = Field(description="What kind of failure it is, for programs: NOT_FOUND, INVALID_INPUT and the like.")
    message: str = Field(description="What went wrong and what to do about it, in a sentence.")
    timestamp: str = Field(description="When it happened, in the display zone.")
    path: str = Field(description="The path that was called.")


class ErrorEnvelope(BaseModel):
    """The answer to a request that cannot be met."""

    request_id: str = Field(description="The id of the request, which the log has, too.")
    error: ErrorBody = Field(description="What went wrong.")


def make_routes(*, public: bool = True, describe_others: Callable[[], Mapping[str, Any]] = dict) -> list[Route]:
    """The addresses of the description; where it is not `public`, they say how it could be.

    `describe_others` returns the paths of the server's other calls, which stand behind those of the API.
    """

    @cache
    def build_whole() -> dict[str, Any]:
        document = build_document()
        return {**document, "paths": {**document["paths"], **describe_others()}}

    @cache
    def render_description() -> str:
        return render_page(build_whole(), SCHEMA)

    async def serve_schema(_: Request) -> Response:
        return JSONResponse(build_whole())

    async def serve_page(_: Request) -> Response:
        return HTMLResponse(render_description(), headers={"Content-Security-Policy": POLICY})

    async def refuse(_: Request) -> Response:
        raise HTTPException(404, OFF)

    return [
        Route(path, (serve_schema if path == SCHEMA else serve_page) if public else refuse) for path in (SCHEMA, *PAGES)
    ]


@lru_cache(maxsize=1)
def build_document() -> dict[str, Any]:
    """The API as an OpenAPI document."""
    inputs = [(call.takes, "validation") for call in CALLS]
    outputs = [(model, "serialization") for call in CALLS for model in call.gives.values() if model]
    others = [(ErrorEnvelope, "serialization"), (Health, "serialization")]
    names, schemas = models_json_schema([*inputs, *outputs, *others], ref_template=REFERENCE + "{model}")  # type: ignore[list-item]  # the modes are literals
    parts = {name: _add_meanings(schema) for name, schema in _drop_titles(schemas["$defs"]).items()}
    by_model = {model.__name__: reference["$ref"] for (model, _), reference in names.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "cofio", "version": __version__, "description": DESCRIPTION},
        "servers": [{"url": "/", "description": "The server that this document came from."}],
        "paths": {**_describe_paths(by_model, parts), "/health": {"get": _describe_health(by_model)}},
        "components": {
            "schemas": parts,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _drop_titles(part: Any) -> Any:
    """The same without the titles that say each name a second time."""
    if isinstance(part, list):
        return [_drop_titles(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: {key: _drop_titles(value) for key, value in of.items()} if name == "properties" else _drop_titles(of)
        for name, of in part.items()
        if name != "title" or not isinstance(of, str)
    }


def _add_meanings(schema: dict[str, Any]) -> dict[str, Any]:
    """The same with what its fields mean, where they do not say so themselves."""
    if "properties" not in schema:
        return schema
    fields = {
        name: field if "description" in field or name not in FIELDS else {**field, "description": FIELDS[name]}
        for name, field in schema["properties"].items()
    }
    return {**schema, "properties": fields}


def _describe_paths(names: Mapping[str, str], parts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(call.addresses[0], {})[call.method.lower()] = _describe_operation(call, names, parts)
    return paths


def _describe_operation(call: Call, names: Mapping[str, str], parts: Mapping[str, Any]) -> dict[str, Any]:
    docstring = (call.does.__doc__ or "").strip()
    summary, _, more = docstring.partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": call.name, "tags": [call.path.partition("/")[0]], "summary": " ".join(summary.split()),
    }  # fmt: skip
    if more:
        operation["description"] = " ".join(more.split())
    schema = parts[call.takes.__name__]
    in_path = set(re.findall(r"\{(\w+)\}", call.path))
    in_query = set() if call.has_body else set(schema.get("properties", {})) - in_path
    if in_path or in_query:
        operation["parameters"] = [_describe_parameter(call, name, in_path, schema) for name in schema["properties"]
                                   if name in in_path | in_query]  # fmt: skip
    if call.has_body:
        body: dict[str, Any] = {"schema": _describe_body(call, schema, in_path, names)}
        example = {name: value for name, value in call.example.request.items() if name not in in_path}
        if example:
            body["example"] = example
        operation["requestBody"] = {"required": bool(schema.get("required")), "content": {call.media: body}}
    operation["responses"] = {
        **{
            str(status): _describe_answer(call, status, names[model.__name__]) if model else _FILES[status]
            for status, model in call.gives.items()
        },
        **_describe_failures(call, names),
    }
    return operation


def _describe_parameter(call: Call, name: str, in_path: set[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    field = dict(schema["properties"][name])
    parameter: dict[str, Any] = {
        "name": name,
        "in": "path" if name in in_path else "query",
        "required": name in in_path or name in schema.get("required", ()),
        "description": field.pop("description", ""),
        "schema": _drop_null(field),
    }
    if name in call.example.request:
        parameter["example"] = call.example.request[name]
    return parameter


def _drop_null(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field of a query string, which can be left out and not be null."""
    choices = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) != 1:
        return dict(field)
    return {**{name: value for name, value in field.items() if name not in ("anyOf", "default")}, **choices[0]}


def _describe_body(
    call: Call, schema: Mapping[str, Any], in_path: set[str], names: Mapping[str, str]
) -> dict[str, Any]:
    """What a body holds: all that the call takes but for what stands in its address."""
    if not in_path:
        return {"$ref": names[call.takes.__name__]}
    fields = {name: field for name, field in schema["properties"].items() if name not in in_path}
    return {**schema, "properties": fields, "required": [name for name in schema.get("required", ()) if name in fields]}


def _describe_answer(call: Call, status: int, reference: str) -> dict[str, Any]:
    data = call.example.answers.get(status)
    if call.bare:
        content: dict[str, Any] = {"schema": {"$ref": reference}}
        example = data
    else:
        content = {"schema": _describe_envelope(reference)}
        example = None if data is None else {"request_id": "5d2c8f0e4b6a4c1f9e7d3a2b1c0f8e6d", "data": data}
    if example is not None:
        content["example"] = example
    description = {200: "Done.", 201: "Made.", 202: "Accepted: it is carried out after what came before it."}[status]
    return {"description": description, "content": {"application/json": content}}


def _describe_envelope(reference: str) -> dict[str, Any]:
    meta = {
        "type": "object",
        "description": "Only where there is something to tell of how the answer came about.",
        "properties": {
            "notes": {
                "type": "array", "items": {"type": "string"},
                "description": "What was asked for and not done, or done in another way.",
            },
            "usage": {
                "type": "object", "description": "What a model was asked for it.",
                "properties": {
                    "calls": {"type": "integer", "description": "Calls to the model."},
                    "tokens": {"type": "integer", "description": "Tokens that they took."},
                },
            },
        },
    }  # fmt: skip
    return {
        "type": "object",
        "required": ["request_id", "data"],
        "properties": {
            "request_id": {
                "type": "string",
                "pattern": "^[0-9a-f]{32}$",
                "description": "The id of the request, also in the header `x-request-id`.",
            },
            "data": {"$ref": reference},
            "meta": meta,
        },
    }


def _describe_failures(call: Call, names: Mapping[str, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": names["ErrorEnvelope"]}}}
    left_out = set() if 202 in call.gives else {"429"}
    return {
        status: {"description": text, "content": content}
        for status, text in _FAILURES.items()
        if status not in left_out
    }


def _describe_health(names: Mapping[str, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": names["Health"]}}}
    down = {"type": "object", "properties": {"status": {"const": "unavailable"}, "reason": {"type": "string"}}}
    return {
        "operationId": "health",
        "tags": ["server"],
        "summary": "Say whether the server is up, what it can do, and how its queue is getting on. No token is needed.",
        "security": [{}],
        "responses": {
            "200": {"description": "It is up.", "content": content},
            "503": {
                "description": "The memory cannot be used.",
                "content": {
                    "application/json": {
                        "schema": down,
                        "example": {"status": "unavailable", "reason": "The memory cannot be used at the moment"},
                    }
                },
            },
        },
    }
