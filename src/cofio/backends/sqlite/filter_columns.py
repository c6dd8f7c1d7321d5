"""What filters test of each record, by columns in memory: which rows may pass, without a look at each one's record.

A column is read from the records when a filter first needs it; from then on, a search reads what has changed since.
Columns only narrow, and the database has the last word on each row. A row that changed after a search's snapshot may
pass, whatever its columns say by now, so that one structure serves the snapshots of all threads.
"""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from typing import Any, TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from ...values.query import AllOf, Filter, Value, Where
from ...values.records import Scope
from ...values.times import to_micros
from .conditions import make_data_path
from .database import Database, fetch
from .word_index import IndexState

PART, TELLING = 0.5, 8  # of the rows; and as many of the sample as tell where those that pass are
SAMPLE = 2048  # rows that tell about how many pass
ALL_TESTED = 200_000  # rows that are all tested: a sample of so few saves no time
AT_RANDOM = 64  # rows that are tested in the time in which one is looked up
READ_AT_ONCE = 10_000  # rows of a column that are one value of a statement
MOST_BYTES = 256 * 2**20  # of columns; those that were asked for the longest ago are dropped
MOST_COLUMNS = 64
MOST_FILTERS, MOST_FILTERED = 8, 2**23  # filters whose rows are remembered, and rows of them all
MOST_AT_ONCE = 16  # columns of one filter: one that asks for more is held against the records themselves
HIGHEST_ROW = 2**25  # a store with more changes than that has no columns: a table of its rows would be too large
SPARE = 1000  # deleted or changed rows for which columns are not made again, beside a quarter of all
FEW_VALUES = 4  # so few are compared one after the other
_SAMPLE_SHARES = np.arange(SAMPLE) * 0.6180339887498949 % 1  # spread evenly, and in step with no rhythm of the rows
_WHOLE = 2.0**53  # from here on, not every whole number has a float of its own

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
Rows: TypeAlias = "Ints | slice"

_TEXTS = ("key", "title", "author", "source", "kind", "importance")
_NUMBERS = ("created_at", "updated_at", "position", "version")
# The digests of what is no text: numbers that the hash of a text is only by chance, as 0 is not, which "" has.
_OTHER, _NULL, _FALSE, _TRUE = (0x5EED_C0F1_0000_0000 + number for number in range(4))


@dataclass(frozen=True, slots=True)
class _Column:
    """One thing that filters ask of every record: how it is read, and how it is held in memory."""

    name: str
    how: str
    """As "text", by its digest; as "number"; as "scope", by its number; or as "tag": whether a record has the tag."""
    value: str = ""
    """Where in the data it is, or which tag."""

    @property
    def sql(self) -> str:
        """An expression over `record` for its value as JSON."""
        if self.how == "tag":
            return "json(tags)"
        # What is missing is none of the values that can be asked for, and neither is a list.
        return "json(ifnull(data -> ?, '[]'))" if self.name == "data" else self.name

    @property
    def values(self) -> tuple[str, ...]:
        """What the expression binds."""
        return (self.value,) if self.name == "data" else ()

    def encode(self, values: Sequence[Any]) -> Array:
        """Return what is held for values of the expression."""
        if self.how == "text":
            return np.fromiter(map(_compute_digest, values), np.int64, len(values))
        if self.how == "number":
            return np.fromiter(map(_convert_number, values), np.float64, len(values))
        if self.how == "scope":
            return np.array(values, np.int64)
        return np.fromiter((self.value in {tag.casefold() for tag in tags} for tags in values), np.bool_, len(values))


@dataclass(frozen=True, slots=True)
class _Test:
    """A test of one column, which holds for each row for which the filter's does, and for hardly another."""

    column: _Column
    holds: Callable[[Array], Flags]


@dataclass(frozen=True, slots=True)
class _Group:
    """Tests that must all hold, or one of which must."""

    every: bool
    parts: tuple[_Node, ...]


_Node: TypeAlias = "_Test | _Group"


class RowFilter:
    """Which rows of one snapshot may pass a filter: all that do, and few others."""

    def __init__(self, node: _Node, rows: Ints, seqs: Ints, columns: dict[_Column, Array], upto: int) -> None:
        self._node = node
        self._rows = rows
        self._seqs = seqs
        self._columns = columns
        self._upto = upto

    @cached_property
    def share(self) -> float:
        """About which share of the records pass."""
        places, tested = self._sample
        return len(places) / tested if tested else 0.0

    @cached_property
    def is_together(self) -> bool:
        """Whether those that pass seem to stand within a part of the rows, as those of some days do."""
        places, _ = self._sample
        return len(places) >= TELLING and bool(places.max() - places.min() < PART * len(self._rows))

    @property
    def estimate(self) -> float:
        """About how many records pass."""
        return self.share * len(self._rows)

    @cached_property
    def _sample(self) -> tuple[Ints, int]:
        """The places, among the rows, of those that pass, and of how many rows that is known."""
        count = len(self._rows)
        if count <= ALL_TESTED:
            return self._passing_places, count
        some = (_SAMPLE_SHARES * count).astype(np.int64)
        return some[self._test(some)], SAMPLE

    @cached_property
    def _passing_places(self) -> Ints:
        """The places, among the rows, of all that may pass."""
        return np.flatnonzero(self._test(slice(None)))

    @cached_property
    def selection(self) -> Ints:
        """The rows that may pass, in order."""
        return self._rows[self._passing_places]

    @cached_property
    def density(self) -> float:
        """Which share of the rows from the first to the last that may pass do so."""
        places = self._passing_places
        return len(places) / float(places[-1] - places[0] + 1) if len(places) else 1.0

    @cached_property
    def table(self) -> Flags:
        """For each number of a row, whether it may pass; the last stands for all that come after."""
        table = np.zeros(int(self._rows[-1]) + 2 if len(self._rows) else 1, np.bool_)
        table[self.selection] = True
        return table

    def select(self, rows: Sequence[int]) -> list[int]:
        """Return at which places of the list there are rows that may pass."""
        if not len(self._rows):
            return list(range(len(rows)))
        wanted = np.array(rows, np.int64)
        if "table" in self.__dict__ or len(self._rows) <= AT_RANDOM * len(wanted):
            passing = self.table.take(wanted, mode="clip")
        else:
            at = np.minimum(np.searchsorted(self._rows, wanted), len(self._rows) - 1)
            passing = self._test(at) | (self._rows[at] != wanted)
        places: list[int] = np.flatnonzero(passing).tolist()
        return places

    def _test(self, at: Rows) -> Flags:
        passing = self._evaluate(self._node, at)
        # Last: a thread that changes a row's columns changes its number first.
        return passing | (self._seqs[at] > self._upto)

    def _evaluate(self, node: _Node, at: Rows) -> Flags:
        if isinstance(node, _Test):
            return node.holds(self._columns[node.column][at])
        if not node.parts:
            return np.full(len(self._rows[at]), node.every)
        join = np.logical_and if node.every else np.logical_or
        return reduce(join, (self._evaluate(part, at) for part in node.parts))


class FilterColumns:
    """The columns of one store, as this process has read them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._generation = 0
        self._reset()

    def _reset(self) -> None:
        self._upto = -1
        self._since = 0
        """The change up to which the rows were read: an older snapshot may have some that are not among them."""
        self._size = 0
        self._rows: Ints = np.empty(0, np.int64)
        self._seqs: Ints = np.empty(0, np.int64)
        self._columns: OrderedDict[_Column, Array] = OrderedDict()
        self._filters: OrderedDict[str, RowFilter] = OrderedDict()
        """What the last filters let through, as of the last change that was read; the last that was used is last."""

    def open(
        self, connection: apsw.Connection, state: IndexState, filter_: Filter, *, known_only: bool
    ) -> RowFilter | None:
        """Return which rows of a snapshot may pass a filter; None where columns cannot tell all that it asks.

        With `known_only`, also where they would have to be read first.
        """
        asked = repr(filter_)  # two filters may be equal that ask for 1 and for true, which are not the same
        with self._lock:
            if (state.generation, state.seq) == (self._generation, self._upto) and asked in self._filters:
                self._filters.move_to_end(asked)
                return self._filters[asked]
        node = _translate(connection, filter_)
        if node is None or state.seq > HIGHEST_ROW:
            return None
        wanted = list(dict.fromkeys(_list_columns(node)))
        if len(wanted) > MOST_AT_ONCE or 8 * state.records * len(wanted) > MOST_BYTES:
            return None
        with self._lock:
            if known_only and not all(column in self._columns for column in wanted):
                return None
            try:
                if not self._follow(connection, state, wanted):
                    return None
            except apsw.TooBigError:  # values so long that SQLite cannot return those of many records at once
                self._reset()
                return None
            except BaseException:
                self._reset()  # the next one begins from the start
                raise
            size = self._size
            columns = {column: self._columns[column][:size] for column in wanted}
            row_filter = RowFilter(node, self._rows[:size], self._seqs[:size], columns, state.seq)
            if state.seq == self._upto:
                self._filters[asked] = row_filter
                while len(self._filters) > max(1, min(MOST_FILTERS, MOST_FILTERED // max(1, size))):
                    self._filters.popitem(last=False)
            return row_filter

    def _follow(self, connection: apsw.Connection, state: IndexState, wanted: Sequence[_Column]) -> bool:
        """Bring the columns up to a snapshot and read those that are missing; whether they are all there."""
        if self._generation != state.generation:
            self._generation = state.generation
            self._reset()
        if self._upto > state.seq and self._upto > self._read_newest():  # the database was put back
            self._reset()
        if state.seq < self._since:
            return False  # what was deleted since this snapshot is not among the rows any more
        changes = state.seq - self._upto
        if self._upto < 0 or self._size - state.records > self._size // 4 + SPARE or changes > self._size // 4 + SPARE:
            if changes < 0:
                return False  # another thread's snapshot is later than this one
            self._read_rows(connection, state.seq)
        elif changes > 0:
            self._read_changes(connection, state.seq)
        for column in wanted:
            if column not in self._columns:
                if changes < 0:
                    return False
                self._columns[column] = self._read_column(connection, column)
            self._columns.move_to_end(column)
        while len(self._columns) > len(wanted) and (
            len(self._columns) > MOST_COLUMNS or sum(each.nbytes for each in self._columns.values()) > MOST_BYTES
        ):
            self._columns.popitem(last=False)
        return True

    def _read_newest(self) -> int:
        with self._database.snapshot() as connection:
            return int(connection.execute("SELECT seq FROM state").get)

    def _read_rows(self, connection: apsw.Connection, upto: int) -> None:
        """Begin from the start, with the number and the last change of every record."""
        self._reset()
        rows, seqs = connection.execute(
            "SELECT json_group_array(no), json_group_array(seq) FROM record INDEXED BY record_seq WHERE seq > 0"
        ).get
        found = np.array(json.loads(rows), np.int64)
        order = np.argsort(found)
        self._rows, self._seqs = found[order], np.array(json.loads(seqs), np.int64)[order]
        self._size, self._upto, self._since = len(found), upto, upto

    def _read_column(self, connection: apsw.Connection, column: _Column) -> Array:
        """Read a column of the records that are known, which are those of the snapshot."""
        rows = self._rows[: self._size]
        made = column.encode([])
        whole = np.zeros(len(self._rows), made.dtype)
        if column.how == "tag":
            tagged = connection.execute("SELECT json_group_array(no) FROM tag WHERE tag = ?", (column.value,)).get
            whole[np.searchsorted(rows, np.array(json.loads(tagged), np.int64))] = True
            return whole
        sql = f"SELECT json_group_array(no), json_group_array({column.sql}) FROM record WHERE no BETWEEN ? AND ?"
        for start in range(0, len(rows), READ_AT_ONCE):
            some = rows[start : start + READ_AT_ONCE]
            numbers, values = connection.execute(sql, (*column.values, int(some[0]), int(some[-1]))).get
            at = start + np.searchsorted(some, np.array(json.loads(numbers), np.int64))
            whole[at] = column.encode(json.loads(values))
        return whole

    def _read_changes(self, connection: apsw.Connection, upto: int) -> None:
        """Read the records that have changed since, and were perhaps new."""
        self._filters.clear()
        columns = list(self._columns)
        expressions = "".join(f", {column.sql}" for column in columns)
        values = [value for column in columns for value in column.values]
        found = connection.execute(
            f"SELECT json_group_array(json_array(no, seq{expressions})) FROM record WHERE seq > ?",
            (*values, self._upto),
        ).get
        changed = sorted(json.loads(found))
        if changed:
            rows = np.array([row[0] for row in changed], np.int64)
            seqs = np.array([row[1] for row in changed], np.int64)
            last = self._rows[self._size - 1] if self._size else 0
            old = int(np.searchsorted(rows, last, "right"))
            before = np.searchsorted(self._rows[: self._size], rows[:old])
            if not np.array_equal(self._rows[before], rows[:old]):
                self._read_rows(connection, upto)
                return
            self._make_room(len(rows) - old)
            at = np.concatenate([before, np.arange(len(rows) - old) + self._size])
            self._seqs[at] = seqs
            self._rows[at] = rows
            for number, column in enumerate(columns, 2):
                self._columns[column][at] = column.encode([row[number] for row in changed])
            self._size += len(rows) - old
        self._upto = upto

    def _make_room(self, more: int) -> None:
        """Make the arrays long enough for more rows, in new ones: a search may have the old."""
        if self._size + more > len(self._rows):
            room = self._size // 4 + more + SPARE
            self._rows, self._seqs = _extend(self._rows, room), _extend(self._seqs, room)
            for column, array in self._columns.items():
                self._columns[column] = _extend(array, room)


def _extend(array: Array, room: int) -> Array:
    return np.concatenate([array, np.zeros(room, array.dtype)])


def _compute_digest(value: object) -> int:
    """Return a number that stands for a value in this process; what is neither text nor a constant has that of none."""
    if type(value) is str:
        return hash(value)
    if type(value) is bool:
        return _TRUE if value else _FALSE
    return _NULL if value is None else _OTHER


def _convert_number(value: object) -> float:
    """Return a value as a float, near enough; what is no number as one that no comparison holds for."""
    if type(value) is float:
        return value
    if type(value) is not int:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _list_columns(node: _Node) -> Iterator[_Column]:
    if isinstance(node, _Test):
        yield node.column
    else:
        for part in node.parts:
            yield from _list_columns(part)


def _translate(connection: apsw.Connection, filter_: Filter) -> _Node | None:
    """Return a filter as tests of columns; None if one of its tests is none that columns are made for."""
    if isinstance(filter_, Where):
        return _translate_test(connection, filter_)
    parts = []
    for part in filter_.parts:
        node = _translate(connection, part)
        if node is None:
            return None
        parts.append(node)
    return _Group(isinstance(filter_, AllOf), tuple(parts))


def _translate_test(connection: apsw.Connection, test: Where) -> _Node | None:
    values = test.value if isinstance(test.value, tuple) else (test.value,)
    operator = "=" if test.operator in ("in", "has") else test.operator
    if test.name == "scope":
        return _Test(_Column("scope", "scope"), _match_scopes(connection, test, values))
    if test.name == "tags":
        tags = (_Column("tags", "tag", str(value).casefold()) for value in values)
        return _Group(False, tuple(_Test(tag, _hold_itself) for tag in tags))
    path = make_data_path(test.path) if test.name == "data" else ""
    numbers = [_to_number(value) for value in values if _is_number(value)]
    texts = [value for value in values if not _is_number(value)]
    is_data = test.name == "data"
    parts: list[_Node] = []
    if numbers and (is_data or test.name in _NUMBERS):
        parts.append(_Test(_Column(test.name, "number", path), _compare_numbers(operator, numbers)))
    elif numbers:
        return None
    if texts:
        if operator not in ("=", "!=") or not (is_data or test.name in _TEXTS):
            return None
        digests = [_compute_digest(str(value) if isinstance(value, str) else value) for value in texts]
        parts.append(_Test(_Column(test.name, "text", path), _match_any(digests, is_wanted=operator == "=")))
    return parts[0] if len(parts) == 1 else _Group(False, tuple(parts))


def _match_scopes(connection: apsw.Connection, test: Where, scopes: Iterable[Value]) -> Callable[[Array], Flags]:
    """Return a test whether a scope's number is that of one of these or, as the filter asks, of one under it."""
    sql = "SELECT no FROM scope WHERE path >= ? AND path < ?"
    numbers: list[int] = []
    for scope in scopes:
        assert isinstance(scope, Scope)
        past = b"\xff" if test.operator == "has" else b"\0"
        numbers += [number for (number,) in fetch(connection, sql, (scope.path, scope.path + past))]
    table = np.full(max(numbers, default=0) + 2, test.operator == "!=")
    table[numbers] = test.operator != "!="
    return lambda held: table.take(held, mode="clip")


def _compare_numbers(operator: str, wanted: Sequence[float]) -> Callable[[Array], Flags]:
    """Return a test of numbers, which holds also for one that is not told apart as a float."""
    (first,) = wanted[:1]
    is_exact = abs(first) < _WHOLE
    if operator == "=":
        return _match_any(wanted, is_wanted=True)
    if operator == "!=":
        return lambda held: held != first if is_exact else np.ones(len(held), np.bool_)
    compare: dict[str, Callable[[Array, float], Flags]] = {
        "<": np.less if is_exact else np.less_equal, "<=": np.less_equal,
        ">": np.greater if is_exact else np.greater_equal, ">=": np.greater_equal,
    }  # fmt: skip
    return lambda held: compare[operator](held, first)


def _match_any(wanted: Sequence[float], *, is_wanted: bool) -> Callable[[Array], Flags]:
    """Return a test whether a value is one of these, or is none of them."""
    few = sorted(set(wanted))

    def is_one(held: Array) -> Flags:
        if len(few) <= FEW_VALUES:
            return reduce(np.logical_or, (held == value for value in few))
        ordered: Array = np.array(few, held.dtype)
        same: Flags = ordered.take(np.searchsorted(ordered, held), mode="clip") == held
        return same

    return is_one if is_wanted else lambda held: ~is_one(held)


def _hold_itself(held: Array) -> Flags:
    return held.copy()  # what is tested must not change with the column


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float | datetime) and not isinstance(value, bool)


def _to_number(value: Value) -> float:
    assert isinstance(value, int | float | datetime)
    return float(to_micros(value) if isinstance(value, datetime) else value)
