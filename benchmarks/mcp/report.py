"""How the results are told: which targets hold, and the tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from ..speed import Times
from .measuring import EACH, INITIALIZED, TURN, WARM, WRITERS, Report
from .servers import PEER
from .stores import PLAIN, REAL


def targets(report: Report) -> list[tuple[str, float, str, bool]]:
    """Each target: what was measured, what was asked, whether it holds."""
    rows: list[tuple[str, float, str, bool]] = []

    def most(name: str, value: float, limit: float) -> None:
        rows.append((name, value, f"at most {limit:g}", value <= limit))

    def least(name: str, value: float, limit: float) -> None:
        rows.append((name, value, f"at least {limit:g}", value >= limit))

    for store, moments in report.starts.items():
        found = moments[INITIALIZED]
        most(f"initialize, {store}, ms", found["cofio"].at(0.5), 300)
        if PEER in found:
            least(f"initialize, {store}, times sooner", _ratio(found, 0.5), 4)
    for (size, text), table in report.tables.items():
        for name, asked in {"search": 20, "write": 1, "read": 1, "list": 1}.items():
            if size >= 10_000 and PEER in table[name]:
                least(f"{name}, {size:,} chunks, {text}, times faster", _ratio(table[name], 0.5), asked)
    for name in ("get_state", "read", "search", "write"):
        most(f"the door's share of {name}, ms", _added(report.layers[name]), 0.2)
    most("memory before a model is loaded, MiB RSS", report.memory["cofio"]["RSS"], 60)
    most("failed writes of two servers on one store", report.crowd["cofio"]["failed"], 0)
    return rows


def _ratio(found: dict[str, Times], share: float) -> float:
    return found[PEER].at(share) / found["cofio"].at(share)


def _added(found: dict[str, Times]) -> float:
    """What the door adds to a call: the median over pairs of calls, which a machine's moods hit together."""
    pairs = zip(found["pipe"].taken, found["engine"].taken, strict=True)
    return statistics.median(pipe - engine for pipe, engine in pairs)


def markdown(report: Report) -> str:
    """The report for people."""
    parts = [
        f"# MCP\n\n{report.head}\n\n{report.peer}",
        _about(report),
        "## Starting and ending\n\n" + _starts_table(report),
        *(
            f"## Tools: {size:,} chunks, {text}\n\n{_tools_table(table)}"
            for (size, text), table in report.tables.items()
        ),
        "## By meaning\n\n" + _meaning_table(report),
        "## What the door adds\n\n" + _layers_table(report),
        "## Memory\n\n" + _memory_table(report),
        "## Two servers, one store\n\n" + _crowd_table(report),
        "## Targets\n\n" + _table(
            ("target", "measured", "asked", "met"),
            [(name, _short(value), asked, "yes" if met else "NO") for name, value, asked, met in targets(report)],
        ),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _about(report: Report) -> str:
    return f"""\
Both are driven by the same client, one JSON-RPC line at a time over the pipe, in turns of {TURN} calls each: \
{report.rounds} calls of each tool after {WARM} to warm up. `peer / cofio` above 1 means that cofio is faster.

- **Like with like:** both search by words alone (`search_mode: bm25`, `top_k: 6`, three words). The peer is kept from \
its model, as it is wherever its model hub cannot be reached; cofio has `COFIO_EMBEDDER=none`. cofio's other modes \
stand under "By meaning".
- **Text:** *{REAL}* is paragraphs of documentation, asked for with three words that follow each other in one of them. \
*{PLAIN}* is made as the peer's own benchmark makes it, six words of topic and fifty of content drawn from 48, so that \
any query matches nearly every chunk. One to three tags, four agents, and the same ids in both stores.
- **Durability:** both sync every write to the disk before they answer (the peer: SQLite in WAL mode with \
`synchronous=FULL`, SQLite's default; cofio: `sync=full`). The peer has no busy timeout.
- **Not the same work:** a write of cofio's also looks for secrets, and for chunks that say nearly the same or may \
contradict it.
- **Filled beforehand:** cofio through its engine, the peer through its own tables and triggers, in one transaction, \
which leaves it a better index than so many single writes. Measuring begins when cofio has nothing left to index."""


def _starts_table(report: Report) -> str:
    rows = [
        (f"{moment}, {store}", *_pair(found, 0.9))
        for store, moments in report.starts.items()
        for moment, found in moments.items()
    ]
    return _table(("median / p90, ms", "cofio", PEER, "peer / cofio"), rows)


def _tools_table(table: dict[str, dict[str, Times]]) -> str:
    rows = []
    for name, found in table.items():
        tail = _short(_ratio(found, 0.99)) if PEER in found else "–"
        rows.append((name, *_pair(found, 0.99), tail))
    return _table(("p50 / p99, ms", "cofio", PEER, "peer / cofio, p50", "p99"), rows)


def _pair(found: dict[str, Times], share: float) -> tuple[str, str, str]:
    """The median and a percentile of both, and how many times faster cofio is."""
    shown = [_both(found[name], share) if name in found else "–" for name in ("cofio", PEER)]
    return shown[0], shown[1], _short(_ratio(found, 0.5)) if PEER in found else "–"


def _meaning_table(report: Report) -> str:
    if not report.meaning:
        return "Not measured: the model is not installed (`cofio model install`)."
    names = [*next(iter(report.meaning.values()))]
    rows = [(name, *(_both(found[name], 0.99) for found in report.meaning.values())) for name in names]
    return (
        "cofio alone, on real text with the vectors that its model made of it. A call includes the model's work on the"
        " query.\n\n" + _table(("p50 / p99, ms", *(f"{size:,} chunks" for size in report.meaning)), rows)
    )


def _layers_table(report: Report) -> str:
    rows = []
    for name, found in report.layers.items():
        shown = [_short(found[layer].at(0.5)) if layer in found else "–" for layer in ("engine", "tool", "pipe")]
        rows.append((name, *shown, _short(_added(found)) if "tool" in found else "–"))
    return (
        "cofio alone: the engine's call in process; the tool around it, which checks the arguments and writes out the"
        " answer, in process; the same tool through the pipe. The last column is the median of pipe less engine over"
        " pairs of the same call; `ping` is the least that a pipe costs.\n\n"
        + _table(("p50, ms", "engine", "tool", "pipe", "the door adds"), rows)
    )


def _memory_table(report: Report) -> str:
    rows = [
        (name, *(_short(found[name]) if found else "–" for found in (report.memory["cofio"], report.memory.get(PEER))))
        for name in report.memory["cofio"]
    ]
    return (
        "After `initialize`, `tools/list` and one `get_state`. PSS counts what is shared with other processes in"
        " parts; this benchmark shares its Python with cofio.\n\n" + _table(("MiB", "cofio", PEER), rows)
    )


def _crowd_table(report: Report) -> str:
    rows = []
    for name, found in report.crowd.items():
        said = f"`{found['said']}`" if found["said"] else "–"
        rows.append((name, f"{found['failed']} of {found['writes']}", str(found["stored"]), said,
                     str(found["seconds"])))  # fmt: skip
    return f"{WRITERS} servers, {EACH} writes each, at the same time.\n\n" + _table(
        ("", "writes failed", "chunks stored", "said", "seconds"), rows
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _both(times: Times, share: float) -> str:
    """The median and another percentile; the one figure when there is only one."""
    if len(times.taken) == 1:
        return _short(times.taken[0])
    return f"{_short(times.at(0.5))} / {_short(times.at(share))}"


def _short(value: float) -> str:
    """Three digits that say something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def as_json(report: Report) -> dict[str, Any]:
    """The report for programs: p50, p90 and p99 in milliseconds."""

    def times(found: dict[str, Times]) -> dict[str, list[float]]:
        return {name: [round(each.at(share), 3) for share in (0.5, 0.9, 0.99)] for name, each in found.items()}

    def nested(found: dict[str, dict[str, Times]]) -> dict[str, dict[str, list[float]]]:
        return {name: times(each) for name, each in found.items()}

    return {
        "machine": report.head,
        "peer": report.peer,
        "rounds": report.rounds,
        "starts": {store: nested(found) for store, found in report.starts.items()},
        "tools": [{"size": size, "text": text, "ms": nested(found)} for (size, text), found in report.tables.items()],
        "by meaning": {str(size): times(found) for size, found in report.meaning.items()},
        "layers": nested(report.layers),
        "memory MiB": report.memory,
        "two servers": report.crowd,
        "targets": [[name, round(value, 3), asked, met] for name, value, asked, met in targets(report)],
    }
