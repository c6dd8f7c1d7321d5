"""The tail: the words of what the word index does not have yet, kept in memory and read from the records themselves.

Nothing is written for it. The changes after the state's `tail_seq` are its content, and a process takes in those that
it has not seen when a search begins, from the search's own snapshot.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import apsw

from ...text.tokenizer import split_record
from ...values.records import NOT_SEARCHABLE
from ..record_columns import decode_tags
from .database import fetch

SPARE_WORDS = 1_000_000  # and this many words of theirs
SPARE = 1000  # how many more outdated versions than present ones are kept before the tail is rebuilt
_CHANGED = (
    "SELECT seq, record.no, path, kind, title, text, tags, author, key, data FROM record"
    " CROSS JOIN scope ON scope.no = record.scope WHERE seq > ? ORDER BY seq"
)


class Version(NamedTuple):
    """A record as one change left it."""

    row: int
    path: bytes
    length: int


class Tail:
    """The words of every change after `low`, up to `upto`.

    It only grows, and all that it holds is marked with the change that brought it: a snapshot that it was once
    caught up with finds in it what it found then, whatever has been added for later ones. What is indexed by now is
    left out of the next tail (`cut`), and a snapshot that still needs it has this one.
    """

    def __init__(self, low: int) -> None:
        self.low = low
        self.upto = low
        self.versions: dict[int, Version] = {}
        self._newest: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        """Which change replaced or deleted a version."""
        self._outdated = 0
        """How many words the versions hold that are no record's own any more."""
        self._holding: defaultdict[str, list[int]] = defaultdict(list)
        """The versions that hold a word, in order; as often as they hold it."""
        self._inside: defaultdict[tuple[bytes, bool], list[int]] = defaultdict(list)
        """The versions in a scope, in order: in it and all under it, or exactly in it."""

    def cut(self, low: int) -> Tail:
        """Return what is left of the tail once the changes up to `low` are in the word index."""
        is_worn = len(self._ended) > len(self._newest) + SPARE or self._outdated > SPARE_WORDS
        if low == self.low and not is_worn:
            return self
        left = Tail(low)
        if low >= self.upto or is_worn:
            return left
        left.upto = self.upto
        left.versions = {seq: version for seq, version in self.versions.items() if seq > low}
        left._newest = {row: seq for row, seq in self._newest.items() if seq > low}
        left._ended = {seq: end for seq, end in self._ended.items() if seq > low}
        left._outdated = sum(left.versions[seq].length for seq in left._ended)
        left._holding.update(
            (word, later) for word, seqs in self._holding.items() if (later := _drop_through(seqs, low))
        )
        left._inside.update(
            (scope, later) for scope, seqs in self._inside.items() if (later := _drop_through(seqs, low))
        )
        return left

    def catch_up(self, connection: apsw.Connection, upto: int) -> None:
        """Take in the changes since, as a snapshot at the change `upto` has them."""
        holding, left = self._holding, upto - self.upto
        for seq, row, path, *fields in connection.execute(_CHANGED, (self.upto,)):
            left -= 1
            words = read_words(*fields)
            self._end(row, seq)
            self._newest[row] = seq
            scopes = _list_scopes(path)
            self.versions[seq] = Version(row, scopes[0][0], len(words))
            for scope in scopes:
                self._inside[scope].append(seq)
            for word in words:
                holding[word].append(seq)
        if left:  # else each change was the last one of one of these records
            for seq, row in fetch(connection, "SELECT seq, no FROM gone WHERE seq > ?", (self.upto,)):
                self._end(row, seq)
        self.upto = upto

    def records(self, path: bytes, exact: bool, upto: int) -> list[int]:
        """The last change of each record in a scope and, unless `exact`, under it, in a snapshot at `upto`."""
        return self._select_current(self._inside.get((path, exact), []), upto)

    def count_word(self, word: str, path: bytes, exact: bool, upto: int) -> dict[int, int]:
        """The last change of those of these records that hold the word, and how often they do."""
        counts = Counter(self._select_current(self._holding.get(word, []), upto))
        versions = self.versions
        if exact:
            return {seq: count for seq, count in counts.items() if versions[seq].path == path}
        return {seq: count for seq, count in counts.items() if versions[seq].path.startswith(path)} if path else counts

    def _select_current(self, seqs: list[int], upto: int) -> list[int]:
        """Those of the versions that are a record's own in a snapshot at `upto`."""
        earlier = seqs[: bisect_right(seqs, upto)]
        ended = self._ended
        return [seq for seq in earlier if ended.get(seq, upto + 1) > upto] if ended else earlier

    def _end(self, row: int, seq: int) -> None:
        before = self._newest.pop(row, None)
        if before is not None:
            self._ended[before] = seq
            self._outdated += self.versions[before].length


def read_words(kind: str, title: str, text: str, tags: str, author: str, key: str | None, data: str) -> Sequence[str]:
    """The words that a row's record is found by."""
    if kind in NOT_SEARCHABLE:
        return []
    content = None if text else json.loads(data)
    return split_record(title=title, text=text, tags=decode_tags(tags), author=author, key=key, data=content)


@lru_cache(maxsize=1000)
def _list_scopes(path: bytes) -> tuple[tuple[bytes, bool], ...]:
    """What a version in that scope is inside of."""
    ends = [end for end, byte in enumerate(path, 1) if not byte]
    return (path, True), *((path[:end], False) for end in (0, *ends))


def _drop_through(seqs: list[int], low: int) -> list[int]:
    return seqs[bisect_right(seqs, low) :]
