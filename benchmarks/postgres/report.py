"""The results as a page, with what was asked beside what was measured."""

from __future__ import annotations

from typing import Any

NONE = "–"


def render(results: dict[str, Any]) -> str:
    """The whole page."""
    parts = [f"# PostgreSQL beside a folder\n\n{results['head']}"]
    if results.get("postgresql"):
        parts += [_render_speed(results), _render_targets(results)]
    if results.get("recall"):
        parts.append(_render_recall(results["recall"]))
    if results.get("serve"):
        parts.append(_render_servers(results["serve"]))
    parts += results.get("kept", [])
    return "\n\n".join(parts) + "\n"


def _render_speed(results: dict[str, Any]) -> str:
    columns = [(part, size) for part in ("folder", "postgresql") for size in sorted(results.get(part, {}), key=int)]
    found = [results[part][size] for part, size in columns]
    head = " | ".join(f"{part}, {int(size):,}" for part, size in columns)
    lines = [
        "## Searches and writes",
        "",
        "Tenants of 1,000 records each; a tenth is the tenants of one region. p50 / p99, ms, all in turns.",
        "",
        f"| | {head} |",
        "|---|" + "---|" * len(columns),
    ]
    for name in sorted({name for each in found for name in each["ms"]}, key=_order):
        cells = ["{:.2f} / {:.2f}".format(*each["ms"][name]) if name in each["ms"] else NONE for each in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for name in ("fill, minutes", "index of vectors, minutes", "disk, GiB"):
        lines.append(f"| {name} | {' | '.join(f'{each[name]:.1f}' if name in each else NONE for each in found)} |")
    return "\n".join(lines)


def _order(name: str) -> tuple[int, str]:
    groups = ("raw", "bare", "durable", "batch", "read", "keyword", "semantic", "hybrid")
    return next(at for at, group in enumerate(groups) if name.startswith(group)), name


def _render_targets(results: dict[str, Any]) -> str:
    rows: list[tuple[str, float, str, bool]] = []
    stores = {int(size): found for size, found in results["postgresql"].items()}
    for size, found in sorted(stores.items()):
        ms = found["ms"]
        ratio = ms["durable write"][0] / ms["bare INSERT of the row"][0]
        rows.append((f"durable write / bare INSERT, {size:,}", ratio, "at most 2", ratio <= 2))
        hybrid = ms["hybrid, a tenant"][0]
        rows.append((f"hybrid in a tenant of 1,000 among {size:,}, ms", hybrid, "under 10", hybrid < 10))
        least = min(found["recall"].values())
        rows.append((f"least recall@10, {size:,}", least, "at least .98", least >= 0.98))
    if len(stores) > 1:
        small, large = min(stores), max(stores)
        for mode in ("keyword", "semantic", "hybrid"):
            growth = stores[large]["ms"][f"{mode}, a tenant"][0] / stores[small]["ms"][f"{mode}, a tenant"][0]
            name = f"{mode} in a tenant, {large:,} / {small:,}"
            rows.append((name, growth, "at most 1.5", growth <= 1.5))
    for name, found in results.get("recall", {}).items():
        least = min(value for place, value in found.items() if place != "breadth")
        rows.append((f"least recall@10, {name} vectors", least, "at least .98", least >= 0.98))
    lines = ["## Targets", "", "| target | measured | asked | met |", "|---|---|---|---|"]
    lines += [f"| {name} | {value:.3f} | {asked} | {'yes' if met else 'NO'} |" for name, value, asked, met in rows]
    return "\n".join(lines)


def _render_recall(found: dict[str, dict[str, float]]) -> str:
    lines = [
        "## Recall",
        "",
        "The share of the ten nearest of an exact comparison that a semantic search finds, in scopes of different sizes"
        " in one table of 30,000. The breadth is what the store measured that a search of its index needs; with 0 all"
        " vectors are compared.",
        "",
        f"| | {' | '.join(found)} |",
        "|---|" + "---|" * len(found),
    ]
    for place in next(iter(found.values())):
        cells = " | ".join(
            f"{each[place]:.3f}" if place != "breadth" else f"{each[place]:.0f}" for each in found.values()
        )
        lines.append(f"| {place} | {cells} |")
    return "\n".join(lines)


def _render_servers(found: dict[str, dict[str, float]]) -> str:
    names = list(next(iter(found.values())))
    lines = [
        "## Servers together",
        "",
        "The same 60 requests a second in all, half of them `/add` and half `/search` by words, for 20 seconds; ms from"
        " when each was due, of the slowest server.",
        "",
        f"| | {' | '.join(names)} |",
        "|---|" + "---|" * len(names),
    ]
    lines += [f"| {name} | {' | '.join(f'{each[key]:g}' for key in names)} |" for name, each in found.items()]
    return "\n".join(lines)
