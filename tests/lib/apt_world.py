# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as a directory with real apt on it: its own sources, lists, dpkg database and cache, and signed repositories beside it."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result

TOOLS = ("apt-get", "apt-cache", "apt-ftparchive", "dpkg-deb", "gpg")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
REAL = re.compile(r"(^|[=:]|\bfile:)(/(?:etc|var)/)")


class AptNode(Host):
    """Every /etc and /var is this directory's, also in the arguments of commands and in the files that apt reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[tuple[str, ...]] = []
        for name in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "var/lib/apt/lists", "var/cache/apt/archives", "var/lib/dpkg"):
            (root / name).mkdir(parents=True)
        (root / "var/lib/dpkg/status").write_text("")

    def path(self, path: str) -> str:
        return str(self.root) + path if path.startswith(("/etc/", "/var/")) else path

    def _mapped(self, text: str) -> str:
        return REAL.sub(lambda found: found.group(1) + str(self.root) + found.group(2), text)

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        super().write(path, re.sub(r"(Signed-By: )(?=/var/)", r"\1" + str(self.root), content), mode)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command[0] in ("apt-get", "apt-cache"):
            ours = ("APT::Sandbox::User=root", f"Dir::State={self.root}/var/lib/apt", "APT::Architecture=amd64", "APT::Architectures=amd64")
            command = (command[0], *(part for value in ours for part in ("-o", value)), *command[1:])
        answer = super().run([self._mapped(word) for word in command], timeout, stdin)
        return Result(answer.rc, answer.out.replace(str(self.root) + "/var", "/var"), answer.err)

    def installed(self, *rows: tuple[str, str, str]) -> None:
        """Name, version and further fields of what dpkg has."""
        stanza = "Package: %s\nStatus: install ok installed\nMaintainer: x\nArchitecture: amd64\nVersion: %s\n%s\n"
        (self.root / "var/lib/dpkg/status").write_text("".join(stanza % row for row in rows))

    def tree(self) -> dict[str, str]:
        """Every file with its hash, but for the cache: what must not change."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            if path.is_file() and not path.is_relative_to(self.root / "var/cache"):
                found[str(path.relative_to(self.root))] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


class Signer:
    """Throw-away keys."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(mode=0o700)
        self.fingerprints = {name: self._make(name) for name in ("right", "wrong")}

    def gpg(self, *argv: str) -> bytes:
        environment = dict(os.environ, GNUPGHOME=str(self.home))
        return subprocess.run(["gpg", "--batch", "--quiet", *argv], check=True, capture_output=True, env=environment).stdout

    def _make(self, name: str) -> str:
        self.gpg("--passphrase", "", "--quick-generate-key", f"{name}@example.com", "ed25519", "sign", "never")
        listed = self.gpg("--with-colons", "--list-keys", f"{name}@example.com").decode()
        return next(row.split(":")[9] for row in listed.splitlines() if row.startswith("fpr"))

    def key(self, name: str) -> bytes:
        return self.gpg("--export", f"{name}@example.com")

    def stop(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=True)


def build(place: Path, packages: Sequence[tuple[str, str, str]], label: str) -> None:
    """A flat repository of packages without content: name, version, further control fields."""
    place.mkdir(parents=True)
    for name, version, fields in packages:
        control = place / "tree" / "DEBIAN" / "control"
        control.parent.mkdir(parents=True, exist_ok=True)
        control.write_text(f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: x\nDescription: stand-in\n{fields}")
        argv = ["dpkg-deb", "--build", "-Znone", "--root-owner-group", str(place / "tree"), str(place)]
        subprocess.run(argv, check=True, capture_output=True)
        shutil.rmtree(place / "tree")
    index = subprocess.run(["apt-ftparchive", "packages", "."], cwd=place, check=True, capture_output=True).stdout
    (place / "Packages").write_bytes(index)
    options = ["-o", f"APT::FTPArchive::Release::Label={label}", "-o", f"APT::FTPArchive::Release::Origin={label}"]
    release = subprocess.run(["apt-ftparchive", *options, "release", "."], cwd=place, check=True, capture_output=True).stdout
    (place / "Release").write_bytes(release)


def sign(place: Path, signer: Signer, name: str = "right") -> None:
    (place / "InRelease").unlink(missing_ok=True)
    signer.gpg("--local-user", f"{name}@example.com", "--output", str(place / "InRelease"), "--clearsign", str(place / "Release"))
