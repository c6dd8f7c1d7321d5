"""LangGraph's checkpoints in a cofio store: a graph goes on where it was, in this process or the next.

    with CofioSaver.open("memory") as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [("user", "Hello")]}, {"configurable": {"thread_id": "ada"}})

Every method is there for graphs that run with `invoke` and for those that run with `ainvoke`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice, takewhile
from os import PathLike
from typing import Any, TypeAlias, cast

from ...backends.checkpoint_interface import PendingWrite
from ...checkpoints.checkpoints import Checkpoint as Saved
from ...checkpoints.checkpoints import Checkpoints
from ...config.installation import install_command
from ...config.settings import Settings
from ...engine.engine import Engine
from ...values.errors import CofioError, Invalid, Unavailable
from ..concurrency import in_thread

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError as error:
    raise ImportError(
        f"cofio.library.langgraph needs LangGraph's checkpoints, version 4.3 or newer: {install_command('langgraph')}"
    ) from error

from .configs import check_several, check_thread, make_config, parse_id, parse_ns, parse_options, parse_thread
from .ownership import EngineOwner, open_connection, open_owned
from .states import (
    Messages,
    StrictSerializer,
    decode_checkpoint,
    decode_typed,
    decode_value,
    encode_checkpoint,
    encode_typed,
    to_json,
)

__all__ = ["SPACE", "CofioSaver"]

SPACE = "langgraph"
LISTED_AT_ONCE = 100  # checkpoints without their states, to begin with
LISTED_AT_MOST = 6_400
STREAMED_AT_ONCE = 10  # checkpoints with their states
SHORT = 4096  # bytes that are not compressed: a graph saves several times a turn, and its user waits for each
_COUNTERS = "counters_since_delta_snapshot"
_RUN = "run_id"
_SERDES = (("dumps_typed", "loads_typed"), ("dumps", "loads"))  # LangGraph takes either
_ASIDE = "metadata"  # in the state: what is in the metadata that JSON cannot hold

Tuples: TypeAlias = list[CheckpointTuple]  # inside of CofioSaver, `list` is a verb
Places: TypeAlias = list[tuple[str, str, str]]
Writes: TypeAlias = list[tuple[str, str, Any]]


class CofioSaver(EngineOwner, BaseCheckpointSaver[str]):
    """A checkpointer for LangGraph that keeps threads in a cofio store.

    A checkpoint is kept as what changed since an earlier one, and is durable when `put` returns. Any number of
    threads and processes may use one store.

    What is read makes objects of no types but LangGraph's own list and those in `allow`; the others come back as the
    plain data that they were made of. Nothing is ever unpickled, unless you pass a `serde` that does it.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        serde: SerializerProtocol | None = None,
        ttl: float | timedelta | None = None,
        allow: Collection[type | tuple[str, str]] = (),
    ) -> None:
        """`ttl`, in seconds, is how long each checkpoint is kept; `allow` are your own types that channels hold.

        Raises:
            Invalid: `engine` is no Engine, `serde` no serializer, `ttl` not positive, or `allow` no list of types.
        """
        if not isinstance(engine, Engine):
            raise Invalid("engine", f"expected an Engine, got {type(engine).__name__}; see CofioSaver.open")
        if ttl is not None and (isinstance(ttl, bool) or not _positive(ttl)):
            raise Invalid("ttl", "expected seconds or a timedelta, more than none")
        if serde is not None and not any(all(hasattr(serde, verb) for verb in verbs) for verbs in _SERDES):
            raise Invalid(
                "serde", f"expected a serializer with dumps_typed and loads_typed, got {type(serde).__name__}"
            )
        super().__init__(serde=serde if serde is not None else StrictSerializer())
        if _check_allowed(allow):
            self.serde = self.with_allowlist(cast("Collection[tuple[str, ...]]", allow)).serde
        self.engine = engine
        self.ttl = ttl
        self._cache_message = self.serde, Messages(self.serde)

    # Opening and closing.

    @classmethod
    def open(
        cls,
        store: str | PathLike[str] | None = None,
        *,
        serde: SerializerProtocol | None = None,
        ttl: float | timedelta | None = None,
        allow: Collection[type | tuple[str, str]] = (),
        settings: Settings | None = None,
    ) -> CofioSaver:
        """A saver on the folder `store`, found as `Engine.open` does; close it, or use it in a `with` block.

        Raises:
            Unavailable: the folder cannot be used, or was written by a newer cofio.
            Invalid: an option is wrong.
        """
        return open_owned(lambda engine: cls(engine, serde=serde, ttl=ttl, allow=allow), store, settings)

    @classmethod
    def from_conn_string(cls, conn_string: str) -> CofioSaver:
        """As LangGraph's own savers name it: `open`, where ":memory:" is a folder that is removed at the end."""
        return open_connection(cls, conn_string)

    def setup(self) -> None:
        """Nothing is left to set up; here for programs that call it on LangGraph's other savers."""

    # Saving.

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint, durably, as the child of the one that `config` names; the config that names it.

        Raises:
            Invalid, LimitExceeded: the config is wrong, or something is too large.
            TypeError: the serializer cannot take a value.
            Unavailable: the disk is full or failing; nothing was changed.
        """
        options = parse_options(config)
        thread, ns = parse_thread(options), parse_ns(options)
        for key in ("id", "channel_values"):
            if not isinstance(checkpoint, Mapping) or key not in checkpoint:
                raise Invalid("checkpoint", f"has no {key!r}")
        state = encode_checkpoint(checkpoint, self.serde, self._messages)
        described, aside = self._split_metadata(config, metadata)
        if aside:
            state[_ASIDE] = aside
        self._checkpoints.save(
            SPACE, thread, checkpoint["id"], state, ns=ns, parent=parse_id(options), metadata=described, ttl=self.ttl,
            owned=True, short=SHORT,
        )  # fmt: skip
        return make_config(options["thread_id"], ns, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote after a checkpoint: an error, interrupt or resumption replaces what the task had."""
        options = parse_options(config)
        thread, ns, after = parse_thread(options), parse_ns(options), parse_id(options)
        if after is None:
            raise Invalid("checkpoint_id", "is missing: what is written belongs to a checkpoint")
        rows = []
        for number, (channel, value) in enumerate(writes):
            at = WRITES_IDX_MAP.get(channel, number)
            kind, data = self.serde.dumps_typed(value)
            rows.append((PendingWrite(task_id, at, task_path, channel, kind, bytes(data)), at < 0))
        if rows:
            self._checkpoints.write(SPACE, thread, after, rows, ns=ns, short=SHORT)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its checkpoints and what is pending; nothing happens when there is none.

        Raises:
            Invalid: there are checkpoints in the target already.
        """
        source = check_thread("source_thread_id", source_thread_id)
        target = check_thread("target_thread_id", target_thread_id)
        try:
            self._checkpoints.copy(SPACE, source, target)
        except Invalid as error:
            raise Invalid("target_thread_id", error.problem) from None

    # Reading.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that `config` names, else the thread's latest; None when there is none.

        Raises:
            Invalid: the config is wrong.
            Unavailable: the checkpoint cannot be read.
        """
        options = parse_options(config)
        found = self._load(parse_thread(options), parse_ns(options), parse_id(options))
        return None if found is None else self._tuple(found, config if parse_id(options) else None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints with what is pending, highest id first, each read when it is asked for.

        A config names the thread, and may name a namespace and a checkpoint; None means every thread. `filter` is
        what the metadata must hold, and `before` leaves the checkpoints with lower ids.
        """
        options = {} if config is None else parse_options(config)
        thread = None if config is None else parse_thread(options)
        only = parse_id(options)
        past = None if before is None else parse_id(parse_options(before))
        if only is not None and past is not None and only >= past:
            return
        left = limit
        wanted = _MetadataFilter(filter or {})
        few = LISTED_AT_ONCE if limit is None or filter else max(1, min(limit, LISTED_AT_ONCE))
        headers = self._headers(thread, options.get("checkpoint_ns"), past, only, few)
        if only is not None:
            headers = takewhile(lambda header: header.id == only, headers)
        at_once = 1 if limit is None or filter else min(max(1, limit), STREAMED_AT_ONCE)
        while left is None or left > 0:
            asked = [*islice(headers, at_once if left is None else min(at_once, left))]
            if not asked:
                return
            at_once = min(2 * at_once, STREAMED_AT_ONCE)  # who takes one may not want another
            places = [(each.thread, each.ns, each.id) for each in asked if wanted.may_hold(each.metadata)]
            for found in self._load_many(places):
                told = None if found is None else self._tuple(found, once=True)  # None: it was deleted meanwhile
                if told is not None and wanted.holds(told.metadata):
                    left = None if left is None else left - 1
                    yield told

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels since their last snapshots, which nothing but these channels is read for.

        Raises:
            Unavailable: a part of what was written is gone, as its run was deleted or it expired.
        """
        written: dict[str, Writes] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        options = parse_options(config)
        thread, ns = parse_thread(options), parse_ns(options)
        target = self._load(thread, ns, parse_id(options)) if channels else None
        if target is not None:
            self._walk(target, written, seeds)
        return {
            channel: {"writes": writes[::-1], "seed": seeds[channel]} if channel in seeds else {"writes": writes[::-1]}
            for channel, writes in written.items()
        }

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version higher than the current one, in the form that LangGraph's SQLite saver gives them."""
        number = 0 if current is None else current if isinstance(current, int) else int(current.split(".")[0])
        return f"{number + 1:032}.{random.random():016}"  # the fraction tells branches apart

    # Deleting.

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread: its checkpoints in every namespace, and what is pending."""
        self._checkpoints.delete(SPACE, check_thread("thread_id", thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete, from every thread, the checkpoints whose metadata name one of these runs, and what is pending.

        Runs that are no texts, such as UUIDs and numbers, are taken as they are and as their texts.
        """
        places: dict[tuple[str, str, str], None] = {}
        for run in dict.fromkeys(check_several("run_ids", run_ids)):
            for name in dict.fromkeys((run, str(run)) if isinstance(run, int) else (str(run),)):
                found = self._checkpoints.list(SPACE, where={_RUN: name}, limit=None)
                places.update(dict.fromkeys((header.thread, header.ns, header.id) for header in found))
        if places:
            self._checkpoints.remove(SPACE, [*places])

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Leave each thread the latest checkpoint of each namespace, or with the strategy "delete" nothing.

        A channel that keeps only what was written (`DeltaChannel`) leans on the checkpoints back to its last
        snapshot: these stay too.
        """
        if strategy not in ("keep_latest", "delete"):
            raise Invalid("strategy", f"{strategy!r} is not one of keep_latest, delete")
        for thread in [check_thread("thread_ids", each) for each in check_several("thread_ids", thread_ids)]:
            if strategy == "delete":
                self._checkpoints.delete(SPACE, thread)
            else:
                self._checkpoints.remove(SPACE, self._find_superseded(thread))

    # The same for graphs that run with `ainvoke`.

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return await in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
        await in_thread(self.put_writes, config, writes, task_id, task_path)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        await in_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await in_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`, a few at a time."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while some := await in_thread(_take_some, found):
            for each in some:
                yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        return await in_thread(self.get_delta_channel_history, config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await in_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await in_thread(self.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await in_thread(self.prune, thread_ids, strategy=strategy)

    # How it is done.

    @property
    def _checkpoints(self) -> Checkpoints:
        return self.engine.checkpoints

    @property
    def _messages(self) -> Messages:
        """What is known of messages, by the serializer that there is now: another makes other objects."""
        serde, messages = self._cache_message
        if serde is not self.serde:
            messages = Messages(self.serde)
            self._cache_message = self.serde, messages
        return messages

    def _split_metadata(
        self, config: RunnableConfig, metadata: CheckpointMetadata
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The metadata that JSON can hold, which a filter sees, and the rest of it as text."""
        described: dict[str, Any] = {}
        aside: dict[str, str] = {}
        for key, value in get_checkpoint_metadata(config, metadata).items():
            try:
                described[_drop_surrogates(key)] = to_json(_drop_surrogates(value) if isinstance(value, str) else value)
            except ValueError:
                aside[_drop_surrogates(key)] = encode_typed(value, self.serde)
                if key == _RUN:
                    described[_RUN] = _drop_surrogates(
                        str(value)
                    )  # what the run's checkpoints are found by, to be deleted
        return described, aside

    def _load(self, thread: str, ns: str, id: str | None) -> Saved | None:
        return self._checkpoints.load(SPACE, thread, id, ns=ns, by_id=True, pending=True, shared=True)

    def _load_many(self, places: Places) -> Iterable[Saved | None]:
        try:
            return self._checkpoints.load_many(SPACE, places, shared=True) if places else ()
        except Unavailable:  # one is damaged: those before it can be had all the same
            return (self._load(*place) for place in places)

    def _tuple(self, found: Saved, config: RunnableConfig | None = None, *, once: bool = False) -> CheckpointTuple:
        with _explain_unreadable(found):
            metadata = dict(found.metadata)
            for key, text in found.state.get(_ASIDE, {}).items():
                metadata[key] = decode_typed(text, self.serde)
            return CheckpointTuple(
                config=config or make_config(found.thread, found.ns, found.id),
                checkpoint=decode_checkpoint(found.id, found.state, self.serde, self._messages, once=once),
                metadata=cast(CheckpointMetadata, metadata),
                parent_config=make_config(found.thread, found.ns, found.parent) if found.parent else None,
                pending_writes=[self._write(each) for each in found.pending],
            )

    def _write(self, write: PendingWrite) -> tuple[str, str, Any]:
        return write.task, write.channel, self.serde.loads_typed((write.type, write.value))

    def _headers(
        self, thread: str | None, ns: str | None, before: str | None, upto: str | None, size: int
    ) -> Iterator[Saved]:
        """Checkpoints without their states, highest id first, read in pages: no transaction stays open between.

        Ids are not unique across threads, and so a page begins with those that have the last one's id once more.
        """
        begun: set[tuple[str, str]] = set()
        last = None
        while True:
            asked = size + len(begun)
            size = min(2 * size, LISTED_AT_MOST)  # to find where a page begins may take a look at all
            page = self._checkpoints.list(SPACE, thread, ns=ns, before=before, upto=upto, by_id=True, limit=asked)
            for header in page:
                if header.id != last:
                    last, begun = header.id, set()
                if (header.thread, header.ns) not in begun:
                    begun.add((header.thread, header.ns))
                    yield header
            if last is None or len(page) < asked:
                return
            upto = last

    def _find_superseded(self, thread: str) -> Places:
        """What may go of a thread when only its latest checkpoints are to stay."""
        latest: dict[str, Saved] = {}
        others: Places = []
        for header in self._checkpoints.list(SPACE, thread, by_id=True, limit=None):
            if header is not latest.setdefault(header.ns, header):
                others.append((thread, header.ns, header.id))
        kept = {place for header in latest.values() for place in self._find_dependencies(header)}
        return [place for place in others if place not in kept]

    def _find_dependencies(self, header: Saved) -> Iterator[tuple[str, str, str]]:
        """The ancestors that a checkpoint's channels are made of."""
        open_ = set(header.metadata.get(_COUNTERS) or ())
        target = self._load(header.thread, header.ns, header.id) if open_ else None
        if target is None:
            return
        open_ -= target.state["values"].keys()
        for ancestor in self._ancestors(target):
            if not open_:
                return
            yield ancestor.thread, ancestor.ns, ancestor.id
            open_ -= ancestor.state["values"].keys()

    def _ancestors(self, target: Saved) -> Iterator[Saved]:
        """The checkpoints that led to this one, nearest first, as far as they are there."""
        seen = {target.id}
        at = target
        while at.parent is not None and at.parent not in seen:
            found = self._load(at.thread, at.ns, at.parent)
            if found is None:
                return
            seen.add(found.id)
            yield found
            at = found

    def _walk(self, target: Saved, written: dict[str, Writes], seeds: dict[str, Any]) -> None:
        """Collect what was written to channels, newest first, and what they then held."""
        open_ = set(written)
        last = target
        for last in self._ancestors(target):
            with _explain_unreadable(last):
                for write in reversed(last.pending):
                    if write.channel in open_:
                        written[write.channel].append(self._write(write))
                for channel in open_ & last.state["values"].keys():
                    seeds[channel] = decode_value(last.state["values"][channel], self.serde, self._messages)
            open_ -= seeds.keys()
            if not open_:
                return
        # To begin with nothing would be wrong without a word, for a channel that was written to.
        lost = sorted(open_ & target.state["rest"].get("channel_versions", {}).keys())
        if lost and last.parent is not None and self._load(last.thread, last.ns, last.parent) is None:
            raise Unavailable(
                f"the checkpoint {target.id!r} of the thread {target.thread!r} leans on {last.parent!r}, which was"
                f" deleted or has expired: what the channel {lost[0]!r} held is lost; go on from another checkpoint"
            )


class _MetadataFilter:
    """What a checkpoint's metadata must hold, asked before its state is read, and after that."""

    def __init__(self, filter: Mapping[str, Any]) -> None:
        self._plain: dict[str, Any] = {}
        self._strange: dict[str, Any] = {}
        for key, value in filter.items():
            try:
                self._plain[key] = to_json(value)
            except ValueError:  # it is kept aside where it is
                self._strange[key] = value

    def may_hold(self, metadata: Mapping[str, Any]) -> bool:
        """Whether the part of the metadata that JSON can hold leaves it possible."""
        return all(metadata.get(key) == value for key, value in self._plain.items())

    def holds(self, metadata: Mapping[str, Any]) -> bool:
        """Whether the whole metadata hold it."""
        return self.may_hold(metadata) and all(metadata.get(key) == value for key, value in self._strange.items())


@contextmanager
def _explain_unreadable(found: Saved) -> Iterator[None]:
    """Say which checkpoint it is that cannot be read."""
    try:
        yield
    except CofioError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, NotImplementedError) as error:
        raise Unavailable(
            f"checkpoint {found.id!r} of the thread {found.thread!r} cannot be read ({error!r}): it is damaged, or was"
            " written with another serde"
        ) from error


def _drop_surrogates(text: str) -> str:
    """The text without halves of surrogate pairs, which metadata cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "ignore").decode()


def _check_allowed(allow: object) -> bool:
    """Whether any types are allowed; raises Invalid for what names none."""
    if isinstance(allow, str | bytes) or not isinstance(allow, Collection):
        raise Invalid("allow", f"expected a list of types, got {type(allow).__name__}")
    for each in allow:
        named = isinstance(each, tuple) and len(each) == 2 and all(isinstance(name, str) for name in each)
        if not named and not isinstance(each, type):
            raise Invalid("allow", f'expected types, or pairs such as ("shop.models", "Customer"), got {each!r}')
    return bool(allow)


def _positive(ttl: float | timedelta) -> bool:
    return ttl > timedelta(0) if isinstance(ttl, timedelta) else isinstance(ttl, int | float) and ttl > 0


def _take_some(found: Iterator[CheckpointTuple]) -> Tuples:
    return [*islice(found, STREAMED_AT_ONCE)]
