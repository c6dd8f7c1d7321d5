"""The protocol by which systemd learns that a service is ready, and that it is alive."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress


def notify_systemd(state: str) -> None:
    """Tell systemd a state, as `READY=1`, if it started this process with `Type=notify`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or sys.platform == "win32":
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.send(state.encode())
