"""The replayed work: sessions in invented repositories, as transcripts that each client would have written."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
FILE, HELD_OUT = DATA / "coding_sessions.txt", DATA / "coding_sessions_held_out.txt"
CLIENTS = ("claude-code", "codex", "gemini", "copilot", "cursor")
"""The clients whose transcripts are lines of a file; OpenCode's are rows of a database."""
CHATTER = 24  # turns of small talk in each session
FIRST_DAY = datetime(2026, 9, 1, 9, tzinfo=UTC)
_ASKS = (
    "Open {file} and tell me what it does.", "Line {n} of {file} looks odd to me.", "Now do the same in {file}.",
    "Go ahead with {file}.", "Compare {file} with its test.", "What calls {name} in {file}?",
    "Move {name} out of {file}.", "Good, next {file}.",
)  # fmt: skip
_ANSWERS = (
    "I read {file}; {name} is the entry point and the rest are small helpers.", "Done, {file} has {n} lines now.",
    "{name} is called from {n} places, mostly in {file}.", "I changed {file} and ran the formatter.",
    "Line {n} is fine: {name} returns early there.", "The test for {file} passes in {n} milliseconds.",
)  # fmt: skip
_NAMES = ("render", "parse", "load", "merge", "apply", "resolve", "collect", "encode", "route", "flush", "split")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A turn: who, what, and what a later prompt is to be reminded of by it, if anything."""

    role: str
    text: str
    later: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of one repository."""

    repository: str
    number: int
    turns: tuple[Said, ...]

    @property
    def id(self) -> str:
        """Its name, in the form that clients give."""
        value = random.Random(f"{self.repository}{self.number}").getrandbits(128)
        text = f"{value:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    @property
    def client(self) -> str:
        """Whose transcript it is."""
        return CLIENTS[self.number % len(CLIENTS)]

    @property
    def begin(self) -> datetime:
        """When it began."""
        return FIRST_DAY + timedelta(days=3 * self.number)


def read_sessions(file: Path = FILE) -> tuple[list[Session], list[str]]:
    """The sessions, each with its small talk, and the prompts that need no reminder."""
    blocks = {part.partition("\n")[0]: part.partition("\n")[2] for part in file.read_text().split("## ")[1:]}
    none = [line for line in blocks.pop("none").splitlines() if line]
    sessions: list[Session] = []
    for repository, text in blocks.items():
        for number, block in enumerate(part for part in text.split("\n\n") if part.strip()):
            turns = [_read_turn(line) for line in block.strip().splitlines()]
            sessions.append(
                Session(repository=repository, number=number, turns=tuple(_talk(repository, number, turns)))
            )
    return sessions, none


def _read_turn(line: str) -> Said:
    said, _, later = line.partition(" | ")
    return Said(role="user" if said[0] == "U" else "assistant", text=said[2:], later=later)


def _talk(repository: str, number: int, turns: list[Said]) -> Iterator[Said]:
    """The turns, with small talk of the repository around them; user and agent take turns."""
    dice = random.Random(f"{repository} {number}")
    for turn in turns:
        for _ in range(CHATTER // (2 * len(turns))):
            yield _chat(dice, _ASKS, "user")
            yield _chat(dice, _ANSWERS, "assistant")
        if turn.role == "assistant":
            yield _chat(dice, _ASKS, "user")
            yield turn
        else:
            yield turn
            yield Said(role="assistant", text="Understood.")


def _chat(dice: random.Random, templates: tuple[str, ...], role: str) -> Said:
    name = dice.choice(_NAMES)
    file = f"src/{dice.choice(_NAMES)}_{dice.choice(_NAMES)}.{dice.choice(('py', 'ts', 'go', 'c', 'rs'))}"
    return Said(role=role, text=dice.choice(templates).format(file=file, name=name, n=dice.randrange(3, 400)))


def write_transcript(session: Session, folder: Path, cwd: Path) -> Path:
    """The transcript of a session as its client would have written it."""
    path = folder / f"rollout-{session.id}.jsonl"
    times = [session.begin + timedelta(seconds=20 * number) for number in range(len(session.turns))]
    lines = _RENDERERS[session.client](session, [*zip(times, session.turns, strict=True)], str(cwd))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


Timed = list[tuple[datetime, Said]]
Line = Mapping[str, object]


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _render_claude(session: Session, turns: Timed, cwd: str) -> Iterator[Line]:
    parent = None
    for number, (at, turn) in enumerate(turns):
        content: object = turn.text if turn.role == "user" else [{"type": "text", "text": turn.text}]
        name = f"{session.id[:24]}{number:012x}"
        yield {
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": cwd, "sessionId": session.id,
            "version": "2.1.197", "type": turn.role, "message": {"role": turn.role, "content": content},
            "uuid": name, "timestamp": _iso(at),
        }  # fmt: skip
        parent = name


def _render_codex(session: Session, turns: Timed, cwd: str) -> Iterator[Line]:
    meta = {"id": session.id, "timestamp": _iso(turns[0][0]), "cwd": cwd, "originator": "codex_cli_rs"}
    yield {"timestamp": _iso(turns[0][0]), "type": "session_meta", "payload": meta}
    for at, turn in turns:
        sort = "input_text" if turn.role == "user" else "output_text"
        payload = {"type": "message", "role": turn.role, "content": [{"type": sort, "text": turn.text}]}
        yield {"timestamp": _iso(at), "type": "response_item", "payload": payload}


def _render_gemini(session: Session, turns: Timed, cwd: str) -> Iterator[Line]:
    yield {"sessionId": session.id, "projectHash": "0" * 64, "startTime": _iso(turns[0][0]), "kind": "main"}
    for number, (at, turn) in enumerate(turns):
        sort = "user" if turn.role == "user" else "gemini"
        yield {"id": f"{session.id}-{number}", "timestamp": _iso(at), "type": sort, "content": turn.text}


def _render_copilot(session: Session, turns: Timed, cwd: str) -> Iterator[Line]:
    context = {"cwd": cwd, "gitRoot": cwd}
    begin = {"sessionId": session.id, "version": 1, "producer": "copilot-agent", "context": context}
    yield {"type": "session.start", "id": "0", "timestamp": _iso(turns[0][0]), "data": begin}
    for number, (at, turn) in enumerate(turns, 1):
        data = {"messageId": f"m{number}", "content": turn.text}
        yield {"type": f"{turn.role}.message", "id": str(number), "timestamp": _iso(at), "data": data}


def _render_cursor(session: Session, turns: Timed, cwd: str) -> Iterator[Line]:
    for at, turn in turns:
        yield {
            "role": turn.role, "timestamp": _iso(at), "message": {"content": [{"type": "text", "text": turn.text}]}
        }  # fmt: skip


_RENDERERS = {
    "claude-code": _render_claude, "codex": _render_codex, "gemini": _render_gemini, "copilot": _render_copilot,
    "cursor": _render_cursor,
}  # fmt: skip
