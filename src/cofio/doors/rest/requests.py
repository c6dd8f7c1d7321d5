"""What clients may send: the bodies of the API, and the texts of what is wrong with one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator
from typing_extensions import TypeAliasType

from ...values.query import MAX_QUERY
from ...values.records import MAX_AUTHOR, MAX_KEY, MAX_TEXT
from .filters import MAX_SESSION

MAX_MESSAGES = 500
MAX_CALLS = 200
MAX_ITEMS = 200
CHARSET = "^[a-zA-Z0-9_.@+-]+$"


def _refuse_dots(name: str) -> str:
    if name in (".", ".."):
        raise ValueError("'.' and '..' are reserved (path traversal)")
    return name


# Types with names of their own are described once, wherever they stand.
Name = TypeAliasType(
    "Name",
    Annotated[
        str,
        StringConstraints(min_length=1, max_length=128, pattern=CHARSET),
        AfterValidator(_refuse_dots),
        Field(description="A name: 1 to 128 of the letters a-z and A-Z, digits and _ . @ + -, but not . or .. alone."),
    ],
)
SessionName = TypeAliasType(
    "SessionName",
    Annotated[
        str,
        StringConstraints(min_length=1, max_length=MAX_SESSION),
        Field(description=f"A session's name: 1 to {MAX_SESSION} characters of any kind."),
    ],
)
Identity = Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]


class _Loose(BaseModel):
    """A body in which what is not known is passed over, as the reference does when it writes."""

    model_config = ConfigDict(extra="ignore")


class _Strict(BaseModel):
    """A body in which nothing may be left that is not known."""

    model_config = ConfigDict(extra="forbid")


class ProjectRequest(BaseModel):
    """Whose memory is meant: an app's, and in it a project's."""

    app_id: Name = "default"
    project_id: Name = "default"


class ToolFunction(_Loose):
    """The function that is called, and its arguments as JSON text."""

    name: Annotated[str, StringConstraints(max_length=MAX_KEY)]
    arguments: Text


class ToolCall(_Loose):
    """A tool call that an assistant made."""

    id: Annotated[str, StringConstraints(max_length=MAX_KEY)]
    type: str = "function"
    function: ToolFunction


class ContentItem(_Strict):
    """A piece of a message that has several."""

    type: Literal["text", "image", "audio", "doc", "pdf", "html", "email"]
    text: Text | None = None
    uri: str | None = None
    base64: str | None = None
    ext: str | None = None
    name: str | None = None
    extras: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_payload(self) -> ContentItem:
        if self.type == "text" and self.text is None:
            raise ValueError("text is required when type is 'text'")
        if sum(each is not None for each in (self.text, self.uri, self.base64)) > 1:
            raise ValueError("text, uri and base64 are mutually exclusive")
        return self


class MessageItem(_Loose):
    """One turn of a conversation."""

    sender_id: Name
    sender_name: Annotated[str, StringConstraints(max_length=MAX_AUTHOR)] | None = None
    role: Literal["user", "assistant", "tool"]
    timestamp: Annotated[int, Field(gt=0)]
    content: str | list[ContentItem]
    tool_calls: Annotated[list[ToolCall], Field(max_length=MAX_CALLS)] | None = None
    tool_call_id: Annotated[str, StringConstraints(max_length=MAX_KEY)] | None = None
    message_id: Identity | None = Field(
        default=None, description="The client's own id for the message: sent twice, it is kept once."
    )

    @model_validator(mode="after")
    def _check_tool_result(self) -> MessageItem:
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("tool_call_id is required when role is 'tool'")
        if len(self.content) > (MAX_TEXT if isinstance(self.content, str) else MAX_ITEMS):
            raise ValueError(f"content is longer than {MAX_TEXT:,} characters or {MAX_ITEMS} items")
        return self


class AddRequest(ProjectRequest, _Loose):
    """Messages for a session."""

    session_id: SessionName
    messages: Annotated[list[MessageItem], Field(min_length=1, max_length=MAX_MESSAGES)]
    defer_extraction: bool = Field(
        default=False, description="Only keep the messages: no memory is made of them before a flush, or a quiet time."
    )
    async_mode: bool = Field(
        default=False,
        description="Answer with 202 as soon as the messages are kept, and make memory of them afterwards: see /tasks.",
    )


class FlushRequest(ProjectRequest, _Loose):
    """The session that is to be carved now."""

    session_id: SessionName


class FilterNode(BaseModel):
    """A tree of conditions: AND, OR, and the names of fields."""

    model_config = ConfigDict(extra="allow")
    AND: list[FilterNode] | None = None
    OR: list[FilterNode] | None = None


class _OwnerRequest(ProjectRequest):
    user_id: Name | None = None
    agent_id: Name | None = None

    @model_validator(mode="after")
    def _check_owner(self) -> _OwnerRequest:
        if (self.user_id is None) == (self.agent_id is None):
            raise ValueError("exactly one of user_id / agent_id must be provided")
        return self


class SearchRequest(_OwnerRequest, _Strict):
    """What is looked for, and in whose memory."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY)]
    method: Literal["keyword", "vector", "hybrid", "agentic", "llm_multiround"] = "hybrid"
    top_k: int = Field(default=-1, description="-1 for the server's defaults, or 1 to 100.")
    radius: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    include_profile: bool = False
    enable_llm_rerank: bool = False
    filters: FilterNode | None = None
    include_unprocessed: bool = Field(
        default=False, description="Look through messages of which no memory is made yet, too: `message_hits`."
    )

    @model_validator(mode="after")
    def _check_top_k(self) -> SearchRequest:
        if self.top_k != -1 and not 1 <= self.top_k <= 100:
            raise ValueError("top_k must be -1 or in 1..100")
        return self


MemoryType = Literal["episode", "profile", "agent_case", "agent_skill"]
USER_TYPES = ("episode", "profile", "atomic_fact")


class GetRequest(_OwnerRequest, _Strict):
    """Which records of an owner are listed."""

    memory_type: Literal[MemoryType, "atomic_fact"]
    page: Annotated[int, Field(ge=1, le=2**31)] = 1
    page_size: Annotated[int, Field(ge=1, le=100)] = 20
    sort_by: Literal["timestamp", "updated_at"] = "timestamp"
    sort_order: Literal["asc", "desc"] = "desc"
    filters: FilterNode | None = None

    @model_validator(mode="after")
    def _check_memory_type(self) -> GetRequest:
        owner = "user_id" if self.user_id is not None else "agent_id"
        if (self.memory_type in USER_TYPES) != (owner == "user_id"):
            raise ValueError(f"memory_type {self.memory_type!r} is not valid when {owner} is set")
        return self


class DeleteRequest(ProjectRequest, _Strict):
    """What is to be forgotten: one of these."""

    id: Identity | None = Field(default=None, description="An episode, fact, case or skill, or a waiting message.")
    session_id: SessionName | None = None
    user_id: Name | None = None
    agent_id: Name | None = None
    memory_type: MemoryType | None = Field(default=None, description="With an owner: only records of this type.")
    all: bool = Field(default=False, description="Everything of this app and project.")

    @model_validator(mode="after")
    def _check_target(self) -> DeleteRequest:
        targets = (self.id, self.session_id, self.user_id, self.agent_id, self.all or None)
        if sum(each is not None for each in targets) != 1:
            raise ValueError("exactly one of id / session_id / user_id / agent_id / all must be provided")
        if self.memory_type is not None:
            owner = "user_id" if self.memory_type in USER_TYPES else "agent_id"
            if (self.user_id if owner == "user_id" else self.agent_id) is None:
                raise ValueError(f"memory_type {self.memory_type!r} is only valid when {owner} is set")
        return self


class UpdateRequest(ProjectRequest, _Strict):
    """A record that is put right by hand: its id, or the user whose profile it is, and what is to change."""

    id: Identity | None = None
    user_id: Name | None = None
    subject: Words | None = None
    summary: Words | None = None
    episode: Words | None = None
    content: Words | None = None
    task_intent: Words | None = None
    approach: Words | None = None
    key_insight: Text | None = None
    quality_score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    name: Words | None = None
    description: Words | None = None
    confidence: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    profile_data: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_record(self) -> UpdateRequest:
        if (self.id is None) == (self.user_id is None):
            raise ValueError("exactly one of id / user_id must be provided")
        if (self.user_id is None) != (self.profile_data is None):
            raise ValueError("user_id and profile_data go together")
        return self


class TaskRequest(_Strict):
    """Which request that was answered with 202 is asked about."""

    task_id: Identity


class TasksRequest(ProjectRequest, _Strict):
    """Which requests that were answered with 202 are asked about."""

    session_id: SessionName | None = None
    status: Literal["queued", "processing", "success", "failed"] | None = None
    page: Annotated[int, Field(ge=1, le=2**31)] = 1
    page_size: Annotated[int, Field(ge=1)] = 20

    @field_validator("page_size")
    @classmethod
    def _check_page(cls, size: int) -> int:
        return min(size, 100)


class TriggerRequest(_Loose):
    """A strategy that is to be run now."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY)]
    timeout: float = 120.0
    force: bool = False


class QuiesceRequest(_Loose):
    """Nothing: whatever is sent is passed over."""


class JobsRequest(ProjectRequest, _Strict):
    """Which pieces of deferred work are asked about: one, or all of a page."""

    job_id: Identity | None = None
    status: Literal["queued", "running", "waiting", "done", "failed"] | None = None
    page: Annotated[int, Field(ge=1, le=2**31)] = 1
    page_size: Annotated[int, Field(ge=1, le=100)] = 20
