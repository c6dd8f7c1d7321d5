"""The table of what people say of themselves: how it looks, what it is about, and how it is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..lexicon import ANIMALS, FIELDS, ILLNESSES, KIN, LANGUAGES, NOT_ALLERGENS, THINGS
from .statement_values import (
    parse_clause,
    parse_employer,
    parse_liking,
    parse_location,
    parse_lowercase_name,
    parse_person,
    parse_plain,
    parse_trade,
)

ADVERB = (
    r"(?:(?:really|absolutely|also|still|now|currently|just|recently|finally|actually|truly|definitely|particularly"
    r"|always|usually|mostly|officially|already|originally) )*"
)
_AM = rf"(?:i'm|im|i am) {ADVERB}"
_I = rf"i {ADVERB}"
_HAVE = rf"(?:i|i've|i have) {ADVERB}"
_COUNT = r"(?:a|an|one|two|three|four|five|six|seven|\d{1,2}|twin|no)"
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_KIN = rf"(?:older |younger |little |big |twin )?(?:{KIN})(?:,? (?-i:[A-Z])[\w'-]+,?)?"
_LEVEL = r"(?:fluent |some |a little |a bit of |basic )"
_END = r"(?=$|[,.;!]| (?:and|but|so|now|since|because|for|with|again|years?|anymore|at|in|who)\b)"
_ALWAYS = r"(?=$|[,.;!]| (?:and|or|but|because|any ?more|at all|since)\b)"  # and not only on Fridays
_ANYMORE = r"(?: any ?more| any longer)"

Clean = Callable[[str], str | None]
CLEAN: Mapping[str, Clean] = {
    "place": parse_location, "person": parse_person, "trade": parse_trade, "employer": parse_employer,
    "liked": parse_liking, "plain": parse_plain, "clause": parse_clause, "kid": parse_lowercase_name,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a statement looks like, and what it says. The groups of the pattern are values of the kind of their name."""

    pattern: re.Pattern[str]
    category: str
    topic: str
    says: str
    ended: bool = False


def _make_rule(category: str, topic: str, says: str, pattern: str, *, ended: bool = False) -> Rule:
    return Rule(pattern=re.compile(pattern, re.I), category=category, topic=topic, says=says, ended=ended)


RULES = (
    _make_rule(
        "Identity", "name", "Name is {person}.",
        r"(?:my (?:full |first )?name(?:'s| is) (?:actually )?|call me |i go by |(?:i'm|i am) called )(?P<person>.+)",
    ),
    _make_rule(
        "Identity", "name", "Name is {kid}.",
        r"my name(?:s|'s| is) (?P<kid>(?-i:[a-z]{2,12}))$",
    ),
    _make_rule("Home", "home", "Lives in {place}.", rf"{_I}(?:live|reside) (?:right )?in (?P<place>.+)"),
    _make_rule(
        "Home", "home", "Lives in {place}.",
        rf"{_I}live (?:in|with) (?:a|an|the|my) [\w -]{{2,40}} in (?P<place>.+)",
    ),
    _make_rule(
        "Home", "home", "Lives in {place}.",
        rf"(?:{_AM}(?:living|based|located|residing) (?:in|out of) |(?:i've|i have) (?:been living"
        r"|lived(?=.*\b(?:for|since)\b)) in )(?P<place>.+)",
    ),
    _make_rule(
        "Home", "home", "Lives in {place}.",
        rf"{_HAVE}(?:moved|relocated) (?:back )?(?:from [A-Z][\w ]{{1,30}} )?(?:here )?to (?P<place>.+)",
    ),
    _make_rule(
        "Home", "home", "Lives near {place}.",
        rf"{_I}live (?:near|outside|just outside|close to) (?P<place>.+)",
    ),
    _make_rule("Home", "address", "Lives at {plain}.", rf"{_I}live at (?P<plain>\d.+)"),
    _make_rule(
        "Home", "home", "No longer lives in {place}.",
        r"(?:i no longer live in |i (?:have )?moved (?:away from|out of) )(?P<place>.+)", ended=True,
    ),
    _make_rule(
        "Home", "home", "No longer lives in {place}.",
        rf"(?:i (?:don't|do not) live in )(?P<place>.+?){_ANYMORE}?$", ended=True,
    ),
    _make_rule(
        "Background", "origin", "Is from {place}.",
        rf"(?:{_AM}(?:originally )?from |i (?:originally )?come from )(?P<place>.+)",
    ),
    _make_rule(
        "Background", "grew up", "Grew up in {place}.",
        rf"(?:i was (?:born and )?raised in |{_I}grew up in )(?P<place>.+)",
    ),
    _make_rule("Background", "grew up", "Grew up near {place}.", rf"{_I}grew up near (?P<place>.+)"),
    _make_rule(
        "Background", "birthplace", "Was born in {place}.",
        r"i was born (?:and raised )?in (?P<place>(?!\d).+)",
    ),
    _make_rule("Identity", "birth year", "Was born in {year}.", r"i was born in (?P<year>(?:19|20)\d\d)\b"),
    _make_rule(
        "Identity", "age", "Is {age} years old.",
        r"(?:(?:i'm|im|i am) (?:now |already |currently )?|i (?:just "
        r"|recently )?turned )(?P<age>\d{1,3})(?= years old|$|[,.!]| and (?!a )| now$| today| yesterday| last)",
    ),
    _make_rule(
        "Identity", "birthday", "Birthday is {date}.",
        rf"(?:my birthday(?:'s| is) (?:on )?|i was born on )(?:the )?(?P<date>(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd"
        rf"|th)?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH}))\b",
    ),
    _make_rule(
        "Work", "job", "Is {trade}.",
        rf"(?:{_AM}(?:working as )?|(?:{_I}work|(?:i've|i have) (?:worked|been working)|{_HAVE}(?:started(?: working)?"
        rf"|got a job)) (?:at [\w ]{{2,40}} )?as )(?P<trade>an? .+)",
    ),
    _make_rule("Work", "job", "Is a student.", rf"{_AM}(?:a|an) (?:[\w-]+ ){{0,2}}student\b"),
    _make_rule(
        "Work", "job", "Is {state}.",
        rf"{_AM}(?P<state>retired|self-employed|unemployed|between jobs|on parental leave){_END}",
    ),
    _make_rule(
        "Work", "employer", "Works {prep} {employer}.",
        rf"(?:{_I}work (?:part-time |full-time |part time |full time |as an? [\w ]{{2,40}} )?|{_AM}(?:working"
        r"|employed) |(?:i've|i have) (?:been working|worked(?=.*\b(?:for \w+ \w+|since)\b)) )(?P<prep>at|for"
        r"|by) (?P<employer>.+)",
    ),
    _make_rule(
        "Work", "employer", "Works at {employer}.",
        rf"{_HAVE}(?:got a (?:new )?job|started(?: working| a new job| my new job| a job)?) (?:at"
        r"|with) (?P<employer>.+)",
    ),
    _make_rule(
        "Work", "employer", "Works at {employer}.",
        rf"{_HAVE}joined (?P<employer>(?-i:[A-Z])[\w&.'-]*(?: (?-i:[A-Z])[\w&.'-]*){{0,3}})(?=$|[,.;]| as\b| (?:in"
        rf"|last|this|back in"
        rf"|two|three|a few|recently|early|late) (?:{_MONTH}|month|week|year|spring|summer|autumn|fall|winter|(?:19"
        rf"|20)\d\d)\b)",
    ),
    _make_rule(
        "Work", "employer", "Works at {employer}.",
        rf"{_AM}(?P<trade>an? (?!.*student)[\w -]{{3,60}}?) at (?P<employer>.+)",
    ),
    _make_rule(
        "Education", "education:{clause}", "Studied {clause}.",
        rf"{_HAVE}(?:studied|majored in) (?P<clause>(?!for\b|hard\b|all\b|last\b|the\b|it\b|that\b|until\b)[\w ]+)$",
    ),
    _make_rule(
        "Education", "school", "Studies at {place}.",
        rf"(?:{_AM}an? (?:[\w-]+ ){{0,3}}student at |{_I}study (?:[\w ]{{2,40}} )?at )(?P<place>.+)",
    ),
    _make_rule(
        "Work", "employer", "No longer works at {employer}.",
        r"i (?:no longer work|stopped working) (?:at|for) (?P<employer>.+)", ended=True,
    ),
    _make_rule(
        "Work", "employer", "No longer works at {employer}.",
        rf"i (?:don't|do not) work (?:at|for) (?P<employer>.+?){_ANYMORE}?$", ended=True,
    ),
    _make_rule(
        "Work", "employer", "Left their job at {employer}.",
        rf"{_HAVE}(?:quit|left|lost|resigned from) my (?:old )?(?:job|position|role) (?:at|with) (?P<employer>.+)",
        ended=True,
    ),
    _make_rule(
        "Work", "employer", "No longer has their job.",
        rf"{_HAVE}(?:quit|left|lost|resigned from) my (?:job|position)\b(?! (?:at|with)\b)|i (?:got"
        r"|was) (?:laid off|fired)\b", ended=True,
    ),
    _make_rule("Work", "field", "Works in {field}.", rf"{_I}work in (?P<field>{FIELDS}){_END}"),
    _make_rule(
        "Education", "studies", "Studies {plain}.",
        rf"(?:{_I}study |{_AM}(?:studying|majoring in) )(?P<plain>(?!for\b|at\b|in\b|hard\b|a lot\b|every\b).+)",
    ),
    _make_rule("Education", "education:{place}", "Graduated from {place}.", rf"{_HAVE}graduated from (?P<place>.+)"),
    _make_rule(
        "Education", "education:{degree}", "Has {article} {degree} in {plain}.",
        rf"{_HAVE}(?:have |got |hold )?(?P<article>an?) (?P<degree>phd|ph\.d|doctorate|master's(?: degree)?"
        r"|bachelor's(?: degree)?|degree|mba) in (?P<plain>.+)",
    ),
    _make_rule(
        "Family", "family:{kin}:name", "{kin} is called {person}.",
        rf"my (?P<kin>(?:older |younger |little |big |twin )?(?:{KIN}))(?:'s name is| is called"
        r"| is named) (?P<person>.+)",
    ),
    _make_rule("Family", "family:{kin}:work", "{kin} is {trade}.", rf"my (?P<kin>{_KIN})(?:'s| is) (?P<trade>an? .+)"),
    _make_rule(
        "Family", "family:{kin}:home", "{kin} lives in {place}.",
        rf"my (?P<kin>{_KIN}) (?:lives|moved|just moved|is living) (?:in|to) (?P<place>.+)",
    ),
    _make_rule(
        "Family", "family:{kin}:employer", "{kin} works {prep} {employer}.",
        rf"my (?P<kin>{_KIN}) works (?P<prep>at|for) (?P<employer>.+)",
    ),
    _make_rule(
        "Family", "family:{kin}:age", "{kin} is {age} years old.",
        rf"my (?P<kin>{_KIN}) (?:is|just turned|turned) (?P<age>\d{{1,3}})(?= years old|$|[,.]| and)",
    ),
    _make_rule(
        "Family", "family:{kin}:origin", "{kin} is from {place}.",
        rf"my (?P<kin>{_KIN}) is (?:originally )?from (?P<place>.+)",
    ),
    _make_rule(
        "Family", "family:{kinship}:name", "Has {count} {kinship} called {person}.",
        r"(?:i have|i've got) (?P<count>an?) (?P<kinship>(?:older |younger |little |big "
        rf"|twin )?(?:{KIN}))(?: named| called| whose name is|,) (?P<person>.+)",
    ),
    _make_rule(
        "Family", "family:{kins}", "Has {count} {kins}.",
        rf"(?:i have|i've got) (?P<count>{_COUNT}) (?P<kins>(?:(?:older|younger|little|big|twin|small"
        r"|grown) )?(?:kids?|child(?:ren)?|sons?|daughters?|boys|girls|sisters?|brothers?|siblings?|grandchildren"
        r"|grandkids))\b(?! (?:in law|named|called)\b)",
    ),
    _make_rule(
        "Pets", "pet:{animal}:{person}", "Has {count} {animal} called {person}.",
        r"(?:i have|i've got|i (?:just )?(?:adopted|got)"
        rf"|i own) (?P<count>an?) (?:[\w-]+ ){{0,3}}?(?P<animal>{ANIMALS})(?: whose name is| named| called"
        r"|,) (?P<person>.+)",
    ),
    _make_rule(
        "Pets", "pet:{animal}", "Has {count} {animals}.",
        r"(?:i have|i've got|i (?:just )?(?:adopted)"
        rf"|i own) (?P<count>{_COUNT}) (?P<animals>(?:[\w-]+ ){{0,2}}?(?P<animal>{ANIMALS})s?){_END}(?!, "
        r"(?-i:[A-Z]))",
    ),
    _make_rule(
        "Pets", "pet:{animal}:{person}", "Has a {animal} called {person}.",
        rf"my (?P<animal>{ANIMALS})(?:'s name is| is called| is named) (?P<person>.+)",
    ),
    _make_rule(
        "Pets", "pet:{animal}:{person}", "{person} died.",
        rf"my (?P<animal>{ANIMALS}) (?P<person>(?-i:[A-Z])\w+)(?= (?:died|passed away))", ended=True,
    ),
    _make_rule(
        "Pets", "pet:{animal}", "{animal} died.",
        rf"my (?P<animal>{ANIMALS}) (?:died|passed away)", ended=True,
    ),
    _make_rule(
        "Pets", "pet:{animal}", "No longer has {count} {animal}.",
        rf"i no longer have (?P<count>an?|any|my) (?P<animal>{ANIMALS})s?\b", ended=True,
    ),
    _make_rule(
        "Pets", "pet:{animal}", "No longer has {count} {animal}.",
        rf"i (?:don't|do not) have (?P<count>an?|any|my) (?P<animal>{ANIMALS})s?{_ANYMORE}", ended=True,
    ),
    _make_rule(
        "Relationship", "relationship", "Is {state}.",
        rf"{_AM}(?P<state>(?:not )?married|engaged|divorced|single|widowed|separated){_END}(?! in\b)",
    ),
    _make_rule(
        "Relationship", "relationship", "Is {state} to {person}.",
        rf"{_AM}(?P<state>married|engaged) to (?P<person>.+)",
    ),
    _make_rule("Relationship", "relationship", "Is {state}.", rf"{_I}got (?P<state>married|engaged|divorced)\b"),
    _make_rule("Relationship", "relationship", "Is dating {person}.", rf"{_AM}dating (?P<person>.+)"),
    _make_rule(
        "Languages", "speaks:{languages}", "Speaks {languages}.",
        rf"(?:{_I}speak |{_AM}fluent in )(?P<languages>{_LEVEL}?(?:{LANGUAGES})\b(?:(?:,| and"
        rf"|, and) {_LEVEL}?(?:{LANGUAGES})\b)*)",
    ),
    _make_rule(
        "Languages", "native language", "Native language is {language}.",
        rf"my (?:native language|mother tongue|first language) is (?P<language>{LANGUAGES})\b",
    ),
    _make_rule(
        "Goals", "learning:{language}", "Is learning {language}.",
        rf"{_AM}(?:learning|studying) (?:to speak )?(?P<language>{LANGUAGES})\b",
    ),
    _make_rule(
        "Diet", "diet", "Is {diet}.",
        rf"{_AM}(?:an? )?(?P<diet>vegetarian|vegan|pescatarian|lactose[- ]intolerant|gluten[- ]intolerant|celiac"
        rf"|coeliac){_END}",
    ),
    _make_rule(
        "Diet", "diet", "Is no longer {diet}.",
        r"(?:(?:i'm|i am) (?:not|no longer) (?:an? )?|i stopped being (?:an? )?"
        r"|i'm not (?:an? )?)(?P<diet>vegetarian|vegan|pescatarian)\b", ended=True,
    ),
    _make_rule(
        "Diet", "eats:{food}", "Does not eat {food}.",
        r"i (?:don't|do not|can't|cannot|never) eat (?P<food>meat|red meat|pork|beef|fish|seafood|shellfish|dairy"
        r"|gluten|eggs|nuts|sugar|bread|chicken|wheat)"
        + _ALWAYS,
    ),
    _make_rule(
        "Diet", "drinks:{drink}", "Does not drink {drink}.",
        r"i (?:don't|do not|can't|never) drink (?P<drink>alcohol|coffee|tea|milk|wine|beer|soda)" + _ALWAYS,
    ),
    _make_rule(
        "Health", "allergy:{liked}", "Is allergic to {liked}.",
        rf"{_AM}(?:severely |very |deathly )?allergic to (?P<liked>(?!{NOT_ALLERGENS}).+)",
    ),
    _make_rule(
        "Health", "allergy:{liked}", "Is not allergic to {liked}.",
        r"(?:i'm|i am) (?:not|no longer) allergic to (?P<liked>.+)", ended=True,
    ),
    _make_rule(
        "Health", "allergy:{allergen}", "Has {article} {allergen} allergy.",
        r"i have (?P<article>an?) (?:severe |bad |mild )?(?P<allergen>[\w-]+) allergy\b",
    ),
    _make_rule(
        "Health", "health:{illness}", "Has {illness}.",
        rf"{_HAVE}(?:have |got |suffer from |live with )?(?:a (?:mild |severe |chronic )?|chronic |severe "
        rf"|mild )?(?P<illness>{ILLNESSES}){_END}",
    ),
    _make_rule(
        "Health", "health:{liked}", "Was diagnosed with {liked}.",
        r"(?:i was|i got|i've been|i have been|i've just been|i was just) (?:\w+ )?diagnosed with (?P<liked>.+)",
    ),
    _make_rule(
        "Preferences", "favorite:{what}", "Favorite {what} {be} {clause}.",
        r"my (?:all-time |absolute |new )?(?:favou?rite) (?P<what>[\w' -]{2,40}?)(?:'s| (?P<be>is"
        r"|are)) (?:definitely |probably |still |now |called )?(?P<clause>.+)",
    ),
    _make_rule(
        "Preferences", "likes:{liked}", "{verb} {liked}.",
        rf"{_I}(?P<verb>love|like|enjoy|adore|prefer|hate|dislike|despise|detest) (?P<liked>.+)",
    ),
    _make_rule(
        "Preferences", "likes:{liked}", "Is into {liked}.",
        rf"{_AM}(?:into|passionate about|crazy about|obsessed with|fond of) (?P<liked>.+)",
    ),
    _make_rule(
        "Preferences", "likes:{liked}", "Is a fan of {liked}.",
        rf"{_AM}a (?:big |huge |great |massive )?fan of (?P<liked>.+)",
    ),
    _make_rule(
        "Preferences", "likes:{liked}", "Cannot stand {liked}.",
        r"i (?:really )?(?:can't|cannot|can not) stand (?P<liked>.+)",
    ),
    _make_rule(
        "Preferences", "likes:{liked}", "Does not like {liked}{anymore}.",
        r"i (?:really )?(?:don't|do not|dont|no longer) (?:really |particularly |even )?(?:like|enjoy|love"
        rf"|care for) (?P<liked>.+?)(?P<anymore>{_ANYMORE})?(?:,.*)?$",
    ),
    _make_rule(
        "Possessions", "owns:{thing}", "Has {count} {things}.",
        r"(?:i own|i have|i've got|i (?:just |recently "
        rf"|finally )?bought) (?P<count>an?) (?P<things>(?:[\w-]+ ){{0,3}}?(?P<thing>{THINGS})){_END}",
    ),
    _make_rule(
        "Possessions", "owns:car", "Drives {plain}.",
        rf"{_I}drive (?P<plain>an? (?:[\w-]+ ){{0,2}}(?-i:[A-Z])[\w-]+.*)",
    ),
    _make_rule(
        "Possessions", "owns:{thing}", "Sold their {thing}.",
        rf"{_HAVE}sold my (?:old )?(?P<thing>{THINGS})\b", ended=True,
    ),
    _make_rule(
        "Goals", "goal:{goal}", "Wants to {goal}.",
        r"(?:i (?:really |also )?(?:want|hope|plan|would (?:love|like))|i'd (?:really )?(?:love|like)"
        r"|i'm (?:planning|hoping)|my (?:big |main )?(?:goal|dream) (?:this year )?is) to (?P<goal>(?!.*\b(?:today"
        r"|tonight|tomorrow|item|page)\b)(?:learn(?! how| what| why| more| about| if)|visit(?! my| you)|travel"
        r"|move to (?-i:(?=[A-Z]))|run a|become|study|retire|publish|climb|lose|write a|start a|open a"
        r"|buy a (?:house|car|boat|cabin|flat)|get (?:married|fit|in shape|a dog|a cat))\b.*)",
    ),
    _make_rule(
        "Goals", "plan:move", "Is moving to {place}{when}.",
        rf"{_AM}(?:moving|relocating) (?:back )?to (?P<place>.+?)(?P<when> (?:next (?:week|month|year)|in \w+"
        r"|tomorrow))?$",
    ),
    _make_rule("Goals", "training", "Is training for {plain}.", rf"{_AM}training for (?P<plain>.+)"),
)  # fmt: skip
