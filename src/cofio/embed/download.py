"""Fetches one pinned file from the package indexes that pip and uv are set up with, over our own HTTP client.

Whatever an index says of the file, only its pin counts. No error names more of an address than its host: the rest may
hold a password.
"""

from __future__ import annotations

import hashlib
import json
import netrc
import os
import shutil
import ssl
import time
from contextlib import ExitStack, contextmanager
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import url2pathname

from ..values.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx2

    from .model_files import Pin
    from .sources import Package, Sources

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_MOST_PAGE = 16 * 2**20  # bytes of a page that lists a project's files
_MOST_REDIRECTS = 5
_SILENCE = 30.0  # seconds in which a server must send something
_LONGEST = 3600.0  # seconds that the whole file may take
_OTHER = "has another file of this name, which is not used"
_REFUSALS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "asks for a user and password, which the index's address or ~/.netrc may hold",
    HTTPStatus.FORBIDDEN: "refuses (403)",
    HTTPStatus.NOT_FOUND: "does not have it (404)",
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: "is behind a proxy that asks for a user and password (407)",
}


class _Failure(Exception):
    """Why one source did not give the file; the next one is asked."""


def fetch(package: Package, target: Path, sources: Sources, progress: Callable[[float], None]) -> None:
    """Write the package's file to `target`; `progress` is told how much of it, 0 to 1, is there.

    Raises:
        Unavailable: no source has it, with the reason that each of them gave.
    """
    failures: dict[str, None] = {}  # a set that keeps its order
    with _Session(sources) as session:
        for name, location in _list_locations(package, sources):
            try:
                if isinstance(location, Path):
                    _copy(_find_in(location, package), target, package.pin)
                else:
                    session.download(session.find(location, package), target, package.pin, progress)
            except _Failure as failure:
                failures[f"{name} {failure}"] = None
            else:
                return
    raise Unavailable(f"{package} could not be fetched: {'; '.join(failures) or 'no package index is set'}")


def _list_locations(package: Package, sources: Sources) -> list[tuple[str, Path | str]]:
    """Where the file may be, with the name of each place: a folder, or a page that lists files. Folders come first."""
    places: list[tuple[str, Path | str]] = []
    for index in sources.indexes:
        folder = _parse_local_path(index)
        page = f"{index.rstrip('/')}/{package.project}/"
        places.append((_show_host(index), page) if folder is None else (str(folder), folder / package.project))
    for link in sources.links:
        folder = _parse_local_path(link)
        places.append((_show_host(link), link) if folder is None else (str(folder), folder))
    return sorted(places, key=lambda location: isinstance(location[1], str))


class _Session:
    """The HTTP clients of one fetch, one that looks at certificates and one that does not."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._clients: dict[bool, httpx2.Client] = {}
        self._open = ExitStack()
        self._credentials = dict(filter(None, map(_split_credentials, (*sources.indexes, *sources.links))))
        self._until = time.monotonic() + _LONGEST

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def find(self, page: str, package: Package) -> str:
        """The address of the file, from a page that lists the project's files."""
        content = bytearray()
        with self._get(page, {"Accept": _ACCEPT}) as response:
            for chunk in self._read(response):
                content += chunk
                if len(content) > _MOST_PAGE:
                    raise _Failure("answers with a page that is too long for a list of files")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        links = _read_links(bytes(content), kind, str(response.url))
        found = next((link for link in links if _find_file_name(link) == package.file), None)
        if found is None:
            raise _Failure("does not have it")
        return found

    def download(self, address: str, target: Path, pin: Pin, progress: Callable[[float], None]) -> None:
        """Write what is there to a file, as far as it may be the right one."""
        digest, done = hashlib.sha256(), 0
        with self._get(address, {"Accept-Encoding": "identity"}) as response, target.open("wb") as file:
            for chunk in self._read(response):
                done += len(chunk)
                if done > pin.size:
                    raise _Failure(_OTHER)
                digest.update(chunk)
                file.write(chunk)
                progress(done / pin.size)
        if done < pin.size:
            raise _Failure(f"ended the download after {done:,} of {pin.size:,} bytes")
        if digest.hexdigest() != pin.sha256:
            raise _Failure(_OTHER)

    def _read(self, response: httpx2.Response) -> Iterator[bytes]:
        for chunk in response.iter_bytes():
            if time.monotonic() > self._until:  # a server may send a byte now and then for ever
                raise _Failure("takes more than an hour")
            yield chunk

    @contextmanager
    def _get(self, address: str, headers: dict[str, str]) -> Iterator[httpx2.Response]:
        """What is at the address, to be read piece by piece."""
        import httpx2

        try:
            bare = _strip_credentials(address)
            client = self._client(bare)
            with client.stream("GET", bare, headers=headers, auth=self._find_auth(bare)) as response:
                if response.status_code != HTTPStatus.OK:
                    raise _Failure(_REFUSALS.get(response.status_code, f"answers {response.status_code}"))
                yield response
        except httpx2.HTTPError as error:
            raise _Failure(_explain(error)) from error
        except ImportError as error:
            raise _Failure("would be asked through a SOCKS proxy, which needs the package socksio") from error
        except (httpx2.InvalidURL, ValueError) as error:  # whose words quote the address
            raise _Failure("cannot be asked: its address or the proxy's is not one") from error

    def _client(self, address: str) -> httpx2.Client:
        import httpx2

        parts = urlsplit(address)
        host = (parts.hostname or "").lower()
        verified = not self._sources.insecure & {host, f"{host}:{parts.port}"}
        if verified not in self._clients:
            try:
                client = httpx2.Client(
                    verify=self._trust() if verified else False,
                    proxy=self._sources.proxy or None,
                    timeout=_SILENCE,
                    follow_redirects=True,
                    max_redirects=_MOST_REDIRECTS,
                    headers={"User-Agent": "cofio"},
                )
            except OSError as error:
                raise _Failure("cannot be asked: what SSL_CERT_FILE names are no certificates") from error
            self._clients[verified] = self._open.enter_context(client)
        return self._clients[verified]

    def _trust(self) -> ssl.SSLContext | bool:
        certificates = self._sources.certificates
        if not certificates:
            return True
        path = Path(certificates).expanduser()
        try:
            return ssl.create_default_context(
                cafile=None if path.is_dir() else path, capath=path if path.is_dir() else None
            )
        except (OSError, ssl.SSLError) as error:
            raise _Failure(f"cannot be asked: pip's `cert` {certificates} cannot be read") from error

    def _find_auth(self, address: str) -> tuple[str, str] | None:
        return self._credentials.get(_find_origin(address)) or _read_netrc(urlsplit(address).hostname or "")


class _Anchors(HTMLParser):
    """The addresses that a page links to."""

    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a link, or what all links are relative to."""
        address = dict(attrs).get("href") or ""
        if tag == "a" and address:
            self.links.append(address)
        elif tag == "base" and not self.base:
            self.base = address


def _read_links(content: bytes, kind: str, address: str) -> list[str]:
    """The addresses of a project's files, from either form of the page."""
    try:
        if kind.endswith("json"):
            return [urljoin(address, str(each["url"])) for each in json.loads(content)["files"]]
        anchors = _Anchors()
        anchors.feed(content.decode("utf-8", "replace"))
        return [urljoin(urljoin(address, anchors.base), each) for each in anchors.links]
    except (ValueError, KeyError, TypeError, RecursionError, AssertionError):  # the last is the HTML parser's
        raise _Failure("answers with something else than a list of files") from None


def _find_file_name(link: str) -> str:
    """What the file that a link leads to is called."""
    return unquote(link.partition("#")[0].partition("?")[0]).rsplit("/", 1)[-1]


def _find_in(folder: Path, package: Package) -> Path:
    """The file in a folder of files, or in one that is laid out as an index; or the file itself."""
    if folder.name == package.file and folder.is_file():
        return folder
    if (folder / package.file).is_file():
        return folder / package.file
    try:
        page = (folder / "index.html").read_bytes() if folder.is_dir() else b""
    except OSError:
        page = b""
    for link in _read_links(page, "", f"{folder.as_uri()}/" if folder.is_absolute() else ""):
        found = _parse_local_path(link.partition("#")[0])
        if found is not None and found.name == package.file and found.is_file():
            return found
    raise _Failure("does not have it")


def _copy(path: Path, target: Path, pin: Pin) -> None:
    try:
        right = pin.matches(path)
    except PermissionError:
        raise _Failure("cannot be read") from None
    if not right:
        raise _Failure(_OTHER)
    shutil.copyfile(path, target)


def _parse_local_path(location: str) -> Path | None:
    """The file or folder of this machine that is meant; None for an address elsewhere."""
    if location.lower().startswith("file:"):
        return Path(url2pathname(urlsplit(location).path))
    return None if "://" in location else Path(location).expanduser()


def _explain(error: httpx2.HTTPError) -> str:
    import httpx2

    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, httpx2.TooManyRedirects):
        return f"redirects more than {_MOST_REDIRECTS} times"
    if isinstance(error, httpx2.TimeoutException):
        return f"did not answer within {_SILENCE:.0f} s"
    if isinstance(error, httpx2.ReadError | httpx2.RemoteProtocolError):
        return f"broke the connection off ({text})"
    if isinstance(error, httpx2.ProxyError):
        return f"cannot be reached through the proxy ({text})"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "has a certificate that is not trusted here (SSL_CERT_FILE names a file with your own authority's)"
    return f"cannot be reached ({text})"


def _show_host(address: str) -> str:
    """All of an address that may be shown."""
    try:
        return urlsplit(_strip_credentials(address)).netloc or "an address without a host"
    except ValueError:
        return "an address that is none"


def _find_origin(address: str) -> str:
    parts = urlsplit(_strip_credentials(address))
    return f"{parts.scheme}://{parts.netloc}".lower()


def _strip_credentials(address: str) -> str:
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _split_credentials(address: str) -> tuple[str, tuple[str, str]] | None:
    """Where the user and password of an address may be sent, and what they are; None if it has none."""
    try:
        user, is_there, _ = urlsplit(address).netloc.rpartition("@")
    except ValueError:
        return None
    name, _, password = user.partition(":")
    return (_find_origin(address), (unquote(name), unquote(password))) if is_there else None


def _read_netrc(host: str) -> tuple[str, str] | None:
    try:
        found = netrc.netrc(os.environ.get("NETRC") or None).authenticators(host)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return None  # there is none, or one that other programs have to complain about
    return (found[0], found[2]) if found and found[2] else None
