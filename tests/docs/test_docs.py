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

from cofio.backends.sqlite.database import load_migrations
from cofio.checkpoints import checkpoints, packing
from cofio.config.settings import HARMLESS, Settings
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


def test_every_schema_is_explained() -> None:
    page = (ROOT / "docs/upgrade.md").read_text()
    rows = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert rows == [number for number, _ in load_migrations()]
    assert f"schema {rows[-1] + 1}, this one knows {rows[-1]}" in page


def test_everything_that_sends_data_out_when_asked_is_documented() -> None:
    page = (ROOT / "docs/privacy.md").read_text()
    for each in fields(Settings):
        if each.name.endswith("_url") or each.name.startswith("fetch"):
            assert f"`COFIO_{each.name.upper()}`" in page
    for provider in ("redis", "postgresql", "s3", "http"):
        assert f"`{provider}:" in page


def test_every_package_that_a_user_gets_was_looked_through() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(each for name in extras if name not in ("dev", "docs") for each in extras[name]),
    ]
    names = {found[0] for each in wanted if (found := re.match(r"[\w.-]+", each))}
    page = (ROOT / "docs/privacy.md").read_text()
    section = page.partition("\n## Other packages\n")[2].partition("\n## ")[0]
    told = {name for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for name in row.split(", ")}
    assert "\n## onnxruntime\n" in page
    assert len(names) > 20
    assert names - told == {"onnxruntime"}


def test_the_sample_file_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    (sample,) = blocks("docs/configuration.md", "toml")
    assert Settings.load(_store(tmp_path / "as it is", sample), {}) == Settings()
    everything = re.sub(r"^# (?=\w+ = )", "", sample, flags=re.MULTILINE)
    assert list(tomllib.loads(everything)) == [each.name for each in fields(Settings)]
    assert Settings.load(_store(tmp_path / "all", everything), {}) == Settings(docs=True, workers=2)


def test_the_sample_file_is_the_one_that_the_program_prints() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cofio", "config", "--sample"], capture_output=True, text=True, check=True
    )
    assert blocks("docs/configuration.md", "toml") == [done.stdout]


def test_the_settings_that_count_from_any_store_are_named() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    sentence = re.search(r"[^.]*count from any store\.", page)
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence[0])) == HARMLESS | {"embedder", "remote"}


def _store(folder: Path, sample: str) -> Path:
    engine.Engine.open(folder, settings=Settings(embedder="none", background=False)).close()
    (folder / "cofio.toml").write_text(sample)
    return folder


LIMITS = {
    "text": "{MAX_TEXT:,} characters",
    "title": "{MAX_TITLE:,} characters",
    "key": "{MAX_KEY:,} characters",
    "data": "{MAX_DATA:,} characters of JSON, {MAX_DATA_DEPTH:,} levels, numbers of {MAX_DIGITS:,} digits",
    "tags": "{MAX_TAGS:,} tags of {MAX_TAG:,} characters",
    "author, parent": "{MAX_AUTHOR:,} characters",
    "source": "{MAX_SOURCE:,} characters",
    "id": "{MAX_ID:,} characters",
    "scope": "{MAX_SCOPE_DEPTH:,} names of {MAX_SCOPE_NAME:,} characters",
    "query": "{MAX_QUERY:,} characters, {MAX_LIMIT:,} hits",
    "list": "{MAX_LIST:,} records a page",
    "filter": "{MAX_FILTER_TESTS:,} tests, {MAX_FILTER_DEPTH:,} levels",
    "given": "{MAX_PARTS:,} vectors of {MAX_DIMENSIONS:,} numbers; the name of a part has {MAX_PART:,} characters",
    "write_many, apply": "{MAX_BATCH:,} records or changes",
}
"""The rows of the table of limits, in the words of the page, with each limit by its name in the code."""


def test_every_limit_is_documented_in_its_row() -> None:
    known = {name: value for module in (records, query, engine) for name, value in vars(module).items()}
    limits = {name: value for name, value in known.items() if name.startswith("MAX_") and isinstance(value, int)}
    section = (ROOT / "docs/engine.md").read_text().partition("\n## Limits\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:])
    assert rows == {what: told.format(**limits) for what, told in LIMITS.items()}
    named = set(re.findall(r"\{(\w+):,\}", "".join(LIMITS.values())))
    # The row of the author is that of the parent, too; a position has no limit that anyone meets.
    assert set(limits) - named == {"MAX_PARENT", "MAX_POSITION"}
    assert limits["MAX_PARENT"] == limits["MAX_AUTHOR"]


def test_every_benchmark_is_run_by_make_or_named_for_those_who_run_it_by_hand() -> None:
    named = (ROOT / "Makefile").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    programs = [file.stem for file in (ROOT / "benchmarks").glob("*.py") if "\nusage: python -m" in file.read_text()]
    assert {"install", "first_hour"} <= set(programs)
    helpers = {"__main__", "standin"}  # what `make bench` begins with, and a server that other benchmarks start
    assert [name for name in programs if name not in helpers and f"benchmarks.{name}" not in named] == []


def test_every_promise_of_security_names_tests_that_there_are() -> None:
    promises = (ROOT / "SECURITY.md").read_text().partition("## The promises")[2].split("\n### ")[1:]
    for promise in promises:
        named = re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py|tests/[\w/]+)`", promise.partition("*Tested:*")[2])
        assert named, promise
        for name in named:
            assert (ROOT / name).exists() or any((ROOT / "tests").rglob(name)), name


def test_every_public_verb_is_documented() -> None:
    page = (ROOT / "docs/engine.md").read_text()
    verbs = [
        name
        for name in dir(engine.Engine)
        if not name.startswith("_")
        and name not in ("open", "close", "embedder", "expects_vectors", "is_behind", "checkpoints")
    ]
    assert [verb for verb in verbs if f"`{verb}(" not in page] == []


def test_every_verb_and_limit_of_checkpoints_is_documented() -> None:
    page = (ROOT / "docs/engine.md").read_text()
    page = page[page.index("## Checkpoints") : page.index("## Errors")]
    verbs = [name for name in vars(checkpoints.Checkpoints) if not name.startswith("_")]
    assert [verb for verb in verbs if f"`{verb}(" not in page] == []
    names = ("MAX_NAME", "MAX_NS", "MAX_METADATA")
    limits = [value for name, value in (vars(checkpoints) | vars(packing)).items() if name in names]
    assert [limit for limit in limits if f"{limit:,}" not in page] == []
    assert f"{packing.MAX_STATE // 2**20} MiB" in page
