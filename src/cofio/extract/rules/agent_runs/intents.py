"""What a user asked for, in one sentence of their own words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....text.tokenizer import STOP_WORDS, split_words
from ...extractor import Message
from ..lines import cut, flatten
from ..messages.sentences import split_sentences
from .results import summarize_result
from .vocabulary import VERBS

INTENT = 300  # characters
_SEEN = 4_000  # characters of a message that a request is looked for in, from its beginning and from its end

_GREETING = re.compile(
    r"(?i)(?:(?:hi|hello|hey|hiya|howdy|yo|greetings|dear|good (?:morning|afternoon|evening|day)|hallo|moin"
    r"|servus|guten (?:tag|morgen|abend)"
    r"|bonjour|salut|bonsoir|hola|buenos d[ií]as|buenas(?: tardes)?|ciao|ol[aá]|hei|hej|hoi)\b"
    r"(?: (?:there|again|all|team|everyone|assistant|claude|chatgpt|zusammen"
    r"|[A-Z][a-z]{1,20}(?=[,!.])))?[\s,!.:;–—-]*)"
)
_NAME_AFTER = re.compile(r"@[\w-]{1,40}[\s,:]+")
_FILLER = re.compile(
    r"(?i)(?:(?:task|goal|todo|request|objective)(?=:)|ok(?:ay)?|so|um+|uh+|well|right|now|also|and|then|next"
    r"|quick(?: question| one)|i have a (?:quick )?(?:question|request)|sorry to bother you|please|pls|kindly|bitte"
    r"|i was wondering if|i wonder if|do you think|if (?:you can|possible)"
    r"|(?:yes|yeah|yep|sure|great|perfect|nice|cool|awesome|excellent|thanks(?: a lot)?|thank you|danke|merci)"
    r"(?=\s*[,.!–—-]))\b[\s,:;.!–—-]*"
)
_OPENER = re.compile(
    r"(?i)(?:(?:(?:can|could|would|will) (?:you|u|we)|you (?:can|could))(?! mind)"
    r"(?: (?:please|kindly|maybe|perhaps|also|just|quickly|possibly)){0,4}(?: be able to)?"
    r"|(?:i|we)(?: would|['’]d| ['’]d)? (?:really |just )?(?:like|need|want|love|have)(?: (?:you|us))? to(?! know)"
    r"|you (?:should|need to|must)|(?:kannst|könntest|können|könnten) (?:du|sie)(?: (?:bitte|mir|uns|mal)){0,4}"
    r"|(?:peux-tu|pouvez-vous|peux tu|tu peux|¿?puedes|¿?podrías)|(?:help|assist) (?:me|us)(?: to| with)?"
    r"|let['’]?s|let us|i need (?:your )?help (?:to|with)|your (?:task|job) is to)\s+"
    r"(?:please |kindly |just |quickly )?"
)
_WANTS = re.compile(
    r"(?i)(?:i|we)(?: really| urgently)? (?:need|want|would like)\b|(?:i|we)['’]d like\b|i['’]m looking for\b"
)
_TAIL = re.compile(
    r"(?i)[\s,;–—-]*\b(?:please|pls|for me|thanks(?: (?:a lot|in advance|so much))?"
    r"|thank you(?: (?:in advance|so much|very much))?|thx|cheers|bitte|danke)[\s.!?]*$"
)
_CODE = re.compile(r"```[^`]{0,200000}(?:```|$)")
_REFINES = re.compile(
    r"(?i)(?:no|nope|actually|sorry|wait|oh|hm+|ok(?:ay)?|yes|great|and|but|also|rather|instead|not|only|just"
    r"|please|make|change|use|try|with|without|"
    r"prefer|better|skip|include|exclude|add|keep|go)\b"
)
CHANGES = re.compile(
    r"(?i)\b(?:instead|rather|also|too|as well|only|make (?:it|that|them)|change (?:it|that)|not the|use|try"
    r"|without|include|exclude|skip|prefer)\b"
)
OBJECTS = re.compile(
    r"(?i)(?:no|nope|wrong|stop|not (?:that|the|this|there)|that['’]?s (?:not|wrong)|that is (?:not|wrong)"
    r"|don['’]?t|i meant|i said|you forgot|you missed)\b"
    r"(?! (?:thanks|thank|need|problem|worries|worry|rush|more))"
)
REPROACH = re.compile(
    r"(?i)\b(?:you should(?: not|n['’]?t)? have|you could have (?:asked|told|warned|checked)"
    r"|without (?:asking|telling|my)"
    r"|(?:i|we) (?:did(?: not|n['’]?t)|never) (?:ask|want|tell|allow|agree|say|said|asked|wanted|told|allowed|agreed)"
    r"|why did you (?:not|just|even|delete|remove|drop|change|overwrite|send|do)|you (?:forgot|missed|ignored|broke)"
    r"|you (?:were|are)(?: not|n['’]?t) (?:supposed|allowed|meant)|not happy|unhappy|unacceptable"
    r"|hättest (?:\w+ ){0,5}(?:sollen|müssen|fragen|können)|ohne zu fragen|warum hast du)\b"
)


def list_sentences(text: str) -> list[str]:
    """The sentences and lines of the beginning of a text, without code."""
    seen = _CODE.sub(" ", text.strip()[:_SEEN])
    pieces = (piece for line in seen.splitlines() for piece in split_sentences(line))
    return [part for piece in pieces if (part := piece.strip(" \t#*>•-"))]


def find_intent(messages: Sequence[Message]) -> str:
    """What the first user who says more than hello asks for, and what they changed about it before the last call."""
    user_messages = [message for message in messages if message.role == "user" and split_words(message.text[:_SEEN])]
    first = next(
        (message for message in user_messages if _has_substance(message.text)),
        user_messages[0] if user_messages else None,
    )
    if first is None:
        return ""
    request = _find_request(first.text)
    acted = max((at for at, message in enumerate(messages) if message.calls), default=0)
    began = min((at for at, message in enumerate(messages) if message.calls), default=0)
    later = [message for message in messages[began:acted] if message.role == "user" and message is not first]
    for change in [line for message in later if (line := _find_refinement(message.text))][:2]:
        if len(request) + len(change) + 10 <= INTENT:
            request = f"{request.rstrip('.?!').rstrip(')')}{'; ' if request.endswith(').') else ' (then: '}{change})."
    return request


def _has_substance(text: str) -> bool:
    rest = strip_greeting(text.strip()[:_SEEN])
    return len([word for word in split_words(rest) if word not in STOP_WORDS]) >= 2 or len(rest) > 30


def strip_greeting(sentence: str) -> str:
    """A sentence without greeting and filler at its beginning."""
    for _ in range(4):
        before = sentence
        sentence = _NAME_AFTER.sub("", sentence, count=1) if sentence.startswith("@") else sentence
        for pattern in (_GREETING, _FILLER):
            found = pattern.match(sentence)
            if found and not _is_name(sentence, found.end()):
                sentence = sentence[found.end() :]
        if sentence == before:
            break
    return sentence


def _is_name(sentence: str, end: int) -> bool:
    """Whether what looks like filler is a part of what is asked: "Now playing", "Right-click"."""
    return end > 0 and sentence[end - 1] == "-" and sentence[end : end + 1].isalpha()


def is_request(sentence: str) -> bool:
    """Whether a sentence asks for something to be done."""
    plain = strip_greeting(sentence)
    return bool(_OPENER.match(plain) or _WANTS.match(plain)) or get_first_word(plain) in VERBS


def get_first_word(sentence: str) -> str:
    found = re.match(r"[^\W\d_]+", sentence)
    return found[0].lower() if found else ""


def _find_request(text: str) -> str:
    """The sentences of a message that ask, with the one before where they do not say what it is about."""
    parts = [part for part in list_sentences(text) if strip_greeting(part) and split_words(strip_greeting(part))]
    asking = [at for at, part in enumerate(parts) if is_request(part)]
    if not asking and len(text) > _SEEN:  # a long paste, and the request after it
        tail = [part for part in list_sentences(text.strip()[-_SEEN:])[1:] if strip_greeting(part)]
        late = [part for part in tail if is_request(part) or part.endswith("?")]
        if late:
            return _finish_sentence(strip_politeness(late[-1]))
    if not asking:
        asking = [at for at, part in enumerate(parts) if part.rstrip().endswith(("?", "？"))][:1]
    if not parts:
        return flatten(text, INTENT)
    first = asking[0] if asking else next((at for at, part in enumerate(parts) if not _is_vague(part)), 0)
    request = strip_politeness(parts[first])
    if asking and first and parts[first - 1].endswith(("?", "？")):
        request = f"{cut(flatten(strip_greeting(parts[first - 1]), 180), 180)} {request}"
    elif asking and first and _is_vague(request):
        about = max(parts[first - 1 :: -1][:3], key=lambda part: len(find_telling_words(part)))
        request = f"{flatten(strip_greeting(about), 180).rstrip('.!:;')}; {_lower_first(request)}"
    elif not first and _is_vague(request) and (code := _CODE.search(text[:_SEEN])):
        request = f"{request.rstrip('.!?: ')}: {summarize_result(code[0])[0]}"
    for at in range(first + 1, min(first + 3, len(parts))):
        more = strip_politeness(parts[at])
        if at not in asking or len(request) + len(more) > 200:
            break
        request = f"{request.rstrip('.!')}; {_lower_first(more)}"
    return _finish_sentence(request)


def _is_vague(request: str) -> bool:
    """Whether a request only points at what it is about: "Find out why and fix it"."""
    return len(find_telling_words(request)) < 2


def find_telling_words(sentence: str) -> list[str]:
    """The words of a sentence that say what it is about."""
    found = (
        word.replace("'", "").replace("’", "") for word in re.findall(r"[^\W_]+(?:['’][^\W_]+)*", sentence.lower())
    )
    return [word for word in found if word not in STOP_WORDS and word not in VERBS]


def strip_politeness(sentence: str) -> str:
    """A request without politeness around it."""
    plain = strip_greeting(flatten(sentence, INTENT * 2))
    opened = False
    while (opener := _OPENER.match(plain)) and plain[opener.end() :].strip(" ?.!"):
        plain, opened = strip_greeting(plain[opener.end() :]), True
    if opened:
        plain = plain.rstrip().removesuffix("?")
    for _ in range(3):
        short = _TAIL.sub("", plain)
        if not short or short == plain:
            break
        asked = plain.rstrip().endswith("?") and not opened and get_first_word(short) not in VERBS
        plain = short + ("?" if asked else "")
    return plain.strip() or flatten(sentence, INTENT)


def _lower_first(request: str) -> str:
    first = get_first_word(request)
    is_plain = first in VERBS or (first in STOP_WORDS and first != "i")
    return request[:1].lower() + request[1:] if is_plain else request


def _finish_sentence(request: str) -> str:
    """A request as a sentence: a capital in front, a stop behind."""
    request = cut(request.strip(), INTENT - 1).rstrip(" ,;:")
    first = get_first_word(request)
    if first and request[: len(first)].islower() and not request.startswith("://", len(first)):
        request = request[0].upper() + request[1:]
    return request if request.rstrip("\"'”’)")[-1:] in tuple(".?!…。？！") else request + "."


def _find_refinement(text: str) -> str:
    """A short later word that changes the request; empty when it is something else."""
    flatly = flatten(text, 200).rstrip(".! ")
    if len(flatly) > 90 or "?" in flatly or not (_REFINES.match(flatly) and CHANGES.search(flatly)):
        return ""
    return (
        re.sub(
            r"(?i)^(?:(?:no|nope|actually|sorry|wait|oh|hm+|ok(?:ay)?|yes|great|please)\b[\s,!.:;–—-]*)+", "", flatly
        )
        or flatly
    )
