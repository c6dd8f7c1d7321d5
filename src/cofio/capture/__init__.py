"""What coding agents did and said, taken from their transcripts into the memory of the repository they worked in."""

from __future__ import annotations

from .repositories import Repository, find_repository, user_scope

__all__ = ["Repository", "find_repository", "user_scope"]
