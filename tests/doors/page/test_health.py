"""The health: how the memory grows, what it takes, how long calls take, what is spent and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cofio import Engine, Kind, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.doors.page import health_view
from cofio.doors.page.health_view import build_health, check_store, estimate_quantile
from cofio.doors.page.view_types import PageServer, ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.doors.store_checks import BACKUP_NOTE, note_backup, read_backup
from cofio.doors.web.board import Board, SharedCounts
from cofio.doors.web.failures import RequestError
from cofio.doors.web.links import Switchboard
from cofio.doors.web.membership import Membership
from cofio.doors.web.metrics import BUCKETS, Metrics
from cofio.doors.web.tokens import Token
from cofio.system.sockets import make_inbox
from cofio.values.scopes import MODEL_USAGE

from .conftest import Browser

Ask = Callable[..., ViewRequest]
NOTES = Scope("notes")
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


@pytest.fixture
def ask_server(ask: Ask, memory: Engine, store: StoreAddress) -> Ask:
    """Makes requests of a server that counts how long it takes."""
    metrics = Metrics(lambda: memory)
    server = PageServer(engine=lambda: memory, address=store, settings=Settings(), metrics=metrics)

    def make(viewer: Viewer | None = None, **parameters: str) -> ViewRequest:
        return replace(ask(viewer, **parameters), server=server)

    return make


@pytest.mark.requirement("page:health")
def test_records_are_counted_by_day_and_kind(memory: Engine, ask: Ask) -> None:
    memory.write(NOTES, text="one", created_at=NOON - timedelta(days=2))
    memory.write(NOTES, text="two", kind=Kind.FACT, created_at=NOON - timedelta(days=2))
    memory.write(NOTES, text="old", created_at=NOON - timedelta(days=200))
    model = build_health(ask())
    assert model.records == 3
    assert [(each.day, each.kinds) for each in model.days if each.total] == [
        ((NOON - timedelta(days=2)).date(), {"note": 1, "fact": 1})
    ]
    assert len(model.days) == health_view.DAYS
    assert "2 records in 30 days" in str(model.growth_plot)


@pytest.mark.requirement("page:health")
def test_bytes_and_what_waits_are_those_of_the_store(memory: Engine, ask: Ask) -> None:
    memory.write(NOTES, text="one")
    server = build_health(ask()).server
    assert server is not None
    assert server.bytes["database"] > 0
    assert server.waiting["for a vector"] == 1
    memory.settle()
    server = build_health(ask()).server
    assert server is not None
    assert server.waiting == {"for the word index": 0, "for a vector": 0}


@pytest.mark.requirement("page:health")
def test_how_long_requests_take_comes_from_the_metrics(ask_server: Ask) -> None:
    request = ask_server()
    assert request.server is not None
    assert request.server.metrics is not None
    for milliseconds in (3, 3, 3, 400):
        request.server.metrics.observe("GET", "/health", 200, milliseconds / 1000)
    server = build_health(request).server
    assert server is not None
    (latency,) = server.latencies
    assert (latency.count, latency.path) == (4, "other")  # the test has set no routes
    assert 2.5 <= latency.median <= 5
    assert 250 <= latency.slow <= 500
    assert latency.mean == pytest.approx(102.25)


@pytest.mark.requirement("page:health")
def test_requests_of_all_workers_count(memory: Engine) -> None:
    board, counts = Board(Board.make(), 1), tuple(SharedCounts(SharedCounts.make()) for _ in range(2))
    inboxes = [make_inbox() for _ in range(2)]
    switchboard = Switchboard(inboxes[0][0], [sends for _, sends in inboxes])
    for number in range(2):
        member = Membership(number=number, board=board, counts=counts, switchboard=switchboard)
        metrics = Metrics(lambda: memory, member=member)
        metrics.observe("POST", "/anything", 200, 0.003)
    (durations,) = metrics.read_durations()
    assert (durations.method, durations.path, sum(durations.buckets)) == ("POST", "other", 2)
    assert durations.buckets[2] == 2
    assert durations.seconds == pytest.approx(0.006)
    for both in inboxes:
        for end in both:
            end.close()


@pytest.mark.requirement("page:health")
@pytest.mark.parametrize(
    ("counts", "share", "seconds"),
    [({}, 0.5, 0.0), ({0: 10}, 0.5, 0.0005), ({0: 1, 3: 1}, 1.0, 0.01), ({len(BUCKETS): 5}, 0.95, BUCKETS[-1])],
)
def test_a_quantile_is_estimated_within_its_bucket(counts: dict[int, int], share: float, seconds: float) -> None:
    buckets = [counts.get(index, 0) for index in range(len(BUCKETS) + 1)]
    assert estimate_quantile(buckets, share) == pytest.approx(seconds)


@pytest.mark.requirement("page:health")
def test_what_a_model_costs_is_shown_by_day_beside_its_budget(memory: Engine, ask: Ask) -> None:
    server = build_health(ask()).server
    assert server is not None
    assert server.spend is None
    today = datetime.now(UTC).date()
    memory.put(MODEL_USAGE, today.isoformat(), kind=Kind.LEDGER, data={"calls": 3, "tokens": 500})
    memory.put(MODEL_USAGE, (today - timedelta(days=1)).isoformat(), kind=Kind.LEDGER, data={"calls": 1, "tokens": 70})
    model = build_health(ask())
    assert model.server is not None
    spend = model.server.spend
    assert spend is not None
    assert (spend.today.calls, spend.today.tokens) == (3, 500)
    assert [each.tokens for each in spend.days[-2:]] == [70, 500]
    assert "570 tokens" in str(model.spend_plot)


@pytest.mark.requirement("page:health")
def test_the_last_backup_is_known_by_its_note(ask_server: Ask, store: StoreAddress, tmp_path: Path) -> None:
    server = build_health(ask_server()).server
    assert server is not None
    assert server.backup_at is None
    note_backup(store.home, tmp_path / "copy", NOON)
    server = build_health(ask_server()).server
    assert server is not None
    assert (server.backup_at, server.backup_target) == (NOON, str(tmp_path / "copy"))


@pytest.mark.requirement("page:health")
def test_a_note_of_a_backup_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    for content in ("", "[]", '{"at": 7}', '{"at": "yesterday", "target": "x"}', "x" * 70_000):
        (tmp_path / BACKUP_NOTE).write_text(content)
        assert read_backup(tmp_path) is None
    note_backup(tmp_path / "missing", tmp_path, NOON)  # which is no reason to fail
    assert read_backup(tmp_path / "missing") is None


@pytest.mark.folder_only("the permissions of a folder")
@pytest.mark.requirement("page:health")
def test_what_is_wrong_around_the_memory_is_told(ask_server: Ask, store: StoreAddress) -> None:
    store.home.chmod(0o755)
    server = build_health(ask_server()).server
    assert server is not None
    assert any("0755" in fault for fault in server.faults)
    store.home.chmod(0o700)
    server = build_health(ask_server()).server
    assert server is not None
    assert server.faults == ()


@pytest.mark.folder_only("the name of a folder")
@pytest.mark.requirement("page:health")
def test_a_reader_with_a_token_learns_no_folder_of_this_machine(
    ask_server: Ask, store: StoreAddress, tmp_path: Path
) -> None:
    store.home.chmod(0o755)
    note_backup(store.home, tmp_path / "copy", NOON)
    assert str(tmp_path) in repr(build_health(ask_server()).server)
    token = Token(name="remote", made="2026-01-01", hash="x")
    server = build_health(ask_server(Viewer(token=token))).server
    assert server is not None
    assert str(tmp_path) not in repr(server)
    assert (server.backup_target, len(server.faults)) == ("copy", 1)


@pytest.mark.requirement("page:reach")
def test_a_limited_token_sees_the_growth_of_its_scope_and_nothing_of_the_server(memory: Engine, ask: Ask) -> None:
    memory.write(NOTES, text="others")
    memory.write(Scope("rest", "shop", "main"), text="theirs")
    viewer = Viewer(reach=Scope("rest", "shop"))
    model = build_health(ask(viewer))
    assert (model.records, model.server, model.spend_plot) == (1, None, None)
    with pytest.raises(RequestError):
        check_store(ask(viewer))


@pytest.mark.requirement("page:check")
def test_all_of_the_store_is_checked_when_asked(browser: Browser) -> None:
    browser.engine.write(NOTES, text="one")
    done = browser.post("/page/health/check", accept="application/json")
    assert done.status_code == 200
    assert done.json()["faults"] == []
    assert "nothing is wrong" in done.json()["message"]


@pytest.mark.requirement("page:check")
def test_one_check_runs_at_a_time(ask: Ask) -> None:
    with health_view._check_lock, pytest.raises(RequestError) as refused:
        check_store(ask())
    assert refused.value.status == 409
    assert check_store(ask()).data == {"faults": []}


@pytest.mark.requirement("page:health")
def test_the_page_shows_it(browser: Browser) -> None:
    browser.engine.write(NOTES, text="one", created_at=NOON)
    text = browser.show("/page/health")
    for expected in (
        "Records by day and kind",
        "How long requests take",
        "Last backup",
        "Check now",
        "No model is asked",
    ):
        assert expected in text
    assert browser.read("health", days=7)["days"][6]["total"] == 1
