# SPDX-License-Identifier: GPL-3.0-or-later
"""A container's PCIe and firmware are left alone, with a note; and real tools understand what we write and say on a machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.kernel import kernel_args
from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.pci import UNIT, Register, unit_text
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.firmware import query_config
from ansible_collections.railwright.rdma.plugins.module_utils.observe.pci import DEVCTL_READ_REQUEST, ConfigSpace

WORDS = ("iommu=pt", "init_on_alloc=0")
PROBE = "/usr/sbin/grub-probe"
# grub-mkconfig asks it for the file system below /, which a container's overlay has not: the answers of a machine with ext4 on a UUID.
PROBE_DOUBLE = """#!/bin/sh
case "$*" in
  *--target=fs_uuid*) echo 0a1b2c3d-0000-4000-8000-000000000001 ;;
  *--target=fs*) echo ext2 ;;
  *--target=device*) echo /dev/sda1 ;;
  *--target=partuuid*) echo 0a1b2c3d-01 ;;
  *--target=abstraction*) ;;
  *) echo hd0,msdos1 ;;
esac
"""
SPACE = ConfigSpace(0x15B3, 0x1021, False, True, True, None, None)
ACS = Register("0000:ff:1f.7", SPACE, "ECAP_ACS+0x6.w", 0xFFFF)
READ = Register("0000:ff:1f.7", SPACE, "CAP_EXP+08.w", DEVCTL_READ_REQUEST)


def put(host: Any, path: str, text: str) -> None:
    with host.sudo():
        host.run_test("sh -c %s", f"printf %s {shlex.quote(text)} > {path}")


def test_what_a_container_cannot_have_is_said_and_not_tried(applied: Any, host: Any, node: str) -> None:
    notes = [note for item in applied.of("rdma_state", node) for note in item["answer"]["notes"]]
    assert [note for note in notes if note.startswith("PCIe registers and kernel arguments are left alone: in a container")]
    assert [note for note in notes if note.startswith("firmware of NICs is left alone: in a container")]
    assert not host.file("/etc/systemd/system/" + UNIT).exists
    assert not host.file(kernel_args.GRUB_FILE).exists
    assert not host.file("/var/lib/railwright/nic-firmware").exists


@pytest.mark.parametrize("line", [ACS.line(0), READ.line(0x5000)], ids=["acs", "max-read-request"])
def test_real_setpci_understands_our_arguments(host: Any, line: str) -> None:
    """Dry (-D), for an address that nothing has: what is not understood is an error of syntax, exit 1."""
    with host.sudo():
        understood = host.run(f"setpci -D {line}")
        nonsense = host.run("setpci -D " + line.replace("CAP_", "CAPP_"))
    assert understood.rc == 0, understood.stderr
    assert nonsense.rc != 0


def test_real_setpci_knows_the_names(host: Any) -> None:
    known = host.check_output("setpci --dumpregs")
    assert {"CAP_EXP", "ECAP_ACS"} <= set(known.split())


def test_systemd_accepts_our_unit(host: Any) -> None:
    put(host, "/etc/systemd/system/" + UNIT, unit_text((ACS.line(0), READ.line(0x5000)), "/usr/bin/setpci"))
    try:
        verified = host.run(f"systemd-analyze verify /etc/systemd/system/{UNIT}")
        with host.sudo():
            started = host.run(f"systemctl start {UNIT}")
            active = host.run(f"systemctl is-active {UNIT}").stdout.strip()
            parts = host.check_output(f"systemctl show -p After -p PartOf -p ExecStart {UNIT}")
    finally:
        with host.sudo():
            host.run(f"systemctl stop {UNIT}")
            host.run(f"rm /etc/systemd/system/{UNIT}")
            host.run("systemctl daemon-reload")
    assert verified.rc == 0, verified.stderr
    assert UNIT not in verified.stderr
    assert (started.rc, active) == (0, "active"), started.stderr
    assert "PartOf=openibd.service" in parts
    assert "openibd.service" in next(line for line in parts.splitlines() if line.startswith("After="))


def test_real_grub_mkconfig_reads_our_file_and_we_read_what_it_writes(host: Any, tmp_path: Path) -> None:
    with host.sudo():
        host.run_test(f"cp {PROBE} {PROBE}.real")
        host.run_test("mkdir -p /etc/default/grub.d /boot/grub")
        host.run_test("touch /boot/vmlinuz-6.1.0-99-amd64 /boot/initrd.img-6.1.0-99-amd64")
    put(host, PROBE, PROBE_DOUBLE)
    put(host, "/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=ttyS0"\nGRUB_DISABLE_OS_PROBER=true\n')
    try:
        before = generate(host, tmp_path)
        assert kernel_args.needed(kernel_args.Wanted(False, WORDS, "x86_64"), before) == WORDS
        put(host, kernel_args.GRUB_FILE, kernel_args.grub_text(WORDS))
        after = generate(host, tmp_path)
    finally:
        with host.sudo():
            host.run(f"mv {PROBE}.real {PROBE}")
            host.run(f"rm -f {kernel_args.GRUB_FILE} /etc/default/grub /boot/vmlinuz-6.1.0-99-amd64 /boot/initrd.img-6.1.0-99-amd64")
    assert after.loader == "grub"
    assert [word for word in after.boot if word in (*WORDS, "console=ttyS0", "quiet")] == ["console=ttyS0", *WORDS, "quiet"]
    wanted = kernel_args.Wanted(False, WORDS, "x86_64")
    assert [change.disruption for change in kernel_args.plan("pci_tuning", wanted, after, "test")] == ["reboot"]
    gone = kernel_args.plan("pci_tuning", kernel_args.Wanted(False, (), "x86_64"), after, "test")
    assert [(change.what, change.before, change.after) for change in gone] == [(kernel_args.WHAT, list(WORDS), [])]


def generate(host: Any, tmp_path: Path) -> kernel_args.State:
    """Run the real grub-mkconfig, as update-grub does, and observe its result as on a node."""
    with host.sudo():
        done = host.run("grub-mkconfig")
        ours = host.run(f"cat {kernel_args.GRUB_FILE}")
    assert done.rc == 0, done.stderr
    files = {"boot/grub/grub.cfg": done.stdout, "usr/sbin/update-grub": "", "proc/cmdline": "ro\n"}
    if ours.rc == 0:
        files[kernel_args.GRUB_FILE.lstrip("/")] = ours.stdout
    for name, text in files.items():
        path = tmp_path / "node" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return kernel_args.observe(TreeHost(str(tmp_path / "node")), kernel_args.Wanted(False, WORDS, "x86_64"))


def test_real_mstconfigs_refusal_is_understood(host: Any, tmp_path: Path) -> None:
    """A device that is none: the tool's own words become the failure, and nothing is taken for a value."""
    argv = ("mstconfig", "-d", "0000:ff:1f.7", "-e", "q", "NUM_OF_VFS")
    with host.sudo():
        done = host.run(" ".join(argv))
    assert done.rc != 0
    (tmp_path / "cmd").mkdir()
    (tmp_path / "cmd" / "_".join(argv)).write_text(done.stdout + done.stderr)
    found = query_config(TreeHost(str(tmp_path)), "mstconfig", "0000:ff:1f.7", ("NUM_OF_VFS",))
    assert (found.values, found.errors) == ({}, {})
    assert "-E-" in done.stdout + done.stderr
    assert found.failure is not None
    assert found.failure in done.stdout + done.stderr
