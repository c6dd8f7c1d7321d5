"""The API's own description: bodies made from it, right and wrong, are answered as it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode

from cofio.doors.rest.openapi import document
from cofio.embed.hashed import Hashed

from .conftest import CALLS, COFFEE, HOUR, PREFIX, Api, T, said, serving


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A memory with something of every kind."""
    with serving(tmp_path_factory.mktemp("described"), embedder=Hashed()) as (api, _):
        api.run("one")
        api.run("two", at=T + HOUR)
        api.told(COFFEE, session="s", at=T + 2 * HOUR)
        api.add(said("Waiting.", T + 3 * HOUR), session="open")
        yield api


def check_against_description(call: str, answer: Any) -> None:
    """An answer is one that the description has, and has its shape."""
    described = document()
    responses: dict[str, Any] = described["paths"][f"{PREFIX}/{call}"]["post"]["responses"]
    assert answer.status_code < 500, answer.text
    assert str(answer.status_code) in responses
    schema = responses[str(answer.status_code)]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": described["components"]}).validate(answer.json())


@pytest.mark.requirement("docs.whole", "errors.never-500")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
def test_whatever_is_made_from_the_description_is_answered_as_it_says(
    lived_in: Api, call: str, mode: GenerationMode
) -> None:
    described = schemathesis.openapi.from_dict(document())
    operation = described[f"{PREFIX}/{call}"]["POST"]

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        if isinstance(case.body, dict | list | str | int | float | bool | None):
            check_against_description(call, lived_in.post(call, case.body))

    check()


@pytest.mark.requirement("docs.whole")
def test_answers_with_something_in_them_are_as_described(lived_in: Api) -> None:
    for call, body in (
        ("search", {"user_id": "alice", "query": "coffee", "include_profile": True, "include_unprocessed": True,
                    "filters": {"session_id": "open"}}),
        ("search", {"user_id": "alice", "query": "coffee login", "top_k": 100, "method": "agentic"}),
        ("search", {"agent_id": "coder", "query": "login test"}),
        ("get", {"user_id": "alice", "memory_type": "episode"}),
        ("get", {"user_id": "alice", "memory_type": "profile"}),
        ("get", {"agent_id": "coder", "memory_type": "agent_case"}),
        ("get", {"agent_id": "coder", "memory_type": "agent_skill"}),
        ("add", {"session_id": "x", "messages": [said("Hi.")], "async_mode": True}),
        ("jobs", {}),
        ("flush", {"session_id": "x"}),
        ("delete", {"session_id": "x"}),
        ("delete", {"id": "nothing"}),
        ("add", {}),
    ):  # fmt: skip
        check_against_description(call, lived_in.post(call, body))


@pytest.mark.requirement("docs.whole")
def test_the_description_is_one_of_openapi() -> None:
    described = document()
    assert set(described) >= {"openapi", "info", "paths", "components"}
    for schema in described["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    names = [operation["post"]["operationId"] for operation in described["paths"].values()]
    assert names == list(CALLS)


@pytest.mark.requirement("docs.whole", "auth.host")
def test_refusals_of_the_guard_are_described_too(lived_in: Api) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        for call in CALLS:
            check_against_description(call, lived_in.post(call, {}, **headers))
