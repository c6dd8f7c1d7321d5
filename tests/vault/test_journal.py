"""The vault's journal as a database of its own."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from cofio.vault.journal import VERSION, Journal, JournalError
from cofio.vault.writer import Stamp


def test_a_journal_that_another_sqlite_wrote_is_read_on(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / ".state" / "state.db", isolation_level=None)) as old:
        assert old.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        old.execute("INSERT INTO file VALUES (7, 'a/b.md', 1, 2, 3, 1, 9, 1)")
        old.execute("INSERT INTO entry VALUES (7, 'ep_1', x'00', 9)")
        old.execute('INSERT INTO pending VALUES (4, 1, \'[[["rest"], null, ""]]\')')
    with closing(Journal(tmp_path)) as journal:
        assert journal.list_files() == {"a/b.md": Stamp(1, 2, 3)}
        assert list(journal.list_entries()) == [("a/b.md", "ep_1")]
        assert [number for number, _, _ in journal.list_pending()] == [4]
        assert journal.get_about("version") == VERSION


def test_what_is_no_journal_is_replaced_and_a_folder_in_its_way_is_not(tmp_path: Path) -> None:
    (tmp_path / ".state").mkdir()
    (tmp_path / ".state" / "state.db").write_bytes(b"no database " * 1000)
    with closing(Journal(tmp_path)) as journal:
        assert journal.count_entries() == 0
    other = tmp_path / "other"
    (other / ".state" / "state.db").mkdir(parents=True)
    with pytest.raises(JournalError):
        Journal(other)


def test_threads_share_a_journal(tmp_path: Path) -> None:
    faults: list[Exception] = []

    def write(thread: int) -> None:
        try:
            for number in range(50):
                journal.register(f"{thread}/{number}", f"{thread}/{number}")
                journal.set_fault(f"{thread}", str(number))
                assert journal.find_folder(f"{thread}/{number}") == f"{thread}/{number}"
        except Exception as error:
            faults.append(error)

    with closing(Journal(tmp_path)) as journal:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert faults == []
        assert journal.list_faults() == {str(thread): "49" for thread in range(4)}
