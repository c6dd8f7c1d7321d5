"""Does a question in one language find a note in another? 48 English notes, and a question for each in seven languages.

usage: python -m benchmarks.languages [--floor F] [--write]

`benchmarks/data/languages.json` was written for this. Each embedder is measured alone, by cosine, and in the engine:
all notes in one store, by words and meaning, with no floor unless one is given. R@1 is the share of questions whose
note comes first, R@5 of those that have it among the first five.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from cofio import Engine, Query, Scope, Settings
from cofio.embed import Embedder, open_embedder
from cofio.embed.install import install
from cofio.embed.models import MODELS

from .__main__ import RESULTS, machine

DATA = Path(__file__).parent / "data" / "languages.json"
LANGUAGES = {
    "en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "pt": "Portuguese",
    "ja": "Japanese",
}  # fmt: skip
FIRST = 5
ROUNDS = 5


def load() -> list[dict[str, str]]:
    """Each note with its questions by language."""
    read: list[dict[str, str]] = json.loads(DATA.read_text(encoding="utf-8"))
    return read


def rank_by_cosine(embedder: Embedder, pairs: list[dict[str, str]], language: str) -> list[int]:
    """Where each question's note stands among all, 0 for the first."""
    notes = embedder.embed([pair["note"] for pair in pairs])
    questions = np.array([embedder.embed_query(pair[language]) for pair in pairs])
    scores = questions @ notes.T
    ranks: list[int] = (scores > np.diag(scores)[:, None]).sum(1).tolist()
    return ranks


def rank_by_engine(engine: Engine, pairs: list[dict[str, str]], language: str, floor: float) -> list[int]:
    """The same for a search; FIRST where the note is not among the first."""
    ranks = []
    for pair in pairs:
        page = engine.search(Query(pair[language], limit=FIRST, floor=floor))
        found = [hit.record.text for hit in page]
        ranks.append(found.index(pair["note"]) if pair["note"] in found else FIRST)
    return ranks


def render(ranks: list[int]) -> str:
    """R@1 and R@5 in percent."""
    return " / ".join(f"{100 * sum(rank < first for rank in ranks) / len(ranks):.0f}" for first in (1, FIRST))


def measure(name: str, pairs: list[dict[str, str]], folder: Path, floor: float) -> tuple[dict[str, list[str]], str]:
    """What each way finds, by language, and a line about the embedder's speed."""
    settings = Settings(background=False, embedder=name)
    model = MODELS[name]
    install(settings.models_folder, model)
    embedder = open_embedder(name, models=settings.models_folder)
    assert embedder is not None
    began = time.process_time()
    embedder.embed([""])
    loaded = time.process_time() - began
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        embedder.embed([pair["note"] for pair in pairs])
        rounds.append((time.process_time() - began) / len(pairs))
    found: dict[str, list[str]] = {}
    with Engine.open(folder, settings=settings) as engine:
        for pair in pairs:
            engine.write(Scope(), text=pair["note"])
        engine.settle()
        found["by cosine"] = [render(rank_by_cosine(embedder, pairs, each)) for each in LANGUAGES]
        found["in the engine"] = [render(rank_by_engine(engine, pairs, each, floor)) for each in LANGUAGES]
    kept = sum(file.stat().st_size for file in (settings.models_folder / model.id).iterdir())
    speed = f"{1000 * loaded:.0f} | {1000 * statistics.median(rounds):.1f}"
    return found, f"| `{name}` | {model.size} | {kept / 1e6:.0f} MB | {embedder.dimensions} | {speed} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--floor", type=float, default=0.0, help="the least probability of a hit (default: 0)")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    pairs = load()
    lines = ["# Questions in other languages than the notes", "", machine(), ""]
    lines += [
        f"R@1 / R@{FIRST} in percent, of {len(pairs)} questions in each language about as many English notes:",
        "",
    ]
    lines += ["| embedder | way | " + " | ".join(LANGUAGES.values()) + " |", "|---|---|" + "---|" * len(LANGUAGES)]
    speeds = []
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            found, speed = measure(name, pairs, Path(folder) / name, given.floor)
            lines += [f"| `{name}` | {way} | " + " | ".join(cells) + " |" for way, cells in found.items()]
            speeds.append(speed)
    lines += ["", "Milliseconds are of one core:", ""]
    lines += [
        "| embedder | to fetch | on the disk | numbers a vector | ms to load | ms a note |",
        "|---|---|---|---|---|---|",
    ]
    text = "\n".join([*lines, *speeds]) + "\n"
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "languages.md").write_text(text)


if __name__ == "__main__":
    main()
