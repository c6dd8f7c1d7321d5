"""Which systems can cofio be installed on without a compiler? Looks for a wheel of each thing that it stands on.

usage: python -m benchmarks.wheels [--write]

pip is asked, for each system and each Python, what it would install of the versions in constraints.txt; nothing is
downloaded but what the index says of them. What only another system needs (as pywin32) is taken in its newest version.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .__main__ import RESULTS

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
AT_ONCE = 4  # the index is what is waited for
ANYWHERE = "-none-any.whl"
GLIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014")


@dataclass(frozen=True)
class System:
    """A system, as pip's platforms and as the markers of requirements know it."""

    name: str
    platforms: tuple[str, ...]
    sys_platform: str
    platform_system: str
    machine: str

    def environment(self, python: str) -> dict[str, str]:
        """What a requirement's marker is judged by."""
        return {
            "sys_platform": self.sys_platform, "platform_system": self.platform_system,
            "platform_machine": self.machine, "os_name": "nt" if self.sys_platform == "win32" else "posix",
            "python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython",
            "platform_python_implementation": "CPython", "extra": "",
        }  # fmt: skip


SYSTEMS = (
    System("Linux x86-64", tuple(f"{each}_x86_64" for each in GLIBC), "linux", "Linux", "x86_64"),
    System("Linux arm64", tuple(f"{each}_aarch64" for each in GLIBC), "linux", "Linux", "aarch64"),
    System("macOS 14 arm64", ("macosx_14_0_arm64",), "darwin", "Darwin", "arm64"),
    System("macOS 14 x86-64", ("macosx_14_0_x86_64",), "darwin", "Darwin", "x86_64"),
    System("Windows x86-64", ("win_amd64",), "win32", "Windows", "AMD64"),
    System("Windows arm64", ("win_arm64",), "win32", "Windows", "ARM64"),
)


@dataclass
class Found:
    """The wheels of one package: by system, the Pythons that there is one for; and those that it is needed with."""

    version: str = ""
    pure: bool = True
    needed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    there: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def read_pins() -> dict[str, str]:
    """The version of each package that constraints.txt names."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition(";")[0].strip().split("==") for line in lines if "==" in line and line[0] != "#"]
    return {canonicalize_name(name): version for name, version in pairs}


def close(first: Iterable[Requirement], system: System, python: str) -> dict[str, str]:
    """Everything that these requirements come to there, as what pip is asked for, by name."""
    pins, todo, asked = read_pins(), [*first], dict[str, str]()
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        environment = system.environment(python)
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        name = canonicalize_name(requirement.name)
        asked[name] = f"{name}=={pins[name]}" if name in pins else f"{name}{requirement.specifier}"
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for line in _requires(name):
                inner = Requirement(line)
                if inner.marker is None or inner.marker.evaluate({**environment, "extra": extra}):
                    inner.marker = None
                    todo.append(inner)
    return asked


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:  # what only another system needs
        return []


def ask(system: System, python: str, wanted: dict[str, str]) -> dict[str, str]:
    """The file names of the wheels that pip would install, by package; those without one are left out."""
    left = dict(wanted)
    options = [option for platform in system.platforms for option in ("--platform", platform)]
    while True:
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed",
                "--only-binary=:all:", "--target", "unused", "--implementation", "cp", "--python-version", python,
                *options, "--report", "-", *left.values(),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            report = json.loads(done.stdout[done.stdout.index("{") :])
            return {
                canonicalize_name(each["metadata"]["name"]): each["download_info"]["url"].rpartition("/")[2]
                for each in report["install"]
            }
        missing = re.search(r"No matching distribution found for ([\w.-]+)", done.stderr)
        if missing is None or canonicalize_name(missing[1]) not in left:
            raise SystemExit(done.stderr)
        del left[canonicalize_name(missing[1])]


def look(first: list[Requirement]) -> dict[str, Found]:
    """What there is of everything that these requirements come to, on every system."""
    found: dict[str, Found] = defaultdict(Found)
    anywhere: dict[str, dict[str, str]] = defaultdict(dict)  # of each Python, the files that are for every system

    def find(system: System, python: str) -> tuple[dict[str, str], dict[str, str]]:
        wanted = close(first, system, python)
        known = {name: file for name, file in anywhere[python].items() if name in wanted}
        there = known | ask(system, python, {name: each for name, each in wanted.items() if name not in known})
        print(f"{system.name}, Python {python}: {len(there)} of {len(wanted)}", file=sys.stderr, flush=True)
        return wanted, there

    for systems in (SYSTEMS[:1], SYSTEMS[1:]):
        places = [(system, python) for system in systems for python in PYTHONS]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda place: find(*place), places))
        for (system, python), (wanted, there) in zip(places, answers, strict=True):
            anywhere[python] |= {name: file for name, file in there.items() if file.endswith(ANYWHERE)}
            for name in wanted:
                found[name].needed[system.name].append(python)
            for name, file in there.items():
                each = found[name]
                each.there[system.name].append(python)
                each.version = file.split("-")[1]
                each.pure &= file.endswith(ANYWHERE)
    return dict(sorted(found.items()))


def render(found: dict[str, Found]) -> list[str]:
    """A table of what has files of its own for each system, and a sentence on the rest."""
    own = {name: each for name, each in found.items() if not each.pure or each.needed != each.there}
    lines = ["| package | " + " | ".join(system.name for system in SYSTEMS) + " |", "|---|" + "---|" * len(SYSTEMS)]
    for name, each in own.items():
        cells = []
        for system in SYSTEMS:
            needed, there = each.needed[system.name], each.there[system.name]
            cells.append("not needed" if not needed else "yes" if there == needed else ", ".join(there) or "**none**")
        lines.append(f"| {name} {each.version} | " + " | ".join(cells) + " |")
    rest = [f"{name} {each.version}" for name, each in found.items() if name not in own]
    return [*lines, "", f"The other {len(rest)} are the same file on every system: {', '.join(rest)}.", ""]


def main() -> None:
    """Look and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plain = [Requirement(line) for line in project["dependencies"]]
    extras = [
        Requirement(line)
        for name, lines in project["optional-dependencies"].items()
        for line in lines
        if name not in ("dev", "docs") and Requirement(line).name != project["name"]
    ]
    found = look(plain)
    lines = [
        "# Wheels", "",
        f"Whether there is a wheel of each package, for Python {', '.join(PYTHONS)}: `yes` for all of them, else those"
        " that there is one for. `python -m benchmarks.wheels --write` makes this page.", "",
        "## What cofio needs", "", *render(found),
    ]  # fmt: skip
    besides = {name: each for name, each in look(extras).items() if name not in found}
    lines += ["## What its extras need besides", "", *render(besides)]
    text = "\n".join(lines)
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "wheels.md").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
