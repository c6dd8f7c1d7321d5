"""An interpreter that has only what a bare install of cofio brings."""

from __future__ import annotations

import re
import sysconfig
import tomllib
import venv
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@cache
def brought(*extras: str) -> frozenset[str]:
    """The distributions that an install with these extras brings, as this environment knows them."""
    waiting = [
        *PROJECT["dependencies"],
        *(each for extra in extras for each in PROJECT["optional-dependencies"][extra]),
    ]
    found: set[tuple[str, str]] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        name = normalized(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in found:
                continue
            found.add((name, extra))
            try:
                needed = requires(name) or []
            except PackageNotFoundError:  # of another system
                continue
            waiting += [each for each in needed if applies(Requirement(each), extra)]
    return frozenset(name for name, _ in found)


def applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has what a bare install brings, and nothing else."""
    return make_environment(tmp_path_factory.mktemp("bare"), brought())


def make_environment(folder: Path, names: frozenset[str]) -> Path:
    """An environment with these distributions of ours, by links, and with our source; its interpreter."""
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    for name in names - {"cofio"}:
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:  # of another system
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    (packages / "cofio.pth").write_text(f"{ROOT / 'src'}\n")
    return folder / "bin" / "python"
