"""The API described for people: one page, which needs nothing from elsewhere, of what the OpenAPI document says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_REFERENCE = "#/components/schemas/"
_PROJECT_FIELDS = ("app_id", "project_id")  # which most leave out, so they come last
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #f2f3f5; --ink: #1d2127; --paper: #fff; --mark: #0b6bcb }
@media (prefers-color-scheme: dark) { :root { --soft: #23262e; --ink: #dcdfe4; --paper: #16181d; --mark: #6cb2ff } }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper) }
a { color: var(--mark) } h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin: 0 } h3 { font-size: 1rem }
.page { display: grid; grid-template-columns: 17rem minmax(0, 1fr); max-width: 80rem; margin: 0 auto }
nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto; padding: 1.5rem 1rem;
border-right: 1px solid var(--line); font-size: .9rem }
nav h3 { margin: 1rem 0 .2rem; font-size: .8rem; text-transform: uppercase; letter-spacing: .05em; opacity: .7 }
nav a { display: block; padding: .15rem 0; text-decoration: none; overflow-wrap: anywhere }
main { padding: 1rem 1.5rem 4rem } section { border-top: 1px solid var(--line); padding: 1.5rem 0 }
code, pre { font: .88rem/1.45 ui-monospace, monospace; background: var(--soft); border-radius: 4px }
code { padding: .1em .3em; overflow-wrap: anywhere } pre { padding: .7rem .9rem; overflow: auto; margin: .4rem 0 1rem }
.method { font: 600 .8rem ui-monospace, monospace; color: var(--paper); background: var(--mark); border-radius: 4px;
padding: .15rem .4rem; margin-right: .4rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; font-size: .93rem }
td, th { text-align: left; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td:first-child code { white-space: nowrap; overflow-wrap: normal }
summary { cursor: pointer; padding: .2rem 0 } .needed { color: var(--mark); font-size: .8rem }
@media (max-width: 50rem) { .page { display: block } nav { position: static; max-height: none; border: 0 } }
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load and do: nothing but its own style."""


def render_page(document: Mapping[str, Any], source: str) -> str:
    """The page of an OpenAPI document that is to be had at `source`."""
    title = f"{document['info']['title']} {document['info']['version']}: REST API"
    description = "".join(f"<p>{_render_text(each)}</p>" for each in document["info"]["description"].split("\n\n"))
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    sections = "".join(_render_operation(document, *each) for each in operations)
    parts = "".join(
        f"<section id={escape(name)}><h2><code>{escape(name)}</code></h2>{_render_part(schema)}</section>"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f'<meta name=viewport content="width=device-width"><style>{_STYLE}</style><div class=page>'
        f"<nav><a href=#top><b>{escape(title)}</b></a>{_render_index(operations)}<h3>more</h3>"
        f'<a href=#parts>All parts</a><a href="{escape(source)}">{escape(source)}</a></nav>'
        f"<main id=top><h1>{escape(title)}</h1>{description}<p>For programs: "
        f'<a href="{escape(source)}"><code>{escape(source)}</code></a>.</p>{sections}'
        f"<section id=parts><h2>All parts</h2></section>{parts}</main></div></html>"
    )


def _render_index(operations: list[tuple[str, str, Mapping[str, Any]]]) -> str:
    parts, last = [], None
    for method, path, operation in operations:
        tag = operation["tags"][0]
        if tag != last:
            parts.append(f"<h3>{escape(tag)}</h3>")
            last = tag
        label = escape(re.sub(r"^/api/v\d+", "", path))
        parts.append(f"<a href=#{escape(operation['operationId'])}>{escape(method)} {label}</a>")
    return "".join(parts)


def _render_operation(document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]) -> str:
    description = [operation["summary"], *([operation["description"]] if "description" in operation else [])]
    parts = [
        f"<section id={escape(operation['operationId'])}><h2><span class=method>{escape(method)}</span>"
        f"<code>{escape(path)}</code></h2><p>{_render_text(' '.join(description))}</p>"
    ]
    if parameters := operation.get("parameters"):
        fields = {each["name"]: {**each["schema"], "description": each["description"]} for each in parameters}
        parts.append(_render_table(fields, {each["name"] for each in parameters if each["required"]}))
    if body := operation.get("requestBody"):
        ((media, content),) = body["content"].items()
        schema = _resolve(document, content["schema"])
        parts.append(_render_table(schema.get("properties", {}), set(schema.get("required", ()))))
        if media != "application/json":
            parts.append(f"<p>The body is <code>{escape(media)}</code>.</p>")
    parts.append(f"<h3>Example</h3><pre>{escape(_write_command(method, path, operation))}</pre>")
    for status, answer in operation["responses"].items():
        content = answer.get("content", {}).get("application/json", {})
        if int(status) < 300:
            parts.append(f"<p><b>{escape(status)}</b> {_render_text(answer['description'])} {_name_data(content)}</p>")
            if "example" in content:
                parts.append(f"<pre>{escape(json.dumps(content['example'], indent=2, ensure_ascii=False))}</pre>")
    failures = "".join(
        f"<tr><td><code>{escape(status)}</code><td>{_render_text(answer['description'])}"
        for status, answer in operation["responses"].items()
        if int(status) >= 300
    )
    parts.append(f"<details><summary>Failures</summary><table>{failures}</table></details></section>")
    return "".join(parts)


def _write_command(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """The example as it is typed at a terminal."""
    query = []
    for each in operation.get("parameters", ()):
        if each["in"] == "path" and "example" in each:
            path = path.replace(f"{{{each['name']}}}", str(each["example"]))
        elif "example" in each:
            query.append(f"{each['name']}={each['example']}")
    address = f"http://127.0.0.1:8427{path}" + (f"?{'&'.join(query)}" if query else "")
    lines = [f"curl '{address}'" if method == "GET" else f"curl -X {method} '{address}'"]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        if media == "application/json" and "example" in content:
            lines += ["  -H 'Content-Type: application/json'", f"  -d '{json.dumps(content['example'], indent=2)}'"]
        elif "example" in content:
            lines += [f"  -F '{name}={value}'" for name, value in content["example"].items()]
    return " \\\n".join(lines)


def _name_data(content: Mapping[str, Any]) -> str:
    schema = content.get("schema", {})
    data = schema.get("properties", {}).get("data", schema)
    return _render_type(data) if "$ref" in data else ""


def _render_part(schema: Mapping[str, Any]) -> str:
    description = f"<p>{_render_text(schema.get('description', ''))}</p>"
    if "properties" not in schema:
        return f"{description}<p>{_render_type(schema)}</p>"
    return description + _render_table(schema["properties"], set(schema.get("required", ())))


def _render_table(fields: Mapping[str, Mapping[str, Any]], required: set[str]) -> str:
    rows = []
    for name, field in sorted(fields.items(), key=lambda each: (each[0] not in required, each[0] in _PROJECT_FIELDS)):
        default = field.get("default")
        mark = " <span class=needed>needed</span>" if name in required else ""
        note = (
            "" if default is None or name in required else f" <code>{escape(json.dumps(default))}</code> if left out."
        )
        rows.append(
            f"<tr><td><code>{escape(name)}</code>{mark}<td>{_render_type(field)}"
            f"<td>{_render_text(field.get('description', ''))}{note}"
        )
    return f"<div class=scroll><table><tr><th>field<th>type<th>meaning{''.join(rows)}</table></div>" if rows else ""


def _render_type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = escape(field["$ref"].removeprefix(_REFERENCE))
        return f"<a href=#{name}>{name}</a>"
    if "anyOf" in field:
        return " or ".join(_render_type(each) for each in field["anyOf"])
    if "const" in field:
        return f"<code>{escape(json.dumps(field['const']))}</code>"
    if "enum" in field:
        return ", ".join(f"<code>{escape(json.dumps(each))}</code>" for each in field["enum"])
    if field.get("type") == "array":
        return f"list of {_render_type(field.get('items', {}))}"
    return escape(str(field.get("type", "anything"))) + "".join(_render_limits(field))


def _render_limits(field: Mapping[str, Any]) -> Iterator[str]:
    for least, most, of in (("minLength", "maxLength", " characters"), ("minimum", "maximum", "")):
        low, high = field.get(least), field.get(most)
        if low is not None and high is not None:
            yield f", {low:,} to {high:,}{of}"
        elif low is not None:
            yield f", {low:,}{of} or more"
        elif high is not None:
            yield f", up to {high:,}{of}"


def _resolve(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    target: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].removeprefix(_REFERENCE)]
    return target


def _render_text(text: str) -> str:
    """Plain words, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
