"""A fetch goes where the owner allows and to public addresses only, whatever names, redirects and servers try."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from socket import socket

import pytest

from cofio.content import ContentReader, FetchPolicy, Item, Unreadable
from cofio.content.addresses import is_public, normalize_host
from cofio.content.http_fetch import FetchedDocument, Web

from .making import pdf
from .serving import PRIVATE, PUBLIC, Host, Names, allowed, answer, make_certificate, moved


@pytest.fixture
def host() -> Iterator[Host]:
    """A host of the internet."""
    with Host(PUBLIC) as opened:
        yield opened


@pytest.fixture
def inside() -> Iterator[Host]:
    """A server that only this machine should reach."""
    with Host(PRIVATE) as opened:
        opened.routes["/"] = opened.routes["/secret"] = answer(b"the secret")
        yield opened


def web(*hosts: str, names: Names | None = None, max_bytes: int = 1_000_000, seconds: float = 20) -> Web:
    fetching = FetchPolicy(hosts=hosts, max_bytes=max_bytes, seconds=seconds)
    return Web(fetching, resolve=names or Names(a_test=[[PUBLIC]]), allowed=allowed)


def get(uri: str, by: Web) -> FetchedDocument:
    return by.fetch(uri, time.monotonic() + 30)


def test_a_document_is_fetched_with_its_type(host: Host) -> None:
    host.routes["/a/b.txt?c=d"] = answer("grüß".encode("latin-1"), "text/plain; charset=ISO-8859-1")
    found = get(f"http://A.test:{host.port}/a/b.txt?c=d#e", web(f"a.test:{host.port}"))
    assert found == FetchedDocument("grüß".encode("latin-1"), "text/plain", "iso-8859-1", "/a/b.txt")
    assert host.asked[0].splitlines()[:2] == ["GET /a/b.txt?c=d HTTP/1.1", f"Host: a.test:{host.port}"]
    assert "authorization" not in host.asked[0].lower()
    assert "cookie" not in host.asked[0].lower()


@pytest.mark.usefixtures("process")
def test_an_item_is_read_by_its_servers_word_then_by_its_name_then_by_its_beginning(host: Host) -> None:
    host.routes |= {
        "/page": answer(b"<p>Hello</p>", "text/html"),
        "/file.html": answer(b"<p>Hello</p>", "application/octet-stream"),
        "/bare": answer(pdf("Hello"), None),
        "/login": answer(b"<html>Log in</html>", "text/html"),
    }
    fetching = FetchPolicy(hosts=(f"a.test:{host.port}",))
    reading = ContentReader(fetching, web=Web(fetching, resolve=Names(a_test=[[PUBLIC]]), allowed=allowed))
    at = f"http://a.test:{host.port}"
    uris = [f"{at}/page", f"{at}/file.html", f"{at}/bare"]
    assert reading.read_items([Item(type="doc", uri=uri) for uri in uris]) == ["Hello"] * 3
    with pytest.raises(Unreadable, match="not a PDF") as caught:
        reading.read_items([Item(type="text", text="x"), Item(type="pdf", uri=f"{at}/login")])
    assert caught.value.item == 1


def test_nothing_is_fetched_unless_the_owner_says_so(host: Host, inside: Host) -> None:
    names = Names(a_test=[[PUBLIC]], b_test=[[PUBLIC]])
    at = f"http://a.test:{host.port}/"
    for hosts in ((), ("b.test",), ("*.a.test",)):
        for uri in (at, "http://a.test/", "https://a.test/", f"http://{PRIVATE}:{inside.port}/"):
            with pytest.raises(Unreadable, match="does not allow"):
                get(uri, web(*hosts, names=names))
    for hosts in (("*",), ("a.test",), (f"a.test:{host.port + 1}",)):  # a port other than the usual must be named
        with pytest.raises(Unreadable, match="does not allow"):
            get(at, web(*hosts, names=names))
    assert names.asked == host.asked == inside.asked == []


ADDRESSES = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "168.63.129.16", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:7f00:1",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:10::1",
    "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254",
    "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_not_public_is_refused_in_every_way(address: str) -> None:
    assert not is_public(ip_address(address))
    assert all(is_public(ip_address(each)) for each in ("8.8.8.8", "93.184.215.14", "2606:4700::1111"))
    bare = address.partition("%")[0]
    literal = f"[{bare}]" if ":" in bare else bare
    names = Names(a_test=[[address]], b_test=[["93.184.215.14", address]])
    fetch = Web(FetchPolicy(hosts=("*",)), resolve=names)
    for uri in (f"http://{literal}/", f"https://{literal}/x", "http://a.test/", "https://b.test/"):
        with pytest.raises(Unreadable) as caught:
            get(uri, fetch)
        assert "not a public one" in caught.value.reason
        assert bare not in caught.value.reason


@pytest.mark.parametrize(
    "uri",
    [
        "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/",
        "http://127.0.0.01/", "http://017700000001/", "http://127.0.0.1./", "http://a.test./", "http://127.0.0.0x1/",
        "http://a.1/", "http://0x/", "http://[::1%25lo]/", "http://[::1/", "http://[127.0.0.1]/", "http://[v1.a]/",
        "http://user@a.test/", "http://a.test@127.0.0.1/", "http://a.test:80@b.test/", "http://:pass@a.test/",
        "http://a.test\\@127.0.0.1/", "http://a.test/\r\nHost: b", "http://a.test/ x", "http:///a", "http://",
        "http:a.test", "http://a..test/", "http://.test/", "http://-a.test/", "http://a%2etest/", "http://%31/",
        "http://①②⑦.⓪.⓪.①/", "http://a.test:0/", "http://a.test:99999/", "http://a.test:x/", "http://a.test:-1/",
        "http://a.test:８0/", "http://１２７.0.0.1/", "http://127。0。0。1/",
        "http://" + "a" * 5000, "http://a\0.test/", "http://a.test:80:80/",
        "ftp://a.test/", "gopher://a.test/", "data:text/plain,hello", "javascript:1", "//a.test/", "/etc/passwd", "",
        "jar:http://a.test/!/", "http\t://a.test/", " http://a.test/", "unix:/run/x", "http+unix://a/",
    ],
)  # fmt: skip
def test_a_strangely_spelled_uri_reaches_nothing(uri: str) -> None:
    names = Names(a_test=[[PRIVATE]])
    reading = ContentReader(web=Web(FetchPolicy(hosts=("*",)), resolve=names))
    with pytest.raises(Unreadable):
        reading.read_items([Item(type="doc", uri=uri)])
    assert names.asked == []


def test_a_name_is_resolved_once_and_the_connection_goes_there(host: Host, inside: Host) -> None:
    # Public at the first look and private at the second: whoever looks twice connects to the wrong one.
    host.routes["/"] = answer(b"public")
    names = Names(a_test=[[PUBLIC], [PRIVATE]])
    assert get(f"http://a.test:{host.port}/", web(f"a.test:{host.port}", names=names)).data == b"public"
    with pytest.raises(Unreadable, match="not a public one"):
        get(f"http://a.test:{host.port}/", web(f"a.test:{host.port}", names=names))
    assert names.asked == ["a.test", "a.test"]
    assert inside.asked == []


def test_one_address_that_is_private_is_enough_to_refuse_and_one_that_does_not_answer_is_followed_by_the_next(
    host: Host, inside: Host
) -> None:
    wrong = [["nonsense"], ["1.2.3"], ["127.0.0.1\n"]]
    for answers in ([PUBLIC, PRIVATE], [PRIVATE, PUBLIC], [PUBLIC, "::ffff:7f00:1"], [], *wrong):
        with pytest.raises(Unreadable):
            get(f"http://a.test:{host.port}/", web("*", f"a.test:{host.port}", names=Names(a_test=[answers])))
    assert host.asked == inside.asked == []
    host.routes["/"] = answer(b"here")
    fetch = Web(
        FetchPolicy(hosts=(f"a.test:{host.port}",)), resolve=Names(a_test=[["127.0.0.3", PUBLIC]]),
        allowed=lambda address: str(address) in (PUBLIC, "127.0.0.3"),
    )  # fmt: skip
    assert get(f"http://a.test:{host.port}/", fetch).data == b"here"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_every_redirect_is_checked_as_if_it_were_asked_for_and_they_have_an_end(
    host: Host, inside: Host, status: str
) -> None:
    names = Names(a_test=[[PUBLIC]], evil_test=[[PRIVATE]], b_test=[[PUBLIC]], turns_test=[[PUBLIC], [PRIVATE]])
    fetch = web("*", *(f"{name}:{host.port}" for name in ("a.test", "evil.test", "turns.test")),
                *(f"{name}:{inside.port}" for name in ("*", "evil.test", PRIVATE)), names=names)  # fmt: skip
    host.routes |= {
        "/relative": moved("ok", status), "/ok": answer(b"fine"),
        "/again": moved(f"http://turns.test:{host.port}/turn", status),
        "/turn": moved(f"http://turns.test:{inside.port}/secret", status),
    }  # fmt: skip
    assert get(f"http://a.test:{host.port}/relative", fetch).data == b"fine"
    for to in (
        f"http://{PRIVATE}:{inside.port}/secret", f"http://evil.test:{inside.port}/secret",
        f"//evil.test:{inside.port}/secret", f"http://[::ffff:7f00:1]:{inside.port}/secret",
        f"http://2130706433:{inside.port}/secret", f"http://0x7f.1:{inside.port}/secret",
        f"http://a.test@{PRIVATE}:{inside.port}/secret", f"http://b.test:{host.port}/ok", "http://169.254.169.254/",
        "file:///etc/passwd", "ftp://a.test/", "data:text/plain,x", "", "http://", "http://[", "\\\\evil.test\\x",
        f"ht\ttp://evil.test:{inside.port}/", f" //evil.test:{inside.port}/",
    ):  # fmt: skip
        host.routes["/out"] = moved(to, status)
        with pytest.raises(Unreadable):
            get(f"http://a.test:{host.port}/out", fetch)
    with pytest.raises(Unreadable, match="not a public one"):
        get(f"http://a.test:{host.port}/again", fetch)
    assert inside.asked == []
    host.routes |= {f"/{n}": moved(f"/{n + 1}", status) for n in range(9)}
    host.routes |= {"/5": answer(b"here"), "/loop": moved("/loop", status)}
    host.asked.clear()
    assert get(f"http://a.test:{host.port}/0", fetch).data == b"here"
    with pytest.raises(Unreadable, match="more than 5 times"):
        get(f"http://a.test:{host.port}/loop", fetch)
    assert len(host.asked) == 12


def test_a_document_that_is_too_large_is_given_up_early(host: Host) -> None:
    def endless(connected: socket) -> None:
        connected.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connected.sendall(b"x" * 65536)

    def chunks(connected: socket) -> None:
        connected.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connected.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

    host.routes |= {
        "/said": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "/endless": endless, "/chunks": chunks,
        "/one": answer(b"x" * 100_001), "/right": answer(b"x" * 100_000),
    }  # fmt: skip
    fetch = web(f"a.test:{host.port}", max_bytes=100_000)
    for path in ("said", "endless", "chunks", "one"):
        with pytest.raises(Unreadable, match="larger than 100,000 bytes"):
            get(f"http://a.test:{host.port}/{path}", fetch)
    assert len(get(f"http://a.test:{host.port}/right", fetch).data) == 100_000


def drip(start: bytes, piece: bytes, host: Host) -> Callable[[socket], None]:
    """An answer that comes in drops, each soon enough to keep a patient client waiting for ever."""

    def answering(connected: socket) -> None:
        connected.sendall(start)
        while not host.over.wait(0.05):
            connected.sendall(piece)

    return answering


def test_a_server_or_a_resolver_that_keeps_one_waiting_is_given_up(host: Host) -> None:
    ok = b"HTTP/1.1 200 OK\r\n"
    host.routes |= {
        "/silent": drip(b"", b"", host), "/status": drip(b"", b"H", host), "/headers": drip(ok, b"A", host),
        "/continue": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n", host),
        "/body": drip(ok + b"Content-Length: 100000\r\n\r\n", b"x", host),
        "/chunks": drip(ok + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", host),
        "/size": drip(ok + b"Transfer-Encoding: chunked\r\n\r\n", b"0", host),
        "/again": moved("/silent"),
    }  # fmt: skip
    for path in host.routes:
        with pytest.raises(Unreadable, match="in time"):
            get(f"http://a.test:{host.port}{path}", web(f"a.test:{host.port}", seconds=0.4))

    def resolve(name: str, port: int) -> list[str]:
        host.over.wait(60)
        return [PUBLIC]

    with pytest.raises(Unreadable, match="in time"):
        get("http://a.test/", Web(FetchPolicy(hosts=("*",), seconds=0.2), resolve=resolve))


def test_a_document_that_breaks_off_is_not_taken_for_a_whole_one(host: Host) -> None:
    host.routes |= {
        "/length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "/nothing": b"", "/noise": b"\0\xff" * 99,
        "/chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
        "/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "/size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf",
        "/headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\nhalf",
        "/line": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000,
        "/minus": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhalf",
    }  # fmt: skip
    for path in host.routes:
        with pytest.raises(Unreadable, match="could not be fetched"):
            get(f"http://a.test:{host.port}{path}", web(f"a.test:{host.port}"))


def test_other_answers_are_no_document(host: Host) -> None:
    host.routes |= {
        "/206": answer(b"half", status="206 Partial Content"), "/500": answer(b"the details", status="500 Oops"),
        "/204": b"HTTP/1.1 204 No Content\r\n\r\n", "/packed": answer(b"\x1f\x8b", Content_Encoding="gzip"),
    }  # fmt: skip
    answered = {each: f"answered {each}" for each in ("206", "500", "204", "404")}
    for path, said in {**answered, "packed": "compressed"}.items():
        with pytest.raises(Unreadable, match=said):
            get(f"http://a.test:{host.port}/{path}", web(f"a.test:{host.port}"))
    assert all("Accept-Encoding: identity" in asked for asked in host.asked)


def test_tls_is_for_the_name_that_was_asked_for_and_is_not_left(tmp_path: Path) -> None:
    assert normalize_host("Bücher.example") == "xn--bcher-kva.example"
    file = make_certificate(tmp_path, "a.test")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(file)
    trusting = ssl.create_default_context(cafile=file)
    names = Names(a_test=[[PUBLIC]], b_test=[[PUBLIC]])
    with Host(PUBLIC, serving) as secure, Host(PUBLIC) as plain:
        secure.routes |= {"/": answer(b"hello"), "/down": moved(f"http://a.test:{plain.port}/")}
        secure.routes["/cut"] = b"HTTP/1.1 200 OK\r\n\r\nhalf"
        fetching = FetchPolicy(
            hosts=tuple(f"{name}:{port.port}" for name in ("a.test", "b.test") for port in (secure, plain))
        )
        at = f"https://a.test:{secure.port}"
        trusted = Web(fetching, resolve=names, allowed=allowed, tls=trusting)
        assert get(f"{at}/", trusted).data == b"hello"
        with pytest.raises(Unreadable, match="from https to something else"):
            get(f"{at}/down", trusted)
        with pytest.raises(Unreadable, match="could not be fetched"):
            get(f"{at}/cut", trusted)
        with pytest.raises(Unreadable, match="could not be fetched"):
            get(f"https://b.test:{secure.port}/", trusted)
        with pytest.raises(Unreadable, match="could not be fetched"):
            get(f"{at}/", Web(fetching, resolve=names, allowed=allowed))
        assert plain.asked == []
