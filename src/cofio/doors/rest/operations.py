"""The calls of the API, from a checked request to its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, cast

from ...content import ContentReader, Item
from ...conversations import tasks
from ...conversations.conversations import TASK, Conversations, Project, TasksWait, make_line
from ...conversations.edits import EDITABLE, apply_edit, apply_profile_edit
from ...conversations.projects import Track, parse_public_id
from ...conversations.retrieval import MemoryHit, MemoryQuery, is_waiting, search_agent, search_episodes, search_waiting
from ...conversations.rounds import Search, rerank, search_in_rounds
from ...conversations.stretches import REFINE, make_profile_put
from ...conversations.tasks import (
    RETENTION,
    TASK_TYPES,
    get_project,
    make_record_id,
    make_task,
    sum_usage,
    wait_until_refined,
)
from ...engine.engine import Engine
from ...engine.jobs import count_jobs, list_jobs
from ...extract.admission import admit_messages
from ...extract.extractor import Call, Message
from ...http.admission import RETRY_AFTER_SECONDS
from ...http.errors import RequestError
from ...secrets.policy import admit
from ...values.changes import Change, Edit
from ...values.errors import Invalid, NotFound, Unavailable
from ...values.query import MAX_LIST, AllOf, Filter, Mode, Where
from ...values.records import Json, Kind, Record, Scope
from ...values.times import from_millis
from .assistant import Assistant
from .filters import ARRAYS, MILLISECONDS, SKILL_ARRAYS, compile_filter, find_session
from .replies import Caller, Data, Reply
from .requests import (
    AddRequest,
    ContentItem,
    DeleteRequest,
    FilterNode,
    FlushRequest,
    GetRequest,
    JobsRequest,
    MessageItem,
    ProjectRequest,
    QuiesceRequest,
    SearchRequest,
    TaskRequest,
    TasksRequest,
    TriggerRequest,
    UpdateRequest,
)
from .responses import ResponseRenderer

ROUNDS = ("agentic", "llm_multiround")  # methods that search several times
MODES: dict[str, Mode] = {"keyword": "keyword", "vector": "semantic", **dict.fromkeys(("hybrid", *ROUNDS), "hybrid")}
DEFAULT_EPISODES, DEFAULT_OTHERS = 20, 10  # what top_k -1 stands for
KINDS = {"episode": Kind.EPISODE, "profile": Kind.PROFILE, "agent_case": Kind.CASE, "agent_skill": Kind.SKILL}
PLURALS = {"episode": "episodes", "profile": "profiles", "agent_case": "agent_cases", "agent_skill": "agent_skills"}
FORGOTTEN = {
    "messages": Kind.TURN, "episodes": Kind.EPISODE, "atomic_facts": Kind.FACT, "profiles": Kind.PROFILE,
    "agent_cases": Kind.CASE, "agent_skills": Kind.SKILL,
}  # fmt: skip
HIT_LISTS = ("episodes", "message_hits", "agent_cases", "agent_skills")
"""What answers a query, rather than goes with it."""
LISTABLE = {**KINDS, "atomic_fact": Kind.FACT}
TYPES = {kind: name for name, kind in LISTABLE.items()}
WAITS = (
    "messages of this user are waiting to become memory, and were not searched: flush their session, or search them,"
    " too, with include_unprocessed"
)
FAR = "nothing was near enough; with `top_k` the nearest are given"
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Operations:
    """What the API can do, on one store."""

    conversations: Conversations
    zone: tzinfo
    wake: Callable[[], None]
    """Called when there is a new job."""
    assistant: Assistant | None = None
    content_reader: ContentReader = field(default_factory=ContentReader)
    is_stopping: bool = False
    renderer: ResponseRenderer = field(init=False)

    def __post_init__(self) -> None:
        self.renderer = ResponseRenderer(self.zone)

    @property
    def engine(self) -> Engine:
        """The memory."""
        return self.conversations.engine

    def add(self, request: AddRequest, caller: Caller) -> Reply:
        """Keep messages of a session. A stretch of the conversation that they bring to an end becomes memory."""
        project, session = _get_project(request), request.session_id
        messages = self._read_messages(request.messages)
        count: Data = {"message_count": len(messages)}
        if not request.async_mode:
            with suppress(TasksWait):  # else it would overtake what was accepted before it
                carved = self.conversations.add(project, session, messages, defers=request.defer_extraction)
                if carved and self.assistant is not None:
                    self.wake()  # the model is not waited for here
                return Reply({**count, "status": "extracted" if carved else "accumulated"})
        ahead = self._check_room(project, session)
        task = make_task(
            project, session, caller.request_id, "memory_add", messages=len(messages), defers=request.defer_extraction
        )
        self.conversations.append(project, session, messages, also=[task])
        self.wake()
        return Reply({"status": "queued", **count, "pending": ahead + 1}, 202)

    def _check_room(self, project: Project, session: str) -> int:
        """Return how many tasks of a session are not finished. Raises RequestError if there is no room for another."""
        ahead = count_jobs(self.engine, TASK, make_line(project, session))
        in_project = count_jobs(self.engine, TASK, Scope(project.app, project.name))
        for waiting, most, of in (
            (ahead, tasks.MAX_SESSION_TASKS, " of this session"),
            (in_project, tasks.MAX_PROJECT_TASKS, " of this project"),
            (count_jobs(self.engine, TASK), tasks.MAX_TASKS, ""),
        ):
            if waiting >= most:
                raise RequestError(
                    429,
                    f"{most} requests{of} are waiting already, so this was not accepted; send it again in a moment",
                    code="QUEUE_SATURATED",
                    headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
                )
        return ahead

    def _read_messages(self, items: Sequence[MessageItem]) -> Sequence[Message]:
        """Messages with what their content says, all of which is read before anything is kept; secrets are masked."""
        pieces = [
            Item(**piece.model_dump()) for item in items if not isinstance(item.content, str) for piece in item.content
        ]
        texts = iter(self.content_reader.read_items(pieces) if pieces else ())
        messages = [_make_message(item, number, texts) for number, item in enumerate(items)]
        return admit_messages("rest", messages, allow=self.engine.settings.allow_secrets)

    def flush(self, request: FlushRequest, caller: Caller) -> Reply:
        """Make memory of all the messages that wait in a session."""
        project, session = _get_project(request), request.session_id
        if count_jobs(self.engine, TASK, make_line(project, session)):
            return self._queue_flush(project, session, caller)
        carved = self.conversations.carve(project, session, whole=True)
        data: Data = {"status": "extracted" if carved else "no_extraction"}
        if not carved or self.assistant is None:
            return Reply(data)
        self.wake()
        late = wait_until_refined(self.engine, project, session, self.assistant.wait, lambda: self.is_stopping)
        if late is None:
            return Reply(data, usage=sum_usage(self.engine, project, session))
        return Reply(data, notes=(f"these are the rules' records; the model's follow when it can be asked: {late}",))

    def _queue_flush(self, project: Project, session: str, caller: Caller) -> Reply:
        ahead = self._check_room(project, session)
        there = [turn.id for turn in self.conversations.list_waiting(project, session)]
        self.engine.apply([make_task(project, session, caller.request_id, "memory_flush", carves=there)])
        self.wake()
        return Reply({"status": "queued", "message_count": 0, "pending": ahead + 1}, 202)

    def search(self, request: SearchRequest, _: Caller) -> Reply:
        """Find what answers a query, among what is remembered of a user or by an agent."""
        if self.assistant is None:
            return self._search(request)
        with self.assistant.spending.count_usage() as spent:
            return replace(self._search(request), usage=spent())

    def _search(self, request: SearchRequest) -> Reply:
        project, engine = _get_project(request), self.engine
        data: Data = {"episodes": [], "profiles": [], "agent_cases": [], "agent_skills": [], "unprocessed_messages": []}
        if request.method == "vector" and engine.embedder() is None:
            raise Invalid("method", "'vector' needs a model: run `cofio model install`, or search by 'keyword'")
        run = _SearchRun(self, request)
        if request.user_id is not None:
            home = project.owner("user", request.user_id)
            hits = run.search(partial(search_episodes, engine, home), Kind.EPISODE, DEFAULT_EPISODES)
            data["episodes"] = [self.renderer.render_found_episode(each) for each in hits]
            if request.include_profile and (profile := engine.get(home, "profile", kind=Kind.PROFILE)) is not None:
                data["profiles"] = [{**self.renderer.render_profile(profile), "score": None}]
            if request.include_unprocessed:
                answer = search_waiting(engine, project, request.user_id, self.build_query(request, DEFAULT_OTHERS))
                run.degraded.append(answer.degraded)
                run.is_near |= answer.is_near
                waiting = run.drop_below(answer.hits)
                data["message_hits"] = [
                    {**self.renderer.render_message(hit.record), "score": hit.score} for hit in waiting
                ]
            elif not hits and is_waiting(engine, project, request.user_id):
                run.notes.append(WAITS)
        elif request.agent_id is not None:
            home = project.owner("agent", request.agent_id)
            for name, kind, show in (
                ("agent_cases", Kind.CASE, self.renderer.render_case),
                ("agent_skills", Kind.SKILL, self.renderer.render_skill),
            ):
                hits = run.search(partial(search_agent, engine, home, kind), kind, DEFAULT_OTHERS)
                data[name] = [{**show(each.record), "score": each.score} for each in hits]
        session = find_session(_dump_filter(request.filters))
        if session is not None:
            track, owner = _get_owner(request)
            messages = self.conversations.list_waiting_for(project, session, track, owner)
            data["unprocessed_messages"] = [*map(self.renderer.render_message, messages)]
        if run.is_near and not any(data.get(name) for name in HIT_LISTS):
            run.notes.append(FAR)
        degraded = dict.fromkeys(reason for reason in run.degraded if reason)
        return Reply(data, notes=tuple(dict.fromkeys(run.notes)), degraded="; ".join(degraded) or None)

    def build_query(self, request: SearchRequest, most: int, kind: Kind = Kind.EPISODE) -> MemoryQuery:
        """Return what the engine is asked for a request."""
        # By default what neither its words nor its meaning speak for is left out; a number that was asked for is given.
        limit = most if request.top_k == -1 else request.top_k
        floor = None if request.top_k == -1 and request.radius is None else 0.0
        return MemoryQuery(
            text=request.query, mode=MODES[request.method], limit=limit, floor=floor,
            radius=request.radius, filter=_build_filter(request.filters, self.zone, kind),
        )  # fmt: skip

    def get(self, request: GetRequest, _: Caller) -> Reply:
        """List an owner's records of one kind."""
        home = _get_project(request).owner(*_get_owner(request))
        kinds = (LISTABLE[request.memory_type],)
        # All of these have a key: saying so lets them be found among an owner's many messages.
        selection: Filter = Where("key", ">=", "")
        if (narrower := _build_filter(request.filters, self.zone, *kinds)) is not None:
            selection = AllOf(selection, narrower)
        timeless = request.memory_type in ("profile", "agent_skill")
        records = self.engine.list(
            home, exact=True, kinds=kinds, filter=selection, limit=request.page_size,
            offset=(request.page - 1) * request.page_size, newest=request.sort_order == "desc",
            order="changed" if timeless or request.sort_by == "updated_at" else "created",
        )  # fmt: skip
        data: Data = {plural: [] for plural in PLURALS.values()}
        if request.memory_type == "atomic_fact":
            data["atomic_facts"] = [self.renderer.render_listed_fact(record) for record in records]
        else:
            data[PLURALS[request.memory_type]] = [self.renderer.render(record) for record in records]
        total = self.engine.count(home, exact=True, kinds=kinds, filter=selection)
        return Reply({**data, "total_count": total, "count": len(records)})

    def delete(self, request: DeleteRequest, _: Caller) -> Reply:
        """Forget a record, a session, an owner or a whole project, with everything that was made of it."""
        project, deleter = _get_project(request), self.conversations.deleter
        if request.id is not None:
            counts = deleter.delete_memory(project, request.id)
        elif request.session_id is not None:
            counts = deleter.delete_session(project, request.session_id)
        elif request.all:
            counts = deleter.delete_project(project)
        else:
            kinds = () if request.memory_type is None else (KINDS[request.memory_type],)
            counts = deleter.delete_owner(project, *_get_owner(request), kinds)
        return Reply({name: counts[kind] for name, kind in FORGOTTEN.items()})

    def update(self, request: UpdateRequest, _: Caller) -> Reply:
        """Put a record right by hand; what is extracted later leaves a person's words alone."""
        project = _get_project(request)
        if request.user_id is not None and request.profile_data is not None:
            home = project.owner("user", request.user_id)
            old = self.engine.get(home, "profile", kind=Kind.PROFILE)
            if old is None:
                raise NotFound(request.user_id)
            profile = self._admit(request.profile_data)
            return self._apply_change(make_profile_put(home, apply_profile_edit(old, profile), old.version))
        name = parse_public_id(request.id or "")
        record = name and self.engine.get(project.owner(name.track, name.owner), name.key, kind=name.kind)
        if not record:
            raise NotFound(request.id or "")
        # A null stands for what is not given, but for an insight, which a case need not have.
        named_fields = request.model_dump(exclude_unset=True, exclude={"id", "app_id", "project_id"})
        changes = {name: value for name, value in named_fields.items() if value is not None or name == "key_insight"}
        for field_name in changes:
            if field_name not in EDITABLE[record.kind]:
                takes = ", ".join(EDITABLE[record.kind])
                raise Invalid(field_name, f"is not part of this record; it takes {takes}")
        if not changes:
            raise Invalid("update", f"nothing is to change; it takes {', '.join(EDITABLE[record.kind])}")
        return self._apply_change(
            Edit(id=record.id, fields=apply_edit(record, self._admit(changes)), if_version=record.version)
        )

    def _admit(self, fields: Mapping[str, Json]) -> Mapping[str, Json]:
        return admit("rest", fields, allow=self.engine.settings.allow_secrets)

    def _apply_change(self, change: Change) -> Reply:
        (record,) = self.conversations.apply([change])
        assert isinstance(record, Record)
        item = self.renderer.render(record)
        return Reply({"id": item["id"], "memory_type": TYPES[record.kind], "item": item})

    def jobs(self, request: JobsRequest, _: Caller) -> Reply:
        """Say how deferred work is getting on: requests that were answered with 202, and the model's part."""
        if request.job_id is not None:
            job = self._find_job(_get_project(request), request.job_id)
            return Reply({"jobs": [self.renderer.render_job(job)], "total_count": 1, "count": 1})
        selection = None if request.status is None else Where("data.status", "=", request.status)
        records, total = self._list_jobs(_get_project(request), selection, request.page, request.page_size)
        return Reply({"jobs": [*map(self.renderer.render_job, records)], "total_count": total, "count": len(records)})

    def _find_job(self, project: Project, job: str) -> Record:
        record = next((each for each in self._list_unfinished(project) if each.key == job), None)
        if record is None:  # looked for last where it goes when it is finished
            record = self.engine.get(project.scope / "job", job, kind=Kind.LEDGER)
        if record is None or get_project(record) != project:
            raise NotFound(job)
        return record

    def _list_jobs(self, project: Project, selection: Filter | None, page: int, size: int) -> tuple[list[Record], int]:
        home, kinds = project.scope / "job", (Kind.LEDGER,)
        waiting = self._list_unfinished(project, selection)
        limit = min(MAX_LIST, page * size)
        records = [*waiting, *self.engine.list(home, kinds=kinds, filter=selection, order="created", limit=limit)]
        records.sort(key=lambda record: record.created_at, reverse=True)
        total = len(waiting) + self.engine.count(home, kinds=kinds, filter=selection)
        return records[(page - 1) * size : page * size], total

    def _list_unfinished(self, project: Project, selection: Filter | None = None) -> list[Record]:
        line = Scope(project.app, project.name)
        return [job for kind in (TASK, REFINE) for job in list_jobs(self.engine, kind, line, filter=selection)]

    def task(self, request: TaskRequest, caller: Caller) -> Reply:
        """Say how a request that was answered with 202 is getting on."""
        absence = RequestError(404, f"no task has the id {request.task_id!r}; tasks are kept for {RETENTION.days} days")
        try:
            record = self.engine.read(make_record_id(request.task_id))
        except (Invalid, NotFound) as error:
            raise absence from error
        project = get_project(record)
        # To a token that may not see the task, it does not exist.
        if caller.token and caller.token.find_refusal(app=project.app, project=project.name, writes=False):
            raise absence
        return Reply(self.renderer.render_task(record))

    def tasks(self, request: TasksRequest, _: Caller) -> Reply:
        """List requests that were answered with 202, the newest first."""
        conditions: list[Filter] = [Where("data.task", "in", TASK_TYPES)]
        if request.session_id is not None:
            conditions.append(Where("data.session_id", "=", request.session_id))
        if request.status is not None:
            status = {"processing": "running", "success": "done"}.get(request.status, request.status)
            conditions.append(Where("data.status", "=", status))
        records, total = self._list_jobs(_get_project(request), AllOf(*conditions), request.page, request.page_size)
        items = [*map(self.renderer.render_task, records)]
        return Reply({"total": total, "page": request.page, "page_size": request.page_size, "items": items})

    def trigger(self, request: TriggerRequest, _: Caller) -> Reply:
        """Run a strategy of the engine behind the memory. There are none here: what they do is done as it comes in."""
        return Reply({"status": "not_dispatched", "name": request.name, "dispatched": 0, "runs": []})

    def quiesce(self, request: QuiesceRequest, _: Caller) -> Reply:
        """Wait until what was written can be found. Here it can be at once: nothing is ever pending."""
        return Reply({"quiesced": True, "drained": 0, "pending_before": 0, "pending_after": 0, "failed_permanent": 0})


class _SearchRun:
    """One request's searches, and what there is to tell about them."""

    def __init__(self, operations: Operations, request: SearchRequest) -> None:
        self._operations = operations
        self._request = request
        self._reader = None if operations.assistant is None else operations.assistant.reader
        self.notes: list[str] = []
        self.degraded: list[str | None] = []
        self.is_near = False

    def search(self, search: Search, kind: Kind, most: int) -> list[MemoryHit]:
        """What a search finds, in as many rounds as were asked for."""
        query = self._operations.build_query(self._request, most, kind)
        if self._request.method in ROUNDS:
            answer, how = search_in_rounds(search, query, self._reader)
            self.notes.append(f"method {self._request.method!r} was answered {how}")
        else:
            answer = search(query)
        self.degraded.append(answer.degraded)
        self.is_near |= answer.is_near
        if self._request.enable_llm_rerank and self._request.method == "hybrid" and kind is not Kind.EPISODE:
            return self.drop_below(self._rerank(answer.hits))
        return self.drop_below(answer.hits)

    def drop_below(self, hits: list[MemoryHit]) -> list[MemoryHit]:
        """Those that score as much as was asked for."""
        least = self._request.min_score
        return hits if least is None else [each for each in hits if each.score >= least]

    def _rerank(self, hits: list[MemoryHit]) -> list[MemoryHit]:
        if self._reader is None:
            self.notes.append("enable_llm_rerank was ignored: there is no model here")
            return hits
        try:
            return rerank(hits, self._request.query, self._reader) if len(hits) > 1 else hits
        except Unavailable as error:
            self.notes.append(f"enable_llm_rerank was ignored: {error}")
            return hits


def _get_project(request: ProjectRequest) -> Project:
    return Project(app=request.app_id, name=request.project_id)


def _get_owner(request: SearchRequest | GetRequest | DeleteRequest) -> tuple[Track, str]:
    """Whose memory is asked for: a user's or an agent's."""
    return ("user", request.user_id) if request.user_id is not None else ("agent", request.agent_id or "")


def _build_filter(filters: FilterNode | None, zone: tzinfo, kind: Kind) -> Filter | None:
    return compile_filter(_dump_filter(filters), zone, SKILL_ARRAYS if kind is Kind.SKILL else ARRAYS)


def _dump_filter(filters: FilterNode | None) -> dict[str, Any]:
    return {} if filters is None else filters.model_dump(exclude_none=True)


def _make_message(item: MessageItem, index: int, texts: Iterator[str]) -> Message:
    milliseconds = item.timestamp if item.timestamp >= MILLISECONDS else item.timestamp * 1000
    if milliseconds >= _LATEST.timestamp() * 1000:
        raise Invalid(f"messages.{index}.timestamp", "is after the year 9998; send milliseconds since 1970")
    calls = item.tool_calls or []
    text, content = (item.content, None) if isinstance(item.content, str) else _join_content(item.content, texts)
    return Message(
        id=item.message_id or "", sender=item.sender_id, name=item.sender_name or None, role=item.role,
        at=from_millis(milliseconds), text=text,
        calls=tuple(Call(id=each.id, name=each.function.name, arguments=each.function.arguments) for each in calls),
        answers=item.tool_call_id, content=content,
    )  # fmt: skip


def _join_content(items: Sequence[ContentItem], texts: Iterator[str]) -> tuple[str, Json]:
    """What a message says in its items, and the items as they were sent, but for documents: what they say is kept."""
    parts, stored = [], []
    for item in items:
        text = next(texts)
        parts.append(text)
        fields = item.model_dump(exclude_none=True, exclude={"base64"})
        stored.append(fields if item.type == "text" else {**fields, "text": text})
    return "\n".join(parts), cast(Json, stored)
