"""Taking back in what people have done to the files.

Three texts are held against each other for each entry: what we last wrote, what the file says, and what we would write
now. If only the file has changed, a person has: the record follows. If only the record has, the file follows. If both
have, the database's version is written and the person's is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from ..conversations.conversations import Conversations, Project, public_id
from ..conversations.edits import apply_edit
from ..conversations.mirror import VisibleRecord
from ..conversations.stretches import make_profile_put
from ..secrets.policy import admit
from ..values.changes import Change, Edit
from ..values.errors import CofioError, Conflict, Invalid, NotFound, Unavailable
from ..values.progress import Progress
from ..values.query import MAX_LIST
from ..values.records import Kind, Record, Scope
from ..values.scopes import CONVERSATIONS
from .attachment import is_too_much
from .journal import UNKNOWN, WrittenEntry, digest
from .layout import DAILY, SHOWN, Location, Parts, is_key, join_parts, parse_day
from .renderer import find_changes, get_time, split_entries
from .trash import TrashItem, plan_restoration
from .vault import Vault
from .writer import FileChanged

MANY, SHARE = 20, 0.5  # of this many entries, more than this share removed at once is taken for a mistake
ROUNDS = 3  # how often files are looked at again that were changed meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFinding:
    """Something to tell of a file, or of one of its entries."""

    path: str
    entry: str = ""
    text: str = ""


@dataclass(slots=True, kw_only=True)
class SyncResult:
    """What came of it."""

    edited: list[SyncFinding] = field(default_factory=list)
    """What people changed, and the records now say."""
    deleted: list[SyncFinding] = field(default_factory=list)
    """What people removed, and is forgotten now."""
    rewritten: list[SyncFinding] = field(default_factory=list)
    """What the files did not say yet, or what people cannot change, and the files say again."""
    conflicts: list[SyncFinding] = field(default_factory=list)
    """What was changed on both sides: the text is the file that the person's version is kept in, if there is one."""
    strange: list[SyncFinding] = field(default_factory=list)
    """Entries that are not from here; they are left where they are."""
    unreadable: list[SyncFinding] = field(default_factory=list)
    """Files and entries that cannot be taken in, and why; they are left as they are."""
    refused: list[SyncFinding] = field(default_factory=list)
    """What seems to have been removed by mistake, and is forgotten only if that is asked for."""
    missing: list[SyncFinding] = field(default_factory=list)
    """What is not there, and is to be forgotten if it stays away."""
    returned: list[SyncFinding] = field(default_factory=list)
    """What had been forgotten because it was not there, and is back."""

    @property
    def problems(self) -> int:
        """How many things a person should look at."""
        return len(self.conflicts) + len(self.strange) + len(self.unreadable) + len(self.refused)


IsDue: TypeAlias = Callable[[SyncFinding], bool]
"""Says of an entry that is not there whether it is to be forgotten now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """How files are looked at."""

    force: bool = False
    adopts: bool = False
    is_due: IsDue | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class _ReturnedEntry:
    """An entry that is in a file again after it was forgotten, and what was kept of it."""

    path: Parts
    kind: Kind
    visible: VisibleRecord
    trashed: TrashItem


@dataclass(frozen=True, slots=True)
class _FoundEntry:
    """An entry that a person has changed or removed, and its record."""

    path: Parts
    record: Record
    theirs: str | None


class VaultSync:
    """Brings files and records together."""

    def __init__(self, vault: Vault, conversations: Conversations) -> None:
        """The `conversations` must have the vault for their mirror."""
        self.vault = self._vault = vault
        self._conversations = conversations

    def sync(self, *, force: bool = False, is_due: IsDue | None = None, progress: Progress | None = None) -> SyncResult:
        """Look at every file and every record; with `force`, forget whatever was removed, however much it is.

        `is_due` says of what is not there whether it has been away for long enough; by default, whatever is.

        Raises:
            Unavailable: the files are not this memory's, or seem not to be; nothing was changed.
        """
        self._vault.check_attached()
        self._vault.complete()
        return self._sync_all(force=force, is_due=is_due, progress=progress)

    def sync_files(self, paths: Iterable[Parts] | None = None, *, is_due: IsDue | None = None) -> SyncResult:
        """Look at some files only, or at those that are not as we left them.

        Raises:
            Unavailable: the files are not this memory's, or seem not to be; nothing was changed.
        """
        self._vault.check_attached()
        if paths is None:
            now, before = self._vault.list_stamps(), self._vault.journal.list_files()
            names = {name for name in {**now, **before} if now.get(name) != before.get(name)}
            paths = [tuple(name.split("/")) for name in names]
        return self._process(sorted(paths), {}, _Options(is_due=is_due))

    def rebuild(self, progress: Progress | None = None) -> SyncResult:
        """Write everything again; what the files say otherwise is kept beside.

        Raises:
            Unavailable: the files are not this memory's, or seem not to be; nothing was changed.
        """
        self._vault.check_attached()
        with self._vault.journal.lock():
            self._vault.journal.forget()
        return self.sync(progress=progress)

    def adopt(self, progress: Progress | None = None) -> SyncResult:
        """Make the files this memory's, of whatever memory they were: it writes what it holds, and what the files say
        otherwise, or what it has no record of, is kept beside.
        """
        with self._vault.journal.lock():
            self._vault.journal.forget()
            self._vault.attachment.attach()
        return self._sync_all(adopts=True, progress=progress)

    def _sync_all(
        self, *, force: bool = False, adopts: bool = False, is_due: IsDue | None = None,
        progress: Progress | None = None,
    ) -> SyncResult:  # fmt: skip
        expected = self._list_expected()
        there = {tuple(path.split("/")) for path in {**self._vault.list_stamps(), **self._vault.journal.list_files()}}
        options = _Options(force=force, adopts=adopts, is_due=is_due, progress=progress)
        synced = self._process(sorted({*expected, *there}), expected, options)
        if not synced.refused:
            self._vault.mark_complete()
        return synced

    def _list_expected(self) -> dict[Parts, set[str]]:
        """The files that there should be, with the keys of their entries."""
        vault = self._vault
        found: dict[Parts, set[str]] = {}
        for home in vault.engine.scopes(CONVERSATIONS):
            if len(home.names) != 5 or home.names[3] not in ("user", "agent"):
                continue
            skills: dict[str, str] = {}
            for heading in self._headings(home):
                key = heading.key or ""
                if heading.kind in DAILY:
                    found.setdefault(vault.layout.get_day_path(home, heading.kind, key), set()).add(key)
                elif heading.kind is Kind.PROFILE:
                    found[vault.layout.get_profile_path(home)] = {key}
                else:
                    skills[key] = heading.title
            for key, path in vault.layout.get_skill_paths(home, skills).items():
                found[path] = {key}
        return found

    def _headings(self, home: Scope) -> Iterable[Any]:
        return self._vault.engine.each(home, exact=True, kinds=SHOWN)

    def _process(self, paths: Sequence[Parts], expected: Mapping[Parts, set[str]], options: _Options) -> SyncResult:
        self._check_records(paths, expected)
        synced = SyncResult()
        for _ in range(ROUNDS):
            edits: list[_FoundEntry] = []
            removed: list[_FoundEntry] = []
            back: list[_ReturnedEntry] = []
            before = len(self._vault.conflict_files)
            for number, path in enumerate(paths):
                if options.progress is not None:
                    options.progress("looking at files", number, len(paths))
                comparison = _FileComparison(self._vault, path, synced, adopts=options.adopts)
                comparison.compare(expected.get(path, set()))
                edits += comparison.edits
                removed += comparison.removed
                back += comparison.back
            why = "keeps what this memory says otherwise, or not" if options.adopts else "was changed on both sides"
            synced.conflicts += [SyncFinding(path=path, text=why) for path in self._vault.conflict_files[before:]]
            # What was taken in is looked at once more: then it is known how the file was left.
            again = {*self._apply_edits(edits, synced), *self._restore_returned(back, synced)}
            self._forget(self._find_unmoved(removed, synced), synced, options)
            if not again:
                return synced
            names = {*map(join_parts, again)}
            synced.strange = [finding for finding in synced.strange if finding.path not in names]
            synced.unreadable = [finding for finding in synced.unreadable if finding.path not in names]
            synced.missing = [finding for finding in synced.missing if finding.path not in names]
            paths, expected = sorted(again), {}
        return synced

    def _check_records(self, paths: Sequence[Parts], expected: Mapping[Parts, set[str]]) -> None:
        """Go on only if there are records of nearly all entries: else it is they that were lost, and not unwanted."""
        vault, reason = self._vault, ""
        lost = [visible for path in paths for visible in self._find_unrecorded(path, expected.get(path, set()))]
        if not lost or not is_too_much(len(lost), vault.journal.count_entries()):
            return
        with vault.journal.lock():
            # Now no other process is about to take out what a call has just deleted.
            lost = [visible for path in paths for visible in self._find_unrecorded(path, expected.get(path, set()))]
            count, entries = len(lost) - len(vault.find_pending(lost)), vault.journal.count_entries()
            if count and is_too_much(count, entries):
                reason = vault.attachment.detach(count, entries)
        if reason:
            raise Unavailable(reason)

    def _find_unrecorded(self, path: Parts, expected: set[str]) -> Iterable[VisibleRecord]:
        """The known entries of a file that have no record."""
        vault, located = self._vault, self._vault.locate(path)
        if located is not None:
            for key in vault.journal.read_file(join_parts(path)).entries.keys() - expected:
                if vault.engine.get(located.home, key, kind=located.kind) is None:
                    yield VisibleRecord(located.home, located.kind, key)

    def _apply_edits(self, edits: Sequence[_FoundEntry], synced: SyncResult) -> list[Parts]:
        """Make records say what people wrote; the files to look at again, because they or the records have changed."""
        again: list[Parts] = []
        for each in edits:
            name, key, theirs = join_parts(each.path), each.record.key or "", each.theirs or ""
            finding = SyncFinding(path=name, entry=key)
            try:
                changes = find_changes(each.record, self._vault.renderer.render(each.record), theirs)
                if not changes:
                    self._restore(each, theirs)
                    synced.rewritten.append(replace(finding, text="only the texts of an entry can be changed"))
                    again.append(each.path)
                    continue
                self._vault.accepted[name, key] = digest(theirs)
                admitted = admit("vault", changes, allow=self._vault.engine.settings.allow_secrets)
                self._conversations.apply([make_change(each.record, admitted)])
                synced.edited.append(
                    finding if admitted is changes else replace(finding, text="what looks like a secret is masked")
                )
                again.append(each.path)
            except (Conflict, NotFound):
                again.append(each.path)
            except Invalid as error:
                synced.unreadable.append(replace(finding, text=str(error)))
            finally:
                self._vault.accepted.pop((name, key), None)
        return again

    def _restore_returned(self, back: Sequence[_ReturnedEntry], synced: SyncResult) -> list[Parts]:
        """Remember again what was forgotten because it was not there, and now is; the files to look at again."""
        vault, again = self._vault, []
        for each in back:
            others = [
                VisibleRecord.from_record(record) for record in each.trashed.records or () if record.kind in SHOWN
            ]
            try:
                # The entry itself is left as it is: it may have been changed while it was away.
                with vault.track_change([visible for visible in others if visible != each.visible]) as answers:
                    answers += vault.engine.apply(plan_restoration(vault.engine, each.trashed.records or ()))
            except (Conflict, NotFound):
                again.append(each.path)
                continue
            record = vault.engine.get(each.visible.scope, each.visible.key, kind=each.kind)
            with vault.journal.lock():
                file = vault.journal.read_file(join_parts(each.path))
                entry = WrittenEntry(digest(each.trashed.text), get_time(record) if record is not None else 0)
                vault.journal.store_file(file, {each.visible.key: entry}, UNKNOWN)
            vault.trash.remove(each.visible)
            synced.returned.append(SyncFinding(path=join_parts(each.path), entry=each.visible.key))
            strange = [tuple(finding.path.split("/")) for finding in synced.strange]
            again += [each.path, *(path for path in strange if path[:4] == each.path[:4])]
        return again

    def _restore(self, each: _FoundEntry, theirs: str) -> None:
        """Write an entry as it was: nothing that a person may change in it was changed."""
        vault, record = self._vault, each.record
        vault.accepted[join_parts(each.path), record.key or ""] = digest(theirs)
        with vault.journal.lock():
            vault.follow([VisibleRecord.from_record(record)])

    def _forget(self, removed: Sequence[_FoundEntry], synced: SyncResult, options: _Options) -> None:
        """Forget what people removed, unless it is so much that it must be a mistake, or may yet return."""
        refused = set() if options.force else self._find_refused(removed)
        for each in removed:
            record = each.record
            finding = SyncFinding(path=join_parts(each.path), entry=record.key or "")
            if record.scope in refused:
                synced.refused.append(replace(finding, text="seems to have been removed by mistake"))
                continue
            if options.is_due is not None and not options.is_due(finding):
                synced.missing.append(finding)
                continue
            text = self._vault.renderer.render(record)
            spare = partial(self._vault.trash.put, VisibleRecord.from_record(record), text)
            _, app, name, _, owner = record.scope.names
            project = Project(app=app, name=name)
            try:
                if record.kind is Kind.PROFILE:
                    self._conversations.deleter.delete_owner(project, "user", owner, (Kind.PROFILE,), spare)
                else:
                    self._conversations.deleter.delete_memory(project, public_id(record), spare)
            except NotFound:  # gone with something else that was removed
                pass
            except (CofioError, OSError, FileChanged) as error:
                synced.unreadable.append(replace(finding, text=str(error)))
                continue
            synced.deleted.append(finding)

    def _find_unmoved(self, removed: Sequence[_FoundEntry], synced: SyncResult) -> list[_FoundEntry]:
        """What was removed and not only put elsewhere; that is written where it belongs, too."""
        elsewhere = set()
        for finding in synced.strange:
            located = self._vault.locate(tuple(finding.path.split("/")))
            if located is not None:
                elsewhere.add((located.home, finding.entry))
        left = []
        for each in removed:
            if (each.record.scope, each.record.key) not in elsewhere:
                left.append(each)
                continue
            with self._vault.journal.lock():
                self._vault.follow([VisibleRecord.from_record(each.record)])
            synced.rewritten.append(
                SyncFinding(path=join_parts(each.path), entry=each.record.key or "", text="was put elsewhere")
            )
        return left

    def _find_refused(self, removed: Sequence[_FoundEntry]) -> set[Scope]:
        """The owners of whom so much is gone that it must be a mistake: a folder that was moved, or not mounted."""
        vault = self._vault
        owners: dict[Scope, int] = {}
        for each in removed:
            owners[each.record.scope] = owners.get(each.record.scope, 0) + 1
        total = vault.journal.count_entries()
        if total >= MANY and len(removed) > SHARE * total:
            return set(owners)
        refused = set()
        for home, count in owners.items():
            folder = vault.layout.find_folder(home)
            mine = vault.journal.count_entries(join_parts(folder))
            if vault.tree.read_stamp(folder) is None or (mine >= MANY and count > SHARE * mine):
                refused.add(home)
        return refused


class _FileComparison:
    """One look at one file."""

    def __init__(self, vault: Vault, path: Parts, synced: SyncResult, *, adopts: bool = False) -> None:
        """If it `adopts` the file, an entry that has no record is kept beside, and not left where it is."""
        self._vault = vault
        self._path = path
        self._name = join_parts(path)
        self._synced = synced
        self._adopts = adopts
        self._older = False
        self.edits: list[_FoundEntry] = []
        self.removed: list[_FoundEntry] = []
        self.back: list[_ReturnedEntry] = []

    def compare(self, expected: set[str]) -> None:
        """Write what only the database has changed, and find what only a person has."""
        located = self._vault.locate(self._path)
        if located is None:
            if expected:  # a name that is too long to be read back
                with self._vault.journal.lock():
                    self._follow(None, expected)
            return
        for _ in range(ROUNDS):
            self.edits, self.removed, self.back = [], [], []
            try:
                with self._vault.journal.lock():
                    self._compare(located, expected)
                return
            except FileChanged:
                continue
            except (Invalid, OSError) as error:
                problem = error.problem if isinstance(error, Invalid) else error.strerror or str(error)
                self._synced.unreadable.append(SyncFinding(path=self._name, text=problem))
                return

    def _compare(self, located: Location, expected: set[str]) -> None:
        vault = self._vault
        current = vault.tree.read(self._path)
        file = vault.journal.read_file(self._name)
        theirs = self._list_entries(
            located, current.content if current is not None else b"", {*file.entries, *expected}
        )
        if current is not None and not current.content.strip() and file.entries:
            # What an editor or a power cut leaves behind; who means it removes the file.
            theirs, stale = {}, {*file.entries}
        else:
            stale = set()
        # An older state of the file that was put back: what it does not have yet was not removed by anyone.
        self._older = current is not None and file.stamp is not None and current.stamp.changed < file.stamp.changed
        adopted: dict[str, WrittenEntry | None] = {}
        for key in {**dict.fromkeys(file.entries), **dict.fromkeys(theirs), **dict.fromkeys(expected)}:
            if key in stale:
                continue
            self._judge(located, key, file.entries.get(key), theirs.get(key), stale, adopted)
        left = file.row is not None and current is not None and file.stamp != current.stamp
        if current is not None and (adopted or (left and not self.edits and not self.removed)):
            done = not stale and not self.edits and not self.removed
            vault.journal.store_file(file, adopted, current.stamp if done else UNKNOWN)
        if stale:
            self._follow(located, stale)

    def _judge(
        self, located: Location, key: str, written: WrittenEntry | None, theirs: str | None, stale: set[str],
        adopted: dict[str, WrittenEntry | None],
    ) -> None:  # fmt: skip
        vault = self._vault
        record = vault.engine.get(located.home, key, kind=located.kind) if _is_possible(located, key) else None
        if record is None:
            self._resolve_unrecorded(located, key, written, theirs, stale)
            return
        if located.kind is Kind.SKILL and not self._is_own_file(record):
            if theirs is not None and written is None:
                self._synced.strange.append(SyncFinding(path=self._name, entry=key, text="is not where it belongs"))
            else:
                stale.add(key)
            return
        ours = vault.renderer.render(record)
        if theirs == ours:
            if written is None or written.hash != digest(ours):
                adopted[key] = WrittenEntry(digest(ours), get_time(record))
        elif written is None or digest(ours) != written.hash:
            self._resolve_outdated(key, written, theirs)
            stale.add(key)
        elif theirs is None and self._older:
            self._synced.rewritten.append(SyncFinding(path=self._name, entry=key))
            stale.add(key)
        elif theirs is None:
            self.removed.append(_FoundEntry(self._path, record, None))
        else:
            self.edits.append(_FoundEntry(self._path, record, theirs))

    def _resolve_unrecorded(
        self, located: Location, key: str, written: WrittenEntry | None, theirs: str | None, stale: set[str]
    ) -> None:
        """See to an entry that has no record: forgotten elsewhere, back from where it was, or not from here."""
        finding, visible = SyncFinding(path=self._name, entry=key), VisibleRecord(located.home, located.kind, key)
        if written is not None:
            stale.add(key)
            is_trashed = theirs is not None and not self._vault.find_pending([visible])
            text = "is forgotten, and is not here any more"
            self._synced.rewritten.append(
                replace(finding, text=f"{text}; its text is in the trash" if is_trashed else text)
            )
        elif theirs is None:
            return
        elif self._adopts and located.kind in (Kind.PROFILE, Kind.SKILL):
            self._vault.clear(self._path, visible)
        elif self._adopts:
            stale.add(key)
        elif _is_possible(located, key) and (trashed := self._vault.trash.find(visible)) is not None:
            self.back.append(_ReturnedEntry(self._path, located.kind, visible, trashed))
        else:
            self._synced.strange.append(replace(finding, text="is not from here"))

    def _resolve_outdated(self, key: str, written: WrittenEntry | None, theirs: str | None) -> None:
        """Tell of an entry that is to be written; a person's version of it is told of when it is put aside."""
        finding = SyncFinding(path=self._name, entry=key)
        if theirs is None and written is not None:
            finding = replace(finding, text="was removed here, and changed elsewhere: it is here again")
            self._synced.conflicts.append(finding)
        elif theirs is None or (written is not None and digest(theirs) == written.hash):
            self._synced.rewritten.append(finding)

    def _is_own_file(self, record: Record) -> bool:
        """Whether a skill belongs to this file, by its present name and those of the agent's others."""
        vault = self._vault
        listed = vault.engine.headings(record.scope, exact=True, kinds=(Kind.SKILL,), limit=MAX_LIST)
        paths = vault.layout.get_skill_paths(record.scope, {each.key or "": each.title for each in listed})
        return paths.get(record.key or "") == self._path

    def _list_entries(self, located: Location, content: bytes, keys: set[str]) -> dict[str, str]:
        """The entries of a file by their keys."""
        found: dict[str, str] = {}
        for key, text in split_entries(located, content, keys):
            if key in found:
                self._synced.strange.append(
                    SyncFinding(path=self._name, entry=key, text="is there twice; the first counts")
                )
            else:
                found[key] = text
        return found

    def _follow(self, located: Location | None, keys: set[str]) -> None:
        vault = self._vault
        if located is None:
            return
        if located.kind is Kind.SKILL:
            vault.write_skills(located.home)
        elif located.kind is Kind.PROFILE:
            vault.write_profile(self._path, located.home)
        else:
            vault.write_day(self._path, located.home, located.kind, sorted(keys))


def make_change(record: Record, changes: Mapping[str, Any]) -> Change:
    """The change that makes a record say what a person has written of it, if it is as it was."""
    if record.kind is Kind.PROFILE:
        return make_profile_put(record.scope, changes, record.version)
    return Edit(id=record.id, fields=apply_edit(record, changes), if_version=record.version)


def _is_possible(located: Location, key: str) -> bool:
    if located.kind is Kind.PROFILE:
        return key == "profile"
    return is_key(located.kind, key) and located.day in ("", parse_day(key))
