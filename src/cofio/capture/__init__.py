"""What coding agents did and said, taken from their transcripts into the memory of the repository they worked in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .repositories import Repository, find_repository, user_scope

if TYPE_CHECKING:
    from .capture import CaptureReport, capture_transcript
    from .transcripts.transcript_sources import find_transcript

__all__ = ["CaptureReport", "Repository", "capture_transcript", "find_repository", "find_transcript", "user_scope"]


def __getattr__(name: str) -> object:
    """What reads transcripts is loaded when it is first asked for: a hook that only recalls has no use for it."""
    if name in ("CaptureReport", "capture_transcript"):
        from . import capture

        return getattr(capture, name)
    if name == "find_transcript":
        from .transcripts.transcript_sources import find_transcript

        return find_transcript
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
