"""Which words of developers mean much the same: a prompt about a package is about pnpm, one of pictures about images.

Of tools, the best known of each sort: a prompt names the sort where a memory names the tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from ..text.tokenizer import split_words

_GROUPS = (
    (
        "package dependency install library",
        "npm pnpm yarn bun pip uv poetry conda cargo maven gradle nuget conan vcpkg bundler gem composer homebrew "
        "lockfile",
    ),
    (
        "lint linter style warning",
        "eslint ruff flake8 pylint clippy rubocop golangci checkstyle prettier black gofmt rustfmt biome",
    ),
    ("type checker hint annotation", "mypy pyright tsc flow sorbet"),
    (
        "test testing suite browser",
        "pytest unittest jest vitest mocha playwright cypress selenium junit rspec testify puppeteer",
    ),
    (
        "database query table sql orm schema",
        "postgres postgresql mysql mariadb sqlite mongodb oracle sqlalchemy gorm sqlc prisma hibernate "
        "activerecord knex",
    ),
    ("migration migrate", "alembic flyway liquibase goose"),
    ("cache caching", "redis memcached ttl"),
    ("queue event publish message job", "kafka rabbitmq nats sqs sidekiq celery pubsub"),
    ("container image docker", "dockerfile podman compose kubernetes"),
    ("cluster deploy deployment pod", "kubernetes helm argocd kubectl k8s"),
    ("infrastructure provision cloud", "terraform pulumi ansible cloudformation aws azure gcp"),
    ("metric dashboard monitoring alert", "prometheus grafana datadog opentelemetry"),
    ("secret credential password", "vault keychain kms"),
    ("email mail", "smtp postmark sendgrid ses mailgun"),
    ("payment pay card", "stripe paypal adyen"),
    ("search", "elasticsearch opensearch typesense solr algolia meilisearch"),
    ("pipeline ci build", "jenkins github gitlab circleci buildkite"),
    ("experiment run tracking", "mlflow wandb tensorboard"),
    ("flag option argument setting configuration config", "argparse hydra dotenv yaml toml env"),
    ("toolchain compiler compile", "gcc clang llvm msvc rustc cmake"),
    ("allocate allocation buffer heap", "malloc alloc memory"),
    ("stylesheet style css", "tailwind bootstrap sass"),
    ("chart plot graph", "matplotlib d3 echarts plotly"),
    ("timezone zone time", "utc"),
    ("branch merge pull", "main master trunk"),
    ("release version publish", "changelog tag news semver"),
    ("picture photo image", "picture photo image"),
    ("error exception fail failure crash", "error exception panic throw"),
    ("slow speed latency performance", "slow fast speed latency second millisecond"),
    ("delete remove erase", "delete remove erase drop"),
    ("upgrade update bump newest latest", "pin pinned version"),
    ("date day calendar", "date day month year holiday weekend sunday monday"),
    ("price amount cost currency money", "price amount cost currency cent decimal euro dollar"),
    ("naming rename", "name prefix suffix snake camel case"),
    ("translate translation language", "translation locale i18n gettext language"),
    ("login authenticate sign authentication", "login oauth sso password token session"),
    ("permission right allow", "permission role admin"),
    ("laptop machine computer local locally", "laptop machine local host"),
    ("rounding round", "round half decimal"),
    ("backup restore copy", "backup snapshot restore"),
    ("battery power energy", "battery current sleep charge power"),
)  # fmt: skip
"""What a prompt says, and what a memory may say instead."""


@cache
def _list_related() -> dict[str, str]:
    """For each word that prompts have, as it is indexed, what memories may say instead."""
    related: dict[str, str] = {}
    for asked, stored in _GROUPS:
        for word in split_words(asked):
            related[word] = f"{related[word]} {stored}" if word in related else stored
    return related


def find_related(words: Iterable[str]) -> dict[str, str]:
    """What memories may say instead of the words of a prompt, for those that have a word like them."""
    related = _list_related()
    return {word: related[word] for word in words if word in related}
