"""A real browser and real servers for the tests of the page: Debian's chromium, and `cofio serve` as a process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright
from tests.servers import missing
from tests.waiting import wait_until

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


class PageServerProcess:
    """`cofio serve` on a store, which can be ended and started again at the same port."""

    def __init__(self, store: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "cofio", "serve", "--store", str(store), *arguments]
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._folder = store.parent
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it takes requests."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("COFIO_")}
        environ = own | {"COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"}
        self._process = subprocess.Popen(
            [*self._command, "--port", str(self._port)], cwd=self._folder, env=environ, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self._port = int(line.rsplit(":", 1)[1].split("/")[0])
        wait_until(self._answers, seconds=30)

    def end(self) -> None:
        """End it."""
        assert self._process is not None
        self._process.terminate()
        self._process.communicate(timeout=30)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


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
