"""Questions in another language than English: told apart without false alarms, and helped where the model cannot."""

import json
from pathlib import Path

import pytest

from cofio import Engine, Query, Settings
from cofio.config.address import StoreAddress
from cofio.engine.language_hint import HINT
from cofio.text.languages import find_stop_words, is_not_english
from cofio.text.tokenizer import split_query
from cofio.values.records import Scope

PAIRS: list[dict[str, str]] = json.loads(
    (Path(__file__).parents[2] / "benchmarks" / "data" / "languages.json").read_text(encoding="utf-8")
)
ENGLISH = [
    "", "?", "4711", "naïve café", "Where did we stay in Los Angeles?", "las vegas", "Der Spiegel subscription",
    "Who wrote Das Kapital and Die Leiden des jungen Werther?", "What does je ne sais quoi mean?",
    "que sera sera lyrics", "Che Guevara poster", "José's number", "São Paulo trip", "Comment on the pull request",
    "come on", "du -sh on the server", "is EST the time zone of con?", "def main(args): return None",
    "src/x.ts OPS-1500", "SELECT * FROM notes WHERE a = 1", "Which kanji is 日 in 日本?",
    "Müller's invoice from Zürich", "Dove soap price", "war die hard men in black",
]  # fmt: skip
OTHER = [
    "Wann hat Oma Geburtstag?", "Wo steht das Passwort?", "Où est la clé ?", "¿Dónde está la llave?",
    "Dov'è la chiave di riserva?", "Onde está a chave?", "Waar ligt de sleutel van het huis?",
    "Где лежит ключ от дома?", "钥匙在哪里？", "鍵はどこですか？", "열쇠는 어디에 있나요?", "أين المفتاح؟",
]  # fmt: skip


def test_english_names_and_code_are_not_taken_for_another_language() -> None:
    assert [text for text in ENGLISH if is_not_english(text)] == []
    assert [text for text in OTHER if not is_not_english(text)] == []


def test_of_many_questions_most_are_known_and_no_english_one_is_mistaken() -> None:
    for language, least in {"de": 44, "fr": 46, "es": 47, "it": 38, "pt": 41, "ja": 48}.items():  # of 48, as of today
        assert sum(is_not_english(pair[language]) for pair in PAIRS) >= least, language
    for text in (text for pair in PAIRS for text in (pair["note"], pair["en"])):
        assert not is_not_english(text)
        assert not find_stop_words(text)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Nimmt er noch Ramipril?", ("nimmt", "ramipril")),
        ("An welchem Tag spielt er Skat?", ("tag", "spielt", "skat")),
        ("¿Qué coche tiene?", ("coch",)), ("Où habite ma sœur maintenant ?", ("habit", "sœur")),
        ("Waar werkt hij nu?", ("werkt",)), ("Quem é a irmã dela?", ("irma",)),
        ("com port do driver", ("com", "port", "driver")),
        ("die hard war movie", ("die", "hard", "war", "movi")), ("los angeles hotels", ("los", "angel", "hotel")),
    ],
)  # fmt: skip
def test_small_words_of_another_language_are_not_looked_for(question: str, words: tuple[str, ...]) -> None:
    assert split_query(question) == words


def test_a_question_that_the_model_cannot_know_says_what_helps(store: StoreAddress, models: Path) -> None:
    settings = Settings(background=False, models=str(models), sync="normal")
    with Engine.open(store, settings=settings) as memory:
        assert memory.search("Wer verträgt keine Erdnüsse?").degraded is None  # there is nothing to find
        for pair in PAIRS[:6]:
            memory.write(Scope(), text=pair["note"])
        memory.settle()
        assert memory.search("Warum ist die Anmeldeseite abgestürzt?").degraded == HINT
        assert memory.search("証明書の更新に失敗したら誰に通知されますか？").degraded == HINT
        assert memory.search(Query("Warum ist die Anmeldeseite abgestürzt?", mode="keyword")).degraded is None
        assert memory.search("Why did the login page crash?").degraded is None
        memory.write(Scope(), text="Der Ersatzschlüssel liegt unter dem Blumentopf.")
        memory.settle()
        assert memory.search("Liegt der Ersatzschlüssel unter dem Blumentopf?").degraded is None  # its words are there
