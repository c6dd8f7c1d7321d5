"""Whether the files are this memory's: as long as they are not, nothing in the vault is written or removed.

A vault keeps which store it follows and how far it has come. Another store, one that is behind that (an older memory.db
was put back), or one that has no record of many entries, must not take its own emptiness for what people want.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..config.address import StoreAddress
from ..engine.engine import Engine
from ..engine.opening import exists
from .journal import Journal
from .layout import Layout

FEW, SHARE = 3, 0.5  # more entries than this, or more than this share of them, are not forgotten for want of a record


class Attachment:
    """The bond between the files and a store."""

    def __init__(self, engine: Engine, journal: Journal, folder: Path) -> None:
        self._engine = engine
        self._journal = journal
        self._folder = folder
        self._home = str(folder.parent.resolve())
        self._identity = engine.identity()

    def find_trouble(self) -> str:
        """Why the files are not to be touched, and the ways out, in a sentence or two; empty when they are ours."""
        facts, self._identity = self._journal.read_about(), self._engine.identity()
        store, why = facts.get("store", ""), facts.get("detached", "")
        if self.is_of_another():
            way = "give this memory a vault folder of its own"
            return self._describe(f"it belongs to the memory in {facts['home']}", way)
        if store and store != self._identity.store:
            why = "the memory is not the one that its files were written from: it was removed, emptied or replaced"
        elif not why and self._identity.position < int(facts.get("seq") or 0):
            at = self._identity.position
            why = f"the memory is older than its files: it is at change {at}, and they at {facts['seq']}"
            self._store_reason(why)  # with a few changes more, the numbers would not tell
        return self._describe(why, f"`cofio import everos {self._folder}` restores what it holds") if why else ""

    def is_level(self) -> bool:
        """Whether this is the store that the files were written from, and as far as they are."""
        facts, self._identity = self._journal.read_about(), self._engine.identity()
        is_it = facts.get("store") == self._identity.store and not self.is_of_another()
        return is_it and self._identity.position >= int(facts.get("seq") or 0)

    def is_of_another(self) -> bool:
        """Whether the files are those of a memory elsewhere that is still there; it may be a copy of this one."""
        facts = self._journal.read_about()
        home, store = facts.get("home", ""), facts.get("store", "")
        if not store or home in ("", self._home) or not exists(StoreAddress(folder=Path(home))):
            return False
        return store != self._engine.identity().store or self._is_shared(Path(home))

    def _is_shared(self, home: Path) -> bool:
        """Whether another memory there has the same files, and not a copy of them."""
        try:
            return (home / self._folder.name).samefile(self._folder) and not home.samefile(self._home)
        except OSError:
            return False

    def detach(self, lost: int, entries: int) -> str:
        """Leave the files alone from now on, because entries have no record; return why, in a sentence."""
        self._store_reason(f"{lost:,} of its {entries:,} entries have no record in the memory")
        return self.find_trouble()

    def attach(self) -> None:
        """Have the files belong to this store from now on."""
        self._identity = self._engine.identity()
        with self._journal.lock():
            self._journal.set_about(store=self._identity.store, home=self._home, detached="")
            self.follow()

    def follow(self) -> None:
        """Take down how far the store had come when it was last looked for trouble: so far the files are now."""
        self._journal.set_about(seq=str(self._identity.position))

    def note_home(self) -> None:
        """Take down where the store is, which may have been moved with its vault."""
        if self._journal.get_about("home") != self._home:
            with self._journal.lock():
                self._journal.set_about(home=self._home)

    def recognise(self, layout: Layout, files: Iterable[tuple[str, str]]) -> None:
        """Attach a vault that does not say whose it is, and leave it alone if its entries mostly have no record here.

        The entries are those that its journal knows or, if it knows none, those of the `files`: each as the path of its
        file and its id.
        """
        entries = {*self._journal.list_entries()} or {*files}
        lost = sum(not self._has_record(layout, path, key) for path, key in entries)
        if is_too_much(lost, len(entries)):
            self.detach(lost, len(entries))
        else:
            self.attach()

    def _has_record(self, layout: Layout, path: str, key: str) -> bool:
        located = layout.locate(tuple(path.split("/")))
        return located is not None and bool(key) and self._engine.get(located.home, key, kind=located.kind) is not None

    def _store_reason(self, why: str) -> None:
        with self._journal.lock():
            self._journal.set_about(detached=why)

    def _describe(self, why: str, way: str) -> str:
        return (
            f"the vault in {self._folder} is left alone, because {why}: {way}; `cofio vault adopt` makes it this"
            " memory's, and keeps beside what this memory has no record of"
        )


def is_too_much(lost: int, entries: int) -> bool:
    """Whether entries have no record in such a number that it is the records that are missing."""
    return lost > FEW or lost > SHARE * entries
