"""The commands about hooks: put them into the agents' files, take them out, and see what they did."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles

from ...capture.survey import list_transcripts
from ...config.address import StoreAddress
from ...config.installation import join_words, start_command
from ...engine.engine import Engine
from ...engine.opening import check_absence, exists, load_settings
from ...system.disk import remove_unused
from ...text.display import render_size
from ...values.errors import CofioError, Invalid, Unavailable
from ...values.records import Json
from ..hooks.hook_log import HookRun, read_runs
from ..hooks.hook_process import OFF, PATIENCE
from ..hooks.hook_store import VARIABLE, choose_hook_store, find_hook_store
from .atomic import put, read
from .clients import URL_REFUSAL
from .hook_files import HOOK_FILES, HookFile
from .parser import report_misuse
from .terminal import ask, choose_output, note, render_count
from .transcript_commands import manage_transcripts

COPY = ".before-cofio"
"""What the name of a file's copy ends in."""
_FEW_LATE = 0.1  # of the runs that may have been late without being told; so may two of a few
_IMPORT: dict[str, object] = {
    "command": "transcripts", "verb": "import", "clients": [], "since": None, "dry_run": False, "allow_secrets": False,
}  # fmt: skip
"""The command that takes in all transcripts, as it is read from a command line."""
_DONE = {
    "installed": "the hooks of {client} are now in {file}",
    "updated": "the hooks of {client} in {file} are updated",
    "unchanged": "the hooks of {client} are in {file} already; nothing was changed",
    "removed": "the hooks of {client} are no longer in {file}",
    "absent": "{file} has no hooks of ours; nothing was changed",
}


def manage_hooks(args: Namespace) -> int:
    """Install hooks, remove them, or show what they did."""
    if args.verb == "status":
        return _show_status(args)
    if args.file is not None and (len(args.clients) != 1 or args.clients == ["all"]):
        return report_misuse(args, "--file is the file of one client; name that one alone")
    if args.file == "":
        return report_misuse(args, "--file is empty; name the client's file")
    files = _choose(args)
    if not files:
        note(f"none of {', '.join(HOOK_FILES)} has a folder here; name the one that you use")
        return 1
    if args.verb == "uninstall":
        return _run_each(args, files, _uninstall)
    address = _prepare_store(args)
    # A client shares neither our environment nor our working folder.
    is_chosen = args.store is not None or VARIABLE in os.environ
    store = address.spell() if is_chosen else None
    code = _run_each(args, files, lambda file, path: _install(file, path, store))
    return _offer_import(args, address.spell()) if code == 0 else code


def _offer_import(args: Namespace, store: str) -> int:
    """Take in what agents have written so far, if that is wanted; a person is shown how much it is, and asked."""
    transcripts = list_transcripts(()) if args.wants_import is not False else []
    if not transcripts:
        return 0
    given = Namespace(**vars(args) | _IMPORT | {"store": store})
    if args.wants_import:
        return manage_transcripts(given)
    if args.json:
        return 0
    if sys.stdin.isatty() and sys.stderr.isatty():
        note("this is what agents have written on this machine so far:")
        manage_transcripts(Namespace(**vars(given) | {"dry_run": True}))
        if ask("Take it in now, so that the memory does not start empty?"):
            return manage_transcripts(given)
    words = join_words(["cofio", "transcripts", "import", "--store", store])
    count, size = render_count(len(transcripts), "transcript"), render_size(sum(each.size for each in transcripts))
    note(f"{count} of {size} are on this machine: `{words}` takes them in, and with --dry-run it shows what")
    return 0


def _choose(args: Namespace) -> dict[str, Path]:
    """The files that are meant; with `all`, those of the clients that are on this machine."""
    if "all" in args.clients:
        return {name: file.find() for name, file in HOOK_FILES.items() if _is_here(file)}
    return {name: _find_path(args, HOOK_FILES[name]) for name in args.clients}


def _is_here(file: HookFile) -> bool:
    """Whether the client has a folder of its own on this machine."""
    folder = file.find().parent
    return (folder.parent if file.is_own else folder).is_dir()


def _find_path(args: Namespace, file: HookFile) -> Path:
    return file.find() if args.file is None else Path(os.path.expanduser(args.file)).absolute()


def _run_each(
    args: Namespace, files: Mapping[str, Path], change: Callable[[HookFile, Path], tuple[str, Path | None]]
) -> int:
    """Change each file; one that cannot be changed is told, and the others are changed all the same."""
    code = 0
    for name, path in files.items():
        file = HOOK_FILES[name]
        try:
            sort, copy = change(file, path)
        except CofioError as error:
            note(str(error))
            code = 1
            continue
        sentence = _DONE[sort].format(client=file.client, file=path) + (f"; {copy} is as it was" if copy else "")
        choose_output(as_json=args.json).print_done(
            sentence, client=file.client, file=str(path), change=sort, copy=str(copy) if copy else None
        )
        sys.stdout.flush()
        if sort in ("installed", "updated") and file.then and not args.json:
            note(file.then)
    return code


def _install(file: HookFile, path: Path, store: str | None) -> tuple[str, Path | None]:
    words = [*start_command(), "hook", file.client]
    if store is not None:
        words += ["--store", store]
    text = _read_text(path)
    has_ours = text is not None and bool(file.find_entries(text, str(path)))
    new = file.install(text, join_words(words), str(path))
    if new == text:
        return "unchanged", None
    copy = _replace(path, text, new)
    return "updated" if has_ours else "installed", copy


def _uninstall(file: HookFile, path: Path) -> tuple[str, Path | None]:
    text = _read_text(path)
    new = None if text is None else file.uninstall(text, str(path))
    if text is None or new is None or new == text:
        return "absent", None
    if file.is_bare(new, str(path)) and not _name_copy(path).exists():  # there was no file before ours
        remove_unused(path.resolve())
        return "removed", None
    return "removed", _replace(path, text, new)


def _replace(path: Path, old: str | None, new: str) -> Path | None:
    """Write a file, and keep what it held; where."""
    copy = None
    if old is not None:
        copy = _name_copy(path)
        put(copy, old, mode=path.stat().st_mode & 0o777)
    put(path, new)
    return copy


def _name_copy(path: Path) -> Path:
    return path.with_name(path.name + COPY)


def _read_text(path: Path) -> str | None:
    content = read(path)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as error:
        raise Invalid(str(path), f"is not UTF-8 ({error.reason} at byte {error.start}); nothing was changed") from None


def _prepare_store(args: Namespace) -> StoreAddress:
    """The memory that the hooks are to use, made if need be."""
    address = choose_hook_store(args.store)
    if address.has_password:
        raise Invalid("store", URL_REFUSAL)
    if not exists(address):
        check_absence(address)
        with Engine.open(address, settings=load_settings(address)):
            pass
        if not args.json:
            note(f"made a new memory in {address}")
    return address


def _show_status(args: Namespace) -> int:
    runs = read_runs()
    clients = [_describe_client(file, runs) for file in HOOK_FILES.values()]
    memory, problem = _find_memory(args)
    is_off = bool(os.environ.get(OFF))
    if args.json:
        choose_output(as_json=True).print_done("", memory=memory, problem=problem, off=is_off, clients=[*clients])
        return 0
    print(f"memory: {memory or problem}")
    if is_off:
        print(f"{OFF} is {os.environ[OFF]}")
    for client in clients:
        _print_client(client)
    late = sum(run.outcome == "late" for run in runs)
    if late > max(2, _FEW_LATE * len(runs)):
        note(
            f"{late} of {len(runs)} ended with nothing, as their time was over: {PATIENCE}=0.5 gives each half a second"
        )
    return 0


def _find_memory(args: Namespace) -> tuple[str | None, str | None]:
    """The memory that hooks use; or why there is none."""
    try:
        return str(find_hook_store(args.store)), None
    except Unavailable as error:
        return None, str(error)


def _describe_client(file: HookFile, all_runs: Iterable[HookRun]) -> Json:
    runs = [run for run in all_runs if run.client == file.client]
    path = file.find()
    problem, events = None, []
    try:
        text = _read_text(path)
        events = [] if text is None else list(file.find_entries(text, str(path)))
    except CofioError as error:
        problem = str(error)
    installed: list[Json] = [*events]
    seen: list[Json] = [_describe_runs(event, of_it) for event, of_it in _group(runs).items()]
    failures = [run for run in runs if run.outcome in ("failed", "late")]
    last = failures[-1] if failures else None
    return {
        "client": file.client, "file": str(path), "installed": installed, "problem": problem, "events": seen,
        "last_failure": None if last is None else f"{_render_time(last.at)} {last.event}: {last.note or last.outcome}",
    }  # fmt: skip


def _group(runs: Iterable[HookRun]) -> dict[str, list[HookRun]]:
    groups: dict[str, list[HookRun]] = {}
    for run in runs:
        groups.setdefault(run.event, []).append(run)
    return groups


def _describe_runs(event: str, runs: list[HookRun]) -> dict[str, Json]:
    times = [run.milliseconds for run in runs]
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    outcomes: dict[str, Json] = {}
    for run in runs:
        outcomes[run.outcome] = int(str(outcomes.get(run.outcome, 0))) + 1
    return {
        "event": event, "runs": len(runs), "last": _render_time(runs[-1].at), "median_ms": round(cuts[49]),
        "p99_ms": round(cuts[98]), "tokens": sum(run.tokens for run in runs), "outcomes": outcomes,
    }  # fmt: skip


def _print_client(client: Json) -> None:
    assert isinstance(client, dict)
    events = client["installed"]
    assert isinstance(events, list)
    state = f"{len(events)} hooks in {client['file']}" if events else "not installed"
    print(f"{client['client']}: {client['problem'] or state}")
    seen = client["events"]
    assert isinstance(seen, list)
    for each in seen:
        assert isinstance(each, dict)
        assert isinstance(each["outcomes"], dict)
        outcomes = ", ".join(f"{count} {name}" for name, count in each["outcomes"].items())
        runs = "1 run" if each["runs"] == 1 else f"{each['runs']} runs"
        print(
            f"  {each['event']}: {runs}, last {each['last']}; {outcomes}; {each['median_ms']} ms"
            f" (99 of 100 within {each['p99_ms']} ms); {each['tokens']} tokens added"
        )
    if client["last_failure"]:
        print(f"  last trouble: {client['last_failure']}")


def _render_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
