"""A real browser for the tests of the page: Debian's chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright
from tests.servers import missing

ROOT = Path(__file__).parents[3]
AXE = ROOT / ".node" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """Debian's chromium, without a window and with a profile of its own; where there is none, the test is skipped."""
    program = shutil.which("chromium")
    if program is None:
        missing("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


class Tab:
    """A page in a browser of its own, with all that it has complained of."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(base_url=url, **options)
        self.context.set_default_timeout(15_000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._refuse_dialog)
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )

    def _refuse_dialog(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def open(self, address: str) -> Page:
        """Go to an address."""
        self.page.goto(address)
        return self.page

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, once the page's scripts have come."""
        self.page.wait_for_load_state("load")
        for key in keys:
            self.page.keyboard.press(key)

    def get_focus(self) -> str:
        """The text of what has the focus."""
        return str(self.page.evaluate("document.activeElement.textContent.trim()"))

    def close(self) -> None:
        """Close the browser's window."""
        self.context.close()
