"""The tables of tests that run on a folder alone name tests that there are, and CONTRIBUTING.md tells of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conftest import BACKENDS, FOLDER_ONLY, LONG

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", [*FOLDER_ONLY, *LONG])
def test_every_exception_is_a_test_that_there_is(name: str) -> None:
    file, _, test = name.partition("::")
    assert (TESTS / file).exists()
    assert not test or f"def {test}(" in (TESTS / file).read_text()


def test_the_page_says_how_tests_are_run_on_one_backend() -> None:
    page = (TESTS.parent / "CONTRIBUTING.md").read_text()
    for word in ("BACKENDS", "FOLDER_ONLY", "LONG", "folder_only(reason)", *(f"-k {each}" for each in BACKENDS[1:])):
        assert word in page
