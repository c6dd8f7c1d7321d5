"""Fetches a model by itself when it is first wanted: in the background, one process for each folder of models.

Callers go on without the model meanwhile. What the process does stands in a small file beside the model, and
so does what became of it: after a failure the next try waits, each time for longer. It can be killed at any moment.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..config.notices import inform_once
from ..system.atomic_files import is_temporary, replace_path
from ..system.processes import is_running, lower_process_priority, start_detached
from ..values.errors import Unavailable
from .minilm import MINILM
from .model_files import UNREADABLE, Model, Unreadable, read_pins
from .models import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCH = "COFIO_FETCH_MODEL"
OFFLINE = ("UV_OFFLINE", "HF_HUB_OFFLINE")
"""What people set for other tools so that no package and no model is downloaded; it counts here, too."""
_LABEL = "fetch."
_BEAT = 5.0  # seconds between two signs of life
_SILENCE = 30.0  # seconds without one, after which the process has died
_PAUSES = (60.0, 300.0, 1800.0, 7200.0, 21_600.0)  # seconds from one try to the next
_MOST_PID = 2**31 - 1  # a file that says more makes no sense, and no system can be asked
_NICE = 10  # no caller waits for it
_LOOK = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """Whether a model is there, and what is being done about it."""

    model: Model
    kind: Literal["ready", "fetching", "failed", "missing", "unreadable"]
    stage: str = ""
    share: float = 0.0
    """How much of the fetching and building is behind, 0 to 1."""
    reason: str = ""
    """Why the last try failed, or the model cannot be read; may name folders and hosts."""

    @property
    def percent(self) -> str:
        """The share for people."""
        return f"{100 * self.share:.0f} %"

    def __str__(self) -> str:
        """One short sentence that may go to anyone: it names no folder and no host."""
        match self.kind:
            case "ready":
                return "the model is ready"
            case "fetching":
                return f"the model is being fetched ({self.percent})"
            case "failed":
                return f"the model could not be fetched yet: `{self.model.command}` tries again and says why"
            case "missing":
                return f"{self.model.id} is not installed: run `{self.model.command}`"
            case "unreadable":
                return UNREADABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    """What the file says. Times are seconds since 1970, since it is for all processes of a machine."""

    tries: int = 0
    next_at: float = 0.0
    beat_at: float = 0.0
    stage: str = ""
    share: float = 0.0
    reason: str = ""
    pid: int = 0
    """The process; 0 until it says so itself."""
    host: str = ""
    """Where it runs: machines and containers may share a folder, and do not see each other's processes."""

    def is_alive(self, now: float) -> bool:
        if self.reason or abs(now - self.beat_at) >= _SILENCE:
            return False
        is_known = 0 < self.pid <= _MOST_PID and self.host == platform.node()
        return not is_known or is_running(self.pid)

    def is_due(self, now: float) -> bool:
        """Whether the pause is over, or cannot be right because the clock was set back."""
        return not now < self.next_at <= now + _PAUSES[-1]


def read_state(models: Path, model: Model = MINILM) -> ModelState:
    """How the model in this folder is getting on; reads two small files."""
    try:
        read_pins(models / model.id, model)
        return ModelState(model=model, kind="ready")
    except Unreadable as error:
        return ModelState(model=model, kind="unreadable", reason=str(error))
    except Unavailable:
        status = _read(models, model)
    if status.is_alive(time.time()):
        return ModelState(model=model, kind="fetching", stage=status.stage, share=status.share)
    if status.reason:
        return ModelState(model=model, kind="failed", reason=status.reason)
    return ModelState(model=model, kind="missing")


def is_switched_off() -> bool:
    """Whether the user's environment forbids it, which counts also for programs that make their own settings."""
    is_offline = any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in OFFLINE)
    return is_offline or os.environ.get(SWITCH, "").lower() in ("0", "false", "no", "off")


def start(models: Path, model: Model = MINILM) -> ModelState:
    """See to it that the missing model is being fetched, unless that failed a while ago; how it is getting on.

    Takes a few milliseconds at most, and never waits for the network.
    """
    state, now = read_state(models, model), time.time()
    status = _read(models, model)
    if (
        state.kind in ("ready", "fetching", "unreadable")
        or is_switched_off()
        or not _has_python()
        or not status.is_due(now)
    ):
        return state
    pause = _PAUSES[min(status.tries, len(_PAUSES) - 1)]
    # Before the process starts: one that dies at once has had its try, too.
    begun = _Status(tries=status.tries + 1, next_at=now + pause, beat_at=now, stage="starting")
    try:
        models.mkdir(parents=True, exist_ok=True)
        _write(models, model, begun)
        try:
            # -P: what lies in the working folder is not imported.
            command = [sys.executable, "-P", "-m", "cofio.embed.provision", str(models.absolute()), model.name]
            start_detached(command, models)
        except OSError:
            _write(models, model, replace(begun, beat_at=0.0))
            raise
    except OSError:
        return state  # which stands as it was; `cofio model install` says what is wrong with the folder
    inform_once(
        f"the model that finds by meaning is being fetched in the background ({model.size}, once); until it is there, "
        f"memory is searched by words. {SWITCH}=off prevents it"
    )
    return ModelState(model=model, kind="fetching")


def _has_python() -> bool:
    """Whether there is an interpreter to start: in a program that carries one, sys.executable is that program."""
    return Path(sys.executable or "").stem.lower().startswith(("python", "pypy"))


def follow(models: Path, progress: Callable[[str, float], None], model: Model = MINILM) -> None:
    """Wait until the background process, if there is one, has the model or has failed; tell how far it is."""
    while (state := read_state(models, model)).kind == "fetching":
        progress(state.stage, state.share)
        time.sleep(_LOOK)


def forget(models: Path, model: Model = MINILM) -> None:
    """Forget earlier tries, because the model is there."""
    for file in models.glob(".*"):  # and what a process that was killed was about to write
        if not file.name.startswith(_locate_status(models, model).name) and not is_temporary(file.name):
            continue
        with suppress(OSError):
            file.unlink()


def _locate_status(models: Path, model: Model) -> Path:
    return models / f".fetch-{model.name}.json"


def _read(models: Path, model: Model) -> _Status:
    try:
        found = json.loads(_locate_status(models, model).read_bytes())
        return _Status(
            tries=int(found["tries"]), next_at=float(found["next_at"]), beat_at=float(found["beat_at"]),
            stage=str(found["stage"]), share=float(found["share"]), reason=str(found["reason"]),
            pid=int(found["pid"]), host=str(found["host"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return _Status()  # nothing was tried yet, or the file is of no use


def _write(models: Path, model: Model, status: _Status) -> None:
    with replace_path(_locate_status(models, model), durable=False) as file:
        file.write(json.dumps(asdict(status)).encode())


class _Pulse:
    """Writes down every few seconds that this process lives and how far it is."""

    def __init__(self, models: Path, model: Model) -> None:
        self._models = models
        self._model = model
        self._begun = replace(_read(models, model), pid=os.getpid(), host=platform.node())
        self._far = ("starting", 0.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def report(self, stage: str, share: float) -> None:
        """It is this far now."""
        self._far = (stage, share)

    def end(self, reason: str = "") -> None:
        """Write no more, but for why it failed."""
        self._ended.set()
        self._thread.join()
        if reason:
            _write(self._models, self._model, replace(self._begun, reason=reason, beat_at=0.0))

    def _run(self) -> None:
        beat_at, reported = 0.0, ("", 0.0)
        while not self._ended.is_set():
            now, far = time.time(), self._far
            if far != reported or abs(now - beat_at) >= _BEAT:
                beat_at, reported = now, far
                with suppress(OSError):  # the next beat may succeed
                    status = replace(self._begun, beat_at=now, stage=far[0], share=far[1], reason="")
                    _write(self._models, self._model, status)
            self._ended.wait(_LOOK)


def _fetch(models: Path, model: Model) -> int:
    """Fetch and build the model, unless another process is at it; the exit code."""
    import shutil

    from ..system.locks import lock_folder
    from .install import install

    status = _read(models, model)
    # The process that has the folder may be at another model; then it is the turn of this one after that.
    with lock_folder(models, wait=not (status.pid and status.is_alive(time.time()))) as is_mine:
        if not is_mine:
            return 0
        for left in models.glob(f".{model.id}.{_LABEL}*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        pulse = _Pulse(models, model)
        try:
            install(models, model, progress=pulse.report, label=_LABEL)
        except Unavailable as error:
            pulse.end(str(error))
            return 1
        pulse.end()
        forget(models, model)
    return 0


def main() -> int:
    """Run the background process: `python -m cofio.embed.provision FOLDER [MODEL]`."""
    lower_process_priority(_NICE)
    return _fetch(Path(sys.argv[1]), MODELS[sys.argv[2]] if len(sys.argv) > 2 else MINILM)


if __name__ == "__main__":
    sys.exit(main())
