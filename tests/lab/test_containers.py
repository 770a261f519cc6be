# SPDX-License-Identifier: GPL-3.0-or-later
"""What `container flags` prints starts real containers: verbs on the Soft-RoCE device, unlimited locked memory, NCCL's variables, a pod.

The image is made on the machine, of the machine's own programs: nothing is fetched.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab_images import CONTAINERS
from lab_machine import RUN_SECONDS, Machine
from railwright import lab

RECIPE = CONTAINERS
HARDWARE = lab.Hardware()
IMAGE = "localhost/rdma:1"
# Programs with the libraries that they name, and libibverbs' drivers, which they open by name.
MAKE_IMAGE = r"""
root=/srv/lab/rootfs
mkdir -p $root/proc $root/sys $root/dev $root/tmp $root/etc
libraries=/usr/lib/x86_64-linux-gnu
copy() { for file in "$@"; do cp -L --parents "$file" $root/; ldd "$file" | grep -o '/[^ ]*' | while read -r need; do
    cp -L --parents "$need" $root/; done; done; }
copy /bin/sh /bin/cat /bin/df /usr/bin/env /usr/bin/ibv_devinfo $libraries/libibverbs/librxe-rdmav34.so
cp -r --parents /etc/libibverbs.d $root/
tar -C $root -cf - . | podman import --change 'ENV PATH=/usr/bin:/bin' - {image}
rm -r $root
"""
SEE = "ulimit -l; cat /proc/sys/kernel/hostname; ibv_devinfo"


def flags(machine: Machine, *arguments: str) -> str:
    """What the verb prints for people, as a user would put it into a file."""
    argv = [str(Path(sys.executable).with_name("railwright")), "container", "flags", "-i", str(machine.inventory), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    return done.stdout


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    machine.site({
        "rdma_fabric": "roce", "rdma_stack": "soft_roce", "rdma_mtu": 9000, "rdma_consent": ["link", "restart"], "validate_perftest": False,
        "containers_image": IMAGE,
    })  # fmt: skip
    run = machine.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    machine.sh(MAKE_IMAGE.replace("{image}", IMAGE), timeout=600)
    return machine


def test_without_the_flags_there_is_no_device_and_a_limit(node: Machine) -> None:
    """The machine's podman gives neither by itself: what the next test sees comes from the flags."""
    said = node.fails("podman", "run", "--rm", "--network=host", "--ulimit=memlock=65536:65536", IMAGE, "sh", "-c", f"{SEE} || exit 7",
                      timeout=600)
    assert said.splitlines()[0] == "64"
    assert "PORT_ACTIVE" not in said


def test_a_container_sees_the_active_port_and_may_lock_all_memory(node: Machine) -> None:
    text = flags(node, "--", "sh", "-c", SEE)
    assert "\npodman run --rm" in text, "the runtime that the machine has"
    lines = node.sh(text, timeout=600).splitlines()
    assert lines[0] == "unlimited"
    assert [line.split()[1] for line in lines if line.startswith("hca_id:")] == ["rxe0"]
    assert any("PORT_ACTIVE" in line for line in lines), lines


def test_the_container_has_the_nccl_variables_as_the_node_has_them(node: Machine) -> None:
    given = node.sh(flags(node, "--", "env"), timeout=600).splitlines()
    wanted = [line for line in node.run("cat", "/etc/nccl.conf").splitlines() if not line.startswith("#")]
    assert len(wanted) >= 4
    assert set(wanted) <= set(given)


def test_shared_memory_and_cpus_as_they_were_asked_for(node: Machine) -> None:
    """A virtual machine's NIC has no NUMA node: it is said, and no CPU is chosen."""
    text = flags(node, "--near", "rxe0", "--", "df", "/dev/shm")
    assert "# the kernel does not say which NUMA node rxe0 is near: no CPUs are chosen" in text
    host = node.run("df", "/dev/shm").splitlines()[1].split()[1]
    assert node.sh(text, timeout=600).splitlines()[1].split()[1] == host, "the host's own, by --ipc=host"


def test_the_pod_is_accepted_and_runs(node: Machine) -> None:
    """podman reads the pod as Kubernetes' API has it. It has no device plugin, so the device is not asked for here."""
    text = flags(node, "--format", "kubernetes", "--", "sh", "-c", "env")
    (pod,) = yaml.safe_load_all(text)
    node.write("/root/pod.yml", text)
    node.run("podman", "kube", "play", "/root/pod.yml", timeout=600)
    name = f"{pod['metadata']['name']}-{pod['spec']['containers'][0]['name']}"
    assert node.run("podman", "wait", name, timeout=300).strip() == "0"
    said = node.run("podman", "logs", name, timeout=120).splitlines()
    for row in pod["spec"]["containers"][0]["env"]:
        assert f"{row['name']}={row['value']}" in said
    assert "[CAP_IPC_LOCK]" in node.run("podman", "inspect", "--format", "{{.HostConfig.CapAdd}}", name, timeout=120)
    node.run("podman", "kube", "play", "--down", "/root/pod.yml", timeout=300)
