"""The commands about the skill: see it, or put it where an agent looks for it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from ..mcp import skill as ours
from .atomic import put, read
from .parser import report_misuse
from .terminal import choose_output, note

_DONE = {
    "installed": "the skill is now in {path}",
    "updated": "the skill in {path} was another version, and is replaced",
    "replaced": "the skill is now in {path}, in place of another file",
    "unchanged": "the skill is in {path} already; nothing was changed",
}


def manage_skill(args: Namespace) -> int:
    """Show the skill, or install it."""
    if args.verb == "show":
        return _show(args)
    return _install(args)


def _show(args: Namespace) -> int:
    if args.json:
        choose_output(as_json=True).print_done("", name=ours.name, description=ours.description, text=ours.load_text())
    else:
        sys.stdout.write(ours.load_text())
    return 0


def _install(args: Namespace) -> int:
    if args.path == "":
        return report_misuse(args, "--path is empty; name a file or a folder")
    path = _resolve_path(args)
    change = _find_change(read(path))
    if change == "replaced" and not args.force:
        note(f"{path} is another file; --force puts the skill in its place, --path puts it elsewhere")
        return 1
    if change != "unchanged":
        put(path, ours.load_text().encode())
    choose_output(as_json=args.json).print_done(_DONE[change].format(path=path), path=str(path), change=change)
    return 0


def _resolve_path(args: Namespace) -> Path:
    """The file that the skill goes into."""
    if args.path is not None:
        path = Path(os.path.expanduser(args.path)).absolute()
        # A name that says nothing of what is in it is a folder's, unless there is such a file.
        names_folder = args.path.endswith(("/", os.sep)) or not (path.suffix or path.exists())
        is_folder = path.is_dir() or names_folder
        return path / "SKILL.md" if is_folder else path
    root = Path.home() if args.everywhere else Path.cwd()
    return root / ".claude" / "skills" / ours.name / "SKILL.md"


def _find_change(content: bytes | None) -> str:
    """What installing the skill would do to a file that holds this."""
    if content is None:
        return "installed"
    text = content.decode(errors="replace")
    if text == ours.load_text():
        return "unchanged"
    # A skill of our name is ours, of another version: there can be only one of a name.
    return "updated" if ours.parse_front_matter(text).get("name") == ours.name else "replaced"
