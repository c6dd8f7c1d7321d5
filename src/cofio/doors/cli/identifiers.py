"""How people write ids and see them: by as much of the beginning as tells a record from all others."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...values.errors import Invalid, NotFound
from ...values.query import MAX_LIST
from ...values.records import MAX_ID, NOT_SEARCHABLE, Kind, check_text
from .terminal import note, render_headline

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...values.records import Record

LEAST = 4  # characters of an id that are taken for its beginning: fewer are rather a slip
MAX_CANDIDATES = 8  # candidates that are named when a beginning is not enough


def resolve(engine: Engine, text: str) -> Record:
    """The record whose id this is, or begins with this if no other's does; a document is one with its topics.

    Raises:
        NotFound: there is none.
        Invalid: several begin so; they are named on stderr.
    """
    check_text("id", text, MAX_ID, empty=False)
    try:
        return engine.read(text)
    except NotFound:
        if len(text) < LEAST:
            raise Invalid(
                "id", f"{text} is not a whole id, and too short for the beginning of one: write {LEAST} characters"
                " of it or more"
            ) from None  # fmt: skip
    ids = engine.ids(text, limit=MAX_CANDIDATES + 1)
    if not ids:
        raise NotFound(text)
    first = engine.read(ids[0])
    if len(ids) > 1 and not _is_only_document(engine, text, first):
        _report_candidates(engine, text, ids)
        raise Invalid("id", f"{text} is not enough of it, so nothing was done: write more characters")
    return first


def _is_only_document(engine: Engine, text: str, record: Record) -> bool:
    """Whether all ids that begin so are a document's and its topics', which have its id and a number."""
    if record.kind is not Kind.DOCUMENT:
        return False
    inside = engine.headings(record.scope / record.id, exact=True, kinds=(Kind.TOPIC,), limit=MAX_LIST)
    own = {record.id, *(topic.id for topic in inside)}
    # One more than its own would show another's; of a document with too many topics to ask so, nothing is known.
    return len(own) < MAX_LIST and own.issuperset(engine.ids(text, limit=len(own) + 1))


def _report_candidates(engine: Engine, text: str, ids: list[str]) -> None:
    note(f"{'more than ' if len(ids) > MAX_CANDIDATES else ''}{min(len(ids), MAX_CANDIDATES)} ids begin with {text}:")
    short = engine.abbreviate(ids)
    for each in ids[:MAX_CANDIDATES]:
        record = engine.read(each)
        says = (
            "" if record.kind in NOT_SEARCHABLE else f"  {render_headline(record)}"
        )  # what cofio keeps is for no reader
        note(f"  {short[each]}  {record.kind}{says}")


def shorten(args: Namespace, engine: Engine, ids: Iterable[str]) -> Mapping[str, str]:
    """How each id is shown: at a terminal by its beginning; programs get it whole, as it stays true for ever."""
    return {} if args.json or not sys.stdout.isatty() else engine.abbreviate(ids)
