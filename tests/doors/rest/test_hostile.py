"""Bad input at every call: whatever comes in, the answer is in its envelope, below 500, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.doors.rest import catalogue
from cofio.doors.rest.calls import MAX_BODY

from .conftest import ALIAS, CALLS, PREFIX, VALID, Api, T, failed, said

ODD: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, 10**400, -(10**400), "", "x", "\0", "\ud800", "😀", "x" * 200_000, [], {}, [[]],
    [None], {"": None}, {"\0": 1}, [1] * 100, "..", "' OR 1=1 --", "${jndi:x}", "\u202e",
]  # fmt: skip
IN_MESSAGE = ["sender_id", "sender_name", "role", "timestamp", "content", "tool_calls", "tool_call_id", "message_id"]
IN_ITEM = ["type", "text", "uri", "base64", "ext", "name", "extras"]


def survives(answer: Any) -> None:
    """An answer is one, whatever was asked."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        failed(answer, answer.status_code)


@pytest.mark.requirement("errors.never-500", "errors.422")
@pytest.mark.parametrize("call", CALLS)
def test_any_value_in_any_field_is_taken_or_refused(api: Api, call: str) -> None:
    for field in next(each for each in catalogue.CALLS if each.name == call).takes.model_fields:
        for value in ODD:
            survives(api.post(call, {**VALID[call], field: value}))


@pytest.mark.requirement("errors.never-500", "message.content", "content.text", "call.function")
def test_any_value_in_any_part_of_a_message_is_taken_or_refused(api: Api) -> None:
    n = 0
    for value in ODD:
        messages = [said("Hi.") | {field: value} for field in IN_MESSAGE]
        messages += [said([{"type": "text", "text": "Hi.", field: value}]) for field in IN_ITEM]
        function = {"name": "f", "arguments": "{}"}
        calls = [{"id": "c", "function": function, field: value} for field in ("id", "type", "function")]
        calls += [{"id": "c", "function": {**function, field: value}} for field in function]
        messages += [said("Hi.", tool_calls=[call]) for call in calls]
        for message in messages:
            n += 1
            moment = {"timestamp": T + n} if message["timestamp"] == T else {}
            survives(api.post("add", {"session_id": "s", "messages": [message | moment]}))
    assert api.flush() == "extracted"
    assert api.get()


@pytest.mark.requirement("errors.never-500", "filter.garbage")
def test_any_value_in_any_part_of_a_filter_is_taken_or_refused(bare: Api) -> None:
    for value in ODD:
        for field in ("session_id", "parent_type", "parent_id", "timestamp", "sender_id", "AND", "OR", "zzz"):
            for predicate in (value, {"gt": value}, {"in": [value]}):
                body = {"user_id": "a", "memory_type": "episode", "filters": {field: predicate}}
                survives(bare.post("get", body))
        survives(bare.post("search", {"user_id": "a", "query": "x", "filters": {"session_id": value}}))


HOSTILE = {
    "nul": b'{"session_id": "a\\u0000b", "messages": []}',
    "surrogate": b'{"session_id": "\\ud800", "id": "\\ud800", "query": "\\ud800"}',
    "surrogate key": b'{"\\ud800": 1}',
    "raw surrogate": b'{"session_id": "\xed\xa0\x80"}',
    "not utf-8": b'{"session_id": "\xff"}',
    "overlong": b'{"session_id": "\xc0\x80"}',
    "huge number": b'{"page": 1e400, "radius": 1e400, "timestamp": -1e400}',
    "long number": b'{"page": ' + b"9" * 100_000 + b"}",
    "constants": b'{"page": NaN, "radius": Infinity}',
    "duplicates": b'{"session_id": 1, "session_id": 2, "session_id": []}',
    "truncated": b'{"session_id": "s", "messages": [{"sender_id": "a',
    "trailing": b'{"session_id": "s"} {}',
    "comment": b'{"session_id": "s" /* x */}',
    "control": b'{"session_id": "a\nb"}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep closed": b'{"filters":' + b'{"AND":[' * 1000 + b"]}" * 1000 + b"}",
    "many": b'{"messages": [' + b"0," * 150_000 + b'0], "filters": [' + b"{}," * 60_000 + b"{}]}",
    "long string": b'{"query": "' + b"x" * 13_000_000 + b'"}',
    "open string": b'{"query": "' + b"x" * 13_000_000,
    "backslashes": b'{"query": "' + b"\\" * 1_000_001,
    "bom": b'\xef\xbb\xbf{"session_id": 5}',
    "brackets": b"]" * 1000,
}


@pytest.mark.requirement("errors.never-500", "errors.bounded", "http.utf8")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused(bare: Api, name: str) -> None:
    for call in ("add", "search"):
        assert bare.refused(call, HOSTILE[name])


@pytest.mark.requirement("errors.bounded", "add.too-large")
def test_a_body_that_is_too_long_is_a_413_under_either_version(bare: Api) -> None:
    headers = {"Content-Type": "application/json"}
    for prefix in (PREFIX, ALIAS):
        for body in (b" " * (MAX_BODY + 1), iter([b" " * 1_000_000] * 17)):  # declared, or not
            answer = bare.client.post(f"{prefix}/add", content=body, headers=headers)
            told = failed(answer, 413, f"{prefix}/add", code="PAYLOAD_TOO_LARGE")
            assert told == f"the body is longer than {MAX_BODY:,} bytes; send less at once"


@pytest.mark.requirement("errors.bounded", "message.content")
def test_the_longest_texts_are_taken(api: Api) -> None:
    brackets = '[{"' * 1000 + "\\" * 101 + '"' + "]" * 500  # in a string they count for nothing
    api.add(said(brackets))
    assert api.waiting()[0]["content"] == brackets
    api.add(said("🙂" * 1_048_576), session="long")  # which JSON may write as 12 bytes each
    assert api.flush("long") == "extracted"
    assert len(api.get()) == 1
