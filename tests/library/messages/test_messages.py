"""Messages, the calls in them, and what OpenAI's API is sent."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from pydantic import ValidationError

from cofio.library.messages import Message, Role, ToolCall, ToolResult


@pytest.mark.requirement("messages.fields", "messages.frozen", "messages.roles")
def test_a_message_has_the_fields_and_defaults_of_the_reference_and_cannot_be_changed() -> None:
    assert [role.value for role in Role] == ["system", "user", "assistant", "tool"]
    assert Role("user") == "user"
    message = Message(role=Role.USER)
    fields: dict[str, Any] = {"content": None, "tool_calls": [], "tool_call_id": None, "name": None, "metadata": {}}
    assert list(message.model_dump().items()) == [("role", Role.USER), *fields.items()]
    assert Message(role=Role.USER).metadata is not message.metadata
    with pytest.raises(ValidationError):
        message.content = "goodbye"
    assert message.content is None


@pytest.mark.requirement("messages.makers")
def test_each_role_has_its_maker() -> None:
    call = ToolCall(name="look")
    result = ToolResult(tool_call_id=call.id, name="look", content="a cat")
    assert Message.system("be kind") == Message(role=Role.SYSTEM, content="be kind")
    assert Message.user("hello") == Message(role=Role.USER, content="hello")
    assert Message.assistant() == Message(role=Role.ASSISTANT)
    assert Message.assistant("hm", [call]) == Message(role=Role.ASSISTANT, content="hm", tool_calls=[call])
    assert Message.tool(result) == Message(role=Role.TOOL, content="a cat", tool_call_id=call.id, name="look")
    assert list(inspect.signature(Message.assistant).parameters) == ["content", "tool_calls"]


@pytest.mark.requirement("messages.invalid")
def test_what_is_no_message_is_refused_with_its_field() -> None:
    for wrong, name in (
        ({"role": "poet"}, "role"), ({"content": "x"}, "role"), ({"role": "user", "content": 3}, "content"),
        ({"role": "user", "tool_calls": [{"id": "1"}]}, "name"), ({"role": "user", "metadata": "x"}, "metadata"),
    ):  # fmt: skip
        with pytest.raises(ValidationError, match=name):
            Message.model_validate(wrong)


@pytest.mark.requirement("messages.calls", "messages.results")
def test_a_call_has_an_id_of_its_own_and_takes_args_for_arguments() -> None:
    first, second = ToolCall(name="look"), ToolCall(name="look")
    assert re.fullmatch(r"call_[0-9a-f]{12}", first.id)
    assert first.id != second.id
    assert first.arguments == {}
    assert ToolCall.model_validate({"name": "look", "args": {"at": 1}}).arguments == {"at": 1}
    both = ToolCall.model_validate({"name": "look", "args": {"at": 1}, "arguments": {"at": 2}})
    assert both.arguments == {"at": 2}
    assert list(both.model_dump()) == ["id", "name", "arguments"]
    with pytest.raises(ValidationError, match="arguments"):
        ToolCall.model_validate({"name": "look", "arguments": "at"})
    result = ToolResult(tool_call_id="c", name="look", content="a cat")
    assert (result.error, result.duration_ms, result.success) == (None, None, True)
    assert not ToolResult(tool_call_id="c", name="look", content="", error="dark").success


@pytest.mark.requirement("messages.openai")
def test_openai_is_sent_what_is_there_and_no_metadata() -> None:
    call = ToolCall(id="c1", name="look", arguments={"at": "sky"})
    assert Message.assistant(None, [call]).to_openai_format() == {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}],
    }
    answer = Message.tool(ToolResult(tool_call_id="c1", name="look", content="blue"))
    assert answer.to_openai_format() == {"role": "tool", "content": "blue", "tool_call_id": "c1", "name": "look"}
    tagged = Message(role=Role.USER, content="", metadata={"secret": 1})
    assert tagged.to_openai_format() == {"role": "user", "content": ""}
