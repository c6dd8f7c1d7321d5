"""What is asked of the capture of coding agents' transcripts.

The source names the issue's point ("issue"), the format's own program ("format"), or a decision of ours ("decision").
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
    "place.doors": ("decision", "the scope is a project of REST's, with names that it takes"),
}
