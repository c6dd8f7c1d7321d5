"""What looks like a secret in a text: keys, tokens and passwords that have no place in a memory.

A kind of secret is found by a literal that it cannot do without, then by the shape around that literal, then by
whether its value could be a real one. Texts about secrets, placeholders, look-ups and digests are let through.
The work grows with the length of the text and no faster, whatever the text is.
"""

from __future__ import annotations

import math
import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from .model import Json

LONG_WORD = 16  # characters that a token or an address with a password has at least, with no space among them
LONGEST = 256  # characters of a value that are judged
KEY_BODY = 600  # characters after the first line of a private key that its body must begin in
PUTTY_HEAD = 8_000  # characters before the private lines of a PuTTY key


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What was found and the line where it starts, counted from 1; never the secret itself."""

    what: str
    line: int


class _Kind(NamedTuple):
    what: str
    anchors: tuple[str, ...]
    pattern: str
    """Matched at an anchor; the secret is its group `value`, or else all of it."""
    is_real: Callable[[re.Match[str]], bool]


def find_secret(text: str) -> Secret | None:
    """The first thing in `text` that looks like a secret, or None."""
    start, what = len(text), ""
    long_words = "\n".join([word for word in text.split() if len(word) >= LONG_WORD])
    for kinds, seen in ((_UNBROKEN, long_words), (_SPACED, text)):
        for last, pairs in kinds.items():
            for anchor, kind in pairs if last in seen else ():
                if anchor in seen and (at := _first(kind, anchor, text, start)) < start:
                    start, what = at, kind.what
    at, named = _first_named(text, start)
    if at < start:
        start, what = at, named
    return Secret(what=what, line=text.count("\n", 0, start) + 1) if what else None


def find_in_json(value: Json) -> Secret | None:
    """The first secret in the strings of `value`, or a telling string under a key that names a secret."""
    strings = list(_strings(value))
    # One look at all of them is many times cheaper than one look at each, and nearly always finds nothing.
    suspect = find_secret("\n".join(string for _, string in strings)) is not None
    for name, string in strings:
        found = find_secret(string) if suspect else None
        if found is None and name and (what := _named_secret(name, string)):
            found = Secret(what=what, line=1)
        if found is not None:
            return found
    return None


def _strings(value: Json) -> Iterator[tuple[str, str]]:
    """Every key and every string in the order of the document, a string with the key that it stands under."""
    waiting: list[tuple[str, Json]] = [("", value)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, str):
            yield name, item
        elif isinstance(item, list):
            waiting.extend((name, each) for each in reversed(item))
        elif isinstance(item, dict):
            label = item.get("name")
            for key in reversed(item):
                waiting.append((label if key == "value" and isinstance(label, str) else key, item[key]))
                waiting.append(("", key))


def _first(kind: _Kind, anchor: str, text: str, end: int) -> int:
    """Where the first secret of this kind with this anchor starts; `end` when there is none before it."""
    match_at = _compiled(kind.pattern).match
    at = text.find(anchor, 0, end)
    while at >= 0:
        found = match_at(text, at)
        if found is not None and kind.is_real(found):
            return found.start("value" if found.re.groups else 0)
        # What has been judged is not judged again: a text of nothing but anchors must not cost its length squared.
        at = text.find(anchor, found.end() if found else at + len(anchor), end)
    return end


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled when a text first holds its anchor: all of them at once would slow the first write."""
    return re.compile(pattern)


_FILLERS = (
    "example", "xxxx", "your", "placeholder", "dummy", "sample", "redacted", "changeme", "change-me", "change_me",
    "replace", "insert", "removed", "hidden", "masked", "fake", "todo", "...", "***", "0000000", "deadbeef",
    "opensesame", "open sesame", "notreal", "not-a-real", "test-token", "secret-token", "asdf", "qwert", "zxcv",
)  # fmt: skip
_PLAIN_WORDS = (
    r"p[a@]ss(?:w(?:or|0r)?d|phrase|wd)?|pwd|secret|token|user(?:name)?|admin|root|login|credentials?|api|key|auth"
    r"|my|the|some|super|test(?:ing)?|foo|bar|baz|qux|spam|eggs|hunter2|letmein|qwerty|default|value|string|text|here"
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


def _entropy(value: str) -> float:
    """Bits for each character, by how often each of them occurs."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _switches(value: str) -> int:
    """How often letters, digits and case change places; the capital that starts a word is not counted twice."""
    classes = [character for character in value.translate(_CLASSES) if character in "aA0"]
    return sum(a != b and (a, b) != ("A", "a") for a, b in pairwise(classes))


def _reads_aloud(letters: str) -> bool:
    """Whether at least half of the letters that touch are pairs that words are made of; chance makes a fifth so."""
    pairs = [a + b for a, b in pairwise(letters.lower()) if a.isalpha() and b.isalpha()]
    return sum(pair in _COMMON_PAIRS for pair in pairs) * 2 >= len(pairs)


def _is_filler(value: str) -> bool:
    """Whether the value stands for a secret without being one: a word that says so, a row, a repeat."""
    low = value.lower()
    if any(word in low for word in _FILLERS) or len(set(low)) < min(7, len(low) // 2):
        return True
    steps = sum(ord(b) - ord(a) == 1 for a, b in pairwise(low))
    period = low.find(low[: min(8, len(low) // 2)], 1)
    return steps * 3 > len(low) or (period > 0 and low[period:] == low[:-period])


def _looks_random(value: str) -> bool:
    """Whether a long value was made by a machine rather than named by a person."""
    value = _compiled(_DATE).sub("", value[:LONGEST])
    if len(value) < 16 or _is_filler(value) or _entropy(value) < 2.9:
        return False
    if _switches(value) < 0.2 * len(value):
        return _compiled(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{32,}").fullmatch(value) is not None
    words = [word for word in _compiled(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}").findall(value) if _reads_aloud(word)]
    return len("".join(words)) * 2 < len(value)


def _looks_chosen(value: str) -> bool:
    """Whether a value would do as a password: several kinds of characters, and more than plain words."""
    classes = set(value.translate(_CLASSES))
    symbols = len(classes - set("aA0"))
    if not classes & set("aA") or _is_filler(value) or len(_without_plain_words(value)) < 5:
        return False
    if "0" not in classes and symbols < 2:
        return _switches(value) >= 3 and not _reads_aloud(value)
    kinds = len(classes & set("aA0")) + (symbols > 0)
    return kinds >= 3 or _switches(value) >= 3


def _looks_drawn(value: str) -> bool:
    """Whether a value without capitals and digits was drawn by chance: no one could say it."""
    return len(_without_plain_words(value)) >= 8 and not _is_filler(value) and not _reads_aloud(value)


def _without_plain_words(value: str) -> str:
    return _compiled(_PLAIN_WORDS).sub("", value.lower())


def _is_telling(name: str, what: str, value: str, *, quoted: bool) -> bool:
    """Whether a value that stands beside the name of a secret is one, rather than a name, a path or a look-up."""
    if _compiled(_UUID).fullmatch(value):
        return _compiled(_UUID_NAME).fullmatch(name) is not None
    if len(value) < 8 or len(value) > LONGEST or _compiled(_HARMLESS).fullmatch(value):
        return False
    named = not quoted and _compiled(_NAME).fullmatch(value)
    if (named and _compiled(_OWN_WORDS).search(value)) or (not quoted and _compiled(_CODE).search(value)):
        return False
    if _looks_random(value):
        return True
    # A `secret` is often but the name of one: only a symbol in it says that it is as short as people make them.
    short = what == "a password" or ("secret" in what and any(character in "!@#$%^&*+?~" for character in value))
    if not short or len(value) > 64 or not _looks_chosen(value):
        return False
    # Bare words in code are names; a bare password has its digits strewn about, or is a word and a year.
    switches = _switches(value) if named else len(value)
    strewn = switches >= max(4, 0.3 * len(value)) or (switches >= 2 and not _reads_aloud(value))
    return strewn or _compiled(_WORD_AND_YEAR).fullmatch(value) is not None


def _is_plain_password(value: str, *, in_shell: bool) -> bool:
    """Whether a bare value in a command or a sentence, where no names of code stand, is a password."""
    if len(value) < 8 or _is_filler(value) or _compiled(rf"{_HARMLESS}|.*(?:{_CODE}).*").fullmatch(value):
        return False
    if _looks_drawn(value) and (in_shell or _switches(value) >= 2):
        return True
    return len(_without_plain_words(value)) >= 5 and _compiled(_WORD_AND_YEAR).fullmatch(value.capitalize()) is not None


def _is_used_password(user: str, password: str) -> bool:
    """Whether the password that goes with a user in an address or a connection string is a real one."""
    own = password.lower().replace(user.lower() or " ", "")
    if len(password) < 6 or len(own) < 4 or _compiled(_HARMLESS).fullmatch(password):
        return False
    if _looks_chosen(password) or _looks_drawn(password):
        return True
    return len(_without_plain_words(password)) >= 6 and not _is_filler(password) and _switches(password) >= 2


def _value(found: re.Match[str]) -> str:
    return found["value" if found.re.groups else 0]


def _any(found: re.Match[str]) -> bool:
    return not _is_filler(_value(found)[-LONGEST:])


def _random(found: re.Match[str]) -> bool:
    return _looks_random(_value(found))


def _has_key_body(found: re.Match[str]) -> bool:
    body = found.string[found.end() : found.end() + KEY_BODY].partition("END ")[0]
    row = _compiled(r"[A-Za-z0-9+/]{60,}+(?!\.\.)").search(body)
    return row is not None and not _is_filler(row[0][:LONGEST])


def _has_private_lines(found: re.Match[str]) -> bool:
    return found.string.find("Private-Lines:", found.end(), found.end() + PUTTY_HEAD) >= 0


def _decoded(value: str) -> bytes:
    """The bytes behind base64 of either alphabet, cut to whole groups; empty when it is not base64."""
    whole = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return a2b_base64(whole + "=" * (-len(whole) % 4))
    except NotBase64:
        return b""


def _is_jwt(found: re.Match[str]) -> bool:
    return b'"alg"' in _decoded(found[0].partition(".")[0])


def _is_discord(found: re.Match[str]) -> bool:
    """Whether a user's number, in base64, stands before the two last parts of a bot's token."""
    before = _compiled(r"[\w-]*$").search(found.string[max(0, found.start() - 40) : found.start()])
    return before is not None and _decoded(before[0])[:15].isdigit() and not _is_filler(found[0])


def _is_basic(found: re.Match[str]) -> bool:
    user, colon, password = _decoded(found["value"]).decode("latin-1").partition(":")
    return bool(colon) and (user + password).isascii() and password.isprintable() and _is_used_password(user, password)


def _is_login(found: re.Match[str]) -> bool:
    host = found["host"].lower()
    if _compiled(r"(?:.*\.)?example(?:\.\w+)?").fullmatch(host):
        return False
    if host in ("host", "hostname", "server") and not _looks_drawn(found["value"]):
        return False
    return _is_used_password(found["user"] or "", found["value"])


def _token(what: str, *shapes: str) -> _Kind:
    """A kind whose values start with a literal: each shape is the literal, a space, and what follows it."""
    anchors = tuple(shape.partition(" ")[0] for shape in shapes)
    pattern = "|".join(re.escape(shape.partition(" ")[0]) + shape.partition(" ")[2] for shape in shapes)
    return _Kind(what, anchors, rf"(?<![A-Za-z0-9+/])(?:{pattern})(?![A-Za-z0-9])", _any)


def _by_last_character(*kinds: _Kind) -> dict[str, list[tuple[str, _Kind]]]:
    """The anchors and their kinds: a text without a character is not searched for the anchors that end with it."""
    pairs = [(anchor, kind) for kind in kinds for anchor in kind.anchors]
    return {last: [pair for pair in pairs if pair[0][-1] == last] for last in {anchor[-1]: 0 for anchor, _ in pairs}}


_UNBROKEN = _by_last_character(
    _Kind("an AWS access key", ("AKIA", "ASIA"), r"(?<![A-Za-z0-9+/_-])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9+/_-])", _any),
    _token("a GitHub token", *(f"gh{kind}_ [A-Za-z0-9]{{36,255}}+" for kind in "pousr"), r"github_pat_ \w{60,255}+"),
    _Kind("a cofio token", ("cofio_",), r"(?<![A-Za-z0-9])cofio_(?P<value>[\w-]{43})(?![\w-])", _random),
    _token("a GitLab token", r"glpat- [\w.-]{20,}+", r"glrt- [\w-]{20,}+", r"gldt- [\w-]{20,}+"),
    _Kind("a Slack token", ("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-\d[\w-]{20,}+", _any),
    _token("a Slack token", r"xapp- \d-\w{8,}-\d+-\w{20,}+"),
    _Kind("a Slack webhook", ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows)/(?P<value>T\w{6,}+/\w{6,}+/\w{16,}+)", _any),
    _Kind("a Discord webhook", ("/api/webhooks/",), r"/api/webhooks/(?P<value>\d{17,20}/[\w-]{60,}+)", _any),
    _Kind("a Telegram bot token", (":AA",), r"(?<=\d{8}):AA[\w-]{32,34}(?![\w-])", _any),
    _token("a Stripe key", *(f"{kind}k_{mode}_ [A-Za-z0-9]{{16,}}+" for kind in "sr" for mode in ("live", "test"))),
    _token("a Stripe webhook secret", r"whsec_ [A-Za-z0-9]{24,}+"),
    _token("an Anthropic key", r"sk-ant- [\w-]{32,}+"),
    _Kind("an OpenAI key", ("sk-",), r"(?<![A-Za-z0-9+/_-])sk-(?:[a-z]+-)?(?:v\d-)?(?P<value>[\w-]{20,}+)", _random),
    _token("a Google API key", r"AIza [\w-]{35}(?![\w-])"),
    _token("a Google access token", r"ya29. [\w-]{20,}+", r"GOCSPX- [\w-]{28}"),
    _Kind("an Azure storage key", ("AccountKey=",), r"AccountKey=(?P<value>[A-Za-z0-9+/]{86}==)", _any),
    _Kind("an Azure shared access key", ("SharedAccessKey=",), r"SharedAccessKey=(?P<value>[A-Za-z0-9+/]{43}=)", _any),
    _Kind("an Azure signature", ("sig=",), r"(?<=[?&;])sig=(?P<value>[A-Za-z0-9%+/_-]{43,128}+=?)", _random),
    _Kind("an Azure client secret", ("Q~",), r"(?<=[\w~.]{3}\d)Q~[\w~.-]{31,34}(?![\w~-])", _any),
    _token("an npm token", r"npm_ [A-Za-z0-9]{36}"),
    _token("a PyPI token", r"pypi- Ag[\w-]{50,}+"),
    _token("a Hugging Face token", r"hf_ [A-Za-z0-9]{30,40}"),
    _token("a DigitalOcean token", *(f"do{kind}_v1_ [a-f0-9]{{64}}" for kind in "por")),
    _Kind("a Twilio key", ("SK",), r"(?<![A-Za-z0-9+/_-])SK[0-9a-f]{32}(?![\w/+=-])", _any),
    _token("a SendGrid key", r"SG. [\w-]{16,32}\.[\w-]{16,64}"),
    _token("a Mailgun key", r"key- [0-9a-f]{32}"),
    _token("a Shopify token", *(f"shp{kind}_ [a-fA-F0-9]{{32}}" for kind in ("at", "ca", "pa", "ss"))),
    _token("a Square token", r"sq0atp- [\w-]{22}", r"sq0csp- [\w-]{43}"),
    _Kind("a Square token", ("EAAA",), r"(?<![\w+/-])EAAA[\w-]{60}(?![\w+/=-])", _random),
    _token("a Databricks token", r"dapi [0-9a-f]{32}(?:-\d)?"),
    _token("a Doppler token", r"dp. (?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    _token("a Linear key", r"lin_api_ [A-Za-z0-9]{32,48}"),
    _token("a Notion token", r"secret_ [A-Za-z0-9]{43}", r"ntn_ [A-Za-z0-9]{40,50}"),
    _token("a Vault token", r"hvs. [\w-]{24,}+", r"hvb. [\w-]{24,}+"),
    _token("a key of an AI service", r"gsk_ [A-Za-z0-9]{40,60}", r"xai- [A-Za-z0-9]{40,}+", r"pplx- [A-Za-z0-9]{40,}+",
        r"r8_ [A-Za-z0-9]{37}", r"nvapi- [\w-]{60,}+", r"lsv2_ (?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",
        r"tvly- (?:dev-|prod-)?[A-Za-z0-9]{32}", r"csk- [a-z0-9]{48}"),
    _token("a token of a hosting service", r"sbp_ (?:v0_)?[0-9a-f]{40}", r"sb_secret_ [\w-]{31,}+",
        r"nfp_ [A-Za-z0-9]{36}", r"fo1_ (?=[\w-]{0,20}[A-Z])[\w-]{40,}+", r"fm2_ [A-Za-z0-9+/]{60,}+",
        r"pscale_ (?:tkn|pw|oauth)_[\w.-]{32,}+", r"HRKU- [\w-]{36,}+", r"pul- [0-9a-f]{40}",
        r"tskey- [A-Za-z0-9-]{24,}+"),
    _token("a token of a monitoring service", r"glsa_ [A-Za-z0-9]{32}_[0-9a-f]{8}", r"glc_ [A-Za-z0-9+/]{32,}+",
        r"sntrys_ [\w+/=-]{40,}+", r"sntryu_ [0-9a-f]{64}", r"NRAK- [A-Z0-9]{27}", r"dt0c01. \w{24}\.[A-Z0-9]{64}"),
    _token("a token of a registry", r"dckr_ [op]at_[\w-]{27,}+", r"rubygems_ [0-9a-f]{48}"),
    _token("an Atlassian token", r"ATATT3 [\w-]{50,}+(?:=[0-9A-F]{8})?"),
    _token("a token of a tool", r"figd_ [\w-]{36,}+", r"PMAK- [0-9a-f]{24}-[0-9a-f]{34}", r"ops_ eyJ[\w-]{80,}+"),
    _Kind("a Terraform token", (".atlasv1.",), r"(?<=[A-Za-z0-9]{14})\.atlasv1\.[\w=-]{60,}+", _any),
    _token("an age key", r"AGE-SECRET-KEY-1 [0-9A-Z]{58}"),
    _Kind("a JSON web token", ("eyJ",), r"(?<![\w-])eyJ[\w-]{10,}+\.eyJ[\w-]{8,}+\.[\w-]{16,}+", _is_jwt),
    _Kind("a Discord bot token", (".",), r"\.[\w-]{6}\.[\w-]{27,38}(?![\w-])", _is_discord),
    _Kind("a password in a URL", ("://",),
        r"://(?P<user>[^\s/:@\"'<>`]{0,64}+):(?P<value>[^\s/\"'<>`]{1,200})@(?P<host>[A-Za-z0-9.-]{1,80})", _is_login),
)  # fmt: skip
"""Kinds without a space in them; the long words of a text, few as they are, say which of them to look for."""

_SPACED = _by_last_character(
    _Kind("a private key", ("BEGIN ",),
        r"(?<=--|- )BEGIN (?:[A-Z0-9]{2,9} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}", _has_key_body),
    _Kind("a private key", ("PuTTY-User-Key-File-",), r"PuTTY-User-Key-File-\d: ", _has_private_lines),
    _Kind("a Google service account key", ("private_key_id",),
        r"private_key_id\\?[\"']\s{0,9}:\s{0,9}\\?[\"'](?P<value>[0-9a-f]{40})(?![0-9a-f])", _any),
    _Kind("a password in a command", ("curl ", "sshpass ", "mysql", "redis-cli "),
        r"(?:curl (?:[^\n]|(?<=\\)\n){0,200}?(?<=\s)(?:-u|--user)[ =]?[\"']?(?P<user>[^\s:\"'/]{1,64}):"
        r"|sshpass -p ?[\"']?|(?:mysql\w{0,9}|redis-cli) [^\n]{0,80}?(?<= )-(?:p|a )[\"']?)"
        r"(?P<value>[^\s\"']{6,200}+)(?P<host>)", _is_login),
    _Kind("a bearer token", ("earer ",), r"(?<=[Bb])earer (?P<value>[\w.~+/-]{20,}+=*)", _random),
    _Kind("a password in a header", ("asic ",), r"(?<=[Bb])asic (?P<value>[A-Za-z0-9+/]{12,400}+={0,2})", _is_basic),
)  # fmt: skip


_NAMED = ("pass", "pwd", "secret", "token", "key")
_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_WORD = r"pass(?:word|wd|wort|phrase|code)?|pwd|secret|token|key"
_ASSIGNED = (
    rf"(?P<word>{_WORD})"
    r"(?P<suffix>[\w-]{0,30}+)"
    r"(?P<gap>[\"'`\])*\\]{0,4}+)[ \t]{0,16}"
    r"(?P<sign>:[ \t]{0,8}[A-Za-z][\w.\[\]|?, ]{0,30}[ \t]?=(?!=)|string[ \t]?=|=>|:=|[:=](?![:=])"
    r"|(?:(?:for|of|on|in|to|at)(?:[ \t][\w.-]{1,24}+){1,3}[ \t]?)?(?:(?:is|was)(?:[ \t]now|[ \t]set to)?[ \t:]|:[ \t])"
    r"|(?:,|\r?\n)\s{0,40}[\"']?value[\"']?[ \t]?:|\|(?!\|)|\(|>|(?<=[ \t]))"
    r"[ \t*]{0,16}(?:[bBrRuUfF@]?\\?(?P<quote>[\"'`])(?P<quoted>[^\s\"'`\\]{8,256}+)\\?(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;&)}\]<>=\\]{8,256}+={0,2}+)(?P<after>[\s\"'`,;&)}\]<>=\\]|$))"
)
_NOT_SUFFIX = (
    r"hash|sha|digest|md5|crypt|salt|ids?(?:$|_)|names?|arn|file|path|dir|ur[il]|type|count|len|size|field|column|label|hint"
    r"|regex|pattern|policy|prefix|suffix|format|expir|ttl|ref|version|header|param|input|class|style|kind|pos|index|idx|start"
    r"|end|limit|budget|env|var|manager|store|storage|location|public|fingerprint|mask|generat|valid|error|message|help|prompt"
    r"|usage|rotat|polic|scope|status|reset|iz|s$|map|list"
)
_NOT_PREFIX = (
    r"next|page|contin|cursor|csrf|xsrf|publi|sync|hash|encrypted|masked|fake|mock|dummy|example|sample|no_|stop|eos|bos|pad"
    r"|unk|cancel|invalid|wrong|bad"
)
_KEY_PREFIX = (
    r"(?:api|access|secret|private|auth|encryption|signing|master|shared|account|service|client|aes|hmac|jwt|openai|anthropic"
    r"|claude|gemini|mistral|cohere|groq|deepseek|openrouter|perplexity|azure|stripe|sendgrid|twilio|datadog)[_ -]?$"
)
_NOT_KEY = (  # what stands before `_KEY` in capitals where the key opens nothing
    r"cache|primary|foreign|partition|sort|row|group|site|gpg|pgp|ssh|host|dedup|idempot|object|index|unique|session"
    r"|storage|lock|query|routing|feature|build|repo|apt|rpm|map|dict|json|meta|state|config|setting|event|trace|span"
)
_UUID_NAME = r"[A-Z0-9_]*[A-Z0-9]_(?:API_KEY|SECRET(?:_KEY)?|(?:API|AUTH|ACCESS)_TOKEN)"


def _first_named(text: str, end: int) -> tuple[int, str]:
    """Where the first telling value beside the name of a secret starts, and what it is; `end` when there is none."""
    plain = text.encode("ascii", "replace").lower().decode("ascii")  # unlike lower() alone, keeps every place
    what = ""
    for word in _NAMED:
        at = plain.find(word, 0, end)
        while at >= 0:
            found = _compiled(_ASSIGNED).match(plain, at)
            group = "bare" if found is None or found["quoted"] is None else "quoted"
            if found and found.start(group) < end and (named := _assigned_secret(text, found, group)):
                end, what = found.start(group), named
                break
            at = plain.find(word, found.end() if found else at + len(word), end)
    return end, what


def _assigned_secret(text: str, found: re.Match[str], group: str) -> str:
    """What the value that is assigned in `text` is, where it is a secret."""
    before = text[max(0, found.start() - 64) : found.start()]
    start = before.rstrip(_NAME_CHARACTERS)
    prefix, sign, quoted = before[len(start) :], found["sign"], group == "quoted"
    word, suffix, value = (text[slice(*found.span(part))] for part in ("word", "suffix", group))
    name = prefix + word + suffix
    in_shell = sign == "=" and name.isupper() and found.end("sign") == found.start(group)
    if sign == "":
        in_shell = start.endswith("ENV ") or _compiled(r"login\s+\S+\s+$").search(before) is not None
    if not (sign or in_shell or name.startswith("--")) or not _is_beside(found, group):
        return ""
    what = _named(prefix or (before[-16:] if word.lower() == "key" else ""), word, suffix)
    value = value if quoted else value.removesuffix("**").rstrip(".:|")
    told = in_shell or sign.rstrip(" \t:").endswith(("is", "was", "now", "to"))
    plain = what == "a password" and told and not quoted and _is_plain_password(value, in_shell=in_shell)
    if not what or not (plain or _is_telling(name, what, value, quoted=quoted)):
        return ""
    return "a password in a connection string" if what == "a password" and start.endswith(";") else what


def _is_beside(found: re.Match[str], group: str) -> bool:
    """Whether a sign that is often another thing (a call, a comparison, a pipe) does tie the value to the name."""
    if found["sign"] == "|":  # a row of a table
        return found.string[found.end(group) : found.end(group) + 80].lstrip("`* \t").startswith("|")
    return not (found["sign"] == "(" and group == "bare") and not (found["sign"] == ">" and found["after"] != "<")


def _named_secret(name: str, value: str) -> str:
    """What a value of JSON is by the key that it stands under, where it is a secret."""
    if not 8 <= len(value) <= LONGEST or len(name) > LONGEST or len(value.split()) != 1:
        return ""
    for found in _compiled("(?i:" + _WORD + ")").finditer(name):
        what = _named(name[: found.start()], found[0], name[found.end() :])
        if what and _is_telling(name, what, value, quoted=True):
            return what
    return ""


def _named(prefix: str, word: str, suffix: str) -> str:
    """What the name made of the three parts says its value is; empty when it does not name a secret."""
    humps = not prefix[-1:].isalpha() or (word[0].isupper() and not prefix[-1].isupper())
    if suffix[:1].islower() or _compiled(_NOT_SUFFIX).search(suffix.lower()):
        return ""
    low = prefix.lower()
    if _compiled(_NOT_PREFIX).search(low):
        return ""
    kind = word.lower()
    if kind == "key":
        env = word.isupper() and _compiled(r"[A-Z0-9]_$").search(prefix) and not _compiled(_NOT_KEY).search(low)
        return "a secret key" if env or _compiled(_KEY_PREFIX).search(low) else ""
    if kind == "pass" and (not humps or (word.isupper() and not prefix)):  # a compass, the PASS of a test
        return ""
    if kind == "secret":
        return "a secret key" if "key" in suffix.lower() else "a secret"
    return "a token" if kind == "token" else "a password"
