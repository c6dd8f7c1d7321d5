"""What the doctor says of a server: its versions, this user's rights, and what its operator should look after."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ..upkeep_interface import Examination
from .database import Connections
from .migrations import Server

CLOCK_SLACK = 2.0  # seconds by which two clocks may differ
FULL_SHARE = 0.8  # of the connections that a server takes
DEAD_SHARE = 0.2  # of a table's rows: autovacuum begins at as many
MANY_DEAD = 10_000  # rows; fewer cost nothing
_SETTINGS = (
    "SELECT current_setting('fsync'), current_setting('autovacuum'), current_setting('max_connections')::integer,"
    " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
    " (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cofio'), clock_timestamp(), current_user,"
    " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')"
)
_TABLES = (
    "SELECT c.relname, has_table_privilege(c.oid, 'SELECT') AND (pg_is_in_recovery()"
    " OR has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')"
    " AND has_table_privilege(c.oid, 'DELETE')), coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0)"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid"
    " WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY c.relname"
)
_INVALID = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid ="
    " c.relnamespace WHERE n.nspname = $1 AND NOT i.indisvalid ORDER BY c.relname"
)


def examine(connections: Connections, server: Server) -> Examination:
    """Look at the server as this user may see it."""
    before = datetime.now(UTC)
    ((fsync, autovacuum, most, used, own, clock, user, available),) = connections.fetch(_SETTINGS)
    after = datetime.now(UTC)
    ahead = (clock.astimezone(UTC) - (before + (after - before) / 2)).total_seconds()
    role = "a standby, which can only be read" if server.is_standby else "a primary"
    facts = {
        "server": f"PostgreSQL {server.version // 10000}.{server.version % 10000}, {role}",
        "pgvector": server.vector_version,
        "user": f"{user}, in schema {connections.schema}",
        "connections": f"{used} of {most} in use, {own} of them by cofio",
        "clock": f"the server's is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's",
    }
    warnings = [*_find_settings(fsync, autovacuum, server.vector_version, available)]
    if abs(ahead) > CLOCK_SLACK:
        warnings.append(f"{facts['clock']}; cofio goes by the server's: let both follow a time server")
    if used > FULL_SHARE * most:
        warnings.append(
            f"{facts['connections']}: raise max_connections, put pgbouncer before the server, or run fewer workers"
        )
    warnings += _find_tables(connections, user)
    return Examination(facts, warnings)


def find_invalid_indexes(connections: Connections) -> list[str]:
    """Say which indexes were not made to their end, so that the server does not use them."""
    return [
        f"the index {name} is invalid, so that searches are slow or keys may be there twice: run REINDEX INDEX"
        f' CONCURRENTLY "{connections.schema}"."{name}"'
        for (name,) in connections.fetch(_INVALID, (connections.schema,))
    ]


def _find_settings(fsync: str, autovacuum: str, vector: str, available: str | None) -> Iterator[str]:
    if fsync != "on":
        yield "fsync is off on the server: a crash of its machine can destroy the database; set fsync = on"
    if autovacuum != "on":
        yield "autovacuum is off on the server: deleted rows stay and searches become slower; set autovacuum = on"
    if available is not None and _parse_version(available) > _parse_version(vector):
        yield f"pgvector {available} is installed on the server: as a superuser run ALTER EXTENSION vector UPDATE"


def _find_tables(connections: Connections, user: str) -> Iterator[str]:
    rows = connections.fetch(_TABLES, (connections.schema,))
    if closed := [name for name, is_open, _, _ in rows if not is_open]:
        yield (
            f"{user} may not read and write {', '.join(closed)}: as the owner run GRANT ALL ON ALL TABLES IN SCHEMA"
            f' "{connections.schema}" TO "{user}"'
        )
    for name, _, live, dead in rows:
        if dead > MANY_DEAD and dead > DEAD_SHARE * (live + dead):
            yield (
                f"{name} has {dead:,} deleted rows among {live:,}: run VACUUM (ANALYZE)"
                f' "{connections.schema}"."{name}", and see whether autovacuum keeps up or a transaction stays open'
            )


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
