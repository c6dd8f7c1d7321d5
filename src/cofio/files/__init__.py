"""Anthropic's memory tool, `memory_20250818`: a tree of files under /memories, kept in cofio and not on the disk."""

from __future__ import annotations

from .commands import Result, dispatch
from .history import log, restore
from .inputs import Options
from .limiter import Limiter
from .tree import Revision, Tree, home

__all__ = ["Limiter", "Options", "Result", "Revision", "Tree", "dispatch", "home", "log", "restore"]
