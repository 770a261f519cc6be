# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent beside a driver that is exchanged: its timer runs, its looks hold the GPU, and ``apply`` brings another version all the same.

apt, its signed repository, DKMS, the kernel's reference count and the agent's service are real. The driver's module and NVML are
stand-ins (modules/README.md): the module has /dev/nvidia0, and NVML opens that from nvmlInit to nvmlShutdown, as NVIDIA's does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab_debs import Deb, Keyring, publish, served
from lab_images import DRIVERS
from lab_machine import Machine
from lab_vendor import DRIVER_VERSION, driver
from railwright import lab

RECIPE = DRIVERS
HARDWARE = lab.Hardware()
BEFORE = "580.95.05"
AREAS = [word for area in ("repositories", "gpu_driver", "node_code", "agent") for word in ("--area", area)]
# A GPU that sleeps needs seconds for nvmlInit: this one takes long enough for a test to look at it.
NVML = """
extern int open(const char *, int), close(int); /* no header of the C library is here */
extern unsigned sleep(unsigned);
static int held = -1;
int nvmlInit_v2(void) { held = open("/dev/nvidia0", 2); sleep(15); return held < 0 ? 9 : 0; }
int nvmlShutdown(void) { return close(held); }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 0; return 0; }
"""
OPEN = "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q /dev/nvidia0"
HELD = f"for second in $(seq 60); do {OPEN} && exit 0; sleep 1; done; exit 1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, keyring: Keyring) -> Iterator[dict[str, Any]]:
    """NVIDIA's repository with two versions of the driver, served; the inventory's values."""
    directory = tmp_path_factory.mktemp("nvidia")
    debs = [deb for version in (BEFORE, DRIVER_VERSION) for deb in (
        driver(version, device="1"), Deb("nvidia-open", f"{version}-1", (f"nvidia-kernel-open-dkms (= {version}-1)",)))]  # fmt: skip
    publish(debs, directory / "cuda", directory / "work", keyring, "NVIDIA")
    with served(directory) as url:
        yield {
            "rdma_fabric": "roce", "rdma_mtu": 1500, "rdma_stack": "inbox", "agent_mode": "observe",
            "gpu_driver_branch": "580", "gpu_driver_version": BEFORE, "gpu_driver_persistence": False, "gpudirect_path": "none",
            "containers_toolkit_install": False,
            "cuda_repository_url": f"{url}/cuda", "cuda_repository_key_url": f"{url}/cuda/key.asc",
            "cuda_repository_fingerprint": keyring.fingerprint,
        }  # fmt: skip


@pytest.fixture(scope="module")
def node(machine: Machine, site: dict[str, Any]) -> Machine:
    machine.stand_in_hardware()
    machine.write("/root/nvml.c", NVML)
    machine.sh("gcc -shared -fPIC -nostdlib -o /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 /root/nvml.c")
    machine.site(site)
    run = machine.railwright("apply", *AREAS)
    assert run.code == 0, (run.document, run.err)
    return machine


def version(machine: Machine) -> str:
    return machine.run("cat", "/proc/driver/nvidia/version")


def test_a_look_holds_the_driver_and_lets_it_go(node: Machine) -> None:
    """The documented check for open handles, and the kernel's word."""
    assert BEFORE in version(node)
    assert node.run("systemctl", "is-active", "railwright-agent.timer").strip() == "active"
    node.sh(f"systemctl start --no-block railwright-agent.service; {HELD}")
    assert "in use" in node.fails("rmmod", "nvidia")
    node.sh(f"for second in $(seq 200); do {OPEN} || exit 0; sleep 1; done; exit 1")


def test_another_programs_hold_makes_it_a_reboot(node: Machine, site: dict[str, Any]) -> None:
    node.site({**site, "gpu_driver_version": DRIVER_VERSION})
    node.sh("systemd-run --unit=lab-job --collect sh -c 'exec sleep 3600 < /dev/nvidia0'; sleep 2")
    plan = node.railwright("plan", *AREAS)
    (change,) = [row for row in plan.node["changes"] if row["disruption"] == "reboot"]
    assert "sleep (" in change["why"], change
    assert "railwright-agen" not in change["why"], "nobody is asked to end the agent"
    node.sh("systemctl stop lab-job")


def test_apply_exchanges_the_driver_beside_the_agent(node: Machine) -> None:
    """It begins while a look holds the GPU."""
    node.sh(f"systemctl start --no-block railwright-agent.service; {HELD}")
    run = node.railwright("apply", *AREAS, "--consent", "reload,restart")
    assert run.code == 0, (run.document, run.err)
    assert DRIVER_VERSION in version(node)
    assert node.run("systemctl", "is-active", "railwright-agent.timer").strip() == "active", "and it looks on"
    plan = node.railwright("plan", *AREAS)
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document


def test_the_agent_looks_by_the_new_driver(node: Machine) -> None:
    """The timer rests: a look of its own may have written the status just before it is removed here, and a start would wait for its end."""
    node.sh("systemctl stop railwright-agent.timer railwright-agent.service; rm -f /run/railwright/agent/status; "
            "systemctl start railwright-agent.service; cat /run/railwright/agent/status; systemctl start railwright-agent.timer")
    assert node.run("systemctl", "show", "-P", "Result", "railwright-agent.service").strip() == "success"
