"""The shapes of the answers to each prompt."""

from __future__ import annotations

from .shapes import number, one, optional, several, text, truth, whole

EPISODE = one(
    title=text("8 to 20 words"),
    summary=text("at most 200 characters"),
    content=text("the stretch, told"),
    facts=several(
        one(text=text("one sentence"), sources=several(whole("a message's number"), "where it was said")), "the facts"
    ),
)
PROFILE = one(
    operations=several(
        one(
            action={"type": "string", "enum": ["add", "update", "delete"], "description": "what to do"},
            item=optional(whole("the number of a known item; null for add")),
            topic=text("what it is about", blank=True),
            category=text("one or two words", blank=True),
            description=text("one short sentence", blank=True),
            evidence=text("the person's own words"),
        ),
        "what has to change; may be empty",
    )
)
CASE = one(
    intent=text("what the user wanted"),
    approach=text("numbered lines, and the outcome"),
    insight=optional(text("what made the difference")),
    quality=number("from 0 to 1"),
)
SKILL = one(
    name=text("two to five words with hyphens"),
    description=text("at most 300 characters"),
    content=text("Markdown: When to use, Steps, Pitfalls"),
)
SUFFICIENCY = one(sufficient=truth("whether it is enough"), missing=text("what is not there", blank=True))
QUERIES = one(queries=several(text("a query"), "two or three"))
RERANK = one(ranked=several(one(item=whole("a memory's number"), score=number("from 0 to 1")), "every memory"))
DOCUMENT = one(
    summary=text("two or three sentences"),
    category=text("one of the categories", blank=True),
    topics=several(
        one(
            topic=whole("a topic's number"),
            name=text("two to eight words", blank=True),
            summary=text("one or two sentences", blank=True),
            labels=several(text("a word or a short term"), "one to five"),
        ),
        "every topic",
    ),
)
