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


def test_a_question_is_nearest_to_its_answer(minilm: MiniLM) -> None:
    question, *answers = minilm.embed(["Who makes music?", *SENTENCES[:9]])
    nearest = int(np.argmax([question @ answer for answer in answers]))
    assert "playing" in SENTENCES[nearest]


def test_a_text_has_the_same_vector_alone_and_in_a_batch(minilm: MiniLM) -> None:
    together = minilm.embed(SENTENCES)
    assert together.dtype == np.float32
    for sentence, vector in zip(SENTENCES, together, strict=True):
        assert np.array_equal(minilm.embed([sentence])[0], vector)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "🙂",
        "記憶は大切です",
        "AND OR NOT \"'(*",
        "\x00",
        "lone \ud800 surrogate",
        "x" * 1_000_000,
    ],
)
def test_any_text_has_a_vector_of_length_one(minilm: MiniLM, text: str) -> None:
    vector = minilm.embed([text])[0]
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_rows(minilm: MiniLM) -> None:
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


def test_more_threads_for_one_text_change_nothing(models: Path, minilm: MiniLM) -> None:
    assert np.allclose(MiniLM(models / ID, threads=2).embed(SENTENCES), minilm.embed(SENTENCES), atol=1e-5)


def test_opening_loads_neither_numpy_nor_the_model(models: Path) -> None:
    script = """
import sys
from pathlib import Path
from cofio.embed import open_embedder
embedder = open_embedder("minilm", models=Path(sys.argv[1]))
print(embedder.id, embedder.dimensions, sorted({"numpy", "onnxruntime", "tokenizers"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", script, str(models)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "minilm-l6-v2-int8 384 []"


def test_a_model_that_is_not_installed_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="run `cofio model install`"):
        open_embedder("minilm", models=tmp_path)


@pytest.mark.parametrize("name", [GRAPH, TOKENIZER, MANIFEST])
def test_a_file_cut_short_is_refused_when_the_model_is_opened(copied: Path, name: str) -> None:
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(Unavailable, match=f"{name}.*`cofio model install --force`"):
        MiniLM(copied)


def test_a_missing_file_is_refused_when_the_model_is_opened(copied: Path) -> None:
    (copied / GRAPH).unlink()
    with pytest.raises(Unavailable, match=f"{GRAPH}.*`cofio model install --force`"):
        MiniLM(copied)


@pytest.mark.parametrize("name", [GRAPH, TOKENIZER])
def test_a_changed_file_is_refused_before_it_is_used(copied: Path, name: str) -> None:
    content = bytearray((copied / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / name).write_bytes(content)
    with pytest.raises(Unavailable, match=f"{name}.*`cofio model install --force`"):
        MiniLM(copied).embed(["anything"])


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
