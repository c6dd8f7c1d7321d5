"""A reliability diagram as SVG: what hits score against the share of them that is relevant, a panel for each mode."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import cycle

from .answers import Result, WayName
from .datasets import ALL
from .figures import Bin, Calibration, calibrate

SIDE, MARGIN, GAP, TOP, BOTTOM = 300, 62, 40, 46, 84
"""Of a panel in pixels; what is left of it, between two, above and below."""
COLOURS = ("#1f6f8b", "#c8553d", "#5b8c5a", "#8e6c8a", "#b8860b", "#4a6fa5")
INK, FAINT = "#222222", "#d9d9d9"
BAR = 60
"""How high the bar of a bin would be that holds all hits."""


def draw_reliability(results: Sequence[Result]) -> str:
    """Return the diagram of the modes whose scores are probabilities: a thin line for each set, a thick one for all."""
    panels: dict[WayName, dict[str, Calibration]] = {}
    for result in results:
        if result.gives_probabilities and result.judgements:
            panels.setdefault(result.way, {})[result.dataset.name] = calibrate(result.judgements)
    for way, lines in panels.items():
        if len(lines) > 1:
            lines[ALL] = calibrate([each for result in results if result.way == way for each in result.judgements])
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    colours = dict(zip(names, cycle(COLOURS), strict=False)) | {ALL: INK}
    width = MARGIN + len(panels) * (SIDE + GAP)
    height = TOP + SIDE + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text transform="translate(18 {TOP + SIDE / 2}) rotate(-90)" text-anchor="middle" fill="{INK}">'
        "share that is relevant</text>",
    ]
    for number, (way, lines) in enumerate(panels.items()):
        parts.append(f'<g transform="translate({MARGIN + number * (SIDE + GAP)} {TOP})">')
        parts += [*_draw_frame(way), *_draw_bars(list(lines.values())[-1])]
        for name, found in lines.items():
            parts += _draw_line(found.by_width, colours[name], 2.6 if name == ALL or len(lines) == 1 else 1.4)
        parts.append("</g>")
    return "\n".join([*parts, *_draw_legend(names, colours, height - 16), "</svg>"]) + "\n"


def _draw_frame(way: str) -> list[str]:
    ticks = [step / 5 for step in range(6)]
    return [
        f'<text x="{SIDE / 2}" y="-16" text-anchor="middle" font-size="15" font-weight="bold" fill="{INK}">'
        f"{escape(way)}</text>",
        *(
            f'<path d="M{tick * SIDE:.1f} 0V{SIDE}M0 {tick * SIDE:.1f}H{SIDE}" stroke="{FAINT}" fill="none"/>'
            for tick in ticks
        ),
        *(
            f'<text x="{tick * SIDE:.1f}" y="{SIDE + 18}" text-anchor="middle" fill="{INK}">{tick:.1f}</text>'
            f'<text x="-8" y="{(1 - tick) * SIDE + 4:.1f}" text-anchor="end" fill="{INK}">{tick:.1f}</text>'
            for tick in ticks
        ),
        f'<path d="M0 {SIDE}L{SIDE} 0" stroke="{INK}" stroke-dasharray="5 4" fill="none"/>',
        f'<text x="{SIDE / 2}" y="{SIDE + 38}" text-anchor="middle" fill="{INK}">mean score of a bin</text>',
    ]


def _draw_bars(found: Calibration) -> list[str]:
    """How the hits are spread over the scores."""
    width = SIDE / 10
    return [
        f'<rect x="{min(9, int(each.score * 10)) * width + 3:.1f}" y="{SIDE - BAR * each.count / found.count:.1f}"'
        f' width="{width - 6:.1f}" height="{BAR * each.count / found.count:.1f}" fill="{FAINT}"/>'
        for each in found.by_width
    ]


def _draw_line(bins: Sequence[Bin], colour: str, width: float) -> list[str]:
    points = [(_place(each.score), SIDE - _place(each.share), each.count) for each in bins]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    return [
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}"/>',
        *(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{1.5 + width:.1f}" fill="{colour}">'
            f"<title>{count:,} hits</title></circle>"
            for x, y, count in points
        ),
    ]


def _place(value: float) -> float:
    return SIDE * min(1.0, max(0.0, value))


def _draw_legend(names: Sequence[str], colours: dict[str, str], y: int) -> list[str]:
    parts, x = [], MARGIN
    for name in names:
        parts.append(
            f'<rect x="{x}" y="{y - 10}" width="18" height="10" fill="{colours[name]}"/>'
            f'<text x="{x + 24}" y="{y}" fill="{INK}">{escape(name)}</text>'
        )
        x += 48 + 8 * len(name)
    return parts
