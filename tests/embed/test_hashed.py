"""The embedder without a model, and opening embedders by name."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cofio.embed import open_embedder
from cofio.embed.hashed import HashedEmbedder
from cofio.values.errors import Invalid


def test_every_vector_has_length_one_and_384_dimensions() -> None:
    embedder = HashedEmbedder()
    vectors = embedder.embed(["", " ", "?!", "a", "🙂", "記憶", "lone \ud800 surrogate", "word " * 5000])
    assert vectors.shape == (8, embedder.dimensions) == (8, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert embedder.embed([]).shape == (0, 384)


def test_as_many_texts_are_embedded_as_there_is_time_for_and_the_first_in_any_case() -> None:
    texts, embedder = ["one", "two", "three"], HashedEmbedder()
    for seconds, count in ((-1.0, 1), (0.0, 1), (3600.0, 3)):
        assert np.array_equal(embedder.embed_some(texts, seconds), embedder.embed(texts[:count]))


def test_texts_that_share_words_are_nearer_than_texts_that_do_not() -> None:
    query, near, far = HashedEmbedder().embed(["the blue notebook", "Blue notebooks are here", "Paris in spring"])
    assert query @ near > 0.4 > query @ far


@pytest.mark.usefixtures("process")
def test_another_process_computes_the_same_vector() -> None:
    made = "HashedEmbedder().embed(['the same words']).tobytes().hex()"
    script = f"from cofio.embed.hashed import HashedEmbedder; print({made})"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == HashedEmbedder().embed(["the same words"]).tobytes().hex()


def test_none_opens_by_name_and_an_unknown_name_is_refused(tmp_path: Path) -> None:
    assert open_embedder("none", models=tmp_path) is None
    with pytest.raises(Invalid, match="embedder: 'word2vec' is not one of minilm, multilingual, remote, hashed, none"):
        open_embedder("word2vec", models=tmp_path)
