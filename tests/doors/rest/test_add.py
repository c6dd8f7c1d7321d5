"""Messages in: what a message may be, how it is kept, when it is carved, and under which ids."""

from __future__ import annotations

import re
from base64 import b64encode
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cofio import Kind
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .conftest import BIKE, CLIMBING, COFFEE, DAY, HOUR, MINUTE, Api, Json, T, agent_run, call, said, serving

A_CALL = call("c1", "search", {"q": "x"})


def sent(**fields: Any) -> Json:
    """An add of one message that has these fields; one that is ... is left out."""
    message = said("Hello.") | fields
    return {"session_id": "s", "messages": [{name: value for name, value in message.items() if value is not ...}]}


def item(**fields: Any) -> Json:
    """An add of one message that is one content item."""
    return sent(content=[fields])


# MessageItem.


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(sent(sender_id=...), "Field required: messages.0.sender_id", id="no-sender"),
        (sent(sender_id=""), "String should have at least 1 character: messages.0.sender_id"),
        (sent(sender_id=5), "Input should be a valid string: messages.0.sender_id"),
        (sent(sender_id=None), "Input should be a valid string: messages.0.sender_id"),
        (sent(sender_id="x" * 129), "String should have at most 128 characters: messages.0.sender_id"),
        (sent(sender_id="a b"), "String should match pattern '^[a-zA-Z0-9_.@+-]+$': messages.0.sender_id"),
        (sent(sender_id=".."), "Value error, '.' and '..' are reserved (path traversal): messages.0.sender_id"),
        (sent(sender_name=5), "Input should be a valid string: messages.0.sender_name"),
        (sent(role=...), "Field required: messages.0.role"),
        (sent(role="system"), "Input should be 'user', 'assistant' or 'tool': messages.0.role"),
        (sent(role=None), "Input should be 'user', 'assistant' or 'tool': messages.0.role"),
        (sent(timestamp=...), "Field required: messages.0.timestamp"),
        (sent(timestamp=0), "Input should be greater than 0: messages.0.timestamp"),
        (sent(timestamp=-1), "Input should be greater than 0: messages.0.timestamp"),
        (
            sent(timestamp="2026-05-28T11:30:36Z"),
            "Input should be a valid integer, unable to parse string as an integer: messages.0.timestamp",
        ),
        (
            sent(timestamp=1.5),
            "Input should be a valid integer, got a number with a fractional part: messages.0.timestamp",
        ),
        (sent(timestamp=None), "Input should be a valid integer: messages.0.timestamp"),
        (sent(content=...), "Field required: messages.0.content"),
        (sent(content=None), "Input should be a valid string: messages.0.content.str"),
        (sent(content=5), "Input should be a valid string: messages.0.content.str"),
        (sent(tool_calls=5), "Input should be a valid list: messages.0.tool_calls"),
        (sent(tool_call_id=5), "Input should be a valid string: messages.0.tool_call_id"),
        (sent(role="tool"), "Value error, tool_call_id is required when role is 'tool': messages.0"),
        (sent(role="tool", tool_call_id=""), "Value error, tool_call_id is required when role is 'tool': messages.0"),
    ],
)
@pytest.mark.requirement(
    "message.sender_id", "message.sender_name", "message.role", "message.timestamp", "message.content",
    "message.tool_calls", "message.tool_call_id", "message.tool-result", "errors.message",
)  # fmt: skip
def test_a_message_that_is_none_is_refused_and_nothing_is_kept(bare: Api, body: Json, message: str) -> None:
    assert bare.refused("add", body) == message


@pytest.mark.requirement(
    "message.sender_name", "message.tool_calls", "message.tool_call_id", "call.type", "message.role",
    "search.unprocessed", "function.arguments",
)  # fmt: skip
def test_a_message_waits_as_it_was_sent(api: Api) -> None:
    plain = {name: each for name, each in A_CALL.items() if name != "type"}
    api.add(
        said("Look it up.", sender_name="Alice"),
        said("One moment.", T + 1, "bot", "assistant", tool_calls=[plain], sender_name=None),
        said("found", T + 2, "bot", "tool", tool_call_id="c1", tool_calls=None),
        said("", T + 3, "bot", "assistant", tool_call_id=None),
    )
    base = {"app_id": "default", "project_id": "default", "session_id": "s"}
    assert api.waiting() == [
        {
            **base, "id": f"m_s_{T}_000", "sender_id": "alice", "sender_name": "Alice", "role": "user",
            "content": "Look it up.", "timestamp": "2026-05-28T11:30:36Z", "tool_calls": None, "tool_call_id": None,
        },
        {
            **base, "id": f"m_s_{T + 1}_001", "sender_id": "bot", "sender_name": None, "role": "assistant",
            "content": "One moment.", "timestamp": "2026-05-28T11:30:36.001000Z", "tool_calls": [A_CALL],
            "tool_call_id": None,
        },
        {
            **base, "id": f"m_s_{T + 2}_002", "sender_id": "bot", "sender_name": None, "role": "tool",
            "content": "found", "timestamp": "2026-05-28T11:30:36.002000Z", "tool_calls": None, "tool_call_id": "c1",
        },
        {
            **base, "id": f"m_s_{T + 3}_003", "sender_id": "bot", "sender_name": None, "role": "assistant",
            "content": "", "timestamp": "2026-05-28T11:30:36.003000Z", "tool_calls": None, "tool_call_id": None,
        },
    ]  # fmt: skip


@pytest.mark.requirement("message.sender_name")
def test_a_sender_s_name_is_what_an_episode_calls_them_and_no_key(api: Api) -> None:
    api.add(said("I live in Oslo.", sender="u_42", sender_name="Alice"))
    api.flush()
    (episode,) = api.get(owner="u_42")
    assert "Alice" in episode["episode"]
    assert "u_42" not in episode["episode"]
    assert episode["sender_ids"] == ["u_42"]
    assert api.get(owner="Alice") == []


@pytest.mark.requirement("message.owner", "message.not-owner", "message.each-user")
def test_each_user_who_spoke_has_the_episode_and_nobody_else(api: Api) -> None:
    api.add(
        said("Shall we go to Rome in June?"),
        said("Rome is warm in June.", T + 1000, "bot", "assistant"),
        said("I would rather go to Oslo.", T + 2000, "bob"),
        said("42", T + 3000, "calculator", "tool", tool_call_id="c1"),
    )
    api.flush()
    (alice,), (bob,) = api.get(owner="alice"), api.get(owner="bob")
    assert (alice["user_id"], bob["user_id"]) == ("alice", "bob")
    assert alice["sender_ids"] == bob["sender_ids"] == ["alice", "bot", "bob", "calculator"]
    assert alice["episode"] == bob["episode"]
    for nobody in ("bot", "calculator"):
        assert api.get(owner=nobody) == []
        assert api.search("Rome", nobody)["episodes"] == []


@pytest.mark.requirement("message.not-owner", "flush.extracted")
def test_a_session_in_which_no_user_spoke_makes_nobody_s_episode(api: Api) -> None:
    assert api.add(said("I am here.", T, "bot", "assistant"), said("Still.", T + 2 * DAY, "bot", "assistant")) == (
        "accumulated"
    )
    assert api.flush() == "extracted"
    assert api.flush() == "no_extraction"
    assert api.get(owner="bot") == []
    assert api.waiting() == []


@pytest.mark.requirement("message.bucket", "ids.form", "ids.day", "time.ms")
def test_the_timestamp_of_the_last_message_anchors_the_episode_and_its_day(api: Api) -> None:
    api.told(CLIMBING, COFFEE)
    api.told("I moved to Oslo.", session="later", at=T + 200 * DAY)
    newer, older = api.get()
    assert (older["id"], older["timestamp"]) == ("alice_ep_20260528_00000001", "2026-05-28T11:30:46Z")
    assert (newer["id"], newer["timestamp"]) == ("alice_ep_20261214_00000001", "2026-12-14T11:30:36Z")


@pytest.mark.requirement("ids.day", "time.rendered")
def test_the_day_of_an_id_is_that_of_the_display_zone(shanghai: Api) -> None:
    shanghai.told(CLIMBING, at=T + 5 * HOUR)
    (episode,) = shanghai.get()
    assert (episode["id"], episode["timestamp"]) == ("alice_ep_20260529_00000001", "2026-05-29T00:30:36+08:00")


@pytest.mark.requirement("ids.form", "ids.skill")
def test_ids_name_the_owner_the_kind_the_day_and_a_number(api: Api) -> None:
    api.told(CLIMBING, COFFEE, BIKE, sender="a_ep.b@c+d-e")
    api.run("one")
    api.run("two", at=T + HOUR)
    owner = "a_ep.b@c+d-e"
    (found,) = api.search("climbing in Yosemite", owner)["episodes"]
    assert found["id"] == f"{owner}_ep_20260528_00000001"
    assert all(re.fullmatch(re.escape(owner) + r"_af_20260528_\d{8}", fact["id"]) for fact in found["atomic_facts"])
    assert found["atomic_facts"]
    assert sorted(each["id"] for each in api.get("agent_case", "coder")) == [
        "coder_ac_20260528_00000001", "coder_ac_20260528_00000002",
    ]  # fmt: skip
    assert [each["id"] for each in api.get("agent_skill", "coder")] == ["coder_sk_20260528_00000001"]


@pytest.mark.requirement("ids.once", "delete.id")
def test_a_number_is_not_given_again_when_its_record_is_deleted(api: Api) -> None:
    for n in range(3):
        api.told(f"I live in house {n}.", session=f"s{n}", at=T + n * HOUR)
        (episode,) = api.get()
        assert episode["id"] == f"alice_ep_20260528_0000000{n + 1}"
        api.ok("delete", id=episode["id"])


@pytest.mark.requirement("ids.once", "delete.owner", "delete.all", "delete.session")
@pytest.mark.parametrize(
    "target",
    [
        {"session_id": "s"},
        {"user_id": "alice"},
        {"all": True},
    ],
)
def test_a_number_is_not_given_again_when_more_is_deleted(api: Api, target: Json) -> None:
    api.told(CLIMBING)
    api.ok("delete", **target)
    assert api.get() == []
    api.told(COFFEE, session="other")
    assert [each["id"] for each in api.get()] == ["alice_ep_20260528_00000002"]


# Timestamps.


@pytest.mark.requirement("time.seconds", "time.ms")
@pytest.mark.parametrize(
    ("sent_as", "shown"),
    [
        (1779967836000, "2026-05-28T11:30:36Z"),
        (1779967836, "2026-05-28T11:30:36Z"),
        (1779967836123, "2026-05-28T11:30:36.123000Z"),
        (10**12, "2001-09-09T01:46:40Z"),
        (1, "1970-01-01T00:00:01Z"),
        (253_370_764_799_999, "9998-12-31T23:59:59.999000Z"),
    ],
)
def test_times_are_milliseconds_and_small_ones_seconds(api: Api, sent_as: int, shown: str) -> None:
    api.add(said("Hello there.", sent_as))
    assert [each["timestamp"] for each in api.waiting()] == [shown]
    api.flush()
    assert [each["timestamp"] for each in api.get()] == [shown]


@pytest.mark.requirement("time.bounds", "errors.never-500")
@pytest.mark.parametrize("beyond", [10**12 - 1, 253_370_764_800_000, 10**18, 10**40, 10**400])
def test_a_time_that_no_calendar_has_is_refused(bare: Api, beyond: int) -> None:
    assert "messages.0.timestamp" in bare.refused("add", sent(timestamp=beyond))


@pytest.mark.requirement("time.utc", "time.rendered", "time.stored", "settings.zone")
def test_another_zone_shows_the_same_moments_otherwise(store: StoreAddress) -> None:
    shown, stored = {}, {}
    for zone in ("UTC", "Asia/Shanghai", "America/St_Johns"):
        with serving(store, ZoneInfo(zone), embedder=HashedEmbedder()) as (api, _):
            if zone == "UTC":
                api.told(CLIMBING)
                api.run("run")
                api.add(said("Bye.", T + HOUR), session="open")
            times = {
                api.get(filters={"session_id": "s"})[0]["timestamp"],
                api.search("climbing in Yosemite", filters={"session_id": "s"})["episodes"][0]["timestamp"],
            }
            later = {api.get("agent_case", "coder")[0]["timestamp"], api.waiting("open")[0]["timestamp"]}
            shown[zone] = (*times, *sorted(later))
            stored[zone] = api.everything()
    assert shown == {
        "UTC": ("2026-05-28T11:30:36Z", "2026-05-28T11:30:46Z", "2026-05-28T12:30:36Z"),
        "Asia/Shanghai": (
            "2026-05-28T19:30:36+08:00", "2026-05-28T19:30:46+08:00", "2026-05-28T20:30:36+08:00",
        ),
        "America/St_Johns": (
            "2026-05-28T09:00:36-02:30", "2026-05-28T09:00:46-02:30", "2026-05-28T10:00:36-02:30",
        ),
    }  # fmt: skip
    assert stored["UTC"] == stored["Asia/Shanghai"] == stored["America/St_Johns"]


# ContentItem.


@pytest.mark.requirement(
    "content.type", "content.text", "content.uri", "content.base64", "content.ext", "content.name", "content.extras",
    "content.one", "content.unknown",
)  # fmt: skip
@pytest.mark.parametrize(
    "body",
    [
        item(text="x"),
        item(type="video", uri="http://x"),
        item(type=None, text="x"),
        item(type="text"),
        item(type="text", text=None),
        item(type="text", text=5),
        item(type="text", uri="http://x"),
        item(type="text", text="x", uri="http://x"),
        item(type="text", text="x", base64="eA=="),
        item(type="pdf", uri="http://x", base64="eA=="),
        item(type="pdf", uri=5),
        item(type="pdf", base64=5),
        item(type="text", text="x", ext=5),
        item(type="text", text="x", name=[]),
        item(type="text", text="x", extras="caption"),
        item(type="text", text="x", extras=[]),
        item(type="text", text="x", zzz=1),
        sent(content=[5]),
        sent(content=["x"]),
        sent(content=[None]),
        sent(content={"type": "text", "text": "x"}),
    ],
)
def test_an_item_that_is_none_is_refused_and_nothing_is_kept(bare: Api, body: Json) -> None:
    assert "messages.0.content" in bare.refused("add", body)


@pytest.mark.requirement("content.unknown", "errors.message")
def test_a_field_that_an_item_does_not_have_is_told_as_the_product_does(api: Api) -> None:
    body = item(type="text", text="x", zzz=1)
    assert api.refused("add", body) == "Input should be a valid string: messages.0.content.str"


@pytest.mark.requirement("content.type", "content.extras", "content.ext", "content.name", "message.shorthand")
def test_text_items_come_back_as_they_were_and_are_memory(api: Api) -> None:
    items = [
        {"type": "text", "text": "I live in Oslo."},
        {"type": "text", "text": "<b>I work as a nurse.</b>", "ext": "html", "name": "a.html",
         "extras": {"caption": "é", "pages": [1, {"a": None}]}},
    ]  # fmt: skip
    api.add(said(items), said("I have a dog.", T + 1000), said([], T + 2000))
    assert [each["content"] for each in api.waiting()] == [items, "I have a dog.", []]
    api.flush()
    for query in ("Oslo", "nurse", "dog"):
        assert len(api.search(query)["episodes"]) == 1


@pytest.mark.requirement("message.shorthand")
def test_a_string_and_one_text_item_are_the_same_memory(api: Api) -> None:
    api.add(said(CLIMBING, sender="one"), session="one")
    api.add(said([{"type": "text", "text": CLIMBING}], sender="two"), session="two")
    api.flush("one")
    api.flush("two")
    one, two = api.get(owner="one")[0], api.get(owner="two")[0]
    assert one["summary"].replace("One", "Two") == two["summary"]


@pytest.mark.requirement("errors.415", "content.other", "content.uri", "content.base64", "add.whole")
@pytest.mark.parametrize(
    "payload",
    [
        {"uri": "https://x.example/a"},
        {"uri": "file:///etc/passwd"},
        {"base64": "eA==", "ext": "pdf"},
        {"text": "x"},
        {},
    ],
)
def test_what_is_not_text_refuses_the_whole_batch(bare: Api, payload: Json) -> None:
    kinds = ["image", "audio", "doc", "pdf"] + (["html", "email"] if "base64" not in payload else [])
    for kind, mode in product(kinds, [False, True]):
        whole = [said("I live in Oslo."), said([{"type": "text", "text": "x"}, {"type": kind, **payload}], T + 1)]
        told = bare.refused("add", {"session_id": "s", "messages": whole, "async_mode": mode}, 415)
        assert told


# ToolCall and ToolFunction.


@pytest.mark.requirement("call.id", "call.type", "call.function", "function.name", "function.arguments")
@pytest.mark.parametrize(
    ("broken", "where"),
    [
        ({"function": A_CALL["function"]}, "id"),
        ({**A_CALL, "id": 5}, "id"),
        ({**A_CALL, "id": None}, "id"),
        ({**A_CALL, "type": 5}, "type"),
        ({"id": "c1"}, "function"),
        ({**A_CALL, "function": None}, "function"),
        ({**A_CALL, "function": {"arguments": "{}"}}, "function.name"),
        ({**A_CALL, "function": {"name": 5, "arguments": "{}"}}, "function.name"),
        ({**A_CALL, "function": {"name": "f"}}, "function.arguments"),
        ({**A_CALL, "function": {"name": "f", "arguments": {"q": "x"}}}, "function.arguments"),
        ({**A_CALL, "function": {"name": "f", "arguments": None}}, "function.arguments"),
    ],
)
def test_a_call_that_is_none_is_refused(bare: Api, broken: Json, where: str) -> None:
    told = bare.refused("add", sent(role="assistant", tool_calls=[A_CALL, broken]))
    assert told.endswith(f": messages.0.tool_calls.1.{where}")


@pytest.mark.requirement("function.arguments", "call.id")
@pytest.mark.parametrize("arguments", ["", "not json", "[1", '{"a": 1e400}', "☃"])
def test_arguments_are_a_text_whatever_is_in_it(api: Api, arguments: str) -> None:
    odd = {"id": "", "type": "function", "function": {"name": "", "arguments": arguments}}
    api.add(said("Do it."), said("", T + 1, "bot", "assistant", tool_calls=[odd]))
    assert api.waiting()[1]["tool_calls"] == [odd]
    assert api.flush() == "extracted"


# Sessions.


@pytest.mark.requirement("add.session_id", "flush.session_id")
@pytest.mark.parametrize("call_", ["add", "flush"])
@pytest.mark.parametrize(
    ("session", "message"),
    [
        (None, "Input should be a valid string: session_id"),
        (5, "Input should be a valid string: session_id"),
        ("", "String should have at least 1 character: session_id"),
        ("x" * 129, "String should have at most 128 characters: session_id"),
        ("a\0b", "scope: holds a NUL character"),
    ],
)
def test_a_session_has_a_name_of_1_to_128_characters(bare: Api, call_: str, session: Any, message: str) -> None:
    assert bare.refused(call_, {"messages": [said("x")], "session_id": session}) == message


@pytest.mark.requirement("add.session_id")
@pytest.mark.parametrize("session", ["x", "é" * 128, "a/b", "..", "demo 001", "'; DROP TABLE record; --", "\n"])
def test_a_session_may_be_called_anything(api: Api, session: str) -> None:
    api.add(said(CLIMBING), session=session)
    assert [each["session_id"] for each in api.waiting(session)] == [session]
    assert api.flush(session) == "extracted"
    assert [each["session_id"] for each in api.get(filters={"session_id": session})] == [session]


@pytest.mark.requirement("add.messages", "add.message_count")
def test_a_batch_has_1_to_500_messages(api: Api) -> None:
    many = [said(f"Number {n}.", T + n) for n in range(501)]
    told = api.refused("add", {"session_id": "s", "messages": many})
    assert told == "List should have at most 500 items after validation, not 501: messages"
    assert api.everything() == []
    assert api.ok("add", session_id="s", messages=many[:500])["message_count"] == 500
    odd: list[Any] = [None, {}, "x", 5]
    for wrong in odd:
        assert api.refused("add", {"session_id": "s", "messages": wrong}) == "Input should be a valid list: messages"


@pytest.mark.requirement("add.accumulates", "add.accumulated", "add.message_count", "consistency.read")
def test_messages_of_a_session_gather_over_calls_and_of_others_do_not(api: Api) -> None:
    assert api.ok("add", session_id="s", messages=[said(CLIMBING)]) == {"message_count": 1, "status": "accumulated"}
    assert api.add(said(COFFEE, T + 1)) == "accumulated"
    assert api.add(said(BIKE, T + 2), session="S") == "accumulated"
    assert [each["content"] for each in api.waiting()] == [CLIMBING, COFFEE]
    assert [each["content"] for each in api.waiting("S")] == [BIKE]
    api.flush()
    assert api.waiting() == []
    assert len(api.waiting("S")) == 1
    assert len(api.get()) == 1


@pytest.mark.requirement("add.order")
def test_messages_are_ordered_by_time_and_as_sent_where_that_is_the_same(api: Api) -> None:
    api.add(*(said(f"b{n}") for n in range(25)))
    api.add(said("late", T + MINUTE), said("early", T - MINUTE))
    api.add(*(said(f"c{n}") for n in range(3)))
    expected = ["early", *(f"b{n}" for n in range(25)), "c0", "c1", "c2", "late"]
    assert [each["content"] for each in api.waiting()] == expected


@pytest.mark.requirement("add.extracted", "add.tail", "consistency.read")
def test_a_boundary_makes_memory_of_what_came_before_it_and_the_rest_waits(api: Api) -> None:
    assert api.add(said(CLIMBING), said(COFFEE, T + MINUTE)) == "accumulated"
    assert api.add(said("I moved to Oslo.", T + 2 * DAY)) == "extracted"
    (episode,) = api.get()
    assert episode["timestamp"] == "2026-05-28T11:31:36Z"
    assert [each["content"] for each in api.waiting()] == ["I moved to Oslo."]
    assert api.search("coffee shop")["episodes"][0]["id"] == episode["id"]
    assert api.flush() == "extracted"
    assert len(api.get()) == 2


@pytest.mark.requirement("ids.day", "add.extracted")
def test_a_day_ends_where_the_display_zone_says(shanghai: Api) -> None:
    assert shanghai.add(said(CLIMBING, T + 4 * HOUR), said(COFFEE, T + 5 * HOUR)) == "extracted"


@pytest.mark.requirement("flush.extracted", "flush.no_extraction")
def test_a_flush_says_whether_there_was_anything(api: Api) -> None:
    assert api.flush() == "no_extraction"
    api.add(said(CLIMBING))
    assert api.flush() == "extracted"
    assert api.flush() == "no_extraction"
    assert api.flush("other") == "no_extraction"


@pytest.mark.requirement("add.extras")
def test_what_is_not_known_is_passed_over_by_add_and_flush(api: Api) -> None:
    body = {"session_id": "s", "zzz": 1, "messages": [said(CLIMBING, zzz=[], tool_calls=[{**A_CALL, "zzz": 1}])]}
    assert api.ok("add", **body)["status"] == "accumulated"
    assert api.ok("flush", session_id="s", zzz=None) == {"status": "extracted"}


@pytest.mark.requirement("add.whole", "message.message_id")
def test_nothing_of_a_batch_is_kept_when_a_message_is_refused(api: Api) -> None:
    good = [said(CLIMBING), said(COFFEE, T + 1, message_id="mine")]
    for bad in (
        said("a\0b", T + 2), said("x", T + 2, "bot", "tool"), said("else", T + 2, message_id="mine"),
        said("x", T + 2, sender_name="n" * 300), said("x" * 1_048_577, T + 2),
    ):  # fmt: skip
        answer = api.post("add", {"session_id": "s", "messages": [*good, bad]})
        assert answer.status_code in (409, 422), bad
        assert api.everything() == []


@pytest.mark.requirement("message.idempotent")
@pytest.mark.parametrize("carved", [False, True])
def test_a_body_that_is_sent_again_adds_nothing(api: Api, carved: bool) -> None:
    batch = [said(CLIMBING), said(CLIMBING), said(COFFEE), *agent_run(at=T + MINUTE)]
    api.add(*batch)
    if carved:
        api.flush()
    before = api.everything()
    assert api.add(*batch) == "accumulated"
    assert api.everything() == before
    assert api.flush() == ("no_extraction" if carved else "extracted")


@pytest.mark.requirement("message.message_id", "message.idempotent")
@pytest.mark.parametrize("carved", [False, True])
def test_a_message_that_names_itself_is_kept_once(api: Api, carved: bool) -> None:
    api.add(said(CLIMBING, message_id="x1"), said(COFFEE, T + 1, message_id="x2"))
    if carved:
        api.flush()
    before = api.everything()
    assert api.add(said(COFFEE, T + 1, message_id="x2"), said(CLIMBING, message_id="x1")) == "accumulated"
    told = api.refused("add", {"session_id": "s", "messages": [said("Other.", message_id="x1")]}, 409)
    assert "x1" in told
    assert api.everything() == before
    if not carved:
        assert [each["id"] for each in api.waiting()] == ["x1", "x2"]
    api.add(said("Other.", message_id="x1"), session="another")  # names are a session's own


@pytest.mark.requirement("message.message_id")
@pytest.mark.parametrize("wrong", ["", 5, "x" * 1025, []])
def test_a_message_s_own_id_is_a_text(bare: Api, wrong: Any) -> None:
    assert "messages.0.message_id" in bare.refused("add", sent(message_id=wrong))


@pytest.mark.requirement("consistency.write", "consistency.read")
def test_what_was_acknowledged_is_there_for_the_next_who_opens_the_store(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        api.told(CLIMBING)
        api.add(said(COFFEE, T + MINUTE), session="open")
        assert len(api.search("Yosemite", method="keyword")["episodes"]) == 1
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        assert len(api.get()) == 1
        assert len(api.search("Yosemite", method="keyword")["episodes"]) == 1
        assert [each["content"] for each in api.waiting("open")] == [COFFEE]


@pytest.mark.requirement("flush.extracted", "errors.never-500")
def test_whatever_message_is_taken_can_be_carved(api: Api) -> None:
    def long(size: int) -> Json:
        function = {"name": "f", "arguments": "a" * size}
        return {
            "session_id": "s",
            "messages": [
                said("Go."),
                said("", T + 1, "bot", "assistant", tool_calls=[{"id": "", "function": function}]),
            ],
        }

    taken, refused = 900_000, 1_048_576
    while refused - taken > 1:
        middle = (taken + refused) // 2
        if api.post("add", long(middle)).status_code == 200:
            taken = middle
            api.ok("delete", session_id="s")
        else:
            refused = middle
    api.ok("add", **long(taken))
    assert api.flush() == "extracted"


@pytest.mark.requirement("add.accumulates", "time.seconds", "errors.never-500")
def test_many_messages_of_one_moment_are_all_kept(api: Api) -> None:
    for n in range(60):
        api.add(said(f"Number {n}."))
    kept = {record.text for record in api.engine.export() if record.kind is Kind.TURN}
    assert kept == {f"Number {n}." for n in range(60)}


@pytest.mark.requirement("add.messages", "add.order", "flush.extracted")
def test_a_long_session_is_carved_whole_and_in_order(api: Api) -> None:
    said_ = [said(f"I counted to {n}.", T + n) for n in range(600)]
    api.add(*said_[:300])
    api.add(*said_[300:])
    assert api.flush() == "extracted"
    assert api.waiting() == []
    texts = [each["episode"] for each in api.get(page_size=100, sort_order="asc")]
    assert len(texts) > 1
    places = ["".join(texts).index(f"counted to {n}.") for n in range(600)]
    assert places == sorted(places)


@pytest.mark.requirement("message.not-owner", "add.accumulated", "add.extracted")
def test_assistants_alone_wait_for_a_user_but_not_for_ever(api: Api) -> None:
    alone = [said(f"Step {n}.", T + n, "bot", "assistant") for n in range(500)]
    assert api.add(*alone[:499]) == "accumulated"
    named = {"agent_id": "bot", "query": "steps", "filters": {"session_id": "s"}}
    assert len(api.ok("search", **named)["unprocessed_messages"]) == 499
    assert api.add(alone[499]) == "extracted"
    assert 0 < len(api.ok("search", **named)["unprocessed_messages"]) < 100


@pytest.mark.requirement("content.read", "content.base64")
def test_a_page_and_a_mail_are_kept_as_what_they_say(api: Api) -> None:
    page = b64encode(b"<title>Menu</title><script>x()</script><p>Soup of the day: <b>leek</b></p>").decode()
    mail = b64encode(b"From: Anna <anna@example.org>\nSubject: Friday\n\nDinner is at eight.\n").decode()
    api.add(
        said([
            {"type": "text", "text": "I got this:"},
            {"type": "html", "base64": page, "ext": "html"},
            {"type": "email", "base64": mail, "ext": "eml"},
        ])
    )  # fmt: skip
    (waiting,) = api.waiting()
    assert [item["type"] for item in waiting["content"]] == ["text", "html", "email"]
    assert "leek" in waiting["content"][1]["text"]
    assert "x()" not in waiting["content"][1]["text"]
    assert "Dinner is at eight." in waiting["content"][2]["text"]
    assert all("base64" not in item for item in waiting["content"])
    assert api.flush() == "extracted"
    (found,) = api.search("leek soup", top_k=1)["episodes"]
    assert found["session_id"] == "s"


@pytest.mark.requirement("content.read", "content.uri")
def test_an_address_is_read_only_where_the_owner_allows_it(store: StoreAddress, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "menu.txt").write_text("Soup of the day: leek")
    (tmp_path / "secret.txt").write_text("the code is 1234")
    with serving(store, embedder=HashedEmbedder(), fetch=str(tmp_path / "notes")) as (api, _):
        menu = {"type": "doc", "uri": (tmp_path / "notes" / "menu.txt").as_uri()}
        api.add(said([menu]))
        assert "leek" in api.waiting()[0]["content"][0]["text"]
        for uri in ((tmp_path / "secret.txt").as_uri(), "https://example.org/menu.txt", "http://127.0.0.1:1/x"):
            body = {"session_id": "t", "messages": [said("I live in Oslo."), said([{"type": "doc", "uri": uri}], T)]}
            assert "1234" not in api.refused("add", body, 415)
        assert api.waiting("t") == []
