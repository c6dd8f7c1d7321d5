"""What does a day with the memory cost a model? Characters, as Claude Code, Codex and Gemini CLI pass them on.

usage: python -m benchmarks.mcp.tokens [--before PROGRAM [--before-name NAME]] [--agents NAME...] [--write]

Each client runs for real, against a scripted model that makes the calls of benchmarks/mcp/day.py, with cofio and with
agent-memory-store. --before names the `cofio` of another version, which is measured beside this one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import cofio
from cofio import Engine, Settings
from cofio.doors.mcp import renderer

from ..__main__ import RESULTS
from .clients import AGENTS, Agent, Launch, install
from .day import NOTES, REST, RIGHT
from .hints import measure_hints
from .models import Transcript, render_json
from .servers import BY_DEFAULT, Product, found_peer, session

_PARTS: dict[str, tuple[str, ...]] = {
    "searches": ("search_context",),
    "writes": ("write_context",),
    "other answers": ("read_context", "list_context", "delete_context", "get_state", "set_state"),
}
_PROBE = (NOTES[1], ("search_context", {"query": "when do we release"}))


@dataclass(frozen=True)
class Cost:
    """What a model read in one day, in characters."""

    declarations: int
    resources: int
    """Of tools that the client offers only because the server has resources."""
    instructions: int
    answers: dict[str, int]
    right: int
    """How many of the searches with a known answer had it first, or found nothing where there is none."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.declarations + self.resources + self.instructions + sum(self.answers.values())


def measure(agent: Agent, product: Product, node: Path, scratch: Path) -> tuple[Cost, Transcript]:
    """Spend the day with a product through a client."""
    modules = install(agent)
    store = scratch / "store"
    launch = Launch(product.command, _environment(product, store))
    morning = agent.play(modules, node, scratch / "home", launch, NOTES, None)
    if product.folder_variable == "COFIO_STORE":
        # So that every run finds the same: how soon a vector is there depends on the machine.
        with Engine.open(store, settings=replace(Settings(), background=False)) as engine:
            engine.settle()
    day = agent.play(modules, node, scratch / "home", launch, REST, morning)
    with session(product, store, scratch) as client:
        said = client.request("initialize", _HANDSHAKE)[1].get("instructions", "")
    answers = {
        part: sum(
            len(result)
            for shown in (morning, day)
            for (tool, _), result in zip(shown.calls, shown.results, strict=True)
            if tool in tools
        )
        for part, tools in _PARTS.items()
    }
    declared = sum(len(render_json(each)) for each in day.declarations)
    resources = sum(size for name, size in day.extra.items() if "mcpresource" in name.lower().replace("_", ""))
    shown = len(said) if said and json.dumps(said, ensure_ascii=False)[1:-1] in day.preamble else 0
    return Cost(declared, resources, shown, answers, _count_right(day)), day


_HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def _environment(product: Product, store: Path) -> dict[str, str]:
    """The variables that a client gives the server: all that it needs, for clients pass on few of their own."""
    models = {"COFIO_MODELS": str(Settings().models_folder)} if product.folder_variable == "COFIO_STORE" else {}
    return dict(product.settings) | models | {product.folder_variable: str(store)}


def _count_right(day: Transcript) -> int:
    right = 0
    for expected, result in zip(RIGHT, day.results, strict=False):
        if expected is None:
            right += renderer.NOTHING in result or '"hits":[]' in result
        else:
            # The topic of the first hit, in the text or in the data.
            found = re.search(r'(?:### \[score: [\d.]+\] |"topic":")(.*)', result)
            right += found is not None and found[1].startswith(tuple(expected.split("|")))
    return right


def find_passed_on(agent: Agent, node: Path, scratch: Path) -> str:
    """What a client shows its model of an answer that has both a text and data."""
    launch = Launch(BY_DEFAULT.command, _environment(BY_DEFAULT, scratch / "store") | {"COFIO_STRUCTURED": "1"})
    result = agent.play(install(agent), node, scratch / "home", launch, _PROBE, None).results[-1]
    text, data = "### [score" in result, '"hits":' in result.replace("\\", "")
    return "both" if text and data else "the data alone" if data else "the text alone" if text else "neither"


def main() -> None:
    """Measure, print the report, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = {agent.package.rpartition("/")[2]: agent for agent in AGENTS}
    parser.add_argument("--before", help="the `cofio` of another version, to be measured beside this one")
    parser.add_argument("--before-name", default="cofio before", help="what to call that version")
    parser.add_argument("--agents", nargs="+", choices=names, default=list(names), help="the clients to run")
    parser.add_argument("--transcripts", type=Path, help="a folder to keep what the models were shown in")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    peer, what = found_peer()
    if peer is None:
        parser.error(what)
    node = Path(peer.command[0])
    products = {"agent-memory-store": peer, "cofio": BY_DEFAULT}
    if given.before:
        products[given.before_name] = replace(BY_DEFAULT, command=(given.before, "mcp"))
    lines = [
        "# What a day costs a model",
        "",
        f"cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}. {what}",
        "",
        _ABOUT.format(notes=len(NOTES), searches=sum(tool == "search_context" for tool, _ in REST), calls=len(REST)),
    ]
    for name in given.agents:
        lines += ["", *_report(names[name], products, node, given.transcripts)]
    with _scratch() as folder:
        lines += ["", "## What it costs a write to name its like", "", *measure_hints(folder)]
        lines += ["", f"The load of this machine was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores meanwhile."]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "mcp_tokens.md").write_text(text)


def _report(agent: Agent, products: dict[str, Product], node: Path, kept: Path | None) -> list[str]:
    costs: dict[str, Cost] = {}
    for name, product in products.items():
        with _scratch() as folder:
            costs[name], shown = measure(agent, product, node, folder)
        if kept is not None:
            _keep(shown, kept / f"{agent.package.rpartition('/')[2]}-{name.replace(' ', '-')}.json")
    with _scratch() as folder:
        passed = find_passed_on(agent, node, folder)
    peer = costs["agent-memory-store"].total
    rows: dict[str, Callable[[Cost], int]] = {
        "declarations of the seven tools": lambda cost: cost.declarations,
        "tools of the client's for resources": lambda cost: cost.resources,
        "instructions": lambda cost: cost.instructions,
        **{part: partial(_count, part) for part in _PARTS},
    }
    table = [
        f"## {agent.name} {agent.version}", "", f"Of an answer with text and data the model is shown {passed}.", "",
        "| characters | " + " | ".join(costs) + " |", "| --- |" + " --- |" * len(costs),
    ]  # fmt: skip
    table += [f"| {row} | " + " | ".join(f"{of(cost):,}" for cost in costs.values()) + " |" for row, of in rows.items()]
    table.append("| **together** | " + " | ".join(f"{cost.total:,}" for cost in costs.values()) + " |")
    table.append(
        f"| right answers first, of {len(RIGHT)} | " + " | ".join(str(cost.right) for cost in costs.values()) + " |"
    )
    table.append("| × agent-memory-store | " + " | ".join(f"{cost.total / peer:.2f}" for cost in costs.values()) + " |")
    return table


def _count(part: str, cost: Cost) -> int:
    return cost.answers[part]


def _keep(shown: Transcript, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    said = [{"call": call, "result": result} for call, result in zip(shown.calls, shown.results, strict=True)]
    everything = {"declarations": shown.declarations, "preamble": shown.preamble, "said": said}
    path.write_text(json.dumps(everything, indent=1, ensure_ascii=False))


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cofio-day-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a client may leave a process that still writes


_ABOUT = """\
The same day with each memory, through the clients themselves: {notes} notes are written, then {calls} calls are made,
of which {searches} are searches; the others list, read, delete, replace, set and get states, and get arguments wrong
(`benchmarks/mcp/day.py`). The model behind each client is a script that makes those calls over HTTP. Counted is what it
was sent, once: the tools' declarations, the server's instructions, and the answers. No tokenizer of these models can be
had offline, so the counts are of characters. An answer is right when the note that answers stands first, or when
nothing is found where nothing answers. Between the notes and the rest cofio makes its vectors, so that every run finds
the same. The peer searches by words alone; six of the searches it answers with a short error instead of hits, which
costs little and helps nobody.
"""

if __name__ == "__main__":
    main()
