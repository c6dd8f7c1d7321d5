"""The remote embedder against a real server on this machine that says what it is told to say."""

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from tests.waiting import join

from cofio.embed import open_embedder
from cofio.embed.hashed import HashedEmbedder
from cofio.embed.remote import Remote
from cofio.endpoints.endpoint import Endpoint, RetryPolicy, SettingNames
from cofio.values.errors import Invalid, Unavailable

KEY = "sk-very-secret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server says next; `missing` bytes are promised and never sent."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the server was asked."""

    path: str
    authorization: str | None
    model: str
    texts: list[str]
    cookie: str | None = None


Answer = Callable[[list[str]], Reply]


@dataclass(slots=True)
class Script:
    """The replies in the order in which they are given, then `always` the same; and what was asked."""

    url: str = ""
    replies: list[Answer] = field(default_factory=list)
    always: Answer = lambda texts: right(texts)
    requests: list[Request] = field(default_factory=list)


def rows(texts: list[str]) -> list[dict[str, object]]:
    vectors = HashedEmbedder().embed(texts) * 3
    return [{"index": index, "embedding": vector.tolist()} for index, vector in enumerate(vectors)]


def reply(data: object) -> Reply:
    return Reply(body=json.dumps({"object": "list", "data": data}).encode())


def right(texts: list[str]) -> Reply:
    return reply(rows(texts))


def fails(status: int, headers: dict[str, str] | None = None) -> Answer:
    return lambda texts: Reply(status=status, body=b"{}", headers=headers or {})


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    monkeypatch.setenv("no_proxy", "*")
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Request(
                path=self.path,
                authorization=self.headers["Authorization"],
                model=asked["model"],
                texts=asked["input"],
                cookie=self.headers["Cookie"],
            )
            script.requests.append(request)
            answer = script.replies.pop(0) if script.replies else script.always
            said = answer(request.texts)
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body) + said.missing))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield script
        server.shutdown()
        join(thread)


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def remote(script: Script, waits: list[float]) -> Remote:
    return Remote(script.url, model="tiny", key=KEY, sleep=waits.append)


def test_vectors_come_back_in_order_with_length_one_and_the_key_is_sent(remote: Remote, script: Script) -> None:
    texts = ["one text", "another text", "a third"]
    assert remote.id == f"remote:tiny@{script.url.removeprefix('http://').removesuffix('/v1')}"
    assert script.requests == []
    script.replies = [lambda texts: replace(reply(rows(texts)[::-1]), headers={"Set-Cookie": "who=me; Path=/"})]
    for _ in range(2):
        assert np.allclose(remote.embed(texts), HashedEmbedder().embed(texts), atol=1e-6)
    expected = Request(path="/v1/embeddings", authorization=f"Bearer {KEY}", model="tiny", texts=texts)
    assert script.requests == [expected, expected]  # and no cookie
    Remote(f"{script.url}/embeddings?version=2", model="tiny").embed(["text"])
    assert (script.requests[2].path, script.requests[2].authorization) == ("/v1/embeddings?version=2", None)


def test_many_texts_go_in_batches_of_64(remote: Remote, script: Script) -> None:
    texts = [f"text number {number}" for number in range(130)]
    assert np.allclose(remote.embed(texts), HashedEmbedder().embed(texts), atol=1e-6)
    assert [len(request.texts) for request in script.requests] == [64, 64, 2]


def test_texts_that_endpoints_refuse_are_sent_in_a_form_that_they_take(remote: Remote, script: Script) -> None:
    assert remote.embed(["", "lone \ud800 surrogate", "x" * 100_000]).shape == (3, 384)
    assert script.requests[0].texts == [" ", "lone ? surrogate", "x" * 8000]


def test_the_dimensions_are_asked_for_once(remote: Remote, script: Script) -> None:
    assert (remote.dimensions, remote.dimensions) == (384, 384)
    assert remote.embed([]).shape == (0, 384)
    assert len(script.requests) == 1


def test_a_busy_endpoint_is_asked_again_after_the_time_it_names(
    remote: Remote, script: Script, waits: list[float]
) -> None:
    script.replies = [fails(429, {"Retry-After": "7"}), fails(503), fails(429, {"Retry-After": "86400"})]
    assert remote.embed(["text"]).shape == (1, 384)
    assert waits == [7.0, 1.0, 30.0]


def test_while_someone_waits_an_endpoint_is_asked_once_for_a_few_texts(remote: Remote, script: Script) -> None:
    texts = [f"text {number}" for number in range(100)]
    (vector,) = remote.embed_some(texts, 0.03)  # nothing is known yet of how long it takes
    assert np.allclose(vector, HashedEmbedder().embed(texts[:1])[0], atol=1e-6)
    vectors = remote.embed_some(texts, 0.03)
    assert 1 <= len(vectors) <= 16
    assert np.allclose(vectors, HashedEmbedder().embed(texts[: len(vectors)]), atol=1e-6)
    assert [len(request.texts) for request in script.requests] == [1, len(vectors)]


def test_a_failure_while_someone_waits_is_not_repeated_and_leaves_questions_alone(
    remote: Remote, script: Script, waits: list[float]
) -> None:
    script.replies = [fails(500)]
    with pytest.raises(Unavailable, match="answered 500"):
        remote.embed_some(["text"], 0.03)
    assert (len(script.requests), waits) == (1, [])
    assert remote.embed_query("text").shape == (384,)


def test_an_endpoint_that_always_fails_is_given_up(remote: Remote, script: Script, waits: list[float]) -> None:
    script.always = fails(500)
    with pytest.raises(Unavailable, match=f"{script.url}/embeddings answered 500 Internal Server Error"):
        remote.embed(["text"])
    assert len(script.requests) == 4
    assert waits == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("status", [400, 401, 404, 302])
def test_a_refusal_is_final_and_does_not_tell_the_key(remote: Remote, script: Script, status: int) -> None:
    script.always = fails(status, {"Location": "http://127.0.0.1:1/elsewhere"})
    with pytest.raises(Unavailable, match=f"{script.url}/embeddings answered {status}") as caught:
        remote.embed(["text"])
    assert len(script.requests) == 1
    assert KEY not in str(caught.value)


def test_a_body_cut_short_is_asked_for_again(remote: Remote, script: Script, waits: list[float]) -> None:
    cut = Reply(body=b'{"data": [{"index": 0, "embed', missing=1000)
    script.replies = [lambda texts: cut]
    assert remote.embed(["text"]).shape == (1, 384)
    script.always = lambda texts: cut
    with pytest.raises(Unavailable, match=f"{script.url}/embeddings cannot be reached"):
        remote.embed(["text"])
    waits.clear()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    nobody = Remote(f"http://127.0.0.1:{port}", model="tiny", key=KEY, sleep=waits.append)
    with pytest.raises(Unavailable, match=f"http://127.0.0.1:{port}/embeddings cannot be reached"):
        nobody.embed(["text"])
    assert len(waits) == 3


@pytest.mark.parametrize(
    "data",
    [
        "[]",
        '[{"embedding": [1, 2]}]',
        '[{"index": 1, "embedding": [1, 2]}]',
        '[{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]',
        *(f'[{{"index": 0, "embedding": {vector}}}]' for vector in ("1", "[[1]]", '["a"]', "[]", "[0, 0]")),
        *(f'[{{"index": 0, "embedding": [{number}, 1]}}]' for number in ("NaN", "null", "1e200")),
    ],
)
def test_an_answer_that_is_no_vector_is_refused(remote: Remote, script: Script, data: str) -> None:
    script.always = lambda texts: Reply(body=f'{{"data": {data}}}'.encode())
    with pytest.raises(Unavailable, match=f"{script.url}/embeddings answered"):
        remote.embed(["text"])
    assert len(script.requests) == 1


@pytest.mark.parametrize("body", [b"<h1>It works!</h1>", b"\xff\xfe", b"[" * 100_000, b"[]", b'{"error": {}}'])
def test_an_answer_that_is_no_list_is_refused_without_telling_the_key(
    remote: Remote, script: Script, body: bytes
) -> None:
    script.always = lambda texts: Reply(body=body)
    with pytest.raises(Unavailable, match=f"{script.url}/embeddings answered") as caught:
        remote.embed(["text"])
    assert KEY not in str(caught.value)


def test_vectors_of_another_length_than_before_are_refused(remote: Remote, script: Script) -> None:
    remote.embed(["text"])
    assert remote.dimensions == 384
    script.always = lambda texts: reply([{"index": 0, "embedding": [1.0, 2.0]}])
    with pytest.raises(Unavailable, match="2 dimensions, not 384"):
        remote.embed(["text"])
    script.always = lambda texts: reply([{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1, 2, 3]}])
    with pytest.raises(Unavailable, match="answered"):
        remote.embed(["one", "two"])


@pytest.mark.parametrize(
    "url", ["", "localhost:8080/v1", "file:///etc/passwd", "http://", "http://a:port/v1", "http://x\n"]
)
def test_a_url_that_cannot_be_used_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="embed_url"):
        open_embedder("remote", models=tmp_path, url=url, model="tiny")
    with pytest.raises(Invalid, match="embed_model"):
        open_embedder("remote", models=tmp_path, url="http://localhost")


def test_secrets_that_cannot_be_used_are_refused_without_telling_them(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        open_embedder("remote", models=tmp_path, url="http://localhost", model="tiny", key=f"{KEY}\n")
    assert KEY not in str(caught.value)
    with pytest.raises(Invalid) as caught:
        open_embedder("remote", models=tmp_path, url=f"http://me:{KEY}@localhost", model="tiny")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
def test_an_endpoint_is_asked_through_the_proxy_that_the_environment_names(
    name: str, remote: Remote, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", ".example.org")
    monkeypatch.setenv(name, script.url.removesuffix("/v1"))
    Remote("http://far.example.com/v1", model="tiny").embed_query("text")
    assert [request.path for request in script.requests] == ["http://far.example.com/v1/embeddings"]
    with pytest.raises(Unavailable):  # nobody has that name, and no proxy is asked for it
        Remote("http://nobody.example.org:1/v1", model="tiny").embed_query("text")
    assert len(script.requests) == 1
    monkeypatch.delenv(name)
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")  # which could not be used
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    remote.embed(["text"])
    assert len(script.requests) == 2


def test_a_connection_that_ends_as_it_is_used_again_is_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    asked = []

    class Closing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        served = 0

        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            asked.append(texts)
            self.served += 1
            if self.served > 1 or "never" in texts:
                self.close_connection = True
                return
            said = right(texts)
            self.send_response(200)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Closing) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            remote = Remote(f"http://127.0.0.1:{server.server_address[1]}/v1", model="tiny")
            for number in range(3):
                remote.embed_query(str(number))
            assert asked == [["0"], ["1"], ["1"], ["2"], ["2"]]
            with pytest.raises(Unavailable):
                Remote(f"http://127.0.0.1:{server.server_address[1]}/v1", model="tiny").embed_query("never")
            assert asked[5:] == [["never"]]
        finally:
            server.shutdown()
            join(thread)


@pytest.mark.parametrize(("shortens", "rest"), [(True, 30.0), (False, 600.0)])
def test_embeddings_rest_for_half_a_minute_whatever_the_endpoint_asks_for(
    shortens: bool, rest: float, script: Script
) -> None:
    now = 0.0
    names = SettingNames(url="embed_url", model="embed_model", key="embed_key")
    policy = RetryPolicy(
        tries=1, timeout=30.0, hurry=3.0, rest=30.0, longest_answer=30.0, max_bytes=1_000_000, shortens_waits=shortens
    )
    endpoint = Endpoint(f"{script.url}/embeddings", "it", "", policy, names, clock=lambda: now)
    script.replies = [fails(429, {"Retry-After": "3600"})]

    def ask() -> bytes:
        return endpoint.ask(lambda post: post({"model": "tiny", "input": ["text"]}), hurried=True)

    with pytest.raises(Unavailable, match="429"):
        ask()
    now = rest - 1
    with pytest.raises(Unavailable, match="a moment ago"):
        ask()
    now = rest + 1
    ask()
    endpoint.close()
