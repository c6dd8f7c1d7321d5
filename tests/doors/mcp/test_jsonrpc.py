"""The loop on pipes: whatever comes in, it answers as the protocol says and goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import PATIENCE, wait_until

from cofio.config.address import StoreAddress
from cofio.doors import jsonrpc
from cofio.doors.jsonrpc import Id, Lane, Params, RpcError
from cofio.doors.lazy_memory import Memory
from cofio.doors.mcp.stdio import HANDSHAKE
from cofio.doors.mcp.surface import STATELESS
from cofio.engine.opening import exists
from cofio.values.records import Json

from .conftest import ENVELOPE, PROPERTY, Pipes, Tools, Wires

PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": "p", "result": {}}


def call_tool(request_id: object, name: str, **arguments: object) -> dict[str, object]:
    """Return the message that calls a tool."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


@pytest.mark.requirement("rpc.lines")
def test_an_answer_is_one_line_to_every_reader(pipes: Pipes) -> None:
    told = "one\u2028two\u2029three\x85four\x0bfive"
    pipes.ask("initialize", protocolVersion=HANDSHAKE[-1], capabilities={}, clientInfo={"name": "x", "version": "1"})
    pipes.ask("tools/call", name="write_context", arguments={"topic": told, "content": told})
    pipes.send(call_tool(told, "search_context", query="three"))
    line = pipes.reads.readline().decode()
    assert len(line.splitlines()) == 1
    answer = json.loads(line)
    assert answer["id"] == told
    assert told in answer["result"]["content"][0]["text"]


BAD_FRAMES: list[tuple[bytes, object, int]] = [
        (b"{", None, -32700), (b"not json", None, -32700), (b"\xff\xfe{}", None, -32700), (b"[1,", None, -32700),
        (b'{"a": 1e999}', None, -32700), (b'{"a": NaN}', None, -32700), (b"[" * 100_000, None, -32700),
        (b'{"id":' + b"9" * 5000 + b"}", None, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}', 1, -32602),
        (b'{"method":"ping","params":{"x":' + b"9" * 5000 + b'},"jsonrpc":"2.0","id":1}', 1, -32602),
        (b"5", None, -32600), (b'"text"', None, -32600), (b"null", None, -32600), (b"{}", None, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, -32600),
        (b'{"id":1,"method":"ping"}', 1, -32600),
        (b'{"jsonrpc":"2.0","id":1}', 1, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', 1, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', 1, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"nope"}', 1, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}', 1, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', 1, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', 1, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_context","arguments":[]}}', 1, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}', 1, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":["a"]}}', 1, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', 1, -32602),
        (b"[]", None, -32600), (b"[" + json.dumps(PING).encode() + b"]", None, -32600),
]  # fmt: skip


@pytest.mark.requirement("rpc.errors")
def test_a_bad_message_is_answered_with_its_error_and_the_next_one_is_served(pipes: Pipes) -> None:
    for frame, request_id, code in BAD_FRAMES:
        pipes.send(frame, PING)
        answers = [pipes.next(), pipes.next()]
        answers.remove(PONG)
        (answer,) = answers
        assert (answer["id"], answer["error"]["code"]) == (request_id, code), frame[:100]
        assert answer["error"]["message"]


@pytest.mark.requirement("rpc.notifications")
def test_what_wants_no_answer_gets_none(pipes: Pipes) -> None:
    for frame in (
        b"", b"   ", b"\r",
        b'{"jsonrpc":"2.0","method":"nope"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}',
        b'{"jsonrpc":"2.0","id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}',
    ):  # fmt: skip
        pipes.send(frame, PING)
        assert pipes.next() == PONG, frame


@pytest.mark.requirement("rpc.bounded")
def test_a_huge_message_is_refused_without_being_held(pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonrpc, "MAX_FRAME", 100_000)
    pipes.send(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 1_000_000 + b'"}', PING)
    answer = pipes.next()
    assert (answer["id"], answer["error"]["code"]) == (1, -32600)
    assert "100,000 bytes" in answer["error"]["message"]
    assert pipes.next() == PONG
    for frame, known in (
        (b'{"method":"x","params":{"id":5,"x":"' + b"y" * 300_000 + b'"},"jsonrpc":"2.0","id":"seven"}', "seven"),
        (b'{"method":"x","id":9,"params":{"x":"' + b"y" * 300_000 + b'"}}', None),
    ):
        pipes.send(frame)
        assert pipes.next()["id"] == known
    just = {"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"x": ""}}
    just["params"] = {"x": "y" * (99_999 - len(json.dumps(just)))}
    pipes.send(just)
    assert pipes.next()["id"] == 2


@pytest.mark.requirement("rpc.bounded")
def test_a_message_of_very_many_values_is_refused_before_it_is_parsed(pipes: Pipes) -> None:
    for start, known in ((b'{"jsonrpc":"2.0","id":1,"method":"ping","params":', 1), (b"", None)):
        pipes.send(start + b"[" + b"[]," * 700_000, PING)  # no JSON to the end
        answers = [pipes.next(), pipes.next()]
        answers.remove(PONG)
        assert answers[0]["id"] == known
        assert "more than 2,000,000 values" in answers[0]["error"]["message"]


@pytest.mark.requirement("rpc.lines")
def test_carriage_returns_are_white_space_and_the_last_line_needs_no_end(memory: Memory) -> None:
    client = Pipes(memory)
    client.writes.write(b"\xef\xbb\xbf" + json.dumps(PING).encode() + b"\r\n" + json.dumps(PING | {"id": 2}).encode())
    client.writes.flush()
    assert client.next() == PONG
    client.writes.close()
    assert client.next()["id"] == 2
    client.close()


@pytest.mark.requirement("rpc.lines")
def test_a_line_cut_off_in_the_middle_does_nothing(memory: Memory) -> None:
    client = Pipes(memory)
    whole = call_tool(1, "write_context", topic="t", content="c")
    client.writes.write(json.dumps(whole).encode()[:-1])
    client.close()
    assert memory.engine.count() == 0


@pytest.mark.requirement("rpc.errors")
@PROPERTY
@given(frames=st.lists(st.binary(max_size=300), max_size=8))
def test_no_bytes_end_the_loop(memory: Memory, frames: list[bytes]) -> None:
    with closing(Pipes(memory)) as client:
        client.send(*frames, PING)
        while (answer := client.next()) != PONG:
            assert answer["error"]["code"] in (-32700, -32600)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_method = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list",
     "prompts/list", "prompts/get", "server/discover", "logging/setLevel", ""]
)  # fmt: skip
_params = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["search_context", "write_context", "list_context", "set_state", "get_state"]) | _json,
        "arguments": st.dictionaries(
            st.sampled_from(["query", "topic", "content", "tags", "top_k", "limit", "key", "value", "id"]), _json
        ) | _json,
        "uri": _json, "cursor": _json, "protocolVersion": _json, "_meta": _json,
    },
)  # fmt: skip


@pytest.mark.requirement("rpc.errors")
@PROPERTY
@given(calls=st.lists(st.tuples(_method, _params), max_size=6))
def test_every_request_gets_one_answer_whatever_it_holds(memory: Memory, calls: list[tuple[str, Any]]) -> None:
    with closing(Pipes(memory)) as client:
        client.send(*({"jsonrpc": "2.0", "id": n, "method": m, "params": p} for n, (m, p) in enumerate(calls)))
        answers = [client.next() for _ in calls]
    assert sorted(answer["id"] for answer in answers) == list(range(len(calls)))
    for answer in answers:
        assert ("result" in answer) != ("error" in answer)
        assert answer.get("error", {}).get("code") != -32603, answer


@pytest.mark.requirement("rpc.unicode")
def test_half_a_surrogate_pair_is_given_back_as_it_came(pipes: Pipes) -> None:
    pipes.send(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}')
    assert pipes.next() == {"jsonrpc": "2.0", "id": "\ud800", "result": {}}
    pipes.send(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"\\udfff"}}')
    assert pipes.next()["result"]["isError"]


# Eras and revisions.


@pytest.mark.requirement("rpc.revisions")
@pytest.mark.parametrize("asked", [*HANDSHAKE, "1999-01-01", STATELESS, "2030-01-01"])
def test_a_handshake_agrees_on_the_revision_that_the_client_asks_for_or_the_newest(pipes: Pipes, asked: str) -> None:
    result = pipes.ask("initialize", protocolVersion=asked, capabilities={}, clientInfo={})["result"]
    assert result["protocolVersion"] == (asked if asked in HANDSHAKE else HANDSHAKE[-1])
    assert result["serverInfo"]["name"] == "cofio"
    assert set(result["capabilities"]) == {"tools", "resources", "prompts"}
    assert "resultType" not in pipes.ask("tools/list")["result"]
    assert pipes.ask("server/discover")["error"]["code"] == -32601
    assert pipes.ask("tools/list", _meta=ENVELOPE)["error"]["code"] == -32600


@pytest.mark.requirement("rpc.revisions")
def test_the_stateless_era_has_no_handshake_and_says_more_in_each_result(pipes: Pipes) -> None:
    found = pipes.ask("server/discover", _meta=ENVELOPE)["result"]
    assert found["supportedVersions"] == [STATELESS]
    for method in ("server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        result = pipes.ask(method, _meta=ENVELOPE)["result"]
        assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "cofio"
    called = pipes.ask("tools/call", name="list_context", _meta=ENVELOPE)["result"]
    assert called["resultType"] == "complete"
    assert "ttlMs" not in called
    assert pipes.ask("ping", _meta=ENVELOPE)["error"]["code"] == -32601
    refused = pipes.ask("initialize", protocolVersion="2025-11-25")["error"]
    assert (refused["code"], refused["data"]["supported"]) == (-32022, [STATELESS])
    assert pipes.ask("tools/list")["error"]["code"] == -32602
    version = "io.modelcontextprotocol/protocolVersion"
    assert pipes.ask("tools/list", _meta={version: STATELESS})["error"]["code"] == -32602
    assert pipes.ask("tools/list", _meta=ENVELOPE | {version: 5})["error"]["code"] == -32602


@pytest.mark.requirement("rpc.revisions")
def test_a_client_of_a_later_revision_is_told_ours_and_may_still_shake_hands(pipes: Pipes) -> None:
    later = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    error = pipes.ask("server/discover", _meta=later)["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": [STATELESS], "requested": "2031-01-01"}
    assert pipes.ask("initialize", protocolVersion="2025-11-25")["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("rpc.batches")
def test_batches_are_answered_in_the_one_revision_that_has_them(pipes: Pipes) -> None:
    pipes.ask("initialize", protocolVersion="2025-03-26")
    pipes.send(
        [
            PING,
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 7, "result": {}},
            call_tool(1, "write_context", topic="T", content="zebra"),
            call_tool(2, "search_context", query="zebra", search_mode="bm25"),
            5,
        ]
    )
    answers = {answer["id"]: answer for answer in pipes.next()}
    assert set(answers) == {"p", 1, 2, None}
    assert "] T\n" in answers[2]["result"]["content"][0]["text"]
    pipes.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}], PING)
    assert pipes.next() == PONG  # nothing but notifications: nothing to answer
    pipes.send([], PING)
    assert pipes.next()["error"]["code"] == -32600


# What runs beside what.


class Stuck:
    """A server whose requests end when the test says so."""

    allows_batches = False

    def __init__(self) -> None:
        self.free: dict[str, threading.Event] = {}
        self.begun: dict[str, threading.Event] = {}
        self.order: list[str] = []

    def event(self, of: dict[str, threading.Event], name: str) -> threading.Event:
        return of.setdefault(name, threading.Event())

    def choose_lane(self, method: str, params: Params) -> Lane:
        return {"look": Lane.READ, "change": Lane.WRITE}.get(method, Lane.INLINE)

    def receive_notification(self, method: str, params: Params) -> Id | None:
        return jsonrpc.parse_id(params.get("requestId"))

    def run_request(self, method: str, params: Params) -> Json:
        name = str(params.get("name", ""))
        if method in ("look", "change"):
            self.order.append(name)
            self.event(self.begun, name).set()
            assert self.event(self.free, name).wait(PATIENCE)
        if method == "fault":
            raise ZeroDivisionError("oops")
        if method == "refuse":
            raise RpcError(-32000, "no", {"why": 1})
        return {"name": name}


class Wire(Wires):
    """A client of a server that is none of memory's."""

    def call(self, method: str, name: str) -> None:
        self.send({"jsonrpc": "2.0", "id": name, "method": method, "params": {"name": name}})


@pytest.fixture
def stuck() -> Stuck:
    """A server whose requests end when the test says so."""
    return Stuck()


@pytest.fixture
def wire(stuck: Stuck) -> Iterator[Wire]:
    """A client of it."""
    client = Wire(stuck)
    yield client
    for event in stuck.free.values():
        event.set()
    client.close()


@pytest.mark.requirement("rpc.concurrent")
def test_a_slow_call_does_not_hold_up_a_ping_or_another_look(stuck: Stuck, wire: Wire) -> None:
    wire.call("look", "slow")
    assert stuck.event(stuck.begun, "slow").wait(PATIENCE)
    wire.send(PING)
    assert wire.next()["id"] == "p"
    wire.call("look", "quick")
    stuck.event(stuck.free, "quick").set()
    assert wire.next()["id"] == "quick"
    stuck.event(stuck.free, "slow").set()
    assert wire.next()["id"] == "slow"


@pytest.mark.requirement("rpc.order")
def test_changes_are_made_in_order_and_looks_see_those_before_them(stuck: Stuck, wire: Wire) -> None:
    for method, name in [("change", "c1"), ("look", "l1"), ("change", "c2"), ("look", "l2"), ("look", "l3")]:
        wire.call(method, name)
    assert stuck.event(stuck.begun, "c1").wait(PATIENCE)
    wire.send(PING)
    assert wire.next()["id"] == "p"
    assert stuck.order == ["c1"]
    stuck.event(stuck.free, "c1").set()
    assert wire.next()["id"] == "c1"
    for name in ("l1", "c2"):
        assert stuck.event(stuck.begun, name).wait(PATIENCE)
    assert "l2" not in stuck.order
    for name in ("l1", "l2", "l3", "c2"):
        stuck.event(stuck.free, name).set()
    assert sorted(wire.next()["id"] for _ in range(4)) == ["c2", "l1", "l2", "l3"]
    assert stuck.order.index("c2") < min(stuck.order.index("l2"), stuck.order.index("l3"))


@pytest.mark.requirement("rpc.cancelled")
def test_a_cancelled_call_is_not_answered_and_one_that_waits_is_not_run(stuck: Stuck, wire: Wire) -> None:
    wire.call("change", "first")
    wire.call("change", "second")
    assert stuck.event(stuck.begun, "first").wait(PATIENCE)
    for name in ("first", "second", "unknown"):
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}})
    wire.send(PING)
    assert wire.next()["id"] == "p"
    stuck.event(stuck.free, "first").set()
    wire.call("change", "third")
    stuck.event(stuck.free, "third").set()
    assert wire.next()["id"] == "third"
    assert stuck.order == ["first", "third"]


@pytest.mark.requirement("rpc.concurrent")
def test_with_too_many_slow_calls_a_further_one_is_told_so_and_a_ping_is_answered(
    stuck: Stuck, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonrpc, "BUSY", 4)
    names = [f"n{number}" for number in range(6)]
    for name in names:
        wire.call("look", name)
    for name in names[4:]:
        answer = wire.next()
        assert (answer["id"], answer["error"]["code"]) == (name, -32603)
        assert "try again" in answer["error"]["message"]
    wire.send(PING)
    assert wire.next()["id"] == "p"
    for name in names:
        stuck.event(stuck.free, name).set()
    assert sorted(wire.next()["id"] for _ in names[:4]) == names[:4]
    assert sorted(stuck.order) == names[:4]


@pytest.mark.requirement("rpc.concurrent")
def test_after_slow_calls_one_thread_is_left_to_read(stuck: Stuck, wire: Wire) -> None:
    def readers() -> int:
        return sum(thread.name == "cofio-reading" for thread in threading.enumerate())

    wire.send(PING)
    assert wire.next()["id"] == "p"
    before = readers()
    for name in ("a", "b", "c"):
        wire.call("look", name)
        assert stuck.event(stuck.begun, name).wait(PATIENCE)
    assert readers() >= before + 2
    for name in ("a", "b", "c", "again"):
        stuck.event(stuck.free, name).set()
    assert sorted(wire.next()["id"] for _ in range(3)) == ["a", "b", "c"]

    def is_one_left() -> bool:
        wire.call("look", "again")
        return bool(wire.next()["id"] == "again" and readers() <= before)

    wait_until(is_one_left)


@pytest.mark.requirement("rpc.end")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_loop_itself_ends_the_connection_and_nothing_hangs(stuck: Stuck, wire: Wire) -> None:
    def broken(method: str, params: Params) -> Lane:
        raise MemoryError

    stuck.choose_lane = broken  # type: ignore[method-assign]  # as a fault of ours would be
    wire.send(PING)
    wire.running.join(PATIENCE)
    assert not wire.running.is_alive()
    for thread in threading.enumerate():  # what it says of its end belongs to this test
        if thread.name == "cofio-reading":
            thread.join(PATIENCE)


@pytest.mark.requirement("rpc.errors")
def test_a_fault_of_ours_is_an_answer_and_not_the_end(stuck: Stuck, wire: Wire) -> None:
    wire.call("fault", "f")
    assert wire.next()["error"]["code"] == -32603
    wire.call("refuse", "r")
    assert wire.next()["error"] == {"code": -32000, "message": "no", "data": {"why": 1}}
    wire.send(PING)
    assert wire.next()["id"] == "p"


@pytest.mark.requirement("rpc.end")
def test_calls_that_the_client_sent_before_it_went_are_answered(memory: Memory) -> None:
    client = Pipes(memory)
    client.send(*(call_tool(number, "write_context", topic=f"T{number}", content="zebra") for number in range(20)))
    client.writes.close()
    assert [client.next()["id"] for _ in range(20)] == list(range(20))
    client.close()
    assert memory.engine.count() == 20


@pytest.mark.requirement("rpc.end")
def test_a_client_that_stops_reading_does_not_end_the_loop_with_a_fault(memory: Memory) -> None:
    client = Pipes(memory)
    assert client.ask("ping")["result"] == {}
    client.reads.close()
    client.send(PING, PING, PING)
    client.close()


@pytest.mark.requirement("rpc.order")
def test_a_write_is_seen_by_every_search_that_was_sent_after_it(pipes: Pipes) -> None:
    frames: list[dict[str, object]] = []
    for number in range(0, 40, 2):
        frames.append(call_tool(number, "write_context", topic=f"T{number}", content=f"unique{number}"))
        frames.append(call_tool(number + 1, "search_context", query=f"unique{number}", search_mode="bm25"))
    pipes.send(*frames)
    answers = {answer["id"]: answer for answer in (pipes.next() for _ in frames)}
    for number in range(0, 40, 2):
        assert f"] T{number}\n" in answers[number + 1]["result"]["content"][0]["text"]


@pytest.mark.requirement("process.start")
def test_the_memory_is_not_opened_for_a_handshake(pipes: Pipes, default_store: StoreAddress) -> None:
    pipes.ask("initialize", protocolVersion="2025-11-25")
    assert not exists(default_store)
    assert Tools(pipes).list_context().text == "Memory store is empty."
    assert exists(default_store)
