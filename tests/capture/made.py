"""Transcripts as each client writes them, made of a script: what a user says, what the agent says, what it runs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
SESSION = "11111111-2222-4333-8444-555555555555"


class Step(NamedTuple):
    """One step of a script."""

    kind: Literal["user", "say", "run"]
    text: str
    result: str = ""
    failed: bool = False
    tool: str = "Bash"
    given: dict[str, Any] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What the tool was called with."""
        return {"command": self.text} if self.given is None else self.given


def user(text: str) -> Step:
    """The user says something."""
    return Step("user", text)


def say(text: str) -> Step:
    """The agent says something."""
    return Step("say", text)


def run(command: str, result: str = "ok", *, failed: bool = False) -> Step:
    """The agent runs a command."""
    return Step("run", command, result, failed)


def use(tool: str, result: str = "ok", **given: Any) -> Step:
    """The agent uses another tool."""
    return Step("run", tool, result, False, tool, given)


def stamp(number: int) -> str:
    """The time of a step."""
    return (START + timedelta(seconds=10 * number)).isoformat().replace("+00:00", "Z")


def make_claude_code(steps: Sequence[Step], cwd: str, session: str = SESSION, first: int = 0) -> list[dict[str, Any]]:
    """The records of Claude Code 2.1."""
    records: list[dict[str, Any]] = []

    def add(kind: str, number: float, content: Any, **more: Any) -> None:
        records.append(
            {
                "parentUuid": None, "isSidechain": False, "type": kind, "message": {"role": kind, "content": content},
                "uuid": f"{session[:8]}-{number}", "timestamp": stamp(int(number)), "userType": "external", "cwd": cwd,
                "sessionId": session, "version": "2.1.197", "gitBranch": "main", **more,
            }
        )  # fmt: skip

    for number, step in enumerate(steps, first):
        if step.kind == "user":
            add("user", number, step.text)
        elif step.kind == "say":
            add("assistant", number, [{"type": "text", "text": step.text}])
        else:
            call = f"toolu_{session[:4]}{number}"
            add("assistant", number, [{"type": "tool_use", "id": call, "name": step.tool, "input": step.arguments}])
            answer = {"type": "tool_result", "tool_use_id": call, "content": step.result, "is_error": step.failed}
            add("user", number + 0.5, [answer], toolUseResult={"stdout": step.result})
    return records


def make_codex(steps: Sequence[Step], cwd: str, session: str = SESSION, first: int = 0) -> list[dict[str, Any]]:
    """The records of Codex 0.169."""
    records: list[dict[str, Any]] = []

    def add(number: int, kind: str, **payload: Any) -> None:
        records.append({"timestamp": stamp(number), "ordinal": len(records), "type": kind, "payload": payload})

    if not first:
        add(0, "session_meta", id=session, cwd=cwd, cli_version="0.169.0", source="cli", git={"branch": "main"})
        add(0, "event_msg", type="task_started")
        context = [{"type": "input_text", "text": f"<environment_context>\n  <cwd>{cwd}</cwd>\n</environment_context>"}]
        add(0, "response_item", type="message", id="msg_context", role="user", content=context)
    for number, step in enumerate(steps, first):
        name = f"{session[:4]}{number}"
        if step.kind == "run":
            arguments = json.dumps(step.arguments)
            add(number, "response_item", type="function_call", name=step.tool, call_id=name, arguments=arguments)
            code = 1 if step.failed else 0
            output = f"Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n{step.result}"
            add(number, "event_msg", type="item_completed", item={"type": "CommandExecution"})
            add(number, "response_item", type="function_call_output", call_id=name, output=output)
        else:
            role, kind = ("user", "input_text") if step.kind == "user" else ("assistant", "output_text")
            content = [{"type": kind, "text": step.text}]
            add(number, "response_item", type="message", id=f"msg_{name}", role=role, content=content)
    return records


def make_gemini(steps: Sequence[Step], cwd: str, session: str = SESSION, first: int = 0) -> list[dict[str, Any]]:
    """The records of Gemini CLI 0.61."""
    records: list[dict[str, Any]] = []
    if not first:
        records.append({"sessionId": session, "projectHash": "boats", "startTime": stamp(0), "directories": [cwd]})
    for number, step in enumerate(steps, first):
        identity = f"{session[:4]}-{number}"
        message: dict[str, Any] = {"id": identity, "timestamp": stamp(number)}
        if step.kind == "user":
            records.append(message | {"type": "user", "content": [{"text": step.text}]})
        elif step.kind == "say":
            records.append(message | {"type": "gemini", "content": step.text, "thoughts": []})
        else:
            # It is written when the call begins, and again when it has ended.
            call = {"id": f"c{number}", "name": step.tool, "args": step.arguments, "timestamp": stamp(number)}
            records.append(message | {"type": "gemini", "content": "", "toolCalls": [call | {"status": "executing"}]})
            field = "error" if step.failed else "output"
            result = [{"functionResponse": {"id": "x", "name": step.tool, "response": {field: step.result}}}]
            done = call | {"status": "error" if step.failed else "success", "result": result}
            records.append(message | {"type": "gemini", "content": "", "toolCalls": [done]})
        records.append({"$set": {"lastUpdated": stamp(number)}})
    return records


def make_copilot(steps: Sequence[Step], cwd: str, session: str = SESSION, first: int = 0) -> list[dict[str, Any]]:
    """The events of Copilot CLI 1.0."""
    records: list[dict[str, Any]] = []

    def add(kind: str, number: float, **data: Any) -> None:
        identity = f"{session[:4]}-{number}-{kind}"
        records.append({"type": kind, "data": data, "id": identity, "timestamp": stamp(int(number)), "parentId": None})

    if not first:
        add("session.start", 0, sessionId=session, version=1, context={"cwd": cwd, "branch": "main"})
    for number, step in enumerate(steps, first):
        if step.kind == "user":
            add("user.message", number, content=step.text, attachments=[])
        elif step.kind == "say":
            add("assistant.message", number, messageId=f"m{number}", content=step.text, toolRequests=[])
        else:
            call = f"call{session[:4]}{number}"
            asked = [{"toolCallId": call, "name": step.tool, "arguments": step.arguments}]
            add("assistant.message", number, messageId=f"m{number}", content="", toolRequests=asked)
            add("tool.execution_start", number, toolCallId=call, toolName=step.tool, arguments=step.arguments)
            result = {"error": {"message": step.result}} if step.failed else {"result": {"content": step.result}}
            add("tool.execution_complete", number, toolCallId=call, success=not step.failed, **result)
    return records


def make_cursor(steps: Sequence[Step], cwd: str, session: str = SESSION, first: int = 0) -> list[dict[str, Any]]:
    """The lines of a transcript of Cursor's agent."""
    records: list[dict[str, Any]] = []
    for number, step in enumerate(steps, first):
        if step.kind == "user":
            text = f"<user_query>\n{step.text}\n</user_query>"
            records.append({"role": "user", "message": {"content": [{"type": "text", "text": text}]}})
        elif step.kind == "say":
            records.append({"role": "assistant", "message": {"content": [{"type": "text", "text": step.text}]}})
        else:
            call = f"c{session[:4]}{number}"
            asked = {"type": "tool_use", "id": call, "name": step.tool, "input": step.arguments}
            answer = {"type": "tool_result", "tool_use_id": call, "content": step.result, "is_error": step.failed}
            records.append({"role": "assistant", "message": {"content": [asked]}})
            records.append({"role": "user", "message": {"content": [answer]}})
    return records


Make = Callable[..., list[dict[str, Any]]]
MAKERS: dict[str, Make] = {
    "claude-code": make_claude_code,
    "codex": make_codex,
    "gemini": make_gemini,
    "copilot": make_copilot,
    "cursor": make_cursor,
}
"""How each client that writes lines writes them."""


FILES = {
    "claude-code": ".claude/projects/-work-boats/{0}.jsonl",
    "codex": ".codex/sessions/2026/03/01/rollout-2026-03-01T09-00-00-{0}.jsonl",
    "gemini": ".gemini/tmp/boats/chats/session-2026-03-01T09-00-{0:.8}.jsonl",
    "copilot": ".copilot/session-state/{0}/events.jsonl",
    "cursor": ".cursor/projects/work-boats/agent-transcripts/{0}/{0}.jsonl",
}


def find_file(client: str, home: Path, session: str = SESSION) -> Path:
    """Where a client keeps a session's transcript."""
    return home / FILES[client].format(session)


def write_lines(path: Path, records: Sequence[dict[str, Any]], *, append: bool = False) -> Path:
    """Write records as lines of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if append else "w") as file:
        file.writelines(json.dumps(each) + "\n" for each in records)
    return path


def write_transcript(
    client: str, home: Path, steps: Sequence[Step], cwd: Path, session: str = SESSION, first: int = 0
) -> Path:
    """Write a client's transcript, or go on with it after the `first` steps; its path."""
    if client == "opencode":
        return write_opencode(home, steps, cwd, session, first)
    path = find_file(client, home, session)
    if client == "cursor":  # which notes the folder beside the transcripts
        trust = path.parents[2] / ".workspace-trusted"
        trust.parent.mkdir(parents=True, exist_ok=True)
        trust.write_text(json.dumps({"trustedAt": stamp(0), "workspacePath": str(cwd)}))
    return write_lines(path, MAKERS[client](steps, str(cwd), session, first), append=first > 0)


def write_opencode(
    home: Path, steps: Sequence[Step], cwd: Path, session: str = SESSION, first: int = 0, parent: str | None = None
) -> Path:
    """Write a session into the database of OpenCode 1.18."""
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    start = round(START.timestamp() * 1000)
    with sqlite3.connect(path) as rows:
        times = "time_created integer NOT NULL, time_updated integer NOT NULL"
        rows.executescript(
            f"""CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, parent_id text, directory text NOT NULL,
            {times});
            CREATE TABLE IF NOT EXISTS message (id text PRIMARY KEY, session_id text NOT NULL, {times}, data text);
            CREATE TABLE IF NOT EXISTS part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
            {times}, data text);"""
        )
        end = start + 10_000 * (first + len(steps))
        rows.execute(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET time_updated = ?",
            (session, parent, str(cwd), start, end, end),
        )
        for number, step in enumerate(steps, first):
            at, name = start + 10_000 * number, f"{session[:4]}_{number:04}"
            role = "user" if step.kind == "user" else "assistant"
            message = json.dumps({"role": role, "time": {"created": at, "completed": at + 5}})
            rows.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (f"msg_{name}", session, at, at, message))
            part: dict[str, Any] = {"type": "text", "text": step.text}
            if step.kind == "run":
                state = {"status": "completed", "input": step.arguments, "output": step.result, "time": {"start": at}}
                state["metadata"] = {"exit": 1 if step.failed else 0}
                part = {"type": "tool", "tool": step.tool, "callID": f"call_{name}", "state": state}
            values = (f"prt_{name}", f"msg_{name}", session, at, at, json.dumps(part))
            rows.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", values)
    rows.close()
    return path
