"""The memory tool over HTTP; its files and commands are those of `cofio.files`, which programs may import from here."""

from __future__ import annotations

from ...files import Limiter, Options, Result, Revision, Tree, dispatch, home, log, restore

__all__ = ["Limiter", "Options", "Result", "Revision", "Tree", "dispatch", "home", "log", "restore"]
