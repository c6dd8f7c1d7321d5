"""What a document is filed under: the categories there are, and which of them fits by its words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ..text.tokenizer import split_words
from .topics import Topic

OTHERS = "Others"
"""Where a document is filed that fits nowhere else."""
READ = 20_000  # characters of a document that count
NAMED = 3  # how much more a word of a title or a heading counts
ENOUGH = 4
"""The least that has to speak for a category."""


class Category(NamedTuple):
    """A category: what it holds, in a sentence, and words that speak for it."""

    id: str
    description: str
    terms: str


CATEGORIES = (
    Category(
        "Technology",
        "Software, computers, data, AI, networks and their security.",
        "software code programming program developer api server database deploy deployment cloud computer algorithm "
        "linux python javascript typescript rust java git repository docker kubernetes container encryption bug cache "
        "latency backend frontend ai model neural token query index endpoint http json command install configuration "
        "compiler runtime test",
    ),
    Category(
        "Science",
        "Physics, chemistry, biology, astronomy, mathematics and research.",
        "physics chemistry biology astronomy experiment hypothesis molecule atom quantum particle galaxy species gene "
        "protein theorem laboratory researcher telescope evolution cell reaction mathematics scientific",
    ),
    Category(
        "Medical",
        "Medicine, illnesses and their treatment, drugs, care and public health.",
        "patient clinical disease treatment therapy diagnosis symptom doctor physician hospital drug dose vaccine "
        "surgery cancer infection nurse health medication blood chronic",
    ),
    Category(
        "Finance",
        "Money, banks, markets, accounting, taxes and insurance.",
        "bank investment investor stock bond portfolio revenue profit budget accounting audit tax interest loan credit "
        "insurance dividend asset liability currency payment invoice fiscal equity",
    ),
    Category(
        "Legal",
        "Laws, contracts, courts, compliance and rights.",
        "law legal contract court clause agreement liability plaintiff defendant statute regulation compliance "
        "attorney lawyer license copyright patent privacy gdpr jurisdiction hereby party tort",
    ),
    Category(
        "Education",
        "Schools, teaching, courses, exams and learning.",
        "student teacher school university course curriculum lesson exam classroom lecture homework grade learning "
        "teaching pupil syllabus education tutor degree",
    ),
    Category(
        "Business",
        "Companies: strategy, marketing, sales, people and how work is run.",
        "company customer market marketing sales strategy product team manager hiring employee stakeholder roadmap "
        "quarter growth onboarding vendor supplier meeting kpi pricing competitor startup",
    ),
    Category(
        "Engineering",
        "Machines, buildings, electricity, materials and how things are made.",
        "mechanical civil electrical circuit voltage bridge steel concrete torque bearing engine turbine manufacturing "
        "sensor robot motor pump valve welding load structural material machine",
    ),
    Category(
        "Arts",
        "Painting, music, literature, film, theatre and design.",
        "art painting painter music song album poem poetry novel film theatre actor sculpture gallery composer artist "
        "museum literature orchestra dance photography melody",
    ),
    Category(
        "Sports",
        "Athletics, games, teams, training and fitness.",
        "team match player coach league tournament championship olympic football basketball tennis marathon training "
        "athlete goal score stadium fitness race medal workout",
    ),
    Category(
        "Travel",
        "Journeys, places to see, hotels, transport and tourism.",
        "travel trip hotel flight airport tourist tourism itinerary destination visa passport train luggage beach tour "
        "booking hostel sightseeing vacation",
    ),
    Category(
        "Food",
        "Cooking, recipes, ingredients, nutrition and restaurants.",
        "recipe cook cooking ingredient flour butter sugar salt oven bake baking dish restaurant meal chef kitchen "
        "nutrition sauce vegetable cheese bread dough tablespoon",
    ),
    Category(
        "Environment",
        "Climate, nature, ecology, energy and sustainability.",
        "climate carbon emission ecosystem biodiversity pollution renewable solar wind forest conservation recycling "
        "sustainability warming wildlife habitat ocean environmental waste",
    ),
    Category(
        "Politics",
        "Government, elections, parties, policy and relations between states.",
        "government election parliament president minister policy party vote senate congress diplomacy treaty campaign "
        "democracy political legislation sanctions coalition",
    ),
    Category(
        "History",
        "The past: events, people, empires and how they are studied.",
        "century empire war king queen ancient medieval dynasty revolution archaeology historian historical emperor "
        "colonial battle civilization manuscript kingdom roman",
    ),
    Category(
        "Psychology",
        "Mind and behaviour: thinking, feeling, memory and mental health.",
        "psychology cognitive behavior behaviour emotion anxiety depression therapy mental personality perception "
        "motivation bias memory attention psychologist stress mindfulness",
    ),
    Category(
        "Agriculture",
        "Farming, crops, animals, soil and what grows.",
        "farm farmer crop soil harvest irrigation livestock cattle fertilizer seed wheat maize corn pesticide "
        "agriculture orchard dairy tractor yield pasture",
    ),
    Category(
        "RealEstate",
        "Property, housing, building land, rents and cities.",
        "property tenant landlord lease rent apartment mortgage house housing real estate zoning buyer seller broker "
        "condominium square bedroom appraisal realtor",
    ),
    Category(
        "Media",
        "News, publishing, broadcasting, social networks and public relations.",
        "journalist journalism newspaper editor broadcast television radio podcast news press reporter headline "
        "publisher magazine audience influencer subscriber article",
    ),
    Category(OTHERS, "What fits none of the others.", ""),
)


def choose_category(title: str, topics: Sequence[Topic]) -> str:
    """The category whose words a document has most of; `OTHERS` when few speak for any, or as many for two."""
    named = set(split_words("\n".join([title, *(topic.name for topic in topics)])[:READ]))
    vocabulary = set(split_words("".join(topic.content for topic in topics[:50])[:READ]))
    scores = {
        category: NAMED * len(terms & named) + len(terms & (vocabulary - named))
        for category, terms in _build_vocabulary().items()
    }
    best, second, *_ = sorted(scores.values(), reverse=True)
    if best < ENOUGH or best == second:
        return OTHERS
    return max(scores, key=lambda category: scores[category])


@cache
def _build_vocabulary() -> dict[str, frozenset[str]]:
    return {each.id: frozenset(split_words(each.terms)) for each in CATEGORIES if each.terms}
