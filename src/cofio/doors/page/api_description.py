"""The JSON of the page's views, as the OpenAPI document describes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from .routes import JSON
from .view_types import View

_FAILURES = {
    "401": "A token is needed.",
    "403": "The token, or the page that asks, may not do this.",
    "404": "There is no such record.",
    "421": "The server does not answer to the name that it was addressed by.",
    "422": "Something about the request is wrong; the message says what.",
    "503": "The memory cannot be used at the moment, or too many calls wait.",
}


def describe_paths() -> dict[str, Any]:
    """The addresses of all views, for the `paths` of an OpenAPI document."""
    from .view_table import VIEWS

    return {f"{JSON}{view.name}": {"get": _describe_view(view)} for view in VIEWS}


def _describe_view(view: View) -> dict[str, Any]:
    content = {"application/json": {"schema": {**_describe_model(view.build), **view.schema}}}
    failure = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorEnvelope"}}}
    operation: dict[str, Any] = {
        "operationId": f"page_{view.name}", "tags": ["page"], "summary": view.summary,
        "responses": {
            "200": {"description": "What the page of this name shows.", "content": content},
            **{status: {"description": text, "content": failure} for status, text in _FAILURES.items()},
        },
    }  # fmt: skip
    if view.parameters:
        operation["parameters"] = [
            {
                "name": each.name, "in": "query", "required": each.required, "description": each.description,
                "schema": dict(each.schema),
            }
            for each in view.parameters
        ]  # fmt: skip
    return operation


def _describe_model(build: Callable[..., Any]) -> dict[str, Any]:
    """What a view's JSON has, by the dataclass that it is made of."""
    model = get_type_hints(build).get("return")
    if not is_dataclass(model):
        return {"type": "object"}
    names = [each.name for each in fields(model)]
    return {"type": "object", "required": names, "properties": {name: {} for name in names}}
