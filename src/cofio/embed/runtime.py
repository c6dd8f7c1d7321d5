"""The one place that imports onnxruntime, so that its telemetry is off before it starts.

The official builds gather facts about the machine and the process, and send them to their maker some seconds after the
import. Only a variable that is set before the import prevents all of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType


def _disable_telemetry() -> None:
    """Set the variable, whatever it was: cofio sends nothing. Processes that are started from here inherit it."""
    if os.environ.get("ORT_DISABLE_TELEMETRY") != "1":
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"


# As early as this, because a change of the environment is not safe once there are other threads.
_disable_telemetry()


def import_onnxruntime() -> ModuleType:
    """onnxruntime with its telemetry off.

    A program that has imported onnxruntime itself before may have it on. Then it is told to gather no more, which does
    not undo what it has gathered by then.
    """
    _disable_telemetry()
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    module: ModuleType = onnxruntime
    return module


def find_telemetry() -> Path | None:
    """Where onnxruntime has gathered telemetry, for an earlier cofio or for another program; None if it has not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    folder = cache / "Microsoft" / "DeveloperTools" / ".onnxruntime"
    return folder if folder.is_dir() else None
