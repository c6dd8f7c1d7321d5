"""Changes of a store's items that are yet to be made: checked, and with copies of what the caller gave."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from ..values.changes import normalize_ttl
from ..values.records import Json, check_int, checked_vector
from . import items
from .store import Namespace, check_key, check_metadata, check_namespace

Ttl: TypeAlias = float | timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPut:
    """A put that is yet to be made, with copies of what the caller gave."""

    namespace: Namespace
    key: str
    value: Json
    metadata: dict[str, Json]
    embedding: tuple[float, ...] | None = None
    ttl: Ttl = None
    if_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDelete:
    """A deletion that is yet to be made."""

    namespace: Namespace
    key: str
    if_version: int | None = None


def prepare_put(
    namespace: Namespace,
    key: str,
    value: Any,
    metadata: dict[str, Any] | None = None,
    *,
    embedding: list[float] | None = None,
    ttl: Ttl = None,
    if_version: int | None = None,
) -> PendingPut:
    """A put with copies of what the caller gave; raises what the store raises for what is wrong with it."""
    check_namespace(namespace)
    check_key(key)
    check_metadata(metadata)
    _check_version(if_version)
    return PendingPut(
        namespace=namespace,
        key=key,
        value=items.copy_json("value", value),
        metadata={name: items.copy_json("metadata", each, 2) for name, each in (metadata or {}).items()},
        embedding=None if embedding is None else checked_vector("embedding", embedding),
        ttl=ttl,
        if_version=if_version,
    )


def prepare_delete(namespace: Namespace, key: str, if_version: int | None = None) -> PendingDelete:
    """A deletion; raises what the store raises for what is wrong with it."""
    check_namespace(namespace)
    check_key(key)
    _check_version(if_version)
    return PendingDelete(namespace=namespace, key=key, if_version=if_version)


def choose_ttl(ttl: Ttl, default: Ttl = None) -> timedelta | None:
    """How long an item lasts: `ttl`, or else the store's own; None for good, which math.inf asks for."""
    chosen = default if ttl is None else ttl
    return None if chosen is None or chosen == math.inf else normalize_ttl(chosen)


def _check_version(version: object) -> None:
    if version is not None:
        check_int("if_version", version, 0, 2**53)
