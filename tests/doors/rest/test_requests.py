"""Requests that are refused for what they are, before a memory is asked: no store is opened here."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from cofio.doors.rest import catalogue
from cofio.doors.rest.calls import NO_BODY, parse_json
from cofio.doors.rest.forms import FilePart
from cofio.doors.rest.http import describe_first_error
from cofio.doors.rest.requests import ProjectRequest
from cofio.http.errors import RequestError

from .conftest import VALID, Json, T

TAKES = {call.name: call.takes for call in catalogue.CALLS}
A_CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
BODIES: dict[str, Json] = {
    **VALID,
    "tasks": {},
    "trigger": {"name": "reflect_episodes"},
    "list_documents": {},
    "list_categories": {},
    **{name: {"doc_id": "d_0123456789ab"} for name in ("get_document", "patch_document", "delete_document")},
    **{name: {"doc_id": "d_0123456789ab"} for name in ("get_original", "get_markdown")},
    "add_document": {"file": FilePart(b"x", "a.md", None), "title": "T"},
    "replace_document": {"file": FilePart(b"x", "a.md", None), "title": "T", "doc_id": "d_0123456789ab"},
    "get_topic": {"topic_id": "d_0123456789ab_1"},
    "search_knowledge": {"query": "x"},
}
"""A right request for each call."""


def refuse(name: str, body: object) -> str:
    """Return what is said of a wrong request for a call."""
    with pytest.raises(ValidationError) as refused:
        TAKES[name].model_validate(body, from_attributes=True)
    return describe_first_error(refused.value)


def change(body: Json, place: str, value: object) -> Json:
    """Return a request with another value at a place such as messages.0.role; without it, if the value is `...`."""
    changed = copy.deepcopy(body)
    *parts, last = place.split(".")
    target: Any = changed
    for part in parts:
        target = target[int(part) if part.isdecimal() else part]
    key = int(last) if last.isdecimal() else last
    if value is ...:
        del target[key]
    else:
        target[key] = value
    return changed


def check_places(name: str, body: Json, table: dict[str, list[Any]]) -> None:
    """Each wrong value is refused, and the message ends with the place it stands in."""
    TAKES[name].model_validate(body, from_attributes=True)
    for place, values in table.items():
        for value in values:
            told = refuse(name, change(body, place, value))
            where = told.rpartition(": ")[2]
            assert where == place or where.startswith(f"{place}."), (place, value, told)


BAD_NAMES = ["", "x" * 129, "a b", "a/b", "é", "a\n", "a\0", "٣", ".", ".."]


@pytest.mark.requirement(
    "scope.length", "scope.charset", "scope.dots", "search.scope", "get.scope", "flush.scope", "add.app_id",
    "add.project_id", "knowledge.isolated",
)  # fmt: skip
@pytest.mark.parametrize("name", [name for name, takes in TAKES.items() if issubclass(takes, ProjectRequest)])
def test_every_call_refuses_names_of_apps_and_projects_that_are_none(name: str) -> None:
    body = {"app_id": "default", "project_id": "default", **BODIES[name]}
    check_places(name, body, {field: [*BAD_NAMES, 5, None, [], {}] for field in ("app_id", "project_id")})
    assert refuse(name, {**body, "app_id": ".."}) == "Value error, '.' and '..' are reserved (path traversal): app_id"


MESSAGE = {"sender_id": "alice", "role": "assistant", "timestamp": T, "content": "Hi.", "tool_calls": [A_CALL]}
ITEM = {"type": "text", "text": "x"}


@pytest.mark.requirement(
    "message.sender_id", "message.sender_name", "message.role", "message.timestamp", "message.content",
    "message.tool_calls", "message.tool_call_id", "message.message_id", "call.id", "call.type", "call.function",
    "function.name", "function.arguments", "add.session_id", "add.messages", "errors.message",
)  # fmt: skip
def test_a_message_that_is_none_is_refused_with_its_place() -> None:
    table: dict[str, list[Any]] = {
        "session_id": [..., None, 5, "", "x" * 129],
        "messages": [..., None, {}, "x", [], [MESSAGE] * 501],
        "messages.0": [None, 5, "x"],
        "messages.0.sender_id": [..., None, 5, *BAD_NAMES],
        "messages.0.sender_name": [5, "n" * 300],
        "messages.0.role": [..., None, "system"],
        "messages.0.timestamp": [..., None, 0, -1, 1.5, "2026-05-28T11:30:36Z"],
        "messages.0.content": [..., None, 5, {"type": "text", "text": "x"}],
        "messages.0.tool_calls": [5, [A_CALL] * 201],
        "messages.0.tool_call_id": [5, []],
        "messages.0.message_id": ["", 5, "x" * 1025, []],
        "messages.0.tool_calls.0.id": [..., None, 5],
        "messages.0.tool_calls.0.type": [None, 5],
        "messages.0.tool_calls.0.function": [..., None],
        "messages.0.tool_calls.0.function.name": [..., 5],
        "messages.0.tool_calls.0.function.arguments": [..., None, {"q": "x"}],
    }
    whole = {"sender_name": None, "tool_call_id": None, "message_id": None}
    check_places("add", {"session_id": "s", "messages": [MESSAGE | whole]}, table)


@pytest.mark.requirement(
    "content.type", "content.text", "content.uri", "content.base64", "content.ext", "content.name", "content.extras",
    "content.one", "content.unknown", "errors.bounded",
)  # fmt: skip
@pytest.mark.parametrize(
    "item",
    [
        {"text": "x"}, {"type": "video", "uri": "http://x"}, {"type": None, "text": "x"}, {"type": "text"},
        {"type": "text", "text": None}, {"type": "text", "text": 5}, {"type": "text", "uri": "http://x"},
        ITEM | {"uri": "http://x"}, ITEM | {"base64": "eA=="}, {"type": "pdf", "uri": "http://x", "base64": "eA=="},
        {"type": "pdf", "uri": 5}, {"type": "pdf", "base64": 5}, ITEM | {"ext": 5}, ITEM | {"name": []},
        ITEM | {"extras": "caption"}, ITEM | {"extras": []}, ITEM | {"zzz": 1}, 5, "x", None,
        {"type": "text", "text": "x" * 1_048_577},
    ],
    ids=lambda item: str(item)[:60],
)  # fmt: skip
def test_a_content_item_that_is_none_is_refused(item: Any) -> None:
    body = {"session_id": "s", "messages": [MESSAGE | {"content": [item]}]}
    assert refuse("add", body) == "Input should be a valid string: messages.0.content.str"


@pytest.mark.requirement("message.tool-result", "errors.bounded", "message.content")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": "tool"}, "tool_call_id is required when role is 'tool'"),
        ({"role": "tool", "tool_call_id": ""}, "tool_call_id is required when role is 'tool'"),
        ({"content": "x" * 1_048_577}, "content is longer than 1,048,576 characters or 200 items"),
        ({"content": [ITEM] * 201}, "content is longer than 1,048,576 characters or 200 items"),
    ],
    ids=["no id", "empty id", "long", "many"],
)
def test_a_message_whose_fields_do_not_fit_together_is_refused(fields: Json, message: str) -> None:
    told = refuse("add", {"session_id": "s", "messages": [MESSAGE | fields]})
    assert told == f"Value error, {message}: messages.0"


PLACES: dict[str, dict[str, list[Any]]] = {
    "flush": {"session_id": [..., None, 5, "", "x" * 129]},
    "search": {
        "user_id": [5, *BAD_NAMES], "agent_id": ["", [], "a/b"], "query": [..., None, 5, "", "x" * 10_001],
        "method": [None, "bm25"], "top_k": [None, 1.5, "x"], "radius": [-0.1, 1.1, "x", 10**400],
        "min_score": [-0.1, 1.1, "high"], "include_profile": [None], "enable_llm_rerank": [[]],
        "include_unprocessed": [5], "filters": [[], "x"], "filters.AND": [{}], "filters.OR": ["a"], "zzz": [1],
        "owner_id": ["a"],
    },
    "get": {
        "user_id": BAD_NAMES, "agent_id": ["", ".."], "memory_type": [..., None, "fact"],
        "page": [None, 0, -1, 10**30], "page_size": [[], 0, 101], "sort_by": [None, "id"], "sort_order": ["DESC"],
        "filters": [5], "filters.AND.0": [5], "filters.AND.0.OR": [5], "query": ["x"],
    },
    "delete": {
        "id": ["", 5], "session_id": ["", 5], "user_id": BAD_NAMES, "agent_id": BAD_NAMES, "memory_type": ["fact"],
        "all": ["x"], "zzz": [1],
    },
    "update": {
        "id": ["", 5], "user_id": BAD_NAMES, "agent_id": ["a"], "subject": ["", 5], "quality_score": [-0.1, 2],
        "confidence": [2], "profile_data": [[], 5], "timestamp": [T],
    },
    "jobs": {"status": ["lost"], "page": [0], "page_size": [0, 101], "zzz": [1]},
    "tasks": {
        "status": ["lost"], "page": [0, "x"], "page_size": [0], "session_id": [""], "zzz": [1],
    },
    "trigger": {"name": [..., "", 5]},
    "brief": {"budget": [49, 20_001], "session_id": ["s"]},
    "recall": {"session_id": [..., ""], "prompt": [...], "budget": [49]},
    "context": {"user_id": [..., "a/b"], "budget": [49], "query": ["x" * 10_001], "agent_id": ["b"]},
    "add_document": {
        "file": [..., "text"], "title": [..., "", "...", "x" * 1001], "category_id": [""], "source_type": ["x" * 1001],
    },
    "list_documents": {"page": [0], "page_size": [101], "sort_by": ["size"], "sort_order": ["up"]},
    "patch_document": {"title": ["", "--", 5], "category_id": [""]},
    "search_knowledge": {"query": [..., "", "x" * 2001], "method": ["magic"], "top_k": [0, 101]},
    **{
        name: {"doc_id": ["x", "d_", "d_XYZ012345678", "d_0123456789a", "d_" + "a" * 33, "..", "d_0123456789ab\0"]}
        for name in ("get_document", "replace_document", "delete_document", "get_original", "get_markdown")
    },
    "get_topic": {"topic_id": ["x", "d_0123456789ab", "d_0123456789ab_x", "d_0123456789ab_1\n"]},
}  # fmt: skip
"""Wrong values of each call, by their places."""


@pytest.mark.requirement(
    "flush.session_id", "search.owner", "search.query", "search.method", "search.top_k", "search.radius",
    "search.min_score", "search.include_profile", "search.enable_llm_rerank", "search.filters", "search.extras",
    "get.owner", "get.memory_type", "get.page", "get.page_size", "get.sort_by", "get.sort_order", "get.filters",
    "recall.refused", "knowledge.ids", "knowledge.forms", "tasks.listed", "jobs.listed", "scope.charset",
)  # fmt: skip
@pytest.mark.parametrize("name", PLACES)
def test_a_wrong_value_is_refused_with_its_place(name: str) -> None:
    body = BODIES[name] | ({"filters": {"AND": [{}]}} if name in ("search", "get") else {})
    check_places(name, body, PLACES[name])


ONE_OWNER = "exactly one of user_id / agent_id must be provided"
ONE_TARGET = "exactly one of id / session_id / user_id / agent_id / all must be provided"
TOP_K = "top_k must be -1 or in 1..100"
OF_OTHERS = [("user_id", "agent_case"), ("user_id", "agent_skill")] + [
    ("agent_id", kind) for kind in ("episode", "profile", "atomic_fact")
]


@pytest.mark.requirement(
    "errors.422", "errors.message", "errors.first", "search.owner", "search.top_k-bad", "get.owner", "type.mismatch",
    "delete.one-target", "update.refused", "search.extras",
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("add", {}, "Field required: session_id"),
        ("add", {"session_id": "", "messages": 5}, "String should have at least 1 character: session_id"),
        ("add", {"session_id": "s", "messages": [{}]}, "Field required: messages.0.sender_id"),
        ("search", {"query": "x"}, f"Value error, {ONE_OWNER}"),
        ("search", {**VALID["search"], "agent_id": "b"}, f"Value error, {ONE_OWNER}"),
        *(("search", {**VALID["search"], "top_k": k}, f"Value error, {TOP_K}") for k in (0, -2, 101, 10**30)),
        ("search", {**VALID["search"], "zzz": 1}, "Extra inputs are not permitted: zzz"),
        ("get", {"memory_type": "episode"}, f"Value error, {ONE_OWNER}"),
        *(
            ("get", {of: "a", "memory_type": kind}, f"Value error, memory_type {kind!r} is not valid when {of} is set")
            for of, kind in OF_OTHERS
        ),
        *(
            ("delete", body, f"Value error, {ONE_TARGET}")
            for body in ({}, {"all": False}, {"id": "x", "session_id": "s"}, {"user_id": "a", "all": True})
        ),
        (
            "delete", {"session_id": "s", "memory_type": "episode"},
            "Value error, memory_type 'episode' is only valid when user_id is set",
        ),
        (
            "delete", {"user_id": "a", "memory_type": "agent_case"},
            "Value error, memory_type 'agent_case' is only valid when agent_id is set",
        ),
        ("update", {}, "Value error, exactly one of id / user_id must be provided"),
        ("update", {"user_id": "a"}, "Value error, user_id and profile_data go together"),
        ("update", {"id": "a", "profile_data": {}}, "Value error, user_id and profile_data go together"),
    ],
)  # fmt: skip
def test_the_first_thing_that_is_wrong_is_told(name: str, body: Json, message: str) -> None:
    assert refuse(name, body) == message


@pytest.mark.requirement("errors.422", "http.json", "http.utf8", "errors.bounded", "errors.never-500")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", NO_BODY),
        (b'{\n  "session_id": "s",\n "messages": [', "JSON decode error: Expecting value at line 3, column 15"),
        (b"\xff\xfe", "JSON decode error: byte 1 is not UTF-8"),
        (b'{"session_id": NaN}', "JSON decode error: NaN is not a number in JSON"),
        (b'{"session_id": -Infinity}', "JSON decode error: -Infinity is not a number in JSON"),
        (b'{"page": ' + b"9" * 5000 + b"}", "JSON decode error: a number has too many digits"),
        # These are refused before they are parsed: none of them is JSON to its end.
        (b"[" * 65, "the body is nested deeper than 64 levels"),
        (b'{"a":' * 64 + b"[", "the body is nested deeper than 64 levels"),
        (b"[" + b"0," * 200_001, "the body has more than 200,000 values"),
        (b'["' + b"x" * 12_582_913 + b'"]', "a string is longer than 1,048,576 characters"),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_a_body_that_is_no_json_or_too_much_of_it_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_json(body)
    assert (refused.value.status, str(refused.value)) == (422, message)


@pytest.mark.requirement("errors.422", "errors.never-500")
@pytest.mark.parametrize("name", VALID)
def test_a_body_that_is_no_object_is_refused(name: str) -> None:
    for body in (b"[]", b"null", b"5", b'"add"', b"true"):
        told = refuse(name, parse_json(body))
        assert told == "Input should be a valid dictionary or object to extract fields from"
