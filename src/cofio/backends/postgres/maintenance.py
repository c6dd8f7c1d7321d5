"""What people do with a store as a whole: check it, copy it, and see how large it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ...values.progress import Progress
from ...values.stats import Stats
from ...values.times import from_micros, to_micros
from ..store_time import compute_store_time
from ..upkeep_interface import Examination
from .archive import SUFFIX, write_archive
from .database import Connections
from .examination import examine, find_invalid_indexes
from .migrations import Server

_AT = "r.scope = {0}.scope AND r.no = {0}.no"
_CHECKS = [
    (
        "records that their ids do not lead to",
        "SELECT count(*) FROM @record r LEFT JOIN @record_id i ON i.id = r.id"
        f" AND {_AT.format('i')} WHERE i.id IS NULL",
    ),
    (
        "ids that lead to no record",
        f"SELECT count(*) FROM @record_id i LEFT JOIN @record r ON {_AT.format('i')} WHERE r.id IS DISTINCT FROM i.id",
    ),
    (
        "records whose words are not all in the index",
        "SELECT count(*) FROM (SELECT r.scope, r.no, unnest(r.terms) AS term, r.words FROM @record r) AS r"
        f" LEFT JOIN @posting p ON {_AT.format('p')} AND p.term = r.term AND p.words = r.words WHERE p.no IS NULL",
    ),
    (
        "words in the index of no record that holds them",
        f"SELECT count(*) FROM @posting p LEFT JOIN @record r ON {_AT.format('p')} AND p.term = ANY(r.terms)"
        " WHERE r.no IS NULL",
    ),
    (
        "scopes whose size is counted wrong",
        "SELECT count(*) FROM (SELECT scope, sum(records) AS records, sum(words) AS words FROM @scope_size GROUP BY"
        " scope) AS z FULL JOIN (SELECT scope, count(*) AS records, sum(words) AS words FROM @record GROUP BY scope)"
        " AS r USING (scope) WHERE coalesce(z.records, 0) <> coalesce(r.records, 0)"
        " OR coalesce(z.words, 0) <> coalesce(r.words, 0)",
    ),
    (
        "vectors of no record",
        f"SELECT count(*) FROM @vector v LEFT JOIN @record r ON {_AT.format('v')} WHERE r.no IS NULL",
    ),
    (
        "checkpoints that are changes of one that is gone",
        "SELECT count(*) FROM @checkpoint c LEFT JOIN @checkpoint b ON b.no = c.base AND b.thread = c.thread"
        " WHERE c.base IS NOT NULL AND b.no IS NULL",
    ),
]


class PostgresMaintenance:
    """The checks, copies and numbers of one store."""

    def __init__(
        self,
        address: str,
        connections: Connections,
        server: Server,
        clock: Callable[[], datetime],
        count_waiting: Callable[[str], int],
        copy_to_folder: Callable[[str, Progress | None], None],
    ) -> None:
        self._address = address
        self._connections = connections
        self._server = server
        self._clock = clock
        self._count_waiting = count_waiting
        self._copy_to_folder = copy_to_folder

    def check(self, embedder: str | None, progress: Progress | None = None) -> list[str]:
        """What is wrong with the store and the work for this embedder, in sentences."""
        found = []
        for number, (what, statement) in enumerate(_CHECKS, 1):
            ((count,),) = self._connections.fetch(statement)
            if count:
                found.append(f"there are {count} {what}: run `cofio reindex`")
            if progress:
                progress("check", number, len(_CHECKS))
        found += find_invalid_indexes(self._connections)
        ((fault,),) = self._connections.fetch("SELECT fault FROM @state")
        if fault:
            found.append(f"background work fails: {fault}")
        return found

    def examine(self) -> Examination:
        """What there is to say of the server."""
        return examine(self._connections, self._server)

    def backup(self, target: str, progress: Progress | None = None) -> None:
        """Copy the store into a new folder, or into a dump, while others go on writing."""
        if target.endswith(SUFFIX):
            write_archive(Path(target), self._connections.conninfo, self._connections.schema, self._server.version)
        else:
            self._copy_to_folder(target, progress)

    def count_remains(self) -> dict[str, int]:
        """How much there is of each kind of derived file that still holds what was deleted: there are no files."""
        return {}

    def stats(self, embedder: str | None) -> Stats:
        """Numbers about the store, among them how many records wait for a vector of this embedder."""
        fetch, schema = self._connections.fetch, self._connections.schema
        ((records, words, updated, changes, fault, version),) = fetch(
            "SELECT (SELECT coalesce(sum(records), 0)::bigint FROM @scope_size),"
            " (SELECT coalesce(sum(words), 0)::bigint FROM @scope_size), (SELECT coalesce(max(at), 0) FROM @moment),"
            " (SELECT coalesce(sum(changes), 0)::bigint FROM @moment), fault, schema FROM @state"
        )
        now = compute_store_time(to_micros(self._clock()), updated)
        ((expiring, expired),) = fetch(
            "SELECT count(*), coalesce(sum((expires_at <= $1)::integer), 0) FROM @record WHERE expires_at IS NOT NULL",
            (now,),
        )
        ((checkpoints, threads),) = fetch("SELECT count(*), count(DISTINCT thread) FROM @checkpoint")
        vectors = fetch(
            "SELECT e.name, (SELECT count(*) FROM @vector v WHERE v.embedder = e.no) FROM @embedder e"
            " WHERE e.dimensions > 0 ORDER BY e.no"
        )
        sizes = dict(
            fetch(
                "SELECT coalesce(p.relname, c.relname), sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace"
                " LEFT JOIN pg_class p ON p.oid = pg_partition_root(c.oid)"
                " WHERE n.nspname = $1 AND c.relkind IN ('r', 'm') GROUP BY 1",
                (schema,),
            )
        )
        index = sizes.get("posting", 0) + sizes.get("scope_size", 0)
        vector = sizes.get("vector", 0) if any(count for _, count in vectors) else 0  # an empty table has pages, too
        return Stats(
            store=self._address,
            records=records - expired,
            words=words,
            changes=changes,
            expiring=expiring - expired,
            expired=expired,
            waiting_for_index=0,
            checkpoints=checkpoints,
            threads=threads,
            schema=version,
            software=("postgresql", f"{self._server.version // 10000}.{self._server.version % 10000}"),
            bytes_database=sum(sizes.values()) - index - vector,
            bytes_log=0,
            bytes_index=index,
            bytes_vectors=vector,
            background_fault=fault,
            updated=from_micros(updated).isoformat() if updated else "",
            vectors=dict(vectors),
            waiting_for_vectors=self._count_waiting(embedder) if embedder is not None else 0,
        )
