"""The power is cut at any moment: what was acknowledged is there, and at most the one change that was under way."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

from cofio import Draft, Engine, Query, Scope, Settings
from cofio.backends.sqlite import SqliteBackend, database, upkeep, vector_codes
from cofio.backends.upkeep_interface import Tidy

from .power import Event, Recorder, image
from .scale import scaled

QUIET = Settings(embedder="hashed", background=False)
HERE, THERE = Scope("here"), Scope("there")
State = dict[str, tuple[Scope, str]]


@dataclass(frozen=True, slots=True)
class Recording:
    """A piece of work on a store: each disk event, what held after each change, and where in the log it was."""

    sync: str
    log: list[Event]
    states: list[State]
    begun: list[int]
    acknowledged: list[int]
    derived: list[Path]
    """Copies of the index and vector files from different moments; the first is empty."""

    def allowed(self, cut: int) -> list[State]:
        """The states that a store may be in when the power is cut there."""
        sure = sum(place <= cut for place in self.acknowledged)
        under_way = sure < len(self.begun) and self.begun[sure] < cut
        return self.states[sure if self.sync == "full" else 0 : sure + 1 + under_way]


def record(folder: Path, sync: str) -> Recording:
    """Work on a new store and record it."""
    disk, choose = Recorder(), random.Random(1)
    made = Recording(sync, disk.log, [{}], [], [], [folder / "none"])
    made.derived[0].mkdir()

    @contextmanager
    def change(after: Mapping[str, tuple[Scope, str] | None]) -> Iterator[None]:
        made.begun.append(len(disk.log))
        yield
        made.acknowledged.append(len(disk.log))
        state = {**made.states[-1], **after}
        made.states.append({ref: holds for ref, holds in state.items() if holds is not None})

    with Engine(SqliteBackend(folder / "store", sync=sync, vfs=disk.name), settings=QUIET) as engine:
        for number in range(scaled(9, 20)):
            batch = [Draft(scope=THERE, id=f"b{number}n{n}", text=f"ub{number}n{n} {'x' * 3000}") for n in range(3)]
            with change({f"w{number}": (HERE, f"uw{number}")}):
                engine.write(HERE, id=f"w{number}", text=f"uw{number}")
            with change({str(each.id): (THERE, each.text) for each in batch}):
                engine.write_many(batch)
            with change({f"w{number}": (HERE, f"ue{number}")}):
                engine.edit(f"w{number}", text=f"ue{number}")
            gone = choose.choice(list(made.states[-1]))
            with change({gone: None}):
                engine.delete(gone)
            if number % 3 == 1:
                engine.settle()
                made.derived.append(folder / str(number))
                made.derived[-1].mkdir()
                for name in ("index", "vectors"):
                    shutil.copytree(folder / "store" / name, made.derived[-1] / name)
            if number % 4 == 3:
                engine._backend.upkeep(Tidy())
    return made


@pytest.fixture(scope="module", params=["full", "normal"])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Work on a store, recorded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "CHECKPOINT_PAGES", 120)
        patch.setattr(vector_codes, "TAIL", 4)
        patch.setattr(upkeep, "TRUNCATE_EVERY", 0.0)
        return record(tmp_path_factory.mktemp("recorded"), request.param)


def verify(recording: Recording, cut: int, choose: random.Random, folder: Path) -> None:
    """Cut the power there, and see what the next process finds; after a failure, the disk's image stays."""
    place = Path(mkdtemp(dir=folder))
    store, left = place / "store", place / "left"
    shutil.copytree(choose.choice(recording.derived), left)
    for name, content in image(recording.log, cut, choose).items():
        (left / name).write_bytes(content)
    shutil.copytree(left, store)
    try:
        verify_store(store, recording, recording.allowed(cut), choose.choice((0, 1, 80)))
    except Exception as error:
        error.add_note(f"The power was cut after {cut} of {len(recording.log)} events; the disk's image is {left}")
        raise
    shutil.rmtree(place)


def verify_store(store: Path, recording: Recording, allowed: list[State], later: int) -> None:
    """See that a store is in one of the states, and that its records, and no others, are found."""
    with Engine.open(store, settings=QUIET) as engine:
        found = {record.id: (record.scope, record.text) for record in engine.list(limit=10_000)}
        assert found in allowed
        # As many changes as were lost, or more: they get the numbers that an index from later knows others by.
        engine.write_many(Draft(scope=Scope("later"), text="after the cut") for _ in range(later))
        for record_id, (scope, text) in found.items():
            hits = engine.search(Query(text.split()[0], scope=scope, mode="keyword", floor=0.0))
            assert [hit.record.id for hit in hits] == [record_id]
        for gone in recording.states[-1].keys() - found.keys():
            assert not engine.search(Query(recording.states[-1][gone][1].split()[0], mode="keyword", floor=0.0))
        engine.settle()
        near = engine.search(Query("anything", mode="semantic", floor=0.0, limit=1000))
        assert {hit.record.id for hit in near} >= found.keys()
        assert engine.check() == []


@pytest.mark.usefixtures("wide")
def test_a_power_cut_before_or_after_any_sync_keeps_what_was_acknowledged(recording: Recording, tmp_path: Path) -> None:
    choose = random.Random(2)
    syncs = [place for place, event in enumerate(recording.log) if event.what == "sync"]
    assert len(syncs) > 10
    for place in syncs:
        for _ in range(scaled(1, 4)):
            verify(recording, place, choose, tmp_path)
            verify(recording, place + 1, choose, tmp_path)


@pytest.mark.parametrize("seed", range(scaled(4, 400)))
def test_a_power_cut_at_any_moment_keeps_what_was_acknowledged(recording: Recording, tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(25):
        verify(recording, choose.randint(0, len(recording.log)), choose, tmp_path)
