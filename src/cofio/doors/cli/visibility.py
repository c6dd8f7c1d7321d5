"""Which records a person is shown unasked: what people and agents said, not what cofio keeps for its own use."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from ...values.query import AllOf, AnyOf, Filter, Where
from ...values.records import NOT_SEARCHABLE, Kind, Scope
from ...values.scopes import INTERNAL, OWN

if TYPE_CHECKING:
    from ...engine.engine import Engine

VISIBLE = tuple(kind for kind in Kind if kind not in NOT_SEARCHABLE)


def build_filter(args: Namespace) -> Filter | None:
    """The filter that a command's tests and tags make together."""
    tests = [*args.where, *(Where("tags", "has", tag) for tag in args.tag)]
    if not tests:
        return None
    return AnyOf(*tests) if args.any else AllOf(*tests)


def list_visible_kinds(args: Namespace) -> tuple[Kind, ...]:
    """The kinds that a list shows: those asked for, else all that are not internal."""
    return tuple(args.kind) or (() if args.all else VISIBLE)


def build_visible_filter(args: Namespace) -> Filter | None:
    """The filter of a list: the one that was asked for, and without cofio's own scopes unless they are."""
    own = build_filter(args)
    if args.all or args.scope in OWN:
        return own
    foreign = [Where("scope", "!=", scope) for scope in INTERNAL]
    return AllOf(*foreign, *([own] if own else []))


def count_visible_scopes(args: Namespace, engine: Engine) -> dict[Scope, int]:
    """Each scope that holds records, with the number of those that are shown."""
    if args.all:
        return engine.scopes(args.scope)
    counts = engine.scopes(args.scope, kinds=VISIBLE)
    return {scope: count for scope, count in counts.items() if scope not in OWN or args.scope in OWN}


def count_internal(engine: Engine) -> int:
    """How many records are not shown unasked."""
    visible = engine.scopes(kinds=VISIBLE)
    return engine.count() - sum(count for scope, count in visible.items() if scope not in OWN)
