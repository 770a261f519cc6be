# SPDX-License-Identifier: GPL-3.0-or-later
"""Images: a Debian root file system made from a recipe, built once and cached. The lab's own has never heard of RDMA."""

from __future__ import annotations

import os
import secrets
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from railwright.lab import apt, tools
from railwright.lab.errors import LabError
from railwright.lab.paths import cache_root, locked
from railwright.lab.recipe import PLAIN, Recipe

Progress = Callable[[str], None]

# Raise when this file changes what ends up in the image: cached images are keyed by it.
RECIPE = 1
DISK = "8G"
NEEDED_BYTES = 4 * 1024**3
BUILD_TIMEOUT = 1800
SECTOR = 512


@dataclass(frozen=True)
class Image:
    """A built image: all three files are read-only for everybody."""

    key: str
    directory: Path

    @property
    def disk(self) -> Path:
        return self.directory / "base.img"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd.img"

    def exists(self) -> bool:
        # The directory is renamed into place when complete, so one file speaks for all.
        return self.disk.is_file()


def image_key(setup: apt.AptSetup, recipe: Recipe = PLAIN) -> str:
    """Hash everything that goes into the image."""
    digest = sha256()
    parts = [str(RECIPE), apt.SUITE, DISK, *recipe.packages, *setup.sources, *setup.guest_conf, *recipe.rest()]
    for part in parts:
        digest.update(part.encode() + b"\0")
    for certificate in setup.certificates:
        digest.update(certificate.name.encode() + b"\0" + certificate.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def ensure(progress: Progress, recipe: Recipe = PLAIN) -> Image:
    """Return the image for this controller's configuration, building it when it is not in the cache."""
    setup = apt.controller_setup()
    key = image_key(setup, recipe)
    root = cache_root()
    image = Image(key, root / key)
    if image.exists():
        return image
    with locked(root / f"{key}.lock", wait=True):  # Two labs may want the same image at once.
        if not image.exists():
            progress(f"building the {recipe.title} (once, about two minutes)")
            _build(image, recipe, setup, progress)
    return image


def _build(image: Image, recipe: Recipe, setup: apt.AptSetup, progress: Progress) -> None:
    prefix = _privileges()
    root = image.directory.parent
    free = shutil.disk_usage(root).free
    if free < NEEDED_BYTES:
        raise LabError(f"{root} has {free / 1024**3:.1f} GiB free; building the image needs {NEEDED_BYTES / 1024**3:.0f}")
    for leftover in root.glob(f"{image.key}.build.*"):  # Of a build that was killed; ours is the only one, by the lock.
        subprocess.run([*prefix, "rm", "-rf", "--", str(leftover)], check=False, timeout=120)
    work = Path(tempfile.mkdtemp(prefix=f"{image.key}.build.", dir=root))
    log = root / f"{image.key}.log"
    try:
        progress("  downloading and unpacking packages")
        _mmdebstrap(work, recipe, setup, log)
        progress("  writing the disk image")
        _pack(work, recipe, prefix, log)
        (work / "root.tar").unlink()
        shutil.rmtree(image.directory, ignore_errors=True)
        work.rename(image.directory)
    finally:
        if work.exists():
            subprocess.run([*prefix, "rm", "-rf", "--", str(work)], check=False, timeout=120)


def _privileges() -> list[str]:
    """Root builds as it is; anybody else needs a user namespace with subordinate ids."""
    if os.geteuid() == 0:
        return []
    tools.require(["unshare", "newuidmap"])
    prefix = ["unshare", "--user", "--map-root-user", "--map-auto", "--mount"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False, timeout=20).returncode != 0:
        raise LabError(
            "building the image as an ordinary user needs user namespaces and a range for this user in /etc/subuid and"
            " /etc/subgid (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER); or run"
            " `railwright lab up` as root"
        )
    return prefix


def hooks(work: Path, recipe: Recipe, setup: apt.AptSetup) -> list[str]:
    """Lay out our files below work and return the mmdebstrap options that put them into the image."""
    files = {target: text.encode() for target, text in recipe.files.items()}
    files["/etc/apt/apt.conf.d/80railwright-lab"] = ("\n".join(setup.guest_conf) + "\n").encode()
    for certificate in setup.certificates:
        files[f"/usr/local/share/ca-certificates/{certificate.name}"] = certificate.read_bytes()
    early = {target: text.encode() for target, text in recipe.early_files.items()}
    # Essential hooks run before the kernel package, and with it the initramfs, is installed.
    options = [*_uploads(work, early, "essential"), *_uploads(work, files, "customize")]
    # As text, not as a file: inside a user namespace the hook's user may not look into our directory.
    return [*options, f"--customize-hook={recipe.finish}"]


def _uploads(work: Path, files: dict[str, bytes], stage: str) -> list[str]:
    options: list[str] = []
    for number, (target, data) in enumerate(sorted(files.items())):
        source = work / f"{stage}{number}"
        source.write_bytes(data)
        source.chmod(0o644)
        options.append(f'--{stage}-hook=mkdir -p "$1"{Path(target).parent}')
        options.append(f"--{stage}-hook=upload {source} {target}")
    return options


def _mmdebstrap(work: Path, recipe: Recipe, setup: apt.AptSetup, log: Path) -> None:
    argv = [tools.tool("mmdebstrap"), "--variant=minbase", f"--include={','.join(recipe.packages)}", "--format=tar"]
    argv += [f"--aptopt={line}" for line in setup.conf]
    argv += hooks(work, recipe, setup)
    argv += [apt.SUITE, str(work / "root.tar"), *setup.sources]
    _logged(argv, log)


def _pack(work: Path, recipe: Recipe, prefix: list[str], log: Path) -> None:
    """Turn the tar into a disk image without mounting anything: loop devices are not everywhere."""
    script = """set -e
cd "$1"
mkdir root
tar --extract --file root.tar --directory root --numeric-owner --xattrs --xattrs-include='*' --exclude='./dev/*'
cp root/boot/vmlinuz-* vmlinuz
cp root/boot/initrd.img-* initrd.img
chmod 644 vmlinuz initrd.img
truncate -s "$2" base.img
if [ "$4" -eq 0 ]; then
    "$3" -q -F -L railwright-lab -d root base.img
else
    # GRUB 2.06 does not read a file system with that feature, which mkfs may have in its defaults.
    "$3" -q -F -L railwright-lab -O ^metadata_csum_seed -E "offset=$4" -d root base.img "$(( ($(stat -c %s base.img) - $4) / 1024 ))k"
    test "$(stat -c %s root/boot/grub/i386-pc/core.img)" -le "$(( $4 - 512 ))"
    dd if=root/boot/grub/i386-pc/boot.img of=base.img bs=440 count=1 conv=notrunc status=none
    dd if=root/boot/grub/i386-pc/core.img of=base.img bs=512 seek=1 conv=notrunc status=none
fi
rm -rf root essential* customize*
"""
    _logged([*prefix, "sh", "-c", script, "sh", str(work), DISK, tools.tool("mkfs.ext4"), str(recipe.offset)], log)
    if recipe.boots_itself:
        _partition(work / "base.img", recipe.offset)


def _partition(disk: Path, offset: int) -> None:
    """One bootable Linux partition from offset to the end, in an MBR: all that GRUB's i386-pc flavour asks for."""
    first, sectors = offset // SECTOR, (disk.stat().st_size - offset) // SECTOR
    # Cylinders, heads and sectors at their limit: the value that says "look at the sector numbers instead".
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", first, sectors)
    with disk.open("r+b") as handle:
        handle.seek(440)
        handle.write(secrets.token_bytes(4) + bytes(2) + entry + bytes(48) + b"\x55\xaa")


def _logged(argv: list[str], log: Path) -> None:
    with log.open("a", encoding="utf-8") as handle:
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT, timeout=BUILD_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise LabError(f"building the image did not end within {BUILD_TIMEOUT} s; see {log}") from exc
    if done.returncode != 0:
        errors = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(("E:", "Err:", "mkfs"))]
        reason = tools.tail("\n".join(errors) or log.read_text(errors="replace"), 3)
        raise LabError(f"building the image failed: {reason} (whole log: {log})")
