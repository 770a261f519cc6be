# SPDX-License-Identifier: GPL-3.0-or-later
"""What an honest node answers to every module and mode that our plays ask for; facts are those of a tree in tests/fixtures/nodes.

Written by hand where the answer needs hardware, root's changes or a package manager. Every one of them passes the gate (test_table.py), and
every form of the gate has one.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.observe.mpi import Mpi
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import LoadableNccl
from ansible_collections.railwright.rdma.plugins.module_utils.observe.traffic_counters import Watched
from node_trees import FACTS

FACTS = json.loads((FACTS / "rxe.json").read_text())
SHA = "ab" * 32
PACKED = "what a build is packed into"
KEY = "network: MTU of rail0 (eth1)"
CHANGE = {"key": KEY, "area": "network", "what": "MTU of rail0 (eth1)", "before": 1500, "after": 9000, "disruption": "none",
          "why": "jumbo frames", "source": "inventory mtu", "subject": {"kind": "interface", "name": "eth1"}, "when": "now",
          "rail": "rail0"}
PCI_LINK = {
    "device": "0000:1b:00.0", "port": "0000:1a:01.0", "speed_gts": 32.0, "width": 16, "best_speed_gts": 32.0, "best_width": 16,
    "device_speed_gts": 32.0, "device_width": 16, "port_speed_gts": 32.0, "port_width": 16,
}
VERDICT = {"check": "port.state", "node": "n", "hca": "rxe0", "port": 1, "subject": "rail0 (eth1)", "status": "pass",
           "expected": "ACTIVE", "found": "ACTIVE", "message": "the port is ACTIVE"}
FINDING = {"key": KEY, "kind": "setting", "area": "network", "what": "MTU of rail0 (eth1)", "expected": 9000, "found": 1500,
           "severity": "major", "disruption": "none", "why": "jumbo frames", "since": 1700000000.0, "by": "nobody knows"}
PACKAGE = {"area": "packages", "state": "present", "names": ["rdma-core=44.0-2"]}
PACKAGES = {"manager": "apt", "steps": [PACKAGE], "needed": True, "downloads": [
    {"url": "https://example.com/key.asc", "dest": "/var/cache/railwright/keys/doca", "checksum": ""}]}
PLAN = {
    "changed": False, "plan": [CHANGE], "problems": [], "before": {KEY: 1500}, "after": {KEY: 9000},
    "notes": ["a container"], "erdma": None, "drivers": {"kernel": "6.1.0-18-amd64"},
    "reboot_needed": [], "remaining": [], "left": [], "packages": PACKAGES, "restore_point": "",
}
CONFIRMED = {"changed": False, "confirm": {"state": "applied", "run": "r1", "changes": [KEY], "troubles": [], "restore_point": ""},
             "restore_point": ""}
ROLLBACK = {
    "changed": False, "plan": [CHANGE], "problems": [], "notes": [], "reboot_needed": [], "known": True, "restore_points": [],
    "undone": ["r1-network"], "to": "r1",
}
RUNS = [{"run": "r1", "points": ["r1"], "when": 1700000000.0, "state": "applied", "files": 1, "values": 0, "commands": 0, "packages": [],
         "packages_assumed": False, "undid": []}]
NEIGHBOUR = {"hca": "rxe0", "port": 1, "netdev": "eth1", "why": "", "by": "lldpd", "switch": "leaf1", "switch_id": "aa:bb:cc:dd:ee:ff",
             "switch_port": "Ethernet12", "switch_port_name": "etp4", "mtu": 9216, "vlan": 100}
RAIL = {"name": "rail0", "label": "rail0 (eth1)", "address": "198.18.0.1", "mtu": 9000, "netdev": "eth1", "hca": "rxe0", "port": 1,
        "gid_index": 1, "gid_needed": True, "rdma_cm": False, "exchange": "192.0.2.1"}
LEASE = {"run": "playbook-pins", "controller": "c", "user": "u", "since": "2026-01-01T00:00:00Z", "step": "preflight"}
CUDA = {"host": "n", "rank": 0, "devices": [["NVIDIA H200", "0000:1b:00.0", 150754820096]], "error": None, "cuda": "13.0", "nccl": "2.30.7"}
WATCHED = Watched("rail0 (eth1)", "mlx5_0", 1, "mlx5_core", ("eth1",))._asdict() | {"netdevs": ["eth1"]}
SEEN = {
    "node": "n", "hostname": "n", "user": "mpi", "python": "/usr/bin/python3", "directory": "/opt/nccl-tests",
    "libraries": ["/opt/nccl/lib"], "interface": {"name": "eth0", "networks": ["192.0.2.0/24"]}, "cuda": CUDA, "driver": "580.65.06",
    "nccl": [LoadableNccl("/opt/nccl/lib/libnccl.so.2", "2.30.7", "named")._asdict()], "nccl_conf": ["NCCL_DEBUG"],
    "net_plugins": ["/usr/lib/libnccl-net.so"],
    "mpi": [Mpi("openmpi4", "4.1.4", "/usr", "/usr/bin/mpirun")._asdict()],
    "slurm": {"srun": None, "sinfo": None, "scancel": None}, "needs_job": False,
    "programs": [{"name": "all_reduce_perf", "path": "/opt/nccl-tests/all_reduce_perf", "sha256": SHA, "json": True, "problem": None}],
    "affinity": [{"gpu": "0000:1b:00.0", "hca": "mlx5_0", "port": 1, "path": "PIX", "near": True}], "verdicts": [VERDICT], "problems": [],
    "places": [{"pci": "0000:1b:00.0", "rail": "rail0", "numa_node": 0, "links": [PCI_LINK]}],
    "ports": [WATCHED], "ends": {"rail0": "mlx5_0:1"},
}
BUILD = {
    "arch": "x86_64", "gpus": [{"pci": "0000:1b:00.0", "device_id": "0x2335", "capability": "9.0"}],
    "nvcc": {"path": "/usr/local/cuda/bin/nvcc", "home": "/usr/local/cuda", "version": "12.8", "codes": ["sm_90"]},
    "nccl": {"library": "/opt/nccl/lib/libnccl.so.2", "include": "/opt/nccl/include", "version": "2.30.7", "origin": "prefix"},
    "mpi": {"kind": "openmpi4", "version": "4.1.4", "directory": "/usr/lib", "include": "/usr/include", "library": "/usr/lib/libmpi.so"},
    "missing_tools": [], "library_path": ["/opt/nccl/lib"], "mount": None,
}
MANIFEST = {"key": "0" * 12, "programs": {"all_reduce_perf": SHA}}
# Nothing is missing but the link: what is made is asked for in the background (test_plays.py).
PREFIX = {"version": "2.30.7", "directory": "/opt/railwright/nccl/2.30.7-cu13", "missing": False, "needed": True,
          "artifact": "nccl-wheel-cu13-x86_64", "url": "https://example.com/nccl.whl", "sha256": SHA,
          "file": "/var/cache/railwright/nccl/nccl.whl", "install": "wheel", "cuda": "13"}
RELEASE = {"plan": [], "drivers": {}, "notes": []}
HPCX = {name: PREFIX[name] for name in ("version", "missing", "needed", "artifact", "url", "sha256")} | {
    "directory": "/opt/railwright/hpcx/2.30", "file": "/var/cache/railwright/hpcx/hpcx.tbz"}
ENVIRONMENT = {"kind": "venv", "name": "torch-2.9.1", "directory": "/opt/railwright/ai/torch-2.9.1", "missing": False, "needed": True,
               "python": "/opt/railwright/ai/torch-2.9.1/bin/python", "broken": [], "wheels": [],
               "torch": None}
HOST_KEY = "ssh-ed25519 " + "A" * 68
MESH_KEY = f"ssh-ed25519 {'B' * 68} railwright-mesh generation=1 serial=1"
MESH = {"user": "mpi", "public_key": None, "authorized": None, "addresses": ["198.18.0.1"], "port": 22, "host_keys": [HOST_KEY],
        "hostname": "n", "problems": []}
DRAIN = {"node": "n", "state": "drained", "jobs": [], "holders": [], "reason": "railwright upgrade: playbook-pins", "by": "us",
         "message": None, "raw": "DRAINED", "closed": True, "empty": True, "done": True}
EXPLANATION = {"path": "none", "reason": "no GPU", "problem": None, "release": None, "gpus": 0, "hcas": ["rxe0"], "refused": [],
               "evidence": []}
CONTAINER = {
    "hostname": "n", "captured": False, "arch": "x86_64", "infiniband": {"devices": [], "present": True}, "hcas": [], "gpus": [],
    "driver": None, "numa": [], "variables": {}, "files": [], "addresses": [], "runtimes": [], "toolkit": None, "cdi": [], "image": None,
    "notes": [],
}
TRAFFIC = {"rail": "rail0", "hca": "rxe0", "port": 1, "peer": "n", "seconds": 1.0, "counters": {"rx_discards": 0}, "interfaces": {},
           "backwards": []}
COLLECTED = {"rc": 0, "ranks": [{"torch": "2.9.1"}], "failures": [], "result": None, "log": "", "way": ""}
SAID = {"changed": False}
SOURCE = {name: PREFIX[name] for name in HPCX} | {
    "directory": "/usr/src/erdma-1.4", "file": "/var/cache/railwright/erdma/e.tgz"}
PEER_SOURCE = {"url": "https://example.com/p.tgz", "sha256": SHA, "directory": "/usr/src/nv_peer_mem-1.3", "release": "1.3"}

PAIR = {"gpu": "0000:1b:00.0", "number": 0, "hca": "rxe0", "port": 1, "gid_index": 1, "rail": "rail0 (eth1)", "numa_node": None}

PROBE = """#railwright:uid
0
#railwright:kernel
6.1.0-18-amd64
#railwright:arch
x86_64
#railwright:clock
NOW
#railwright:synchronised
yes
#railwright:init
systemd
#railwright:free
Filesystem 1024-blocks Used Available Capacity Mounted on
/dev/vda 100000000 1000 99999000 1% /
#railwright:disks
#railwright:python
3.11.2 /usr/bin/python3
#railwright:os
ID=debian
VERSION_ID="12"
VERSION_CODENAME=bookworm
PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
#railwright:end
"""

RANK = {
    "rank": 0, "size": 2, "step": "0", "pid": 1234, "name": "python3", "states": "SSSSSS", "waits": ["futex_do_wait"], "busy": [0.1],
    "cpu": 0.01, "system": 0.5, "switches": 0, "moved": 0, "unread": 0, "stack": ["[<0>] rpc_wait+0x1"], "nccl": True, "began_on": "n[1-2]",
    "gpus": [100], "recorded": [{"group": "0", "seq": 7, "op": "all_reduce", "state": "started"}],
}
ANSWERS: dict[str, dict[str, Any]] = {
    "rdma_check:verdicts": {**SAID, "verdicts": [VERDICT], "facts": FACTS, "stack": "inbox", "rails": [RAIL], "neighbours": [NEIGHBOUR],
                    "gpudirect": {"path": "dmabuf", "gpus": 1, "why_not": None, "pairs": [PAIR]}},
    "rdma_state:container": {**SAID, "container": CONTAINER},
    "rdma_bench:ddp.inspect": {**SAID, "seen": {
        "user": "mpi", "python": "/usr/bin/python3", "torch": "2.9.1", "processes": 1, "port_taken": False,
        "interface": {"name": "eth0", "addresses": ["198.18.0.1"]}, "ports": [WATCHED]}},
    "rdma_bench:ddp.start": {**SAID, "process": {"pid": 1234, "start_time": "5678", "at": 1.0}},
    "rdma_bench:ddp.poll": {**SAID, "done": True, "over": True, "exit": 0, "progress": {"seconds": 1.0}},
    "rdma_bench:ddp.stop": {**SAID, "ended": 0},
    "rdma_bench:ddp.collect": {**SAID, "collected": COLLECTED, "counters": [VERDICT], "traffic": [TRAFFIC]},
    "rdma_drain:*": {**SAID, "drains": [DRAIN]},  # the nodes that are asked for: connection/liar.py
    "rdma_check:drift": {**SAID, "findings": [FINDING], "judged": ["network"], "unknown": [], "unasked": [], "drivers": {}, "notes": []},
    "rdma_check:cabling": {**SAID, "cabling": {"rails": [RAIL], "neighbours": [NEIGHBOUR]}},
    "rdma_check:check": {**SAID, "verdicts": [VERDICT], "overview": {"node": "Debian GNU/Linux 12 (bookworm)", "HCAs": "1 (rdma_rxe)"}},
    "rdma_check:agent": {**SAID, "agent": {
        "mode": "drain", "word": "refuse", "age": 14.0, "reason": "gpu.xid GPU 0000:1b:00.0: Xid 79", "trouble": "", "text": ["n: 1 open"],
        "held": ["gpu.nvlink"], "model": "NVIDIA H200, MT4129", "observed": "", "versions": [
            {"name": "driver", "value": "580.159.04", "ago": None}, {"name": "firmware", "value": "28.47.1080", "ago": 9.0}],
        "offenders": [{"part": "gpu 1653", "times": 2}], "downs": [{"part": "port 1", "name": "mlx5_0 (eth1)", "ago": 9.0}],
        "findings": [{"id": "3fa90c1e", "check": "gpu.xid", "subject": "GPU 0000:1b:00.0", "part": "gpu 1653", "status": "fail",
                      "text": "Xid 79", "known": {"reason": "GPU ordered", "by": "root", "t": 1.0}, "mode": "enforce", "fresh": False,
                      "ago": 60.0}]}},
    "rdma_check:hold": {**SAID, "hold": {"before": [], "now": ["all"]}},
    "rdma_check:trial": {**SAID, "trial": {"days": 30.0, "failures": [
        {"check": "gpu.xid", "subject": "GPU 0000:1b:00.0", "began": 86400.0, "ended": None}]}},
    "rdma_check:bundle": {**SAID, "bundle": {"left_out": ["/etc/shadow"], "entries": [
        {"path": "/etc/os-release", "kind": "file", "text": "ID=debian\n", "mode": 0o644, "mtime": 1.0},
        {"path": "/sys/bus/pci/devices/0000:1b:00.0/config", "kind": "file", "base64": "3q0="},
        {"path": "/sys/class/net", "kind": "directory", "names": ["eth1", "lo"]}, {"path": "/lib", "kind": "link", "to": "usr/lib"}]}},
    "rdma_facts:facts": {**SAID, "rdma": FACTS},
    "rdma_facts:ranks": {**SAID, "ranks": {"ranks": [RANK], "counters": [{"hca": "mlx5_0", "port": 1, "growth": {"port_xmit_data": 9}}],
                                           "xids": ["NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."]}},
    "rdma_state:explain": {**SAID, "explanation": EXPLANATION},
    "rdma_state:source": {**SAID, "source": PEER_SOURCE},
    "rdma_measure:gpudirect": {**SAID, "verdicts": [VERDICT]},
    "rdma_bench:nccl_tests.inspect": {**SAID, "seen": SEEN},
    "rdma_bench:nccl_tests.probe": {**SAID, "status": 0, "answers": [CUDA], "reason": None, "tail": []},
    "rdma_bench:nccl_tests.start": {**SAID, "job": "all_reduce", "pid": 1234},
    "rdma_bench:nccl_tests.poll": {**SAID, "ended": True, "status": 0, "too_much": False, "progress": None, "tail": []},
    "rdma_bench:nccl_tests.stop": {**SAID, "ended": 0},
    "rdma_bench:nccl_tests.collect": {**SAID, "jobs": [], "ended": 0, "spent": [], "nccl_topo": None, "nccl_graph": None,
                                       "counters": [VERDICT], "traffic": [TRAFFIC]},
    "rdma_bench:*": SAID,
    "rdma_packages:check": {**SAID, "steps": [PACKAGE], "later": False, "resolved": [
        {"name": "rdma-core", "from": None, "to": "44.0-2", "origin": "Debian"}]},
    "rdma_packages:failed": {"failed": True, "msg": "the package step failed", "explains": True},
    "rdma_measure:start": {**SAID, "verdicts": [], "open_ports": [18515, 18516]},
    "rdma_measure:run": {**SAID, "verdicts": [VERDICT]},
    "rdma_measure:stop": {**SAID, "verdicts": [], "traffic": [TRAFFIC], "ended": 0},
    "rdma_measure:health": {**SAID, "health": {
        "gpus": [{"index": 0, "uuid": "GPU-6e4d4e0b", "serial": "1753024036354", "name": "NVIDIA H100", "celsius": 35, "margin_celsius": 52,
                  "hw_thermal_us": 0, "sw_thermal_us": 0, "hw_thermal": 0, "sw_thermal": 0, "uncorrected": 0, "corrected": 0}],
        "nics": [{"hca": "mlx5_0", "serial": "MT2334X00ABC"}],
        "diag": {"why": None, "results": [{"test": "memory", "gpu": 0, "serial": None, "status": "pass", "text": ""}]}}},
    "rdma_measure:ping": {**SAID, "pings": [], "rails": [{"name": "rail0", "macs": [], "dad_failed": False}]},
    **{f"rdma_prefix:{product}.{step}": {**SAID, **RELEASE, "release": {**release, "needed": step == "inspect"}}
       for product, release in (("nccl", PREFIX), ("hpcx", HPCX), ("erdma_driver", SOURCE), ("ai_environment", ENVIRONMENT))
       for step in ("inspect", "install")},
    "rdma_prefix:nccl_tests.inspect": {**SAID, "node": BUILD},
    "rdma_prefix:nccl_tests.state": {**SAID, "programs": {}, "manifest": None},
    "rdma_prefix:nccl_tests.build": {**SAID, "manifest": MANIFEST},
    "rdma_prefix:nccl_tests.pack": {**SAID, "sha256": hashlib.sha256(PACKED.encode()).hexdigest()},
    "rdma_prefix:nccl_tests.verify": {**SAID, "library_path": ["/opt/nccl/lib"]},
    "rdma_prefix:*": SAID,
    "rdma_rollback:inspect": {**SAID, "restore_points": RUNS},
    "rdma_rollback:plan": ROLLBACK, "rdma_rollback:prove": ROLLBACK, "rdma_rollback:apply": ROLLBACK,
    "rdma_rollback:packages_before": {**SAID, "record": "r1-packages"},
    "rdma_rollback:packages_after": {**SAID, "record": "r1-packages", "packages_changed": ["rdma-core"]},
    "rdma_ssh_mesh:observe": {**SAID, "node": MESH},
    "rdma_ssh_mesh:generate": {"changed": True, "changes": ["key pair"], "public_key": MESH_KEY},
    "rdma_ssh_mesh:read": {**SAID, "private_key": "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n"},
    "rdma_ssh_mesh:key": {"changed": True, "changes": ["key pair"], "public_key": MESH_KEY},
    "rdma_ssh_mesh:apply": {"changed": True, "changes": ["authorized_keys"], "diff": []},
    "rdma_ssh_mesh:login": {**SAID, "login": {"configured": True, "user": "mpi", "logins": {"n": None, "m": "Permission denied"}}},
    "rdma_ssh_mesh:*": SAID,
    "rdma_state:plan": PLAN,
    "rdma_state:apply": {**PLAN, "changed": True, "restore_point": "/var/lib/railwright/restore/r1", "plan": [CHANGE]},
    "rdma_state:confirm": CONFIRMED, "rdma_state:outcome": CONFIRMED,
    "rdma_upgrade:lease": {"changed": True, "lease": LEASE, "taken_over_from": None, "busy": None},
    "rdma_upgrade:release": {"changed": True, "lease": None},
    # Ansible's own.
    "apt:": {"changed": True}, "dnf:": {"changed": True, "results": []}, "file:": {"changed": True, "path": "/x", "state": "directory"},
    "get_url:": {"changed": True, "dest": "/x"}, "slurp:": {"changed": False, "content": "Zmlyc3QK", "encoding": "base64", "source": "/x"},
    "stat:": {"changed": False, "stat": {"exists": False}}, "systemd_service:": {"changed": True, "status": {}},
    "systemd:": {"changed": True, "status": {}}, "command:": {"changed": True, "rc": 0, "stdout": "", "stderr": "", "cmd": []},
    "copy:": {"changed": True, "dest": "/x"}, "ping:": {"ping": "pong"}, "unarchive:": {"changed": True, "dest": "/x"},
    "async_wrapper:": {"started": 1, "finished": 0, "ansible_job_id": "j12345.42", "results_file": "/root/.ansible_async/j12345.42"},
    "async_status:": {"started": 1, "finished": 1, "ansible_job_id": "j12345.42", "changed": True},
    "setup:": {"ansible_facts": {"ansible_distribution": "Debian", "ansible_distribution_version": "12", "ansible_os_family": "Debian",
                                "ansible_pkg_mgr": "dnf4"}},
    "find:": {"changed": False, "files": [{"path": "/sbin/shutdown"}]},
}


def texts() -> dict[str, str]:
    """As a module prints them."""
    computed = {"rdma_measure:ping": "@pings", "rdma_drain:*": "@drains"}  # of what is asked for: connection/liar.py
    plain = {"shell:": "/remote/tmp", "fetch:": PACKED, "probe:": PROBE.replace("NOW", f"{time.time():.0f}")}
    return {key: json.dumps(answer) for key, answer in ANSWERS.items()} | plain | computed
