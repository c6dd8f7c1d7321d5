"""Scopes: how their ids are made, and that no two of them are ever one."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import join

from cofio import Change, Engine, Kind, LimitExceeded, Scope, Settings
from cofio.doors.animus import owners
from cofio.doors.animus.owners import Collision, Owner, normalize
from cofio.values.scopes import ANIMUS_OWNERS

from .conftest import INVALID, Inside, scope


@pytest.mark.requirement("normalize")
@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        ("PROJECT-X", "project-x"), ("abc_123-XYZ", "abc_123-xyz"), ("hello world!?", "hello-world"),
        ("a@@@b", "a-b"), ("---hello---", "hello"), ("café-😀-end", "caf-end"), ("a" * 100, "a" * 64),
        ("a" * 63 + "-b", "a" * 63 + "-"), ("", "e3b0c44298fc1c14"), ("!!!@@@###", "509ee51cdb5b686a"),
        ("   ", "0aad7da77d2ed59c"), ("---", "cb3f91d54eee30e5"), ("!!!", "e84c538e7fe25073"),
        ("@@@", "2ec847d8a31a988b"), ("task_id::42", "task_id-42"), ("混合 latin 文字", "latin"),
        ("İstanbul", "i-stanbul"),
    ],
)  # fmt: skip
def test_a_name_is_normalised_as_the_protocol_says(segment: str, expected: str) -> None:
    assert normalize(segment) == expected


@pytest.mark.requirement("scope.id")
@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Owner("Alpha"), "proj_alpha"),
        (Owner("Alpha", "A 1"), "proj_alpha__agent_a-1"),
        (Owner("Project With Spaces!", "Researcher-α", "TASK-1"),
         "proj_project-with-spaces__agent_researcher__task_task-1"),
    ],
)  # fmt: skip
def test_an_id_is_made_of_the_normalised_names(place: Owner, expected: str) -> None:
    assert place.id == expected


@pytest.mark.requirement("normalize")
@given(st.text())
def test_a_normalised_name_is_short_and_plain_and_stays_as_it_is(segment: str) -> None:
    plain = normalize(segment)
    assert re.fullmatch("[a-z0-9_-]{1,64}", plain)
    if not plain.endswith("-"):  # one that was cut behind a dash would lose it
        assert normalize(plain) == plain


NAMES = st.sampled_from(
    ["p", "P", "p!", "p__agent_a", "p-", "a", "A", "a__b", "a__task_t", "é", "è", "x" * 65, "x" * 66]
)
PLACES = st.builds(lambda names: Owner(*names), st.lists(NAMES, min_size=1, max_size=3).map(tuple))


class Model:
    """What the memory must be: a dictionary for each scope, of which those with the same id exclude each other."""

    def __init__(self) -> None:
        self.owners: dict[str, Owner] = {}
        self.values: dict[Owner, dict[str, int]] = {}

    def collides(self, place: Owner) -> bool:
        return self.owners.get(place.id, place) != place


@pytest.mark.requirement("scope.collision")
@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["put", "get", "delete"]), PLACES, st.sampled_from("kl")), max_size=25))
def test_scopes_with_one_id_are_never_one_memory(steps: list[tuple[str, Owner, str]]) -> None:
    model = Model()
    chosen = Settings(background=False, embedder="none", sync="normal")
    with tempfile.TemporaryDirectory() as folder, Engine.open(folder, settings=chosen) as engine:
        for number, (verb, place, key) in enumerate(steps):
            if model.collides(place):
                with pytest.raises(Collision):
                    owners.delete(engine, place) if verb == "delete" else owners.find_entry(engine, place)
                with pytest.raises(Collision):
                    owners.claim(engine, place)
            elif verb == "put":
                owners.claim(engine, place)
                engine.put(place.scope, key, data=number)
                model.owners[place.id] = place
                model.values.setdefault(place, {})[key] = number
            elif verb == "delete":
                owners.delete(engine, place)
                model.owners.pop(place.id, None)
                model.values.pop(place, None)
            for known, values in model.values.items():
                held = {each.key: each.data for each in engine.list(known.scope, exact=True, kinds=(Kind.ITEM,))}
                assert held == values
        assert sorted(map(str, owners.list_owners(engine, None))) == sorted(str(each.data) for each in model.values)


@pytest.mark.requirement("scope.claimed")
def test_an_entry_that_another_process_makes_first_is_looked_at_again(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(changes: Sequence[Change]) -> object:
        monkeypatch.undo()
        memory.put(ANIMUS_OWNERS, "proj_p", kind=Kind.STATE, data={"project_id": "P"})
        return memory.apply(changes)

    monkeypatch.setattr(memory, "apply", late)
    with pytest.raises(Collision):
        owners.claim(memory, Owner("p"))


@pytest.mark.requirement("scope.claimed")
def test_what_is_put_while_its_scope_is_deleted_keeps_the_scope(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Owner("p")
    owners.claim(memory, place)
    memory.put(place.scope, "old", data=1)
    delete = memory.delete

    def slow(id: str) -> None:
        delete(id)
        if memory.get(place.scope, "new") is None:
            memory.put(place.scope, "new", data=2)

    monkeypatch.setattr(memory, "delete", slow)  # what another process does meanwhile
    owners.delete(memory, place)
    assert [each.key for each in memory.list(place.scope)] == ["new"]
    assert list(owners.list_owners(memory, None)) == [{"project_id": "p"}]


@pytest.mark.requirement("scope.claimed")
def test_two_threads_that_claim_one_id_get_one_owner(memory: Engine) -> None:
    places = [Owner("P"), Owner("p")] * 4
    winners: list[Owner] = []

    def claim(place: Owner) -> None:
        try:
            owners.claim(memory, place)
        except Collision:
            return
        winners.append(place)

    threads = [threading.Thread(target=claim, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    join(*threads)
    assert len(set(winners)) == 1
    assert len(winners) == 4


@pytest.mark.requirement("scope.raw")
def test_any_name_round_trips(host: Inside) -> None:
    names = ["Probe Project!", "a/b%2F", "naïve ☃", " spaced ", "..", "\t", "x" * 256, "𝔘𝔫𝔦", "p__agent_a"]
    for name in names:
        host.put(scope(name), "k", name)
        host.put(scope("one", name, name), "k", name)
    assert [host.get(scope(name), "k")["value"] for name in names] == names
    assert host.scopes() == [each for name in names for each in (scope(name), scope("one", name, name))]


@pytest.mark.requirement("scope.limits")
@pytest.mark.parametrize("name", ["x" * 257, "a\0b", "\ud800"])
def test_a_name_that_cannot_be_kept_is_refused(host: Inside, name: str) -> None:
    for where in (scope(name), scope("p", name), scope("p", "a", name)):
        code, message, _ = host.error("memory/put", {"scope": where, "key": "k", "value": 1})
        assert code == INVALID
        assert message.startswith("scope: ")
        assert host.error("memory/get", {"scope": where, "key": "k"})[0] == INVALID
    assert host.scopes() == []


@pytest.mark.requirement("scope.limits")
def test_a_place_knows_its_limit() -> None:
    with pytest.raises(LimitExceeded):
        _ = Owner("x" * 257).scope
    assert Owner("p", "a", "t").scope == Scope("animus", "p", "a", "t")
