"""The shapes that answers must have: a small part of JSON Schema, which every endpoint that has schemas understands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..values.records import Json

Schema: TypeAlias = Mapping[str, Any]

_CHECKED_HERE = ("minLength",)  # endpoints with strict schemas refuse the whole request for such a word


class ShapeError(ValueError):
    """Where a value differs from its shape, in words that hold nothing of the value."""


def make_text(description: str, *, blank: bool = False) -> dict[str, Any]:
    """A text, which must say something unless it may be `blank`."""
    return {"type": "string", "description": description} | ({} if blank else {"minLength": 1})


def make_nullable(shape: Schema) -> dict[str, Any]:
    """The shape, or null."""
    return {**{name: value for name, value in shape.items() if name != "minLength"}, "type": [shape["type"], "null"]}


def make_integer(description: str) -> dict[str, Any]:
    """A whole number."""
    return {"type": "integer", "description": description}


def make_number(description: str) -> dict[str, Any]:
    """A number."""
    return {"type": "number", "description": description}


def make_boolean(description: str) -> dict[str, Any]:
    """True or false."""
    return {"type": "boolean", "description": description}


def make_list(items: Schema, description: str) -> dict[str, Any]:
    """A list."""
    return {"type": "array", "items": dict(items), "description": description}


def make_object(**properties: Schema) -> dict[str, Any]:
    """An object that has all of these, and nothing else."""
    return {
        "type": "object",
        "properties": {name: dict(shape) for name, shape in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def strip_checks(schema: Schema) -> dict[str, Any]:
    """The schema as endpoints take it."""

    def strip(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: strip(each) for name, each in value.items() if name not in _CHECKED_HERE}
        return value

    return {name: strip(value) for name, value in schema.items() if name not in _CHECKED_HERE}


def is_schema(value: Json) -> bool:
    """Whether a value is a schema itself: models that do not understand what is wanted give it back."""
    return isinstance(value, dict) and isinstance(value.get("properties"), dict) and "type" in value


def conform(value: Json, schema: Schema, at: str = "the answer") -> Json:
    """The value in its shape: what is not asked for is left out, and so are items of a list that are of another shape.

    Raises:
        ShapeError: it cannot be brought into shape, or no item of a list can.
    """
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None and "null" in kinds:
        return None
    kind = kinds[0]
    if kind == "object":
        return _conform_object(value, schema, at)
    if kind == "array":
        return _conform_list(value, schema, at)
    if kind == "string":
        return _conform_text(value, schema, at)
    if kind == "boolean":
        truth_value = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
        if not isinstance(truth_value, bool):
            raise ShapeError(f"{at} is not true or false")
        return truth_value
    return _conform_number(value, at, whole=kind == "integer")


def _conform_object(value: Json, schema: Schema, at: str) -> Json:
    if not isinstance(value, dict):
        raise ShapeError(f"{at} is not an object")
    if is_schema(value) and "properties" not in schema["properties"]:
        raise ShapeError(f"{at} is the schema itself, not an answer")
    result: dict[str, Json] = {}
    for name, shape in schema["properties"].items():
        if name not in value and "null" not in shape["type"]:
            raise ShapeError(f"{at} has no {name!r}")
        result[name] = conform(value.get(name), shape, f"{name!r}")
    return result


def _conform_list(value: Json, schema: Schema, at: str) -> Json:
    if not isinstance(value, list):
        raise ShapeError(f"{at} is not a list")
    result: list[Json] = []
    problem: ShapeError | None = None
    for item in value:
        try:
            result.append(conform(item, schema["items"], f"an item of {at}"))
        except ShapeError as error:
            problem = problem or error
    if problem is not None and not result:
        raise problem
    return result


def _conform_text(value: Json, schema: Schema, at: str) -> Json:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise ShapeError(f"{at} is not a text")
    # Half a character, or a NUL, cannot be stored; a model may write either as an escape.
    clean = value.encode("utf-8", "replace").decode("utf-8").replace("\x00", "").strip()
    if not clean and schema.get("minLength"):
        raise ShapeError(f"{at} is empty")
    if "enum" in schema and clean not in schema["enum"]:
        raise ShapeError(f"{at} is not one of {', '.join(schema['enum'])}")
    return clean


def _conform_number(value: Json, at: str, *, whole: bool) -> Json:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ShapeError(f"{at} is not a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or (value != value or math.isinf(value)):
        raise ShapeError(f"{at} is not a number")
    if not whole:
        return float(value) if abs(value) < 1e300 else math.copysign(1e300, value)
    if value != int(value):
        raise ShapeError(f"{at} is not a whole number")
    return int(value)
