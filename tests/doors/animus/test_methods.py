"""The methods: what each takes and gives, and the words with which it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.doors.animus import owners
from cofio.doors.animus.protocol import ERRORS, find_code
from cofio.doors.mcp import tools
from cofio.engine.opening import exists
from cofio.values.records import MAX_DATA

from ...tiers import scale_examples
from .conftest import BLOCKS, INVALID, NOT_FOUND, WRONG, Answer, Inside, check_answer, handshake, scope

PING: Answer = {"jsonrpc": "2.0", "id": "p", "method": "$/ping"}
PONG: Answer = {"jsonrpc": "2.0", "id": "p", "result": {}}
CALLS: dict[str, Answer] = {
    "memory/put": {"key": "k", "value": 1}, "memory/get": {"key": "k"}, "memory/query": {"query": "zebra", "top_k": 1},
    "memory/delete_scope": {},
}  # fmt: skip
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.fixture
def crate(default_store: StoreAddress, root: Path) -> Iterator[Inside]:
    """A plugin with the crate's error codes."""
    host = Inside(codes="crate")
    host.initialize(root)
    yield host
    host.close()


# Frames.


@pytest.mark.requirement("frames.unparsable", "frames.invalid", "frames.blank", "frames.notification", "cancel")
def test_what_is_no_frame_is_told_and_dropped_and_what_wants_no_answer_gets_none(bare: Inside) -> None:
    wrong = [
        b"{", b"not json", b"\xff\xfe{}", b"[1,", b'{"a": NaN}', b"[" * 100_000, b"5", b'"text"', b"null", b"{}", b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"$/ping"}]',
        b'{"jsonrpc":"1.0","id":1,"method":"$/ping"}', b'{"id":1,"method":"$/ping"}',
        b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","id":1,"method":5}', b'{"jsonrpc":"2.0","id":1,"method":""}',
    ]  # fmt: skip
    bare.send(*wrong, PING)
    assert bare.next() == PONG
    assert len(bare.dropped) == len(wrong)
    silent = [
        b"", b"   ", b"\r", b'{"jsonrpc":"2.0","method":"nope"}', b'{"jsonrpc":"2.0","method":"memory/put"}',
        b'{"jsonrpc":"2.0","method":"initialized","params":null}', b'{"jsonrpc":"2.0","method":"$/progress"}',
        b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"p"}}', b'{"jsonrpc":"2.0","id":1,"result":{}}',
    ]  # fmt: skip
    bare.send(*silent, PING)
    assert bare.next() == PONG
    assert len(bare.dropped) == len(wrong)


@pytest.mark.requirement("frames.null-id", "frames.id")
def test_an_id_comes_back_as_it_was_and_several_requests_may_have_one(host: Inside) -> None:
    ids = [None, 0, -1, 2**63, 1.5, "text", "", True, [1, "x"], {"a": None}]
    calls: list[Answer] = [{"method": "$/ping"}, {"method": "nope"}, {"method": "$/ping", "params": []}]
    for number, call in product(ids, calls):
        host.send({"jsonrpc": "2.0", "id": number, **call})
        answer = host.next()
        assert json.dumps(answer["id"]) == json.dumps(number)
        check_answer(call["method"], answer)
    host.put(scope(), "k", 1)
    get = {"jsonrpc": "2.0", "id": None, "method": "memory/get", "params": {"scope": scope(), "key": "k"}}
    host.send(get, get, get)
    assert [host.next()["result"]["value"] for _ in range(3)] == [1, 1, 1]


@pytest.mark.requirement("frames.params")
def test_params_may_be_null_or_missing_and_hold_more_than_is_known(bare: Inside, root: Path) -> None:
    assert bare.result("$/ping") == {}
    bare.send({"jsonrpc": "2.0", "id": 1, "method": "$/ping", "params": None, "traceparent": "00-0"})
    assert bare.next()["result"] == {}
    bare.result("initialize", {**handshake(root), "new": {"deep": [1]}})
    bare.put({**scope(), "org_id": "o"}, "k", 1, priority="high")
    assert bare.get(scope(), "k") == {"found": True, "value": 1}


# The life of a process.


@pytest.mark.requirement("initialize.shape")
@pytest.mark.requirement("initialize.capabilities")
@pytest.mark.requirement("initialize.serves")
def test_the_handshake_is_in_both_shapes(bare: Inside, root: Path) -> None:
    result = bare.result("initialize", handshake(root))
    capability = {
        "crate_version": "0.1.0",
        "extra": {"native_ttl": True, "native_key_get": True, "strong_consistency": True, "max_query_top_k": 50},
    }
    assert result["protocol_version"] == "1.1.0"
    assert result["plugin_info"]["plugin_kind"] == "memory_store"
    assert result["kind_capabilities"] == {"memory_store": capability}
    assert result["capabilities"]["memory_store"] == capability
    assert result["capabilities"]["methods"] == [
        "memory/put", "memory/get", "memory/query", "memory/list_scopes", "memory/delete_scope", "health/check",
    ]  # fmt: skip
    assert result["capabilities"]["cancellation"] is False
    assert result["kinds"] == ["memory_store"]
    assert result["server_info"] == {"name": "animus-memory-cofio", "version": result["plugin_info"]["version"]}
    assert bare.get(scope(), "k") == {"found": False}  # nobody has said `initialized`


@pytest.mark.requirement("initialize.version", "initialize.no-version", "initialize.bad-root")
def test_a_host_of_another_major_version_without_one_or_without_a_root_is_refused(bare: Inside, root: Path) -> None:
    for version in ("2.0.0", "0.9.0", "11.0.0", "one"):
        code, message, data = bare.error("initialize", handshake(root, version))
        assert (code, data["category"]) == (WRONG, "invalid_request")
        assert message == f"incompatible protocol version: host={version}, plugin=1.1.0"
    unnamed: list[object] = [None, {}, *({"protocol_version": each} for each in ("", None, 1))]
    for params in unnamed:
        assert bare.error("initialize", params)[:2] == (WRONG, "host did not advertise a protocol_version")
    roots: list[object] = [{}, *({"project_root": each} for each in ("", 5, "a\0b", "\ud800")), 5, []]
    for binding in roots:
        said = bare.error("initialize", {**handshake(), "init_extensions": {"project_binding": binding}})[:2]
        assert said == (INVALID, "initialize requires init_extensions.project_binding.project_root")
    assert bare.error("memory/get", {"scope": scope(), "key": "k"})[0] == -32307
    for version in ("1.0.0", "1.1.0", "1.2.0-rc.1", "1"):
        bare.result("initialize", handshake(root, version))


@pytest.mark.requirement("initialize.again")
@pytest.mark.requirement("initialize.rebind")
def test_a_process_is_bound_to_one_root_for_life(host: Inside, root: Path) -> None:
    for same in (root, f"{root}/", f"{root}/../{root.name}"):
        assert host.result("initialize", handshake(same))["kinds"] == ["memory_store"]
    host.result("initialize", handshake())  # who names no root means no other
    code, message, data = host.error("initialize", handshake("/elsewhere"))
    assert (code, data["category"]) == (-32307, "project_binding_mismatch")
    assert message == f"plugin already bound to project_root='{root}', cannot rebind to '/elsewhere'"
    assert host.put(scope(), "k", 1)["ack"]  # and the first binding holds


@pytest.mark.requirement("initialize.unbound")
def test_without_a_binding_the_working_folder_is_the_project(bare: Inside, root: Path) -> None:
    bare.initialize()
    bare.put(scope(), "k", 1)
    assert (root / ".cofio" / "memory.db").exists()
    assert bare.error("initialize", handshake("/elsewhere"))[0] == -32307
    bare.result("initialize", handshake(root))


@pytest.mark.requirement("initialize.first", "unknown")
def test_nothing_is_served_before_the_handshake_and_no_unknown_method(bare: Inside) -> None:
    crate = Inside(codes="crate")
    for method in ("put", "get", "query", "list_scopes", "delete_scope"):
        code, _, data = bare.error(f"memory/{method}", {"scope": scope(), "key": "k"})
        assert (code, data) == (-32307, {"category": "project_binding_mismatch"})
        code, _, data = crate.error(f"memory/{method}", {})
        assert (code, data) == (-32000, {"category": "plugin_not_initialized"})
    crate.close()
    for method in ("memory/explode", "$/cancelRequest", "initialized", "tools/list", "Memory/Get"):
        code, message, data = bare.error(method, {})
        assert (code, message) == (NOT_FOUND, f"method '{method}' not supported")
        assert data == {"category": "method_not_found"}


@pytest.mark.requirement("ping")
@pytest.mark.requirement("health")
def test_ping_and_health_are_answered_before_and_after_the_handshake(bare: Inside, root: Path) -> None:
    for _ in range(2):
        assert bare.result("$/ping") == {}
        health = bare.result("health/check")
        assert health["status"] == "healthy"
        assert health["last_error"] is None
        assert health["memory_usage_bytes"] > 1_000_000
        assert health["uptime_ms"] >= 0
        bare.initialize(root)


@pytest.mark.requirement("shutdown")
def test_shutdown_comes_after_what_was_asked_for_before_it(host: Inside) -> None:
    puts = [
        {"jsonrpc": "2.0", "id": number, "method": "memory/put",
         "params": {"scope": scope(), "key": f"k{number}", "value": number}}
        for number in range(30)
    ]  # fmt: skip
    host.send(*puts, {"jsonrpc": "2.0", "id": "s", "method": "shutdown"})
    answers = [host.next() for _ in range(31)]
    assert answers[-1] == {"jsonrpc": "2.0", "id": "s", "result": {}}
    assert host.result("$/ping") == {}  # the process stays until exit


# Scopes.


@pytest.mark.requirement("scope.object", "scope.task", "scope.limits")
def test_a_bad_scope_is_refused_in_the_words_of_the_reference(host: Inside) -> None:
    no_object, no_project = "scope must be an object", "scope.project_id must be a non-empty string"
    no_agent, refused = "scope.task_id requires scope.agent_id", "must be a string or null"
    wrong: list[tuple[object, str]] = [
        (None, no_object), ("p", no_object), ([], no_object), ({}, no_project), ({"project_id": ""}, no_project),
        ({"project_id": 5}, no_project), ({"project_id": "p", "agent_id": 5}, f"scope.agent_id {refused}"),
        ({"project_id": "p", "agent_id": "a", "task_id": {}}, f"scope.task_id {refused}"),
        (scope(task="t"), no_agent), (scope(agent="", task="t"), no_agent),
    ]  # fmt: skip
    for (where, said), (method, more) in product(wrong, CALLS.items()):
        code, message, data = host.error(method, {"scope": where, **more})
        assert (code, message, data) == (INVALID, said, {"category": "invalid_params"})
    for name in ("x" * 257, "a\0b", "\ud800"):
        for where, method in product((scope(name), scope("p", name), scope("p", "a", name)), ("put", "get")):
            code, message, _ = host.error(f"memory/{method}", {"scope": where, "key": "k", "value": 1})
            assert (code, message[:7]) == (INVALID, "scope: ")
    assert host.scopes() == []


@pytest.mark.requirement("put.key", "get.key", "put.value", "put.ttl-huge", "put.limits", "query.text", "query.top-k")
@pytest.mark.requirement("query.mode", "list.project")
def test_a_bad_parameter_is_refused_in_the_words_of_the_reference(host: Inside) -> None:
    put, query = {"scope": scope(), "key": "k", "value": 1}, {"scope": scope(), "query": "x", "top_k": 1}
    keys: list[object] = [None, "", 5, [], {"a": 1}]
    sizes: list[object] = [None, 0, -1, 1.5, 5.0, "5", True, []]
    times: list[object] = [-1, 2**64, 1.5, "60", True, []]
    wrong: list[tuple[str, Answer, str]] = [
        # The key, the query and its size are checked before the scope.
        *((verb, {"key": key}, f"{verb}.key must be a non-empty string") for verb in ("put", "get") for key in keys),
        *(("query", {"query": text}, "query.query must be a non-empty string") for text in (None, "", 5, ["a"])),
        *(("query", {"query": "x", "top_k": size}, "query.top_k must be a positive integer") for size in sizes),
        *(("put", {**put, "ttl_secs": ttl}, "put.ttl_secs must be a non-negative integer or null") for ttl in times),
        ("put", {"scope": scope(), "key": "k"}, ""),
        ("put", {**put, "value": "x" * MAX_DATA}, "put.value: longer than the limit of 1,048,576 characters of JSON"),
        ("put", {**put, "value": "a\0b"}, "put.value: holds a NUL character"),
        ("put", {**put, "key": "k" * 1025}, "key: longer than the limit of 1,024 characters"),
        ("put", {**put, "key": "a\0b"}, "key: holds a NUL character"),
        ("query", {**query, "query": "x" * 10_001}, "query.query: longer than the limit of 10,000 characters"),
        ("query", {**query, "mode": "magic"}, "query.mode must be one of keyword, hybrid, semantic"),
        ("list_scopes", {"project_id": 5}, ""),
    ]  # fmt: skip
    for method, params, said in wrong:
        code, message, _ = host.error(f"memory/{method}", params)
        assert (code, message) == (INVALID, said or message)
    assert host.scopes() == []
    host.put(scope(), "k" * 1024, "x" * (MAX_DATA - 2))
    assert host.get(scope(), "k" * 1024)["value"] == "x" * (MAX_DATA - 2)
    for text in ("AND OR NOT", '"*', " ", "zebra" + " x" * 4997):
        host.query(scope(), text)


@pytest.mark.requirement("scope.exact", "scope.empty")
def test_a_call_sees_its_own_scope_alone_and_an_empty_agent_or_task_is_none(host: Inside) -> None:
    places = [scope("p"), scope("p", "a"), scope("p", "a", "t"), scope("p", "b"), scope("q")]
    for number, place in enumerate(places):
        host.put(place, "same", f"zebra {number}")
        host.put(place, f"own{number}", "zebra")
    for number, place in enumerate(places):
        assert host.get(place, "same")["value"] == f"zebra {number}"
        assert sorted(host.query(place, "zebra")) == sorted(["same", f"own{number}"])
        assert host.get(place, f"own{(number + 1) % 5}") == {"found": False}
    assert host.get({"project_id": "p", "agent_id": "", "task_id": None}, "same")["value"] == "zebra 0"
    assert host.get(scope("p", "a", ""), "same")["value"] == "zebra 1"


@pytest.mark.requirement("scope.collision")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (scope("P"), scope("p")), (scope("p__agent_a"), scope("p", "a")), (scope("x" * 65), scope("x" * 64)),
    ],
)  # fmt: skip
def test_two_scopes_with_one_id_collide_and_are_never_one_memory(host: Inside, first: Answer, second: Answer) -> None:
    host.put(first, "k", "of the first zebra")
    for method, more in CALLS.items():
        code, message, data = host.error(method, {"scope": second, **more})
        assert (code, data["category"]) == (-32303, "memory_scope_collision")
        assert data["scope_id"] in message
    assert host.get(first, "k")["value"] == "of the first zebra"
    assert host.scopes() == [first]
    host.result("memory/delete_scope", {"scope": first})
    host.put(second, "k", "of the second")  # the id is free again
    assert host.scopes() == [second]
    assert host.error("memory/get", {"scope": first, "key": "k"})[0] == -32303


@pytest.mark.requirement("scope.collision")
@pytest.mark.parametrize("late", [True, False])
def test_a_put_whose_id_is_taken_in_the_middle_of_it_leaves_nothing(
    host: Inside, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    claim, mine = owners.claim, owners.Owner("p")
    host.put(scope("p"), "k", 1)

    def robbed(engine: Engine, place: owners.Owner) -> None:
        """Between the put and the look after it, others delete the scope and take its id."""
        monkeypatch.undo()
        if late:
            owners.delete(engine, mine)
        else:
            entry = owners.find_entry(engine, mine)
            assert entry
            engine.delete(entry.id)
        claim(engine, owners.Owner("P"))
        claim(engine, place)

    monkeypatch.setattr(owners, "claim", robbed)
    assert host.error("memory/put", {"scope": scope("p"), "key": "k", "value": 2})[0] == -32303
    assert host.scopes() == [scope("P")]
    assert host.get(scope("P"), "k") == {"found": False}
    host.result("memory/delete_scope", {"scope": scope("P")})
    assert host.get(scope("p"), "k") == {"found": False}


# put and get.


@pytest.mark.requirement("get.found", "put.result", "put.value")
@settings(max_examples=scale_examples(40))
@given(key=TEXT.filter(bool), value=JSON)
@example(key="k", value=2**70)
@example(key="k", value={"a": [1, None, {"b": "text\n\u2028😀"}]})
def test_any_key_and_any_value_come_back(host: Inside, key: str, value: Any) -> None:
    result = host.put(scope(), key, value)
    assert (result["ack"], result["indexed_immediately"], bool(result["record_id"])) == (True, True, True)
    assert host.get(scope(), key) == {"found": True, "value": value}


@pytest.mark.requirement("put.again")
def test_the_last_value_stands(host: Inside) -> None:
    first = host.put(scope(), "k", "the zebra", ttl_secs=60)
    second = host.put(scope(), "k", "the yak")
    assert first["record_id"] == second["record_id"]
    assert host.get(scope(), "k")["value"] == "the yak"
    assert host.query(scope(), "zebra") == []
    assert host.query(scope(), "yak") == ["k"]


@pytest.mark.requirement("put.ttl", "put.ttl-huge")
def test_an_entry_ends_when_its_time_is_up(host: Inside, advance: Callable[[float], None]) -> None:
    huge = [2**64 - 1, 2**63, 365_000 * 86_400, 365_000 * 86_400 + 1]
    for key, ttl in {"short": 60, "long": 3600, "ever": None, "over": 0}.items() | {(str(each), each) for each in huge}:
        host.put(scope(), key, "zebra", ttl_secs=ttl)
    advance(59)
    assert host.get(scope(), "short")["found"]
    assert host.get(scope(), "over") == {"found": False}
    advance(2)
    assert host.get(scope(), "short") == {"found": False}
    assert sorted(host.query(scope(), "zebra")) == sorted(["ever", "long", *map(str, huge)])
    host.put(scope(), "short", "zebra again")  # the key is free
    advance(10**9)
    assert sorted(host.query(scope(), "zebra")) == sorted(["ever", "short", *map(str, huge)])


@pytest.mark.requirement("get.missing", "get.direct", "query.unknown-scope", "query.most", "store.project")
def test_what_is_not_there_is_no_error_only_a_put_makes_a_memory_and_a_key_is_found_among_many(
    default_store: StoreAddress, host: Inside, root: Path
) -> None:
    for made in (False, True):
        assert host.get(scope("never seen"), "k") == {"found": False}
        assert host.result("memory/query", {"scope": scope("never"), "query": "x", "top_k": 1}) == {"results": []}
        assert host.scopes() == [scope()] * made
        host.result("memory/delete_scope", {"scope": scope("never")})
        assert exists(default_store) is made
        for number in range(60):  # more than a query gives
            host.put(scope(), f"k{number}", "all alike")
    assert host.get(scope(), "other") == {"found": False}
    assert host.get(scope(), "k0") == {"found": True, "value": "all alike"}
    assert len(host.query(scope(), "alike", 50)) == 50
    code, message, data = host.error("memory/query", {"scope": scope(), "query": "x", "top_k": 51})
    assert (code, message) == (-32306, "query.top_k=51 exceeds backend max 50")
    assert data == {"category": "query_top_k_exceeded", "max_query_top_k": 50}
    assert host.error("memory/query", {"scope": {}, "query": "x", "top_k": 51})[0] == INVALID


# query.


@pytest.mark.requirement("query.results")
@pytest.mark.requirement("put.immediate")
def test_a_query_finds_keys_values_and_words_within_values_best_first(host: Inside) -> None:
    host.put(scope(), "api-style", {"rule": "use snake_case", "why": ["consistency", 42]})
    host.put(scope(), "sky", "the sky is blue")
    host.put(scope(), "both", "a blue sky in a blue, blue picture of the sky")
    assert host.query(scope(), "what about the api?") == ["api-style"]
    assert host.query(scope(), "consistency") == ["api-style"]
    assert host.query(scope(), "42") == ["api-style"]
    result = host.result("memory/query", {"scope": scope(), "query": "blue sky", "top_k": 5})
    scores = [each["score"] for each in result["results"]]
    assert scores == sorted(scores, reverse=True)
    assert {each["key"]: each["value"] for each in result["results"]}["sky"] == "the sky is blue"
    assert len(host.query(scope(), "blue sky", 1)) == 1


@pytest.mark.requirement("query.mode")
def test_a_query_is_by_words_until_meaning_is_asked_for_and_says_which(host: Inside) -> None:
    host.put(scope(), "k", "the staging database moved")

    def asked(**more: object) -> Answer:
        found: Answer = host.result("memory/query", {"scope": scope(), "query": "staging", "top_k": 5, **more})
        assert [each["key"] for each in found["results"]] == ["k"]
        metadata: Answer = found["metadata"]
        return metadata

    assert asked() == {"mode": "keyword", "degraded": None}
    assert asked(mode="keyword") == {"mode": "keyword", "degraded": None}
    assert asked(mode=None) == {"mode": "keyword", "degraded": None}
    # What had no vector yet gets it on the way.
    assert asked(mode="hybrid") == {"mode": "hybrid", "degraded": None}
    assert asked(mode="semantic") == {"mode": "semantic", "degraded": None}
    assert asked() == {"mode": "hybrid", "degraded": None}  # now that the model is there, it costs nothing


@pytest.mark.requirement("query.fits")
def test_of_large_values_the_best_that_the_host_can_read_are_given(host: Inside) -> None:
    for number in range(9):
        host.put(scope(), f"k{number}", "zebra " + "é" * 500_000)
    host.send({"jsonrpc": "2.0", "id": 1, "method": "memory/query",
               "params": {"scope": scope(), "query": "zebra", "top_k": 50}})  # fmt: skip
    line = host.reads.readline()
    result = json.loads(line)["result"]
    assert len(line) < 8 * 1024 * 1024
    assert len(result["results"]) == 7
    assert result["metadata"]["degraded"] == "2 more were found, which do not fit into one answer"


# list_scopes and delete_scope.


@pytest.mark.requirement("list.pages", "list.size", "list.bad")
def test_scopes_come_in_pages_of_a_hundred_and_never_more_than_five_hundred(
    default_store: StoreAddress, host: Inside
) -> None:
    for number in range(5):
        host.put(scope(f"p{number}"), "k", 1)
    pages, cursor = [], None
    while True:
        result = host.result("memory/list_scopes", {"page_size": 2, "cursor": cursor})
        pages.append(([each["project_id"] for each in result["scopes"]], result.get("next_cursor")))
        if (cursor := result.get("next_cursor")) is None:
            break
    assert pages == [(["p0", "p1"], "2"), (["p2", "p3"], "3"), (["p4"], None)]
    assert "next_cursor" not in host.result("memory/list_scopes", {"page_size": 5})
    for bad in ("", "x", "-1", "0", "1.5", "²", 2, "9" * 5000):
        assert len(host.scopes(page_size=2, cursor=bad)) == 2
    assert host.scopes(page_size=2, cursor="999999999") == []
    with Engine.open(default_store) as engine:
        for number in range(5, 501):
            owners.claim(engine, owners.Owner(f"p{number}"))
    for bad_size in (None, 0, -5, 1.5, "2", True):
        assert len(host.scopes(page_size=bad_size)) == 100
    assert len(host.scopes(page_size=2**32)) == 500
    assert len(host.scopes(page_size=501, cursor="2")) == 1


@pytest.mark.requirement("list.project")
def test_the_filter_compares_projects_as_they_are_normalised(host: Inside) -> None:
    for place in (scope("Alpha Beta!"), scope("Alpha Beta!", "a__b"), scope("alpha"), scope("alpha2"),
                  scope("p", "a__b"), scope("p__agent_a", "b")):  # fmt: skip
        host.put(place, "k", 1)
    assert host.scopes(project_id="alpha   BETA") == [scope("Alpha Beta!"), scope("Alpha Beta!", "a__b")]
    assert host.scopes(project_id="alpha") == [scope("alpha")]
    assert host.scopes(project_id="p__agent_a") == [scope("p__agent_a", "b")]
    assert host.scopes(project_id="p") == [scope("p", "a__b")]
    assert host.scopes(project_id="nobody") == []
    assert host.scopes(project_id="\ud800") == []
    assert len(host.scopes(project_id="")) == len(host.scopes(project_id=None)) == 6


@pytest.mark.requirement("delete")
def test_deleting_is_exact_and_idempotent(host: Inside) -> None:
    places = [scope("p"), scope("p", "a"), scope("p", "a", "t")]
    assert host.result("memory/delete_scope", {"scope": scope("p")}) == {"ack": True}
    for place in places:
        for number in range(3):
            host.put(place, f"k{number}", "zebra")
    for _ in range(2):
        assert host.result("memory/delete_scope", {"scope": scope("p", "a")}) == {"ack": True}
    assert host.get(scope("p", "a"), "k0") == {"found": False}
    assert host.query(scope("p", "a"), "zebra") == []
    assert host.scopes() == [scope("p"), scope("p", "a", "t")]
    assert len(host.query(scope("p"), "zebra")) == len(host.query(scope("p", "a", "t"), "zebra")) == 3


# Errors.


@pytest.mark.requirement("errors.codes")
@pytest.mark.requirement("errors.category")
def test_both_editions_of_the_codes_name_the_same_errors(host: Inside, crate: Inside) -> None:
    assert [find_code(name, "seed") for name in ERRORS] == list(range(-32301, -32308, -1))
    assert [find_code(name, "crate") for name in ERRORS] == list(range(-32401, -32408, -1))
    host.put(scope("P"), "k", 1)
    for each, block in ((host, BLOCKS["seed"]), (crate, BLOCKS["crate"])):
        wrong = {
            "memory_scope_collision": each.error("memory/get", {"scope": scope("p"), "key": "k"}),
            "query_top_k_exceeded": each.error("memory/query", {"scope": scope("P"), "query": "x", "top_k": 51}),
            "project_binding_mismatch": each.error("initialize", handshake("/elsewhere")),
        }
        assert {name: data["category"] for name, (_, _, data) in wrong.items()} == {name: name for name in wrong}
        assert [code - block for code, _, _ in wrong.values()] == [-3, -6, -7]
        assert each.error("memory/get", {"scope": scope()})[0] == INVALID  # the others are the same in both


@pytest.mark.requirement("errors.backend")
@pytest.mark.requirement("health")
def test_a_store_that_fails_is_told_and_tried_again(root: Path) -> None:
    (root / ".cofio").write_text("a file where the folder should be")
    host = Inside()
    host.initialize(root)
    code, message, data = host.error("memory/put", {"scope": scope(), "key": "k", "value": 1})
    assert (code, data) == (-32304, {"category": "backend_unavailable"})
    health = host.result("health/check")
    assert (health["status"], health["last_error"]) == ("degraded", message)
    (root / ".cofio").unlink()
    assert host.put(scope(), "k", 1)["ack"]
    assert host.result("health/check")["status"] == "healthy"
    host.close()


@pytest.mark.requirement("errors.backend", "query.mode")
def test_a_bad_setting_or_root_is_the_backends_fault_and_a_missing_model_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(where: object) -> str:
        host = Inside()
        host.initialize(where)
        code, message, _ = host.error("memory/put", {"scope": scope(), "key": "k", "value": 1})
        host.close()
        assert code == -32304
        return message

    assert "is not a folder" in refuse(root / "missing")
    assert not (root / "missing").exists()
    refuse("/" + "x" * 5000)
    with monkeypatch.context() as wrong:
        wrong.setenv("COFIO_FLOOR", "high")
        refuse(root)
    monkeypatch.setenv("COFIO_EMBEDDER", "minilm")
    monkeypatch.setenv("COFIO_MODELS", str(root / "none"))
    host = Inside()
    host.initialize(root)
    host.put(scope(), "k", "zebra")
    asked = {"scope": scope(), "query": "zebra", "top_k": 1}
    assert host.result("memory/query", asked)["metadata"] == {"mode": "keyword", "degraded": None}
    result = host.result("memory/query", {**asked, "mode": "hybrid"})
    host.close()
    assert [each["key"] for each in result["results"]] == ["k"]
    assert "searched by words only" in result["metadata"]["degraded"]


# The memory.


@pytest.mark.requirement("store.shared")
def test_an_mcp_client_finds_what_was_put(default_store: StoreAddress, host: Inside, root: Path) -> None:
    host.put(scope("p", "a"), "deploy-day", {"rule": "we deploy on Fridays"})
    with Engine.open(default_store, settings=Settings(embedder="hashed", sync="normal")) as engine:
        answer = tools.call_tool(lambda: engine, "search_context", {"query": "deploy on which day", "everywhere": True})
        assert "] deploy-day\n" in answer.text
        assert "we deploy on Fridays" in answer.text
        assert "animus/p/a" in answer.text
        home = tools.call_tool(lambda: engine, "search_context", {"query": "deploy on which day"})
        assert "deploy-day" not in home.text
        internal = tools.call_tool(lambda: engine, "search_context", {"query": "proj_p", "everywhere": True})
        assert "proj_p" not in internal.text


@pytest.mark.requirement("errors.gone")
@pytest.mark.requirement("health")
def test_a_store_that_is_moved_away_is_told_until_the_plugin_is_started_again(root: Path) -> None:
    host = Inside()
    host.initialize(root)
    host.put(scope(), "k", 1)
    (root / ".cofio").rename(root / "elsewhere")
    for method, params in (
        ("memory/put", {"scope": scope(), "key": "k", "value": 2}), ("memory/get", {"scope": scope(), "key": "k"}),
        ("memory/query", {"scope": scope(), "query": "k", "top_k": 1}), ("memory/list_scopes", {}),
    ):  # fmt: skip
        code, message, data = host.error(method, params)
        assert (code, data) == (-32304, {"category": "backend_unavailable"})
        assert "start this program again" in message
    assert host.result("health/check")["status"] == "degraded"
    host.close()
    assert not (root / ".cofio").exists()
