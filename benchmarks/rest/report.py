"""How the results are told. Each part of the benchmark can be run by itself; the page shows the last run of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..speed import Times
from .measuring import (
    ADD,
    ADD_BUSY,
    BY_WORDS,
    FLUSH,
    FLUSH_BUSY,
    FOUND_BUSY,
    METHODS,
    TURN,
    WARM,
    Compared,
)
from .servers import ALIKE, COFIO, PEER

if TYPE_CHECKING:
    from .scale import Scaled

Target: TypeAlias = tuple[str, float, str, bool]
TAKEN = ("MiB RSS", "MiB not of files", "MiB WAL", "files", "descriptors")
SLICES = 10  # of the time, each of which is told by itself
LIGHT = 100.0  # requests a second that are to be answered as quickly as one alone, or nearly so
OVERLOAD = 1000.0  # more than any server here can answer: it is to refuse the rest


@dataclass(frozen=True)
class Part:
    """What a part of the benchmark has to tell: in words and tables, its targets, and for programs."""

    text: str
    targets: list[Target]
    figures: dict[str, Any]


def page(parts: dict[str, dict[str, Any]]) -> str:
    """The whole page, of parts as they are kept."""
    texts = [f"{part['text']}\n\nMeasured: {part['head']}." for part in parts.values()]
    rows = [
        (name, _short(value), asked, "yes" if met else "NO")
        for part in parts.values()
        for name, value, asked, met in part["targets"]
    ]
    return (
        "\n\n".join(["# REST", *texts, "## Targets\n\n" + _table(("target", "measured", "asked", "met"), rows)]) + "\n"
    )


def compared(made: Compared, peer: str) -> Part:
    """cofio beside the peer."""
    names = made.names
    head = ("", *names, f"{PEER} / cofio")
    rows = [(what, *(_both(found[name]) for name in names), _ratio(found)) for what, found in made.times.items()]
    memory = [(moment, *(_short(found[name]) for name in names)) for moment, found in made.memory.items()]
    text = f"""\
## Beside {PEER}

{peer} Both are asked by the same client over one connection that stays open, one request at a time, with the same \
bodies; p50 / p90 in milliseconds, and how many times longer the peer takes.

- **The models** are stood in for by a server that answers at once (`benchmarks/standin.py`): what is measured is the \
products' own time. The peer asks it for every boundary, episode, fact, foresight, profile and vector. cofio as it \
comes asks no model on the network, but runs its own embedding model in its process, which counts; *{ALIKE}* has the \
vectors from the stand-in too.
- **add**: {made.sessions} conversations of 3 messages, each a session of its own, in turns of {TURN}. **flush**: each \
alone, when all servers are at rest. **back to back**: add, flush, add, flush, each server by itself, with whatever it \
still has to do in the background.
- **until found**: from the answer to a flush to the first search that has the conversation; 0 is the very next one. \
Asked again after 5 ms. By keyword for a name that occurs once, by vector for the words of the first message.
- **searches**: `top_k` 10 over {WARM + made.sessions} conversations of one user.

{_table(head, rows)}

{_found(made, names)}

{_table(("MiB RSS", *names), memory)}"""
    return Part(text, _compared_targets(made), _compared_figures(made))


def _found(made: Compared, names: Sequence[str]) -> str:
    rows = []
    for what in (BY_WORDS, FOUND_BUSY):
        of = made.sessions if what == BY_WORDS else 1
        shown = (f"{made.at_once[what, name]} of {of}" for name in names)
        rows.append((f"found by the very next search, {what}", *shown))
    for method in METHODS:
        shown = (f"{made.found[method, name]} of {made.named}" for name in names)
        rows.append((f"{method}: a name that occurs once is found", *shown))
    rows += [
        (f"never found, {what}", *(str(made.missed[what, name]) for name in names)) for what, _ in sorted(made.missed)
    ]
    return _table(("", *names), rows)


def _compared_targets(made: Compared) -> list[Target]:
    if PEER not in made.times[ADD]:
        return []
    rows = [
        _least(f"{what}, times faster", _times(made.times[what]), asked)
        for what, asked in {ADD: 20, FLUSH: 20, ADD_BUSY: 20, FLUSH_BUSY: 20, "hybrid": 10}.items()
        if COFIO in made.times[what]
    ]
    if COFIO in made.times[ADD]:
        late = made.sessions - made.at_once[BY_WORDS, COFIO]
        rows.append(_most("conversations not found by the search after their flush", late, 0))
    return rows


def _compared_figures(made: Compared) -> dict[str, Any]:
    return {
        "sessions": made.sessions,
        "ms p50 p90 p99": {
            what: {name: [round(times.at(share), 3) for share in (0.5, 0.9, 0.99)] for name, times in found.items()}
            for what, found in made.times.items()
        },
        "found by the very next search": {name: made.at_once[BY_WORDS, name] for name in made.names},
        "a name found": {
            method: {name: made.found[method, name] for name in made.names} | {"of": made.named} for method in METHODS
        },
        "never found": {f"{what}, {name}": count for (what, name), count in made.missed.items()},
        "MiB RSS": made.memory,
    }


def _times(found: dict[str, Times]) -> float:
    return found[PEER].at(0.5) / max(found[COFIO].at(0.5), 0.001)


def _ratio(found: dict[str, Times]) -> str:
    return _short(_times(found)) if PEER in found and COFIO in found and found[COFIO].at(0.5) > 0.1 else "–"


def scaled(made: Scaled) -> Part:
    """cofio with a large store."""
    from .scale import EMBEDDED, ENGINE, LENGTH, LIMIT

    rows = [(name, _short(times.at(0.5)), _short(times.at(0.99))) for name, times in made.times.items()]
    rows.append(("over HTTP, hybrid, without embedding the query", _short(made.apart), "–"))
    text = f"""\
## {made.turns:,} turns of one user

cofio alone. Conversations of {LENGTH} turns, each a paragraph of documentation, added and flushed through the door's \
own classes ({made.seconds:,.0f} s, {made.turns / made.seconds:,.0f} turns a second): {made.records:,} records with \
the episodes and facts. Every record has a vector: {EMBEDDED:,} of the model's, jittered. `top_k` {LIMIT}; \
the queries are four to eight words of a turn. RSS of the server afterwards: \
{_short(made.rss)} MiB.

{_table(("ms", "p50", "p99"), rows)}"""
    figures = {name: [round(times.at(share), 3) for share in (0.5, 0.9, 0.99)] for name, times in made.times.items()}
    targets = [_most(f"hybrid over HTTP, {made.turns:,} turns, without embedding the query, ms", made.apart, 10)]
    targets.append(_most(f"the engine's hybrid search, {made.turns:,} turns, ms", made.times[ENGINE].at(0.5), 10))
    return Part(text, targets, {"turns": made.turns, "records": made.records, "ms p50 p90 p99": figures})


def loaded(runs: Sequence[dict[str, Any]]) -> Part:
    """A server under load, at one rate or several."""
    return Part(
        "\n\n".join(["## Under load", *(_describe_run(seen) for seen in runs)]),
        [target for seen in runs for target in _load_targets(seen)],
        {f"{seen['rate']:g} a second": seen for seen in runs},
    )


def _describe_run(seen: dict[str, Any]) -> str:
    due, sent, late = seen["ms from due"], seen["ms from sent"], seen["taken up late, ms"]
    kinds = [(kind, due[kind], sent[kind]) for kind in due]
    kinds.append(("refused (503)", seen["refused, ms from due"], seen["refused, ms from sent"]))
    rows = [
        (kind, f"{from_due['count']:,}", *(_short(from_sent[name]) for name in ("p50", "p99")),
         *(_short(from_due[name]) for name in ("p50", "p99", "max")))
        for kind, from_due, from_sent in kinds if from_due["count"]
    ]  # fmt: skip
    tenths = []
    for number, each in enumerate(seen["ms from due, by tenths of the time"]):
        took = _find_moment(seen, (number + 1) / SLICES)
        tenths.append(
            (
                f"{number + 1}",
                *(_short(each.get(name, float("nan"))) for name in ("p50", "p99", "max")),
                *(_short(took[name]) for name in TAKEN),
            )
        )
    failed, took = sum(seen["errors"].values()), seen["taken by the server"]
    rest = ", ".join(f"{name} {_short(took[0][name])} and {_short(took[-1][name])}" for name in TAKEN)
    return f"""\
### {seen["rate"]:g} requests a second

{seen["product"]}: requests at set times for {seen["asked"] / seen["rate"] / 60:g} minutes, \
{seen["share"]:.0%} of them add one message (and flush a conversation after every 20), the others search \
(`{seen["method"]}`). The generator is a process of its own on the same machine. A time counts from when the request \
was due; the generator itself was late by {_short(late["p50"])} ms (p99 {_short(late["p99"])}).

Answered: {seen["answered"]:,} of {seen["asked"]:,}, {_short(seen["answered"] / seen["seconds"])} a second; refused: \
{seen["refused, ms from due"]["count"]:,}; the server used {seen["cores used by the server"]:g} cores. Errors: \
{failed or "none"}{_errors(seen["errors"])}.

{_table(("ms", "requests", "p50 from sent", "p99", "p50 from due", "p99", "max"), rows)}

{_table(("tenth of the time", "p50, ms", "p99", "max", *(f"{name} at its end" for name in TAKEN)), tenths)}

At the start and at rest afterwards: {rest}."""


def _load_targets(seen: dict[str, Any]) -> list[Target]:
    rate, due, refused = seen["rate"], seen["ms from due"]["all"], seen["refused, ms from due"]
    name = f"load, {rate:g} a second"
    failed = sum(seen["errors"].values())
    if rate >= OVERLOAD:
        targets = [
            _most(f"{name}: errors other than refusals", failed, 0),
            _most(f"{name}: answered, p99 in ms", due.get("p99", 0.0), 1000),
            _most(f"{name}: refused, p99 in ms", refused.get("p99", 0.0), 50),
        ]
    else:
        targets = [
            _most(f"{name}: errors and refusals", failed + refused["count"], 0),
            _most(f"{name}: p99 in ms", due.get("p99", float("inf")), 60 if rate <= LIGHT else 150),
        ]
        if rate <= LIGHT:
            targets.append(_most(f"{name}: p50 in ms", due.get("p50", float("inf")), 8))
    half, end = _find_moment(seen, 0.5), _find_moment(seen, 1.0)
    for what in ("MiB RSS", "MiB not of files"):
        targets.append(_most(f"{name}: memory grown in the second half, {what}", end[what] - half[what], 20))
    first, second = (
        [each for each in seen["taken by the server"] if (each["s"] <= half["s"]) == is_first]
        for is_first in (True, False)
    )
    for what, more in (("MiB WAL", 4), ("files", 20), ("descriptors", 50)):
        grown = max(each[what] for each in second or first) - max(each[what] for each in first)
        targets.append(_most(f"{name}: {what} at most, second half more than the first by", grown, more))
    return targets


def _errors(errors: dict[str, int]) -> str:
    return f" ({'; '.join(f'{what}: {count}' for what, count in errors.items())})" if errors else ""


def _find_moment(seen: dict[str, Any], share: float) -> dict[str, float]:
    """What the server took up after a share of the time."""
    until = share * seen["asked"] / seen["rate"] + 0.6
    moments: list[dict[str, float]] = seen["taken by the server"]
    return [each for each in moments if each["s"] <= until][-1]


def _most(name: str, value: float, limit: float) -> Target:
    return name, round(value, 3), f"at most {limit:g}", value <= limit


def _least(name: str, value: float, limit: float) -> Target:
    return name, round(value, 3), f"at least {limit:g}", value >= limit


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _both(times: Times) -> str:
    """The median and p90; the one figure when there is only one."""
    if len(times.taken) == 1:
        return _short(times.taken[0])
    return f"{_short(times.at(0.5))} / {_short(times.at(0.9))}"


def _short(value: float) -> str:
    """Three digits that say something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
