"""Names that lead elsewhere on Windows are known, and are not used there."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from pathlib import Path

import pytest

from cofio.library import AgentState, Message
from cofio.library.providers.file import FileCheckpointer
from cofio.system.folders import PathFolder
from cofio.system.windows_names import is_device, is_plain

DEVICES = ("con", "NUL", "nul.txt", "Aux.tar.gz", "com1", "LPT9.md", "com\u00b9", "CONIN$", "prn .x")
ELSEWHERE = ("..", ".", "", "..\\x", "a/b", "C:x", "C:", "a:stream", "a.", "a ", "a\nb", "a?", "*", "\0", *DEVICES)


def test_devices_are_known_by_name() -> None:
    assert all(map(is_device, DEVICES))
    assert not any(map(is_device, ("console", "con-1", "a.con", "nul_", "com10", "lpt", "icon")))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_folder_that_is_held_by_its_path_has_no_entry_of_such_a_name(tmp_path: Path, name: str) -> None:
    folder = PathFolder(tmp_path)
    assert not is_plain(name)
    with pytest.raises(OSError, match="takes") as refused:
        folder.open(name, os.O_WRONLY | os.O_CREAT)
    assert refused.value.errno == errno.EINVAL
    for call in (folder.enter, folder.stat, folder.make, folder.remove, folder.remove_folder):
        with pytest.raises(OSError, match="takes"):
            call(name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_thread_may_have_the_name_of_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)

    async def keep() -> None:
        checkpointer = FileCheckpointer(tmp_path)
        await checkpointer.save(AgentState(messages=(Message.user("hello"),)), "nul", "con")
        assert await checkpointer.load("nul", "con") is not None
        assert await checkpointer.list_threads() == ["nul"]

    asyncio.run(keep())
    assert os.listdir(tmp_path) == ["nul~" if platform == "win32" else "nul"]
