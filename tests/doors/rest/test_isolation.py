"""Whose memory is whose: apps, projects and owners never see each other's, and tokens are held to their limits."""

from __future__ import annotations

from typing import Any

import pytest

from cofio.http.tokens import Tokens

from .conftest import CALLS, CLIMBING, COFFEE, HOUR, PREFIX, VALID, Api, Json, T, enveloped, failed, said

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


@pytest.mark.requirement(
    "scope.isolated", "scope.default", "search.scope", "get.scope", "add.app_id", "add.project_id", "flush.scope",
    "update.refused", "delete.all",
)  # fmt: skip
def test_nothing_is_seen_or_changed_from_another_app_or_project(full: Api) -> None:
    mine, before = seen(full), full.everything()
    assert mine == seen(full, app_id="default", project_id="default")
    assert all(mine[kind] for kind in ("episode", "profile", "agent_case", "agent_skill", "waiting", "jobs"))
    ids = [each["id"] for kind in ("episode", "agent_case", "agent_skill") for each in mine[kind]]
    fact = full.search("climbing in Yosemite")["episodes"][0]["atomic_facts"][0]["id"]
    message = full.waiting("open")[0]["id"]
    job = full.ok("jobs")["jobs"][0]["job_id"]
    for place in ELSEWHERE:
        theirs = seen(full, **place)
        assert theirs["jobs"] == 0
        assert not any(theirs[kind] for kind in ("episode", "profile", "agent_case", "agent_skill", "waiting"))
        assert not any([*theirs["user"].values(), *theirs["agent"].values()])
        assert full.flush("open", **place) == "no_extraction"
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
        assert api.flush(**place) == "extracted"
        (episode,) = api.get(**place)
        assert episode["id"] == "alice_ep_20260528_00000001"
        for each in (waiting, episode):
            named = {"app_id": "default", "project_id": "default", **place}
            assert {field: each[field] for field in named} == named
        assert TOWNS[n] in episode["episode"]
        assert TOWNS[n] in str(api.get("profile", **place))
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
    for other in ("alice", "ALICE", "Alic", "Alice.", "Alice2", "Alice_", "alice_ep_20260528", "bob", "bot", "open"):
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


@pytest.mark.requirement("scope.charset", "scope.length")
def test_every_name_of_the_charset_is_taken(api: Api) -> None:
    for name in ("a", "A_z.0@b+c-d", "...", ".a", "-", "x" * 128, "0"):
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


@pytest.mark.requirement("auth.none", "auth.tokens", "auth.host")
@pytest.mark.parametrize("call", CALLS)
def test_a_limited_token_is_held_to_its_limits_by_every_call(guarded: tuple[Api, Tokens], call: str) -> None:
    api, tokens = guarded
    assert asked(api, call, None).status_code in (200, 404)  # none is asked for before there is one
    app, project = tokens.add("app", app="shop"), tokens.add("project", app="shop", project="web")
    read, both = tokens.add("read", access="read"), tokens.add("both", app="shop", access="read")
    before = api.everything()
    refusals: list[tuple[str, str, Json]] = [
        (app, "app", {}), (app, "app", {"app_id": "Shop"}), (project, "project", {"app_id": "shop"}),
        (project, "app", {"project_id": "web"}), (both, "app", {}),
    ]  # fmt: skip
    for token, beyond, place in refusals:
        assert failed(asked(api, call, token, **place), 403).endswith(f"it may not use another {beyond}")
    for wrong in (None, "x", app[:-1]):
        answer = asked(api, call, wrong)
        assert "cofio token add" in failed(answer, 401, f"{PREFIX}/{call}")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    for token, place in ((read, {}), (both, {"app_id": "shop"})):
        answer = asked(api, call, token, **place)
        if call in WRITES:
            assert failed(answer, 403).endswith("it may not change anything")
        else:
            enveloped(answer)
    for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://localhost:3000"}, 403)):
        refused = api.post(call, VALID[call], Authorization=f"Bearer {app}", **headers)
        assert failed(refused, status, f"{PREFIX}/{call}")
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
