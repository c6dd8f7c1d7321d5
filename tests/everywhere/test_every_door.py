"""Every door on one store, used in any order, agrees with one model: what is written through any is found through all.

Each thing that is written holds a word that nothing else holds, so that what is found, what is gone and what leaks can
be told by that word alone, whichever door says it and in whatever form.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from cofio import Conflict, Query

from ..conftest import BackendUnderTest
from .doors import Doors

picks = st.integers(0, 1000)
texts = st.sampled_from([
    "The {} deploy fails on Fridays.", "Nobody has seen {} since the release, and nobody asked.",
    "Remember: {} before lunch.", "{}", "Im Café steht {} auf der Karte.",
])  # fmt: skip
sayings = st.sampled_from([
    "I love {} in spring.", "I live in {}.", "My favorite coffee shop is {} in Bergen.", "We looked at {} today.",
])  # fmt: skip
animus_owners = st.sampled_from([("p", None), ("p", "a"), ("q", None)])
file_owners = st.sampled_from(["default", "bob"])
paths = st.sampled_from(["/memories/a.md", "/memories/d/a.md", "/memories/d/b.md", "/memories/dd.md"])
namespaces = st.sampled_from([("a",), ("a", "b"), ("b",)])
keys = st.sampled_from(["k", "l"])
speakers = st.sampled_from(
    [("default", "default", "alice"), ("default", "default", "bob"), ("shop", "default", "alice")]
)


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is in the store: the door that it belongs to, whose it is there, and what it is known by."""

    door: str
    owner: tuple[str | None, ...]
    name: str
    word: str
    version: int = 1
    carved: bool = True


def given_some(*doors: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A rule that needs an item of one of these doors, or of any."""
    return precondition(lambda self: bool(self.of(*doors)))


class EveryDoor(RuleBasedStateMachine):
    """Every door on one store, and a dict of what should be there."""

    backend: ClassVar[BackendUnderTest]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name).resolve()
        self.doors = Doors(self.backend.address(root / ".cofio"), root)
        self.items: dict[str, Item] = {}
        self.gone: list[str] = []
        """Words that are nowhere any more."""
        self.superseded: list[str] = []
        """Words that only the history of a file still holds, which no search looks through."""
        self.states: dict[str, str] = {}
        self.animus_scopes: list[tuple[str | None, ...]] = []
        self.count = 0

    def teardown(self) -> None:
        try:
            for item in self.items.values():
                self.check_found(item)
            self.check_owners()
            self.check_export()
            assert self.doors.engine.check() == []
        finally:
            self.doors.close()
            self.backend.remove(self.doors.store)
            self.folder.cleanup()

    # The model.

    def next_word(self) -> str:
        self.count += 1
        return f"zq{self.count:06d}"

    def of(self, *doors: str) -> list[Item]:
        """The items of these doors, or of all."""
        return [item for item in self.items.values() if not doors or item.door in doors]

    def pick(self, pick: int, *doors: str) -> Item:
        """Some item of these doors."""
        found = self.of(*doors)
        return found[pick % len(found)]

    def held(self, door: str, owner: tuple[str | None, ...], name: str) -> Item | None:
        """What an owner has under a name."""
        found = [item for item in self.of(door) if (item.owner, item.name) == (owner, name)]
        return found[0] if found else None

    def keep(self, item: Item, *, history: bool = False) -> None:
        """Note what was written, in place of what had its name."""
        before = self.held(item.door, item.owner, item.name)
        if before is not None:
            self.forget(before, history=history)
        self.items[item.word] = item

    def forget(self, *items: Item, history: bool = False) -> None:
        for item in items:
            del self.items[item.word]
            (self.superseded if history else self.gone).append(item.word)

    @initialize(text=texts, saying=sayings)
    def begin(self, text: str, saying: str) -> None:
        for by_command in (False, True):
            self.write_note(text, by_command)
            self.put_item(("a",) if by_command else ("a", "b"), "k", text, by_command, False)
        self.put_animus(("p", None), "k", text)
        self.put_animus(("p", "a"), "k", text)
        self.write_file("default", "/memories/d/a.md", text, False)
        self.write_file("bob", "/memories/d/a.md", text, False)
        self.say(("default", "default", "alice"), saying, True)
        self.say(("shop", "default", "alice"), saying, True)

    # Notes: MCP, and the command line, which shares them.

    @rule(text=texts, by_command=st.booleans())
    def write_note(self, text: str, by_command: bool) -> None:
        word = self.next_word()
        if by_command:
            name = self.doors.cli("add", text.format(word), "--title", "A note").strip()
        else:
            name = self.doors.mcp.write("A note", text.format(word))
        self.keep(Item("note", (), name, word))

    @given_some("note")
    @rule(pick=picks, text=texts, by_command=st.booleans())
    def rewrite_note(self, pick: int, text: str, by_command: bool) -> None:
        item, word = self.pick(pick, "note"), self.next_word()
        if by_command:
            self.doors.cli("edit", item.name, "--text", text.format(word))
        else:
            assert self.doors.mcp.write("A note", text.format(word), replaces=item.name) == item.name
        self.keep(replace(item, word=word, version=item.version + 1))
        assert self.doors.engine.read(item.name).version == item.version + 1

    @given_some("note")
    @rule(pick=picks)
    def delete_note(self, pick: int) -> None:
        item = self.pick(pick, "note")
        assert self.doors.mcp.delete_context(id=item.name).data == {"id": item.name, "deleted": True}
        self.forget(item)
        assert not self.doors.mcp.delete_context(id=item.name).data["deleted"]

    @rule(key=keys)
    def set_state(self, key: str) -> None:
        value = f"state {self.next_word()}"
        self.doors.mcp.set_state(key=key, value=value)
        if key in self.states:
            self.gone.append(self.states[key].split()[1])
        self.states[key] = value

    # Items: Animus, and the library's two stores, which share theirs.

    @rule(owner=animus_owners, key=keys, text=texts)
    def put_animus(self, owner: tuple[str | None, ...], key: str, text: str) -> None:
        word = self.next_word()
        self.doors.animus.put(animus_scope(owner), key, {"note": text.format(word)})
        before = self.held("animus", owner, key)
        self.keep(Item("animus", owner, key, word, 1 if before is None else before.version + 1))
        if owner not in self.animus_scopes:
            self.animus_scopes.append(owner)

    @rule(owner=animus_owners)
    def delete_animus_scope(self, owner: tuple[str | None, ...]) -> None:
        self.doors.animus.result("memory/delete_scope", {"scope": animus_scope(owner)})
        self.forget(*(item for item in self.of("animus") if item.owner == owner))
        if owner in self.animus_scopes:
            self.animus_scopes.remove(owner)

    @rule(namespace=namespaces, key=keys, text=texts, by_graph=st.booleans(), wrong=st.booleans())
    def put_item(self, namespace: tuple[str, ...], key: str, text: str, by_graph: bool, wrong: bool) -> None:
        word, before = self.next_word(), self.held("store", namespace, key)
        value, version = {"note": text.format(word)}, 0 if before is None else before.version
        if wrong:
            with pytest.raises(Conflict):
                self.doors.run(self.doors.library.put(namespace, key, value, if_version=version + 1))
            self.gone.append(word)
            return
        if by_graph:
            self.doors.langgraph.put(namespace, key, value)
        else:
            self.doors.run(self.doors.library.put(namespace, key, value, if_version=version))
        self.keep(Item("store", namespace, key, word, version + 1))

    @given_some("store")
    @rule(pick=picks, by_graph=st.booleans())
    def delete_item(self, pick: int, by_graph: bool) -> None:
        item = self.pick(pick, "store")
        if by_graph:
            self.doors.langgraph.delete(names(item), item.name)
        else:
            assert self.doors.run(self.doors.library.delete(names(item), item.name))
        self.forget(item)

    @rule(namespace=namespaces)
    def clear_namespace(self, namespace: tuple[str, ...]) -> None:
        there = [item for item in self.of("store") if item.owner == namespace]
        assert self.doors.run(self.doors.library.clear_namespace(namespace)) == len(there)
        self.forget(*there)

    @given_some("note", "animus", "store")
    @rule(pick=picks)
    def remove_by_command(self, pick: int) -> None:
        item = self.pick(pick, "note", "animus", "store")
        (hit,) = self.doors.engine.search(Query(item.word, mode="keyword", floor=0.0))
        self.doors.cli("rm", hit.record.id)
        self.forget(item)

    # Files: the memory tool, and the command line, which shares them.

    @rule(owner=file_owners, path=paths, text=texts, by_command=st.booleans())
    def write_file(self, owner: str, path: str, text: str, by_command: bool) -> None:
        word, there = self.next_word(), self.held("file", (owner,), path)
        if by_command:
            self.doors.cli("files", "write", path, text.format(word), "--owner", owner)
        else:
            _, refused = self.doors.files(owner, "create", path=path, file_text=text.format(word))
            assert refused == (there is not None)
            if refused:
                self.gone.append(word)
                return
        self.keep(Item("file", (owner,), path, word), history=True)

    @given_some("file")
    @rule(pick=picks)
    def edit_file(self, pick: int) -> None:
        item, word = self.pick(pick, "file"), self.next_word()
        answer = self.doors.files(str(item.owner[0]), "str_replace", path=item.name, old_str=item.word, new_str=word)
        assert answer[1] is False, answer
        self.keep(replace(item, word=word), history=True)

    @given_some("file")
    @rule(pick=picks, path=paths)
    def move_file(self, pick: int, path: str) -> None:
        item = self.pick(pick, "file")
        there = self.held("file", item.owner, path)
        answer = self.doors.files(str(item.owner[0]), "rename", old_path=item.name, new_path=path)
        assert answer[1] == (there is not None), answer
        if there is None:
            self.items[item.word] = replace(item, name=path)

    @rule(owner=file_owners, path=st.sampled_from(["/memories/a.md", "/memories/d", "/memories/dd.md"]))
    def delete_files(self, owner: str, path: str) -> None:
        there = [each for each in self.of("file") if each.owner == (owner,) and f"{each.name}/".startswith(f"{path}/")]
        answer = self.doors.files(owner, "delete", path=path)
        assert answer[1] == (not there), answer
        self.forget(*there, history=True)

    # Conversations: REST.

    @rule(speaker=speakers, saying=sayings, carve=st.booleans())
    def say(self, speaker: tuple[str, str, str], saying: str, carve: bool) -> None:
        word = self.next_word()
        item = Item("said", speaker, f"session-{word}", word, carved=carve)
        message = {
            "sender_id": speaker[2], "role": "user", "timestamp": 1779967836000 + self.count * 1000,
            "content": saying.format(word),
        }  # fmt: skip
        self.doors.api.add(message, session=item.name, defer_extraction=True, **project(item))
        if carve:
            assert self.doors.api.flush(item.name, **project(item)) == "extracted"
        self.keep(item)

    @precondition(lambda self: not all(item.carved for item in self.of("said")))
    @rule(pick=picks)
    def carve(self, pick: int) -> None:
        waiting = [item for item in self.of("said") if not item.carved]
        item = waiting[pick % len(waiting)]
        assert self.doors.api.flush(item.name, **project(item)) == "extracted"
        self.items[item.word] = replace(item, carved=True)

    @given_some("said")
    @rule(pick=picks)
    def delete_session(self, pick: int) -> None:
        item = self.pick(pick, "said")
        self.doors.api.ok("delete", session_id=item.name, **project(item))
        self.forget(item)

    @rule(speaker=speakers)
    def delete_speaker(self, speaker: tuple[str, str, str]) -> None:
        there = [item for item in self.of("said") if item.owner == speaker]
        app, of_it, user = speaker
        self.doors.api.ok("delete", user_id=user, app_id=app, project_id=of_it)
        self.forget(*there)

    # The store: settled, opened again, copied over itself.

    @rule()
    def settle(self) -> None:
        self.doors.engine.settle()

    @rule()
    def restart(self) -> None:
        self.doors.restart()

    @rule()
    def import_what_is_there(self) -> None:
        before = self.doors.cli("export")
        file = self.doors.root / "export.jsonl"
        file.write_text(before)
        self.doors.cli("import", str(file))
        assert self.doors.cli("export") == before

    # What must hold.

    @given_some()
    @rule(pick=picks)
    def find(self, pick: int) -> None:
        self.check_found(self.pick(pick))

    @precondition(lambda self: self.gone or self.superseded)
    @rule(pick=picks)
    def find_nothing(self, pick: int) -> None:
        words = [*self.gone, *self.superseded]
        word = words[-1 - pick % len(words)]
        assert not self.doors.engine.search(Query(word, mode="keyword", floor=0.0))
        for answer in (*self.search_mcp(word), *self.search_cli(word), *self.search_owners(word).values()):
            assert word not in answer

    @given_some()
    @rule(pick=picks)
    def leak_nothing(self, pick: int) -> None:
        item = self.pick(pick)
        own = {(item.door, item.owner)}
        if item.door == "store":  # a search of a graph's store looks under its namespace, too
            own |= {("graph", item.owner[:length]) for length in range(1, len(item.owner) + 1)}
        for whose, answer in self.search_owners(item.word).items():
            assert (item.word in answer) == (whose in own and item.carved), whose

    @rule()
    def compare_owners(self) -> None:
        self.check_owners()

    @rule()
    def compare_export(self) -> None:
        self.check_export()

    def check_found(self, item: Item) -> None:
        """It is found by the engine, the command line and MCP from everywhere, and read through its own door."""
        hits = self.doors.engine.search(Query(item.word, mode="keyword", floor=0.0))
        assert hits
        assert all(item.word in f"{hit.record.title} {hit.record.text} {hit.record.data}" for hit in hits)
        for answer in (*self.search_mcp(item.word), *self.search_cli(item.word)):
            assert item.word in answer
        assert item.word in self.read(item)

    def search_mcp(self, word: str) -> Iterator[str]:
        for mode in ("bm25", "hybrid"):
            yield self.doors.mcp.search_context(query=word, search_mode=mode, everywhere=True).text

    def search_cli(self, word: str) -> Iterator[str]:
        for mode in ("keyword", "hybrid"):
            yield json.dumps(json.loads(self.doors.cli("search", word, "--mode", mode, "--json"))["hits"])

    def search_owners(self, word: str) -> dict[tuple[str, tuple[str | None, ...]], str]:
        """What each owner finds by a word in what is theirs, through their own door."""
        doors = self.doors
        found: dict[tuple[str, tuple[str | None, ...]], str] = {("note", ()): doors.mcp.search_context(query=word).text}
        for owner in (("p", None), ("p", "a"), ("q", None)):
            params = {"scope": animus_scope(owner), "query": word, "top_k": 10}
            found["animus", owner] = json.dumps(doors.animus.result("memory/query", params))
        for namespace in (("a",), ("a", "b"), ("b",)):
            items = doors.run(doors.library.search(namespace, word))
            found["store", namespace] = str([each.value for each in items])
            found["graph", namespace] = str([each.value for each in doors.langgraph.search(namespace, query=word)])
        for speaker in (("default", "default", "alice"), ("default", "default", "bob"), ("shop", "default", "alice")):
            answer = doors.api.search(word, speaker[2], app_id=speaker[0], project_id=speaker[1])
            found["said", speaker] = json.dumps(answer)
        return found

    def read(self, item: Item) -> str:
        """What its own door shows of an item."""
        doors = self.doors
        match item.door:
            case "note":
                return doors.mcp.read_context(id=item.name).text
            case "animus":
                return str(doors.animus.get(animus_scope(item.owner), item.name)["value"])
            case "file":
                seen, refused = doors.files(str(item.owner[0]), "view", path=item.name)
                assert not refused
                assert item.word in doors.cli("files", "cat", item.name, "--owner", str(item.owner[0]))
                return seen
            case "said" if item.carved:
                return json.dumps(self.read_episodes(item.owner))
            case "said":
                return json.dumps(doors.api.waiting(item.name, str(item.owner[2]), **project(item)))
        one = doors.run(doors.library.get_item(names(item), item.name))
        other = doors.langgraph.get(names(item), item.name)
        assert one is not None
        assert other is not None
        assert one.value == other.value
        assert one.version == item.version
        return str(other.value)

    def read_episodes(self, speaker: tuple[str | None, ...]) -> list[object]:
        found = self.doors.api.get("episode", str(speaker[2]), app_id=speaker[0], project_id=speaker[1], page_size=100)
        return list(found)

    def check_owners(self) -> None:
        """What each door lists for each owner is what the model has there: nothing is missing, nothing is another's."""
        doors, listed = self.doors, dict[tuple[str, tuple[str | None, ...]], list[str]]()
        for item in self.items.values():
            if item.carved:
                listed.setdefault((item.door, item.owner), []).append(item.word if item.door == "said" else item.name)
        chunks = doors.mcp.list_context(limit=500).data.get("chunks", [])
        assert sorted(each["id"] for each in chunks) == sorted(listed.get(("note", ()), []))
        for key in ("k", "l"):
            state = doors.mcp.get_state(key=key).data
            assert (state["found"], state["value"]) == (key in self.states, self.states.get(key))
        assert doors.animus.scopes(page_size=100) == [animus_scope(owner) for owner in self.animus_scopes]
        for namespace in (("a",), ("a", "b"), ("b",)):
            keys_there = doors.run(doors.library.list_keys(namespace))
            assert sorted(keys_there) == sorted(listed.get(("store", namespace), []))
        for owner in ("default", "bob"):
            paths_there = [
                json.loads(line)["path"] for line in doors.cli("files", "ls", "--owner", owner, "--json").splitlines()
            ]
            assert sorted(paths_there) == sorted(listed.get(("file", (owner,)), []))
        for speaker in (("default", "default", "alice"), ("default", "default", "bob"), ("shop", "default", "alice")):
            shown = json.dumps(self.read_episodes(speaker))
            assert sorted(word for word in self.words if word in shown) == sorted(listed.get(("said", speaker), []))

    def check_export(self) -> None:
        """All that is there stands in an export, and nothing that is gone."""
        exported = self.doors.cli("export")
        there = {word for word in self.words if word in exported}
        live = set(self.items) | {value.split()[1] for value in self.states.values()}
        assert there - set(self.superseded) == live

    @property
    def words(self) -> list[str]:
        """Every word that was ever written."""
        return [f"zq{number:06d}" for number in range(1, self.count + 1)]


def animus_scope(owner: tuple[str | None, ...]) -> dict[str, str]:
    """An owner as Animus names it."""
    return {name: each for name, each in zip(("project_id", "agent_id"), owner, strict=True) if each is not None}


def names(item: Item) -> tuple[str, ...]:
    """The namespace of an item of the library."""
    return tuple(str(name) for name in item.owner)


def project(item: Item) -> dict[str, str]:
    """Whose project something was said in."""
    return {"app_id": str(item.owner[0]), "project_id": str(item.owner[1])}


@pytest.fixture(autouse=True)
def _plain_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing set but that vectors are hashes, for the doors that read their settings themselves."""
    for name in [name for name in os.environ if name.startswith(("COFIO_", "EVEROS_")) or name == "AGENT_STORE_PATH"]:
        if not name.startswith("COFIO_TORTURE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COFIO_EMBEDDER", "hashed")
    monkeypatch.setenv("COFIO_SYNC", "normal")
    monkeypatch.chdir(tmp_path)


# A failure is not shrunk: each try opens every door anew, and forty steps can be read.
USUAL = settings(
    max_examples=6,
    stateful_step_count=40,
    phases=(Phase.reuse, Phase.generate),
)
BATCH = settings(USUAL, max_examples=50, stateful_step_count=200, derandomize=False, database=None)
BATCHES = 100  # each of ten thousand steps


@pytest.fixture
def machine(backend_under_test: BackendUnderTest) -> type[EveryDoor]:
    """Every door on a store of the backend."""
    return type("EveryDoor", (EveryDoor,), {"backend": backend_under_test})


def test_what_is_written_through_any_door_is_found_through_all_and_what_is_deleted_through_none(
    machine: type[EveryDoor],
) -> None:
    examples = machine.backend.scale(USUAL.max_examples)
    run_state_machine_as_test(machine, settings=settings(USUAL, max_examples=examples))


@pytest.mark.skipif(os.environ.get("COFIO_TORTURE") != "1", reason="takes hours: `make torture` runs it")
def test_it_holds_for_a_million_steps(machine: type[EveryDoor], capsys: pytest.CaptureFixture[str]) -> None:
    """Batches with seeds of their own, so that a run can go on where the last one ended, or do one batch again."""
    first = int(os.environ.get("COFIO_TORTURE_SEED", "0"))
    until = time.monotonic() + float(os.environ.get("COFIO_TORTURE_SECONDS", "10800"))
    for number in range(first, BATCHES):
        with capsys.disabled():
            print(f"\nbatch {number} of {BATCHES}; COFIO_TORTURE_SEED={number} goes on from here", flush=True)
        run_state_machine_as_test(seed(number)(machine), settings=BATCH)
        if time.monotonic() > until:
            return
