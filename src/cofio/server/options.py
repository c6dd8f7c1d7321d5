"""What a server is started with, and how its processes pass it on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
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

    def encode(self) -> dict[str, Any]:
        """Return the options as JSON, for another process of the server."""
        return {**asdict(self), "address": self.address.spell()}

    @classmethod
    def decode(cls, fields: dict[str, Any]) -> ServerOptions:
        """Return the options that `encode` made JSON of."""
        return cls(
            address=StoreAddress.parse(fields["address"]), settings=Settings(**fields["settings"]),
            host=fields["host"], port=fields["port"], names=tuple(fields["names"]),
            origins=tuple(Origin(*each) for each in fields["origins"]),
        )  # fmt: skip


def pack(message: object) -> bytes:
    """Return a message as a line of JSON."""
    return json.dumps(message).encode() + b"\n"


def unpack(line: bytes) -> Any:
    """Return the message of a line. Raises ValueError if it is none."""
    return json.loads(line)
