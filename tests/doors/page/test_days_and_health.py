"""The days with their diary and what expires next, and the health: growth, bytes, latency, spend, findings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.waiting import PATIENCE

from cofio import Engine, Kind, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.doors.page import days_view, health_view
from cofio.doors.page.days_view import build_days
from cofio.doors.page.health_view import ServerHealth, build_health, check_store, estimate_quantile
from cofio.doors.page.view_types import PageServer, ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.doors.store_checks import BACKUP_NOTE, note_backup, read_backup
from cofio.http.errors import RequestError
from cofio.http.metrics import BUCKETS, SHARED_FOLDER, Metrics, PathDurations
from cofio.http.tokens import Token
from cofio.values.errors import Invalid
from cofio.values.scopes import MODEL_USAGE

from .conftest import Browser

Ask = Callable[..., ViewRequest]
NOTES = Scope("notes")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)  # which is the time of the clock
DAY = timedelta(days=1)


def write(memory: Engine, text: str, at: datetime, **more: Any) -> str:
    return memory.write(more.pop("scope", NOTES), text=text, created_at=at, **more).id


@pytest.mark.requirement("page:days")
def test_each_day_has_its_counts_by_kind_and_the_last_with_records_is_shown_in_order_by_pages(
    memory: Engine, ask: Ask
) -> None:
    write(memory, "second", NOON - DAY + timedelta(hours=1))
    write(memory, "first", NOON - DAY, kind=Kind.FACT)
    write(memory, "older", NOON - 3 * DAY)
    model = build_days(ask())
    assert len(model.days) == days_view.DAYS
    counts = {each.day: each.kinds for each in model.days if each.total}
    assert counts == {(NOON - DAY).date(): {"note": 1, "fact": 1}, (NOON - 3 * DAY).date(): {"note": 1}}
    assert (model.total, model.kinds) == (3, {"note": 2, "fact": 1})
    assert (model.day, model.day_total) == ((NOON - DAY).date(), 2)
    assert [each.title for each in model.entries] == ["first", "second"]
    for number in range(days_view.PAGE + 1):
        write(memory, f"entry {number}", NOON - DAY + timedelta(hours=2, seconds=number))
    first = build_days(ask())
    assert (len(first.entries), bool(first.next), first.before) == (days_view.PAGE, True, "")
    last = build_days(ask(day=str((NOON - DAY).date()), offset=str(days_view.PAGE)))
    assert [each.title for each in last.entries] == [f"entry {days_view.PAGE - 2 + each}" for each in range(3)]
    assert (bool(last.before), last.next) == (True, "")


@pytest.mark.requirement("page:days")
def test_an_old_memory_is_shown_where_it_ends_and_records_of_no_sensible_time_do_no_harm(
    memory: Engine, ask: Ask
) -> None:
    write(memory, "before all", datetime(1, 1, 3, tzinfo=UTC))
    write(memory, "after all", datetime(9999, 12, 29, tzinfo=UTC))
    assert build_days(ask()).total == 0
    write(memory, "long ago", datetime(1999, 12, 31, tzinfo=UTC))
    model = build_days(ask())
    assert model.day == model.days[-1].day == date(1999, 12, 31)
    assert [each.title for each in model.entries] == ["long ago"]


@pytest.mark.requirement("page:days")
@pytest.mark.parametrize(
    ("zone", "days"), [("UTC", {10}), ("Europe/Berlin", {10, 11}), ("Asia/Kathmandu", {11})]  # at a quarter to the hour
)  # fmt: skip
def test_days_begin_in_the_zone_of_the_server(memory: Engine, zone: str, days: set[int]) -> None:
    write(memory, "late", datetime(2026, 1, 10, 23, 30, tzinfo=UTC))
    write(memory, "early", datetime(2026, 1, 10, 18, 15, tzinfo=UTC))
    chosen = days_view.make_selection(Scope(), (Kind.NOTE,), ZoneInfo(zone))
    found = days_view.count_days(memory, chosen, date(2026, 1, 1), date(2026, 1, 20))
    assert set(found) == {date(2026, 1, day) for day in days}


@pytest.mark.requirement("page:days", "page:expiry")
def test_what_expires_next_comes_first_and_what_is_no_day_is_refused(memory: Engine, ask: Ask) -> None:
    write(memory, "in an hour", NOON, ttl=3600)
    write(memory, "in a minute", NOON, ttl=60)
    write(memory, "never", NOON)
    assert [each.title for each in build_days(ask()).expiring] == ["in a minute", "in an hour"]
    days = [("day", "yesterday"), ("until", "2026-02-30"), ("days", "4000"), ("day", "0999-01-01")]
    for name, value in (*days, ("kind", "ledger"), ("kind", "other")):
        with pytest.raises(Invalid):
            build_days(ask(**{name: value}))


@pytest.fixture
def ask_server(ask: Ask, memory: Engine, store: StoreAddress) -> Ask:
    """Makes requests of a server that counts how long it takes."""
    server = PageServer(
        engine=lambda: memory, address=store, settings=Settings(), metrics=Metrics(lambda: memory)
    )  # fmt: skip
    return lambda viewer=None, **parameters: replace(ask(viewer, **parameters), server=server)


def build_server(request: ViewRequest) -> ServerHealth:
    """The part of the view that is about the server."""
    server = build_health(request).server
    assert server is not None
    return server


@pytest.mark.requirement("page:health")
def test_records_bytes_and_what_waits_are_counted(memory: Engine, ask: Ask) -> None:
    memory.write(NOTES, text="one", created_at=NOON - timedelta(days=2))
    memory.write(NOTES, text="two", kind=Kind.FACT, created_at=NOON - timedelta(days=2))
    memory.write(NOTES, text="old", created_at=NOON - timedelta(days=200))
    model = build_health(ask())
    assert model.records == 3
    day = (NOON - timedelta(days=2)).date()
    assert [(each.day, each.kinds) for each in model.days if each.total] == [(day, {"note": 1, "fact": 1})]
    assert len(model.days) == health_view.DAYS
    assert "2 records in 30 days" in str(model.growth_plot)
    assert model.server is not None
    assert model.server.bytes["database"] > 0
    assert model.server.waiting["for a vector"] == 3
    memory.settle()
    assert build_server(ask()).waiting == {"for the word index": 0, "for a vector": 0}


@pytest.mark.requirement("page:health")
def test_how_long_requests_take_comes_from_the_metrics_of_the_server(ask_server: Ask) -> None:
    request = ask_server()
    assert request.server is not None
    assert request.server.metrics is not None
    for milliseconds in (3, 3, 3, 400):
        request.server.metrics.observe("GET", "/health", 200, milliseconds / 1000)
    (latency,) = build_server(request).latencies
    assert (latency.count, latency.path) == (4, "other")  # the test has set no routes
    assert 2.5 <= latency.median <= 5
    assert 250 <= latency.slow <= 500
    assert latency.mean == pytest.approx(102.25)
    assert estimate_quantile([0] * (len(BUCKETS) + 1), 0.5) == 0
    assert estimate_quantile([0] * len(BUCKETS) + [5], 0.95) == BUCKETS[-1]


@pytest.mark.requirement("page:health")
@pytest.mark.usefixtures("process")
def test_the_processes_of_a_server_count_the_time_of_requests_together(tmp_path: Path) -> None:
    script = (
        "from cofio.http.metrics import Metrics; metrics = Metrics(lambda: None);"
        " metrics.observe('POST', '/anything', 200, 0.003); print(metrics.read_durations())"
    )
    environ = {**os.environ, SHARED_FOLDER: str(tmp_path)}
    for count in (1, 2):
        shown = subprocess.check_output([sys.executable, "-c", script], env=environ, text=True, timeout=PATIENCE)
        buckets = (0, 0, count, *[0] * (len(BUCKETS) - 2))
        durations = PathDurations(method="POST", path="other", buckets=buckets, seconds=0.003 * count)
        assert shown == f"{[durations]}\n"


@pytest.mark.requirement("page:health")
def test_what_a_model_costs_is_shown_by_day_beside_its_budget(memory: Engine, ask: Ask) -> None:
    assert build_server(ask()).spend is None
    for back, calls, tokens in ((0, 3, 500), (1, 1, 70)):
        day = (NOON - timedelta(days=back)).date().isoformat()
        memory.put(MODEL_USAGE, day, kind=Kind.LEDGER, data={"calls": calls, "tokens": tokens})
    spend = build_server(ask()).spend
    assert spend is not None
    assert (spend.today.calls, spend.today.tokens) == (3, 500)
    assert [each.tokens for each in spend.days[-2:]] == [70, 500]
    assert "570 tokens" in str(build_health(ask()).spend_plot)


@pytest.mark.requirement("page:health")
def test_faults_and_the_last_backup_are_told_and_to_a_token_without_the_folders_of_this_machine(
    ask_server: Ask, store: StoreAddress, tmp_path: Path
) -> None:
    server = build_server(ask_server())
    assert (server.backup_at, server.faults) == (None, ())
    for content in ("", "[]", '{"at": 7}', '{"at": "yesterday", "target": "x"}', "x" * 70_000):
        (tmp_path / BACKUP_NOTE).write_text(content)
        assert read_backup(tmp_path) is None
    note_backup(tmp_path / "missing", tmp_path, NOON)  # which is no reason to fail
    assert read_backup(tmp_path / "missing") is None
    store.home.chmod(0o755)
    note_backup(store.home, tmp_path / "copy", NOON)
    server = build_server(ask_server())
    assert (server.backup_at, server.backup_target) == (NOON, str(tmp_path / "copy"))
    assert any("0755" in fault for fault in server.faults)
    token = Token(name="remote", made="2026-01-01", hash="x")
    server = build_server(ask_server(Viewer(token=token)))
    assert str(tmp_path) not in repr(server)
    assert (server.backup_target, len(server.faults)) == ("copy", 1)


@pytest.mark.requirement("page:check", "page:reach")
def test_the_store_is_checked_once_at_a_time_and_a_limited_token_sees_the_growth_of_its_scope_alone(
    browser: Browser, ask: Ask
) -> None:
    browser.engine.write(NOTES, text="others")
    browser.engine.write(Scope("rest", "shop", "main"), text="theirs")
    viewer = Viewer(reach=Scope("rest", "shop"))
    model = build_health(ask(viewer))
    assert (model.records, model.server, model.spend_plot) == (1, None, None)
    with pytest.raises(RequestError):
        check_store(ask(viewer))
    with health_view._check_lock, pytest.raises(RequestError) as refused:
        check_store(ask())
    assert refused.value.status == 409
    done = browser.post("/page/health/check", accept="application/json")
    assert done.status_code == 200
    assert done.json()["faults"] == []
    assert "nothing is wrong" in done.json()["message"]
