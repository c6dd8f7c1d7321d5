"""`cofio search` finds records, says why, and says what it could not do."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from cofio import Engine, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.conversations.conversations import Conversations, Project
from cofio.extract.extractor import Message
from cofio.values.records import Json

from .conftest import Cofio


@pytest.fixture
def notes(cofio: Cofio) -> dict[str, str]:
    """The ids of three notes by their titles."""
    return {
        "live": cofio("add", "The deploy runs on Fridays.", "--title", "Going live", "--author", "pm").id,
        "tokens": cofio("add", "Refresh tokens live 30 days.", "--tag", "auth", "--data", '{"n": 30}').id,
        "prices": cofio("add", "Amounts are whole cents.", "--scope", "shop/eu", "--kind", "fact").id,
    }


def test_a_line_has_rank_score_id_scope_title_and_snippet(cofio: Cofio, notes: dict[str, str]) -> None:
    ran = cofio("search", "deploy", "fridays")
    rank, score, *rest = ran.rows[0]
    assert rank == "1"
    assert 0.1 <= float(score) <= 1
    assert rest == [notes["live"], "mcp", "Going live", "The deploy runs on Fridays."]


def test_a_search_sees_only_its_scope(cofio: Cofio, notes: dict[str, str]) -> None:
    assert [row[2] for row in cofio("search", "cents", "--scope", "shop", "--floor", "0").rows] == [notes["prices"]]
    assert cofio("search", "cents", "--scope", "shop", "--exact", "--floor", "0").rows == []
    assert cofio("search", "cents", "--scope", "sho", "--floor", "0").rows == []


def test_kinds_and_tests_narrow_a_search(cofio: Cofio, notes: dict[str, str]) -> None:
    def found(*argv: str) -> set[str]:
        return {row[2] for row in cofio("search", "deploy tokens cents", "--floor", "0", *argv).rows}

    assert found() == set(notes.values())
    assert found("--kind", "fact") == {notes["prices"]}
    assert found("--kind", "fact", "--kind", "note") == set(notes.values())
    assert found("--where", "author=pm") == {notes["live"]}
    assert found("--where", "author=pm", "--where", "data.n>=30") == set()
    assert found("--where", "author=pm", "--where", "data.n>=30", "--any") == {notes["live"], notes["tokens"]}


def test_limit_and_mode_are_kept_to(cofio: Cofio, notes: dict[str, str]) -> None:
    assert len(cofio("search", "deploy tokens cents", "--floor", "0", "--limit", "2").rows) == 2
    page = cofio("search", "deploy", "--mode", "semantic", "--floor", "0", "--json").json
    assert isinstance(page["searched"], dict)
    assert (page["searched"]["mode"], page["searched"]["keyword"], page["searched"]["semantic"]) == ("semantic", 0, 3)


def test_why_gives_each_signal_after_the_hit(cofio: Cofio, notes: dict[str, str]) -> None:
    printed = cofio("search", "deploy", "--why", "--limit", "1").out.splitlines()
    assert printed[1].startswith("\tIt holds deploy, the ")
    assert printed[1].endswith(" by words.")
    assert re.fullmatch(r"\tIts meaning is .* the query's, the .* by meaning\.", printed[2])
    assert len(printed) == 3


@pytest.mark.parametrize(
    ("query", "held"),
    [
        ("“Migrations” of our databases?", "Migrations and databases"),
        ("migrate migration", "migrate"),
        ("a C# database-naming scheme", "C#, database and naming"),
        ("東京都の database", "東京, 京都 and database"),
    ],
)
def test_why_says_the_words_as_they_were_asked_for(cofio: Cofio, memory: Engine, query: str, held: str) -> None:
    memory.write(Scope("mcp"), text="Migrating the database in C# before naming 東京都", author="ann")
    memory.settle()
    printed = cofio("search", query, "--why", "--mode", "keyword", "--floor", "0").out.splitlines()
    assert printed[1] == f"\tIt holds {held}, the only one found by words."


def test_the_numbers_behind_the_reasons_are_for_who_asks(cofio: Cofio, notes: dict[str, str]) -> None:
    printed = cofio("search", "deploy", "-v", "--limit", "1").out.splitlines()
    assert printed[1].startswith("\tIt holds deploy")
    assert re.fullmatch(r"\tkeyword: score [\d.]+, rank 1, share [\d.]+, relevance [\d.]+", printed[3])
    assert printed[4].startswith("\tsemantic: cosine ")


def test_a_hit_by_meaning_alone_says_so(cofio: Cofio, notes: dict[str, str]) -> None:
    printed = cofio("search", "zebra", "--floor", "0", "--why", "--limit", "1").out.splitlines()
    assert printed[1] == "\tIt holds none of the query's words."
    semantic = cofio("search", "deploy", "--mode", "semantic", "--why", "--limit", "1").out
    assert "words" not in semantic


def test_why_tells_what_the_surroundings_of_a_turn_added(cofio: Cofio, memory: Engine) -> None:
    for position, text in enumerate(["Which bird was it?", "A kestrel.", "So small?"]):
        memory.write(Scope("rest"), text=text, kind="turn", parent="session", position=position, author="ann")
    shown = cofio("search", "what kestrel did ann see", "--why", "-v").out
    assert "\tThe query names who said it.\n" in shown
    assert "\tThe conversation that it is part of fits.\n" in shown
    assert "\tcontext: " in shown


def test_json_is_one_object_with_everything_about_the_search(cofio: Cofio, notes: dict[str, str]) -> None:
    ran = cofio("search", "deploy", "--json")
    page: dict[str, Any] = ran.json
    assert set(page) == {"hits", "searched", "cut", "degraded"}
    hit = page["hits"][0]
    assert (hit["id"], hit["title"], hit["scope"]) == (notes["live"], "Going live", ["mcp"])
    assert hit["why"]["words"] == ["deploy"]
    assert set(hit["why"]["keyword"]) == {"score", "rank", "share", "relevance"}
    assert page["searched"]["scope"] == []
    assert page["degraded"] is None
    assert ran.err == ""


def test_nothing_found_is_no_error_and_says_where_it_looked(cofio: Cofio, notes: dict[str, str]) -> None:
    ran = cofio("search", "zebra", "--mode", "keyword", "--scope", "shop", "--kind", "fact", "--where", "author=pm")
    assert (ran.code, ran.out) == (0, "")
    where = "in shop among fact that passes the tests"
    assert ran.err == f"cofio: nothing found for 'zebra' {where} (candidates: 0 by words)\n"


def test_nothing_found_without_a_model_says_that_meaning_was_not_searched(
    cofio: Cofio, notes: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_EMBEDDER", "minilm")
    monkeypatch.setenv("COFIO_MODELS", str(folder / "models"))
    remedy = "minilm-l6-v2-int8 is not installed: run `cofio model install`"
    ran = cofio("search", "zebra")
    assert ran.err == (
        "cofio: nothing found for 'zebra' in / (candidates: 0 by words, meaning was not searched)\n"
        f"cofio: searched by words only: {remedy}\n"
    )
    told = cofio("search", "zebra", "--json").json
    assert told["degraded"] == f"searched by words only: {remedy}"
    assert told["searched"] == {
        "scope": [], "kinds": [], "mode": "hybrid", "words": ["zebra"], "keyword": 0, "semantic": None,
    }  # fmt: skip


def test_nothing_found_says_how_many_were_cut(cofio: Cofio, notes: dict[str, str]) -> None:
    ran = cofio("search", "deploy", "--floor", "1", "--mode", "semantic")
    assert ran.out == ""
    assert "3 were too far off, --floor 0 shows them" in ran.err


@pytest.mark.parametrize("query", ["*", '"', "AND OR NOT", "a:b (c", "'; DROP TABLE record; --", "🦊", "日本", "%s\\n"])
def test_any_text_is_a_query(cofio: Cofio, notes: dict[str, str], query: str) -> None:
    assert cofio("search", query).code == 0


def test_a_few_records_without_vectors_get_them_before_the_search(cofio: Cofio, memory: Engine) -> None:
    for number in range(5):
        memory.write(Scope("mcp"), text=f"note {number}")
    assert memory.stats()["waiting_for_vectors"] == 5
    assert cofio("search", "note", "--json").json["degraded"] is None
    assert memory.stats()["waiting_for_vectors"] == 0


def test_many_records_without_vectors_are_told_of_with_the_remedy(cofio: Cofio, memory: Engine) -> None:
    for number in range(70):
        memory.write(Scope("mcp"), text=f"note {number}")
    ran = cofio("search", "note")
    assert len(ran.rows) == 10
    assert ran.err == (
        "cofio: 70 records have no vector yet and are found by their words only; `cofio reindex` embeds them now\n"
    )
    cofio("reindex")
    assert cofio("search", "note").err == ""


def test_a_missing_model_is_told_with_the_remedy(
    cofio: Cofio, notes: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_EMBEDDER", "minilm")
    monkeypatch.setenv("COFIO_MODELS", str(folder / "models"))
    ran = cofio("search", "deploy")
    assert ran.rows[0][2] == notes["live"]
    assert "searched by words only" in ran.err
    assert "run `cofio model install`" in ran.err
    assert cofio("search", "deploy", "--mode", "keyword").err == ""


@pytest.mark.folder_only("it is about what is printed; what supersedes what is tested by tests/quality")
def test_a_hit_says_what_holds_now_in_its_place_and_since_when(
    cofio: Cofio, default_store: StoreAddress, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_EMBEDDER", "minilm")
    monkeypatch.setenv("COFIO_MODELS", str(models))
    project, settings = Project(app="default", name="default"), Settings(background=False, models=str(models))
    with Engine.open(default_store, settings=settings) as engine:
        for day, text in ((1, "I drink four cups of coffee a day."), (20, "I drink two cups of coffee a day now.")):
            said = Message(id=f"m{day}", sender="alice", name="Alice", at=datetime(2026, 3, day, tzinfo=UTC), text=text)
            Conversations(engine).append(project, f"s{day}", [said])
            Conversations(engine).carve(project, f"s{day}", whole=True)
        engine.settle()
    words = ("search", "how much coffee does Alice drink", "--kind", "fact")
    newer, older = cast(list[dict[str, Json]], cofio(*words, "--json").json["hits"])
    assert (newer["text"], "superseded_by" in newer) == ("Alice drinks two cups of coffee a day now.", False)
    assert (older["superseded_by"], older["superseded_at"]) == (newer["id"], "2026-03-20T00:00:00+00:00")
    rows = cofio(*words).rows
    assert [row[2] for row in rows if row[0]] == [newer["id"], older["id"]]
    assert [len(row) for row in rows] == [6, 7]
    assert rows[-1][6] == f"Superseded by {newer['id']}, which holds since 2026-03-20."


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 2, "the following arguments are required: QUERY"),
        (["x", "--mode", "fuzzy"], 2, "argument --mode: fuzzy is not known; use hybrid, keyword or semantic"),
        (["x", "--limit", "many"], 2, "'many' is not a whole number"),
        (["x", "--limit", "0"], 1, "limit: 0 is not within 1 to 1,000"),
        (["x", "--floor", "2"], 2, "'2' is not a number from 0 to 1"),
        (["x", "--floor", "nan"], 2, "'nan' is not a number from 0 to 1"),
        (["x", "--where", "author"], 2, "'author' is not a test; write FIELD=VALUE"),
        (["x" * 10_001], 1, "query: longer than the limit of 10,000 characters"),
    ],
)
def test_a_wrong_search_is_told(cofio: Cofio, notes: dict[str, str], argv: list[str], code: int, said: str) -> None:
    ran = cofio("search", *argv)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
