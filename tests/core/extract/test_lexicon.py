"""What the rules know is data, and every line of it can be used."""

from __future__ import annotations

import pytest

from cofio.extract.rules.lexicon import expand_references, get_pattern, get_words, list_names
from cofio.extract.rules.profile.traits import load_traits


def test_every_word_and_every_turn_of_phrase_is_a_pattern() -> None:
    for name in list_names(""):
        assert get_pattern(name).flags


def test_a_name_in_a_pattern_stands_for_any_word_of_that_name() -> None:
    assert "kitten" in get_words("animals")
    assert expand_references("my {animals}s? x{0,3}").startswith("my (?:dog|cat|")
    with pytest.raises(KeyError):
        expand_references("{no such list}")


def test_the_same_name_in_several_languages_is_one_list() -> None:
    assert {"ich", "jeg", "soy"} <= get_words("foreign")
    for said in ("Grazie mille", "danke schön", "谢谢你"):
        assert get_pattern("courtesy").fullmatch(said)


def test_a_trait_reads_values_within_values() -> None:
    (pets,) = [trait for trait in load_traits() if trait.says == "Has <count> <animals>."]
    match = pets.pattern.match("I have two old cats, you know")
    assert match is not None
    assert list(pets.read(match)) == [("pet:cat", "Has two old cats.")]
