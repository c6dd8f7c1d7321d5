"""LangGraph's store behaviours: operations, namespaces, filters, vectors, expiry, and a graph that uses it."""

from __future__ import annotations

import asyncio
import math
from asyncio import run
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from cofio import Engine, Invalid, Kind, LimitExceeded, Scope, Settings
from cofio.config.address import StoreAddress
from cofio.library.cofio_store import CofioStore
from cofio.library.langgraph import CofioLangGraphStore
from cofio.library.langgraph import store as store_module

QUIET = Settings(background=False, embedder="none", sync="normal")
WORDS = ("cat", "dog", "car", "boat")


def embed(texts: Sequence[str]) -> list[list[float]]:
    """How often each text has each of four words."""
    return [[float(text.lower().count(word)) for word in WORDS] for text in texts]


async def aembed(texts: Sequence[str]) -> list[list[float]]:
    """The same, awaited."""
    await asyncio.sleep(0)
    return embed(texts)


class Counting(Embeddings):
    """LangChain's interface, which notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of texts."""
        self.asked += texts
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        self.asked.append("?" + text)
        return embed([text])[0]


def keys(found: Sequence[Item]) -> list[str]:
    """The keys of items, in order."""
    return [item.key for item in found]


@pytest.fixture
def store(memory: Engine) -> CofioLangGraphStore:
    """An empty store that embeds nothing itself."""
    return CofioLangGraphStore(memory)


@pytest.mark.requirement("langgraph-store.put-get")
def test_an_item_is_put_read_replaced_and_deleted(store: CofioLangGraphStore, advance: Callable[[float], None]) -> None:
    assert isinstance(store, BaseStore)
    store.put(("users", "1"), "prefs", {"theme": "dark"})
    first = store.get(("users", "1"), "prefs")
    assert first is not None
    assert (first.namespace, first.key, first.value) == (("users", "1"), "prefs", {"theme": "dark"})
    advance(5)
    store.put(("users", "1"), "prefs", {"theme": "light"})
    second = store.get(("users", "1"), "prefs")
    assert second is not None
    assert second.value == {"theme": "light"}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    assert second.created_at.tzinfo is not None
    store.delete(("users", "1"), "prefs")
    store.delete(("users", "1"), "prefs")
    assert store.get(("users", "1"), "prefs") is None
    assert store.search(()) == []


@pytest.mark.requirement("langgraph-store.batch")
@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_batch_reads_before_it_writes_and_the_last_put_of_a_key_counts(store: CofioLangGraphStore, way: str) -> None:
    store.put(("a",), "old", {"n": 1})
    ops: list[Any] = [
        PutOp(("a",), "new", {"n": 1}), GetOp(("a",), "new"), GetOp(("a",), "old"), PutOp(("a",), "new", {"n": 2}),
        PutOp(("a",), "old", None), SearchOp(("a",)), ListNamespacesOp(), PutOp(("b",), "gone", {"n": 1}),
        PutOp(("b",), "gone", None), PutOp(("c",), "back", None), PutOp(("c",), "back", {"n": 3}),
    ]  # fmt: skip
    results: list[Any] = store.batch(ops) if way == "sync" else run(store.abatch(ops))
    assert results[1] is None
    assert results[2].value == {"n": 1}
    assert keys(results[5]) == ["old"]
    assert results[6] == [("a",)]
    assert [results[number] for number in (0, 3, 4, 7, 8, 9, 10)] == [None] * 7
    assert {(item.namespace, item.key, item.value["n"]) for item in store.search(())} == {
        (("a",), "new", 2), (("c",), "back", 3),
    }  # fmt: skip


@pytest.mark.requirement("langgraph-store.batch")
def test_the_puts_of_a_batch_are_made_together_or_not_at_all(store: CofioLangGraphStore) -> None:
    with pytest.raises(Invalid):
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a",), "l", {"n": {1, 2}})])
    with pytest.raises(LimitExceeded):
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a",), "l", {"n": "x" * 1_100_000})])
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a", ""), "l", {"n": 1})])
    assert store.search(()) == []


@pytest.mark.requirement("langgraph-store.injection")
def test_no_character_in_a_name_means_anything(memory: Engine) -> None:
    store = CofioLangGraphStore(memory, index={"dims": 4, "embed": embed})
    store.put(("plain",), "other", {"text": "cat", "field": 1})
    for nasty in (
        "'; DROP TABLE record; --", '"', "%", "_", "\\", "a/b", "*", "[a]", "東京", "🚀", " ", "\n", "$", "a'b\"c",
        "{}", "?", "\x01", "x" * 200,
    ):  # fmt: skip
        store.put((nasty, "x"), nasty, {"text": "cat", nasty: nasty, "nested": {nasty: 1}})
        item = store.get((nasty, "x"), nasty)
        assert item is not None
        assert item.value[nasty] == nasty
        assert keys(store.search((nasty,))) == [nasty]
        assert keys(store.search((nasty,), query="cat")) == [nasty]
        assert keys(store.search((), filter={nasty: nasty})) == [nasty]
        assert keys(store.search((), filter={nasty: {"$gte": nasty}})) == [nasty]
        if nasty != "$":  # in there it would be an operator
            assert keys(store.search((), filter={"nested": {nasty: 1}})) == [nasty]
        assert keys(store.search((), filter={nasty: {"$ne": nasty}})) == ["other"]
        listed = store.list_namespaces(prefix=(nasty,))
        assert listed == ([(nasty, "x")] if nasty != "*" else [(nasty, "x"), ("plain",)])
        store.delete((nasty, "x"), nasty)
        assert keys(store.search(())) == ["other"]


@pytest.mark.requirement("langgraph-store.bad-namespaces")
def test_what_langgraph_refuses_as_a_namespace_is_refused(store: CofioLangGraphStore) -> None:
    namespace: Any
    for namespace in ((), ("",), ("a", ""), ("a.b",), ("a\0b",), ("a", 1), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {"a": 1})
        with pytest.raises(InvalidNamespaceError):
            run(store.aput(namespace, "k", {"a": 1}))
        if not namespace or namespace[0] == "langgraph":
            continue
        condition = MatchCondition("prefix", namespace)
        for op in (
            PutOp(namespace, "k", {"a": 1}), GetOp(namespace, "k"), SearchOp(namespace), ListNamespacesOp((condition,))
        ):  # fmt: skip
            with pytest.raises(InvalidNamespaceError):
                store.batch([op])
    assert store.search(()) == []


@pytest.mark.requirement("langgraph-store.bad-input")
def test_bad_operations_and_options_are_refused_and_change_nothing(store: CofioLangGraphStore) -> None:
    def put(value: Any = None, **more: Any) -> Callable[[], object]:
        return lambda: store.put(("a",), more.pop("key", "k"), {"a": 1} if value is None else value, **more)

    def make(**options: Any) -> Callable[[], object]:
        return lambda: CofioLangGraphStore(store.engine, **options)

    bad: Any
    unknown: Any = [PutOp(("a",), "k", {"a": 1}), "get"]
    infix: Any = ListNamespacesOp((MatchCondition("infix", ("a",)),))  # type: ignore[arg-type]
    refused: list[tuple[type[Exception] | tuple[type[Exception], ...], str, Callable[[], object]]] = [
        (ValueError, "Unknown operation", lambda: store.batch(unknown)),
        (LimitExceeded, "value: longer than the limit of 1,048,576 characters", put({"a": "x" * 2**20})),
        (LimitExceeded, "key", put(key="k" * 1025)),
        (ValueError, "max_depth", lambda: store.list_namespaces(max_depth=-1)),
        (ValueError, "match type", lambda: store.batch([infix])),
        (ValueError, "embed", make(index={"dims": 4})),
        (TypeError, "index: expected a dict", make(index=5)), (TypeError, "ttl: expected a dict", make(ttl=5)),
        *((TypeError, "value", put(bad)) for bad in (1, "text", [1])),
        *((TypeError, "index", put(index=bad)) for bad in (True, "text", [1], {"a": 1})),
        *((TypeError, "ttl", put(ttl=bad)) for bad in ("5", True)),
        *((Invalid, "ttl: expected minutes", put(ttl=bad)) for bad in (0, -1, math.nan, math.inf)),
        *((Invalid, "ttl: expected minutes", make(ttl={"default_ttl": bad})) for bad in (0, -1, math.nan, math.inf)),
        *((Invalid, "^value", put(bad)) for bad in ({"a": {1}}, {1: 2}, {"a": math.nan}, {"a": "\ud800"})),
        *((TypeError, "index: expected a list of paths for fields",
           make(index={"embed": embed, "dims": 4, "fields": bad})) for bad in ("text", ["text", 5], {"text": 1})),
    ]  # fmt: skip
    store.put(("a",) * 15, "k", {"a": 1})
    for error, match, call in refused:
        with pytest.raises(error, match=match):
            call()
    for bad in (-1, "1", 1.5, True):
        with pytest.raises((TypeError, ValueError), match="limit"):
            store.search((), limit=bad)
        with pytest.raises((TypeError, ValueError), match="offset"):
            store.list_namespaces(offset=bad)
    for bad, match in (
        (("a",) * 16, "longer than the limit of 15 names"), (("a\ud800",), "holds half"),
        (("a" * 257,), "longer than the limit of 256 characters"),
    ):  # fmt: skip
        for op in (PutOp(bad, "k", {"a": 1}), GetOp(bad, "k"), PutOp(bad, "k", None), SearchOp(bad)):
            with pytest.raises(Invalid, match=f"namespace: {match}"):
                store.batch([op])
    store.delete(("a",) * 15, "k")
    assert store.search(()) == []
    with pytest.raises(TypeError, match="engine"):
        CofioLangGraphStore("folder")  # type: ignore[arg-type]


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcd"), ({"kind": "x"}, "ab"), ({"kind": "x", "n": 2}, "b"), ({"n": {"$eq": 3}}, "c"),
    ({"n": {"$ne": 1}}, "bcd"), ({"n": {"$gt": 1}}, "bc"), ({"n": {"$gte": 2}}, "bc"), ({"n": {"$lt": 2}}, "a"),
    ({"n": {"$lte": 2}}, "ab"), ({"n": {"$gt": 1, "$lt": 3}}, "b"), ({"n": {"$gt": 1.5}}, "bc"),
    ({"kind": {"$gt": "x"}}, "c"), ({"on": True}, "a"), ({"on": 1}, ""), ({"on": False}, "b"), ({"n": "1"}, ""),
    ({"deep": {"er": {"est": 1}}}, "c"), ({"deep": {"er": {"est": {"$gt": 0}}}}, "c"), ({"deep": {}}, "c"),
    ({"deep": {"er": {"no": {"$ne": 1}}}}, "c"), ({"tags": ["p", "q"]}, "a"), ({"tags": ["p"]}, ""),
    ({"tags": []}, "b"), ({"tags": {"$ne": ["p", "q"]}}, "bcd"), ({"n": None}, "d"), ({"n": {"$ne": None}}, "abc"),
    ({"nothing": None}, "abcd"), ({"nothing": "x"}, ""), ({"a.b": 5}, "d"), ({"kind": ["x"]}, ""),
    ({"deep": {"$eq": {"er": {"est": 1}}}}, "c"), ({"tags": {"$gt": 1}}, ""),
]  # fmt: skip


@pytest.mark.requirement("langgraph-store.filters")
@pytest.mark.parametrize("query", [None, "common"])
def test_filters_hold_with_and_without_a_question(store: CofioLangGraphStore, query: str | None) -> None:
    store.put(("x",), "a", {"kind": "x", "n": 1, "on": True, "tags": ["p", "q"], "t": "common"})
    store.put(("x",), "b", {"kind": "x", "n": 2, "on": False, "tags": [], "t": "common"})
    store.put(("x", "y"), "c", {"kind": "y", "n": 3, "deep": {"er": {"est": 1}}, "t": "common"})
    store.put(("x",), "d", {"a.b": 5, "n": None, "t": "common"})
    for wanted, found in FILTERS:
        assert "".join(sorted(keys(store.search(("x",), filter=wanted, query=query)))) == found, wanted
        paged = [keys(store.search(("x",), filter=wanted, query=query, limit=1, offset=at)) for at in range(5)]
        assert "".join(sorted(key for page in paged for key in page)) == found, wanted


@pytest.mark.requirement("langgraph-store.filters")
def test_filters_that_make_no_sense_are_refused(store: CofioLangGraphStore) -> None:
    wanted: Any
    for wanted in (
        {"n": {"$near": 1}}, {"n": [{"$near": 1}]}, {"n": {"$gt": None}}, {"n": {"$gt": [1]}}, {"n": {"$lt": True}},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"Unsupported operator: \$near|takes a number or a string"):
            store.search((), filter=wanted)
    for wanted in ({"n": object()}, {"n": math.nan}, {"n": {"x": {1}}}, {"n": [object()]}, {"n": "a\0"}, {1: 2}):
        with pytest.raises(Invalid):
            store.search((), filter=wanted)
    knot: dict[str, Any] = {}
    knot["x"] = knot
    for wanted in (knot, {str(number): 1 for number in range(201)}):
        with pytest.raises(LimitExceeded):
            store.search((), filter=wanted)
    with pytest.raises(TypeError):
        store.search((), filter=[1])  # type: ignore[arg-type]


@pytest.mark.requirement("langgraph-store.pages")
def test_limit_and_offset_page_through_what_changed_last_first(store: CofioLangGraphStore) -> None:
    for number in range(25):
        store.put(("docs",), str(number), {"n": number, "even": number % 2 == 0})
    store.put(("docs",), "3", {"n": 3, "even": False})
    newest = ["3", *(str(number) for number in range(24, -1, -1) if number != 3)]
    assert keys(store.search(("docs",))) == newest[:10]
    assert keys(store.search(("docs",), limit=100)) == newest
    assert keys(store.search(("docs",), limit=7, offset=20)) == newest[20:]
    assert store.search(("docs",), offset=25) == []
    assert store.search(("docs",), limit=0) == []
    even = [key for key in newest if int(key) % 2 == 0]
    assert keys(store.search(("docs",), filter={"even": True}, limit=4, offset=2)) == even[2:6]
    assert keys(store.search(("docs",), filter={"even": True, "no": None}, limit=4, offset=2)) == even[2:6]


@pytest.mark.requirement("langgraph-store.own-search")
def test_a_question_is_answered_without_any_configuration(store: CofioLangGraphStore, tmp_path: Path) -> None:
    for user, key, text in (
        ("u1", "a", "The user likes hiking in the mountains"), ("u1", "b", "Allergic to peanuts"),
        ("u2", "c", "Mountains bore me"),
    ):  # fmt: skip
        store.put(("memories", user), key, {"text": text})
    found = store.search(("memories", "u1"), query="mountain hikes")  # what was only just put is found by its meaning
    assert keys(found)[0] == "a"
    assert isinstance(found[0], SearchItem)
    assert found[0].score is not None
    assert store.engine.stats()["waiting_for_vectors"] == 0
    assert keys(store.search(("memories",), query="mountain", limit=1, offset=1)) != keys(
        store.search(("memories",), query="mountain", limit=1)
    )
    assert store.search(("memories",), query="mountain", offset=2_000, limit=5) == []
    assert len(store.search(("memories",), query="mountain", limit=5_000)) == 2
    for dirty in ("mountain " * 4_000, "mountain\0", "\ud800 mountain \udc00", "  mountain  "):
        assert keys(store.search(("memories", "u1"), query=dirty)) == ["a"]
    assert store.search((), query="\0") == []
    assert len(store.search((), query="  \n ")) == 3
    with pytest.raises(TypeError, match="query: expected a string"):
        store.search((), query=5)  # type: ignore[arg-type]
    with CofioLangGraphStore.open(tmp_path / "no-embedder", settings=QUIET) as plain:
        plain.put(("a",), "k", {"text": "mountains"})
        assert keys(plain.search((), query="mountains")) == ["k"]


@pytest.mark.requirement("langgraph-store.pages")
def test_a_question_has_as_many_answers_as_there_are(
    store: CofioLangGraphStore, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_LIMIT", 20)
    monkeypatch.setattr(store_module, "_AT_ONCE", 10)
    rare, every = {"k00", "k01", "k02", "k05"}, {f"k{i:02}" for i in range(60)}
    store.batch([PutOp(("u",), key, {"text": f"boats {key}", "rare": [key in rare]}) for key in sorted(every)])
    memory.write(Scope("store", "u"), text="boats without a key", kind=Kind.ITEM)
    memory.settle()
    found = keys(store.search(("u",), query="boats", limit=120))
    assert len(found) == 60
    assert set(found) == every
    pages = [keys(store.search(("u",), query="boats", limit=15, offset=at)) for at in range(0, 60, 15)]
    assert [key for page in pages[1:] for key in page] == found[15:]
    assert len(pages[0]) == 15
    assert store.search(("u",), query="boats", limit=5, offset=60) == []
    assert len(store.search(("u",), query="boats", limit=7)) == 7
    assert set(keys(store.search(("u",), query="boats", filter={"rare": [True]}))) == rare
    assert len(store.search(("u",), query="boats", filter={"rare": [True]}, limit=2, offset=3)) == 1
    assert len(store.search(("u",), query="boats", filter={"none": None}, limit=120)) == 60
    assert store.search(("u",), query="boats", filter={"rare": ["none"]}) == []


@pytest.mark.requirement("langgraph-store.index")
@pytest.mark.parametrize("how", [embed, aembed, Counting()])
def test_a_question_is_answered_by_the_vectors_of_an_index(memory: Engine, how: Any) -> None:
    store = CofioLangGraphStore(memory, index={"dims": 4, "embed": how})

    async def work() -> list[SearchItem]:
        await store.aput(("d",), "cats", {"text": "cat cat dog"})
        await store.aput(("d",), "dogs", {"text": "dog dog"})
        await store.aput(("d", "deep"), "cars", {"text": "car"})
        await store.aput(("d",), "hidden", {"text": "cat"}, index=False)
        await store.aput(("d",), "nothing", {"text": "unknown words"})
        return await store.asearch(("d",), query="cat")

    found = run(work())
    assert keys(found) == ["cats", "cars", "dogs"] or keys(found) == ["cats", "dogs", "cars"]
    assert [item.score for item in found] == pytest.approx([2 / math.sqrt(5), 0, 0])
    assert len(run(store.asearch(("d",)))) == 5
    assert keys(run(store.asearch(("d",), query="cat dog", limit=1, offset=1))) == ["dogs"]
    assert keys(run(store.asearch(("d",), query="dog", filter={"text": {"$ne": "dog dog"}}, limit=1))) == ["cats"]
    assert keys(run(store.asearch(("d",), query="dog", filter={"text": "car", "no": None}))) == ["cars"]
    assert run(store.asearch(("d",), query="unknown")) == []
    assert run(store.asearch(("d",), query="cat", limit=0)) == []
    if how is not aembed:
        assert keys(store.search(("d",), query="cat"))[0] == "cats"
    else:
        with pytest.raises(ValueError, match="async"):
            store.search(("d",), query="cat")


@pytest.mark.requirement("langgraph-store.index-fields")
def test_fields_have_vectors_of_their_own_and_the_best_counts(memory: Engine) -> None:
    fields = ["title", "chapters[*].text", "meta.author"]
    store = CofioLangGraphStore(
        memory, index={"dims": 4, "embed": embed, "fields": fields}
    )  # fmt: skip
    book = {"title": "cat", "chapters": [{"text": "dog"}, {"text": "car boat"}], "meta": {"author": "dog"}, "x": "boat"}
    store.put(("d",), "book", book)
    store.put(("d",), "other", {"title": "cat dog"})
    store.put(("d",), "chosen", {"title": "cat", "x": "boat"}, index=["x"])
    found = store.search(("d",), query="dog", limit=2)
    assert keys(found) == ["book", "other"]
    assert [item.score for item in found] == pytest.approx([1, math.sqrt(0.5)])
    assert keys(store.search(("d",), query="boat"))[:2] == ["chosen", "book"]
    record = memory.get(Scope("store", "d"), "book")
    assert record is not None
    assert set(memory.given(record.id)) == {"title", "chapters[*].text.0", "chapters[*].text.1", "meta.author"}
    store.put(("d",), "book", book, index=False)
    assert memory.given(record.id) == {}


@pytest.mark.requirement("langgraph-store.index-calls")
@pytest.mark.parametrize("way", ["sync", "async"])
def test_each_text_is_embedded_once(memory: Engine, way: str) -> None:
    counting = Counting()
    store = CofioLangGraphStore(memory, index={"dims": 4, "embed": counting, "fields": ["t"]})
    ops: list[Any] = [
        PutOp(("a",), "k", {"t": "cat"}), PutOp(("a",), "l", {"t": "cat"}), PutOp(("a",), "m", {"t": "replaced"}),
        PutOp(("a",), "m", {"t": "dog"}), PutOp(("a",), "n", {"other": 1}), PutOp(("a",), "o", None),
        SearchOp((), query="cat"), SearchOp((), query="cat", limit=3), SearchOp(()),
    ]  # fmt: skip
    _ = store.batch(ops) if way == "sync" else run(store.abatch(ops))
    assert counting.asked == ["?cat", "cat", "dog"]
    assert set(keys(store.search((), query="cat"))) == {"k", "l", "m"}


@pytest.mark.requirement("langgraph-store.index-wrong")
def test_embeddings_that_do_not_fit_are_refused_and_change_nothing(memory: Engine) -> None:
    store = CofioLangGraphStore(memory, index={"dims": 3, "embed": embed})
    with pytest.raises(ValueError, match="4 numbers where dims says 3"):
        store.put(("a",), "k", {"t": "cat"})
    with pytest.raises(ValueError, match="4 numbers where dims says 3"):
        store.search((), query="cat")
    few = CofioLangGraphStore(memory, index={"dims": 4, "embed": lambda texts: []})
    with pytest.raises(ValueError, match="0 vectors for 1 texts"):
        few.put(("a",), "k", {"t": "cat"})

    def fails(texts: Sequence[str]) -> list[list[float]]:
        raise ConnectionError("no network")

    broken = CofioLangGraphStore(memory, index={"dims": 4, "embed": fails})
    with pytest.raises(ConnectionError):
        broken.put(("a",), "k", {"t": "cat"})
    assert memory.count() == 0


@pytest.mark.requirement("langgraph-store.list-namespaces")
def test_namespaces_are_listed_by_wildcard_depth_and_page(store: CofioLangGraphStore) -> None:
    known = [("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("ab",), ("b", "a", "f")]
    for namespace in known:
        store.put(namespace, "k", {"n": 1})
    assert store.list_namespaces() == known
    assert store.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "d"), ("a", "b", "f")]
    assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "b", "f"), ("a", "c", "f")]
    assert store.list_namespaces(suffix=("*", "f")) == [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]
    assert store.list_namespaces(max_depth=1, limit=2, offset=1) == [("ab",), ("b",)]
    assert store.list_namespaces(limit=0) == store.list_namespaces(offset=100) == []
    store.delete(("ab",), "k")
    assert ("ab",) not in store.list_namespaces()


@pytest.mark.requirement("langgraph-store.ttl")
def test_an_item_lasts_from_its_last_read(memory: Engine, advance: Callable[[float], None]) -> None:
    store = CofioLangGraphStore(memory)
    assert store.supports_ttl
    store.put(("a",), "read", {"t": "word"}, ttl=1)
    store.put(("a",), "searched", {"t": "needle"}, ttl=1)
    store.put(("a",), "left", {"t": "other"}, ttl=1)
    store.put(("a",), "looked at", {"t": "another"}, ttl=1)
    store.put(("a",), "for good", {"t": "eternal"})
    version = memory.get(Scope("store", "a"), "read").version  # type: ignore[union-attr]
    for _ in range(3):
        advance(40)
        item = store.get(("a",), "read")
        assert item is not None
        assert item.updated_at == item.created_at
        store.search(("a",), query="needle")
        store.get(("a",), "looked at", refresh_ttl=False)
        store.search(("a",), filter={"t": "another"}, refresh_ttl=False)
    assert set(keys(store.search((), refresh_ttl=False))) == {"read", "searched", "for good"}
    assert memory.get(Scope("store", "a"), "read").version == version  # type: ignore[union-attr]
    assert store.get(("a",), "left") is None
    assert store.sweep_ttl() == 2
    assert store.sweep_ttl() == 0
    advance(61)
    assert keys(store.search(())) == ["for good"]
    assert store.list_namespaces() == [("a",)]
    store.put(("a",), "short", {"n": 1}, ttl=1.5 / 60)
    store.put(("a",), "long", {"n": 2}, ttl=100)
    for _ in range(6):
        advance(0.4)
        assert store.get(("a",), "short") is not None
    advance(30)  # less than a hundredth of its time: nothing is written
    kept = memory.get(Scope("store", "a"), "long")
    store.get(("a",), "long")
    assert kept is not None
    assert memory.get(Scope("store", "a"), "long") == kept


@pytest.mark.requirement("langgraph-store.ttl-config")
def test_the_configuration_says_how_long_items_last(memory: Engine, advance: Callable[[float], None]) -> None:
    store = CofioLangGraphStore(memory, ttl={"default_ttl": 1, "refresh_on_read": False})
    store.put(("a",), "default", {"n": 1})
    store.put(("a",), "for good", {"n": 2}, ttl=None)
    store.put(("a",), "long", {"n": 3}, ttl=10)
    store.put(("a",), "refreshed", {"n": 4})
    advance(40)
    store.get(("a",), "default")
    store.get(("a",), "refreshed", refresh_ttl=True)
    advance(40)
    assert set(keys(store.search(("a",)))) == {"for good", "long", "refreshed"}
    store.put(("a",), "long", {"n": 3}, ttl=None)
    advance(6000)
    assert set(keys(store.search(("a",)))) == {"for good", "long"}


@pytest.mark.requirement("langgraph-store.open", "langgraph-store.sweeper")
def test_a_store_closes_what_it_opened_and_leaves_no_memory_behind(tmp_path: Path) -> None:
    with CofioLangGraphStore.open(tmp_path / "memory", settings=QUIET) as store:
        store.put(("a",), "k", {"n": 1})
        store.setup()
        assert store.start_ttl_sweeper(1).result(0) is None
        assert store.stop_ttl_sweeper(timeout=1)
    assert store.engine.closed

    async def work() -> Item | None:
        async with CofioLangGraphStore.open(tmp_path / "memory", settings=QUIET) as again:
            return await again.aget(("a",), "k")

    item = run(work())
    assert item is not None
    assert item.value == {"n": 1}
    with pytest.raises(ValueError, match="embed"):
        CofioLangGraphStore.open(tmp_path / "memory", index={"dims": 1}, settings=QUIET)
    with Engine.open(tmp_path / "memory", settings=QUIET) as engine:
        with CofioLangGraphStore(engine) as lent:
            assert lent.get(("a",), "k") is not None
        assert not engine.closed
    with CofioLangGraphStore.from_conn_string(":memory:") as store:
        store.put(("a",), "k", {"n": 1})
        assert store._folder is not None
        folder = Path(store._folder.name)
        assert folder.is_dir()
    assert not folder.exists()
    with CofioLangGraphStore.from_conn_string(str(tmp_path / "other")) as store:
        assert store.search(()) == []


@pytest.mark.requirement("langgraph-store.doors")
def test_both_stores_and_every_search_see_the_same_items(store: CofioLangGraphStore, memory: Engine) -> None:
    other = CofioStore(memory)
    store.put(("users", "u1"), "from graph", {"likes": "chamomile"}, ttl=5)
    run(other.put(("users", "u1"), "from store", {"likes": "oolong"}, {"m": 1}))
    run(other.put(("users", "u1"), "scalar", 5))
    run(other.put_with_embedding(("users", "u1"), "vector", {"likes": "cat"}, [1.0, 0.0, 0.0, 0.0]))
    assert run(other.get(("users", "u1"), "from graph")) == {"likes": "chamomile"}
    assert keys(store.search(("users",), filter={"likes": "oolong"})) == ["from store"]
    assert keys(store.search(("users",), query="oolong")) == ["from store"]
    found = store.get(("users", "u1"), "scalar")
    assert found is not None
    assert found.value == {"value": 5}
    assert [item.key for item in run(other.search(("users", "u1"), "chamomile"))] == ["from graph"]
    assert [hit.record.key for hit in memory.search("chamomile")] == ["from graph"]
    indexed = CofioLangGraphStore(memory, index={"dims": 4, "embed": embed})
    indexed.put(("users", "u1"), "indexed", {"likes": "cat"})
    assert set(keys(indexed.search(("users",), query="cat"))) == {"vector", "indexed"}
    assert run(other.get_embedding(("users", "u1"), "indexed")) == [1.0, 0.0, 0.0, 0.0]
    nearest = run(other.search_by_embedding(("users", "u1"), [1.0, 0.0, 0.0, 0.0]))
    assert {result.item.key for result in nearest} == {"vector", "indexed"}
    memory.put(Scope("store", "other"), "note", text="matcha")
    memory.put(Scope("store", "other"), "data", text="sencha", data=["s"])
    run(other.put(("other",), "nothing", None))
    assert {item.key: item.value for item in store.search(("other",))} == {
        "note": {"text": "matcha"}, "data": {"value": ["s"]}, "nothing": {"value": None},
    }  # fmt: skip
    memory.write(Scope("store", "users", "u1"), text="an oolong without a key", kind=Kind.ITEM)
    assert keys(store.search(("users",), query="oolong")) == ["from store"]
    assert len(store.search(("users",))) == 5


@pytest.mark.requirement("langgraph-store.no-aliases")
def test_a_value_that_changes_after_the_put_is_kept_as_it_was(store: CofioLangGraphStore) -> None:
    async def work() -> None:
        value: dict[str, Any] = {"list": [1]}
        put = asyncio.ensure_future(store.aput(("a",), "k", value))
        await asyncio.sleep(0)
        value["list"].append(2)
        await put

    run(work())
    item = store.get(("a",), "k")
    assert item is not None
    assert item.value == {"list": [1]}


@pytest.mark.requirement("langgraph-store.together", "langgraph-store.async")
def test_stores_on_one_folder_work_at_once(store_address: StoreAddress) -> None:
    with (
        CofioLangGraphStore.open(store_address.spell(), settings=QUIET) as one,
        CofioLangGraphStore.open(store_address.spell(), settings=QUIET) as other,
    ):

        async def work() -> None:
            puts = (s.aput(("a",), str(n), {"n": n}) for n in range(10) for s in (one, other))
            await asyncio.gather(*puts)
            await asyncio.gather(*(s.adelete(("a",), str(n)) for n in range(5) for s in (one, other)))
            assert await one.alist_namespaces() == [("a",)]
            assert await one.abatch([]) == []

        run(work())
        assert set(keys(one.search(("a",), limit=50))) == {str(n) for n in range(5, 10)}


class State(TypedDict):
    """What the graph below works on."""

    user: str
    said: str
    known: list[str]


@pytest.mark.requirement("langgraph-store.graph")
@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_graph_remembers_from_one_thread_to_the_next(store_address: StoreAddress, way: str) -> None:
    def remember(state: State, *, store: BaseStore) -> dict[str, Any]:
        namespace = ("memories", state["user"])
        known = [item.value["text"] for item in store.search(namespace, query="tea")]
        store.put(namespace, state["said"], {"text": state["said"]})
        return {"known": known}

    async def aremember(state: State, *, store: BaseStore) -> dict[str, Any]:
        namespace = ("memories", state["user"])
        known = [item.value["text"] for item in await store.asearch(namespace, query="tea")]
        await store.aput(namespace, state["said"], {"text": state["said"]})
        return {"known": known}

    builder = StateGraph(State)
    builder.add_node("remember", remember if way == "sync" else aremember)
    builder.add_edge(START, "remember")
    for user, said, known in [("ada", "I drink tea", []), ("ada", "hello", ["I drink tea"]), ("bob", "tea?", [])]:
        with CofioLangGraphStore.open(store_address.spell(), settings=QUIET) as store:
            graph = builder.compile(store=store)
            state: State = {"user": user, "said": said, "known": []}
            after = graph.invoke(state) if way == "sync" else run(graph.ainvoke(state))
            assert after["known"] == known


names = st.sampled_from(["a", "b", "ab", "*", "%"])
spaces = st.lists(names, min_size=1, max_size=3).map(tuple)
fields = st.sampled_from(["x", "y", "x.y", '"'])
scalars = st.none() | st.integers(-2, 2) | st.sampled_from(["", "p", "q"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(fields, inner, max_size=2), max_leaves=4
)
tests = st.recursive(
    scalars
    | st.builds(lambda op, value: {op: value}, st.sampled_from(["$eq", "$ne"]), values)
    | st.lists(scalars, max_size=2),
    lambda inner: st.dictionaries(fields, inner, max_size=2),
    max_leaves=3,
)


@pytest.fixture
def engine(store_address: StoreAddress) -> Iterator[Engine]:
    """A memory for many examples."""
    with Engine.open(store_address, settings=QUIET) as opened:
        yield opened


@pytest.mark.requirement("langgraph-store.model", "langgraph-store.prefix", "langgraph-store.list-namespaces")
@settings(max_examples=60)
@given(
    puts=st.lists(
        st.tuples(spaces, st.sampled_from("kl"), st.none() | st.dictionaries(fields, values, max_size=3)), max_size=8
    ),
    asked=spaces,
    wanted=st.dictionaries(fields, tests, max_size=2),
    condition=st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), spaces),
    depth=st.none() | st.integers(1, 3),
)
def test_it_answers_as_langgraphs_own_store_does(
    engine: Engine, puts: list[Any], asked: Any, wanted: dict[str, Any], condition: MatchCondition, depth: int | None
) -> None:
    engine.drop(Scope())
    ours, theirs = CofioLangGraphStore(engine), InMemoryStore()
    for namespace, key, value in puts:
        for store in (ours, theirs):
            store.batch([PutOp(namespace, key, value)])
    for space in (asked, ()):
        found = [
            {
                (item.namespace, item.key, repr(sorted(item.value.items())))
                for item in store.search(space, filter=wanted)
            }
            for store in (ours, theirs)
        ]
        assert found[0] == found[1]
    theirs._data = {space: held for space, held in theirs._data.items() if held}  # they list what is empty, too
    listing = ListNamespacesOp(match_conditions=(condition,), max_depth=depth)
    assert ours.batch([listing]) == theirs.batch([listing])
