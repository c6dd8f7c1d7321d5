"""Conversations of other programs are read as they were, the same each time, or refused with the place named."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import Invalid
from cofio.extract.extractor import Call, Message
from cofio.importers.chats import chats, transcript
from cofio.importers.chats.chats import Chats, Options
from cofio.importers.chats.file_messages import parse_time
from cofio.importers.chats.senders import make_sender_id
from cofio.values.errors import LimitExceeded
from cofio.values.records import MAX_TEXT, Draft, Scope

THEN = datetime(2026, 5, 28, 11, 30, tzinfo=UTC)
OPTIONS = Options(date=THEN, zone=UTC)
OSLO = timezone(timedelta(hours=2))
Read = list[tuple[str, list[Message]]]


def opened(content: str | bytes, name: str = "chat.txt", options: Options = OPTIONS) -> Chats:
    """The conversations of a file with that content."""
    return Chats(name, io.BytesIO(content.encode() if isinstance(content, str) else content), options)


def read(content: str | bytes, name: str = "chat.txt", options: Options = OPTIONS) -> Read:
    """All of them, by their sessions."""
    found = opened(content, name, options)
    count = found.check()
    both = [[(each.session, list(each.messages)) for each in found.conversations()] for _ in range(2)]
    assert both[0] == both[1]
    assert sum(len(messages) for _, messages in both[0]) == count
    for session, messages in both[0]:
        assert len({message.id for message in messages}) == len(messages)
        assert all(before.at < after.at for before, after in pairwise(messages))
        assert all(re.fullmatch(r"[a-zA-Z0-9_.@+-]{1,128}", message.sender) for message in messages)
        for message in messages:  # it can be stored
            Draft(
                scope=Scope("session", session), text=message.text, title="-", author=message.name or "", id=message.id
            )
    return both[0]


def one(content: str | bytes, name: str = "chat.txt", options: Options = OPTIONS) -> list[Message]:
    """The messages of the only conversation."""
    ((_, messages),) = read(content, name, options)
    return messages


def lines(messages: Sequence[Message]) -> list[tuple[str, str, str]]:
    """What is told of messages most often."""
    return [(message.role, message.sender, message.text) for message in messages]


def refused(content: str | bytes, name: str = "chat.json", options: Options = OPTIONS) -> str:
    """What is wrong with a file."""
    with pytest.raises(Invalid) as caught:
        opened(content, name, options).check()
    return str(caught.value)


HELLO = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
SAID = [("user", "user", "hello"), ("assistant", "assistant", "hi")]


# OpenAI's messages.


@pytest.mark.parametrize(
    ("written", "format"),
    [
        (json.dumps(HELLO, indent=2), "openai"),
        ("\ufeff" + json.dumps({"messages": HELLO}), "openai"),
        (json.dumps([{"messages": HELLO}]), "openai"),
        (json.dumps([HELLO]), "openai"),
        ("\n\n" + "\r\n\r\n".join(map(json.dumps, HELLO)) + "\r\n\r\n", "jsonl"),
        ("\ufeff" + "\n".join(map(json.dumps, HELLO)), "jsonl"),
        ("\ufeffHuman: hello\r\n\r\nAI: hi\r\n", "text"),
    ],
)
def test_a_format_is_told_by_its_content(written: str, format: str) -> None:
    assert opened(written).format == format
    assert lines(one(written)) == SAID


def test_a_format_may_be_chosen() -> None:
    assert lines(one(json.dumps(HELLO[0]), options=replace(OPTIONS, format="jsonl"))) == SAID[:1]
    assert "is not JSON" in refused("Anna: hi", options=replace(OPTIONS, format="openai"))
    assert "line 1: is not JSON" in refused("Anna: hi", options=replace(OPTIONS, format="jsonl"))
    assert "it has no mapping" in refused(json.dumps(HELLO), options=replace(OPTIONS, format="chatgpt"))
    assert 'nor a message such as "Anna: hello"' in refused("[]", options=replace(OPTIONS, format="text"))


def test_only_texts_that_someone_said_are_taken_and_others_counted() -> None:
    parts = [
        {"type": "text", "text": "one"}, {"type": "input_text", "text": "two"},
        {"type": "output_text", "text": "three"},
        {"type": "text", "text": {"value": "four"}}, {"type": "image_url", "image_url": {"url": "data:…"}}, 5, None,
    ]  # fmt: skip
    written = [
        {"role": "system", "content": "be kind"}, {"role": "developer", "content": "be brief"}, *HELLO,
        {"role": "user", "content": parts}, {"role": "user", "content": " \n"}, {"role": "user"},
        {"role": "assistant", "content": None},
    ]  # fmt: skip
    found = opened(json.dumps(written))
    assert found.check() == 3
    assert found.tally.left_out == {"system messages": 2, "empty messages": 3, "images and other parts": 3}
    assert lines(one(json.dumps(written))) == [*SAID, ("user", "user", "one\ntwo\nthree\nfour")]


def test_tool_calls_and_their_results_come_along() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"in": "Oslo"}'}}
    free = {"id": "c2", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    asked, first, second = one(
        json.dumps([
            {"role": "assistant", "content": None, "tool_calls": [call, free]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "tool", "tool_call_id": "c2", "name": "a shell", "content": "a.txt"},
        ])
    )  # fmt: skip
    assert asked.calls == (
        Call(id="c1", name="weather", arguments='{"in": "Oslo"}'), Call(id="c2", name="shell", arguments="ls"),
    )  # fmt: skip
    assert (first.role, first.sender, first.name, first.answers) == ("tool", "weather", "weather", "c1")
    assert (second.sender, second.name, second.answers) == ("a_shell", "a shell", "c2")


def test_calls_of_older_and_newer_editions_are_read() -> None:
    old = one(
        json.dumps([
            {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": {"in": "Oslo"}}},
            {"role": "function", "name": "weather", "content": "rain"},
            {"role": "assistant", "content": "", "function_call": {"name": "time", "arguments": None}},
            {"role": "function", "name": "time", "content": "noon"},
        ])
    )  # fmt: skip
    assert [call.arguments for message in old for call in message.calls] == ['{"in": "Oslo"}', ""]
    assert [message.answers for message in old[1::2]] == [message.calls[0].id for message in old[::2]]
    assert {message.role for message in old[1::2]} == {"tool"}
    new = one(
        json.dumps([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ])
    )  # fmt: skip
    assert [message.role for message in new] == ["user", "assistant", "tool"]
    assert new[1].calls == (Call(id="c1", name="weather", arguments="{}"),)
    assert (new[2].answers, new[2].text) == ("c1", "rain")


def test_names_make_ids_and_who_has_none_gets_the_one_that_was_asked_for() -> None:
    written = json.dumps([{**HELLO[0], "name": "Jürgen Groß"}, *HELLO])
    found = one(written, options=replace(OPTIONS, user="anna", agent="helper-1"))
    assert [(message.sender, message.name) for message in found] == [
        ("Jurgen_Gross", "Jürgen Groß"), ("anna", None), ("helper-1", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (" \n\n ", "chat.json: is empty"),
        ('[{"role": "user", "content": "hel', "chat.json: is not JSON"),
        ('{"a": 1}', "chat.json: is neither a message, which has a role, nor a conversation, which has messages"),
        ('{"messages": 5}', "chat.json: its messages are no list"),
        ('[{"messages": [5]}]', "chat.json, conversation 1, message 1: is not a message but a number"),
        ('[{"role": "user", "content": "a"}, {"a": "b"}]', "chat.json, message 2: is not a message: it has no role"),
        ('[{"role": "user"}, {"role": "narrator"}]', "chat.json, message 2: the role 'narrator' is none"),
        ('[{"role": ["user"], "content": "a"}]', "chat.json, message 1: the role ['user'] is none"),
        ('[{"role": "user", "content": 5}]', "chat.json, message 1: its content is neither a text nor a list"),
        ('[{"role": "assistant", "tool_calls": 5}]', "chat.json, message 1: its tool_calls are no list but a number"),
        ('[{"role": "assistant", "tool_calls": [{}]}]', "chat.json, message 1: one of its tool calls names no"),
        ('[{"role": "assistant", "function_call": "f"}]', "chat.json, message 1: its function_call is no object"),
        ('[{"role": "user", "content": "a", "timestamp": "noon"}]', "chat.json, message 1: the time 'noon' is neither"),
        ('[{"role": "user", "content": "a", "timestamp": NaN}]', "chat.json, message 1: the time nan is neither"),
        ('[{"role": "user", "content": "a", "timestamp": 1e300}]', "chat.json, message 1: the time 1e+300 is neither"),
        ('{"role": "user", "content": "a"}\n{"role": \n', "chat.json, line 2: is not JSON"),
        ('{"role": "user", "content": "a"}\n\n5\n', "chat.json, line 3: is not a message but a number"),
        ('{"messages": []}\n{"role": 5}\n', "chat.json, line 2: the role 5 is none"),
        ("[" * 100_000, "chat.json: is nested too deeply"),
        ('{"role": "user"}\n' + "[" * 100_000 + "\n", "chat.json, line 2: is nested too deeply"),
        (b'[{"role": "user", "content": "\xff"}]', "chat.json: is not UTF-8 text"),
        (b'{"role": "user"}\n{"role": "user", "content": "\xff"}', "chat.json, line 2: is not UTF-8 text"),
        (b"Anna: \xff", "chat.json, line 1: is not UTF-8 text"),
        (b"\x00\x01\x02", 'chat.json, line 1: is neither JSON nor a message such as "Anna: hello"'),
    ],
)  # fmt: skip
def test_what_is_broken_is_refused_with_its_place(written: str | bytes, problem: str) -> None:
    assert refused(written).startswith(problem)


@pytest.mark.parametrize(
    "written",
    [
        json.dumps([HELLO[0], {"role": "user", "content": "x" * (MAX_TEXT + 1)}]),
        "user: hello\nuser: a\n" + ("x" * 1000 + "\n") * 1100,
    ],
)
def test_a_text_that_is_too_long_is_refused_with_its_place(written: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        opened(written).check()
    assert re.match(r"chat.txt, (message 2|line 2), text: longer than the limit of 1,048,576", str(caught.value))
    assert one(json.dumps([{"role": "user", "content": "ø" * MAX_TEXT}]))[0].text == "ø" * MAX_TEXT
    call = {"id": "c" * 1025, "function": {"name": "f", "arguments": "{}"}}
    assert "chat.json, message 1, " in refused(json.dumps([{"role": "assistant", "tool_calls": [call]}]))


def test_a_line_or_a_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats, "LONGEST_LINE", 100)
    ok = json.dumps(HELLO[0])
    assert refused(f"{ok}\n{ok[:-2]}{'x' * 100}") == "chat.json, line 2: longer than the limit of 100 bytes"
    monkeypatch.setattr(transcript, "LONGEST_LINE", 100)
    assert refused("Anna: " + "x" * 100) == "chat.json, line 1: longer than the limit of 100 bytes"
    monkeypatch.setattr(chats, "MAX_JSON", 100)
    assert "which is JSON in one piece: longer than the limit of 100 bytes" in refused(json.dumps(HELLO * 10))
    monkeypatch.setattr(chats, "MAX_FILE", 100)
    assert refused("Anna: hi\n" * 100) == "chat.json: longer than the limit of 100 bytes"


def test_characters_that_cannot_be_stored_are_mended_and_counted() -> None:
    written = '[{"role": "user", "name": "A\\u0000\\ud800", "content": "a\\u0000b\\ud83dc\\ud83d\\ude00"}]'
    found = opened(written)
    (message,) = [message for each in found.conversations() for message in each.messages]
    assert message.text == "ab\N{REPLACEMENT CHARACTER}c😀"
    assert found.tally.mended == 2
    assert one("Anna: a\0b")[0].text == "ab"
    assert one(written)


# ChatGPT's exports.


def node(id: str, parent: str | None, role: str = "user", text: object = "", **more: object) -> dict[str, object]:
    """A node of an export's tree."""
    content = {"content_type": "text", "parts": [text]} if isinstance(text, str) else text
    message = {"id": id, "author": {"role": role, "name": None}, "create_time": None, "content": content, **more}
    return {"id": id, "message": message, "parent": parent, "children": []}


def export(*nodes: dict[str, object], **more: object) -> dict[str, object]:
    """A conversation of an export, with a root that has no message."""
    mapping: dict[str, dict[str, object]] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    mapping |= {str(each["id"]): each for each in nodes}
    for each in nodes:
        if above := mapping.get(str(each["parent"])):
            cast(list[object], above["children"]).append(each["id"])
    return {"title": "A chat", "create_time": 1716890000.5, "mapping": mapping, "current_node": nodes[-1]["id"], **more}


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return made.getvalue()


TREE = export(
    node("s", "root", "system", "hidden"),
    node("u", "s", "user", "hello", create_time=1716890001.123456),
    node("other", "u", "assistant", "what?"),
    node("a", "u", "assistant", "hi", create_time=1716890002),
    node("empty", "a", "assistant", ""),
    node("h", "empty", "user", "custom", metadata={"is_visually_hidden_from_conversation": True}),
    node("t", "h", "tool", {"content_type": "execution_output", "text": "42"}),
    conversation_id="c-1",
)


def test_the_branch_that_was_last_seen_is_taken_also_from_a_zip() -> None:
    found = opened(json.dumps([TREE]), "conversations.json")
    assert found.format == "chatgpt"
    ((session, messages),) = read(json.dumps([TREE]), "conversations.json")
    assert session == "c-1"
    assert lines(messages) == [*SAID, ("tool", "tool", "42")]
    assert [message.id for message in messages] == ["u", "a", "t"]
    assert messages[0].at == datetime.fromtimestamp(1716890001.123, UTC)
    assert found.check() == 3
    assert found.tally.left_out == {"system and hidden messages": 2, "empty messages": 1}
    content = json.dumps([TREE]).encode()
    assert read(zipped({"conversations.json": content, "chat.html": b"<html>"}), "export.zip") == read(content)
    second = json.dumps([{**TREE, "conversation_id": "c-2"}]).encode()
    parts = read(zipped({"x/conversations-001.json": second, "x/conversations-000.json": content}), "export.zip")
    assert [session for session, _ in parts] == ["c-1", "c-2"]


def test_what_was_shown_spoken_and_run_is_told_apart() -> None:
    parts = {"content_type": "multimodal_text", "parts": ["look", {"content_type": "image_asset_pointer"},
             {"content_type": "audio_transcription", "text": "and listen"}]}  # fmt: skip
    thoughts = {"content_type": "thoughts", "thoughts": [{"content": "hm"}]}
    written = export(
        node("u", "root", "user", parts),
        node("th", "u", "assistant", thoughts),
        node("c", "th", "assistant", {"content_type": "code", "text": "print(1)"}, recipient="python"),
        node("r", "c", "tool", {"content_type": "execution_output", "text": "1"},
             author={"role": "tool", "name": "python"}),
        node("j", "r", "assistant", {"content_type": "code", "text": '{"q": 1}'}, recipient="browser"),
        node("x", "j", "assistant", {"content_type": "something_new"}, recipient="all"),
    )  # fmt: skip
    found = opened(json.dumps([written]))
    asked, ran, result, searched = (message for each in found.conversations() for message in each.messages)
    assert asked.text == "look\nand listen"
    assert ran.calls == (Call(id="c", name="python", arguments='{"input": "print(1)"}'),)
    assert (result.role, result.sender, result.text, result.answers) == ("tool", "python", "1", "c")
    assert searched.calls[0].arguments == '{"q": 1}'
    assert found.tally.left_out == {"images and other parts": 2, "thoughts and instructions": 1, "empty messages": 2}


def test_a_tree_that_is_not_whole_is_read_as_far_as_it_goes() -> None:
    for current in (None, "gone", 5):
        tree = export(node("a", "root", text="one"), node("b", "a", text="two"), node("c", "a", text="three"))
        assert [message.text for message in one(json.dumps([{**tree, "current_node": current}]))] == ["one", "three"]
    found = opened(json.dumps([export(node("b", "gone", text="two"), node("c", "b", text="three"))]))
    assert found.check() == 2
    assert found.tally.left_out == {"conversations' beginnings, which are not in the file": 1}
    assert read(json.dumps([{"mapping": {}}, {"mapping": {"a": {}}}, export(node("a", "root"))])) == []


@pytest.mark.parametrize(
    ("conversation", "problem"),
    [
        ({"mapping": {"a": 5}}, "conversation 1: its mapping is no object of nodes"),
        (export(node("a", "b", text="a"), node("b", "a", text="b")), "conversation 1: its messages go round"),
        (export(node("a", "root", author=None)), "conversation 1, message a: the role None is none"),
        (export(node("a", "root", content="x")), "conversation 1, message a: its content is no object"),
        (export(node("a", "root", text="x", create_time="soon")), "conversation 1, message a: the time 'soon'"),
    ],
)
def test_a_broken_conversation_is_refused(conversation: dict[str, object], problem: str) -> None:
    assert refused(json.dumps([conversation])).startswith(f"chat.json, {problem}")


def test_a_zip_that_is_none_or_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "holds no conversations.json" in refused(zipped({"a.txt": b"x"}))
    whole = zipped({"conversations.json": json.dumps([TREE]).encode() * 1000})
    assert "cannot be unpacked" in refused(whole[: len(whole) // 2])
    damaged = bytearray(whole)
    damaged[60:200] = b"\xff" * 140
    assert "cannot be unpacked" in refused(bytes(damaged))
    assert "is not JSON" in refused(zipped({"conversations.json": b"[{"}))
    assert "is a zip, not text" in refused(whole, options=replace(OPTIONS, format="text"))
    monkeypatch.setattr(chats, "MAX_JSON", 1_000_000)
    bomb = zipped({"conversations.json": b" " * 100_000_000})
    assert len(bomb) < 200_000
    assert "conversations.json: longer than the limit of 1,000,000 bytes" in refused(bomb)


# Plain text.


def test_lines_that_begin_no_message_belong_to_the_one_before() -> None:
    written = """
Anna Berg: hello
  - one

  - two: see http://example.com
http://example.com: it is
At 11:30 we go

Claude: fine
This is a long line that is not a name, I would say: no
System: be kind
bot: ok
"""
    found = one(written)
    links = "  - two: see http://example.com\nhttp://example.com: it is"
    assert lines(found) == [
        ("user", "Anna_Berg", f"hello\n  - one\n\n{links}\nAt 11:30 we go"),
        ("assistant", "Claude", "fine\nThis is a long line that is not a name, I would say: no"),
        ("assistant", "assistant", "ok"),
    ]  # fmt: skip
    assert [message.name for message in found] == ["Anna Berg", "Claude", None]
    assert [message.at - THEN for message in found] == [timedelta(seconds=number) for number in range(3)]


@pytest.mark.parametrize(
    "line",
    [
        "[2026-05-28T11:30:00Z] Anna: hi", "2026-05-28 13:30:00+02:00 Anna: hi", "2026-05-28 11:30 - Anna: hi",
        "5/28/26, 11:30\u202fAM - Anna: hi", "28.05.26, 11:30 - Anna: hi",
        "\u200e[28/05/2026, 11:30:00] \u200e~ Anna: hi", "[5/28/26, 11:30:00 a.m.] Anna: hi",
    ],
)  # fmt: skip
def test_a_time_before_the_name_is_read_where_it_can_mean_one_thing(line: str) -> None:
    (message,) = one(line)
    assert (message.at, message.sender, message.text) == (THEN, "Anna", "hi")
    assert one(line.replace("Z]", "]").replace("+02:00", ""), options=replace(OPTIONS, zone=OSLO))


def test_where_times_are_only_lines_with_one_begin_a_message() -> None:
    written = """28/05/2026, 11:29 - Messages are end-to-end encrypted.
28/05/2026, 11:30 - Anna: hi
Note: this goes on
12:00 lunch: no
28/05/2026, 11:30 - +47 123 45 678: <Media omitted>
28/05/2026, 11:30 - 🌸: hello
01/06/2026, 12:15 - Anna: bye
"""
    found = opened(written)
    first, second, third = one(written)
    assert found.check() == 3
    assert found.tally.left_out == {"lines without a name": 1, "images and other parts": 1}
    assert first.text == "hi\nNote: this goes on\n12:00 lunch: no"
    assert re.fullmatch("user_[0-9a-f]{8}", second.sender)
    assert second.name == "🌸"
    assert second.at == first.at + timedelta(milliseconds=1)  # what is said in one minute stays in order
    assert third.at == datetime(2026, 6, 1, 12, 15, tzinfo=UTC)


def test_dates_that_can_be_read_in_two_ways_are_not_guessed_and_those_that_there_are_not_refused() -> None:
    written = "03/04/2026, 11:30 - Anna: hi\n04/04/2026, 11:31 - Anna: you\n"
    found = opened(written)
    assert found.check() == 2
    assert found.tally.left_out == {"times that can be read in two ways": 2}
    assert [message.at for message in one(written)] == [THEN, THEN + timedelta(seconds=1)]
    assert one(written + "13/04/2026, 11:31 - Anna: now it is clear\n")[0].at.month == 4
    assert one("[11:30] Anna: no date at all")[0].at == THEN
    assert one("31/31/2026, 11:30 - Anna: hi\n")[0].at == THEN  # neither way round
    for stamp in ("[2026-02-30 11:30]", "[2026-05-28 25:30]", "[0001-01-01 11:30]"):
        assert refused(f"{stamp} Anna: hi\n") == "chat.json, line 1: begins with a time that there is not"
    last = {"role": "user", "content": "a", "timestamp": "9999-12-30T00:00:00Z"}
    assert refused(json.dumps([last, HELLO[0]])) == "chat.json, message 2: its time is outside the years 1 to 9999"


# Ids, times and names.


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (1779967800, THEN), (1779967800.0, THEN), (1779967800000, THEN), ("1779967800", THEN),
        ("2026-05-28T11:30:00Z", THEN), ("2026-05-28 13:30", THEN), ("2026-05-28T07:30:00-04:00", THEN),
        (None, None), (0, None), ("", None),
    ],
)  # fmt: skip
def test_times_are_seconds_milliseconds_or_iso(value: object, meant: datetime | None) -> None:
    assert parse_time("here", value, OSLO) == meant


def test_what_was_said_later_is_later() -> None:
    times = [1779967800, 1779967800, None, 1779967799, 1779967900]
    found = one(json.dumps([{"role": "user", "content": "a", "timestamp": each} for each in times]))
    assert [(message.at - THEN).total_seconds() for message in found] == [0, 0.001, 1.001, 1.002, 100]


def test_a_longer_version_of_a_chat_has_the_ids_of_the_shorter() -> None:
    longer = [*HELLO, {"role": "user", "content": "hello"}, {"role": "system", "content": "x"}, *HELLO]
    for write in (json.dumps, lambda said: "\n".join(map(json.dumps, said))):
        short = one(write(HELLO), options=OPTIONS)
        grown = one(write(longer), options=replace(OPTIONS, date=THEN + timedelta(days=1)))
        assert [message.id for message in grown][: len(short)] == [message.id for message in short]
        assert len(grown) == 5
    assert [message.id for message in one(json.dumps(HELLO), "other.json")] != [message.id for message in short]
    named = one(json.dumps(HELLO), "other.json", options=replace(OPTIONS, session="chat"))
    assert [message.id for message in named] == [message.id for message in short]


@given(st.text(min_size=1), st.sampled_from(["user", "assistant", "tool"]))
def test_every_name_has_an_id_that_can_be_read_and_no_two_have_one(
    name: str, role: Literal["user", "assistant", "tool"]
) -> None:
    made = make_sender_id(name, role)
    assert re.fullmatch(r"[a-zA-Z0-9_.@+-]{1,128}", made)
    assert made not in (".", "..")
    readable = {"Anna Berg": "Anna_Berg", "José Łukasz": "Jose_Lukasz", "Anna 🌸": "Anna", "a@b.no": "a@b.no"}
    assert {name: make_sender_id(name, "user") for name in readable} == readable
    names = ["Анна", "Олег", "Анна B", "Олег B", "李", "🌸", "..", "x" * 200, "x" * 201]
    assert len({make_sender_id(name, "user") for name in names}) == len(names)


def test_sessions_are_called_by_their_id_their_title_the_file_or_their_first_words() -> None:
    several = [
        {"messages": HELLO}, {"messages": HELLO}, {"messages": HELLO, "title": "Trip\n to\0 Oslo "},
        {"messages": HELLO, "title": "chat-2"}, {"messages": [], "title": "empty"},
        {"messages": HELLO, "id": "x" * 300},
        {"messages": HELLO, "id": "x" * 200},
    ]  # fmt: skip
    names = [session for session, _ in read(json.dumps(several), "folder/chat.json")]
    assert names == ["chat", "chat-2", "Trip to Oslo", "chat-2-2", "x" * 128, "x" * 126 + "-2"]
    chosen = read(json.dumps(several), options=replace(OPTIONS, session="mine"))
    assert [session for session, _ in chosen] == ["mine", *(f"mine-{number}" for number in range(2, 7))]
    ((first, _),), ((second, _),), ((third, _),) = (
        read(each, "-") for each in ("Anna: hi\n", "Anna: hi\nAnna: you\n", "Anna: hello\n")
    )
    assert first == second != third
    assert re.fullmatch("chat-[0-9a-f]{12}", first)


# Any messages, in any format.

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)
SPOKEN = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXT), max_size=12)


def told(content: str, name: str = "chat.json") -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.role, message.text) for _, messages in read(content, name) for message in messages]


@given(SPOKEN, st.booleans())
def test_messages_in_json_are_read_as_they_were_written(spoken: list[tuple[str, str]], parts: bool) -> None:
    meant = [(role, text) for role, text in spoken if text.strip()]
    messages = [
        {"role": role, "content": [{"type": "text", "text": text}] if parts else text} for role, text in spoken
    ]  # fmt: skip
    assert told(json.dumps(messages)) == meant
    assert told(json.dumps({"messages": messages}, ensure_ascii=False)) == meant
    if messages:
        assert told("\n".join(map(json.dumps, messages))) == meant
        assert told(f"{json.dumps({'messages': messages})}\n" * 2) == meant * 2
    nodes = [
        node(f"n{at}", f"n{at - 1}" if at else "root", role, text) for at, (role, text) in enumerate(spoken)
    ]  # fmt: skip
    if nodes:
        assert told(json.dumps([export(*nodes)])) == meant


@given(SPOKEN, st.booleans())
def test_messages_in_text_are_read_as_they_were_written(spoken: list[tuple[str, str]], stamped: bool) -> None:
    spoken = [(role, re.sub(r"[:\r\n\s]+", " ", text).strip()) for role, text in spoken]
    stamp = "[2026-05-28 11:30] " if stamped else ""
    written = "\n\n".join(f"{stamp}{role}: {text}\n{text} & more" for role, text in spoken)
    meant = [(role, f"{text}\n{text} & more".strip()) for role, text in spoken]
    if written:
        assert told(written, "chat.txt") == meant


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["user", "assistant", "tool", "a"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["role", "content", "messages", "mapping", "message", "parent", "current_node", "author", "tool_calls",
             "function_call", "function", "name", "id", "a", "type", "text", "parts", "create_time", "timestamp"]
        ),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    st.binary(max_size=200)
    | st.text(st.sampled_from('[]{}":,\\nrole usr01\ncontent'), max_size=80).map(str.encode)
    | (st.lists(JSON, max_size=4) | JSON).map(lambda value: json.dumps(value).encode()),
    st.sampled_from([None, "openai", "jsonl", "chatgpt", "text"]),
)
def test_anything_else_is_read_or_refused(
    content: bytes, format: Literal["openai", "jsonl", "chatgpt", "text"] | None
) -> None:
    with suppress(Invalid):
        read(content, options=replace(OPTIONS, format=format))
