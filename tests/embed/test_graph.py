"""The graph that is written without the packages of others: always the same, and valid."""

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest

from cofio.embed.graph import add_token_output, build_graph
from cofio.embed.minilm import TOKENIZER, WEIGHTS, Network
from cofio.embed.wordpiece import WordPiece

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "Where shall we meet on Friday?",
    "The build fails on macOS because the linker cannot find libssl; brew install openssl@3 mends it.",
    "word " * 300,
]


@pytest.fixture(scope="module")
def graph(weights: Path) -> bytes:
    return build_graph(weights / WEIGHTS)


def test_the_graph_is_the_same_file_on_every_machine(graph: bytes) -> None:
    expected = "e52e048015f4c92644af91d3ad636c2c94e6d3c33e4bde5aff366d55181e5292"
    assert hashlib.sha256(graph).hexdigest() == expected


def test_the_tokens_of_a_text_come_with_the_vector_that_it_has_alone(
    graph: bytes, weights: Path, tmp_path: Path
) -> None:
    both = onnx.load_from_string(add_token_output(graph))
    onnx.checker.check_model(both, full_check=False)
    del both.graph.output[1]
    assert both == onnx.load_from_string(graph)
    (tmp_path / "model.onnx").write_bytes(graph)
    network = Network(tmp_path / "model.onnx", weights / TOKENIZER)
    tokenizer = WordPiece(weights / TOKENIZER, most=256)
    for text in TEXTS:
        vector, hidden, words = network.embed_tokens(text)
        assert np.array_equal(vector, network.embed(text))
        assert len(words) == len(hidden) == len(tokenizer.encode(text)) - 2
