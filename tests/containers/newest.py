# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs tests on the newest ansible-core: ``newest.py PYTEST-ARGUMENT…``. ``newest.py --pins`` prints the newest packages for it.

It needs Python 3.12 or newer. Where this environment's is older, as on Debian 12, a container of Debian 13 runs the tests, on this
checkout and without a network: the packages of constraints/newest.txt are downloaded here.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import harness

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "newest"
WHEELS, PINS = PLACE / "wheels", "constraints/newest.txt"
NAME, SUITE, PYTHON = "railwright-newest", "trixie", "3.13"
# Programs that the tests run.
PACKAGES = (
    "python3", "python3-venv", "bzip2", "curl", "gcc", "git", "gnupg", "iproute2", "libc6-dev", "openssh-client", "procps", "systemd",
)  # fmt: skip
RIGHTS = ("--cap-add=SYS_ADMIN", "--security-opt=unmask=ALL")  # tests/lib/quiet_machine.py makes namespaces, and mounts /proc in one


def command(environment: Path, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command that makes or updates the environment and runs pytest in it."""
    pytest = shlex.join((f"{environment}/bin/python", "-m", "pytest", *arguments))
    return ("sh", "-c", f"tools/venv {environment} {PINS} compat && {pytest}")  # no exec: process 1 of a container has to reap


def download(pins: str) -> None:
    argv = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-build-isolation",
            "--only-binary", ":all:", "--python-version", PYTHON, "--dest", str(WHEELS), "--constraint", pins,
            ".[compat]", "hatchling", "editables")
    subprocess.run(argv, check=True)


def main(arguments: Sequence[str]) -> int:
    """Return pytest's exit status."""
    os.chdir(ROOT)
    if arguments == ["--pins"]:
        shutil.rmtree(WHEELS, ignore_errors=True)
        download(os.devnull)
        found = sorted(path.name.split("-")[:2] for path in WHEELS.iterdir() if not path.name.startswith("railwright-"))
        print("\n".join(f"{name.replace('_', '-')}=={version}" for name, version in found))
        return 0
    if sys.version_info >= (3, 12):
        return subprocess.run(command(PLACE / "here", arguments), check=False).returncode
    download(PINS)
    environment = ("--env=RAILWRIGHT_LIES", "--env=PIP_NO_INDEX=1", f"--env=PIP_FIND_LINKS={WHEELS}", "--env=PYTHONDONTWRITEBYTECODE=1")
    # The Git directory of a linked work tree is outside of it.
    git = subprocess.run(("git", "rev-parse", "--path-format=absolute", "--git-common-dir"), capture_output=True, text=True, check=True)
    mounts = (f"--volume={ROOT}:{ROOT}", f"--volume={git.stdout.strip()}:{git.stdout.strip()}:ro", f"--workdir={ROOT}")
    options = ("--rm", "--replace", f"--name={NAME}", "--network=none", *RIGHTS, *environment, *mounts)
    image = harness.build(PACKAGES, SUITE, ())
    argv = ("podman", "run", *options, image, *command(PLACE / SUITE, arguments))
    return subprocess.run(argv, env=harness.environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
