"""`cofio transcripts`: what is there, and taking it in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio import Engine
from cofio.capture import find_repository
from cofio.capture.transcripts.transcript_sources import CLIENTS
from cofio.config.address import StoreAddress
from cofio.doors.cli import main
from cofio.values.records import Kind

from .conftest import make_repository
from .made import find_file, make_claude_code, run, say, user, write_lines, write_transcript

SCRIPT = [user("Paint the hull red."), run("npm install"), say("Red."), user("no, use pnpm"), say("Done.")]
Cofio = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cofio(
    store_address: StoreAddress, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Cofio:
    """Runs the command on the test's store."""
    monkeypatch.setenv("COFIO_EMBEDDER", "none")
    monkeypatch.setenv("COFIO_SYNC", "normal")
    monkeypatch.chdir(tmp_path)

    def run_command(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--store", store_address.spell()])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_command


@pytest.mark.requirement("import.all")
def test_all_clients_are_taken_in_once_and_a_dry_run_takes_nothing(
    cofio: Cofio, home: Path, boats: Path, store_address: StoreAddress
) -> None:
    assert "no transcripts" in cofio("transcripts", "import")[2]
    code, _, err = cofio("transcripts", "import", "emacs")
    assert (code, "use claude-code, codex" in err) == (2, True)
    for number, client in enumerate(CLIENTS):
        write_transcript(client, home, SCRIPT, boats, session=f"{number}1111111-2222-4333-8444-555555555555")
    code, out, err = cofio("transcripts", "import", "--dry-run")
    assert code == 0
    assert [line.split("\t")[:3] for line in out.splitlines()] == [
        [client, "boats", "1 transcript"] for client in sorted(CLIENTS)
    ]
    assert "36 messages of 1 repository would be taken in" in err
    assert cofio("transcripts", "list")[0] == 0
    assert store_address.folder is None or not (store_address.folder / "memory.db").exists()
    code, out, err = cofio("transcripts", "import", "--json")
    told = json.loads(out)
    assert (told["messages"], told["transcripts"], told["repositories"], told["lessons"]) == (36, 6, 1, 1)
    assert json.loads(cofio("transcripts", "import", "--json")[1])["messages"] == 0
    code, out, err = cofio("transcripts", "list", "codex", "--json")
    assert {key: json.loads(out)[key] for key in ("client", "repository", "new", "stored")} == {
        "client": "codex", "repository": "boats", "new": 0, "stored": 6,
    }  # fmt: skip
    assert "all of it is in the memory" in cofio("transcripts", "list")[2]
    code, out, err = cofio("search", "hull", "--mode", "keyword")
    assert "Paint the hull red." in out


@pytest.mark.requirement("import.tells", "capture.sidechain")
def test_what_is_left_out_is_told(cofio: Cofio, home: Path, boats: Path, store_address: StoreAddress) -> None:
    records = make_claude_code(SCRIPT, str(boats))
    records += [each | {"isSidechain": True, "uuid": "side"} for each in make_claude_code([user("Ahoy.")], str(boats))]
    records.append({"type": "brand-new"})
    records[0]["message"]["content"] = "The key is ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    path = write_lines(find_file("claude-code", home), records)
    with path.open("a") as file:
        file.write('no JSON\n{"type": "us')
    write_lines(find_file("claude-code", home, "lost"), make_claude_code(SCRIPT, "", "lost"))
    quiet = make_repository(boats.parent / "quiet")
    (quiet / ".cofio-off").touch()
    write_lines(find_file("claude-code", home, "quiet"), make_claude_code(SCRIPT, str(quiet), "quiet"))
    code, out, err = cofio("transcripts", "import")
    assert code == 0
    assert "took in 6 messages of 1 transcript in 1 repository, as 1 episode with 1 lesson" in out
    for line in (
        "1 message had what looks like a secret, which is masked",
        "1 message between agents left out",
        "1 line could not be read",
        "1 last line not finished yet",
        "1 record of types that are not known: brand-new",
        "1 transcript of a folder that is not known",
        "1 transcript of a repository that opted out",
    ):
        assert line in err
    with Engine.open(store_address) as engine:
        assert not any("Ahoy" in each.text for each in engine.export())


@pytest.mark.requirement("import.all", "import.since")
@pytest.mark.usefixtures("process")
def test_it_runs_as_a_process_takes_in_what_changed_and_leaves_nothing_behind(
    home: Path, boats: Path, tmp_path: Path
) -> None:
    old = write_transcript("codex", home, SCRIPT, boats, session="91111111-2222-4333-8444-555555555555")
    os.utime(old, (1_700_000_000, 1_700_000_000))
    write_transcript("claude-code", home, SCRIPT, boats)
    environment = {**os.environ, "COFIO_EMBEDDER": "hashed", "COFIO_SYNC": "normal"}
    command = [sys.executable, "-m", "cofio", "transcripts", "import", "--store", str(tmp_path / "store")]
    command += ["--since", "2024-01-01"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "took in 6 messages of 1 transcript in 1 repository, as 1 episode with 1 lesson\n"
    with Engine.open(tmp_path / "store") as engine:
        assert len(engine.list(find_repository(boats).scope, kinds=(Kind.TURN,), limit=100)) == 6
    assert [*(home / ".claude").rglob("*.lock")] == []
