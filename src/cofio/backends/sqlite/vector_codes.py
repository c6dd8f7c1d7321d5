"""The vector codes: files beside the database that make a scan of every vector cheap.

The vectors themselves are in the database, as float16. A code file holds, for a range of them, the sign bits
(scanned first, by columns so that numpy's popcount runs at memory speed), int8 values (which re-rank what the
bits bring up), and each one's scope and kind (so that a search touches only what it may see). The best are
then scored exactly from the database, which also has the last word on whether a record may be seen at all.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import threading
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from ...system.disk import remove_unused, sync, sync_path
from ...system.safe_files import open_file
from ...values.errors import Invalid, Unavailable
from ...values.query import Bounds
from ...values.records import Kind
from .checksums import Soundness
from .database import Database, fetch

TAIL = 2048  # how many vectors outside of any file make a new file
CHUNK = 8192
BLOCK = 32_768  # rows scanned at a time, so that the distances stay in the cache
RANKED_AT_ONCE = 512  # rows whose values are turned into floats at a time, which then stay in the cache
MOST_INSIDE = 4  # scopes, with kinds, whose rows are kept for each file
SMALL = 4096  # so few rows are scored by int8 at once, without the bits
LEAST_DEPTH, MOST_DEPTH, DEPTH_SHARE = 1000, 4000, 250
_MAGIC = b"cofio-codes-1\n".ljust(16, b"\0")
_HEADER = 64
_KIND_NUMBER = {str(kind): kind.number for kind in Kind}

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Row = tuple[int, int, int, str, bytes, int]


@dataclass(slots=True)
class Codes:
    """The codes of some vectors, row by row.

    The record's number, the state of its text, the vector's order, scope, kind, sign bits, int8 values and their scale.
    """

    record_row: Ints
    text_seq: Ints
    vseq: Ints
    scope: NDArray[np.int32]
    kind: NDArray[np.uint8]
    bits: NDArray[np.uint64]  # by columns: words × rows
    scale: Floats
    values: NDArray[np.int8]
    _by_record: tuple[Ints, Ints | None] | None = field(default=None)
    inside: OrderedDict[tuple[bytes, bool, tuple[Kind, ...]], Ints | None] = field(default_factory=OrderedDict)
    """The rows in a scope and of some kinds, as they were last asked for; None where all are."""

    def __len__(self) -> int:
        return len(self.record_row)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Codes:
        """The codes of rows of (number, order, scope, kind, float16 vector, state of the text)."""
        vectors = np.frombuffer(b"".join(row[4] for row in rows), "<f2").astype(np.float32).reshape(len(rows), -1)
        scale = np.maximum(np.abs(vectors).max(axis=1), 1e-9) / 127
        return cls(
            record_row=np.array([row[0] for row in rows], np.int64),
            text_seq=np.array([row[5] for row in rows], np.int64),
            vseq=np.array([row[1] for row in rows], np.int64),
            scope=np.array([row[2] for row in rows], np.int32),
            kind=np.array([_KIND_NUMBER[row[3]] for row in rows], np.uint8),
            bits=compute_sign_bits(vectors),
            scale=scale.astype(np.float32),
            values=np.rint(vectors / scale[:, None]).astype(np.int8),
        )

    @classmethod
    def join(cls, parts: Sequence[Codes]) -> Codes:
        """Several codes as one."""
        return cls(
            record_row=np.concatenate([part.record_row for part in parts]),
            text_seq=np.concatenate([part.text_seq for part in parts]),
            vseq=np.concatenate([part.vseq for part in parts]),
            scope=np.concatenate([part.scope for part in parts]),
            kind=np.concatenate([part.kind for part in parts]),
            bits=np.concatenate([part.bits for part in parts], axis=1),
            scale=np.concatenate([part.scale for part in parts]),
            values=np.concatenate([part.values for part in parts]),
        )

    def after(self, vseq: int) -> Codes:
        """The part that comes after `vseq`."""
        at = np.flatnonzero(self.vseq > vseq)
        return Codes(
            record_row=self.record_row[at], text_seq=self.text_seq[at], vseq=self.vseq[at], scope=self.scope[at],
            kind=self.kind[at], bits=np.ascontiguousarray(self.bits[:, at]), scale=self.scale[at],
            values=self.values[at],
        )  # fmt: skip

    def locate(self, record_rows: Ints) -> Ints:
        """Return where the codes of these records are; the record rows must be sorted."""
        if self._by_record is None:
            order = (
                None
                if bool(np.all(self.record_row[:-1] <= self.record_row[1:]))
                else np.argsort(self.record_row, kind="stable")
            )
            self._by_record = (self.record_row if order is None else self.record_row[order], order)
        ordered, order = self._by_record
        low = np.searchsorted(ordered, record_rows, "left")
        counts = np.searchsorted(ordered, record_rows, "right") - low
        # Each record's run of codes, one run after the other.
        at: Ints = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        return at if order is None else order[at]

    def estimate_cosines(self, at: Ints | slice, query: Floats) -> Floats:
        """The cosine of these rows with the query, as near as int8 comes to it."""
        chosen = np.arange(len(self))[at] if isinstance(at, slice) else at
        blocks = (chosen[start : start + RANKED_AT_ONCE] for start in range(0, len(chosen), RANKED_AT_ONCE))
        # Not by @, which hands such a product to all cores and waits for each, for long where they are busy.
        parts = [np.vecdot(self.values.take(block, axis=0).astype(np.float32), query) for block in blocks]
        near: Floats = np.concatenate([np.zeros(0, np.float32), *parts]) * self.scale[at]
        return near


class Nearest(NamedTuple):
    """Rows found, in step with each other: record number, the state of its text, cosine (by int8), order."""

    row: Ints
    text_seq: Ints
    score: Floats
    vseq: Ints

    @classmethod
    def of(cls, parts: Sequence[Codes], picked: Sequence[Ints | slice], query: Floats) -> Nearest:
        """The picked rows of each part."""
        chosen = list(zip(parts, picked, strict=True))
        return cls(
            row=np.concatenate([part.record_row[at] for part, at in chosen]),
            text_seq=np.concatenate([part.text_seq[at] for part, at in chosen]),
            score=np.concatenate([part.estimate_cosines(at, query) for part, at in chosen]),
            vseq=np.concatenate([part.vseq[at] for part, at in chosen]),
        )

    def take(self, at: Ints | NDArray[np.bool_] | slice) -> Nearest:
        """These rows of it."""
        return Nearest(self.row[at], self.text_seq[at], self.score[at], self.vseq[at])


def compute_sign_bits(vectors: Floats) -> NDArray[np.uint64]:
    """One bit a dimension, as columns of 64-bit words; dimensions are filled up to a multiple of 64."""
    filled = -vectors.shape[1] % 64
    signs = np.pad(vectors > 0, ((0, 0), (0, filled)))
    return np.ascontiguousarray(np.packbits(signs, axis=1).view(np.uint64).T)


class VectorIndex:
    """The codes of one embedder's vectors in one store, as this process has loaded them."""

    def __init__(self, folder: Path, database: Database, name: str) -> None:
        self._folder = folder
        self._database = database
        self._name = name
        self._lock = threading.Lock()
        self._files: dict[str, Codes] = {}
        self._soundness = Soundness(folder / "sound.json")
        self._tail: list[Codes] = []
        self._number = 0
        self._generation = 0
        self._covered = 0
        self._read_to = 0
        self._clean: tuple[object, object] = (None, None)
        self._tables: OrderedDict[tuple[bytes, bool], tuple[int, NDArray[np.bool_]]] = OrderedDict()

    def nearest(
        self,
        connection: apsw.Connection,
        parts: Sequence[Codes],
        query: Floats,
        bounds: Bounds,
        allowed: Sequence[int] | NDArray[np.bool_] | None,
    ) -> Iterator[Nearest]:
        """What is nearest to the query, nearest first, in growing pieces.

        `allowed` are the only records that may come, when they are known beforehand: their numbers, all within bounds,
        or for each number whether it may.
        """
        pools = [self._find_pool(connection, part, bounds, allowed) for part in parts]
        total = sum(len(part) if pool is None else len(pool) for part, pool in zip(parts, pools, strict=True))
        depth = min(max(LEAST_DEPTH, count_rows(parts) // DEPTH_SHARE), MOST_DEPTH)
        distances = None
        if total > SMALL:
            bits = compute_sign_bits(query[None, :])[:, 0]
            distances = [_compute_distances(part, pool, bits) for part, pool in zip(parts, pools, strict=True)]
        earlier: list[Nearest] = []
        while total:
            picked = _pick(parts, pools, distances, min(depth, total))
            earlier.append(_rank(parts, picked, query, earlier))
            yield earlier[-1]
            if distances is None or depth >= total:
                return
            depth *= 8

    def load(
        self,
        connection: apsw.Connection,
        embedder: int,
        newest: int,
        segments: Sequence[tuple[str, int]],
        *,
        generation: int,
        dimensions: int,
    ) -> list[Codes]:
        """Return the codes of every vector that a snapshot has, from files and, for the newest, from the database.

        The snapshot says the number of the embedder, its newest vector, and its files with the newest vector in each.
        """
        with self._lock:
            # Its vectors were thrown away and are being made again, or others were put back.
            if (generation, embedder) != (self._generation, self._number):
                self._generation, self._number = generation, embedder
                self._files, self._tail, self._covered, self._read_to = {}, [], 0, 0
                self._tables.clear()
            names = {name for name, _ in segments}
            self._files = {name: codes for name, codes in self._files.items() if name in names}
            covered = 0
            for name, high in segments:
                if name not in self._files:
                    codes = self._open(name)
                    if codes is None:
                        break  # torn or missing: what it held is read from the database until it is rebuilt
                    self._files[name] = codes
                covered = high
            self._extend_tail(connection, embedder, covered, newest)
            parts = [self._files[name] for name, high in segments if high <= covered]
            parts += [part for part in self._tail if len(part)]
        if parts and parts[0].values.shape[1] != dimensions:
            raise Invalid("vector", f"has {dimensions} dimensions; this store's have {parts[0].values.shape[1]}")
        return parts

    def _extend_tail(self, connection: apsw.Connection, embedder: int, covered: int, newest: int) -> None:
        if covered > self._covered:
            self._tail = [part.after(covered) for part in self._tail]
        elif covered < self._covered or newest < self._read_to:
            self._tail, self._read_to = [], covered
        self._covered, self._read_to = covered, max(self._read_to, covered)
        while self._read_to < newest:
            rows = _read_rows(connection, embedder, self._read_to, newest, CHUNK)
            if rows:
                self._tail.append(Codes.of(rows))
            self._read_to = rows[-1][1] if len(rows) == CHUNK else newest
        self._tail = [part for part in self._tail if len(part)]
        # A scan takes some time for each part, however short: each is more than twice as long as the next.
        while len(self._tail) > 1 and len(self._tail[-2]) <= 2 * len(self._tail[-1]):
            self._tail[-2:] = [Codes.join(self._tail[-2:])]

    def _find_pool(
        self,
        connection: apsw.Connection,
        part: Codes,
        bounds: Bounds,
        allowed: Sequence[int] | NDArray[np.bool_] | None,
    ) -> Ints | None:
        """The rows of `part` that may be seen; None for all of them."""
        if allowed is not None and not isinstance(allowed, np.ndarray):
            return part.locate(np.unique(np.array(allowed, np.int64)))
        inside = self._find_inside(connection, part, bounds)
        if allowed is None:
            return inside
        passing = allowed.take(part.record_row if inside is None else part.record_row[inside], mode="clip")
        if passing.all():
            return inside
        return np.flatnonzero(passing) if inside is None else inside[passing]

    def _find_inside(self, connection: apsw.Connection, part: Codes, bounds: Bounds) -> Ints | None:
        """The rows of `part` in the scope and of the kinds; None for all of them. They never change, and are kept."""
        key = (bounds.scope.path, bounds.exact, bounds.kinds)
        with self._lock:
            if key in part.inside:
                part.inside.move_to_end(key)
                return part.inside[key]
        mask: NDArray[np.bool_] | None = None
        if bounds.scope.names or bounds.exact:
            mask = self._find_scopes(connection, bounds, int(part.scope.max(initial=1))).take(part.scope, mode="clip")
        if bounds.kinds:
            kinds = np.zeros(256, np.bool_)
            kinds[[_KIND_NUMBER[kind] for kind in bounds.kinds]] = True
            mask = kinds[part.kind] if mask is None else mask & kinds[part.kind]
        inside = None if mask is None or mask.all() else np.flatnonzero(mask)
        with self._lock:
            part.inside[key] = inside
            if len(part.inside) > MOST_INSIDE:
                part.inside.popitem(last=False)
        return inside

    def _find_scopes(self, connection: apsw.Connection, bounds: Bounds, highest: int) -> NDArray[np.bool_]:
        """For each scope number, whether it is within bounds. Scopes are never renumbered, so it only grows."""
        key = (bounds.scope.path, bounds.exact)
        with self._lock:
            known, table = self._tables.pop(key, (0, np.zeros(0, np.bool_)))
        if known < highest:
            path, exact = key
            # Scopes that were removed may have been the newest; codes of what was in them are left.
            newest = max(known, int(connection.execute("SELECT ifnull(max(no), 0) FROM scope").get))
            inside = fetch(
                connection,
                "SELECT no FROM scope WHERE path >= ? AND path < ? AND no > ? AND no <= ?",
                (path, path + (b"\0" if exact else b"\xff"), known, newest),
            )
            table = np.concatenate([table, np.zeros(newest + 1 - len(table), np.bool_)])
            table[[number for (number,) in inside]] = True
            known = newest
        with self._lock:
            self._tables[key] = (known, table)
            if len(self._tables) > 64:
                self._tables.popitem(last=False)
        return table

    def _open(self, name: str) -> Codes | None:
        """The codes in a file, or None if it is missing, torn or another's."""
        if os.sep in name:  # a database from elsewhere may name any file
            return None
        path = self._folder / name
        try:
            return _map(path) if self._soundness.holds([path], _is_intact) else None
        except OSError:  # another process has just replaced it
            return None

    # Writing, by the holder of the lease.

    def write_codes(self) -> int:
        """Put vectors that are in no file into one, when there are at least TAIL of them; how many."""
        with self._database.snapshot() as connection:
            row = connection.execute("SELECT no, vseq FROM embedder WHERE name = ?", (self._name,)).get
            if row is None:
                return 0
            embedder, newest = row
            segments = fetch(
                connection, "SELECT low, high, name FROM segment WHERE embedder = ? ORDER BY high", (embedder,)
            )
            sound: list[tuple[int, int]] = []
            for low, high, name in segments:
                if self._open(name) is None or low != (sound[-1][1] if sound else 0):
                    break
                sound.append((low, high))
            covered = sound[-1][1] if sound else 0
            if newest - covered < TAIL and len(sound) == len(segments):
                return 0
            low, count = self._find_merge_start(connection, embedder, sound, newest)
            name = self._write(connection, embedder, low, newest, count)
        self._database.write(lambda writer: _publish(writer, embedder, low, newest, name))
        sweep(self._folder, self._database)
        return count

    def count_stale(self) -> int:
        """How many vectors are in the smallest file that also holds codes of deleted ones; 0 when none does."""
        with self._database.snapshot() as connection:
            found = self._find_stale(connection)
        return max(1, found.rows) if found else 0

    def rewrite(self) -> int:
        """Rewrite that file without them; how many vectors it has now, 0 when there is no such file."""
        with self._database.snapshot() as connection:
            found = self._find_stale(connection)
            if found is None:
                return 0
            name = self._write(connection, found.embedder, found.low, found.high, found.rows)
        self._database.write(lambda writer: _replace(writer, found, name))
        sweep(self._folder, self._database)
        return max(1, found.rows)

    def _find_stale(self, connection: apsw.Connection) -> _Stale | None:
        """The smallest file that holds codes of deleted vectors."""
        segments = fetch(
            connection,
            "SELECT embedder.no, low, high, segment.name FROM segment JOIN embedder ON embedder.no = segment.embedder"
            " WHERE embedder.name = ? ORDER BY high - low",
            (self._name,),
        )
        newest = connection.execute("SELECT seq, (SELECT sum(vseq) FROM embedder) FROM state").get
        if (newest, segments) == self._clean:
            return None
        for embedder, low, high, name in segments:
            codes = self._open(name)  # one that is torn is seen to when the codes are brought up to date
            sql = "SELECT count(*) FROM vector WHERE embedder = ? AND vseq > ? AND vseq <= ?"
            rows = int(connection.execute(sql, (embedder, low, high)).get)
            if codes is not None and len(codes) > rows:
                return _Stale(embedder, low, high, name, rows)
        self._clean = (newest, segments)
        return None

    def _find_merge_start(
        self, connection: apsw.Connection, embedder: int, sound: list[tuple[int, int]], newest: int
    ) -> tuple[int, int]:
        """Where the new file begins: it takes in older files until the next is over twice its size."""
        low = sound[-1][1] if sound else 0
        for start, end in reversed(sound):
            if end - start > 2 * (newest - low):
                break
            low = start
        count = connection.execute(
            "SELECT count(*) FROM vector WHERE embedder = ? AND vseq > ? AND vseq <= ?", (embedder, low, newest)
        ).get
        return low, int(count)

    def _write(self, connection: apsw.Connection, embedder: int, low: int, high: int, count: int) -> str:
        """Write a file of codes under a temporary name, sync it and give it its name."""
        name = f"{embedder}-{high}-{secrets.token_hex(4)}.codes"
        if not count:
            return ""
        self._database.verify()
        self._folder.mkdir(exist_ok=True, mode=0o700)  # and not the store's: one that is gone stays so
        temporary = self._folder / (name + ".tmp")
        try:
            # Written, not mapped: a full disk is an error to a write, and the end of the process to a map.
            with open(temporary, "xb+") as file:
                _fill(file, name, count, lambda after: _read_rows(connection, embedder, after, high, CHUNK), low)
                sync(file.fileno())
            temporary.rename(self._folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_path(self._folder)
        return name


def sweep(folder: Path, database: Database) -> None:
    """Remove files of codes that the database no longer names; a reader that has one mapped keeps it."""
    with database.snapshot() as connection:
        current = {name for (name,) in fetch(connection, "SELECT name FROM segment")}
    for file in folder.glob("*.codes*"):
        if file.name not in current:
            remove_unused(file)


class _Stale(NamedTuple):
    """A file of codes, and how many of its vectors are still there."""

    embedder: int
    low: int
    high: int
    name: str
    rows: int


def count_rows(parts: Sequence[Codes]) -> int:
    """How many rows these have together."""
    return sum(len(part) for part in parts)


def _read_rows(connection: apsw.Connection, embedder: int, low: int, high: int, limit: int) -> list[Row]:
    return fetch(
        connection,
        "SELECT vector.no, vseq, scope, kind, vector.data, vector.text_seq"
        " FROM vector JOIN record ON record.no = vector.no"
        " WHERE embedder = ? AND vseq > ? AND vseq <= ? ORDER BY vseq LIMIT ?",
        (embedder, low, high, limit),
    )


def _publish(connection: apsw.Connection, embedder: int, low: int, high: int, name: str) -> None:
    connection.execute("DELETE FROM segment WHERE embedder = ? AND high > ?", (embedder, low))
    if name:
        connection.execute(
            "INSERT INTO segment (embedder, high, low, name) VALUES (?, ?, ?, ?)", (embedder, high, low, name)
        )


def _replace(connection: apsw.Connection, old: _Stale, name: str) -> None:
    """Name another file for the same vectors, unless the old one was replaced meanwhile."""
    if name:
        sql = "UPDATE segment SET name = ? WHERE embedder = ? AND name = ?"
        connection.execute(sql, (name, old.embedder, old.name))
    else:
        connection.execute("DELETE FROM segment WHERE embedder = ? AND name = ?", (old.embedder, old.name))


def _compute_layout(
    rows: int, dimensions: int
) -> tuple[list[tuple[str, np.dtype[np.generic], tuple[int, ...], int]], int]:
    """Return the arrays of a file of codes, each with its kind, shape and offset; and the size of the file."""
    parts: list[tuple[str, np.dtype[np.generic], tuple[int, ...]]] = [
        ("record_row", np.dtype("<i8"), (rows,)),
        ("text_seq", np.dtype("<i8"), (rows,)),
        ("vseq", np.dtype("<i8"), (rows,)),
        ("bits", np.dtype("<u8"), (-(-dimensions // 64), rows)),
        ("scale", np.dtype("<f4"), (rows,)),
        ("scope", np.dtype("<i4"), (rows,)),
        ("kind", np.dtype("u1"), (rows,)),
        ("values", np.dtype("i1"), (rows, dimensions)),
    ]
    arrays, at = [], _HEADER
    for name, kind, shape in parts:
        arrays.append((name, kind, shape, at))
        at += kind.itemsize * math.prod(shape)
    return arrays, at


def _make_header(name: str, rows: int, dimensions: int, crc: int) -> bytes:
    """What a file begins with. It says the file's own name, so that none can be taken for another."""
    whose = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return (_MAGIC + np.array([rows, dimensions, crc], "<u8").tobytes() + whose).ljust(_HEADER, b"\0")


def _is_intact(path: Path) -> bool:
    """Whether a file of codes is what it should be."""
    try:
        with open(open_file(path, os.O_RDONLY), "rb") as file:
            header = file.read(_HEADER)
            rows, dimensions, crc = (int(number) for number in np.frombuffer(header, "<u8", 3, len(_MAGIC)))
            return (
                header == _make_header(path.name, rows, dimensions, crc)
                and path.stat().st_size == _compute_layout(rows, dimensions)[1]
                and zlib.crc32(np.memmap(file, np.uint8, "r")[_HEADER:].data) == crc
            )
    except (OSError, Unavailable, ValueError):
        return False


def _map(path: Path) -> Codes:
    """Map a file of codes that is intact."""
    whole = np.memmap(path, np.uint8, "r")
    rows, dimensions = (int(number) for number in np.frombuffer(whole[len(_MAGIC) : _HEADER].tobytes(), "<u8", 2))
    arrays: dict[str, NDArray[np.generic]] = {
        name: np.asarray(whole[at : at + kind.itemsize * math.prod(shape)]).view(kind).reshape(shape)
        for name, kind, shape, at in _compute_layout(rows, dimensions)[0]
    }
    return Codes(**arrays)  # type: ignore[arg-type]  # the layout's types


def _fill(file: BinaryIO, name: str, count: int, rows_after: Callable[[int], list[Row]], low: int) -> None:
    """Write `count` rows of codes, those after `low`, piece by piece, and at last the header."""
    filled, dimensions = 0, 0
    while filled < count:
        rows = rows_after(low)
        piece, low = Codes.of(rows), rows[-1][1]
        dimensions = piece.values.shape[1]
        for part, kind, _, at in _compute_layout(count, dimensions)[0]:
            array = getattr(piece, part).astype(kind)
            for column, line in enumerate(array if part == "bits" else [array]):  # the bits stand by columns
                file.seek(at + (column * count + filled) * (line.nbytes // len(rows)))
                file.write(line.tobytes())
        filled += len(rows)
    file.flush()
    crc = zlib.crc32(np.memmap(file, np.uint8, "r")[_HEADER:].data)
    file.seek(0)
    file.write(_make_header(name, count, dimensions, crc))
    file.flush()


def _compute_distances(part: Codes, pool: Ints | None, query: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """The number of differing sign bits of each row in the pool."""
    if pool is not None and 2 * len(pool) > len(part):
        return _compute_distances(part, None, query)[pool]  # to pick most rows takes longer than to scan all
    rows = len(part) if pool is None else len(pool)
    distances = np.empty(rows, np.uint16)
    for start in range(0, rows, BLOCK):
        block = slice(start, min(start + BLOCK, rows))
        chosen = block if pool is None else pool[block]
        total = distances[block]
        total[:] = np.bitwise_count(part.bits[0, chosen] ^ query[0])
        for column in range(1, len(query)):
            total += np.bitwise_count(part.bits[column, chosen] ^ query[column])
    return distances


def _pick(
    parts: Sequence[Codes], pools: Sequence[Ints | None], distances: list[NDArray[np.uint16]] | None, depth: int
) -> list[Ints | slice]:
    """The rows of each part that are among the `depth` nearest by sign bits (all of them, without distances)."""
    if distances is None:
        return [slice(None) if pool is None else pool for pool in pools]
    # A few looks at all of them take half as long as to count how often each distance occurs.
    limit = bisect_left(
        range(64 * len(parts[0].bits)),
        depth,
        key=lambda most: sum(int(np.count_nonzero(each <= most)) for each in distances),
    )
    near = [np.flatnonzero(each <= limit) for each in distances]
    return [at if pool is None else pool[at] for at, pool in zip(near, pools, strict=True)]


def _rank(parts: Sequence[Codes], picked: Sequence[Ints | slice], query: Floats, earlier: Sequence[Nearest]) -> Nearest:
    """The picked rows, best int8 score first, less those of earlier pieces."""
    found = Nearest.of(parts, picked, query)
    if earlier:
        # The order of a vector is its own: no two rows share one.
        found = found.take(~np.isin(found.vseq, np.concatenate([before.vseq for before in earlier])))
    return found.take(np.argsort(-found.score, kind="stable"))


def is_faulty(connection: apsw.Connection, path: Path, embedder: int, low: int, high: int) -> bool:
    """Whether a file of codes cannot be read, or lacks or falsifies a vector that it should hold."""
    try:
        if not _is_intact(path):
            return True
        stored = _map(path)
    except OSError:  # another thread or process has just replaced it
        return True
    after = low
    while rows := _read_rows(connection, embedder, after, high, CHUNK):
        expected, after = Codes.of(rows), rows[-1][1]
        at = np.searchsorted(stored.vseq, expected.vseq)
        if (
            len(stored) == 0
            or at.max() >= len(stored)
            or not (
                np.array_equal(stored.record_row[at], expected.record_row)
                and np.array_equal(stored.text_seq[at], expected.text_seq)
                and np.array_equal(stored.scope[at], expected.scope)
                and np.array_equal(stored.bits[:, at], expected.bits)
                and np.array_equal(stored.values[at], expected.values)
            )
        ):
            return True
    return False
