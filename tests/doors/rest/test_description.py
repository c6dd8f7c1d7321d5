"""The API's own description: bodies made from it, right and wrong, are answered as it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import schemathesis
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode

from cofio.doors.rest import catalogue
from cofio.doors.rest.calls import Call
from cofio.doors.rest.descriptions import FIELDS
from cofio.doors.rest.openapi import build_document
from cofio.embed.hashed import HashedEmbedder

from ...conftest import BackendUnderTest
from ...tiers import scale_examples
from .conftest import COFFEE, HOUR, Api, T, said, serving


@pytest.fixture(scope="module")
def lived_in(backend_under_test: BackendUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A memory with something of every kind."""
    with serving(backend_under_test.address(tmp_path_factory.mktemp("described")), embedder=HashedEmbedder()) as (
        api,
        _,
    ):
        api.run("one")
        api.run("two", at=T + HOUR)
        api.told(COFFEE, session="s", at=T + 2 * HOUR)
        api.add(said("Waiting.", T + 3 * HOUR), session="open")
        yield api


DESCRIBED = [call for call in catalogue.CALLS if call.media == "application/json"]
TAKING = [call for call in DESCRIBED if call.takes.model_fields]
each_call = pytest.mark.parametrize("call", DESCRIBED, ids=[call.name for call in DESCRIBED])


def responses_of(call: Call) -> dict[str, Any]:
    """The answers that the description has for a call."""
    found: dict[str, Any] = build_document()["paths"][call.addresses[0]][call.method.lower()]["responses"]
    return found


def check_shape(schema: Any, value: Any) -> None:
    """A value has the shape that the description gives it."""
    Draft202012Validator({**schema, "components": build_document()["components"]}).validate(value)


def check_against_description(call: Call, answer: Any) -> None:
    """An answer is one that the description has, and has its shape."""
    assert answer.status_code < 500, answer.text
    described = responses_of(call)[str(answer.status_code)]
    if "application/json" in described.get("content", {}):
        check_shape(described["content"]["application/json"]["schema"], answer.json())


def named(name: str) -> Call:
    """A call by its name."""
    return next(call for call in catalogue.CALLS if call.name == name)


@pytest.mark.requirement("docs.whole", "errors.never-500")
@pytest.mark.parametrize("call", TAKING, ids=[call.name for call in TAKING])
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
def test_whatever_is_made_from_the_description_is_answered_as_it_says(
    lived_in: Api, call: Call, mode: GenerationMode
) -> None:
    described = schemathesis.openapi.from_dict(build_document())
    operation = described[call.addresses[0]][call.method]

    @settings(max_examples=scale_examples(8))
    @given(operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        path = call.addresses[0]
        for name, value in (case.path_parameters or {}).items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        sent: dict[str, Any] = {"params": dict(case.query or {})}
        if call.has_body:
            if not isinstance(case.body, dict | list | str | int | float | bool | None):
                return
            sent |= {"content": json.dumps(case.body), "headers": {"Content-Type": "application/json"}}
        answer = lived_in.client.request(call.method, path, **sent)
        if "{" not in call.path or urlsplit(path).path.count("/") == call.addresses[0].count("/"):
            check_against_description(call, answer)

    check()


@pytest.mark.requirement("docs.examples")
@each_call
def test_each_example_is_one_that_the_call_takes_and_gives(call: Call) -> None:
    assert call.example.request or call.name == "quiesce"
    call.takes.model_validate(call.example.request)
    told = [status for status, model in call.gives.items() if model]
    assert list(call.example.answers) == told
    for status in told:
        content = responses_of(call)[str(status)]["content"]["application/json"]
        check_shape(content["schema"], content["example"])


@pytest.mark.requirement("docs.examples", "docs.whole")
def test_the_document_is_openapi_and_says_what_every_field_means() -> None:
    described = build_document()
    assert described["openapi"].startswith("3.")
    names = [operation["operationId"] for methods in described["paths"].values() for operation in methods.values()]
    assert sorted(names) == sorted([*(call.name for call in catalogue.CALLS), "health"])
    schemas = described["components"]["schemas"]
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        assert schema.get("description"), name
        assert "title" not in schema
        for field, of in schema.get("properties", {}).items():
            assert of.get("description") or "$ref" in of, f"{name}.{field}"
    for methods in described["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert all(parameter["description"] for parameter in operation.get("parameters", ()))
    assert set(FIELDS) <= {field for schema in schemas.values() for field in schema.get("properties", {})}


@pytest.mark.requirement("docs.whole", "probes.health", "auth.host")
def test_answers_with_something_in_them_are_as_described(lived_in: Api) -> None:
    for name, body in (
        ("search", {"user_id": "alice", "query": "coffee", "include_profile": True, "include_unprocessed": True,
                    "filters": {"session_id": "open"}}),
        ("search", {"user_id": "alice", "query": "coffee login", "top_k": 100, "method": "agentic"}),
        ("search", {"agent_id": "coder", "query": "login test"}),
        *(("get", {"user_id": "alice", "memory_type": kind}) for kind in ("episode", "profile", "atomic_fact")),
        *(("get", {"agent_id": "coder", "memory_type": kind}) for kind in ("agent_case", "agent_skill")),
        ("add", {"session_id": "x", "messages": [said("Hi.")], "async_mode": True}),
        ("jobs", {}),
        ("flush", {"session_id": "x"}),
        ("delete", {"session_id": "x"}),
        ("delete", {"id": "nothing"}),
        ("add", {}),
    ):  # fmt: skip
        check_against_description(named(name), lived_in.post(name, body))
    task = lived_in.queue(said("Hi."), session="y")
    check_against_description(named("task"), lived_in.client.get(f"/api/v2/tasks/{task}"))
    check_against_description(named("tasks"), lived_in.client.get("/api/v2/tasks"))
    health = build_document()["paths"]["/health"]["get"]["responses"]["200"]
    check_shape(health["content"]["application/json"]["schema"], lived_in.client.get("/health").json())
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):  # refusals of the guard, too
        for call in DESCRIBED:
            answer = lived_in.client.request(call.method, call.addresses[0], headers=headers)
            check_against_description(call, answer)
