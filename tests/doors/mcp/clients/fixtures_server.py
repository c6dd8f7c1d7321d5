"""The product's own server, with the tools, resources and prompts on top that the conformance suite asks for by name.

The suite tests every part of the protocol, and cofio has no use for some of them, such as asking the client's user or
its model. What is mounted here is the suite's own matter; the listening, the guard, the application, the sessions and
everything that is not mounted are cofio's. Two things differ: sessions answer in streams that can be resumed, for only
those can carry a question to the client, and a request's state is sealed by the SDK.

    python fixtures_server.py STORE
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from unittest.mock import patch

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from cofio.config.address import StoreAddress
from cofio.config.settings import Settings
from cofio.doors.jsonrpc import MAX_FRAME
from cofio.doors.mcp.http import Context, Handlers, make_server
from cofio.doors.web import server as web_server
from cofio.doors.web.options import ServerOptions

Answer: TypeAlias = types.CallToolResult | types.InputRequiredResult
Tool: TypeAlias = Callable[[Context, types.CallToolRequestParams], Awaitable[Answer]]
Schema: TypeAlias = "dict[str, Any]"

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = types.ImageContent(data=PNG, mime_type="image/png")
TEMPLATE = re.compile("test://template/([^/]+)/data")
STRING: Schema = {"type": "string"}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def _argument(params: types.CallToolRequestParams, name: str) -> str:
    return str((params.arguments or {})[name])


# What the server may ask the client for.


def _form(message: str, **properties: Schema) -> types.ElicitRequest:
    asked = types.ElicitRequestFormParams(message=message, requested_schema=_object(**properties))
    return types.ElicitRequest(params=asked)


def _sampling(prompt: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=_text(prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


NAME = _form("What is your name?", name=STRING)
CONFIRM = _form("Please confirm", ok={"type": "boolean"})
ROOTS = types.ListRootsRequest()
DEFAULTS = _form(
    "Please fill this in",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
TITLED = [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]
ENUMS = _form(
    "Please choose",
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)


def _still_missing(
    params: types.InputResponseRequestParams, asked: types.InputRequests, state: str | None = None
) -> types.InputRequiredResult | None:
    """What the client is to be asked for; None once it has answered everything, with the state that it was given."""
    if asked.keys() <= (params.input_responses or {}).keys() and params.request_state == state:
        return None
    return types.InputRequiredResult(input_requests=asked, request_state=state)


def _answers(params: types.InputResponseRequestParams) -> str:
    """What the client has answered, to be shown to it."""
    given = params.input_responses or {}
    return json.dumps({key: value.model_dump(mode="json", exclude_none=True) for key, value in given.items()})


# The tools.


def _returns(*content: types.ContentBlock, is_error: bool = False) -> Tool:
    """A tool that always says the same."""

    async def tool(_: Context, __: types.CallToolRequestParams) -> Answer:
        return types.CallToolResult(content=list(content), is_error=is_error)

    return tool


def _asks(state: str | None = None, **asked: types.InputRequest) -> Tool:
    """A tool that cannot answer before the client has been asked for something, in the era without sessions."""

    async def tool(_: Context, params: types.CallToolRequestParams) -> Answer:
        done = f"state-ok, with {_answers(params)}"
        return _still_missing(params, asked, state) or types.CallToolResult(content=[_text(done)])

    return tool


def _asks_user(form: types.ElicitRequest | None = None) -> Tool:
    """A tool that asks the client's user while it runs, in the era of sessions."""

    async def tool(context: Context, params: types.CallToolRequestParams) -> Answer:
        asked = form or _form(_argument(params, "message"), username=STRING, email=STRING)
        assert isinstance(asked.params, types.ElicitRequestFormParams)
        said = await context.session.elicit_form(
            asked.params.message, asked.params.requested_schema, context.request_id
        )
        text = f"Elicitation completed: action={said.action}, content={json.dumps(said.content)}"
        return types.CallToolResult(content=[_text(text)])

    return tool


async def _asks_model(context: Context, params: types.CallToolRequestParams) -> Answer:
    message = types.SamplingMessage(role="user", content=_text(_argument(params, "prompt")))
    said = await context.session.create_message([message], max_tokens=100, related_request_id=context.request_id)
    text = said.content.text if isinstance(said.content, types.TextContent) else ""
    return types.CallToolResult(content=[_text(f"LLM response: {text}")])


async def _asks_what_client_can(context: Context, params: types.CallToolRequestParams) -> Answer:
    """Ask only for what the client has said it can do."""
    asked: types.InputRequests = {}
    if context.session.check_client_capability(types.ClientCapabilities(sampling=types.SamplingCapability())):
        asked["capital"] = _sampling("What is the capital of France?")
    if context.session.check_client_capability(types.ClientCapabilities(elicitation=types.ElicitationCapability())):
        asked["user_name"] = NAME
    return _still_missing(params, asked) or types.CallToolResult(content=[_text(_answers(params))])


async def _asks_twice(_: Context, params: types.CallToolRequestParams) -> Answer:
    first: types.InputRequests = {"step1": _form("Step 1: What is your name?", name=STRING)}
    second: types.InputRequests = {"step2": _form("Step 2: What is your favorite color?", color=STRING)}
    if params.request_state == "first" and _still_missing(params, first, "first") is None:
        return types.InputRequiredResult(input_requests=second, request_state="second")
    if params.request_state == "second":
        return _still_missing(params, second, "second") or types.CallToolResult(content=[_text(_answers(params))])
    return types.InputRequiredResult(input_requests=first, request_state="first")


async def _needs_sampling(_: Context, __: types.CallToolRequestParams) -> Answer:
    needed = types.ClientCapabilities(sampling=types.SamplingCapability())
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
    wire = data.model_dump(by_alias=True, exclude_none=True)
    raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool asks the client's model", wire)


async def _logs(context: Context, _: types.CallToolRequestParams) -> Answer:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", line, related_request_id=context.request_id)
    return types.CallToolResult(content=[_text("logged")])


async def _progresses(context: Context, _: types.CallToolRequestParams) -> Answer:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
    return types.CallToolResult(content=[_text("done")])


async def _hangs_up(context: Context, _: types.CallToolRequestParams) -> Answer:
    """Close the stream before the answer, which the client then fetches with the id of the last event it saw."""
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    return types.CallToolResult(content=[_text("fetched after a new connection")])


TOOLS: dict[str, Tool] = {
    "test_simple_text": _returns(_text("This is a simple text response for testing.")),
    "test_image_content": _returns(IMAGE),
    "test_audio_content": _returns(types.AudioContent(data=WAV, mime_type="audio/wav")),
    "test_embedded_resource": _returns(_embedded("test://embedded-resource", "This is an embedded resource content.")),
    "test_multiple_content_types": _returns(
        _text("Multiple content types test:"),
        IMAGE,
        _embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ),
    "test_error_handling": _returns(_text("This tool intentionally returns an error for testing"), is_error=True),
    "test_tool_with_logging": _logs,
    "test_logging_tool": _logs,
    "test_tool_with_progress": _progresses,
    "test_reconnection": _hangs_up,
    "test_sampling": _asks_model,
    "test_elicitation": _asks_user(),
    "test_elicitation_sep1034_defaults": _asks_user(DEFAULTS),
    "test_elicitation_sep1330_enums": _asks_user(ENUMS),
    "test_missing_capability": _needs_sampling,
    "test_streaming_elicitation": _asks(user_name=NAME),
    "test_input_required_result_elicitation": _asks(user_name=NAME),
    "test_input_required_result_sampling": _asks(capital_question=_sampling("What is the capital of France?")),
    "test_input_required_result_list_roots": _asks(client_roots=ROOTS),
    "test_input_required_result_request_state": _asks("asked", confirm=CONFIRM),
    "test_input_required_result_tampered_state": _asks("asked", confirm=CONFIRM),
    "test_input_required_result_multiple_inputs": _asks(
        "asked", user_name=NAME, greeting=_sampling("Generate a greeting"), client_roots=ROOTS
    ),
    "test_input_required_result_multi_round": _asks_twice,
    "test_input_required_result_capabilities": _asks_what_client_can,
    "test_custom_header": _returns(_text("the header and the argument are the same")),
    "json_schema_2020_12_tool": _returns(_text("only its schema matters")),
}
INPUTS: dict[str, Schema] = {
    "test_sampling": _object(prompt=STRING),
    "test_elicitation": _object(message=STRING),
    "test_custom_header": _object(region={"type": "string", "x-mcp-header": "Region"}),
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": STRING}}},
        "properties": {"address": {"$ref": "#/$defs/address"}, "phone": STRING, "email": STRING},
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"required": ["address"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}
CHANGES: dict[str, ServerEvent] = {
    "test_trigger_tool_change": ToolsListChanged(),
    "test_trigger_prompt_change": PromptsListChanged(),
}


# The resources and the prompts.

CONTENTS: dict[str, types.TextResourceContents | types.BlobResourceContents] = {
    "test://static-text": types.TextResourceContents(
        uri="test://static-text", mime_type="text/plain", text="This is the content of the static text resource."
    ),
    "test://static-binary": types.BlobResourceContents(uri="test://static-binary", mime_type="image/png", blob=PNG),
    "test://watched-resource": types.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="Watched resource content"
    ),
}
PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def _prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    content: list[types.ContentBlock]
    if params.name == "test_input_required_result_prompt":
        missing = _still_missing(params, {"user_context": _form("What is this about?", context=STRING)})
        if missing is not None:
            return missing
        content = [_text(_answers(params))]
    elif params.name == "test_prompt_with_embedded_resource":
        embedded = _embedded(given["resourceUri"], "Embedded resource content for testing.")
        content = [embedded, _text("Please process the embedded resource above.")]
    elif params.name == "test_prompt_with_image":
        content = [IMAGE, _text("Please analyze the image above.")]
    else:
        said = ", ".join(f"{name}='{given[name]}'" for name in PROMPTS[params.name])
        content = [_text(f"Prompt with arguments: {said}" if said else "This is a simple prompt for testing.")]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in content])


class Fixtures:
    """Answers what is the suite's own, and passes everything else on to the product."""

    def __init__(self, product: Handlers, bus: InMemorySubscriptionBus) -> None:
        self._product = product
        self._bus = bus

    async def tools(self, context: Context, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        """The product's tools, then the suite's."""
        listed = await self._product.list_tools(context, params)
        for name in [*TOOLS, *CHANGES]:
            schema = INPUTS.get(name, {"type": "object"})
            listed.tools.append(types.Tool(name=name, description="A fixture.", input_schema=schema))
        return listed

    async def call(self, context: Context, params: types.CallToolRequestParams) -> Answer:
        """Run a tool of the suite's, or one of the product's."""
        if params.name in CHANGES:
            await self._bus.publish(CHANGES[params.name])
            return types.CallToolResult(content=[_text("changed")])
        tool = TOOLS.get(params.name, self._product.call_tool)
        return await tool(context, params)

    async def resources(self, context: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
        """The product's resources, and on the first page the suite's."""
        listed = await self._product.list_resources(context, params)
        if params.cursor is None:
            for uri, contents in CONTENTS.items():
                listed.resources.append(
                    types.Resource(uri=uri, name=uri, description="A fixture.", mime_type=contents.mime_type)
                )
        return listed

    async def templates(
        self, context: Context, params: types.PaginatedRequestParams
    ) -> types.ListResourceTemplatesResult:
        """The product's templates, then the suite's."""
        listed = await self._product.list_templates(context, params)
        template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
        listed.resource_templates.append(template)
        return listed

    async def read(self, context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """Read a resource of the suite's, or one of the product's."""
        uri = str(params.uri)
        matched = TEMPLATE.fullmatch(uri)
        if matched:
            text = json.dumps({"id": matched[1], "templateTest": True, "data": f"Data for ID: {matched[1]}"})
            filled = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
            return types.ReadResourceResult(contents=[filled])
        if uri in CONTENTS:
            return types.ReadResourceResult(contents=[CONTENTS[uri]])
        return await self._product.read_resource(context, params)

    async def prompts(self, context: Context, params: types.PaginatedRequestParams) -> types.ListPromptsResult:
        """The product's prompts, then the suite's."""
        listed = await self._product.list_prompts(context, params)
        for name, arguments in PROMPTS.items():
            wanted = [types.PromptArgument(name=each, description="A value.", required=True) for each in arguments]
            listed.prompts.append(types.Prompt(name=name, description="A fixture.", arguments=wanted))
        return listed

    async def prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """A prompt of the suite's, or one of the product's."""
        return _prompt(params) if params.name in PROMPTS else await self._product.get_prompt(context, params)

    async def complete(self, _: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """What an argument of a prompt may become."""
        return types.CompleteResult(completion=types.Completion(values=[f"{params.argument.value}is"], total=1))

    async def noted(self, _: Context, __: types.RequestParams) -> types.EmptyResult:
        """Accept what has no effect that the suite looks for: a subscription, a log level."""
        return types.EmptyResult()


def mounted(on: Handlers) -> Server[Any]:
    """The product's server, with the fixtures in front of its handlers."""
    served, bus = make_server(on), InMemorySubscriptionBus()
    fixtures = Fixtures(on, bus)
    served.add_request_handler("tools/list", types.PaginatedRequestParams, fixtures.tools)
    served.add_request_handler("tools/call", types.CallToolRequestParams, fixtures.call)
    served.add_request_handler("resources/list", types.PaginatedRequestParams, fixtures.resources)
    served.add_request_handler("resources/templates/list", types.PaginatedRequestParams, fixtures.templates)
    served.add_request_handler("resources/read", types.ReadResourceRequestParams, fixtures.read)
    served.add_request_handler("resources/subscribe", types.SubscribeRequestParams, fixtures.noted)
    served.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, fixtures.noted)
    served.add_request_handler("prompts/list", types.PaginatedRequestParams, fixtures.prompts)
    served.add_request_handler("prompts/get", types.GetPromptRequestParams, fixtures.prompt)
    served.add_request_handler("completion/complete", types.CompleteRequestParams, fixtures.complete)
    served.add_request_handler("logging/setLevel", types.SetLevelRequestParams, fixtures.noted)
    served.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(bus))
    served.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=served.name))
    return served


class Events(EventStore):
    """The events of every stream, so that a client can resume one that was closed."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        """Keep an event; its id is its place."""
        self._kept.append((stream_id, message))
        return str(len(self._kept) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what came after an event on its stream."""
        last = int(last_event_id)
        stream = self._kept[last][0]
        for place, (of, message) in enumerate(self._kept):
            if place > last and of == stream and message is not None:
                await send_callback(EventMessage(message, str(place)))
        return stream


def streaming(served: Server[Any]) -> StreamableHTTPSessionManager:
    """Sessions whose answers are streams: only those can carry the server's questions to the client."""
    return StreamableHTTPSessionManager(
        served, event_store=Events(), retry_interval=100, max_request_body_size=MAX_FRAME
    )


def main() -> int:
    """Serve a store with the fixtures on a free port, and print the address."""
    # The suite still asks for what the newest revision advises against: sampling and logging.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    store = StoreAddress.parse(sys.argv[1])
    # Put in from outside, so that the product needs no switch for it; a name that is gone from there is an error here.
    with patch.multiple(web_server, make_server=mounted, make_session_manager=streaming):
        options = ServerOptions(address=store, settings=Settings.load(store.home), host="127.0.0.1", port=0)
        return web_server.run(options, ready=lambda url: print(f"{url}/mcp", flush=True))


if __name__ == "__main__":
    sys.exit(main())
