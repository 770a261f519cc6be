# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure Boot from the refused module to the loaded one: DKMS's key made, put forward with consent, confirmed at the console, in use.

Firmware (OVMF with Microsoft's keys), shim, its MokManager, GRUB, kernel and DKMS are the distributions' own, and the tests sit at the
serial console as an operator does. The module is a stand-in (modules/README.md).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab_console import enrol
from lab_images import SECURE_BOOT
from lab_machine import Machine, Outcome, plain_playbook
from railwright import lab

RECIPE = SECURE_BOOT
HARDWARE = lab.Hardware(secure_boot=True)
TYPED = "correct-horse"
KEY = "/var/lib/dkms/mok.pub"
SITE: dict[str, Any] = {
    "rdma_fabric": "roce", "rdma_stack": "soft_roce", "rdma_mtu": 9000, "rdma_consent": ["link", "restart"], "validate_perftest": False,
    # The clock that a reboot on a busy host measures is wrong: seen twice too fast, so 19 minutes ahead, and with 50 s in 120.
    "preflight_max_clock_skew_s": 86400, "rdma_confirm_timeout_s": 900,
}  # fmt: skip
MADE, FORWARD, CONSOLE = (f"key of DKMS{end}" for end in ("", " put forward for enrolment", " enrolled at the console"))
BUILD = "modules of the GDRCopy built for "


def steps(run: Outcome) -> list[str]:
    return [change["what"] for change in run.document["nodes"]["node1"]["changes"] if change["area"] == "secure_boot"]


def failure(run: Outcome) -> str:
    return str(run.document["nodes"]["node1"])


def state(node: Machine) -> str:
    return node.run("sh", "-c", f"mokutil --test-key {KEY}; mokutil --list-new || true")


@pytest.fixture(scope="module")
def password_hash() -> str:
    done = subprocess.run(["openssl", "passwd", "-6", "-stdin"], input=TYPED, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    assert "SecureBoot enabled" in machine.run("mokutil", "--sb-state")
    machine.site(SITE)
    return machine


def test_the_kernel_refuses_an_unsigned_module(node: Machine) -> None:
    assert "insmod: ERROR" in node.fails("insmod", "/srv/unsigned/gdrdrv.ko")
    assert "gdrdrv" not in node.run("cat", "/proc/modules")


def test_without_a_password_a_build_is_refused(node: Machine) -> None:
    run = node.railwright("plan")
    assert run.code == 1, run.document
    assert "no key yet that DKMS could sign with" in failure(run)
    assert steps(run) == []


def test_the_plan_shows_the_steps_and_nothing_is_put_forward_unasked(node: Machine, password_hash: str) -> None:
    node.site({**SITE, "rdma_mok_password_hash": password_hash})
    run = node.railwright("plan")
    assert (steps(run), run.document["nodes"]["node1"]["problems"]) == ([MADE, FORWARD, CONSOLE], []), run.document
    assert any(change["what"].startswith(BUILD) for change in run.document["nodes"]["node1"]["changes"])
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert "add secure_boot to rdma_consent" in failure(run)
    assert "ls: cannot access" in node.fails("ls", KEY)


def test_with_consent_the_key_waits_for_the_console(node: Machine, password_hash: str) -> None:
    node.site({**SITE, "rdma_consent": [*SITE["rdma_consent"], "secure_boot"], "rdma_mok_password_hash": password_hash})
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert "choose Enroll MOK" in failure(run)
    said = state(node)
    assert "is already in the enrollment request" in said
    assert "DKMS module signing key" in said
    assert node.run("stat", "-c", "%a %U", "/var/lib/dkms/mok.key").split() == ["600", "root"]
    again = node.railwright("plan")
    assert steps(again) == [CONSOLE], again.document
    (waits,) = node.railwright("validate").verdicts("stack.secure_boot")
    assert (waits["status"], waits["found"]) == ("fail", "pending"), waits


def test_once_more_does_nothing_twice_and_builds_nothing(node: Machine) -> None:
    before = node.run("sha256sum", "/var/lib/dkms/mok.key"), state(node)
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert (node.run("sha256sum", "/var/lib/dkms/mok.key"), state(node)) == before
    assert "installed" not in node.run("dkms", "status")


def test_the_password_is_nowhere_on_the_node(node: Machine, password_hash: str) -> None:
    """Its hash neither, in what is kept there: restore points, journal, files of root."""
    salted = password_hash.split("$")[3]
    assert node.run("sh", "-c", f"journalctl --no-pager | grep -cF '{salted}' || true").strip() == "0"
    assert node.run("sh", "-c", f"grep -rlF '{salted}' /var/lib /var/log /etc /root /usr/local /run /tmp || true") == ""


def test_confirmed_at_the_console_it_is_enrolled(node: Machine) -> None:
    before = node.boot_id()
    enrol(node, TYPED)
    assert node.boot_id() != before
    assert "is already enrolled" in node.run("sh", "-c", f"mokutil --test-key {KEY} || true")


def test_what_dkms_builds_now_is_loaded(node: Machine, tmp_path: Path) -> None:
    """By the role alone, as somebody runs it who has no railwright; a second time nothing is left for it."""
    assert plain_playbook(node, tmp_path, "gpu_driver") == 1
    assert "installed" in node.run("dkms", "status")
    node.run("modprobe", "gdrdrv")
    assert "gdrdrv" in node.run("cat", "/proc/modules")
    node.run("modprobe", "-r", "gdrdrv")
    assert "insmod: ERROR" in node.fails("insmod", "/srv/unsigned/gdrdrv.ko"), "without a signature it is refused as before"
    (trusted,) = node.railwright("validate").verdicts("stack.secure_boot")
    assert trusted["status"] == "pass", trusted
    assert plain_playbook(node, tmp_path, "gpu_driver") == 0


def test_apply_goes_on_and_then_the_plan_is_empty(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert steps(run) == []
    run = node.railwright("plan")
    assert (run.code, run.document["summary"]["changes"]) == (0, 0), run.document
