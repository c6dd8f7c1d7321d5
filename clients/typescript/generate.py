"""Writes src/schema.ts: the types of the API, and where each call is, from the server's own OpenAPI document.

usage: python clients/typescript/generate.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cofio.doors.rest.openapi import build_document

TARGET = Path(__file__).parent / "src" / "schema.ts"
WIDTH = 110
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
Schema = Mapping[str, Any]


class Call(NamedTuple):
    """One operation: what its request and its answer are made of, and how the request is sent."""

    name: str
    method: str
    path: str
    takes: str
    gives: str
    body: str
    """json, form or none."""
    answer: str
    """enveloped, json or blob."""
    declared: list[str]
    """Declarations of what has no name of its own in the document."""


def render(described: Schema) -> str:
    """The module, as TypeScript."""
    schemas: Mapping[str, Schema] = described["components"]["schemas"]
    calls = list(_calls(described))
    parts = ["// Made by generate.py from the server's OpenAPI document: change the server, not this file."]
    parts += [_declaration(name, schemas[name]) for name in sorted(schemas)]
    parts += [each for call in calls for each in call.declared]
    pairs = "".join(f"  {call.name}: {{ request: {call.takes}; response: {call.gives} }};\n" for call in calls)
    parts.append(f"/** What each call takes and gives. */\nexport interface Calls {{\n{pairs}}}")
    parts.append(
        "/** Where a call is, how its request is sent, and what its answer is. */\n"
        "export interface CallRoute {\n  method: string;\n  path: string;\n"
        '  body: "json" | "form" | "none";\n  answer: "enveloped" | "json" | "blob";\n}'
    )
    routes = "".join(
        f'  {call.name}: {{ method: "{call.method}", path: "{call.path}", body: "{call.body}", '
        f'answer: "{call.answer}" }},\n'
        for call in calls
    )
    parts.append(
        f"/** The route of each call. */\nexport const ROUTES: Record<keyof Calls, CallRoute> = {{\n{routes}}};"
    )
    return "\n\n".join(parts) + "\n"


def _calls(described: Schema) -> Iterator[Call]:
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            replies = [reply for status, reply in sorted(operation["responses"].items()) if status.startswith("2")]
            gives, answer = _gives([reply["content"] for reply in replies if "content" in reply])
            name = operation["operationId"]
            takes, body, declared = _takes(name, operation)
            yield Call(name, method.upper(), path, takes, gives, body, answer, declared)


def _gives(contents: Sequence[Schema]) -> tuple[str, str]:
    """The type of the answer, and how it comes: enveloped, json or blob."""
    if any("application/json" not in content for content in contents):
        return "Blob", "blob"
    schemas = [content["application/json"]["schema"] for content in contents]
    enveloped = any("data" in schema.get("properties", {}) for schema in schemas)
    return " | ".join(dict.fromkeys(map(_data, schemas))) or "null", "enveloped" if enveloped else "json"


def _data(schema: Schema) -> str:
    """The type of what is in an envelope, or of an answer that has none."""
    return _type(schema["properties"]["data"] if "data" in schema.get("properties", {}) else schema)


def _takes(name: str, operation: Schema) -> tuple[str, str, list[str]]:
    """The type of a request, how it is sent, and the declarations that its type needs."""
    parts, body, declared = [], "none", []
    title = "".join(word.capitalize() for word in name.split("_"))
    if operation.get("parameters"):
        parameters = {
            "type": "object",
            "description": f"What stands in the address of `{name}`.",
            "properties": {
                each["name"]: {**each["schema"], "description": each.get("description", "")}
                for each in operation["parameters"]
            },
            "required": [each["name"] for each in operation["parameters"] if each.get("required")],
        }
        parts.append(f"{title}Parameters")
        declared.append(_declaration(parts[-1], parameters))
    if "requestBody" in operation:
        kinds = operation["requestBody"]["content"]
        body = "json" if "application/json" in kinds else "form"
        schema = kinds["application/json" if body == "json" else "multipart/form-data"]["schema"]
        if "properties" in schema:
            parts.append(f"{title}Body")
            declared.append(_declaration(parts[-1], {"description": f"The body of `{name}`.", **schema}))
        else:
            parts.append(_type(schema))
    return " & ".join(parts) or "Record<string, never>", body, declared


def _declaration(name: str, schema: Schema) -> str:
    told = _comment(schema.get("description", ""), "")
    if "properties" in schema or schema.get("type") == "object":
        return f"{told}export interface {name} {_object(schema, '')}"
    return f"{told}export type {name} = {_type(schema)};"


def _object(schema: Schema, indent: str) -> str:
    inner = indent + "  "
    required = set(schema.get("required", ()))
    lines = []
    for name, field in schema.get("properties", {}).items():
        mark = "" if name in required else "?"
        lines.append(f"{_comment(_told(field), inner)}{inner}{_name(name)}{mark}: {_type(field, inner)};\n")
    more = schema.get("additionalProperties")
    if more:
        lines.append(f"{inner}[name: string]: unknown;\n")
    return "{\n" + "".join(lines) + indent + "}" if lines else "{}"


def _told(field: Schema) -> str:
    said = str(field.get("description", ""))
    default = field.get("default")
    if default is None:
        return said
    return f"{said} By default {json.dumps(default, ensure_ascii=False)}.".strip()


def _type(schema: Schema, indent: str = "") -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return " | ".join(dict.fromkeys(_type(each, indent) for each in schema[name]))
    if "allOf" in schema:
        return " & ".join(_type(each, indent) for each in schema["allOf"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if schema.get("type") == "array":
        item = _type(schema.get("items", {}), indent)
        return f"Array<{item}>" if " " in item else f"{item}[]"
    if schema.get("type") == "object":
        return _object(schema, indent) if "properties" in schema else _record(schema)
    if schema.get("format") == "binary" or "contentMediaType" in schema:
        return "Blob"
    return PLAIN.get(schema.get("type", ""), "unknown")


def _record(schema: Schema) -> str:
    values = schema.get("additionalProperties")
    return f"Record<string, {_type(values) if isinstance(values, Mapping) and values else 'unknown'}>"


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)


def _comment(said: str, indent: str) -> str:
    said = " ".join(said.split()).replace("*/", "*\\/")
    if not said:
        return ""
    lines = textwrap.wrap(said, WIDTH - len(indent))
    if len(lines) == 1:
        return f"{indent}/** {said} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}\n" for line in lines) + f"{indent} */\n"


def main() -> int:
    """Write the file; with --check, only tell whether it is as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the file is out of date")
    given = parser.parse_args()
    made = render(build_document())
    if given.check:
        if TARGET.read_text(encoding="utf-8") == made:
            return 0
        print("src/schema.ts is out of date: run `python clients/typescript/generate.py`", file=sys.stderr)
        return 1
    TARGET.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
