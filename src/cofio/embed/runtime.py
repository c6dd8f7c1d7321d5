"""The one place that imports onnxruntime, so that its telemetry is off before it starts.

The official builds gather facts about the machine and the process, and send them to their maker some seconds after the
import. Only a variable that is set before the import prevents all of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


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


class Output(Protocol):
    """What a graph makes."""

    @property
    def name(self) -> str:
        """What `Session.run` calls it."""


class Session(Protocol):
    """A graph that onnxruntime runs."""

    def get_outputs(self) -> Sequence[Output]:
        """What the graph makes, in its order."""

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, NDArray[np.int64] | NDArray[np.uint8]]
    ) -> list[NDArray[np.float32]]:
        """What the graph makes of the inputs."""


def open_session(graph: bytes, *, threads: int = 1) -> Session:
    """Load the content of an ONNX file; `threads` is how many work on one text."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A pool that spins between texts would take a core away from everything else on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The arena stays on: without it, each thread that ever embedded a long text keeps some 15 MB in malloc.
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    session: Session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    vars(session).pop("_model_bytes", None)  # it would keep the file for a change of providers, which never comes
    return session


def find_telemetry() -> Path | None:
    """Where onnxruntime has gathered telemetry, for an earlier cofio or for another program; None if it has not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    folder = cache / "Microsoft" / "DeveloperTools" / ".onnxruntime"
    return folder if folder.is_dir() else None
