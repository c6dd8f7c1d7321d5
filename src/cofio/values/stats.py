"""Numbers about a store, for people and for monitoring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stats(Mapping[str, int | str]):
    """The numbers by attribute, and by the names under which they are printed."""

    store: str
    """The store's address."""
    records: int
    words: int
    changes: int
    """How many changes were ever made."""
    expiring: int
    """Records with an expiry that has not come yet."""
    expired: int
    """Records that have expired, so no one sees them, and that are not removed yet."""
    waiting_for_index: int
    checkpoints: int
    threads: int
    schema: int
    software: tuple[str, str]
    """The name of what the store is kept by, and its version; printed as one number under that name."""
    bytes_database: int
    bytes_log: int
    bytes_index: int
    bytes_vectors: int
    background_fault: str
    """Why the background work fails; "" when it does not."""
    updated: str
    """The time of the newest change in ISO 8601; "" when there was none."""
    vectors: Mapping[str, int] = field(default_factory=dict)
    """How many vectors there are of each embedder; printed as `vectors:<embedder>`."""
    embedder: str = ""
    meaning: str = ""
    """Whether meaning is on, or why it is off."""
    waiting_for_vectors: int = 0

    def __getitem__(self, name: str) -> int | str:
        for known, value in self._pairs():
            if known == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._pairs())

    def __len__(self) -> int:
        return sum(1 for _ in self._pairs())

    def _pairs(self) -> Iterator[tuple[str, int | str]]:
        for each in fields(self):
            if each.name == "software":
                yield self.software
            elif each.name == "vectors":
                yield from ((f"vectors:{name}", count) for name, count in self.vectors.items())
            else:
                yield each.name, getattr(self, each.name)
