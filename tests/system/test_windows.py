"""No module of cofio needs what only Unix has in order to be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cofio

pytestmark = pytest.mark.usefixtures("process")

IMPORT_ALL = """
import pkgutil, sys
from importlib import import_module
import pytest

import cofio
names = [each.name for each in pkgutil.walk_packages(cofio.__path__, "cofio.") if not each.name.endswith("__main__")]
for name in names:  # with the libraries, which know their own ways
    import_module(name)
for name in [each for each in sys.modules if each.partition(".")[0] == "cofio"]:
    del sys.modules[name]
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "uvloop"):
    sys.modules[name] = None
for name in names:
    import_module(name)
print(len(names))
"""


def test_every_module_can_be_imported_without_those_of_unix(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    sources = [each for each in Path(cofio.__file__).parent.rglob("*.py") if each.name != "__main__.py"]
    assert int(done.stdout) == len(sources) - 1  # the package itself
