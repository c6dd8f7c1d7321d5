"""Notices to the person who runs this process: warnings, and news of what goes on in the background."""

from __future__ import annotations

from collections.abc import Callable

_shown: set[str] = set()
_show: Callable[[str], None] | None = None


def show_notices(show: Callable[[str], None]) -> None:
    """Show what `inform_once` is given to a person; a library leaves that to its program's log."""
    global _show
    _show = show


def warn_once(sentence: str) -> None:
    """Warn in the log `cofio`, once. Names from files may be in the sentence: nothing in it steers a terminal."""
    if _is_new(sentence):
        import logging  # not needed by most processes, and not free

        logging.getLogger("cofio").warning("cofio: %s", sanitize(sentence))


def inform_once(sentence: str) -> None:
    """Show a notice once: to the person, if someone shows it, else in the log `cofio`, at the level INFO."""
    if not _is_new(sentence):
        return
    if _show is not None:
        _show(sentence)
        return
    import logging

    logging.getLogger("cofio").info("%s", sanitize(sentence))


def sanitize(text: str) -> str:
    """The text with a sign for each character that a terminal would obey or hide."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _is_new(sentence: str) -> bool:
    """Whether the sentence is given for the first time."""
    if sentence in _shown:
        return False
    _shown.add(sentence)
    return True
