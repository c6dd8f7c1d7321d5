"""What a server's owner lets it fetch: from which hosts, from which folders, how much and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..values.errors import Invalid
from .addresses import normalize_host
from .message_items import MAX_BYTES, Unreadable

USUAL_PORTS = (80, 443)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPolicy:
    """The hosts and folders that documents may be fetched from; without any, nothing is fetched."""

    hosts: tuple[str, ...] = ()
    """example.org, *.example.org for what is below it, * for any host; with :port for another than 80 and 443."""
    folders: tuple[Path, ...] = ()
    max_bytes: int = MAX_BYTES
    seconds: float = 20.0
    """How long one fetch may take, with all that it is redirected to."""

    def __post_init__(self) -> None:
        for pattern in self.hosts:
            _check(pattern)
        for folder in self.folders:
            if not folder.is_absolute() or folder == Path(folder.anchor):
                raise Invalid("fetch", f"{str(folder)!r} is not the full path of a folder below the root")
        if self.max_bytes < 1 or self.seconds <= 0:
            raise Invalid("fetch", "the limits of a fetch must be above 0")

    @classmethod
    def parse(cls, setting: str) -> FetchPolicy:
        """What a setting allows: `off`, or hosts and full paths of folders with commas between them.

        Raises:
            Invalid: an entry is neither a host nor the full path of a folder.
        """
        if setting.strip() in ("", "off"):
            return cls()
        entries = [entry for each in setting.split(",") if (entry := each.strip())]
        return cls(
            hosts=tuple(entry.lower() for entry in entries if not entry.startswith("/")),
            folders=tuple(Path(entry) for entry in entries if entry.startswith("/")),
        )

    def allows(self, host: str, port: int) -> bool:
        """Whether the owner named this host, and this port of it where it is not a usual one."""
        return any(_matches(pattern, host, port) for pattern in self.hosts)


def _check(pattern: str) -> None:
    name, _, port = pattern.partition(":")
    if port != "" and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise Invalid("fetch", f"{pattern!r} does not end in a port from 1 to 65535")
    bare = name.removeprefix("*.")
    try:
        right = name == "*" or normalize_host(bare) == bare
    except Unreadable:
        right = False
    if not right or pattern.endswith(":"):
        raise Invalid("fetch", f"{pattern!r} is not a host such as example.org, *.example.org or *, nor a full path")


def _matches(pattern: str, host: str, port: int) -> bool:
    name, _, its_port = pattern.partition(":")
    if port not in ((int(its_port),) if its_port else USUAL_PORTS):
        return False
    return name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:]))
