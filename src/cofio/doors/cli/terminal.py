"""How the command line looks: JSON for programs, lines with tabs for a pipe, colours and tables for a person.

Results go to stdout; notes and progress bars go to stderr. rich is loaded only when someone watches.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from ...text import jsonl
from ...text.display import escape_json, neutralise, neutralise_line
from ...text.tokenizer import find_snippet, split_words
from ...values.query import Hit, Page, Why
from ...values.records import Json, Kind, Record, Scope

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import RenderableType
    from rich.progress import Progress, TaskID
    from rich.table import Table
    from rich.text import Text

_WORD = re.compile(r"\w+(?:'\w+)*")
_KINDS_WITH_NAMES = (Kind.STATE, Kind.ITEM, Kind.FILE, Kind.MEMORY)  # whose keys are names that people or agents gave
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NARROW = 60  # columns; in fewer, a list shows no more than what it is and the id


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What the doctor found: what is wrong, what is to be known, what was wrong until it was mended, how things are."""

    problems: Sequence[str]
    warnings: Sequence[str] = ()
    mended: Sequence[str]
    facts: Mapping[str, str]


class Output(Protocol):
    """Prints what a command found."""

    def print_done(self, sentence: str, **facts: Json) -> None:
        """What was done: a sentence for people, facts for programs."""

    def print_added(self, record: Record) -> None:
        """A record that was just written."""

    def print_hits(self, page: Page, reasons: Sequence[Sequence[str]], short: Mapping[str, str]) -> None:
        """The hits of a search, each with its reasons; `short` is how an id is shown to who reads it."""

    def print_list(self, records: Iterable[Record], short: Mapping[str, str]) -> None:
        """Records, one after the other."""

    def print_record(self, record: Record) -> None:
        """One record with all that it holds."""

    def print_scopes(self, counts: Mapping[Scope, int]) -> None:
        """Scopes with the number of their records."""

    def print_numbers(self, numbers: Mapping[str, int | str], rendered: Mapping[str, str]) -> None:
        """Names with their numbers for programs, and how people are told them."""

    def print_settings(self, rows: Mapping[str, tuple[str, str]], **facts: Json) -> None:
        """Names with their values and where each comes from; facts for programs."""

    def print_checkup(self, checkup: Checkup) -> None:
        """What the doctor found."""


def choose_output(*, as_json: bool) -> Output:
    """Return the output that suits the reader of stdout."""
    if as_json:
        return JsonOutput()
    return PrettyOutput() if sys.stdout.isatty() else PlainOutput()


def ask(question: str) -> bool:
    """Whether the person at the terminal says yes."""
    print(f"{neutralise_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def note(sentence: str) -> None:
    """Tell the person at the terminal something that is no result."""
    # Wherever stderr leads: a log is looked at on a terminal, too.
    print(f"cofio: {neutralise_line(sentence)}", file=sys.stderr, flush=True)


def make_printable(text: str) -> str:
    """What stdout is to get of a text: on a terminal nothing that steers it or hides there, elsewhere all."""
    return neutralise(text) if sys.stdout.isatty() else text


def make_printable_json(document: str) -> str:
    """The same for JSON, which says the same on a terminal as elsewhere."""
    return escape_json(document) if sys.stdout.isatty() else document


def print_json(value: object) -> None:
    """Print a value as a line of JSON."""
    print(make_printable_json(jsonl.dump_line(value)))


class JsonOutput:
    """One JSON object a command, or one a line for lists."""

    def print_done(self, sentence: str, **facts: Json) -> None:
        """The facts."""
        print_json(facts)

    def print_added(self, record: Record) -> None:
        """The record, whether it was there before, and those that say nearly the same."""
        alike: list[Json] = [{"id": one.id, "title": one.title, "likeness": one.likeness} for one in record.similar]
        print_json(jsonl.to_json(record) | {"existed": record.existed, "similar": alike})

    def print_hits(self, page: Page, reasons: Sequence[Sequence[str]], short: Mapping[str, str]) -> None:
        """Everything that the search says of itself; the reasons are always among it."""
        searched = asdict(page.searched) | {"scope": list(page.searched.scope.names)}
        hits: list[Json] = [
            jsonl.to_json(hit.record) | {"score": hit.score, "why": _render_why(hit.why)} | _render_successor(hit)
            for hit in page
        ]
        print_json({"hits": hits, "searched": searched, "cut": page.cut, "degraded": page.degraded})

    def print_list(self, records: Iterable[Record], short: Mapping[str, str]) -> None:
        """One record a line, as in an export."""
        for record in records:
            self.print_record(record)

    def print_record(self, record: Record) -> None:
        """The record, as in an export."""
        print(make_printable_json(jsonl.write_line(record)))

    def print_scopes(self, counts: Mapping[Scope, int]) -> None:
        """Each scope as a list of names."""
        print_json({"scopes": [{"scope": list(scope.names), "records": count} for scope, count in counts.items()]})

    def print_numbers(self, numbers: Mapping[str, int | str], rendered: Mapping[str, str]) -> None:
        """The numbers as they are, sizes in bytes."""
        print_json(dict(numbers))

    def print_settings(self, rows: Mapping[str, tuple[str, str]], **facts: Json) -> None:
        """The facts."""
        print_json(facts)

    def print_checkup(self, checkup: Checkup) -> None:
        """Whether all is well, and the lists."""
        print_json({"ok": not checkup.problems, **asdict(checkup)})


def _render_successor(hit: Hit) -> dict[str, Json]:
    """What holds now in the place of a hit, and since when; nothing where the hit itself does."""
    since = hit.superseded_at
    return {"superseded_by": hit.superseded_by, "superseded_at": since.isoformat()} if since is not None else {}


def _tell_successor(hit: Hit, short: Mapping[str, str]) -> list[str]:
    """The same as a sentence."""
    if hit.superseded_by is None or hit.superseded_at is None:
        return []
    newer = short.get(hit.superseded_by, hit.superseded_by)
    return [f"Superseded by {newer}, which holds since {hit.superseded_at:%Y-%m-%d}."]


def _render_why(why: Why) -> dict[str, Json]:
    return {
        "keyword": asdict(why.keyword) if why.keyword else None,
        "semantic": asdict(why.semantic) if why.semantic else None,
        "context": dict(why.context),
        "words": list(why.words),
    }


class PlainOutput:
    """Lines with tabs, for pipes: nothing but text."""

    def print_done(self, sentence: str, **facts: Json) -> None:
        """The sentence."""
        print(sentence)

    def print_added(self, record: Record) -> None:
        """The id alone, to be used by the next command."""
        print(record.id)

    def print_hits(self, page: Page, reasons: Sequence[Sequence[str]], short: Mapping[str, str]) -> None:
        """A line a hit: rank, score, id, scope, title or key, snippet, and what holds now in its place if it does not;
        then its reasons, each after a tab.
        """
        for rank, (hit, why) in enumerate(zip(page, reasons, strict=True), 1):
            record = hit.record
            name, excerpt = record.title or record.key or "", find_snippet(render_body(record), page.searched.words)
            scope, newer = render_scope(record.scope), _tell_successor(hit, {})
            _print_line(rank, f"{hit.score:.3f}", record.id, scope, name, excerpt, *newer)
            for reason in why:
                _print_line("", reason)

    def print_list(self, records: Iterable[Record], short: Mapping[str, str]) -> None:
        """A line a record: id, kind, scope, when it changed, title or key, beginning."""
        for record in records:
            changed = f"{record.updated_at:%Y-%m-%dT%H:%M:%SZ}"
            name = record.title or record.key or ""
            excerpt = find_snippet(render_body(record), ())
            _print_line(record.id, record.kind, render_scope(record.scope), changed, name, excerpt)

    def print_record(self, record: Record) -> None:
        """A line a field, an empty line, then the text as it is."""
        for name, value in render_fields(record):
            _print_line(name, value)
        if record.text:
            print(f"\n{record.text}")

    def print_scopes(self, counts: Mapping[Scope, int]) -> None:
        """A line a scope."""
        for scope, count in counts.items():
            _print_line(render_scope(scope), count)

    def print_numbers(self, numbers: Mapping[str, int | str], rendered: Mapping[str, str]) -> None:
        """A line for each thing said."""
        for name, value in rendered.items():
            _print_line(name, value)

    def print_settings(self, rows: Mapping[str, tuple[str, str]], **facts: Json) -> None:
        """A line a setting: name, value, where it comes from."""
        for name, (value, origin) in rows.items():
            _print_line(name, value, origin)

    def print_checkup(self, checkup: Checkup) -> None:
        """A line a finding."""
        for kind, name, finding in list_findings(checkup):
            _print_line(kind, f"{name}: {finding}" if name else finding)


class PrettyOutput:
    """Colours and tables, for a person at a terminal. Nothing that was remembered can control the terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, emoji=False, file=sys.stdout)

    def print_done(self, sentence: str, **facts: Json) -> None:
        """The sentence."""
        self._print(neutralise(sentence))

    def print_added(self, record: Record) -> None:
        """The id alone, to be copied."""
        self._print(neutralise(record.id))

    def print_hits(self, page: Page, reasons: Sequence[Sequence[str]], short: Mapping[str, str]) -> None:
        """A few lines a hit: rank, score and what it is called; the part that matches; where it is."""
        from rich.padding import Padding
        from rich.text import Text

        for rank, (hit, why) in enumerate(zip(page, reasons, strict=True), 1):
            record, query_words = hit.record, page.searched.words
            head = Text.assemble((f"{rank:>2} ", "bold"), (f"{hit.score:5.3f}  ", "green"))
            excerpt = " ".join(find_snippet(render_body(record), query_words).split())
            name = _find_name(record) or excerpt
            self._print(_hang(head, _mark(name, query_words, "bold")))
            if excerpt and name != excerpt:
                self._print(Padding(_mark(excerpt, query_words), (0, 0, 0, 10)))
            about = f"{render_scope(record.scope)} · {record.kind} · {short.get(record.id, record.id)}"
            self._print(Padding(Text(neutralise(about), "cyan", overflow="fold"), (0, 0, 0, 10)))
            for newer in _tell_successor(hit, short):
                self._print(Padding(Text(neutralise(newer), "yellow"), (0, 0, 0, 10)))
            for reason in why:
                self._print(Padding(Text(neutralise(reason), "dim"), (0, 0, 0, 10)))

    def print_list(self, records: Iterable[Record], short: Mapping[str, str]) -> None:
        """A table: what it says first, as wide as can be, and last the beginning of the id, which is enough of it."""
        width = self._console.width
        columns = ("what", "kind", "scope", "changed", "id") if width >= NARROW else ("what", "id")
        table = self._make_table(*columns)
        table.columns[0].ratio, table.columns[0].min_width = 1, width // 3
        table.columns[-1].no_wrap, table.columns[-1].overflow = False, "fold"
        for each in records:
            scope = _cut_start(neutralise(render_scope(each.scope)), width // 6)
            about = (each.kind, scope, _render_day(each.updated_at)) if width >= NARROW else ()
            table.add_row(*map(neutralise, (render_headline(each), *about, short.get(each.id, each.id))))
        if table.row_count:
            self._print(table)

    def print_record(self, record: Record) -> None:
        """A table of the fields, then the text."""
        from rich.text import Text

        self._print_pairs(render_fields(record))
        if record.text:
            self._print(Text("\n" + neutralise(record.text)))

    def print_scopes(self, counts: Mapping[Scope, int]) -> None:
        """A tree."""
        from rich.text import Text
        from rich.tree import Tree

        def make_label(scope: Scope) -> Text:
            name = neutralise(scope.names[-1]) if scope.names else "/"
            count = f"  {counts[scope]:,}" if scope in counts else ""
            return Text.assemble((name, "cyan"), (count, "bold"))

        branches: dict[Scope, Tree] = {Scope(): Tree(make_label(Scope()), guide_style="dim")}
        for scope in counts:
            for depth in range(1, len(scope.names) + 1):
                here, above = Scope(*scope.names[:depth]), Scope(*scope.names[: depth - 1])
                if here not in branches:
                    branches[here] = branches[above].add(make_label(here))
        if counts:
            self._print(branches[Scope()])

    def print_numbers(self, numbers: Mapping[str, int | str], rendered: Mapping[str, str]) -> None:
        """A table of what is said."""
        self._print_pairs(rendered.items())

    def print_settings(self, rows: Mapping[str, tuple[str, str]], **facts: Json) -> None:
        """A table in which what is not a default stands out."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for name, (value, origin) in rows.items():
            style = "dim" if origin == "default" else "bold"
            cells = ((name, "cyan"), (value, style), (origin, "dim"))
            grid.add_row(*(Text(neutralise(text), style, overflow="fold") for text, style in cells))
        self._print(grid)

    def print_checkup(self, checkup: Checkup) -> None:
        """A line a finding, in the colour of its weight."""
        from rich.text import Text

        styles = {"problem": "bold red", "warning": "yellow", "mended": "green", "info": "cyan", "ok": "bold green"}
        for kind, name, finding in list_findings(checkup):
            line = Text.assemble(
                (f"{kind:>7}  ", styles[kind]), (f"{name}: " if name else "", "dim"), neutralise(finding)
            )
            self._print(line)

    def _print_pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for name, value in pairs:
            grid.add_row(Text(neutralise(name), "cyan"), Text(neutralise(value), overflow="fold"))
        self._print(grid)

    def _make_table(self, *columns: str) -> Table:
        from rich.table import Column, Table

        cells = (Column(name, no_wrap=True) for name in columns)
        return Table(*cells, box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0), expand=True)

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, soft_wrap=isinstance(what, str))


class Bar:
    """A progress bar on stderr for a person at a terminal; it goes away when the work is done.

    Call it with what is being done, how much of it is done, and how much there is, 0 if that is unknown.
    """

    def __init__(self, stage: str, *, after: float = 0.0, expect: int = 0) -> None:
        """The bar appears `after` this many seconds; `expect` is how much there is, when a call does not say."""
        self._stage = stage
        self._since = time.monotonic()
        self._after = after
        self._expect = expect
        self._is_terminal = sys.stderr.isatty()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        self(self._stage, 0, 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """So much of it is done."""
        if not self._is_terminal or time.monotonic() - self._since < self._after:
            return
        # As long as nothing is done, the duration is unknown: a model may have to be loaded first.
        stage, total = neutralise_line(stage), (total or self._expect) if done else 0
        if self._progress is None or self._task is None:
            self._progress = _make_progress()
            self._task = self._progress.add_task(stage, total=total or None)
            self._progress.start()
        if stage != self._stage:
            self._stage = stage
            self._progress.reset(self._task)
        self._progress.update(self._task, description=stage, completed=done, total=total or None)


def _make_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    # stdout stays untouched: it may be a pipe, and its lines belong to its reader.
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, redirect_stdout=False,
    )  # fmt: skip


def render_scope(scope: Scope) -> str:
    """The scope as it is written on the command line; / is the one that holds all others."""
    return str(scope) or "/"


def render_headline(record: Record) -> str:
    """What to call the record: its title, else its key and how it begins, else how it begins."""
    name = _find_name(record)
    if record.title:
        return name
    begins = " ".join(find_snippet(render_body(record), (), 120).split())
    return f"{name}: {begins}" if name and begins else name or begins or record.key or ""


def _find_name(record: Record) -> str:
    """What people call the record: its title, or the key that they gave it."""
    key = record.key if record.kind in _KINDS_WITH_NAMES else ""
    return " ".join((record.title or key or "").split())


def render_body(record: Record) -> str:
    """What there is to read in the record: its text, else its data."""
    return record.text or ("" if record.data is None else json.dumps(record.data, ensure_ascii=False))


def render_fields(record: Record) -> Iterable[tuple[str, str]]:
    """Every field but the text that holds something, as words."""
    for name, value in jsonl.to_json(record).items():
        if name == "scope":
            yield name, render_scope(record.scope)
        elif name == "tags" and record.tags:
            yield name, ", ".join(record.tags)
        elif name == "data" and value is not None:
            yield name, json.dumps(value, ensure_ascii=False)
        elif name not in ("tags", "text", "data") and value not in (None, ""):
            yield name, str(value)


def list_findings(checkup: Checkup) -> Iterable[tuple[str, str, str]]:
    """Each line of a checkup: how grave, about what, and what there is to say."""
    yield from (("info", name, finding) for name, finding in checkup.facts.items())
    yield from (("mended", "", finding) for finding in checkup.mended)
    yield from (("warning", "", finding) for finding in checkup.warnings)
    yield from (("problem", "", finding) for finding in checkup.problems)
    if not checkup.problems:
        yield "ok", "", "nothing else is wrong" if checkup.warnings else "nothing is wrong"


def render_count(count: int, noun: str, plural: str = "") -> str:
    """A number of things, in words."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def render_record_count(count: int) -> str:
    """Render a number of records."""
    return "1 record" if count == 1 else f"{count:,} records"


def _print_line(*values: object) -> None:
    print("\t".join(" ".join(str(value).split()) for value in values))


def _render_day(moment: datetime) -> str:
    """A day as short as it can be told: without its year if that is the last twelve months."""
    recent = datetime.now(UTC) - moment < timedelta(days=330)
    return f"{_MONTHS[moment.month - 1]} {moment:%d}" if recent else f"{_MONTHS[moment.month - 1]} {moment:%Y}"


def _cut_start(text: str, width: int) -> str:
    """The end of a text that is too long: of a scope it says more than the beginning."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return "…" + set_cell_size(text[::-1], width - 1)[::-1].lstrip()


def _hang(head: Text, text: Text) -> Table:
    """A text whose further lines stand under its first, beside the head."""
    from rich.table import Table

    grid = Table.grid()
    grid.add_row(head, text)
    return grid


def _mark(text: str, query_words: tuple[str, ...], style: str = "") -> Text:
    """The text with the words that were asked for made bright."""
    from rich.text import Text

    styled, wanted = Text(neutralise(text), style), set(query_words)
    for match in _WORD.finditer(styled.plain):
        if not wanted.intersection(split_words(match.group())):
            continue
        if match.group().isascii():
            styled.stylize("bold yellow", *match.span())
            continue
        # Where no spaces are written, only the part that was asked for is to shine.
        literal = [word for word in wanted if word in match.group().casefold()]
        for word in literal:
            start = match.start() + match.group().casefold().index(word)
            styled.stylize("bold yellow", start, start + len(word))
        if not literal:
            styled.stylize("bold yellow", *match.span())
    return styled
