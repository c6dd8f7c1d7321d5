"""A cache of bounded size: what was not used for longest goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """Holds up to `items` values that take up to `size` in all, by `measure`. Safe to use from many threads.

    A value of more than half of that size is not cached: it would push out all others.
    """

    def __init__(self, *, items: int, size: int, measure: Callable[[V], int]) -> None:
        self._items = items
        self._most = size
        self._measure = measure
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()
        self.size = 0

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[V]:
        """The cached values, the one that was not used for longest first."""
        with self._lock:
            return [*self._values.values()]

    def get(self, key: K) -> V | None:
        """The value of a key, which counts as used now; None when it is not cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Cache a value, in place of what the key had."""
        size = self._measure(value)
        with self._lock:
            self._drop(key)
            if size > self._most // 2:
                return
            self._values[key] = value
            self.size += size
            while self.size > self._most or len(self._values) > self._items:
                self.size -= self._measure(self._values.popitem(last=False)[1])

    def drop(self, keys: Iterable[K]) -> None:
        """Take keys out of the cache."""
        with self._lock:
            for key in keys:
                self._drop(key)

    def _drop(self, key: K) -> None:
        value = self._values.pop(key, None)
        self.size -= self._measure(value) if value is not None else 0

    def clear(self) -> None:
        """Take out everything."""
        self.drop_where(lambda _: True)

    def drop_where(self, test: Callable[[K], bool]) -> None:
        """Take out the keys that pass a test."""
        with self._lock:
            keys = [key for key in self._values if test(key)]
        self.drop(keys)
