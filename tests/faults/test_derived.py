"""The word index and the vector codes may be torn, missing or another's: searches are right all the same, and they
are made anew."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import cofio.engine.background
from cofio import Engine, Query, Scope, Settings
from cofio.backends.sqlite import checksums, vector_codes
from cofio.backends.sqlite.checksums import MOST_CACHED, Soundness
from cofio.embed.hashed import HashedEmbedder

from .children import WORDS, Nursery
from .scale import scaled

QUIET = Settings(embedder="none", background=False)
HERE = Scope("here")


class Other(HashedEmbedder):
    """An embedder whose vectors are like the hashed ones, under another name."""

    @property
    def id(self) -> str:
        """Its name."""
        return "other-384"


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


Damage = Callable[[bytes, random.Random], bytes]
DAMAGES = (truncated, emptied, zeroed, garbled)


def derived(store: Path) -> list[Path]:
    """The files of the word index and of the vector codes that hold something."""
    return sorted(file for file in store.glob("*/**/*") if file.is_file() and file.stat().st_size)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_found_at_opening_is_no_error_and_is_made_anew(
    copies: Callable[[], Path], damage: Damage
) -> None:
    choose = random.Random(1)
    for number in range(len(derived(copies()))):
        for _ in range(scaled(1, 20)):
            store = copies()
            file = derived(store)[number]
            file.write_bytes(damage(file.read_bytes(), choose))
            with open_store(store) as engine:
                verify(engine, LEFT, GONE)
                mended(engine)
                verify(engine, LEFT, GONE)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_replaced_by_a_damaged_one_while_open_is_no_error_and_is_made_anew(
    copies: Callable[[], Path], damage: Damage
) -> None:
    choose = random.Random(2)
    for number in range(DAMAGES.index(damage), len(derived(copies())), scaled(4, 1)):
        store = copies()
        with open_store(store) as engine:
            verify(engine, LEFT, GONE)
            file = derived(store)[number]
            (store / "damaged").write_bytes(damage(file.read_bytes(), choose))
            (store / "damaged").rename(file)
            verify(engine, LEFT, GONE)
            write(engine, [100])
            verify(engine, LEFT, GONE, fresh=[100])
            engine.settle()
            verify(engine, (*LEFT, 100), GONE)
            write(engine, range(101, 120))
            mended(engine)
            verify(engine, (*LEFT, *range(100, 120)), GONE)


def test_a_file_zeroed_in_place_while_open_is_no_error_and_is_made_anew(copies: Callable[[], Path]) -> None:
    choose = random.Random(3)
    for number in range(len(derived(copies()))):
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


@pytest.mark.parametrize("name", ["index", "vectors"])
@pytest.mark.parametrize("opened", [False, True], ids=["before", "while-open"])
def test_a_folder_that_is_deleted_is_made_anew(copies: Callable[[], Path], name: str, opened: bool) -> None:
    store = copies()
    if not opened:
        shutil.rmtree(store / name)
    with open_store(store) as engine:
        verify(engine, LEFT, GONE)
        shutil.rmtree(store / name, ignore_errors=True)
        verify(engine, LEFT, GONE)
        write(engine, [100])
        verify(engine, LEFT, GONE, fresh=[100])
        engine.settle()
        verify(engine, (*LEFT, 100), GONE)
        write(engine, range(101, 120))
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


@pytest.mark.parametrize("writes", [0, 1, 500])
def test_a_database_put_back_beside_later_files_is_believed(
    copies: Callable[[], Path], tmp_path: Path, writes: int
) -> None:
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
        for number in range(100, 100 + writes):
            engine.write(HERE / f"s{number % 3}", id=f"r{number}", text=f"unique{number}")
        for number in (*LEFT, *range(100, 100 + writes)):
            hits = engine.search(Query(f"unique{number}", mode="keyword", floor=0.0))
            assert [hit.record.id for hit in hits] == [f"r{number}"]
        for number in range(2000, 2040):
            assert not engine.search(Query(f"unique{number}", mode="keyword", floor=0.0))
        assert not engine.search(Query("edited away", mode="keyword", floor=0.0))
        mended(engine)


@pytest.mark.parametrize("name", ["index", "vectors"])
def test_an_older_copy_that_is_put_back_beside_the_database_is_brought_up_to_date(
    copies: Callable[[], Path], tmp_path: Path, name: str
) -> None:
    store = copies()
    shutil.copytree(store / name, tmp_path / "older")
    with open_store(store) as engine:
        write(engine, range(100, 160))
        engine.delete("r100")
        engine.settle()
        shutil.rmtree(store / name)
        shutil.copytree(tmp_path / "older", store / name)
        verify(engine, (*LEFT, *range(101, 160)), (*GONE, 100))
    shutil.rmtree(store / name)
    shutil.copytree(tmp_path / "older", store / name)
    with open_store(store) as engine:
        verify(engine, (*LEFT, *range(101, 160)), (*GONE, 100))
        mended(engine)
        verify(engine, (*LEFT, *range(101, 160)), (*GONE, 100))


def test_vector_codes_that_are_swapped_between_embedders_are_not_believed(copies: Callable[[], Path]) -> None:
    store = copies()
    ours = max((store / "vectors").glob("*.codes"), key=lambda file: file.stat().st_size)
    others = set((store / "vectors").glob("*.codes"))
    with Engine.open(store, settings=QUIET, embedder=Other()) as engine:
        engine.settle()
    theirs = max({*(store / "vectors").glob("*.codes")} - others, key=lambda file: file.stat().st_size)
    content = ours.read_bytes()
    ours.write_bytes(theirs.read_bytes())
    theirs.write_bytes(content)
    for embedder in (HashedEmbedder(), Other()):
        with Engine.open(store, settings=QUIET, embedder=embedder) as engine:
            verify(engine, LEFT, GONE)
            engine.settle()
            verify(engine, LEFT, GONE)
    with open_store(store) as engine:
        assert engine.check() == []


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


def test_a_commit_of_the_index_that_was_killed_does_not_block_the_next(
    copies: Callable[[], Path], tmp_path: Path
) -> None:
    store = copies()
    shutil.copytree(store, tmp_path / "other")
    with open_store(tmp_path / "other") as engine:
        engine.delete("r5")
        engine.settle()
    (theirs,), (ours,) = (tmp_path / "other" / "index").glob("words-*"), (store / "index").glob("words-*")
    # All that a commit writes before it replaces meta.json, which is what makes it one.
    for file in theirs.iterdir():
        if file.name != "meta.json" and not (ours / file.name).exists():
            shutil.copy(file, ours)
    shutil.copy(theirs / ".managed.json", ours)
    with open_store(store) as engine:
        verify(engine, LEFT, GONE)
        engine.delete("r5")
        engine.settle()
        assert engine.stats()["waiting_for_index"] == 0
        verify(engine, [number for number in LEFT if number != 5], (*GONE, 5))
        assert engine.check() == []


@pytest.mark.parametrize(
    "garbled", ["", "{", "[]", "5", '{"x": 5}', '{"x": [1e999, 1]}', '{"x": ["a", 1]}', "[" * 100_000]
)
def test_a_garbled_note_of_what_is_sound_is_no_error(tmp_path: Path, garbled: str) -> None:
    record = tmp_path / "sound.json"
    record.write_text(garbled)
    assert Soundness(record)._load() == {}


def test_what_is_known_of_files_that_came_and_went_is_forgotten(tmp_path: Path) -> None:
    sound = Soundness(tmp_path / "sound.json")
    for number in range(3 * MOST_CACHED):
        file = tmp_path / f"{number}.term"
        file.write_bytes(b"x")
        assert sound.holds([file], lambda _: True)
        file.unlink()
    assert sound._cached is not None
    assert len(sound._cached) <= MOST_CACHED
