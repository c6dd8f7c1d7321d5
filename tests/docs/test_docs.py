"""What the docs say is what the program does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from cofio.checkpoints import checkpoints
from cofio.config.settings import Settings
from cofio.engine import engine
from cofio.values import query, records

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/engine.md")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page that are in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


PROGRAMS = [pytest.param(code, id=f"{page}-{n}") for page in PAGES for n, code in enumerate(blocks(page, "python"))]


@pytest.mark.parametrize("code", PROGRAMS)
def test_each_program_in_the_docs_runs(code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    commands = [line for block in blocks("README.md", "sh") for line in block.splitlines() if line.startswith("cofio ")]
    assert len(commands) >= 4
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PATH": path}
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout, command


def test_every_setting_is_documented_with_its_default() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    for each in fields(Settings):
        shown = str(each.default).lower() if isinstance(each.default, bool) else str(each.default)
        row = next(line for line in page.splitlines() if line.startswith(f"| `COFIO_{each.name.upper()}` |"))
        assert f"`{each.name}`" in row
        assert each.name in ("models", "docs", "workers") or shown in row


def test_every_variable_that_is_read_is_documented() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    source = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"\b(?:COFIO|EVEROS|AGENT_STORE)_[A-Z_]*[A-Z]\b", source))
    assert "COFIO_STORE" in names
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_every_file_of_a_store_is_explained(tmp_path: Path) -> None:
    table = (ROOT / "docs/configuration.md").read_text().partition("## Where things lie")[2]
    with engine.Engine.open(tmp_path / ".cofio", settings=Settings(embedder="hashed", background=False)) as memory:
        memory.write(records.Scope("demo"), text="A store with all that there may be in it.")
        memory.settle()
        memory.reindex()
        command = [sys.executable, "-m", "cofio", "token", "add", "laptop"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        there = {f"{path.name}/" if path.is_dir() else path.name for path in (tmp_path / ".cofio").iterdir()}
    assert {"memory.db", "index/", "vectors/", "tokens.json"} <= there
    assert sorted(name for name in there if f"`{name}`" not in table) == []


def test_everything_that_sends_data_out_when_asked_is_documented() -> None:
    page = (ROOT / "docs/privacy.md").read_text()
    for each in fields(Settings):
        if each.name.endswith("_url") or each.name.startswith("fetch"):
            assert f"`COFIO_{each.name.upper()}`" in page
    for provider in ("redis", "postgresql", "s3", "http"):
        assert f"`{provider}:" in page


def test_the_sample_file_shows_every_setting_with_its_default_and_is_what_the_program_prints(tmp_path: Path) -> None:
    (sample,) = blocks("docs/configuration.md", "toml")
    assert Settings.load(_store(tmp_path / "as it is", sample), {}) == Settings()
    everything = re.sub(r"^# (?=\w+ = )", "", sample, flags=re.MULTILINE)
    assert list(tomllib.loads(everything)) == [each.name for each in fields(Settings)]
    assert Settings.load(_store(tmp_path / "all", everything), {}) == Settings(docs=True, workers=2)
    command = [sys.executable, "-m", "cofio", "config", "--sample"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == sample


def _store(folder: Path, sample: str) -> Path:
    engine.Engine.open(folder, settings=Settings(embedder="none", background=False)).close()
    (folder / "cofio.toml").write_text(sample)
    return folder


def test_every_limit_is_documented() -> None:
    known = {name: value for module in (records, query, engine) for name, value in vars(module).items()}
    limits = {name: value for name, value in known.items() if name.startswith("MAX_") and isinstance(value, int)}
    section = (ROOT / "docs/engine.md").read_text().partition("\n## Limits\n")[2].partition("\n## ")[0]
    assert len(limits) > 15
    assert [name for name, each in limits.items() if name != "MAX_POSITION" and f"{each:,}" not in section] == []


def test_every_promise_of_security_names_tests_that_there_are() -> None:
    promises = (ROOT / "SECURITY.md").read_text().partition("## The promises")[2].split("\n### ")[1:]
    for promise in promises:
        named = re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py|tests/[\w/]+)`", promise.partition("*Tested:*")[2])
        assert named, promise
        for name in named:
            assert (ROOT / name).exists() or any((ROOT / "tests").rglob(name)), name


def test_every_public_verb_is_documented() -> None:
    page = (ROOT / "docs/engine.md").read_text()
    inner = ("open", "close", "embedder", "expects_vectors", "checkpoints")
    verbs = [name for name in (*dir(engine.Engine), *vars(checkpoints.Checkpoints)) if not name.startswith("_")]
    assert [verb for verb in verbs if verb not in inner and f"`{verb}(" not in page] == []
