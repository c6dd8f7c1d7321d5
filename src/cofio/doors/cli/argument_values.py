"""How the values of the command line are read: each from what was typed, or refused with what to type instead.

Nothing of the engine is loaded before a value needs it, so that `cofio --help` answers at once.
"""

from __future__ import annotations

import argparse
import re
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from ...values.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, tzinfo

    from ...http.origins import Origin
    from ...values.query import Filter, Operator, Value
    from ...values.records import Importance, Json, Kind, Scope

T = TypeVar("T")

TESTS = "FIELD=VALUE, as in author=pm, tags=auth, data.n>=3 or created_at>=2026-01-01"
_TEST = re.compile(r"([^=!<>]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_NAME = re.compile(r"[a-zA-Z0-9_.@+-]{1,128}")
_TTL = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = 1000 * 365.25 * 86_400  # seconds that a record may be told to last


def _report_as_misuse(read: Callable[[str], T]) -> Callable[[str], T]:
    """Make wrong usage of what the engine's nouns refuse."""

    @wraps(read)
    def check(text: str) -> T:
        try:
            return read(text)
        except Invalid as error:
            raise argparse.ArgumentTypeError(error.problem) from error

    return check


@_report_as_misuse
def parse_scope(text: str) -> Scope:
    """The scope that `text` names: mcp, rest/app/default, or / for everything."""
    from ...values.records import Scope

    if "//" in text:
        suggestion = "/".join(name for name in text.split("/") if name)
        raise Invalid("scope", f"{text} has an empty name between its slashes; did you mean {suggestion or '/'}?")
    return Scope.parse(text)


@_report_as_misuse
def parse_kind(text: str) -> Kind:
    """The kind of that name."""
    from ...config.suggestions import refuse
    from ...values.records import Kind

    if text not in list(Kind):
        raise Invalid("kind", refuse(text, "a kind", Kind))
    return Kind(text)


@_report_as_misuse
def parse_importance(text: str) -> Importance:
    """The importance of that name."""
    from ...config.suggestions import refuse
    from ...values.records import Importance

    if text not in list(Importance):
        raise Invalid("importance", refuse(text, "an importance", Importance))
    return Importance(text)


@_report_as_misuse
def parse_tags(text: str) -> list[str]:
    """One or more tags."""
    tags = split_tags(text)
    if not tags:
        raise Invalid("tag", "is empty; write a word, or several with commas between")
    return tags


def split_tags(text: str) -> list[str]:
    """The tags that commas part, each once."""
    return list(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))


@_report_as_misuse
def parse_port(text: str) -> int:
    """The number of a port."""
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise Invalid("port", f"{text!r} is not a port: use 1 to 65535, or 0 for one that is free")
    return int(text)


@_report_as_misuse
def parse_workers(text: str) -> int:
    """The number of processes that take requests."""
    from ...config.settings import MAX_WORKERS  # not before it is needed: it loads much, and `cofio --help` needs none

    if not (text.isascii() and text.isdigit() and len(text) < 4 and int(text) <= MAX_WORKERS):
        raise Invalid("workers", f"{text!r} is not a number from 1 to {MAX_WORKERS}")
    return int(text)


@_report_as_misuse
def parse_integer(text: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise Invalid("number", f"{text!r} is not a whole number")
    return int(text)


@_report_as_misuse
def parse_share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise Invalid("number", f"{text!r} is not a number from 0 to 1")
    return number


@_report_as_misuse
def parse_origin(text: str) -> Origin:
    """The origin of a site's pages."""
    from ...http.origins import Origin

    return Origin.parse(text)


@_report_as_misuse
def parse_name(text: str) -> str:
    """The name of an app or a project, or the id of someone who speaks."""
    if not _NAME.fullmatch(text) or text in (".", ".."):
        raise Invalid("name", f"{text!r} is not 1 to 128 of the letters a-z and A-Z, digits and _ . @ + -")
    return text


@_report_as_misuse
def parse_session(text: str) -> str:
    """The name of a session."""
    from ...values.records import check_text

    check_text("session", text, 128, empty=False)
    return text


@_report_as_misuse
def parse_date(text: str) -> datetime:
    """A date, or a date and a time, with or without a zone."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise Invalid("date", f"{text!r} is not a time, as in 2026-01-31 or 2026-01-31T18:30") from None


def resolve_date(option: str, time: datetime | None, zone: tzinfo) -> datetime | None:
    """The time that was asked for, in UTC.

    Raises:
        Invalid: it is not one of the years 1 to 9999.
    """
    from datetime import UTC

    from ...values.records import check_time

    if time is None:
        return None
    try:
        date = (time if time.tzinfo else time.replace(tzinfo=zone)).astimezone(UTC)
        check_time(option, date)
    except OverflowError:
        raise Invalid(option, "is outside the years 1 to 9999") from None
    return date


@_report_as_misuse
def parse_ttl(text: str) -> float:
    """Seconds, from a number and its unit."""
    match = _TTL.fullmatch(text.strip().lower())
    if match is None:
        raise Invalid("ttl", f"{text!r} is not a number and a unit, as in 90s, 15m, 12h, 30d or 2w")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if not seconds:
        raise Invalid("ttl", f"{text} is no time at all: it would be gone before it is written; use 1s or more")
    if seconds > _LONGEST:
        raise Invalid("ttl", f"{text} is more than 1,000 years; leave --ttl out for what is to stay")
    return seconds


@_report_as_misuse
def parse_data(text: str) -> Json:
    """The value that a JSON text stands for."""
    from ...values.records import check_json

    try:
        value = _parse_json(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("data", f"is not JSON ({error}); write it in single quotes, as in '{{\"n\": 3}}'") from None
    check_json(value)
    return value


@_report_as_misuse
def parse_where(text: str) -> Filter:
    """The filter that a test spells; `=` on tags asks for one tag, and a date stands for its whole day, in UTC."""
    from ...values.query import Where
    from ...values.records import Scope

    match = _TEST.fullmatch(text)
    if match is None:
        raise Invalid("where", f"{text!r} is not a test; write {TESTS}")
    field, operator, value = match[1].strip(), match[2], match[3].strip()
    _refuse_slip(field, value)
    if field.endswith("_at"):
        return _build_time_filter(field, operator, value)
    if field == "tags":
        if operator != "=":
            raise Invalid("where", f"tags{operator}{value}: a tag can only be asked for, as in tags=auth")
        return Where("tags", "has", value)
    operand: Value = value
    if field == "scope":
        operand = Scope.parse(value)
    elif field in ("position", "version"):
        operand = _parse_number(field, value)
    elif field.startswith("data."):
        operand = _parse_literal(value)
    return Where(field, _parse_operator(operator), operand)


def _refuse_slip(field: str, value: str) -> None:
    """Refuse a field, or a kind or an importance, that is nearly one that there is; all else is judged by the query."""
    from ...config.suggestions import suggest
    from ...values.query import FIELDS
    from ...values.records import Importance, Kind

    if field not in FIELDS and not field.startswith("data") and (suggestion := suggest(field, FIELDS)):
        raise Invalid("where", f"{field!r} is not a field; did you mean {suggestion}?")
    choices: tuple[str, ...] = tuple({"kind": Kind, "importance": Importance}.get(field, ()))
    if choices and value not in choices and (suggestion := suggest(value, choices)):
        raise Invalid("where", f"{field}: {value!r} is not known; did you mean {suggestion}?")


def _build_time_filter(field: str, operator: str, value: str) -> Filter:
    """A test of a time. A date without a time is the whole of its day, so `<=` takes that day in."""
    from datetime import UTC, date, datetime, timedelta

    from ...values.query import AllOf, AnyOf, Where

    try:
        start = datetime.combine(date.fromisoformat(value), datetime.min.time(), UTC)
        end = start + timedelta(days=1)
    except ValueError:
        return Where(field, _parse_operator(operator), _parse_time(field, value))
    except OverflowError:
        raise Invalid("where", f"{field}: {value} is outside the years 1 to 9999") from None
    match operator:
        case "=":
            return AllOf(Where(field, ">=", start), Where(field, "<", end))
        case "!=":
            return AnyOf(Where(field, "<", start), Where(field, ">=", end))
        case ">":
            return Where(field, ">=", end)
        case "<=":
            return Where(field, "<", end)
    return Where(field, _parse_operator(operator), start)


def _parse_time(field: str, value: str) -> datetime:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Invalid("where", f"{field}: {value!r} is not a time, as in 2026-01-31 or 2026-01-31T18:30") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_operator(text: str) -> Operator:
    operators: dict[str, Operator] = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
    return operators[text]


def _parse_number(field: str, value: str) -> float:
    try:
        return int(value) if re.fullmatch(r"[+-]?\d+", value) else float(value)
    except ValueError:
        raise Invalid("where", f"{field}: {value!r} is not a number") from None


def _parse_literal(value: str) -> Value:
    """A JSON literal, or else the text itself."""
    try:
        literal = _parse_json(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(literal, list | dict):
        raise Invalid("where", f"{value} is not a single value that data can be compared with")
    return literal


def _parse_json(text: str) -> Json:
    import json

    def refuse_constant(name: str) -> Json:
        raise ValueError(f"{name} is not JSON")

    value: Json = json.loads(text, parse_constant=refuse_constant)
    return value
