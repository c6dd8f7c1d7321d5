"""The commands that look after a memory: its numbers, its indexes, its health, its model."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.jobs import JOB_KINDS, list_jobs, measure_queue, read_job
from ...engine.opening import exists
from ...http.tokens import Tokens
from ...text.display import render_size
from ...values.errors import Unavailable
from ...values.query import MAX_LIST
from ...values.stats import Stats
from ..store_checks import find_faults_around, find_vault_faults
from .context import count_waiting, load_settings, open_memory
from .terminal import Bar, Checkup, choose_output, render_count, render_record_count
from .visibility import count_internal

if TYPE_CHECKING:
    from ...config.address import StoreAddress
    from ...config.settings import Settings
    from ...embed.model_files import Model
    from ...engine.engine import Engine

DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def show_stats(args: Namespace) -> int:
    """Show the numbers."""
    with open_memory(args) as engine:
        numbers = engine.stats()
        internal = count_internal(engine)
    choose_output(as_json=args.json).print_numbers(numbers, _describe(numbers, internal))
    return 0


def _describe(stats: Stats, internal: int) -> dict[str, str]:
    """The numbers as people read them: what is nothing and says nothing is left out."""
    index = f" and {render_size(stats.bytes_index)} of word index"
    codes = f" and {render_size(stats.bytes_vectors)} of vector codes" if stats.bytes_vectors else ""
    lines = {
        "store": stats.store,
        "records": _describe_records(stats, internal),
        "words": f"{stats.words:,}",
        "that expire": f"{stats.expiring:,}" if stats.expiring else "",
        "checkpoints": f"{stats.checkpoints:,} of {render_count(stats.threads, 'thread')}" if stats.threads else "",
        "vectors": ", ".join(f"{count:,} by {name}" for name, count in stats.vectors.items()) or "none",
        "waiting": _describe_backlog(stats.waiting_for_index, stats.waiting_for_vectors),
        "meaning": stats.meaning,
        "size": f"{render_size(stats.bytes_database)} of database{index}{codes}",
        "unmerged log": f"{render_size(stats.bytes_log)} of the database" if stats.bytes_log else "",
        "fault": stats.background_fault,
        "last change": stats.updated[:19].replace("T", " ") + " UTC" if stats.updated else "never",
        "versions": f"schema {stats.schema}, {DATABASES[stats.software[0]]} {stats.software[1]}",
    }
    return {name: value for name, value in lines.items() if value}


def _describe_records(stats: Stats, internal: int) -> str:
    """How many records there are, and how many of them are shown only when asked for."""
    own = f", and {internal:,} that cofio keeps for its own use" if internal else ""
    expiry = f"; {stats.expired:,} have expired, and go with time" if stats.expired else ""
    return f"{stats.records - internal:,}{own}{expiry}"


def _describe_backlog(words: int, vectors: int) -> str:
    """What is still to be done to records, if anything."""
    waits = [f"{render_record_count(words)} for the word index"] if words else []
    waits += [f"{render_record_count(vectors)} for vectors"] if vectors else []
    return " and ".join(waits) or "nothing"


def reindex(args: Namespace) -> int:
    """Rebuild what is derived."""
    with open_memory(args) as engine:
        if args.vectors and engine.embedder() is None and engine.settings.embedder != "none":
            # Else every vector would be thrown away, with nothing to make new ones.
            command = _choose_model(engine.settings).command
            raise Unavailable(f"there is no model to embed with, so nothing was changed: run `{command}`")
        count = engine.count()
        with Bar("words", expect=count if args.vectors else count_waiting(engine)) as bar:
            engine.reindex(bar, vectors=args.vectors)
        left = count_waiting(engine)
    choose_output(as_json=args.json).print_done(
        f"indexed {render_record_count(count)}", records=count, waiting_for_vectors=left
    )
    return 0


def check_memory(args: Namespace) -> int:
    """Check the memory and what is around it; with --fix, rebuild what is derived and check again."""
    from ...embed.provision import read_state
    from ...embed.runtime import find_telemetry

    address, settings = load_settings(args)
    home = address.home
    facts = {"store": str(address)}
    problems: list[str] = []
    warnings: list[str] = []
    mended: list[str] = []
    try:
        with open_memory(args) as engine, Bar("checking") as bar:
            within = engine.check(bar)
            tokens = Tokens(engine.shared_values or home)
            problems = faults = find_faults_around(address, tokens) + find_vault_faults(engine, home) + within
            fix = args.fix and not engine.read_only
            if args.fix and not fix:
                warnings.append("nothing can be mended: the memory is read-only here")
            if faults and fix:
                home.chmod(0o700)
                tokens.make_private()
                if within:
                    engine.reindex(bar)
                problems = find_faults_around(address, tokens) + find_vault_faults(engine, home)
                problems += engine.check(bar)
                mended = [fault for fault in faults if fault not in problems]
            if fix:
                engine.scrub()
            remains = _describe_remains(engine, address)
            numbers, internal, server = engine.stats(), count_internal(engine), engine.examine()
            if settings.llm_base_url:
                facts["llm"] = _describe_llm(engine, settings)
            facts["jobs"] = _describe_jobs(engine)
        facts["records"] = _describe_records(numbers, internal)
        facts["database"] = render_size(numbers.bytes_database)
        waits = f"{render_record_count(numbers.waiting_for_vectors)} waiting for a vector"
        facts["embedder"] = f"{numbers.embedder}, {waits}"
        facts["deleted"] = remains
        facts |= server.facts
        warnings += server.warnings
        if settings.embedder != "none" and numbers.meaning != "on":
            warnings.append(f"meaning is {numbers.meaning}; until then records are found by their words only")
    except Unavailable as error:
        if not exists(address):
            raise
        problems = [*(problems or find_faults_around(address, Tokens(home))), str(error)]
    state = read_state(settings.models_folder, _choose_model(settings))
    words = {"ready": "installed", "missing": "not installed", "fetching": f"being fetched ({state.percent})"}
    words |= {"failed": f"not installed: {state.reason}", "unreadable": state.reason}
    facts["model"] = words[state.kind]
    facts |= _describe_home(address)
    if leftover := find_telemetry():
        facts["telemetry"] = (
            f"off; {leftover} is what onnxruntime gathered before cofio turned that off, or for another program. "
            "It can be removed"
        )
    choose_output(as_json=args.json).print_checkup(
        Checkup(problems=problems, warnings=warnings, mended=mended, facts=facts)
    )
    return 1 if problems else 0


def _describe_home(address: StoreAddress) -> dict[str, str]:
    """The folder that the memory is in, or that a server has its settings and tokens in, if it is there yet."""
    home = address.home
    where = {"home": str(home)} if address.folder is None else {}
    if not home.exists():
        return where
    mode, free = home.stat().st_mode & 0o777, shutil.disk_usage(home).free
    return {**where, "permissions": f"{mode:04o}", "disk": f"{render_size(free)} free"}


def _describe_remains(engine: Engine, address: StoreAddress) -> str:
    """Whether files still hold what was deleted."""
    if address.folder is None:
        return "is cleared by the server's VACUUM, which `cofio doctor --fix` runs now"
    remains = engine.remains()
    if not remains:
        return "nothing of it is left in the index"
    return f"{' and '.join(remains)} are still in files: `cofio doctor --fix` removes them now, a server bit by bit"


def _describe_llm(engine: Engine, settings: Settings) -> str:
    """Say what waits for the model that refines conversations, and why."""
    jobs = list_jobs(engine, "refine", limit=MAX_LIST)
    if not jobs:
        return f"{settings.llm_model}, nothing waits for it"
    reasons = [str(read_job(job)["error"]) for job in jobs if read_job(job).get("error")]
    why = f": {reasons[0]}" if reasons else ""
    waiting = "1 stretch of conversation waits" if len(jobs) == 1 else f"{len(jobs):,} stretches of conversation wait"
    return f"{settings.llm_model}, {waiting} for it{why}"


def _describe_jobs(engine: Engine) -> str:
    """Say how many background jobs are not finished, and since when the oldest waits."""
    depths = {kind: measure_queue(engine, kind) for kind in JOB_KINDS}
    waiting = [f"{depth.jobs:,} {kind}" for kind, depth in depths.items() if depth.jobs]
    if not waiting:
        return "none waits"
    oldest = min(depth.oldest for depth in depths.values() if depth.oldest is not None)
    return f"{', '.join(waiting)}; the oldest since {oldest:%Y-%m-%d %H:%M} UTC"


def manage_model(args: Namespace) -> int:
    """See to a model: the one that is named, else the one that the settings want."""
    from ...embed.install import install
    from ...embed.provision import follow, forget, read_state

    _, settings = load_settings(args)
    models, model = settings.models_folder, _choose_model(settings, args.name)
    state = read_state(models, model)
    there = state.kind == "ready"
    occupied = _measure(models / model.id) if there else 0
    if args.verb == "status":
        message = {
            "ready": f"{model.id} is installed in {models} ({render_size(occupied)})",
            "fetching": f"{model.id} is being fetched into {models} ({state.percent})",
            "failed": f"{model.id} is not in {models}: {state.reason}",
            "missing": f"{model.id} is not in {models}: run `{model.command}`",
            "unreadable": state.reason,
        }[state.kind]
    else:
        source = Path(args.source).expanduser() if args.source else None
        with Bar("fetching the weights") as bar:

            def report(stage: str, share: float) -> None:
                bar(stage, round(100 * share), 100)

            if source is None and not args.force:
                follow(models, report, model)
            install(models, model, source=source, force=args.force, progress=report)
        forget(models, model)
        message = f"{model.id} {'was already' if there and not args.force else 'is now'} installed in {models}"
        if args.name and args.name != settings.embedder:
            message += f"; COFIO_EMBEDDER={args.name} uses it"
        there, state, occupied = True, read_state(models, model), _measure(models / model.id)
    choose_output(as_json=args.json).print_done(
        message, model=model.id, installed=there, state=state.kind, share=round(state.share, 2),
        reason=state.reason or None, folder=str(models / model.id), bytes=occupied, embedder=settings.embedder,
    )  # fmt: skip
    return 0


def _choose_model(settings: Settings, name: str | None = None) -> Model:
    """The model of that name, else the one that the settings want, else the one that they want by default."""
    from ...embed.model_files import DEFAULT
    from ...embed.models import MODELS

    return MODELS.get(name or settings.embedder) or MODELS[DEFAULT]


def _measure(folder: Path) -> int:
    """The bytes of the folder's files."""
    return sum(file.stat().st_size for file in folder.glob("*"))
