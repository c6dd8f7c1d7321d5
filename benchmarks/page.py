"""How large is the page, and how soon is it there? Its sizes, and its first paint in a real browser.

usage: python -m benchmarks.page [--records 100000] [--rounds 20] [--write]

A store of so many records, with words and vectors (the hashed embedder's, so that no model is needed), is served by
`cofio serve` with one worker; Debian's chromium asks for a search that no one has asked for before, without and with
the page's assets in its cache. First paint is the browser's own `first-contentful-paint`, from the moment that the
address is entered; results while typing are from the last key to the new results on the page.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from cofio import Engine, Settings
from cofio.doors.page.asset_files import load_assets

from . import corpus
from .__main__ import RESULTS, machine

RECORDS, ROUNDS = 100_000, 20
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
SETTINGS = Settings(embedder="hashed", background=False, sync="normal")
PAINT = """new Promise((done) => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (paint) done(paint.startTime);
}).observe({type: "paint", buffered: true}))"""
ANSWER = "performance.getEntriesByType('navigation')[0].responseEnd"
SCREENS = ("activity", "days", "review", "conversations", "threads", "health", "start")


@dataclass(slots=True)
class Measurement:
    """Milliseconds of each thing that was measured, and bytes of each page."""

    times: dict[str, list[float]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, milliseconds: float) -> None:
        """Add a time."""
        self.times.setdefault(name, []).append(milliseconds)


def fill(store: Path, count: int) -> list[str]:
    """Fill a store, and return questions to it."""
    drafts = corpus.drafts(count)
    with Engine.open(store, settings=SETTINGS) as engine:
        for start in range(0, count, 10_000):
            engine.write_many(drafts[start : start + 10_000])
        engine.settle()
    return corpus.questions(drafts, 200)


@contextmanager
def serve(store: Path, *, embedder: str = "hashed") -> Iterator[str]:
    """`cofio serve` on the store; its address."""
    command = [sys.executable, "-m", "cofio", "serve", "--port", "0", "--workers", "1", "--store", str(store)]
    environment = os.environ | {"COFIO_EMBEDDER": embedder, "COFIO_SYNC": "normal"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=store.parent) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().removesuffix("/mcp")
        finally:
            process.terminate()


def measure(browser: Browser, url: str, questions: list[str], rounds: int) -> Measurement:
    """Measure first paints and results as one types."""
    measured = Measurement()
    fresh = iter(questions)
    warm = browser.new_context(base_url=url)
    _paint(warm, f"/?q={quote(next(fresh))}", Measurement(), "")
    for _ in range(rounds):
        cold = browser.new_context(base_url=url)
        _paint(cold, f"/?q={quote(next(fresh))}", measured, "a search, nothing cached")
        cold.close()
        _paint(warm, f"/?q={quote(next(fresh))}", measured, "a search, assets cached")
        _type(warm, next(fresh), measured)
    page = warm.new_page()
    page.goto("/")
    link = page.locator(".hit-title a").first.get_attribute("href") or "/"
    for name, address in [("a record", link), *((each, f"/page/{each}") for each in SCREENS)]:
        for _ in range(max(3, rounds // 4)):
            measured.sizes[name] = _paint(warm, address, measured, name)
    warm.close()
    return measured


def _paint(context: BrowserContext, address: str, measured: Measurement, name: str) -> int:
    page = context.new_page()
    answer = page.goto(address)
    measured.add(name, page.evaluate(PAINT))
    measured.add(f"{name}: the server's answer", page.evaluate(ANSWER))
    size = len(answer.body()) if answer is not None else 0
    page.close()
    return size


def _type(context: BrowserContext, question: str, measured: Measurement) -> None:
    page = context.new_page()
    page.goto("/")
    box = page.locator("input[type=search]")
    box.fill(question[:-1])
    page.wait_for_timeout(500)
    page.evaluate(
        "() => { window.changed = new Promise((done) => new MutationObserver(() => done(performance.now()))"
        ".observe(document.getElementById('results'), {childList: true}));"
        "window.typed = new Promise((done) => addEventListener('input', () => done(performance.now()), true)); }"
    )
    box.press_sequentially(question[-1])
    measured.add("results after the last key", page.evaluate("Promise.all([typed, changed]).then(([a, b]) => b - a)"))
    page.close()


def render(measured: Measurement, records: int) -> str:
    """The results as a page."""
    assets = load_assets()
    total = sum(len(asset.compressed) for asset in assets.values())
    lines = [
        "# The page", "", machine(), "",
        f"All assets together: **{total / 1000:.1f} KB** compressed (gzip), of 50 that are allowed.", "",
        "| asset | bytes | compressed |", "|---|---|---|",
        *(f"| {name} | {len(each.content):,} | {len(each.compressed):,} |" for name, each in sorted(assets.items())),
        "", f"Milliseconds to the first paint in Debian's chromium, of {records:,} records, one worker:", "",
        "| what | p50 | p95 | of it, the server's answer (p50) | bytes of HTML |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, times in measured.times.items():
        if name.endswith("answer"):
            continue
        answers = measured.times.get(f"{name}: the server's answer")
        answer = f"{statistics.median(answers):.0f}" if answers else ""
        size = f"{measured.sizes[name]:,}" if name in measured.sizes else ""
        p95 = sorted(times)[min(len(times) - 1, round(0.95 * len(times)))]
        lines.append(f"| {name} | {statistics.median(times):.0f} | {p95:.0f} | {answer} | {size} |")
    lines += [
        "",
        "While one types, the page waits for 80 ms without a key before it asks; that is part of the time.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print or write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="into benchmarks/results/page.md")
    args = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium on this machine")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        questions = fill(Path(folder) / "store", args.records)
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        with serve(Path(folder) / "store") as url:
            page = render(measure(browser, url, questions, args.rounds), args.records)
        browser.close()
    print(page)
    if args.write:
        (RESULTS / "page.md").write_text(page)


if __name__ == "__main__":
    main()
