"""How well does a search find the right records, stay silent where there are none, and know how sure it is?

usage: python -m benchmarks.retrieval --data FILE... [--modes hybrid,keyword,semantic,fts5] [--stores FOLDER]
       [--store postgresql://...] [--floor F|default] [--limit N] [--rows FILE.jsonl] [--plot FILE.svg]

You bring the data: LoCoMo, BEAM, documents as Cranfield, or JSON Lines of your own (docs/retrieval.md describes them).
Records are written, and questions asked, as any program does; a question is asked word for word of its own scope alone.
The table is Markdown, its figures in hundredths. Three more follow: how often nothing is found, with the store's
default floor; which of two records comes first where the data says so; and how far scores are probabilities.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias, get_args

from cofio import CofioError, Engine, Query, Scope, Settings, Unavailable
from cofio.config.address import StoreAddress
from cofio.values.query import Mode

from . import datasets
from .answers import ANOTHER, OWN, Answer, Found, Probe, Result, WayName
from .datasets import Dataset, Question
from .figures import measure
from .peers import Fts5
from .reliability import draw_reliability
from .retrieval_tables import render

LIMIT = 50
"""How many hits are asked for, unless told otherwise: more than a program shows, to see how far down the gold is."""
BATCH = 1000
Address: TypeAlias = Path | StoreAddress | str
USUAL: tuple[WayName, ...] = ("hybrid", "keyword", "semantic", "fts5")

Ask: TypeAlias = Callable[[Question, Scope, float | None], list[Found]]
"""Answers a question from the records of a scope, best first; with no floor given, by the store's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to search one set of data."""

    ask: Ask
    bytes_each: float
    """What a record takes on disk, with all that is derived from it."""


def search(memory: Engine, mode: Mode, limit: int) -> Ask:
    """Ask cofio.

    Raises:
        Unavailable: by the function returned, if a search cannot use everything that it should, as the model.
    """

    def ask(question: Question, scope: Scope, floor: float | None) -> list[Found]:
        query = Query(
            question.text, scope=scope, mode=mode, limit=limit, floor=floor, asker=question.asker,
            asked_at=question.asked_at,
        )  # fmt: skip
        page = memory.search(query)
        if page.degraded:
            raise Unavailable(page.degraded)
        return [Found(str(hit.record.data), hit.score) for hit in page]

    return ask


def search_fts5(folder: Path, dataset: Dataset, limit: int) -> Ask:
    """Ask FTS5 as agent-memory-store does, one database for each scope."""
    own = {scope: [draft for draft in dataset.drafts if draft.scope == scope] for scope in dataset.scopes}
    peers: dict[Scope, Fts5] = {}
    for number, (scope, drafts) in enumerate(own.items()):
        (folder / str(number)).mkdir()
        peers[scope] = Fts5(folder / str(number), drafts)

    def ask(question: Question, scope: Scope, floor: float | None) -> list[Found]:
        return [Found(str(own[scope][row].data), score) for row, score in peers[scope].rank(question.text, limit)]

    return ask


def fill(store: Address, settings: Settings, sets: Sequence[Dataset]) -> None:
    """Write the records that are not there yet, then index and embed them."""
    with Engine.open(store, settings=settings) as memory:
        for each in sets:
            for start in range(memory.count(each.root), len(each.drafts), BATCH):
                memory.write_many(each.drafts[start : start + BATCH])
        memory.settle()


@contextmanager
def open_ways(
    way: WayName, sets: Sequence[Dataset], stores: Path, store: Address | None, limit: int
) -> Iterator[Mapping[Scope, Way]]:
    """Open one way to search each set, by its root: in stores of its own under `stores`, or in one `store` for all."""
    with ExitStack() as opened:
        if way == "fts5":
            folders = [Path(opened.enter_context(tempfile.TemporaryDirectory())) for _ in sets]
            yield {each.root: _open_fts5(folder, each, limit) for folder, each in zip(folders, sets, strict=True)}
            return
        embedder = "none" if way == "keyword" else "minilm"
        chosen = Settings(
            background=False, embedder=embedder, fusion="rrf" if way == "rrf" else "convex",
            models=os.environ.get("COFIO_MODELS", ""),
        )  # fmt: skip
        apart = {each.root: stores / f"{each.root.names[0]}-{embedder}" for each in sets}
        shares: list[tuple[Address, Sequence[Dataset]]] = (
            [(store, sets)] if store else [(apart[each.root], [each]) for each in sets]
        )
        ways: dict[Scope, Way] = {}
        for address, own in shares:
            fill(address, chosen, own)  # and close it: what is measured is a store at rest, without a log
            memory = opened.enter_context(Engine.open(address, settings=chosen))
            found = Way(ask=search(memory, "hybrid" if way == "rrf" else way, limit), bytes_each=_measure_bytes(memory))
            ways |= dict.fromkeys((each.root for each in own), found)
        yield ways


def _open_fts5(folder: Path, dataset: Dataset, limit: int) -> Way:
    ask = search_fts5(folder, dataset, limit)
    size = sum(file.stat().st_size for file in folder.rglob("fts5.db*"))
    return Way(ask=ask, bytes_each=size / len(dataset.drafts))


def _measure_bytes(memory: Engine) -> float:
    stats = memory.stats()
    return (stats.bytes_database + stats.bytes_index + stats.bytes_vectors) / stats.records


def answer(ask: Ask, question: Question, floor: float | None) -> Answer:
    """Ask a question of its own scope, and once more with the store's default floor."""
    start = time.perf_counter()
    found = ask(question, question.scope, floor)
    milliseconds = (time.perf_counter() - start) * 1000
    return Answer(
        question=question,
        found=tuple(found),
        figures=measure([each.id for each in found], question.gold),
        milliseconds=milliseconds,
        silent=not ask(question, question.scope, None),
    )


def list_probes(dataset: Dataset, others: Sequence[Dataset]) -> Iterator[tuple[Question, str, Dataset, Scope]]:
    """Every question that is asked where nothing answers it, of what, and of which scope of which set.

    Those without an answer are asked of their own scope; those with one of the next scope of the set; and, if this set
    or another has one scope only, of that other's scopes in turn.
    """
    for question in dataset.unanswerable:
        yield question, OWN, dataset, question.scope
    scopes = dataset.scopes
    if len(scopes) > 1:
        following = dict(zip(scopes, (*scopes[1:], scopes[0]), strict=True))
        for question in dataset.answerable:
            yield question, ANOTHER, dataset, following[question.scope]
    for other in others:
        if 1 in (len(scopes), len(other.scopes)):
            for number, question in enumerate(dataset.answerable):
                yield question, other.name, other, other.scopes[number % len(other.scopes)]


def run(
    way: WayName,
    sets: Sequence[Dataset],
    stores: Path,
    *,
    store: Address | None = None,
    floor: float | None,
    limit: int = LIMIT,
) -> list[Result]:
    """Search every set in one way; `floor` is for the ranking, None for the store's default."""
    with open_ways(way, sets, stores, store, limit) as ways:
        return [_run_set(way, each, [other for other in sets if other is not each], ways, floor) for each in sets]


def _run_set(
    way: WayName, dataset: Dataset, others: Sequence[Dataset], ways: Mapping[Scope, Way], floor: float | None
) -> Result:
    own = ways[dataset.root]
    probes = [
        Probe(question=question, asked=asked, scope=scope, silent=not ways[of.root].ask(question, scope, None))
        for question, asked, of, scope in list_probes(dataset, others)
    ]
    return Result(
        dataset=dataset,
        way=way,
        bytes_each=own.bytes_each,
        answers=tuple(answer(own.ask, question, floor) for question in dataset.answerable),
        probes=tuple(probes),
    )


def write_rows(path: Path, results: Sequence[Result]) -> None:
    """Write a line of JSON for each question and way."""
    with path.open("w", encoding="utf-8") as file:
        for row in (row for result in results for row in _list_rows(result)):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _list_rows(result: Result) -> Iterator[dict[str, object]]:
    for each in result.answers:
        yield {
            "set": result.dataset.name,
            "way": result.way,
            "question": each.question.text,
            "kind": each.question.kind,
            "asked": OWN,
            "scope": str(each.question.scope),
            "gold": sorted(each.question.gold),
            "below": sorted(each.question.below),
            "found": [{"id": found.id, "score": round(found.score, 6)} for found in each.found],
            "figures": {name: round(value, 6) for name, value in asdict(each.figures).items()},
            "milliseconds": round(each.milliseconds, 3),
            "silent": each.silent,
        }
    for probe in result.probes:
        yield {
            "set": result.dataset.name,
            "way": result.way,
            "question": probe.question.text,
            "kind": probe.question.kind,
            "asked": probe.asked,
            "scope": str(probe.scope),
            "gold": [],
            "silent": probe.silent,
        }


def _parse_ways(text: str) -> tuple[WayName, ...]:
    known: dict[str, WayName] = {name: name for name in get_args(WayName)}
    try:
        return tuple(known[name] for name in text.split(","))
    except KeyError as error:
        raise argparse.ArgumentTypeError(f"{error} is not one of {', '.join(known)}") from None


def _parse_floor(text: str) -> float | None:
    return None if text == "default" else float(text)


def main() -> None:
    """Load, write, ask, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.retrieval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--modes", type=_parse_ways, default=USUAL, help=f"some of {', '.join(get_args(WayName))}")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--stores", type=Path, help="keep the stores in this folder: the next run need not embed again")
    kept.add_argument("--store", help="the URL of one store for everything, as postgresql://...")
    parser.add_argument(
        "--floor", type=_parse_floor, default=0.0, help="for the ranking: a number, or default for the store's own"
    )
    parser.add_argument(
        "--limit", type=int, default=LIMIT, help="how many hits to ask for: a search for fewer looks at fewer"
    )
    parser.add_argument("--rows", type=Path, help="write a line of JSON for each question and mode")
    parser.add_argument("--plot", type=Path, help="draw scores against the share that is relevant, as SVG")
    given = parser.parse_args()
    try:
        sets = [datasets.load(path) for path in given.data]
        with tempfile.TemporaryDirectory() as folder:
            stores = given.stores or Path(folder)
            runs = [
                run(way, sets, stores, store=given.store, floor=given.floor, limit=given.limit) for way in given.modes
            ]
    except CofioError as error:
        parser.error(str(error))
    results = [result for each in runs for result in each]
    print(render(results))
    if given.rows:
        write_rows(given.rows, results)
    if given.plot:
        given.plot.write_text(draw_reliability(results), encoding="utf-8")


if __name__ == "__main__":
    main()
