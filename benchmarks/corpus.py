"""Real text to measure with: the paragraphs of documentation that this machine has anyway.

Docstrings and comments of every Python package in reach, and /usr/share/doc where there is one. When a size
asks for more than there is, further records join the halves of two different paragraphs.
"""

from __future__ import annotations

import ast
import hashlib
import json
import random
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cofio import Draft, Engine, Scope
from cofio.backends.upkeep_interface import Index, Tidy
from cofio.config.settings import Settings
from cofio.embed import open_embedder

CACHE = Settings().models_folder.parent / "bench"
EMBEDDED = 20_000
AUTHORS = ("pm", "backend-dev", "reviewer", "ops", "")
TAGS = ("auth", "architecture", "decision", "bug", "deploy", "api", "schema", "handoff", "performance", "security")


def settle(engine: Engine, embedder: str, vectors: Callable[[int, int], NDArray[np.float32]]) -> None:
    """Index every record, and give each a vector: `vectors(done, count)` has the next ones."""
    backend, done = engine._backend, 0
    while backend.upkeep(Index(limit=20_000)).more:
        pass
    while True:
        with backend.claim(embedder, 5000) as batch:
            if batch is None:
                break
            batch.store(vectors(done, len(batch.texts)) if batch.texts else None)
            done += len(batch.texts)
    backend.upkeep(Index(limit=1, embedder=embedder))
    backend.upkeep(Tidy())


def paragraphs() -> list[str]:
    """Every distinct paragraph of prose found, in an order that is the same each time."""
    kept = CACHE / "paragraphs.json"
    if kept.exists():
        return list(json.loads(kept.read_text()))
    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    found = {text for folder in (*folders, Path("/usr/share/doc"), Path("/usr/lib/python3")) for text in _prose(folder)}
    ordered = sorted(found, key=lambda text: hashlib.blake2b(text.encode()).digest())
    CACHE.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(ordered))
    return ordered


def drafts(count: int) -> list[Draft]:
    """So many records: a hundred scopes of one per cent each, tags and authors as agents use them."""
    source = paragraphs()
    draw = random.Random(7)
    made = []
    for number in range(count):
        text = source[number % len(source)]
        if number >= len(source):
            other = draw.choice(source).split()
            words = text.split()
            text = " ".join(words[: len(words) // 2] + other[len(other) // 2 :])
        made.append(
            Draft(
                scope=Scope("bench", f"project-{number % 100}"),
                title=" ".join(text.split()[:6])[:200],
                text=text,
                tags=tuple(draw.sample(TAGS, draw.randint(1, 3))),
                author=draw.choice(AUTHORS),
                data={"n": number % 1000},
            )
        )
    return made


def questions(records: list[Draft], count: int) -> list[str]:
    """Questions as agents put them: a few words of some record, in order, small words included."""
    draw = random.Random(11)
    asked: list[str] = []
    while len(asked) < count:
        words = re.findall(r"[A-Za-z]{2,}", draw.choice(records).text)
        if len(words) >= 8:
            start = draw.randrange(len(words) - 7)
            asked.append(" ".join(words[start : start + draw.randint(4, 8)]))
    return asked


def vectors(count: int) -> NDArray[np.float32]:
    """Vectors of the first records: MiniLM's for EMBEDDED of them, made once, and those jittered for the rest."""
    kept = CACHE / f"vectors-{EMBEDDED}.npy"
    if not kept.exists():
        embedder = open_embedder("minilm", models=Settings().models_folder)
        assert embedder is not None
        texts = [draft.text for draft in drafts(EMBEDDED)]
        rows = []
        for start in range(0, len(texts), 500):
            rows.append(embedder.embed(texts[start : start + 500]))
            print(f"  embedding the corpus, once: {start + 500:,} of {EMBEDDED:,}", end="\r", flush=True)
        np.save(kept, np.concatenate(rows))
        print()
    real: NDArray[np.float32] = np.load(kept)
    if count <= len(real):
        return real[:count]
    draw = np.random.default_rng(3)
    made = real[draw.integers(0, len(real), count - len(real))]
    made += draw.normal(0, 0.2 / np.sqrt(made.shape[1]), made.shape).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return np.concatenate([real, made])


def _prose(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if (
            path.suffix not in (".py", ".txt", ".md", ".rst", "")
            or not path.is_file()
            or path.stat().st_size > 2_000_000
        ):
            continue
        text = path.read_text("utf-8", "ignore")
        for piece in _docstrings(text) if path.suffix == ".py" else [text]:
            for block in re.split(r"\n\s*\n", piece):
                words = re.sub(r"[\s\0\ud800-\udfff]+", " ", block).strip(" #*/").split()
                for start in range(0, len(words), 90):
                    part = words[start : start + 90]
                    shown = " ".join(part)
                    if len(part) >= 12 and sum(c.isalpha() or c == " " for c in shown) > 0.85 * len(shown):
                        yield shown


def _docstrings(source: str) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text
    yield "\n".join(line.strip()[1:] if line.strip().startswith("#") else "" for line in source.splitlines())
