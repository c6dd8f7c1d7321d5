"""Every call of the API. Whatever is added here is served under each version, and described."""

from __future__ import annotations

from . import responses
from .calls import Call, read_nothing, read_query
from .examples import EXAMPLES
from .knowledge import KNOWLEDGE_CALLS
from .operations import Operations
from .reminders import REMINDER_CALLS
from .requests import (
    AddRequest,
    DeleteRequest,
    FlushRequest,
    GetRequest,
    JobsRequest,
    QuiesceRequest,
    SearchRequest,
    TaskRequest,
    TasksRequest,
    TriggerRequest,
    UpdateRequest,
)

CALLS = (
    Call(
        name="add",
        example=EXAMPLES["add"],
        path="memory/add",
        takes=AddRequest,
        writes=True,
        does=Operations.add,
        gives={200: responses.AddData, 202: responses.QueuedData},
    ),
    Call(
        name="flush",
        example=EXAMPLES["flush"],
        path="memory/flush",
        takes=FlushRequest,
        writes=True,
        does=Operations.flush,
        gives={200: responses.FlushData, 202: responses.QueuedData},
    ),
    Call(
        name="search",
        example=EXAMPLES["search"],
        path="memory/search",
        takes=SearchRequest,
        writes=False,
        does=Operations.search,
        gives={200: responses.SearchData},
    ),
    Call(
        name="get",
        example=EXAMPLES["get"],
        path="memory/get",
        takes=GetRequest,
        writes=False,
        does=Operations.get,
        gives={200: responses.GetData},
    ),
    Call(
        name="delete",
        example=EXAMPLES["delete"],
        path="memory/delete",
        takes=DeleteRequest,
        writes=True,
        does=Operations.delete,
        gives={200: responses.DeleteData},
    ),
    Call(
        name="update",
        example=EXAMPLES["update"],
        path="memory/update",
        takes=UpdateRequest,
        writes=True,
        does=Operations.update,
        gives={200: responses.UpdateData},
    ),
    Call(
        name="jobs",
        example=EXAMPLES["jobs"],
        path="memory/jobs",
        takes=JobsRequest,
        writes=False,
        does=Operations.jobs,
        gives={200: responses.JobsData},
    ),
    Call(
        name="tasks",
        example=EXAMPLES["tasks"],
        path="tasks",
        method="GET",
        reads=read_query,
        takes=TasksRequest,
        writes=False,
        does=Operations.tasks,
        gives={200: responses.TaskPage},
    ),
    Call(
        name="task",
        example=EXAMPLES["task"],
        path="tasks/{task_id}",
        method="GET",
        reads=read_query,
        takes=TaskRequest,
        writes=False,
        does=Operations.task,
        gives={200: responses.TaskItem},
    ),
    Call(
        name="trigger",
        example=EXAMPLES["trigger"],
        path="ome/trigger",
        takes=TriggerRequest,
        writes=False,
        does=Operations.trigger,
        bare=True,
        gives={200: responses.TriggerData},
    ),
    Call(
        name="quiesce",
        example=EXAMPLES["quiesce"],
        path="cascade/quiesce",
        reads=read_nothing,
        takes=QuiesceRequest,
        writes=False,
        does=Operations.quiesce,
        bare=True,
        gives={200: responses.QuiesceData},
    ),
    *REMINDER_CALLS,
    *KNOWLEDGE_CALLS,
)
