"""The calls by which other hosts remind their agents: a digest when a session begins and a few memories at a prompt, as
hooks do, and what is known of a user."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ...capture.digest import BUDGET as DIGEST_BUDGET
from ...capture.digest import brief
from ...capture.injections import LEAST_BUDGET, MOST_BUDGET, Injection
from ...capture.recall import BUDGET as PROMPT_BUDGET
from ...capture.recall import MAX_PROMPT, recall, restart
from ...capture.user_context import BUDGET as CONTEXT_BUDGET
from ...capture.user_context import build_context
from ...conversations.projects import Project
from ...values.query import MAX_QUERY
from ...values.records import Scope
from .calls import Call
from .examples import EXAMPLES
from .operations import Operations
from .replies import Caller, Reply
from .requests import Name, ProjectRequest, SessionName

Budget = Annotated[
    int,
    Field(ge=LEAST_BUDGET, le=MOST_BUDGET, description="The tokens that the text may cost."),
]


class BriefRequest(ProjectRequest):
    """What is to be known before anything is asked."""

    model_config = ConfigDict(extra="forbid")

    budget: Budget = DIGEST_BUDGET


class RecallRequest(ProjectRequest):
    """What bears on a prompt."""

    model_config = ConfigDict(extra="forbid")

    session_id: SessionName
    prompt: Annotated[
        str, StringConstraints(max_length=MAX_PROMPT), Field(description="What the user has just written.")
    ]
    budget: Budget = PROMPT_BUDGET
    compacted: bool = Field(
        default=False, description="Whether the agent has lost what it was shown, so that it may be shown again."
    )


class ContextRequest(ProjectRequest):
    """What a model should know of a user before it answers."""

    model_config = ConfigDict(extra="forbid")

    user_id: Name
    query: Annotated[
        str,
        StringConstraints(max_length=MAX_QUERY),
        Field(description="What is asked, if something is, in plain words."),
    ] = ""
    budget: Budget = CONTEXT_BUDGET


class InjectionData(BaseModel):
    """A text to put into an agent's context."""

    text: str = Field(
        description="The memories as a block between two tags; without any it is empty, and that of a context says so."
    )
    tokens: int = Field(
        description="What the text costs a model: a token for four letters of English, or for one of another script."
    )
    record_ids: list[str] = Field(description="The records that it shows.")


def make_digest(operations: Operations, request: BriefRequest, _: Caller) -> Reply:
    """Tell what is of use when a session begins: how the last ones ended, decisions, corrections, preferences."""
    return _reply(brief(operations.engine, [_get_scope(request)], budget=request.budget))


def remind(operations: Operations, request: RecallRequest, _: Caller) -> Reply:
    """Tell the at most three memories that bear on a prompt; none that the session was shown, and none if none does."""
    scopes = [_get_scope(request)]
    if request.compacted:
        restart(operations.engine, scopes, request.session_id)
    return _reply(recall(operations.engine, request.prompt, scopes, session=request.session_id, budget=request.budget))


def tell_context(operations: Operations, request: ContextRequest, _: Caller) -> Reply:
    """Tell what a user has asked of the assistant, what is known of them, and what answers a question, for a prompt."""
    home = Project(app=request.app_id, name=request.project_id).owner("user", request.user_id)
    return _reply(build_context(operations.engine, [home], query=request.query, budget=request.budget))


def _get_scope(request: ProjectRequest) -> Scope:
    return Project(app=request.app_id, name=request.project_id).scope


def _reply(injection: Injection) -> Reply:
    data = {"text": injection.text, "tokens": injection.tokens, "record_ids": [*injection.records]}
    return Reply(data, degraded=injection.degraded)


REMINDER_CALLS = (
    Call(
        name="brief",
        example=EXAMPLES["brief"],
        path="memory/brief",
        takes=BriefRequest,
        writes=False,
        does=make_digest,
        gives={200: InjectionData},
    ),
    Call(
        name="recall",
        example=EXAMPLES["recall"],
        path="memory/recall",
        takes=RecallRequest,
        writes=True,
        does=remind,
        gives={200: InjectionData},
    ),
    Call(
        name="context",
        example=EXAMPLES["context"],
        path="memory/context",
        takes=ContextRequest,
        writes=False,
        does=tell_context,
        gives={200: InjectionData},
    ),
)
