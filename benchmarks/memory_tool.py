"""How fast is the memory tool? Its commands beside the SDK's own tool, which keeps real files, in the same run.

usage: python -m benchmarks.memory_tool [--files 1000] [--rounds 300] [--write]

Both tools are called through the SDK's classes, in turns, so that a noisy machine is fair to both. Each has a tree of
the same files; the texts are documentation's own paragraphs. cofio is measured as it comes (every acknowledged command
survives a power cut, an edit keeps the former text, a word index beside it), but without a model, which would work in
the background, and with `sync = normal` (survives a crash of the process). The SDK's tool syncs a file's content but
not the folder that names it, keeps no former text, and can be searched by nothing.
"""

from __future__ import annotations

import argparse
import gc
import random
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import anthropic
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from cofio import Engine, Settings
from cofio.files import home
from cofio.library.anthropic import MemoryTool
from cofio.values.records import Draft, Kind

from . import corpus
from .__main__ import RESULTS, machine
from .speed import Times

FILES, ROUNDS, WARM, TURN = 1000, 300, 20, 5
FULL, NORMAL, THEIRS = "cofio", "cofio, sync = normal", "the SDK's files"
Call = Callable[[dict[str, object]], object]
Measured = dict[str, dict[str, Times]]


def texts(count: int) -> list[str]:
    """So many files of a few paragraphs, each with a line that stands in it once."""
    drafts = corpus.drafts(count)
    return [f"# {draft.title}\n\n{draft.text}\n\nStatus: open {number}.\n" for number, draft in enumerate(drafts)]


def filled(folder: Path, held: list[str], stack: ExitStack) -> dict[str, Call]:
    """Each tool, with the same files."""
    tools: dict[str, Call] = {}
    for name, sync in ((FULL, "full"), (NORMAL, "normal")):
        engine = stack.enter_context(Engine.open(folder / sync, settings=_settings(sync)))
        engine.write_many(
            Draft(scope=home(), kind=Kind.FILE, key=_path(number), title=_path(number), text=text, position=0)
            for number, text in enumerate(held)
        )
        engine.settle()
        tools[name] = MemoryTool(engine, strings="sdk").call
    theirs = BetaLocalFilesystemMemoryTool(str(folder / "theirs"))
    for number, text in enumerate(held):
        theirs.call({"command": "create", "path": _path(number), "file_text": text})
    tools[THEIRS] = theirs.call
    return tools


def _settings(sync: str) -> Settings:
    return Settings(embedder="none", background=True, sync="full" if sync == "full" else "normal")


def _path(number: int) -> str:
    return f"/memories/topic-{number % 20}/{number}.md"


def measure(files: int, rounds: int) -> Measured:
    """Milliseconds of each command, by each tool."""
    held = texts(files)
    draw = random.Random(23)
    measured: Measured = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))
        tools = filled(folder, held, stack)
        gc.collect()
        gc.freeze()  # the texts that the benchmark itself holds are not for the collector to walk in a measured call
        turns = [draw.randrange(files) for _ in range(WARM + rounds)]

        def commands(number: int, turn: int) -> dict[str, dict[str, object]]:
            path, new, old = _path(number), f"/memories/new-{turn % 20}/{turn}.md", f"/memories/old/{turn}.md"
            return {
                "create": {"command": "create", "path": new, "file_text": held[number]},
                "view": {"command": "view", "path": path},
                "view a range": {"command": "view", "path": path, "view_range": [1, 3]},
                "str_replace": {"command": "str_replace", "path": path, "old_str": "Status: ", "new_str": "Status:  "},
                "str_replace back": {
                    "command": "str_replace", "path": path, "old_str": "Status:  ", "new_str": "Status: ",
                },
                "insert": {"command": "insert", "path": new, "insert_line": 1, "insert_text": "x"},
                "rename": {"command": "rename", "old_path": new, "new_path": old},
                "delete": {"command": "delete", "path": old},
                "view the root": {"command": "view", "path": "/memories"},
            }  # fmt: skip

        for start in range(0, len(turns), TURN):
            for name, call in tools.items():
                for turn in range(start, min(start + TURN, len(turns))):
                    for what, command in commands(turns[turn], turn).items():
                        if what == "view the root" and turn % 10:
                            continue
                        kept = measured.setdefault(what, {}).setdefault(name, Times(what))
                        kept.run(partial(call, command))
                        if turn < WARM:
                            kept.taken.clear()
    gc.unfreeze()
    return {what: by for what, by in measured.items() if what != "str_replace back"}


def report(measured: Measured, files: int) -> str:
    """The page of results."""
    names = (FULL, NORMAL, THEIRS)
    lines = [
        "# The memory tool",
        "",
        machine(),
        "",
        f"Milliseconds of a command, called as anthropic {anthropic.__version__} calls it, p50 (p95), in a tree of "
        f"{files:,} files; all in the same run, in turns:",
        "",
        f"| command | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for what, by in measured.items():
        shown = [f"{by[name].at(0.5):.2f} ({by[name].at(0.95):.2f})" for name in names]
        lines.append(f"| {what} | {' | '.join(shown)} |")
    lines += [
        "",
        "`cofio` survives a power cut after each command, `sync = normal` a crash of the process. The SDK's tool syncs "
        "a file but not the folder that names it, and keeps neither history nor an index.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and with --write keep the page."""
    parser = argparse.ArgumentParser(description="How fast is the memory tool?")
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="keep the results in benchmarks/results")
    args = parser.parse_args()
    page = report(measure(args.files, args.rounds), args.files)
    print(page)
    if args.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "memory_tool.md").write_text(page)


if __name__ == "__main__":
    main()
