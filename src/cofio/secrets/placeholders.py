"""Whether a value could be a secret, rather than a placeholder, a name, a path or a word."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache
from itertools import pairwise

LONGEST = 256  # characters of a value that are judged


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled when a text first holds its anchor: all of them at once would slow the first write."""
    return re.compile(pattern)


_FILLERS = (
    "example", "xxxx", "your", "placeholder", "dummy", "sample", "redacted", "changeme", "change-me", "change_me",
    "replace", "insert", "removed", "hidden", "masked", "fake", "todo", "...", "***", "0000000", "deadbeef",
    "opensesame", "open sesame", "notreal", "not-a-real", "test-token", "secret-token", "asdf", "qwert", "zxcv",
)  # fmt: skip
_PLAIN_WORDS = (
    r"p[a@]ss(?:w(?:or|0r)?d|phrase|wd)?|pwd|secret|token|user(?:name)?|admin|root|login|credentials?|api|key|auth"
    r"|my|the|some|super|test(?:ing)?|foo|bar|baz|qux|spam|eggs|letmein|qwerty|default|value|string|text|here"
    r"|strong|secure|private|public|access|client|new|old|abc|123(?:4(?:5(?:6(?:7(?:89?0?)?)?)?)?)?|[\W_]"
)
_CLASSES = str.maketrans(
    {
        **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "a"),
        **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "A"),
        **dict.fromkeys("0123456789", "0"),
    }
)
_COMMON_PAIRS = (  # of letters, in words and in names
    "ab ac ad ai al am an ap ar as at ba bl ca ce ch ck cl co ct da de di do ea ec ed ee ef el em en ep er es et "
    "ex ff fi fo ge ha he ho ia ic id ie ig il im in io ir is it ke la le li ll lo ly ma me mi mo mp na nc nd ne "
    "ng ni no ns nt oc od ol om on op or os ot ou ow pa pe pi pl po pr pt ra re ri ro rr rs rt sc se sh si so sp "
    "ss st su ta te th ti to tr ts tt ul un ur us ut va ve"
)
_DATE = r"(?:19|20)\d\d([-_.]?)[01]\d\1[0-3]\d(?:[T_-]?[0-2]\d[-:.]?[0-5]\d(?:[-:.]?[0-5]\d)?Z?)?"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HARMLESS = (
    _UUID + r"|0[0-7][0-9A-HJKMNP-TV-Z]{24}"  # a ULID of this century
    r"|(?:sha(?:1|256|384|512)|md5|blake\w*)[-:].*"  # a digest that says so
    r"|\$.*|%.*%|%[(A-Za-z].*|@.*|&.*|\*.*|\{.*|<.*|\[.*|!\w+|ENC\[.*"  # a variable, a template, a mask, a tag, a hash
    r"|(?i:pbkdf2|scrypt|argon2|bcrypt|crypt|sha\d)[\w-]*(?:[$:].*)?"  # the hash of a password, or the way to it
    r"|[\w+.-]+://.*|(?:\.{0,2}|~)/.*|[A-Za-z]:[\\/].*|\\.*"  # an address or a path
    r"|(?:[\w.-]+/)+[\w.-]+\.\w{1,5}|(?:vault|secrets?|op|ssm|arn|kv)[/:].*"  # a file, a place in a vault
    r"|(?:0x)?[0-9.,_:+-]+|\d{1,5}[,;?#].*|[\w.+-]+@[\w-]+\.[\w.]+"  # a number, a time, a port, a mail address
    r"|.*(?:\$\{|\{\{|%\(\w+\)|\{\w*\}|<\w+>).*"  # a template
)
_CODE = r"\w[(\[]|->|[(\[{]$"
_OWN_WORDS = r"(?i:key|token|secret|pass|auth|cred)"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->|-)[A-Za-z_][A-Za-z0-9_]*)*(?:(?<!\d)[?!])?"
_WORD_AND_YEAR = r"[A-Z][a-z]{3,}\d{2,4}"


_UUID_NAME = r"[A-Z0-9_]*[A-Z0-9]_(?:API_KEY|SECRET(?:_KEY)?|(?:API|AUTH|ACCESS)_TOKEN)"
_SAID_OF_PASSWORDS = (  # in sentences about a password, unlike in those that tell one
    "able about above account accounts actually admin after afternoon again all almost also always and another "
    "any anyone anything are ascii ask asks back bad base basic because been before being below best better blank "
    "both broken but bytes can cannot case change changes char character characters chars chosen clear client "
    "code come comes common complex config correctly customer data database day days default device did different "
    "digit digits does don done during each easy eight email empty encoding english enough enter env environment "
    "error even evening ever every everyone everything everywhere expires field file files fine five folder for "
    "four from full get gets give given goes gone good hard has hash have her here hers hidden his how html http "
    "image inside instead into its just keep kept key keys know known last lead least left less letter letters "
    "like line local login long longer lost low lower main make makes many may maybe mine minimum month months "
    "more morning most much must name names need needs never new next night nine none not nothing now null number "
    "numbers off often old once one only optional other others our out over own part password passwords per "
    "phrase plain plaintext policy present private probably problem prod production public quite random rather "
    "readable ready really relevant required reset right root safe same sample saved secret secrets secure "
    "security see sensitive sent server service set seven several shared she short should shown side simple since "
    "site six sold some someone something sometimes somewhere soon staging still stored string strings strong "
    "such sure symbols system table taken ten test text than that the their them then there these they thing this "
    "those though three through time times today together token tomorrow tonight too true twice two type typed "
    "unique unknown until upper url use used user username users valid value values very wait wants was weak web "
    "week weeks well were what when where which while who whole whose why wide will with within without word "
    "words work works would written wrong year years yesterday yet you your yours zero "
)
_ENDINGS = ("ed", "ly", "ing", "able", "ible", "ful", "less", "ive", "tion", "ity", "ment", "ness", "ous", "ary")


def _measure_entropy(value: str) -> float:
    """Bits for each character, by how often each of them occurs."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _count_switches(value: str) -> int:
    """How often letters, digits and case change places; the capital that starts a word is not counted twice."""
    classes = [character for character in value.translate(_CLASSES) if character in "aA0"]
    return sum(a != b and (a, b) != ("A", "a") for a, b in pairwise(classes))


def _reads_aloud(letters: str) -> bool:
    """Whether at least half of the letters that touch are pairs that words are made of; chance makes a fifth so."""
    pairs = [a + b for a, b in pairwise(letters.lower()) if a.isalpha() and b.isalpha()]
    return sum(pair in _COMMON_PAIRS for pair in pairs) * 2 >= len(pairs)


def is_filler(value: str) -> bool:
    """Whether the value stands for a secret without being one: a word that says so, a row, a repeat."""
    low = value.lower()
    if any(word in low for word in _FILLERS) or len(set(low)) < min(7, len(low) // 2):
        return True
    steps = sum(ord(b) - ord(a) == 1 for a, b in pairwise(low))
    period = low.find(low[: min(8, len(low) // 2)], 1)
    return (steps * 3 > len(low) and _is_row(low)) or (period > 0 and low[period:] == low[:-period])


def _is_row(low: str) -> bool:
    """Whether a value, but for the literal that it begins with, is made of rows such as abcdef and 123456."""
    body = compile_pattern(r"(?:[a-z0-9]{1,9}[_.-]){0,3}").sub("", low, count=1)
    beside = 0
    for at, character in enumerate(body):
        near = [body[at - 1] if at else "", body[at + 1] if at + 1 < len(body) else ""]
        in_row = any(other and abs(ord(other) - ord(character)) == 1 for other in near)
        beside += character.isalnum() and not in_row
    return beside < 4


def looks_random(value: str) -> bool:
    """Whether a long value was made by a machine rather than named by a person."""
    value = compile_pattern(_DATE).sub("", value[:LONGEST])
    if len(value) < 16 or is_filler(value) or _measure_entropy(value) < 2.9:
        return False
    if _count_switches(value) < 0.2 * len(value):
        return compile_pattern(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{32,}").fullmatch(value) is not None
    words = [word for word in compile_pattern(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}").findall(value) if _reads_aloud(word)]
    return len("".join(words)) * 2 < len(value)


def _looks_chosen(value: str) -> bool:
    """Whether a value would do as a password: several kinds of characters, and more than plain words."""
    classes = set(value.translate(_CLASSES))
    symbols = len(classes - set("aA0"))
    if not classes & set("aA") or is_filler(value) or len(_strip_plain_words(value)) < 5:
        return False
    if "0" not in classes and symbols < 2:
        return _count_switches(value) >= 3 and not _reads_aloud(value)
    kinds = len(classes & set("aA0")) + (symbols > 0)
    return kinds >= 3 or _count_switches(value) >= 3


def looks_drawn(value: str) -> bool:
    """Whether a value without capitals and digits was drawn by chance: no one could say it."""
    return len(_strip_plain_words(value)) >= 8 and not is_filler(value) and not _reads_aloud(value)


def is_strewn(value: str) -> bool:
    """Whether a bare word has its letters and digits so mixed that it can be nothing but a password."""
    mixed = _count_switches(value) >= max(4, 0.3 * len(value)) or (
        _count_switches(value) >= 3 and not _reads_aloud(value)
    )
    return looks_random(value) or (len(value) >= 8 and mixed)


@cache
def _list_password_words() -> frozenset[str]:
    return frozenset(_SAID_OF_PASSWORDS.split())


def is_drawn_word(word: str) -> bool:
    """Whether a word is such as people draw for a password, and not one that sentences about passwords have."""
    plain = word.isascii() and word.isalpha() and word.islower() and 2 < len(word) <= 10
    return plain and word not in _list_password_words() and not word.endswith(_ENDINGS)


def is_word_and_number(value: str) -> bool:
    """Whether a short value is a word of someone's own with a number, and not the name of a format or a placeholder."""
    named = compile_pattern(
        r"(?i)(?:base|utf|latin|ascii|oauth|http|ldap|ntlm|rot|ipv|s?sha|crypt|step|part|line|page)\W?\d+\W?"
    )
    return len(_strip_plain_words(value)) >= 5 and not is_filler(value) and not named.fullmatch(value)


def _strip_plain_words(value: str) -> str:
    return compile_pattern(_PLAIN_WORDS).sub("", value.lower())


def is_telling(name: str, what: str, value: str, *, quoted: bool) -> bool:
    """Whether a value that stands beside the name of a secret is one, rather than a name, a path or a look-up."""
    if compile_pattern(_UUID).fullmatch(value):
        return compile_pattern(_UUID_NAME).fullmatch(name) is not None
    if len(value) < 8 or len(value) > LONGEST or compile_pattern(_HARMLESS).fullmatch(value):
        return False
    named = not quoted and compile_pattern(_NAME).fullmatch(value)
    if (named and compile_pattern(_OWN_WORDS).search(value)) or (not quoted and compile_pattern(_CODE).search(value)):
        return False
    if looks_random(value):
        return True
    # A `secret` is often but the name of one: only a symbol in it says that it is as short as people make them.
    short = what == "a password" or ("secret" in what and any(character in "!@#$%^&*+?~" for character in value))
    if not short or len(value) > 64 or not _looks_chosen(value):
        return False
    # Bare words in code are names; a bare password has its digits strewn about, or is a word and a year.
    switches = _count_switches(value) if named else len(value)
    strewn = switches >= max(4, 0.3 * len(value)) or (switches >= 2 and not _reads_aloud(value))
    return strewn or compile_pattern(_WORD_AND_YEAR).fullmatch(value) is not None


def is_plain_password(value: str, *, in_shell: bool) -> bool:
    """Whether a bare value in a command or a sentence, where no names of code stand, is a password."""
    if len(value) < 8 or is_filler(value) or compile_pattern(rf"{_HARMLESS}|.*(?:{_CODE}).*").fullmatch(value):
        return False
    if looks_drawn(value) and (in_shell or _count_switches(value) >= 2):
        return True
    return (
        len(_strip_plain_words(value)) >= 5
        and compile_pattern(_WORD_AND_YEAR).fullmatch(value.capitalize()) is not None
    )


def is_used_password(user: str, password: str) -> bool:
    """Whether the password that goes with a user in an address or a connection string is a real one."""
    own = password.lower().replace(user.lower() or " ", "")
    if len(password) < 6 or len(own) < 4 or compile_pattern(_HARMLESS).fullmatch(password):
        return False
    if _looks_chosen(password) or looks_drawn(password):
        return True
    mixed = any(character.isdigit() for character in password) and any(character.isalpha() for character in password)
    return len(_strip_plain_words(password)) >= 6 and not is_filler(password) and mixed
