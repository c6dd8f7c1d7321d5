"""Real shells complete the command line: commands, options, kinds, and what is in the memory."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cofio.doors.cli.completion import SETUP

from .conftest import Cofio

TIMEOUT = 60  # seconds at most that a shell has to show something
START = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        "bind 'set bell-style none'; bind 'set enable-bracketed-paste off'",
    ),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit && compinit -u -D; unsetopt beep"),
}


@pytest.fixture(autouse=True)
def records(cofio: Cofio) -> None:
    """A few records, in scopes."""
    cofio("add", "The deploy runs on Fridays.", "--title", "Going live", "--scope", "team/ops")
    cofio("add", "main", "--key", "branch")


def needed(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} IS NOT INSTALLED: its completion is not tested (apt-get install {shell})")
    return found


def environ() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PS1": "> ", "TERM": "dumb", "HOME": os.getcwd()}


@contextmanager
def interactive(shell: str) -> Iterator[Callable[[str, str], str]]:
    """Types into a shell at a terminal, and waits until it shows something."""
    needed(shell)
    argv, setup = START[shell]
    process, screen = pty.fork()
    if process == 0:
        os.execvpe(argv[0], argv, environ())

    def type_(keys: str, expected: str) -> str:
        os.write(screen, keys.encode())
        shown, end = "", time.monotonic() + TIMEOUT
        while not re.search(expected, shown) and time.monotonic() < end:
            if select.select([screen], [], [], 1)[0]:
                shown += os.read(screen, 65536).decode(errors="replace")
        assert re.search(expected, shown), f"{shell} showed {shown!r}"
        return shown

    try:
        # The word is joined by the shell, so that it is not taken for what was typed; at the prompt it takes keys.
        type_(f"{setup}; eval \"$(cofio completion {shell})\"; echo rea''dy\n", r"ready\s[^>]*> ")
        yield type_
    finally:
        os.write(screen, b"\x03exit\n")
        os.close(screen)
        os.waitpid(process, 0)


@pytest.mark.parametrize("shell", START)
@pytest.mark.usefixtures("process")
def test_a_shell_completes_what_is_typed(shell: str) -> None:
    with interactive(shell) as type_:
        type_("cofio sco\t", "scopes ")
        type_("--al\t", "--all ")
        type_("\x15cofio list --kind epi\t", "episode ")
        type_("\x15cofio list --scope tea\t", "team")
        type_("\x15cofio mcp config curs\t", "cursor ")
        type_("\x15cofio vault reb\t", "rebuild ")


def ask_fish(typed: str) -> dict[str, str]:
    """What fish offers, each with its description."""
    script = f"cofio completion fish | source; complete -C '{typed}'"
    ran = subprocess.run(
        [needed("fish"), "--no-config", "-c", script], capture_output=True, text=True, env=environ(), timeout=TIMEOUT
    )
    assert ran.stderr == ""
    return dict(line.partition("\t")[::2] for line in ran.stdout.splitlines())


def test_fish_completes_with_descriptions(cofio: Cofio) -> None:
    assert ask_fish("cofio sco") == {"scopes": "Show each scope that holds records, with their number."}
    assert ask_fish("cofio list --kind f").keys() == {"file", "fact"}
    assert ask_fish("cofio list --scope te") == {"team": "scopes under it", "team/ops": "1 record"}
    assert ask_fish("cofio show --key b").keys() == {"branch"}
    (record,) = (row[0] for row in cofio("list", "--scope", "team").rows)
    (short,) = (offered for offered, called in ask_fish("cofio show 01").items() if called == "Going live")
    assert record.startswith(short)
    assert ask_fish("cofio help fi").keys() == {"files"}


def test_fish_offers_nothing_of_a_memory_that_cannot_be_opened(folder: Path, store_home: Path) -> None:
    (store_home / "cofio.toml").write_text("broken")
    assert ask_fish("cofio list --scope te") == {}
    assert ask_fish("cofio --store nowhere list --scope te") == {}
    assert not (folder / "nowhere").exists()


@pytest.mark.parametrize("shell", SETUP)
def test_a_terminal_is_told_where_the_code_goes(cofio: Cofio, shell: str, terminal: Callable[..., object]) -> None:
    assert cofio("completion", shell).err == ""
    assert SETUP[shell] in str(terminal("completion", shell))
