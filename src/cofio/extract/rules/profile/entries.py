"""Lasting things that people say of themselves: where they live, what they do, whom and what they love."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ...extractor import Entry
from ..lexicon import ANIMALS, KIN, MONTHS, THINGS, VERBS, WEEKDAYS, parse_words
from ..messages.manner import Manner
from ..messages.turns import Turn
from ..narration.dates import add_dates
from ..narration.facts import refers_back
from ..narration.reported_speech import extract_core, shorten, strip_time, to_third_person
from ..senses.verdicts import is_ended, shows_text
from .corrections import Correction, find_correction
from .spoken_entries import find_instruction, find_spoken
from .statement_values import normalize_thing, parse_clause, parse_lowercase_name, split_things
from .traits import ADVERB, CLEAN, RULES, Rule
from .vetoes import is_jest, is_long_ago, is_not_so, is_unreal

_Key: TypeAlias = tuple[str, str, str]

MOST = 40  # entries of one person in one stretch
LONGEST_EVIDENCE = 300
LONGEST_STATEMENT = 400  # characters, beyond which a sentence tells more than one thing

_HABITUAL = (VERBS | {"read", "put", "set"}) - parse_words("think know hope see mean guess have need want feel get do")

_HABIT = re.compile(
    r"\b(?:every|each) (?:single )?(?:day|morning|evening|night|week|weekend|month|year|spring|summer|autumn|fall"
    r"|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|\bon (?:weekdays|weekends|(?:mon|tues|wednes|thurs|fri"
    r"|satur|sun)days)\b|\b(?:once|twice|three times|\d times) (?:a|per) (?:day|week|month|year)\b|^i (?:usually"
    r"|typically|normally|generally) |^i (?:always|never) (?!been|had|thought|knew|wanted|loved|forgot)"
    r"|^i (?:wake up|get up|go to bed) at \d|^i (?:bike|walk|cycle|run) to work\b|^i work (?:from home|remotely"
    r"|nights)\b|^i don't smoke\b|^i smoke\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(rf"i {ADVERB}(?:never |don't |typically |normally |generally |often )?([a-z]+)", re.I)
_NEXT = re.compile(
    r",? (?:and|but|so|then) (?=(?:i|i'm|im|i've|my)\b)|; |, (?=(?:i|i'm|im|i've|my) )| (?=im \d)| - | – | — ",
    re.IGNORECASE,
)
_SECOND = re.compile(r" and (?=(?:also )?(?:work|live|study|speak|love|hate|own|enjoy|drive) )", re.IGNORECASE)
_NOT_FINITE = re.compile(r"\b(?:to|will|can|could|should|must|don't|didn't|never|used)\b|'(?:ll|d)\b", re.IGNORECASE)
_VERBS = {"hate": "Hates", "despise": "Despises", "detest": "Detests", "dislike": "Dislikes", "adore": "Adores"}

_ALLERGIC = "I'm allergic to "
_ANSWERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.I), start)
    for pattern, start in (
        (r"\bwhere do you (?:currently )?live\b|\bwhere are you based\b", "I live in "),
        (r"\b(?:which|what) (?:city|town|country) do you live in\b", "I live in "),
        (r"\bwhere are you (?:originally )?from\b", "I'm from "),
        (r"\bwhat(?:'s| is) your name\b|\bwhat (?:should|can|do) i call you\b", "My name is "),
        (r"\bhow old are you\b|\bwhat(?:'s| is) your age\b", "I'm "),
        (r"\bwhere do you work\b|\bwho do you work for\b", "I work at "),
        (r"\bwhat do you do (?:for (?:a living|work)\b|\?)|\bwhat(?:'s| is) your (?:job|profession)\b", "I'm "),
        (r"\bwhen(?:'s| is) your birthday\b", "My birthday is "),
        (r"\bare you allergic to\b|\bany (?:\w+ )?allerg|\bwhat are you allergic\b", _ALLERGIC),
    )
)  # fmt: skip
_KID = re.compile(
    r"(?:(?:hi+|hello|hey)[,!]? )*(?:im|i'm|i am) ([a-z]{2,12})(?:,| and)? (?:im|i'm|i am) (\d{1,2})\b", re.I
)
_YES = re.compile(r"^(?:yes|yeah|yep|yup|yea|sure)\b[,.!:]? *", re.IGNORECASE)
_NO = re.compile(r"(?:no|nope|none|not|never|nothing|nah)\b", re.IGNORECASE)
_HAPPENED = re.compile(
    rf"(?:i|i've|i have|my [\w ]{{2,40}}?) {ADVERB}(?:had |was |were )?(?:moved|relocated|worked|started|got|joined"
    rf"|adopted|bought|lived|had|was|were"
    r"|loved|liked|owned|quit|left|lost|sold|studied)\b",
    re.IGNORECASE,
)
_LASTING = frozenset({"Background", "Identity", "Education", "Health", "Relationship"})
_RELATIVE = re.compile(rf"\b(?i:my) (?P<kin>(?:{KIN}))(?:,)? (?P<name>[A-Z][a-z]+)\b(?=$|,|[.!]| (?-i:[a-z]))(?!')")
_NOT_NAMES = frozenset((*WEEKDAYS, *(month.lower() for month in MONTHS))) | parse_words("i god mr mrs dr")
_PROPER = re.compile(r"(?<=[a-z,] )(?:[A-Z][\w'-]*(?: [A-Z][\w'-]*)*|\d[\d.,]*\d|\d)")
_HAVE_MANY = re.compile(r"(?:i have|i've got|i own|ive got|i've) ", re.IGNORECASE)
_AND = re.compile(r",? and (?!i\b)|, ")
_COUNTED = re.compile(
    rf"(?:a|an|one|two|three|four|five|six|seven|\d{{1,2}}) (?:[\w-]+ ){{0,2}}(?:{KIN}|{ANIMALS}|{THINGS}|kid"
    rf"|child(?:ren)?|sibling|boy|girl"
    r"|grandchildren|grandkid)s?\b",
    re.IGNORECASE,
)
_READ = tuple(rule for rule in RULES if rule.topic != "job")  # "I'm a night owl" tells something else
_FAVORITE = re.compile(r"\bwhat(?:'s| is| are) your favou?rite ([\w ]{2,30})\?", re.IGNORECASE)


def find_entries(turns: Sequence[Turn]) -> dict[str, tuple[Entry, ...]]:
    """What each user said of themself that lasts, by the sender's id, in the order in which it was said."""
    found: dict[str, dict[_Key, Entry]] = {}
    alone = len({turn.message.sender for turn in turns}) <= 2
    names = frozenset(turn.name for turn in turns)
    for turn in turns:
        if turn.message.role == "user":
            mine = found.setdefault(turn.message.sender, {})
            for entry in _find_in_turn(turn, alone, names - {turn.name}, mine):
                mine.setdefault((entry.message, entry.topic, entry.description), entry)
    return {sender: tuple(mine.values())[-MOST:] for sender, mine in found.items() if mine}


def _find_in_turn(turn: Turn, alone: bool, others: frozenset[str], mine: Mapping[_Key, Entry]) -> Iterator[Entry]:
    """The entries of one turn; none where all of it was said in jest. `mine` is what the speaker said before."""
    if any(is_jest(one.text) for one in turn.sentences):
        return
    opens = True
    for sentence in turn.sentences:
        answered = _complete_answer(turn, sentence.text) if alone and opens else None
        opens = opens and sentence.manner is Manner.COURTESY
        if shows_text(sentence):
            return
        if len(sentence.text) > LONGEST_STATEMENT:
            continue
        states = sentence.manner is Manner.STATEMENT
        if states and answered is None and (meant := find_correction(sentence.text)):
            yield from _apply_correction(meant, sentence.text, turn, list(mine.values()))
            continue
        if instruction := find_instruction(sentence, turn):
            yield instruction
        if not states:
            if sentence.manner in (Manner.QUESTION, Manner.REQUEST):  # "I'm on warfarin, so is grapefruit fine?"
                yield from find_spoken(sentence, turn)
            continue
        text = extract_core(answered or sentence.text)
        spoken = list(_find_in_statement(text, sentence.text, turn, others))
        if instruction is not None:  # "I prefer short answers" is nothing that someone likes
            yield from (entry for entry in spoken if entry.topic == "name")
            continue
        if not is_ended(sentence):  # "my wife Loretta passed two years ago" does not say that she is called so
            spoken += _find_relatives(text, sentence.text, turn, spoken)
        if not spoken and answered is None:
            own_words = list(find_spoken(sentence, turn))
            spoken += own_words if own_words and not _is_read(text) else []
        yield from spoken


def _find_in_statement(text: str, evidence: str, turn: Turn, others: frozenset[str]) -> Iterator[Entry]:
    """The entries of one statement."""
    timeless = strip_time(text)
    if is_not_so(timeless):
        return
    if kid_said := _KID.match(timeless):
        if timeless.islower() and (name := parse_lowercase_name(kid_said[1])):
            yield _build_entry("Identity", "name", f"Name is {name}.", evidence, turn)
        yield from _read_clause(f"im {kid_said[2]}", evidence, turn)
        return
    long_ago = is_long_ago(text, turn.said_at.year)
    for part in _split_clauses(timeless):
        if part.rpartition(", ")[2] in others:
            part = part.rpartition(", ")[0]
        for entry in _read_clause(part, evidence, turn):
            if not (long_ago and entry.category not in _LASTING and _HAPPENED.match(part)):
                yield entry


def _find_relatives(text: str, evidence: str, turn: Turn, spoken: list[Entry]) -> Iterator[Entry]:
    """The names of relatives that a statement mentions, where it tells nothing else of them."""
    if is_unreal(text):
        return
    for found in _RELATIVE.finditer(text):
        kin, name = found["kin"].lower(), found["name"]
        if name.lower() not in _NOT_NAMES and not any(one.topic.startswith(f"family:{kin}") for one in spoken):
            says = f"{kin[:1].upper()}{kin[1:]} is called {name}."
            yield _build_entry("Family", f"family:{kin}:name", says, evidence, turn)


def _apply_correction(meant: Correction, evidence: str, turn: Turn, before: list[Entry]) -> Iterator[Entry]:
    """The speaker's last entry that holds the wrong value, with the right one in its place."""
    for entry in reversed(before):
        names = _PROPER.findall(entry.description)
        old = meant.old or next((one for one in names if one[:1].isdigit() == meant.new[:1].isdigit()), "")
        if entry.ended or not old or not re.search(rf"\b{re.escape(old)}\b", entry.description):
            continue
        says = re.sub(rf"\b{re.escape(old)}\b", lambda _: meant.new, entry.description)
        topic = entry.topic
        for one, other in ((old.lower(), meant.new.lower()), (normalize_thing(old), normalize_thing(meant.new))):
            topic = topic.replace(one, other) if one and topic == entry.topic else topic
        yield _build_entry(entry.category, topic, says, evidence, turn)
        if topic != entry.topic:
            yield _build_entry(entry.category, entry.topic, f"Not so: {entry.description}", evidence, turn, ended=True)
        return


def _complete_answer(turn: Turn, text: str) -> str | None:
    """A short answer as the whole sentence that it stands for."""
    text = _YES.sub("", text)
    if (
        turn.question is None
        or len(text.split()) > 6
        or _NO.match(text)
        or re.match(r"(?:i|i'm|my|we|it|in|at|near)\b", text, re.I)
    ):
        return None
    if favorite := _FAVORITE.search(turn.question.text):
        return f"My favorite {favorite[1]} is {text}"
    start = next((start for pattern, start in _ANSWERS if pattern.search(turn.question.text)), None)
    if start == _ALLERGIC:
        text = text[:1].lower() + text[1:]
    return None if start is None else start + text


def _split_clauses(text: str) -> Iterator[str]:
    """The clauses of a sentence that have the speaker for their subject, each beginning with it."""
    for part in _NEXT.split(text):
        if several := _split_list(part):
            yield from several
            continue
        second = _SECOND.search(part)
        if second and part[:2].lower() == "i " and not _NOT_FINITE.search(part[: second.start()]):
            yield part[: second.start()]
            yield f"I {part[second.end() :]}"
        else:
            yield part


def _split_list(part: str) -> list[str]:
    """The single statements of "I have a cat, a dog and two parrots"; none where it is no such list."""
    have = _HAVE_MANY.match(part)
    if have is None or " and " not in part:  # "a dog, a labrador" is one
        return []
    parts = [one.strip() for one in _AND.split(part[have.end() :])]
    return [f"I have {one}" for one in parts] if len(parts) > 1 and all(map(_COUNTED.match, parts)) else []


def _read_clause(part: str, evidence: str, turn: Turn) -> Iterator[Entry]:
    """The entries that a clause gives: at most one for each topic."""
    seen: set[str] = set()
    for rule in RULES:
        match = rule.pattern.match(part)
        if match is None:
            continue
        for topic, says in _apply_rule(rule, match):
            if topic not in seen:
                seen.add(topic)
                yield _build_entry(rule.category, topic, says, evidence, turn, ended=rule.ended)
    if not seen and _is_habit(part) and (statement := to_third_person(part, "\x1a")):
        says = statement.removeprefix("\x1a ").removeprefix("also ").replace("\x1a", "them")
        if statement.startswith("\x1a "):
            verb_and_object = normalize_thing(re.sub(r"^i\b", "", extract_core(part), flags=re.I)) or says.lower()
            yield _build_entry("Habits", f"habit:{verb_and_object}", says[:1].upper() + says[1:], evidence, turn)


def _is_read(text: str) -> bool:
    """Whether a rule knows what a statement looks like: where it took nothing from it, there is nothing that lasts."""
    parts = list(_split_clauses(strip_time(text)))
    return any(rule.pattern.match(part) for part in parts for rule in _READ)


def _is_habit(part: str) -> bool:
    """Whether a clause tells what someone does again and again."""
    verb = _PRESENT.match(part)
    return (
        verb is not None and verb[1].lower() in _HABITUAL and _HABIT.search(part) is not None and not refers_back(part)
    )


def _apply_rule(rule: Rule, match: re.Match[str]) -> Iterator[tuple[str, str]]:
    """The topics and descriptions that a rule reads from a match; none if a value is not of its kind."""
    values: dict[str, str] = {}
    for name, value in match.groupdict(default="").items():
        cleaned = CLEAN[name](value) if name in CLEAN else value
        if cleaned is None:
            return
        values[name] = cleaned
    if "age" in values and not 0 < int(values["age"]) < 120:
        return
    many = next((name for name in ("liked", "languages") if name in values), "")
    for thing in split_things(values[many], name=many) if many else [""]:
        own = {**values, many: thing} if many else values
        topic = rule.topic.format(**{name: _identify_value(name, value) for name, value in own.items()})
        yield topic, rule.says.format(**{name: _render_value(name, value) for name, value in own.items()})


def _identify_value(name: str, value: str) -> str:
    if name == "languages":
        return value.split()[-1].lower()
    return (
        normalize_thing(value)
        if name in ("liked", "goal", "plain", "clause")
        else value.strip(" ,").replace(",", "").lower()
    )


def _render_value(name: str, value: str) -> str:
    if name == "be":
        return value or "is"
    if name == "verb":
        return _VERBS.get(value.lower(), f"{value.capitalize()}s")
    if name == "kin":
        return value[:1].upper() + value[1:].strip(" ,").replace(",", "")
    if name == "language":
        return value.upper() if value.lower() == "asl" else value.capitalize()
    if name == "languages":
        return " ".join([*value.lower().split()[:-1], _render_value("language", value.split()[-1])])
    if name == "goal":
        return parse_clause(value) or value
    return value


def _build_entry(category: str, topic: str, says: str, evidence: str, turn: Turn, *, ended: bool = False) -> Entry:
    says = re.sub(r"\s+", " ", says)
    return Entry(
        topic=topic[:120],
        category=category,
        description=shorten(add_dates(says[:1].upper() + says[1:], turn.said_at), 240),
        evidence=shorten(evidence, LONGEST_EVIDENCE),
        at=turn.message.at,
        message=turn.message.id,
        ended=ended,
    )
