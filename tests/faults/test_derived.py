"""The word index and the vector codes may be torn, missing or another's: searches are right all the same, and they
are made anew."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import cofio.engine.background
from cofio import Engine, Query, Scope, Settings
from cofio.backends.sqlite import checksums, vector_codes
from cofio.embed.hashed import HashedEmbedder

from .children import WORDS, Nursery
from .scale import TORTURE

QUIET = Settings(embedder="none", background=False)
HERE = Scope("here")


def open_store(folder: Path) -> Engine:
    """The store in the folder, without background work."""
    return Engine.open(folder, settings=QUIET, embedder=HashedEmbedder())


def write(engine: Engine, numbers: Sequence[int]) -> None:
    """Write a record for each number."""
    for number in numbers:
        text = f"unique{number} {WORDS[number % len(WORDS)]} {WORDS[number // 3 % len(WORDS)]}"
        engine.write(HERE / f"s{number % 3}", id=f"r{number}", text=text, tags=("numbered",))


def verify(engine: Engine, numbers: Sequence[int], gone: Sequence[int] = (), *, fresh: Sequence[int] = ()) -> None:
    """Each record is found by its words and, unless it is too fresh, by its meaning; what is gone, by neither."""
    everything = (*numbers, *fresh)
    assert engine.count(HERE) == len(everything)
    for number in everything:
        hits = engine.search(Query(f"unique{number}", scope=HERE / f"s{number % 3}", mode="keyword", floor=0.0))
        assert [hit.record.id for hit in hits] == [f"r{number}"], number
    for number in everything[::9]:
        hits = engine.search(Query(f"unique{number}", scope=HERE / f"s{number % 3}", floor=0.0))
        assert hits[0].record.id == f"r{number}", number
    for number in gone:
        assert not engine.search(Query(f"unique{number}", mode="keyword", floor=0.0)), number
    for word in WORDS:
        expected = {f"r{n}" for n in everything if word in (WORDS[n % len(WORDS)], WORDS[n // 3 % len(WORDS)])}
        hits = engine.search(Query(word, scope=HERE, mode="keyword", floor=0.0, limit=1000))
        assert {hit.record.id for hit in hits} == expected
    near = engine.search(Query("unique", scope=HERE, mode="semantic", floor=0.0, limit=1000))
    found = {hit.record.id for hit in near}
    assert {f"r{number}" for number in numbers} <= found <= {f"r{number}" for number in everything}


def mended(engine: Engine) -> None:
    """Once the background work is done, nothing is wrong."""
    engine.settle()
    assert engine.check() == []


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vector codes go to a file as soon as there are ten."""
    monkeypatch.setattr(vector_codes, "TAIL", 10)


NUMBERS = tuple(range(80))
GONE = (3, 33, 50)
LEFT = tuple(number for number in NUMBERS if number not in GONE)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose index and codes are of several pieces, with deletes in them. Not to be changed."""
    folder = tmp_path_factory.mktemp("original") / "store"
    with pytest.MonkeyPatch.context() as patch, open_store(folder) as engine:
        patch.setattr(vector_codes, "TAIL", 10)
        patch.setattr(cofio.engine.background, "EMBED_BATCH", 100)
        patch.setattr(checksums, "WORTH_STORING", 1)
        for some in (NUMBERS[:64], NUMBERS[64:76], NUMBERS[76:]):
            write(engine, some)
            engine.settle()
        for number in GONE:
            engine.delete(f"r{number}")
        engine.settle()
        verify(engine, LEFT, GONE)
        assert engine.check() == []
    assert len(list((folder / "vectors").glob("*.codes"))) > 1
    assert len(list((folder / "index").glob("*/*.term"))) > 1
    return folder


@pytest.fixture
def copies(original: Path, tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Makes a copy of the original, instead of the one before."""

    def copy() -> Path:
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        return shutil.copytree(original, tmp_path / "store")

    yield copy
    shutil.rmtree(tmp_path / "store", ignore_errors=True)


def truncated(content: bytes, choose: random.Random) -> bytes:
    """The content, cut off."""
    return content[: choose.randrange(len(content))]


def emptied(content: bytes, choose: random.Random) -> bytes:
    """Nothing."""
    return b""


def zeroed(content: bytes, choose: random.Random) -> bytes:
    """The content with a piece of it, or all of it, zero."""
    start = choose.choice((0, choose.randrange(len(content))))
    end = min(len(content), start + choose.choice((16, 64, len(content))))
    return content[:start] + bytes(end - start) + content[end:]


def garbled(content: bytes, choose: random.Random) -> bytes:
    """The content with a piece in the middle replaced by noise."""
    start = choose.randrange(len(content) // 2)
    end = min(len(content), start + choose.choice((1, 64, len(content) // 3)))
    return content[:start] + bytes(byte ^ choose.randint(1, 255) for byte in content[start:end]) + content[end:]


DAMAGES = (truncated, emptied, zeroed, garbled)


def derived(store: Path) -> list[Path]:
    """The files of the word index and of the vector codes that hold something."""
    return sorted(file for file in store.glob("*/**/*") if file.is_file() and file.stat().st_size)


def plan(copies: Callable[[], Path], seed: int) -> Iterator[tuple[Path, Path, bytes]]:
    """A fresh copy for each of its derived files, with that file, and what is in it once it is damaged.

    Each file is damaged in one of the ways, and by COFIO_TORTURE in all of them, several times.
    """
    choose = random.Random(seed)
    for number in range(len(derived(copies()))):
        for damage in DAMAGES * 10 if TORTURE else [DAMAGES[(number + seed) % len(DAMAGES)]]:
            store = copies()
            file = derived(store)[number]
            yield store, file, damage(file.read_bytes(), choose)


def test_a_damaged_file_found_at_opening_is_no_error_and_is_made_anew(copies: Callable[[], Path]) -> None:
    for store, file, damaged in itertools.islice(plan(copies, 1), 0, None, 1 if TORTURE else 2):
        file.write_bytes(damaged)
        with open_store(store) as engine:
            verify(engine, LEFT, GONE)
            mended(engine)
            verify(engine, LEFT, GONE)


def test_a_file_replaced_by_a_damaged_one_while_open_is_no_error_and_is_made_anew(copies: Callable[[], Path]) -> None:
    for store, file, damaged in itertools.islice(plan(copies, 2), 0, None, 1 if TORTURE else 3):
        with open_store(store) as engine:
            verify(engine, LEFT, GONE)
            (store / "damaged").write_bytes(damaged)
            (store / "damaged").rename(file)
            verify(engine, LEFT, GONE)
            write(engine, range(100, 120))
            mended(engine)
            verify(engine, (*LEFT, *range(100, 120)), GONE)


def test_a_file_zeroed_in_place_while_open_is_no_error_and_is_made_anew(copies: Callable[[], Path]) -> None:
    choose = random.Random(3)
    for number in range(0, len(derived(copies())), 1 if TORTURE else 4):
        store = copies()
        with open_store(store) as engine:
            verify(engine, LEFT, GONE)
            file = derived(store)[number]
            content = zeroed(file.read_bytes(), choose)
            with open(file, "r+b") as opened:
                opened.write(content)
            # What is mapped into memory has changed: an answer may lack something now, but it is one.
            for each in LEFT[::4]:
                engine.search(Query(f"unique{each} {WORDS[each % len(WORDS)]}", scope=HERE))
            write(engine, range(100, 120))
            engine.settle()
            verify(engine, (*LEFT, *range(100, 120)), GONE)
            mended(engine)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("name", ["index", "vectors"])
def test_a_folder_that_is_deleted_is_made_anew(copies: Callable[[], Path], name: str, opened: bool) -> None:
    store = copies()
    if not opened:
        shutil.rmtree(store / name)
    with open_store(store) as engine:
        verify(engine, LEFT, GONE)
        shutil.rmtree(store / name, ignore_errors=True)
        verify(engine, LEFT, GONE)
        write(engine, range(100, 120))
        mended(engine)
        verify(engine, (*LEFT, *range(100, 120)), GONE)


def test_the_index_of_another_store_is_not_believed(copies: Callable[[], Path], tmp_path: Path) -> None:
    store, other = copies(), tmp_path / "other"
    with open_store(other) as engine:
        write(engine, range(1000, 1100))  # of the same numbers inside
        engine.settle()
    (ours,), (theirs,) = (store / "index").glob("words-*"), (other / "index").glob("words-*")
    shutil.rmtree(ours)
    theirs.rename(ours)
    for file, foreign in zip((store / "vectors").glob("*.codes"), (other / "vectors").glob("*.codes"), strict=False):
        foreign.replace(file)
    with open_store(store) as engine:
        verify(engine, LEFT, (*GONE, *range(1000, 1100)))
        mended(engine)


def test_a_database_put_back_beside_later_files_is_believed(copies: Callable[[], Path], tmp_path: Path) -> None:
    store = copies()
    shutil.copy(store / "memory.db", tmp_path / "earlier.db")
    with open_store(store) as engine:
        engine.edit("r5", text="edited away")
        engine.delete("r7")
        write(engine, range(2000, 2040))
        engine.settle()
    assert not (store / "memory.db-wal").exists()
    shutil.copy(tmp_path / "earlier.db", store / "memory.db")
    with open_store(store) as engine:
        # These get the numbers of the changes that were lost, with which the index is full.
        for number in range(100, 200):
            engine.write(HERE / f"s{number % 3}", id=f"r{number}", text=f"unique{number}")
        for number in (*LEFT, *range(100, 200)):
            hits = engine.search(Query(f"unique{number}", mode="keyword", floor=0.0))
            assert [hit.record.id for hit in hits] == [f"r{number}"]
        for number in range(2000, 2040):
            assert not engine.search(Query(f"unique{number}", mode="keyword", floor=0.0))
        assert not engine.search(Query("edited away", mode="keyword", floor=0.0))
        mended(engine)


def test_what_killed_processes_left_behind_is_swept(copies: Callable[[], Path]) -> None:
    store = copies()
    left = [store / "index" / "words-000000000000", store / "vectors" / "1-9-00000000.codes.tmp"]
    left[0].mkdir()
    left[1].write_bytes(b"half of a file")
    with open_store(store) as engine:
        verify(engine, LEFT, GONE)
        write(engine, range(100, 120))
        engine.settle()
        verify(engine, (*LEFT, *range(100, 120)), GONE)
    assert not any(each.exists() for each in left)


def test_when_the_process_that_indexes_hangs_writes_are_found_and_when_it_dies_another_goes_on(
    nursery: Nursery, copies: Callable[[], Path]
) -> None:
    store = copies()
    holder = nursery.fork("hold_lease", store=str(store))
    holder.listen(lambda: bool(holder.said))
    with open_store(store) as engine:
        write(engine, range(100, 120))
        assert engine.settle(limit=100) == 0
        assert engine.stats()["waiting_for_index"] == 20
        verify(engine, LEFT, GONE, fresh=range(100, 120))
        holder.kill()
        engine.settle()
        assert engine.stats()["waiting_for_index"] == 0
        verify(engine, (*LEFT, *range(100, 120)), GONE)
        assert engine.check() == []
