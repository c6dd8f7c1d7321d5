"""`Memory`, the public class: what a program writes is kept, found and told, and a wrong call says what is right."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import cofio
from cofio import AsyncMemory, Conflict, Invalid, Kind, Memory, NotFound, Query, Settings, Where

SETTINGS = Settings(embedder="hashed", background=False)
PORTO = [{"role": "user", "content": "I moved to Porto and I'm allergic to peanuts."}]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory", settings=SETTINGS) as opened:
        yield opened


def test_the_quickstart(memory: Memory) -> None:
    (note,) = memory.add("We deploy on Tuesdays, from main.", tags=["ops"])
    assert memory.add(PORTO, user="maya")
    hits = memory.search("when do we deploy?")
    assert [hit.text for hit in hits][:1] == ["We deploy on Tuesdays, from main."]
    assert (hits[0].id, hits[0].record.id) == (note.id, note.id)
    assert 0 < hits[0].score <= 1
    assert hits[0].why.words
    assert "Porto" in str(memory.profile("maya"))
    assert "peanuts" in memory.context("dinner ideas?", user="maya", max_tokens=400)
    memory.put("phase", {"n": 2}, scope="release")
    held = memory.get("phase", scope="release")
    assert held is not None
    assert held.data == {"n": 2}
    memory.delete(hits[0].id)
    assert not [hit for hit in memory.search("when do we deploy?") if hit.id == note.id]


SENTENCES = {
    "I'm vegetarian.": "vegetarian", "My name is Maya.": "Maya", "I prefer short answers.": "short answers",
    "I'm allergic to peanuts.": "peanuts", "I'm a nurse in a children's hospital.": "nurse",
    "I live in Porto.": "Porto", "I work at Lumo.": "Lumo", "My daughter is called Ines.": "Ines",
    "I have two cats.": "cats", "I'm learning Portuguese.": "Portuguese", "My birthday is on 4 May.": "May",
    "I use Neovim on Linux.": "Neovim", "Please answer in bullet points.": "bullet points",
    "I don't drink coffee any more.": "coffee", "My partner's name is Tom.": "Tom",
}  # fmt: skip


def test_ordinary_sentences_are_remembered_of_their_user(memory: Memory) -> None:
    for sentence in SENTENCES:
        memory.add(sentence, user="maya")
    told = memory.context(user="maya", max_tokens=2000)
    missing = [sentence for sentence, word in SENTENCES.items() if word not in told]
    assert len(missing) <= 2, missing


def test_a_statement_is_one_hit_and_the_rest_is_reachable_from_it(memory: Memory) -> None:
    memory.add(PORTO, user="maya")
    everywhere, of_maya = memory.search("Porto"), memory.search("where does she live: Porto?", user="maya")
    assert len(everywhere) == 1
    assert {hit.record.kind for hit in everywhere[0].others} >= {Kind.EPISODE}
    assert len(of_maya) == 1
    assert "Porto" in of_maya[0].text
    assert not memory.search("Porto", user="tom")
    memory.delete(everywhere[0].id)
    assert "Porto" not in str(memory.profile("maya"))


def test_a_search_takes_conditions(memory: Memory) -> None:
    memory.add("The red boat leaves at nine.", scope="harbour/red", tags=["boat"], metadata={"line": 1})
    memory.add("The blue boat leaves at ten.", scope=["harbour", "blue"], metadata={"line": 2})

    def find(**chosen: Any) -> list[str]:
        return [hit.text.split()[1] for hit in memory.search("when does the boat leave?", **chosen)]

    assert sorted(find(scope="harbour")) == ["blue", "red"]
    assert find(scope="harbour/red") == find(tags=["boat"]) == find(where={"line": 1}) == ["red"]
    assert find(where=Where(("data", "line"), ">", 1)) == ["blue"]
    assert find(since=datetime.now(UTC) + timedelta(hours=1)) == []
    assert len(find(limit=1)) == 1
    assert len(memory.search(Query("boat", limit=1))) == 1
    assert [each.text for each in memory.list(scope="harbour", tags=["boat"])] == ["The red boat leaves at nine."]


def test_messages_come_in_the_shapes_of_both_apis(memory: Memory) -> None:
    kept = memory.add(
        [
            {"role": "system", "content": "You are a pirate who lives in Tortuga."},
            {"role": "user", "content": [{"type": "text", "text": "I live in Lisbon."}]},
            {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "weather", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "Sunny in Lisbon."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "2", "name": "map", "input": {"at": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "2", "content": "A map."}]},
            {"role": "assistant", "content": "It is sunny."},
        ],
        user="ana", session="monday",
    )  # fmt: skip
    assert {each.kind for each in kept} >= {Kind.EPISODE, Kind.FACT}
    assert "Lisbon" in str(memory.profile("ana"))
    assert "Tortuga" not in memory.context("Tortuga", user="ana")
    assert memory.add({"role": "user", "content": "I like chess."}, user="ana", session="monday")
    assert "chess" in str(memory.profile("ana"))


def test_values_by_key_change_only_if_they_are_what_one_thinks(memory: Memory) -> None:
    first = memory.put("phase", 1)
    assert memory.put("phase", 2, if_version=first.version).version == first.version + 1
    with pytest.raises(Conflict):
        memory.put("phase", 3, if_version=first.version)
    assert memory.get("phase", scope="elsewhere") is None
    (note,) = memory.add("Tea at five.")
    assert memory.update(note.id, text="Tea at six.", tags=["tea"]).tags == ("tea",)
    assert memory.search("tea")[0].text == "Tea at six."
    memory.delete(note.id)
    with pytest.raises(NotFound):
        memory.delete(note.id)


def test_a_wrong_call_says_what_the_right_one_is(memory: Memory) -> None:
    for call, said in {
        "memory.add(PORTO)": "memory.add(messages, user='maya')",
        "memory.add(PORTO, user='maya', ttl=5)": "for notes",
        "memory.add([{'role': 'boss', 'content': 'x'}], user='maya')": "not one of user, assistant",
        "memory.add(7, user='maya')": 'such as {"role": "user", "content": "..."}',
        "memory.add('x', user='maya', scope='a/b/c')": "'shop/web'",
        "memory.search('x', tags='ops')": "tags=['ops']",
        "memory.search('x', scope=7)": "'team/alice'",
        "memory.update('x')": "give text, tags or metadata",
    }.items():
        with pytest.raises(Invalid) as caught:
            eval(call, {"memory": memory, "PORTO": PORTO})
        assert said in str(caught.value), call


def test_the_same_from_asyncio(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncMemory(tmp_path / "memory", settings=SETTINGS) as memory:
            await memory.add(PORTO, user="maya")
            assert "Porto" in str(await memory.profile("maya"))
            hits = await asyncio.gather(*(memory.search("Porto", user="maya") for _ in range(5)))
            assert all(len(each) == 1 for each in hits)

    asyncio.run(run())
    verbs = {name for name in vars(Memory) if not name.startswith("_")} - {"checkpoints", "admin"}
    assert verbs == {name for name in vars(AsyncMemory) if not name.startswith("_")}


def test_the_rest_is_under_other_names(memory: Memory, tmp_path: Path) -> None:
    memory.add("Tea at five.")
    assert memory.admin.stats().records == 1
    assert memory.admin.backup(tmp_path / "copy").exists()
    assert memory.checkpoints is memory.engine.checkpoints
    assert {"Memory", "AsyncMemory", "Kind"} <= set(dir(cofio)) == set(cofio.__all__)
