"""That a hook at a prompt loads little: its agent waits for all that is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import LONGEST, PROMPT, RETRIES, Host

pytestmark = pytest.mark.usefixtures("process")

WATCHED = """
import os, sys
file = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.addaudithook(lambda event, found: os.write(file, f"{found[0]}\\n".encode()) if event == "import" else None)
from cofio.doors.cli import main
main()
"""
HEAVY = {
    "argparse", "asyncio", "calendar", "ctypes", "email", "importlib.metadata", "logging", "numpy", "onnxruntime",
    "psycopg", "pydantic", "random", "secrets", "shutil", "sqlite3", "subprocess", "tempfile", "tomllib",
    "cofio.backends.postgres", "cofio.backends.checkpoint_interface", "cofio.capture.capture",
    "cofio.doors.cli.command_line", "cofio.embed.local", "cofio.engine.agreement", "cofio.extract", "cofio.llm",
    "cofio.vault",
}  # fmt: skip
MOST_OWN = 110  # of the modules of cofio itself: each takes a part of a millisecond
CLASSES = """
import sys
from pathlib import Path
from cofio.doors.hooks.class_cache import ClassCache
cache = ClassCache(Path(sys.argv[1]))
cache.install()
from cofio.values.query import Query
from cofio import Scope
assert Query("a", scope=Scope("b"), limit=3) == Query("a", scope=Scope("b"), limit=3) != Query("a", scope=Scope("b"))
assert repr(Query("a")).startswith("Query(")
try:
    Query("a").limit = 4
except AttributeError:
    cache.save()
    print("made")
"""


@pytest.mark.requirement("cost.start")
def test_a_prompt_loads_nothing_that_it_can_do_without(host: Host, tmp_path: Path) -> None:
    seen = tmp_path / "imports"
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(seen), "hook", "claude-code"], cwd=host.project, env=host.environment,
        input=host.tell("UserPromptSubmit", prompt=PROMPT), capture_output=True, check=True, timeout=LONGEST,
    )  # fmt: skip
    assert RETRIES.encode() in done.stdout
    imported = set(seen.read_text().split())
    assert not HEAVY & imported
    assert len({name for name in imported if name.startswith("cofio")}) <= MOST_OWN


def make_classes(file: Path) -> int:
    """Make dataclasses in a process of its own, with what the file keeps; the size of the file then."""
    done = subprocess.run(
        [sys.executable, "-c", CLASSES, str(file)], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
        check=False, timeout=LONGEST,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr
    return file.stat().st_size if file.exists() else 0


@pytest.mark.requirement("cost.start")
def test_dataclasses_are_compiled_once_and_what_others_may_have_written_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "new" / "classes"
    size, written = make_classes(file), file.stat().st_mtime_ns
    assert size > 1000
    assert file.stat().st_mode & 0o777 == 0o600
    assert make_classes(file) == size
    assert file.stat().st_mtime_ns == written
    file.chmod(0o666)
    assert make_classes(file) == size
    assert file.stat().st_mtime_ns > written
    assert file.stat().st_mode & 0o777 == 0o600
    for damaged in (b"\0\0\0\0", file.read_bytes()[:-7]):
        file.write_bytes(damaged)
        assert make_classes(file) == size
    assert make_classes(file / "in a file") == 0, "a folder that cannot be written is done without"
