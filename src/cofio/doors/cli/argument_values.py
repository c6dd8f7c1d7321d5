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
    from datetime import datetime

    from ...values.query import Filter, Operator, Value
    from ...values.records import Importance, Json, Kind, Scope
    from ..web.origins import Origin

T = TypeVar("T")

TESTS = "FIELD=VALUE, as in author=pm, tags=auth, data.n>=3 or created_at>=2026-01-01"
_TEST = re.compile(r"([^=!<>]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_NAME = re.compile(r"[a-zA-Z0-9_.@+-]{1,128}")
_TTL = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST = 1000 * 365.25 * 86_400  # seconds that a record may be told to last


def _value(read: Callable[[str], T]) -> Callable[[str], T]:
    """Make wrong usage of what the engine's nouns refuse."""

    @wraps(read)
    def check(written: str) -> T:
        try:
            return read(written)
        except Invalid as error:
            raise argparse.ArgumentTypeError(error.problem) from error

    return check


@_value
def scope(written: str) -> Scope:
    """The scope that `written` names: mcp, rest/app/default, or / for everything."""
    from ...values.records import Scope

    if "//" in written:
        meant = "/".join(name for name in written.split("/") if name)
        raise Invalid("scope", f"{written} has an empty name between its slashes; did you mean {meant or '/'}?")
    return Scope.parse(written)


@_value
def kind(written: str) -> Kind:
    """The kind of that name."""
    from ...config.suggestions import refuse
    from ...values.records import Kind

    if written not in list(Kind):
        raise Invalid("kind", refuse(written, "a kind", Kind))
    return Kind(written)


@_value
def importance(written: str) -> Importance:
    """The importance of that name."""
    from ...config.suggestions import refuse
    from ...values.records import Importance

    if written not in list(Importance):
        raise Invalid("importance", refuse(written, "an importance", Importance))
    return Importance(written)


@_value
def tags(written: str) -> list[str]:
    """One or more tags."""
    found = split_tags(written)
    if not found:
        raise Invalid("tag", "is empty; write a word, or several with commas between")
    return found


def split_tags(written: str) -> list[str]:
    """The tags that commas part, each once."""
    return list(dict.fromkeys(tag.strip() for tag in written.split(",") if tag.strip()))


@_value
def port(written: str) -> int:
    """The number of a port."""
    if not (written.isascii() and written.isdigit() and int(written) <= 65535):
        raise Invalid("port", f"{written!r} is not a port: use 1 to 65535, or 0 for one that is free")
    return int(written)


@_value
def whole(written: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", written):
        raise Invalid("number", f"{written!r} is not a whole number")
    return int(written)


@_value
def share(written: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(written)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise Invalid("number", f"{written!r} is not a number from 0 to 1")
    return number


@_value
def origin(written: str) -> Origin:
    """The origin of a site's pages."""
    from ..web.origins import Origin

    return Origin.parse(written)


@_value
def name(written: str) -> str:
    """The name of an app or a project, or the id of someone who speaks."""
    if not _NAME.fullmatch(written) or written in (".", ".."):
        raise Invalid("name", f"{written!r} is not 1 to 128 of the letters a-z and A-Z, digits and _ . @ + -")
    return written


@_value
def session(written: str) -> str:
    """The name of a session."""
    from ...values.records import check_text

    check_text("session", written, 128, empty=False)
    return written


@_value
def date(written: str) -> datetime:
    """A date, or a date and a time, with or without a zone."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(written)
    except ValueError:
        raise Invalid("date", f"{written!r} is not a time, as in 2026-01-31 or 2026-01-31T18:30") from None


@_value
def ttl(written: str) -> float:
    """Seconds, from a number and its unit."""
    found = _TTL.fullmatch(written.strip().lower())
    if found is None:
        raise Invalid("ttl", f"{written!r} is not a number and a unit, as in 90s, 15m, 12h, 30d or 2w")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if not seconds:
        raise Invalid("ttl", f"{written} is no time at all: it would be gone before it is written; use 1s or more")
    if seconds > _LONGEST:
        raise Invalid("ttl", f"{written} is more than 1,000 years; leave --ttl out for what is to stay")
    return seconds


@_value
def data(written: str) -> Json:
    """The value that a JSON text stands for."""
    from ...values.records import check_json

    try:
        value = _json(written)
    except (ValueError, RecursionError) as error:
        raise Invalid("data", f"is not JSON ({error}); write it in single quotes, as in '{{\"n\": 3}}'") from None
    check_json(value)
    return value


@_value
def where(written: str) -> Filter:
    """The filter that a test spells; `=` on tags asks for one tag, and a date stands for its whole day, in UTC."""
    from ...values.query import Where
    from ...values.records import Scope

    found = _TEST.fullmatch(written)
    if found is None:
        raise Invalid("where", f"{written!r} is not a test; write {TESTS}")
    field, operator, value = found[1].strip(), found[2], found[3].strip()
    _refuse_slip(field, value)
    if field.endswith("_at"):
        return _when(field, operator, value)
    if field == "tags":
        if operator != "=":
            raise Invalid("where", f"tags{operator}{value}: a tag can only be asked for, as in tags=auth")
        return Where("tags", "has", value)
    meant: Value = value
    if field == "scope":
        meant = Scope.parse(value)
    elif field in ("position", "version"):
        meant = _number(field, value)
    elif field.startswith("data."):
        meant = _literal(value)
    return Where(field, _operator(operator), meant)


def _refuse_slip(field: str, value: str) -> None:
    """Refuse a field, or a kind or an importance, that is nearly one that there is; all else is judged by the query."""
    from ...config.suggestions import suggest
    from ...values.query import FIELDS
    from ...values.records import Importance, Kind

    if field not in FIELDS and not field.startswith("data") and (meant := suggest(field, FIELDS)):
        raise Invalid("where", f"{field!r} is not a field; did you mean {meant}?")
    choices: tuple[str, ...] = tuple({"kind": Kind, "importance": Importance}.get(field, ()))
    if choices and value not in choices and (meant := suggest(value, choices)):
        raise Invalid("where", f"{field}: {value!r} is not known; did you mean {meant}?")


def _when(field: str, operator: str, value: str) -> Filter:
    """A test of a time. A date without a time is the whole of its day, so `<=` takes that day in."""
    from datetime import UTC, date, datetime, timedelta

    from ...values.query import AllOf, AnyOf, Where

    try:
        start = datetime.combine(date.fromisoformat(value), datetime.min.time(), UTC)
        end = start + timedelta(days=1)
    except ValueError:
        return Where(field, _operator(operator), _moment(field, value))
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
    return Where(field, _operator(operator), start)


def _moment(field: str, value: str) -> datetime:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise Invalid("where", f"{field}: {value!r} is not a time, as in 2026-01-31 or 2026-01-31T18:30") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _operator(written: str) -> Operator:
    operators: dict[str, Operator] = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
    return operators[written]


def _number(field: str, value: str) -> float:
    try:
        return int(value) if re.fullmatch(r"[+-]?\d+", value) else float(value)
    except ValueError:
        raise Invalid("where", f"{field}: {value!r} is not a number") from None


def _literal(value: str) -> Value:
    """A JSON literal, or else the text itself."""
    try:
        read = _json(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(read, list | dict):
        raise Invalid("where", f"{value} is not a single value that data can be compared with")
    return read


def _json(written: str) -> Json:
    import json

    def refuse(name: str) -> Json:
        raise ValueError(f"{name} is not JSON")

    read: Json = json.loads(written, parse_constant=refuse)
    return read
