"""Bad input at every call: whatever comes in, the answer is in its envelope, below 500, and nothing is stored."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio.doors.rest.calls import MAX_BODY

from .conftest import CALLS, DAY, PREFIX, VALID, Api, T, failed, said

calls = pytest.mark.parametrize("call", CALLS)
ODD: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, 10**400, -(10**400), "", "x", "\0", "\ud800", "😀", "x" * 200_000, [], {}, [[]],
    [None], {"": None}, {"\0": 1}, [1] * 100, "..", "' OR 1=1 --", "${jndi:x}", "\u202e",
]  # fmt: skip
FIELDS = {
    "add": ["session_id", "app_id", "project_id", "messages", "async_mode"],
    "flush": ["session_id", "app_id", "project_id"],
    "search": [
        "user_id", "agent_id", "app_id", "project_id", "query", "method", "top_k", "radius", "include_profile",
        "enable_llm_rerank", "filters", "include_unprocessed",
    ],
    "get": [
        "user_id", "agent_id", "app_id", "project_id", "memory_type", "page", "page_size", "sort_by", "sort_order",
        "filters",
    ],
    "delete": ["id", "session_id", "user_id", "agent_id", "memory_type", "all", "app_id", "project_id"],
    "update": [
        "id", "user_id", "subject", "summary", "episode", "content", "task_intent", "approach", "key_insight",
        "quality_score", "name", "description", "confidence", "profile_data", "app_id", "project_id",
    ],
    "brief": ["budget", "app_id", "project_id"],
    "recall": ["session_id", "prompt", "budget", "compacted", "app_id", "project_id"],
    "context": ["user_id", "query", "budget", "app_id", "project_id"],
    "jobs": ["job_id", "status", "page", "page_size", "app_id", "project_id"],
}  # fmt: skip
IN_MESSAGE = ["sender_id", "sender_name", "role", "timestamp", "content", "tool_calls", "tool_call_id", "message_id"]
IN_ITEM = ["type", "text", "uri", "base64", "ext", "name", "extras"]


def survives(answer: Any) -> None:
    """An answer is one, whatever was asked."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        failed(answer, answer.status_code)


@pytest.mark.requirement("errors.never-500", "errors.422")
@calls
def test_any_value_in_any_field_is_taken_or_refused(api: Api, call: str) -> None:
    for field in FIELDS[call]:
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
            operators = [value, *({way: value} for way in ("eq", "ne", "gt", "in", "zzz")), {"in": [value]}, [value]]
            for predicate in operators:
                body = {"user_id": "a", "memory_type": "episode", "filters": {field: predicate}}
                survives(bare.post("get", body))
        survives(bare.post("search", {"user_id": "a", "query": "x", "filters": {"session_id": value}}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.requirement("errors.never-500")
def test_any_json_is_taken_or_refused(bare: Api) -> None:
    names = sorted({field for fields in FIELDS.values() for field in fields} - {"messages"})

    @settings(max_examples=60)
    @given(JSON | st.dictionaries(st.sampled_from(names), JSON, max_size=5))
    def check(body: Any) -> None:
        for call in CALLS:
            survives(bare.post(call, body))

    check()


@pytest.mark.requirement("errors.never-500")
def test_any_bytes_are_refused(bare: Api) -> None:
    @settings(max_examples=60)
    @given(st.binary(max_size=200))
    def check(body: bytes) -> None:
        for call in ("add", "search"):
            survives(bare.post(call, body))

    check()


PIECES = [
    "I live in ", "I love ", "My name is ", "I no longer ", "yesterday ", "on 31 February ", "in 99999999999 days ",
    "0000-00-00 ", "12/31/9999 ", "24:61 ", "99999 years ago ", "Oslo", ". ", "! ", "? ", "\n", "\u2028", "```\n", "- ",
    "1. ", "| a | b |", "http://x.y/z?q=1 ", "$5 ", "\"", "“", "(", "]", "{", "🙂", "İ", "ß", "\u0301", "日本", "مرحبا",
    "0" * 50, "a" * 300, "Traceback (most recent call last):\n", "FAILED ", "exit code 1", "null",
]  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
SAID = st.lists(st.sampled_from(PIECES) | TEXT, max_size=8).map("".join)
MOMENTS = st.sampled_from([1, T - DAY, T, T + 1000, T + DAY, 253_370_764_799_999])


@st.composite
def conversations(draw: st.DrawFn) -> list[Any]:
    """Messages of all roles, in any order, that say anything."""
    messages = []
    for _ in range(draw(st.integers(1, 6))):
        role = draw(st.sampled_from(["user", "user", "assistant", "tool"]))
        more: dict[str, Any] = {"sender_name": draw(st.none() | SAID.map(lambda name: name[:200]))}
        if role == "tool":
            more["tool_call_id"] = draw(st.sampled_from(["c1", "c2"]))
        if role == "assistant" and draw(st.booleans()):
            arguments = draw(SAID | st.sampled_from(["{}", "[]", '{"path": null}', '{"a": {"b": [1, 1e999]}}', "5"]))
            name = draw(SAID)[:200]
            more["tool_calls"] = [{"id": "c1", "function": {"name": name, "arguments": arguments}}]
        messages.append(said(draw(SAID), draw(MOMENTS), "alice" if role == "user" else "bot", role, **more))
    return messages


@pytest.mark.requirement("flush.extracted", "errors.never-500", "message.content", "message.sender_name")
def test_whatever_is_said_can_be_carved(shanghai: Api) -> None:
    sessions = count()

    @settings(max_examples=50)
    @given(conversations())
    def check(messages: list[Any]) -> None:
        session = f"s{next(sessions)}"
        shanghai.add(*messages, session=session)
        shanghai.flush(session)
        assert shanghai.waiting(session) == []

    check()
    for episode in shanghai.get(page_size=100):
        assert episode["subject"].strip()
        assert len(episode["subject"].splitlines()) == 1


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
def test_a_hostile_body_is_refused_by_every_call(bare: Api, name: str) -> None:
    for call in CALLS:
        assert bare.refused(call, HOSTILE[name])


@pytest.mark.requirement("errors.bounded")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[" * 65, "the body is nested deeper than 64 levels"),
        (b'{"a":' * 64 + b"[", "the body is nested deeper than 64 levels"),
        (b"[" + b"0," * 200_001, "the body has more than 200,000 values"),
        (b'["' + b"x" * 12_582_913 + b'"]', "a string is longer than 1,048,576 characters"),
    ],
)
def test_what_is_too_much_is_refused_before_it_is_parsed(bare: Api, body: bytes, message: str) -> None:
    assert bare.refused("add", body) == message  # though none of them is JSON to the end


@pytest.mark.requirement("errors.bounded")
def test_brackets_and_quotes_in_strings_count_for_nothing(api: Api) -> None:
    text = '[{"' * 1000 + "\\" * 101 + '"' + "]" * 500
    api.add(said(text))
    assert api.waiting()[0]["content"] == text


@pytest.mark.requirement("errors.bounded")
@calls
def test_a_body_that_is_too_long_is_refused(bare: Api, call: str) -> None:
    assert (
        bare.refused(call, b" " * (MAX_BODY + 1), 413)
        == f"the body is longer than {MAX_BODY:,} bytes; send less at once"
    )
    lying = bare.client.post(
        f"{PREFIX}/{call}", content=iter([b" " * 1_000_000] * 17), headers={"Content-Type": "application/json"}
    )
    assert failed(lying, 413)


@pytest.mark.requirement("errors.bounded", "message.content")
def test_the_longest_texts_are_taken_and_longer_ones_refused(api: Api) -> None:
    longest = "🙂" * 1_048_576  # which JSON may write as 12 bytes each
    api.add(said(longest))
    assert api.flush() == "extracted"
    assert len(api.get()) == 1
    before = api.everything()
    for content in (
        "x" * 1_048_577,
        [{"type": "text", "text": "x" * 1_048_577}],
        [{"type": "text", "text": "x"}] * 201,
    ):
        told = api.refused("add", {"session_id": "t", "messages": [said(content)]})
        assert "content" in told
    assert api.everything() == before


@pytest.mark.requirement("errors.never-500", "http.json")
@calls
def test_a_request_without_a_body_is_refused(bare: Api, call: str) -> None:
    told = failed(bare.client.post(f"{PREFIX}/{call}"), 422)
    assert told.startswith("Field required: the body, which is missing; send a JSON object")
