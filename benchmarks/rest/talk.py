"""What is said to the servers: short conversations that no two of are alike, and questions about them."""

from __future__ import annotations

import random

from .servers import Body

USER, ASSISTANT = "alice", "helper"
BEGUN = 1_780_000_000_000  # a day in May 2026, in milliseconds
_DAY = 86_400_000
_PEOPLE = (
    "Bob", "Carmen", "Dmitri", "Elena", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kavya", "Liam", "Mei", "Nadia",
    "Oscar", "Priya",
)  # fmt: skip
_DOING = (
    "climbing", "baking sourdough", "repairing old radios", "watching kites", "learning the cello", "growing tomatoes",
    "restoring a canoe", "writing a thesis on tides", "training for a marathon", "sketching bridges", "keeping bees",
    "translating poems", "mapping the old tram lines", "teaching chess to children", "painting the kitchen",
)  # fmt: skip
_WHEN = (
    "every spring", "since last March", "on Sunday mornings", "after work", "twice a week", "whenever it rains",
)  # fmt: skip
_LIKE = (
    "the smell of it", "the quiet", "how slow it is", "the people there", "the long walk home", "that nobody hurries",
)  # fmt: skip
_ASKED = (
    "How did you come to that?", "Who goes with you?", "What do you need for it?", "What was the hardest part?",
    "Would you recommend it to a beginner?", "How long does it usually take?",
)  # fmt: skip
_SYLLABLES = (
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta", "ve", "wi", "xo",
    "zu", "bra", "cle", "dri", "flo", "gru", "ple", "sta", "tri", "vor",
)  # fmt: skip


def place(number: int) -> str:
    """A name that occurs in one conversation only."""
    made, left = "", number + 30_000
    while left:
        left, at = divmod(left, len(_SYLLABLES))
        made += _SYLLABLES[at]
    return made.capitalize()


def session(number: int) -> str:
    """The id of a conversation."""
    return f"session-{number:06d}"


def messages(number: int) -> list[Body]:
    """Three messages: the user's, the assistant's, the user's."""
    draw = random.Random(number)
    who, doing = draw.choice(_PEOPLE), draw.choice(_DOING)
    texts = (
        f"I have been {doing} with {who} in {place(number)} {draw.choice(_WHEN)}, and I love {draw.choice(_LIKE)}.",
        f"That sounds lovely. {draw.choice(_ASKED)}",
        f"{who} showed me, it costs about {draw.randrange(5, 95)} dollars, and my sister {draw.choice(_PEOPLE)} will"
        f" come along next month.",
    )
    at = BEGUN + number % 120 * _DAY + number * 60_000
    return [
        {
            "sender_id": ASSISTANT if index == 1 else USER, "role": "assistant" if index == 1 else "user",
            "timestamp": at + index * 20_000, "content": text,
        }
        for index, text in enumerate(texts)
    ]  # fmt: skip


def question(number: int, turn: int = 0) -> str:
    """A question about a conversation; another one each turn."""
    draw = random.Random(f"{number}/{turn}")
    doing, who = draw.choice(_DOING), draw.choice(_PEOPLE)
    return draw.choice(
        (
            f"Who was {doing} in {place(number)}?",
            f"What does {who} like about {doing}?",
            f"How much does {doing} with {who} cost?",
            f"When did I go to {place(number)} with {who}?",
        )
    )


def added(number: int) -> Body:
    """The body that adds a conversation."""
    return {"session_id": session(number), "messages": messages(number)}


def flushed(number: int) -> Body:
    """The body that flushes it."""
    return {"session_id": session(number)}


def searched(query: str, method: str, top_k: int = 10) -> Body:
    """The body that asks what the user said."""
    return {"user_id": USER, "query": query, "method": method, "top_k": top_k}
