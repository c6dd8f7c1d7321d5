"""How people write ids and see them: by as much of the beginning as tells a record from all others."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...values.errors import Invalid, NotFound
from ...values.query import MAX_LIST
from ...values.records import MAX_ID, NOT_SEARCHABLE, Kind, check_text
from .terminal import headline, note

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...values.records import Record

LEAST = 4  # characters of an id that are taken for its beginning: fewer are rather a slip
SHOWN = 8  # candidates that are named when a beginning is not enough


def resolve(engine: Engine, written: str) -> Record:
    """The record whose id this is, or begins with this if no other's does; a document is one with its topics.

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
    first = engine.read(found[0])
    if len(found) > 1 and not _is_only_document(engine, written, first):
        _tell_candidates(engine, written, found)
        raise Invalid("id", f"{written} is not enough of it, so nothing was done: write more characters")
    return first


def _is_only_document(engine: Engine, written: str, record: Record) -> bool:
    """Whether all ids that begin so are a document's and its topics', which have its id and a number."""
    if record.kind is not Kind.DOCUMENT:
        return False
    inside = engine.headings(record.scope / record.id, exact=True, kinds=(Kind.TOPIC,), limit=MAX_LIST)
    own = {record.id, *(topic.id for topic in inside)}
    # One more than its own would show another's; of a document with too many topics to ask so, nothing is known.
    return len(own) < MAX_LIST and own.issuperset(engine.ids(written, limit=len(own) + 1))


def _tell_candidates(engine: Engine, written: str, found: list[str]) -> None:
    note(f"{'more than ' if len(found) > SHOWN else ''}{min(len(found), SHOWN)} ids begin with {written}:")
    short = engine.abbreviate(found)
    for each in found[:SHOWN]:
        record = engine.read(each)
        says = "" if record.kind in NOT_SEARCHABLE else f"  {headline(record)}"  # what cofio keeps is for no reader
        note(f"  {short[each]}  {record.kind}{says}")


def shorten(args: Namespace, engine: Engine, ids: Iterable[str]) -> Mapping[str, str]:
    """How each id is shown: at a terminal by its beginning; programs get it whole, as it stays true for ever."""
    return {} if args.json or not sys.stdout.isatty() else engine.abbreviate(ids)
