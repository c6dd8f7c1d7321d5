"""Two machines on one store whose clocks differ: by minutes, and the store's time does not go back; by hours, and the
one that is behind is taken to have been put right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofio import Engine, NotFound, Query, Record, Scope
from cofio.backends.interface import Backend
from cofio.checkpoints.checkpoints import Checkpoints

from ..tiers import scale_examples

DEMO = Scope("demo")
MINUTE, HOUR = 60.0, 3600.0
SLACK = timedelta(minutes=5)
"""By so much a clock may be behind the last change, and the store's time still does not go back."""


class Clocks:
    """A clock that says another time on each machine: that of the machine whose turn it is."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.ahead = [0.0, 0.0]
        self.turn = 0

    def __call__(self) -> datetime:
        return self.time + timedelta(seconds=self.ahead[self.turn])

    def advance(self, seconds: float) -> None:
        """Let time pass on every machine."""
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clocks:
    """The clocks of both machines."""
    return Clocks()


@dataclass
class Machines:
    """Two engines; each acts by its own clock."""

    clock: Clocks
    engines: list[Engine]

    def on(self, machine: int) -> Engine:
        """The engine of a machine, whose turn it now is."""
        self.clock.turn = machine
        return self.engines[machine]


@pytest.fixture
def machines(memory: Engine, reopen: Callable[..., Engine], clock: Clocks) -> Machines:
    """The second machine's clock is four minutes ahead."""
    clock.ahead = [0.0, 4 * MINUTE]
    return Machines(clock, [memory, reopen()])


def test_what_has_expired_by_the_later_clock_is_gone_for_both_once_it_has_written(machines: Machines) -> None:
    doomed = machines.on(0).put(DEMO, "k", text="walrus", ttl=MINUTE)
    lasting = machines.on(0).write(DEMO, text="walrus of long standing", ttl=5 * MINUTE)
    machines.on(1).write(DEMO, text="something else")
    for machine in (0, 1, 0):
        engine = machines.on(machine)
        with pytest.raises(NotFound):
            engine.read(doomed.id)
        assert engine.get(DEMO, "k") is None
        assert [hit.record for hit in engine.search(Query("walrus", mode="keyword"))] == [lasting]
        assert {record.id for record in engine.export()} == {record.id for record in engine.list()}
        assert engine.count() == 2
    again = machines.on(0).put(DEMO, "k", text="walrus anew", if_version=0)
    assert again.version == 1
    assert machines.on(1).read(again.id) == again


@pytest.mark.parametrize("apart", [4 * MINUTE, 7 * HOUR])
def test_all_that_lasts_is_there_for_both_in_the_order_in_which_it_was_written(
    machines: Machines, apart: float
) -> None:
    machines.clock.ahead = [0.0, apart]
    written: list[Record] = []
    for number in range(12):
        machines.clock.advance(1)
        written.append(machines.on(number % 2).write(DEMO, text=f"walrus {number}"))
    edited = machines.on(0).edit(written.pop(0).id, text="walrus edited")
    written.append(edited)
    if apart < SLACK.total_seconds():
        assert [record.updated_at for record in written] == sorted(record.updated_at for record in written)
    for machine in (0, 1, 0):
        engine = machines.on(machine)
        assert engine.list() == written[::-1]
        assert list(engine.export()) == written
        assert len(engine.search(Query("walrus", mode="keyword", limit=20))) == 12
        engine.settle()
        engine.purge()
        assert engine.check() == []
    assert edited.version == 2


def test_a_checkpoint_lasts_alike(
    open_backend: Callable[[], Backend], reopen: Callable[..., Engine], clock: Clocks
) -> None:
    clock.ahead = [0.0, 4 * MINUTE]
    early, late = Checkpoints(open_backend()), Checkpoints(open_backend())
    early.save("library", "t", "doomed", {"n": 1}, ttl=MINUTE)
    early.save("library", "t", "lasting", {"n": 2}, ttl=5 * MINUTE)
    clock.turn = 1
    late.save("library", "t", "new", {"n": 3})
    reopen().write(DEMO, text="the time")
    for turn, each in ((0, early), (1, late)):
        clock.turn = turn
        assert each.load("library", "t", "doomed") is None
        lasting = each.load("library", "t", "lasting")
        assert lasting is not None
        assert lasting.state == {"n": 2}
        assert {row.id for row in each.list("library", "t")} == {"lasting", "new"}


acts = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from([None, 10.0, 3 * MINUTE, HOUR, 5 * HOUR]),
        st.sampled_from([1.0, 2 * MINUTE, HOUR / 2]),
    ),
    min_size=2, max_size=10,
)  # fmt: skip


@settings(max_examples=scale_examples(50))
@given(ahead=st.floats(-4 * MINUTE, 4 * MINUTE) | st.floats(-12 * HOUR, 12 * HOUR), acts=acts)
def test_whoever_looks_sees_what_lasts_by_the_time_of_the_store(
    machines: Machines, ahead: float, acts: list[tuple[int, float | None, float]]
) -> None:
    def now() -> datetime:
        """The time of the store for whose turn it is."""
        own = machines.clock()
        return store if own < store <= own + SLACK else own

    machines.on(0).drop(DEMO)
    machines.clock.time += timedelta(days=2)  # past where the store came in the last example
    machines.clock.ahead = [0.0, ahead]
    store = datetime.min.replace(tzinfo=UTC)
    model: dict[str, datetime | None] = {}
    for machine, ttl, seconds in acts:
        record = machines.on(machine).write(DEMO, text=f"n{len(model)}", ttl=ttl)
        store = now()
        assert record.updated_at == store
        model[record.id] = None if ttl is None else store + timedelta(seconds=ttl)
        machines.clock.advance(seconds)
        for reader in (0, 1):
            there = {each.id for each in machines.on(reader).list(DEMO, limit=100)}
            assert there == {each for each, ends in model.items() if ends is None or ends > now()}
