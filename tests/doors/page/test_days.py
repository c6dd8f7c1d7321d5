"""The days: their counts by kind, one of them as a diary, and what expires next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cofio import Engine, Kind, Scope
from cofio.doors.page import days_view
from cofio.doors.page.days_view import build_days
from cofio.doors.page.view_types import ViewRequest
from cofio.doors.page.viewer import Viewer
from cofio.values.errors import Invalid

from .conftest import Browser

Ask = Callable[..., ViewRequest]
NOTES = Scope("notes")
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)


def write(memory: Engine, text: str, at: datetime, **more: Any) -> str:
    return memory.write(more.pop("scope", NOTES), text=text, created_at=at, **more).id


@pytest.mark.requirement("page:days")
def test_each_day_has_its_counts_by_kind(memory: Engine, ask: Ask) -> None:
    write(memory, "one", NOON - DAY)
    write(memory, "two", NOON - DAY, kind=Kind.FACT)
    write(memory, "three", NOON - 3 * DAY)
    model = build_days(ask())
    assert len(model.days) == days_view.DAYS
    counts = {each.day: each.kinds for each in model.days if each.total}
    assert counts == {(NOON - DAY).date(): {"note": 1, "fact": 1}, (NOON - 3 * DAY).date(): {"note": 1}}
    assert model.total == 3
    assert model.kinds == {"note": 2, "fact": 1}


@pytest.mark.requirement("page:days")
def test_the_last_day_with_records_is_shown_in_the_order_in_which_things_happened(memory: Engine, ask: Ask) -> None:
    write(memory, "second", NOON - DAY + timedelta(hours=1))
    write(memory, "first", NOON - DAY)
    write(memory, "older", NOON - 2 * DAY)
    model = build_days(ask())
    assert model.day == (NOON - DAY).date()
    assert [each.title for each in model.entries] == ["first", "second"]
    assert model.day_total == 2


@pytest.mark.requirement("page:days")
def test_an_old_memory_is_shown_where_it_ends(memory: Engine, ask: Ask) -> None:
    write(memory, "long ago", datetime(2020, 5, 17, 9, tzinfo=UTC))
    model = build_days(ask())
    assert model.day == model.days[-1].day == date(2020, 5, 17)
    assert [each.title for each in model.entries] == ["long ago"]


@pytest.mark.requirement("page:days")
def test_records_of_no_sensible_time_do_no_harm(memory: Engine, ask: Ask) -> None:
    write(memory, "before all", datetime(1, 1, 3, tzinfo=UTC))
    write(memory, "after all", datetime(9999, 12, 29, tzinfo=UTC))
    assert build_days(ask()).total == 0
    write(memory, "sensible", datetime(1999, 12, 31, tzinfo=UTC))
    assert [each.title for each in build_days(ask()).entries] == ["sensible"]


@pytest.mark.requirement("page:days")
def test_days_begin_in_the_zone_of_the_server(memory: Engine, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    write(memory, "late", datetime(2026, 1, 10, 23, 30, tzinfo=UTC))
    write(memory, "early", datetime(2026, 1, 10, 18, 15, tzinfo=UTC))
    assert {each.day for each in build_days(ask(day="2026-01-10")).days if each.total} == {date(2026, 1, 10)}
    for zone, days in (
        ("Europe/Berlin", {date(2026, 1, 10), date(2026, 1, 11)}),
        ("Asia/Kathmandu", {date(2026, 1, 11)}),  # at a quarter to the hour
    ):
        found = days_view.count_days(
            memory,
            days_view.make_selection(Scope(), (Kind.NOTE,), ZoneInfo(zone)),
            date(2026, 1, 1),
            date(2026, 1, 20),
        )
        assert set(found) == days


@pytest.mark.requirement("page:days")
def test_a_long_day_is_paged(memory: Engine, ask: Ask) -> None:
    for number in range(days_view.PAGE + 3):
        write(memory, f"entry {number}", NOON - DAY + timedelta(seconds=number))
    first = build_days(ask())
    assert len(first.entries) == days_view.PAGE
    assert first.next
    assert not first.before
    last = build_days(ask(day=str((NOON - DAY).date()), offset=str(days_view.PAGE)))
    assert [each.title for each in last.entries] == [f"entry {days_view.PAGE + each}" for each in range(3)]
    assert last.before
    assert not last.next


@pytest.mark.requirement("page:days")
def test_what_is_no_day_is_refused(ask: Ask) -> None:
    for name, value in (
        ("day", "yesterday"),
        ("until", "2026-02-30"),
        ("days", "4000"),
        ("day", "0999-01-01"),
        ("kind", "ledger"),
        ("kind", "other"),
    ):
        with pytest.raises(Invalid):
            build_days(ask(**{name: value}))


@pytest.mark.requirement("page:expiry")
def test_what_expires_next_comes_first(memory: Engine, ask: Ask, clock: Any) -> None:
    clock.now = datetime.now(UTC)
    write(memory, "in an hour", NOON, ttl=3600)
    write(memory, "in a minute", NOON, ttl=60)
    write(memory, "never", NOON)
    assert [each.title for each in build_days(ask()).expiring] == ["in a minute", "in an hour"]


@pytest.mark.requirement("page:reach")
def test_the_days_of_a_limited_token_are_those_of_its_scope(memory: Engine, ask: Ask) -> None:
    write(memory, "theirs", NOON - DAY, scope=Scope("rest", "shop", "main"))
    write(memory, "others", NOON - DAY, ttl=600)
    viewer = Viewer(reach=Scope("rest", "shop"))
    model = build_days(ask(viewer))
    assert model.total == 1
    assert [each.title for each in model.entries] == ["theirs"]
    assert model.expiring == ()


@pytest.mark.requirement("page:days")
def test_the_page_shows_the_strip_and_the_diary(browser: Browser) -> None:
    write(browser.engine, "<b>hello</b>", NOON - DAY, author="mira")
    text = browser.show("/page/days")
    assert "&lt;b&gt;hello&lt;/b&gt;" in text
    assert f"day={(NOON - DAY).date()}" in text
    assert "Records by day" in text
    assert browser.read("days")["entries"][0]["author"] == "mira"
    assert "Nothing was remembered" in browser.show("/page/days?day=2001-01-01")
