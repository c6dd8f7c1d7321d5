"""A small graph around one record: what it came from on its left, and what belongs to it on its right.

Drawn on the server as SVG. It never shows more than MOST_NODES, whatever the store holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .list_entries import Entry
from .relatives import Relatives

MOST_NODES = 200
COLUMN = 9  # nodes of a column that are drawn; the rest is counted
WIDTH, HEIGHT = 212, 44  # of a node
GAP, AISLE = 12, 56  # between nodes of a column, and between columns
NAME = 26  # characters of a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A record in the graph, or how many more there are."""

    x: float
    y: float
    name: str
    kind: str
    link: str = ""
    detail: str = ""
    is_centre: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A line between two records, as the path of an SVG; `sort` says what it means."""

    path: str
    sort: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes and edges, each with where it is drawn."""

    width: float
    height: float
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    node_width: int = WIDTH
    node_height: int = HEIGHT


def draw_neighbourhood(entry: Entry, relatives: Relatives) -> Graph | None:
    """Draw a record and its relatives; None when it has none."""
    left = _make_column([(each.entry, "") for each in relatives.evidence], "came from")
    right = [
        *_make_column([(each, "") for each in relatives.offspring], "became"),
        *_make_column([(each, f"{score:.0%} alike") for each, score in relatives.similar], "similar"),
    ]
    if not left and not right:
        return None
    height = max(len(left), len(right), 1) * (HEIGHT + GAP) - GAP
    nodes: list[Node] = []
    edges: list[Edge] = []
    centre_x = (WIDTH + AISLE) if left else 0
    middle = height / 2
    for column, x, is_left in ((left, 0, True), (right, centre_x + WIDTH + AISLE, False)):
        top = (height - (len(column) * (HEIGHT + GAP) - GAP)) / 2
        for number, (name, kind, link, detail, sort) in enumerate(column):
            y = top + number * (HEIGHT + GAP)
            nodes.append(Node(x=x, y=y, name=name, kind=kind, link=link, detail=detail))
            start, end = (WIDTH, centre_x) if is_left else (centre_x + WIDTH, x)
            first, last = (y + HEIGHT / 2, middle) if is_left else (middle, y + HEIGHT / 2)
            edges.append(Edge(path=_bend(start, first, end, last), sort=sort))
    nodes.append(
        Node(x=centre_x, y=middle - HEIGHT / 2, name=_shorten(entry.title), kind=str(entry.kind), is_centre=True)
    )
    width = centre_x + WIDTH + (AISLE + WIDTH if right else 0)
    return Graph(width=width, height=height, nodes=tuple(nodes), edges=tuple(edges))


def _make_column(entries: Sequence[tuple[Entry, str]], sort: str) -> list[tuple[str, str, str, str, str]]:
    """The nodes of one sort: name, kind, link, what is said of it, and how it is related."""
    shown = entries if len(entries) <= COLUMN else entries[: COLUMN - 1]
    nodes = [
        (_shorten(each.title), str(each.kind), each.link, detail or str(each.kind), sort) for each, detail in shown
    ]
    if left := len(entries) - len(shown):
        nodes.append((f"and {left} more", "", "", sort, sort))
    return nodes


def _shorten(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= NAME else f"{line[: NAME - 1].rstrip()}…"


def _bend(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (x + to_x) / 2
    return f"M{x:g},{y:g}C{half:g},{y:g} {half:g},{to_y:g} {to_x:g},{to_y:g}"
