"""Whether a question is plainly in another language than English, by its script or by its small words, and which of
its words tell nothing.

It would rather miss one than take English for something else.
"""

from __future__ import annotations

import re
import unicodedata

_LETTERS = re.compile(r"[^\W\d_]+")
_SCRIPTS = frozenset(
    {"HIRAGANA", "KATAKANA", "HANGUL", "CJK", "CYRILLIC", "ARABIC", "THAI", "HEBREW", "GREEK", "DEVANAGARI"}
)
"""The first words of the names that letters of other scripts have in Unicode."""
_SMALL_WORDS = {
    "German": """
        auf auch bei beim dem der das ein eine einem einen einer eines für haben ich ihr ist kann mein meine mit muss
        müssen nach nicht noch oder schon sich sie sind über und uns unser unsere vom wegen wem wen wenn werden wird wir
        wo wohin worüber wurde zum zur
    """,
    "French": """
        après aux avant avec avons cette dans depuis du elle elles est et être faut il ils je jusqu les leur mes mon nos
        notre nous par pas pour qu que qui quoi ses sont sur une vous
    """,
    "Spanish": """
        antes con del desde está están hasta hay las los mis nuestra nuestro para por pero que ser sobre sus también
        tiene una unas uno
    """,
    "Italian": """
        abbiamo alla anche che con cosa dalla dei della delle di è fino gli il le mia mio nella nostra nostro per sono
        sulla una viene
    """,
    "Portuguese": """
        até com da das do dos é em está foi isso mas meu minha não nossa nosso numa para pela pelo por que sua tem
        um uma você
    """,
    "Dutch": """
        bij dat deze een gaat geen heb hebben heeft het ik kunnen mijn moet naar niet onze ook wij wordt zijn
    """,
}
_QUESTION_WORDS = {
    "German": "wann warum welche welchem welchen welcher welches weshalb wessen wie wieso wodurch woher worüber",
    "French": "combien où pourquoi quand quel quelle quelles quels",
    "Spanish": "adónde cómo cuál cuáles cuándo cuánta cuántas cuánto cuántos dónde qué quién quiénes",
    "Italian": "perché quale quali quando quanta quante quanti quanto",
    "Portuguese": "onde porque quais quando quantas quanto quantos quem",
    "Dutch": "hoeveel waar waarom waarvoor wanneer welk welke wie",
}
_MORE_WORDS = {
    "German": """
        aber als am an auch aus bin bis bist da dann dass davon dein deine den denn der des dich die dir du durch er es
        euch gibt habe hast hat hatte hatten hier ihm ihn ihnen ihre ihrem ihren ihrer im in jetzt kein keine keinen
        man mehr meinem meinen meiner mich mir nein nur sein seine seinem seinen seiner so um unter von vor war waren
        was wer will wollte wurden zu
    """,
    "French": """
        a ai aller au avait avoir ce ces cet de des dont elles en encore es étaient était eu fait je la le leurs lui ma
        maintenant mais me ne on ont ou plus quelque sa se si son suis ta te tes toi ton très tu un va vos votre y à
    """,
    "Spanish": """
        a ahora al algo cada como de donde e el él ella ellas ellos en era eran eres es esa ese eso esta este esto
        estaba fue fueron ha haber había han hizo la le les lo más me mi mí muy ni no nos nosotros o otra otro quien se
        si sí sin son soy su te tenía tienen todo tu tú tus un usted va y ya yo
    """,
    "Italian": """
        a ai al ancora avere aveva c chi ci da dal del dello di e ed era erano fa fu ha hai hanno ho i in io l la lei li
        lo loro lui ma me mi mie miei mio ne nei nel no noi non o ora più quello questa questo se sei si sta su sua sue
        sui suo suoi te ti tu tua tuo un uno vi voi
    """,
    "Portuguese": """
        a agora ainda ao aos as às de dele dela dela e ela elas ele eles era eram essa esse esta este eu há já lhe mais
        me meus minhas muito na nas nem no nos nós o os ou se sem ser seu seus só são te tinha tu tua
    """,
    "Dutch": """
        aan al als bij dan daar de die dit door er haar had hem hij hoe hun in is je jij kan maar me men met mij nog nu
        of om op over te tot u uit van voor waren was wat we wel wie worden zal ze zich zij zo
    """,
}
"""Words that tell as little, and are no sign of a language, since others have some of them as well."""
_ENGLISH = frozenset(
    re.findall(
        r"\w+",
        "about and are can could did does for from had has have how if is it its my of our should that the their there "
        "they this to we were what when where which who why with would you your",
    )
)
"""Words without which an English question hardly gets by, some of which other languages have, too."""
_LANGUAGES = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}
_QUESTIONS = {language: frozenset(words.split()) for language, words in _QUESTION_WORDS.items()}
_AMBIGUOUS = frozenset(
    re.findall(r"\w+", "com con das des die do dos est las les los mit par per pour son sur van war")
)
"""Signs of a language that are English words or names as well: alone they do not make a question one of it."""
_STOP_WORDS = {
    language: small | _QUESTIONS[language] | frozenset(_MORE_WORDS[language].split())
    for language, small in _LANGUAGES.items()
}
_ACCENTS = re.compile("[¿¡À-ÖØ-öø-ÿĀ-ſ]")
_LEAST = 2  # signs of one language
_LEAST_SHARE = 0.2  # of a question's words: an English one may quote a title
_SHARE = 0.3  # of a question's letters that must be of another script


def is_not_english(text: str) -> bool:
    """Whether a question is in another language for sure; names and code are in none."""
    words = _LETTERS.findall(text)
    return _has_other_script("".join(words)) or _has_other_words([word.lower() for word in words], text)


def find_stop_words(text: str) -> frozenset[str]:
    """Return the words that tell nothing in the language that a question is in, without accents; none for English.

    At least one word must be a sign of that language, and one more tell as little in it.
    """
    words = set(map(str.lower, _LETTERS.findall(text)))
    if not _ENGLISH.isdisjoint(words):
        return frozenset()
    counts = {
        language: len(words & stops)
        for language, stops in _STOP_WORDS.items()
        if words & (_LANGUAGES[language] | _QUESTIONS[language]) - _AMBIGUOUS
    }
    best = max(counts, key=counts.__getitem__, default="")
    return _FOLDED[best] if best and counts[best] >= _LEAST else frozenset()


def _fold(word: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))


def _has_other_script(letters: str) -> bool:
    names = (unicodedata.name(letter, "").partition(" ")[0] for letter in letters if not letter.isascii())
    return sum(name in _SCRIPTS for name in names) > _SHARE * len(letters)


def _has_other_words(words: list[str], text: str) -> bool:
    if not words or not _ENGLISH.isdisjoint(words):
        return False
    # One language at a time: small words of several together are rather names.
    counts = [
        sum(word in small or word in _QUESTIONS[language] for word in words) + (words[0] in _QUESTIONS[language])
        for language, small in _LANGUAGES.items()
    ]
    signs = max(counts) + bool(_ACCENTS.search(text))
    return max(counts) > 0 and signs >= max(_LEAST, _LEAST_SHARE * len(words))


_FOLDED = {language: frozenset(map(_fold, stops)) for language, stops in _STOP_WORDS.items()}
