"""Whose memory is whose: apps, projects and owners never see each other's, and tokens are held to their limits."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.doors.web.tokens import Tokens

from .conftest import (
    CALLS,
    CLIMBING,
    COFFEE,
    HOUR,
    PREFIX,
    VALID,
    Api,
    Json,
    T,
    enveloped,
    failed,
    said,
)

ELSEWHERE: list[Json] = [
    {"app_id": "other"}, {"project_id": "other"}, {"app_id": "Default"}, {"project_id": "Default"},
    {"app_id": "default_app", "project_id": "default_project"}, {"app_id": "default.default"},
]  # fmt: skip


TOWNS = ["Oslo", "Bergen", "Paris", "Rome"]


@pytest.fixture
def full(api: Api) -> Api:
    """A memory that has something of every kind, in the default app and project."""
    api.run("one")
    api.run("two", at=T + HOUR)
    api.told(CLIMBING, COFFEE, session="s", at=T + 2 * HOUR)
    api.add(said("I am waiting.", T + 3 * HOUR), session="open")
    api.done(api.queue(said("Later.", T + 4 * HOUR), session="later"))
    api.engine.settle()  # scores do not hang on how many vectors a search had the time to make
    return api


def seen(api: Api, **place: Any) -> Json:
    """Everything that can be seen of a place."""
    found = {
        kind: api.get(kind, "alice" if kind in ("episode", "profile") else "coder", **place)
        for kind in ("episode", "profile", "agent_case", "agent_skill")
    }
    more = {"include_profile": True, "include_unprocessed": True, "top_k": 100, **place}
    return {
        **found,
        "user": api.search("climbing login test waiting", filters={"session_id": "open"}, **more),
        "waiting": api.search("waiting", **more)["message_hits"],
        "agent": api.ok("search", agent_id="coder", query="login test", top_k=100, **place),
        "jobs": api.ok("jobs", **place)["total_count"],
    }


@pytest.mark.requirement("scope.isolated", "scope.default", "search.scope", "get.scope", "add.app_id", "add.project_id")
@pytest.mark.parametrize("place", ELSEWHERE, ids=str)
def test_nothing_is_seen_from_another_app_or_project(full: Api, place: Json) -> None:
    mine = seen(full)
    assert mine == seen(full, app_id="default", project_id="default")
    assert all(mine[kind] for kind in ("episode", "profile", "agent_case", "agent_skill", "waiting", "jobs"))
    theirs = seen(full, **place)
    assert theirs["jobs"] == 0
    assert not any(theirs[kind] for kind in ("episode", "profile", "agent_case", "agent_skill", "waiting"))
    assert not any(theirs["user"].values())
    assert not any(theirs["agent"].values())


@pytest.mark.requirement("scope.isolated", "flush.scope", "update.refused", "delete.all")
@pytest.mark.parametrize("place", ELSEWHERE, ids=str)
def test_nothing_is_changed_from_another_app_or_project(full: Api, place: Json) -> None:
    before = full.everything()
    assert full.flush("open", **place) == "no_extraction"
    ids = [each["id"] for kind, owner in (("episode", "alice"), ("agent_case", "coder"), ("agent_skill", "coder"))
           for each in full.get(kind, owner)]  # fmt: skip
    fact = full.search("climbing in Yosemite")["episodes"][0]["atomic_facts"][0]["id"]
    message = full.waiting("open")[0]["id"]
    job = full.ok("jobs")["jobs"][0]["job_id"]
    for each in (*ids, fact, message):
        assert "no memory has the id" in full.refused("delete", {"id": each, **place}, 404)
        if each != message:
            full.refused("update", {"id": each, "content": "Mine now.", **place}, 404)
    full.refused("update", {"user_id": "alice", "profile_data": {}, **place}, 404)
    full.refused("jobs", {"job_id": job, **place}, 404)
    for target in ({"session_id": "s"}, {"user_id": "alice"}, {"agent_id": "coder"}, {"all": True}):
        assert not any(full.ok("delete", **target, **place).values())
    assert full.everything() == before


@pytest.mark.requirement("scope.isolated", "add.accumulates")
def test_the_same_names_in_another_place_are_another_memory(api: Api) -> None:
    places: list[Json] = [{}, {"app_id": "b"}, {"project_id": "b"}, {"app_id": "b", "project_id": "b"}]
    for n, place in enumerate(places):
        api.add(said(f"I live in {TOWNS[n]}."), **place)
    for n, place in enumerate(places):
        (waiting,) = api.waiting(**place)
        assert waiting["content"] == f"I live in {TOWNS[n]}."
        assert (waiting["app_id"], waiting["project_id"]) == (
            place.get("app_id", "default"), place.get("project_id", "default"),
        )  # fmt: skip
    for n, place in enumerate(places):
        assert api.flush(**place) == "extracted"
        (episode,) = api.get(**place)
        (profile,) = api.get("profile", **place)
        assert episode["id"] == "alice_ep_20260528_00000001"
        assert TOWNS[n] in episode["episode"]
        assert TOWNS[n] in str(profile)
        assert (episode["app_id"], episode["project_id"]) == (
            place.get("app_id", "default"), place.get("project_id", "default"),
        )  # fmt: skip
    assert api.ok("delete", all=True)["episodes"] == 1
    assert [len(api.get(**place)) for place in places] == [0, 1, 1, 1]


@pytest.mark.requirement("scope.owner")
def test_an_owner_sees_their_own_alone(full: Api) -> None:
    for owner in ("bob", "Alice", "alic", "alice2", "coder", "alice_ep_20260528"):
        assert full.get(owner=owner) == []
        assert full.get("profile", owner) == []
        found = full.search("climbing login test waiting", owner, include_profile=True, include_unprocessed=True)
        assert not any(found.values())
    for owner in ("alice", "Coder", "code"):
        assert full.get("agent_case", owner) == []
        assert full.get("agent_skill", owner) == []
        assert not any(full.ok("search", agent_id=owner, query="login test").values())
    before = full.get(), full.get("profile")
    full.ok("delete", user_id="bob")
    full.ok("delete", agent_id="alice")
    full.ok("delete", user_id="coder")
    assert (full.get(), full.get("profile")) == before


@pytest.mark.requirement("search.unprocessed-part", "scope.owner")
def test_waiting_messages_are_shown_to_those_who_take_part_in_the_session_alone(api: Api) -> None:
    api.add(said("My PIN is on the fridge.", sender="Alice"), said("Noted.", T + 1, "bot", "assistant"), session="open")

    def seen(session: str = "open", **owner: str) -> int:
        found = api.ok("search", query="PIN fridge", filters={"session_id": session}, **owner)
        return len(found["unprocessed_messages"])

    assert (seen(user_id="Alice"), seen(agent_id="bot")) == (2, 2)
    for other in (
        "alice",
        "ALICE",
        "Alic",
        "Alice.",
        "Alice2",
        "Alice_",
        "alice_ep_20260528",
        "bob",
        "bot",
        "open",
        "...",
    ):
        assert seen(user_id=other) == 0, other
    for other in ("Alice", "Bot", "BOT", "bo", "bot2", "open"):
        assert seen(agent_id=other) == 0, other
    assert seen("Open", user_id="Alice") == 0
    # A group's messages are for everyone in it, from their first word.
    api.add(said("Mine is on the door.", T + 2, "bob"), session="open")
    assert (seen(user_id="bob"), seen(user_id="Alice"), seen(user_id="eve")) == (3, 3, 0)
    # Who spoke before the last carve still takes part.
    assert api.flush("open") == "extracted"
    api.add(said("Anything else?", T + 3, "bot", "assistant"), session="open")
    assert (seen(user_id="bob"), seen(user_id="Alice"), seen(user_id="alice"), seen(user_id="eve")) == (1, 1, 0, 0)
    api.add(said("Hello", T + 4, "eve"), session="other")
    assert (seen(user_id="eve"), seen("other", user_id="eve"), seen("other", user_id="bob")) == (0, 1, 0)


BAD = {
    "": "String should have at least 1 character",
    "x" * 129: "String should have at most 128 characters",
    "a b": "String should match pattern '^[a-zA-Z0-9_.@+-]+$'",
    "a/b": "String should match pattern '^[a-zA-Z0-9_.@+-]+$'",
    "é": "String should match pattern '^[a-zA-Z0-9_.@+-]+$'",
    "a\n": "String should match pattern '^[a-zA-Z0-9_.@+-]+$'",
    "a\0": "String should match pattern '^[a-zA-Z0-9_.@+-]+$'",
    "٣": "String should match pattern '^[a-zA-Z0-9_.@+-]+$'",
    ".": "Value error, '.' and '..' are reserved (path traversal)",
    "..": "Value error, '.' and '..' are reserved (path traversal)",
}


@pytest.mark.requirement(
    "scope.length", "scope.charset", "scope.dots", "search.scope", "get.scope", "flush.scope", "add.app_id",
    "add.project_id",
)  # fmt: skip
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("field", ["app_id", "project_id"])
def test_names_of_apps_and_projects_are_checked_by_every_call(bare: Api, call: str, field: str) -> None:
    for name, message in BAD.items():
        assert bare.refused(call, {**VALID[call], field: name}) == f"{message}: {field}"
    odd: list[Any] = [5, None, [], {}]
    for wrong in odd:
        assert bare.refused(call, {**VALID[call], field: wrong}) == f"Input should be a valid string: {field}"


@pytest.mark.requirement("scope.charset", "scope.dots", "scope.length")
@pytest.mark.parametrize("call", ["search", "get", "delete", "update"])
@pytest.mark.parametrize("field", ["user_id", "agent_id"])
def test_names_of_owners_are_checked_by_every_call(bare: Api, call: str, field: str) -> None:
    if (call, field) == ("update", "agent_id"):
        assert bare.refused(call, {"agent_id": "a"}) == "Extra inputs are not permitted: agent_id"
        return
    rest = {"query": "x"} if call == "search" else {"memory_type": "episode"} if call == "get" else {}
    for name, message in BAD.items():
        assert bare.refused(call, {**rest, field: name}) == f"{message}: {field}"


@pytest.mark.requirement("scope.charset", "scope.length")
@pytest.mark.parametrize("name", ["a", "A_z.0@b+c-d", "...", ".a", "-", "x" * 128, "0"])
def test_every_name_of_the_charset_is_taken(api: Api, name: str) -> None:
    api.told(CLIMBING, sender=name, app_id=name, project_id=name)
    (episode,) = api.get(owner=name, app_id=name, project_id=name)
    assert episode["id"] == f"{name}_ep_20260528_00000001"
    assert api.ok("delete", id=episode["id"], app_id=name, project_id=name)["episodes"] == 1


# Who may ask.

WRITES = ("add", "flush", "delete", "update", "recall")


def asked(api: Api, call: str, token: str | None, **more: Any) -> Any:
    """The answer to a call with a token."""
    body = {**VALID[call], **more}
    return api.post(call, body, **({} if token is None else {"Authorization": f"Bearer {token}"}))


@pytest.mark.requirement("auth.none", "auth.tokens")
def test_a_token_is_asked_for_from_the_first_on(guarded: tuple[Api, Tokens]) -> None:
    api, tokens = guarded
    for call in CALLS:
        assert asked(api, call, None).status_code in (200, 404)
    token = tokens.add("laptop")
    for call in CALLS:
        for wrong in (None, "x", token[:-1]):
            answer = asked(api, call, wrong)
            assert "cofio token add" in failed(answer, 401, f"{PREFIX}/{call}")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert asked(api, call, token).status_code in (200, 404)


@pytest.mark.requirement("auth.tokens")
@pytest.mark.parametrize("call", CALLS)
def test_a_limited_token_is_held_to_its_limits_by_every_call(guarded: tuple[Api, Tokens], call: str) -> None:
    api, tokens = guarded
    app, project = tokens.add("app", app="shop"), tokens.add("project", app="shop", project="web")
    read, both = tokens.add("read", access="read"), tokens.add("both", app="shop", access="read")
    before = api.everything()
    refusals = {
        ("app", "use another app"): (app, {}), ("app2", "use another app"): (app, {"app_id": "Shop"}),
        ("project", "use another project"): (project, {"app_id": "shop"}),
        ("project2", "use another app"): (project, {"project_id": "web"}), ("both", "use another app"): (both, {}),
    }  # fmt: skip
    for (_, beyond), (token, place) in refusals.items():
        assert failed(asked(api, call, token, **place), 403).endswith(f"it may not {beyond}")
    for token, place in ((read, {}), (both, {"app_id": "shop"})):
        answer = asked(api, call, token, **place)
        if call in WRITES:
            assert failed(answer, 403).endswith("it may not change anything")
        else:
            enveloped(answer)
    assert api.everything() == before
    for token, place in ((app, {"app_id": "shop"}), (project, {"app_id": "shop", "project_id": "web"})):
        assert asked(api, call, token, **place).status_code in (200, 404)


@pytest.mark.requirement("auth.tokens")
def test_two_names_for_an_app_in_one_body_do_not_get_past_a_limit(guarded: tuple[Api, Tokens]) -> None:
    api, tokens = guarded
    token = tokens.add("app", app="shop")
    for first, second in (("shop", "default"), ("default", "shop")):
        body = f'{{"app_id": "{first}", "session_id": "s", "app_id": "{second}"}}'.encode()
        answer = api.post("delete", body, Authorization=f"Bearer {token}")
        assert answer.status_code == (200 if second == "shop" else 403)


@pytest.mark.requirement("auth.host")
@pytest.mark.parametrize("path", [*(f"{PREFIX}/{call}" for call in CALLS), "/health", "/metrics", "/openapi.json", "/"])
def test_host_and_origin_are_checked_on_every_route(bare: Api, path: str) -> None:
    for method in ("GET", "POST"):
        for headers, status in (
            ({"Host": "evil.example"}, 421), ({"Host": "localhost.evil.example"}, 421),
            ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
            ({"Origin": "http://localhost:3000"}, 403),
        ):  # fmt: skip
            answer = bare.client.request(method, path, headers=headers)
            assert answer.status_code == status
            assert len(answer.headers["x-request-id"]) == 32
            if path.startswith(PREFIX):
                assert failed(answer, status, path)
        own = bare.client.request(method, path, headers={"Origin": "http://localhost"})
        assert own.status_code not in (403, 421)
