"""Lasting things that people say of themselves: where they live, what they do, whom and what they love."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .. import Entry
from .dates import dated
from .lexicon import ANIMALS, KIN, LANGUAGES, THINGS
from .manner import Manner
from .turns import Turn
from .values import clause, employer, key, liked, person, place, plain, several, trade
from .wording import core, cut, third_person

MOST = 40  # entries of one person in one stretch
LONGEST_EVIDENCE = 300

_ADVERB = r"(?:(?:really|absolutely|also|still|now|currently|just|recently|finally|actually|truly|definitely|particularly|always|usually|mostly|officially|already|originally) )*"
_AM = rf"(?:i'm|im|i am) {_ADVERB}"
_I = rf"i {_ADVERB}"
_HAVE = rf"(?:i|i've|i have) {_ADVERB}"
_COUNT = r"(?:a|an|one|two|three|four|five|six|seven|\d{1,2}|twin|no)"
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_KIN = rf"(?:older |younger |little |big |twin )?(?:{KIN})(?:,? (?-i:[A-Z])[\w'-]+,?)?"
_LEVEL = r"(?:fluent |some |a little |a bit of |basic )"
_END = r"(?=$|[,.;!]| (?:and|but|so|now|since|because|for|with|again|years?|anymore|at|in|who)\b)"
_ANYMORE = r"(?: any ?more| any longer)"

Clean = Callable[[str], str | None]
_CLEAN: Mapping[str, Clean] = {
    "place": place, "person": person, "trade": trade, "employer": employer, "liked": liked,
    "plain": plain, "clause": clause,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What a statement looks like, and what it says. The groups of the pattern are values of the kind of their name."""

    pattern: re.Pattern[str]
    category: str
    topic: str
    says: str
    ended: bool = False


def _rule(category: str, topic: str, says: str, pattern: str, *, ended: bool = False) -> _Rule:
    return _Rule(pattern=re.compile(pattern, re.I), category=category, topic=topic, says=says, ended=ended)


_RULES = (
    _rule("Identity", "name", "Name is {person}.", r"(?:my (?:full |first )?name(?:'s| is) (?:actually )?|call me |i go by |(?:i'm|i am) called )(?P<person>.+)"),
    _rule("Home", "home", "Lives in {place}.", rf"{_I}(?:live|reside) (?:right )?in (?P<place>.+)"),
    _rule("Home", "home", "Lives in {place}.", rf"{_I}live (?:in|with) (?:a|an|the|my) [\w -]{{2,40}} in (?P<place>.+)"),
    _rule("Home", "home", "Lives in {place}.", rf"(?:{_AM}(?:living|based|located|residing) (?:in|out of) |(?:i've|i have) (?:been living|lived) in )(?P<place>.+)"),
    _rule("Home", "home", "Lives in {place}.", rf"{_HAVE}(?:moved|relocated) (?:back )?(?:from [A-Z][\w ]{{1,30}} )?(?:here )?to (?P<place>.+)"),
    _rule("Home", "home", "Lives near {place}.", rf"{_I}live (?:near|outside|just outside|close to) (?P<place>.+)"),
    _rule("Home", "address", "Lives at {plain}.", rf"{_I}live at (?P<plain>\d.+)"),
    _rule("Home", "home", "No longer lives in {place}.", rf"(?:i no longer live in |i (?:have )?moved (?:away from|out of) )(?P<place>.+)", ended=True),
    _rule("Home", "home", "No longer lives in {place}.", rf"(?:i (?:don't|do not) live in )(?P<place>.+?){_ANYMORE}?$", ended=True),
    _rule("Background", "origin", "Is from {place}.", rf"(?:{_AM}(?:originally )?from |i (?:originally )?come from )(?P<place>.+)"),
    _rule("Background", "grew up", "Grew up in {place}.", rf"(?:i was (?:born and )?raised in |{_I}grew up in )(?P<place>.+)"),
    _rule("Background", "grew up", "Grew up near {place}.", rf"{_I}grew up near (?P<place>.+)"),
    _rule("Background", "birthplace", "Was born in {place}.", r"i was born (?:and raised )?in (?P<place>(?!\d).+)"),
    _rule("Identity", "birth year", "Was born in {year}.", r"i was born in (?P<year>(?:19|20)\d\d)\b"),
    _rule("Identity", "age", "Is {age} years old.", rf"(?:(?:i'm|im|i am) (?:now |already |currently )?|i (?:just |recently )?turned )(?P<age>\d{{1,3}})(?= years old|$|[,.!]| and (?!a )| now$| today| yesterday| last)"),
    _rule("Identity", "birthday", "Birthday is {date}.", rf"(?:my birthday(?:'s| is) (?:on )?|i was born on )(?:the )?(?P<date>(?:{_MONTH}) \d{{1,2}}|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH}))\b"),
    _rule("Work", "job", "Is {trade}.", rf"(?:{_AM}(?:working as )?|{_HAVE}(?:work|worked|been working|started(?: working)?|got a job) (?:at [\w ]{{2,40}} )?as )(?P<trade>an? .+)"),
    _rule("Work", "job", "Is a student.", rf"{_AM}(?:a|an) (?:[\w-]+ ){{0,2}}student\b"),
    _rule("Work", "job", "Is {state}.", rf"{_AM}(?P<state>retired|self-employed|unemployed|between jobs|on parental leave){_END}"),
    _rule("Work", "employer", "Works at {employer}.", rf"(?:{_I}work (?:as an? [\w ]{{2,40}} )?(?:at|for) |{_AM}(?:working|employed) (?:at|for|by) |(?:i've|i have) (?:been working|worked) (?:at|for) )(?P<employer>.+)"),
    _rule("Work", "employer", "Works at {employer}.", rf"{_HAVE}(?:got a (?:new )?job|started(?: working| a new job| my new job| a job)?) (?:at|with) (?P<employer>.+)"),
    _rule("Work", "employer", "Works at {employer}.", rf"{_AM}(?=an? )[\w -]{{3,60}}? at (?P<employer>[A-Z].+)"),
    _rule("Work", "employer", "No longer works at {employer}.", rf"i (?:no longer work|stopped working) (?:at|for) (?P<employer>.+)", ended=True),
    _rule("Work", "employer", "No longer works at {employer}.", rf"i (?:don't|do not) work (?:at|for) (?P<employer>.+?){_ANYMORE}?$", ended=True),
    _rule("Work", "employer", "Left their job at {employer}.", rf"{_HAVE}(?:quit|left|lost|resigned from) my (?:old )?(?:job|position|role) (?:at|with) (?P<employer>.+)", ended=True),
    _rule("Work", "employer", "Left their job.", rf"{_HAVE}(?:quit|left|lost|resigned from) my (?:job|position)\b(?! (?:at|with)\b)|i (?:got|was) (?:laid off|fired)\b", ended=True),
    _rule("Work", "field", "Works in {plain}.", rf"{_I}work in (?P<plain>(?!the\b|a\b|an\b|my\b|this\b)[a-z].+)"),
    _rule("Education", "studies", "Studies {plain}.", rf"(?:{_I}study |{_AM}(?:studying|majoring in) )(?P<plain>(?!for\b|at\b|in\b|hard\b|a lot\b|every\b).+)"),
    _rule("Education", "education:{place}", "Graduated from {place}.", rf"{_HAVE}graduated from (?P<place>.+)"),
    _rule("Education", "education:{degree}", "Has {article} {degree} in {plain}.", rf"{_HAVE}(?:have |got |hold )?(?P<article>an?) (?P<degree>phd|ph\.d|doctorate|master's(?: degree)?|bachelor's(?: degree)?|degree|mba) in (?P<plain>.+)"),
    _rule("Family", "family:{kin}:name", "{kin} is called {person}.", rf"my (?P<kin>(?:older |younger |little |big |twin )?(?:{KIN}))(?:'s name is| is called| is named) (?P<person>.+)"),
    _rule("Family", "family:{kin}:work", "{kin} is {trade}.", rf"my (?P<kin>{_KIN})(?:'s| is) (?P<trade>an? .+)"),
    _rule("Family", "family:{kin}:home", "{kin} lives in {place}.", rf"my (?P<kin>{_KIN}) (?:lives|moved|just moved|is living) (?:in|to) (?P<place>.+)"),
    _rule("Family", "family:{kin}:employer", "{kin} works at {employer}.", rf"my (?P<kin>{_KIN}) works (?:at|for) (?P<employer>.+)"),
    _rule("Family", "family:{kin}:age", "{kin} is {age} years old.", rf"my (?P<kin>{_KIN}) (?:is|just turned|turned) (?P<age>\d{{1,3}})(?= years old|$|[,.]| and)"),
    _rule("Family", "family:{kin}:origin", "{kin} is from {place}.", rf"my (?P<kin>{_KIN}) is (?:originally )?from (?P<place>.+)"),
    _rule("Family", "family:{kins}", "Has {count} {kins}.", rf"(?:i have|i've got) (?P<count>{_COUNT}) (?P<kins>(?:(?:older|younger|little|big|twin|small|grown) )?(?:kids?|child(?:ren)?|sons?|daughters?|boys|girls|sisters?|brothers?|siblings?|grandchildren|grandkids))\b(?! in law)"),
    _rule("Pets", "pet:{animal}:{person}", "Has {count} {animal} called {person}.", rf"(?:i have|i've got|i (?:just )?(?:adopted|got)|i own) (?P<count>an?) (?:[\w-]+ ){{0,3}}?(?P<animal>{ANIMALS})(?: whose name is| named| called|,) (?P<person>.+)"),
    _rule("Pets", "pet:{animal}", "Has {count} {animals}.", rf"(?:i have|i've got|i (?:just )?(?:adopted)|i own) (?P<count>{_COUNT}) (?P<animals>(?:[\w-]+ ){{0,2}}?(?P<animal>{ANIMALS})s?){_END}(?!, [A-Z])"),
    _rule("Pets", "pet:{animal}:{person}", "Has a {animal} called {person}.", rf"my (?P<animal>{ANIMALS})(?:'s name is| is called| is named) (?P<person>.+)"),
    _rule("Pets", "pet:{animal}", "{animal} died.", rf"my (?P<animal>{ANIMALS})(?: [A-Z]\w+)? (?:died|passed away)", ended=True),
    _rule("Relationship", "relationship", "Is {state}.", rf"{_AM}(?P<state>married|engaged|divorced|single|widowed|separated){_END}(?! in\b)"),
    _rule("Relationship", "relationship", "Is {state} to {person}.", rf"{_AM}(?P<state>married|engaged) to (?P<person>.+)"),
    _rule("Relationship", "relationship", "Is {state}.", rf"{_I}got (?P<state>married|engaged|divorced)\b"),
    _rule("Relationship", "relationship", "Is dating {person}.", rf"{_AM}dating (?P<person>.+)"),
    _rule("Languages", "speaks:{languages}", "Speaks {languages}.", rf"(?:{_I}speak |{_AM}fluent in )(?P<languages>{_LEVEL}?(?:{LANGUAGES})\b(?:(?:,| and|, and) {_LEVEL}?(?:{LANGUAGES})\b)*)"),
    _rule("Languages", "native language", "Native language is {language}.", rf"my (?:native language|mother tongue|first language) is (?P<language>{LANGUAGES})\b"),
    _rule("Goals", "learning:{language}", "Is learning {language}.", rf"{_AM}(?:learning|studying) (?:to speak )?(?P<language>{LANGUAGES})\b"),
    _rule("Diet", "diet", "Is {diet}.", rf"{_AM}(?:an? )?(?P<diet>vegetarian|vegan|pescatarian|lactose[- ]intolerant|gluten[- ]intolerant|celiac|coeliac){_END}"),
    _rule("Diet", "diet", "Is no longer {diet}.", rf"(?:(?:i'm|i am) (?:not|no longer) (?:an? )?|i stopped being (?:an? )?|i'm not (?:an? )?)(?P<diet>vegetarian|vegan|pescatarian)\b", ended=True),
    _rule("Diet", "eats:{food}", "Does not eat {food}.", rf"i (?:don't|do not|can't|cannot|never) eat (?P<food>meat|red meat|pork|beef|fish|seafood|shellfish|dairy|gluten|eggs|nuts|sugar|bread|chicken|wheat)\b"),
    _rule("Diet", "drinks:{drink}", "Does not drink {drink}.", rf"i (?:don't|do not|can't|never) drink (?P<drink>alcohol|coffee|tea|milk|wine|beer|soda)\b"),
    _rule("Health", "allergy:{plain}", "Is allergic to {plain}.", rf"{_AM}(?:severely |very |deathly )?allergic to (?P<plain>.+)"),
    _rule("Health", "allergy:{plain}", "Is not allergic to {plain}.", r"(?:i'm|i am) (?:not|no longer) allergic to (?P<plain>.+)", ended=True),
    _rule("Health", "allergy:{allergen}", "Has {article} {allergen} allergy.", rf"i have (?P<article>an?) (?:severe |bad |mild )?(?P<allergen>[\w-]+) allergy\b"),
    _rule("Preferences", "favorite:{what}", "Favorite {what} is {clause}.", r"my (?:all-time |absolute |new )?(?:favou?rite) (?P<what>[\w' -]{2,40}?)(?:'s| is| are) (?:definitely |probably |still |now |called )?(?P<clause>.+)"),
    _rule("Preferences", "likes:{liked}", "{verb} {liked}.", rf"{_I}(?P<verb>love|like|enjoy|adore|prefer|hate|dislike|despise|detest) (?P<liked>.+)"),
    _rule("Preferences", "likes:{liked}", "Is into {liked}.", rf"{_AM}(?:into|passionate about|crazy about|obsessed with|fond of) (?P<liked>.+)"),
    _rule("Preferences", "likes:{liked}", "Is a fan of {liked}.", rf"{_AM}a (?:big |huge |great |massive )?fan of (?P<liked>.+)"),
    _rule("Preferences", "likes:{liked}", "Cannot stand {liked}.", r"i (?:really )?(?:can't|cannot|can not) stand (?P<liked>.+)"),
    _rule("Preferences", "likes:{liked}", "Does not like {liked}{anymore}.", rf"i (?:really )?(?:don't|do not|dont|no longer) (?:really |particularly |even )?(?:like|enjoy|love|care for) (?P<liked>.+?)(?P<anymore>{_ANYMORE})?(?:,.*)?$"),
    _rule("Possessions", "owns:{thing}", "Has {count} {things}.", rf"(?:i own|i have|i've got|i (?:just |recently |finally )?bought) (?P<count>an?) (?P<things>(?:[\w-]+ ){{0,3}}?(?P<thing>{THINGS})){_END}"),
    _rule("Possessions", "owns:car", "Drives {plain}.", rf"{_I}drive (?P<plain>an? (?:[\w-]+ ){{0,2}}(?-i:[A-Z])[\w-]+.*)"),
    _rule("Possessions", "owns:{thing}", "Sold their {thing}.", rf"{_HAVE}sold my (?:old )?(?P<thing>{THINGS})\b", ended=True),
    _rule("Goals", "goal:{goal}", "Wants to {goal}.", r"(?:i (?:really |also )?(?:want|hope|plan|would (?:love|like))|i'd (?:really )?(?:love|like)|i'm (?:planning|hoping)|my (?:big |main )?(?:goal|dream) (?:this year )?is) to (?P<goal>(?:learn|visit|travel|move to|run a|become|study|retire|publish|climb|lose|write a|start a|open a|buy a (?:house|car|boat|cabin|flat)|get (?:married|fit|in shape|a dog|a cat))\b.*)"),
    _rule("Goals", "plan:move", "Is moving to {place}{when}.", rf"{_AM}(?:moving|relocating) (?:back )?to (?P<place>.+?)(?P<when> (?:next (?:week|month|year)|in \w+|tomorrow))?$"),
    _rule("Goals", "training", "Is training for {plain}.", rf"{_AM}training for (?P<plain>.+)"),
)  # fmt: skip

_HABIT = re.compile(
    r"\b(?:every|each) (?:single )?(?:day|morning|evening|night|week|weekend|month|year|spring|summer|autumn|fall|winter|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|\bon (?:weekdays|weekends|(?:mon|tues|wednes|thurs|fri|satur|sun)days)\b"
    r"|\b(?:once|twice|three times|\d times) (?:a|per) (?:day|week|month|year)\b|^i (?:usually|typically|normally|generally) "
    r"|^i (?:always|never) (?!been|had|thought|knew|wanted|loved|forgot)|^i (?:wake up|get up|go to bed) at \d|^i (?:bike|walk|cycle|run) to work\b|^i work (?:from home|remotely|nights)\b"
    r"|^i don't smoke\b|^i smoke\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(rf"i {_ADVERB}(?:never )?(?!was|had|did|went|think|know|hope|see|mean|guess|am|have|need|want|feel|\w+ed\b)[a-z]+", re.I)
_NOT_SO = re.compile(
    r"\b(?:if|would(?! (?:love|like) to)|might|wish|maybe|perhaps|probably|unless|imagine|suppose|pretend|almost|kidding|joking|jk|"
    r"used to|hypothetically|dream(?:ed|t)|not sure|in (?:my|the|a) (?:novel|story|book|game|dream)|character)\b|[\"“”«»?]",
    re.IGNORECASE,
)
_NEXT = re.compile(r",? (?:and|but|so|then) (?=(?:i|i'm|i've|my)\b)|; |, (?=(?:i|i'm|i've|my) )| - | – | — ", re.IGNORECASE)
_SECOND = re.compile(r" and (?=(?:also )?(?:work|live|study|speak|love|hate|own|enjoy|drive) )", re.IGNORECASE)
_NOT_FINITE = re.compile(r"\b(?:to|will|can|could|should|must|don't|didn't|never|used)\b|'(?:ll|d)\b", re.IGNORECASE)
_VERBS = {"hate": "Hates", "despise": "Despises", "detest": "Detests", "dislike": "Dislikes", "adore": "Adores"}

_ANSWERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.I), start)
    for pattern, start in (
        (r"\bwhere do you (?:currently )?live\b|\bwhere are you based\b|\b(?:which|what) (?:city|town|country) do you live in\b", "I live in "),
        (r"\bwhere are you (?:originally )?from\b", "I'm from "),
        (r"\bwhat(?:'s| is) your name\b|\bwhat (?:should|can|do) i call you\b", "My name is "),
        (r"\bhow old are you\b|\bwhat(?:'s| is) your age\b", "I'm "),
        (r"\bwhere do you work\b|\bwho do you work for\b", "I work at "),
        (r"\bwhat do you do for (?:a living|work)\b|\bwhat(?:'s| is) your (?:job|profession)\b|\bwhat do you do\?", "I'm "),
        (r"\bwhen(?:'s| is) your birthday\b", "My birthday is "),
    )
)  # fmt: skip
_FAVORITE = re.compile(r"\bwhat(?:'s| is| are) your favou?rite ([\w ]{2,30})\?", re.IGNORECASE)


def entries(turns: Sequence[Turn]) -> dict[str, tuple[Entry, ...]]:
    """What each user said of themself that lasts, by the sender's id, in the order in which it was said."""
    found: dict[str, list[Entry]] = {}
    alone = len({turn.message.sender for turn in turns}) <= 2
    names = frozenset(turn.name for turn in turns)
    for turn in turns:
        if turn.message.role == "user":
            mine = found.setdefault(turn.message.sender, [])
            mine.extend(_of(turn, alone, names - {turn.name}))
    return {sender: tuple(mine[:MOST]) for sender, mine in found.items() if mine}


def _of(turn: Turn, alone: bool, others: frozenset[str]) -> Iterator[Entry]:
    if any(re.search(r"\b(?:just kidding|jk|only joking)\b", one.text, re.I) for one in turn.sentences):
        return
    for number, sentence in enumerate(turn.sentences):
        answered = _answered(turn, sentence.text) if alone and number == 0 else None
        if sentence.manner is not Manner.STATEMENT or len(sentence.text) > 600:
            continue
        text = core(answered or sentence.text)
        if _NOT_SO.search(text):
            continue
        for part in _clauses(text):
            if part.rpartition(", ")[2] in others:
                part = part.rpartition(", ")[0]
            yield from _read(part, sentence.text, turn)


def _answered(turn: Turn, text: str) -> str | None:
    """A short answer as the whole sentence that it stands for."""
    if turn.asked is None or len(text.split()) > 6 or re.match(r"(?:i|i'm|my|we|it|in|at|near)\b", text, re.I):
        return None
    if favorite := _FAVORITE.search(turn.asked.question):
        return f"My favorite {favorite[1]} is {text}"
    return next((start + text for asked, start in _ANSWERS if asked.search(turn.asked.question)), None)


def _clauses(text: str) -> Iterator[str]:
    """The clauses of a sentence that have the speaker for their subject, each beginning with it."""
    for part in _NEXT.split(text):
        second = _SECOND.search(part)
        if second and part[:2].lower() == "i " and not _NOT_FINITE.search(part[: second.start()]):
            yield part[: second.start()]
            yield f"I {part[second.end() :]}"
        else:
            yield part


def _read(part: str, evidence: str, turn: Turn) -> Iterator[Entry]:
    """The entries that a clause gives: at most one for each topic."""
    seen: set[str] = set()
    for rule in _RULES:
        match = rule.pattern.match(part)
        if match is None:
            continue
        for topic, says in _said(rule, match):
            if topic not in seen:
                seen.add(topic)
                yield _entry(rule.category, topic, says, evidence, turn, ended=rule.ended)
    if not seen and _HABIT.search(part) and _PRESENT.match(part) and (told := third_person(part, "\x1a")):
        says = told.removeprefix("\x1a ").removeprefix("also ").replace("\x1a", "them")
        if told.startswith("\x1a "):
            verb_and_object = key(re.sub(r"^i\b", "", core(part), flags=re.I)) or says.lower()
            yield _entry("Habits", f"habit:{verb_and_object}", says[:1].upper() + says[1:], evidence, turn)


def _said(rule: _Rule, match: re.Match[str]) -> Iterator[tuple[str, str]]:
    """The topics and descriptions that a rule reads from a match; none if a value is not of its kind."""
    values: dict[str, str] = {}
    for name, value in match.groupdict(default="").items():
        cleaned = _CLEAN[name](value) if name in _CLEAN else value
        if cleaned is None:
            return
        values[name] = cleaned
    if "age" in values and not 0 < int(values["age"]) < 120:
        return
    many = next((name for name in ("liked", "languages") if name in values), "")
    for thing in several(values[many], name=many) if many else [""]:
        own = {**values, many: thing} if many else values
        topic = rule.topic.format(**{name: _identity(name, value) for name, value in own.items()})
        yield topic, rule.says.format(**{name: _shown(name, value) for name, value in own.items()})


def _identity(name: str, value: str) -> str:
    if name == "languages":
        return value.split()[-1].lower()
    return key(value) if name in ("liked", "goal", "plain") else value.strip(" ,").replace(",", "").lower()


def _shown(name: str, value: str) -> str:
    if name == "verb":
        return _VERBS.get(value.lower(), f"{value.capitalize()}s")
    if name == "kin":
        return value[:1].upper() + value[1:].strip(" ,").replace(",", "")
    if name == "language":
        return value.upper() if value.lower() == "asl" else value.capitalize()
    if name == "languages":
        return " ".join([*value.lower().split()[:-1], _shown("language", value.split()[-1])])
    if name == "goal":
        return clause(value) or value
    return value


def _entry(category: str, topic: str, says: str, evidence: str, turn: Turn, *, ended: bool = False) -> Entry:
    says = re.sub(r"\s+", " ", says)
    return Entry(
        topic=topic[:120],
        category=category,
        description=cut(dated(says[:1].upper() + says[1:], turn.said), 240),
        evidence=cut(evidence, LONGEST_EVIDENCE),
        at=turn.message.at,
        message=turn.message.id,
        ended=ended,
    )
