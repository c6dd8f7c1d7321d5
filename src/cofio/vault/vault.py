"""The vault: every episode, fact, profile, case and skill as a Markdown file.

The database is the truth. A file is written after the change that it shows; what is under way is taken down before, so
that the next process to start after a crash completes it. An entry is replaced only where it stands: what a person has
written around it, or into another that has not been looked at yet, stays.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path

from ..conversations.mirror import VisibleRecord
from ..engine.engine import Answers, Engine
from ..engine.jobs import MAX_BATCH, count_jobs, list_jobs, run_batch
from ..importers import markdown_entries
from ..system.processes import is_running
from ..values.changes import Change
from ..values.errors import Conflict, Invalid, NotFound, Unavailable
from ..values.query import MAX_LIST
from ..values.records import Draft, Kind, Record, Scope
from ..values.scopes import CONVERSATIONS
from .attachment import Attachment
from .journal import UNKNOWN, Extent, Journal, JournalError, JournalFile, WrittenEntry, digest
from .layout import SHOWN, TRACKS, Layout, Location, Parts, join_parts, make_sort_key, parse_day
from .renderer import Renderer, get_time, split_entries
from .trash import Trash
from .writer import FileChanged, FileContent, Stamp, Tree

__all__ = ["FOLDER", "Vault"]

FOLDER = "vault"
TRIES = 20  # how often a file is written again, because an editor was at it
SAVING = 100_000_000  # nanoseconds that an editor may need to write a file
TRASHED = timedelta(days=7)  # how long what was forgotten because it vanished can be taken back
LEFTOVER = 3_600_000_000_000  # nanoseconds after which a temporary file is one that a crash left
_log = logging.getLogger("cofio.vault")


class Vault:
    """The files of one memory. Several of these, in one process or many, may write the same vault."""

    def __init__(
        self, engine: Engine, folder: Path, *, zone: tzinfo = UTC, clock: Callable[[], datetime] | None = None
    ) -> None:
        """The vault in `folder`, made if need be; days and times are told in `zone`.

        Raises:
            OSError, JournalError: the folder cannot be used.
        """
        self.engine = engine
        self.folder = folder
        self.tree = Tree(folder)
        self.journal = Journal(folder)
        self._fault = ""
        self.layout = Layout(folded=(folder / ".STATE").exists(), folders=self.journal)
        self.attachment = Attachment(engine, self.journal, folder)
        self.trash = Trash(self.tree)
        self.renderer = Renderer(zone)
        self._zone = str(zone)
        self._clock = clock or (lambda: datetime.now(UTC))
        self.accepted: dict[tuple[str, str], bytes] = {}
        """The hash of a person's text that has just become the record's, by path and entry: it is no conflict."""
        self._fresh: Mapping[VisibleRecord, Record] = {}
        self._targets: Collection[VisibleRecord] = ()
        self.conflict_files: list[str] = []
        """The files that people's versions were put aside in, since this was made."""
        self._warned = ""
        self._begin()

    def _begin(self) -> None:
        """See whose files these are, and what their folders are called."""
        if not self.journal.get_about("folders"):
            with self.journal.lock():
                for path, _ in self.tree.walk():
                    self.layout.register(path)
                self.journal.set_about(folders="known")
        if not self.journal.get_about("store"):
            self.attachment.recognise(self.layout, self._list_entries())
        elif self.journal.get_about("detached") and self.attachment.is_level() and self._says_the_same():
            self.attachment.attach()  # the memory that was missing is back
        if self.detachment:
            return
        self.attachment.note_home()
        if not self.journal.get_about("complete") and not self.engine.count(CONVERSATIONS, kinds=SHOWN):
            self.mark_complete()

    @property
    def detachment(self) -> str:
        """Why nothing in the vault is touched, and what helps; empty when it is this memory's."""
        return self.attachment.find_trouble()

    def _is_attached(self) -> bool:
        """Whether the vault is this memory's; that it is not is logged once."""
        reason = self.detachment
        if reason and reason != self._warned:
            _log.warning("%s", reason)
        self._warned = reason
        return not reason

    def check_attached(self) -> None:
        """Go on only with a vault that is this memory's.

        Raises:
            Unavailable: it is not, or seems not to be; the message names the ways out.
        """
        if reason := self.detachment:
            raise Unavailable(reason)

    def _says_the_same(self) -> bool:
        """Whether there is a record of every entry that was written, and it still reads as it was written."""
        for path in self.journal.list_files():
            located = self.layout.locate(tuple(path.split("/")))
            if located is None:
                return False
            for key, written in self.journal.read_file(path).entries.items():
                record = self.engine.get(located.home, key, kind=located.kind)
                if record is None or digest(self.renderer.render(record)) != written.hash:
                    return False
        return True

    def _list_entries(self) -> Iterator[tuple[str, str]]:
        """Every entry that the files hold, as the path of its file and its id; no id where it cannot be read."""
        for path, _ in self.tree.walk():
            located = self.locate(path)
            if located is not None:
                try:
                    current = self.tree.read(path)
                    found = split_entries(located, current.content) if current is not None else []
                except Invalid:
                    found = [("", "")]
                yield from ((join_parts(path), key) for key, _ in found)

    def close(self) -> None:
        """Close the vault; what was written is forced to the disk first."""
        self.settle()
        self.journal.close()

    def apply(self, changes: Sequence[Change], visible: Sequence[VisibleRecord], *, forgets: bool) -> Answers:
        """Make changes in the database; when this returns, the files show them."""
        with self.track_change(visible) as answers:
            answers += self.engine.apply(changes)
        return answers

    @contextmanager
    def track_change(self, visible: Sequence[VisibleRecord]) -> Iterator[Answers]:
        """Around a change in the database: when this ends, the files show it.

        A file that cannot be written does not fail the call, which has done what it was asked for: that is kept for
        `cofio vault status` to tell, and tried again by the next start.
        """
        answers: Answers = []
        attached = True
        try:
            with self.journal.lock():
                attached = self._is_attached()
                number, turn = (self.journal.begin(visible), self.journal.turn) if attached else (0, 0)
        except JournalError as error:  # on a full disk there may be room once the change has deleted something
            self.report_fault(error)
            number, turn = 0, -1
        if not attached:
            yield answers
            return
        try:
            yield answers
        except (Conflict, NotFound, Invalid):  # nothing was changed
            with suppress(JournalError), self.journal.lock():
                self.journal.end(number)
            raise
        try:
            with self.journal.lock():
                # If no process has followed since the change began, it is what the database holds, or more will come.
                fresh = answers if self.journal.turn == turn else ()
                if self.follow(
                    visible, {VisibleRecord.from_record(each): each for each in fresh if isinstance(each, Record)}
                ):
                    self.journal.end(number)
        except JournalError as error:
            self.report_fault(error)
        else:
            self.report_fault(None)

    def report_fault(self, error: Exception | None) -> None:
        """Log why the files cannot be written, once until they can be, which None says."""
        fault = "" if error is None else str(error)
        if fault and fault != self._fault:
            _log.warning("the vault cannot be written: %s", fault)
        self._fault = fault

    def complete(self) -> int:
        """Write what was under way when a process ended; how many changes that were."""
        if not self._is_attached():
            return 0
        done = 0
        for number, process, visible in self.journal.list_pending():
            with self.journal.lock():
                # What another process is still at is written too, but stays taken down: it may yet commit.
                if self.follow(visible) and (process == os.getpid() or not is_running(process)):
                    self.journal.end(number)
                    done += 1
        done += self.follow_changes()
        self.tree.tidy(time.time_ns() - LEFTOVER)
        self.purge()
        return done

    def follow_changes(self) -> int:
        """Have the files show the changes that wait in the queue; return how many they show now."""
        from .queued_mirror import MARKDOWN, write_files

        run, jobs = partial(write_files, lambda: self), list_jobs(self.engine, MARKDOWN, limit=MAX_LIST)
        batches = [jobs[start : start + MAX_BATCH] for start in range(0, len(jobs), MAX_BATCH)]
        return sum(run_batch(self.engine, run, batch) for batch in batches)

    def find_pending(self, entries: Collection[VisibleRecord]) -> set[VisibleRecord]:
        """Return those of the entries that a change is of which is under way, or which the files have yet to follow."""
        from .queued_mirror import MARKDOWN, list_visible

        if not entries:
            return set()
        pending = {each for _, _, visible in self.journal.list_pending() for each in visible}
        pending |= {each for job in list_jobs(self.engine, MARKDOWN, limit=MAX_LIST) for each in list_visible(job)}
        scopes = [each.scope for each in pending if each.kind is None]
        return {each for each in entries if each in pending or any(each.scope in scope for scope in scopes)}

    def count_unfinished(self) -> int:
        """How many changes the files have yet to follow."""
        from .queued_mirror import MARKDOWN

        return len(self.journal.list_pending()) + count_jobs(self.engine, MARKDOWN)

    def purge(self) -> None:
        """Empty the trash of what has been in it for days."""
        self.trash.purge(self._clock() - TRASHED)

    def discard(self, is_meant: Callable[[Draft], bool]) -> None:
        """Take out of the trash what holds a record that is to be forgotten for good."""
        if self.detachment:
            return
        try:
            self.trash.discard(is_meant)
        except OSError as error:
            _log.warning("the trash of the vault cannot be emptied: %s", error)

    @property
    def stale(self) -> bool:
        """Whether all of it must be looked at, because the database was changed by others than us."""
        if self.journal.get_about("complete") != self._zone:
            return True
        return self.journal.count_entries() != self.engine.count(CONVERSATIONS, kinds=SHOWN)

    def mark_complete(self) -> None:
        """All of it has been looked at."""
        with self.journal.lock():
            self.journal.set_about(complete=self._zone)
            self.attachment.follow()

    def settle(self) -> None:
        """Force to the disk what was written: what is missing after that is a person's doing."""
        for path, stamp in self.journal.list_unforced().items():
            with suppress(OSError, JournalError):  # then it stays to be done
                self.tree.force(tuple(path.split("/")))
                with self.journal.lock():
                    self.journal.mark_forced(path, stamp)

    # Following the database. Each of these is called with the vault locked.

    def follow(self, visible: Iterable[VisibleRecord], fresh: Mapping[VisibleRecord, Record] | None = None) -> bool:
        """Have the files show what the database holds of these now; whether all could be written.

        The `fresh` records need not be read.
        """
        if not self._is_attached():
            return False
        self._fresh = fresh or {}
        self.journal.count_turn()
        days: dict[Parts, tuple[Scope, Kind, list[str]]] = {}
        skills: dict[Scope, None] = {}
        profiles: dict[Scope, None] = {}
        visible = [*visible]
        self._targets = dict.fromkeys(self._expand(visible))
        for each in self._targets:
            if each.kind is Kind.PROFILE:
                profiles[each.scope] = None
            elif each.kind is Kind.SKILL:
                skills[each.scope] = None
            elif each.kind is not None:
                path = self.layout.get_day_path(each.scope, each.kind, each.key)
                days.setdefault(path, (each.scope, each.kind, []))[2].append(each.key)
        try:
            with self.tree.hold_open():
                good = self._follow_each(days, profiles, skills)
        finally:
            self._fresh, self._targets = {}, ()
        for each in visible:
            if each.kind is None and good and each.scope in CONVERSATIONS:
                self.journal.unregister("\0".join(each.scope.names[1:]))
        self.attachment.follow()
        return good

    def _follow_each(
        self, days: Mapping[Parts, tuple[Scope, Kind, list[str]]], profiles: Iterable[Scope], skills: Iterable[Scope]
    ) -> bool:
        good = True
        for path, (home, kind, ids) in days.items():
            good &= self._retry(path, partial(self.write_day, path, home, kind, ids))
        for home in profiles:
            path = self.layout.get_profile_path(home)
            good &= self._retry(path, partial(self.write_profile, path, home))
        for home in skills:
            good &= self._retry(self.layout.find_folder(home), partial(self.write_skills, home))
        return good

    def _expand(self, visible: Iterable[VisibleRecord]) -> Iterator[VisibleRecord]:
        """Each record by itself, where all of a scope has changed."""
        for each in visible:
            if each.kind is not None:
                yield each
                continue
            if each.scope.names and each.scope not in CONVERSATIONS:
                continue
            if len(each.scope.names) > 3 and each.scope.names[3] not in TRACKS:
                continue
            for path in self.journal.list_files(join_parts(self.layout.find_folder(each.scope, register=False))):
                located = self.layout.locate(tuple(path.split("/")))
                if located is not None:
                    for entry in self.journal.read_file(path).entries:
                        yield VisibleRecord(located.home, located.kind, entry)

    def _retry(self, path: Parts, write: Callable[[], None]) -> bool:
        name, problem = join_parts(path), "others write it all the time"
        for _ in range(TRIES):
            try:
                write()
            except FileChanged:
                continue
            except OSError as error:
                problem = error.strerror or str(error)
            except Invalid as error:
                problem = error.problem
            else:
                problem = ""
            break
        if self.journal.list_faults().get(name, "") != problem:
            if problem:
                _log.warning("the vault's %s cannot be written: %s", name, problem)
            self.journal.set_fault(name, problem)
        return not problem

    def write_day(self, path: Parts, home: Scope, kind: Kind, ids: Sequence[str]) -> None:
        """Bring some entries of a day's file up to date, and leave the rest of it as it is.

        Raises:
            FileChanged: another has written the file meanwhile.
            OSError, Invalid: it cannot be written.
        """
        file = self.journal.read_file(join_parts(path), ids)
        current = self._read(path, file)
        if (
            current is not None
            and current.stamp == file.stamp
            and not file.entries
            and self._append(path, file, current, home, kind, ids)
        ):
            return
        text, aside = _decode_text(current)
        if aside:
            raise Invalid("file", "is not UTF-8 text")
        if not text.strip():
            if current is not None:
                # Emptied, by an editor or a power cut: who means it removes the file.
                file = self.journal.read_file(file.path)
                ids = [*{**dict.fromkeys(ids), **file.entries}]
            text = self.renderer.render_head(home, kind, parse_day(ids[0]), 0, 0)
        put: dict[str, str | None] = {}
        entries: dict[str, WrittenEntry | None] = {}
        # Where the file is as we left it, an entry that we do not know of is not there.
        untouched = current is not None and current.stamp == file.stamp
        theirs = markdown_entries.find_entries(text, [*file.entries] if untouched else ids)
        unrecorded: dict[VisibleRecord, str] = {}
        for each in sorted(ids, key=make_sort_key):
            record = self._get_record(home, kind, each)
            put[each] = ours = None if record is None else self.renderer.render(record)
            if each in theirs and theirs[each] != ours and not self.is_ours(file, each, theirs[each]):
                aside.append(theirs[each])
            elif each in theirs and record is None:
                unrecorded[VisibleRecord(home, kind, each)] = theirs[each]
            entries[each] = None if record is None or ours is None else WrittenEntry(digest(ours), get_time(record))
        self._trash_unrecorded(path, unrecorded)
        extent = self._compute_extent(file, entries)
        end = text.find("\n---\n", 3) + 1 if text.startswith("---\n") else 0
        front = self.renderer.recount(text[:end], *extent)
        self._replace(
            path,
            file,
            current,
            front,
            markdown_entries.replace_entries(text[end:], put, make_sort_key, theirs),
            entries,
            extent,
            aside,
        )

    def _append(
        self, path: Parts, file: JournalFile, current: FileContent, home: Scope, kind: Kind, ids: Sequence[str]
    ) -> bool:
        """Put new entries at the end of a file that is as we left it, without reading it as text; whether it could.

        As nearly always: a day's file may be long, and this costs no more than to copy it.
        """
        keys = sorted(ids, key=make_sort_key)
        front = current.content.find(b"\n---\n", 3) + 1 if current.content.startswith(b"---\n") else 0
        last = markdown_entries.find_last_id(current.content)
        if not front or last is None or make_sort_key(last) >= make_sort_key(keys[0]):
            return False
        records = [self._get_record(home, kind, key) for key in keys]
        blocks = [self.renderer.render(record) for record in records if record is not None]
        if len(blocks) < len(keys):
            return False
        entries = {
            key: WrittenEntry(digest(block), get_time(record))
            for key, block, record in zip(keys, blocks, records, strict=True)
            if record
        }
        extent = self._compute_extent(file, entries)
        head = self.renderer.recount(current.content[:front].decode(errors="surrogateescape"), *extent)
        rest = memoryview(current.content)[front:]
        parts: list[bytes | memoryview] = [
            head.encode(errors="surrogateescape"),
            rest,
            "".join(f"{block}\n" for block in blocks).encode(),
        ]
        self.journal.store_file(file, entries, self.tree.write(path, parts, current.stamp), extent)
        return True

    def _compute_extent(self, file: JournalFile, entries: Mapping[str, WrittenEntry | None]) -> Extent:
        """What a file holds, by what it held before where that is enough: it may have thousands of entries."""
        if any(each is None and key in file.entries for key, each in entries.items()):
            all_ = {**self.journal.read_file(file.path).entries, **entries}
            left = [each.at for each in all_.values() if each is not None]
            return Extent(len(left), max(left, default=0))
        new = [each.at for key, each in entries.items() if each is not None and key not in file.entries]
        return Extent(file.extent.entries + len(new), max(file.extent.latest, *new, 0))

    def write_profile(self, path: Parts, home: Scope) -> None:
        """Bring a profile's file up to date."""
        self._write_single(
            path, self._get_record(home, Kind.PROFILE, "profile"), VisibleRecord(home, Kind.PROFILE, "profile")
        )

    def _get_record(self, home: Scope, kind: Kind, key: str) -> Record | None:
        return self._fresh.get(VisibleRecord(home, kind, key)) or self.engine.get(home, key, kind=kind)

    def write_skills(self, home: Scope) -> None:
        """Bring the files of an agent's skills up to date, under the names that they have now."""
        listed = self.engine.list(home, exact=True, kinds=(Kind.SKILL,), limit=MAX_LIST)
        records = {record.key or "": record for record in listed}
        paths = self.layout.get_skill_paths(home, {key: record.title for key, record in records.items()})
        for name in self.journal.list_files(join_parts((*self.layout.find_folder(home), "skills"))):
            old = tuple(name.split("/"))
            for key in self.journal.read_file(name).entries:
                new = paths.get(key)
                if new is not None and new != old and self.tree.rename(old[:-1], new[:-1]):
                    self.journal.move(name, join_parts(new))  # with what a person has put beside it
                elif new != old:
                    self._write_single(old, None, VisibleRecord(home, Kind.SKILL, key))
        for key, path in paths.items():
            self._write_single(path, records[key], VisibleRecord(home, Kind.SKILL, key))

    def clear(self, path: Parts, visible: VisibleRecord) -> None:
        """Take away a file that shows one record, which there is not; what it says is put aside."""
        self._write_single(path, None, visible)

    def _write_single(self, path: Parts, record: Record | None, visible: VisibleRecord) -> None:
        """Bring a file that shows one record up to date."""
        file = self.journal.read_file(join_parts(path))
        current = self._read(path, file)
        text, aside = _decode_text(current)
        ours = "" if record is None else self.renderer.render(record)
        if text and text != ours and not self.is_ours(file, visible.key, text):
            aside.append(text)
        elif text and visible.kind is not None and self._get_record(visible.scope, visible.kind, visible.key) is None:
            self._trash_unrecorded(path, {visible: text})
        entries = {visible.key: None if record is None else WrittenEntry(digest(ours), get_time(record))}
        self._replace(path, file, current, "", ours, entries, Extent(int(record is not None), 0), aside)

    def _trash_unrecorded(self, path: Parts, unrecorded: Mapping[VisibleRecord, str]) -> None:
        """Keep in the trash how entries read that have no record, unless a call is known to have deleted it."""
        left = [visible for visible in unrecorded if visible not in self._targets]
        pending = self.find_pending(left)
        left = [visible for visible in left if visible not in pending]
        for visible in left:
            self.trash.put(visible, unrecorded[visible], None)
        if left:
            warning = "%s: %d of its entries have no record any more, and are taken out; the trash has them for %d days"
            _log.warning(warning, join_parts(path), len(left), TRASHED.days)

    def _read(self, path: Parts, file: JournalFile) -> FileContent | None:
        """What a file holds, once a person who is saving it at this moment has done so."""
        for _ in range(TRIES):
            current = self.tree.read(path)
            if (
                current is None
                or current.stamp == file.stamp
                or not 0 <= time.time_ns() - current.stamp.changed < SAVING
            ):
                break
            time.sleep(SAVING / 2e9)
        return current

    def is_ours(self, file: JournalFile, key: str, theirs: str) -> bool:
        """Whether an entry is as we left it, or says what has just been taken in."""
        found, written = digest(theirs), file.entries.get(key)
        return (written is not None and found == written.hash) or self.accepted.get((file.path, key)) == found

    def _replace(
        self, path: Parts, file: JournalFile, current: FileContent | None, front: str, body: str,
        entries: Mapping[str, WrittenEntry | None], extent: Extent, aside: Sequence[str],
    ) -> None:  # fmt: skip
        """Write a file, or remove it when nothing is left in it; what people wrote is put aside first."""
        if aside:
            self.put_aside(path, "\n".join(aside))
        if not extent.entries and not body.removeprefix("---").strip():
            if current is not None:
                self.tree.remove(path)
            self.journal.drop(file)
            return
        before = None if current is None else current.stamp
        content = (front.encode(), body.encode())
        same = (
            current is not None
            and current.stamp.size == sum(map(len, content))
            and current.content == b"".join(content)
        )
        stamp = current.stamp if current is not None and same else self.tree.write(path, content, before)
        # A file that a person has changed elsewhere is to be looked at, although it is we who wrote it last.
        self.journal.store_file(
            file, entries, stamp if before == file.stamp else stamp._replace(inode=UNKNOWN.inode), extent
        )

    def put_aside(self, path: Parts, theirs: str) -> None:
        """Keep a person's version of something beside its file."""
        moment = self._clock().strftime("%Y%m%dT%H%M%S")
        stem = path[-1].removesuffix(".md")
        content = [f"{theirs}\n".encode(errors="surrogateescape")]
        for again in range(1, 1000):
            beside = (*path[:-1], f"{stem}.conflict-{moment}{f'-{again}' if again > 1 else ''}.md")
            with suppress(FileChanged):
                self.tree.write(beside, content, None)
                self.conflict_files.append(join_parts(beside))
                return

    def locate(self, path: Parts) -> Location | None:
        """What a file is for; None for what people keep here beside."""
        return None if ".conflict-" in path[-1] else self.layout.locate(path)

    def list_conflicts(self) -> list[str]:
        """The files that keep what people wrote, until they are removed."""
        return [join_parts(path) for path, _ in self.tree.walk() if ".conflict-" in path[-1]]

    def list_stamps(self) -> Mapping[str, Stamp]:
        """Every file of ours that is there."""
        return {join_parts(path): stamp for path, stamp in self.tree.walk() if self.locate(path) is not None}


def _decode_text(current: FileContent | None) -> tuple[str, list[str]]:
    """What a file says, and what of it is to be put aside: all of it, when it cannot be read as text."""
    if current is None:
        return "", []
    try:
        return markdown_entries.normalize_lines(current.content.decode()), []
    except UnicodeDecodeError:
        return "", [current.content.decode(errors="surrogateescape")]
