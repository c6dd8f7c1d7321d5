"""Taking over the memory of agent-memory-store, an npm product: its chunks, its state and their vectors.

Its chunks become notes and its state becomes state in the scope that MCP clients read and write, under the ids that
they had. Its own files stay as they are.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from ..secrets.policy import admit_draft
from ..system.locks import lock_folder
from ..values.errors import CofioError, Invalid, NotFound, Unavailable
from ..values.records import MAX_KEY, Draft, Kind
from ..values.scopes import IMPORTS, MCP
from .agent_memory_files import START, AgentMemory, Chunk, Entry, Position, Unreadable
from .conversion import SOURCE, FittedDraft, fit_chunk, fit_state, render_name
from .vector_check import decode_vector, find_difference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..engine.engine import Engine
    from ..values.progress import Progress

__all__ = ["SOURCE", "Remark", "TakeoverResult", "has_memory", "take", "take_over"]

BATCH = 500  # records that are restored in one transaction
MASKED = "what looks like a secret is masked"
HEAVY = 8_000_000  # characters that are restored at once at most, however few records they are
SAMPLES = 8  # vectors that are compared before all are kept


class Remark(NamedTuple):
    """Something to tell of an entry: the chunk's id, the state's key or the file's name, and a sentence."""

    what: str
    sentence: str


@dataclass(slots=True, kw_only=True)
class TakeoverResult:
    """What came of it."""

    chunks: int = 0
    """How many chunks are in, or were here before."""
    states: int = 0
    new: int = 0
    """How many of both were new, or newer than here."""
    expired: int = 0
    """How many chunks had expired, and were left out."""
    vectors: int = 0
    """How many chunks brought a vector that need not be made again."""
    vectors_left: str = ""
    """Why no vector was kept, though there are some; empty otherwise."""
    masked: int = 0
    """How many held what looks like a secret, which is masked."""
    changed: list[Remark] = field(default_factory=list)
    """What had to be fitted to the limits here; it is in."""
    refused: list[Remark] = field(default_factory=list)
    """What could not be taken, and why."""


def has_memory(path: Path) -> bool:
    """Whether there is something to take over: a store.db or, of the first versions, chunks or state."""
    if path.is_file():
        return True
    store = path / "store.db"
    if store.is_file() and (store.stat().st_size or store.with_name("store.db-wal").exists()):
        return True
    return any(next((path / name).glob(f"*{suffix}"), None) for name, suffix in (("chunks", ".md"), ("state", ".json")))


def take(engine: Engine, path: Path, *, progress: Progress | None = None) -> TakeoverResult:
    """Take everything over from the product's folder, or from its store.db; what is here as new or newer stays.

    Raises:
        Invalid: there is no such memory, or the file is of some other program.
        Unavailable: it is damaged, locked, or may not be read; what was read before stays in.
    """
    # From the start, whatever was taken before; and if it is cut off, it is for the caller to go on.
    return _Takeover(engine, path, _Mark(key=_Mark.load(engine, path).key), marking=False).run(progress)


def take_over(engine: Engine, folders: Sequence[Path], say: Callable[[str], None]) -> threading.Thread | None:
    """On the first start of a server: take over in the background what the folders hold; None if there is nothing.

    That is, when the memory has no note and no state for MCP clients yet, or when this was begun before and cut off.
    `say` is told in one line when it begins, and in one when it ends or fails.
    """
    with ExitStack() as locks:
        due: list[tuple[Path, _Mark]] = []
        for folder in dict.fromkeys(folder.absolute() for folder in folders):
            try:
                there = has_memory(folder) and locks.enter_context(lock_folder(_find_lock_path(folder), wait=False))
                mark = _find_due(engine, folder, say) if there else None
            except OSError as error:
                say(f"{folder} cannot be looked into for a memory to take over: {error.strerror}")
                continue
            if mark is not None:
                due.append((folder, mark))
        if not due:
            return None
        lock = locks.pop_all()
    thread = threading.Thread(
        target=_run_in_background, args=(engine, due, say, lock), name="cofio-importing", daemon=True
    )
    thread.start()
    return thread


def _find_due(engine: Engine, folder: Path, say: Callable[[str], None]) -> _Mark | None:
    """Where to go on with a folder, or to begin; None if it is not to be taken over."""
    mark = _Mark.load(engine, folder)
    bare = mark.after == START  # then, there was nothing to take
    if mark.done and not bare:
        return None
    begun = mark.version > 0 and not mark.done
    if not begun and engine.headings(MCP, kinds=(Kind.NOTE, Kind.STATE), limit=1):
        if not mark.version:
            say(
                f"{folder} holds a memory of {SOURCE} that is not taken over, because this one is in use already:"
                f" `cofio import {SOURCE} {folder}` brings it in"
            )
        return None
    return replace(mark, done=False)


def _run_in_background(
    engine: Engine, due: Sequence[tuple[Path, _Mark]], say: Callable[[str], None], lock: ExitStack
) -> None:
    with lock:
        for folder, mark in due:
            try:
                if _is_unused(folder):
                    continue
                taking = _Takeover(engine, folder, mark, marking=True)
                taking.begin()
                say(f"taking over the memory of {SOURCE} in {folder}, which is left as it is")
                result = taking.run(None)
                say(_render_result(engine, folder, taking.mark, result))
            except (CofioError, OSError) as error:
                if engine.closed:
                    return
                say(f"{folder} is not taken over yet: {error}; the next start goes on with it")


def _is_unused(folder: Path) -> bool:
    """Whether a product that was started once, and never used, left this."""
    try:
        with closing(AgentMemory(folder)) as original:
            return next(original.entries(Position(0, START), vectors=False), None) is None
    except CofioError:  # taking it over will tell
        return False


def _render_result(engine: Engine, folder: Path, mark: _Mark, result: TakeoverResult) -> str:
    sentence = (
        f"took over {_render_count(mark.chunks, 'chunk')} and {_render_count(mark.states, 'state')} from {folder},"
    )
    sentence += " which is left as it was"
    if result.masked:
        sentence += f"; {result.masked:,} held what looks like a secret, which is masked"
    if result.refused:
        sentence += f"; {len(result.refused):,} could not be taken: `cofio import {SOURCE} {folder}` tells why"
    if result.vectors < result.chunks:
        if engine.embedder() is not None:
            sentence += "; vectors are being made in the background"
        else:
            sentence += "; they are found by their words: `cofio model install` lets them be found by meaning"
    return sentence


def _render_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _find_lock_path(folder: Path) -> Path:
    """What to hold, so that one process at a time takes it over."""
    return folder if folder.is_dir() else folder.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """How far a take-over has come, as a record that is written together with what it speaks of."""

    key: str
    version: int = 0
    done: bool = False
    source: int = 0
    after: int | str = START
    chunks: int = 0
    states: int = 0

    @classmethod
    def load(cls, engine: Engine, path: Path) -> _Mark:
        """The mark of a folder; of version 0 when there is none."""
        folder = path.parent if path.name == "store.db" and path.is_file() else path
        # A name that is no text is written with escapes; of one that is too long, the end tells it from others.
        key = str(folder.resolve()).encode("utf-8", "backslashreplace").decode()[-MAX_KEY:]
        record = engine.get(IMPORTS, key, kind=Kind.STATE)
        if record is None or not isinstance(record.data, dict):
            return cls(key=key)
        after = record.data.get("after")
        source, chunks, states = (
            value if isinstance(value := record.data.get(name), int) else 0 for name in ("source", "chunks", "states")
        )
        return cls(
            key=key,
            version=record.version,
            done=record.data.get("done") is True,
            source=source,
            after=after if isinstance(after, int | str) else START,
            chunks=chunks,
            states=states,
        )

    def draft(self) -> Draft:
        """The record that takes the place of the one before."""
        now = datetime.now(UTC)
        return Draft(
            scope=IMPORTS,
            kind=Kind.STATE,
            key=self.key,
            id=f"cofio-imports-{hashlib.blake2b(self.key.encode(), digest_size=16).hexdigest()}",
            data={
                "done": self.done, "source": self.source, "after": self.after,
                "chunks": self.chunks, "states": self.states,
            },
            source=SOURCE,
            created_at=now,
            updated_at=now,
            version=self.version,
        )  # fmt: skip


class _Takeover:
    """One memory on its way in, a transaction for each batch."""

    def __init__(self, engine: Engine, path: Path, mark: _Mark, *, marking: bool) -> None:
        """With `marking`, each batch leaves a mark of how far it came, to go on from."""
        self._engine = engine
        self._path = path
        self._marking = marking
        self._batch: list[Draft] = []
        self._ids: set[str] = set()
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._weight = 0
        self._now = datetime.now(UTC)
        self._result = TakeoverResult()
        self.mark = mark

    def begin(self) -> None:
        """Leave the first mark: whatever is written here meanwhile, the rest is still to come."""
        self._flush(self.mark)

    def run(self, progress: Progress | None) -> TakeoverResult:
        """Take over what comes after the mark."""
        if not has_memory(self._path):
            raise Invalid("path", f"there is no memory of {SOURCE} in {self._path}; name the folder with its store.db")
        position = start = Position(self.mark.source, self.mark.after)
        with closing(AgentMemory(self._path)) as original:
            total, vectors = original.count(), self._are_vectors_alike(original)
            try:
                for done, (position, entry) in enumerate(original.entries(start, vectors=vectors), 1):
                    self._add(entry)
                    if len(self._batch) == BATCH or self._weight > HEAVY:
                        self._flush(self._mark_at(position))
                        if progress:
                            progress("taking over", done, total)
            except Unavailable:  # damaged from here on
                self._flush(self._mark_at(position))
                raise
            self._flush(replace(self._mark_at(position), done=True), last=True)
        return self._result

    def _mark_at(self, position: Position) -> _Mark:
        return replace(self.mark, source=position.source, after=position.after)

    def _add(self, entry: Entry) -> None:
        """Take an entry into the batch, or tell why not."""
        if isinstance(entry, Unreadable):
            self._result.refused.append(Remark(entry.name, entry.why))
            return
        name = render_name(entry.id if isinstance(entry, Chunk) else entry.key)
        try:
            fitted = fit_chunk(entry) if isinstance(entry, Chunk) else fit_state(entry)
            draft = admit_draft("take_over", fitted.draft, allow=self._engine.settings.allow_secrets)
        except Invalid as error:
            self._result.refused.append(Remark(name, str(error)))
            return
        if draft is not fitted.draft:
            fitted = FittedDraft(draft, (*fitted.changes, MASKED))
        if draft.expires_at is not None and draft.expires_at <= self._now:
            self._result.expired += 1
            return
        if self._is_strange(draft):
            self._result.refused.append(Remark(name, "a record of another scope has this id"))
            return
        self._result.changed.extend(Remark(name, sentence) for sentence in fitted.changes)
        self._result.masked += MASKED in fitted.changes
        self._batch.append(draft)
        self._weight += len(draft.text)
        if isinstance(entry, Chunk):
            self._keep_vector(entry, fitted)

    def _is_strange(self, draft: Draft) -> bool:
        """Whether the draft's id belongs to a record that never came from there."""
        try:
            here = self._engine.read(cast(str, draft.id))
        except NotFound:
            return False
        return here.source != SOURCE and (here.scope, here.kind) != (draft.scope, draft.kind)

    def _keep_vector(self, chunk: Chunk, fitted: FittedDraft) -> None:
        """Keep a chunk's embedding, unless it is none or the text is no longer the one that it was made of."""
        known = cast(str, fitted.draft.id)
        if known in self._ids:  # of two with one id, as in a file and a row, either may be the one that stays
            self._result.vectors -= self._vectors.pop(known, None) is not None
            return
        self._ids.add(known)
        vector = None if chunk.embedding is None or fitted.changes else decode_vector(chunk.embedding)
        if vector is not None:
            self._vectors[known] = vector
            self._result.vectors += 1

    def _flush(self, mark: _Mark, *, last: bool = False) -> None:
        """Write the batch and, in the same transaction, the mark."""
        chunks = sum(draft.kind is Kind.NOTE for draft in self._batch)
        states = len(self._batch) - chunks
        drafts = self._batch
        self.mark = replace(mark, chunks=mark.chunks + chunks, states=mark.states + states)
        if self._marking or last:
            if not self._marking:  # a take-over may have left one meanwhile
                self.mark = replace(self.mark, version=_Mark.load(self._engine, self._path).version)
            self.mark = replace(self.mark, version=self.mark.version + 1)
            drafts = [*drafts, self.mark.draft()]
        new = self._engine.restore(drafts, vectors=cast(Mapping[str, Sequence[float]], self._vectors))
        self._result.new += new - (drafts is not self._batch)
        self._result.chunks += chunks
        self._result.states += states
        self._batch, self._ids, self._vectors, self._weight = [], set(), {}, 0

    def _are_vectors_alike(self, original: AgentMemory) -> bool:
        """Whether the stored vectors are such as the embedder here makes; if not, the reason is kept."""
        try:
            samples = [] if original.store is None else original.store.sample_chunks(SAMPLES)
        except Unavailable:  # damaged somewhere, which reading it will tell in its place
            samples = []
        if not samples:
            return False
        embedder = self._engine.embedder()
        if embedder is None:
            self._result.vectors_left = "there is no embedder here to compare them with"
            if self._engine.settings.embedder != "none":
                self._result.vectors_left += "; run `cofio model install`, then import again"
            return False
        try:
            self._result.vectors_left = find_difference(embedder, samples)
        except Unavailable as error:
            self._result.vectors_left = f"they cannot be compared with any: {error}"
        return not self._result.vectors_left
