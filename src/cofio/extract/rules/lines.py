"""Short lines out of long texts: on one line, cut, with secrets masked."""

from __future__ import annotations

import re

MASK = "***"

_CONTROL = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|[\x00-\x08\x0e-\x1f\x7f\u200b\ufeff]")
_READING = frozenset(
    re.findall(
        r"\S+", "read get fetch cat view open search grep browse list find lookup look load show retrieve glob describe"
    )
)
_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase|code)|authorization|apikey|privatekey|credential"
    r"|(?:^|auth|client|webhook)secret|secretkey|accesskey|(?:token|secret|pwd|cookie|bearer)$|^(?:pass|auth"
    r"|pin|otp|cvv|cvc)$"
)
_SECRETS = (
    (re.compile(r"(://[^\s/:@]{1,64}:)[^\s/@]{1,200}(?=@)"), rf"\1{MASK}"),
    (
        re.compile(r"(?i)((?<!\w)-{1,2}(?:password|passwd|token|api-?key|secret)[= ])(?!\[secret)[^\s\"']{1,400}"),
        rf"\1{MASK}",
    ),
    (
        re.compile(
            r"(?i)((?:passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|secret|token|authorization)"
            r"(?:_[a-z]{1,8})?[\"']?(?:\s{0,2}=\s{0,2}|:\s{0,2})[\"']?)"
            r"(?!\[secret)(?:(?:bearer|basic|token)\s{1,3})?"
            r"(?=[^\s\"',;&]{0,200}\d|[^\s\"',;&]{12})[^\s\"',;&|)}\]]{3,400}"
        ),
        rf"\1{MASK}",
    ),
    (
        re.compile(
            r"(?i)\b(passw(?:or)?d[\"']?(?:\s{0,2}[=:]\s{0,2}|\s{1,2}is\s{1,2})[\"']?)"
            r"(?!\[secret)[^\s\"',;&*]{1,200}"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)\b(bearer )[\w.~+/-]{8,400}=*"), rf"\1{MASK}"),
    (re.compile(r"\b(?:sk-|gh[pousr]_|xox[abp]-|glpat-|AKIA|hf_|npm_|pypi-|AIza|eyJ)[\w.-]{12,400}"), MASK),
)  # fmt: skip


def flatten(text: str, limit: int) -> str:
    """The beginning of `text` on one line of at most `limit` characters, secrets masked; it says where it was cut."""
    seen = text.strip()[: limit * 2 + 2_000]
    return cut(" ".join(mask_line(clean(seen)).split()), limit)


def clean(text: str) -> str:
    """`text` without colours of a terminal, control characters and halves of characters."""
    return _CONTROL.sub("", text.encode("utf-8", "replace").decode("utf-8"))


def cut(line: str, limit: int) -> str:
    """`line`, or its beginning up to a word's end with an ellipsis where it is longer than `limit`."""
    if len(line) <= limit:
        return line
    short = line[: limit - 1]
    at = short.rfind(" ", limit * 2 // 3)
    return (short[:at] if at > 0 else short).rstrip(" ,;:([{") + "…"


def mask_line(text: str) -> str:
    """`text` with what looks like a password, a key or a token replaced."""
    for pattern, by in _SECRETS:
        text = pattern.sub(by, text)
    return text


def names_secret(name: str) -> bool:
    """Whether an argument of that name holds a secret."""
    return _SECRET_NAME.search(re.sub(r"[^a-z]", "", name[:100].lower())) is not None


def split_name(name: str) -> list[str]:
    """The words of a tool's name: `searchFlights` and `search_flights` are both search, flights."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name[:200])] or re.findall(
        r"[^\W_]+", name[:200].lower()
    )


def only_reads(tool: str) -> bool:
    """Whether a tool, by its name, only looks something up."""
    named = split_name(tool)
    return bool(named) and (named[0] in _READING or named[-1] in _READING)
