"""Origins of pages: the scheme, host and port that a browser sends in the header `Origin`."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..values.errors import Invalid

_FORM = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^/?#@:\[\]\\\s]+)(?::([0-9]{0,5}))?/?", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """A scheme, a host and a port. Two pages with the same origin belong to the same site."""

    scheme: str
    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Origin:
        """Parse `SCHEME://HOST[:PORT]`.

        Raises:
            Invalid: it is no such thing, or more than that.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise Invalid("origin", f"{text!r} is no origin of pages: write it as in http://localhost:3000")
        scheme, host, port = match[1].lower(), match[2].lower().strip("[]"), match[3]
        return cls(scheme, host, int(port) if port else _PORTS.get(scheme))

    @property
    def is_default_port(self) -> bool:
        """Return whether a browser leaves the port out."""
        return self.port == _PORTS.get(self.scheme)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" if self.is_default_port else f"{self.scheme}://{host}:{self.port}"
