"""Scopes: how their ids are made, and that no two of them are ever one."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Change, Engine, Kind, Settings
from cofio.doors.animus import owners
from cofio.doors.animus.owners import Collision, Owner, normalize
from cofio.values.scopes import ANIMUS_OWNERS

from ...tiers import scale_examples
from .conftest import Inside, scope


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
def test_an_id_is_made_of_the_normalised_names() -> None:
    assert Owner("Alpha").id == "proj_alpha"
    assert Owner("Alpha", "A 1").id == "proj_alpha__agent_a-1"
    whole = Owner("Project With Spaces!", "Researcher-α", "TASK-1")
    assert whole.id == "proj_project-with-spaces__agent_researcher__task_task-1"


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
@settings(max_examples=scale_examples(25))
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


@pytest.mark.requirement("scope.raw")
def test_any_name_round_trips(host: Inside) -> None:
    names = ["Probe Project!", "a/b%2F", "naïve ☃", " spaced ", "..", "\t", "x" * 256, "𝔘𝔫𝔦", "p__agent_a"]
    for name in names:
        host.put(scope(name), "k", name)
        host.put(scope("one", name, name), "k", name)
    assert [host.get(scope(name), "k")["value"] for name in names] == names
    assert host.scopes() == [each for name in names for each in (scope(name), scope("one", name, name))]
