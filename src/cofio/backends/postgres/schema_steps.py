"""The steps that the tables of a store are made by: scripts with numbers, and how a script is split into statements.

The same scripts make a store whose large tables are partitioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

PARTITION_KEYS = {
    "record": "scope", "record_id": "id", "posting": "scope", "scope_size": "scope", "given": "scope",
    "vector": "scope", "unembedded": "scope",
}  # fmt: skip
"""The column that each of the large tables is partitioned by, in a store with partitions."""
_FILE = re.compile(r"(\d{4})_\w+\.sql")
_MARK = re.compile(r"^-- (compatible|concurrent)\b", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_TABLE = re.compile(r"(CREATE TABLE @(\w+) \(.*?\))( WITH \([^()]*\))?", re.DOTALL)
_INDEX = re.compile(r"CREATE( UNIQUE)? INDEX CONCURRENTLY (\w+) ON @(\w+) (.*)", re.DOTALL)


class Index(NamedTuple):
    """An index that is built while others read and write its table."""

    name: str
    table: str
    is_unique: bool
    definition: str
    """What follows the name of the table."""

    def write_statement(self, *, is_concurrent: bool = True) -> str:
        """The statement that makes it; without `is_concurrent`, of a partitioned table and none of its partitions."""
        unique = " UNIQUE" if self.is_unique else ""
        way, only = (" CONCURRENTLY", "") if is_concurrent else ("", "ONLY ")
        return f"CREATE{unique} INDEX{way} {self.name} ON {only}@{self.table} {self.definition}"


class Step(NamedTuple):
    """A numbered change of the tables."""

    number: int
    statements: list[str]
    is_compatible: bool = False
    """Whether servers that know only the step before may go on."""
    is_concurrent: bool = False
    """Whether it is made of indexes, each of which is built outside of a transaction."""

    @classmethod
    def parse(cls, number: int, script: str) -> Step:
        """Read a script, none of whose statements holds a semicolon.

        Raises:
            ValueError: one that says that it is concurrent holds something else than indexes.
        """
        marks = set(_MARK.findall(script))
        plain = _COMMENT.sub("", script)
        statements = [statement for part in plain.split(";") if (statement := part.strip())]
        step = cls(number, statements, "compatible" in marks, "concurrent" in marks)
        if step.is_concurrent:
            step.list_indexes()
        return step

    def list_indexes(self) -> list[Index]:
        """The indexes of a concurrent step."""
        return [_parse_index(statement) for statement in self.statements]

    def list_statements(self, partitions: int) -> Iterator[str]:
        """The statements, for a store with this number of partitions, or 0."""
        for statement in self.statements:
            table = _TABLE.fullmatch(statement)
            if table is None or not partitions or table[2] not in PARTITION_KEYS:
                yield statement
                continue
            yield f"{table[1]} PARTITION BY HASH ({PARTITION_KEYS[table[2]]})"
            for number in range(partitions):
                yield (
                    f"CREATE TABLE @{table[2]}_{number} PARTITION OF @{table[2]}"
                    f" FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number}){table[3] or ''}"
                )


def list_steps(folder: Traversable | None = None) -> list[Step]:
    """The steps of a folder, by default cofio's own, by their numbers."""
    place = files("cofio.backends").joinpath("schema", "postgres") if folder is None else folder
    found = [(int(match[1]), file) for file in place.iterdir() if (match := _FILE.fullmatch(file.name))]
    return sorted(Step.parse(number, file.read_text(encoding="utf-8")) for number, file in found)


def _parse_index(statement: str) -> Index:
    found = _INDEX.fullmatch(statement)
    if found is None:
        raise ValueError(f"a concurrent step is made of CREATE INDEX CONCURRENTLY name ON @table …, not: {statement}")
    return Index(found[2], found[3], bool(found[1]), found[4])
