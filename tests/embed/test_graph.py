"""The graph that is written without the packages of others, against those packages and against plain arithmetic."""

import hashlib
import math
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from cofio.embed.graph import add_token_output, build_graph, quantise_columns, quantise_table, read_weights
from cofio.embed.minilm import TOKENIZER, WEIGHTS, Network
from cofio.embed.runtime import import_onnxruntime
from cofio.embed.wordpiece import WordPiece

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "Where shall we meet on Friday?",
    "The build fails on macOS because the linker cannot find libssl; brew install openssl@3 mends it.",
    "word " * 300,
]
NUMBERS = st.integers(-4000, 4000).map(lambda number: np.float32(number / 1000))


@pytest.fixture(scope="module")
def graph(weights: Path) -> bytes:
    return build_graph(weights / WEIGHTS)


def test_the_graph_is_the_same_file_on_every_machine(graph: bytes) -> None:
    expected = "e52e048015f4c92644af91d3ad636c2c94e6d3c33e4bde5aff366d55181e5292"
    assert hashlib.sha256(graph).hexdigest() == expected


def test_the_graph_is_valid_onnx(graph: bytes) -> None:
    model = onnx.load_from_string(graph)
    onnx.checker.check_model(model, full_check=False)
    assert [each.name for each in model.graph.input] == ["input_ids"]
    sides = model.graph.output[0].type.tensor_type.shape.dim
    assert [side.dim_param or side.dim_value for side in sides] == ["batch", 384]
    assert {each.domain: each.version for each in model.opset_import} == {"": 17, "com.microsoft": 1}


def test_the_weights_are_read_as_they_are(weights: Path) -> None:
    read = read_weights(weights / WEIGHTS)
    assert len(read) == 103
    assert read["embeddings.word_embeddings.weight"].shape == (30522, 384)
    assert all(each.dtype == np.float32 and np.isfinite(each).all() for each in read.values())
    assert read["embeddings.LayerNorm.weight"].mean() == pytest.approx(0.8, abs=0.3)


@given(arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=NUMBERS))
def test_numbers_are_quantised_as_onnxruntime_does_it(matrix: NDArray[np.float32]) -> None:
    import_onnxruntime()
    quantise = import_module("onnxruntime.quantization.quant_utils").quantize_data
    numbers, scales = quantise_columns(matrix)
    for column in range(matrix.shape[1]):
        zero, scale, expected = quantise(matrix[:, column], onnx.TensorProto.INT8, True, True)
        assert (zero, scale) == (0, scales[column])
        assert np.array_equal(numbers[:, column], expected)
    zero, scale, expected = quantise(matrix, onnx.TensorProto.UINT8, False)
    table, table_scale, table_zero = quantise_table(matrix)
    assert (zero, scale) == (table_zero, table_scale)
    assert np.array_equal(table, expected)


def forward(weights: dict[str, NDArray[np.float64]], tokens: list[int]) -> NDArray[np.float64]:
    """The model as its paper has it, in full precision."""

    def dense(name: str, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        return inputs @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normalise(name: str, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        centred = inputs - inputs.mean(-1, keepdims=True)
        unit: NDArray[np.float64] = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return unit * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    words = weights["embeddings.word_embeddings.weight"][tokens]
    places = weights["embeddings.position_embeddings.weight"][: len(tokens)]
    hidden = normalise("embeddings.LayerNorm", words + places + weights["embeddings.token_type_embeddings.weight"][0])
    for index in range(6):
        layer = f"encoder.layer.{index}"
        query, key, value = (
            dense(f"{layer}.attention.self.{part}", hidden).reshape(-1, 12, 32).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(32)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = (shares @ value).transpose(1, 0, 2).reshape(-1, 384)
        mixed = dense(f"{layer}.attention.output.dense", mixed)
        hidden = normalise(f"{layer}.attention.output.LayerNorm", mixed + hidden)
        wide = dense(f"{layer}.intermediate.dense", hidden)
        wide = wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2
        hidden = normalise(f"{layer}.output.LayerNorm", dense(f"{layer}.output.dense", wide) + hidden)
    mean: NDArray[np.float64] = hidden.mean(0)
    return mean / np.linalg.norm(mean)


def test_vectors_are_those_of_the_original_in_full_precision_but_for_eight_bits(
    graph: bytes, weights: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(graph)
    network = Network(tmp_path / "model.onnx", weights / TOKENIZER)
    tokenizer = WordPiece(weights / TOKENIZER, most=256)
    exact = {name: each.astype(np.float64) for name, each in read_weights(weights / WEIGHTS).items()}
    for text in TEXTS:
        assert network.embed(text) @ forward(exact, tokenizer.encode(text)) > 0.98


def test_the_second_output_is_what_the_first_is_the_mean_of(graph: bytes, weights: Path, tmp_path: Path) -> None:
    both = onnx.load_from_string(add_token_output(graph))
    onnx.checker.check_model(both, full_check=False)
    sides = both.graph.output[1].type.tensor_type.shape.dim
    assert [side.dim_param or side.dim_value for side in sides] == ["batch", "length", 384]
    del both.graph.output[1]
    assert both == onnx.load_from_string(graph)
    (tmp_path / "model.onnx").write_bytes(graph)
    network = Network(tmp_path / "model.onnx", weights / TOKENIZER)
    tokenizer = WordPiece(weights / TOKENIZER, most=256)
    for text in TEXTS:
        vector, hidden, words = network.embed_tokens(text)
        assert np.array_equal(vector, network.embed(text))
        assert len(words) == len(hidden) == len(tokenizer.encode(text)) - 2
    session = import_onnxruntime().InferenceSession(graph, providers=["CPUExecutionProvider"])
    tokens = np.array([tokenizer.encode(TEXTS[0])], np.int64)
    assert np.allclose(session.run(None, {"input_ids": tokens})[0][0], network.embed(TEXTS[0]), atol=1e-6)
