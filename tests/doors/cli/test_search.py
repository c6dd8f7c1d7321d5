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


def test_scope_kinds_tests_and_limit_narrow_a_search(cofio: Cofio, notes: dict[str, str]) -> None:
    def found(*argv: str) -> set[str]:
        return {row[2] for row in cofio("search", "deploy tokens cents", "--floor", "0", *argv).rows}

    assert found() == set(notes.values())
    assert found("--scope", "shop") == {notes["prices"]}
    assert found("--scope", "shop", "--exact") == found("--scope", "sho") == set()
    assert found("--kind", "fact") == {notes["prices"]}
    assert found("--kind", "fact", "--kind", "note") == set(notes.values())
    assert found("--where", "author=pm") == {notes["live"]}
    assert found("--where", "author=pm", "--where", "data.n>=30") == set()
    assert found("--where", "author=pm", "--where", "data.n>=30", "--any") == {notes["live"], notes["tokens"]}
    assert len(found("--limit", "2")) == 2


def test_why_gives_each_signal_after_the_hit(cofio: Cofio, notes: dict[str, str]) -> None:
    printed = cofio("search", "deploy", "--why", "--limit", "1").out.splitlines()
    assert printed[1].startswith("\tIt holds deploy, the ")
    assert printed[1].endswith(" by words.")
    assert re.fullmatch(r"\tIts meaning is .* the query's, the .* by meaning\.", printed[2])
    assert len(printed) == 3
    numbers = cofio("search", "deploy", "-v", "--limit", "1").out.splitlines()
    assert numbers[1].startswith("\tIt holds deploy")
    assert re.fullmatch(r"\tkeyword: score [\d.]+, rank 1, share [\d.]+, relevance [\d.]+", numbers[3])
    assert numbers[4].startswith("\tsemantic: cosine ")
    by_meaning = cofio("search", "zebra", "--floor", "0", "--why", "--limit", "1").out.splitlines()
    assert by_meaning[1] == "\tIt holds none of the query's words."
    assert "words" not in cofio("search", "deploy", "--mode", "semantic", "--why", "--limit", "1").out


@pytest.mark.parametrize(
    ("query", "held"),
    [
        ("“Migrations” of our databases?", "Migrations and databases"),
        ("migrate migration", "migrate"),
        ("東京都の C# database", "東京, 京都, C# and database"),
    ],
)
def test_why_says_the_words_as_they_were_asked_for(cofio: Cofio, memory: Engine, query: str, held: str) -> None:
    memory.write(Scope("mcp"), text="Migrating the database in C# before naming 東京都", author="ann")
    printed = cofio("search", query, "--why", "--mode", "keyword", "--floor", "0").out.splitlines()
    assert printed[1] == f"\tIt holds {held}, the only one found by words."


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
    cut = cofio("search", "deploy", "--floor", "1", "--mode", "semantic")
    assert (cut.out, "3 were too far off, --floor 0 shows them" in cut.err) == ("", True)


def test_a_missing_model_is_told_with_the_remedy(
    cofio: Cofio, notes: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFIO_EMBEDDER", "minilm")
    monkeypatch.setenv("COFIO_MODELS", str(folder / "models"))
    degraded = "searched by words only: minilm-l6-v2-int8 is not installed: run `cofio model install`"
    ran = cofio("search", "deploy")
    assert (ran.rows[0][2], ran.err) == (notes["live"], f"cofio: {degraded}\n")
    assert cofio("search", "deploy", "--mode", "keyword").err == ""
    assert cofio("search", "zebra").err == (
        f"cofio: nothing found for 'zebra' in / (candidates: 0 by words, meaning was not searched)\ncofio: {degraded}\n"
    )
    told = cofio("search", "zebra", "--json").json
    assert told["degraded"] == degraded
    assert told["searched"] == {
        "scope": [], "kinds": [], "mode": "hybrid", "words": ["zebra"], "keyword": 0, "semantic": None,
    }  # fmt: skip


def test_a_few_records_without_vectors_get_them_first_and_many_are_told_of(cofio: Cofio, memory: Engine) -> None:
    for number in range(5):
        memory.write(Scope("mcp"), text=f"note {number}")
    assert memory.stats()["waiting_for_vectors"] == 5
    assert cofio("search", "note", "--json").json["degraded"] is None
    assert memory.stats()["waiting_for_vectors"] == 0
    for number in range(70):
        memory.write(Scope("mcp"), text=f"note {number}")
    ran = cofio("search", "note")
    assert len(ran.rows) == 10
    assert ran.err == (
        "cofio: 70 records have no vector yet and are found by their words only; `cofio reindex` embeds them now\n"
    )
    cofio("reindex")
    assert cofio("search", "note").err == ""


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
        (["x", "--limit", "0"], 1, "limit: 0 is not within 1 to 1,000"),
        (["x", "--floor", "nan"], 2, "'nan' is not a number from 0 to 1"),
        (["x" * 10_001], 1, "query: longer than the limit of 10,000 characters"),
    ],
)
def test_a_wrong_search_is_told(cofio: Cofio, notes: dict[str, str], argv: list[str], code: int, said: str) -> None:
    ran = cofio("search", *argv)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
