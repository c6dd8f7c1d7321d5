"""How to begin: what is connected, what each client needs to be told, what can be imported, and an example to try."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...http.errors import RequestError
from ...importers import agent_memory_store, everos
from ...values.errors import Unavailable
from ..example_memory import ExampleMemory
from .list_entries import VISIBLE, hide_internal, name_door
from .view_types import Action, Outcome, View, ViewRequest

RECENT = 100  # records that say who has written lately


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A door that something has come in by lately, and when the last thing did."""

    door: str
    authors: tuple[str, ...]
    count: int
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """What a client needs to be told, to be copied."""

    id: str
    name: str
    where: str
    """Where it goes: a terminal, or a file."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """Memory of another program, and the command that takes it over."""

    name: str
    command: str
    is_here: bool
    """Whether there is some on this machine, as far as one can see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartModel:
    """What a reader needs to begin."""

    is_empty: bool
    has_example: bool
    address: str
    writers: tuple[Writer, ...]
    clients: tuple[Snippet, ...]
    apps: tuple[Snippet, ...]
    imports: tuple[ImportSource, ...]
    meaning: str
    """Whether meaning is searched, too, or why not."""


def is_empty(request: ViewRequest) -> bool:
    """Whether the viewer has nothing yet that a search could find."""
    return not request.engine.headings(request.viewer.reach, kinds=VISIBLE, limit=1)


def build_start(request: ViewRequest) -> StartModel:
    """What a reader needs to begin."""
    is_whole = not request.viewer.reach.names
    return StartModel(
        is_empty=is_empty(request), has_example=is_whole and ExampleMemory(request.conversations).is_here,
        address=request.address,
        writers=_list_writers(request), clients=_list_clients(request), apps=_list_apps(request),
        imports=_list_imports() if is_whole else (),
        meaning="" if request.engine.expects_vectors else "only words are searched here: there is no model",
    )  # fmt: skip


def _list_writers(request: ViewRequest) -> tuple[Writer, ...]:
    """Who has written lately, the last one first."""
    reach = request.viewer.reach
    records = request.engine.list(reach, kinds=VISIBLE, filter=hide_internal(reach), limit=RECENT)
    by_source: dict[str, Writer] = {}
    for record in records:
        known = by_source.get(record.source)
        authors = dict.fromkeys([*(known.authors if known else ()), *([record.author] if record.author else [])])
        by_source[record.source] = Writer(
            door=name_door(record.source), authors=tuple(authors)[:4], count=(known.count if known else 0) + 1,
            last=known.last if known else record.updated_at,
        )  # fmt: skip
    return tuple(by_source.values())


def _list_clients(request: ViewRequest) -> tuple[Snippet, ...]:
    url = f"{request.address}/mcp"
    header = ' --header "Authorization: Bearer TOKEN"' if request.viewer.token is not None else ""
    headers = {"headers": {"Authorization": "Bearer TOKEN"}} if header else {}
    codex = f'[mcp_servers.cofio]\nurl = "{url}"' + ('\nbearer_token_env_var = "MEMORY_TOKEN"' if header else "")
    return (
        Snippet(
            id="claude-code", name="Claude Code", where="In a terminal, in your project",
            text=f"claude mcp add --transport http{header} cofio {url}",
        ),
        Snippet(
            id="cursor", name="Cursor", where="In .cursor/mcp.json",
            text=_render({"mcpServers": {"cofio": {"url": url, **headers}}}),
        ),
        Snippet(
            id="vscode", name="VS Code", where="In .vscode/mcp.json",
            text=_render({"servers": {"cofio": {"type": "http", "url": url, **headers}}}),
        ),
        Snippet(id="codex", name="Codex", where="In ~/.codex/config.toml", text=codex),
        Snippet(
            id="opencode", name="opencode", where="In opencode.json",
            text=_render({"mcp": {"cofio": {"type": "remote", "url": url, "enabled": True, **headers}}}),
        ),
        Snippet(
            id="claude-desktop", name="Claude Desktop", where="In a terminal, in the folder of this memory",
            text="cofio mcp config claude-desktop --write",
        ),
        Snippet(
            id="skill", name="Any agent with skills", where="In a terminal, in your project: when to read and to write",
            text="cofio skill install",
        ),
    )  # fmt: skip


def _list_apps(request: ViewRequest) -> tuple[Snippet, ...]:
    token = " -H 'Authorization: Bearer TOKEN'" if request.viewer.token is not None else ""
    message = {"sender_id": "maya", "role": "user", "timestamp": 1779967816, "content": "I moved to Porto in May."}
    return (
        Snippet(
            id="rest", name="Any app, over REST", where="In a terminal",
            text=f"curl {request.address}/api/v2/memory/add{token} -H 'Content-Type: application/json' \\\n"
            f"  -d '{json.dumps({'session_id': 'chat-1', 'messages': [message]})}'",
        ),
        Snippet(
            id="python", name="Python", where="In your program",
            text="from cofio import Engine, Scope\n\nwith Engine.open() as memory:\n"
            '    memory.write(Scope("notes"), text="We deploy on Tuesdays.")\n'
            '    print(memory.search("when do we deploy")[0].record.text)',
        ),
        Snippet(
            id="shell", name="Yourself", where="In a terminal",
            text='cofio add "We deploy on Tuesdays, from main." --title Deploys --tag ops',
        ),
    )  # fmt: skip


def _list_imports() -> tuple[ImportSource, ...]:
    """What can be taken over, with whether it lies where it usually does."""
    peer = Path(os.environ.get("AGENT_STORE_PATH") or ".agent-memory-store").expanduser()
    ever = Path(os.environ.get("EVEROS_MEMORY__ROOT") or "~/.everos").expanduser()
    return (
        ImportSource(
            name="agent-memory-store", command="cofio import agent-memory-store",
            is_here=_is_here(agent_memory_store.has_memory, peer),
        ),
        ImportSource(name="EverOS", command="cofio import everos", is_here=_is_here(everos.has_memory, ever)),
        ImportSource(name="Chats of ChatGPT, Claude and others", command="cofio chat import FILE", is_here=False),
        ImportSource(name="Documents: PDF, office, web pages", command="cofio documents add FILE", is_here=False),
        ImportSource(name="An export of cofio", command="cofio import memory.jsonl.gz", is_here=False),
    )  # fmt: skip


def _is_here(has_memory: Callable[[Path], bool], folder: Path) -> bool:
    try:
        return has_memory(folder)
    except OSError:
        return False


def _render(document: dict[str, object]) -> str:
    return json.dumps(document, indent=2)


def load_example(request: ViewRequest) -> Outcome:
    """Put the example memory in."""
    _check_whole(request)
    try:
        was_new = ExampleMemory(request.conversations).load()
    except Unavailable as error:  # in words for those who may see everything here
        raise RequestError(409, str(error)) from None
    message = (
        "The example is here: an invented team that rents out boats." if was_new else "The example was here already."
    )
    return Outcome(location="/?q=what+can+jonas+not+eat", message=message)


def remove_example(request: ViewRequest) -> Outcome:
    """Take the example memory away."""
    _check_whole(request)
    try:
        removal = ExampleMemory(request.conversations).remove()
    except Unavailable as error:
        raise RequestError(409, str(error)) from None
    left = f" {removal.left:,} that others put beside it stayed." if removal.left else ""
    return Outcome(location="/page/start", message=f"The example is gone: {removal.removed:,} records.{left}")


def _check_whole(request: ViewRequest) -> None:
    if request.viewer.reach.names:
        raise RequestError(403, "this token is limited to a part of the memory, and the example is not in it")


VIEW = View(
    name="start", title="Start", build=build_start,
    summary="Show what is connected, what each client needs to be told, and what can be imported.",
)  # fmt: skip

ACTIONS: tuple[Action, ...] = (
    Action(name="start/example", run=load_example, summary="Load the example memory."),
    Action(name="start/remove-example", run=remove_example, summary="Take the example memory away."),
)
