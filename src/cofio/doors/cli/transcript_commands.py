"""The commands about what coding agents have written on this machine: what there is, and how it is taken in."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...engine.opening import exists
from ...text.display import render_size
from ...values.records import Json
from .argument_values import resolve_date
from .context import FEW, count_waiting, load_settings, open_memory, settle
from .terminal import Bar, choose_output, make_printable, note, print_json, render_count

if TYPE_CHECKING:
    from ...capture.capture import CaptureReport
    from ...capture.survey import SurveyLine
    from ...capture.transcripts.transcript_sources import Transcript
    from ...engine.engine import Engine

_LONG_AGO = datetime.fromtimestamp(0, UTC)
_UNIT = 1 << 10  # bytes that are one step of the bar
_PASSED = {
    "no folder": "of a folder that is not known",
    "opted out": "of a repository that opted out",
    "unreadable": "cannot be read",
    "no messages": "without messages",
}
"""Why a transcript is passed over, in words."""


def manage_transcripts(args: Namespace) -> int:
    """Show the transcripts on this machine, or take them in."""
    if args.verb == "list" or args.dry_run:
        return _show(args)
    return _import(args)


def _list(args: Namespace) -> list[Transcript]:
    from ...capture.survey import list_transcripts

    _, settings = load_settings(args)
    since = resolve_date("--since", args.since, settings.zone) if args.verb == "import" else None
    return list_transcripts(args.clients, since)


@dataclass(slots=True)
class _Group:
    """The transcripts of one client in one repository."""

    client: str
    repository: str
    project: str
    transcripts: int = 0
    size: int = 0
    messages: int = 0
    stored: int = 0
    newest: datetime = _LONG_AGO

    def add(self, line: SurveyLine) -> None:
        """Count one more."""
        self.transcripts += 1
        self.size += line.transcript.size
        self.messages += line.messages
        self.stored += line.stored
        self.newest = max(self.newest, line.transcript.changed_at)


def _show(args: Namespace) -> int:
    """Show what there is, by client and repository, and how much of it is new; nothing is stored."""
    from ...capture.survey import survey_transcripts

    transcripts = _list(args)
    groups: dict[tuple[str, str, str], _Group] = {}
    passed: Counter[str] = Counter()
    with _open_if_there(args) as engine, _measure(transcripts, "reading") as step:
        for line in survey_transcripts(engine, transcripts):
            step(line.transcript)
            if line.reason:
                passed[line.reason] += 1
                continue
            key = (line.transcript.client, line.repository, line.project)
            groups.setdefault(key, _Group(*key)).add(line)
    rows = sorted(groups.values(), key=lambda group: (-group.messages, -group.stored, group.client, group.repository))
    for group in rows:
        if args.json:
            print_json(
                {
                    "client": group.client, "repository": group.repository, "project": group.project,
                    "transcripts": group.transcripts, "bytes": group.size, "new": group.messages,
                    "stored": group.stored, "newest": group.newest.isoformat(),
                }
            )  # fmt: skip
        else:
            print(make_printable(_render_group(group)))
    sys.stdout.flush()
    if not args.json:
        _tell_total(args, rows, passed)
    return 0


def _render_group(group: _Group) -> str:
    columns = (
        group.client, group.repository, render_count(group.transcripts, "transcript"), render_size(group.size),
        f"{group.messages:,} new", f"{group.stored:,} stored",
    )  # fmt: skip
    return "\t".join(columns)


def _tell_total(args: Namespace, rows: Sequence[_Group], passed: Counter[str]) -> None:
    for reason, count in passed.items():
        note(f"{render_count(count, 'transcript')} {_PASSED[reason]}")
    new = sum(group.messages for group in rows)
    if not rows:
        note("there are no transcripts of coding agents that can be taken in")
    elif new:
        word = "would be taken in" if args.verb == "import" else "can be taken in: `cofio transcripts import` does that"
        projects = len({group.project for group in rows})
        note(f"{render_count(new, 'message')} of {render_count(projects, 'repository', 'repositories')} {word}")
    else:
        note("all of it is in the memory")


def _import(args: Namespace) -> int:
    """Take in what is new, transcript by transcript; a second run goes on where the first was stopped."""
    from ...capture.capture import Capture
    from ...vault.lifecycle import use_vault

    address, settings = load_settings(args)
    transcripts = _list(args)
    if not transcripts:
        note("there are no transcripts of coding agents that can be taken in")
        return 0
    total = _Totals()
    with open_memory(args, make=True) as engine, use_vault(engine, address.home, settings) as vault:
        capture = Capture(engine, mirror=vault, uses_model=False)
        try:
            with _measure(transcripts, "importing") as step:
                for transcript in transcripts:
                    try:
                        total.add(capture.take(transcript))
                    except OSError as error:
                        total.passed["unreadable"] += 1
                        note(f"{transcript.path} cannot be read: {error.strerror or error}")
                    step(transcript)
        except KeyboardInterrupt:
            note("stopped; what is in stays, and the same import again does the rest")
            raise
        _report(args, total)
        _embed(engine)
    return 0


@dataclass(slots=True)
class _Totals:
    """What all transcripts together came to."""

    transcripts: int = 0
    messages: int = 0
    present: int = 0
    episodes: int = 0
    lessons: int = 0
    masked: int = 0
    skipped: int = 0
    sidechain: int = 0
    torn: int = 0
    unreadable: int = 0
    unknown_types: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    projects: set[str] = field(default_factory=set)

    def add(self, report: CaptureReport) -> None:
        """Count one more transcript."""
        counts = report.counts
        self.sidechain += counts.sidechain
        self.torn += counts.torn
        self.unreadable += counts.unreadable
        self.unknown_types.update(counts.unknown_types)
        if report.reason:
            self.passed[report.reason] += 1
            return
        self.transcripts += bool(report.messages)
        self.messages += report.messages
        self.present += report.present
        self.episodes += report.episodes
        self.lessons += report.lessons
        self.masked += report.masked
        self.skipped += report.skipped
        if report.repository is not None and report.messages:
            self.projects.add(report.repository.project.name)


def _report(args: Namespace, total: _Totals) -> None:
    message = f"took in {render_count(total.messages, 'message')} of {render_count(total.transcripts, 'transcript')}"
    message += f" in {render_count(len(total.projects), 'repository', 'repositories')}" if total.projects else ""
    message += f", as {render_count(total.episodes, 'episode')}" if total.episodes else ""
    message += f" with {render_count(total.lessons, 'lesson')}" if total.lessons else ""
    passed: dict[str, Json] = dict(total.passed)
    unknown: dict[str, Json] = dict(total.unknown_types)
    choose_output(as_json=args.json).print_done(
        message, messages=total.messages, transcripts=total.transcripts, repositories=len(total.projects),
        present=total.present, episodes=total.episodes, lessons=total.lessons, masked=total.masked,
        skipped=total.skipped, sidechain=total.sidechain, torn=total.torn, unreadable=total.unreadable,
        unknown=unknown, passed=passed,
    )  # fmt: skip
    sys.stdout.flush()
    told = (
        (total.masked, "message", "had what looks like a secret, which is masked"),
        (total.skipped, "message", "left out as their user asked"),
        (total.sidechain, "message", "between agents left out"),
        (total.unreadable, "line", "could not be read"),
        (total.torn, "last line", "not finished yet"),
        (
            total.unknown_types.total(),
            "record",
            f"of types that are not known: {', '.join([*total.unknown_types][:5])}",
        ),
    )
    for count, noun, what in told:
        if count:
            note(f"{render_count(count, noun)} {what}")
    for reason, count in total.passed.items():
        if reason != "unreadable":
            note(f"{render_count(count, 'transcript')} {_PASSED[reason]}")


def _embed(engine: Engine) -> None:
    """Make the vectors of a few records at once; of many, say who makes them."""
    waiting = count_waiting(engine)
    if waiting <= FEW:
        settle(engine, limit=FEW)
        return
    note(
        f"words find all of it now; by meaning {render_count(waiting, 'record')} will be found once a server, or"
        " `cofio reindex`, has made the vectors"
    )


@contextmanager
def _open_if_there(args: Namespace) -> Iterator[Engine | None]:
    address, _ = load_settings(args)
    if not exists(address):
        yield None
        return
    with open_memory(args) as engine:
        yield engine


class _Steps:
    """A bar that moves by the sizes of transcripts."""

    def __init__(self, bar: Bar, stage: str, total: int) -> None:
        self._bar, self._stage, self._total = bar, stage, total
        self._done = 0

    def __call__(self, transcript: Transcript) -> None:
        self._done += transcript.size
        self._bar(self._stage, self._done // _UNIT, self._total // _UNIT)


@contextmanager
def _measure(transcripts: Sequence[Transcript], stage: str) -> Iterator[_Steps]:
    total = sum(each.size for each in transcripts)
    with Bar(stage, expect=total // _UNIT) as bar:
        yield _Steps(bar, stage, total)
