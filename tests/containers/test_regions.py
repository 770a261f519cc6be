# SPDX-License-Identifier: GPL-3.0-or-later
"""Three regions of ten nodes, each behind a worker in a container of its own: workers are killed, stopped and cut off at drawn moments.

One kind of network reaches the workers' sshds by themselves, the other through a mesh of receptors that the workers build outwards. Nodes
are addresses of loopback inside their worker's container, so that nobody else reaches them; each has files of its own (overlays in memory)
and a secret.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harness
from harness import Container
from node_trees import ROOT
from ssh_world import OVERLAY

PACKAGES = ("openssh-server", "openssh-client", "ansible-core", "python3-ansible-runner", "receptor", "procps")
REGIONS = {"east": "root", "north": "root", "west": "deploy"}  # and who the controller logs in as on its worker
NODES = 10  # of a region
TIMES = int(os.environ.get("REGIONS_TIMES", "2"))  # runs with two faults; in 15 of them is each of the three kinds ten times
PATIENCE = 8
NODE_PORT, MESH_PORT, HUB_PORT = 2222, 27199, 2300
WORKER = "/usr/local/bin/worker-python"
PLACES = "/etc /run /var/lib /usr/local"  # of a node
NODE_OPTIONS = "-o StrictHostKeyChecking=yes -o UserKnownHostsFile=~/.ssh/known_nodes"  # and what the worker's configuration says
SITE_SSH = "Host *\n    ConnectTimeout 20\n"  # root's own file, which ssh of another user includes
ANSIBLE_CFG = "[defaults]\nlog_path=/var/log/ansible.log\nfact_caching=jsonfile\nfact_caching_connection=/var/tmp/facts\n"
OPTIONS = "-F none -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile={}"
# The controller's copies of the worker's half; -f would match the shell that asks.
OURS = "pgrep -f '[r]ailwright.region_worker'"
LEFT = "ps -eo stat=,args= | grep -v '^Z' | grep -E '[r]ailwright.region_worker|[a]nsible-playbook|[A]nsiballZ' || true"
# Files of the container, and what its processes were given: arguments, environments, open files and memory.
SEARCH = """
import os, sys
wanted = [word.encode() for word in sys.stdin.read().split()]
def holds(path, limit=64 << 20):
    try:
        with open(path, "rb") as stream:
            data = stream.read(limit)
    except OSError:
        return False
    return any(word in data for word in wanted)
found = []
for top, directories, files in os.walk("/"):
    if top == "/":
        directories[:] = [name for name in directories if name not in ("proc", "sys", "opt", "usr")]
    found += [os.path.join(top, name) for name in files if os.path.isfile(os.path.join(top, name)) and holds(os.path.join(top, name))]
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        found += ["/proc/%s/%s" % (pid, name) for name in ("cmdline", "environ") if holds("/proc/%s/%s" % (pid, name))]
print("\\n".join(found))
"""


class Fleet:
    def __init__(self, directory: Path, way: str) -> None:
        self.directory, self.way = directory, way
        self.workers: dict[str, Container] = {}
        self.hub: Container | None = None
        self.secrets = {f"{region}-{number}": secrets.token_hex(12) for region in REGIONS for number in range(NODES)}

    def start(self) -> None:
        image = harness.build(PACKAGES, "trixie")
        options = ("-v", f"{ROOT}:/opt/source:ro", "--tmpfs", "/dev/shm")
        for name in (*REGIONS, *(["hub"] if self.way == "receptor" else [])):
            container = harness.start(image, f"railwright-region-{name}", options=options)
            if name == "hub":
                self.hub = container
            else:
                self.workers[name] = container
        self._keys()
        for region, worker in self.workers.items():
            self._worker(region, worker)
        if self.hub is not None:
            self._mesh(self.hub)
        self._inventory()

    def _keys(self) -> None:
        for name in ("client", "node"):
            subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / name)), check=True)

    def _worker(self, region: str, worker: Container) -> None:
        """The controller logs in with its key; the worker has the key of its nodes, which are one sshd on ten addresses."""
        client, node = ((self.directory / f"{name}.pub").read_text() for name in ("client", "node"))
        user = REGIONS[region]
        home = "/root" if user == "root" else f"/home/{user}"
        worker.run("sh", "-c", f"id {user} >/dev/null 2>&1 || useradd --create-home --shell /bin/sh {user}")
        worker.write(f"{home}/.ssh/authorized_keys", client, "0600")
        worker.write(f"{home}/.ssh/nodes", (self.directory / "node").read_text(), "0600")
        worker.write("/etc/ssh/nodes.pub", node)
        worker.write("/etc/ssh/ssh_config.d/50-site.conf", SITE_SSH)
        worker.write("/etc/ansible/ansible.cfg", ANSIBLE_CFG)
        worker.write(WORKER, '#!/bin/sh\nPYTHONPATH=/opt/source/src:/opt/source/.dev exec /usr/bin/python3 "$@"\n', "0755")
        for number in range(NODES):
            lines = [f"Port {NODE_PORT}", f"ListenAddress {self.address(number)}", "HostKey /etc/ssh/ssh_host_ed25519_key", "PidFile none",
                     "AuthorizedKeysFile /etc/ssh/nodes.pub", "UsePAM no", "MaxStartups 100", "Subsystem sftp internal-sftp"]  # fmt: skip
            worker.write(f"/etc/ssh/node-{number}.conf", "\n".join(lines) + "\n")
            begin, own = f"set -eu; ROOM=/srv/room-{number}; mkdir -p $ROOM\n", OVERLAY.format(places=PLACES)
            script = f"{begin}{own}exec /usr/sbin/sshd -D -f /etc/ssh/node-{number}.conf"
            worker.run("systemd-run", f"--unit=node-{number}", "unshare", "--mount", "--propagation", "private", "sh", "-c", script)
        for number in range(NODES):
            worker.run("sh", "-c", f"for n in $(seq 100); do ssh-keyscan -t ed25519 -p {NODE_PORT} {self.address(number)} 2>/dev/null | "
                       "grep -q . && exit 0; sleep 0.1; done; exit 1")
        key = " ".join(worker.out("cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()[:2])
        known = "".join(f"[{self.address(number)}]:{NODE_PORT} {key}\n" for number in range(NODES))
        worker.write(f"{home}/.ssh/known_nodes", known)
        worker.run("chown", "-R", user, f"{home}/.ssh")
        at = f"[{self.hub.address()}]:{HUB_PORT + list(REGIONS).index(region)}" if self.hub is not None else worker.address()
        with (self.directory / "known_hosts").open("a") as stream:
            stream.write(f"{at} {key}\n")

    @staticmethod
    def address(number: int) -> str:
        return f"127.0.1.{number + 1}"

    def _mesh(self, hub: Container) -> None:
        """Each worker's receptor calls the hub's, and offers its sshd as a service; the hub has a port for each of them."""
        doors = [{"tcp-server": {"port": HUB_PORT + at, "bindaddr": hub.address(), "remotenode": region, "remoteservice": "ssh"}}
                 for at, region in enumerate(REGIONS)]
        self._receptor(hub, [{"node": {"id": "hub"}}, {"tcp-listener": {"port": MESH_PORT}}, *doors])
        for region, worker in self.workers.items():
            self._receptor(worker, [{"node": {"id": region}}, {"tcp-peer": {"address": f"{hub.address()}:{MESH_PORT}", "redial": True}},
                                    {"tcp-client": {"service": "ssh", "address": "127.0.0.1:22"}}])  # fmt: skip

    def _receptor(self, container: Container, config: list[dict[str, Any]]) -> None:
        container.write("/etc/receptor/mesh.conf", json.dumps(config))
        container.run("systemd-run", "--unit=mesh", "receptor", "--config", "/etc/receptor/mesh.conf")

    def _inventory(self) -> None:
        everybody = {"ansible_user": "root", "ansible_become": False, "ansible_port": NODE_PORT,
                     "ansible_python_interpreter": "/usr/bin/python3", "ansible_ssh_private_key_file": "~/.ssh/nodes",
                     "ansible_ssh_common_args": NODE_OPTIONS, "rdma_fabric": "roce", "rdma_mtu": 1500,
                     "rdma_stack": "inbox", "rdma_region_patience": PATIENCE,
                     "rdma_region_python": WORKER}  # fmt: skip
        children, outside = {}, {}
        for at, (region, worker) in enumerate(self.workers.items()):
            hosts = {f"{region}-{number}": {"ansible_host": self.address(number), "site_token": self.secrets[f"{region}-{number}"]}
                     for number in range(NODES)}
            children[f"in_{region}"] = {"hosts": hosts, "vars": {"rdma_region": region, "rdma_region_worker": f"worker-{region}"}}
            outside[f"worker-{region}"] = {
                "ansible_host": worker.address() if self.hub is None else self.hub.address(), "ansible_user": REGIONS[region],
                "ansible_port": 22 if self.hub is None else HUB_PORT + at, "ansible_ssh_private_key_file": str(self.directory / "client"),
                "ansible_ssh_common_args": OPTIONS.format(self.directory / "known_hosts")}  # fmt: skip
        site = {"all": {"hosts": outside, "children": {"rdma": {"children": children, "vars": everybody}}}}
        (self.directory / "hosts.json").write_text(json.dumps(site))

    def drift(self) -> subprocess.Popen[str]:
        return self.begin("drift")

    def ready(self) -> None:
        """A network that was away comes back in its own time, and a receptor dials again."""
        for at, worker in enumerate(self.workers.values()):
            host, port = (worker.address(), 22) if self.hub is None else (self.hub.address(), HUB_PORT + at)
            deadline = time.monotonic() + 90
            while not subprocess.run(("ssh-keyscan", "-T", "5", "-p", str(port), host), capture_output=True, check=False).stdout:
                assert time.monotonic() < deadline, (host, port)
                time.sleep(0.5)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        self.ready()
        argv = [sys.executable, "-m", "railwright", *words, "-i", str(self.directory / "hosts.json"), "--format", "json"]
        environment = {**os.environ, "XDG_STATE_HOME": str(self.directory / "state")}
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def remove(self) -> None:
        for container in (*self.workers.values(), *([self.hub] if self.hub is not None else [])):
            container.remove()


@pytest.fixture(scope="module", params=["ssh", "receptor"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp(request.param), request.param)
    try:
        made.start()
        yield made
    finally:
        made.remove()


def killed(worker: Container) -> None:
    worker.run("sh", "-c", f"kill -9 $({OURS}) 2>/dev/null || true")


def stopped(worker: Container) -> None:
    worker.run("sh", "-c", f"kill -STOP $({OURS}) 2>/dev/null || true")
    time.sleep(2 * PATIENCE)
    worker.run("sh", "-c", f"kill -CONT $({OURS}) 2>/dev/null || true")


def cut_off(worker: Container) -> None:
    """Its network is gone for a while; its nodes are not."""
    route = worker.out("ip", "route", "show", "default").split()
    worker.run("ip", "link", "set", "eth0", "down")
    time.sleep(2 * PATIENCE)
    worker.run("ip", "link", "set", "eth0", "up")
    worker.run("ip", "route", "replace", *route)  # it went with the link


def answered(fleet: Fleet) -> tuple[int, dict[str, Any], str]:
    process = fleet.drift()
    out, err = process.communicate(timeout=240)
    assert "Traceback" not in err, err
    return process.returncode, json.loads(out)["nodes"], err


def nothing_left(fleet: Fleet) -> None:
    """Neither processes nor secrets, on any worker."""
    for region, worker in fleet.workers.items():
        deadline = time.monotonic() + 4 * PATIENCE
        while (left := worker.out("sh", "-c", LEFT)) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert left == "", region
        assert worker.out("sh", "-c", "ls -d /var/log/ansible.log /var/tmp/facts 2>/dev/null || true") == "", region
        assert worker.run("python3", "-c", SEARCH, stdin=" ".join(fleet.secrets.values())).stdout.strip() == "", region


def test_all_regions_come_back_as_one_run(fleet: Fleet) -> None:
    code, nodes, said = answered(fleet)
    assert {(node["status"], node["message"]) for node in nodes.values()} == {("ok", "")}, said
    assert (code, set(nodes)) == (2, set(fleet.secrets)), said
    assert all(node["findings"] for node in nodes.values())
    nothing_left(fleet)


@pytest.mark.parametrize("time_of", range(TIMES))
def test_what_befalls_a_worker_is_its_nodes_alone(fleet: Fleet, time_of: int) -> None:
    """Two of the three, by two of the kinds, a drawn moment after the job begins there."""
    drawn = random.Random(f"{fleet.way} {time_of}")
    kinds = {killed: "went away", stopped: f"is silent for {PATIENCE} s", cut_off: f"is silent for {PATIENCE} s"}
    hit = dict(zip(drawn.sample(list(REGIONS), 2), [kind for at, kind in enumerate(kinds) if at != time_of % 3], strict=True))
    process = fleet.drift()

    def befall(region: str) -> None:
        worker = fleet.workers[region]
        while process.poll() is None and not worker.run("sh", "-c", OURS, check=False).stdout:
            time.sleep(0.1)
        time.sleep(drawn.uniform(0.0, 4.0))
        hit[region](worker)

    threads = [threading.Thread(target=befall, args=(region,)) for region in hit]
    for thread in threads:
        thread.start()
    out, said = process.communicate(timeout=240)
    for thread in threads:
        thread.join()
    assert "Traceback" not in said, said
    nodes = json.loads(out)["nodes"]
    assert (process.returncode, set(nodes)) == (3, set(fleet.secrets)), said
    for name, node in nodes.items():
        region = name.partition("-")[0]
        if region in hit:
            assert node["status"] == "unreachable", (name, node)
            assert node["message"].startswith(f"worker worker-{region} of region {region} {kinds[hit[region]]}"), node["message"]
        else:
            assert (node["status"], bool(node["findings"])) == ("ok", True), (name, node)
    nothing_left(fleet)


def test_an_apply_goes_on_where_a_region_was_lost(fleet: Fleet) -> None:
    """In batches; of the second region's first batch the worker is killed as it works."""
    words = ("apply", "--area", "nccl", "--limit", "*-0,*-1", "--yes")
    process = fleet.begin(*words, "--batch", "3")
    worker, said = fleet.workers["north"], ""
    assert process.stderr is not None
    for line in process.stderr:
        said += line
        if "apply: north-0: changing" in line:
            break
    while process.poll() is None and not worker.run("sh", "-c", OURS, check=False).stdout:
        time.sleep(0.1)
    time.sleep(0.5)  # long before it is done
    killed(worker)
    out, rest = process.communicate(timeout=300)
    said += rest
    assert (process.returncode, "worker worker-north of region north went away" in said) == (3, True), said
    assert "--resume" in said
    process = fleet.begin("apply", "--resume", "--yes")
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    process = fleet.begin("plan", *words[1:-1])
    out, said = process.communicate(timeout=300)
    assert {name: len(node["changes"]) for name, node in json.loads(out)["nodes"].items()} == {
        f"{region}-{number}": 0 for region in REGIONS for number in (0, 1)}
    nothing_left(fleet)


def test_the_next_run_finds_all_of_them_again(fleet: Fleet) -> None:
    code, nodes, said = answered(fleet)
    assert (code, {node["status"] for node in nodes.values()}) == (2, {"ok"}), said
