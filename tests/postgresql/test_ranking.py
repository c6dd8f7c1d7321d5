"""Words find the same on PostgreSQL as in a folder, in the same order."""

from __future__ import annotations

import random
import re
from pathlib import Path

from cofio import Draft, Engine, Query, Scope, Settings
from cofio.config.address import StoreAddress

ROOT = Path(__file__).parents[2]
QUIET = Settings(background=False, embedder="none", sync="normal")
QUERIES, TEN = 60, 10


def read_notes() -> list[Draft]:
    """The paragraphs of our own pages, each page in a scope of its own."""
    notes = []
    for page in [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for number, paragraph in enumerate(re.split(r"\n\s*\n", page.read_text())):
            if len(paragraph.split()) >= 12:
                scope = Scope("notes", page.stem)
                notes.append(Draft(scope=scope, title=f"{page.stem} {number}", text=paragraph, tags=(page.stem,)))
    return notes


def draw_queries(notes: list[Draft]) -> list[Query]:
    """A few words of some note, in its scope or in all."""
    draw = random.Random(4)
    queries: list[Query] = []
    while len(queries) < QUERIES:
        note = draw.choice(notes)
        words = re.findall(r"[A-Za-z]{2,}", note.text)
        start = draw.randrange(max(1, len(words) - 6))
        scope = draw.choice((note.scope, Scope("notes")))
        text = " ".join(words[start : start + draw.randint(2, 6)])
        queries.append(Query(text, scope=scope, mode="keyword", limit=TEN, floor=0.0))
    return queries


def test_the_first_ten_are_the_same_as_in_a_folder_for_nine_queries_of_ten(tmp_path: Path, store: StoreAddress) -> None:
    notes = read_notes()
    assert len(notes) > 300
    found = []
    for address in (StoreAddress(folder=tmp_path / "store"), store):
        with Engine.open(address, settings=QUIET) as engine:
            engine.write_many(notes)
            engine.settle()
            found.append([[hit.record.title for hit in engine.search(query)] for query in draw_queries(notes)])
    assert sum(len(titles) == TEN for titles in found[0]) > QUERIES / 2
    same = sum(one == other for one, other in zip(*found, strict=True))
    assert same >= 0.9 * QUERIES
    shared = sum(len({*one} & {*other}) for one, other in zip(*found, strict=True))
    assert shared >= 0.98 * sum(map(len, found[0]))
