"""Whose words they are: texts that someone shares, and parts that they play, are not what they say of themself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .manner import Manner
from .sentences import Sentence

_TEXTS = (
    r"(?:e-?mails?|mails?|letters?|messages?|texts?|articles?|reviews?|lyrics|poems?|transcripts?|stor(?:y|ies)"
    r"|posts?|tweets?"
    r"|paragraphs?|essays?|drafts?|abstracts?|speech(?:es)?|quotes?|quotations?|conversations?|chats?|bios?|cvs?"
    r"|r[eé]sum[eé]s?"
    r"|sentences?|passages?|excerpts?|translations?|notes?|scripts?|dialogues?|captions?|blurbs?|statements?"
    r"|intro(?:duction)?s?"
    r"|applications?|homework|grammar|spelling|english|wording|writing|song|verse|haiku|chapter|scene|page|document"
    r"|report)"
)
_LEAD = (
    r"(?:(?:hi|hey|hello|ok(?:ay)?|so|also|and|now|then|next|thanks|please|pls|kindly|just|can|could|would|will|you"
    r"|i need you to"
    r"|i want you to|i'd like you to|help me(?: to)?|let's|quickly|there|all|assistant)\b[,!.]? )*"
)
_THIS = (
    r"(?:this|these|the following)\b(?! (?:bug|code|error|issue|problem|function|query|test|out|one|week|month|year"
    r"|weekend|time"
    r"|pr|pull request|ticket|plan|budget|invoice|spreadsheet|table|photo|picture|image|video|schedule|morning"
    r"|evening|house|car|app|page|link|site|file|thing|up|for me to)\b)"
)
_DO = (
    r"(?:(?:translate|summari[sz]e|proof-?read|paraphrase|rephrase|rewrite|reword|transcribe|tl;?dr)(?=[ :,]*(?:this"
    r"|these|the|my|our"
    r"|his|her|it|that|into|to|from|an?|in|for me[.:?! ]*$|[\"“:.?!]|$))"
    r"|(?:write|draft|compose|send|post|say|text|e-?mail|reply|tell)\b[^:.!?]{0,80}: "
    r"|(?:check|fix|improve|correct|edit|review|polish|rate|grade|critique|shorten|condense|simplify|analy[sz]e"
    r"|reply to|respond"
    rf" to|answer) (?:{_THIS}|the (?:text|passage|essay|letter|poem|e-?mail|message) (?:below|here|from)\b"
    rf"|(?:my|our|his|her|their)(?: [\w'-]+){{0,3}}? {_TEXTS}\b)"
    rf"|(?:read|look (?:at|over)|go over|give me feedback on|feedback on|finish|continue|complete|expand|format"
    rf"|explain)"
    rf" (?:this|my|our|his|her|their)(?: [\w'-]+){{0,3}}? {_TEXTS}\b)"
)
_ASKS_FOR_TEXT = re.compile(rf"{_LEAD}{_DO}", re.IGNORECASE)
_SHOWS = re.compile(
    rf"{_LEAD}(?:here(?:'s| is| are| comes)|this is|these are|below(?:'s| is| are)|see|read|i (?:got|received|found"
    rf"|wrote"
    r"|have)|(?:check|look)(?: at| out)?)"
    rf"(?: [\w'-]+){{0,5}} {_TEXTS}\b(?P<from>(?: (?:from|by|of|that|which|i|for|to|about|below"
    rf"|in)\b.{{0,80}})?)(?P<colon>:)?",
    re.IGNORECASE,
)
_SAYS = re.compile(
    r"(?!(?:i|we|i've|we've|i'll|i also)\b)(?:[\w'’.@-]+,? ){1,8}?(?:wrote|said|writes|says|replied|answered|texted"
    r"|e-?mailed|"
    r"posted|commented|tweeted|told (?:me|us))(?: [\w'-]+){0,4}:(?: |$)",
    re.IGNORECASE,
)
_MARKS = re.compile(
    r"(?:(?:quote|quotation|lyrics|transcript|original(?: text)?|excerpt)\s?:|(?:the )?(?:e-?mail|text|essay|letter"
    r"|draft|article"
    r"|poem|verse \d|chorus)\s?:$|(?:-{2,} ?)?(?:begin )?(?:forwarded|original) message\b|subject: |(?:from"
    r"|to): .{0,60}@"
    r"|dear (?!assistant|claude|ai\b|bot\b|gpt|chatgpt|all\b|team\b|everyone|folks)[\w. '-]{1,40},$"
    r"|to whom it may concern\b|\[(?:verse|chorus|intro|bridge)\b)",
    re.IGNORECASE,
)
_STYLE = re.compile(
    r"\bin (?:this|the following|the same) style\b|\b(?:the )?lyrics (?:of|to|from|are)\b.*:?$", re.IGNORECASE
)
_OWN = re.compile(
    r"\b(?:remember|note|keep in mind|don't forget|be aware|save|store|memori[sz]e|about me|know|remind)\b",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    rf"{_LEAD}(?:translate|summari[sz]e|proof-?read|paraphrase|rephrase|rewrite|reword|shorten|correct|polish)"
    r" (?:this|it|that|the above|the text|these|everything above)\b.{0,60}$",
    re.IGNORECASE,
)
_PLAY = re.compile(
    rf"{_LEAD}(?:(?:let us |we |do a |start a |play a )*(?:pretend|role-?play|act (?:as|like)"
    rf"|imagine (?:that )?(?:you|i|we"
    r"|being|i'm|you're|we're)\b|make[- ]believe)|let's (?:do|start) (?:a |some )?role-?play|play (?:the )?(?:role"
    r"|part)\b"
    r"|play (?:a game|pretend|make[- ]believe|house|dungeons|d&d|out|an? (?:text |role)?[- ]?(?:adventure|playing))"
    r"|(?:you are|you're|youre|ur|u are|you'll be|you be) (?:now )?(?:an?|the(?! best| worst| one)|my"
    r"|(?-i:[A-Z])\w+)\b[^.!?]{0,60}?(?:,| and|;) ?(?:and )?(?:i am|i'm|im"
    r"|i'll be|i be) (?:an?|the|your|(?-i:[A-Z])\w+)\b|(?:i am|i'm|im|i'll be|i be) (?:the|an?)\b[^.!?]{1,60}?(?:,| and"
    r"|;) ?(?:and )?"
    r"(?:you are|you're|youre|ur|u are|you'll be|you be) (?:the|an?|my)\b(?! (?:best|star|legend|great|good))|(?:a "
    r"|some )?role-?play\b)",
    re.IGNORECASE,
)
_PLAY_ENDS = re.compile(
    r"\b(?:end of|end|stop|quit|exit|finish|enough of|done with|pause)(?: with)? (?:the |this |our "
    r"|that )?(?:role-?play(?:ing)?"
    r"|game|scene|play(?:ing)?|pretend(?:ing)?|story)\b|\bback to (?:reality|real life|the real world|being serious)\b"
    r"|\bout of character\b|\bno more (?:pretend|role-?play)|\b(?:role-?play|game|scene) (?:is )?over\b",
    re.IGNORECASE,
)
_SENDS_FOR = re.compile(r"\b(?:paste|share|send|post|provide|go ahead|show me)\b", re.IGNORECASE)


@dataclass(slots=True)
class SpeakerState:
    """What is known of a speaker's words so far: whether they play a part, and whether a text is to come."""

    playing: bool = False
    announced: bool = False


def mark_borrowed(sentences: Sequence[Sentence], speaker: SpeakerState, question: str) -> tuple[Sentence, ...]:
    """The sentences of one message, those that are not the speaker's own words marked as a shared text or as play.

    `question` is what was said right before by someone else.
    """
    if speaker.announced and sentences and _SENDS_FOR.search(question) and not _introduces_text(sentences, 0):
        speaker.announced = False
        return tuple(_with_manner(one, Manner.TEXT) for one in sentences)
    speaker.announced = False
    found: list[Sentence] = []
    for at, one in enumerate(sentences):
        text = one.text
        if _PLAY_ENDS.search(text):
            speaker.playing = False
            found.append(replace(one, manner=Manner.COURTESY) if one.manner is Manner.STATEMENT else one)
            continue
        if one.manner is not Manner.CODE and _PLAY.match(text):
            speaker.playing = True
        if speaker.playing:
            found.append(_with_manner(one, Manner.PLAY))
            continue
        found.append(one)
        if not _introduces_text(sentences, at):
            continue
        if at + 1 < len(sentences):
            first = one
            if one.manner is Manner.STATEMENT and not _SAYS.match(text):
                first = replace(one, manner=Manner.REQUEST)
            return (*found[:-1], first, *(_with_manner(other, Manner.TEXT) for other in sentences[at + 1 :]))
        if at and _BEFORE.match(text.rstrip(" .!?")):
            return (*(_with_manner(other, Manner.TEXT) for other in found[:-1]), one)
        speaker.announced = True
    return tuple(found)


def _introduces_text(sentences: Sequence[Sentence], at: int) -> bool:
    """Whether what follows a sentence is a text of someone else, or one that the speaker only shows."""
    one = sentences[at]
    text = one.text[:400]
    if one.manner in (Manner.CODE, Manner.QUOTE):
        return False
    if _ASKS_FOR_TEXT.match(text) or _MARKS.match(text) or _STYLE.search(text[-120:]):
        return True
    shows = _SHOWS.match(text)
    if shows and (shows["colon"] or shows["from"] or shows.end() >= len(text.rstrip(" .!"))) and not _OWN.search(text):
        return shows["colon"] is not None or text[:4].lower() == "here" or text.rstrip().endswith(":")
    if _SAYS.match(text):
        return True
    asks = one.manner in (Manner.REQUEST, Manner.QUESTION)
    return asks and text.rstrip().endswith(":") and not _OWN.search(text)


def _with_manner(one: Sentence, manner: Manner) -> Sentence:
    if one.manner is Manner.CODE or (manner is Manner.PLAY and one.manner is not Manner.STATEMENT):
        return one
    return replace(one, manner=manner)
