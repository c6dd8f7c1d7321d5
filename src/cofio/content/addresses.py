"""Where on the internet a fetch may go: to public addresses, however they are spelled, and nowhere else.

Python's own `is_global` has changed between releases, and lets some of these through: so the networks are named here.
"""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

from .message_items import Unreadable

Address: TypeAlias = IPv4Address | IPv6Address
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_A_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NOT_PUBLIC_4 = tuple(map(IPv4Network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/3",
    "168.63.129.16/32",  # public by its number, but to a machine at Azure it is Azure itself
)))  # fmt: skip
_PUBLIC_6 = IPv6Network("2000::/3")
# Teredo and 6to4 reach IPv4 addresses from here; mapped addresses and those of NAT64 lie outside of 2000::/3.
_NOT_PUBLIC_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


def is_public(address: Address) -> bool:
    """Whether the address is anyone's on the internet, not this machine's, its network's or its cloud's."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4) and address.is_global
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6) and address.is_global


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a name, as the system's resolver finds them; raises OSError when there are none."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def normalize_host(host: str) -> str:
    """The one spelling of a host that counts: lower case, ASCII, and an address only in its usual form.

    Raises:
        Unreadable: it is neither a name nor such an address.
    """
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(IPv6Address(host[1:-1] if "%" not in host else ""))
        except ValueError:
            raise _bad_host() from None
    try:
        name = host.lower() if host.isascii() else host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise _bad_host() from None
    if not _NAME.fullmatch(name):
        raise _bad_host()
    # 2130706433, 0x7f.1 and 127.1 are 127.0.0.1 to the system: what ends in a number must be four of them.
    if _A_NUMBER.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise _bad_host() from None
    return name


def _bad_host() -> Unreadable:
    return Unreadable("The host of the URI is not spelled as a host name, or as an address in its usual form.")
