"""`make docs`: the site is built without a warning, holds every page, and fetches nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, as `make docs` builds it."""
    for name in ("sphinx", "myst_parser", "furo"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: `make docs` installs what builds the site")
    folder = tmp_path_factory.mktemp("site")
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]
    (options,) = re.findall(r"sphinx-build (.+) --doctree-dir \S+ \. site$", recipe, re.MULTILINE)
    command = [sys.executable, "-m", "sphinx", *options.split(), "--doctree-dir", str(folder / ".doctrees")]
    done = subprocess.run(
        [*command, ".", str(folder / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


class Page(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses and the names in a tag."""
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and _LOADED[tag] in given:
            self.loaded.append(given[_LOADED[tag]])


def test_every_page_is_in_the_site_and_in_its_contents(site: Path) -> None:
    contents = Page(site / "docs" / "index.html").links
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / "docs" / f"{page.stem}.html").exists()
        assert page.stem == "index" or f"{page.stem}.html" in contents
    assert 'url=docs/index.html"' in (site / "index.html").read_text()


def test_the_site_needs_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for address in Page(page).loaded:
            assert not urlsplit(address).netloc, f"{page.name} loads {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"""(@import|url\()\s*["']?(https?:)?//""", sheet.read_text()), sheet


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            assert target.exists(), f"{path.name}: {link}"
            # The name that a script scrolls to, and that of a page's own top, are not in the page.
            named = target in pages and address.fragment and address.fragment != "#"
            assert not named or address.fragment in pages[target].anchors, f"{path.name}: {link}"
