"""What a server is started with, and how its processes pass it on."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from ..config.address import StoreAddress
from ..config.settings import Settings
from ..http.origins import Origin
from .listener import is_local


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Which memory is served, where, and to whom."""

    address: StoreAddress
    settings: Settings
    host: str
    port: int
    names: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()

    @property
    def is_public(self) -> bool:
        """Return whether others can reach the server. Then every request needs a token."""
        return not all(map(is_local, (self.host, *self.names)))


def pack(message: object) -> bytes:
    """Return a message as a line."""
    return pickle.dumps(message).hex().encode() + b"\n"


def unpack(line: bytes) -> Any:
    """Return the message of a line. Only processes of this server write to its pipes."""
    return pickle.loads(bytes.fromhex(line.decode()))  # noqa: S301
