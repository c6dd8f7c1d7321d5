"""How a server logs: what clients send can neither steer the terminal that shows the log, nor pass for an entry."""

from __future__ import annotations

import logging
import sys

from ..display import neutralise, neutralise_line

PREFIX = "cofio: "


class LogFormatter(logging.Formatter):
    """Writes an entry of which only the first line begins at the margin, whatever text of a client's is in it."""

    def format(self, record: logging.LogRecord) -> str:
        """The entry."""
        text = neutralise(super().format(record)).replace("\n", "\n  ")
        return text if text.startswith(PREFIX) else PREFIX + text


def log_to_stderr() -> None:
    """Log to stderr from now on, unless this program logs elsewhere already."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter())
    logging.basicConfig(handlers=[handler])


def say(line: str) -> None:
    """Tell the person who looks at the server's log."""
    print(f"{PREFIX}{neutralise_line(line)}", file=sys.stderr, flush=True)
