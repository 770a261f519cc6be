# SPDX-License-Identifier: GPL-3.0-or-later
"""Images: a Debian root file system made from a recipe, built once and cached. The lab's own has never heard of RDMA.

Mirrors, proxy and CA certificates are those of the controller's own apt: the nodes sit behind it, so what reaches a mirror from here is
what reaches it from there.
"""

import os
import re
import secrets
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.lab import tools
from railwright.lab.recipe import PLAIN, Recipe
from railwright.lab.state import cache_root, locked
from railwright.lab.tools import LabError

SUITE = "bookworm"
_SUITES = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
_COMPONENTS = ("main", "contrib", "non-free", "non-free-firmware")
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Proxies, and the date checks: a controller on a frozen mirror has them off, and so must its nodes.
_CONF = re.compile(r'^Acquire::((?:http|https)::Proxy(?:::[^ \n]+)?|Check-Valid-Until|Check-Date) "([^"\n]*)";$', re.MULTILINE)
# Translated descriptions are a third of what `apt-get update` downloads and parses, at emulation speed.
GUEST_CONF = ('Acquire::Languages "none";',)
# A proxy on the controller's loopback is the gateway's loopback for a guest of QEMU's user network.
_LOOPBACK = re.compile(r"//(?:127\.0\.0\.1|localhost|\[::1\])(?=[:/]|$)")


class AptSetup(NamedTuple):
    """sources: lines for sources.list, empty for mmdebstrap's default mirror; conf: apt.conf lines."""

    sources: tuple[str, ...] = ()
    conf: tuple[str, ...] = ()
    certificates: tuple[Path, ...] = ()

    @property
    def guest_conf(self) -> tuple[str, ...]:
        """The same configuration, as seen from inside a node."""
        return (*(_LOOPBACK.sub("//10.0.2.2", line) for line in self.conf), *GUEST_CONF)


def controller_setup(root: Path = Path("/")) -> AptSetup:
    certificates = tuple(sorted((root / "usr/local/share/ca-certificates").rglob("*.crt")))
    try:
        dump = tools.run_tool(["apt-config", "dump"], timeout=20)
    except LabError:
        dump = ""  # Not a Debian controller: nothing to take over.
    return AptSetup(debian_sources(root), apt_conf(dump, dict(os.environ)), certificates)


def debian_sources(root: Path) -> tuple[str, ...]:
    """This machine's Debian mirrors if it runs the same suite as the image; other vendors' repositories stay out."""
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', _text(root / "etc/os-release"), re.MULTILINE))
    if (release.get("ID"), release.get("VERSION_CODENAME")) != ("debian", SUITE):
        return ()
    etc = root / "etc/apt"
    lines: list[str] = []
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]:
        lines += _from_list(_text(file))
    for file in sorted((etc / "sources.list.d").glob("*.sources")):
        lines += _from_deb822(_text(file))
    found = tuple(dict.fromkeys(lines))
    # Without the release suite itself (a machine with only a partial mirror list) the default is better.
    return found if any(f" {SUITE} " in line for line in found) else ()


def apt_conf(dump: str, environ: dict[str, str]) -> tuple[str, ...]:
    """Pick proxy and date-check settings from `apt-config dump`; apt also honours the proxy variables."""
    conf = {f"Acquire::{key}": value for key, value in _CONF.findall(dump) if value}
    for scheme in ("http", "https"):
        proxy = environ.get(f"{scheme}_proxy", "")
        if proxy:
            conf.setdefault(f"Acquire::{scheme}::Proxy", proxy)
    return tuple(f'{key} "{value}";' for key, value in sorted(conf.items()) if '"' not in value)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _lines(uri: str, suites: list[str], components: list[str], signed_by: str, options: str = "") -> list[str]:
    """Render the Debian part of one source, or nothing."""
    mirror = uri.rstrip("/").rsplit("/", 1)[-1] in ("debian", "debian-security")
    debian = "debian-archive" in signed_by if signed_by else mirror
    if not debian or not uri.startswith(("http://", "https://")):
        return []  # Files and cdroms of the controller do not exist inside a node.
    kept = [name for name in components if name in _COMPONENTS]
    if "main" not in kept:
        return []
    option = f"[signed-by={_KEYRING}{options}]"
    return [f"deb {option} {uri} {suite} {' '.join(kept)}" for suite in suites if suite in _SUITES]


def _from_list(text: str) -> list[str]:
    found: list[str] = []
    pattern = re.compile(r"^deb[ \t]+(?:\[([^\]\n]*)\][ \t]+)?(\S+)[ \t]+(\S+)[ \t]+([^#\n]+)", re.MULTILINE)
    for options, uri, suite, components in pattern.findall(text):
        signed = re.search(r"signed-by=(\S+)", options)
        dates = " check-valid-until=no" if "check-valid-until=no" in options else ""
        found += _lines(uri, [suite], components.split(), signed.group(1) if signed else "", dates)
    return found


def _from_deb822(text: str) -> list[str]:
    found: list[str] = []
    body = "\n".join(line for line in lines_in(text) if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", body):
        joined = re.sub(r"\n[ \t]+", " ", stanza)  # A folded line continues the one above.
        fields = {key.lower(): value.strip() for key, value in re.findall(r"^([\w-]+):(.*)$", joined, re.MULTILINE)}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        dates = " check-valid-until=no" if fields.get("check-valid-until", "").lower() == "no" else ""
        for uri in fields.get("uris", "").split():
            suites, components = fields.get("suites", "").split(), fields.get("components", "").split()
            found += _lines(uri, suites, components, fields.get("signed-by", ""), dates)
    return found


Progress = Callable[[str], None]

# Raise when this file changes what ends up in the image: cached images are keyed by it.
RECIPE = 1
DISK = "8G"
NEEDED_BYTES = 4 * 1024**3
BUILD_TIMEOUT = 1800
SECTOR = 512
# The EFI system partition of a recipe that makes one, as a file of its root, and where it goes on the disk.
ESP = "/boot/esp.img"
ESP_OFFSET = 1024**2


class Image(NamedTuple):
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


def image_key(setup: AptSetup, recipe: Recipe = PLAIN) -> str:
    """Hash everything that goes into the image."""
    digest = sha256()
    parts = [str(RECIPE), SUITE, DISK, *recipe.packages, *setup.sources, *setup.guest_conf, *recipe.rest()]
    for part in parts:
        digest.update(part.encode() + b"\0")
    for certificate in setup.certificates:
        digest.update(certificate.name.encode() + b"\0" + certificate.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def ensure(progress: Progress, recipe: Recipe = PLAIN) -> Image:
    """Return the image for this controller's configuration, building it when it is not in the cache."""
    setup = controller_setup()
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


def _build(image: Image, recipe: Recipe, setup: AptSetup, progress: Progress) -> None:
    prefix = _privileges()
    root = image.directory.parent
    free = shutil.disk_usage(root).free
    if free < NEEDED_BYTES:
        raise LabError(f"{root} has {free / 1024**3:.1f} GiB free; building the image needs {NEEDED_BYTES / 1024**3:.0f}")
    remove = [*prefix, "rm", "-rf", "--"]
    for leftover in root.glob(f"{image.key}.build.*"):  # Of a build that was killed; ours is the only one, by the lock.
        subprocess.run([*remove, str(leftover)], check=False, timeout=120)
    work = Path(tempfile.mkdtemp(prefix=f"{image.key}.build.", dir=root))
    log = root / f"{image.key}.log"
    try:
        progress("  downloading and unpacking packages")
        include, options = f"--include={','.join(recipe.packages)}", [f"--aptopt={line}" for line in setup.conf]
        argv = [tools.tool("mmdebstrap"), "--variant=minbase", include, "--format=tar", *options, *hooks(work, recipe, setup)]
        _logged([*argv, SUITE, str(work / "root.tar"), *setup.sources], log)
        progress("  writing the disk image")
        _pack(work, recipe, prefix, log)
        (work / "root.tar").unlink()
        shutil.rmtree(image.directory, ignore_errors=True)
        work.rename(image.directory)
    finally:
        if work.exists():
            subprocess.run([*remove, str(work)], check=False, timeout=120)


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


def hooks(work: Path, recipe: Recipe, setup: AptSetup) -> list[str]:
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
    if [ -f "root$5" ]; then
        test "$(( $(stat -c %s "root$5") + $6 ))" -le "$4"
        dd if="root$5" of=base.img bs="$6" seek=1 conv=notrunc status=none
    else
        test "$(stat -c %s root/boot/grub/i386-pc/core.img)" -le "$(( $4 - 512 ))"
        dd if=root/boot/grub/i386-pc/boot.img of=base.img bs=440 count=1 conv=notrunc status=none
        dd if=root/boot/grub/i386-pc/core.img of=base.img bs=512 seek=1 conv=notrunc status=none
    fi
fi
rm -rf root essential* customize*
"""
    _logged([*prefix, "sh", "-c", script, "sh", str(work), DISK, tools.tool("mkfs.ext4"), str(recipe.offset), ESP, str(ESP_OFFSET)], log)
    if recipe.boots_itself:
        _partition(work / "base.img", recipe.offset)


def _partition(disk: Path, offset: int) -> None:
    """One bootable Linux partition from offset to the end, in an MBR: all that GRUB's i386-pc flavour asks for. Where there is room
    before it, an EFI system partition takes that: firmware reads it from an MBR too."""
    entries = _entry(0x80, 0x83, offset, disk.stat().st_size)
    if offset > ESP_OFFSET:
        entries += _entry(0, 0xEF, ESP_OFFSET, offset)
    with disk.open("r+b") as handle:
        handle.seek(440)
        handle.write(secrets.token_bytes(4) + bytes(2) + entries.ljust(64, b"\0") + b"\x55\xaa")


def _entry(flag: int, kind: int, start: int, end: int) -> bytes:
    # Cylinders, heads and sectors at their limit: the value that says "inspect the sector numbers instead".
    limit = b"\xfe\xff\xff"
    return struct.pack("<B3sB3sII", flag, limit, kind, limit, start // SECTOR, (end - start) // SECTOR)


def _logged(argv: list[str], log: Path) -> None:
    with log.open("a", encoding="utf-8") as handle:
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT, timeout=BUILD_TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise LabError(f"building the image did not end within {BUILD_TIMEOUT} s; see {log}") from exc
    if done.returncode != 0:
        errors = [line for line in lines_in(log.read_text(errors="replace")) if line.startswith(("E:", "Err:", "mkfs"))]
        reason = tools.tail("\n".join(errors) or log.read_text(errors="replace"), 3)
        raise LabError(f"building the image failed: {reason} (whole log: {log})")
