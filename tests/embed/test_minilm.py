"""The real model: golden facts, and what happens when its files or its callers are not as usual."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from cofio.embed import open_embedder
from cofio.embed.minilm import GRAPH, ID, TOKENIZER, MiniLM
from cofio.embed.model_files import MANIFEST
from cofio.values.errors import Unavailable

SENTENCES = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A man is riding a horse.",
    "A woman is playing violin.",
    "Two men pushed carts through the woods.",
    "A man is riding a white horse on an enclosed ground.",
    "A monkey is playing drums.",
    "Someone in a gorilla costume is playing a set of drums, and has been doing so for most of the evening.",
    "",
]


@pytest.fixture(scope="session")
def minilm(models: Path) -> MiniLM:
    return MiniLM(models / ID)


@pytest.fixture
def copied(models: Path, tmp_path: Path) -> Path:
    return shutil.copytree(models / ID, tmp_path / ID)


def test_sentences_of_like_meaning_are_near_and_others_are_not(minilm: MiniLM) -> None:
    food, bread, unrelated = minilm.embed([*SENTENCES[:2], "The stock market fell sharply on Monday."])
    assert food @ bread > 0.6
    assert food @ unrelated < 0.2


def test_a_text_has_the_same_vector_alone_and_in_a_batch(minilm: MiniLM) -> None:
    together = minilm.embed(SENTENCES)
    assert together.dtype == np.float32
    for sentence, vector in zip(SENTENCES, together, strict=True):
        assert np.array_equal(minilm.embed([sentence])[0], vector)


def test_any_text_has_a_vector_of_length_one(minilm: MiniLM) -> None:
    texts = ["", " \n\t ", "記憶 🙂", "AND OR NOT \"'(*", "\x00", "lone \ud800 surrogate", "x" * 1_000_000]
    assert np.linalg.norm(minilm.embed(texts), axis=1) == pytest.approx(1, abs=1e-5)
    assert minilm.embed([]).shape == (0, minilm.dimensions) == (0, 384)


def test_what_comes_after_256_tokens_does_not_count(minilm: MiniLM) -> None:
    start = "violin " * 300
    alone, longer, other = minilm.embed([start, start + "stock market " * 5000, "stock market " + start])
    assert np.array_equal(alone, longer)
    assert not np.array_equal(alone, other)


def test_ten_threads_that_come_at_once_get_the_right_vectors(models: Path, minilm: MiniLM) -> None:
    expected = minilm.embed(SENTENCES)
    fresh = MiniLM(models / ID)
    start = Barrier(10)

    def embed(first: int) -> bool:
        start.wait(60)
        turned = np.roll(np.arange(len(SENTENCES)), first)
        return np.array_equal(fresh.embed([SENTENCES[index] for index in turned]), expected[turned])

    with ThreadPoolExecutor(10) as threads:
        assert all(threads.map(embed, range(10)))


def test_a_model_that_is_not_installed_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="run `cofio model install`"):
        open_embedder("minilm", models=tmp_path)


@pytest.mark.parametrize("name", [GRAPH, TOKENIZER, MANIFEST])
def test_a_damaged_file_is_refused_before_it_is_used(copied: Path, name: str) -> None:
    refused = pytest.raises(Unavailable, match=f"{name}.*`cofio model install --force`")
    content = bytearray((copied / name).read_bytes())
    if name != MANIFEST:
        content[len(content) // 2] ^= 1
        (copied / name).write_bytes(content)
        with refused:
            MiniLM(copied).embed(["anything"])
    (copied / name).write_bytes(content[: len(content) // 2])
    with refused:
        MiniLM(copied)
    (copied / name).unlink()
    with pytest.raises(Unavailable, match="cofio model install"):
        MiniLM(copied)


def test_a_program_that_ends_while_threads_embed_ends_well(models: Path) -> None:
    program = f"""
import threading
from pathlib import Path
from cofio.embed.minilm import ID, MiniLM
model = MiniLM(Path({str(models)!r}) / ID)
begun = threading.Event()
def work():
    while True:
        model.embed(["word " * 250])
        begun.set()
        model.embed(["word " * 250] * 50)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
assert begun.wait(120)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
