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
from collections.abc import Callable
from functools import partial
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
ALPHABETS = {
    "A": string.ascii_letters, "B": BASE64, "D": string.digits, "H": HEX, "L": LOWER, "M": LOWER + string.digits,
    "N": string.digits[1:], "R": URL, "S": WORD + "!@#%^*(-_=+", "T": WORD + "-_~", "U": UPPER, "W": WORD,
    "X": HEX.upper(),
}  # fmt: skip
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
    head = make(head, body)
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


def make(template: str, body: Body) -> str:
    """A text with {W32} as 32 random characters of the alphabet W, {human} as a password of a person, and so on."""

    def fill(place: re.Match[str]) -> str:
        kind, count = place[1], int(place[2] or 0)
        if kind in ("words", "list"):
            return (" " if kind == "words" else ", ").join(seed(body, count))
        if kind == "uuid":
            return "-".join(body(HEX, length) for length in (8, 4, 4, 4, 12))
        return human(body) if kind == "human" else body(ALPHABETS[kind], count)

    return re.sub(r"\{([A-Za-z]+)(\d*)\}", fill, template)


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


TEMPLATES: dict[str, list[str]] = {
    "a private key": [
        "---- BEGIN SSH2 ENCRYPTED PRIVATE" + " KEY ----\n{B70}\n",
        "PuTTY-User-Key-" + "File-3: ssh-ed25519\nEncryption: none\nPublic-Lines: 2\n{B64}\n{B16}\n"
        "Private-Lines: 1\n{B48}\n",
    ],
    "an AWS access key": [
        "AKIA{U16}", "aws configure set id ASIA{U16}", "\uff21\uff2b\uff29\uff21{U16}", "AKIA{U16}\u200bfoo",
    ],
    "a GitHub token": [
        *(f"gh{kind}_{{W36}}" for kind in "pousr"), "github_pat_{W22}_{W59}",
        "git clone https://x:ghp_{W36}@github.com/a/b", "\U0001d420\U0001d421p_{W36}",
        "https://ghp_{W36}@github.com/a/b", "git clone https://ghp_{W36}@host/a.git", "in /secrets/ghp_{W36}",
    ],
    "a GitLab token": ["glpat-{R20}", "git clone https://glpat-{W36}@host/a.git", "in /secrets/glpat-{W36}"],
    "a Slack token": ["xoxb-{D12}-{D12}-{W24}", "xoxp-{D12}-{H32}"],
    "a Slack webhook": ["https://hooks.slack.com/services/T{U9}/B{U9}/{W24}"],
    "a Discord bot token": ["{W24}.{W6}.{W27}"],
    "a Discord webhook": ["https://discord.com/api/webhooks/{N18}/{R68}"],
    "a Telegram bot token": ["{N10}:AA{R33}"],
    "a Stripe key": [
        "sk_live_{W24}", "rk_live_{W99}", "sk_test_{W24}", "sk_live_" + "51H8" + LOWER[:20],
        "https://sk_live_{W36}@github.com/a/b", "in /secrets/sk_live_{W36}",
    ],
    "an OpenAI key": ["sk-{W48}", "sk-proj-{R120}", "sk-or-v1-{H64}", "sk-{H32}"],
    "an Anthropic key": ["sk-ant-api03-{R93}AA"],
    "a Google API key": ["AIza{R35}"],
    "a Google access token": ["ya29.{R80}"],
    "a Google service account key": ['{"type": "service_account", "private_key_id": "{H40}", "client_id": "1"}'],
    "an Azure storage key": ["DefaultEndpointsProtocol=https;AccountName=a;AccountKey={B86}==;EndpointSuffix=x"],
    "an Azure shared access key": ["SharedAccessKeyName=k;SharedAccessKey={B43}="],
    "an Azure signature": ["https://a.blob.core.windows.net/c?sv=2022-11-02&se=2030-01-01&sig={W43}%3D"],
    "an Azure client secret": ["{W3}8Q~{T34}"],
    "an npm token": ["//registry.npmjs.org/:_authToken=npm_{W36}"],
    "a PyPI token": ["pypi-AgEIcHlwaS5vcmc{R120}"],
    "a Hugging Face token": ["hf_{A34}"],
    "a DigitalOcean token": ["dop_v1_{H64}"],
    "a Twilio key": ["SK{H32}"],
    "a SendGrid key": ["SG.{R22}.{R43}"],
    "a Mailgun key": ["key-{H32}"],
    "a Shopify token": ["shpat_{H32}"],
    "a Square token": ["sq0atp-{R22}", "EAAA{R60}"],
    "a Databricks token": ["dapi{H32}"],
    "a Doppler token": ["dp.pt.{W43}"],
    "a Linear key": ["lin_api_{W40}"],
    "a Notion token": ["secret_{W43}", "ntn_{W46}"],
    "a Vault token": ["hvs.{R24}"],
    "a key of an AI service": [
        "gsk_{W52}", "xai-{W80}", "pplx-{W48}", "r8_{W37}", "nvapi-{R64}", "lsv2_pt_{H32}_{H10}", "tvly-dev-{W32}",
        "csk-{M48}",
    ],
    "a token of a hosting service": [
        "sbp_{H40}", "sb_secret_{R31}", "nfp_{W36}", "FlyV1 fm2_{B160}=", "fo1_{R43}", "pscale_tkn_{R43}",
        "pscale_pw_{R43}", "HRKU-{uuid}", "pul-{H40}", "tskey-auth-k{W10}CNTRL-{W32}",
    ],
    "a token of a monitoring service": [
        "glsa_{W32}_{H8}", "glc_eyJ{W90}==", "sntrys_eyJ{W120}==_{B43}", "sntryu_{H64}", "NRAK-{U27}",
        "dt0c01.{U24}.{U64}",
    ],
    "a token of a registry": ["dckr_pat_{R27}", "dckr_oat_{R32}", "rubygems_{H48}"],
    "an Atlassian token": ["ATATT3xFfGF0{R180}={X8}"],
    "a token of a tool": ["figd_{R40}", "PMAK-{H24}-{H34}", "ops_eyJ{W300}"],
    "a Terraform token": ["{W14}.atlasv1.{R67}"],
    "a cofio token": ["cofio_{R43}"],
    "an age key": ["AGE-SECRET-KEY-1{U58}"],
    "a bearer token": ['curl -H "Authorization: Bearer {W40}" https://a.b/c'],
    "a password in a header": ["Authorization: Basic {W24}", '"Authorization": "Basic {W28}"'],
    "a password in a URL": [
        "postgres://app:{W12}@db.internal:5432/app", "REDIS_URL=redis://:{W32}@10.0.0.3:6379/0",
        "amqp://svc:{W6}@{W6}@mq.corp/vhost", "postgres://app:{L16}@host", "postgres://admin:" + "hunter2" + "@db1",
    ],
    "a password in a connection string": ["Server=tcp:db,1433;User ID=sa;Password={W7}!x4Q;Encrypt=true"],
    "a password in a command": [
        "curl -u admin:{W12} https://api.corp/x", "curl -s https://api.corp/x --user 'ann:{human}'",
        "sshpass -p '{human}' ssh ann@box", "mysqldump -u root -p{human} app", "redis-cli -h cache -a {W16} ping",
    ],
    "a password": [
        f'password = "{PASSWORD}"', f"DB_PASSWORD={PASSWORD}", f"connect(user='app', password='{PASSWORD}')",
        f"mysql --password {PASSWORD} -u app", f"  password: {PASSWORD}  # for staging",
        f"The admin password is {PASSWORD}. Do not lose it.", f"- **Password:** `{PASSWORD}`",
        f"<password>{PASSWORD}</password>", f'db_password: str = "{PASSWORD}"', f'builder.password("{PASSWORD}")',
        "| Password | {human} |", "Password for the staging box: {human}", "The password is {human}",
        "password: {human}", "password is {W12}", "PGPASSWORD={W10} psql -h db", "DB_PASSWORD={L16}",
        "machine api.corp login ann password {W12}", '{"name": "DB_PASSWORD", "value": "{human}"}', "passwd {W14}",
        "passwd: {W14}", "log in with the password {W14}, please", "the wifi password is {words3}",
        'The passphrase for the guest wifi is "{words5}".', f"password\u00a0is\u00a0{PASSWORD}",
    ],
    "a secret key": [
        "aws_secret_access_key = {B40}", '"SecretAccessKey": "{B40}",', "api_key: {H32}", "X-Api-Key: {W32}",
        "The API key is {W32}, ask Ann for more.", "SECRET_KEY = 'dj-{S47}'", "SECRET_KEY_BASE={H128}",
        "AZURE_OPENAI_KEY={H32}", "export ACME_KEY={W32}", "MISTRAL_KEY: {W32}", 'openaiKey = "{W32}"',
        "Our OpenAI key is {W32}.", "| OPENAI_KEY | {H32} |", "| `API_KEY`  | `{W32}`     | prod |",
        "The API key for staging is {W24}.", "HEROKU_API_KEY={uuid}", "ENV OPENAI_API_KEY {W40}",
    ],
    "a secret": ['"client_secret": "{R40}"'],
    "a token": [
        "the token for the billing service is now {W24}", "export CI_TOKEN={W24}",
        "https://api.corp/v1/x?token={H40}&limit=3", "'token' => '{W32}',", '"{\\"access_token\\": \\"{W32}\\"}"',
    ],
    "a seed phrase": ["My seed phrase is {words12}.", "recovery phrase of the wallet: {list24}"],
}  # fmt: skip

FOUND: dict[str, tuple[str, Made]] = {
    **{template: (what, partial(make, template)) for what, listed in TEMPLATES.items() for template in listed},
    **{
        f"pem {label}": ("a private key", partial(pem, label + "PRIVATE" + " KEY", rows=rows))
        for label, rows in {"RSA ": 6, "EC ": 3, "DSA ": 6, "": 1, "ENCRYPTED ": 6, "OPENSSH ": 6}.items()
    },
    "pgp": ("a private key", partial(pem, "PGP " + "PRIVATE KEY BLOCK", head="Version: GnuPG v2\n\n")),
    "pem with headers": (
        "a private key",
        partial(pem, "RSA " + "PRIVATE KEY", head="Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{H32}\n\n"),
    ),
    "pem on one line": ("a private key", lambda body: 'key = "' + pem("PRIVATE" + " KEY", body, newline="\\n") + '"'),
    "discord bot": ("a Discord bot token", discord),
    "jwt": ("a JSON web token", jwt),
    "jwt in a header": ("a JSON web token", lambda body: "Authorization: Bearer " + jwt(body)),
    "basic": (
        "a password in a header",
        lambda body: "Authorization: Basic " + b64encode(f"deploy:{body(WORD, 16)}".encode()).decode(),
    ),
    "word and year": ("a password", lambda body: f"the wifi password is {human(body)[:-1].lower()}, ask Ann"),
    "short": ("a password", lambda body: f"my password is {human(body)[:4].lower()}ly{len(human(body))}2"),
    "numbered": (
        "a seed phrase",
        lambda body: "mnemonic = " + " ".join(f"{n}. {word}" for n, word in enumerate(seed(body, 15), 1)),
    ),
    "zero width": ("an AWS access key", lambda body: "AK" + "\u200b\u2060IA" + "\u200d".join(body(UPPER, 16))),
    "soft hyphens": ("a GitHub token", lambda body: "gh" + "p_" + "\u00ad".join(body(WORD, 36))),
}

SPREAD = [
    "machine api.corp\n  login ann@corp.com\n  password {human}\n", "- name: DB_PASSWORD\n  value: {human}\n",
    '- name: API_TOKEN\n  value: "{W32}"\n', '{\n  "name": "API_TOKEN",\n  "value": "{W32}"\n}',
    "curl -X POST \\\n  -u 'ann:{W12}' https://api.corp/x",
]  # fmt: skip


def test_every_kind_of_secret_is_found_named_and_masked_and_all_else_stays() -> None:
    for name, (what, made) in FOUND.items():
        secret = made(body_of(7))
        assert find_secret(secret) == Secret(what=what, line=1), name
        masked = mask_secrets(f"First.\n{secret}\nLast.")
        assert masked.startswith("First.\n"), name
        assert masked.endswith("\nLast."), name
        assert f"[secret removed: {what.partition(' ')[2]}]" in masked, name
        assert find_secret(masked) is None, name
        parts = [part for part in re.findall(r"[A-Za-z0-9+/]{24,}", secret) if re.search(r"\d", part)]
        assert not [part for part in parts if part in masked], name
        arguments = json.dumps({"command": made(body_of(3)), "n": 1})
        assert json.loads(mask_secrets(arguments))["n"] == 1, name


def test_nearly_every_secret_of_every_kind_is_found() -> None:
    missed = {
        name: sum(find_secret(made(body_of(seed))) is None for seed in range(100)) for name, (_, made) in FOUND.items()
    }
    assert max(missed.values()) <= 4, missed
    assert sum(missed.values()) * 200 < 100 * len(FOUND), missed
    for template in SPREAD:
        found = [find_secret(make(template, body_of(seed))) for seed in range(100)]
        assert sum(each is None or each.line < 2 for each in found) <= 1, template


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


def test_neither_the_standard_library_nor_what_packages_say_of_themselves_holds_secrets() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    files = [
        path for path in root.rglob("*.py") if not {"test", "tests", "site-packages"} & {*path.relative_to(root).parts}
    ]
    code = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    for texts, most in ((code, 2_000), ([each.read_text("METADATA") or "" for each in distributions()], 300)):
        split = [text.split("\n") for text in texts]
        pieces = ["\n".join(lines[at : at + 40]) for lines in split for at in range(0, len(lines), 40)]
        flagged = [(found, piece) for piece in pieces if (found := find_secret(piece)) is not None]
        # The signed token in the description of PyJWT is one, though of no use to anyone.
        flagged = [each for each in flagged if "jwt.encode(" not in each[1]]
        assert len(pieces) > most
        assert len(flagged) * most < len(pieces), flagged


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
    what, made = FOUND[name]
    text = f"{before} \n{made(body_of(7))}\n {after}"
    assert find_secret(text) == Secret(what=what, line=before.count("\n") + 2)


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
        ({"HEROKU_API_KEY": make("{uuid}", body_of(1))}, "a secret key", 1),
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
    secrets = [FOUND[name][1](body_of(index)) for index, name in enumerate(names)]
    text = "\n".join([before, *secrets, "the end"])
    assert find_secret(text) == find_secret(f"{before}\n{secrets[0]}"), "the first of them is told"
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
