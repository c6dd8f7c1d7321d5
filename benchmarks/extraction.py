"""What do messages leave behind, of what they should? Kept as a fact, in the profile, wrongly there, and noise.

usage: python -m benchmarks.extraction [--data FILE] [--vectors] [--misses] [--write LABEL]

Each message is one user's only one, added and flushed as the REST door does it; where a language model is set up (see
docs/models.md), its records count in place of the rules'. With --vectors, sentences are judged by their vectors too,
which needs the model that is installed by default. The default is the test half of our own labelled messages; whoever
changes an extractor looks at `--data benchmarks/data/extraction_train.jsonl --misses`, and at no more than the figures
of the test half. --write puts the figures under a heading of that label into benchmarks/results/extraction.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from cofio import Engine, Kind, Settings
from cofio.conversations.conversations import Conversations, Project
from cofio.conversations.message_records import fields
from cofio.doors.rest.assistant import open_assistant
from cofio.engine.jobs import list_jobs
from cofio.extract.extractor import Message
from cofio.llm import Failed
from cofio.values.records import Json

from .__main__ import RESULTS
from .labelled_messages import CLASSES, DATA, NOISE, WORLD, Labelled, Leaf, load_messages

Item: TypeAlias = dict[str, Json]
PROJECT = Project()
SPOKEN = datetime(2026, 5, 11, 9, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What one message left."""

    facts: tuple[str, ...]
    current: tuple[Item, ...] = ()
    ended: tuple[Item, ...] = ()
    instructions: tuple[Item, ...] = ()

    def is_kept(self, leaf: Leaf) -> bool:
        """Whether the words of a statement survived anywhere but in the episode, which holds everything."""
        return any(map(leaf.is_in, self.facts)) or any(leaf.is_in(_get_text(item)) for item in self._list_items())

    def is_in_profile(self, leaf: Leaf) -> bool:
        """Whether the profile says it, and where it belongs."""
        if leaf.kind == "instruction":
            return any(leaf.is_in(_get_text(item)) for item in self.instructions)
        items = self.ended if leaf.kind == "ended" else self.current
        return any(leaf.is_in(_get_text(item)) for item in items)

    def is_misfiled(self, leaf: Leaf) -> bool:
        """Whether the profile says it, but under a category where nobody would look for it."""
        items = [item for item in (*self.ended, *self.current) if leaf.is_in(_get_text(item))]
        return bool(items) and not any(item.get("category") in leaf.get_categories() for item in items)

    def find_wrong(self, labelled: Labelled) -> list[str]:
        """What the profile says that the message did not, or says to hold where it ended, or the other way round."""
        wrong: list[str] = []
        for items, kinds in ((self.current, CLASSES[:-2]), (self.ended, ("ended",)), (self.instructions, CLASSES[-1:])):
            if not any(leaf.kind in kinds for leaf in labelled.leaves):
                wrong += [f"{item.get('category', 'instruction')}: {_get_text(item)}" for item in items]
        return wrong

    def _list_items(self) -> Iterable[Item]:
        return (*self.current, *self.ended, *self.instructions)


@dataclass(slots=True)
class Tally:
    """How many of how many."""

    right: int = 0
    whole: int = 0

    def add(self, holds: bool) -> None:
        """Count one more."""
        self.right += holds
        self.whole += 1

    def __str__(self) -> str:
        return f"{100 * self.right / self.whole:.0f}% of {self.whole}" if self.whole else "–"


@dataclass(slots=True)
class Figures:
    """The tallies of a run: in all, and by class, noise and hand."""

    kept: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    in_profile: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    noise_kept: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    noise_in_profile: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    misfiled: Tally = field(default_factory=Tally)
    wrong: list[str] = field(default_factory=list)
    entries: int = 0
    misses: list[str] = field(default_factory=list)
    unread: int = 0
    """Of how many messages a language model made nothing, so that the rules' records count."""

    def add(self, labelled: Labelled, remains: Remains) -> None:
        """Count what a message left."""
        wrong = remains.find_wrong(labelled)
        self.wrong += [f"{each!r} of {labelled.text!r}" for each in wrong]
        self.entries += len(remains.current) + len(remains.ended) + len(remains.instructions)
        hand = f"hand {labelled.hand} ({labelled.style}, {labelled.language})"
        if labelled.noise is not None:
            told = bool(remains.facts or remains.current or remains.ended or remains.instructions)
            profiled = bool(remains.current or remains.ended or remains.instructions)
            self.noise_in_profile["all"].add(profiled)
            self.noise_in_profile[labelled.noise].add(profiled)
            for name in ("all", labelled.noise, hand) if labelled.noise != WORLD else (WORLD,):
                self.noise_kept[name].add(told)
            if profiled or (told and labelled.noise != WORLD):
                self.misses.append(f"noise kept ({labelled.noise}): {labelled.text!r}")
        for leaf in labelled.leaves:
            kept, profiled = remains.is_kept(leaf), remains.is_in_profile(leaf)
            if profiled and leaf.kind != "instruction":
                self.misfiled.add(remains.is_misfiled(leaf))
            groups = (leaf.kind, hand, *(() if leaf.kind == "instruction" else ("all",)))
            for name in groups:
                self.kept[name].add(kept)
                self.in_profile[name].add(profiled)
            if not profiled:
                self.misses.append(f"{'kept only' if kept else 'lost'} ({leaf.kind}): {leaf.keys} of {labelled.text!r}")

    def render(self) -> list[str]:
        """The figures as tables of Markdown."""
        share = 100 * len(self.wrong) / max(self.entries, 1)
        lines = [
            "| what | |", "|---|---|",
            f"| statements kept anywhere | {self.kept['all']} |",
            f"| statements in the profile | {self.in_profile['all']} |",
            f"| of those, under a category that is not theirs | {self.misfiled} |",
            f"| entries of profiles that are wrong | {share:.1f}% of {self.entries} |",
            f"| instructions found | {self.in_profile['instruction']} (kept {self.kept['instruction']}) |",
            f"| noise kept | {self.noise_kept['all']} |",
            f"| noise in a profile | {self.noise_in_profile['all']} |",
            "", "| class | kept | in the profile |", "|---|---|---|",
        ]  # fmt: skip
        lines += [f"| {name} | {self.kept[name]} | {self.in_profile[name]} |" for name in CLASSES]
        lines += ["", "| noise | kept | in a profile |", "|---|---|---|"]
        lines += [f"| {name} | {self.noise_kept[name]} | {self.noise_in_profile[name]} |" for name in (*NOISE, WORLD)]
        lines += ["", "| written by | kept | in the profile | noise kept |", "|---|---|---|---|"]
        hands = [name for name in self.kept if name.startswith("hand ")]
        lines += [
            f"| {name.removeprefix('hand ')} | {self.kept[name]} | {self.in_profile[name]} | {self.noise_kept[name]} |"
            for name in hands
        ]
        return lines


def score(messages: Sequence[Labelled], settings: Settings) -> tuple[Figures, float]:
    """What the messages leave in a new store with these settings, and the mean milliseconds of an add and a flush."""
    figures = Figures()
    spent = 0.0
    with tempfile.TemporaryDirectory() as folder, Engine.open(Path(folder) / "store", settings=settings) as engine:
        assistant = open_assistant(settings, Path(folder) / "store", lambda: engine)
        reader = assistant.reader if assistant else None
        conversations = Conversations(engine, reader=reader)
        for number, labelled in enumerate(messages):
            user = f"user{number}"
            message = Message(id=f"m{number}", sender=user, name="Robin", at=SPOKEN, text=labelled.text)
            began = time.perf_counter()
            conversations.append(PROJECT, user, [message])
            conversations.carve(PROJECT, user, whole=True)
            spent += time.perf_counter() - began
            if conversations.has_model:
                figures.unread += not refine_all(engine, conversations)
            figures.add(labelled, read_remains(engine, user))
        if assistant is not None:
            assistant.close()
    return figures, 1000 * spent / max(len(messages), 1)


def refine_all(engine: Engine, conversations: Conversations) -> bool:
    """Have the model refine what was just carved, as a server's jobs do.

    Returns:
        False where a model failed.
    """
    done = True
    for job in list_jobs(engine, "refine"):
        try:
            conversations.refine(PROJECT, fields(job))
        except Failed as problem:
            print(f"the model: {problem}", file=sys.stderr)
            done = False
        engine.delete(job.id)
    return done


def read_remains(engine: Engine, user: str) -> Remains:
    """What there is of a user."""
    home = PROJECT.owner("user", user)
    facts = tuple(record.text for record in engine.list(home, exact=True, kinds=(Kind.FACT,), limit=100))
    profiles = engine.list(home, exact=True, kinds=(Kind.PROFILE,), limit=1)
    document = fields(profiles[0]) if profiles else {}

    def read(name: str) -> tuple[Item, ...]:
        items = document.get(name)
        return tuple(item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()

    return Remains(
        facts=facts, current=read("explicit_info"), ended=read("ended_info"), instructions=read("instructions")
    )


def write_section(label: str, lines: Sequence[str]) -> None:
    """Put a section into the results, in the place of an older one of its label."""
    file = RESULTS / "extraction.md"
    text = file.read_text(encoding="utf-8") if file.exists() else "# What messages leave behind\n"
    head, *sections = text.rstrip("\n").split("\n## ")
    others = [each for each in sections if each.partition("\n")[0] != label]
    fresh = "\n".join([label, "", f"{datetime.now(UTC):%d %B %Y}", "", *lines])
    file.write_text("\n## ".join([head, *others, fresh]) + "\n", encoding="utf-8")


def _get_text(item: Item) -> str:
    value = item.get("description", item.get("text"))
    return value if isinstance(value, str) else ""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA / "extraction_test.jsonl", help="labelled messages, as JSONL")
    parser.add_argument("--misses", action="store_true", help="print each message that left too little or too much")
    parser.add_argument("--write", metavar="LABEL", help="keep the figures in benchmarks/results/extraction.md")
    parser.add_argument("--vectors", action="store_true", help="read with vectors too")
    given = parser.parse_args()
    found = Settings.load(Path())
    settings = Settings(
        embedder="minilm" if given.vectors else "none",
        background=False, vault=False, llm_base_url=found.llm_base_url, llm_model=found.llm_model,
        llm_api_key=found.llm_api_key, llm_budget=found.llm_budget,
    )  # fmt: skip
    figures, milliseconds = score(load_messages(given.data), settings)
    if given.misses:
        print("\n".join([*figures.misses, *(f"wrong: {each}" for each in figures.wrong)]))
    lines = [*figures.render(), "", f"{milliseconds:.1f} ms to add and flush one message, on the mean."]
    if figures.unread:
        lines.append(f"The model made nothing of {figures.unread} messages; what the rules made of them counts.")
    print("\n".join(lines))
    if given.write:
        write_section(given.write, lines)


if __name__ == "__main__":
    main()
