"""How a tool's arguments are checked against its schema, and what is said of those that do not fit.

The words are those that agents know from agent-memory-store, which takes them from its validator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...values.errors import CofioError, Invalid, LimitExceeded
from ...values.records import Json

_SAFE = 2**53 - 1  # the largest whole number that every JSON reader takes as it is
_FIELDS = {"title": "topic", "text": "content", "author": "agent", "data": "value", "ttl": "ttl_days"}


class BadArguments(Exception):
    """The arguments do not fit the tool; the message is for the agent."""

    def __init__(self, tool: str, *problems: str) -> None:
        problem = "\n".join(problems)
        super().__init__(f"MCP error -32602: Input validation error: Invalid arguments for tool {tool}: {problem}")


def validate_arguments(tool: str, schema: Mapping[str, Json], arguments: Mapping[str, Json]) -> dict[str, Json]:
    """The arguments that the schema knows, whole numbers as such; what it does not know is left out.

    Raises:
        BadArguments: something is missing, of another type or out of bounds.
    """
    properties = cast(Mapping[str, Mapping[str, Json]], schema["properties"])
    required = cast(list[str], schema.get("required", []))
    problems: list[str] = []
    validated: dict[str, Json] = {}
    for name, expected in properties.items():
        if name in arguments:
            value = arguments[name]
            problems += [f"{problem} at {name}{where}" for problem, where in _find_problems(expected, value)]
            is_whole = expected.get("type") == "integer" and isinstance(value, float) and value.is_integer()
            validated[name] = int(cast(float, value)) if is_whole else value
        elif name in required:
            problems.append(
                f"Invalid input: expected {expected.get('type', 'nonoptional')}, received undefined at {name}"
            )
    if problems:
        raise BadArguments(tool, *problems)
    return validated


def describe_refusal(tool: str, schema: Mapping[str, Json], error: CofioError) -> BadArguments | None:
    """What the engine says of the input, in the words of a schema; None when it is not about the input."""
    field = _FIELDS.get(error.field, error.field) if isinstance(error, Invalid) else ""
    if not isinstance(error, Invalid) or field not in cast(Mapping[str, Json], schema["properties"]):
        return None
    if isinstance(error, LimitExceeded) and error.unit == "characters":
        return BadArguments(tool, f"Too big: expected string to have <={error.limit} characters at {field}")
    return BadArguments(tool, f"Invalid input: {error.problem} at {field}")


def _find_problems(expected: Mapping[str, Json], value: Json) -> list[tuple[str, str]]:
    """What is wrong with a value, each with where in it."""
    options = cast(list[str] | None, expected.get("enum"))
    if options is not None:
        choices = "|".join(f'"{each}"' for each in options)
        return [] if value in options else [(f"Invalid option: expected one of {choices}", "")]
    kind = expected.get("type")
    if kind is None:
        return []
    if kind in ("integer", "number"):
        return [(problem, "") for problem in _find_number_problems(expected, value)]
    if _name_type(value) != kind:
        return [(f"Invalid input: expected {kind}, received {_name_type(value)}", "")]
    if isinstance(value, list):
        item = cast(Mapping[str, Json], expected["items"])
        return [
            (problem, f"[{at}]{where}")
            for at, each in enumerate(value)
            for problem, where in _find_problems(item, each)
        ]
    return []


def _find_number_problems(expected: Mapping[str, Json], value: Json) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [f"Invalid input: expected number, received {_name_type(value)}"]
    if expected["type"] == "integer" and isinstance(value, float) and not value.is_integer():
        return ["Invalid input: expected int, received number"]
    problems = []
    low, high, above = expected.get("minimum"), expected.get("maximum"), expected.get("exclusiveMinimum")
    if expected["type"] == "integer" and abs(value) > _SAFE:
        size, sign, bound = ("small", ">=", -_SAFE) if value < 0 else ("big", "<=", _SAFE)
        problems.append(f"Too {size}: expected int to be {sign}{bound}")
    if isinstance(low, int) and value < low:
        problems.append(f"Too small: expected number to be >={low}")
    if isinstance(above, int) and value <= above:
        problems.append(f"Too small: expected number to be >{above}")
    if isinstance(high, int) and value > high and high != _SAFE:
        problems.append(f"Too big: expected number to be <={high}")
    return problems


def _name_type(value: Json) -> str:
    """What JavaScript's validator calls the type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"
