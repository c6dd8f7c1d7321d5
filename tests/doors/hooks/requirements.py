"""What is asked of the hooks of coding agents.

The source names the issue's point ("issue 20.N"), a client's own page ("client"), or a decision of ours ("decision").
"""

from __future__ import annotations

REQUIREMENTS: dict[str, tuple[str, str]] = {
    # What an agent is told.
    "start.digest": ("issue 20.3", "a session begins with a digest, in the words of its client's protocol"),
    "start.instructions": ("issue 21.3", "a digest begins with what the user asked of the assistant, and not others"),
    "start.resume": ("decision", "a session that is resumed has its digest already, and gets none"),
    "prompt.recall": ("issue 20.3", "a prompt gets what bears on it, in the words of its client's protocol"),
    "prompt.silent": ("issue 20.3", "a prompt that nothing bears on gets nothing at all"),
    "prompt.once": ("issue 20.3", "nothing is told twice in a session"),
    "compact.again": ("issue 20.3", "after a compaction, what was lost is told again"),
    "edit.file": ("issue 20.3", "before an edit, what is known of that file is told where the client takes it"),
    "budget.tokens": ("issue 20.3", "no block has more tokens than its budget, whatever it is made of"),
    "budget.fence": ("issue 20.3", "nothing in a block can end it, and it is recognised when it comes back"),
    # What is kept.
    "stop.capture": ("issue 20.4", "when an agent stops, what was said is kept, each message once"),
    "place.repository": ("issue 20.5", "nothing of one repository is told in another"),
    "place.opt-out": ("issue 20.5", "a repository with the file gets nothing and keeps nothing"),
    "place.stranger": ("decision", "a memory that came with a repository is not put before a model"),
    # That the host is safe.
    "safe.exit": ("issue 20.6", "whatever happens, the exit code is 0 and stderr is empty"),
    "safe.store": ("issue 20.6", "a store that is missing, locked, broken or on a full disk means silence"),
    "safe.input": ("issue 20.6", "input that is garbage, huge or never ends means silence"),
    "safe.budget": ("issue 20.6", "past its budget it ends with nothing"),
    "safe.off": ("issue 20.6", "COFIO_HOOKS=off turns it off"),
    "safe.children": ("issue 20.6", "no process is left behind"),
    "safe.killed": ("issue done", "kill -9 at any moment loses nothing and leaves nothing"),
    "safe.log": ("issue 20.6", "what happened is in a log that is bounded and holds no word of what was said"),
    "cost.start": ("issue 20.6", "a hook at a prompt loads nothing that it can do without"),
    # The real client.
    "client.claude-code": ("issue 20", "Claude Code runs the hooks: install, start, recall, stop, capture, next start"),
    "client.others": (
        "issue 20",
        "Codex and Gemini CLI run the hooks: install, start, recall, stop, next start",
    ),
    "client.plugin": ("issue 20.1", "the plugins are valid, and say the same as the command line and the skill"),
    "client.opencode": ("issue 20.1", "OpenCode's plugin runs the hooks, and survives whatever they do"),
}
