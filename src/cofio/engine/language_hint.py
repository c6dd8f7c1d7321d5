"""What helps a question in a language that the embedder does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..text.languages import is_not_english

if TYPE_CHECKING:
    from ..backends.search_interface import Candidates

LOW_COSINE = 0.45  # what answers an English question is often above it; a question in another language hardly ever is
LOW_RELEVANCE = 0.5  # of words: one in three may be a name or a word that two languages have in common
HINT = (
    "the question does not seem to be in English, and the model of this memory knows no other language: "
    "`cofio model install multilingual` and COFIO_EMBEDDER=multilingual help"
)


def suggest_model(text: str, embedder: str | None, found: Candidates) -> list[str]:
    """Return the hint, where a question is not in English and neither its words nor its vector found anything."""
    if embedder is None or not found.semantic:
        return []
    from ..embed.minilm import ID

    if embedder != ID or max(found.semantic.values()) >= LOW_COSINE:
        return []
    if max((match.relevance for match in found.keyword.values()), default=0.0) >= LOW_RELEVANCE:
        return []
    return [HINT] if is_not_english(text) else []
