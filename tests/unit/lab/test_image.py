# SPDX-License-Identifier: GPL-3.0-or-later
"""The image: what its key covers, what it is built from, and what its absence says."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab_images import GRUB
from railwright.lab import PLAIN, LabError, Recipe, image, machine, tools

DEB822 = """# A mirror
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
  bookworm-backports
Components: main non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://vendor.example/debian
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/vendor.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Enabled: no
"""

LIST = """# deb http://off.example/debian bookworm main
deb http://mirror.example/debian-security/ bookworm-security main # security
deb [arch=amd64 signed-by=/usr/share/keyrings/vendor.gpg] https://vendor.example/linux bookworm stable
deb https://vendor.example/linux bookworm main
deb-src http://mirror.example/debian bookworm main
deb cdrom:[disc]/ bookworm main
"""

SIGNED = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"


@pytest.fixture
def controller(tmp_path: Path) -> Path:
    etc = tmp_path / "etc"
    (etc / "apt/sources.list.d").mkdir(parents=True)
    (etc / "os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    (etc / "apt/sources.list").write_text(LIST)
    (etc / "apt/sources.list.d/debian.sources").write_text(DEB822)
    return tmp_path


def test_only_debian_suites_are_taken_over(controller: Path) -> None:
    assert image.debian_sources(controller) == (
        f"deb {SIGNED} http://mirror.example/debian-security/ bookworm-security main",
        f"deb {SIGNED} http://mirror.example/debian bookworm main non-free-firmware",
        f"deb {SIGNED} http://mirror.example/debian bookworm-updates main non-free-firmware",
    )


@pytest.mark.parametrize("release", ["ID=ubuntu\nVERSION_CODENAME=noble\n", "ID=debian\nVERSION_CODENAME=trixie\n", ""])
def test_another_system_uses_the_default_mirror(controller: Path, release: str) -> None:
    (controller / "etc/os-release").write_text(release)
    assert image.debian_sources(controller) == ()


def test_a_partial_mirror_list_is_not_enough(controller: Path) -> None:
    (controller / "etc/apt/sources.list.d/debian.sources").unlink()
    assert image.debian_sources(controller) == ()


def test_proxies_and_date_checks() -> None:
    dump = (
        'Acquire::http::Proxy "http://127.0.0.1:3142/";\nAcquire::http::Proxy::direct.example "DIRECT";\n'
        'Acquire::Check-Valid-Until "false";\nAPT::Install-Recommends "0";\nAcquire::https::Proxy "";\n'
    )
    conf = image.apt_conf(dump, {"https_proxy": "http://proxy.example:8080", "http_proxy": "http://ignored.example"})
    assert conf == (
        'Acquire::Check-Valid-Until "false";',
        'Acquire::http::Proxy "http://127.0.0.1:3142/";',
        'Acquire::http::Proxy::direct.example "DIRECT";',
        'Acquire::https::Proxy "http://proxy.example:8080";',
    )
    guest = image.AptSetup(conf=conf).guest_conf
    assert 'Acquire::http::Proxy "http://10.0.2.2:3142/";' in guest, "the controller's loopback, as a guest reaches it"


def test_the_key_covers_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = tmp_path / "site.crt"
    certificate.write_text("one")
    setup = image.AptSetup(("deb http://mirror.example/debian bookworm main",), ('Acquire::http::Proxy "x";',), (certificate,))
    keys = {image.image_key(setup), image.image_key(setup._replace(sources=())), image.image_key(setup._replace(conf=()))}
    first = image.image_key(setup)
    certificate.write_text("two")
    keys.add(image.image_key(setup))
    certificate.write_text("one")
    assert image.image_key(setup) == first
    changed: list[dict[str, Any]] = [{"packages": (*PLAIN.packages, "vim")}, {"finish": "true"}, {"files": {}}, {"early_files": {}}]
    keys |= {image.image_key(setup, replace(PLAIN, **values)) for values in changed}
    keys |= {image.image_key(setup, recipe) for recipe in (GRUB, replace(GRUB, offset=2**21), replace(GRUB, first_boot=()))}
    monkeypatch.setattr(image, "RECIPE", -1)
    keys.add(image.image_key(setup))
    assert len(keys) == 12


@pytest.mark.parametrize("recipe", [PLAIN, GRUB])
def test_the_image_is_bare(recipe: Recipe) -> None:
    words = " ".join(recipe.packages)
    assert not [name for name in ("rdma", "ibverbs", "perftest", "infiniband", "opensm") if name in words]


def test_an_image_that_boots_itself_has_a_partition(tmp_path: Path) -> None:
    """The MBR as a BIOS and GRUB read it: signature, and one bootable Linux partition to the end of the disk."""
    disk = tmp_path / "disk"
    disk.write_bytes(b"\xeb\x63" + bytes(3 * 2**20 - 2))
    image._partition(disk, GRUB.offset)
    sector = disk.read_bytes()[:512]
    status, kind, first, count = sector[446], sector[450], *struct.unpack("<II", sector[454:462])
    assert (status, kind, first, count) == (0x80, 0x83, 2048, 4096)
    assert (sector[:2], sector[510:]) == (b"\xeb\x63", b"\x55\xaa"), "the boot code stays"
    assert sector[462:510] == bytes(48), "no other partition"


def test_grub_and_fstab_agree_on_the_disk() -> None:
    assert GRUB.offset == 2**20, "2048 sectors: where core.img has to end"
    assert GRUB.files["/etc/fstab"].startswith("/dev/vda1 ")
    assert "(hd0,msdos1)/boot/grub" in GRUB.finish
    assert PLAIN.files["/etc/fstab"].startswith("/dev/vda ")


def test_certificates_and_configuration_are_uploaded(tmp_path: Path) -> None:
    certificate = tmp_path / "site.crt"
    certificate.write_text("PEM")
    work = tmp_path / "work"
    work.mkdir()
    options = image.hooks(work, PLAIN, image.AptSetup(conf=('Acquire::Check-Date "false";',), certificates=(certificate,)))
    targets = [option.split()[-1] for option in options if "=upload " in option]
    assert "/usr/local/share/ca-certificates/site.crt" in targets
    assert "/etc/apt/apt.conf.d/80railwright-lab" in targets
    assert options[-1] == f"--customize-hook={PLAIN.finish}", "what finishes the image comes after the files"
    order = [option.split("-hook")[0] for option in options]
    assert order == sorted(order, key=("--essential", "--customize").index)


def test_missing_tools_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_tool", lambda name: None if name in ("qemu-img", "qemu-system-x86_64", "mmdebstrap") else "/x")
    assert tools.missing_packages() == ["mmdebstrap", "qemu-system-x86", "qemu-utils"]
    with pytest.raises(LabError, match=r"apt-get install mmdebstrap qemu-system-x86 qemu-utils$"):
        tools.require()


def test_a_full_disk_is_said_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(image, "NEEDED_BYTES", 10**18)
    with pytest.raises(LabError, match="GiB free"):
        image._build(image.Image("key", tmp_path / "key"), PLAIN, image.AptSetup(), lambda _: None)


def test_a_failing_command_says_why() -> None:
    with pytest.raises(LabError, match=r"sh failed \(exit 3\): no such rail"):
        tools.run_tool(["sh", "-c", "echo no such rail >&2; exit 3"])
    with pytest.raises(LabError, match="did not end within"):
        tools.run_tool(["sleep", "5"], timeout=0.1)
    with pytest.raises(LabError, match="could not be started"):
        tools.run_tool(["/nonexistent/program"])


def test_a_console_that_speaks(tmp_path: Path) -> None:
    assert machine.speaks(["sh", "-c", "echo; sleep 0.1; echo Linux version; sleep 9"], 5)
    assert not machine.speaks(["sleep", "9"], 0.2)
    assert not machine.speaks(["true"], 5)


def test_the_probe_is_asked_once_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tools, "find_tool", lambda name: f"/usr/bin/{name}")
    device = tmp_path / "kvm"
    asked: list[list[str]] = []

    def silent_guest(argv: list[str]) -> bool:
        asked.append(argv)
        return False

    built = image.Image("key", tmp_path / "key")
    monkeypatch.setattr(machine, "speaks", silent_guest)
    assert machine.choose_accelerator(built, lambda _: None, device) == "tcg"
    assert not asked, "no device, no question"
    device.touch()
    assert [machine.choose_accelerator(built, lambda _: None, device) for _ in range(2)] == ["tcg", "tcg"]
    assert len(asked) == 1
    monkeypatch.setattr(machine, "_boot_id", lambda: "another boot")
    machine.choose_accelerator(built, lambda _: None, device)
    assert len(asked) == 2
