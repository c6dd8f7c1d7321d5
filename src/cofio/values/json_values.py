"""JSON values, as JSON itself compares them."""

from __future__ import annotations


def is_same_json(one: object, other: object) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are one number, but True is not 1, though Python says so."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    return one == other
