"""How people write ids and see them: by as much of the beginning as tells a record from all others."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...errors import Invalid, NotFound
from ...model import MAX_ID, check_text
from .terminal import headline, note

if TYPE_CHECKING:
    from ...engine import Engine
    from ...model import Record

LEAST = 4  # characters of an id that are taken for its beginning: fewer are rather a slip
SHOWN = 8  # candidates that are named when a beginning is not enough


def resolve(engine: Engine, written: str) -> Record:
    """The record whose id this is, or begins with this if no other's does.

    Raises:
        NotFound: there is none.
        Invalid: several begin so; they are named on stderr.
    """
    check_text("id", written, MAX_ID, empty=False)
    try:
        return engine.read(written)
    except NotFound:
        if len(written) < LEAST:
            raise Invalid(
                "id", f"{written} is not a whole id, and too short for the beginning of one: write {LEAST} characters"
                " of it or more"
            ) from None  # fmt: skip
    found = engine.ids(written, limit=SHOWN + 1)
    if not found:
        raise NotFound(written)
    if len(found) > 1 and all(each.startswith(found[0]) for each in found):
        return engine.read(found[0])  # a document, whose topics have its id and a number
    if len(found) > 1:
        _tell_candidates(engine, written, found)
        raise Invalid("id", f"{written} is not enough of it, so nothing was done: write more characters")
    return engine.read(found[0])


def _tell_candidates(engine: Engine, written: str, found: list[str]) -> None:
    note(f"{'more than ' if len(found) > SHOWN else ''}{min(len(found), SHOWN)} ids begin with {written}:")
    short = engine.abbreviate(found)
    for each in found[:SHOWN]:
        record = engine.read(each)
        note(f"  {short[each]}  {record.kind}  {headline(record)}")


def shorten(args: Namespace, engine: Engine, ids: Iterable[str]) -> Mapping[str, str]:
    """How each id is shown: at a terminal by its beginning; programs get it whole, as it stays true for ever."""
    return {} if args.json or not sys.stdout.isatty() else engine.abbreviate(ids)
