"""The results of the retrieval benchmark as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from .answers import ANOTHER, OWN, Result, WayName, select
from .datasets import ALL
from .figures import BINS, COLUMNS, Judgement, average, calibrate, render_figures

NAMES: dict[WayName, str] = {
    "hybrid": "hybrid",
    "rrf": "hybrid, `fusion = rrf`",
    "keyword": "keyword (no embedder)",
    "semantic": "semantic",
    "fts5": "FTS5, OR of raw tokens",
}


def render(results: Sequence[Result]) -> str:
    """Return all tables of a run: the ranking of each set, the order, the floor, the calibration."""
    by_set: dict[str, list[Result]] = {}
    for result in results:
        by_set.setdefault(result.dataset.name, []).append(result)
    parts = [_render_set(each) for each in by_set.values()]
    if any(answer.question.below for result in results for answer in result.answers):
        parts.append(_render_order(results))
    parts.append(_render_floor(results))
    if any(result.gives_probabilities and result.judgements for result in results):
        parts.append(_render_calibration(results))
    return "\n\n".join(parts)


def render_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _render_set(results: Sequence[Result]) -> str:
    dataset = results[0].dataset
    head = (
        f"## {dataset.name}\n\nRecords: {len(dataset.drafts):,}; scopes: {len(dataset.scopes)};"
        f" questions with an answer: {len(dataset.answerable):,}; without: {len(dataset.unanswerable):,}."
    )
    rows = [
        row
        for group in reversed(dataset.groups)
        for result in results
        for row in _list_ranking(result, group)
    ]  # fmt: skip
    return f"{head}\n\n{render_table(('kind', 'n', 'mode', *COLUMNS, 'p50 ms', 'bytes a record'), rows)}"


def _list_ranking(result: Result, group: str) -> Iterator[list[str]]:
    if answers := select(result, group):
        figures = average([each.figures for each in answers])
        speed = f"{median(each.milliseconds for each in answers):.1f}"
        size = f"{result.bytes_each:,.0f}" if group == ALL else ""
        yield [group or "other", str(len(answers)), NAMES[result.way], *render_figures(figures), speed, size]


def _render_order(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        for group in result.dataset.groups:
            ordered = [each.in_order for each in select(result, group) if each.question.below]
            if ordered:
                rows.append([result.dataset.name, group, NAMES[result.way], _render_share(ordered)])
    text = "How often the gold comes before what must stand below it, as a newer note before an older one."
    return f"## Order\n\n{text}\n\n{render_table(('set', 'kind', 'mode', 'in order'), rows)}"


def _render_floor(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        probes = result.probes
        rows.append(
            [
                result.dataset.name,
                NAMES[result.way],
                _render_share([each.silent for each in result.answers]),
                _render_share([each.silent for each in probes if each.asked == ANOTHER]),
                _render_share([each.silent for each in probes if each.asked not in (OWN, ANOTHER)]),
                _render_share([each.silent for each in probes if each.asked == OWN]),
            ]
        )
    heads = (
        "set", "mode", "answerable, silenced", "asked of another scope, silent", "asked of other sets, silent",
        "without an answer in the data, silent",
    )  # fmt: skip
    text = "How often nothing is found, with the store's default floor: seldom is good for the answerable, else often."
    return f"## Floor\n\n{text}\n\n{render_table(heads, rows)}"


def _render_calibration(results: Sequence[Result]) -> str:
    by_way: dict[WayName, list[Result]] = {}
    for result in results:
        if result.gives_probabilities:
            by_way.setdefault(result.way, []).append(result)
    rows, tables = [], []
    for way, own in by_way.items():
        together = [judgement for result in own for judgement in result.judgements]
        sets = [(result.dataset.name, result.judgements) for result in own]
        rows += [
            [name, NAMES[way], *_render_error(judgements)]
            for name, judgements in ([*sets, (ALL, together)] if len(sets) > 1 else sets)
            if judgements
        ]
        if together:
            tables.append(f"### Scores of {NAMES[way]}, all sets\n\n{_render_bins(together)}")
    text = (
        "Over the first ten hits of every question with an answer: how far a score is the probability that the hit is"
        f" one of the gold. The error is the mean distance between score and share over {BINS} bins."
    )
    heads = ("set", "mode", "hits", "relevant", "error, bins of equal width", "error, bins of equal count", "Brier")
    return "\n\n".join([f"## Calibration\n\n{text}", render_table(heads, rows), *tables])


def _render_error(judgements: Sequence[Judgement]) -> list[str]:
    found = calibrate(judgements)
    return [
        f"{found.count:,}", f"{100 * found.share:.1f} %", f"{found.error:.3f}", f"{found.error_by_count:.3f}",
        f"{found.brier:.3f}",
    ]  # fmt: skip


def _render_bins(judgements: Sequence[Judgement]) -> str:
    found = calibrate(judgements)
    rows = [
        [kind, f"{each.score:.3f}", f"{each.share:.3f}", f"{each.count:,}"]
        for kind, bins in (("width", found.by_width), ("count", found.by_count))
        for each in bins
    ]
    return render_table(("bins of equal", "mean score", "share relevant", "hits"), rows)


def _render_share(held: Sequence[bool]) -> str:
    return f"{100 * fmean(held):.1f} % of {len(held):,}" if held else "–"
