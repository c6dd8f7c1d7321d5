"""Times as numbers since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(moment: datetime) -> int:
    """Whole microseconds since 1970: how stores keep a time."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    """The time from its microseconds since 1970."""
    return EPOCH + timedelta(0, 0, micros)


def to_millis(moment: datetime) -> int:
    """Milliseconds since 1970, rounded: how conversations keep a time."""
    return round((moment - EPOCH).total_seconds() * 1000)


def from_millis(millis: float) -> datetime:
    """The time from its milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=millis)
