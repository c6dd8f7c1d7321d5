"""Messages in: what a message may be, how it is kept, when it is carved, and under which ids."""

from __future__ import annotations

import re
from base64 import b64encode
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder

from .conftest import BIKE, CLIMBING, COFFEE, DAY, HOUR, MINUTE, Api, Json, T, call, said, serving

A_CALL = call("c1", "search", {"q": "x"})


# MessageItem.


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


@pytest.mark.requirement("message.owner", "message.not-owner", "message.each-user", "message.sender_name")
def test_each_user_who_spoke_has_the_episode_and_nobody_else(api: Api) -> None:
    api.add(
        said("Shall we go to Rome in June?", sender="u_42", sender_name="Alice"),
        said("Rome is warm in June.", T + 1000, "bot", "assistant"),
        said("I would rather go to Oslo.", T + 2000, "bob"),
        said("42", T + 3000, "calculator", "tool", tool_call_id="c1"),
    )
    api.flush()
    (alice,), (bob,) = api.get(owner="u_42"), api.get(owner="bob")
    assert (alice["user_id"], bob["user_id"]) == ("u_42", "bob")
    assert alice["sender_ids"] == bob["sender_ids"] == ["u_42", "bot", "bob", "calculator"]
    assert alice["episode"] == bob["episode"]
    assert "Alice" in alice["episode"]  # a name is what an episode calls a sender, and no key
    assert "u_42" not in alice["episode"]
    for nobody in ("bot", "calculator", "Alice"):
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


@pytest.mark.requirement("ids.day", "time.rendered", "add.extracted")
def test_days_are_those_of_the_display_zone(shanghai: Api) -> None:
    assert shanghai.add(said(CLIMBING, T + 4 * HOUR), said(COFFEE, T + 5 * HOUR)) == "extracted"
    shanghai.flush()
    later, earlier = shanghai.get()
    assert earlier["id"] == "alice_ep_20260528_00000001"
    assert (later["id"], later["timestamp"]) == ("alice_ep_20260529_00000001", "2026-05-29T00:30:36+08:00")


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


# Timestamps.


@pytest.mark.requirement("time.seconds", "time.ms")
def test_times_are_milliseconds_and_small_ones_seconds(api: Api) -> None:
    for sent_as, shown in (
        (1779967836000, "2026-05-28T11:30:36Z"),
        (1779967836, "2026-05-28T11:30:36Z"),
        (1779967836123, "2026-05-28T11:30:36.123000Z"),
        (10**12, "2001-09-09T01:46:40Z"),
        (1, "1970-01-01T00:00:01Z"),
        (253_370_764_799_999, "9998-12-31T23:59:59.999000Z"),
    ):
        session = f"s{sent_as}"
        api.add(said("Hello there.", sent_as), session=session)
        assert [each["timestamp"] for each in api.waiting(session)] == [shown]
        api.flush(session)
        assert [each["timestamp"] for each in api.get(filters={"session_id": session})] == [shown]


@pytest.mark.requirement("time.utc", "time.rendered", "time.stored", "settings.zone")
def test_another_zone_shows_the_same_moments_otherwise(store: StoreAddress) -> None:
    shown, stored = {}, {}
    for zone in ("UTC", "America/St_Johns"):
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
        "America/St_Johns": (
            "2026-05-28T09:00:36-02:30", "2026-05-28T09:00:46-02:30", "2026-05-28T10:00:36-02:30",
        ),
    }  # fmt: skip
    assert stored["UTC"] == stored["America/St_Johns"]


# ContentItem.


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
    api.add(said(CLIMBING, sender="one"), session="one")
    api.add(said([{"type": "text", "text": CLIMBING}], sender="two"), session="two")
    api.flush("one")
    api.flush("two")
    assert api.get(owner="one")[0]["summary"].replace("One", "Two") == api.get(owner="two")[0]["summary"]


@pytest.mark.requirement("errors.415", "content.other", "content.uri", "content.base64", "add.whole")
@pytest.mark.parametrize("kind", ["image", "audio", "doc", "pdf", "html", "email"])
def test_what_is_not_text_refuses_the_whole_batch(bare: Api, kind: str) -> None:
    payloads: list[Json] = [{"uri": "https://x.example/a"}, {"uri": "file:///etc/passwd"}, {"text": "x"}, {}]
    if kind not in ("html", "email"):
        payloads.append({"base64": "eA==", "ext": "pdf"})
    for payload, mode in product(payloads, [False, True]):
        whole = [said("I live in Oslo."), said([{"type": "text", "text": "x"}, {"type": kind, **payload}], T + 1)]
        assert bare.refused("add", {"session_id": "s", "messages": whole, "async_mode": mode}, 415)


# ToolCall and ToolFunction.


@pytest.mark.requirement("function.arguments", "call.id")
def test_arguments_are_a_text_whatever_is_in_it(api: Api) -> None:
    odd = [
        {"id": "", "type": "function", "function": {"name": "", "arguments": text}}
        for text in ("", "not json", "[1", '{"a": 1e400}', "☃")
    ]
    api.add(said("Do it."), said("", T + 1, "bot", "assistant", tool_calls=odd))
    assert api.waiting()[1]["tool_calls"] == odd
    assert api.flush() == "extracted"


# Sessions.


@pytest.mark.requirement("add.session_id")
def test_a_session_may_be_called_anything(api: Api) -> None:
    for session in ("x", "é" * 128, "a/b", "..", "demo 001", "'; DROP TABLE record; --", "\n"):
        api.add(said(CLIMBING), session=session)
        assert [each["session_id"] for each in api.waiting(session)] == [session]
        assert api.flush(session) == "extracted"
        assert [each["session_id"] for each in api.get(filters={"session_id": session})] == [session]


@pytest.mark.requirement("add.order", "add.accumulates")
def test_messages_are_ordered_by_time_and_as_sent_where_that_is_the_same(api: Api) -> None:
    api.add(*(said(f"b{n}") for n in range(25)))
    api.add(said("late", T + MINUTE), said("early", T - MINUTE))
    for n in range(20):
        api.add(said(f"c{n}"))
    expected = ["early", *(f"b{n}" for n in range(25)), *(f"c{n}" for n in range(20)), "late"]
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


@pytest.mark.requirement("add.whole", "message.message_id", "time.bounds", "errors.never-500")
def test_nothing_of_a_batch_is_kept_when_a_message_is_refused(bare: Api) -> None:
    good = [said(CLIMBING), said(COFFEE, T + 1, message_id="mine")]
    for bad in (
        said("a\0b", T + 2), said("x", T + 2, "bot", "tool"), said("else", T + 2, message_id="mine"),
        said("x", T + 2, sender_name="n" * 300), said("x" * 1_048_577, T + 2),
    ):  # fmt: skip
        answer = bare.post("add", {"session_id": "s", "messages": [*good, bad]})
        assert answer.status_code in (409, 422), bad
        assert bare.everything() == []
    for beyond in (10**12 - 1, 253_370_764_800_000, 10**18, 10**40, 10**400):  # times that no calendar has
        body = {"session_id": "s", "messages": [*good, said("x", beyond)]}
        assert "messages.2.timestamp" in bare.refused("add", body)
    for call_ in ("add", "flush"):
        assert bare.refused(call_, {"messages": good, "session_id": "a\0b"}) == "scope: holds a NUL character"


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
def test_the_longest_message_that_is_taken_can_be_carved(api: Api) -> None:
    def send(size: int) -> int:
        calls = [{"id": "", "function": {"name": "f", "arguments": "a" * size}}]
        messages = [said("Go."), said("", T + 1, "bot", "assistant", tool_calls=calls)]
        return api.post("add", {"session_id": "s", "messages": messages}).status_code

    taken, refused = 900_000, 1_048_576
    while refused - taken > 1:
        middle = (taken + refused) // 2
        if send(middle) == 200:
            taken = middle
            api.ok("delete", session_id="s")
        else:
            refused = middle
    assert send(taken) == 200
    assert api.flush() == "extracted"


@pytest.mark.requirement("add.messages", "add.message_count", "add.order", "flush.extracted")
def test_a_long_session_is_carved_whole_and_in_order(api: Api) -> None:
    messages = [said(f"I counted to {n}.", T + n) for n in range(600)]
    api.add(*messages[:500])
    api.add(*messages[500:])
    assert api.flush() == "extracted"
    assert api.waiting() == []
    texts = [each["episode"] for each in api.get(page_size=100, sort_order="asc")]
    assert len(texts) > 1
    places = ["".join(texts).index(f"counted to {n}.") for n in range(600)]
    assert places == sorted(places)


@pytest.mark.requirement("message.not-owner", "add.accumulated", "add.extracted")
def test_assistants_alone_wait_for_a_user_but_not_for_ever(api: Api) -> None:
    alone = [said(f"Step {n}.", T + n, "bot", "assistant") for n in range(500)]
    assert api.add(*alone[:496]) == "accumulated"
    named = {"agent_id": "bot", "query": "steps", "filters": {"session_id": "s"}}
    assert len(api.ok("search", **named)["unprocessed_messages"]) == 496
    assert api.add(*alone[496:]) == "extracted"
    assert 0 < len(api.ok("search", **named)["unprocessed_messages"]) < 100


@pytest.mark.requirement("content.read", "content.base64")
@pytest.mark.usefixtures("process")
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
