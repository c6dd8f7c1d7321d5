"""What a server is started with, and how its processes pass it on."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..config.address import StoreAddress
from ..config.settings import Settings
from ..http.origins import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Which memory is served, where, and to whom."""

    address: StoreAddress
    settings: Settings
    host: str
    port: int
    names: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()


class ChildOptions(NamedTuple):
    """The part of a process in a server of several."""

    server: ServerOptions
    workers: int
    listener: int | None
    """Descriptor of the shared listener; None makes the process the background process."""
    wake: int
    """Descriptor of the pipe by which workers wake the background process."""
    owner: str
    """Names the claims of this server's jobs."""


def pack(message: object) -> bytes:
    """Return a message as a line."""
    return pickle.dumps(message).hex().encode() + b"\n"


def unpack(line: bytes) -> Any:
    """Return the message of a line. Only processes of this server write to its pipes."""
    return pickle.loads(bytes.fromhex(line.decode()))  # noqa: S301
