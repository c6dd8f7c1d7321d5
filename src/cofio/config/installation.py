"""How this copy of cofio was installed, and so: how an extra is added to it, and which command starts it again.

The one module that decides what users are told to type for either. Importing it is cheap; asking it reads a few files.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ..values.errors import Unavailable

if TYPE_CHECKING:
    from importlib.metadata import Distribution

INDEX_NAME: str | None = None
"""The name under which the package index has cofio: "cofio" once it is published. Until then somebody else could
take that name there, and with it our users, so that no text names it."""

_REQUIREMENT = re.compile(r"""(?P<needed>(?P<name>[A-Za-z0-9._-]+)[^;]*?)\s*;\s*extra == ["'](?P<extra>[\w-]+)["']""")
"""What an extra needs on every system; what it needs on some has more behind the semicolon."""
_PLAIN_WORD = re.compile(r"[\w@%+=:,./\\~-]+", re.ASCII)
_FOR_DEVELOPERS = ("dev", "docs")
_UNKNOWN = "PATH-OF-COFIO"
_WINDOWS = sys.platform == "win32"


class Installer(StrEnum):
    """What has made the environment that this copy runs in."""

    PIP = "pip"
    UV = "uv"
    UV_TOOL = "uv tool"
    UVX = "uvx"
    PIPX = "pipx"
    PIPX_RUN = "pipx run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where this copy of cofio is, where it came from, and what has put it there."""

    installer: Installer
    prefix: Path
    """The folder of the environment."""
    python: Path
    source: str | None
    """What an installer can be given to get this copy again: a folder, a wheel, an address or a name."""
    checkout: bool = False
    """Whether it runs from a working copy of the repository."""
    extras: tuple[str, ...] = ()
    """The extras whose packages are all here."""
    requirements: Mapping[str, tuple[str, ...]]
    """What each extra needs."""

    def install_command(self, *extras: str) -> str:
        """What to type to have these extras as well."""
        source = self._resolve_source(*extras)
        needed = [each for extra in extras for each in self.requirements.get(extra, ())]
        if source is None and needed:
            return self._add_packages(needed)
        wanted = [source or _UNKNOWN]
        match self.installer:
            case Installer.UV_TOOL:
                words = ["uv", "tool", "install", *self._list_editable_option(), *wanted]
            case Installer.UVX:
                words = ["uvx", "--from", *wanted, "cofio"]
            case Installer.PIPX:
                words = ["pipx", "install", "--force", *self._list_editable_option(), *wanted]
            case Installer.PIPX_RUN:
                words = ["pipx", "run", "--spec", *wanted, "cofio"]
            case Installer.PIP | Installer.UV:
                words = [*self._build_pip_command(), *self._list_editable_option(), *wanted]
        return join_words(words)

    def start_command(self) -> list[str]:
        """The words that start this cofio, also from elsewhere, later, and when caches have been emptied.

        Raises:
            Unavailable: it runs from a cache, and what it was made from is not known or no longer there.
        """
        if self.installer in (Installer.UVX, Installer.PIPX_RUN):
            source = self._resolve_source()
            if source is None:
                raise Unavailable(
                    f"cofio runs from a cache here ({self.prefix}), which may be emptied at any time, and what it was"
                    " made from cannot be found again: install it first, with `uv tool install` or `pipx install` and"
                    " the wheel or folder of cofio, and then run this again"
                )
            program, *rest = self.shell_command()
            return [_find_program(program), *rest]
        script = shutil.which("cofio", path=str(self.python.parent))
        if script is None:
            return [str(self.python), "-m", "cofio"]
        if self.installer in (Installer.UV_TOOL, Installer.PIPX):
            return [_find_link(Path(script), self.prefix) or script]
        return [script]

    def shell_command(self) -> list[str]:
        """The words by which its user starts it in a shell."""
        source = self._resolve_source()
        if source and self.installer is Installer.UVX:
            return ["uvx", "--from", source, "cofio"]
        if source and self.installer is Installer.PIPX_RUN:
            return ["pipx", "run", "--spec", source, "cofio"]
        return ["cofio"]

    def _list_editable_option(self) -> list[str]:
        return ["-e"] if self.checkout else []

    def _resolve_source(self, *more: str) -> str | None:
        """The source with the extras that there are and these; None if it is unknown, or a file that is gone."""
        if self.source is None or (os.path.isabs(self.source) and not os.path.exists(self.source)):
            return None
        # An environment that is its user's keeps what is in it; the others are made again.
        present = () if self.installer in (Installer.PIP, Installer.UV) else self.extras
        extras = sorted({*present, *more})
        source = "." if self._is_here() else self.source
        if not extras:
            return source
        if "://" in source:
            return f"cofio[{','.join(extras)}] @ {source}"
        return f"{source}[{','.join(extras)}]"

    def _is_here(self) -> bool:
        """Whether this is a working copy, with its environment in it, and the folder that the user is in."""
        if not self.checkout or self.source is None or not self.prefix.is_relative_to(self.source):
            return False
        try:
            return os.getcwd() == self.source
        except FileNotFoundError:  # it has been deleted
            return False

    def _build_pip_command(self) -> list[str]:
        """The words before what is to be installed into an environment that is its user's."""
        active = os.environ.get("VIRTUAL_ENV") == str(self.prefix)
        if self.installer is Installer.UV:
            return ["uv", "pip", "install", *([] if active else ["--python", self._shorten_path(self.prefix)])]
        if active:
            return ["pip", "install"]
        return [self._shorten_path(self.python), "-m", "pip", "install"]

    def _shorten_path(self, path: Path) -> str:
        return str(path.relative_to(self.source or "") if self._is_here() else path)

    def _add_packages(self, needed: list[str]) -> str:
        """What to type to have these packages here, where cofio itself cannot be had once more."""
        match self.installer:
            case Installer.PIPX:
                words = ["pipx", "inject", "cofio", *needed]
            case Installer.UVX | Installer.PIPX_RUN:
                more = [word for each in needed for word in ("--with", each)]
                words = ["uvx", *more, "--from", _UNKNOWN, "cofio"]
            case Installer.UV_TOOL | Installer.UV:
                words = ["uv", "pip", "install", "--python", str(self.prefix), *needed]
            case Installer.PIP:
                words = [*self._build_pip_command(), *needed]
        return join_words(words)


def install_command(*extras: str) -> str:
    """What to type to add these extras to this copy of cofio, in the way that it was installed."""
    return find_installation().install_command(*extras)


def start_command() -> list[str]:
    """The words that start this copy of cofio from anywhere, for as long as it is installed.

    Raises:
        Unavailable: they cannot be known; the message says what to do first.
    """
    return find_installation().start_command()


def find_installation() -> Installation:
    """How the cofio that runs was installed."""
    found = _find_distribution("cofio")  # None when it runs from its source, with nothing installed
    prefix = Path(sys.prefix)
    root = Path(__file__).resolve().parents[3]
    checkout = Path(__file__).resolve().parents[2].name == "src" and (root / "pyproject.toml").is_file()
    requirements = _parse_requirements((found.requires or ()) if found else ())
    return Installation(
        installer=_find_installer(prefix),
        prefix=prefix,
        python=Path(sys.executable),
        source=str(root) if checkout else _find_source(found),
        checkout=checkout,
        extras=tuple(extra for extra, needed in requirements.items() if all(map(_is_installed, needed))),
        requirements=requirements,
    )


def join_words(words: Iterable[str]) -> str:
    """Words as they are typed into this system's shell."""
    if not _WINDOWS:
        return shlex.join(words)
    # Neither cmd nor PowerShell knows single quotes alike, and > and < would send the output elsewhere.
    return " ".join(word if _PLAIN_WORD.fullmatch(word) else f'"{word}"' for word in words)


def _find_distribution(name: str) -> Distribution | None:
    from importlib.metadata import PackageNotFoundError, distribution  # costs more than the rest of this module

    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _find_installer(prefix: Path) -> Installer:
    # Who makes a folder of things that can be thrown away at any time puts this file at its top (bford.info/cachedir).
    # uv also puts one into each environment, for the sake of backups: only those further up count.
    cached = any((parent / "CACHEDIR.TAG").is_file() for parent in prefix.parents)
    if (prefix / "pipx_metadata.json").is_file():
        return Installer.PIPX_RUN if cached else Installer.PIPX
    if (prefix / "uv-receipt.toml").is_file():
        return Installer.UV_TOOL
    if cached and _is_made_by_uv(prefix):
        return Installer.UVX
    return Installer.PIP if find_spec("pip") else Installer.UV


def _is_made_by_uv(prefix: Path) -> bool:
    notes = prefix / "pyvenv.cfg"
    return notes.is_file() and re.search(r"^uv\s*=", notes.read_text(encoding="utf-8"), re.MULTILINE) is not None


def _find_source(found: Distribution | None) -> str | None:
    """Where an installed copy came from, as its installer noted it (PEP 610)."""
    noted = found.read_text("direct_url.json") if found else None
    if noted is None:
        return INDEX_NAME
    origin = json.loads(noted)
    url = origin["url"]
    if version_control := origin.get("vcs_info"):
        return f"{version_control['vcs']}+{url}@{version_control['commit_id']}"
    parts = urlsplit(url)
    if parts.scheme != "file":
        return str(url)
    path = unquote(parts.path)
    return str(Path(path.removeprefix("/"))) if _WINDOWS else path


def _parse_requirements(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What each extra of a user needs, from the metadata of the package."""
    needed: dict[str, tuple[str, ...]] = {}
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        if match and match["extra"] not in _FOR_DEVELOPERS:
            needed[match["extra"]] = (*needed.get(match["extra"], ()), match["needed"])
    return needed


def _is_installed(requirement: str) -> bool:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name
    return _find_distribution(name[0]) is not None


def _find_program(name: str) -> str:
    """uvx or pipx by its full path, because clients do not share our PATH; uv tells what it runs where it is itself."""
    beside_uv = os.path.dirname(os.environ.get("UV", ""))
    return shutil.which(name) or shutil.which(name, path=beside_uv or os.devnull) or name


def _find_link(script: Path, prefix: Path) -> str | None:
    """The command outside of the environment that its installer has made, and that outlives the environment."""
    folders = [os.environ.get("PIPX_BIN_DIR", ""), os.environ.get("UV_TOOL_BIN_DIR", "")]
    folders += [os.environ.get("XDG_BIN_HOME", ""), os.path.expanduser("~/.local/bin")]
    links = [*_list_noted_links(prefix), *(Path(folder, script.name) for folder in folders if folder)]
    links += [Path(folder, script.name) for folder in os.get_exec_path() if os.path.isabs(folder)]
    for link in links:
        if link != script and link.exists() and (link.resolve() == script.resolve() or _is_copy(link, script)):
            return str(link)
    return None


def _is_copy(link: Path, script: Path) -> bool:
    """Whether it is the same program, as on Windows, where links need a permission that few have."""
    return _WINDOWS and link.read_bytes() == script.read_bytes()


def _list_noted_links(prefix: Path) -> list[Path]:
    """Where uv has noted that it put the command."""
    receipt = prefix / "uv-receipt.toml"
    if not receipt.is_file():
        return []
    noted = tomllib.loads(receipt.read_text(encoding="utf-8")).get("tool", {}).get("entrypoints", [])
    return [Path(each["install-path"]) for each in noted if each.get("name") == "cofio"]
