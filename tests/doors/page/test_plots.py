"""Plots are SVG that says what it shows, escapes what it is given, and can be read as a table."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from cofio.doors.page.plots import Column, Plot, PlotText, draw_bar, draw_columns, draw_line

TEXT = PlotText(name="growth", title="Records by day", description="Ten records.")


def parse(drawing: Plot) -> ElementTree.Element:
    """The drawing, which has to be well-formed."""
    return ElementTree.fromstring(str(drawing))


@pytest.mark.requirement("page:plots")
def test_columns_stack_their_series_up_to_the_top_and_a_line_goes_through_its_points() -> None:
    columns = [Column(label="Monday", values={"note": 3, "fact": 1}), Column(label="Tuesday", values={"note": 2})]
    figure = parse(draw_columns(columns, ["note", "fact"], TEXT))
    rects = [each for each in figure.iter("rect") if each.get("class") != "target"]
    shown = [(each.get("class"), each.get("y"), each.get("height")) for each in rects]
    assert shown == [("fill-note", "25", "75"), ("fill-fact", "0", "25"), ("fill-note", "50", "50")]
    small = [Column(label="a", values={"note": 1_000_000, "fact": 1}), Column(label="b", values={"fact": 1})]
    figure = parse(draw_columns(small, ["note", "fact"], TEXT))  # which can still be seen
    heights = [each.get("height") for each in figure.iter("rect") if each.get("class") == "fill-fact"]
    assert heights == ["1.5", "1.5"]
    assert all(float(each.get("y", "0")) >= 0 for each in figure.iter("rect"))
    (line,) = parse(draw_line([("a", 0), ("b", 2), ("c", 1)], TEXT)).iter("polyline")
    assert line.get("points") == "0,100 500,0 1000,50"


@pytest.mark.requirement("page:plots")
def test_a_plot_has_a_name_a_description_its_numbers_and_links_and_labels_are_text() -> None:
    label = "\"><script>alert(1)</script>\u202e'"
    columns = [
        Column(label="1 May", values={"note": 1234}, link="/a?b=1&c=2", is_current=True),
        Column(label=label, values={}, link=f"/{label}"),
    ]
    figure = parse(draw_columns(columns, ["note", label], TEXT))
    svg = figure.find(".//svg")
    assert svg is not None
    assert svg.get("role") == "group"  # what is in an image cannot be reached
    named = {each.get("id"): each.text for each in svg if each.get("id")}
    assert [named[each] for each in str(svg.get("aria-labelledby")).split()] == ["Records by day", "Ten records."]
    anchor = next(figure.iter("a"))
    assert (anchor.get("href"), anchor.get("aria-label")) == ("/a?b=1&c=2", "1 May: 1,234")
    assert anchor.get("aria-current") == "true"
    assert "1,234" in [cell.text for cell in figure.iter("td")]
    assert [*figure.iter("script")] == []
    assert "\u202e" not in str(draw_line([(label, 1.0)], TEXT))
    for drawing in (draw_columns([], [], TEXT), draw_line([], TEXT), draw_line([("a", 0)], TEXT), draw_bar(7.5, "all")):
        parse(drawing)
