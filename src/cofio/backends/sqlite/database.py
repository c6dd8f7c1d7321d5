"""The database file: its connections, transactions, group commit and migrations."""

from __future__ import annotations

import errno
import os
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

import apsw

from ...config.settings import LOCK_SECONDS
from ...system.disk import find_sync_pragmas, measure_free
from ...system.safe_files import open_file
from ...values.errors import CofioError, StorageTrouble, Unavailable
from ..interface import Trouble
from .database_files import FULL, GONE, READ_ONLY, Access, OpenFiles, find_access, is_log_empty, make_immutable_uri
from .lock_holder import describe_holder, find_lock_holder

T = TypeVar("T")

APPLICATION = 0x636F6669  # "cofi": marks a file as ours
NEEDED_SCHEMA = 3
"""What every store is brought to when it is opened. Later steps are made with the first record that needs them, so that
programs that know no more can use a store as long as there is nothing in it that they would fail at."""
MOST_REWRITTEN = 20_000  # vectors that are copied to a better table when a store is opened, in less than half a second
_NO_ROWID = "WITHOUT ROWID"
LONG_WAIT_SECONDS = 1.0  # of a wait for the write lock that is reported
RECENT_SECONDS = 10.0  # for which a trouble is reported after the last write that met it
FEW_FREE_BYTES = 2**20  # on a disk that counts as full for as long as it has no more
GROUP = 64  # the most callers whose writes share one commit
CHECKPOINT_PAGES = 4000  # a backstop: the background work checkpoints earlier
LONG_LOG = 2**24  # bytes of a log that is worth a short wait to be emptied: searches that overlap would keep it
LONG_LOG_PATIENCE = 0.25  # seconds that it may take until all who read now have ended; writers wait meanwhile
FRAME_HEADER = 24  # bytes before each page in the log
CACHE_KIB = 8000  # of the connection that writes, which has to hold what a transaction changes
READER_CACHE_KIB = 2000  # of each that reads: the system has the pages in memory as well, and once for all processes
IDLE_READERS = 8  # idle connections kept for the next readers


def read_generation(connection: apsw.Connection) -> int:
    """Return a number that is another one after an older state of the database was put back in its place.

    Its changes are then numbered like those that were lost, and what is in memory of those must not be taken for them.
    SQLite counts this number up when it copies one database over another, and else only when tables are changed.
    """
    generation: int = connection.execute("PRAGMA schema_version").get
    return generation


def correct_time(connection: apsw.Connection, now: int) -> None:
    """Set back the store's time, and what was measured by it, when a clock that was ahead has been corrected."""
    connection.execute("UPDATE state SET updated = ?1, indexed_at = min(indexed_at, ?1)", (now,))
    connection.execute("UPDATE embedder SET seen_at = min(seen_at, ?)", (now,))


@dataclass(slots=True)
class _Job(Generic[T]):
    """One caller's piece of a shared commit."""

    work: Callable[[apsw.Connection], T]
    done: bool = False
    result: list[T] = field(default_factory=list)
    error: BaseException | None = None


class Database:
    """One writer connection, shared by group commit, and a pool of reader connections."""

    def __init__(
        self, path: Path, *, sync: str = "full", vfs: str | None = None, lock_seconds: float = LOCK_SECONDS
    ) -> None:
        self.path = path
        self._lock_seconds = lock_seconds
        self._write_wait = _WriteWait(path, lock_seconds)
        self._full_at: float | None = None
        """When a write last failed for lack of space; None if one has passed since."""
        # SQLite is to follow no link, on the way there either; where the folder itself lies is the user's choice.
        self._real_path = os.path.join(os.path.realpath(path.parent), path.name)
        self._sync = sync
        self._vfs = vfs
        self._queue: deque[_Job[object]] = deque()
        self._write_lock = threading.Lock()
        self._readers: list[apsw.Connection] = []
        self._closed = False
        self._is_commit_uncertain = False
        self._is_gone = False
        self._log_path = path.with_name(f"{path.name}-wal")
        self._files = self._written_files = OpenFiles()
        with translate_errors(path):
            self._access: Access = find_access(path)
            if not path.exists():
                os.close(open_file(path, os.O_CREAT | os.O_RDWR))
            self._writer = self._connect(CACHE_KIB)
            try:
                if self.read_only:
                    _check_schema(self._writer, path, load_migrations()[-1][0])
                else:
                    migrate(self._writer, path, load_migrations(), upto=NEEDED_SCHEMA)
                    _improve_layout(self._writer)
                    self._writer.set_busy_handler(self._write_wait)
                if self._access == "immutable":
                    self._files = OpenFiles([path, self._log_path], unchanged=True)
                else:
                    self._files, self._written_files = OpenFiles([path]), OpenFiles([path, self._log_path])
                self._verify_connection(self._writer)
            except BaseException:
                self._disconnect(self._writer)
                raise

    @property
    def read_only(self) -> bool:
        """Whether it can be read and not be written."""
        return self._access != "write"

    def verify(self) -> None:
        """Verify that the database that was opened is the one that the next process to open the store will find.

        Raises:
            Unavailable: it was deleted, moved or replaced, now or before: nothing is right until the next start.
        """
        self._verify_files(self._files)

    def _verify_files(self, files: OpenFiles) -> None:
        try:
            there = not self._is_gone and files.are_there()
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be looked at ({error.strerror or error}); check the disk") from error
        if not there:
            self._fail_as_gone()

    def _fail_as_gone(self) -> NoReturn:
        """Raise an error that the files are gone, and never use them again."""
        if self._closed:  # which has just removed the log
            raise Unavailable("the memory is closed")
        message = f"the memory in {self.path.parent} was deleted, moved or replaced while it was open"
        if self._access == "immutable":
            message = f"{self.path} was changed by another program while it was read as a read-only memory"
        error = Unavailable(f"{message}; start this program again", public=GONE)
        if not self._is_gone:
            self._is_gone = True
            import logging  # not free, and few processes come here

            logging.getLogger("cofio.store").error("%s", error)
        raise error

    def _verify_connection(self, connection: apsw.Connection) -> None:
        """Verify that the files are there, and that a new connection is to these very files."""
        moved = array("i", [0])  # `ctypes` loads slowly
        connection.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, moved.buffer_info()[0])
        if moved[0]:
            self._fail_as_gone()
        self.verify()

    def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` in a transaction and commit it durably; callers on other threads share the commit.

        What `work` raises is raised here and undoes that work alone.
        """
        self.check_writable()
        job = _Job(work)
        self._queue.append(job)  # type: ignore[arg-type]  # the queue holds jobs of any result
        while not job.done:
            with self._write_lock:
                if not job.done:
                    self._commit([self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))])
        if job.error is not None:
            raise job.error
        return job.result[0]

    def find_trouble(self) -> Trouble | None:
        """Return why writes are refused at the moment, as far as this process knows."""
        waited = self._write_wait.measure()
        if waited >= LONG_WAIT_SECONDS:
            return Trouble("locked", self._write_wait.describe(waited))
        full_at = self._full_at
        if full_at is not None:
            is_recent = time.monotonic() - full_at < RECENT_SECONDS
            if is_recent or measure_free(self.path.parent) < FEW_FREE_BYTES:
                return Trouble("disk full", FULL)
        holder = find_lock_holder(self.path)
        if holder is not None and holder.is_stopped:
            return Trouble("locked", f"{describe_holder(holder)} holds the write lock and stands still")
        return None

    def check_writable(self) -> None:
        """Raise Unavailable if it can only be read."""
        if self.read_only:
            raise Unavailable(
                f"{self.path} is read-only, as its disk or folder is: it can be searched and read, not changed",
                public=READ_ONLY,
            )

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """Lend a connection with a read transaction open: all its reads see the same moment."""
        connection = self._take_reader()
        try:
            with translate_errors(self.path):
                begin_read(connection, self._lock_seconds)
                yield connection
                self._verify_unchanged()
        finally:
            self._return_reader(connection)

    @contextmanager
    def borrow(self) -> Iterator[apsw.Connection]:
        """Lend a reader connection with no transaction open."""
        connection = self._take_reader()
        try:
            with translate_errors(self.path):
                yield connection
                self._verify_unchanged()
        finally:
            self._return_reader(connection)

    @contextmanager
    def open_fresh(self) -> Iterator[apsw.Connection]:
        """Open a new connection with a read transaction, for checks: one in use believes the pages it has cached."""
        with translate_errors(self.path):
            connection = self._reconnect()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                self._disconnect(connection)

    def checkpoint(self) -> int:
        """Move what the write-ahead log holds into the database; how many bytes of it readers keep from that."""
        if self.read_only:
            return 0
        with self.borrow() as connection:
            try:
                logged, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except (apsw.BusyError, apsw.LockedError):
                return 0  # another process is at it
            return max(0, logged - moved) * int(connection.pragma("page_size"))

    def truncate_log(self) -> bool:
        """Empty the write-ahead log, which holds what was deleted since; False when others are in the way, now.

        Others wait no longer for it than for a commit: what the log holds should be in the database already. A large
        log is waited for, until those who read it now have ended: who begins meanwhile reads the database alone.
        """
        if self.read_only or is_log_empty(self._log_path):  # to empty it again would be a change for all who watch it
            return True
        with self.borrow() as connection:
            is_large = self._log_path.stat().st_size >= LONG_LOG
            connection.set_busy_handler(_BusyHandler(LONG_LOG_PATIENCE) if is_large else None)
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except (apsw.BusyError, apsw.LockedError):
                return is_log_empty(self._log_path)
            finally:
                connection.set_busy_handler(_BusyHandler(self._lock_seconds))
        return True

    def measure_log(self) -> int:
        """Return how many bytes of the write-ahead log are in use, where that can be told."""
        if self._access == "immutable" or is_log_empty(self._log_path):
            return 0
        with self.borrow() as connection:
            try:
                pages, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            except (apsw.BusyError, apsw.LockedError, apsw.ReadOnlyError):  # who may not write it may not ask either
                return self._log_path.stat().st_size
            return int(pages) * (int(connection.pragma("page_size")) + FRAME_HEADER)

    def vacuum(self, *, in_memory: bool) -> None:
        """Rewrite the database. The pages that SQLite rearranges keep copies of what lay there, deleted or not.

        Other writers wait meanwhile. The new database is gathered in memory, or in a temporary file.
        """
        self.check_writable()
        self.verify()
        with self._write_lock, translate_errors(self.path):
            if not self._closed:
                self._writer.pragma("temp_store", "MEMORY" if in_memory else "DEFAULT")
                retry_while_busy(lambda: self._writer.execute("VACUUM").get, self._lock_seconds)
                self._write_wait.end()

    def close(self) -> None:
        """Close every connection; the last process to close leaves a database without a log."""
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            self._recover()
            with translate_errors(self.path), ExitStack() as closing:
                closing.callback(self._disconnect, self._writer)
                for connection in self._pop_idle():
                    closing.callback(self._disconnect, connection)

    def _connect(self, cache: int = READER_CACHE_KIB) -> apsw.Connection:
        name, flags = self._real_path, apsw.SQLITE_OPEN_NOMUTEX | apsw.SQLITE_OPEN_NOFOLLOW
        flags |= apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE
        if self._access == "immutable":
            name, flags = make_immutable_uri(Path(name)), flags | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(name, flags=flags, vfs=self._vfs)
        connection.set_busy_handler(_BusyHandler(self._lock_seconds))
        connection.execute(
            f"PRAGMA synchronous = {'FULL' if self._sync == 'full' else 'NORMAL'};"
            f"PRAGMA cache_size = -{cache};"
            f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
            "PRAGMA secure_delete = ON;"  # what is deleted is gone from the file, not only from sight
            "PRAGMA journal_size_limit = 67108864;"
            "PRAGMA trusted_schema = OFF;" + (find_sync_pragmas() if self._sync == "full" else "")
        ).fetchall()  # statements after one that returns a row run only when the rows are taken
        return connection

    def _reconnect(self) -> apsw.Connection:
        """Open another connection to the files that were opened first."""
        self.verify()
        connection = self._connect()
        try:
            self._verify_connection(connection)
        except BaseException:
            self._disconnect(connection)
            raise
        return connection

    def _disconnect(self, connection: apsw.Connection) -> None:
        """Close a connection. The last one moves the log into the database and removes it, by a name that may be a
        stranger's by now: then both stay as they are.
        """
        try:
            ours = self._files.are_there()
        except OSError:
            ours = False
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not ours))
        connection.close()

    def _take_reader(self) -> apsw.Connection:
        if self._closed:
            raise Unavailable("the memory is closed")
        self.verify()
        try:
            return self._readers.pop()
        except IndexError:
            with translate_errors(self.path):
                return self._reconnect()

    def _verify_unchanged(self) -> None:
        """Verify that nothing changed while it was read, where no lock ensures it."""
        if self._access == "immutable":
            self.verify()

    def _return_reader(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if self._closed or len(self._readers) >= IDLE_READERS:
            self._disconnect(connection)
        else:
            self._readers.append(connection)
            if self._closed:  # just now, by another thread
                for idle in self._pop_idle():
                    self._disconnect(idle)

    def _pop_idle(self) -> Iterator[apsw.Connection]:
        """Take each idle reader connection out of the pool, while other threads may do the same."""
        with suppress(IndexError):
            while True:
                yield self._readers.pop()

    def _commit(self, jobs: list[_Job[object]]) -> None:
        """Run the jobs in one transaction, each undone alone if it fails, and acknowledge after the commit."""
        try:
            if self._closed:
                raise Unavailable("the memory is closed")
            self.verify()
            with translate_errors(self.path):
                self._begin(jobs)
                for job in jobs:
                    self._run(job, alone=len(jobs) == 1)
                if all(job.error is not None for job in jobs):
                    self._writer.execute("ROLLBACK")
                else:
                    self._is_commit_uncertain = True
                    self._writer.execute("COMMIT")
                    self._is_commit_uncertain = False
                    self._verify_files(self._written_files)  # a lost write is not acknowledged
                    self._full_at = None
        except BaseException as error:
            # Ctrl-C in the thread that commits is not the other threads' own, though it ends their writes too.
            shared = error if isinstance(error, CofioError) else Unavailable("the write was broken off; try again")
            for job in jobs:
                job.error = job.error or shared
            if isinstance(shared, Unavailable) and shared.trouble == "disk full":
                self._full_at = time.monotonic()
            if not self._closed:
                self._recover()
            if not isinstance(error, CofioError):
                raise
        finally:
            for job in jobs:
                job.done = True

    def _begin(self, jobs: list[_Job[object]]) -> None:
        """Open the write transaction. If another process does not release the lock, all who wait for it fail."""
        try:
            retry_while_busy(lambda: self._writer.execute("BEGIN IMMEDIATE"), self._lock_seconds)
        except (apsw.BusyError, apsw.LockedError) as error:
            jobs += [self._queue.popleft() for _ in range(len(self._queue))]
            sentence = self._write_wait.describe(max(self._lock_seconds, self._write_wait.measure()))
            raise Unavailable(f"{self.path}: {sentence}", public=sentence, trouble="locked") from error
        self._write_wait.end()

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

    def _recover(self) -> None:
        """Roll back what a failure left open, and overwrite what a failed commit may have left in the log: a process
        that recovers the log after a crash would take it for a commit that was acknowledged.
        """
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            if self._is_commit_uncertain:
                # A value that is new each time: SQLite does not write a page that stays the same.
                self._writer.execute("BEGIN IMMEDIATE; UPDATE state SET mended = mended + 1; COMMIT")
                self._is_commit_uncertain = False
                self._write_wait.end()
        except apsw.Error:  # the disk still fails; the next failure or success, or closing, sees to it
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")


class _BusyHandler:
    """A busy handler with short sleeps, which waits for the other process for some seconds."""

    def __init__(self, seconds: float = LOCK_SECONDS) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._until = now + self._seconds
        import random  # few processes come here

        time.sleep(random.uniform(0.0002, 0.001 if tries < 20 else 0.004))
        return now < self._until


class _WriteWait(_BusyHandler):
    """The busy handler of the connection that writes, which knows for how long others have kept the write lock."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(seconds)
        self._path = path
        self._began = self._last = float("-inf")
        self._is_reported = False

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0 and now - self._last >= RECENT_SECONDS:
            self._began, self._is_reported = now, False
        self._last = now
        if now - self._began >= LONG_WAIT_SECONDS and not self._is_reported:
            self._is_reported = True
            self._report()
        return super().__call__(tries)

    def end(self) -> None:
        """Note that this process has the lock."""
        self._last = float("-inf")

    def measure(self) -> float:
        """Return for how many seconds others have kept this process from writing; 0 if none does."""
        now = time.monotonic()
        return now - self._began if now - self._last < RECENT_SECONDS else 0.0

    def describe(self, seconds: float) -> str:
        """Say who has held the lock for so long."""
        holder = describe_holder(find_lock_holder(self._path))
        return f"{holder} has held the write lock for {seconds:.0f} s; try again"

    def _report(self) -> None:
        from ...config.notices import inform_once

        inform_once(f"waiting for {describe_holder(find_lock_holder(self._path))}, which is writing")


@contextmanager
def write_derived(connection: apsw.Connection, patience: float) -> Iterator[None]:
    """Open a transaction on a reader connection for what can be computed again; others have precedence.

    It waits for other writers no longer than `patience`, and its commit not for the disk: a power cut may undo it.

    Raises:
        apsw.Error: another writes for longer, or the disk is full or failing; nothing was changed.
    """
    synchronous = connection.pragma("synchronous")
    try:
        connection.set_busy_handler(_BusyHandler(patience))
        connection.pragma("synchronous", "NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    finally:
        connection.set_busy_handler(_BusyHandler())
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        finally:
            connection.pragma("synchronous", synchronous)


def begin_read(connection: apsw.Connection, seconds: float) -> None:
    """Open a read transaction with a first read, which fixes the moment that it sees."""
    connection.execute("BEGIN")
    retry_while_busy(lambda: connection.execute("SELECT 1 FROM state").get, seconds)


def retry_while_busy(work: Callable[[], T], seconds: float = LOCK_SECONDS) -> T:
    """Run `work` again while another process blocks it in a way that SQLite calls no busy handler for."""
    until = time.monotonic() + seconds
    while True:
        try:
            return work()
        except (apsw.BusyError, apsw.LockedError):
            if time.monotonic() > until:
                raise
            import random

            time.sleep(random.uniform(0.001, 0.005))


def fetch(connection: apsw.Connection, sql: str, values: apsw.Bindings = ()) -> list[Any]:
    """Fetch every row of a query. The schema vouches for the rows' types, which no checker can see."""
    return connection.execute(sql, values).fetchall()


_PUBLIC: dict[StorageTrouble, str] = {"disk full": FULL, "locked": "Another process holds the memory; try again"}


class ErrorTranslation:
    """A block in which the database's errors become Unavailable. A class, as every read and write goes through one."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, apsw.Error | OSError) and (problem := _explain(self._path, error)):
            trouble = _find_trouble(error)
            raise Unavailable(problem, public=trouble and _PUBLIC[trouble], trouble=trouble) from error


def translate_errors(path: Path) -> ErrorTranslation:
    """Turn the database's errors into Unavailable, with a sentence on what would help."""
    return ErrorTranslation(path)


def _explain(path: Path, error: Exception) -> str | None:
    """What is wrong and what would help; None for what is no fault of the disk or of another process."""
    match _find_trouble(error):
        case "disk full":
            return f"the disk that holds {path} is full; free some space and try again"
        case "locked":
            return f"another process holds {path} and does not let go; see who has it open"
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return f"{path} is damaged ({error}); restore a backup, or save what `cofio export` can still read"
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError | PermissionError):
        reason = _describe_error(error)
        return f"{path} cannot be opened for writing ({reason}); check its folder's permissions"
    if not isinstance(error, apsw.IOError | apsw.NoMemError | OSError):
        return None
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        missing = error.filename if error.filename not in (None, str(path)) else path.parent
        return f"{path} cannot be reached: there is no folder {missing}; make it first"
    return f"reading or writing {path} failed ({_describe_error(error)}); check the disk"


def _describe_error(error: Exception) -> str:
    """Describe why it failed, without the path, which is in the message anyway."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _find_trouble(error: Exception) -> StorageTrouble | None:
    """Return whether an error means that the disk is full, or that another process holds a lock."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "locked"
    if isinstance(error, OSError):
        return "disk full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
    # Even to read takes a few pages beside the database, and SQLite calls it a fault when there is no room for them.
    is_full = isinstance(error, apsw.FullError) or vars(error).get("extendedresult") == apsw.SQLITE_IOERR_SHMSIZE
    return "disk full" if is_full else None


def load_migrations() -> list[tuple[int, str]]:
    """Load the numbered SQL files, in order."""
    folder = Path(__file__).parent.parent / "schema" / "sqlite"
    return [(int(file.name.split("_")[0]), file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.sql"))]


def migrate(
    connection: apsw.Connection, path: Path, steps: Sequence[tuple[int, str]], *, upto: int | None = None
) -> None:
    """Bring the database to this program's schema, or no further than `upto`, one transaction a step.

    One that is newer than all steps, or of some other program, is refused and left as it is.
    """
    newest = steps[-1][0]
    wanted = newest if upto is None else upto
    found = retry_while_busy(lambda: _read_schema_number(connection, path, newest))
    retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").get)
    if found >= wanted:
        return
    for number, sql in steps[:wanted]:
        retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            # Asked again inside the transaction: another process may have done the step meanwhile.
            if _read_schema_number(connection, path, newest) < number:
                _make_step(connection, number, sql)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _improve_layout(connection: apsw.Connection) -> None:
    """Replace what older programs, and the steps, laid out worse. Programs of any version can use either layout.

    A store that others are writing to, or on a full disk, stays as it is; the next to open it tries again.
    """
    has_index = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'record_text'").get
    vectors = "SELECT sql FROM sqlite_schema WHERE name = 'vector'"
    if has_index and not str(connection.execute(vectors).get).endswith(_NO_ROWID):
        return
    connection.set_busy_handler(None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        if not has_index:  # what many say is in many scopes
            connection.execute("CREATE INDEX IF NOT EXISTS record_text ON record (digest, scope, kind)")
            connection.execute("DROP INDEX IF EXISTS record_digest")
        give_rowids(connection, MOST_REWRITTEN)
        connection.execute("COMMIT")
    except apsw.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    finally:
        connection.set_busy_handler(_BusyHandler())


def give_rowids(connection: apsw.Connection, most: int | None = None) -> None:
    """Give the table of vectors rowids, if it has none and holds no more than `most`.

    A vector and its codes take a kilobyte and more. Without rowids, rows as large stand in every node of a deep tree,
    with a page of overflow for each: it takes twice the space, and three times as long to read.
    """
    select = "SELECT sql FROM sqlite_schema WHERE tbl_name = 'vector' AND type = ? AND sql IS NOT NULL"
    table = str(connection.execute(select, ("table",)).get).rstrip()
    if not table.endswith(_NO_ROWID):
        return
    if most is not None and connection.execute("SELECT 1 FROM vector LIMIT 1 OFFSET ?", (most,)).get:
        return
    indexes = [sql for (sql,) in fetch(connection, select, ("index",))]
    connection.execute(table.removesuffix(_NO_ROWID).replace("vector", "rewritten", 1))
    connection.execute("INSERT INTO rewritten SELECT * FROM vector ORDER BY embedder, vseq")
    connection.execute("DROP TABLE vector")
    connection.execute("ALTER TABLE rewritten RENAME TO vector")
    for sql in indexes:
        connection.execute(sql)


def raise_schema(connection: apsw.Connection, number: int) -> None:
    """Make the steps up to a number that are not made yet, as part of the transaction that the connection is in."""
    found = int(connection.pragma("user_version"))
    for step, sql in load_migrations()[found:number] if found < number else ():
        _make_step(connection, step, sql)


def _make_step(connection: apsw.Connection, number: int, sql: str) -> None:
    connection.execute(sql).fetchall()
    connection.execute(f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {number}")


def _check_schema(connection: apsw.Connection, path: Path, newest: int) -> None:
    """Check that a database that can only be read has the schema that is needed; raises Unavailable otherwise."""
    number = retry_while_busy(lambda: _read_schema_number(connection, path, newest))
    if number < NEEDED_SCHEMA:
        raise Unavailable(
            f"{path} was written by an older cofio (schema {number}, this one needs {NEEDED_SCHEMA}) and is read-only:"
            " copy its folder to where it can be written, and open the copy, which brings it up to date"
        )


def _read_schema_number(connection: apsw.Connection, path: Path, newest: int) -> int:
    """Read the schema number of the database; raises Unavailable for a newer or a foreign one."""
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
