"""What a model makes of conversations, and of what a search has found; nothing that it says is taken on trust."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any

from ..extract.extractor import Case, Entry, Episode, Extraction, Fact, Message, Recalled, Skill
from ..extract.rules.lines import cut, mask_line
from ..extract.rules.messages.speakers import get_name
from ..extract.rules.narration.dates import add_dates
from ..text.token_counts import trim
from ..values.records import Json
from .answers import CASE, EPISODE, PROFILE, QUERIES, RERANK, SKILL, SUFFICIENCY
from .client import Chances, Model
from .profile_updates import list_items, make_entries, render_items
from .prompt_text import ConversationText, render_cases, render_conversation, render_numbered, render_run, render_skill
from .prompts.loader import Prompts, fence_text
from .slugs import make_slug

MOST_FACTS, LONGEST_FACT = 60, 500
MOST_PEOPLE = 3
"""Users whose profiles the model looks at in one stretch; of the others the rules' entries stand."""
MOST_CASES = 3
MOST_CALLS = 5
"""Cases that the model looks at in one stretch; the others stay as the rules told them."""
MOST_QUERIES, LONGEST_QUERY = 3, 200
LONGEST_TITLE, LONGEST_SUMMARY, LONGEST_EPISODE = 300, 200, 24_000
LONGEST_INTENT, LONGEST_APPROACH, LONGEST_INSIGHT = 300, 8_000, 600
LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_SKILL = 60, 500, 12_000
_QUESTION = 500  # tokens
_MEMORIES = 12_000
_MAX_ITEMS = 100


class ModelExtractor:
    """Reads with a model what the rules have read before; see `Extractor` for the values."""

    def __init__(self, model: Model, prompts: Prompts | None = None) -> None:
        self._model = model
        self._prompts = prompts or Prompts()

    @property
    def name(self) -> str:
        """What to call this extractor in the records that it writes."""
        return f"llm:{self._model.name}"

    def read(
        self,
        messages: Sequence[Message],
        zone: tzinfo,
        found: Extraction,
        profiles: Mapping[str, Mapping[str, Json]],
        recalled: Recalled = lambda sentence: False,
    ) -> Extraction:
        """What a stretch holds: one call for the episode and the facts, one for each of up to three users of whom
        something was said, and one for each of up to three cases that the rules `found`, but no more than five in all.
        At most one of them is asked once more.

        `profiles` are the users' profiles as they stand, by the sender's id. Where the model finds no fact that can be
        used, the rules' facts stand.

        Raises:
            Unavailable: the model could not be asked, or nothing that it says can be used. See `Failed.reason`.
        """
        chances = Chances()
        talk = render_conversation(messages, zone, recalled)
        if found.episode is None or not talk.sources:
            return replace(found, cases=self._refine_cases(found.cases, messages, chances, MOST_CASES))
        prompt = self._prompts.fill("episode", conversation=fence_text(talk.text))
        answer = self._model.ask(*prompt, schema=EPISODE, name="episode", chances=chances)
        learned = dict(found.profiles)
        people = _find_people(talk, found)
        for user in people:
            learned[user] = self._ask_profile(user, talk, profiles.get(user) or {}, chances)
        return Extraction(
            episode=_make_episode(answer),
            facts=_make_facts(answer["facts"], talk, zone, recalled) or found.facts,
            profiles={user: entries for user, entries in learned.items() if entries},
            cases=self._refine_cases(found.cases, messages, chances, min(MOST_CASES, MOST_CALLS - 1 - len(people))),
        )

    def skill(self, known: Sequence[Case], current: Skill | None, *, found: Skill) -> Skill:
        """What cases of one kind, oldest first, have in common; how sure that is stays as the rules `found` it.

        Raises:
            Unavailable: the model could not be asked, or nothing that it says can be used.
        """
        prompt = self._prompts.fill(
            "skill", cases=fence_text(render_cases(known)), current=fence_text(render_skill(current))
        )
        answer = self._model.ask(*prompt, schema=SKILL, name="skill")
        return Skill(
            name=make_slug(answer["name"], LONGEST_NAME) or found.name,
            description=cut(_join_lines(mask_line(answer["description"])), LONGEST_DESCRIPTION),
            content=mask_line(answer["content"])[:LONGEST_SKILL],
            confidence=found.confidence,
            maturity=found.maturity,
        )

    def judge_sufficiency(self, query: str, texts: Sequence[str]) -> tuple[bool, str]:
        """Whether what was found answers a question, and if not, what is missing.

        Raises:
            Unavailable: the model could not be asked, or nothing that it says can be used.
        """
        answer = self._ask_about_memories("sufficiency", SUFFICIENCY, query, texts)
        return answer["sufficient"], "" if answer["sufficient"] else cut(answer["missing"], LONGEST_QUERY)

    def propose_queries(self, query: str, texts: Sequence[str], missing: str) -> list[str]:
        """Up to three other queries that may find what is missing, each different from the question.

        Raises:
            Unavailable: the model could not be asked, or nothing that it says can be used.
        """
        answer = self._ask_about_memories(
            "queries", QUERIES, query, texts, missing=fence_text(trim(missing, _QUESTION))
        )
        others = {_join_lines(query).casefold(): ""}
        for each in answer["queries"]:
            other = _join_lines(each)[:LONGEST_QUERY].strip()
            others.setdefault(other.casefold(), other)
        return [other for other in others.values() if other][:MOST_QUERIES]

    def rank(self, query: str, items: Sequence[tuple[str, str]]) -> dict[str, float]:
        """How much each item (an id and a text) helps to answer a question, from 0 to 1, best first.

        Only the first 100 items are looked at, and one that the model does not judge has no score.

        Raises:
            Unavailable: the model could not be asked, or nothing that it says can be used.
        """
        first = items[:_MAX_ITEMS]
        if not first:
            return {}
        answer = self._ask_about_memories("rerank", RERANK, query, [text for _, text in first])
        most = max((each["score"] for each in answer["ranked"]), default=1.0)
        scale = next(scale for scale in (1.0, 10.0, 100.0, most) if most <= scale)  # some count to 10, or to 100
        scores: dict[str, float] = {}
        for each in answer["ranked"]:
            if 1 <= each["item"] <= len(first):
                scores.setdefault(first[each["item"] - 1][0], min(1.0, max(0.0, each["score"] / scale)))
        return dict(sorted(scores.items(), key=lambda entry: -entry[1]))

    def _ask_about_memories(
        self, name: str, shape: dict[str, Any], query: str, texts: Sequence[str], **others: str
    ) -> dict[str, Any]:  # fmt: skip
        prompt = self._prompts.fill(
            name,
            question=fence_text(trim(query, _QUESTION)),
            memories=fence_text(render_numbered(texts, _MEMORIES)),
            **others,
        )
        return self._model.ask(*prompt, schema=shape, name=name, hurried=True)

    def _ask_profile(
        self, user: str, talk: ConversationText, profile: Mapping[str, Json], chances: Chances
    ) -> tuple[Entry, ...]:  # fmt: skip
        messages = [message for message in talk.sources.values() if message.sender == user and message.role == "user"]
        items = list_items(profile)
        prompt = self._prompts.fill(
            "profile",
            conversation=fence_text(talk.text),
            person=json.dumps(get_name(messages[0]), ensure_ascii=False),
            items=fence_text(render_items(items)),
        )
        answer = self._model.ask(*prompt, schema=PROFILE, name="profile", chances=chances)
        return make_entries(answer["operations"], items, messages)

    def _refine_cases(
        self, found: Sequence[Case], messages: Sequence[Message], chances: Chances, most: int
    ) -> tuple[Case, ...]:
        return (*(self._refine_case(each, messages, chances) for each in found[:most]), *found[most:])

    def _refine_case(self, found: Case, messages: Sequence[Message], chances: Chances) -> Case:
        of_run = set(found.messages)
        answer = self._model.ask(
            *self._prompts.fill("case", run=fence_text(render_run([each for each in messages if each.id in of_run]))),
            schema=CASE, name="case", chances=chances,
        )  # fmt: skip
        insight = cut(_join_lines(mask_line(answer["insight"] or "")), LONGEST_INSIGHT)
        return replace(
            found,
            intent=cut(_join_lines(mask_line(answer["intent"])), LONGEST_INTENT),
            approach=mask_line(answer["approach"])[:LONGEST_APPROACH],
            insight=insight or None,
            quality=round(min(1.0, max(0.0, answer["quality"])), 2),
        )


def _find_people(talk: ConversationText, found: Extraction) -> list[str]:
    """The users of whom something may be learned, those who said most of it first."""
    weights: dict[str, int] = {}
    for message in talk.sources.values():
        if message.role == "user":
            weights.setdefault(message.sender, 0)
    for fact in found.facts:
        if fact.speaker in weights:
            weights[fact.speaker] += 1
    for user in set(weights) & set(found.profiles):
        weights[user] += len(found.profiles[user])
    return [user for user in sorted(weights, key=lambda user: -weights[user]) if weights[user]][:MOST_PEOPLE]


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _make_episode(answer: Mapping[str, Any]) -> Episode:
    return Episode(
        subject=cut(_join_lines(answer["title"]), LONGEST_TITLE),
        summary=cut(_join_lines(answer["summary"]), LONGEST_SUMMARY),
        text=cut(answer["content"], LONGEST_EPISODE),
    )


def _make_facts(
    answer: Sequence[Mapping[str, Any]], talk: ConversationText, zone: tzinfo, recalled: Recalled
) -> tuple[Fact, ...]:  # fmt: skip
    """The facts that name where they were said, each once."""
    facts: dict[str, Fact] = {}
    for each in answer:
        sources = [talk.sources[number] for number in dict.fromkeys(each["sources"]) if number in talk.sources]
        if not sources:
            continue
        first = sources[0]
        plain = _join_lines(each["text"])
        text = cut(add_dates(plain, first.at.astimezone(zone)), LONGEST_FACT)
        if recalled(plain) or recalled(text) or not any(letter.isalnum() for letter in text):
            continue
        fact = Fact(text=text, speaker=first.sender, at=first.at, messages=tuple(message.id for message in sources))
        facts.setdefault(text.casefold(), fact)
    return tuple(facts.values())[:MOST_FACTS]
