"""The threads: LangGraph's and the library's, with their checkpoints, and the difference between two states."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ...checkpoints.checkpoints import MAX_NAME, Checkpoint, Checkpoints
from ...engine.engine import Engine
from ...values.errors import Invalid, NotFound
from ...values.records import Json, check_text
from .packed_values import read_state
from .state_differences import StateChange, compare_states, render_value
from .view_types import OFFSET, Parameter, View, ViewRequest, make_link

SPACES: Final = {"langgraph": "LangGraph", "library": "Library"}
"""Whose threads there are, and what they are called."""
PAGE = 30
MAX_OFFSET = 5_000
LONGEST_STATE = 60_000  # characters of a state that are shown
REFUSAL = "Threads belong to no app, so a token that is limited to one does not see them."


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEntry:
    """A thread in the list."""

    space: str
    name: str
    link: str
    saved_at: datetime
    step: str
    """How far it is, as its metadata says; empty if that does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """A checkpoint in the list of its thread."""

    id: str
    ns: str
    """The part of the thread that it is of; empty for the thread itself."""
    parent: str
    created_at: datetime
    metadata: dict[str, Json]
    summary: str
    """Its metadata in a line."""
    link: str
    """Where its state is shown, beside the one before it."""
    is_current: bool
    is_base: bool
    """Whether it is the one that the current one is compared with."""
    compare_link: str
    """Where the current one is compared with this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadsModel:
    """The threads of one space, or one thread with its checkpoints."""

    refusal: str = ""
    """Why nothing is shown, in a sentence; empty if something may be."""
    space: str = ""
    spaces: dict[str, str] = field(default_factory=lambda: dict(SPACES))
    query: str = ""
    threads: tuple[ThreadEntry, ...] = ()
    thread: str = ""
    checkpoints: tuple[CheckpointEntry, ...] = ()
    offset: int = 0
    before: str = ""
    next: str = ""
    current: str = ""
    """The id of the checkpoint whose state is shown."""
    base: str = ""
    """The id of the one that it is compared with; empty if there is none."""
    changes: tuple[StateChange, ...] = ()
    state: str = ""
    is_state_cut: bool = False


def build_threads(request: ViewRequest) -> ThreadsModel:
    """The threads of a space, or one of them."""
    if request.viewer.reach.names:
        return ThreadsModel(refusal=REFUSAL)
    checkpoints = request.engine.checkpoints
    space = request.get("space") or _find_space(request.engine)
    if space not in SPACES:
        raise Invalid("space", f"{space!r} is not one of {', '.join(SPACES)}")
    offset = request.get_int("offset", 0, 0, MAX_OFFSET)
    thread = request.get("thread")
    if not thread:
        return _list_threads(checkpoints, space, request.get("q"), offset)
    check_text("thread", thread, MAX_NAME)
    return _show_thread(checkpoints, space, thread, request, offset)


def _list_threads(checkpoints: Checkpoints, space: str, query: str, offset: int) -> ThreadsModel:
    names = checkpoints.threads(space, limit=offset + PAGE + 1, pattern=f"*{_quote(query)}*" if query else "*")
    entries = []
    for name in names[offset : offset + PAGE]:
        newest = checkpoints.list(space, name, limit=1)
        if newest:
            entries.append(
                ThreadEntry(
                    space=space, name=name, link=make_link("threads", space=space, thread=name),
                    saved_at=newest[0].created_at, step=_summarize(newest[0].metadata),
                )
            )  # fmt: skip
    state = {"space": space, "q": query}
    return ThreadsModel(
        space=space, query=query, threads=tuple(entries), offset=offset,
        before=make_link("threads", **state, offset=max(0, offset - PAGE) or None) if offset else "",
        next=make_link("threads", **state, offset=offset + PAGE) if len(names) > offset + PAGE else "",
    )  # fmt: skip


def _show_thread(checkpoints: Checkpoints, space: str, thread: str, request: ViewRequest, offset: int) -> ThreadsModel:
    by_id = space == "langgraph"  # whose ids are in the order of time, also where a copy brought them
    listed = checkpoints.list(space, thread, by_id=by_id, limit=offset + PAGE + 1)
    if not listed:
        raise NotFound(thread)
    shown = listed[offset : offset + PAGE]
    ns = request.get("ns") if request.get("id") else (shown or listed)[0].ns
    current = checkpoints.load(space, thread, request.get("id") or (shown or listed)[0].id, ns=ns, shared=True)
    if current is None:
        raise NotFound(request.get("id"))
    base = _find_base(checkpoints, space, current, listed, request.get("with"))
    state = read_state(current.state)
    text = render_state(state)
    here: dict[str, object] = {"space": space, "thread": thread}
    entries = tuple(
        CheckpointEntry(
            id=each.id, ns=each.ns, parent=each.parent or "", created_at=each.created_at, metadata=each.metadata,
            summary=_summarize(each.metadata), is_current=(each.id, each.ns) == (current.id, current.ns),
            is_base=base is not None and each.id == base.id and each.ns == current.ns,
            link=make_link("threads", **here, id=each.id, ns=each.ns, offset=offset or None),
            compare_link=make_link(
                "threads", **here, id=current.id, ns=current.ns, **{"with": each.id}, offset=offset or None
            ) if each.ns == current.ns and each.id != current.id else "",
        )
        for each in shown
    )  # fmt: skip
    return ThreadsModel(
        space=space, thread=thread, checkpoints=entries, offset=offset, current=current.id,
        base="" if base is None else base.id,
        changes=() if base is None else compare_states(read_state(base.state), state),
        state=text[:LONGEST_STATE], is_state_cut=len(text) > LONGEST_STATE,
        before=make_link("threads", **here, offset=max(0, offset - PAGE) or None) if offset else "",
        next=make_link("threads", **here, offset=offset + PAGE) if len(listed) > offset + PAGE else "",
    )  # fmt: skip


def render_state(state: Json) -> str:
    """A state as JSON in lines."""
    return json.dumps(state, ensure_ascii=False, indent=2)


def _find_base(
    checkpoints: Checkpoints, space: str, current: Checkpoint, listed: Sequence[Checkpoint], wanted: str
) -> Checkpoint | None:
    """The checkpoint that another is compared with: the one that was asked for, else its parent, else the one before.

    Raises:
        NotFound: there is none with the id that was asked for.
    """
    if wanted:
        found = checkpoints.load(space, current.thread, wanted, ns=current.ns, shared=True)
        if found is None:
            raise NotFound(wanted)
        return found
    if current.parent is not None:
        found = checkpoints.load(space, current.thread, current.parent, ns=current.ns, shared=True)
        if found is not None:
            return found
    same_part = [each.id for each in listed if each.ns == current.ns]
    if current.id not in same_part[:-1]:
        return None
    before = same_part[same_part.index(current.id) + 1]
    return checkpoints.load(space, current.thread, before, ns=current.ns, shared=True)


def _find_space(engine: Engine) -> str:
    """The space that is shown first: the first that has a thread."""
    return next((space for space in SPACES if engine.checkpoints.threads(space, limit=1)), "langgraph")


def _summarize(metadata: dict[str, Json]) -> str:
    """What metadata says that is short."""
    parts = [
        f"{name} {value}" for name, value in metadata.items() if isinstance(value, str | int | float) and value != ""
    ]
    return render_value(", ".join(parts))[:160]


def _quote(text: str) -> str:
    """The text for a pattern, in which it stands for itself."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in text)


VIEW = View(
    name="threads",
    title="Threads",
    build=build_threads,
    summary="Show the threads of agents with their checkpoints, and the difference between two states.",
    parameters=(
        Parameter(
            name="space", description="Whose threads: the first that has any if left out.", schema={"enum": [*SPACES]}
        ),
        Parameter(name="q", description="Only threads whose names contain this."),
        Parameter(name="thread", description="The thread whose checkpoints are shown."),
        Parameter(name="id", description="The checkpoint whose state is shown; the newest if left out."),
        Parameter(name="ns", description="The part of the thread that the checkpoint is of."),
        Parameter(name="with", description="The checkpoint that it is compared with; the one before if left out."),
        OFFSET,
    ),
)
