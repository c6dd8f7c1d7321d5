"""`cofio add` remembers a text, durably, and prints the id of its record."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cofio.values.records import MAX_TEXT

from .conftest import Cofio


def test_add_prints_the_id_alone_and_says_once_that_it_made_a_memory(cofio: Cofio, folder: Path) -> None:
    added = cofio("add", "The deploy", "runs on Fridays.")
    assert len(added.rows) == 1
    assert f"made a new memory in {folder / '.cofio'}" in added.err
    shown = cofio("show", added.id, "--json").json
    assert (shown["text"], shown["scope"]) == ("The deploy runs on Fridays.", ["mcp"])
    assert cofio("add", "two").err == ""


def test_add_keeps_every_field_that_is_given(cofio: Cofio) -> None:
    written = cofio(
        "add", "Tokens live 30 days.", "--title", "Tokens", "--tag", "auth,auth", "--tag", "ops", "--author", "pm",
        "--scope", "team/back%2Fend", "--kind", "fact", "--importance", "high", "--data", '{"n": [1, null]}', "--json",
    ).json  # fmt: skip
    assert written["title"] == "Tokens"
    assert written["tags"] == ["auth", "ops"]
    assert written["author"] == "pm"
    assert written["scope"] == ["team", "back/end"]
    assert (written["kind"], written["importance"]) == ("fact", "high")
    assert written["data"] == {"n": [1, None]}
    assert (written["source"], written["existed"], written["similar"]) == ("cli", False, [])


@pytest.mark.parametrize("argument", [[], ["-"]])
def test_add_reads_stdin_when_there_is_no_text(cofio: Cofio, argument: list[str]) -> None:
    added = cofio("add", *argument, stdin="first line\nsecond: é, 日本語\n")
    assert cofio("show", added.id, "--json").json["text"] == "first line\nsecond: é, 日本語"


def test_a_text_can_begin_with_a_dash_after_two_dashes(cofio: Cofio) -> None:
    added = cofio("add", "--json", "--ttl", "1.5H", "--", "--force is dangerous").json
    assert (added["text"], bool(added["expires_at"])) == ("--force is dangerous", True)


def test_a_key_holds_what_was_added_last(cofio: Cofio) -> None:
    first = cofio("add", "main", "--key", "branch").id
    second = cofio("add", "release", "--key", "branch", "--json").json
    assert (second["id"], second["version"], second["kind"]) == (first, 2, "item")
    assert cofio("show", "--key", "branch", "--json").json["text"] == "release"
    written = cofio("add", "--key", "limits", "--data", "[1, 2]", "--json").json
    assert (written["text"], written["data"]) == ("", [1, 2]), "under a key, data is enough"


def test_dedupe_prints_the_id_that_was_there_and_says_so(cofio: Cofio) -> None:
    first = cofio("add", "the very same").id
    again = cofio("add", "the very same", "--dedupe")
    assert again.id == first
    assert again.err == "cofio: this text was there already; nothing was added\n"
    assert cofio("add", "the very same", "--dedupe", "--json").json["existed"] is True


def test_similar_names_the_near_duplicates_on_stderr(cofio: Cofio) -> None:
    first = cofio("add", "The deploy runs on Fridays at noon.", "--title", "Going live").id
    near = cofio("add", "The deploy runs on Fridays at noon!", "--similar")
    assert near.id != first
    told = re.fullmatch(r"cofio: 100% the same as (\w{8,26}) Going live\n", near.err)
    assert told is not None
    assert cofio("show", told[1], "--json").json["id"] == first


class Refusing(BaseHTTPRequestHandler):
    """An embedding service that does not want us."""

    def do_POST(self) -> None:
        """Say so."""
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *values: object) -> None:
        """Keep quiet."""


def test_a_model_that_refuses_keeps_nothing_from_being_added_and_found(
    cofio: Cofio, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("COFIO_EMBEDDER", "remote")
        monkeypatch.setenv("COFIO_EMBED_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("COFIO_EMBED_MODEL", "any")
        added = cofio("add", "kept all the same")
        found = cofio("search", "kept")
        server.shutdown()
    assert "not everything is embedded yet: " in added.err
    assert "answered 401 Unauthorized" in added.err
    assert [row[2] for row in found.rows] == [added.id]
    assert "searched by words only: " in found.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--ttl", "tomorrow"], "'tomorrow' is not a number and a unit, as in 90s, 15m, 12h, 30d or 2w"),
        (["--data", "{'n': 3}"], "is not JSON"),
        (["--data", '{"n": -Infinity}'], "-Infinity is not JSON"),
        (["--data", "[" * 100_000], "is not JSON"),
        (["--data", "1e999"], "inf is not JSON"),
        (["--kind", "chunk"], "chunk is not a kind; use note, state, item"),
        (["--scope", "a\0b"], "holds a NUL character"),
        (["--scope", "a//b"], "a//b has an empty name between its slashes; did you mean a/b?"),
        (["--tag", " , "], "argument --tag: is empty"),
        (["--ttl", "0d"], "0d is no time at all"),
        (["--ttl", "999999w"], "999999w is more than 1,000 years"),
        (["--kind", "facts"], "facts is not a kind; did you mean fact?\n"),
        (["--key", "k", "--dedupe"], "do not go with --key"),
    ],
)
def test_wrong_usage_is_told_with_exit_code_2_and_makes_nothing(
    cofio: Cofio, folder: Path, argv: list[str], said: str
) -> None:
    ran = cofio("add", "text", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.endswith("--help`.\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "stdin", "said"),
    [
        (["  "], "", "cofio: text: is empty"),
        ([], b"\xff\xfe", "cofio: text: what came in is not UTF-8"),
        (["-"], "x" * (MAX_TEXT + 1), "cofio: text: longer than the limit of 1,048,576 characters; make it shorter"),
        (["\udcff"], "", "cofio: text: holds half of a surrogate pair"),
    ],
)
def test_what_the_memory_refuses_is_told_with_exit_code_1_and_adds_nothing(
    cofio: Cofio, argv: list[str], stdin: str | bytes, said: str
) -> None:
    ran = cofio("add", *argv, stdin=stdin)
    assert (ran.code, ran.out) == (1, "")
    assert said in ran.err
    assert cofio("list").rows == []
