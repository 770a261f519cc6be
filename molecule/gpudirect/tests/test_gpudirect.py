# SPDX-License-Identifier: GPL-3.0-or-later
"""The peer memory module comes at every boot and behind openibd; where it is not needed nothing is written, and a note says why."""

from __future__ import annotations

from typing import Any

BOOT = "/etc/modules-load.d/nvidia-peermem.conf"
DROP_IN = "/etc/systemd/system/openibd.service.d/railwright-peermem.conf"


def notes(run: Any, node: str) -> set[str]:
    return {note for item in run.of("rdma_state", node) for note in item["answer"].get("notes", [])}


def test_the_module_is_loaded_at_boot_and_behind_openibd(host: Any, node: str, idle: bool) -> None:
    if idle:
        assert not host.file(BOOT).exists
        assert not host.file(DROP_IN).exists
        return
    assert host.file(BOOT).content_string.splitlines()[-1] == "nvidia_peermem"
    assert host.file(DROP_IN).content_string.splitlines()[1:] == ["[Service]", "ExecStartPost=-/sbin/modprobe nvidia_peermem"]
    assert {host.file(path).mode for path in (BOOT, DROP_IN)} == {0o644}


def test_systemd_reads_the_drop_in(host: Any, node: str, idle: bool) -> None:
    """With a unit of that name, as the stack brings it, systemd itself says what it will run; read and taken away again."""
    if idle:
        return
    unit = "/etc/systemd/system/openibd.service"
    with host.sudo():
        host.run_test("printf '[Service]\\nType=oneshot\\nExecStart=/bin/true\\n' > %s", unit)
        host.run_test("systemctl daemon-reload")
        shown = host.check_output("systemctl show -p ExecStartPost openibd.service")
        host.run_test("rm %s", unit)
        host.run_test("systemctl daemon-reload")
    assert "/sbin/modprobe nvidia_peermem" in shown
    assert "ignore_errors=yes" in shown


def test_what_was_left_out_is_said(applied: Any, node: str) -> None:
    wanted = {
        "node1": "gpudirect: this is a container, modules cannot be loaded here; only files are managed",
        "node3": "gpudirect: this node has no NVIDIA GPU; nothing to set up",
    }
    assert notes(applied, node) == ({wanted[node]} if node in wanted else set())
