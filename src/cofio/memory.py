"""The memory of a program: one class with the few verbs that an agent needs, and the same for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from .config.address import StoreAddress
from .config.settings import Settings
from .conversations.api_messages import Content, parse_messages
from .engine.engine import Engine
from .values.changes import Delete
from .values.errors import Invalid
from .values.query import AllOf, Filter, Hit, Mode, Query, Where
from .values.records import Json, Kind, Record, Scope, new_id
from .values.scopes import CONVERSATIONS, MCP

if TYPE_CHECKING:
    from .checkpoints.checkpoints import Checkpoints
    from .conversations.conversations import Conversations
    from .conversations.projects import Project

ScopeLike: TypeAlias = str | Sequence[str] | Scope
"""Where something belongs: `"team/alice"`, `["team", "alice"]`."""
WhereLike: TypeAlias = Filter | Mapping[str, Any]
"""A condition: a filter, or values that fields of the metadata must have, as `{"status": "open"}`."""
NOTES = MCP  # where notes go that name no scope: MCP clients and the command line read them there
MADE_OF_MESSAGES = (Kind.FACT, Kind.EPISODE, Kind.CASE, Kind.SKILL)
SEARCHED = tuple(kind for kind in Kind if kind is not Kind.STATE)  # a state is read by its key alone
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a user."""

    lines: tuple[str, ...]
    """What holds of them, one sentence each, the most telling first."""
    instructions: tuple[str, ...]
    """What they have asked of the assistant, in their words, the newest first."""

    def __str__(self) -> str:
        return "\n".join((*self.instructions, *self.lines))

    def __bool__(self) -> bool:
        return bool(self.lines or self.instructions)


class Memory:
    """One durable memory: notes, conversations and what they tell of their users, and values by key.

    What a call has returned is on the disk, and found by the next search, in this process and any other. All methods
    may be called from several threads.
    """

    def __init__(
        self, store: str | os.PathLike[str] | StoreAddress | None = None, *, settings: Settings | None = None
    ) -> None:
        """Open the memory in a folder, or at `postgresql://…`; it is made if need be.

        Without a `store`: COFIO_STORE, else the nearest `.cofio` from here upwards, else a new `./.cofio`.

        Raises:
            Unavailable: it cannot be used, or was written by a newer cofio.
            Invalid: the store or a setting is wrong.
        """
        self.engine = Engine.open(store, settings=settings)
        """What is beneath, with all that this class does not offer. Its methods may change between versions."""

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the memory. Nothing that was acknowledged depends on it."""
        self.engine.close()

    @property
    def checkpoints(self) -> Checkpoints:
        """The states of agents' threads."""
        return self.engine.checkpoints

    @cached_property
    def _conversations(self) -> Conversations:
        from .conversations.conversations import Conversations  # not before it is needed

        return Conversations(self.engine)

    # Writing.

    def add(
        self,
        content: Content,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        scope: ScopeLike | None = None,
        tags: Iterable[str] = (),
        metadata: Json = None,
        ttl: float | timedelta | None = None,
    ) -> list[Record]:
        """Remember a text, a message or a list of messages, and return what was kept.

        With a `user`, it is what they and the assistant said: facts, an episode and a profile are made of it at once.
        Without, a text is kept as a note, with `tags`, `metadata` and a `ttl` in seconds or as a timedelta.
        A `scope` is where a note belongs; that of a conversation is an app, or an app and a project.

        Raises:
            Invalid: something about it is wrong; the sentence says what is right.
        """
        if user is not None or agent is not None or session is not None:
            if tags or metadata is not None or ttl is not None:
                raise Invalid(
                    "content",
                    "tags, metadata and ttl are for notes, which have no user, agent or session",
                )
            return self._add_messages(content, user or "user", agent or "assistant", session, scope)
        if not isinstance(content, str):
            raise Invalid("user", "say whose messages these are: memory.add(messages, user='maya')")
        return [self.engine.write(_parse_scope(scope, NOTES), text=content, tags=tags, data=metadata, ttl=ttl)]

    def _add_messages(
        self, content: Content, user: str, agent: str, session: str | None, scope: ScopeLike | None
    ) -> list[Record]:
        from .conversations.message_records import make_message_id

        project, began = _parse_project(scope), self.engine.read_clock()
        messages = parse_messages(content, user=user, agent=agent, at=began)
        session = session or new_id(began)
        named = [
            replace(each, id=make_message_id(session, each, index) + new_id(began)[-8:])
            for index, each in enumerate(messages)
        ]
        self._conversations.append(project, session, named)
        self._conversations.carve(project, session, whole=True)
        homes = [project.owner("user", user), project.owner("agent", agent)]
        kept: list[Record] = []
        for home in homes:
            fresh = Where("updated_at", ">=", began)
            kept += self.engine.list(home, exact=True, kinds=MADE_OF_MESSAGES, filter=fresh, limit=1000, newest=False)
        return [each for each in kept if isinstance(each.data, dict) and each.data.get("session_id") == session]

    def put(
        self,
        key: str,
        value: Json,
        *,
        scope: ScopeLike | None = None,
        tags: Iterable[str] = (),
        ttl: float | timedelta | None = None,
        if_version: int | None = None,
    ) -> Record:
        """Keep a value under a key, in place of what the key held. A string is found by its words as well.

        With `if_version`, the key must hold that version, or nothing for 0.

        Raises:
            Conflict: the key holds another version.
        """
        text = value if isinstance(value, str) else ""
        return self.engine.put(
            _parse_scope(scope, NOTES), key, data=value, text=text, tags=tags, ttl=ttl, if_version=if_version
        )

    def update(
        self,
        id: str,
        *,
        text: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Json = None,
        if_version: int | None = None,
    ) -> Record:
        """Change what a record says, its tags or its metadata.

        Raises:
            NotFound: nothing has this id.
            Conflict: it has another version than `if_version`.
        """
        changed = {"text": text, "tags": tags, "data": metadata}
        fields = {name: value for name, value in changed.items() if value is not None}
        if not fields:
            raise Invalid("text", "nothing is to be changed: give text, tags or metadata")
        return self.engine.edit(id, if_version=if_version, **fields)

    def delete(self, id: str) -> None:
        """Forget a record for good; an episode with its facts and messages.

        Raises:
            NotFound: nothing has this id.
        """
        from .conversations.projects import Project, public_id

        record = self.engine.read(id)
        names = record.scope.names
        if record.scope in CONVERSATIONS and record.kind in MADE_OF_MESSAGES:
            self._conversations.deleter.delete_memory(Project(app=names[1], name=names[2]), public_id(record))
        else:
            self._conversations.forget(Delete(id=id))

    # Reading.

    def search(
        self,
        query: str | Query,
        *,
        user: str | None = None,
        agent: str | None = None,
        scope: ScopeLike | None = None,
        tags: Iterable[str] = (),
        since: datetime | None = None,
        where: WhereLike | None = None,
        limit: int = 10,
        mode: Mode = "hybrid",
    ) -> Sequence[Hit]:
        """Return what answers a query, best first; nothing if nothing does.

        Each hit has `text`, `score` (0 to 1), `why`, `id` and `record`. A message, the facts made of it and its episode
        are one hit. With a `user` or an `agent` only what is remembered of them is searched; with a `scope` only that
        and what is under it; else everything.

        Raises:
            Invalid: something about the question is wrong.
        """
        if isinstance(query, Query):
            return self.engine.search(query)
        condition = _build_filter(tags, since, where)
        if user is not None:
            return self._search_user(query, user, scope, condition, limit, mode)
        home, kinds = _parse_scope(scope, Scope()), SEARCHED
        if agent is not None:
            home, kinds = _parse_project(scope).owner("agent", agent), (Kind.CASE, Kind.SKILL)
        return self.engine.search(
            Query(query, scope=home, kinds=kinds, filter=condition, limit=limit, mode=mode, folds=True, current=True)
        )

    def _search_user(
        self, query: str, user: str, scope: ScopeLike | None, condition: Filter | None, limit: int, mode: Mode
    ) -> list[Hit]:
        from .conversations.retrieval import MemoryQuery, is_waiting, search_episodes, search_waiting

        project = _parse_project(scope)
        asked = MemoryQuery(text=query, mode=mode, limit=limit, floor=None, filter=condition)
        found = search_episodes(self.engine, project.owner("user", user), asked).hits
        if is_waiting(self.engine, project, user):  # said through another door, and not yet read
            found = sorted(
                [*found, *search_waiting(self.engine, project, user, asked).hits], key=lambda hit: -hit.score
            )
        hits: list[Hit] = []
        for each in found:
            statements: dict[datetime, list[Hit]] = {}
            for fact in each.facts:
                if fact.score:  # else it only stands beside what was found
                    statements.setdefault(fact.record.created_at, []).append(fact)
            episode = Hit(record=each.record, score=each.score, why=each.why)
            (first, *others), *further = list(statements.values()) or [[episode]]
            others += [episode] if statements else []
            hits.append(replace(first, score=each.score, others=tuple(others)))
            hits += [replace(fact, others=tuple(same)) for fact, *same in further]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    def get(self, key: str, *, scope: ScopeLike | None = None) -> Record | None:
        """Return what a key holds, or None."""
        return self.engine.get(_parse_scope(scope, NOTES), key)

    def list(
        self,
        *,
        user: str | None = None,
        scope: ScopeLike | None = None,
        kind: Kind | str | None = None,
        tags: Iterable[str] = (),
        since: datetime | None = None,
        where: WhereLike | None = None,
        limit: int = 100,
    ) -> list[Record]:
        """Return records, the newest first; with a `user` what is remembered of them."""
        home = _parse_scope(scope, Scope()) if user is None else _parse_project(scope).owner("user", user)
        kinds = () if kind is None else (Kind(kind),)
        return self.engine.list(home, kinds=kinds, filter=_build_filter(tags, since, where), limit=limit)

    def profile(self, user: str, *, scope: ScopeLike | None = None) -> Profile:
        """Return what is known of a user; printed, it is a line for each thing."""
        from .capture.user_context import list_profile

        return Profile(*list_profile(self.engine, _parse_project(scope).owner("user", user)))

    def context(self, query: str = "", *, user: str, scope: ScopeLike | None = None, max_tokens: int = 1000) -> str:
        """Return a block for a model's prompt: what the user has asked of the assistant, what is known of them, and
        what was said before that answers the query.
        """
        from .capture.user_context import build_context

        return build_context(
            self.engine, [_parse_project(scope).owner("user", user)], query=query, budget=max_tokens
        ).text

    @cached_property
    def admin(self) -> Admin:
        """What keeps the store in order."""
        return Admin(self.engine)


class Admin:
    """What keeps a store in order: copies, checks, and what is derived."""

    def __init__(self, engine: Engine) -> None:
        self.stats = engine.stats
        self.backup = engine.backup
        self.export = engine.export
        self.restore = engine.restore
        self.check = engine.check
        self.reindex = engine.reindex
        self.purge = engine.purge
        self.drop = engine.drop


def _cross(
    method: Callable[Concatenate[Memory, Parameters], Result],
) -> Callable[Concatenate[AsyncMemory, Parameters], Awaitable[Result]]:
    """Return a method for asyncio: it runs in a thread."""

    async def run(self: AsyncMemory, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    run.__name__, run.__doc__ = method.__name__, method.__doc__
    return run


class AsyncMemory:
    """`Memory` for asyncio: the same methods, each of which is a coroutine. The memory itself is opened at once."""

    def __init__(
        self, store: str | os.PathLike[str] | StoreAddress | None = None, *, settings: Settings | None = None
    ) -> None:
        """Open the memory, as `Memory` does."""
        self.memory = Memory(store, settings=settings)

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    add = _cross(Memory.add)
    put = _cross(Memory.put)
    update = _cross(Memory.update)
    delete = _cross(Memory.delete)
    search = _cross(Memory.search)
    get = _cross(Memory.get)
    list = _cross(Memory.list)
    profile = _cross(Memory.profile)
    context = _cross(Memory.context)
    close = _cross(Memory.close)


def _parse_scope(scope: ScopeLike | None, default: Scope) -> Scope:
    if scope is None:
        return default
    if isinstance(scope, Scope):
        return scope
    if isinstance(scope, str):
        return Scope.parse(scope)
    if isinstance(scope, Sequence):
        return Scope(*scope)
    raise Invalid("scope", f"expected names such as 'team/alice', got {type(scope).__name__}")


def _parse_project(scope: ScopeLike | None) -> Project:
    from .conversations.projects import Project

    names = _parse_scope(scope, Scope()).names
    if len(names) > 2:
        raise Invalid("scope", "that of a conversation is an app, or an app and a project: 'shop' or 'shop/web'")
    return Project(**dict(zip(("app", "name"), names, strict=False)))


def _build_filter(tags: Iterable[str], since: datetime | None, where: WhereLike | None) -> Filter | None:
    if isinstance(tags, str):
        raise Invalid("tags", "expected a list of tags, as in tags=['ops']")
    tests: list[Filter] = [Where("tags", "has", tag) for tag in tags]
    if since is not None:
        tests.append(Where("created_at", ">=", since))
    if isinstance(where, Mapping):
        tests += [Where(("data", name), "=", value) for name, value in where.items()]
    elif where is not None:
        tests.append(where)
    return AllOf(*tests) if tests else None
