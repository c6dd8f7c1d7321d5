"""A standby that answers reads: how far behind it is, and whether a read may go to it.

The primary is asked for its position in the log now and then. Once the standby has replayed as much, it has all that
was committed before the primary was asked: how old its answers can be is known without comparing clocks. A write of
this process is on the standby when it has replayed a position that was asked for after the write.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...values.errors import Invalid, Unavailable
from ..interface import ReplicaState
from .database import Connections, ServerAddress

T = TypeVar("T")
LOOKS = 5  # how often it is looked at within the time that it may be behind
SHORTEST_PAUSE = 0.05  # seconds between two looks
REST = 2.0  # seconds in which nothing is asked of a standby that failed
PATIENCE = 1.0  # seconds that anyone waits for a connection to it
SAMPLES = 4 * LOOKS  # positions of the primary that are kept until they are replayed
_POSITION = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_REPLAYED = (
    "SELECT pg_is_in_recovery(), pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint, (SELECT store FROM @state)"
)


class _Sample(NamedTuple):
    """Where the primary was in its log, when it was asked."""

    at: float
    writes: int
    """How many writes of this process had been acknowledged."""
    position: int


class _ReadRoute(threading.local):
    """Where the reads of a thread go: to the standby, or, if this is None, to the primary."""

    connections: Connections | None = None


class Replica:
    """A standby of the store's server."""

    def __init__(self, url: str, primary: Connections, *, store: str, most_lag: float) -> None:
        """`store` tells the store from all others. No read goes to the standby that would be older than `most_lag`."""
        # A machine that is gone would hold a read for longer else.
        conninfo = ServerAddress.parse(url, tcp_user_timeout="10000").conninfo
        known = conninfo_to_dict(conninfo)
        if any("," in str(known.get(name, "")) for name in ("host", "hostaddr")):
            raise Invalid("read_store", "names several servers; name one, of which it can be known how far it is")
        address = ServerAddress(conninfo, primary.schema)
        self._connections = Connections(address, sync="full", size=primary.size, patience=PATIENCE)
        self._connections.vector_schema = primary.vector_schema
        self._connections.row_security = primary.row_security
        self._connections.has_iterative_scan = primary.has_iterative_scan
        self._connections.read_only = True
        self._connections.open()
        self._primary = primary
        self._store = store
        self._most_lag = most_lag
        self._lock = threading.Lock()
        self._writes = 0
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)
        self._covered: _Sample | None = None
        """The newest of them that the standby has replayed."""
        self._next_look = 0.0
        self._problem = ""
        self._route = _ReadRoute()

    @property
    def connections(self) -> Connections | None:
        """The connections that the reads of this thread are to take; None for those to the primary."""
        return self._route.connections

    def note_write(self) -> None:
        """Note that this process has written something: reads of the standby have to show it."""
        with self._lock:
            self._writes += 1

    def leave(self) -> None:
        """Have the reads of this thread go to the primary, for the rest of its `run`."""
        self._route.connections = None

    def run(self, work: Callable[[], T]) -> T:
        """Return what `work` reads, on the standby if that may be."""
        if self._route.connections is not None or not self._is_usable():
            return work()
        self._route.connections = self._connections
        try:
            return work()
        except Unavailable as error:
            if self._route.connections is None or not isinstance(error.__cause__, psycopg.Error):
                raise  # it had left, or something else failed
            self._note_problem("it could not be read from")
        finally:
            self._route.connections = None
        return work()

    def describe(self) -> ReplicaState:
        """Return how far it is behind, by a look that is not older than the next is due."""
        self._is_usable()
        with self._lock:
            lag = None if self._covered is None or self._problem else time.monotonic() - self._covered.at
            if self._problem or (lag is not None and lag <= self._most_lag):
                return ReplicaState(lag, self._problem)
            return ReplicaState(lag, f"it is more than {self._most_lag:g} seconds behind")

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _is_usable(self) -> bool:
        """Whether a read that begins now would be recent enough; one thread at a time looks, if that is due."""
        with self._lock:
            now = time.monotonic()
            is_due = now >= self._next_look and (
                self._problem or not self._is_fresh(now) or now - self._get_age_start() > self._most_lag / LOOKS
            )
            if not is_due:
                return self._is_fresh(now)
            self._next_look = now + SHORTEST_PAUSE
            sample = _Sample(now, self._writes, 0)
        self._look(sample)
        with self._lock:
            return self._is_fresh(time.monotonic())

    def _is_fresh(self, now: float) -> bool:
        found = self._covered
        return (
            not self._problem
            and found is not None
            and found.writes >= self._writes
            and now - found.at <= self._most_lag
        )

    def _get_age_start(self) -> float:
        return float("-inf") if self._covered is None else self._covered.at

    def _look(self, sample: _Sample) -> None:
        """Ask both servers how far they are."""
        try:
            ((position,),) = self._primary.fetch_once(_POSITION, patience=PATIENCE)
        except Unavailable:  # the read that follows tells of it
            return
        try:
            ((is_standby, replayed, store),) = self._connections.fetch_once(_REPLAYED, patience=PATIENCE)
        except (Unavailable, ValueError):
            self._note_problem("it cannot be reached")
            return
        if not is_standby or replayed is None:
            self._note_problem("it is no standby: it follows no other server")
        elif store != self._store:
            self._note_problem("it holds another memory")
        else:
            with self._lock:
                self._problem = ""
                self._compare(sample._replace(position=position), replayed)

    def _compare(self, sample: _Sample, replayed: int) -> None:
        """Find the newest sample that is replayed. Of those that are not, some are kept for the next looks."""
        while self._samples and self._samples[0].position <= replayed:
            self._covered = self._samples.popleft()
        if sample.position <= replayed:
            self._covered = sample
        elif not self._samples or sample.at - self._samples[-1].at >= self._most_lag / SAMPLES:
            self._samples.append(sample)

    def _note_problem(self, problem: str) -> None:
        with self._lock:
            self._problem = problem
            self._covered = None
            self._samples.clear()
            self._next_look = time.monotonic() + REST
