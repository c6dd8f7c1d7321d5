"""What is asked of the capture of coding agents' transcripts.

The source names the issue's point ("issue"), the client's own program ("format"), or a decision of ours ("decision").
"""

from __future__ import annotations

REQUIREMENTS: dict[str, tuple[str, str]] = {
    # Where it belongs.
    "place.remote": ("issue 5", "a repository is known by its remote, however its address is written"),
    "place.namesake": ("issue 5", "repositories of one name, and of other remotes, share nothing"),
    "place.worktree": ("issue 5", "clones, worktrees and folders below the root share their memory"),
    "place.local": ("decision", "without a remote, the folder says which repository it is"),
    "place.opt-out": ("issue 5", "a file in the folder, or above it, keeps cofio out"),
    "place.hostile": ("decision", "nothing in a repository can make the look at it fail, wait, or run anything"),
    "place.user": ("decision", "a user is known by the login's name, and no directory of users is asked for it"),
    "place.doors": ("decision", "the scope is a project of REST's, with names that it takes"),
    # The formats.
    "formats.read": ("format", "messages, calls, results, times, folders and sessions are read as each client writes"),
    "formats.resume": ("issue 4", "a transcript is read on from where it was last read"),
    "formats.torn": ("issue 2", "a torn last line is passed over, counted, and read when it is whole"),
    "formats.unknown": ("issue 2", "records of unknown types are passed over and counted"),
    "formats.sidechain": ("issue 2", "what goes between agents is told apart"),
    "formats.harness": ("format", "what a client writes in the user's name is no prompt"),
    "formats.fork": ("format", "a session that was forked from another repeats none of its messages"),
    "formats.rewind": ("format", "Gemini's log is folded as Gemini folds it"),
    "formats.folder": ("format", "an ambiguous name of a folder counts only if one folder can be meant"),
    "formats.hostile": ("decision", "whatever is in a file, what is sound in it is read, and the reading ends"),
    # What becomes of it.
    "capture.path": ("issue 4", "turns are stored through the same path as conversations, for every door"),
    "capture.once": ("issue 2", "each message is stored once, also if the transcript is written anew"),
    "capture.offsets": ("issue 2", "any way of reading a growing transcript gives the same messages"),
    "capture.killed": ("issue, done when", "kill -9 at any moment loses nothing, and nothing comes twice"),
    "capture.place": ("issue 5", "nothing leaks between repositories, and a repository can opt out"),
    "capture.personal": ("issue 5", "what a user prefers everywhere is in a scope beside the repositories"),
    "capture.model": ("issue 4", "with a model configured, it betters what was captured, and lessons stay lessons"),
    "capture.sidechain": ("decision", "what goes between agents is left out"),
    "capture.hostile": ("decision", "bad input is passed over or refused, and changes nothing"),
    "private.marks": ("issue 4", "`#skip` and `<private>` keep what they mark out of the memory"),
    "private.secrets": ("issue 2", "secrets are masked before anything reaches the disk"),
    "private.injected": ("issue 3", "what cofio put into a conversation is never captured again"),
    # What it teaches.
    "lessons.decision": ("issue 4", "decisions are kept, with their reasons"),
    "lessons.correction": ("issue 4", "corrections are kept, with what they correct"),
    "lessons.preference": ("issue 3", "preferences are kept, the user's own apart from the repository's"),
    "lessons.withdrawn": ("issue 4", "what a later turn takes back is no fact"),
    "lessons.remember": ("issue 4", "`#remember` has the rest of its line remembered"),
    "lessons.fix": ("issue 4", "a failing command that passes after a change is a fix, with its commands"),
    "lessons.todo": ("issue 3", "the work that an agent's list leaves undone is open work"),
    # The command.
    "import.all": (
        "issue 2",
        "transcripts are taken in by repository, a second time without effect; a dry run stores nothing",
    ),
    "import.tells": ("issue 2", "what is masked, left out or passed over is counted and told"),
    "import.since": ("decision", "`--since` takes only what has changed since then"),
}
