"""The shapes of the answers to each prompt."""

from __future__ import annotations

from .shapes import make_boolean, make_integer, make_list, make_nullable, make_number, make_object, make_text

EPISODE = make_object(
    title=make_text("8 to 20 words"),
    summary=make_text("at most 200 characters"),
    content=make_text("the stretch, told"),
    facts=make_list(
        make_object(
            text=make_text("one sentence"), sources=make_list(make_integer("a message's number"), "where it was said")
        ),
        "the facts",
    ),
)
PROFILE = make_object(
    operations=make_list(
        make_object(
            action={"type": "string", "enum": ["add", "update", "delete"], "description": "what to do"},
            item=make_nullable(make_integer("the number of a known item; null for add")),
            topic=make_text("what it is about", blank=True),
            category=make_text("one or two words", blank=True),
            description=make_text("one short sentence", blank=True),
            evidence=make_text("the person's own words"),
        ),
        "what has to change; may be empty",
    )
)
CASE = make_object(
    intent=make_text("what the user wanted"),
    approach=make_text("numbered lines, and the outcome"),
    insight=make_nullable(make_text("what made the difference")),
    quality=make_number("from 0 to 1"),
)
SKILL = make_object(
    name=make_text("two to five words with hyphens"),
    description=make_text("at most 300 characters"),
    content=make_text("Markdown: When to use, Steps, Pitfalls"),
)
SUFFICIENCY = make_object(
    sufficient=make_boolean("whether it is enough"), missing=make_text("what is not there", blank=True)
)
QUERIES = make_object(queries=make_list(make_text("a query"), "two or three"))
RERANK = make_object(
    ranked=make_list(
        make_object(item=make_integer("a memory's number"), score=make_number("from 0 to 1")), "every memory"
    )
)
DOCUMENT = make_object(
    summary=make_text("two or three sentences"),
    category=make_text("one of the categories", blank=True),
    topics=make_list(
        make_object(
            topic=make_integer("a topic's number"),
            name=make_text("two to eight words", blank=True),
            summary=make_text("one or two sentences", blank=True),
            labels=make_list(make_text("a word or a short term"), "one to five"),
        ),
        "every topic",
    ),
)
