"""The scripts and style sheets of the page, out of the package, each under a name that changes with what is in it."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

PREFIX = "/page/assets/"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_IMPORT = re.compile(r'(?<=from ")\./([a-z_]+\.js)(?=")')


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file as it is served: its address, and its bytes plain and compressed."""

    address: str
    media_type: str
    content: bytes
    compressed: bytes


@cache
def load_assets() -> dict[str, Asset]:
    """Every asset, by the name of its file. A script names those that it imports by their own addresses."""
    folder = files(__package__) / "assets"
    sources = {each.name: each.read_text("utf-8") for each in folder.iterdir() if each.name[0] not in "._"}
    loaded: dict[str, Asset] = {}

    def load(name: str) -> str:
        if name not in loaded:
            text = _IMPORT.sub(lambda match: load(match[1]), sources[name])
            loaded[name] = _make_asset(name, text.encode())
        return loaded[name].address

    for name in sorted(sources):
        load(name)
    return loaded


@cache
def load_by_address() -> dict[str, Asset]:
    """Every asset, by the address at which it is served."""
    return {asset.address: asset for asset in load_assets().values()}


def find_address(name: str) -> str:
    """The address of an asset, for a template: `page.css` is `/page/assets/page.1a2b3c4d5e6f.css`."""
    return load_assets()[name].address


def _make_asset(name: str, content: bytes) -> Asset:
    stem, dot, ending = name.rpartition(".")
    digest = hashlib.sha256(content).hexdigest()[:12]
    return Asset(
        address=f"{PREFIX}{stem}.{digest}{dot}{ending}", media_type=TYPES[dot + ending], content=content,
        compressed=gzip.compress(content, 9, mtime=0),
    )  # fmt: skip
