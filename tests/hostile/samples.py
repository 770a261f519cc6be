# SPDX-License-Identifier: GPL-3.0-or-later
"""Real text of others, shortened: what fuzz_table.py starts from."""

from tests.lib import profile_trees

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.model import DesiredInterface
from ansible_collections.railwright.rdma.plugins.module_utils.formats import openpgp
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import kubernetes
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import files

NODES = profile_trees.NODES
IB8 = NODES / "ib8"


def captured(name: str) -> str:
    """A file of a captured node."""
    return (NODES / name).read_text(encoding="utf-8")


LOG = (
    "node1:11:22 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>\n"
    "node1:11:22 [0] NCCL INFO NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=800000 ndevs=2\n"
    "node1:11:22 [0] NCCL INFO Using network IBext_v8\n"
    "node1:11:22 [1] NCCL INFO comm 0x55d0 rank 1 nranks 2 cudaDev 1 busId 1b000 - Init COMPLETE\n"
    "node1:11:22 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IBext_v8/0(1)/GDRDMA\n"
    "node1:11:22 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    'node1:11:22 [0] NCCL WARN Missing "x" DEPRECATED\n'
    "node1: Test NCCL failure common.cu:958 'unhandled system error'\n"
)
TABLE = (
    "# nThread 1 nGpus 1\n#  Rank  0 Group  0 Pid  11 on  node1 device  0 [0000:1b:00] NVIDIA H200\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)\n"
    "     1048576        262144     float     sum      -1    99.50   10.50   20.25      0    98.50   10.75   20.50    N/A\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 20.3750 \n#\n"
)
HALF = {"time": 11.25, "alg_bw": 1.5, "bus_bw": 2.25, "nwrong": 0}
REPORT = {
    "version": 3, "args": ["x"], "env": ["TOKEN=a"], "nccl_version": 23007, "errors": ["x"], "end_time": "2026-11-21 07:23:51",
    "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": " -1", "out_of_place": HALF, "in_place": HALF}],
    "out_of_bounds": {"count": 7}, "average_bus_bandwidth": {"bandwidth": 12.5},
}  # fmt: skip
POD = {
    "metadata": {"namespace": "a", "name": "b", "uid": "c", "annotations": {}, "ownerReferences": [{"kind": "Job", "controller": True}]},
    "status": {"phase": "Running"},
    "spec": {"nodeName": "gpu1"},
}
KUBE_NODE = {
    "metadata": {"name": "gpu1", "resourceVersion": "77", "annotations": {kubernetes.NOTE: "railwright: x"}},
    "spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}  # fmt: skip
ADDRESS = {
    "ifindex": 2,
    "ifname": "eth1",
    "mtu": 9000,
    "max_mtu": 9978,
    "operstate": "UP",
    "addr_info": [
        {"family": "inet", "local": "10.10.0.11", "prefixlen": 24, "scope": "global", "metric": 100, "dadfailed": True},
        {"family": "inet6", "local": "fe80::1", "prefixlen": 64, "scope": "link", "noprefixroute": True},
    ],
}
ROUTE = {
    "dst": "10.10.0.0/24",
    "dev": "eth1",
    "protocol": "kernel",
    "scope": "link",
    "prefsrc": "10.10.0.11",
    "flags": ["onlink"],
    "metric": 100,
    "table": 47911,
    "gateway": "10.10.0.1",
    "nexthops": [{"dev": "eth1", "gateway": "10.10.0.1"}],
}
RULE = {"priority": 4791, "src": "10.10.0.11", "table": "47910"}
NFT = {
    "nftables": [
        {"metainfo": {"version": "1.0.6"}},
        {
            "chain": {
                "family": "inet",
                "table": "filter",
                "name": "input",
                "handle": 1,
                "type": "filter",
                "hook": "input",
                "prio": 0,
                "policy": "drop",
            }
        },
        {"chain": {"family": "inet", "table": "filter", "name": "more", "handle": 2}},
        {
            "set": {
                "family": "inet",
                "table": "filter",
                "name": "peers",
                "type": "ipv4_addr",
                "elem": [{"prefix": {"addr": "10.0.0.0", "len": 8}}, "10.1.1.1"],
            }
        },
        {
            "rule": {
                "family": "inet",
                "table": "filter",
                "chain": "input",
                "handle": 5,
                "comment": "x",
                "expr": [
                    {
                        "match": {
                            "op": "==",
                            "left": {"payload": {"protocol": "udp", "field": "dport"}},
                            "right": {"set": [4791, {"range": [1, 2]}]},
                        }
                    },
                    {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}},
                    {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth1"}},
                    {"vmap": {"key": {"payload": {"protocol": "ip", "field": "saddr"}}, "data": {"set": [["10.0.0.1", {"accept": None}]]}}},
                    {"jump": {"target": "more"}},
                    {"accept": None},
                ],
            }
        },
    ]
}
DCB = {
    "order": ["dscp", "pcp"],
    "pfc-cap": 8,
    "prio-pfc": [False] * 8,
    "dscp-prio": [[26, 3]],
    "prio-tc": [0] * 8,
    "tc-bw": [50] * 8,
    "tc-tsa": ["ets"] * 8,
    "buffer-size": [1] * 8,
    "prio-buffer": [0] * 8,
    "requests": [0] * 8,
    "indications": [1] * 8,
    "status": ["host", "ieee"],
}
IMAGE = [{"Config": {"Env": ["CUDA_VERSION=12.4", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"], "Labels": {"maintainer": "x"}}}]
CDI = '---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: "0"\n  containerEdits:\n- name: all\n  - libcuda.so.580.95.05\n'
APT_SIMULATED = (
    "NOTE: This is only a simulation!\nInst rdma-core [44.0-2] (50.0-1 Debian:12 [amd64])\n"
    "Inst perftest (23.10 X:y [amd64]) []\nRemv ibutils [1.5]\nPurg old [1]\n"
    " b : Depends: c (= 1.2) but 1.3 is to be installed\n"
)
DNF_TABLE = (
    "Dependencies resolved.\n"
    " Package   Architecture Version    Repository  Size\n"
    "Installing:\n"
    " perftest  x86_64       23.10-1    appstream   200 k\n"
    "     replacing  ibutils.x86_64 1.5-1\n"
    "Upgrading:\n"
    " very-long-name\n"
    "           x86_64       1:2-3      baseos      1 M\n"
    "Removing:\n"
    " old        noarch  1-1  @System  5 k\n"
    "\n"
    "Transaction Summary\n"
    "Error: \n"
    " Problem: x\n"
)
SLURM = (
    "NodeName=gpu1 Arch=x86_64 CoresPerSocket=64 State=MIXED+DRAIN ThreadsPerCore=2 Partitions=all "
    "Reason=railwright: kernel [root@2026-11-20T10:00:00]\n"
)
RESERVATION = (
    "ReservationName=maint StartTime=2026-11-20T10:00:00 EndTime=2027-11-20T10:00:00 Duration=365-00:00:00 Nodes=gpu[1-2],n3 NodeCnt=3 "
    "CoreCnt=2 Features=(null) PartitionName=all Flags=MAINT TRES=cpu=2\n"
)
MENU = (
    'set default="0"\n'
    "menuentry 'Debian' --class debian $menuentry_id_option 'gnulinux-simple' {\n"
    "\tlinux /boot/vmlinuz-6.1.0-40-amd64 root=x ro\n"
    "}\n"
    "submenu 'Advanced' $menuentry_id_option 'gnulinux-advanced' {\n"
    "  menuentry 'old' $menuentry_id_option 'b' {\n"
    " linux /vmlinuz-6.1.0-39 x y\n"
    " }\n"
    "}\n"
)
TOPO = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tPIX\t0-47\t0\nGPU1\tNV18\t X \tSYS\t48-95\t1\n"
    "NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)
MLNX_QOS = (
    "DCBX mode: OS controlled\nPriority trust state: dscp\ndscp2prio mapping:\n\tprio:0 dscp:07,06,\n"
    "\tprio:3 dscp:26,\nReceive buffer size (bytes): 1,2,3,4,5,6,7,8,\nPFC configuration:\n"
    "\tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   1   0   0   0   0\n"
    "\tbuffer      0   0   0   1   0   0   0   0\ntc: 0 ratelimit: unlimited, tsa: ets, bw: 50%\n"
    "\t priority:  0\ntc: 3 ratelimit: unlimited, tsa: strict\n\t priority:  3\n"
)
MSTCONFIG = captured("doca8/cmd/mstconfig_-d_0000:13:00.0_-e_q")
MSTFLINT = captured("doca8/cmd/mstflint_-d_0000:13:00.0_q")
LOCK = (
    '# lock\ntorch==2.9.0+cu130 ; python_version > "3.9" \\\n    --hash=sha256:'
    + "a" * 64
    + "\nnumpy[x]==2.1 --hash=sha256:"
    + "b" * 64
    + "\n"
)
EXPLICIT = "@EXPLICIT\nhttps://conda.example/linux-64/python-3.12.4-h1_0.conda#" + "c" * 64 + "\n"
IPTABLES = (
    "-P INPUT DROP\n-N more\n"
    "-A INPUT -s 10.0.0.0/8 -i eth1 -p udp -m multiport --dports 4791,1:2 -j ACCEPT\n"
    '-A INPUT ! -d ::1 -m comment --comment "a b" -g more\n'
)
DEVINFO = captured("ib8/cmd/ibv_devinfo_-v")
STATUS = (
    "Package: rdma-core\nStatus: install ok installed\nVersion: 44.0-2\nDescription: x\n y\n\nPackage: mlnx\n"
    "Status: hold ok half-configured\nVersion: 1\n\n"
)
RPM = "rdma-core 51.0-1.el9\nkernel-5.14.0-427.el9.x86_64\nlibibverbs-51.0-1.x86_64\n"
KEYFILE = (
    "[connection]\nid=rail0\nuuid=1-2\ntype=ethernet\ninterface-name=eth1\nautoconnect-priority=-5\n\n"
    "[ethernet]\nmac-address=AA:BB:CC:DD:EE:FF\n"
)
NETWORK = "# Rail rail0 has address 10.0.0.1/24\n[Match]\nMACAddress=aa:bb:cc:dd:ee:ff\nName=eth* !eth0\n[Network]\nAddress=10.0.0.1/24\n"
INTERFACES = "source /etc/network/interfaces.d/*\nauto eth1\niface eth1 inet static\n  address 10.0.0.1/24 \\\n  mtu 9000\n"
SSHD = (
    "port 22\npermitrootlogin yes\npubkeyauthentication yes\nauthorizedkeysfile .ssh/authorized_keys\n"
    "hostkey /etc/ssh/ssh_host_ed25519_key\n"
)
KEY_LINE = "ssh-ed25519 " + "A" * 60 + " railwright-mesh generation=1 serial=2"
AUTHORIZED = (
    f"{files.BEGIN}\n"
    f"{files._NODES}node1 node2\n"
    f'restrict,pty,from="10.0.0.1,10.0.0.2" {KEY_LINE}\n'
    f"{files.END}\n"
    "ssh-rsa AAA me\n"
)
_KEYRING = b"\xc6\x29\x04" + b"\x01" * 40 + b"\xcd\x0auser <a@b>"
ARMOUR = str(openpgp.extract(_KEYRING, openpgp.fingerprints(_KEYRING)[0]))
SH = (
    "#!/bin/bash\n#SBATCH --export=ALL,NCCL_DEBUG=INFO\n"
    'export NCCL_IB_HCA="mlx5_0,mlx5_1" NCCL_IB_GID_INDEX=${NCCL_IB_GID_INDEX:-3} # c\n'
    "mpirun -x NCCL_SOCKET_IFNAME=eth0 -x NCCL_IB_TC -genv NCCL_ALGO 'Ring' /opt/all_reduce_perf -b 8M -e 8G \\\n"
    '  -f 2 --check=1 | tee x\n- name: NCCL_DEBUG\n  value: "INFO"\nNCCL_P2P_LEVEL: NVL # x\nENV NCCL_A b c\n'
    "os.environ['NCCL_X'] = \"1\"\n"
)
XML = (
    '<system version="1">\n'
    '  <cpu numaid="0" affinity="ff,ff" arch="x86_64"><pci busid="0000:1b:00.0" class="0x030200"><gpu dev="0" '
    'sm="90"/><nic><net name="mlx5_0" dev=\'0\' gdr="1"/></nic></pci></cpu>\n</system>\n'
)
PERFTEST = (
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 65536      5000             391.20             390.99             0.745\n"
    "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] "
    "99.9% percentile[usec]\n 2 1000 1.70 5.1 1.8 1.9 0.1 2.0 5.1\n"
)
TORCHRUN = (
    "[rank0]: Traceback (most recent call last):\n"
    "E1121 10:00:00 12 api.py:874] failed (exitcode: -9) local_rank: 1 (pid: 12) of binary: python3\n"
    "[0]:RuntimeError: CUDA error\n============\ntrain.py FAILED\n  rank      : 1 (local_rank: 1)\n"
    "  exitcode  : 1 (pid: 13)\nModuleNotFoundError: No module named 'x'\n"
)
QOS_BOOT = (
    "# profile dscp26-prio3: x\nrun\tdcb\tapp\tset\tdev\teth1\tdscp-prio\t26:3\n"
    "run\tmlnx_qos\t-i\teth1\t--pfc\t0,0,0,1,0,0,0,0\nset\t/sys/class/net/eth1/ecn/roce_np/enable/3\t1\n"
)
INI = "[rdma]\ngpu[01:03] ansible_host=10.0.0.1 a=b\n[rdma:vars]\nmtu=9000\n# c\n[opensm:children]\nrdma\n"
INVENTORY = (
    "all:\n  children:\n    rdma:\n      hosts:\n        gpu[01:02]:\n"
    "          rdma_rails: [{name: rail0, match: {pci: '0000:1b:00.0'}}]\n      vars: {rdma_fabric: roce}\n"
)
SOURCES = "deb [signed-by=/a/b check-valid-until=no] http://deb.example/debian bookworm main contrib\n"
DEB822 = (
    "Types: deb deb-src\nURIs: http://deb.example/debian\nSuites: bookworm bookworm-updates\n"
    "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
)
REPO = "[a]\nname=x\nbaseurl=https://a.example/x,\n  https://b.example\nenabled=1\n[b]\nbaseurl=http://c\nenabled=0\n"
FAILED = {
    "msg": "Task failed: ssh said\r\n  no",
    "stderr": "a\nb: command not found",
    "results": [{"failed": True, "msg": "x"}],
    "failures": ["no package"],
    "module_stdout": "x",
    "censored": False,
}
JOURNALS = [
    {"kind": "start", "schema": 1, "run": "r", "nodes": ["gpu1"], "inventory": "i"},
    {"kind": "ready", "canary": ["gpu1"]},
    {"kind": "inspect", "node": "gpu1", "before": {}, "classes": ["reboot"]},
    {"kind": "begin", "node": "gpu1", "step": "drain"},
    {"kind": "end", "node": "gpu1", "step": "drain", "ok": True, "why": ""},
    {"kind": "done", "node": "gpu1", "why": ""},
    {"kind": "finish"},
]
RECORD = {
    "schema": 1,
    "id": "20261121T101112Z-plan",
    "verb": "plan",
    "inventory": "i",
    "limit": None,
    "started": "x",
    "railwright": "1",
    "nodes": {"a": {}},
    "verdicts": [{"check": "x"}],
    "summary": {},
}
ENTRY = {
    "kind": "write",
    "path": "/etc/a",
    "done": True,
    "what": "x",
    "before": {"content": "eA==", "mode": 420, "uid": 0, "gid": 0},
    "argv": ["x"],
    "undo": [["y"]],
}
RESTORE = {"state": "applied", "base": "r", "number": 3, "entries": [ENTRY], "written": 5}
ROLLBACK = {"restore_points": [{"run": "r", "state": "applied", "commands": 1, "packages": 2}], "known": True, "undone": ["x"]}
BENCH = {
    "purpose": "proof",
    "launcher": "mpirun",
    "hosts": ["a"],
    "ranks": 8,
    "gpus": {"a": ["H200"]},
    "versions": {"a": {"cuda": "13"}},
    "runs": [
        {
            "collective": "all_reduce",
            "node": "",
            "argv": ["x", "-x", "A=b"],
            "environment": {"NCCL_DEBUG": "INFO"},
            "seconds": 1.5,
            "rc": 0,
            "rows": [{"size": 8, "type": "float", "out_of_place": {"busbw": 1.5}}],
            "avg_busbw": 1,
            "transport": {"networks": ["IB"]},
            "tail": ["x"],
        }
    ],
    "topology": {"a": {"matrix": [["GPU0", "PIX"]], "nccl_topo": None}},
    "hosts_left": [],
}
DOCUMENTS = (
    BENCH,
    {"hosts": ["a"], "world_size": 8, "backend": "nccl", "step_ms": {"p50": 1.0}, "versions": {"a": {"torch": "2"}}},
    [{"rail": "rail0", "counters": {"x": 1}}],
    {"pairs": [{"node": "a", "peer": "b", "cells": [{"rail": "x", "peer_rail": "y", "seen": "yes"}]}]},
)
SYSTEM = captured("ib8/etc/os-release")
RAIL = DesiredInterface(
    "rail0", 0, "eth1", "rail0 (eth1)", "aa:bb:cc:dd:ee:ff", "ethernet", None, False, 9000, "10.10.0.11/24", None, None, True, 100
)
TOP_LINE = {
    "at": 2.5, "gpus_at": 2.4, "gpus_unknown": None,
    "ports": [{"hca": "mlx5_0", "port": 1, "rail": "rail0", "netdev": "eth1", "rate": 400, "out_bytes": 7, "cnp_in": None}],
    "gpus": [{"index": 0, "pci": "0000:1a:00.0", "use": 97, "memory_used": 1, "watts": 612.5, "held_back": ["hw_slowdown"], "lost": False}],
}
TOP_RECORDING = {"at": "2026-11-28T12:03:07+00:00", "nodes": {
    "gpu1": {"status": "ok", "message": "", "behind": 300.0, "marks": ["behind"], "gpus_unknown": "NVML hangs",
             "rails": [{"rail": "rail0", "state": "ACTIVE", "rate_gbps": 400, "out_gbps": 96.4, "in_gbps": None, "marks": ["behind"]}],
             "gpus": [{"index": 0, "use": 97, "memory_used": 1, "watts": 612.5, "held_back": ["hw_slowdown"], "marks": ["held_back"]}]},
    "gpu2": {"status": "silent", "message": "for 4 s", "rails": [], "gpus": []},
}}
