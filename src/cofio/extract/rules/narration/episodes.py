"""A stretch of conversation, told: who said what, in order, with a line that says what it was about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ...extractor import Episode
from ..lexicon import get_pattern, get_words
from ..messages.manner import Manner
from ..messages.speakers import capitalize_name, join_names
from ..messages.turns import Turn
from .dates import format_clock, format_day
from .phrases import find_phrases
from .reported_speech import extract_core, put_in_marks, report, shorten, to_third_person

LONGEST_SUMMARY = 200
LONGEST_ANSWER = 320  # characters of what an assistant says in one turn
LONGEST_TURN = 2_000
LONGEST_SHARED = 160  # characters of a text that someone else may have written
LONGEST = 24_000

LEFT_OUT = "[…]"

_GREETINGS = get_words("greetings")


def build_episode(turns: Sequence[Turn]) -> Episode | None:
    """The stretch as it would be told to someone who was not there; None if no user took part."""
    if not any(turn.message.role == "user" for turn in turns):
        return None
    users = [turn.name for turn in turns if turn.message.role == "user"]
    who = list(dict.fromkeys([*users, *(turn.name for turn in turns)]))
    first = turns[0].said_at
    subject = f"{capitalize_name(join_names(who))} on {format_day(first)}"
    tellings = list(_retell(turns))
    if not tellings:
        nothing = _describe_silence(turns, who)
        return Episode(
            subject=f"{subject}: {'greetings' if 'greet' in nothing else 'nothing of note'}",
            summary=capitalize_name(nothing),
            text=f"On {format_day(first)} at {format_clock(first)}, {nothing}",
        )
    about = find_phrases(turns)
    when = f"On {format_day(first)} at {format_clock(first)}, "
    quoted = tellings[0].startswith((f"{who[0]} said: ", f"{who[0]} asked: "))
    start = [] if len(who) == 1 and quoted else [_introduce(who)]
    return Episode(
        subject=f"{subject}: {', '.join(about)}" if about else subject,
        summary=_summarize(tellings),
        text=shorten(when + " ".join((*start, *tellings)), LONGEST),
    )


def _introduce(who: list[str]) -> str:
    if len(who) == 1:
        return f"{who[0]} said the following."
    return f"{who[0]} talked with {join_names(who[1:])}."


def _describe_silence(turns: Sequence[Turn], who: list[str]) -> str:
    """What to say of a stretch in which nothing was said."""
    plain = {word.strip(".,!").lower() for turn in turns for one in turn.sentences for word in one.text.split()}
    greeted = bool(plain & _GREETINGS)
    if not plain:
        return f"{join_names(who)} sent no words of their own."
    if len(who) == 1:
        return f"{who[0]} {'sent a greeting' if greeted else 'said nothing of note'}."
    return f"{join_names(who)} exchanged {'greetings' if greeted else 'a few words'}."


def _summarize(tellings: list[str]) -> str:
    text = " ".join(tellings)
    if len(text) <= LONGEST_SUMMARY:
        return text
    head = text[: LONGEST_SUMMARY - 3]
    return f"{head[: head.rfind(' ', LONGEST_SUMMARY // 2)].rstrip(' ,;:.')}..." if " " in head[100:] else f"{head}..."


def _retell(turns: Sequence[Turn]) -> Iterator[str]:
    """Each thing that was said or done, as a sentence."""
    names = frozenset(turn.name for turn in turns)
    today = turns[0].said_at.date()
    for turn in turns:
        found = list(_retell_turn(turn, names - {turn.name}))
        if found and turn.said_at.date() != today:
            today = turn.said_at.date()
            yield f"On {format_day(today)} the conversation went on."
        yield from found


def _retell_turn(turn: Turn, others: frozenset[str]) -> Iterator[str]:
    """One turn: its sentences, those that are quoted in one go where they follow each other, and what tools it used."""
    kept = [one for at, one in enumerate(turn.sentences) if one.manner is not Manner.COURTESY or _replies(turn, at)]
    told_by = [(_choose_verb(one.manner, one.text, turn, others), one) for one in kept]
    room = LONGEST_ANSWER if turn.message.role == "assistant" else LONGEST_TURN
    for verb, group in groupby(told_by, key=lambda pair: pair[0]):
        texts = [one.text for _, one in group]
        if room <= 0:
            break
        if verb == "told":
            for text in texts:
                yield report(text, turn.name, turn.said_at, others)
                room -= len(text)
        elif verb in ("shared", "quoted"):
            yield f"{capitalize_name(turn.name)} {verb} {_describe_blocks(texts, verb)}."
        elif verb == "shared a text":
            shown = put_in_marks(_fit_sentences(texts, LONGEST_SHARED), turn.said_at, LONGEST_SHARED)
            room -= len(shown)
            yield f"{capitalize_name(turn.name)} {verb}: {shown}"
        else:
            words = _fit_sentences(texts, room)
            room = 0 if words.endswith(LEFT_OUT) else room - len(words)
            yield f"{capitalize_name(turn.name)} {verb}: {put_in_marks(words, turn.said_at, LONGEST_TURN)}"
    if turn.message.calls:
        used = dict.fromkeys(call.name for call in turn.message.calls)
        yield f"{capitalize_name(turn.name)} used {join_names(list(used))}."


def _replies(turn: Turn, at: int) -> bool:
    """Whether a courtesy is the yes or no to a question."""
    if turn.message.role != "user" or turn.question is None:
        return False
    return at == 0 and get_pattern("reply").match(turn.sentences[0].text) is not None


def _describe_blocks(texts: list[str], verb: str) -> str:
    """What was set apart, in a few words."""
    if verb == "quoted":
        return "a passage"
    return texts[0] if len(texts) == 1 else f"{len(texts)} blocks of code or data"


def _choose_verb(manner: Manner, text: str, turn: Turn, others: frozenset[str]) -> str:
    """How a sentence is told: turned, or quoted after this verb."""
    if manner is Manner.QUESTION:
        return "asked"
    if manner is Manner.CODE:
        return "shared"
    if manner is Manner.QUOTE:
        return "quoted"
    if manner is Manner.TEXT:
        return "shared a text"
    # Of an assistant, "I'd start with Rome" is advice, and no deed.
    does = turn.message.role == "user" or get_pattern("deed").match(extract_core(text))
    if manner is not Manner.STATEMENT or not does or get_pattern("corrects").match(text):
        return "said"  # in the third person, "Leo is 27. Leo is 28." would be at odds with itself
    return "told" if to_third_person(text, turn.name, others) else "said"


def _fit_sentences(texts: list[str], room: int) -> str:
    """As many whole sentences as there is room for, at least the beginning of one."""
    kept: list[str] = []
    for text in texts:
        if kept and len(text) > room:
            return f"{' '.join(kept)} {LEFT_OUT}"
        kept.append(shorten(text, max(room, 120)))
        room -= len(text)
    # Lines of a list have no ends of their own.
    return " ".join(text if text[-1] in ".,!?:;…。！？؟" else f"{text};" for text in kept[:-1]) + f" {kept[-1]}"
