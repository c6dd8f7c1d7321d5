"""A process may be killed at any moment: what it acknowledged is there, readable and found, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from cofio import Engine, Hit, NotFound, Query, Scope, Settings

from .children import WORDS, Child, Holds, Known, Nursery
from .scale import scaled

QUIET = Settings(embedder="hashed", background=False)
STORES = scaled(2, 200)
KILLS = 25  # of each store
AT_OPENING = scaled(8, 1000)  # two kills each
IN_COMPANY = scaled(10, 2000)
IN_REINDEXING = scaled(5, 1000)


class Ledger:
    """What the writers acknowledged, and so what a store must hold."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.known: Known = {}
        self.dead: list[str] = []

    def close(self, engine: Engine, writer: Child) -> None:
        """Take over what a dead writer acknowledged, and find out about the one change that it may have made."""
        changes = [said["will"] for said in writer.said if "will" in said]
        acknowledged = sum("did" in said for said in writer.said)
        assert len(changes) - acknowledged in (0, 1)
        for will in changes[:acknowledged]:
            self._hold(will)
        for will in changes[acknowledged:]:
            before = {ref: self.known.get(ref) for ref in will}
            holds = {ref: look_up(engine, ref) for ref in will}
            assert holds in (will, before), "a change was made in part"
            self._hold(holds)

    def _hold(self, changed: Mapping[str, Holds | None]) -> None:
        for ref, holds in changed.items():
            before = self.known.pop(ref, None)
            if holds is not None:
                self.known[ref] = holds
            if before is not None and (holds is None or holds[1] != before[1]):
                self.dead.append(unique(before[1]))

    def verify(self, engine: Engine, most: int) -> None:
        """Hold the store against the ledger: `most` of what should hold, and the last that should not."""
        assert engine.count() == len(self.known)
        for ref in self.choose.sample(sorted(self.known), min(most, len(self.known))):
            names, text = self.known[ref]
            assert look_up(engine, ref) == [names, text]
            assert [hit.record.text for hit in found(engine, unique(text), Scope(*names))] == [text], text
        for word in self.dead[-20:]:
            assert found(engine, word) == [], word

    def verify_all(self, engine: Engine) -> None:
        """Hold the store against the ledger, whole, and its indexes against what they would be if made anew."""
        engine.settle()
        self.verify(engine, len(self.known))
        assert engine.check() == []
        before = answers(engine)
        engine.reindex()
        assert answers(engine) == before
        self.verify(engine, len(self.known))
        assert engine.check() == []


def answers(engine: Engine) -> list[set[str]]:
    """The ids that a few searches by words and by meaning find."""
    near = [engine.search(Query(f"{word} unique", mode="semantic", limit=20, floor=0.0)) for word in WORDS]
    return [{hit.record.id for hit in hits} for hits in (*near, *(found(engine, word) for word in (*WORDS, "edited")))]


def look_up(engine: Engine, ref: str) -> Holds | None:
    """The scope and text of an id or scope#key, as a writer tells of them."""
    path, _, key = ref.partition("#")
    try:
        record = engine.get(Scope(*path.split("/")), key) if key else engine.read(ref)
    except NotFound:
        return None
    return None if record is None else [list(record.scope.names), record.text]


def unique(text: str) -> str:
    """The word that no other text has."""
    return text.split()[-1]


def found(engine: Engine, word: str, scope: Scope = Scope()) -> list[Hit]:  # noqa: B008  # a value
    """What a search for a word finds."""
    return list(engine.search(Query(word, scope=scope, mode="keyword", limit=1000, floor=0.0)))


def kill(child: Child, choose: random.Random) -> None:
    """Kill the child at a moment after it first acknowledged something: mostly soon, at times later."""
    child.listen(lambda: any("did" in said for said in child.said))
    child.listen(seconds=choose.uniform(0, choose.choice((0.002, 0.02, 0.06, 0.06, 0.06, 0.2))))
    child.kill()


@pytest.mark.parametrize("seed", range(STORES))
def test_a_killed_writer_loses_nothing_that_it_acknowledged(nursery: Nursery, tmp_path: Path, seed: int) -> None:
    ledger = Ledger(seed)
    for number in range(KILLS):
        writer = nursery.fork("write_at_random", store=str(tmp_path), seed=seed * KILLS + number, known=ledger.known)
        kill(writer, ledger.choose)
        with Engine.open(tmp_path, settings=QUIET) as engine:
            ledger.close(engine, writer)
            ledger.verify(engine, 40)
            if number % 3 == 1:
                engine.settle()
                assert engine.stats()["waiting_for_index"] == engine.stats()["waiting_for_vectors"] == 0
                assert engine.check() == []
            if number % 6 == 5:
                ledger.verify_all(engine)


def test_a_process_killed_while_it_opens_a_store_leaves_one_that_opens(nursery: Nursery, tmp_path: Path) -> None:
    choose = random.Random(0)
    for number in range(AT_OPENING):
        store = tmp_path / str(number)
        for again in range(2):
            writer = nursery.fork("write_at_random", store=str(store), seed=2 * number + again, known={})
            writer.listen(seconds=choose.uniform(0, 0.012))
            writer.kill()
        with Engine.open(store, settings=QUIET) as engine:
            made = engine.write(Scope("a"), text="afterthought")
            assert [hit.record.id for hit in found(engine, "afterthought")] == [made.id]
            engine.settle()
            assert engine.check() == []


def test_processes_that_stay_see_all_that_a_killed_one_acknowledged(nursery: Nursery, tmp_path: Path) -> None:
    ledger = Ledger(1)
    with Engine.open(tmp_path, settings=QUIET) as engine:
        for number in range(IN_COMPANY):
            writer = nursery.fork("write_at_random", store=str(tmp_path), seed=number, known=ledger.known)
            kill(writer, ledger.choose)
            ledger.close(engine, writer)
            ledger.verify(engine, 40)
            if number % 3 == 1:
                engine.settle()
            if number % 10 == 9:
                ledger.verify_all(engine)


@pytest.mark.parametrize("job", ["reindex", "scrub"])
def test_a_kill_while_the_indexes_are_made_anew_hides_nothing(nursery: Nursery, tmp_path: Path, job: str) -> None:
    ledger = Ledger(2)
    writer = nursery.fork("write_at_random", store=str(tmp_path), seed=0, known={})
    writer.listen(lambda: len(writer.said) > 400)
    writer.kill()
    for number in range(IN_REINDEXING):
        child = nursery.fork(job, store=str(tmp_path), seed=number)
        child.listen(lambda child=child: bool(child.said))  # type: ignore[misc]  # bound now, not when it is called
        child.listen(seconds=ledger.choose.uniform(0, 0.1 if job == "reindex" else 0.6))
        child.kill()
        with Engine.open(tmp_path, settings=QUIET) as engine:
            if number == 0:
                ledger.close(engine, writer)
            ledger.verify(engine, 40)
            if number % 5 == 4:
                engine.settle()
                ledger.verify_all(engine)
