"""Plots as SVG of our own, drawn on the server: columns and lines, each with the numbers behind it as a table.

They hold no text but their names, so that they can be as wide as the page is; labels and legend are HTML. Colours come
from the style sheet, by the names of the series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from ...text.display import neutralise_line

WIDTH, HEIGHT = 1000, 100
GAP = 0.18  # of a column's width, between it and the next
LEAST = 1.5  # units of height: what is there is seen, however small beside the largest
MAX_COLUMNS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a plot: its values by series, and where a click on it leads."""

    label: str
    values: Mapping[str, float]
    link: str = ""
    is_current: bool = False

    @property
    def total(self) -> float:
        """All values together."""
        return sum(self.values.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotText:
    """What is written around a plot."""

    name: str
    """Tells it from others on its page: lower-case letters and hyphens."""
    title: str
    description: str
    heads: Mapping[str, str] = field(default_factory=dict)
    """What each series is called; its own name where this has none."""
    unit: str = ""

    def get_head(self, series: str) -> str:
        """What a series is called."""
        return self.heads.get(series, series)


@dataclass(frozen=True, slots=True)
class Plot:
    """A piece of HTML that was made of escaped parts: a template shows it as it is."""

    markup: str

    def __html__(self) -> str:
        """The markup, for templates."""
        return self.markup

    def __str__(self) -> str:
        return self.markup


def draw_columns(columns: Sequence[Column], series: Sequence[str], text: PlotText) -> Plot:
    """Columns, each with its series stacked in their order; those with a link lead there."""
    shown = columns[-MAX_COLUMNS:]
    top = max((column.total for column in shown), default=0.0)
    step = WIDTH / max(1, len(shown))
    bars = "".join(_draw_column(column, series, index * step, step, top) for index, column in enumerate(shown))
    role = "group" if any(column.link for column in shown) else "img"
    rows = [(column.label, [column.values.get(each, 0) for each in series]) for column in shown]
    return _frame(bars, role, top, [column.label for column in shown], series, rows, text)


def draw_line(points: Sequence[tuple[str, float]], text: PlotText, *, series: str = "line") -> Plot:
    """A line through points, from zero to the highest, with the area under it."""
    shown = points[-MAX_COLUMNS:]
    top = max((value for _, value in shown), default=0.0)
    step = WIDTH / max(1, len(shown) - 1)
    places = [f"{_round(index * step)},{_round(HEIGHT - _scale(value, top))}" for index, (_, value) in enumerate(shown)]
    drawn = ""
    if len(places) == 1:
        places.append(f"{WIDTH},{places[0].partition(',')[2]}")
    if places:
        area = f"0,{HEIGHT} {' '.join(places)} {WIDTH},{HEIGHT}"
        drawn = (
            f'<polygon class="area {_name_class(series)}" points="{area}"/>'
            f'<polyline class="line {_name_class(series)}" points="{" ".join(places)}" fill="none"'
            ' vector-effect="non-scaling-stroke"/>'
        )
    rows = [(label, [value]) for label, value in shown]
    return _frame(drawn, "img", top, [label for label, _ in shown], (series,), rows, text)


def draw_bar(share: float, label: str) -> Plot:
    """A short bar that is filled to a share of one."""
    width = _round(max(0.0, min(1.0, share)) * 100)
    return Plot(
        f'<svg class="meter" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label="{_clean(label)}">'
        f'<rect width="{width}" height="1"/></svg>'
    )


def _draw_column(column: Column, series: Sequence[str], left: float, step: float, top: float) -> str:
    width, bottom, rects = step * (1 - GAP), float(HEIGHT), []
    heights = {each: max(LEAST, _scale(column.values[each], top)) for each in series if column.values.get(each, 0) > 0}
    if heights and (excess := sum(heights.values()) - HEIGHT) > 0:
        heights[max(heights, key=lambda each: heights[each])] -= excess
    for each, height in heights.items():
        bottom -= height
        rects.append(
            f'<rect class="{_name_class(each)}" x="{_round(left)}" y="{_round(bottom)}" width="{_round(width)}"'
            f' height="{_round(height)}"/>'
        )
    name = _clean(f"{column.label}: {_render_value(column.total)}")
    # The whole height can be clicked or touched, also above a low column.
    target = f'<rect class="target" x="{_round(left)}" y="0" width="{_round(step)}" height="{HEIGHT}"/>'
    inner = f"<title>{name}</title>{target}{''.join(rects)}"
    current = ' aria-current="true"' if column.is_current else ""
    kind = ' class="column current"' if column.is_current else ' class="column"'
    if column.link:
        return f'<a href="{_clean(column.link)}" aria-label="{name}"{kind}{current}>{inner}</a>'
    return f"<g{kind}>{inner}</g>"


def _frame(
    drawn: str, role: str, top: float, labels: Sequence[str], series: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float]]], text: PlotText,
) -> Plot:  # fmt: skip
    """A drawing with its name, scale, legend, and its numbers as a table."""
    title, description = f"{text.name}-title", f"{text.name}-description"
    svg = (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="{role}"'
        f' aria-labelledby="{title} {description}"><title id="{title}">{_clean(text.title)}</title>'
        f'<desc id="{description}">{_clean(text.description)}</desc>{drawn}</svg>'
    )
    unit = f" {text.unit}" if text.unit else ""
    scale = f'<span class="plot-top" aria-hidden="true">{_clean(_render_value(top) + unit)}</span>'
    ends = (labels[0], labels[len(labels) // 2], labels[-1]) if len(labels) > 2 else tuple(labels)
    axis = "".join(f"<span>{_clean(label)}</span>" for label in ends)
    legend = "".join(
        f'<li><span class="swatch {_name_class(each)}"></span>{_clean(text.get_head(each))}</li>' for each in series
    )
    legend = f'<ul class="legend">{legend}</ul>' if len(series) > 1 else ""
    return Plot(
        f'<figure class="plot-figure"><figcaption>{_clean(text.title)}{legend}</figcaption><div class="plot-box">'
        f'{scale}{svg}</div><div class="plot-axis" aria-hidden="true">{axis}</div>'
        f"{_draw_table(series, rows, text)}</figure>"
    )


def _draw_table(series: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], text: PlotText) -> str:
    heads = "".join(f'<th scope="col">{_clean(text.get_head(each))}</th>' for each in series)
    lines = "".join(
        f'<tr><th scope="row">{_clean(label)}</th>'
        + "".join(f"<td>{_clean(_render_value(value))}</td>" for value in values)
        + "</tr>"
        for label, values in rows
        if any(values)
    )
    return (
        f'<details class="plot-numbers"><summary>The numbers</summary><div class="scroll"><table><caption>'
        f"{_clean(text.title)}</caption><thead><tr><td></td>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
        "</details>"
    )


def _scale(value: float, top: float) -> float:
    return HEIGHT * value / top if top > 0 else 0.0


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def _render_value(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.3g}"


def _name_class(series: str) -> str:
    """The class of a series, by which the style sheet gives it a colour."""
    return "fill-" + "".join(each if each.isascii() and each.isalnum() else "-" for each in series)


def _clean(text: str) -> str:
    return escape(neutralise_line(text), quote=True)
