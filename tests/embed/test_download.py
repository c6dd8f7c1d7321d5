"""Fetching one pinned file from package indexes over real HTTP, and what is said when that fails."""

import hashlib
import json
import socket
from base64 import b64encode
from pathlib import Path

import pytest
from tests.content.serving import make_certificate

from cofio.embed.download import fetch
from cofio.embed.model_files import Pin
from cofio.embed.sources import Package, Sources
from cofio.values.errors import Unavailable

from .conftest import Index, serve

CONTENT = bytes(range(256)) * 1000
PACKAGE = Package(
    project="some-weights",
    version="1.0",
    file="some_weights-1.0-py3-none-any.whl",
    pin=Pin(sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT)),
)
JSON = "application/vnd.pypi.simple.v1+json"
PAGE = "/simple/some-weights/"

pytestmark = pytest.mark.usefixtures("plain_environment")


def listing(address: str) -> bytes:
    return json.dumps({"files": [{"filename": "x-0.9.tar.gz", "url": "x-0.9.tar.gz"}, {"url": address}]}).encode()


def get(tmp_path: Path, *indexes: str, links: tuple[str, ...] = (), **others: str) -> list[float]:
    told: list[float] = []
    fetch(PACKAGE, tmp_path / "got", Sources(indexes=indexes, links=links, **others), told.append)  # type: ignore[arg-type]  # all of them are texts
    assert (tmp_path / "got").read_bytes() == CONTENT
    return told


def failure(tmp_path: Path, *indexes: str, links: tuple[str, ...] = (), **others: str) -> str:
    with pytest.raises(Unavailable) as caught:
        get(tmp_path, *indexes, links=links, **others)
    said = str(caught.value)
    assert "secret" not in said
    return said


def test_the_file_is_found_on_a_json_index_and_its_progress_told_by_bytes(index: Index, tmp_path: Path) -> None:
    index.answer(PAGE, listing(f"../../files/{PACKAGE.file}#sha256=00"), Content_Type=f"{JSON}; charset=utf-8")
    index.answer(f"/files/{PACKAGE.file}", CONTENT)
    told = get(tmp_path, f"{index.address}/simple")
    assert JSON in index.asked[0][1]["accept"]
    assert told == sorted(told)
    assert len(told) > 1
    assert told[-1] == 1.0


@pytest.mark.parametrize("base", ["", '<base href="/files/">'])
def test_the_file_is_found_on_an_html_index(index: Index, tmp_path: Path, base: str) -> None:
    folder = "" if base else "/files/"
    page = f'<html>{base}<A HREF="{folder}{PACKAGE.file}#sha256=00">any text</A><a>no address</a></html>'
    index.answer(PAGE, page.encode(), Content_Type="text/html")
    index.answer(f"/files/{PACKAGE.file}", CONTENT)
    get(tmp_path, f"{index.address}/simple/")


def test_the_next_index_is_asked_where_one_has_nothing(index: Index, tmp_path: Path) -> None:
    index.answer("/second/some-weights/", listing(f"{index.address}/f/{PACKAGE.file}"), Content_Type=JSON)
    index.answer(f"/f/{PACKAGE.file}", CONTENT)
    get(tmp_path, f"{index.address}/first", f"{index.address}/second")
    assert index.paths == ["/first/some-weights/", "/second/some-weights/", f"/f/{PACKAGE.file}"]


def test_credentials_go_to_the_host_they_are_for_and_to_no_other(index: Index, tmp_path: Path) -> None:
    # The same server by another name is another host.
    elsewhere = index.address.replace("127.0.0.1", "localhost")
    index.answer(PAGE, status=301, Location=f"{index.address}/moved/")
    index.answer("/moved/", listing(f"{elsewhere}/{PACKAGE.file}"), Content_Type=JSON)
    index.answer(f"/{PACKAGE.file}", CONTENT)
    get(tmp_path, index.address.replace("//", "//me:s%40cret@") + "/simple")
    basic = f"Basic {b64encode(b'me:s@cret').decode()}"
    assert [headers.get("authorization") for _, headers in index.asked] == [basic, basic, None]


def test_netrc_is_honoured(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    failure(tmp_path, f"{index.address}/simple")
    assert index.asked[0][1]["authorization"] == f"Basic {b64encode(b'me:secret').decode()}"


@pytest.mark.parametrize("how", ["pip", "environment"])
def test_proxies_are_used_but_for_hosts_that_the_environment_exempts(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for page in (PAGE, "http://index.invalid/simple/some-weights/"):  # a proxy is asked for whole addresses
        index.answer(page, listing(PACKAGE.file), Content_Type=JSON)
        index.answer(f"{page}{PACKAGE.file}", CONTENT)
    if how == "environment":
        monkeypatch.setenv("HTTP_PROXY", index.address)
    get(tmp_path, "http://index.invalid/simple", proxy=index.address if how == "pip" else "")
    assert len(index.asked) == 2
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    get(tmp_path, f"{index.address}/simple")


def test_folders_and_pages_with_links_are_looked_through(index: Index, tmp_path: Path) -> None:
    folder, simple = tmp_path / "wheels", tmp_path / "simple" / "some-weights"
    folder.mkdir()
    simple.mkdir(parents=True)
    (folder / PACKAGE.file).write_bytes(CONTENT)
    for place in (str(folder), folder.as_uri(), str(folder / PACKAGE.file)):
        get(tmp_path, links=(place,))
    index.answer("/links.html", f'<a href="{PACKAGE.file}">it</a>'.encode(), Content_Type="text/html")
    index.answer(f"/{PACKAGE.file}", CONTENT)
    get(tmp_path, links=(str(tmp_path / "nowhere"), f"{index.address}/links.html"))
    (simple / "index.html").write_text(f'<a href="../../wheels/{PACKAGE.file}#sha256=00">it</a>')
    get(tmp_path, simple.parent.as_uri())
    (folder / PACKAGE.file).rename(simple / PACKAGE.file)
    get(tmp_path, simple.parent.as_uri())


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"!", CONTENT + b"!", CONTENT[:-1]])
def test_another_file_of_that_name_is_refused(index: Index, tmp_path: Path, content: bytes) -> None:
    index.answer(PAGE, listing(PACKAGE.file), Content_Type=JSON)
    index.answer(f"{PAGE}{PACKAGE.file}", content)
    (tmp_path / PACKAGE.file).write_bytes(content)
    said = failure(tmp_path, f"{index.address}/simple", links=(str(tmp_path),))
    assert f"{tmp_path} has another file of this name, which is not used" in said
    assert f"127.0.0.1:{index.address[17:]} " in said


@pytest.mark.parametrize(
    ("status", "said"), [(401, "asks for a user and password"), (404, "does not have it (404)"), (503, "answers 503")]
)
def test_a_refusal_is_told_without_what_may_be_secret(index: Index, tmp_path: Path, status: int, said: str) -> None:
    index.answer("/secret/simple/some-weights/", status=status)
    address = index.address.replace("//", "//me:secret@") + "/secret/simple"
    assert f"{index.address.removeprefix('http://')} {said}" in failure(tmp_path, address)


@pytest.mark.parametrize(
    ("kind", "body"),
    [(JSON, b"{"), (JSON, b'{"files": [1]}'), (JSON, b"[" * 100_000), ("text/html", b'<a href="http://[x">')],
)
def test_a_page_that_is_no_listing_is_told(index: Index, tmp_path: Path, kind: str, body: bytes) -> None:
    index.answer(PAGE, body, Content_Type=kind)
    assert "something else than a list of files" in failure(tmp_path, f"{index.address}/simple")


def test_an_index_that_does_not_come_to_an_end_is_given_up(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{index.address}/simple"
    index.answer(PAGE, status=302, Location=PAGE)
    assert "redirects more than 5 times" in failure(tmp_path, address)
    assert len(index.asked) == 6
    index.answer(PAGE, listing(PACKAGE.file), Content_Type=JSON)
    index.answer(f"{PAGE}{PACKAGE.file}", CONTENT[:1000], Content_Length=str(len(CONTENT)), Connection="close")
    assert "broke the connection off" in failure(tmp_path, address)
    with monkeypatch.context() as patched:
        patched.setattr("cofio.embed.download._LONGEST", -1.0)
        assert "takes more than an hour" in failure(tmp_path, address)
    monkeypatch.setattr("cofio.embed.download._MOST_PAGE", 10)
    assert "too long" in failure(tmp_path, address)


def test_a_link_to_a_file_of_this_machine_is_not_followed(index: Index, tmp_path: Path) -> None:
    (tmp_path / PACKAGE.file).write_bytes(CONTENT)
    index.answer(PAGE, listing((tmp_path / PACKAGE.file).as_uri()), Content_Type=JSON)
    assert "cannot be reached" in failure(tmp_path, f"{index.address}/simple")


def test_an_index_that_cannot_be_reached_or_asked_is_told(tmp_path: Path) -> None:
    assert failure(tmp_path) == "some-weights==1.0 could not be fetched: no package index is set"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        said = failure(tmp_path, f"http://me:secret@{address}/secret", "http://[secret", "http://h/simple\x7fsecret")
    assert f"{address} cannot be reached (" in said
    assert said.count("its address or the proxy's is not one") == 2
    for proxy in ("socks5://me:secret@127.0.0.1:9", "gopher://secret", "http://me:secret@127.0.0.1:9"):
        assert "could not be fetched: h.invalid " in failure(tmp_path, "http://h.invalid", proxy=proxy)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine that nobody vouches for, with its key."""
    return make_certificate(tmp_path, "127.0.0.1")


def test_certificates_count_as_the_user_says(
    certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    none = tmp_path / "none.pem"
    none.write_text("nothing")
    with serve(certificate) as index:
        index.answer(PAGE, listing(PACKAGE.file), Content_Type=JSON)
        index.answer(f"{PAGE}{PACKAGE.file}", CONTENT)
        address = f"{index.address}/simple"
        assert "has a certificate that is not trusted here" in failure(tmp_path, address)
        assert f"pip's `cert` {none} cannot be read" in failure(tmp_path, address, certificates=str(none))
        get(tmp_path, address, certificates=str(certificate))
        for host in ("127.0.0.1", index.address.removeprefix("https://")):
            insecure = Sources(indexes=(address,), insecure=frozenset({host}))
            fetch(PACKAGE, tmp_path / "insecure", insecure, lambda _: None)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        get(tmp_path, address)
        monkeypatch.setenv("SSL_CERT_FILE", str(none))
        assert "SSL_CERT_FILE" in failure(tmp_path, address)
