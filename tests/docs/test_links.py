"""Every link of the pages leads somewhere, headings included. It needs no site: the pages are read as they are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^ *\2[`~]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def find_pages() -> list[str]:
    """Every Markdown file that people read; not those that are data."""
    folders = ("docs", "examples", "deploy", "benchmarks", "clients")
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    return sorted(str(page.relative_to(ROOT)) for page in pages if "node_modules" not in page.parts)


@cache
def read_prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


def find_links(page: Path) -> list[str]:
    """Where a page's links lead."""
    prose = read_prose(page)
    return [*_LINK.findall(_CODE.sub("code", prose)), *_REFERENCE.findall(prose)]


@cache
def find_anchors(page: Path) -> frozenset[str]:
    """What a link may name on a page after `#`, as GitHub and the site make it of the headings."""
    anchors: set[str] = set()
    for heading in _HEADING.findall(read_prose(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("\\", "").lower()
        base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        repeats = (f"{base}-{number}" for number in range(1, 1000))
        anchors.add(base if base not in anchors else next(each for each in repeats if each not in anchors))
    return frozenset(anchors)


@pytest.mark.parametrize("name", find_pages())
def test_every_link_of_a_page_leads_somewhere(name: str) -> None:
    page = ROOT / name
    for link in find_links(page):
        if re.match(r"(https?|mailto):", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / unquote(path)).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{link} leads out of the project"
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in find_anchors(target), f"{link}: there is no such heading"


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = [unquote(link.partition("#")[0]) for link in find_links(page) if "://" not in link]
        waiting += [(page.parent / link).resolve() for link in links]
    assert [page.name for page in sorted((ROOT / "docs").glob("*.md")) if page not in seen] == []
