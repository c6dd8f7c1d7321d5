"""How long `cofio transcripts import` takes for months of transcripts, and whether words find them at once.

usage: python -m benchmarks.transcripts [--mb 100] [--busy] [--write]

The transcripts are made here, in Claude Code's and Codex's formats, as real sessions look: prompts of some sentences,
then many tool calls whose results are most of the bytes. The command is run as a user runs it: a process on a new
memory, the vault on. Then it is run again, when nothing is new, and again after each session has grown by one turn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cofio

from .__main__ import RESULTS, machine

MOST = 60.0  # seconds for 100 MB on two cores
REPOSITORIES = ("harbour", "ledger", "orchard", "kiln", "atlas", "meadow")
CALLS = 9  # tool calls of a turn
TURNS = 12  # of a session
_PROMPTS = (
    "The {noun} {verb}s twice when the {other} is empty. Please find out why and fix it.",
    "Add a test for the {noun} which shows that it {verb}s only once.",
    "no, use the {noun} of the {other} package instead",
    "Let's keep the {noun} in PostgreSQL because the {other} needs transactions.",
    "Always run the linter before you {verb} the {noun}.",
    "What does the {noun} do with the {other}? I see a warning in the log of {verb}.",
)
_NOUNS = [
    "parser",
    "queue",
    "cache",
    "index",
    "lock",
    "importer",
    "ledger",
    "renderer",
    "scheduler",
    "router",
    "token",
    "session",
    "vault",
    "worker",
]
_VERBS = ["load", "write", "flush", "retry", "merge", "parse", "render", "import", "validate", "restart"]


@dataclass(slots=True)
class Author:
    """Writes sessions that look like real ones; the same seed writes the same."""

    rng: random.Random
    at: datetime
    number: int = 0

    def words(self, count: int) -> str:
        """So many words."""
        return " ".join(f"{self.rng.choice(_NOUNS)}{self.rng.randrange(400)}" for _ in range(count))

    def prompt(self) -> str:
        """What a user asks for."""
        noun, other = self.rng.sample(_NOUNS, 2)
        return self.rng.choice(_PROMPTS).format(noun=noun, other=other, verb=self.rng.choice(_VERBS))

    def code(self, lines: int) -> str:
        """A part of a source file, as a tool shows it."""
        return "\n".join(
            f"{line:6}→    {self.rng.choice(_VERBS)}_{self.words(1)}(self.{self.rng.choice(_NOUNS)})  # {self.words(5)}"
            for line in range(1, lines)
        )  # fmt: skip

    def stamp(self) -> str:
        """The time of the next record."""
        self.at += timedelta(seconds=self.rng.randrange(1, 20))
        self.number += 1
        return self.at.isoformat().replace("+00:00", "Z")

    def call(self) -> tuple[str, dict[str, str], str, bool]:
        """A tool call: its name, its input, its result, and whether it failed."""
        file = f"/repository/{self.rng.choice(_NOUNS)}.py"
        kind = self.rng.randrange(4)
        if kind == 0:
            failed = self.rng.random() < 0.3
            result = f"Exit code 1\nE   AssertionError: {self.words(6)}\n1 failed" if failed else "12 passed in 0.4s"
            return "Bash", {"command": f"pytest tests/test_{self.rng.choice(_NOUNS)}.py"}, result, failed
        if kind == 1:
            return "Edit", {"file_path": file, "old_string": self.code(8), "new_string": self.code(9)}, "updated", False
        return "Read", {"file_path": file}, self.code(self.rng.randrange(20, 120)), False


def write_claude_code(author: Author, session: str, cwd: str) -> Iterator[dict[str, object]]:
    """The records of a session of Claude Code."""
    for _ in range(TURNS):
        yield from make_turn(author, session, cwd)


def make_turn(author: Author, session: str, cwd: str) -> Iterator[dict[str, object]]:
    """A turn: a prompt, calls with their results, and an answer."""
    usage = {"id": "m", "usage": {"input_tokens": 4, "cache_read_input_tokens": 9_999, "output_tokens": 250}}

    def record(kind: str, content: object, **more: object) -> dict[str, object]:
        stamp = author.stamp()
        return {
            "parentUuid": None, "isSidechain": False, "type": kind, "userType": "external", "cwd": cwd,
            "message": {"role": kind, "content": content} | (usage if kind == "assistant" else {}),
            "uuid": f"{session}-{author.number}", "timestamp": stamp, "sessionId": session, "version": "2.1.197",
            "gitBranch": "main", **more,
        }  # fmt: skip

    yield record("user", author.prompt())
    for _ in range(CALLS):
        name, given, result, failed = author.call()
        identity = f"toolu_{session}_{author.number}"
        yield record("assistant", [{"type": "tool_use", "id": identity, "name": name, "input": given}])
        answer = {"type": "tool_result", "tool_use_id": identity, "content": result, "is_error": failed}
        yield record("user", [answer], toolUseResult={"stdout": result})
    yield record("assistant", [{"type": "text", "text": f"Done. {author.words(60)}."}])


def write_codex(author: Author, session: str, cwd: str) -> Iterator[dict[str, object]]:
    """The records of a session of Codex."""

    def record(kind: str, payload: dict[str, object]) -> dict[str, object]:
        return {"timestamp": author.stamp(), "type": kind, "payload": payload}

    yield record("session_meta", {"id": session, "cwd": cwd, "base_instructions": {"text": author.words(2_000)}})
    for _ in range(TURNS):
        text = [{"type": "input_text", "text": author.prompt()}]
        yield record("response_item", {"type": "message", "id": f"u{author.number}", "role": "user", "content": text})
        for _ in range(CALLS):
            name, given, result, _failed = author.call()
            call = f"call_{session}_{author.number}"
            yield record(
                "response_item",
                {"type": "function_call", "name": name, "call_id": call, "arguments": json.dumps(given)},
            )
            yield record("event_msg", {"type": "item_completed", "item": {"aggregated_output": result}})
            yield record("response_item", {"type": "function_call_output", "call_id": call, "output": result})
        said = [{"type": "output_text", "text": f"Done. {author.words(60)}."}]
        yield record(
            "response_item", {"type": "message", "id": f"a{author.number}", "role": "assistant", "content": said}
        )


def make_transcripts(home: Path, size: int) -> int:
    """Write transcripts of so many bytes in all, of two clients in six repositories; how many bytes they have."""
    author = Author(random.Random(20), datetime(2026, 1, 5, 9, tzinfo=UTC))
    total = number = 0
    while total < size:
        name = REPOSITORIES[number % len(REPOSITORIES)]
        cwd = home / "work" / name
        if not (cwd / ".git").is_dir():
            (cwd / ".git").mkdir(parents=True)
            (cwd / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
            (cwd / ".git" / "config").write_text(f'[remote "origin"]\n\turl = git@example.com:bench/{name}.git\n')
        session = f"00000000-0000-4000-8000-{number:012}"
        if number % 3 == 2:
            file = home / ".codex" / "sessions" / "2026" / "01" / "05" / f"rollout-2026-01-05T09-00-00-{session}.jsonl"
            records = write_codex(author, session, str(cwd))
        else:
            file = home / ".claude" / "projects" / f"-work-{name}" / f"{session}.jsonl"
            records = write_claude_code(author, session, str(cwd))
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as lines:
            for each in records:
                lines.write(json.dumps(each, ensure_ascii=False) + "\n")
        total += file.stat().st_size
        author.at += timedelta(hours=5)
        number += 1
    return total


def grow_transcripts(home: Path) -> int:
    """Add a turn to each of Claude Code's sessions; how many messages that are."""
    author = Author(random.Random(21), datetime(2026, 10, 5, 9, tzinfo=UTC), number=1_000_000)
    count = 0
    for file in sorted((home / ".claude" / "projects").glob("*/*.jsonl")):
        cwd = home / "work" / file.parent.name.removeprefix("-work-")
        with file.open("a") as lines:
            for each in make_turn(author, file.stem, str(cwd)):
                lines.write(json.dumps(each, ensure_ascii=False) + "\n")
                count += 1
    return count


def run(home: Path, *words: str) -> tuple[float, float, dict[str, object]]:
    """Run `cofio` as the user of this home; the seconds it took, the CPU seconds, and the JSON it printed."""
    environment = {
        "HOME": str(home), "PATH": os.environ["PATH"], "COFIO_FETCH_MODEL": "off",
        "PYTHONPATH": str(Path(cofio.__file__).parents[1]),
        "COFIO_MODELS": os.environ.get("COFIO_MODELS", os.path.expanduser("~/.cache/cofio/models")),
    }  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "cofio", *words, "--store", str(home / "store"), "--json"]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return seconds, cpu, lines[0] if lines else {}


def measure(megabytes: int, *, is_busy: bool) -> str:
    """Make transcripts, take them in, and tell how long it took."""
    with tempfile.TemporaryDirectory(prefix="cofio-transcripts-") as folder:
        home = Path(folder)
        size = make_transcripts(home, megabytes * 1_000_000)
        survey, _, _ = run(home, "transcripts", "import", "--dry-run")
        first, first_cpu, told = run(home, "transcripts", "import")
        found, _, hit = run(home, "search", "the queue in PostgreSQL because transactions", "--mode", "keyword")
        again, _, _ = run(home, "transcripts", "import")
        grown = grow_transcripts(home)
        later, _, added = run(home, "transcripts", "import")
        store = sum(file.stat().st_size for file in (home / "store").rglob("*") if file.is_file())
    assert hit
    assert added["messages"] == grown
    note = "\nMeasured on a busy machine: others were at work on both cores.\n" if is_busy else ""
    rate = size / 1e6 / first
    scaled = first * 100e6 / size
    return f"""# Transcripts of coding agents

cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}
{note}
`cofio transcripts import` on a new memory, with the vault on: {size / 1e6:,.0f} MB of transcripts in the formats of
Claude Code and Codex, {told["transcripts"]:,} sessions in {told["repositories"]} repositories, as
`benchmarks/transcripts.py` makes them.

| step | seconds |
|---|---|
| `cofio transcripts import --dry-run` | {survey:.1f} |
| `cofio transcripts import` | {first:.1f} ({first_cpu:.1f} of CPU, {rate:.1f} MB/s) |
| a search by words right after it, as a new process | {found:.1f} |
| the same import again, with nothing new | {again:.1f} |
| and after {grown:,} messages were added to the sessions | {later:.1f} |

It took in {told["messages"]:,} messages, as {told["episodes"]:,} episodes with {told["lessons"]:,} lessons; the store
has {store / 1e6:,.0f} MB.
Vectors are not part of it: they are made later, in the background of any server, or by `cofio reindex`.

## Target

| target | measured | asked | met |
|---|---|---|---|
| 100 MB of transcripts, seconds | {scaled:.1f} | at most {MOST:.0f} | {"yes" if scaled <= MOST else "no"} |
"""


def main() -> None:
    """Measure, and print the page or keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--busy", action="store_true", help="say on the page that others were at work on the machine")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    page = measure(given.mb, is_busy=given.busy)
    if given.write:
        (RESULTS / "transcripts.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
