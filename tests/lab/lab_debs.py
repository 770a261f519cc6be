# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages and a signed repository of them, made on the spot by dpkg-deb and gpg; served to the guests by this process.

The packages are those of a vendor's stack by name, version and relation; their modules are the stand-ins of modules/README.md, and
their maintainer scripts hand them to DKMS as the vendors' do.
"""

from __future__ import annotations

import hashlib
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODULES = Path(__file__).with_name("modules")
# What a guest of QEMU's user network finds this machine's loopback under.
HOST_SEEN_FROM_GUEST = "10.0.2.2"

# What debhelper's dh_dkms writes into a package's scripts, without its fallbacks for a machine that has no dkms.
DKMS_POSTINST = """#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
/usr/lib/dkms/common.postinst {module} {version} /usr/share/{package} "" "$2"
"""
DKMS_PRERM = """#!/bin/sh
set -e
case $1 in
    remove|upgrade|deconfigure) [ -z "$(dkms status -m {module} -v {version})" ] || dkms remove -m {module} -v {version} --all ;;
esac
"""


@dataclass(frozen=True)
class Deb:
    """One binary package. A file whose text starts with #! is executable."""

    name: str
    version: str
    depends: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    conffiles: tuple[str, ...] = ()


def dkms_deb(name: str, version: str, directory: str, values: Mapping[str, str], depends: tuple[str, ...] = ()) -> Deb:
    """A package whose source tree is modules/DIRECTORY with @WORDS@ filled in; values has MODULE and VERSION at least."""
    module, source = values["MODULE"], f"/usr/src/{values['MODULE']}-{values['VERSION']}"
    files = {f"{source}/{path.name}": filled(path.read_text(encoding="utf-8"), values) for path in sorted((MODULES / directory).iterdir())}
    names = {"module": module, "version": values["VERSION"], "package": name}
    scripts = {"postinst": DKMS_POSTINST.format(**names), "prerm": DKMS_PRERM.format(**names)}
    return Deb(name, version, ("dkms", *depends), files, scripts)


def filled(text: str, values: Mapping[str, str]) -> str:
    for word, value in values.items():
        text = text.replace(f"@{word}@", value)
    return text


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755 if text.startswith("#!") else 0o644)


def build(deb: Deb, target: Path, work: Path) -> Path:
    """The package as a file in target."""
    root = work / f"{deb.name}_{deb.version}"
    for path, text in deb.files.items():
        write(root / path.lstrip("/"), text)
    for script, text in deb.scripts.items():
        write(root / "DEBIAN" / script, text)
    if deb.conffiles:
        write(root / "DEBIAN/conffiles", "".join(f"{path}\n" for path in deb.conffiles))
    relations = f"Depends: {', '.join(deb.depends)}\n" if deb.depends else ""
    write(root / "DEBIAN/control", (
        f"Package: {deb.name}\nVersion: {deb.version}\nArchitecture: amd64\nMaintainer: Stand-in of a test <nobody@example.com>\n"
        f"{relations}Description: stand-in of a test\n"))  # fmt: skip
    file = target / f"{deb.name}_{deb.version.replace(':', '%3a')}_amd64.deb"
    _run("dpkg-deb", "--build", "--root-owner-group", "-Znone", str(root), str(file))
    return file


@dataclass(frozen=True)
class Keyring:
    """A throw-away signing key; its home lies below the test's own directory."""

    home: Path
    fingerprint: str

    @classmethod
    def make(cls, home: Path) -> Keyring:
        home.mkdir(mode=0o700)
        _gpg(home, "--passphrase", "", "--quick-generate-key", "lab@example.com", "ed25519", "sign", "never")
        listed = _gpg(home, "--with-colons", "--list-keys").splitlines()
        return cls(home, next(line.split(":")[9] for line in listed if line.startswith("fpr:")))

    def close(self) -> None:
        """End the agent that gpg started for this home."""
        _run("gpgconf", "--homedir", str(self.home), "--kill", "all")


def publish(debs: list[Deb], target: Path, work: Path, keyring: Keyring, label: str) -> None:
    """A flat repository, as the vendor has it: packages, Packages, a signed InRelease, and the key as key.asc."""
    target.mkdir(parents=True, exist_ok=True)
    sign("".join(_stanza(build(deb, target, work)) for deb in debs), target, keyring, label)


def sign(index: str, target: Path, keyring: Keyring, label: str) -> None:
    """The files of a flat repository beside its packages: Packages (the index), a signed InRelease, and the key as key.asc."""
    write(target / "Packages", index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    write(target / "Release", (
        f"Origin: {label}\nLabel: {label}\nSuite: stable\nCodename: stable\nDate: Sat, 01 Nov 2025 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(index.encode())} Packages\n"))  # fmt: skip
    (target / "InRelease").unlink(missing_ok=True)
    _gpg(keyring.home, "--output", str(target / "InRelease"), "--clearsign", str(target / "Release"))
    (target / "key.asc").write_text(_gpg(keyring.home, "--armor", "--export"), encoding="ascii")


def _stanza(file: Path) -> str:
    body = file.read_bytes()
    control = _run("dpkg-deb", "--field", str(file))
    return f"{control}Filename: ./{file.name}\nSize: {len(body)}\nSHA256: {hashlib.sha256(body).hexdigest()}\n\n"


def _gpg(home: Path, *arguments: str) -> str:
    return _run("gpg", "--homedir", str(home), "--batch", "--yes", "--quiet", *arguments)


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr or done.stdout}"
    return done.stdout


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class named it
        """Requests are no news."""


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The directory over HTTP; yields its URL as a guest writes it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{HOST_SEEN_FROM_GUEST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
