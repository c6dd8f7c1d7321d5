"""What each word list, pattern and heuristic of the rules for agents' runs is worth: the checks lost without it.

usage: python -m benchmarks.agent_run_ablation [--data FILE...]

Each area of `vocabulary.txt` is emptied, each pattern matches nothing, and each question that a function answers with a
text or with yes or no is answered with nothing, one at a time; then all files of `benchmarks.agent_runs` are judged.
What loses no check of any file is listed last: it stands for a promise of the docs or a test, or it can go.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

from cofio.extract import rules
from cofio.extract.extractor import Case
from cofio.extract.rules import agent_runs
from cofio.extract.rules.agent_runs import cases, vocabulary

from . import agent_runs as benchmark

MODULES = [
    importlib.import_module(f"{agent_runs.__name__}.{each.name}") for each in pkgutil.iter_modules(agent_runs.__path__)
]
NEVER = re.compile("(?!)")
NOTHING: dict[str, object] = {
    "bool": False, "bool | None": None, "str": "", "str | None": None, "list[str]": [], "set[str]": set(),
    "frozenset[str]": frozenset(),
}  # fmt: skip
"""What a function answers that is switched off, by what it returns."""


def count_passed(files: Sequence[Sequence[benchmark.Group]]) -> list[int]:
    """How many checks of each file are passed."""
    for module in MODULES:
        for value in vars(module).values():
            if hasattr(value, "cache_clear") and value is not vocabulary.read_areas:
                value.cache_clear()
    return [sum(verdict.passed for verdict in benchmark.judge(groups)) for groups in files]


def find_case(run: benchmark.Run) -> Case | None:
    """The last case of a run, without what else a flush makes of it."""
    found = cases.find_cases(run.messages, UTC)
    return found[-1] if len(found) == run.count else None


def replace_everywhere(old: object, new: object) -> Callable[[], None]:
    """Put something in the place of a value wherever it was imported; what puts it back."""
    places: list[tuple[ModuleType, str]] = []
    for module in (*MODULES, rules):
        for name, value in list(vars(module).items()):
            if value is old:
                places.append((module, name))
                setattr(module, name, new)

    def put_back() -> None:
        for module, name in places:
            setattr(module, name, old)

    return put_back


def list_ablations() -> Iterator[tuple[str, Callable[[], Callable[[], None]]]]:
    """The name of each thing that can be switched off, and what does so; what that returns switches it on again."""
    areas = vocabulary.read_areas()
    for area in areas:
        yield f"words: {area}", partial(empty_area, areas, area)
    for module in MODULES:
        short = module.__name__.rpartition(".")[2]
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern):
                yield f"pattern: {short}.{name}", partial(replace_everywhere, value, NEVER)
            elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
                returns = str(value.__annotations__.get("return"))
                if returns in NOTHING:
                    off = partial(answer_nothing, NOTHING[returns])
                    yield f"function: {short}.{name}", partial(replace_everywhere, value, off)


def empty_area(areas: dict[str, list[str]], area: str) -> Callable[[], None]:
    """Take all words of an area away; what puts them back."""
    lines = areas[area]
    areas[area] = []
    return partial(areas.__setitem__, area, lines)


def answer_nothing(nothing: object, *_: object, **__: object) -> object:
    """What a function answers that is switched off."""
    return nothing


def main() -> None:
    """Switch off each in turn, and print what is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", type=Path, default=benchmark.FILES, help="files of runs")
    given = parser.parse_args()
    benchmark.find_case = find_case
    files = [benchmark.load(path) for path in given.data]
    whole = count_passed(files)
    print(f"| without | {' | '.join(path.stem for path in given.data)} |\n|---|{'---|' * len(files)}")
    print(f"| nothing | {' | '.join(map(str, whole))} |")
    rows: list[tuple[int, str]] = []
    for name, switch_off in list_ablations():
        put_back = switch_off()
        try:
            lost = [before - now for before, now in zip(whole, count_passed(files), strict=True)]
            rows.append((-sum(lost), f"| {name} | {' | '.join(f'{-each:+d}' if each else '' for each in lost)} |"))
        except (IndexError, ValueError, TypeError) as error:
            rows.append((-sum(whole), f"| {name} | {type(error).__name__}: nothing works without it |"))
        finally:
            put_back()
    print("\n".join(row for _, row in sorted(rows, key=lambda pair: pair[0])))


if __name__ == "__main__":
    main()
