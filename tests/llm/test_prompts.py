"""Prompts are files that can be replaced; what is put into them stays matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.llm import Prompts
from cofio.llm.prompts.loader import PLACEHOLDERS, fence_text
from cofio.values.errors import Invalid

PACKAGE = Path(__file__).parents[2] / "src" / "cofio" / "llm" / "prompts"


@pytest.mark.parametrize("name", sorted(PLACEHOLDERS))
def test_every_prompt_is_a_file_that_keeps_the_rules_for_replacements_and_is_filled(name: str) -> None:
    assert {file.stem for file in PACKAGE.glob("*.md")} == set(PLACEHOLDERS)
    values = {each: f"<{each}>" for each in PLACEHOLDERS[name]}
    task, matter = Prompts(PACKAGE).fill(name, **values)
    assert "{{" not in task + matter
    assert all(value in matter for value in values.values())
    assert "JSON object" in task or name in ("image", "recording")


def test_a_file_of_the_same_name_takes_a_prompts_place_and_the_others_stay(tmp_path: Path) -> None:
    (tmp_path / "case.md").write_text("Tell it in rhyme.\n---\n{{ run }}\n")
    (tmp_path / "notes.md").write_text("not a prompt")
    prompts = Prompts(tmp_path)
    assert prompts.fill("case", run="RUN") == ("Tell it in rhyme.", "RUN")
    assert prompts.fill("rerank", question="q", memories="m") == Prompts().fill("rerank", question="q", memories="m")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Tell it.\n{{run}}", "no line of three dashes"),
        ("---\n{{run}}", "nothing above"),
        ("Tell it.\n---\nthe run", r"needs \{\{run\}\}"),
        (
            "Tell it.\n---\n{{run}} {{secrets}}",
            r"holds \{\{secrets\}\}, which is not known here; it may hold \{\{run\}\}",
        ),
        ("x" * 20_001, "longer than 20,000"),
    ],
)
def test_a_file_that_cannot_be_a_prompt_is_refused_by_name(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "case.md").write_text(text)
    with pytest.raises(Invalid, match=problem) as refused:
        Prompts(tmp_path)
    assert "case.md" in str(refused.value)
    (tmp_path / "case.md").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(Invalid, match="cannot be read"):
        Prompts(tmp_path)
    assert Prompts(tmp_path / "none").fill("case", run="R") == Prompts().fill("case", run="R")


@given(st.text(max_size=200))
def test_what_a_value_holds_is_never_taken_for_a_placeholder(value: str) -> None:
    value = f"{value}{{{{missing}}}}{{{{memories}}}}"
    matter = Prompts().fill("queries", question=value, missing="GONE", memories="FOUND")[1]
    assert value in matter
    assert matter.count("GONE") == value.count("GONE") + 1


@given(st.text(max_size=200))
def test_a_text_cannot_close_its_own_fence(text: str) -> None:
    note, opening, *inner, closing = fence_text(text).split("\n")
    mark = closing.removesuffix(" >>>")
    assert opening == f"<<< {mark}"
    assert "\n".join(inner) == text
    assert mark not in text
    assert mark in note
    assert fence_text(text) == fence_text(text)
