"""What a model makes of a document: it is shown some topics at a time, and what it says is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ..llm import Model, Prompts
from ..llm.answers import DOCUMENT
from ..llm.prompt_text import render_numbered
from ..llm.prompts.loader import fence_text
from ..secrets.scanner import mask_secrets, mask_with_offsets
from ..values.errors import Unavailable
from .categories import Category
from .topics import LONGEST_LINE, Topic, name_text, shorten
from .uploads import ModelSummary

AT_ONCE = 25
"""Topics that the model is shown in one call; each has at most 2,000 characters."""
MOST_CALLS = 4
"""Calls for one document; the topics after them have their first sentences for a summary."""
LONGEST_TOPIC_SUMMARY, LONGEST_SUMMARY = 300, 1000
MOST_LABELS, LONGEST_LABEL = 5, 40
_TOKENS = 16_000  # that the topics of one call may have


class ModelSummariser:
    """Has documents summed up by a model."""

    def __init__(self, model: Model, prompts: Prompts) -> None:
        self._model = model
        self._prompts = prompts

    def summarise(self, title: str, topics: Sequence[Topic], categories: Sequence[Category]) -> ModelSummary:
        """What a document is about. Where a later call fails, what the earlier ones gave stands.

        Raises:
            Unavailable: the model could not be asked, or made no sense.
        """
        texts = _render_topics(topics)
        answers: list[tuple[Sequence[Topic], Mapping[str, Any]]] = []
        worth = [topic for topic in topics if not topic.bare]
        for start in range(0, min(len(worth), AT_ONCE * MOST_CALLS), AT_ONCE):
            shown = worth[start : start + AT_ONCE]
            try:
                answers.append((shown, self._ask(title, [texts[topic.index] for topic in shown], categories)))
            except Unavailable:
                if not answers:
                    raise
                break
        if not answers:
            return ModelSummary()
        entries = [
            (topic, entry) for shown, answer in answers for topic, entry in _match_entries(shown, answer["topics"])
        ]
        return ModelSummary(
            summary=shorten(_join_spaces(answers[0][1]["summary"]), LONGEST_SUMMARY),
            category=_join_spaces(answers[0][1]["category"]),
            summaries={
                topic.index: shorten(_join_spaces(entry["summary"]), LONGEST_TOPIC_SUMMARY) for topic, entry in entries
            },
            names={
                topic.index: shorten(_join_spaces(entry["name"]), LONGEST_LINE)
                for topic, entry in entries
                if not topic.headed and any(map(str.isalnum, entry["name"]))
            },
            labels={topic.index: _clean_labels(entry["labels"]) for topic, entry in entries},
        )

    def _ask(self, title: str, texts: Sequence[str], categories: Sequence[Category]) -> Mapping[str, Any]:
        system, user = self._prompts.fill(
            "document",
            title=fence_text(mask_secrets(title)),
            categories="\n".join(f"- {category.id}: {category.description}" for category in categories),
            topics=fence_text(render_numbered(texts, _TOKENS)),
        )
        return self._model.ask(system, user, schema=DOCUMENT, name="document", hurried=True)


def _render_topics(topics: Sequence[Topic]) -> dict[int, str]:
    """Each topic as the model is shown it, by its number: without secrets, be they stored or longer than a topic."""
    starts = [0, *accumulate(len(topic.content) for topic in topics)]
    whole, moved = mask_with_offsets("".join(topic.content for topic in topics), starts)
    shown = {}
    for topic, start, end in zip(topics, moved, moved[1:], strict=False):
        content = whole[start:end]
        name = topic.name if content == topic.content else name_text(content)
        shown[topic.index] = mask_secrets(f"{name}\n{content}")
    return shown


def _match_entries(
    shown: Sequence[Topic], entries: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Topic, Mapping[str, Any]]]:
    """Each entry with the topic that it names; numbers that do not exist, and those that come again, are dropped."""
    seen: set[int] = set()
    for entry in entries:
        number = entry["topic"]
        if 1 <= number <= len(shown) and number not in seen and _join_spaces(entry["summary"]):
            seen.add(number)
            yield shown[number - 1], entry


def _clean_labels(labels: Sequence[str]) -> tuple[str, ...]:
    lines = (shorten(_join_spaces(each), LONGEST_LABEL) for each in labels)
    return tuple(dict.fromkeys(line for line in lines if line))[:MOST_LABELS]


def _join_spaces(text: str) -> str:
    return " ".join(text.replace("\0", "").split())
