"""Which repository a remote names, however its address is written, and which remote a git configuration names.

No program is run and no other file is read: a repository's configuration can name commands and further files, and comes
with the repository, from anyone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_SHORT = re.compile(r"(?:[^@/\\:\[\]]+@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^@/\\:\[\]]{2,}):(?P<path>(?!//).+)", re.DOTALL)
_HELPER = re.compile(r"[A-Za-z][A-Za-z0-9-]*::")
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|\[::1\]|::1")
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*=")
_SLASHES = re.compile(r"/{2,}")
_GIT_FOLDER = re.compile(r"[/\\]\.git$")

_ALIASES = {
    "ssh.github.com": "github.com",
    "www.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
    "ssh.dev.azure.com": "dev.azure.com",
}
"""The second names of hosts, by which ssh goes through a port that firewalls leave open."""
_FOLDING = frozenset({"github.com", "gitlab.com", "bitbucket.org", "dev.azure.com", "codeberg.org"})
"""Hosts to which capitals in a path make no difference."""


def normalize_remote(url: str, folder: Path | None = None) -> str | None:
    """One text for all addresses of a repository: its host in small letters and its path; None for what names none.

    Credentials, ports, a last `.git` and the difference between ssh, https and git are gone. A path on this machine,
    which may be relative to `folder`, becomes the real path of the repository there.
    """
    url = url.strip()
    if not url or "\0" in url or "\n" in url or _HELPER.match(url):
        return None
    if found := _SCHEME.fullmatch(url):
        if found["scheme"].lower() == "file":
            return _normalize_path(unquote(found["rest"].removeprefix("localhost")), folder)
        authority, _, path = found["rest"].partition("/")
        host, port = _split_port(authority.rpartition("@")[2])
        return _join(host, port, unquote(path.partition("?")[0].partition("#")[0]))
    if found := _SHORT.fullmatch(url):
        return _join(found["host"], "", found["path"])
    return _normalize_path(url, folder)


def _split_port(host: str) -> tuple[str, str]:
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        return name + bracket, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


def _join(host: str, port: str, path: str) -> str | None:
    """A host and a path as one name. Ports count on this machine alone, where each may be another server."""
    host = host.lower().rstrip(".")
    host = _ALIASES.get(host, host)
    path = _SLASHES.sub("/", path.replace("\\", "/")).strip("/")
    path = path.removesuffix(".git").rstrip("/")
    if host == "dev.azure.com":
        path = path.removeprefix("v3/").replace("/_git/", "/")
    if host in _FOLDING:
        path = path.lower()
    if not host or not path:
        return None
    return f"{host}:{port}/{path}" if port and _LOOPBACK.fullmatch(host) else f"{host}/{path}"


def _normalize_path(path: str, folder: Path | None) -> str | None:
    if not os.path.isabs(path) and folder is None:
        return None
    return name_folder(os.path.realpath(os.path.join(folder or "", path)))


def name_folder(path: str) -> str:
    """The name of a repository that is known by its folder alone: that, whether its git folder is meant or not."""
    return "file:" + _GIT_FOLDER.sub("", path)


def find_remote(config: str) -> str | None:
    """The address of a repository's remote by its configuration: `origin`, else the first that has an address."""
    found: dict[str, str] = {}
    for section, name, key, value in _read_settings(config):
        if section == "remote" and key == "url" and name and value:
            found.setdefault(name, value)
    return found.get("origin") or next(iter(found.values()), None)


def _read_settings(config: str) -> Iterator[tuple[str, str, str, str]]:
    """The section, its name, the key and the value of each setting, as git-config(1) has them; no `include` counts."""
    section = name = ""
    lines = iter(config.splitlines())
    for line in lines:
        line = line.strip(" \t\ufeff")
        if found := _SECTION.match(line):
            section, _, dotted = found[1].partition(".")
            section, name = section.lower(), re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else dotted
            line = line[found.end() :].lstrip()
        if key := _KEY.match(line):
            value = line[key.end() :]
            while value.endswith("\\") and (following := next(lines, None)) is not None:
                value = value[:-1] + following
            yield section, name, key[1].lower(), _read_value(value)


def _read_value(written: str) -> str:
    """A value without its quotes, its escapes and a comment after it."""
    value: list[str] = []
    quoted = False
    characters = iter(written.strip())
    for each in characters:
        if each == '"':
            quoted = not quoted
        elif each == "\\":
            value.append({"n": "\n", "t": "\t", "b": "\b"}.get(escaped := next(characters, ""), escaped))
        elif each in "#;" and not quoted:
            break
        else:
            value.append(each)
    return "".join(value).strip()
