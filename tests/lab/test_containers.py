# SPDX-License-Identifier: GPL-3.0-or-later
"""What `container flags` prints starts real containers, of podman and of docker: verbs on the Soft-RoCE device, unlimited locked memory,
NCCL's variables, a Compose service, a pod; and perftest between containers of two machines.

The image is made on each machine, of the machine's own programs: nothing is fetched.
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
RAILS = 1
IMAGE = "localhost/rdma:1"
ENGINES = ("podman", "docker")
# Programs with the libraries that they name, and libibverbs' drivers, which they open by name.
MAKE_IMAGE = r"""
root=/srv/lab/rootfs
mkdir -p $root/proc $root/sys $root/dev $root/tmp $root/etc
libraries=/usr/lib/x86_64-linux-gnu
copy() { for file in "$@"; do cp -L --parents "$file" $root/; ldd "$file" | grep -o '/[^ ]*' | while read -r need; do
    cp -L --parents "$need" $root/; done; done; }
copy /bin/sh /bin/cat /bin/df /usr/bin/env /usr/bin/ibv_devinfo /usr/bin/ib_write_bw /usr/bin/ib_send_bw
copy $libraries/libibverbs/librxe-rdmav34.so
cp -r --parents /etc/libibverbs.d $root/
tar -C $root -cf $root.tar .
for engine in podman docker; do $engine import --change 'ENV PATH=/usr/bin:/bin' $root.tar {image}; done
rm -r $root $root.tar
"""
SEE = "ulimit -l; cat /proc/sys/kernel/hostname; ibv_devinfo"
MESSAGE, MESSAGES = 65536, 200
# By GID 1, the one of the IPv4 address, and by RDMA-CM, which needs its own device node beside uverbs.
TRAFFIC = {"ib_write_bw": ("-d", "rxe0", "-x", "1"), "ib_send_bw": ("-R",)}
LISTENS = {"ib_write_bw": "ss -Htln sport = :18515 | grep -q .", "ib_send_bw": "rdma resource show cm_id | grep -q LISTEN"}
SERVER = "10.77.0.12"
Pair = tuple[Machine, Machine]


def flags(machine: Machine, *arguments: str) -> str:
    """What the verb prints for people, as a user would put it into a file."""
    argv = [str(Path(sys.executable).with_name("railwright")), "container", "flags", "-i", str(machine.inventory), "--limit", machine.node]
    done = subprocess.run([*argv, *arguments], capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    return done.stdout


def ports(lines: list[str]) -> tuple[list[str], bool]:
    """The devices that ibv_devinfo lists, and whether a port is active."""
    return [line.split()[1] for line in lines if line.startswith("hca_id:")], any("PORT_ACTIVE" in line for line in lines)


@pytest.fixture(scope="module")
def pair(machines: Pair) -> Pair:
    one, two = machines
    one.site({
        "rdma_fabric": "roce", "rdma_stack": "soft_roce", "rdma_mtu": 9000, "rdma_consent": ["link", "restart"], "validate_perftest": False,
        "containers_image": IMAGE, "rdma_confirm_timeout_s": 600,  # slow to answer, and nothing here is to be reverted
    })  # fmt: skip
    run = one.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    for machine in machines:
        machine.sh(MAKE_IMAGE.replace("{image}", IMAGE), timeout=900)
    return one, two


@pytest.fixture(scope="module")
def node(pair: Pair) -> Machine:
    return pair[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_without_the_flags_there_is_no_device_and_a_limit(node: Machine, engine: str) -> None:
    """The engine gives neither by itself: what the next test sees comes from the flags."""
    said = node.fails(engine, "run", "--rm", "--network=host", "--ulimit=memlock=65536:65536", IMAGE, "sh", "-c", f"{SEE} || exit 7",
                      timeout=600)
    assert said.splitlines()[0] == "64"
    assert "PORT_ACTIVE" not in said


@pytest.mark.parametrize("engine", ENGINES)
def test_a_container_sees_the_active_port_and_may_lock_all_memory(node: Machine, engine: str) -> None:
    text = flags(node, "--format", engine, "--", "sh", "-c", SEE)
    assert f"\n{engine} run --rm" in text
    lines = node.sh(text, timeout=600).splitlines()
    assert lines[0] == "unlimited"
    assert ports(lines) == (["rxe0"], True), lines


@pytest.mark.parametrize("tool", TRAFFIC)
@pytest.mark.parametrize("engine", ENGINES)
def test_perftest_between_containers_of_two_machines(pair: Pair, engine: str, tool: str) -> None:
    one, two = pair
    words = ("--format", engine, "--", tool, *TRAFFIC[tool], "-F", "-s", str(MESSAGE), "-n", str(MESSAGES))
    ask, serve = flags(one, *words, SERVER), flags(two, *words)
    before = int(one.run("cat", "/sys/class/net/eth1/statistics/tx_bytes"))
    argv = lab.ssh_argv(two.node, ["sh", "-euc", serve], state_dir=two.state_dir)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            two.sh(f"for second in $(seq 200); do ! {LISTENS[tool]} || exit 0; sleep 1; done; exit 1", timeout=600)
            said = one.sh(ask, timeout=600)
            assert server.wait(timeout=300) == 0, server.stdout and server.stdout.read()
        finally:
            server.kill()
            two.sh(f"for left in $({engine} ps --quiet); do {engine} kill $left; done", timeout=600)
    print(engine, said)
    rows = [line.split() for line in said.splitlines()]
    (row,) = [row for row in rows if row[:2] == [str(MESSAGE), str(MESSAGES)]]
    assert float(row[3]) > 0, said
    sent = int(one.run("cat", "/sys/class/net/eth1/statistics/tx_bytes")) - before
    assert sent > MESSAGE * MESSAGES, "over the rail, by the interface's own count"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_container_has_the_nccl_variables_as_the_node_has_them(node: Machine, engine: str) -> None:
    given = node.sh(flags(node, "--format", engine, "--", "env"), timeout=600).splitlines()
    wanted = [line for line in node.run("cat", "/etc/nccl.conf").splitlines() if not line.startswith("#")]
    assert len(wanted) >= 4
    assert set(wanted) <= set(given)


@pytest.mark.parametrize("engine", ENGINES)
def test_shared_memory_and_cpus_as_they_were_asked_for(node: Machine, engine: str) -> None:
    """A virtual machine's NIC has no NUMA node: it is said, and no CPU is chosen."""
    text = flags(node, "--format", engine, "--near", "rxe0", "--", "df", "/dev/shm")
    assert "# the kernel does not say which NUMA node rxe0 is near: no CPUs are chosen" in text
    host = node.run("df", "/dev/shm").splitlines()[1].split()[1]
    assert node.sh(text, timeout=600).splitlines()[1].split()[1] == host, "the host's own, by --ipc=host"


def test_a_compose_service_sees_the_same(node: Machine) -> None:
    node.write("/root/compose.yml", flags(node, "--format", "compose", "--", "sh", "-c", SEE))
    said = node.run("docker-compose", "--file", "/root/compose.yml", "up", "--no-color", timeout=900).splitlines()
    node.run("docker-compose", "--file", "/root/compose.yml", "down", timeout=600)
    lines = [line.partition("| ")[2].lstrip() for line in said if "| " in line]
    assert lines[0] == "unlimited", said
    assert ports(lines) == (["rxe0"], True), said


def test_a_docker_that_does_not_run_comes_after_podman(node: Machine) -> None:
    """Both are on the machine: by itself the verb takes docker, as long as its daemon answers."""
    assert "\ndocker run --rm" in flags(node, "--", "env")
    node.run("systemctl", "stop", "docker.socket", "docker.service")
    try:
        assert "\npodman run --rm" in flags(node, "--", "env")
    finally:
        node.run("systemctl", "start", "docker.socket", "docker.service")


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
