"""Whose words they are: texts that someone shares, and parts that they play, are not what they say of themself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..lexicon import get_pattern
from .manner import Manner
from .sentences import Sentence


@dataclass(slots=True)
class SpeakerState:
    """What is known of a speaker's words so far: whether they play a part, and whether a text is to come."""

    playing: bool = False
    announced: bool = False


def mark_borrowed(sentences: Sequence[Sentence], speaker: SpeakerState, question: str) -> tuple[Sentence, ...]:
    """The sentences of one message, those that are not the speaker's own words marked as a shared text or as play.

    `question` is what was said right before by someone else.
    """
    sent_for = speaker.announced and get_pattern("sends for a text").search(question)
    if sent_for and sentences and not _introduces_text(sentences, 0):
        speaker.announced = False
        return tuple(_with_manner(one, Manner.TEXT) for one in sentences)
    speaker.announced = False
    found: list[Sentence] = []
    for at, one in enumerate(sentences):
        text = one.text
        if speaker.playing and get_pattern("play ends").search(text):
            speaker.playing = False
            found.append(replace(one, manner=Manner.COURTESY) if one.manner is Manner.STATEMENT else one)
            continue
        if one.manner is not Manner.CODE and get_pattern("plays").match(text):
            speaker.playing = True
        if speaker.playing:
            found.append(_with_manner(one, Manner.PLAY))
            continue
        found.append(one)
        if not _introduces_text(sentences, at):
            continue
        if at + 1 < len(sentences):
            first = one
            if one.manner is Manner.STATEMENT and not get_pattern("says a text").match(text):
                first = replace(one, manner=Manner.REQUEST)
            return (*found[:-1], first, *(_with_manner(other, Manner.TEXT) for other in sentences[at + 1 :]))
        if at and get_pattern("text before").match(text.rstrip(" .!?")):
            return (*(_with_manner(other, Manner.TEXT) for other in found[:-1]), one)
        speaker.announced = True
    return tuple(found)


def _introduces_text(sentences: Sequence[Sentence], at: int) -> bool:
    """Whether what follows a sentence is a text of someone else, or one that the speaker only shows."""
    one = sentences[at]
    text = one.text[:400]
    if one.manner in (Manner.CODE, Manner.QUOTE):
        return False
    if get_pattern("asks about a text").match(text):
        return True
    own = get_pattern("own text").search(text)
    shows = get_pattern("shows a text").match(text)
    if shows and not own and (shows["colon"] or shows["from"] or shows.end() >= len(text.rstrip(" .!"))):
        return shows["colon"] is not None or text[:4].lower() == "here" or text.rstrip().endswith(":")
    if get_pattern("says a text").match(text):
        return True
    asks = one.manner in (Manner.REQUEST, Manner.QUESTION)
    return asks and text.rstrip().endswith(":") and not own


def _with_manner(one: Sentence, manner: Manner) -> Sentence:
    if one.manner is Manner.CODE or (manner is Manner.PLAY and one.manner is not Manner.STATEMENT):
        return one
    return replace(one, manner=manner)
