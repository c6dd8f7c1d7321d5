"""The verbs that every door calls: one Engine on one store, safe to use from many threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from ..backends import rules
from ..backends.interface import Backend, Identity, ReplicaState, Trouble
from ..backends.reach import restrict
from ..backends.search_interface import Searcher
from ..backends.upkeep_interface import Purge
from ..config.address import StoreAddress
from ..config.settings import LOCK_SECONDS, STORE_FOLDER, Settings
from ..config.trust import is_new, mark_made
from ..embed import Embedder
from ..values.changes import (
    Change,
    Delete,
    Drop,
    Edit,
    Extend,
    OnDuplicate,
    Put,
    Vacant,
    normalize_ttl,
)
from ..values.errors import Invalid, LimitExceeded, Unavailable
from ..values.progress import Progress
from ..values.query import MAX_LIMIT, Bounds, Filter, Hit, Page, Query, Signal, Why, Window
from ..values.records import (
    MAX_KEY,
    Draft,
    Importance,
    Json,
    Kind,
    Record,
    Scope,
    Similar,
    check_bool,
    check_text,
    checked_vector,
    member,
    normalize_tags,
)
from . import search as searching
from .background import BackgroundWork, WorkSharing
from .embedding import EngineEmbedder
from .fair_lock import FairLock
from .fresh_vectors import FreshVectors
from .opening import load_settings, open_backend, resolve_store
from .record_reader import RecordReader, Records, make_bounds
from .retries import BUSY, TRIES, retry_changes

if TYPE_CHECKING:
    from ..backends.upkeep_interface import Examination
    from ..checkpoints.checkpoints import Checkpoints
    from ..values.stats import Stats

T = TypeVar("T")
Hits: TypeAlias = list[Hit]
Answers: TypeAlias = list[Record | int]
Faults: TypeAlias = list[str]
MAX_BATCH = 100_000
SIMILAR_CANDIDATES = 8  # records that a stored one is compared with, itself among them


class Engine(RecordReader):
    """A memory: what is written is durable and can be found by the next search of any process.

    Open it with `Engine.open`, and close it or use it in a `with` block. Do not carry it across a fork.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        sharing: WorkSharing | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.closed = False
        self.read_only = backend.read_only
        """Whether the store is on a disk or in a folder that cannot be written: then every change is refused."""
        self.shared_values = backend.shared_values
        """What all processes on the store have in common; None where that is in files of the store's folder."""
        super().__init__(backend)
        self._search_lock = FairLock()
        self._embedding = EngineEmbedder(self.settings, embedder)
        token_codes = self.settings.token_codes
        self._fresh_vectors = FreshVectors(sharing.has_queue if sharing else None, token_codes=token_codes)
        self._background = BackgroundWork(
            backend, self._embedding.open, partial(_purge_checkpoints, backend), sharing, token_codes=token_codes
        )
        # Run by close(), or when the engine is dropped without it, or when the interpreter ends.
        self._release = weakref.finalize(self, _release, self._background, backend)
        if self.settings.background and not self.read_only:
            self._background.start()

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The states of agents' threads; what they need is loaded when they are first asked for."""
        from ..checkpoints.checkpoints import Checkpoints

        return Checkpoints(self._backend)

    @classmethod
    def open(
        cls,
        store: str | os.PathLike[str] | StoreAddress | None = None,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        clock: Callable[[], datetime] | None = None,
        sharing: WorkSharing | None = None,
        lock_seconds: float = LOCK_SECONDS,
        keep_reserve: bool = False,
    ) -> Engine:
        """The memory in the folder `store`, or at another address, made if need be.

        Without a folder: COFIO_STORE, else the nearest `.cofio` from here upwards, else a new `./.cofio`.
        `sharing` is for a program whose processes share the work. A write waits up to `lock_seconds` for another
        process that writes to the same folder. With `keep_reserve`, as a server has it, 8 MiB of the disk are set
        aside, so that deletes still pass when it is full.

        Raises:
            Unavailable: the folder cannot be used, or was written by a newer cofio.
            Invalid: a setting is wrong.
        """
        if settings is not None and not isinstance(settings, Settings):
            raise Invalid("settings", f"expected Settings, got {type(settings).__name__}")
        address = resolve_store(store)
        home = address.home
        chosen = settings or load_settings(address)
        new = is_new(home)
        backend = open_backend(address, chosen, clock, lock_seconds=lock_seconds, keep_reserve=keep_reserve)
        engine = cls(backend, settings=chosen, embedder=embedder, sharing=sharing)
        if address.folder is None:
            with suppress(OSError):  # what cannot be written there is told when it is to be
                home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if new:
            mark_made(home)
        if new and home.name == STORE_FOLDER:
            with suppress(OSError):  # a courtesy: the memory should not turn up among a project's files
                (home / ".gitignore").write_bytes(b"*\n")
        return engine

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the background work and close the store. Nothing that was acknowledged depends on it."""
        self.closed = True
        self._release()

    def verify(self) -> None:
        """See that the store is still where it was opened, as every call does.

        Raises:
            Unavailable: it was deleted, moved or replaced; nothing can be done until the program is started again.
        """
        self._backend.verify()

    def find_trouble(self) -> Trouble | None:
        """Return why writes of this process are refused at the moment (the disk is full, or another process holds the
        write lock), or None. It never waits.
        """
        return self._backend.find_trouble()

    def describe_replica(self) -> ReplicaState | None:
        """How the copy of the store is getting on that reads may go to; None when the settings name none."""
        return self._backend.replica

    def run_on_replica(self, work: Callable[[], T]) -> T:
        """What `work` returns, which reads and changes nothing: a copy of the store may answer it, if there is one.

        The answer is then of a moment ago, as far as `replica_lag` allows, but includes all that this process has
        written. `work` runs again, without the copy, if that fails.
        """
        return self._backend.run_on_replica(work) if self.settings.read_store else work()

    def restrict(self, *scopes: Scope) -> AbstractContextManager[None]:
        """Let this thread, for the block, see these scopes and all under them alone, whatever it asks for.

        A store on PostgreSQL with `row_security` holds it to that; any other leaves it to the caller to ask for the
        right scopes. Work that is handed to other threads is not restricted, nor is derived work.
        """
        return restrict(scopes)

    # Writing.

    def write(
        self,
        scope: Scope,
        *,
        text: str = "",
        title: str = "",
        tags: Iterable[str] = (),
        author: str = "",
        kind: Kind | str = Kind.NOTE,
        data: Json = None,
        importance: Importance | str = Importance.MEDIUM,
        source: str = "python",
        parent: str | None = None,
        position: int | None = None,
        created_at: datetime | None = None,
        expires_at: datetime | None = None,
        ttl: float | timedelta | None = None,
        id: str | None = None,
        dedupe: bool = False,
        similar: bool = False,
        related: bool = False,
    ) -> Record:
        """Remember something new, which has a text, a title or both.

        `ttl` is how long it lasts, in seconds or as a timedelta. With `dedupe`, a record of the same scope and
        kind with the same text is returned instead, with `existed` set. With `similar`, the result names
        records of the scope that say nearly the same, which costs a search; with `related`, one that says just the
        same, and up to three on its topic that say nearly the same or may contradict it, for a fraction of that.

        Raises:
            Invalid: something about the input is wrong; the message names the field and its limit.
            Conflict: there is a record with this id already.
            Unavailable: the disk is full or failing; nothing was changed.
        """
        check_bool("dedupe", dedupe)
        check_bool("similar", similar)
        check_bool("related", related)
        draft = Draft(
            scope=scope, kind=member(Kind, "kind", kind), title=title, text=text, data=data, tags=normalize_tags(tags),
            importance=member(Importance, "importance", importance), author=author, source=source, parent=parent,
            position=position, created_at=created_at, expires_at=expires_at, id=id,
        )  # fmt: skip
        near = self._similar(draft, related=not similar) if similar or related else ()
        on_duplicate: OnDuplicate = "return" if dedupe else "report" if related and not similar else "store"
        (record,) = self._records([Put(draft=draft, ttl=normalize_ttl(ttl), on_duplicate=on_duplicate)])
        if not near:
            return record
        known = {record.id, *(one.id for one in record.similar)}
        return replace(record, similar=(*record.similar, *(one for one in near if one.id not in known)))

    def write_many(self, drafts: Iterable[Draft], *, dedupe: bool = False) -> Records:
        """Remember many things in one transaction: all of them, or none."""
        check_bool("dedupe", dedupe)
        on_duplicate: OnDuplicate = "return" if dedupe else "store"
        return self._records([Put(draft=draft, on_duplicate=on_duplicate) for draft in _batch("drafts", drafts)])

    def put(
        self,
        scope: Scope,
        key: str,
        *,
        data: Json = None,
        text: str = "",
        title: str = "",
        kind: Kind | str = Kind.ITEM,
        tags: Iterable[str] = (),
        author: str = "",
        importance: Importance | str = Importance.MEDIUM,
        source: str = "python",
        parent: str | None = None,
        position: int | None = None,
        expires_at: datetime | None = None,
        ttl: float | timedelta | None = None,
        given: Mapping[str, Sequence[float]] | None = None,
        if_version: int | None = None,
    ) -> Record:
        """Remember something under a key, in place of what the key held.

        `if_version` makes it conditional: the key must hold that version, or nothing for 0. `given` are vectors of the
        caller's own, of any size, by the part of the record that each is of, for `nearest` to find it by.

        Raises:
            Conflict: the key holds another version.
        """
        check_text("key", key, MAX_KEY)
        draft = Draft(
            scope=scope, kind=member(Kind, "kind", kind), key=key, title=title, text=text, data=data,
            tags=normalize_tags(tags), importance=member(Importance, "importance", importance), author=author,
            source=source, parent=parent, position=position, expires_at=expires_at,
            given=cast(Mapping[str, tuple[float, ...]], given),
        )  # fmt: skip
        (record,) = self._records([Put(draft=draft, how="key", if_version=if_version, ttl=normalize_ttl(ttl))])
        return record

    def edit(self, id: str, *, if_version: int | None = None, **fields: object) -> Record:
        """Change fields of a record: title, text, data, tags, importance, author, parent, position, expires_at …

        Raises:
            NotFound: nothing has this id.
            Conflict: the record is not at `if_version`.
        """
        if "tags" in fields:
            fields["tags"] = normalize_tags(cast(Iterable[str], fields["tags"]))
        if "importance" in fields:
            fields["importance"] = member(Importance, "importance", cast(str, fields["importance"]))
        ttl = None
        if "ttl" in fields:
            ttl = normalize_ttl(cast("float | None", fields.pop("ttl")))
            fields.setdefault("expires_at", None)  # without a ttl it lasts
        (record,) = self._records([Edit(id=id, fields=fields, if_version=if_version, ttl=ttl)])
        return record

    def move(
        self, id: str, *, scope: Scope | None = None, key: str | None = None, if_version: int | None = None
    ) -> Record:
        """Give a record another scope, another key, or both; it keeps its id.

        Raises:
            NotFound: nothing has this id.
            Conflict: the new key is taken, or the record is not at `if_version`.
        """
        fields: dict[str, object] = {}
        if scope is not None:
            fields["scope"] = scope
        if key is not None:
            check_text("key", key, MAX_KEY)
            fields["key"] = key
        if not fields:
            raise Invalid("scope", "a move needs a new scope or a new key")
        return self.edit(id, if_version=if_version, **fields)

    def delete(self, id: str, *, if_version: int | None = None) -> None:
        """Forget one record, with everything made from it.

        Raises:
            NotFound: nothing has this id.
            Conflict: the record is not at `if_version`.
        """
        self._apply([Delete(id=id, if_version=if_version)])

    def drop(self, scope: Scope) -> int:
        """Forget the scope and everything under it; the number of records forgotten."""
        return cast(int, self._apply([Drop(scope=scope)])[0])

    def apply(self, changes: Sequence[Change]) -> Answers:
        """Make several changes in one transaction: all of them, or none.

        They are `Put`, `Edit`, `Delete`, `Drop`, `Vacant` and `Extend`, made in order; `if_version` the version
        that a record must still have. The answer for each: the record as it now is, or how many were forgotten.

        Raises:
            NotFound: something that was to be edited or deleted is not there.
            Conflict: a record is not at its `if_version`, or a key is taken.
            Invalid: something else than changes, or more than 100,000 of them.
        """
        batch = _batch("changes", changes)
        for change in batch:
            if not isinstance(change, Put | Edit | Delete | Drop | Vacant | Extend):
                raise Invalid(
                    "changes", f"expected Put, Edit, Delete, Drop, Vacant or Extend, got {type(change).__name__}"
                )
        return self._apply(self._embedding.normalize_puts(batch))

    def change(self, work: Callable[[], Sequence[Change]], *, tries: int = TRIES, busy: str = BUSY) -> Answers:
        """Apply the changes that `work` returns; when others were faster, run it again.

        `work` reads what it needs and returns its changes, with an `if_version` or a `Vacant` for what they rely on. It
        may run many times, with growing pauses between. What it raises itself is raised at once.

        Raises:
            Unavailable: others were faster each of the `tries`; its message is `busy`.
        """
        return retry_changes(work, self.apply, tries=tries, busy=busy)

    # Searching.

    def search(self, query: Query | str) -> Page:
        """The records that answer the query, best first, each with the reasons why.

        Raises:
            Invalid: the query's vector does not fit the store's.
        """
        if isinstance(query, str):
            query = Query(query)
        if not isinstance(query, Query):
            raise Invalid("query", f"expected a Query or a string, got {type(query).__name__}")
        embedder = self.embedder() if query.mode != "keyword" else None
        # Embedded before the search begins: no snapshot is held while a model works.
        vector = searching.embed_query(query, embedder, self._embedding.missing)
        if not query.folds:
            return self.run_on_replica(partial(self._search, query, vector, embedder))
        from .folding import EACH, fold_hits

        wider = replace(query, limit=min(MAX_LIMIT, 2 * query.limit), each=query.each or EACH)
        page = self.run_on_replica(partial(self._search, wider, vector, embedder))
        return replace(page, hits=tuple(fold_hits(page)[: query.limit]))

    def _search(self, query: Query, vector: searching.QueryVector, embedder: Embedder | None) -> Page:
        bounds = Bounds(scope=query.scope, exact=query.exact, kinds=query.kinds, filter=query.filter)
        add_vectors: Callable[[Searcher], bool] | None = None
        if embedder is not None and vector.vector is not None and not self.read_only:
            add_vectors = partial(self._fresh_vectors.add, embedder=embedder, scope=query.scope)
            if self._fresh_vectors.are_likely:  # else the search itself finds that some are missing
                with self._backend.search(bounds) as searcher:
                    add_vectors(searcher)
                add_vectors = None
        # In this order: threads that take turns use one connection, which has much of the store in memory.
        with self._search_lock.hold(), self._backend.search(bounds) as searcher:
            return searching.search(
                searcher,
                query,
                vector,
                floor=self.settings.floor if query.floor is None else query.floor,
                fusion=self.settings.fusion,
                add_vectors=add_vectors,
            )

    def find_similar(self, record: Record) -> tuple[Similar, ...]:
        """The records of its scope and kind that say nearly the same as a stored record, the most alike first.

        Those that seem to say something else of the same thing are marked so. A few candidates that share its words are
        compared, and no more: it is a hint to look, not a verdict.
        """
        from .similarity import find_related  # few programs need it

        with self._backend.search(searching.like(record)) as searcher:
            alike = searching.find_duplicates(searcher, record)
            related = find_related(searcher, record, candidates=SIMILAR_CANDIDATES)
        found = {each.id: each for each in (*alike, *related) if each.id != record.id}  # the latter knows more
        return tuple(sorted(found.values(), key=lambda each: -each.likeness))

    def nearest(
        self,
        vector: Sequence[float],
        scope: Scope = Scope(),  # noqa: B008  # a value
        *,
        exact: bool = False,
        kinds: Iterable[Kind] = (),
        filter: Filter | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> Hits:
        """The records whose given vectors are nearest to this one, the nearest first; the score is the cosine.

        A record counts by the nearest of its vectors. Only vectors of the same size are compared, and each of them
        within bounds is: nothing is left out for speed.
        """
        wanted = checked_vector("vector", vector)
        bounds, window = make_bounds(scope, exact, kinds, filter), Window(limit=limit, offset=offset)
        return self.run_on_replica(partial(self._find_nearest, wanted, bounds, window))

    def _find_nearest(self, wanted: tuple[float, ...], bounds: Bounds, window: Window) -> Hits:
        offset = window.offset
        with self._backend.search(bounds) as searcher:
            cosines = dict(islice(searcher.nearest(wanted, window.offset + window.limit).items(), offset, None))
            records = searcher.records(list(cosines))
        hits = []
        for rank, (row, cosine) in enumerate(cosines.items(), offset + 1):
            signal = Signal(score=cosine, rank=rank, share=cosine, relevance=min(1.0, max(0.0, cosine)))
            hits.append(Hit(record=records[row], score=cosine, why=Why(semantic=signal)))
        return hits

    # Keeping the store.

    def identity(self) -> Identity:
        """Which store this is, and how far it has come, for programs that keep something beside it."""
        return self._backend.identity()

    def expiry(self, ttl: float | timedelta) -> datetime:
        """When something expires that lasts this long from now, in seconds or as a timedelta."""
        lifetime = normalize_ttl(ttl)
        if lifetime is None:
            raise Invalid("ttl", "expected seconds or a timedelta, got NoneType")
        return self.read_clock() + lifetime

    def read_clock(self) -> datetime:
        """Return the store's time, which all machines on it have in common and expiry is judged by."""
        with self._backend.snapshot() as snapshot:
            return snapshot.now

    def purge(self) -> int:
        """Remove now what has expired, which no read sees any more; how many records and checkpoints."""
        purged = self._backend.upkeep(Purge())
        return purged.done + (self.checkpoints.purge(purged.expired_before) if purged.expired_before else 0)

    def embedder(self) -> Embedder | None:
        """What makes vectors here; None when the store has none or it is not installed."""
        return self._embedding.open()

    @property
    def expects_vectors(self) -> bool:
        """Whether meaning counts here, as far as that is known without opening what makes vectors."""
        return self._embedding.is_expected

    def settle(self, progress: Progress | None = None, limit: int | None = None) -> int:
        """Index and embed what waits for it, now; how many records were embedded. None are, if it is read-only."""
        return 0 if self.read_only else self._background.settle(progress, limit)

    def reindex(self, progress: Progress | None = None, *, vectors: bool = False) -> None:
        """Rebuild the word index and the vector codes; with `vectors`, embed every record again too.

        Raises:
            Unavailable: `vectors` are asked for, and there is nothing here to make them with.
        """
        if vectors and self.embedder() is None:
            raise Unavailable("nothing here makes vectors: run `cofio model install`, or choose an embedder")
        embedder = self.embedder()
        self._backend.rebuild(embedder.id if embedder else None, progress, vectors=vectors)
        self.settle(progress)
        self.scrub()

    def scrub(self, *, seconds: float | None = None) -> bool:
        """Make unreadable now what was deleted or replaced; whether every derived file is rid of it.

        The background work does so by itself, but slowly where there is much to rewrite. With `seconds`, it ends after
        about that time, and a large database is not rewritten; without, other writers wait while that is done.
        """
        return not self.remains() if self.read_only else self._background.erase(seconds)

    def remains(self) -> Mapping[str, int]:
        """How much there is of the derived files that still hold what was deleted; empty when none does."""
        return {kind: count for kind, count in self._backend.maintenance.count_remains().items() if count}

    def check(self, progress: Progress | None = None) -> Faults:
        """What is wrong with the store, in sentences; empty when nothing is."""
        embedder = self.embedder()
        return self._backend.maintenance.check(embedder.id if embedder else None, progress) + self.checkpoints.check()

    def examine(self) -> Examination:
        """What there is to say of the server that the store is on; nothing of a folder."""
        return self._backend.maintenance.examine()

    def backup(self, target: str | os.PathLike[str], progress: Progress | None = None) -> Path:
        """Copy the store into a new folder while others go on writing.

        Of a store on PostgreSQL, a name that ends in `.dump` is that of a file for pg_restore, which pg_dump makes.

        Raises:
            Invalid: the target exists and is not an empty folder.
            Unavailable: there is no pg_dump that could make the dump.
        """
        if not isinstance(target, str | os.PathLike):
            raise Invalid("target", f"expected a folder, got {type(target).__name__}")
        self._backend.maintenance.backup(os.fspath(target), progress)
        return Path(target)

    def export(self, scope: Scope = Scope()) -> Iterator[Record]:  # noqa: B008  # a value
        """Every record of the scope and under it, as of one moment, oldest change first."""
        return self.each(scope)

    def restore(self, drafts: Sequence[Draft], *, vectors: Mapping[str, Sequence[float]] | None = None) -> int:
        """Put exported records back as they were, in one transaction; how many were new or newer than here.

        `vectors` are those of some of the drafts, by their ids, that this engine's embedder made elsewhere: whose text
        is here as the draft has it, and has no vector yet, gets its own and need not be embedded.

        Raises:
            Invalid: a draft is not whole, or a vector is none; nothing was changed.
            Unavailable: there are vectors, and no embedder here that they could be of.
        """
        puts = [Put(draft=draft, how="restore") for draft in _batch("drafts", drafts)]
        if vectors:
            computed = self._embedding.normalize_vectors([put.draft for put in puts], vectors)
            puts = [replace(put, vector=computed.get(cast(str, put.draft.id))) for put in puts]
        return sum(not record.existed for record in self._records(puts))

    def notice(self) -> None:
        """Look soon for derived work that another process left, rather than in some seconds."""
        self._background.notice()

    def stats(self) -> Stats:
        """Numbers about the store for people."""
        embedder = self.embedder()
        return replace(
            self._backend.maintenance.stats(self._embedding.id),
            embedder=embedder.id if embedder else self.settings.embedder,
            meaning="on" if embedder else f"off: {self._embedding.missing or 'this store has no embedder'}",
        )

    def _apply(self, changes: Sequence[Change]) -> Answers:
        self._search_lock.let_others_go()  # a thread that writes without a pause would halve what they find in a second
        prepared = rules.prepare(changes)
        answers = self._backend.transact(
            lambda transaction: rules.apply(transaction, changes, prepared), frees_space=rules.frees_space(changes)
        )
        self._background.notice()
        return answers

    def _records(self, changes: Sequence[Change]) -> Records:
        return cast(Records, self._apply(changes))

    def _similar(self, draft: Draft, *, related: bool) -> tuple[Similar, ...]:
        with self._backend.search(searching.like(draft)) as searcher:
            if not related:
                return searching.find_duplicates(searcher, draft)
            from .similarity import find_related  # few writes need it

            return find_related(searcher, draft)


def _purge_checkpoints(backend: Backend, before: datetime) -> int:
    """Remove the checkpoints that expired before then. A state of theirs that is cached is never asked for again."""
    from ..checkpoints.checkpoints import Checkpoints

    return Checkpoints(backend).purge(before)


def _release(background: BackgroundWork, backend: Backend) -> None:
    background.stop()
    backend.close()


def _batch(name: str, items: Iterable[T]) -> list[T]:
    """The items as a list; raises Invalid for what cannot be one, or is too long."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise Invalid(name, f"expected {name}, got {type(items).__name__}")
    batch = list(items)
    if len(batch) > MAX_BATCH:
        raise LimitExceeded(name, MAX_BATCH, name)
    return batch
