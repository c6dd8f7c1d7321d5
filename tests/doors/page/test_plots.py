"""Plots are SVG that says what it shows, escapes what it is given, and can be read as a table."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from cofio.doors.page.plots import Column, Plot, PlotText, draw_bar, draw_columns, draw_line

pytestmark = pytest.mark.timeout(30)
TEXT = PlotText(name="growth", title="Records by day", description="Ten records.")


def parse(drawing: Plot) -> ElementTree.Element:
    """The drawing, which has to be well-formed."""
    return ElementTree.fromstring(str(drawing))


@pytest.mark.requirement("page:plots")
def test_columns_stack_their_series_up_to_the_top() -> None:
    figure = parse(
        draw_columns(
            [Column(label="Monday", values={"note": 3, "fact": 1}), Column(label="Tuesday", values={"note": 2})],
            ["note", "fact"],
            TEXT,
        )
    )
    rects = [each for each in figure.iter("rect") if each.get("class") != "target"]
    assert [(each.get("class"), each.get("y"), each.get("height")) for each in rects] == [
        ("fill-note", "25", "75"),
        ("fill-fact", "0", "25"),
        ("fill-note", "50", "50"),
    ]


@pytest.mark.requirement("page:plots")
def test_a_plot_has_a_name_a_description_and_its_numbers() -> None:
    figure = parse(draw_columns([Column(label="Monday", values={"note": 1234})], ["note"], TEXT))
    svg = figure.find(".//svg")
    assert svg is not None
    assert svg.get("role") == "img"
    named = {each.get("id"): each.text for each in svg if each.get("id")}
    assert [named[each] for each in str(svg.get("aria-labelledby")).split()] == ["Records by day", "Ten records."]
    assert [cell.text for cell in figure.iter("td")] == [None, "1,234"]


@pytest.mark.requirement("page:plots")
def test_a_column_with_a_link_is_one_and_says_where_it_leads() -> None:
    figure = parse(
        draw_columns([Column(label="1 May", values={"note": 2}, link="/a?b=1&c=2", is_current=True)], ["note"], TEXT)
    )
    (anchor,) = figure.iter("a")
    assert (anchor.get("href"), anchor.get("aria-label"), anchor.get("aria-current")) == (
        "/a?b=1&c=2",
        "1 May: 2",
        "true",
    )
    svg = figure.find(".//svg")
    assert svg is not None
    assert svg.get("role") == "group"  # what is in an image cannot be reached


@pytest.mark.requirement("page:plots")
def test_hostile_labels_stay_text() -> None:
    label = "\"><script>alert(1)</script>\u202e'"
    figure = parse(draw_columns([Column(label=label, values={label: 1}, link=f"/{label}")], [label], TEXT))
    assert [*figure.iter("script")] == []
    assert "\u202e" not in str(draw_line([(label, 1.0)], TEXT))


@pytest.mark.requirement("page:plots")
def test_a_line_goes_through_its_points() -> None:
    figure = parse(draw_line([("a", 0), ("b", 2), ("c", 1)], TEXT))
    (line,) = figure.iter("polyline")
    assert line.get("points") == "0,100 500,0 1000,50"


@pytest.mark.requirement("page:plots")
def test_nothing_and_one_point_can_be_drawn() -> None:
    for drawing in (
        draw_columns([], [], TEXT),
        draw_columns([Column(label="a", values={})], ["note"], TEXT),
        draw_line([], TEXT),
        draw_line([("a", 0)], TEXT),
        draw_line([("a", 5)], TEXT),
        draw_bar(7.5, "all of it"),
    ):
        parse(drawing)


@pytest.mark.requirement("page:plots")
def test_what_is_small_beside_the_largest_can_still_be_seen() -> None:
    many, one = {"note": 1_000_000, "fact": 1}, {"fact": 1}
    figure = parse(
        draw_columns([Column(label="a", values=many), Column(label="b", values=one)], ["note", "fact"], TEXT)
    )
    heights = [each.get("height") for each in figure.iter("rect") if each.get("class") == "fill-fact"]
    assert heights == ["1.5", "1.5"]
    assert all(float(each.get("y", "0")) >= 0 for each in figure.iter("rect"))
