"""A short tour of cofio: remember, find by words and by meaning, see why, stay within a scope."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cofio import Engine, Hit, Page, Query, Scope, Settings

SHOP, BLOG = Scope("tour", "shop"), Scope("tour", "blog")
NOTES = [
    (SHOP, "Going live", "The deploy runs on Fridays at noon, once all the tests are green."),
    (SHOP, "Token lifetime", "Refresh tokens live for 30 days, access tokens for 15 minutes."),
    (SHOP, "Payments", "Stripe retries a failed webhook for three days, so each handler must be idempotent."),
    (SHOP, "Prices", "Amounts are whole cents; a float lost us a penny in March."),
    (BLOG, "Tone", "Write to one reader, in short sentences."),
    (BLOG, "Pictures", "Every picture needs a caption and its source."),
]
say = Console(highlight=False, soft_wrap=True).print


def main() -> None:
    """Walk through a memory in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="cofio-tour-") as folder:
        settings = replace(Settings.load(Path(folder)), background=False)
        with Engine.open(folder, settings=settings) as engine:
            walk(engine)
    say("\nNow it is your turn: [bold].venv/bin/cofio --help[/]")
    say('  .venv/bin/cofio add "The deploy runs on Fridays." --tag ops')
    say("  .venv/bin/cofio search when do we release --why")


def walk(engine: Engine) -> None:
    """Write, ask, ask elsewhere, write again."""
    for scope, title, text in NOTES:
        engine.write(scope, title=title, text=text, source="tour")
    embedded = engine.settle()
    say(f"[bold]Remembered[/] {len(NOTES)} notes in two scopes, {embedded} of them with a vector.")
    if engine.embedder() is None:
        say("[yellow]No model is installed[/], so notes are found by their words only: run `cofio model install`.")

    for question in ("How long do tokens stay valid?", "When do we ship to production?"):
        say(f"\n[bold]Asked[/] in {SHOP}: [cyan]{question}[/]")
        tell(engine.search(Query(question, scope=SHOP)))

    say(f"\n[bold]Asked[/] the same in {BLOG}, from where {SHOP} cannot be seen:")
    tell(engine.search(Query(question, scope=BLOG)))

    engine.write(SHOP, title="Incident 4711", text="The cache of kestrel-7 filled the disk.", source="tour")
    started = time.perf_counter()
    page = engine.search(Query("kestrel-7", scope=SHOP, mode="keyword"))
    took = 1000 * (time.perf_counter() - started)
    say(f"\n[bold]Written just now[/], and found by its words at once, in {took:.1f} ms:")
    tell(page)


def tell(page: Page) -> None:
    """Print the best hit and why it was found, or that there is none."""
    if not page:
        far = f"{page.cut} notes were weighed, and none was near enough"
        say(f"  Nothing: {far if page.cut else 'no note shares a word with it'}.")
        return
    hit = page[0]
    say(f"  [green]{hit.record.title}[/]: {hit.record.text}")
    for sentence in reasons(hit, page):
        say(f"    {sentence}")


def reasons(hit: Hit, page: Page) -> list[str]:
    """Why a hit was found, in sentences."""
    said, why = [], hit.why
    if why.keyword:
        words = ", ".join(why.words)
        said.append(f"By words it ranks {why.keyword.rank} of {page.searched.keyword}; it holds: {words}.")
    else:
        said.append("It shares no telling word with the question.")
    if why.semantic:
        near = f"its cosine to the question is {why.semantic.score:.2f}"
        said.append(f"By meaning it ranks {why.semantic.rank} of {page.searched.semantic}: {near}.")
    return said


if __name__ == "__main__":
    main()
