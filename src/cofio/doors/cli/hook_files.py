"""Where each coding agent looks for its hooks, and what stands there for ours.

Formats and places as the clients' own pages gave them in November 2026. Ours are known by their command: a `hook` of
cofio's for that client, whichever copy of cofio it starts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...values.errors import Invalid
from ...values.records import Json
from .client_config import dump, find_member, merge_json, read_json
from .json_lists import add_element, remove_elements

Entries = Mapping[str, Json]
"""What stands under each event."""

_EDITS = "Edit|Write|MultiEdit|NotebookEdit"
_QUICK, _SLOW = 5, 15  # seconds after which a client ends a hook of ours, which ends by itself long before
_PLUGIN = Path(__file__).with_name("opencode_plugin.js")
_PLUGIN_MARK = "// cofio hooks:"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFile:
    """The file that a client reads hooks from."""

    client: str
    find: Callable[[], Path]
    build: Callable[[str], Entries]
    """What stands in it for a command of ours."""
    document: dict[str, Json] = field(default_factory=dict)
    """What a file holds that is made for it, beside the hooks."""
    is_own: bool = False
    """Whether the whole file is ours."""
    then: str = ""
    """What is left for its user to do."""

    def is_ours(self, entry: Json) -> bool:
        """Whether an entry under an event is one that we wrote."""
        command = re.compile(rf"\bcofio\b.*\bhook {re.escape(self.client)}\b", re.DOTALL)
        return any(command.search(text) for text in _list_commands(entry))

    def install(self, text: str | None, command: str, where: str) -> str:
        """What the file is to hold so that the client runs the command; the same text if it does so already.

        Raises:
            Invalid: the file cannot be understood, or is not ours.
        """
        if self.client == "opencode":
            return self._render_plugin(text, command, where)
        entries = self.build(command)
        if text is None or not text.strip("\ufeff \t\r\n"):
            hooks: dict[str, Json] = {event: [entry] for event, entry in entries.items()}
            return f"{text or ''}{dump({**self.document, 'hooks': hooks})}\n"
        if self.find_entries(text, where) == {event: [entry] for event, entry in entries.items()}:
            return text
        text = self.uninstall(text, where)
        current = read_json(text, where)
        missing = {name: value for name, value in self.document.items() if find_member(current, (name,)) is None}
        if missing:
            text = merge_json(text, (), missing, new={**missing}, where=where).text
        for event, entry in entries.items():
            text = add_element(text, ("hooks", event), entry, where=where)
        return text

    def uninstall(self, text: str, where: str) -> str:
        """What the file is to hold without any hook of ours.

        Raises:
            Invalid: the file cannot be understood.
        """
        if self.client == "opencode":
            return "" if text.startswith(_PLUGIN_MARK) else text
        for event in self.find_entries(text, where):
            text = remove_elements(text, ("hooks", event), self.is_ours, where=where)
        return text

    def find_entries(self, text: str, where: str) -> dict[str, list[Json]]:
        """The hooks of ours in a file, by event.

        Raises:
            Invalid: the file cannot be understood.
        """
        if self.client == "opencode":
            return {"plugin": []} if text.startswith(_PLUGIN_MARK) else {}
        document = read_json(text, where)
        if document is not None and not isinstance(document, dict):
            raise Invalid(where, "is not an object; nothing was changed")
        hooks = find_member(document, ("hooks",))
        if hooks is not None and not isinstance(hooks, dict):
            raise Invalid(where, "its hooks are not an object; nothing was changed")
        found: dict[str, list[Json]] = {}
        for event, entries in (hooks or {}).items():
            ours = [entry for entry in entries if self.is_ours(entry)] if isinstance(entries, list) else []
            if ours:
                found[event] = ours
        return found

    def is_bare(self, text: str, where: str) -> bool:
        """Whether a file holds nothing but what every file of this client does."""
        if not text.strip("\ufeff \t\r\n"):
            return True
        if self.client == "opencode":
            return False
        return "//" not in text and "/*" not in text and read_json(text, where) in ({}, self.document)

    def _render_plugin(self, text: str | None, command: str, where: str) -> str:
        if text is not None and text.strip() and not text.startswith(_PLUGIN_MARK):
            raise Invalid(where, "is another plugin; nothing was changed")
        return _PLUGIN.read_text(encoding="utf-8").replace('"COMMAND"', json.dumps(command))


def _list_commands(entry: object) -> list[str]:
    """The commands of an entry, whether they stand in it or in a list of its hooks."""
    if not isinstance(entry, dict):
        return []
    inner = entry.get("hooks")
    commands = [entry.get(name) for name in ("command", "bash", "powershell")]
    nested = [each for part in inner for each in _list_commands(part)] if isinstance(inner, list) else []
    return [each for each in commands if isinstance(each, str)] + nested


def _build_group(command: str, seconds: int, **more: Json) -> dict[str, Json]:
    return {"hooks": [{"type": "command", "command": command, "timeout": seconds, **more}]}


def _build_claude_code(command: str) -> Entries:
    return {
        "SessionStart": _build_group(command, _QUICK),
        "UserPromptSubmit": _build_group(command, _QUICK),
        "PreToolUse": {"matcher": _EDITS, **_build_group(command, _QUICK)},
        "PreCompact": _build_group(command, _SLOW),
        # Not `async`: with -p, Claude Code ends such hooks, and those of the session's end, before they are done.
        "Stop": _build_group(command, _SLOW),
        "SessionEnd": _build_group(command, _SLOW),
    }


def _build_codex(command: str) -> Entries:
    quick = dict.fromkeys(("SessionStart", "UserPromptSubmit"), _build_group(command, _QUICK))
    return quick | dict.fromkeys(("PreCompact", "Stop"), _build_group(command, _SLOW))


def _build_cursor(command: str) -> Entries:
    quick: Json = {"command": command, "timeout": _QUICK}
    slow: Json = {"command": command, "timeout": _SLOW}
    return dict.fromkeys(("sessionStart", "beforeSubmitPrompt"), quick) | dict.fromkeys(
        ("preCompact", "stop", "sessionEnd"), slow
    )


def _build_gemini(command: str) -> Entries:
    quick = _build_group(command, 1000 * _QUICK, name="cofio")
    slow = _build_group(command, 1000 * _SLOW, name="cofio")
    return dict.fromkeys(("SessionStart", "BeforeAgent"), quick) | dict.fromkeys(("AfterAgent", "SessionEnd"), slow)


def _build_copilot(command: str) -> Entries:
    def build(event: str, seconds: int) -> Json:
        # Its JSON does not name the event.
        line = f"{command} --event {event}"
        return {"type": "command", "bash": line, "powershell": line, "timeoutSec": seconds}

    slow = {event: build(event, _SLOW) for event in ("preCompact", "agentStop", "sessionEnd")}
    return {"sessionStart": build("sessionStart", _QUICK)} | slow


def _find_folder(variable: str, *names: str) -> Path:
    chosen = os.environ.get(variable, "")
    return Path(chosen) if os.path.isabs(chosen) else Path.home().joinpath(*names)


def _find_opencode_folder() -> Path:
    chosen = os.environ.get("OPENCODE_CONFIG_DIR", "")
    return Path(chosen) if os.path.isabs(chosen) else _find_folder("XDG_CONFIG_HOME", ".config") / "opencode"


HOOK_FILES: Mapping[str, HookFile] = {
    file.client: file
    for file in (
        HookFile(
            client="claude-code", find=lambda: _find_folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
            build=_build_claude_code, then="sessions that begin from now on remember",
        ),
        HookFile(
            client="codex", find=lambda: _find_folder("CODEX_HOME", ".codex") / "hooks.json", build=_build_codex,
            then="Codex asks whether to trust the hooks when it starts next; `/hooks` shows them",
        ),
        HookFile(
            client="cursor", find=lambda: Path.home() / ".cursor" / "hooks.json", build=_build_cursor,
            document={"version": 1}, then="restart Cursor; its settings have a list of hooks",
        ),
        HookFile(
            client="gemini", find=lambda: _find_folder("GEMINI_CLI_HOME") / ".gemini" / "settings.json",
            build=_build_gemini, then="`/hooks panel` in Gemini CLI shows them",
        ),
        HookFile(
            client="copilot", find=lambda: _find_folder("COPILOT_HOME", ".copilot") / "hooks" / "cofio.json",
            build=_build_copilot, document={"version": 1}, is_own=True,
        ),
        HookFile(
            client="opencode", find=lambda: _find_opencode_folder() / "plugins" / "cofio.js", build=lambda _: {},
            is_own=True,
        ),
    )
}  # fmt: skip
"""The file of each client, by its name."""
