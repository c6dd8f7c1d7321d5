"""The calls of the API, from a checked request to its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, cast

from ...backends import Change, Edit
from ...engine import Engine
from ...errors import Invalid, NotFound
from ...extract import Call, Message
from ...model import Json, Kind, Record
from ...query import Filter, Mode, Where
from ...sessions import Conversations, Place
from ...sessions.carving import profile_put, skill_text
from ...sessions.places import Track, named
from ...sessions.recalling import Answer, Asked, episodes, of_agent, waiting
from ...sessions.turns import fields
from .answers import Item, Rendering
from .filters import ARRAYS, MILLISECONDS, SKILL_ARRAYS, compiled, session_asked
from .requests import (
    AddRequest,
    ContentItem,
    DeleteRequest,
    FilterNode,
    FlushRequest,
    GetRequest,
    JobsRequest,
    MessageItem,
    Placed,
    SearchRequest,
    UpdateRequest,
)

MODES: dict[str, Mode] = {"keyword": "keyword", "vector": "semantic", "hybrid": "hybrid", "agentic": "hybrid"}
DEFAULT_EPISODES, DEFAULT_OTHERS = 20, 10  # what top_k -1 stands for
KINDS = {"episode": Kind.EPISODE, "profile": Kind.PROFILE, "agent_case": Kind.CASE, "agent_skill": Kind.SKILL}
PLURALS = {"episode": "episodes", "profile": "profiles", "agent_case": "agent_cases", "agent_skill": "agent_skills"}
FORGOTTEN = {
    "messages": Kind.TURN, "episodes": Kind.EPISODE, "atomic_facts": Kind.FACT, "profiles": Kind.PROFILE,
    "agent_cases": Kind.CASE, "agent_skills": Kind.SKILL,
}  # fmt: skip
TYPES = {Kind.FACT: "atomic_fact", **{kind: name for name, kind in KINDS.items()}}
EDITABLE = {
    Kind.EPISODE: ("subject", "summary", "episode"),
    Kind.FACT: ("content",),
    Kind.CASE: ("task_intent", "approach", "key_insight", "quality_score"),
    Kind.SKILL: ("name", "description", "content", "confidence"),
}
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)


class Unsupported(Exception):
    """A piece of content that cannot be read here."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its data, its status, and what a client should know about how it came about."""

    data: Item
    status: int = 200
    notes: tuple[str, ...] = ()
    """What was asked for and not done."""
    degraded: str | None = None
    """Why an answer may be incomplete for the moment."""


@dataclass(slots=True)
class Verbs:
    """What the API can do, on one store."""

    conversations: Conversations
    zone: tzinfo
    defer: Callable[[Place, str, int], str]
    """Takes down that a session is to be carved later; the job's id."""
    show: Rendering = field(init=False)

    def __post_init__(self) -> None:
        self.show = Rendering(self.zone)

    @property
    def engine(self) -> Engine:
        """The memory."""
        return self.conversations.engine

    def add(self, asked: AddRequest) -> Reply:
        """Keep messages, and carve what they finish."""
        place, messages = _place(asked), [_message(item, n) for n, item in enumerate(asked.messages)]
        count: Item = {"message_count": len(messages)}
        if asked.async_mode:
            self.conversations.append(place, asked.session_id, messages)
            job = self.defer(place, asked.session_id, len(messages))
            return Reply({**count, "status": "queued", "job_id": job}, 202)
        carved = self.conversations.add(place, asked.session_id, messages)
        return Reply({**count, "status": "extracted" if carved else "accumulated"})

    def flush(self, asked: FlushRequest) -> Reply:
        """Carve all that a session holds."""
        carved = self.conversations.carve(_place(asked), asked.session_id, whole=True)
        return Reply({"status": "extracted" if carved else "no_extraction"})

    def search(self, asked: SearchRequest) -> Reply:
        """Find what answers a query, among what is remembered of a user or by an agent."""
        place, engine = _place(asked), self.engine
        data: Item = {"episodes": [], "profiles": [], "agent_cases": [], "agent_skills": [], "unprocessed_messages": []}
        if asked.method == "vector" and engine.embedder() is None:
            raise Invalid("method", "'vector' needs a model: run `cofio model install`, or search by 'keyword'")
        answers: list[Answer] = []
        if asked.user_id is not None:
            home = place.owner("user", asked.user_id)
            answers.append(episodes(engine, home, self._asked(asked, DEFAULT_EPISODES)))
            data["episodes"] = [self.show.found_episode(found) for found in answers[0].found]
            if asked.include_profile and (profile := engine.get(home, "profile", kind=Kind.PROFILE)) is not None:
                data["profiles"] = [{**self.show.profile(profile), "score": None}]
            if asked.include_unprocessed:
                answers.append(waiting(engine, place, asked.user_id, self._asked(asked, DEFAULT_OTHERS)))
                hits = answers[1].found
                data["message_hits"] = [{**self.show.message(hit.record), "score": hit.score} for hit in hits]
        elif asked.agent_id is not None:
            home = place.owner("agent", asked.agent_id)
            for name, kind, show in (
                ("agent_cases", Kind.CASE, self.show.case),
                ("agent_skills", Kind.SKILL, self.show.skill),
            ):
                answers.append(of_agent(engine, home, kind, self._asked(asked, DEFAULT_OTHERS, kind)))
                data[name] = [{**show(found.record), "score": found.score} for found in answers[-1].found]
        session = session_asked(_node(asked.filters))
        if session is not None:
            data["unprocessed_messages"] = [*map(self.show.message, self.conversations.buffered(place, session))]
        degraded = dict.fromkeys(answer.degraded for answer in answers if answer.degraded)
        return Reply(data, notes=_notes(asked), degraded="; ".join(degraded) or None)

    def _asked(self, asked: SearchRequest, most: int, kind: Kind = Kind.EPISODE) -> Asked:
        # By default what neither its words nor its meaning speak for is left out; a number that was asked for is given.
        limit = most if asked.top_k == -1 else asked.top_k
        floor = self.engine.settings.floor if asked.top_k == -1 and asked.radius is None else 0.0
        return Asked(
            text=asked.query, mode=MODES[asked.method], limit=limit, floor=floor,
            radius=asked.radius, filter=_filter(asked.filters, self.zone, kind),
        )  # fmt: skip

    def get(self, asked: GetRequest) -> Reply:
        """List an owner's records of one kind."""
        track: Track = "user" if asked.user_id is not None else "agent"
        home = _place(asked).owner(track, asked.user_id or asked.agent_id or "")
        kinds = (KINDS[asked.memory_type],)
        wanted = _filter(asked.filters, self.zone, *kinds)
        timeless = asked.memory_type in ("profile", "agent_skill")
        records = self.engine.list(
            home, exact=True, kinds=kinds, filter=wanted, limit=asked.page_size,
            offset=(asked.page - 1) * asked.page_size, newest=asked.sort_order == "desc",
            order="changed" if timeless or asked.sort_by == "updated_at" else "created",
        )  # fmt: skip
        data: Item = {plural: [] for plural in PLURALS.values()}
        data[PLURALS[asked.memory_type]] = [self.show.of(record) for record in records]
        total = self.engine.count(home, exact=True, kinds=kinds, filter=wanted)
        return Reply({**data, "total_count": total, "count": len(records)})

    def delete(self, asked: DeleteRequest) -> Reply:
        """Forget, with everything made of it."""
        place, forget = _place(asked), self.conversations.forgetting
        if asked.id is not None:
            gone = forget.memory(place, asked.id)
        elif asked.session_id is not None:
            gone = forget.session(place, asked.session_id)
        elif asked.all:
            gone = forget.everything(place)
        else:
            track: Track = "user" if asked.user_id is not None else "agent"
            kinds = () if asked.memory_type is None else (KINDS[asked.memory_type],)
            gone = forget.owner(place, track, asked.user_id or asked.agent_id or "", kinds)
        return Reply({name: gone[kind] for name, kind in FORGOTTEN.items()})

    def update(self, asked: UpdateRequest) -> Reply:
        """Put a record right by hand; what is extracted later leaves a person's words alone."""
        place = _place(asked)
        if asked.user_id is not None and asked.profile_data is not None:
            home = place.owner("user", asked.user_id)
            old = self.engine.get(home, "profile", kind=Kind.PROFILE)
            if old is None:
                raise NotFound(asked.user_id)
            return self._changed(profile_put(home, asked.profile_data, old.version))
        name = named(asked.id or "")
        found = name and self.engine.get(place.owner(name.track, name.owner), name.key, kind=name.kind)
        if not found:
            raise NotFound(asked.id or "")
        # A null stands for what is not given, but for an insight, which a case need not have.
        named_fields = asked.model_dump(exclude_unset=True, exclude={"id", "app_id", "project_id"})
        given = {name: value for name, value in named_fields.items() if value is not None or name == "key_insight"}
        for field_name in given:
            if field_name not in EDITABLE[found.kind]:
                takes = ", ".join(EDITABLE[found.kind])
                raise Invalid(field_name, f"is not part of this record; it takes {takes}")
            if given[field_name] is None and field_name != "key_insight":
                raise Invalid(field_name, "cannot be null")
        if not given:
            raise Invalid("update", f"nothing is to change; it takes {', '.join(EDITABLE[found.kind])}")
        return self._changed(Edit(id=found.id, fields=_edited(found, given), if_version=found.version))

    def _changed(self, change: Change) -> Reply:
        (record,) = self.engine.apply([change])
        assert isinstance(record, Record)
        item = self.show.of(record)
        return Reply({"id": item["id"], "memory_type": TYPES[record.kind], "item": item})

    def jobs(self, asked: JobsRequest) -> Reply:
        """Say how deferred work is getting on."""
        home = _place(asked).scope / "job"
        if asked.job_id is not None:
            found = self.engine.get(home, asked.job_id, kind=Kind.LEDGER)
            if found is None:
                raise NotFound(asked.job_id)
            return Reply({"jobs": [self.show.job(found)], "total_count": 1, "count": 1})
        wanted = None if asked.status is None else Where("data.status", "=", asked.status)
        listed = self.engine.list(
            home, exact=True, kinds=(Kind.LEDGER,), filter=wanted, order="created",
            limit=asked.page_size, offset=(asked.page - 1) * asked.page_size,
        )  # fmt: skip
        total = self.engine.count(home, exact=True, kinds=(Kind.LEDGER,), filter=wanted)
        return Reply({"jobs": [*map(self.show.job, listed)], "total_count": total, "count": len(listed)})


def _place(asked: Placed) -> Place:
    return Place(app=asked.app_id, project=asked.project_id)


def _filter(filters: FilterNode | None, zone: tzinfo, kind: Kind) -> Filter | None:
    return compiled(_node(filters), zone, SKILL_ARRAYS if kind is Kind.SKILL else ARRAYS)


def _node(filters: FilterNode | None) -> dict[str, Any]:
    return {} if filters is None else filters.model_dump(exclude_none=True)


def _notes(asked: SearchRequest) -> tuple[str, ...]:
    notes = []
    if asked.method == "agentic":
        notes.append("method 'agentic' was answered as 'hybrid'")
    if asked.enable_llm_rerank:
        notes.append("enable_llm_rerank was ignored: there is no model here that could do it")
    return tuple(notes)


def _message(item: MessageItem, index: int) -> Message:
    milliseconds = item.timestamp if item.timestamp >= MILLISECONDS else item.timestamp * 1000
    if milliseconds >= _LATEST.timestamp() * 1000:
        raise Invalid(f"messages.{index}.timestamp", "is after the year 9998; send milliseconds since 1970")
    calls = item.tool_calls or []
    text, content = (item.content, None) if isinstance(item.content, str) else _text(item.content)
    return Message(
        id=item.message_id or "", sender=item.sender_id, name=item.sender_name or None, role=item.role,
        at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds), text=text,
        calls=tuple(Call(id=each.id, name=each.function.name, arguments=each.function.arguments) for each in calls),
        answers=item.tool_call_id, content=content,
    )  # fmt: skip


def _text(items: Sequence[ContentItem]) -> tuple[str, Json]:
    """What a message says in its items, and the items as they were sent."""
    for item in items:
        if item.type != "text":
            raise Unsupported(f"content of type {item.type!r} cannot be read here: send what it says as text")
    return "\n".join(item.text or "" for item in items), [item.model_dump(exclude_none=True) for item in items]


def _edited(record: Record, given: dict[str, Any]) -> dict[str, object]:
    """The fields of a record that a person's words change."""
    before = cast("list[str]", fields(record).get("edited") or [])
    edited: list[Json] = [*sorted({*before, *given})]
    data: dict[str, Json] = {**fields(record), "edited": edited}
    if record.kind is Kind.FACT:
        return {"data": data, "text": given["content"]}
    if record.kind is Kind.EPISODE:
        data["summary"] = given.get("summary") or data["summary"]
        title, text = given.get("subject") or record.title, given.get("episode") or record.text
        return {"data": data, "title": title, "text": text}
    data |= {name: value for name, value in given.items() if name != "name"}
    if record.kind is Kind.CASE:
        text = "\n".join(str(part) for part in (data["approach"], data["key_insight"]) if part)
        return {"data": data, "title": data["task_intent"], "text": text}
    return {"data": data, "title": given.get("name") or record.title, "text": skill_text(data)}
