"""How the database file is opened, shared and kept: connections, transactions, group commit, migrations."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from ...errors import CofioError, Unavailable
from ...links import open_file

T = TypeVar("T")

APPLICATION = 0x636F6669  # "cofi": marks a file as ours
PATIENCE = 60.0  # seconds that a caller waits for another process before it is told so
GROUP = 64  # the most callers whose writes share one commit
CHECKPOINT_PAGES = 4000  # a backstop: the background work checkpoints earlier
CACHE_KIB = 8000
IDLE_READERS = 8  # connections that are kept for the next readers


@dataclass(slots=True)
class _Job(Generic[T]):
    """One caller's piece of a shared commit."""

    work: Callable[[apsw.Connection], T]
    done: bool = False
    result: list[T] = field(default_factory=list)
    error: BaseException | None = None


class Database:
    """One writer connection, shared by group commit, and a pool of reader connections."""

    def __init__(self, path: Path, *, sync: str = "full", vfs: str | None = None) -> None:
        self.path = path
        # SQLite is to follow no link, on the way there either; where the folder itself lies is the user's choice.
        self._file = os.path.join(os.path.realpath(path.parent), path.name)
        self._sync = sync
        self._vfs = vfs
        self._queue: deque[_Job[object]] = deque()
        self._writing = threading.Lock()
        self._readers: list[apsw.Connection] = []
        self._closed = False
        self._torn = False
        with translated(path):
            if not path.exists():
                os.close(open_file(path, os.O_CREAT | os.O_RDWR))
            self._writer = self._connect()
            try:
                migrate(self._writer, path, migrations())
            except BaseException:
                self._writer.close()
                raise

    def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` in a transaction and commit it durably; callers on other threads share the commit.

        What `work` raises is raised here and undoes that work alone.
        """
        job = _Job(work)
        self._queue.append(job)  # type: ignore[arg-type]  # the queue holds jobs of any result
        while not job.done:
            with self._writing:
                if not job.done:
                    self._commit([self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))])
        if job.error is not None:
            raise job.error
        return job.result[0]

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """A connection with a read transaction open: all its reads see the same moment."""
        connection = self._reader()
        try:
            with translated(self.path):
                begin(connection)
                yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def borrowed(self) -> Iterator[apsw.Connection]:
        """A reader connection with no transaction open."""
        connection = self._reader()
        try:
            with translated(self.path):
                yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def fresh(self) -> Iterator[apsw.Connection]:
        """A new connection with a read transaction, for checks: one in use believes the pages that it has cached."""
        with translated(self.path):
            connection = self._connect()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.close()

    def checkpoint(self) -> None:
        """Move what the write-ahead log holds into the database, as far as readers allow."""
        with self.borrowed() as connection:
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except (apsw.BusyError, apsw.LockedError):
                return  # another process is at it

    def close(self) -> None:
        """Close every connection; the last process to close leaves a database without a log."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            self._clear_up()
            with translated(self.path), ExitStack() as closing:
                closing.callback(self._writer.close)
                for connection in self._idle():
                    closing.callback(connection.close)

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(
            self._file,
            flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX | apsw.SQLITE_OPEN_NOFOLLOW,
            vfs=self._vfs,
        )
        connection.set_busy_handler(_Patience())
        connection.execute(
            f"PRAGMA synchronous = {'FULL' if self._sync == 'full' else 'NORMAL'};"
            f"PRAGMA cache_size = -{CACHE_KIB};"
            f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
            "PRAGMA secure_delete = ON;"  # what is deleted is gone from the file, not only from sight
            "PRAGMA journal_size_limit = 67108864;"
            "PRAGMA trusted_schema = OFF;"
        ).fetchall()  # statements after one that returns a row run only when the rows are taken
        return connection

    def _reader(self) -> apsw.Connection:
        if self._closed:
            raise Unavailable("the memory is closed")
        try:
            return self._readers.pop()
        except IndexError:
            with translated(self.path):
                return self._connect()

    def _give_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if self._closed or len(self._readers) >= IDLE_READERS:
            connection.close()
        else:
            self._readers.append(connection)
            if self._closed:  # just now, by another thread
                for idle in self._idle():
                    idle.close()

    def _idle(self) -> Iterator[apsw.Connection]:
        """Take each idle reader connection out, whatever other threads do to them meanwhile."""
        with suppress(IndexError):
            while True:
                yield self._readers.pop()

    def _commit(self, jobs: list[_Job[object]]) -> None:
        """Run the jobs in one transaction, each undone alone if it fails, and acknowledge after the commit."""
        try:
            if self._closed:
                raise Unavailable("the memory is closed")
            with translated(self.path):
                patiently(lambda: self._writer.execute("BEGIN IMMEDIATE"))
                for job in jobs:
                    self._run(job, alone=len(jobs) == 1)
                if all(job.error is not None for job in jobs):
                    self._writer.execute("ROLLBACK")
                else:
                    self._torn = True
                    self._writer.execute("COMMIT")
                    self._torn = False
        except BaseException as error:
            # Ctrl-C in the thread that commits is not the other threads' own, though it ends their writes too.
            shared = error if isinstance(error, CofioError) else Unavailable("the write was broken off; try again")
            for job in jobs:
                job.error = job.error or shared
            if not self._closed:
                self._clear_up()
            if not isinstance(error, CofioError):
                raise
        finally:
            for job in jobs:
                job.done = True

    def _run(self, job: _Job[object], *, alone: bool) -> None:
        """Do one job's work; undo it, and nothing else, when it fails for a reason of its own."""
        if not alone:
            self._writer.execute("SAVEPOINT job")
        try:
            job.result.append(job.work(self._writer))
        except Exception as error:
            # A full or failing disk ends the whole transaction: it is not this job's own error.
            if isinstance(error, apsw.Error) or not self._writer.in_transaction:
                raise
            if not alone:
                self._writer.execute("ROLLBACK TO job")
            job.error = error
        if not alone:
            self._writer.execute("RELEASE job")

    def _clear_up(self) -> None:
        """End what a failure left open, and write over what a failed commit may have left in the log: whoever
        recovers the log after a crash would take it for one that was acknowledged.
        """
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            if self._torn:
                # A value that is new each time: SQLite does not write a page that stays the same.
                self._writer.execute("BEGIN IMMEDIATE; UPDATE state SET mended = mended + 1; COMMIT")
                self._torn = False
        except apsw.Error:  # the disk still fails; the next failure or success, or closing, sees to it
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")


class _Patience:
    """A busy handler with short sleeps: it waits up to PATIENCE for the other process."""

    def __init__(self) -> None:
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._until = now + PATIENCE
        time.sleep(random.uniform(0.0002, 0.001 if tries < 20 else 0.004))
        return now < self._until


def begin(connection: apsw.Connection) -> None:
    """Open a read transaction. It starts at its first read: until then there is no moment to hold on to."""
    connection.execute("BEGIN")
    patiently(lambda: connection.execute("SELECT 1 FROM state").get)


def patiently(work: Callable[[], T]) -> T:
    """Run `work` again while another process is in its way in a manner that no busy handler hears of."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.001, 0.005))


def fetch(connection: apsw.Connection, sql: str, values: apsw.Bindings = ()) -> list[Any]:
    """Every row of a query. The schema vouches for the rows' types, which no checker can see."""
    return connection.execute(sql, values).fetchall()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the database's errors into Unavailable, with a sentence on what would help."""
    try:
        yield
    except apsw.FullError as error:
        raise Unavailable(f"the disk that holds {path} is full; free some space and try again") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Unavailable(f"another process has held {path} for over {PATIENCE:.0f} s; see who has it open") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise Unavailable(
            f"{path} is damaged ({error}); restore a backup, or save what `cofio export` can still read"
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError, PermissionError) as error:
        raise Unavailable(f"{path} cannot be opened for writing ({error}); check its folder's permissions") from error
    except (apsw.IOError, apsw.NoMemError, OSError) as error:
        raise Unavailable(f"reading or writing {path} failed ({error}); check the disk") from error


def migrations() -> list[tuple[int, str]]:
    """The numbered SQL files, in order."""
    folder = Path(__file__).parent.parent / "schema" / "sqlite"
    return [(int(file.name.split("_")[0]), file.read_text()) for file in sorted(folder.glob("*.sql"))]


def migrate(connection: apsw.Connection, path: Path, steps: Sequence[tuple[int, str]]) -> None:
    """Bring the database to this program's schema, one transaction a step.

    One that is newer, or of some other program, is refused and left as it is.
    """
    newest = steps[-1][0]
    found = patiently(lambda: _schema(connection, path, newest))
    patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").get)
    if found == newest:
        return
    for number, sql in steps:
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            # Asked again inside the transaction: another process may have done the step meanwhile.
            if _schema(connection, path, newest) < number:
                connection.execute(sql).fetchall()
                connection.execute(f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _schema(connection: apsw.Connection, path: Path, newest: int) -> int:
    """The schema number of the database; raises Unavailable for a newer or a foreign one."""
    # In this order: what another process is making meanwhile gets its tables and its mark at once.
    used = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get
    number = int(connection.pragma("user_version"))
    if used and int(connection.pragma("application_id")) != APPLICATION:
        raise Unavailable(f"{path} is a database of some other program; choose another folder")
    if number > newest:
        raise Unavailable(
            f"{path} was written by a newer cofio (schema {number}, this one knows {newest}); upgrade cofio"
        )
    return number
