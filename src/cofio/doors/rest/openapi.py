"""The API described for programs (OpenAPI), and the same for people, as one page that needs nothing from elsewhere."""

from __future__ import annotations

import json
from functools import lru_cache
from html import escape
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ... import __version__
from .calls import Call
from .http import CALLS

SCHEMA = "/openapi.json"
PAGES = ("/docs", "/redoc")
_REFERENCE = "#/components/schemas/"
_FAILURES = {
    "400": "The request is not HTTP as it should be.",
    "401": "A token is needed.",
    "403": "The token, or the page that asks, may not do this.",
    "404": "Nothing has this id.",
    "409": "It has changed, or its id is taken.",
    "413": "The body is too long.",
    "415": "The body does not say that it is JSON, or a piece of content cannot be read here.",
    "421": "The server does not answer to the name that it was addressed by.",
    "422": "Something about the body is wrong; the message says what.",
    "500": "A fault of the server's own.",
    "503": "The memory cannot be used at the moment.",
}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #ddd } }
h2 { margin-top: 2.5rem; font-size: 1.2rem } h2 code { font-size: 1.1rem }
code, pre { font-family: ui-monospace, monospace; background: #f2f3f5; border-radius: 4px; padding: .1em .3em }
@media (prefers-color-scheme: dark) { code, pre { background: #23262e } }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem } td, th { text-align: left; padding: .3rem .6rem;
border-bottom: 1px solid #8884; vertical-align: top } summary { cursor: pointer }
"""


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str
    timestamp: str
    path: str


class ErrorEnvelope(BaseModel):
    """The answer to a request that cannot be met."""

    request_id: str
    error: ErrorBody


def routes() -> list[Route]:
    """The addresses of the description."""

    async def schema(_: Request) -> Response:
        return JSONResponse(document())

    async def page(_: Request) -> Response:
        return HTMLResponse(_page())

    return [Route(SCHEMA, schema), *(Route(path, page) for path in PAGES)]


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """The API as an OpenAPI document."""
    taken = [(call.takes, "validation") for call in CALLS]
    given = [(model, "serialization") for call in CALLS for model in call.gives.values()]
    failed = [(ErrorEnvelope, "serialization")]
    names, schemas = models_json_schema([*taken, *given, *failed], ref_template=_REFERENCE + "{model}")  # type: ignore[list-item]  # the modes are literals
    by_model = {model.__name__: reference["$ref"] for (model, _), reference in names.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "cofio",
            "version": __version__,
            "description": "Conversations in, memory out: episodes, facts, profiles, cases and skills.",
        },
        "paths": _paths(by_model),
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _paths(names: dict[str, str]) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(call.addresses[0], {})[call.method.lower()] = _operation(call, names)
    return paths


def _operation(call: Call, names: dict[str, str]) -> dict[str, Any]:
    told = (call.does.__doc__ or "").strip()
    replies = {str(status): _envelope(names[model.__name__]) for status, model in call.gives.items()}
    failures = {
        status: {"description": text, "content": {"application/json": {"schema": {"$ref": names["ErrorEnvelope"]}}}}
        for status, text in _FAILURES.items()
    }
    return {
        "operationId": call.name,
        "summary": told,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": names[call.takes.__name__]}}},
        },
        "responses": {**replies, **failures},
    }


def _envelope(reference: str) -> dict[str, Any]:
    notes = {"type": "object", "properties": {"notes": {"type": "array", "items": {"type": "string"}}}}
    schema = {
        "type": "object",
        "required": ["request_id", "data"],
        "properties": {
            "request_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "data": {"$ref": reference},
            "meta": notes,
        },
    }
    return {"description": "Done.", "content": {"application/json": {"schema": schema}}}


@lru_cache(maxsize=1)
def _page() -> str:
    described = document()
    schemas = described["components"]["schemas"]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>cofio {escape(__version__)}: REST API</title>"
        f'<meta name=viewport content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>cofio {escape(__version__)}: REST API</h1><p>{escape(described['info']['description'])} "
        f'For programs: <a href="{SCHEMA}"><code>{SCHEMA}</code></a>.</p>'
    ]
    for path, operations in described["paths"].items():
        operation = operations["post"]
        takes = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].removeprefix(_REFERENCE)
        parts.append(f"<h2 id={escape(operation['operationId'])}><code>POST {escape(path)}</code></h2>")
        parts.append(f"<p>{escape(operation['summary'])}</p>{_table(schemas[takes])}")
    parts.append("<h2 id=schemas>All parts</h2>")
    for name, schema in sorted(schemas.items()):
        shown = escape(json.dumps(schema, indent=2))
        parts.append(
            f"<details id={escape(name)}><summary><code>{escape(name)}</code></summary><pre>{shown}</pre></details>"
        )
    return "".join(parts)


def _table(schema: dict[str, Any]) -> str:
    rows = []
    for name, field in schema.get("properties", {}).items():
        needed = (
            "yes" if name in schema.get("required", ()) else f"<code>{escape(json.dumps(field.get('default')))}</code>"
        )
        told = escape(field.get("description", ""))
        rows.append(f"<tr><td><code>{escape(name)}</code><td>{_type(field)}<td>{needed}<td>{told}")
    return f"<table><tr><th>field<th>type<th>needed, or default<th>{''.join(rows)}</table>"


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = escape(field["$ref"].removeprefix(_REFERENCE))
        return f"<a href=#{name}>{name}</a>"
    if "anyOf" in field:
        return " or ".join(_type(each) for each in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"<code>{escape(json.dumps(each))}</code>" for each in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    limits = {key: field[key] for key in ("minLength", "maxLength", "minimum", "maximum", "pattern") if key in field}
    shown = ", ".join(f"{key} {value}" for key, value in limits.items())
    return escape(str(field.get("type", "anything")) + (f" ({shown})" if shown else ""))
