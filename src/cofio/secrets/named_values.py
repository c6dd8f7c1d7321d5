"""Values that stand beside the name of a secret: `password = …`, "the API key is …", a key of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .patterns import Span
from .placeholders import LONGEST, compile_pattern, is_drawn_word, is_plain_password, is_strewn, is_telling

WORDS = ("pass", "pwd", "secret", "token", "key")
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


def to_plain(text: str) -> str:
    """The text in small letters of ASCII, each in its place, which `lower()` alone does not keep."""
    return text.encode("ascii", "replace").lower().decode("ascii")


def find_named(word: str, text: str, plain: str, end: int) -> Iterator[Span]:
    """The telling values beside a name of a secret with this word in it that start before `end`, in order."""
    at = plain.find(word, 0, end)
    while at >= 0:
        found = compile_pattern(_ASSIGNED).match(plain, at)
        group = "bare" if found is None or found["quoted"] is None else "quoted"
        if found and found.start(group) < end and (secret := _find_assigned(text, found, group)) is not None:
            yield secret
        at = plain.find(word, found.end() if found else at + len(word), end)


def _find_assigned(text: str, found: re.Match[str], group: str) -> Span | None:
    """The value that is assigned in `text`, where it is a secret."""
    before = text[max(0, found.start() - 64) : found.start()]
    start = before.rstrip(_NAME_CHARACTERS)
    prefix, sign, quoted = before[len(start) :], found["sign"], group == "quoted"
    word, suffix, value = (text[slice(*found.span(part))] for part in ("word", "suffix", group))
    name = prefix + word + suffix
    in_shell = sign == "=" and name.isupper() and found.end("sign") == found.start(group)
    if sign == "":
        in_shell = start.endswith("ENV ") or compile_pattern(r"login\s+\S+\s+$").search(before) is not None
    if not _is_beside(found, group):
        return None
    what = _name_parts(prefix or (before[-16:].rpartition("\n")[2] if word.lower() == "key" else ""), word, suffix)
    value = value if quoted else value.removesuffix("**").rstrip(".:|")
    if not (sign or in_shell or name.startswith("--")) and not (
        what == "a password" and len(word) > 4 and is_strewn(value)
    ):
        return None
    is_stated = in_shell or sign.rstrip(" \t:").endswith(("is", "was", "now", "to"))
    plain = what == "a password" and is_stated and not quoted and is_plain_password(value, in_shell=in_shell)
    if not what or not (plain or is_telling(name, what, value, quoted=quoted)):
        return None
    what = "a password in a connection string" if what == "a password" and start.endswith(";") else what
    return Span(found.start(group), found.start(group) + len(value), what)


def _is_beside(found: re.Match[str], group: str) -> bool:
    """Whether a sign that is often another thing (a call, a comparison, a pipe) does tie the value to the name."""
    if found["sign"] == "|":  # a row of a table
        return found.string[found.end(group) : found.end(group) + 80].lstrip("`* \t").startswith("|")
    return not (found["sign"] == "(" and group == "bare") and not (found["sign"] == ">" and found["after"] != "<")


def name_secret(name: str, value: str) -> str:
    """What a value of JSON is by the key that it stands under, where it is a secret."""
    if not 8 <= len(value) <= LONGEST or len(name) > LONGEST:
        return ""
    words = value.split()
    phrase = len(words) > 1
    if phrase and not (len(words) > 3 and all(map(is_drawn_word, words))):
        return ""
    for found in compile_pattern("(?i:" + _WORD + ")").finditer(name):
        what = _name_parts(name[: found.start()], found[0], name[found.end() :])
        if what and (what == "a password" if phrase else is_telling(name, what, value, quoted=True)):
            return what
    return ""


def _name_parts(prefix: str, word: str, suffix: str) -> str:
    """What the name made of the three parts says its value is; empty when it does not name a secret."""
    humps = not prefix[-1:].isalpha() or (word[0].isupper() and not prefix[-1].isupper())
    if suffix[:1].islower() or compile_pattern(_NOT_SUFFIX).search(suffix.lower()):
        return ""
    low = prefix.lower()
    if compile_pattern(_NOT_PREFIX).search(low):
        return ""
    kind = word.lower()
    if kind == "key":
        env = (
            word.isupper()
            and compile_pattern(r"[A-Z0-9]_$").search(prefix)
            and not compile_pattern(_NOT_KEY).search(low)
        )
        return "a secret key" if env or compile_pattern(_KEY_PREFIX).search(low) else ""
    if kind == "pass" and (not humps or (word.isupper() and not prefix)):  # a compass, the PASS of a test
        return ""
    if kind == "secret":
        return "a secret key" if "key" in suffix.lower() else "a secret"
    return "a token" if kind == "token" else "a password"
