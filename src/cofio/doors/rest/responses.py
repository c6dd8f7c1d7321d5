"""What clients get: the answers of the API as models, and records in their words."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any, Literal, cast

from pydantic import BaseModel, Field

from ...conversations.message_records import decode_message, fields
from ...conversations.projects import public_id
from ...conversations.retrieval import MemoryHit
from ...values.query import Hit
from ...values.records import Json, Kind, Record
from ...values.times import from_millis
from .replies import Data


class AddData(BaseModel):
    """What became of messages."""

    message_count: int
    status: Literal["accumulated", "extracted"]


class QueuedData(BaseModel):
    """A request that is carried out later; its id is that of a task."""

    status: Literal["queued"]
    message_count: int
    pending: int


class FlushData(BaseModel):
    """What became of a session."""

    status: Literal["extracted", "no_extraction"]


class _ProjectItem(BaseModel):
    id: str
    app_id: str
    project_id: str


class GetEpisodeItem(_ProjectItem):
    """A stretch of conversation."""

    user_id: str | None
    session_id: str
    timestamp: str
    sender_ids: list[str]
    summary: str
    subject: str
    episode: str
    type: Literal["Conversation"]


class SearchAtomicFactItem(BaseModel):
    """One thing that was said: a fact, or the message that its episode was found by."""

    id: str = Field(description="Of the fact; or of the message, as it came, where no fact tells all that it says.")
    content: str
    score: float
    superseded_by: str = Field(
        default="", description="The id of the fact or message of the user that says something newer on this; if any."
    )
    current_since: str = Field(default="", description="When that was said; only with `superseded_by`.")


class GetAtomicFactItem(_ProjectItem):
    """One thing that was said, in a list."""

    user_id: str
    session_id: str
    timestamp: str
    sender_ids: list[str]
    parent_type: str
    parent_id: str
    content: str


class SearchEpisodeItem(GetEpisodeItem):
    """An episode that answers a query, with those of its facts that do."""

    score: float
    atomic_facts: list[SearchAtomicFactItem]


class GetProfileItem(_ProjectItem):
    """What is known of a user."""

    user_id: str | None
    profile_data: dict[str, Any]


class SearchProfileItem(GetProfileItem):
    """A profile beside the hits of a search; it is not ranked."""

    score: float | None


class GetAgentCaseItem(_ProjectItem):
    """What an agent was asked to do, and how it went about it."""

    agent_id: str
    session_id: str
    task_intent: str
    approach: str
    quality_score: float
    key_insight: str | None
    timestamp: str


class SearchAgentCaseItem(GetAgentCaseItem):
    """A case that answers a query."""

    score: float


class GetAgentSkillItem(_ProjectItem):
    """How an agent does a kind of task."""

    agent_id: str
    name: str
    description: str
    content: str
    confidence: float
    maturity_score: float
    source_case_ids: list[str]


class SearchAgentSkillItem(GetAgentSkillItem):
    """A skill that answers a query."""

    score: float


class UnprocessedMessageDTO(_ProjectItem):
    """A message that has not been carved yet."""

    session_id: str
    sender_id: str
    sender_name: str | None
    role: Literal["user", "assistant", "tool"]
    content: str | list[dict[str, Any]]
    timestamp: str
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None


class MessageHit(UnprocessedMessageDTO):
    """A message that has not been carved yet, and answers a query."""

    score: float


class SearchData(BaseModel):
    """The hits of a search, by kind."""

    episodes: list[SearchEpisodeItem]
    profiles: list[SearchProfileItem]
    agent_cases: list[SearchAgentCaseItem]
    agent_skills: list[SearchAgentSkillItem]
    unprocessed_messages: list[UnprocessedMessageDTO]
    message_hits: list[MessageHit] = Field(default=[], description="Only with `include_unprocessed`.")


class GetData(BaseModel):
    """A page of records."""

    episodes: list[GetEpisodeItem]
    profiles: list[GetProfileItem]
    agent_cases: list[GetAgentCaseItem]
    agent_skills: list[GetAgentSkillItem]
    atomic_facts: list[GetAtomicFactItem] = Field(default=[], description="Only with `memory_type` `atomic_fact`.")
    total_count: int
    count: int


class DeleteData(BaseModel):
    """How much was forgotten."""

    messages: int
    episodes: int
    atomic_facts: int
    profiles: int
    agent_cases: int
    agent_skills: int


class UpdateData(BaseModel):
    """The record as it is now."""

    id: str
    memory_type: Literal["episode", "atomic_fact", "profile", "agent_case", "agent_skill"]
    item: dict[str, Any]


class JobItem(BaseModel):
    """A piece of deferred work."""

    job_id: str
    status: Literal["queued", "running", "waiting", "done", "failed"]
    session_id: str
    message_count: int
    result: Literal["accumulated", "extracted", "no_extraction", "refined", "left as it is"] | None
    error: str | None
    created_at: str
    updated_at: str


class JobsData(BaseModel):
    """A page of jobs, the newest first."""

    jobs: list[JobItem]
    total_count: int
    count: int


class TaskItem(BaseModel):
    """A request that was answered with 202."""

    id: str
    status: Literal["queued", "processing", "success", "failed"]
    task_type: Literal["memory_add", "memory_flush"]
    error: str | None
    error_code: str | None
    created_at: str
    finished_at: str | None


class TaskPage(BaseModel):
    """A page of such requests, the newest first."""

    total: int
    page: int
    page_size: int
    items: list[TaskItem]


class TriggerData(BaseModel):
    """What came of a strategy that was to be run."""

    status: Literal["not_dispatched"]
    name: str
    dispatched: int
    runs: list[dict[str, Any]]


class QuiesceData(BaseModel):
    """What was waited for."""

    quiesced: bool
    drained: int
    pending_before: int
    pending_after: int
    failed_permanent: int


def render_time(at: datetime, zone: tzinfo) -> str:
    """A time as clients see it: in their zone, with its offset, which is Z for UTC."""
    if zone is UTC or str(zone) == "UTC":
        return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return at.astimezone(zone).isoformat()


class ResponseRenderer:
    """Records as the API shows them."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def render_episode(self, record: Record) -> Data:
        """An episode in a list."""
        data = fields(record)
        return {
            **_render_owner(record, "user_id"),
            "session_id": data["session_id"],
            "timestamp": self._render_timestamp(data),
            "sender_ids": list(cast("dict[str, Json]", data["senders"])),
            "summary": data["summary"],
            "subject": record.title,
            "episode": record.text,
            "type": "Conversation",
        }

    def render_fact(self, record: Record) -> Data:
        """A fact by itself."""
        return {"id": public_id(record), "content": record.text}

    def render_listed_fact(self, record: Record) -> Data:
        """A fact in a list: when it was said, and in which stretch."""
        data = fields(record)
        return {
            **_render_owner(record, "user_id"),
            "session_id": data["session_id"],
            "timestamp": render_time(record.created_at, self._zone),
            "sender_ids": list(cast("dict[str, Json]", data["senders"])),
            "parent_type": data["parent_type"],
            "parent_id": data["parent_id"],
            "content": record.text,
        }

    def render_found_episode(self, episode: MemoryHit) -> Data:
        """An episode among the hits of a search."""
        facts = [
            {**self._render_part(hit.record), "score": hit.score, **self._render_successor(hit)}
            for hit in episode.facts
        ]
        return {**self.render_episode(episode.record), "score": episode.score, "atomic_facts": facts}

    def _render_part(self, record: Record) -> Data:
        """A fact, or a message in the words in which facts quote."""
        if record.kind is not Kind.TURN:
            return self.render_fact(record)
        return {"id": fields(record)["message_id"], "content": f'{record.author} said: "{record.text}"'}

    def _render_successor(self, hit: Hit) -> Data:
        """What says something newer than a hit, and since when; nothing for most."""
        if hit.superseded_by is None or hit.superseded_at is None:
            return {}
        since = render_time(hit.superseded_at, self._zone)
        return {"superseded_by": hit.superseded_by, "current_since": since}

    def render_profile(self, record: Record) -> Data:
        """A profile, whose id is its user's."""
        return {**_render_owner(record, "user_id"), "id": record.scope.names[-1], "profile_data": record.data}

    def render_case(self, record: Record) -> Data:
        """A case."""
        data = fields(record)
        names = ("session_id", "task_intent", "approach", "quality_score", "key_insight")
        return {
            **_render_owner(record, "agent_id"),
            **{name: data[name] for name in names},
            "timestamp": self._render_timestamp(data),
        }

    def render_skill(self, record: Record) -> Data:
        """A skill."""
        data = fields(record)
        return {
            **_render_owner(record, "agent_id"),
            "name": record.title,
            "description": data["description"],
            "content": data["content"],
            "confidence": data["confidence"],
            "maturity_score": data["maturity"],
            "source_case_ids": data["source_case_ids"],
        }

    def render_message(self, record: Record) -> Data:
        """A message that waits."""
        message = decode_message(record)
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
        _, app, project, _, session = record.scope.names
        return {
            "id": message.id,
            "app_id": app,
            "project_id": project,
            "session_id": session,
            "sender_id": message.sender,
            "sender_name": message.name,
            "role": message.role,
            "content": message.text if message.content is None else message.content,
            "timestamp": render_time(message.at, self._zone),
            "tool_calls": calls or None,
            "tool_call_id": message.answers,
        }

    def render_job(self, record: Record) -> Data:
        """A job."""
        return {
            "job_id": record.key,
            **{name: fields(record)[name] for name in ("status", "session_id", "message_count", "result", "error")},
            "created_at": render_time(record.created_at, self._zone),
            "updated_at": render_time(record.updated_at, self._zone),
        }

    def render_task(self, record: Record) -> Data:
        """A request that was answered with 202."""
        data = fields(record)
        status = {"running": "processing", "done": "success"}.get(str(data["status"]), data["status"])
        is_finished = status in ("success", "failed")
        return {
            "id": record.key,
            "status": status,
            "task_type": data["task"],
            "error": data["error"],
            "error_code": data["error_code"],
            "created_at": render_time(record.created_at, self._zone),
            "finished_at": render_time(record.updated_at, self._zone) if is_finished else None,
        }

    def render(self, record: Record) -> Data:
        """A record of any kind."""
        return {
            Kind.EPISODE: self.render_episode, Kind.FACT: self.render_fact, Kind.PROFILE: self.render_profile,
            Kind.CASE: self.render_case, Kind.SKILL: self.render_skill,
        }[record.kind](record)  # fmt: skip

    def _render_timestamp(self, data: Any) -> str:
        return render_time(from_millis(data["at"]), self._zone)


def _render_owner(record: Record, owner: str) -> Data:
    _, app, project, _, name = record.scope.names
    return {"id": public_id(record), owner: name, "app_id": app, "project_id": project}
