"""Checkpoints in files: whole or not there, under names that never meet."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.library.messages import Message
from cofio.library.providers.file import FileCheckpointer
from cofio.library.providers.named_files import decode_name, encode_name
from cofio.library.state import AgentState
from cofio.system import atomic_files
from cofio.values.errors import Invalid, Unavailable

from ...conftest import Clock
from .test_contract import HOSTILE, said

pytestmark = pytest.mark.anyio

WRITER = """
import asyncio, sys
from cofio.library.messages import Message
from cofio.library.providers.file import FileCheckpointer
from cofio.library.state import AgentState

async def main() -> None:
    checkpointer = FileCheckpointer(sys.argv[1])
    print("ready", flush=True)
    for number in range(int(sys.argv[3])):
        state = AgentState(messages=(Message.user(f"{sys.argv[2]} {number} " + "x" * 200_000),))
        print(await checkpointer.save(state, "thread", f"{sys.argv[2]}-{number}"), flush=True)

asyncio.run(main())
"""


def files(folder: Path) -> list[Path]:
    """Every file below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def writer(folder: Path, name: str, number: int) -> subprocess.Popen[str]:
    """A process that saves so many checkpoints, and names each that it has saved."""
    command = [sys.executable, "-c", WRITER, str(folder), name, str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.requirement("file.document")
async def test_a_file_is_a_document_that_people_can_read(tmp_path: Path) -> None:
    state = said("hello")
    for pretty in (True, False):
        checkpointer = FileCheckpointer(tmp_path / str(pretty), pretty)
        await checkpointer.save(state, "thread-1", "first", {"step": 1})
        (path,) = files(checkpointer.base_dir)
        assert path.parent == tmp_path / str(pretty) / "thread-1"
        assert path.name.split(".")[1:] == ["first", "json"]
        text = path.read_text("utf-8")
        assert ("\n" in text) is pretty
        document = json.loads(text)
        assert [*document] == ["checkpoint_id", "thread_id", "created_at", "state", "metadata"]
        assert document["checkpoint_id"] == "first"
        assert document["thread_id"] == "thread-1"
        assert document["metadata"] == {"step": 1}
        assert AgentState.from_checkpoint(document["state"]) == state
        assert (await checkpointer.list_with_metadata())[0]["created_at"] == document["created_at"]


@pytest.mark.requirement("file.defaults")
async def test_it_starts_in_a_folder_of_its_own_and_makes_it_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpointer = FileCheckpointer()
    assert checkpointer.base_dir == checkpointer.get_storage_path() == Path(".cofio_checkpoints")
    assert checkpointer.pretty is True
    assert repr(checkpointer) == f"FileCheckpointer(base_dir={Path('.cofio_checkpoints')!r})"
    assert await checkpointer.load("t") is None
    assert await checkpointer.list_threads() == []
    assert await checkpointer.get_disk_usage() == await checkpointer.get_disk_usage("t") == 0
    assert await checkpointer.vacuum() == 0
    assert [*tmp_path.iterdir()] == []
    await checkpointer.save(said("a"), "t")
    await checkpointer.save(said("b"), "u")
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert await checkpointer.get_disk_usage() == sum(sizes)
    assert await checkpointer.get_disk_usage("t") in sizes


@pytest.mark.requirement("file.atomic")
@pytest.mark.usefixtures("process")
async def test_a_process_killed_while_it_writes_leaves_no_torn_file(tmp_path: Path) -> None:
    process = writer(tmp_path / "kept", "w", 100_000)
    assert process.stdout
    process.stdout.readline()
    saved = [process.stdout.readline().strip() for _ in range(12)]
    process.send_signal(signal.SIGKILL)
    saved += process.stdout.read().split()
    process.stdout.close()
    process.wait(60)
    checkpointer = FileCheckpointer(tmp_path / "kept")
    listed = await checkpointer.list_checkpoints("thread", limit=1_000_000)
    # What was acknowledged is there; the one at hand may be there too, but then whole.
    assert len(saved) <= len(listed) <= len(saved) + 1
    assert listed[-len(saved) :] == saved[::-1]
    for each in listed:
        loaded = await checkpointer.load("thread", each)
        assert loaded is not None
        assert loaded.messages[0].content == f"w {each.removeprefix('w-')} " + "x" * 200_000
    assert await checkpointer.load("thread") is not None


@pytest.mark.requirement("file.atomic")
@pytest.mark.parametrize("broken", ["fsync", "replace", "write"])
async def test_a_save_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    checkpointer = FileCheckpointer(tmp_path)
    before = said("before")
    await checkpointer.save(before, "t", "c")
    there = files(tmp_path)
    with monkeypatch.context() as patched:
        if broken == "write":
            patched.setattr(atomic_files, "open", fail, raising=False)
        else:
            patched.setattr(os, broken, fail)
        for name in ("c", "d", None):
            with pytest.raises(OSError, match="No space"):
                await checkpointer.save(said("after"), "t", name)
    assert files(tmp_path) == there
    assert await checkpointer.load("t") == before
    assert await checkpointer.list_checkpoints("t") == ["c"]


@pytest.mark.requirement("file.atomic")
async def test_a_crash_between_writing_and_taking_the_old_one_away_leaves_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = FileCheckpointer(tmp_path)
    await checkpointer.save(said("old"), "t", "c")
    await checkpointer.save(said("other"), "t", "d")
    new = said("new")
    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpointer, "_erase", _crash)
        with pytest.raises(InterruptedError):
            await checkpointer.save(new, "t", "c")
    assert len(files(tmp_path)) == 3
    assert await checkpointer.list_checkpoints("t") == ["c", "d"]
    assert await checkpointer.load("t", "c") == new
    assert [each["checkpoint_id"] for each in await checkpointer.list_with_metadata()] == ["c", "d"]
    # Stopped while it deletes, the old one does not come back.
    erased: list[str] = []
    whole = FileCheckpointer._erase

    def once(self: FileCheckpointer, folder: str, name: str) -> bool:
        if erased:
            raise InterruptedError
        erased.append(name)
        return whole(self, folder, name)

    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpointer, "_erase", once)
        with pytest.raises(InterruptedError):
            await checkpointer.delete("t", "c")
    assert await checkpointer.load("t", "c") == new
    assert await checkpointer.delete("t", "c") is True
    assert await checkpointer.load("t", "c") is None


def _crash(*_: object) -> bool:
    raise InterruptedError


@pytest.mark.requirement("file.leftovers", "names.foreign")
async def test_unfinished_and_foreign_files_hide_nothing_and_old_leftovers_are_swept(tmp_path: Path) -> None:
    clock = Clock()
    checkpointer = FileCheckpointer(tmp_path, clock=clock)
    await checkpointer.save(mine := said("mine"), "t", "c")
    for name in (
        "half.part", "notes.txt", "c.json", ".DS_Store", "0-notes.json", "0" * 32 + ".json", "0.c.json", "00.json",
    ):  # fmt: skip
        (tmp_path / "t" / name).write_text("{}")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "half.part").write_text("{")
    for path in tmp_path.rglob("*.part"):
        os.utime(path, (clock.now.timestamp(),) * 2)
    assert await checkpointer.list_checkpoints("t") == ["c"]
    assert await checkpointer.list_threads() == ["t"]
    assert await checkpointer.load("t") == mine
    assert await checkpointer.exists("t") is True
    assert await checkpointer.vacuum() == 0
    assert len([*tmp_path.rglob("*.part")]) == 2  # someone may be writing them
    clock.advance(2 * 86_400)
    assert await checkpointer.vacuum() == 0
    assert [*tmp_path.rglob("*.part")] == []
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "t" / "notes.txt").exists()
    await checkpointer.save(said("other"), "u", "c")
    with pytest.raises(Invalid, match="dest_thread_id"):
        await checkpointer.copy_thread("u", "t")
    assert await checkpointer.load("t", "c") == mine
    newest = await checkpointer.save(said("newer"), "t")
    assert await checkpointer.list_checkpoints("t") == [newest, "c"]


@pytest.mark.requirement("names.listings")
async def test_vacuum_and_copy_list_a_folder_a_fixed_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, listings = Clock(), list[str | None]()
    listing = FileCheckpointer._names

    def counted(self: FileCheckpointer, folder: str | None, few: int | None) -> Iterator[tuple[str, str]]:
        listings.append(folder)
        return listing(self, folder, few)

    checkpointer = FileCheckpointer(tmp_path, clock=clock)
    for number in range(20):
        await checkpointer.save(said(f"{number}"), "t", f"{number}")
    monkeypatch.setattr(FileCheckpointer, "_names", counted)
    assert await checkpointer.copy_thread("t", "u") is True
    assert len(listings) <= 2
    clock.advance(40 * 86_400)
    await checkpointer.save(said("new"), "t", "3")
    listings.clear()
    assert await checkpointer.vacuum() == 39
    assert len(listings) <= 2
    assert await checkpointer.list_checkpoints("t") == ["3"]


@pytest.mark.requirement("file.damage")
async def test_a_file_that_someone_damaged_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    checkpointer = FileCheckpointer(tmp_path)
    await checkpointer.save(said("x"), "t", "good")
    for content in (b"", b"{", b"[]", b"{}", b"\xff", b'{"state": 1}'):
        await checkpointer.save(said("x"), "t", "bad")
        next(path for path in files(tmp_path) if ".bad." in path.name).write_bytes(content)
        with pytest.raises(Unavailable, match=r"t/[0-9a-f]+\.bad\.json is no checkpoint"):
            await checkpointer.load("t")
        assert await checkpointer.list_checkpoints("t") == ["bad", "good"]
        assert await checkpointer.load("t", "good") is not None
        assert await checkpointer.delete("t", "bad") is True
        assert await checkpointer.load("t") is not None


@pytest.mark.requirement("file.names")
async def test_no_id_leads_out_of_the_folder_or_to_the_name_of_another(tmp_path: Path) -> None:
    ids = [*HOSTILE, "Ab", "aB", "x" * 160, "x" * 161, "X" * 1024, "a~b", "t.json", ".hidden", "x" * 299 + "y"]
    names = [encode_name(each) for each in ids]
    assert len({name.casefold() for name in names}) == len(set(ids)) == len(ids)
    for each, name in zip(ids, names, strict=True):
        assert len(name) <= 160
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_%~")
        assert decode_name(name) in (each, None)
        assert (decode_name(name) is None) == (len(name) > 140 and "~" in name)
    inner = tmp_path / "outer" / "inner"
    checkpointer = FileCheckpointer(inner)
    for each in ids:
        await checkpointer.save(said("x"), each, each)
    assert {path.parent.parent for path in files(tmp_path)} == {inner}
    assert len(files(tmp_path)) == len(ids)
    assert await checkpointer.list_threads(limit=1000) == ids[::-1]


@pytest.mark.requirement("file.clock")
async def test_a_clock_that_stands_or_goes_back_does_not_change_the_order(tmp_path: Path) -> None:
    clock = Clock()
    for step in (0, 0, -3600, 0, 7200, -1):
        clock.advance(step)
        checkpointer = FileCheckpointer(tmp_path, clock=clock)  # as another process would
        await checkpointer.save(said("x"), "t", f"{len(files(tmp_path))}")
    assert await FileCheckpointer(tmp_path).list_checkpoints("t") == ["5", "4", "3", "2", "1", "0"]


@pytest.mark.requirement("file.processes")
@pytest.mark.usefixtures("process")
async def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    for process in [writer(tmp_path, name, 10) for name in "abc"]:
        process.communicate(timeout=60)
        assert process.returncode == 0
    listed = await FileCheckpointer(tmp_path).list_checkpoints("thread", limit=100)
    assert len(listed) == 30
    for name in "abc":
        assert [each for each in listed if each[0] == name] == [f"{name}-{n}" for n in range(9, -1, -1)]
    one, two = FileCheckpointer(tmp_path), FileCheckpointer(tmp_path)
    saving = [one.save(said(f"{n}"), "t", f"{n}") for n in range(40)]
    deleting = [two.delete("t") for _ in range(40)]
    loading = [two.load("t") for _ in range(20)]
    await asyncio.gather(*(each for pair in zip(saving, deleting, strict=True) for each in pair), *loading)
    await one.save(said("last"), "t", "last")
    assert (await two.list_checkpoints("t"))[0] == "last"


@pytest.mark.requirement("file.bad-folder")
async def test_a_folder_that_cannot_be_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    checkpointer = FileCheckpointer(tmp_path / "taken")
    with pytest.raises(OSError, match="taken"):
        await checkpointer.save(AgentState(messages=(Message.user("x"),)), "t")
    with pytest.raises(OSError, match="taken"):
        await checkpointer.load("t")
    assert (tmp_path / "taken").read_text() == "a file"
