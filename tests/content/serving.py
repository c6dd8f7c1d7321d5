"""Servers on this machine that play hosts of the internet, and a resolver that answers what it is told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.waiting import join

from cofio.content.addresses import Address, is_public

PUBLIC, PRIVATE = "127.0.0.2", "127.0.0.1"
Answer = bytes | Callable[[socket.socket], None]


def allowed(address: Address) -> bool:
    """As on the internet, but that one address of this machine counts as public."""
    return is_public(address) or address == ip_address(PUBLIC)


def answer(body: bytes, type: str | None = "text/plain", *, status: str = "200 OK", **headers: str) -> bytes:
    """A whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {type}"] if type else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def moved(to: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return answer(b"", status=status, Location=to)


class Host:
    """A server that answers each path with the bytes it was given, and remembers what it was asked."""

    def __init__(self, address: str = PUBLIC, tls: ssl.SSLContext | None = None) -> None:
        self.routes: dict[str, Answer] = {}
        self.asked: list[str] = []
        self._tls = tls
        self._socket = socket.create_server((address, 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.over = threading.Event()

    def __enter__(self) -> Host:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        join(self._thread)

    def _serve(self) -> None:
        while not self.over.is_set():
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connected,), daemon=True).start()

    def _answer(self, connected: socket.socket) -> None:
        try:
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_side=True)
            request = b""
            while b"\r\n\r\n" not in request:
                piece = connected.recv(65536)
                if not piece:
                    return
                request += piece
            self.asked.append(request.decode())
            found = self.routes.get(request.split()[1].decode(), answer(b"", status="404 Not Found"))
            if callable(found):
                found(connected)
            else:
                connected.sendall(found)
        except OSError:
            return  # the client has seen enough
        finally:
            connected.close()


class Names:
    """A resolver: each name has a list of answers, of which the last is given again and again."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): given for name, given in answers.items()}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        given = self.answers.get(host)
        if not given:
            raise OSError("no such name")
        return given.pop(0) if len(given) > 1 else given[0]


def make_certificate(folder: Path, name: str) -> Path:
    """A certificate for a name or an address that vouches for itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    general = x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([general]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, pem = folder / f"{name}.pem", serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(key.private_bytes(pem, *plain) + made.public_bytes(pem))
    return file
