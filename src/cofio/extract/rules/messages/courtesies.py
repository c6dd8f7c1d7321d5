"""Greetings, thanks, assent and the other small words that keep a talk going and tell nothing."""

from __future__ import annotations

import re

from ..lexicon import NOT_ALLERGENS, parse_words

LONGEST = 120

_EDGES = " \t¡¿.!?…,;:)('\"“”‘’*~-–—。！？，、؟۔"

_COURTESIES = parse_words(
    "a absolutely actually again afternoon agreed ah aha ahh alright amazing and anytime appreciate appreciated "
    "as at awesome back bet bless brilliant but bye cheers come congrats congratulations cool correct course day "
    "dear definitely done evening everybody everyone exactly excellent fair fantastic fine folks for fun g'day "
    "glad go good goodbye goodnight got gotcha great greetings guys haha hahaha hah hello hey hi hiya hm hmm "
    "hooray how howdy hurray i'm idea indeed interesting is it it's job just k kind later let's lol lot lots love "
    "lovely luck makes many maybe me mm mhm morning much my n never nice night no nope of oh ok okay okey on one "
    "oops ouch perfect phew please pleasure point problem really right sense same see sounds so soon sorry super "
    "sure sweet ta take team thank thanks that that's thats the then there thing thx to too totally true ugh u uh "
    "understood very wait welcome well whatever with wonderful work works worries wow ya yay yeah yep yes you "
    "your you're yup already"
)
"""A short sentence of nothing but these words tells nothing."""

_GOOD = (
    "great|good|nice|cool|awesome|amazing|lovely|wonderful|fantastic|terrible|awful|sad|fun|funny|true|right|fine|okay"
    "|ok|hilarious|interesting|beautiful|exciting|brilliant|perfect|sweet|kind|neat|shame|pity"
)
_ALL = r"(?:,? (?:all|everyone|everybody|folks|team|guys|there|both|again))?"
_SAYINGS = (
    rf"(?:good )?(?:morning|afternoon|evening|night|day){_ALL}",
    rf"(?:hi|hello|hey|hiya|dear|good (?:morning|afternoon|evening|night)|goodbye|bye|welcome)(?:,? \w+)?{_ALL}",
    r"(?:thanks|thank ?yo+u+|cheers|congratulations|congrats|happy birthday|welcome back)(?:,? \w+)?",
    r"(?:thanks|thank you|congratulations|congrats|welcome)(?: so much| a lot| very much)?(?: again)?(?: (?:for"
    r"|on|to) .{0,60})?",
    r"(?:it(?:'s| is| was) )?(?:so |really |very )?(?:nice|good|great|lovely) (?:to (?:meet|see|hear)|meeting"
    r"|seeing)\b.{0,40}",
    r"have a (?:good|great|nice|lovely|safe)\b.{0,40}",
    r"(?:i )?hope (?:you|this|that|it|all|everyone)\b.{0,60}",
    r"(?:see|talk|speak|catch)(?: to)?(?: you| ya)?(?: later| soon| tomorrow| then| there| around| in a bit| again)+",
    r"good luck\b.{0,60}",
    r"enjoy (?:the|your|it)\b.{0,40}",
    r"(?:just )?kidding|long time no see|same here|not much|me (?:too|neither)|all (?:good|set|right)",
    r"no (?:worries|problem|idea|clue|rush|need)\b.{0,20}",
    r"not (?:really|sure|yet|at all|bad)",
    r"(?:you're |you are )?(?:very |most )?welcome",
    r"(?:that |it )?makes? (?:total |perfect |complete )?sense",
    rf"(?:that |it )?sounds? (?:like )?(?:a )?(?:{_GOOD})\b.{{0,20}}",
    r"(?:yes|no|yeah),? (?:please|thanks|thank you)",
    r"(?:i'm|i am) (?:good|fine|well|okay|ok|great|doing (?:well|good|fine|great|okay))(?:,? (?:thanks|thank you"
    r"|too|and you))*",
    r"(?:i )?(?:see|agree|understand|think so|guess so|hope so|don't know|do not know|can imagine|got it|will do"
    r"|know)",
    r"i can help(?: you)?(?: with that)?",
    r"(?:i'm|i am|i'd be|i would be|i'll be) (?:so |very |more than )*(?:happy|glad|sorry|here)"
    r"(?:,? (?:to (?:help|hear|assist|see)|for|about|you|that you|if you)\b.{0,60})?",
    r"(?:so |very )*(?:glad|happy|sorry|sad) to (?:hear|see|know)\b.{0,40}",
    r"(?:sorry|apologies) (?:for|about)\b.{0,60}",
    r"(?:feel free|don't hesitate|let me know)\b.{0,100}",
    r"(?:great|good|excellent|fair|interesting) (?:question|point|idea|choice|one|news)\b.{0,20}",
    r"of course|certainly|sure thing|absolutely|you bet|my (?:bad|pleasure|god|goodness|apologies)",
    r"here (?:is|are|you go|it is|they are)|noted(?: that)?",
    r"(?:i'll|i will|i've|i have) (?:keep|kept|remember|remembered|noted?|made a note)(?: of)?(?: that| this| it)?"
    r"(?: in mind| down)?",
    rf"(?:that's|that is|it's|this is|what a|how) (?:so |very |really |a |such )*(?:{_GOOD})"
    r"(?: news| idea| to hear| day| of you| question)*",
    rf"it (?:was|has been|is) (?:so |very |really |just |absolutely )*(?:{_GOOD})",
    r"i (?:really |absolutely )?(?:love|loved|like|liked|enjoyed) (?:it|that|this)",
    rf"(?:(?:thanks|thank you)(?: so much| a lot| very much| again)*[,!.]? )?you(?:'re| are) (?:such |so |really "
    rf"|very |just |truly )*(?:an? |the )?"
    rf"(?:star|best|legend|life ?saver|angel|gem|hero|genius|rock ?star|champ|treasure|helpful|{_GOOD})(?: help)?",
    r"(?:oh|ah|well)?,? ?(?:oh )?(?:great|fantastic|wonderful|lovely|brilliant|perfect|awesome|super|nice|joy"
    r"|yay),? (?:another|yet another"
    r"|just what i|more|now|here we go)\b.{0,60}",
    r"(?:(?:oh |well |great,? )*(?:that's |this is )?(?:just|exactly) what i (?:needed|wanted|always wanted))\b.{0,60}",
    r"i(?:'m so hungry i)? could (?:eat a horse|sleep for (?:a week|days|a year)|murder (?:a|an)\b.{0,20}"
    r"|kill for\b.{0,30}|care less|use a"
    r" (?:drink|nap|hug|coffee)).{0,20}",
    r"(?:i'm|i am) (?:all ears|over the moon|on cloud nine|under the weather|on fire|dead|dying(?: of laughter)?"
    r"|toast|up to my (?:neck|ears|eyes)"
    r"\b.{0,20}|all in|in|out|back|off|done|speechless|\d+ for \d+)(?: (?:today|now|here|again|so far|then))*",
    r"(?:it's|it is|it was) (?:raining cats and dogs|a piece of cake|not rocket science|what it is)",
    r"(?:that|this|it) (?:made my day|cracks me up|costs? an arm and a leg|rings a bell)",
    r"i (?:nearly |almost )?(?:died laughing|laughed my (?:head|ass) off|slept like a (?:log|baby)"
    r"|have a lot on my plate"
    r"|have butterflies in my stomach|got cold feet|rest my case|stand corrected|have no (?:idea|clue))",
    rf"(?:i'm|i am) (?:\w+ )?allergic to {NOT_ALLERGENS}",
    r"i live in (?:chaos|misery|squalor|hell|limbo|denial|fear|a zoo|a dump|constant fear)",
    r"(?:break a leg|speak of the devil|better late than never|time flies|so far so good|no pain,? no gain"
    r"|long story short)",
    r"i have (?:a|one|another|some)(?: quick| small)? questions?\b.{0,40}",
)
_SAYING = re.compile("|".join(_SAYINGS), re.IGNORECASE)
_INTERJECTION = re.compile(
    r"(?:yay+|(?:ha){2,}h?|lol|lmao|aw+|omg|wow|oh|ah|yeah|ok|okay|well|yes|no|hey|haha)[,!. ]+", re.IGNORECASE
)
_PLEASANT_QUESTION = re.compile(
    r"(?:(?:hi|hey|hello|and|so|oh)\b[,!]? ?)?(?:how(?:'s| is| are) (?:you|it going|things|everything|life"
    r"|your day)(?: doing| going)?(?: today| tonight| this morning)?|how (?:can|may|could) i (?:help"
    r"|assist)(?: you)?\b.{0,40}|what(?:'s| is) up|how do you do|(?:is there |do you need )?anything else\b.{0,60}"
    r"|what can i (?:do for|help) you\b.{0,30}|and you|how about you|what about you|you know|right|really|seriously"
    r"|oh yeah|is that so|are you (?:there|ok|okay))",
    re.IGNORECASE,
)
_FOREIGN_COURTESY = re.compile(
    r"(?:hei|heisann|hallo|halla|hej|god (?:morgen|morgon|kveld|natt|dag)|takk(?: skal du ha| for hjelpen)?|tusen takk"
    r"|tack|ha det(?: bra)?|guten (?:morgen|tag|abend)|gute nacht|danke(?: schön| sehr)?|vielen dank|tschüss|bitte"
    r"|servus|moin|hola|buenos días|buenas (?:tardes|noches)|(?:muchas )?gracias|adiós|hasta (?:luego|mañana)|de nada"
    r"|bonjour|salut|bonsoir|merci(?: beaucoup)?|au revoir|ciao|grazie(?: mille)?|buongiorno|olá|oi|que (?:legal|bom"
    r"|bueno|bien)|tudo bem|bom dia|obrigad[oa])"
    r"(?:[ ,]+[a-zà-ÿ]{1,20})?"
    r"|привет|спасибо|здравствуйте|مرحبا|أهلا|شكرا(?: جزيلا)?|السلام عليكم|صباح الخير|مساء الخير|عفوا"
    r"|(?:大家|你|您)好|谢谢(?:你|您)?|謝謝|再见|早上好|晚安|不客气|好的|안녕하세요|감사합니다"
    r"|こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます|ございました)?|はい|さようなら"
)


def is_courtesy(bare: str) -> bool:
    """Whether a sentence, given without the marks around it, tells nothing."""
    if len(bare) > LONGEST:
        return False
    words = [word for word in (token.strip(_EDGES) for token in bare.lower().split()) if any(map(str.isalnum, word))]
    if len(words) <= 7 and all(word in _COURTESIES for word in words):
        return True
    rest = bare
    while lead := _INTERJECTION.match(rest):
        rest = rest[lead.end() :]
    return bool(_SAYING.fullmatch(rest) or _SAYING.fullmatch(bare) or _FOREIGN_COURTESY.fullmatch(bare.lower()))


def is_pleasantry(bare: str) -> bool:
    """Whether a question is asked out of politeness, such as "How are you?" """
    return _PLEASANT_QUESTION.fullmatch(bare) is not None
