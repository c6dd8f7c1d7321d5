"""How much an install of cofio takes up, and what of it is whose.

usage: python -m benchmarks.install [--before REVISION] [--write]

Wheels are built of this checkout, and of the revision that is given, and installed into fresh environments: with uv,
which brings neither itself nor compiled modules along, and with pip, which does both. A megabyte is 1,000,000 bytes,
and counted are the blocks that the files take up on the disk.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

import cofio

from .__main__ import RESULTS, machine

ROOT = Path(__file__).parents[1]
MOST = 200.0  # MB that a default install may take up
SHOWN = 1.0  # MB from which on a distribution has a line of its own
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "uv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An environment: its size in MB, that of each distribution in it, and that of it when it was empty."""

    total: float
    empty: float
    parts: dict[str, float]


def run(*words: str | Path) -> None:
    """Run a command that is to go well, and whose output is of no interest if it does."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stderr}")


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of a checkout."""
    run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, source)
    return next(folder.glob("*.whl"))


def check_out(revision: str, folder: Path) -> Path:
    """The files of a revision, in a folder of their own."""
    packed = subprocess.run(["git", "-C", ROOT, "archive", revision], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def disk_megabytes(folder: Path) -> float:
    """What the files of a folder take up, links aside."""
    files = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return sum(file.lstat().st_blocks * 512 for file in files if not file.is_symlink()) / 1e6


def install(wheel: Path, extras: str, folder: Path, *, by_pip: bool) -> Installed:
    """Install a wheel with these extras into a new environment."""
    wanted = f"{wheel}[{extras}]" if extras else str(wheel)
    python = folder / "bin" / "python"
    if by_pip:
        run(sys.executable, "-m", "venv", folder)
        empty = disk_megabytes(folder)
        run(python, "-m", "pip", "install", "--quiet", wanted)
    else:
        run(UV, "venv", "--quiet", "--python", sys.executable, folder)
        empty = disk_megabytes(folder)
        run(UV, "pip", "install", "--quiet", "--python", folder, wanted)
    parts = {
        each.metadata["Name"]: sum(Path(str(file.locate())).stat().st_blocks * 512 for file in each.files or []) / 1e6
        for each in distributions(path=[str(next((folder / "lib").glob("python*")) / "site-packages")])
    }
    return Installed(total=disk_megabytes(folder), empty=empty, parts=parts)


def summarize(found: dict[str, dict[str, Installed]]) -> str:
    """A line for each install: what it takes up by either installer, and how many distributions it has."""
    lines = ["| install | distributions | MB with uv | MB with pip | of it pip's own |", "|---|---|---|---|---|"]
    for name, by in found.items():
        uv, pip = by["uv"], by["pip"]
        lines.append(f"| {name} | {len(uv.parts)} | {uv.total:.0f} | {pip.total:.0f} | {pip.empty:.0f} |")
    return "\n".join(lines)


def compare_parts(found: dict[str, Installed]) -> str:
    """What each distribution takes up in each install, those that are large in any of them."""
    names = {name for each in found.values() for name, size in each.parts.items() if size >= SHOWN}
    most = {name: max(each.parts.get(name, 0.0) for each in found.values()) for name in names}
    lines = [f"| MB, with uv | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    for name in sorted(names, key=lambda name: -most[name]):
        sizes = [each.parts.get(name) for each in found.values()]
        lines.append(f"| {name} | {' | '.join('' if size is None else f'{size:.1f}' for size in sizes)} |")
    rest = [sum(size for name, size in each.parts.items() if name not in names) for each in found.values()]
    return "\n".join([*lines, f"| all others | {' | '.join(f'{size:.1f}' for size in rest)} |"])


def report(before: str | None) -> str:
    """Build, install, measure, and write it out."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheels = {}
        if before:
            source = check_out(before, work / "source")
            wheels[f"before ({before})"] = (build_wheel(source, work / "before"), "")
        wheel = build_wheel(ROOT, work / "now")
        wheels |= {"bare": (wheel, ""), "with `server`": (wheel, "server")}
        found = {
            each: {by: install(*chosen, work / f"{number}-{by}", by_pip=by == "pip") for by in ("uv", "pip")}
            for number, (each, chosen) in enumerate(wheels.items())
        }
        size = wheel.stat().st_size / 1e6
    bare = found["bare"]["uv"].total
    return f"""\
# Install

cofio {cofio.__version__}, {datetime.now(UTC):%Y-%m-%d}, {machine()}

What an environment with cofio takes up on the disk. uv brings neither itself nor compiled modules (`.pyc`) along,
pip does both. The wheel of cofio itself is {size:.1f} MB; the model, which is fetched once for all installs, is not
counted.

{summarize(found)}

{compare_parts({name: by["uv"] for name, by in found.items()})}

## Target

| target | measured | asked | met |
|---|---|---|---|
| a default install, MB | {bare:.0f} | under {MOST:g} | {"yes" if bare < MOST else "NO"} |
"""


def main() -> None:
    """Measure, print the report, and keep it when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="measure this revision of the repository, too")
    parser.add_argument("--write", action="store_true", help="keep the results under benchmarks/results")
    given = parser.parse_args()
    text = report(given.before)
    print(text)
    if given.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "install.md").write_text(text)


if __name__ == "__main__":
    main()
