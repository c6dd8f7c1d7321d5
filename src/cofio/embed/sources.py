"""Where packages come from on this machine: what variables and the files of the user and the system tell pip and uv.

A project's own files are left out on purpose: what was cloned from somewhere does not say where cofio fetches from.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from ..values.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .model_files import Pin

PYPI = "https://pypi.org/simple"
_TRUE = ("1", "true", "yes", "on")
_PIP_SYSTEM, _UV_SYSTEM = Path("/etc/pip.conf"), Path("/etc/uv/uv.toml")
_SECTIONS = ("global", "install", "download")  # of pip's files; what comes later counts more


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A file of a project on a package index: what it is called there, and what it must be."""

    project: str
    version: str
    file: str
    pin: Pin

    def __str__(self) -> str:
        return f"{self.project}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The indexes, and the pages and folders with links, in the order in which they are asked."""

    indexes: tuple[str, ...] = (PYPI,)
    links: tuple[str, ...] = ()
    proxy: str = ""
    """The proxy that pip is told of; without one, HTTPS_PROXY and the like count."""
    certificates: str = ""
    """A file or folder of certificates to trust instead of the system's."""
    insecure: frozenset[str] = field(default_factory=frozenset)
    """Hosts, perhaps with a port, whose certificates are not looked at."""


def read_sources(environ: Mapping[str, str] | None = None) -> Sources:
    """What pip and uv would use, one after the other; PyPI where neither is told of an index.

    Raises:
        Unavailable: a file of theirs cannot be read.
    """
    environ = os.environ if environ is None else environ
    pip, uv = _read_pip(environ), _read_uv(environ)
    defaults = [*uv.defaults, *pip.defaults]
    indexes = [*uv.extra, *(defaults or [PYPI]), *pip.extra]
    return Sources(
        indexes=() if pip.no_index or uv.no_index else tuple(dict.fromkeys(indexes)),
        links=tuple(dict.fromkeys([*pip.links, *uv.links])),
        proxy=pip.proxy,
        certificates=pip.certificates,
        insecure=frozenset(each.lower() for each in (*pip.insecure, *uv.insecure)),
    )


@dataclass(slots=True, kw_only=True)
class _ToolConfig:
    """What one of the two is told to use."""

    defaults: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    no_index: bool = False
    proxy: str = ""
    certificates: str = ""
    insecure: list[str] = field(default_factory=list)


def _read_pip(environ: Mapping[str, str]) -> _ToolConfig:
    values: dict[str, str] = {}
    parsed = [_parse_pip(path) for path in _find_pip(environ)]
    for section in _SECTIONS:
        for sections in parsed:
            values |= sections.get(section, {})
    for name, value in environ.items():
        if name.upper().startswith("PIP_") and value:
            values[name[4:].lower().replace("_", "-")] = value
    return _ToolConfig(
        defaults=values.get("index-url", "").split(),
        extra=values.get("extra-index-url", "").split(),
        links=values.get("find-links", "").split(),
        no_index=values.get("no-index", "").lower() in _TRUE,
        proxy=values.get("proxy", "").strip(),
        certificates=values.get("cert", "").strip(),
        insecure=values.get("trusted-host", "").split(),
    )


def _find_pip(environ: Mapping[str, str]) -> list[Path]:
    """The files that pip reads, the one that counts least first."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    home, roaming = _find_home(environ), environ.get("APPDATA", "")
    if sys.platform == "win32":
        shared = Path(environ.get("PROGRAMDATA", "C:\\ProgramData"))
        paths = [shared / "pip/pip.ini", home / "pip/pip.ini", *([Path(roaming) / "pip/pip.ini"] if roaming else [])]
        paths.append(Path(sys.prefix) / "pip.ini")
    else:
        system = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
        paths = [Path(each) / "pip/pip.conf" for each in reversed(system.split(os.pathsep))]
        paths += [_PIP_SYSTEM, home / ".pip/pip.conf", _find_config_folder(environ) / "pip/pip.conf"]
        if sys.platform == "darwin":
            paths.insert(0, Path("/Library/Application Support/pip/pip.conf"))
            paths.append(home / "Library/Application Support/pip/pip.conf")
        paths.append(Path(sys.prefix) / "pip.conf")
    return [*paths, *([Path(named).expanduser()] if named else [])]


def _parse_pip(path: Path) -> dict[str, dict[str, str]]:
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise _make_unreadable(path, "pip", error) from error
    return {
        section: {name.replace("_", "-"): value for name, value in parser.items(section)}
        for section in parser.sections()
    }


def _read_uv(environ: Mapping[str, str]) -> _ToolConfig:
    config = _ToolConfig()
    for values in map(_parse_toml, _find_uv(environ)):
        _add_uv(config, values)
    named = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or ""
    config.defaults = [_strip_name(named, environ)] if named else config.defaults
    others = f"{environ.get('UV_INDEX', '')} {environ.get('UV_EXTRA_INDEX_URL', '')}".split()
    config.extra = [_strip_name(each, environ) for each in others] + config.extra
    config.links = [each for each in environ.get("UV_FIND_LINKS", "").split(",") if each] + config.links
    config.no_index = config.no_index or environ.get("UV_NO_INDEX", "").lower() in _TRUE
    config.insecure += environ.get("UV_INSECURE_HOST", "").split()
    return config


def _find_uv(environ: Mapping[str, str]) -> list[Path]:
    """The files that uv reads of the user and of the system, the one that counts most first."""
    if named := environ.get("UV_CONFIG_FILE", ""):
        return [Path(named).expanduser()]
    if environ.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return []
    if sys.platform == "win32":
        roots = [environ.get("APPDATA", ""), environ.get("PROGRAMDATA", "C:\\ProgramData")]
        return [Path(root) / "uv/uv.toml" for root in roots if root]
    system = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    return [_find_config_folder(environ) / "uv/uv.toml", *(Path(each) / "uv/uv.toml" for each in system), _UV_SYSTEM]


def _add_uv(config: _ToolConfig, values: Mapping[str, object]) -> None:
    """Add what one file says; what an earlier one said of the default index counts more."""
    defaults: list[str] = []
    for entry in _list_tables(values.get("index")):
        url = entry.get("url")
        if isinstance(url, str) and entry.get("explicit") is not True:
            (defaults if entry.get("default") is True else config.extra).append(url)
    for table in (values, *_list_tables([values.get("pip")])):
        defaults += _list_texts(table.get("index-url"))
        config.extra += _list_texts(table.get("extra-index-url"))
        config.links += _list_texts(table.get("find-links"))
        config.no_index = config.no_index or table.get("no-index") is True
    config.insecure += _list_texts(values.get("allow-insecure-host"))
    config.defaults = config.defaults or defaults[:1]


def _parse_toml(path: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise _make_unreadable(path, "uv", error) from error


def _make_unreadable(path: Path, whose: str, error: Exception) -> Unavailable:
    # Without what the parser says: it quotes lines, and these may hold passwords.
    return Unavailable(f"{path}, where {whose} is told of package indexes, cannot be read ({type(error).__name__})")


def _strip_name(entry: str, environ: Mapping[str, str]) -> str:
    """The address in `name=https://…`, with the user and password that uv's variables have for that name."""
    name, is_named, address = entry.partition("=")
    if not is_named or "/" in name or ":" in name:
        return entry
    variable = "UV_INDEX_" + "".join(each if each.isalnum() else "_" for each in name.upper())
    user, password = (environ.get(f"{variable}_{part}", "") for part in ("USERNAME", "PASSWORD"))
    parts = urlsplit(address)
    if not (user or password) or "@" in parts.netloc:
        return address
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"))


def _list_tables(value: object) -> Iterable[Mapping[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _list_texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]


def _find_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~"))


def _find_config_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or _find_home(environ) / ".config")
