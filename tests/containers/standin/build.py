# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds, signs and indexes the stand-in repositories: ``build.py DIRECTORY`` fills deb/ and rpm/ in it. Runs in a container made for it.

Packages, indexes and signatures are real and made by the distributions' own tools; only the content is missing. Keys are made here
and forgotten: what is kept is their public half. Beside every good repository lie broken ones, each broken in one place:

==============  =================================================================================
-wrong-key      index (and packages) signed by another key than the one that is published
-tampered       the list of packages was changed after its checksum was taken
-missing        a package that the meta package needs is not there
-corrupt        a package is not the file that the index describes
==============  =================================================================================
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import debs
import rpms
from debs import Repository
from stub import Stub

WORK = Path("/root/stand-in")
# Under which names vendors publish their key inside the repository itself (catalogue/artifacts.py).
KEY_NAMES = {"doca": ("doca_keyring.gpg", "GPG-KEY-Mellanox.pub"), "mlnx_ofed": ("RPM-GPG-KEY-Mellanox", "RPM-GPG-KEY-Mellanox-SHA256"),
             "cuda": ("3bf863cc.pub", "D42D0685.pub")}
UNSIGNED_METADATA = ("doca", "mlnx_ofed", "erdma")  # nothing public says that these sign repomd.xml; their packages are signed
RIGHT, WRONG = "right@example.com", "wrong@example.com"
BROKEN = "doca-3.2.2"  # which one is also there with each defect
MISSING, CORRUPT = "ucx", "mlnx-tools"


def run(*argv: str, cwd: Path | None = None) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def write(path: Path, content: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    path.chmod(mode)


def make_keys(target: Path) -> None:
    """A right one and a wrong one; their public halves and fingerprints."""
    fingerprints = {}
    for name, user in (("right", RIGHT), ("wrong", WRONG)):
        run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", user, "rsa3072", "sign", "never")
        run("gpg", "--batch", "--armor", "--output", str(target / f"{name}.asc"), "--export", user)
        run("gpg", "--batch", "--output", str(target / f"{name}.gpg"), "--export", user)
        listed = run("gpg", "--batch", "--with-colons", "--list-keys", user).splitlines()
        fingerprints[name] = next(line.split(":")[9] for line in listed if line.startswith("fpr:"))
    write(target / "keys.json", json.dumps(fingerprints))


def lay(stub: Stub, root: Path) -> None:
    """The files of a package; one of them large where it is to need room."""
    for path, content in stub.files.items():
        write(root / path.lstrip("/"), content, 0o755 if content.startswith("#!") else 0o644)
    if stub.size:
        blob = root / "usr/share/stand-in" / stub.name
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(bytes(stub.size))


def deb(stub: Stub, target: Path, arch: str) -> None:
    root = WORK / "deb" / f"{stub.name}_{stub.version}"
    lay(stub, root)
    lines = [f"Package: {stub.name}", f"Version: {stub.version}", f"Architecture: {'all' if stub.name.endswith('-dkms') else arch}",
             "Maintainer: Stand-in of a test <nobody@example.com>", f"Installed-Size: {stub.size // 1024 + 8}"]
    for field, values in (("Depends", stub.depends), ("Conflicts", stub.conflicts), ("Provides", stub.provides)):
        lines += [f"{field}: {', '.join(values)}"] if values else []
    write(root / "DEBIAN/control", "\n".join((*lines, "Description: stand-in of a test", "")))
    if stub.conffiles:
        write(root / "DEBIAN/conffiles", "\n".join(stub.conffiles) + "\n")
    if stub.postinst:
        write(root / "DEBIAN/postinst", stub.postinst, 0o755)
    run("dpkg-deb", "--build", "--root-owner-group", "-Znone", str(root), str(target))
    shutil.rmtree(root)


def index_debs(repository: Repository, target: Path, key: str) -> None:
    """Packages, Release and InRelease of a flat repository, which is what most vendors have, or of one with a suite and a component."""
    arch = run("dpkg", "--print-architecture").strip()
    top = target / "dists" / repository.suite if repository.suite else target
    place = top / "main" / f"binary-{arch}" if repository.suite else target
    place.mkdir(parents=True, exist_ok=True)
    (place / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=target), encoding="utf-8")
    options = {"Origin": repository.origin, "Label": repository.label, "Suite": repository.codename, "Codename": repository.codename}
    options |= {"Components": "main", "Architectures": arch} if repository.suite else {}
    settings = [part for name, value in options.items() for part in ("-o", f"APT::FTPArchive::Release::{name}={value}")]
    (top / "Release").write_text(run("apt-ftparchive", *settings, "release", ".", cwd=top), encoding="utf-8")
    run("gpg", "--batch", "--quiet", "--local-user", key, "--output", "InRelease", "--clearsign", "Release", cwd=top)


def build_debs(repository: Repository, target: Path, key: str = RIGHT, *, without: str | None = None) -> None:
    target.mkdir()
    arch = run("dpkg", "--print-architecture").strip()
    for stub in repository.stubs:
        if stub.name != without:
            deb(stub, target, arch)
    index_debs(repository, target, key)


def rpm_spec(stubs: Iterable[Stub], build_root: Path) -> str:
    """One source for a whole repository: every package is a part of it with a version of its own."""
    text, files = "", ""
    for place, stub in enumerate(stubs):
        epoch, _colon, rest = stub.version.rpartition(":")
        version, _dash, release = rest.rpartition("-")
        text += "" if place == 0 else f"%package -n {stub.name}\n"
        text += f"Name: {stub.name}\n" if place == 0 else ""
        text += f"Version: {version}\nRelease: {release}\nSummary: Stand-in of a test\n" + (f"Epoch: {epoch}\n" if epoch else "")
        text += "License: GPL-3.0-or-later\nAutoReqProv: no\n"
        for field, values in (("Requires", stub.depends), ("Conflicts", stub.conflicts), ("Provides", stub.provides)):
            text += "".join(f"{field}: {value.replace('(= ', '= ').rstrip(')') if ' (= ' in value else value}\n" for value in values)
        part = "" if place == 0 else f"-n {stub.name}"
        text += f"%description {part}\nNo content.\n"
        text += f"%post {part}\n{stub.postinst}" if stub.postinst else ""
        owned = [*stub.files, *([f"/usr/share/stand-in/{stub.name}"] if stub.size else [])]
        files += f"%files {part}\n" + "".join(f"{'%config(noreplace) ' if path in stub.conffiles else ''}{path}\n" for path in owned)
        lay(stub, build_root)
    return text + files


def build_rpms(repository: Repository, target: Path, key: str = RIGHT, *, without: str | None = None) -> None:
    target.mkdir()
    rounds: list[dict[str, Stub]] = []  # one source holds a name once; a repository may have it in two versions
    for stub in repository.stubs:
        if stub.name != without:
            free = next((place for place in rounds if stub.name not in place), None)
            if free is None:
                rounds.append(free := {})
            free[stub.name] = stub
    for number, stubs in enumerate(rounds):
        build_source(tuple(stubs.values()), target, f"{target.name}-{number}")
    run("rpmsign", "--addsign", "--define", f"_gpg_name {key}", "--define", "__gpg /usr/bin/gpg", *map(str, sorted(target.glob("*.rpm"))))
    run("createrepo_c", "--quiet", str(target))
    if not repository.name.startswith(UNSIGNED_METADATA):
        run("gpg", "--batch", "--quiet", "--armor", "--local-user", key, "--detach-sign", str(target / "repodata/repomd.xml"))


def build_source(stubs: tuple[Stub, ...], target: Path, name: str) -> None:
    top, root = WORK / "rpm" / name, WORK / "buildroot" / name
    root.mkdir(parents=True)
    spec = top / "stand-in.spec"
    write(spec, rpm_spec(stubs, root))
    defines = {"_topdir": str(top), "_rpmdir": str(target), "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
               "_binary_payload": "w1.gzdio"}
    options = [part for name, value in defines.items() for part in ("--define", f"{name} {value}")]
    run("rpmbuild", "-bb", "--quiet", "--noclean", "--buildroot", str(root), *options, str(spec))


def break_it(build: object, repository: Repository, good: Path, index: str) -> None:
    """The broken ones, from the good one or built anew."""
    assert callable(build)
    for defect, how in (("wrong-key", {"key": WRONG}), ("missing", {"without": MISSING})):
        copy = good.with_name(f"{good.name}-{defect}")
        build(repository, copy, **how)
        for path in good.glob("*[kK][eE][yY]*"):
            shutil.copyfile(path, copy / path.name)
    tampered, corrupt = (good.with_name(f"{good.name}-{defect}") for defect in ("tampered", "corrupt"))
    for copy in (tampered, corrupt):
        shutil.copytree(good, copy)
    changed = next(tampered.glob(index))
    changed.write_bytes(changed.read_bytes() + b"\n")
    package = next(path for path in corrupt.iterdir() if path.name.startswith(CORRUPT))
    package.write_bytes(package.read_bytes()[:-1] + b"!")


def build_all(kind: str, target: Path) -> None:
    build, repositories, index = {
        "deb": (build_debs, debs.REPOSITORIES, "Packages"), "rpm": (build_rpms, rpms.REPOSITORIES, "repodata/*-primary.xml*"),
    }[kind]
    for repository in repositories:
        build(repository, target / repository.name)
        for name in KEY_NAMES.get(repository.name.partition("-")[0], ()):
            shutil.copyfile(target / ("right.gpg" if name.endswith(".gpg") else "right.asc"), target / repository.name / name)
        if repository.name == BROKEN:
            break_it(build, repository, target / repository.name, index)


def main(target: Path) -> None:
    WORK.mkdir(parents=True)
    for kind in ("deb", "rpm"):
        (target / kind).mkdir()
    make_keys(target / "deb")
    for path in (target / "deb").iterdir():
        shutil.copyfile(path, target / "rpm" / path.name)
    for kind in ("deb", "rpm"):
        build_all(kind, target / kind)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
