"""The embedded backend: SQLite is the truth, the word index and the vector codes beside it are derived."""

from .backend import SqliteBackend

__all__ = ["SqliteBackend"]
