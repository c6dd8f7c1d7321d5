"""What every store does, whatever it is made of."""

from __future__ import annotations

import asyncio
from asyncio import run
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from cofio.library.checkpointer import BaseCheckpointer
from cofio.library.providers.postgresql import PostgreSQLBackend
from cofio.library.store import BaseStore, InMemoryStore, NamespacedStore, StoreContext, StoreItem

NS = ("users", "u1")


@pytest.mark.requirement("store.put-get", "store.none")
def test_a_value_comes_back_as_it_was(store: BaseStore) -> None:
    values: list[Any] = [
        {"theme": "dark", "n": [1, 2.5, None, True, {"deep": []}]}, "text", "", 0, 3, -1.5, True, False, [], {},
        [1, "2"], "NUL-free ünï 東京 🚀", {"value": 1, "metadata": 2, "ttl": 3}, None,
    ]  # fmt: skip
    for value in values:
        run(store.put(NS, "k", value, {"source": "test"}))
        got = run(store.get(NS, "k"))
        assert got == value
        assert type(got) is type(value)
        item = run(store.get_item(NS, "k"))
        assert item is not None
        assert (item.namespace, item.key, item.value, item.metadata) == (NS, "k", value, {"source": "test"})
        assert run(store.exists(NS, "k"))
        assert run(store.get_batch([(NS, "k"), (NS, "other")])) == {(NS, "k"): value}
        assert run(store.list_keys(NS)) == ["k"]
        assert [each.value for each in run(store.search(NS))] == [value]
    assert run(store.delete(NS, "k"))
    assert not run(store.exists(NS, "k"))


@pytest.mark.requirement("store.missing")
def test_what_is_not_there_is_none_false_and_empty(store: BaseStore) -> None:
    assert run(store.get(NS, "k")) is None
    assert run(store.get_item(NS, "k")) is None
    assert not run(store.exists(NS, "k"))
    assert not run(store.delete(NS, "k"))
    assert run(store.list_keys(NS)) == []
    assert run(store.search(NS)) == []
    assert run(store.search(NS, "anything")) == []
    assert run(store.get_batch([(NS, "k")])) == {}
    assert run(store.list_namespaces()) == []
    assert run(store.clear_namespace(NS)) == 0


@pytest.mark.requirement("store.versions")
def test_each_put_is_a_new_version_with_new_metadata(store: BaseStore) -> None:
    run(store.put(NS, "k", 1, {"a": 1}))
    first = run(store.get_item(NS, "k"))
    run(store.put(NS, "k", 2, {"b": 2}))
    run(store.put(NS, "k", 3))
    last = run(store.get_item(NS, "k"))
    assert first is not None
    assert last is not None
    assert (first.version, last.version) == (1, 3)
    assert last.created_at == first.created_at
    assert last.updated_at >= first.updated_at
    assert last.metadata == {}
    assert last.created_at.tzinfo is not None
    run(store.delete(NS, "k"))
    run(store.put(NS, "k", 4))
    again = run(store.get_item(NS, "k"))
    assert again is not None
    assert again.version == 1


@pytest.mark.requirement("store.namespaces-apart", "store.keys")
def test_namespaces_never_mix_and_keys_may_have_any_characters(store: BaseStore) -> None:
    pairs: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (("a", "b"), ("a/b",)), (("a", "b"), ("a:b",)), (("a", "b"), ("a.b",)), (("a",), ("a", "b")), ((), ("a",)),
        (("a", "b"), ("b", "a")), (("a",), ("A",)), (("a%",), ("ab",)), (("a_",), ("ab",)), (("store",), ()),
        (("a|b",), ("a", "b")), (("a\x1fb",), ("a", "b")), (("*",), ("a",)), (("'; DROP TABLE record; --",), ("x",)),
    ]  # fmt: skip
    for one, other in pairs:
        run(store.put(one, "k", "one word"))
        assert run(store.get(other, "k")) is None
        assert run(store.list_keys(other)) == []
        assert run(store.search(other, "word")) == []
        run(store.put(other, "k", "other word"))
        assert run(store.get(one, "k")) == "one word"
        assert [item.value for item in run(store.search(one, "word"))] == ["one word"]
        assert run(store.clear_namespace(one)) == 1
        assert run(store.get(other, "k")) == "other word"
        assert run(store.list_namespaces()) == [other]
        run(store.clear_namespace(other))
    names = ["", "a/b", "a:b", " ", "ключ", "k'; --", "%", "_", "*", "a\nb", "x" * 1024]
    for key in names:
        run(store.put(NS, key, key))
    assert run(store.list_keys(NS)) == names
    for key in names:
        assert run(store.get(NS, key)) == key
        assert run(store.delete(NS, key))
    assert run(store.list_keys(NS)) == []


@pytest.mark.requirement("store.limits")
def test_limits_hold_and_the_order_is_that_of_the_first_put(store: BaseStore) -> None:
    names = [f"k{number}" for number in range(12)]
    run(store.put_batch([(NS, name, name, None) for name in names]))
    run(store.put(NS, "k0", "again"))
    assert run(store.list_keys(NS)) == names
    assert run(store.list_keys(NS, limit=3)) == names[:3]
    assert run(store.list_keys(NS, limit=0)) == []
    assert [item.key for item in run(store.search(NS))] == names[:10]
    assert [item.key for item in run(store.search(NS, limit=12))] == names
    assert [item.key for item in run(store.search(NS, "", 2))] == names[:2]
    assert run(store.search(NS, limit=0)) == []
    assert run(store.search(NS, "again", 0)) == []
    assert [item.key for item in run(store.search(NS, "again", 5))] == ["k0"]


@pytest.mark.requirement("store.limits")
def test_a_namespace_of_any_size_is_listed_and_cleared_whole(store: BaseStore) -> None:
    many = 1_050 if isinstance(store, PostgreSQLBackend) else 10_050  # there each is a statement
    run(store.put_batch([(NS, str(number), number, None) for number in range(many)]))
    run(store.put((*NS, "under"), "k", 1))
    assert len(run(store.list_keys(NS))) == 100
    assert run(store.list_keys(NS, limit=2 * many)) == [str(number) for number in range(many)]
    assert run(store.clear_namespace(NS)) == many
    assert run(store.list_namespaces()) == [(*NS, "under")]


@pytest.mark.requirement("store.search")
def test_a_search_looks_into_values_and_metadata_of_the_namespace_alone(store: BaseStore) -> None:
    run(store.put(NS, "a", {"topic": "Python programming"}))
    run(store.put(NS, "b", "gardening", {"tags": ["Python"]}))
    run(store.put(NS, "c", ["cooking", {"with": "Äpfel"}]))
    run(store.put((*NS, "deeper"), "d", "python"))
    assert {item.key for item in run(store.search(NS, "python"))} == {"a", "b"}
    assert len(run(store.search(NS, "PYTHON", limit=1))) == 1
    assert {item.key for item in run(store.search(NS, "äpfel"))} == {"c"}
    assert run(store.search(NS, "metadata")) == []
    assert run(store.search(NS, "value")) == []
    assert len(run(store.search(NS))) == 3


@pytest.mark.requirement("store.list-namespaces")
def test_namespaces_are_listed_by_whole_names_and_only_while_they_hold_something(store: BaseStore) -> None:
    for namespace in [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b",)]:
        run(store.put(namespace, "k", 1))
    assert run(store.list_namespaces()) == [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("b",)]
    assert run(store.list_namespaces(("a",))) == [("a",), ("a", "b"), ("a", "b", "c")]
    assert run(store.list_namespaces(("a",), limit=2)) == [("a",), ("a", "b")]
    assert run(store.list_namespaces((), limit=0)) == []
    assert run(store.list_namespaces(("c",))) == []
    run(store.delete(("a", "b"), "k"))
    run(store.clear_namespace(("ab",)))
    assert run(store.list_namespaces()) == [("a",), ("a", "b", "c"), ("b",)]


@pytest.mark.requirement("store.batch")
def test_a_batch_is_stored_whole_or_not_at_all(store: BaseStore) -> None:
    run(store.put_batch([(NS, "a", 1, {"m": 1}), (("x",), "a", 2, None), (NS, "a", 3, None)]))
    item = run(store.get_item(NS, "a"))
    assert item is not None
    assert (item.value, item.version, item.metadata) == (3, 2, {})
    found = run(store.get_batch([(NS, "a"), (("x",), "a"), (("x",), "b")]))
    assert found == {(NS, "a"): 3, (("x",), "a"): 2}
    bad: list[Any] = [(NS, "b", 1, None), (NS, 3, 1, None)]
    with pytest.raises(TypeError, match="key"):
        run(store.put_batch(bad))
    assert run(store.list_keys(NS)) == ["a"]
    run(store.put_batch([]))


@pytest.mark.requirement("store.no-aliases")
def test_a_store_keeps_copies(store: BaseStore) -> None:
    value, metadata = {"list": [1], "d": {"x": 1}}, {"tags": ["a"]}
    run(store.put(NS, "k", value, metadata))
    value["list"].append(2)  # type: ignore[attr-defined]
    metadata["tags"].append("b")
    got = run(store.get(NS, "k"))
    assert got is not None
    got["list"].append(3)
    item = run(store.get_item(NS, "k"))
    assert item is not None
    item.value["d"]["x"] = 2
    item.metadata["tags"].append("c")
    run(store.search(NS))[0].value["list"].append(4)
    run(store.get_batch([(NS, "k")]))[NS, "k"]["list"].append(5)
    after = run(store.get_item(NS, "k"))
    assert after is not None
    assert (after.value, after.metadata) == ({"list": [1], "d": {"x": 1}}, {"tags": ["a"]})


@pytest.mark.requirement("store.bad-input")
def test_bad_input_is_refused_and_changes_nothing(store: BaseStore) -> None:
    bad: Any
    for bad in ("users", ["users"], None, ("a", ""), ("",), ("a", 1), ("a", None), 3):
        calls: list[Callable[[Any], Coroutine[Any, Any, object]]] = [
            lambda bad: store.put(bad, "k", 1), lambda bad: store.get(bad, "k"), lambda bad: store.get_item(bad, "k"),
            store.list_keys, store.clear_namespace, lambda bad: store.put_batch([(bad, "k", 1, None)]),
        ]  # fmt: skip
        if not (isinstance(store, BaseCheckpointer) and isinstance(bad, str)):  # there a string is a thread
            calls += [lambda bad: store.exists(bad, "k"), lambda bad: store.delete(bad, "k"), store.search]
        if bad is not None:
            calls.append(store.list_namespaces)
        for call in calls:
            with pytest.raises((TypeError, ValueError), match="namespace"):
                run(call(bad))
        with pytest.raises((TypeError, ValueError), match="namespace"):
            NamespacedStore(store, bad)
    for bad in (None, 3, b"k", ("k",)):
        for get in (store.get, store.get_item, store.exists, store.delete):
            with pytest.raises(TypeError, match="key"):
                run(get(NS, bad))
        with pytest.raises(TypeError, match="key"):
            run(store.put(NS, bad, 1))
    for bad in ("m", [1], 3):
        with pytest.raises(TypeError, match="metadata"):
            run(store.put(NS, "k", 1, bad))
    for bad in ("1", 1.0, True, None):
        for listing in (store.list_keys(NS, bad), store.search(NS, limit=bad), store.list_namespaces(limit=bad)):
            with pytest.raises(TypeError, match="limit"):
                run(listing)
    with pytest.raises(ValueError, match="limit"):
        run(store.list_keys(NS, -1))
    with pytest.raises(TypeError, match="query"):
        run(store.search(NS, 3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="items"):
        run(store.put_batch([(NS, "k", 1)]))  # type: ignore[list-item]
    assert run(store.list_namespaces()) == []


@pytest.mark.requirement("store.concurrent")
def test_puts_at_once_all_arrive(store: BaseStore) -> None:
    async def work() -> None:
        await asyncio.gather(*(store.put(NS, str(number), number) for number in range(30)))
        await asyncio.gather(*(store.put(NS, "counter", number) for number in range(20)))

    run(work())
    assert len(run(store.list_keys(NS))) == 31
    item = run(store.get_item(NS, "counter"))
    assert item is not None
    assert item.version == 20


@pytest.mark.requirement("store-namespaced.all")
def test_a_namespaced_store_is_the_store_seen_from_there(store: BaseStore) -> None:
    users = NamespacedStore(store, ("users",))
    mine = users.scoped("u1", "memories")
    assert mine.namespace == ("users", "u1", "memories")
    run(mine.put("k", {"likes": "tea"}, {"m": 1}))
    assert run(mine.get("k")) == {"likes": "tea"}
    assert run(store.get(("users", "u1", "memories"), "k")) == {"likes": "tea"}
    assert run(mine.exists("k"))
    assert not run(users.exists("k"))
    assert run(mine.list_keys()) == ["k"]
    assert run(mine.list_keys(0)) == []
    assert [item.key for item in run(mine.search("tea"))] == ["k"]
    assert [item.key for item in run(mine.search())] == ["k"]
    assert run(mine.delete("k"))
    run(mine.put("a", 1))
    run(mine.put("b", None))
    assert run(users.clear()) == 0
    assert run(mine.clear()) == 2


@pytest.mark.requirement("store-context.memories", "store-context.scopes")
def test_a_context_keeps_a_users_memories(store: BaseStore) -> None:
    context = StoreContext(store, user_id="u1", session_id="s1")
    assert context.store is store
    run(context.remember("topic", {"topic": "python"}, {"m": 1}))
    assert run(store.get(("users", "u1", "memories"), "topic")) == {"topic": "python"}
    assert run(context.get_user_memory("topic")) == {"topic": "python"}
    assert [item.key for item in run(context.search_memories("python"))] == ["topic"]
    assert run(context.search_memories("python", 0)) == []
    assert run(context.forget("topic"))
    assert not run(context.forget("topic"))
    run(context.set_global("motd", "hello", {"by": "admin"}))
    assert run(context.get_global("motd")) == "hello"
    assert run(store.get(("global",), "motd")) == "hello"
    assert [context.for_user().namespace, context.for_user("u2").namespace] == [("users", "u1"), ("users", "u2")]
    assert context.for_session().namespace == ("sessions", "s1")
    assert context.for_session("s2").namespace == ("sessions", "s2")


@pytest.mark.requirement("store-context.nobody")
def test_a_context_without_a_user_reads_nothing_and_refuses_to_write() -> None:
    context = StoreContext(InMemoryStore())
    assert run(context.get_user_memory("k")) is None
    assert not run(context.forget("k"))
    assert run(context.search_memories("k")) == []
    assert run(context.search_memories_semantic([1.0])) == []
    for write in (context.remember("k", 1), context.remember_with_embedding("k", 1, [1.0])):
        with pytest.raises(ValueError, match=r"^No user_id set in store context$"):
            run(write)
    with pytest.raises(ValueError, match=r"^user_id must be provided or set in context$"):
        context.for_user()
    with pytest.raises(ValueError, match=r"^session_id must be provided or set in context$"):
        context.for_session()
    assert run(context.store.list_namespaces()) == []


@pytest.mark.requirement("store.item-dict")
def test_an_item_survives_the_way_through_a_dict() -> None:
    then = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    item = StoreItem(("a", "b"), "k", {"x": 1}, {"m": 1}, then, then, 3)
    written = item.to_dict()
    assert written == {
        "namespace": ["a", "b"], "key": "k", "value": {"x": 1}, "metadata": {"m": 1},
        "created_at": "2026-01-02T03:04:05.000006+00:00", "updated_at": "2026-01-02T03:04:05.000006+00:00",
        "version": 3,
    }  # fmt: skip
    assert StoreItem.from_dict(written) == item
    del written["metadata"], written["version"]
    assert StoreItem.from_dict(written) == StoreItem(("a", "b"), "k", {"x": 1}, {}, then, then, 1)


@pytest.mark.requirement("store.close")
def test_closing_is_harmless(store: BaseStore) -> None:
    run(store.put(NS, "k", 1))
    run(store.close())
    assert isinstance(store, InMemoryStore) or run(store.get(NS, "k")) == 1
