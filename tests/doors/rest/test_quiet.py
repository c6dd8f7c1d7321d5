"""A session that nobody flushes becomes memory all the same, once nothing has come to it for a while."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.waiting import wait_until

from cofio import Kind, Scope, Unavailable
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations, Project
from cofio.conversations.tasks import MAX_TASKS_RUNNING
from cofio.embed.hashed import HashedEmbedder

from .conftest import CLIMBING, COFFEE, MINUTE, T, said, serving
from .test_process import check_whole

SHORT = timedelta(milliseconds=50)


@pytest.mark.requirement("sessions.quiet")
def test_a_session_that_has_fallen_silent_is_carved_without_another_message(store: StoreAddress) -> None:
    with serving(store, embedder=HashedEmbedder()) as (api, _):
        api.add(said("I live in Bergen."), session="left", app_id="left")
    with serving(store, embedder=HashedEmbedder(), quiet=SHORT) as (api, _):
        api.add(said(CLIMBING), said(COFFEE, T + MINUTE))
        api.add(said("I live in Oslo."), session="t", app_id="shop", defer_extraction=True)
        wait_until(lambda: all(len(api.get(app_id=app)) == 1 for app in ("default", "shop", "left")))
        assert api.waiting() == []
        assert api.flush() == "no_extraction"


@pytest.mark.requirement("sessions.quiet", "server.several")
def test_of_several_servers_one_carves(store: StoreAddress) -> None:
    sessions = sorted(f"s{number}" for number in range(20))
    server = partial(serving, store, embedder=HashedEmbedder(), quiet=SHORT)
    with server() as (one, _), server() as (_, _):
        for number, session in enumerate(sessions):
            one.add(said(f"I saw bird {number}.", T + number), session=session, defer_extraction=True)
        wait_until(lambda: not any(one.waiting(session) for session in sessions))
        assert sorted(each["session_id"] for each in one.get(page_size=100)) == sessions
        for session in sessions:
            assert len(check_whole(one.engine, session)) == 1


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
        assert begun.wait(60)
        try:
            for n in range(MAX_TASKS_RUNNING + 1):  # each in a session of its own
                assert api.finished(api.queue(said(COFFEE), session=f"s{n}"))["status"] == "success"
            assert api.engine.list(Scope("rest"), kinds=(Kind.EPISODE,)) == []  # the look is not over
        finally:
            over.set()
        wait_until(lambda: not api.waiting("silent"))
