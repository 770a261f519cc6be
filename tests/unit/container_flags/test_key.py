# SPDX-License-Identifier: GPL-3.0-or-later
"""The key step of a Containerfile, run: only the key with the fingerprint gets into the keyring, and without it the build stops."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import Repository
from railwright.container_flags.containerfile import HOME, key_steps

RING = "/etc/apt/keyrings/railwright-erdma.asc"


pytestmark = pytest.mark.skipif(shutil.which("gpg") is None or shutil.which("curl") is None, reason="this machine has no gpg or no curl")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A file with two keys, and their fingerprints."""
    directory = tmp_path_factory.mktemp("keys")
    home = directory / "home"
    home.mkdir(mode=0o700)
    for name in ("one", "two"):
        gpg(home, "--passphrase", "", "--quick-generate-key", f"{name}@example.com", "ed25519", "sign", "never")
    (directory / "keys.asc").write_text(gpg(home, "--armor", "--export"), encoding="utf-8")
    listed = gpg(home, "--with-colons", "--list-keys")
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True)
    first, second = (line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
    return directory / "keys.asc", first, second


def gpg(home: Path, *argv: str) -> str:
    return subprocess.run(["gpg", "--homedir", str(home), "--batch", "--quiet", *argv], check=True, capture_output=True, text=True).stdout


def build(tmp_path: Path, keys: Path, fingerprint: str) -> subprocess.CompletedProcess[str]:
    """The steps between the tools and the definition, below another root."""
    row = Repository("erdma", "https://192.0.2.1/x", f"file://{keys}", fingerprint, "", (), None, False, "x", "x", suite="x")
    steps = [step.replace(HOME, f"{tmp_path}/home").replace("/etc/apt", f"{tmp_path}/etc/apt") for step in key_steps("apt", row)]
    middle = steps[2 : next(at for at, step in enumerate(steps) if step.startswith("printf"))]
    return subprocess.run(["sh", "-c", " && ".join(middle)], capture_output=True, text=True, timeout=60, check=False)


def fingerprints_in(file: Path) -> list[str]:
    shown = subprocess.run(["gpg", "--show-keys", "--with-colons", str(file)], capture_output=True, check=True, text=True).stdout
    return re.findall(r"^pub:.*\n(?:.*\n)?fpr:+([0-9A-F]{40}):", shown, re.MULTILINE)


def test_the_pinned_key_alone(tmp_path: Path, two: tuple[Path, str, str]) -> None:
    keys, _one, other = two
    done = build(tmp_path, keys, other)
    assert done.returncode == 0, done.stderr
    assert fingerprints_in(Path(f"{tmp_path}{RING}")) == [other]
    assert not (tmp_path / "home").exists()


def test_a_file_without_that_key_stops_the_build(tmp_path: Path, two: tuple[Path, str, str]) -> None:
    assert build(tmp_path, two[0], "C" * 40).returncode != 0
