"""A session that nobody flushes becomes memory all the same, once nothing has come to it for a while."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.waiting import wait_until

from cofio import Engine, Kind, Scope, Unavailable
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations, Project
from cofio.conversations.idle import find_quiet_sessions
from cofio.doors.rest.jobs import WORKERS
from cofio.embed.hashed import HashedEmbedder
from cofio.extract.extractor import Message

from .conftest import CLIMBING, COFFEE, MINUTE, T, said, serving
from .test_process import Start, ask, check_whole, start

__all__ = ["start"]

SHORT = timedelta(milliseconds=50)


@pytest.mark.requirement("sessions.quiet")
def test_a_session_that_has_fallen_silent_is_carved_without_another_message(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder(), quiet=SHORT) as (api, _):
        api.door.jobs.resume()  # as a server does when it starts
        api.add(said(CLIMBING), said(COFFEE, T + MINUTE))
        api.add(said("I live in Oslo."), session="t", app_id="shop", defer_extraction=True)
        wait_until(lambda: len(api.get()) == 1 and len(api.get(app_id="shop")) == 1)
        assert api.waiting() == []
        assert api.flush() == "no_extraction"


@pytest.mark.requirement("sessions.quiet")
def test_a_session_that_was_left_open_is_carved_by_the_next_server(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        api.door.jobs.resume()
        api.add(said(CLIMBING))
    with serving(store, embedder=HashedEmbedder(), quiet=SHORT) as (api, _):
        api.door.jobs.resume()
        wait_until(lambda: len(api.get()) == 1)


@pytest.mark.requirement("sessions.quiet", "server.several")
def test_of_several_servers_one_carves(store: StoreAddress) -> None:
    with (
        serving(store, embedder=HashedEmbedder(), quiet=SHORT) as (one, _),
        serving(store, embedder=HashedEmbedder(), quiet=SHORT) as (
            two,
            _,
        ),
    ):
        for number in range(20):
            one.add(said(f"I saw bird {number}.", T + number), session=f"s{number}", defer_extraction=True)
        for api in (one, two):
            api.door.jobs.resume()
        wait_until(lambda: not any(one.waiting(f"s{number}") for number in range(20)))
        episodes = one.get(page_size=100)
        assert sorted(each["session_id"] for each in episodes) == sorted(f"s{number}" for number in range(20))
        for number in range(20):
            assert len(check_whole(one.engine, f"s{number}")) == 1


@pytest.mark.requirement("sessions.quiet", "errors.logs")
@pytest.mark.parametrize("error", [RuntimeError("SECRET"), Unavailable("SECRET")])
def test_one_that_cannot_be_carved_keeps_neither_the_others_nor_the_server(
    store: StoreAddress, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    real = Conversations.carve

    def carve(conversations: Conversations, place: Project, session: str, **more: Any) -> int:
        if session == "a":
            raise error
        return real(conversations, place, session, **more)

    monkeypatch.setattr(Conversations, "carve", carve)
    with serving(store, embedder=HashedEmbedder(), quiet=SHORT) as (api, _):
        for session in ("a", "b"):
            api.add(said(CLIMBING), session=session, defer_extraction=True)
        api.door.jobs.resume()
        wait_until(lambda: not api.waiting("b"))
        assert len(api.waiting("a")) == 1
        assert api.finished(api.queue(said(COFFEE), session="c"))["status"] == "success"
    assert "SECRET" not in caplog.text


@pytest.mark.requirement("sessions.quiet", "tasks.prompt")
def test_tasks_do_not_wait_until_all_silent_sessions_are_carved(
    store: StoreAddress, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    real, begun, over = Conversations.carve, threading.Event(), threading.Event()

    def carve(conversations: Conversations, place: Project, session: str, **more: Any) -> int:
        if session == "silent":
            begun.set()
            assert over.wait(120)
        return real(conversations, place, session, **more)

    monkeypatch.setattr(Conversations, "carve", carve)
    with serving(store, embedder=HashedEmbedder(), quiet=SHORT) as (api, _):
        api.add(said(CLIMBING), session="silent", defer_extraction=True)
        api.door.jobs.resume()
        assert begun.wait(60)
        try:
            for n in range(WORKERS + 1):  # each of them in a session of its own, so that they are as many jobs
                assert api.finished(api.queue(said(COFFEE), session=f"s{n}"))["status"] == "success"
            assert api.engine.list(Scope("rest"), kinds=(Kind.EPISODE,)) == []  # the look is not over
        finally:
            over.set()
        wait_until(lambda: not api.waiting("silent"))


@pytest.mark.requirement("sessions.quiet")
def test_which_sessions_are_quiet(store: StoreAddress) -> None:
    with Engine.open(store) as engine:
        api = Conversations(engine)

        def keep(session: str, place: Project = Project()) -> None:  # noqa: B008  # a value
            long_ago = datetime(2020, 1, 1, tzinfo=UTC)  # when it was said does not count, but when it came in
            api.append(place, session, [Message(id="", sender="alice", role="user", at=long_ago, text="Hi.")])

        before = datetime.now(UTC)
        keep("a")
        keep("b", Project(app="shop", name="web"))
        keep("carved")
        api.carve(Project(), "carved", whole=True)
        assert list(find_quiet_sessions(engine, before)) == []
        after = datetime.now(UTC)
        assert sorted(session for _, session in find_quiet_sessions(engine, after)) == ["a", "b"]
        assert (Project(app="shop", name="web"), "b") in list(find_quiet_sessions(engine, after))
        keep("a2")
        assert sorted(session for _, session in find_quiet_sessions(engine, after)) == ["a", "b"]


@pytest.mark.requirement("sessions.quiet")
def test_the_setting_says_when(start: Start) -> None:
    server = start(COFIO_QUIET_AFTER="0.001")
    with closing(server.connect()) as connection:
        assert ask(connection, "add", {"session_id": "s", "messages": [said(CLIMBING)]})[0] == 200
        asked = {"user_id": "alice", "memory_type": "episode"}
        wait_until(lambda: ask(connection, "get", asked)[1]["data"]["total_count"] == 1)
