"""Keys and passwords are found wherever they stand; code, prose and placeholders are let through.

No secret is written out here: each is made when the tests run, so that no scanner of this repository finds one.
"""

from __future__ import annotations

import json
import random
import re
import string
import subprocess
import sys
import sysconfig
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import Json
from cofio.secrets.scanner import Secret, find_in_json, find_secret, mask_in_json, mask_secrets, mask_with_offsets

HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
WORD = string.ascii_letters + string.digits
URL = WORD + "-_"
BASE64 = WORD + "+/"
LOWER = string.ascii_lowercase
PASSWORD = "hunter2" + "-Xy!93kd"

Body = Callable[[str, int], str]
Made = Callable[[Body], str]


def body_of(seed: int) -> Body:
    """A maker of the random part of a secret, the same one for the same seed."""
    chance = random.Random(seed)

    def body(alphabet: str, length: int) -> str:
        # Each starts and ends with a letter or a digit, as a word in a sentence does.
        ends = [character for character in alphabet if character.isalnum()]
        return chance.choice(ends) + "".join(chance.choices(alphabet, k=length - 2)) + chance.choice(ends)

    return body


def pem(label: str, body: Body, *, rows: int = 6, newline: str = "\n", head: str = "") -> str:
    """A block of the kind that keys are kept in."""
    text = newline.join(body(BASE64, 64) for _ in range(rows))
    return f"-----BEGIN {label}-----{newline}{head}{text}{newline}-----END {label}-----{newline}"


def jwt(body: Body, header: str = '{"alg":"HS256","typ":"JWT"}') -> str:
    """A signed token with this header."""
    claims = '{"sub":"' + body(HEX, 12) + '"}'
    return ".".join(
        [*(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (header, claims)), body(URL, 43)]
    )


def discord(body: Body) -> str:
    """A bot's token: the number of the bot, a time and a signature."""
    number = body(string.digits[1:], 18)
    return f"{b64encode(number.encode()).decode()}.{body(URL, 6)}.{body(URL, 38)}"


def uuid(body: Body) -> str:
    """A random UUID."""
    return "-".join(body(HEX, length) for length in (8, 4, 4, 4, 12))


def human(body: Body) -> str:
    """A password as people make them: a word, a number and a sign."""
    number = int(body(HEX, 8), 16)
    word = ("Winter", "October", "Dragon", "Coffee", "Berlin", "Pepper")[number % 6]
    return f"{word}{number % 1913 + 100}{'!#$@?*'[number // 7 % 6]}"


DRAWN = (
    "anchor breeze candle dragon ember falcon garden hollow island jungle kettle lantern magnet nectar "
    "orbit pepper quartz ribbon saddle timber umbrella velvet walnut zebra copper meadow "
)


def seed(body: Body, count: int) -> list[str]:
    """Words as they are drawn for a phrase that opens something."""
    return random.Random(body(HEX, 8)).sample(DRAWN.split(), count)


def github(kind: str) -> Made:
    """A maker of tokens of this kind."""
    return lambda body: f"gh{kind}" + "_" + body(WORD, 36)


def basic(user: str, password: str) -> str:
    """The words of a header that holds a user and a password."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


FOUND: dict[str, tuple[str, Made]] = {
    "rsa": ("a private key", lambda body: pem("RSA " + "PRIVATE KEY", body)),
    "ec": ("a private key", lambda body: pem("EC " + "PRIVATE KEY", body, rows=3)),
    "dsa": ("a private key", lambda body: pem("DSA " + "PRIVATE KEY", body)),
    "pkcs8": ("a private key", lambda body: pem("PRIVATE" + " KEY", body, rows=1)),
    "pkcs8 encrypted": ("a private key", lambda body: pem("ENCRYPTED " + "PRIVATE KEY", body)),
    "openssh": ("a private key", lambda body: pem("OPENSSH " + "PRIVATE KEY", body)),
    "pgp": ("a private key", lambda body: pem("PGP " + "PRIVATE KEY BLOCK", body, head="Version: GnuPG v2\n\n")),
    "pem with headers": (
        "a private key",
        lambda body: pem(
            "RSA " + "PRIVATE KEY", body, head=f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{body(HEX, 32)}\n\n"
        ),
    ),
    "pem on one line": ("a private key", lambda body: 'key = "' + pem("PRIVATE" + " KEY", body, newline="\\n") + '"'),
    "ssh2": ("a private key", lambda body: f"---- BEGIN SSH2 ENCRYPTED {'PRIVATE'} KEY ----\n{body(BASE64, 70)}\n"),
    "putty": (
        "a private key",
        lambda body: (
            f"PuTTY-User-Key-{'File'}-3: ssh-ed25519\nEncryption: none\nPublic-Lines: 2\n{body(BASE64, 64)}\n"
            f"{body(BASE64, 16)}\nPrivate-{'Lines'}: 1\n{body(BASE64, 48)}\n"
        ),
    ),
    "aws id": ("an AWS access key", lambda body: "AK" + "IA" + body(UPPER, 16)),
    "aws session id": ("an AWS access key", lambda body: "aws configure set id AS" + "IA" + body(UPPER, 16)),
    "aws secret": ("a secret key", lambda body: f"aws_secret_access_key = {body(BASE64, 40)}"),
    "aws secret in camel case": ("a secret key", lambda body: f'"SecretAccessKey": "{body(BASE64, 40)}",'),
    **{f"github {kind}": ("a GitHub token", github(kind)) for kind in "pousr"},
    "github pat": ("a GitHub token", lambda body: "github" + "_pat_" + body(WORD, 22) + "_" + body(WORD, 59)),
    "github in a remote": (
        "a GitHub token",
        lambda body: f"git clone https://x:gh{'p_'}{body(WORD, 36)}@github.com/a/b",
    ),
    "gitlab": ("a GitLab token", lambda body: "gl" + "pat-" + body(URL, 20)),
    "slack bot": (
        "a Slack token",
        lambda body: "xox" + f"b-{body(string.digits, 12)}-{body(string.digits, 12)}-{body(WORD, 24)}",
    ),
    "slack user": ("a Slack token", lambda body: "xox" + f"p-{body(string.digits, 12)}-{body(HEX, 32)}"),
    "slack webhook": (
        "a Slack webhook",
        lambda body: "https://hooks.slack" + f".com/services/T{body(UPPER, 9)}/B{body(UPPER, 9)}/{body(WORD, 24)}",
    ),
    "discord bot": ("a Discord bot token", discord),
    "discord webhook": (
        "a Discord webhook",
        lambda body: "https://discord.com/api" + f"/webhooks/{body(string.digits[1:], 18)}/{body(URL, 68)}",
    ),
    "telegram": ("a Telegram bot token", lambda body: body(string.digits[1:], 10) + ":A" + "A" + body(URL, 33)),
    "stripe live": ("a Stripe key", lambda body: "sk" + "_live_" + body(WORD, 24)),
    "stripe restricted": ("a Stripe key", lambda body: "rk" + "_live_" + body(WORD, 99)),
    "stripe test": ("a Stripe key", lambda body: "sk" + "_test_" + body(WORD, 24)),
    "openai old": ("an OpenAI key", lambda body: "s" + "k-" + body(WORD, 48)),
    "openai project": ("an OpenAI key", lambda body: "s" + "k-proj-" + body(URL, 120)),
    "openrouter": ("an OpenAI key", lambda body: "s" + "k-or-v1-" + body(HEX, 64)),
    "anthropic": ("an Anthropic key", lambda body: "s" + "k-ant-api03-" + body(URL, 93) + "AA"),
    "google key": ("a Google API key", lambda body: "AI" + "za" + body(URL, 35)),
    "google access": ("a Google access token", lambda body: "ya" + "29." + body(URL, 80)),
    "google service account": (
        "a Google service account key",
        lambda body: '{"type": "service_account", "private_' + f'key_id": "{body(HEX, 40)}", "client_id": "1"}}',
    ),
    "azure storage": (
        "an Azure storage key",
        lambda body: (
            f"DefaultEndpointsProtocol=https;AccountName=a;Account{'Key'}={body(BASE64, 86)}==;EndpointSuffix=x"
        ),
    ),
    "azure bus": (
        "an Azure shared access key",
        lambda body: f"SharedAccessKeyName=k;Shared{'Access'}Key={body(BASE64, 43)}=",
    ),
    "azure signature": (
        "an Azure signature",
        lambda body: f"https://a.blob.core.windows.net/c?sv=2022-11-02&se=2030-01-01&s{'ig'}={body(WORD, 43)}%3D",
    ),
    "azure client": ("an Azure client secret", lambda body: body(WORD, 3) + "8Q" + "~" + body(WORD + "-_~", 34)),
    "npm": ("an npm token", lambda body: "//registry.npmjs.org/:_authToken=np" + "m_" + body(WORD, 36)),
    "pypi": ("a PyPI token", lambda body: "py" + "pi-AgEIcHlwaS5vcmc" + body(URL, 120)),
    "hugging face": ("a Hugging Face token", lambda body: "h" + "f_" + body(string.ascii_letters, 34)),
    "digitalocean": ("a DigitalOcean token", lambda body: "dop" + "_v1_" + body(HEX, 64)),
    "twilio": ("a Twilio key", lambda body: "S" + "K" + body(HEX, 32)),
    "sendgrid": ("a SendGrid key", lambda body: "S" + "G." + body(URL, 22) + "." + body(URL, 43)),
    "mailgun": ("a Mailgun key", lambda body: "ke" + "y-" + body(HEX, 32)),
    "shopify": ("a Shopify token", lambda body: "shp" + "at_" + body(HEX, 32)),
    "square": ("a Square token", lambda body: "sq0" + "atp-" + body(URL, 22)),
    "square access": ("a Square token", lambda body: "EA" + "AA" + body(URL, 60)),
    "databricks": ("a Databricks token", lambda body: "da" + "pi" + body(HEX, 32)),
    "doppler": ("a Doppler token", lambda body: "dp" + ".pt." + body(WORD, 43)),
    "linear": ("a Linear key", lambda body: "lin" + "_api_" + body(WORD, 40)),
    "notion old": ("a Notion token", lambda body: "sec" + "ret_" + body(WORD, 43)),
    "notion": ("a Notion token", lambda body: "nt" + "n_" + body(WORD, 46)),
    "vault": ("a Vault token", lambda body: "hv" + "s." + body(URL, 24)),
    **{
        name: ("a key of an AI service", make)
        for name, make in {
            "groq": lambda body: "gs" + "k_" + body(WORD, 52),
            "xai": lambda body: "x" + "ai-" + body(WORD, 80),
            "perplexity": lambda body: "pp" + "lx-" + body(WORD, 48),
            "replicate": lambda body: "r" + "8_" + body(WORD, 37),
            "nvidia": lambda body: "nv" + "api-" + body(URL, 64),
            "langsmith": lambda body: "ls" + "v2_pt_" + body(HEX, 32) + "_" + body(HEX, 10),
            "tavily": lambda body: "tv" + "ly-dev-" + body(WORD, 32),
            "cerebras": lambda body: "cs" + "k-" + body(LOWER + string.digits, 48),
        }.items()
    },
    **{
        name: ("a token of a hosting service", make)
        for name, make in {
            "supabase": lambda body: "sb" + "p_" + body(HEX, 40),
            "supabase secret": lambda body: "sb_" + "secret_" + body(URL, 31),
            "netlify": lambda body: "nf" + "p_" + body(WORD, 36),
            "fly": lambda body: "FlyV1 fm" + "2_" + body(BASE64, 160) + "=",
            "fly old": lambda body: "fo" + "1_" + body(URL, 43),
            "planetscale": lambda body: "psc" + "ale_tkn_" + body(URL, 43),
            "planetscale password": lambda body: "psc" + "ale_pw_" + body(URL, 43),
            "heroku": lambda body: "HR" + "KU-" + uuid(body),
            "pulumi": lambda body: "pu" + "l-" + body(HEX, 40),
            "tailscale": lambda body: "ts" + f"key-auth-k{body(WORD, 10)}CNTRL-{body(WORD, 32)}",
        }.items()
    },
    **{
        name: ("a token of a monitoring service", make)
        for name, make in {
            "grafana": lambda body: "gl" + f"sa_{body(WORD, 32)}_{body(HEX, 8)}",
            "grafana cloud": lambda body: "gl" + "c_eyJ" + body(WORD, 90) + "==",
            "sentry": lambda body: "snt" + f"rys_eyJ{body(WORD, 120)}==_{body(BASE64, 43)}",
            "sentry user": lambda body: "snt" + "ryu_" + body(HEX, 64),
            "new relic": lambda body: "NR" + "AK-" + body(UPPER, 27),
            "dynatrace": lambda body: "dt0" + f"c01.{body(UPPER, 24)}.{body(UPPER, 64)}",
        }.items()
    },
    "deepseek": ("an OpenAI key", lambda body: "s" + "k-" + body(HEX, 32)),
    "docker": ("a token of a registry", lambda body: "dc" + "kr_pat_" + body(URL, 27)),
    "docker organisation": ("a token of a registry", lambda body: "dc" + "kr_oat_" + body(URL, 32)),
    "rubygems": ("a token of a registry", lambda body: "ruby" + "gems_" + body(HEX, 48)),
    "atlassian": ("an Atlassian token", lambda body: "AT" + f"ATT3xFfGF0{body(URL, 180)}={body(HEX, 8).upper()}"),
    "figma": ("a token of a tool", lambda body: "fi" + "gd_" + body(URL, 40)),
    "postman": ("a token of a tool", lambda body: "PM" + f"AK-{body(HEX, 24)}-{body(HEX, 34)}"),
    "1password": ("a token of a tool", lambda body: "op" + "s_eyJ" + body(WORD, 300)),
    "terraform": ("a Terraform token", lambda body: body(WORD, 14) + ".at" + "lasv1." + body(URL, 67)),
    "cofio": ("a cofio token", lambda body: "cof" + "io_" + body(URL, 43)),
    "age": ("an age key", lambda body: "AGE-SECRET" + "-KEY-1" + body(UPPER, 58)),
    "jwt": ("a JSON web token", jwt),
    "jwt in a header": ("a JSON web token", lambda body: "Authorization: Bearer " + jwt(body)),
    "bearer": ("a bearer token", lambda body: 'curl -H "Authorization: Bearer ' + body(WORD, 40) + '" https://a.b/c'),
    "basic": ("a password in a header", lambda body: "Authorization: " + basic("deploy", body(WORD, 16))),
    "postgres": ("a password in a URL", lambda body: f"postgres://app:{body(WORD, 12)}@db.internal:5432/app"),
    "redis": ("a password in a URL", lambda body: f"REDIS_URL=redis://:{body(WORD, 32)}@10.0.0.3:6379/0"),
    "at sign in a url": (
        "a password in a URL",
        lambda body: f"amqp://svc:{body(WORD, 6)}@{body(WORD, 6)}@mq.corp/vhost",
    ),
    "connection string": (
        "a password in a connection string",
        lambda body: f"Server=tcp:db,1433;User ID=sa;Password={body(WORD, 7)}!x4Q;Encrypt=true",
    ),
    "password in python": ("a password", lambda body: f'password = "{PASSWORD}"'),
    "password in an env file": ("a password", lambda body: f"DB_PASSWORD={PASSWORD}"),
    "password as an argument": ("a password", lambda body: f"connect(user='app', password='{PASSWORD}')"),
    "password as an option": ("a password", lambda body: f"mysql --password {PASSWORD} -u app"),
    "password in yaml": ("a password", lambda body: f"  password: {PASSWORD}  # for staging"),
    "password in prose": ("a password", lambda body: f"The admin password is {PASSWORD}. Do not lose it."),
    "password in markdown": ("a password", lambda body: f"- **Password:** `{PASSWORD}`"),
    "password in xml": ("a password", lambda body: f"<password>{PASSWORD}</password>"),
    "password with a type": ("a password", lambda body: f'db_password: str = "{PASSWORD}"'),
    "password in a call": ("a password", lambda body: f'builder.password("{PASSWORD}")'),
    "api key in yaml": ("a secret key", lambda body: f"api_key: {body(HEX, 32)}"),
    "api key in a header": ("a secret key", lambda body: f"X-Api-Key: {body(WORD, 32)}"),
    "api key in words": ("a secret key", lambda body: f"The API key is {body(WORD, 32)}, ask Ann for more."),
    "django": ("a secret key", lambda body: f"SECRET_KEY = 'dj-{body(WORD + '!@#%^*(-_=+', 47)}'"),
    "rails": ("a secret key", lambda body: f"SECRET_KEY_BASE={body(HEX, 128)}"),
    "client secret": ("a secret", lambda body: f'"client_secret": "{body(URL, 40)}"'),
    "vendor key": ("a secret key", lambda body: f"AZURE_OPENAI_KEY={body(HEX, 32)}"),
    "unknown vendor key": ("a secret key", lambda body: f"export ACME_KEY={body(WORD, 32)}"),
    "vendor key in yaml": ("a secret key", lambda body: f"MISTRAL_KEY: {body(WORD, 32)}"),
    "vendor key in code": ("a secret key", lambda body: f'openaiKey = "{body(WORD, 32)}"'),
    "vendor key in words": ("a secret key", lambda body: f"Our OpenAI key is {body(WORD, 32)}."),
    "key in a table": ("a secret key", lambda body: f"| OPENAI_KEY | {body(HEX, 32)} |"),
    "key in a wide table": ("a secret key", lambda body: f"| `API_KEY`  | `{body(WORD, 32)}`     | prod |"),
    "password in a table": ("a password", lambda body: f"| Password | {human(body)} |"),
    "key for a place": ("a secret key", lambda body: f"The API key for staging is {body(WORD, 24)}."),
    "token for a place": ("a token", lambda body: f"the token for the billing service is now {body(WORD, 24)}"),
    "password for a place": ("a password", lambda body: f"Password for the staging box: {human(body)}"),
    "uuid as a key": ("a secret key", lambda body: f"HEROKU_API_KEY={uuid(body)}"),
    "human password": ("a password", lambda body: f"The password is {human(body)}"),
    "human password after a colon": ("a password", lambda body: f"password: {human(body)}"),
    "word and year": ("a password", lambda body: f"the wifi password is {human(body)[:-1].lower()}, ask Ann"),
    "random password in words": ("a password", lambda body: f"password is {body(WORD, 12)}"),
    "password before a command": ("a password", lambda body: f"PGPASSWORD={body(WORD, 10)} psql -h db"),
    "lower case in a shell": ("a password", lambda body: f"DB_PASSWORD={body(LOWER, 16)}"),
    "lower case in a url": ("a password in a URL", lambda body: f"postgres://app:{body(LOWER, 16)}@host"),
    "curl": ("a password in a command", lambda body: f"curl -u admin:{body(WORD, 12)} https://api.corp/x"),
    "curl with a quoted user": (
        "a password in a command",
        lambda body: f"curl -s https://api.corp/x --user 'ann:{human(body)}'",
    ),
    "sshpass": ("a password in a command", lambda body: f"sshpass -p '{human(body)}' ssh ann@box"),
    "mysql": ("a password in a command", lambda body: f"mysqldump -u root -p{human(body)} app"),
    "redis-cli": ("a password in a command", lambda body: f"redis-cli -h cache -a {body(WORD, 16)} ping"),
    "netrc": ("a password", lambda body: f"machine api.corp login ann password {body(WORD, 12)}"),
    "dockerfile": ("a secret key", lambda body: f"ENV OPENAI_API_KEY {body(WORD, 40)}"),
    "named in json": ("a password", lambda body: f'{{"name": "DB_PASSWORD", "value": "{human(body)}"}}'),
    "token in a shell": ("a token", lambda body: f"export CI_TOKEN={body(WORD, 24)}"),
    "token in a query": ("a token", lambda body: f"https://api.corp/v1/x?token={body(HEX, 40)}&limit=3"),
    "token in php": ("a token", lambda body: f"'token' => '{body(WORD, 32)}',"),
    "passwd in words": ("a password", lambda body: f"passwd {body(WORD, 14)}"),
    "passwd after a colon": ("a password", lambda body: f"passwd: {body(WORD, 14)}"),
    "password beside its name": ("a password", lambda body: f"log in with the password {body(WORD, 14)}, please"),
    "short password in words": (
        "a password",
        lambda body: f"my password is {human(body)[:4].lower()}ly{len(human(body))}2",
    ),
    "password of words": ("a password", lambda body: f"the wifi password is {' '.join(seed(body, 3))}"),
    "quoted password of words": (
        "a password",
        lambda body: f'The passphrase for the guest wifi is "{" ".join(seed(body, 5))}".',
    ),
    "weak password in a url": ("a password in a URL", lambda body: f"postgres://admin:{'hunter' + '2'}@db1"),
    "basic without a user": (
        "a password in a header",
        lambda body: f"Authorization: Basic {body(WORD, 24)}",
    ),
    "basic in json": ("a password in a header", lambda body: f'"Authorization": "Basic {body(WORD, 28)}"'),
    "discord by its parts": ("a Discord bot token", lambda body: f"{body(WORD, 24)}.{body(WORD, 6)}.{body(WORD, 27)}"),
    "seed phrase": ("a seed phrase", lambda body: f"My seed phrase is {' '.join(seed(body, 12))}."),
    "recovery phrase": ("a seed phrase", lambda body: f"recovery phrase of the wallet: {', '.join(seed(body, 24))}"),
    "numbered mnemonic": (
        "a seed phrase",
        lambda body: "mnemonic = " + " ".join(f"{n}. {word}" for n, word in enumerate(seed(body, 15), 1)),
    ),
    "row in a stripe key": ("a Stripe key", lambda body: "sk" + "_live_" + "51H8" + LOWER[:20]),
    "full width": ("an AWS access key", lambda body: "\uff21\uff2b\uff29\uff21" + body(UPPER, 16)),
    "mathematical": ("a GitHub token", lambda body: "\U0001d420\U0001d421" + "p_" + body(WORD, 36)),
    "zero width": ("an AWS access key", lambda body: "AK" + "\u200b\u2060IA" + "\u200d".join(body(UPPER, 16))),
    "soft hyphens": ("a GitHub token", lambda body: "gh" + "p_" + "\u00ad".join(body(WORD, 36))),
    "zero width after": ("an AWS access key", lambda body: "AK" + "IA" + body(UPPER, 16) + "\u200bfoo"),
    "space that does not break": ("a password", lambda body: f"password\u00a0is\u00a0{PASSWORD}"),
    "token in escaped json": ("a token", lambda body: f'"{{\\"access_token\\": \\"{body(WORD, 32)}\\"}}"'),
}


SPREAD: dict[str, Made] = {
    "netrc": lambda body: f"machine api.corp\n  login ann@corp.com\n  password {human(body)}\n",
    "yaml": lambda body: f"- name: DB_PASSWORD\n  value: {human(body)}\n",
    "quoted yaml": lambda body: f'- name: API_TOKEN\n  value: "{body(WORD, 32)}"\n',
    "json": lambda body: f'{{\n  "name": "API_TOKEN",\n  "value": "{body(WORD, 32)}"\n}}',
    "curl": lambda body: f"curl -X POST \\\n  -u 'ann:{body(WORD, 12)}' https://api.corp/x",
}


def test_every_kind_of_secret_is_found_named_and_masked_and_all_else_stays() -> None:
    for name, (what, make) in FOUND.items():
        secret = make(body_of(7))
        assert find_secret(secret) == Secret(what=what, line=1), name
        masked = mask_secrets(f"First.\n{secret}\nLast.")
        assert masked.startswith("First.\n"), name
        assert masked.endswith("\nLast."), name
        assert f"[secret removed: {what.partition(' ')[2]}]" in masked, name
        assert find_secret(masked) is None, name
        parts = [part for part in re.findall(r"[A-Za-z0-9+/]{24,}", secret) if re.search(r"\d", part)]
        assert not [part for part in parts if part in masked], name


def test_nearly_every_secret_of_every_kind_is_found() -> None:
    missed = {
        name: sum(find_secret(make(body_of(seed))) is None for seed in range(100)) for name, (_, make) in FOUND.items()
    }
    assert max(missed.values()) <= 4, missed
    assert sum(missed.values()) * 200 < 100 * len(FOUND), missed
    for name, make in SPREAD.items():
        found = [find_secret(make(body_of(seed))) for seed in range(100)]
        assert sum(each is None or each.line < 2 for each in found) <= 1, name


X = "x" * 36
SHA = "9fceb02d0ae598e95dc970b74767f19372d61af8"
DIGEST = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
UUID = "123e4567-e89b-42d3-a456-426614174000"
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
INTEGRITY = "sha512-" + "q3RtZyBpcyBub3QgYSBzZWNyZXQgYnV0IGEgZGlnZXN0IG9mIGEgdGFyYmFsbA1b2c3d4e5f6g7h8" + "=="

LET_THROUGH = [
    "postgres://user:password@localhost:5432/db", "https://user:pass@example.com/",
    "mysql://root:root@127.0.0.1/app", "postgres://app:${DB_PASS}@db/app", "https://<user>:<password>@host/path",
    "amqp://guest:guest@rabbit:5672//", "redis://:$REDIS_PASSWORD@cache:6379", "https://user:***@github.com/a/b.git",
    "http://localhost:8080/@scope/pkg", "https://username:your-token@gitlab.com/x",
    "ssh://git@github.com:22/org/repo.git", "git@github.com:org/repo.git",
    "mongodb://admin:{{ mongo_password }}@mongo", "http://proxy.corp:3128,bob@corp.com", "scott:tiger@//oracle/xe",
    "https://alice:Xk93jLq2@db.example.com/", "http://[::1]:8080/users/@me", "proto://name:changeme@host",
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", f"ghp_{X}", "sk-...", "sk-ant-...",
    "tokens start with ghp_ or github_pat_", "GitLab uses the prefix glpat- and Slack xoxb-",
    "xoxb-your-token-here-please", "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx", "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN", 'headers = {"Authorization": f"Bearer {token}"}',
    "Authorization: Basic dXNlcjpwYXNzd29yZA==", "Bearer authentication_is_required_for_this_endpoint",
    "the Basic configuration of the server", "hf_hub_download_with_a_very_long_function_name()",
    ".sk-toggleable__content pre { color: black }",
    "https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24, "ghp_1234567890abcdefghijklmnopqrstuvwxyz",
    "AIza is how Google's keys begin", "eyJ is what the base64 of a JSON object starts with", "key-value-store",
    "npm_config_registry=https://registry.npmjs.org/", "npm_lifecycle_event",
    "secret_manager_client_for_the_project", "task SKIP 12", "AAAAB3NzaC1yc2EAAAADAQABAAABgQC7",
    'api_key = os.environ["OPENAI_API_KEY"]', "const token = process.env.GITHUB_TOKEN;",
    'token := os.Getenv("TOKEN")', "password: ${{ secrets.DB_PASSWORD }}", "password: {{ db_password }}",
    "PASSWORD=$DB_PASSWORD", "password=%(password)s", "API key stored in .env as OPENAI_API_KEY", "password: str",
    "password: Optional[str] = None", "def f(token: str = '')", "token = get_token()", "password = input()",
    "password = getpass.getpass('Password: ')", "token = self._token_v2", "if password == 'Correct-Horse-7!':",
    "if (token !== expectedToken1) return;", "private_key: ed25519.Ed25519PrivateKey",
    "the password is rotated weekly", "The token is refreshed every 3600s.",
    "password must have 8 characters, 1 digit", "password = 'changeme'", 'password="password123"',
    "api_key: your-api-key-here", "API_KEY=<your api key>", "SECRET_KEY=insert-a-long-random-value",
    "secret: projects/1/secrets/db/versions/latest", "token: vault:kv/data/ci#token",
    "password_hash = '$2b$12$KIXQ4S1u8e9Z0m7bQ3x5UeO'", f"token_id: {UUID}", f"api_key: {UUID}", f"token: {ULID}",
    "secretName: db-credentials-v2", "secret: my-app-tls-2024", "max_tokens: 4096",
    "next_page_token=CAoQAhoKMTIzNDU2Nzg5MA", "passwordFile: /run/secrets/db_password",
    "token_url = 'https://auth.corp/oauth2/v1/token'", "cache_key = 'user:42:v3'", "primary_key=True, unique=True",
    "keyboard: qwerty-us-104", "bypass=Fj39dKq82mXz01Lw", 'tokenizer = "cl100k_base"',
    'type="password" placeholder="••••••••"', "password.addEventListener('input', e => check(e))",
    "password: !vault |", ":root { --token-color-1: #a1b2c3d4 }", "secret = hashlib.sha256(data).hexdigest()",
    "csrf_token: Fj39dKq82mXz01LwPq", "token: 'deadbeefdeadbeefdeadbeefdeadbeef'",
    "accessKey: 'abc123abc123abc123abc123'", "password: '********'",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "api_key=sk-...  # from the dashboard",
    "pwd: /home/ann/projects/cofio2", "cd $OLDPWD && pwd", "PASS: test_search_3 (0.21s)",
    "--- PASS: TestA1B2c3D4e5F6 (0.00s)", f"commit {SHA}", f"Merge {SHA[:12]} into main",
    f"image: nginx@sha256:{DIGEST}", f'"integrity": "{INTEGRITY}"', f"id: {UUID}", f"record {ULID} was moved",
    f'etag: W/"{SHA}"', f"{DIGEST}  cofio-0.3.tar.gz", f"--hash=sha256:{DIGEST}",
    f"index {SHA[:9]}..{SHA[9:18]} 100644",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9x2Qm1e7Vb3Zk8Lr5Ts0Uw4Yp6Na ann@laptop",
    "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
    "2026-03-01T12:00:00Z INFO [req-8f14e45f] token refreshed for user 42 in 31ms",
    "ETag: 33a64df551425fcc55e4d42a148795d9", "SELECT token, secret FROM sessions WHERE user_id = $1",
    "func NewClient(apiKey string) *Client {", "pub token: String,",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: db, key: password}",
    "+    password = request.form['password']", "const { password, ...rest } = user;",
    "export TOKEN=$(gcloud auth print-access-token)", 'curl -u "$USER:$PASS" https://a.b',
    "Ann keeps the API keys in 1Password, vault Platform, item cofio-prod.",
    "Rotate the signing key: see runbook RB-1042.", "We chose JWTs (RS256) over opaque tokens: see ADR-0017.",
    "The secret: start small, measure, and never stop.", 'password = "" # read from stdin',
    "auth: { type: 'bearer', token: '{{token}}' }", "#define TOKEN_LENGTH 32",
    "token=abcdefghijklmnopqrstuvwxyz123456", "api_key='1234567890abcdef1234567890abcdef'", "mov eax, [ebp+token]",
    "postgres://svc7Ann:svc7Ann@db/app", "connect(password=cfg.user2Name, retries=3)",
    "secretary: Fj39dKq82mXz01LwPq", "the token Fj39dKq82mXz01LwPq is a page of results",
    "check_token(a1B2c3D4e5F6g7H8, strict)", "if secret > a1B2c3D4e5F6g7H8:", "password: 'MySecretPassword-12'",
    "token = t1.r2.s3.u4.w5.x6[0]", "v10.abc123.Fj39dKq82mXz01LwPqZx73VbNm5",
    "Basic " + b64encode(b"\xfe\xff7:Xk93jLq2").decode(), "token: a1a1b1b1a1b1a1a1b1",
    "openssl rand -hex 32 > secret.key", "token=btnSubmit2Form3Wrapper4", "token: TS2304ErrorCannotFindName42",
    "token = ES2022ModuleResolverHost3", '{"token": "run-2024-06-01-A7b"}', "token: 20240601T123005Z-batch7",
    "ENV GPG_KEY A035C8C19219BA821ECEA86B64E628F8D684696D", f"CACHE_KEY={SHA}", f"CORRELATION_TOKEN={UUID}",
    "STRIPE_PUBLISHABLE_KEY=pk_test_TYooMQauvdEDq54NiTphI7jx", "FEATURE_KEY: newCheckout2024Flow",
    "DONKEY=Fj39dKq82mXz01LwPq", "| password | string | Base64-encoded, at least 12 characters |",
    "| `GITHUB_TOKEN` | `${{ secrets.GITHUB_TOKEN }}` |", "cat password | Fj39dKq82mXz01LwPq",
    "The password is base64-encoded before it is sent.", "The password is SHA256-hashed with a salt.",
    "The password is case-insensitive.", "password: Pbkdf2Sha256", "Password: VARCHAR255",
    "The API key for staging is in 1Password.", "the token for the user is invalid",
    "for token in tokens: process_each2(x)", "POSTGRES_PASSWORD=mysecretpassword", "PASSWORD=changeme123",
    "postgres://app:correcthorsebatterystaple@db/app", "amqp://rabbitmq:rabbitmqpwd@mq",
    "postgres://app:asdfghjkl@db/app", "curl -u user:password https://api.corp/x",
    "curl --user admin:admin http://localhost", "docker run -u node:node2 image",
    "docker run --name db -p3306:3306 mysql:8 -p", "mysql -u root -p app_production", "sshpass -p $PASS ssh ann@box",
    "machine api.corp login ann password <token>", "- name: DB_PASSWORD\n  value: $(DB_PASSWORD)",
    "cofio_export_2024_06_01.jsonl", "fo1_forecast_horizon_one_of_the_year_2024_and_beyond", "tskey-auth-...",
    "def test_wrong_password(client): client.login('ann', 'nope')", "the password is too short",
    "password reset works", "The password is case sensitive.", "The password is eight characters long.",
    "The password is plain text everywhere.", "Her password was never found again.",
    "the passphrase is written down somewhere safe", "the password for the guests is on the fridge",
    "Your password is about to expire soon.", "The password is stored salted, hashed and peppered.",
    "passwords: use long random strings", "password is utf8, then base64", "the password is admin123",
    "The password is sha256, then hex.", "run passwd Administrator as root", "edit /etc/passwd and /etc/shadow",
    "passwd: all authentication tokens updated successfully", "the password field Username2Password is hidden",
    "password=secret", "PASSWORD=secret", "connect(password=secret, user=name)",
    "The seed phrase is kept with the lawyer, who holds the other papers, too.",
    "A seed phrase is twelve words that open the wallet for whoever has them.",
    "seed phrase generation takes twelve words from the list",
    "the recovery phrase: write it down, never photograph it, and keep two copies in two places far apart",
    "the mnemonic is a way to learn lists by heart when their order matters more than what they say",
    "Authorization: Basic auth is used here", "Authorization: Basic dXNlcjpwYXNz",
    "Authorization: Basic <base64 of user:password>", "sk_live_" + string.ascii_lowercase[:24],
    "ghp_" + string.ascii_lowercase + string.digits, "https://user:pass123@host/path", "https://ann:@git.corp/a",
    "com.acme.payments.Retry.handler.onFailureOfTheSecondAttempt",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 password reset works \ufe0f",
    "le mot de passe\u00a0: trop court\u00a0!", "\uff21\uff2b\uff29\uff21 is a full-width word",
    "\u202eoverridden\u202c token",
]  # fmt: skip


def test_what_is_no_secret_is_let_through() -> None:
    assert [text for text in LET_THROUGH if find_secret(text) is not None] == []
    assert find_secret("\n".join(LET_THROUGH)) is None
    for label in ("CERTIFICATE", "PUBLIC KEY", "RSA PUBLIC KEY", "PGP PUBLIC KEY BLOCK", "PGP MESSAGE"):
        assert find_secret(pem(label, body_of(1))) is None, label
    head = "-----BEGIN " + "RSA PRIVATE KEY-----"
    assert find_secret(f"if {head!r} in text: raise Leak()") is None, "a key without its body"
    assert find_secret(f"{head}\nMIIE...\n-----END RSA PRIVATE KEY-----\n" + pem("CERTIFICATE", body_of(1))) is None
    assert find_secret(jwt(body_of(1), header='{"kind":"cursor","page":3}')) is None, "no algorithm is named"


def chunks(text: str) -> Iterator[str]:
    """The text in pieces of forty lines."""
    lines = text.split("\n")
    for start in range(0, len(lines), 40):
        yield "\n".join(lines[start : start + 40])


def test_the_standard_library_holds_no_secrets() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    files = [
        path for path in root.rglob("*.py") if not {"test", "tests", "site-packages"} & {*path.relative_to(root).parts}
    ]
    pieces = [piece for path in files for piece in chunks(path.read_text(encoding="utf-8", errors="replace"))]
    flagged = [(found, piece) for piece in pieces if (found := find_secret(piece)) is not None]
    assert len(pieces) > 2_000
    assert len(flagged) * 2_000 < len(pieces), flagged


def test_what_packages_say_of_themselves_holds_no_secrets() -> None:
    texts = [each.read_text("METADATA") or "" for each in distributions()]
    pieces = [piece for text in texts for piece in chunks(text)]
    flagged = [(found, piece) for piece in pieces if (found := find_secret(piece)) is not None]
    # The signed token in the description of PyJWT is one, though of no use to anyone.
    flagged = [each for each in flagged if "jwt.encode(" not in each[1]]
    assert pieces
    assert len(flagged) * 300 < len(pieces), flagged


words = st.text(string.ascii_lowercase, min_size=1, max_size=12) | st.sampled_from(
    ["password", "token", "secret", "key", "API", "is", "was", "The", "bearer", "basic", "Ann", "in", "pass", "for"]
)
_TOLD = re.compile(r"(?i)pass\w* (?:\w+ ){0,4}(?:is|was) ")  # what follows may be a password made of words
prose = (
    st.lists(
        st.tuples(words, st.sampled_from([" ", " ", " ", ", ", ". ", ": ", "; ", " = ", "\n", "\n\n", "-"])),
        max_size=60,
    )
    .map(lambda pairs: "".join(word + gap for word, gap in pairs))
    .filter(lambda text: not _TOLD.search(text))
)


@given(text=prose)
def test_prose_is_never_taken_for_a_secret(text: str) -> None:
    assert find_secret(text) is None


@given(before=prose, after=prose, name=st.sampled_from(sorted(FOUND)))
def test_a_secret_in_prose_is_found_on_its_line(before: str, after: str, name: str) -> None:
    what, make = FOUND[name]
    text = f"{before} \n{make(body_of(7))}\n {after}"
    assert find_secret(text) == Secret(what=what, line=before.count("\n") + 2)


@given(before=prose, names=st.lists(st.sampled_from(sorted(FOUND)), min_size=2, max_size=3))
def test_the_first_of_several_secrets_is_found(before: str, names: list[str]) -> None:
    planted = [FOUND[name][1](body_of(7)).replace("\n", "\\n") for name in names if name != "putty"] or [PASSWORD]
    found = find_secret("\n".join([before, "", *planted]))
    assert found == find_secret("\n".join([before, "", planted[0]]))


@given(text=st.text())
def test_any_text_is_read_to_its_end(text: str) -> None:
    found = find_secret(text)
    assert found is None or 1 <= found.line <= text.count("\n") + 1


def test_a_letter_that_grows_in_lower_case_does_not_move_what_is_found() -> None:
    assert find_secret("İ" * 40 + f"\npassword = '{PASSWORD}'") == Secret(what="a password", line=2)
    found = find_secret("\ud800 " + f"password = '{PASSWORD}'")
    assert found == Secret(what="a password", line=1)
    assert PASSWORD not in repr(found)


@pytest.mark.parametrize(
    ("value", "what", "line"),
    [
        ({"password": PASSWORD}, "a password", 1),
        ({"db": {"userPassword": PASSWORD}}, "a password", 1),
        ({"tokens": [1, None, {"apiKey": body_of(1)(WORD, 32)}]}, "a secret key", 1),
        ({"passwords": "none", "password": [True, PASSWORD]}, "a password", 1),
        ({"client_secret": body_of(1)(HEX, 32)}, "a secret", 1),
        ({"OPENAI_KEY": body_of(1)(HEX, 32)}, "a secret key", 1),
        ({"HEROKU_API_KEY": uuid(body_of(1))}, "a secret key", 1),
        ([{"name": "DB_PASSWORD", "value": PASSWORD}], "a password", 1),
        ([{"note": "one\ntwo\n" + "gh" + "p_" + body_of(1)(WORD, 36)}], "a GitHub token", 3),
        ({"s" + "k-ant-api03-" + body_of(1)(WORD, 93): True}, "an Anthropic key", 1),
        ("AK" + "IA" + body_of(1)(UPPER, 16), "an AWS access key", 1),
        (["next", f"API key: {body_of(1)(WORD, 32)}"], "a secret key", 1),
        ({"a": "fine", "token": body_of(2)(WORD, 40), "b": "AK" + "IA" + body_of(1)(UPPER, 16)}, "a token", 1),
    ],
)
def test_a_secret_in_json_is_found(value: Json, what: str, line: int) -> None:
    assert find_in_json(value) == Secret(what=what, line=line)


CLEAN: list[Json] = [
    None, 7, True, "", [], {}, {"password": None, "token": 12345678901234567890}, {"password": "hunter"},
    {"password": "the one that Ann wrote down in 2024!"}, {"password": "${DB_PASSWORD}"}, {"token": UUID},
    {"password_hint": PASSWORD}, {"key": body_of(1)(WORD, 32)}, {"sha": DIGEST}, {"tokens": 4096},
    {"type": "string", "format": "password", "example": "changeme"}, ["password", PASSWORD],
    {"secretName": "a-1-B-2-c"}, {"api_key": "a\nb"}, {"token": "run-2024-06-01-A7b"},
    {"token": "thread-2024-06-01T12:30:05-A7b9"}, {"token": "btnSubmit2Form3Wrapper4"},
    {"name": "DB_PASSWORD", "value": "${DB_PASSWORD}"}, {"name": 7, "value": "a"},
]  # fmt: skip


def test_json_without_secrets_is_let_through() -> None:
    assert [value for value in CLEAN if find_in_json(value) is not None] == []


def test_json_as_deep_as_it_comes_is_read_to_its_end() -> None:
    value: Json = {"password": PASSWORD}
    for _ in range(50_000):
        value = [value]
    assert find_in_json(value) == Secret(what="a password", line=1)
    while isinstance(value, list):  # taken apart from the outside: freeing it at once would recurse as deep
        value = value[0]


@given(before=prose, names=st.lists(st.sampled_from(sorted(FOUND)), min_size=1, max_size=4))
def test_every_secret_of_a_text_is_masked_and_the_same_way_each_time(before: str, names: list[str]) -> None:
    text = "\n".join([before, *(FOUND[name][1](body_of(index)) for index, name in enumerate(names)), "the end"])
    masked = mask_secrets(text)
    assert masked.startswith(before)
    assert masked.endswith("\nthe end")
    assert find_secret(masked) is None
    assert mask_secrets(masked) == masked == mask_secrets(text)


@given(
    text=st.text()
    | st.lists(st.sampled_from(["password", " is ", "=", "'", PASSWORD, "\u200b", "\n", "é"])).map("".join)
)
def test_no_text_holds_a_secret_once_it_is_masked(text: str) -> None:
    masked = mask_secrets(text)
    assert find_secret(masked) is None
    assert (masked == text) == (find_secret(text) is None)


def test_a_secret_is_masked_alone() -> None:
    key = "AK" + "IA" + body_of(1)(UPPER, 16)
    assert mask_secrets(f"The admin password is {PASSWORD}. Use {key}, too.") == (
        "The admin password is [secret removed: password]. Use [secret removed: AWS access key], too."
    )
    assert mask_secrets(f"db: postgres://app:{PASSWORD}@db.internal:5432/app?x=1") == (
        "db: postgres://app:[secret removed: password in a URL]@db.internal:5432/app?x=1"
    )
    block = pem("RSA " + "PRIVATE KEY", body_of(1))
    assert mask_secrets(f"Mine:\n{block}Yours.") == "Mine:\n[secret removed: private key]\nYours."
    cut = block.partition("-----END")[0]
    assert mask_secrets(f"Mine:\n{cut}Yours.") == "Mine:\n[secret removed: private key]\nYours."
    assert mask_secrets(f"a {key[:7]}\u200b{key[7:]} b") == "a [secret removed: AWS access key] b"


def test_secrets_of_json_are_masked_in_keys_names_and_strings() -> None:
    key = "AK" + "IA" + body_of(1)(UPPER, 16)
    assert mask_in_json(
        {"a": [1, None, f"id {key}"], "db": {"password": PASSWORD, "port": 5432}, key: 1, "b": True}
    ) == {
        "a": [1, None, "id [secret removed: AWS access key]"],
        "db": {"password": "[secret removed: password]", "port": 5432},
        "[secret removed: AWS access key]": 1,
        "b": True,
    }
    other = "AK" + "IA" + body_of(2)(UPPER, 16)
    assert mask_in_json({key: 1, other: 2}) == {
        "[secret removed: AWS access key]": 1, "[secret removed: AWS access key] 2": 2,
    }  # fmt: skip
    assert mask_in_json([{"name": "DB_PASSWORD", "value": PASSWORD}]) == [
        {"name": "DB_PASSWORD", "value": "[secret removed: password]"}
    ]
    assert mask_in_json({"passphrase": " ".join(seed(body_of(1), 4))}) == {"passphrase": "[secret removed: password]"}
    clean: Json = {"a": ["b", {"c": None}]}
    assert mask_in_json(clean) is clean


def test_json_within_a_text_is_still_json_once_it_is_masked() -> None:
    for name, (_, make) in FOUND.items():
        arguments = json.dumps({"command": make(body_of(3)), "n": 1})
        assert json.loads(mask_secrets(arguments))["n"] == 1, name


HOSTILE = [
    "a", "=", ":", "-", "_", ".", " ", "\n", '"', "é", "eyJ", ".eyJaaaaaaaaaaaa", "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----\n", "://a:", "://a:b@", "://a:b1C@", "key", "pass", "api_key=", "api_key='", "secret:",
    "api_key=aaaaaaaaaaaaaaaaa ", "password=a1b2example",
    "token=aB1cD2eF3example,", "AKIA", "sk-", "sk-a1", "ghp_", "xoxb-",
    "xoxb-1", "xapp-1-aaaaaaaa-1-", "SK", "SG.", "EAAA", ".aaaaaa", "dp.pt.aa.", "Bearer aaaaaaaaaaaaaaaaaaaaaa ",
    "Basic dXNlcjpwYXNz ", "&sig=", "PuTTY-User-Key-File-2: ", "private_key_id", "--password ", "password:[", "glpat-",
    "hooks.slack.com/services/Taaaaaaa/", "/api/webhooks/", "0123456789:AA", "<password>aaaaaaaa<",
    "password=a.a.a.a.a",
    "password='/a/a/a/a", "secret: a", "token : str ", "aws_secret_access_key ", "hvs.", "pypi-Ag", "github_pat_",
    "curl ", "curl -u ", "curl -u a:", "curl -u a:aaaaaa ", "mysql -p ", "mysql ", "sshpass -p ", "redis-cli ",
    "key for a ", "key for a b c is ", "password is now ", "password,\n  ", "password\n value:", "password | ",
    "login a password ",
    "ENV API_KEY aaaaaaaa ", "X_KEY=aaaaaaaaaaaaaaaaa ", "cofio_", "sntrys_", "fo1_", "tskey-a-", ".atlasv1.",
    "20240601", "password is ", "password is aaa ", "password is aaa bbb ccc the ", "passwd ", "seed phrase is ",
    "mnemonic: ", "mnemonic: aaa ", "phrase is aaa bbb ", "aaa ", "1. aaa ", "\u200b", "\uff21", "AKIA\u200b", "\u00a0",
    "Authorization: Basic ", "Authorization: Basic aaaaaaaaaaaaaaaa ",
]  # fmt: skip


FULL = [
    "AK" + "IA" + body_of(1)(UPPER, 16) + " ", "AK" + "IA\u200b" + body_of(1)(UPPER, 16) + " ", f"://a:{PASSWORD}@b ",
    f"password = '{PASSWORD}' ", f"the password is {PASSWORD} ", pem("RSA " + "PRIVATE KEY", body_of(1)),
]  # fmt: skip


SCAN = """
import sys
from cofio.secrets.scanner import find_secret, mask_secrets

for line in sys.stdin:
    piece, *full = eval(line)
    text = (piece * (2**18 // len(piece) + 1))[:2**18]
    if full:
        assert piece.strip() not in mask_secrets(text[:2**17])
    else:
        assert find_secret(text) is None, piece
    print(repr(piece), flush=True)
"""


@pytest.mark.usefixtures("process")
def test_hostile_text_takes_no_longer_than_its_length() -> None:
    # Work that grows with the square of the length takes minutes for each piece: the limit only ends that. In a
    # process of its own, because a pattern that goes wrong does not come back.
    pieces = [*((piece,) for piece in HOSTILE), *((piece, "masked") for piece in FULL)]
    done = subprocess.run(
        [sys.executable, "-c", SCAN], input="\n".join(map(repr, pieces)), text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [repr(piece) for piece in (*HOSTILE, *FULL)]


def test_a_token_in_an_address_or_a_path_is_found() -> None:
    for prefix in ("ghp_", "glpat-", "sk_live_"):
        token = prefix + "".join(random.Random(prefix).choices(string.ascii_letters + string.digits, k=36))
        for text in (
            f"https://{token}@github.com/a/b",
            f"git clone https://{token}@host/a.git",
            f"in /secrets/{token}",
        ):
            assert find_secret(text) is not None, text
            assert token not in mask_secrets(text)


@given(st.lists(st.sampled_from(["plain ", "ghp", "é", "\n", "{}", "word "]), max_size=12))
def test_places_of_a_text_are_found_again_once_it_is_masked(parts: list[str]) -> None:
    token = "ghp" + "_" + "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=36))
    pieces = [f" {token} " if part == "{}" else part for part in parts]
    text = "".join(pieces)
    offsets = list(range(len(text) + 1))
    masked, moved = mask_with_offsets(text, offsets)
    assert masked == mask_secrets(text)
    assert moved == sorted(moved)
    assert (moved[0], moved[-1]) == (0, len(masked))
    mark = mask_secrets(token)
    found = [place.start() for place in re.finditer(token, text)]
    for offset in offsets:
        inside = next((start for start in found if start < offset < start + len(token)), None)
        if inside is not None:
            assert masked[: moved[offset]].endswith(mark)
            assert moved[offset] == moved[inside] + len(mark)
        else:
            assert masked[moved[offset] :] == mask_secrets(text[offset:])
