"""The shapes that keys, tokens and passwords have, each behind a literal that it cannot do without."""

from __future__ import annotations

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import NamedTuple, cast

from .placeholders import (
    LONGEST,
    compile_pattern,
    is_drawn_word,
    is_filler,
    is_used_password,
    is_word_and_number,
    looks_drawn,
    looks_random,
)

LONGEST_KEY = 20_000  # characters of a private key
KEY_BODY = 600  # characters after the first line of a private key that its body must begin in
PUTTY_HEAD = 8_000  # characters before the private lines of a PuTTY key


class Span(NamedTuple):
    """Where a secret stands in a text, and what it is."""

    start: int
    end: int
    what: str


def _find_value_span(found: re.Match[str]) -> tuple[int, int]:
    return found.span("value" if found.re.groups else 0)


class Shape(NamedTuple):
    """A kind of secret by how it looks."""

    what: str
    anchors: tuple[str, ...]
    pattern: str
    """Matched at an anchor; the secret is its group `value`, or else all of it."""
    is_real: Callable[[re.Match[str]], bool]
    span: Callable[[re.Match[str]], tuple[int, int]] = _find_value_span


def find_shape(shape: Shape, anchor: str, text: str, end: int) -> Iterator[Span]:
    """The secrets of this shape whose anchor is found before `end`, in order."""
    match_at = compile_pattern(shape.pattern).match
    at = text.find(anchor, 0, end)
    while at >= 0:
        found = match_at(text, at)
        # What has been judged is not judged again: a text of nothing but anchors must not cost its length squared.
        at = found.end() if found else at + len(anchor)
        if found is not None and shape.is_real(found):
            start, stop = shape.span(found)
            yield Span(start, stop, shape.what)
            at = max(at, stop)
        at = text.find(anchor, at, end)


_KEY_END = r"PRIVATE KEY(?: BLOCK)? ?-{0,5}"
_KEY_ROWS = r"(?:(?:\s|\\[nr])*+(?:[A-Za-z-]{3,20}: [^\s\\]{1,80}|[A-Za-z0-9+/]{16,}+={0,2}))*+"
_PUTTY_ROWS = r"Private-Lines: ?\d{1,4}(?:\s*+[A-Za-z0-9+/]{16,}+={0,2})*+(?:\s*+Private-MAC: ?[0-9a-f]{0,80})?"
_SENTENCE_WORDS = frozenset(("the", "and", "for", "your", "from", "are", "was", "not", "but", "has", "its", "our"))


def _get_value(found: re.Match[str]) -> str:
    return found["value" if found.re.groups else 0]


def _is_real(found: re.Match[str]) -> bool:
    return not is_filler(_get_value(found)[-LONGEST:])


def _is_random(found: re.Match[str]) -> bool:
    return looks_random(_get_value(found))


def _has_key_body(found: re.Match[str]) -> bool:
    body = found.string[found.end() : found.end() + KEY_BODY].partition("END ")[0]
    row = compile_pattern(r"[A-Za-z0-9+/]{60,}+(?!\.\.)").search(body)
    return row is not None and not is_filler(row[0][:LONGEST])


def _has_private_lines(found: re.Match[str]) -> bool:
    return found.string.find("Private-Lines:", found.end(), found.end() + PUTTY_HEAD) >= 0


def _find_key_span(found: re.Match[str]) -> tuple[int, int]:
    """A private key from its first line to its last or, where that is missing, to the last row that is there."""
    text = found.string
    head = text[max(0, found.start() - 6) : found.start()]
    start = found.start() - len(head) + len(head.removesuffix(" ").rstrip("-"))
    last = text.find("PRIVATE KEY", found.end(), found.end() + LONGEST_KEY)
    if last >= 0 and compile_pattern(r"END (?:[A-Z0-9]{2,9} ){0,3}$").search(text[last - 40 : last]):
        return start, cast(re.Match[str], compile_pattern(_KEY_END).match(text, last)).end()
    return start, cast(re.Match[str], compile_pattern(_KEY_ROWS).match(text, found.end())).end()


def _find_putty_span(found: re.Match[str]) -> tuple[int, int]:
    head = found.string.find("Private-Lines:", found.end(), found.end() + PUTTY_HEAD)
    return found.start(), cast(re.Match[str], compile_pattern(_PUTTY_ROWS).match(found.string, head)).end()


def _decode_base64(value: str) -> bytes:
    """The bytes behind base64 of either alphabet, cut to whole groups; empty when it is not base64."""
    whole = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return a2b_base64(whole + "=" * (-len(whole) % 4))
    except NotBase64:
        return b""


def _is_jwt(found: re.Match[str]) -> bool:
    return b'"alg"' in _decode_base64(found[0].partition(".")[0])


def _find_before_discord(found: re.Match[str]) -> str:
    before = compile_pattern(r"[\w-]*$").search(found.string[max(0, found.start() - 40) : found.start()])
    return "" if before is None else before[0]


def _is_discord(found: re.Match[str]) -> bool:
    """Whether a user's number in base64, or what is as long and as random, stands before a bot token's last parts."""
    first = _find_before_discord(found)
    if is_filler(found[0]):
        return False
    random = 23 <= len(first) <= 28 and looks_random(first) and looks_random(found[0].rpartition(".")[2])
    return random or _decode_base64(first)[:15].isdigit()


def _find_discord_span(found: re.Match[str]) -> tuple[int, int]:
    return found.start() - len(_find_before_discord(found)), found.end()


def _is_basic(found: re.Match[str]) -> bool:
    user, colon, password = _decode_base64(found["value"]).decode("latin-1").partition(":")
    before = found.string[max(0, found.start() - 24) : found.start()]
    if compile_pattern(r"(?i)authorization\W{1,8}b$").search(before) and not (colon and password.isprintable()):
        return looks_random(found["value"])
    return bool(colon) and (user + password).isascii() and password.isprintable() and is_used_password(user, password)


def _is_login(found: re.Match[str]) -> bool:
    host = found["host"].lower()
    if compile_pattern(r"(?:.*\.)?example(?:\.\w+)?").fullmatch(host):
        return False
    if host in ("host", "hostname", "server") and not looks_drawn(found["value"]):
        return False
    return is_used_password(found["user"] or "", found["value"])


def _is_seed(found: re.Match[str]) -> bool:
    """Whether the words after "seed phrase" are ones that only such a phrase strings together."""
    words = compile_pattern(r"[a-z]+").findall(found["value"])
    return len(words) >= 12 and not _SENTENCE_WORDS & set(words) and len(set(words)) * 2 > len(words)


def _is_stated(found: re.Match[str]) -> bool:
    """Whether a sentence tells a password that is as short as people make them, or made of words."""
    return is_word_and_number(found["value"]) if found["words"] is None else bool(_find_stated_words(found))


def _find_stated_words(found: re.Match[str]) -> str:
    """The words that a sentence tells as a password, without those by which it goes on; empty when it does not."""
    words = compile_pattern(r"[a-z]+").findall(found["words"])
    stated = list(takewhile(is_drawn_word, words))
    ended = compile_pattern(r"[\"'`*]|[ \t]*(?:[.!?,;:)\n]|$)").match(found.string, found.end())
    if len(stated) < (3 if ended and len(stated) == len(words) else 4):
        return ""
    return cast(re.Match[str], compile_pattern(rf"[a-z]+(?:[ -][a-z]+){{{len(stated) - 1}}}").match(found["words"]))[0]


def _find_stated_span(found: re.Match[str]) -> tuple[int, int]:
    start, end = found.span("value")
    return (start, end) if found["words"] is None else (start, start + len(_find_stated_words(found)))


def _token(what: str, *shapes: str) -> Shape:
    """A kind whose values start with a literal: each shape is the literal, a space, and what follows it."""
    anchors = tuple(shape.partition(" ")[0] for shape in shapes)
    pattern = "|".join(_begin_value(shape.partition(" ")[0]) + shape.partition(" ")[2] for shape in shapes)
    return Shape(what, anchors, rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", _is_real)


def _begin_value(literal: str) -> str:
    """How a value begins: after a slash, as in an address, only with a character that base64 does not have."""
    apart = "" if set(literal) & set("_-.") else r"(?<![+/])"
    return apart + re.escape(literal)


def _index_by_last_character(*kinds: Shape) -> dict[str, list[tuple[str, Shape]]]:
    """The anchors and their kinds: a text without a character is not searched for the anchors that end with it."""
    pairs = [(anchor, kind) for kind in kinds for anchor in kind.anchors]
    return {last: [pair for pair in pairs if pair[0][-1] == last] for last in {anchor[-1]: 0 for anchor, _ in pairs}}


UNBROKEN = _index_by_last_character(
    Shape("an AWS access key", ("AKIA", "ASIA"),
        r"(?<![A-Za-z0-9+/_-])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9+/_-])", _is_real),
    _token("a GitHub token", *(f"gh{kind}_ [A-Za-z0-9]{{36,255}}+" for kind in "pousr"), r"github_pat_ \w{60,255}+"),
    Shape("a cofio token", ("cofio_",), r"(?<![A-Za-z0-9])cofio_(?P<value>[\w-]{43})(?![\w-])", _is_random),
    _token("a GitLab token", r"glpat- [\w.-]{20,}+", r"glrt- [\w-]{20,}+", r"gldt- [\w-]{20,}+"),
    Shape("a Slack token", ("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-\d[\w-]{20,}+", _is_real),
    _token("a Slack token", r"xapp- \d-\w{8,}-\d+-\w{20,}+"),
    Shape("a Slack webhook", ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows)/(?P<value>T\w{6,}+/\w{6,}+/\w{16,}+)", _is_real),
    Shape("a Discord webhook", ("/api/webhooks/",), r"/api/webhooks/(?P<value>\d{17,20}/[\w-]{60,}+)", _is_real),
    Shape("a Telegram bot token", (":AA",), r"(?<=\d{8}):AA[\w-]{32,34}(?![\w-])", _is_real),
    _token("a Stripe key", *(f"{kind}k_{mode}_ [A-Za-z0-9]{{16,}}+" for kind in "sr" for mode in ("live", "test"))),
    _token("a Stripe webhook secret", r"whsec_ [A-Za-z0-9]{24,}+"),
    _token("an Anthropic key", r"sk-ant- [\w-]{32,}+"),
    Shape("an OpenAI key", ("sk-",), r"(?<![A-Za-z0-9+/_-])sk-(?:[a-z]+-)?(?:v\d-)?(?P<value>[\w-]{20,}+)", _is_random),
    _token("a Google API key", r"AIza [\w-]{35}(?![\w-])"),
    _token("a Google access token", r"ya29. [\w-]{20,}+", r"GOCSPX- [\w-]{28}"),
    Shape("an Azure storage key", ("AccountKey=",), r"AccountKey=(?P<value>[A-Za-z0-9+/]{86}==)", _is_real),
    Shape("an Azure shared access key", ("SharedAccessKey=",),
        r"SharedAccessKey=(?P<value>[A-Za-z0-9+/]{43}=)", _is_real),
    Shape("an Azure signature", ("sig=",), r"(?<=[?&;])sig=(?P<value>[A-Za-z0-9%+/_-]{43,128}+=?)", _is_random),
    Shape("an Azure client secret", ("Q~",), r"(?<=[\w~.]{3}\d)Q~[\w~.-]{31,34}(?![\w~-])", _is_real),
    _token("an npm token", r"npm_ [A-Za-z0-9]{36}"),
    _token("a PyPI token", r"pypi- Ag[\w-]{50,}+"),
    _token("a Hugging Face token", r"hf_ [A-Za-z0-9]{30,40}"),
    _token("a DigitalOcean token", *(f"do{kind}_v1_ [a-f0-9]{{64}}" for kind in "por")),
    Shape("a Twilio key", ("SK",), r"(?<![A-Za-z0-9+/_-])SK[0-9a-f]{32}(?![\w/+=-])", _is_real),
    _token("a SendGrid key", r"SG. [\w-]{16,32}\.[\w-]{16,64}"),
    _token("a Mailgun key", r"key- [0-9a-f]{32}"),
    _token("a Shopify token", *(f"shp{kind}_ [a-fA-F0-9]{{32}}" for kind in ("at", "ca", "pa", "ss"))),
    _token("a Square token", r"sq0atp- [\w-]{22}", r"sq0csp- [\w-]{43}"),
    Shape("a Square token", ("EAAA",), r"(?<![\w+/-])EAAA[\w-]{60}(?![\w+/=-])", _is_random),
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
    Shape("a Terraform token", (".atlasv1.",), r"(?<=[A-Za-z0-9]{14})\.atlasv1\.[\w=-]{60,}+", _is_real),
    _token("an age key", r"AGE-SECRET-KEY-1 [0-9A-Z]{58}"),
    Shape("a JSON web token", ("eyJ",), r"(?<![\w-])eyJ[\w-]{10,}+\.eyJ[\w-]{8,}+\.[\w-]{16,}+", _is_jwt),
    Shape("a Discord bot token", (".",), r"\.[\w-]{6}\.[\w-]{27,38}(?![\w-])", _is_discord, _find_discord_span),
    Shape("a password in a URL", ("://",),
        r"://(?P<user>[^\s/:@\"'<>`]{0,64}+):(?P<value>[^\s/\"'<>`]{1,200})@(?P<host>[A-Za-z0-9.-]{1,80})", _is_login),
)  # fmt: skip
"""Kinds without a space in them; the long words of a text, few as they are, say which of them to look for."""

SPACED = _index_by_last_character(
    Shape("a private key", ("BEGIN ",),
        r"(?<=--|- )BEGIN (?:[A-Z0-9]{2,9} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}", _has_key_body, _find_key_span),
    Shape("a private key", ("PuTTY-User-Key-File-",), r"PuTTY-User-Key-File-\d: ", _has_private_lines,
        _find_putty_span),
    Shape("a Google service account key", ("private_key_id",),
        r"private_key_id\\?[\"']\s{0,9}:\s{0,9}\\?[\"'](?P<value>[0-9a-f]{40})(?![0-9a-f])", _is_real),
    Shape("a password in a command", ("curl ", "sshpass ", "mysql", "redis-cli "),
        r"(?:curl (?:[^\n]|(?<=\\)\n){0,200}?(?<=\s)(?:-u|--user)[ =]?[\"']?(?P<user>[^\s:\"'/]{1,64}):"
        r"|sshpass -p ?[\"']?|(?:mysql\w{0,9}|redis-cli) [^\n]{0,80}?(?<= )-(?:p|a )[\"']?)"
        r"(?P<value>[^\s\"']{6,200}+)(?P<host>)", _is_login),
    Shape("a bearer token", ("earer ",), r"(?<=[Bb])earer (?P<value>[\w.~+/-]{20,}+=*)", _is_random),
    Shape("a seed phrase", ("phrase", "mnemonic", "seed words", "recovery words"),
        r"(?:phrase|mnemonic|(?:seed|recovery) words)(?:[ \t][\w'-]{1,20}){0,5}?[ \t]{0,2}(?:[:=]|is|was|are|[\"'`(])"
        r"\s{0,9}[\"'`(*]{0,3}(?P<value>(?:\d\d?[.):]?\s{1,2})?[a-z]{3,8}(?:,?\s{1,3}(?:\d\d?[.):]?\s{1,2})?[a-z]{3,8}){11,23})"
        r"(?![\w-])", _is_seed),
    Shape("a password", ("assword", "assphrase", "asscode"),
        r"ass(?:word|phrase|code)(?:[ \t](?:for|of|on|in|to|at)(?:[ \t][\w.-]{1,24}+){1,3}?)?[ \t](?:is|was)"
        r"(?:[ \t]now)?:?[ \t][\"'`*]{0,3}(?P<value>[A-Za-z]{4,6}\d{1,3}[!#$*]?(?![\w-])"
        r"|(?P<words>[a-z]{3,10}+(?:[ -][a-z]{3,10}+(?![\w'])){2,7}+))", _is_stated, _find_stated_span),
    Shape("a password in a header", ("asic ",), r"(?<=[Bb])asic (?P<value>[A-Za-z0-9+/]{12,400}+={0,2})", _is_basic),
)  # fmt: skip
