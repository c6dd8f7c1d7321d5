"""The pictures of the page in the docs: its screens on the memory of an invented team, as a browser shows them.

usage: python -m benchmarks.page_pictures [--folder docs/_static]

Not a measurement: run it when the page has changed its looks. It needs chromium, Pillow and the model.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

from cofio import Engine, Scope, Settings
from cofio.conversations.conversations import Conversations, Project
from cofio.doors.example_memory import ExampleMemory
from cofio.extract.extractor import Message

from .page import FLAGS, serve

SIZE: ViewportSize = {"width": 1200, "height": 760}
COLOURS = 200
HIDE_FOLDER = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const FOLDER = /\\/\\S+\\/store/;
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(FOLDER, "~/harbour/.cofio");
}"""
"""Takes the temporary folder out of what is shown."""
PEOPLE = ("sam", "jonas", "aiko", "mira")
DOORS = ("mcp", "mcp", "cli", "rest", "memory_tool")
NOTES = (
    ("Winter storage", "Boats longer than nine metres stay in hall B from November to March.", "boats"),
    ("Payment retries", "A payment is tried three times within an hour, then the booking is released.", "payments"),
    ("Harbour masters", "Kirsten in Bergen wants a call before ten; all others prefer a text message.", "people"),
    ("Search is slow on Mondays", "The weekly report locks the bookings table; it now runs on a copy.", "incident"),
    ("Colours", "Blue is for free, grey for taken, and red only for what the customer must do.", "design"),
    ("Release notes", "Every release note names who asked for the change.", "release"),
    ("Weather", "With more than seven Beaufort, bookings of small boats are cancelled without a fee.", "product"),
    ("Languages", "Norwegian first, then English and German; Danish was asked for twice.", "product"),
    ("Backups", "Copies are made at four, and one is restored on the first of each month.", "ops"),
    ("API limits", "Partners may ask sixty times a minute; the map asks on behalf of its user.", "api"),
)
BOATS = ("Solveig", "Havørn", "Tern", "Nordlys", "Fulmar", "Liv", "Saga", "Embla")
EVENTS = (
    "is back from {place}; the bilge pump was replaced, and the next guest is told that it is loud",
    "was cancelled by a family in {place} because of the storm, and the fee was given back",
    "has a scratch on the port side since {place}; insurance case opened, photographs in the office",
    "waits in {place} for a new propeller, which the yard has promised for Wednesday",
    "was booked for a wedding in {place}: forty guests, flowers by the harbour office",
    "got the new chart plotter in {place}, the old one goes to the sailing school",
    "ran out of diesel off {place}; the gauge shows a quarter when there is nothing left",
)
PLACES = ("Bergen", "Bodø", "Tromsø", "Ålesund", "Stavanger")
TALKS = (
    ("aiko", "My trip to Bodø", ("I sail to Bodø in July with my brother Kenji.", "We need a boat with two cabins.")),
    ("mira", "Refunds", ("I work on the refunds until autumn.", "My deadline is the first of September.")),
    ("sam", "On call", ("I am on call in even weeks.", "My phone is off on Sundays, so write to Jonas then.")),
    ("mira", "Office", ("I moved my desk to the second floor.", "I drink tea, never coffee.")),
)


def fill(store: Path) -> None:
    """Write ten weeks of a team's memory."""
    now = datetime.now(UTC)
    draw = random.Random(7)
    with Engine.open(store, settings=Settings(background=False, sync="normal")) as engine:
        conversations = Conversations(engine)
        for number in range(90):
            if number < len(NOTES):
                title, text, tag = NOTES[number]
            else:
                boat, event = BOATS[number % len(BOATS)], EVENTS[number % len(EVENTS)]
                title, tag = f"{boat}, log {number}", "boats"
                text = f"The {boat} {event.format(place=draw.choice(PLACES))}."
            moment = now - timedelta(days=draw.triangular(0, 80, 5), minutes=draw.randrange(600))
            engine.write(
                Scope("mcp", "harbour"), title=title, text=text, tags=[tag], author=draw.choice(PEOPLE),
                source=draw.choice(DOORS), created_at=moment,
            )  # fmt: skip
        for number, (person, session, lines) in enumerate(TALKS):
            _talk(conversations, person, session, lines, now - timedelta(days=3 + 9 * number))
        for index in range(4):
            state = {"messages": ["Find a boat", "Two cabins"][: index + 1], "step": index, "approved": index > 2}
            engine.checkpoints.save("library", "find-a-boat", f"step-{index}", state)
        engine.write(Scope("mcp", "harbour"), title="Deploys", text="Production is deployed on Tuesdays.", author="sam")
        engine.write(Scope("mcp", "harbour"), title="Deploys", text="Production is deployed on Fridays.", author="mira")
        engine.write(
            Scope("mcp", "harbour"), title="Regatta", text="The regatta needs forty buoys.", author="mira",
            expires_at=now + timedelta(days=9),
        )  # fmt: skip
        ExampleMemory(conversations).load()
        engine.settle()


def _talk(conversations: Conversations, person: str, session: str, lines: tuple[str, ...], at: datetime) -> None:
    project = Project(app="harbour", name="app")
    messages = [
        Message(
            id=f"{person}-{session}-{number}", sender=person, name=person.capitalize(), text=text, role="user",
            at=at + timedelta(minutes=number),
        )
        for number, text in enumerate(lines)
    ]  # fmt: skip
    conversations.append(project, session, messages)
    conversations.carve(project, session, whole=True)


def take(url: str, folder: Path, program: str) -> None:
    """Take a picture of each screen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        addresses = {
            "search": "/?q=who+is+on+call", "record": "/?q=allergic+to+nuts&kind=fact",
            "activity": "/page/activity", "days": "/page/days", "review": "/page/review",
            "conversations": "/page/conversations", "threads": "/page/threads", "health": "/page/health",
            "start": "/page/start",
        }  # fmt: skip
        links = {"record": "allergic", "conversations": "My trip", "threads": "find-a-boat"}
        browser.new_page(base_url=url).goto(addresses["search"])  # which loads the model
        for name, address in addresses.items():
            context = browser.new_context(
                base_url=url, viewport=SIZE, color_scheme="dark" if name == "record" else "light"
            )
            page = context.new_page()
            page.goto(address)
            if name in links:
                page.get_by_role("link", name=links[name]).first.click()
            page.wait_for_timeout(1500)
            page.evaluate(HIDE_FOLDER)
            picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(COLOURS, dither=Image.Dither.NONE).save(folder / f"page-{name}.png", optimize=True)
            context.close()
        browser.close()


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("docs/_static"))
    args = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium on this machine")
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "store")
        with serve(Path(folder) / "store", embedder="minilm") as url:
            take(url, args.folder, program)


if __name__ == "__main__":
    main()
