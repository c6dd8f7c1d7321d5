"""What a server was started with, as every process of it knows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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

    def pack(self) -> dict[str, Any]:
        """Return the options as JSON, which other processes of the server read."""
        return {
            "address": self.address.spell(), "settings": asdict(self.settings), "host": self.host, "port": self.port,
            "names": self.names, "origins": self.origins,
        }  # fmt: skip

    @classmethod
    def unpack(cls, options: dict[str, Any]) -> ServerOptions:
        """Return what `pack` made JSON of."""
        return cls(
            address=StoreAddress.parse(options["address"]), settings=Settings(**options["settings"]),
            host=options["host"], port=options["port"], names=tuple(options["names"]),
            origins=tuple(Origin(*each) for each in options["origins"]),
        )  # fmt: skip
