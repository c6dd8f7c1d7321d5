"""How `make docs` builds the site of these pages. The tree itself is the source, so that a link that works in a
checkout (`../SECURITY.md`, `cli.md#cofio-trust`) works in the site, and a dead one fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGES = {
    "Start": {
        "start-agent": "I use an agent",
        "start-app": "I write an app",
        "start-library": "I write an agent in Python",
        "coming-from": "I have a memory already",
        "../examples/README": "Examples",
        "install": "Installing",
        "systems": "Systems",
    },
    "Doors": {
        "hooks": "Hooks",
        "mcp": "MCP",
        "rest": "REST",
        "../clients/typescript/README": "TypeScript client",
        "engine": "Python API",
        "library": "Python library",
        "langgraph": "LangGraph",
        "adapters": "OpenAI Agents, LlamaIndex",
        "memory-tool": "Claude's memory tool",
        "animus": "Animus",
        "page": "The page",
        "cli": "Command line",
    },
    "What it remembers": {
        "extraction": "What conversations leave",
        "transcripts": "What coding agents wrote",
        "model": "With a model",
        "content": "Documents and pictures",
        "knowledge": "Knowledge base",
        "vault": "Markdown files",
        "retrieval": "Finding it again",
        "languages": "In other languages",
    },
    "Running it": {
        "configuration": "Configuration",
        "deploy": "As a service",
        "serving": "A server that holds",
        "postgres": "On PostgreSQL",
        "team": "For a team",
        "upgrade": "Upgrading",
        "privacy": "Privacy",
        "secrets": "Secrets",
        "../SECURITY": "Security",
    },
    "Inside": {
        "../ARCHITECTURE": "Architecture",
        "../CONTRIBUTING": "Contributing",
        "../CHANGELOG": "Changes",
    },
}
"""The site's contents: pages with their short titles, under headings. A page that is missing here fails the build."""

_DOCS = Path(__file__).parent
_SOURCE = _DOCS.parent / "src" / "cofio" / "__init__.py"

project = "cofio"
author = "the authors of cofio"
version = release = re.findall(r'^__version__ = "(.+)"', _SOURCE.read_text(), re.MULTILINE)[0]
root_doc = "docs/index"
extensions = ["myst_parser"]
include_patterns = ["README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
include_patterns += ["docs/*.md", "examples/README.md", "clients/typescript/README.md", "benchmarks/results/*.md"]
exclude_patterns = [".*", "site", "src", "tests", "**/node_modules"]

myst_heading_anchors = 4
highlight_language = "text"
pygments_style, pygments_dark_style = "tango", "github-dark"

smartquotes = False  # quotes and dashes stay as they were typed

html_theme = "furo"
html_title = f"cofio {version}"
html_show_sphinx = html_show_copyright = False
html_copy_source = False
html_extra_path = ["_site"]
html_static_path = ["_static"]
html_css_files = ["cofio.css"]


def add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    """Give the start page its contents, and every page that is reached by links alone a mark that this is meant."""
    if page == root_doc:
        for heading, names in PAGES.items():
            entries = [f"{title} <{name}>" for name, title in names.items() if (_DOCS / f"{name}.md").exists()]
            source[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {heading}", "", *entries, "```", ""])
    elif page == "README" or page.startswith("benchmarks/"):
        source[0] = f"---\norphan: true\n---\n{source[0]}"


def setup(app: Sphinx) -> None:
    """Add what Sphinx has no setting for."""
    app.connect("source-read", add_contents)
