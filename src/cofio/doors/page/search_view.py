"""The search: one box, the hits with the reasons why, facets to narrow it down, and what stood below the floor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from time import perf_counter
from typing import cast, get_args

from ...text.tokenizer import find_snippet
from ...values.errors import Invalid
from ...values.query import AllOf, Filter, Hit, Mode, Page, Query, Signal, Where
from ...values.records import Kind, Record, Scope, json_words, member
from .facets import Facet, get_state, make_facets
from .list_entries import VISIBLE, Entry, hide_internal, make_entry
from .view_types import OFFSET, SCOPE, Parameter, View, ViewRequest, make_link

PAGE = 20  # hits that are shown at once
MOST_HITS = 40  # of a search, that one can page through
COUNTED = 100  # of what was written last, records that are looked at for the facets
MAX_OFFSET = 100_000
NEAR = 12  # candidates below the floor that are shown
SNIPPET = 300  # characters of a text
KEYED = (Kind.FILE, Kind.STATE, Kind.ITEM, Kind.PROFILE)  # kinds that people know by their keys
LABELS = {
    "keyword": "words", "semantic": "meaning", "window": "words beside it", "neighbours": "turns around it",
    "session": "its conversation", "author": "who said it", "asker": "about the one who asks", "date": "its time",
    "children": "what belongs to it", "tokens": "meaning by word", "question": "answers a question",
    "length": "its length", "exact": "the very phrase", "adjacent": "words side by side",
}  # fmt: skip
"""What each signal is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalBar:
    """What one signal gave to a hit, or took from it: its share of the total, its rank, and its bar of up to 100."""

    name: str
    label: str
    share: float
    width: int
    rank: int | None = None

    @property
    def style(self) -> str:
        """The class of its colour."""
        if self.share < 0:
            return "against"
        return self.name if self.name in ("keyword", "semantic") else "context"


@dataclass(frozen=True, slots=True, kw_only=True)
class HitEntry:
    """A hit as the page shows it: the record, the part of its text that fits, and why it was found."""

    entry: Entry
    headline: str
    """Its title; of a record without one, the part of its text that fits."""
    snippet: str
    """The part of its text that fits, unless that is the headline."""
    score: float
    words: tuple[str, ...]
    signals: tuple[SignalBar, ...]
    missing: float = 0.0
    """How much it lacks, of one that is below the floor."""
    reached: float = 0.0
    """How relevant it is, which the floor is held against."""
    successor: str = ""
    """Where what holds now in its place is; empty where it holds itself."""
    superseded_at: datetime | None = None
    """Since when that holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchModel:
    """A search and what it found; without words, what was written last."""

    query: str
    mode: Mode
    scope: Scope
    hits: tuple[HitEntry, ...]
    count: int
    """How many hits there are, of what was written last those that are counted; `is_more` is whether there are more."""
    is_more: bool
    offset: int
    facets: tuple[Facet, ...]
    counted: int
    """How many hits the numbers of the facets are counted among."""
    floor: float
    bar: float
    """What those below the floor are compared with: the floor or, where there are hits, what the last one reached."""
    cut: int
    """How many candidates were left out, as they did not reach the floor."""
    near: tuple[HitEntry, ...]
    """The best of those, where they were asked for, or where there is nothing else."""
    degraded: str
    """Why the search could not use everything; empty if it did."""
    milliseconds: float
    links: dict[str, str] = field(default_factory=dict)
    """Where the next and the previous hits are, those below the floor, and the search without its facets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SearchRequest:
    """What a request asks for, checked."""

    text: str
    mode: Mode
    scope: Scope
    kinds: tuple[Kind, ...]
    filter: Filter | None
    offset: int


def build_search(request: ViewRequest) -> SearchModel:
    """What a search found, or without words what was written last."""
    wanted = _parse(request)
    return _search(request, wanted) if wanted.text.strip() else _list_last(request, wanted)


def _search(request: ViewRequest, wanted: _SearchRequest) -> SearchModel:
    """What the words find: the best hits, of which a page is shown."""
    begin = perf_counter()
    page = request.engine.search(_make_query(wanted, limit=MOST_HITS))
    near = _find_near(request, wanted, page)
    took = perf_counter() - begin
    best = _find_best(page.hits)
    shown = page.hits[wanted.offset : wanted.offset + PAGE]
    return SearchModel(
        query=wanted.text, mode=wanted.mode, scope=wanted.scope, offset=wanted.offset, count=len(page),
        hits=tuple(_make_hit(hit, page, best) for hit in shown), is_more=len(page) == MOST_HITS,
        facets=make_facets(request, [hit.record for hit in page]), counted=len(page),
        floor=request.engine.settings.floor, bar=_find_bar(request, page.hits), cut=page.cut, near=near,
        degraded=page.degraded or "", milliseconds=round(1000 * took, 1),
        links=_make_links(request, wanted, has_next=wanted.offset + PAGE < len(page)),
    )  # fmt: skip


def _list_last(request: ViewRequest, wanted: _SearchRequest) -> SearchModel:
    """The last that was written: any page of it, and facets of the newest."""
    begin = perf_counter()
    bounds = hide_internal(wanted.scope, *([] if wanted.filter is None else [wanted.filter]))
    list_records = partial(request.engine.list, wanted.scope, kinds=wanted.kinds or VISIBLE, filter=bounds)
    newest = list_records(limit=COUNTED + 1)
    rest = newest[wanted.offset :]
    if len(rest) <= PAGE and len(newest) > COUNTED:  # further down than what the facets are counted among
        rest = list_records(limit=PAGE + 1, offset=wanted.offset)
    took = perf_counter() - begin
    floor = request.engine.settings.floor
    return SearchModel(
        query=wanted.text, mode=wanted.mode, scope=wanted.scope, offset=wanted.offset,
        hits=tuple(map(_make_plain, rest[:PAGE])), count=min(len(newest), COUNTED), is_more=len(newest) > COUNTED,
        facets=make_facets(request, newest[:COUNTED]), counted=min(len(newest), COUNTED), floor=floor, bar=floor, cut=0,
        near=(), degraded="", milliseconds=round(1000 * took, 1),
        links=_make_links(request, wanted, has_next=len(rest) > PAGE),
    )  # fmt: skip


def _parse(request: ViewRequest) -> _SearchRequest:
    mode = request.get("mode", "hybrid") or "hybrid"
    if mode not in get_args(Mode):
        raise Invalid("mode", f"{mode!r} is not one of {', '.join(get_args(Mode))}")
    tests: list[Filter] = [Where("tags", "has", tag) for tag in request.get_all("tag")]
    tests += [Where(name, "in", values) for name in ("author", "source") if (values := request.get_all(name))]
    if day := request.get("day"):
        begin = datetime.combine(_parse_day(day), time(), UTC)
        tests += [Where("created_at", ">=", begin), Where("created_at", "<", begin + timedelta(days=1))]
    return _SearchRequest(
        text=request.get("q"), mode=cast(Mode, mode), scope=request.get_scope(),
        kinds=tuple(member(Kind, "kind", each) for each in request.get_all("kind")),
        filter=AllOf(*tests) if tests else None, offset=request.get_int("offset", 0, 0, MAX_OFFSET),
    )  # fmt: skip


def _parse_day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Invalid("day", f"{text!r} is not a day: write it as in 2026-03-31") from None
    if not 1 < day.year < 9999:
        raise Invalid("day", "is too far away")
    return day


def _make_query(wanted: _SearchRequest, *, limit: int, floor: float | None = None) -> Query:
    return Query(
        wanted.text, scope=wanted.scope, kinds=wanted.kinds, filter=wanted.filter, mode=wanted.mode, limit=limit,
        floor=floor, current=True, folds=True,
    )  # fmt: skip


def _find_near(request: ViewRequest, wanted: _SearchRequest, page: Page) -> tuple[HitEntry, ...]:
    """The best candidates that the floor left out: asked for once more without a floor, if the reader wants them."""
    if request.get("near"):
        known = {hit.record.id for hit in page.hits}
        all_hits = request.engine.search(_make_query(wanted, limit=len(known) + NEAR, floor=0.0)).hits
        left_out: Sequence[Hit] = [hit for hit in all_hits if hit.record.id not in known][:NEAR]
    else:
        left_out = () if page.hits else page.near
    best = _find_best((*page.hits, *left_out))
    bar = _find_bar(request, page.hits)
    return tuple(_make_hit(hit, page, best, bar=bar) for hit in left_out)


def _find_bar(request: ViewRequest, hits: Sequence[Hit]) -> float:
    return min((hit.score for hit in hits), default=request.engine.settings.floor)


def _find_best(hits: Iterable[Hit]) -> float:
    """The most that signals have given to one of the hits, which the length of all bars is measured by."""
    gains = (
        sum(max(0.0, share) for share in (*(each.share for each in _get_signals(hit)), *hit.why.context.values()))
        for hit in hits
    )
    return max(gains, default=0.0) or 1.0


def _get_signals(hit: Hit) -> list[Signal]:
    return [signal for signal in (hit.why.keyword, hit.why.semantic) if signal is not None]


def _make_hit(hit: Hit, page: Page, best: float, *, bar: float | None = None) -> HitEntry:
    words = hit.why.words
    missing = 0.0 if bar is None else max(0.0, bar - hit.score)
    headline, snippet = _split_text(hit.record, page.searched.words)
    return HitEntry(
        entry=make_entry(hit.record), headline=headline, snippet=snippet,
        score=min(1.0, max(0.0, hit.score)), words=words, signals=tuple(_list_signals(hit, best)),
        missing=missing, reached=hit.score, superseded_at=hit.superseded_at,
        successor=make_link("record", id=hit.superseded_by) if hit.superseded_by else "",
    )  # fmt: skip


def _list_signals(hit: Hit, best: float) -> Iterable[SignalBar]:
    for name, signal in (("keyword", hit.why.keyword), ("semantic", hit.why.semantic)):
        if signal is not None:
            yield SignalBar(
                name=name, label=LABELS[name], share=signal.share, width=_scale(signal.share, best), rank=signal.rank
            )
    for name, share in sorted(hit.why.context.items(), key=lambda pair: -abs(pair[1])):
        if share:
            yield SignalBar(name=name, label=LABELS.get(name, name), share=share, width=_scale(share, best))


def _scale(share: float, best: float) -> int:
    return min(100, round(100 * abs(share) / best))


def _make_plain(record: Record) -> HitEntry:
    headline, snippet = _split_text(record, ())
    return HitEntry(entry=make_entry(record), headline=headline, snippet=snippet, score=0.0, words=(), signals=())


def _split_text(record: Record, words: tuple[str, ...]) -> tuple[str, str]:
    """What a hit is headed with, and what stands below that."""
    snippet = find_snippet(record.text or " ".join(json_words(record.data)), words, SNIPPET)
    title = record.title.strip() or (record.key if record.kind in KEYED else "")
    return (title, snippet) if title else (snippet or record.key or record.id, "")


def _make_links(request: ViewRequest, wanted: _SearchRequest, *, has_next: bool) -> dict[str, str]:
    state = get_state(request)
    without_near = {name: values for name, values in state.items() if name != "near"}
    links = {
        "near": make_link("search", **{**without_near, "near": "1"}),
        "hits": make_link("search", **without_near),
        "clear": make_link("search", q=request.get("q")),
        "json": make_link("search", **state).replace("/", "/api/page/search", 1),
    }
    before, after = wanted.offset - PAGE, wanted.offset + PAGE
    links["next"] = make_link("search", **state, offset=after) if has_next else ""
    links["previous"] = make_link("search", **state, offset=max(0, before) or None) if wanted.offset else ""
    return links


_MANY: dict[str, object] = {"type": "array", "items": {"type": "string"}}

VIEW = View(
    name="search",
    title="Search",
    build=build_search,
    summary="Search the memory, with the reasons for each hit; without `q`, list what was written last.",
    parameters=(
        Parameter(name="q", description="What to look for."),
        Parameter(name="mode", description="How to look for it.", schema={"type": "string", "enum": [*get_args(Mode)]}),
        SCOPE,
        Parameter(
            name="kind", description="Only these kinds.", schema={"type": "array", "items": {"enum": [*VISIBLE]}}
        ),
        Parameter(name="author", description="Only by these authors.", schema=_MANY),
        Parameter(name="tag", description="Only with all of these tags.", schema=_MANY),
        Parameter(name="source", description="Only what came in by these doors.", schema=_MANY),
        Parameter(name="day", description="Only of this day (UTC).", schema={"type": "string", "format": "date"}),
        Parameter(name="near", description="With anything, what stood below the floor is told, too."),
        OFFSET,
    ),
)
