"""How a sentence is meant: as a question, a courtesy, a request, or as something that is so."""

from __future__ import annotations

import re
from enum import Enum


class Manner(Enum):
    """How a sentence is meant."""

    STATEMENT = "statement"
    QUESTION = "question"
    REQUEST = "request"
    COURTESY = "courtesy"
    """Greetings, thanks, assent and other words that tell nothing."""
    CODE = "code"
    QUOTE = "quote"
    """A passage that the speaker quotes."""


_COURTESIES = frozenset(
    ["a", "absolutely", "actually", "again", "afternoon", "agreed", "ah", "aha", "ahh", "alright", "amazing", "and", "anytime", "appreciate", "appreciated", "as", "at", "awesome", "back", "bet", "bless", "brilliant", "but", "bye", "cheers", "come", "congrats", "congratulations", "cool", "correct", "course", "day", "dear", "definitely", "done", "evening", "everybody", "everyone", "exactly", "excellent", "fair", "fantastic", "fine", "folks", "for", "fun", "g'day", "glad", "go", "good", "goodbye", "goodnight", "got", "gotcha", "great", "greetings", "guys", "haha", "hahaha", "hah", "hello", "hey", "hi", "hiya", "hm", "hmm", "hooray", "how", "howdy", "hurray", "i'm", "idea", "indeed", "interesting", "is", "it", "it's", "job", "just", "k", "kind", "later", "let's", "lol", "lot", "lots", "love", "lovely", "luck", "makes", "many", "maybe", "me", "mm", "mhm", "morning", "much", "my", "n", "never", "nice", "night", "no", "nope", "of", "oh", "ok", "okay", "okey", "on", "one", "oops", "ouch", "perfect", "phew", "please", "pleasure", "point", "problem", "really", "right", "sense", "same", "see", "sounds", "so", "soon", "sorry", "super", "sure", "sweet", "ta", "take", "team", "thank", "thanks", "that", "that's", "thats", "the", "then", "there", "thing", "thx", "to", "too", "totally", "true", "ugh", "u", "uh", "understood", "very", "wait", "welcome", "well", "whatever", "with", "wonderful", "work", "works", "worries", "wow", "ya", "yay", "yeah", "yep", "yes", "you", "your", "you're", "yup", "already"]
)
"""A short sentence of nothing but these words tells nothing."""

_PHRASE = re.compile(
    r"(?:(?:hi|hello|hey|hiya|dear|good (?:morning|afternoon|evening|night|day)|goodbye|bye|thanks|thank you|cheers|"
    r"congratulations|congrats|happy birthday|welcome(?: back)?)\b(?:,? (?:all|everyone|everybody|folks|team|again|there|for|so|"
    r"very|much|to|the|your|this|that|help|quick|reply|both|guys|and|a|lot|(?-i:[A-Z][a-z][\w'-]*)))*"
    r"|(?:it(?:'s| is| was) )?(?:so |really |very )?(?:nice|good|great|lovely) (?:to (?:meet|see|hear)|meeting|seeing|talking|chatting)\b.{0,40}"
    r"|have a (?:good|great|nice|lovely|safe)\b.{0,40}|(?:i )?hope (?:you|this|that|it|all|everyone)\b.{0,60}"
    r"|(?:see|talk|speak|catch|ttyl)(?: to)?(?: you| ya)?(?: later| soon| tomorrow| then| there| around| in a bit| again)+"
    r"|(?:just )?kidding|no (?:worries|problem|idea|clue|rush|need)\b.{0,20}|long time no see|(?:you're |you are )?(?:very |most )?welcome"
    r"|(?:that |it )?(?:makes|make) (?:total |perfect |complete )?sense|(?:that |it )?sounds? (?:like )?(?:a )?(?:good|great|fun|nice|lovely|perfect|fine)\b.{0,20}"
    r"|(?:yes|no|yeah),? (?:please|thanks|thank you)|(?:i'm|i am) (?:good|fine|well|okay|ok|doing (?:well|good|fine|great|okay)|great)"
    r"(?:,? (?:thanks|thank you|too|and you|how about you))*|(?:i )?(?:see|agree|understand|think so|guess so|hope so|don't know|"
    r"do not know|can imagine|got it|will do|know|can help with that|can help)|me (?:too|neither)|same here|not (?:really|sure|yet|at all|bad)|"
    r"not much|all (?:good|set|right)|(?:i'm|i am|i'd be|i would be|i'll be) (?:so |very |more than )?(?:happy|glad|sorry|here)\b.{0,60}"
    r"|(?:feel free|don't hesitate|let me know)\b.{0,120}|(?:great|good|excellent|fair|interesting) (?:question|point|idea|choice|one|news)\b.{0,20}"
    r"|(?:of course|certainly|sure thing|absolutely|you bet|my (?:bad|pleasure|god|goodness|apologies))|here (?:is|are|you go|it is|they are)|"
    r"here's (?:the|a|my|what|how|your)\b.{0,80}:|(?:i'll|i will|i've|i have) (?:keep|kept|remember|remembered|noted|note|made a note)(?: of)?(?: that| this| it)?"
    r"(?: in mind| down)?|(?:sorry|apologies) (?:for|about|to hear)\b.{0,60}|(?:that's|that is|it's|this is|what a|how) (?:so |very |really |a |such )*"
    r"(?:great|good|nice|cool|awesome|amazing|lovely|wonderful|fantastic|terrible|awful|sad|fun|funny|true|right|fine|okay|ok|hilarious|"
    r"interesting|beautiful|exciting|brilliant|perfect|sweet|kind|neat|shame|pity)(?: news| idea| to hear| day| of you| question)*"
    r"|it (?:was|has been|is) (?:so |very |really |just |absolutely )*(?:great|good|nice|fun|awesome|amazing|lovely|wonderful|fantastic|okay|fine|terrible|awful|brilliant)"
    r"|i (?:really |absolutely )?(?:love|loved|like|liked|enjoyed) (?:it|that|this)|enjoy (?:the|your|it)\b.{0,40}|noted(?: that)?|thanks,? \w+|thank you,? \w+|hi,? \w+|hey,? \w+|hello,? \w+|bye,? \w+"
    r"|(?:i've|i have) noted (?:that|it|this)(?: down)?|welcome (?:to|back to) \w+|good luck\b.{0,60})",
    re.IGNORECASE,
)
_INTERJECTION = re.compile(r"(?:(?:ha){2,}h?|lol|lmao|aw+|omg|wow|oh|ah|yeah|ok|okay|well|yes|no|hey|haha)[,!. ]+", re.IGNORECASE)
_PLEASANT_QUESTION = re.compile(
    r"(?:(?:hi|hey|hello|and|so|oh)\b[,!]? ?)?(?:how(?:'s| is| are) (?:you|it going|things|everything|life|your day)(?: doing| going)?(?: today| tonight| this morning)?"
    r"|how (?:can|may|could) i (?:help|assist)(?: you)?\b.{0,40}|what(?:'s| is) up|how do you do|(?:is there |do you need )?anything else\b.{0,60}"
    r"|what can i (?:do for|help) you\b.{0,30}|and you|how about you|what about you|you know|right|really|seriously|oh yeah|is that so|are you (?:there|ok|okay))",
    re.IGNORECASE,
)
_FOREIGN_COURTESY = re.compile(
    r"(?:hei|heisann|hallo|halla|god (?:morgen|kveld|natt|dag)|takk(?: skal du ha| for hjelpen)?|tusen takk|ha det(?: bra)?|guten (?:morgen|tag|abend)|"
    r"gute nacht|danke(?: schön| sehr)?|vielen dank|tschüss|bitte|servus|moin|hola|buenos días|buenas (?:tardes|noches)|(?:muchas )?gracias|"
    r"adiós|hasta (?:luego|mañana)|de nada|bonjour|salut|bonsoir|merci(?: beaucoup)?|au revoir|ciao|grazie(?: mille)?|buongiorno|"
    r"olá|bom dia|obrigad[oa]|hej|tack|god morgon|privet|привет|спасибо|здравствуйте|"
    r"(?:大家|你|您)好|谢谢(?:你|您)?|謝謝|再见|早上好|晚安|不客气|好的|こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます|ございました)?|"
    r"はい|さようなら|안녕하세요|감사합니다|مرحبا|أهلا|شكرا(?: جزيلا)?|السلام عليكم|صباح الخير|مساء الخير|عفوا)"
    r"(?:[ ,，、]+\w{1,20})?"
)
_EDGES = " \t¡¿.!?…,;:)('\"“”‘’*~-–—。！？，、؟۔"
_ASKING = re.compile(
    r"(?:(?:and |so |but |also |ok |okay |hey )?(?:(?:what|where|when|who|why|how|which)(?:'s|'re|'d)? "
    r"(?:is|are|am|do|does|did|was|were|can|could|will|would|should|has|have|much|many|long|often|far|come|about|time|kind|"
    r"sort|if|a(?=bout)|to|the(?= (?:best|status|weather|time|difference|plan)))\b"
    r"|(?:what|where|who|how|when|why)'s\b"
    r"|(?:do|does|did|is|are|am|was|were|can|could|will|would|should|has|have|had|isn't|aren't|don't|doesn't|didn't|won't|"
    r"wouldn't|couldn't|can't) (?:you|i|we|they|he|she|anyone|anybody|someone|there|the|this|that|my|your|our|it(?= (?!to|again|now|for|later|yourself|like|in|on|at)))\b))",
    re.IGNORECASE,
)
_NOT_ASKING = re.compile(r"(?:do|have|let) (?:the|this|that|my|your|it)\b", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:(?:and|so|but|also|ok|okay|then|now|first|next|finally),? )?(?:please|pls|kindly|(?:can|could|would|will) you|let's|lets|"
    r"(?:i (?:need|want|would like)|i'd like) you to|i (?:want|need|would like) to (?:know|ask|understand|see|check|make sure)|"
    r"i'd like to (?:know|ask|understand|see|check|order|get)|i(?:'m| am) (?:asking|wondering|looking for (?:a way|help|advice|some))|"
    r"i wonder|wondering|any (?:idea|thoughts|suggestions|chance|tips)|just (?=(?:tell|give|show|send|let)\b)|"
    r"never mind|don't (?:forget|worry|tell|use|include|add|change|do|be|mention|touch|delete|ask)|do not (?:forget|use|include|add|"
    r"change|touch|delete)|remind me|help me|tell me|show me|give me|let me|make sure|remember to|how about|what about|pretend|imagine|suppose|"
    r"assume|say i|let's say)\b",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"(?:(?:and|so|but|also|ok|okay|then|now|first|next|finally|just),? )?(add|analyze|analyse|append|ask|book|brainstorm|bring|build|buy|"
    r"calculate|call|cancel|change|check|choose|clean|clarify|classify|come|compare|complete|compute|confirm|consider|continue|convert|copy|correct|count|"
    r"create|debug|define|delete|deploy|describe|design|do|double-check|download|draft|draw|edit|email|explain|extract|fetch|fill|find|"
    r"fix|focus|format|forget|generate|get|give|go|guess|help|hold|ignore|implement|improve|include|install|keep|leave|let|list|listen|"
    r"look|make|merge|move|name|note|open|order|outline|pay|pick|plan|play|point|post|prepare|print|proceed|proofread|propose|provide|pull|push|"
    r"put|query|read|recommend|refactor|remember|remind|remove|rename|replace|reply|report|research|reschedule|reserve|reset|respond|restart|retry|"
    r"return|review|revise|rewrite|run|save|say|scan|schedule|search|see|select|send|set|share|ship|shorten|show|simplify|skip|sort|"
    r"split|start|stick|stop|submit|suggest|summarize|summarise|switch|take|talk|tell|test|think|transfer|translate|try|turn|update|upload|use|"
    r"verify|wait|walk|watch|write)\b",
    re.IGNORECASE,
)
_FINITE = frozenset(
    ["is", "are", "was", "were", "has", "had", "will", "would", "can", "could", "should", "isn't", "wasn't", "starts", "begins", "ends", "went", "costs", "takes", "comes", "came", "changed", "keeps", "says", "said", "shows", "runs", "failed", "passed", "got", "seems", "looks", "works", "needs"]
)
_ENDS_ASKING = re.compile(r"[?？؟][\s!.?)”\"'*]*[^\w\"”]*$|(?:か|吗|呢|ですか|ますか)[。.]?$")
_PLEASE = re.compile(r"^please\b|\bplease$", re.IGNORECASE)
_SAID_WITHIN = re.compile(r'\w[,:]? ["“].*[?？!]["”]$')
_TELLING_LEAD = re.compile(
    r"(?:please |pls |also |so |and |but )*(?:remember|note|keep in mind|don't forget|do not forget|be aware|remember this)"
    r"(?: that |[:,]? )(?=(?:i|i'm|i've|i'd|i'll|my|our|we)\b)",
    re.IGNORECASE,
)


def manner(sentence: str) -> Manner:
    """How a sentence is meant, by its words alone."""
    bare = sentence[:400].strip(_EDGES)
    if not any(character.isalnum() for character in bare):
        return Manner.COURTESY
    if _asks(sentence, bare):
        return Manner.COURTESY if _PLEASANT_QUESTION.fullmatch(bare) else Manner.QUESTION
    if _is_courtesy(bare) or _introduces(sentence, bare):
        return Manner.COURTESY
    if _TELLING_LEAD.match(bare):
        return Manner.STATEMENT
    if _ASKS.match(bare) or _is_order(bare) or _PLEASE.search(bare):
        return Manner.REQUEST
    return Manner.STATEMENT


def without_lead(sentence: str) -> str:
    """A statement less the words that ask to remember it."""
    return sentence[lead.end() :] if (lead := _TELLING_LEAD.match(sentence)) else sentence


def _asks(sentence: str, bare: str) -> bool:
    if _ENDS_ASKING.search(sentence[-40:]):
        return not (len(sentence) <= 1000 and _SAID_WITHIN.search(sentence))
    if sentence.rstrip().endswith((".", "!", "。", "！", ":")):
        return False
    return _ASKING.match(bare) is not None and not _NOT_ASKING.match(bare)


def _is_courtesy(bare: str) -> bool:
    if len(bare) > 120:
        return False
    words = [word for word in (token.strip(_EDGES) for token in bare.lower().split()) if word]
    words = [word for word in words if any(character.isalnum() for character in word)]
    if len(words) <= 7 and all(word in _COURTESIES for word in words):
        return True
    said = bare
    while lead := _INTERJECTION.match(said):
        said = said[lead.end() :]
    return bool(_PHRASE.fullmatch(said) or _PHRASE.fullmatch(bare) or _FOREIGN_COURTESY.fullmatch(bare.lower()))


def _introduces(sentence: str, bare: str) -> bool:
    """Whether a line only says that something follows: "Here is the function:" """
    return sentence.rstrip().endswith(":") and len(bare) <= 80 and bare[:5].lower() in ("here ", "here'")


def _is_order(bare: str) -> bool:
    order = _ORDERS.match(bare)
    if order is None:
        return False
    following = bare[order.end() : order.end() + 60].lower().split()[:3]
    # "Book club is on Tuesday" begins with a noun, and so does "Call quality was poor".
    return bool(following) and not (_FINITE & set(following) and following[0] not in ("what", "which", "who", "that"))
