"""The methods of the plugin, on every backend, as a host calls them from the handshake to the exit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio.config.address import StoreAddress
from cofio.engine.opening import exists

from .conftest import LONGEST, Inside, scope


@pytest.mark.requirement("host", "put.result", "get.found", "query.results", "list.pages", "delete", "scope.collision")
def test_a_host_puts_gets_queries_lists_and_deletes(
    default_store: StoreAddress, host: Inside, advance: Callable[[float], None]
) -> None:
    project, agent = scope("Host Project!"), scope("Host Project!", "A__α")
    assert host.get(project, "sky") == {"found": False}
    assert not exists(default_store)
    host.put(project, "sky", "the sky is blue")
    host.put(project, "short", {"a": [1, None, "ü\n"]}, ttl_secs=60)
    host.put(agent, "sky", None)
    assert host.get(project, "short") == {"found": True, "value": {"a": [1, None, "ü\n"]}}
    assert host.get(agent, "sky") == {"found": True, "value": None}
    assert host.query(project, "what colour is the sky", 5) == ["sky"]
    assert host.query(project, "what colour is the sky", 5, mode="hybrid") == ["sky"]
    advance(61)
    assert host.get(project, "short") == {"found": False}
    assert host.error("memory/put", {"scope": scope("host-project"), "key": "k", "value": 1})[0] == -32303
    assert host.scopes(project_id="host   PROJECT") == [project, agent]
    for _ in range(2):
        assert host.result("memory/delete_scope", {"scope": project}) == {"ack": True}
    assert host.scopes() == [agent]
    assert exists(default_store)


@pytest.mark.requirement("exit.request", "exit.notification")
@pytest.mark.parametrize("asked", [True, False])
def test_exit_ends_the_connection_and_a_request_is_answered_first(
    default_store: StoreAddress, root: Path, asked: bool
) -> None:
    host = Inside()
    host.initialize(root)
    host.put(scope(), "k", 1)
    host.send({"jsonrpc": "2.0", "method": "exit"} | ({"id": 7} if asked else {}))
    host.running.join(LONGEST)
    assert not host.running.is_alive()
    host.ours.close()
    assert [json.loads(line) for line in host.reads] == [{"jsonrpc": "2.0", "id": 7, "result": {}}] * asked
    host.close()
