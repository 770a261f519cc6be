# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of every answer that a play of ours takes from a node: by module, and by its ``mode`` where it has several.

A module's documentation names the same keys (a contract test compares them). What other nodes are told of an answer (paths, names,
addresses) is held closer here than what only people read.
"""

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.checks.overview import LABELS
from ansible_collections.railwright.rdma.plugins.module_utils.types import AT_BOOT, DISRUPTIONS, NOW, SEVERITIES, SUBJECTS, VERDICT_STATUSES

from .form import DATA, Choice, Either, Map, Text, Whole


def maybe(form: Any) -> Either:
    return Either(form, None)


NAME = Text(r"[A-Za-z0-9][A-Za-z0-9_.:@-]*", "a name of letters, digits and _ . : @ -", 128)
ADDRESS = Text(r"[0-9A-Fa-f:.]{2,45}", "an IP address without a zone")
PATH = Text(r"/[A-Za-z0-9_.+@:=,~-]+(/[A-Za-z0-9_.+@:=,~-]+)*/?", "an absolute path of plain characters")
# What a launcher is told, on other nodes too.
COMMAND = Text(r"/[A-Za-z0-9_.+@/-]{1,4000}", "an absolute path of letters, digits and _ . + @ -")
WORD = Text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", "a name of letters, digits and . _ -")
SHA256 = Text(r"[0-9a-f]{64}", "a sha256")
VERSION = Text(r"[0-9][A-Za-z0-9.+~:_-]*", "a version", 128)
FOLDER = Text(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", "the name of a directory", 255)
PROGRAM = Text(r"[a-z_]+_perf", "the name of a program of nccl-tests", 64)
CODE = Text(r"sm_[0-9]{2,3}", "sm_90 and the like")
CAPABILITY = Text(r"[0-9]{1,2}\.[0-9]", "9.0 and the like")
END = Text(r"[A-Za-z0-9_.-]{1,64}:[0-9]{1,3}", "an RDMA device and its port")
RUN = Text(r"[A-Za-z0-9][A-Za-z0-9_.:-]*", "the name of a run", 128)
NETWORK = Text(r"[0-9.]{7,15}/[0-9]{1,2}", "an IPv4 network")
KEY_LINE = Text(r"[\x20-\x7e]+", "a line of plain characters", 8192)
BROUGHT = Text(r"/var/cache/railwright(/[A-Za-z0-9_+~-][A-Za-z0-9_.+~-]*)+", "a path below /var/cache/railwright")
# What a package manager is told: never an option, nothing that a shell would read.
PACKAGE = Text(r"[A-Za-z0-9/@][A-Za-z0-9+.:~_=*?/@^-]*", "a package, with its version", 512)

TEXT, NUMBER, WHOLE = maybe(str), maybe(float), maybe(int)
OBJECT, OBJECTS = maybe(Map(DATA)), maybe([Map(DATA)])

# A node's facts and its rails: docs/reference/facts.md as what the controller reads out of them.
PCI_LINK = {
    "device": str, "port": TEXT, "speed_gts": NUMBER, "width": WHOLE, "best_speed_gts": NUMBER, "best_width": WHOLE,
    "device_speed_gts": NUMBER, "device_width": WHOLE, "port_speed_gts": NUMBER, "port_width": WHOLE,
}
LINK = maybe({
    "path": [str], "links": [PCI_LINK], "max_payload": WHOLE, "max_read_request": WHOLE, "relaxed_ordering": DATA, "bars": DATA,
    "sriov": DATA, "iommu": TEXT, "virtual_function": bool,
})
GPU = {
    "pci": str, "device_id": TEXT, "numa_node": WHOLE, "driver": TEXT, "name": TEXT, "uuid": TEXT, "nvlinks?": maybe([float]),
    "link?": LINK,
}
ACCELERATOR = {
    "pci": str, "vendor_id": str, "device_id": str, "model": str, "kind": str, "driver": TEXT, "driver_version": TEXT, "numa_node": WHOLE,
    "responds": maybe(bool), "ras": maybe(Map(Map(int))), "bad_pages": maybe(Map(int)), "xgmi": maybe(Map(int)), "link": LINK,
}
HCA_PORT = {
    "number": int, "state": TEXT, "phys_state": TEXT, "rate_gbps": NUMBER, "lanes?": WHOLE, "link_layer": TEXT, "lid": WHOLE, "lmc": WHOLE,
    "sm_lid": WHOLE, "cap_mask": TEXT, "port_guid": TEXT, "active_mtu": WHOLE, "netdev": TEXT, "netdev_mtu": WHOLE,
    "gids": maybe([{"index": int, "gid": str, "type": TEXT, "netdev": TEXT}]), "counters": Map(WHOLE), "hw_counters": Map(WHOLE),
    "pkeys?": maybe([str]),
}
HCA = {
    "name": str, "node_type": TEXT, "node_guid": TEXT, "sys_image_guid": TEXT, "board_id": TEXT, "fw_ver": TEXT, "hw_rev": TEXT,
    "hca_type": TEXT, "pci_address": TEXT, "vendor_id": TEXT, "device_id": TEXT, "numa_node": WHOLE, "driver": TEXT, "ports": [HCA_PORT],
    "sub_function?": bool, "link?": LINK, "firmware?": OBJECT,
}
NETDEV = {
    "name": str, "mac": TEXT, "pci_address": TEXT, "driver": TEXT, "kind": str, "management": bool, "mtu": WHOLE, "operstate": TEXT,
    "speed_mbps": WHOLE, "addresses": maybe([str]),
}
QOS_NIC = {
    "hca": str, "port": int, "netdev": str, "driver": TEXT, "trust": DATA, "pfc": DATA, "dscp_priority": DATA, "ets": DATA, "buffers": DATA,
    "dcbx": DATA, "ecn": DATA, "cnp": DATA, "rdma_cm": DATA, "forced_tc": DATA, "sources": DATA, "missing": DATA, "boot?": DATA,
}
AFFINITY = {"gpu": str, "hca": str, "port": int, "path": TEXT, "near": bool}
FACTS = {
    "schema": int, "hostname": TEXT, "virtual": TEXT, "os": Map(TEXT), "kernel": TEXT, "arch": TEXT, "boot": OBJECT,
    "stack": {"name": TEXT, "version": TEXT, "source": TEXT, "modules": OBJECT, "half_installed": maybe([str])},
    "dkms": OBJECTS, "storage": OBJECTS, "hcas": [HCA], "netdevs": [NETDEV], "qos": {"lldpad": DATA, "nics": [QOS_NIC]}, "firewall": OBJECT,
    "modules": maybe(Map(Map(DATA))), "gpus": [GPU], "accelerators?": [ACCELERATOR], "affinity?": [AFFINITY], "pci": OBJECT,
    "gpu_driver": OBJECT, "gpudirect": OBJECT,
    "limits": OBJECT, "nccl": OBJECT, "aiacc": OBJECT, "nccl_libraries": OBJECTS, "packages": maybe(Map(str)), "erdma": OBJECT,
    "health?": OBJECT,
}
RAIL = {
    "name": NAME, "label": str, "address": maybe(ADDRESS), "mtu": int, "netdev": maybe(NAME), "hca": maybe(NAME), "port": WHOLE,
    "gid_index": WHOLE, "gid_needed": bool, "rdma_cm?": bool, "exchange?": maybe(ADDRESS),
}
SHORT = Text(r"[^\n]*", "a line", 1024)
NEIGHBOUR = {
    "hca": NAME, "port": int, "netdev": maybe(NAME), "why": SHORT, "by?": Choice("lldpd", "heard", "smpquery"),
    **dict.fromkeys(("switch?", "switch_id?", "switch_port?", "switch_port_name?"), maybe(SHORT)), "mtu?": WHOLE, "vlan?": WHOLE,
}

DISRUPTION = Choice(*DISRUPTIONS)
CHANGE = {
    "key": str, "area": str, "what": str, "before": DATA, "after": DATA, "disruption": DISRUPTION, "why": str, "source": str,
    "subject": {"kind": Choice(*SUBJECTS), "name": str}, "when": Choice(NOW, AT_BOOT), "rail": TEXT,
}
PROBLEM = {"area": str, "subject": str, "message": str}
VERDICT = {
    "check": str, "node": str, "hca": TEXT, "port": WHOLE, "subject": str, "status": Choice(*VERDICT_STATUSES), "expected": DATA,
    "found": DATA, "message": str,
}
VERDICTS = {"verdicts": [VERDICT]}
STAMP = Text(r"[0-9a-f]{8}", "an id of a finding")
CHECK = Text(r"[a-z_]{1,32}\.[a-z_0-9]{1,32}", "the code of a check")
HELD_CODE = Text(r"all|[a-z_]{1,32}\.[a-z_0-9]{1,48}", "all, or the code of a check")
AGENT = {
    "mode": Choice("off", "observe", "drain"), "word": Choice("none", "ok", "shared", "refuse", "unjudged", "held"), "age": maybe(float),
    "reason": str, "trouble": str, "offenders": [{"part": str, "times": int}], "held": [HELD_CODE], "model": TEXT, "observed": str,
    "versions": [{"name": Choice("driver", "firmware", "railwright"), "value": TEXT, "ago": maybe(float)}],
    "downs": [{"part": str, "name": str, "ago": float}], "text": [str],
    "findings": [{"id": STAMP, "check": CHECK, "subject": str, "part": str, "status": Choice("fail", "warn"), "text": str,
                  "known": maybe({"reason": str, "by": str, "t": float}), "mode": Choice("off", "observe", "enforce"), "fresh": bool,
                  "ago": float}],
}
FINDING = {
    "key": str, "kind": Choice("setting", "state", "problem", "effective"), "area": str, "what": str, "expected": DATA, "found": DATA,
    "severity": Choice(*SEVERITIES), "disruption": Choice("", *DISRUPTIONS), "why": str, "since": maybe(float), "by": str,
}
STEP = {"area": str, "state": Choice("uninstall", "absent", "replaced", "file", "unsigned", "present"), "names": [PACKAGE], "argv?": [str]}
LINES = {"notes?": [str], "drivers?": Map(str)}
CONFIRM = {
    "state?": str, "run?": str, "changes?": [str], "troubles?": [str], "restore_point?": TEXT, "unit?": str, "seconds?": int,
}
PLAN = {
    **LINES, "plan": [CHANGE], "problems": [PROBLEM], "before": Map(DATA), "after": Map(DATA), "reboot_needed": [str],
    "erdma": maybe({"mode": TEXT, "letter": TEXT}), "remaining": [CHANGE], "only?": [str], "confirm?": CONFIRM, "reverted?": [str],
    "restore_point": str,
    "left": [{"key": str, "what": str, "area": str, "disruption": DISRUPTION, "cause": str, "reason": str, "needs": str}],
    "packages": {"manager": str, "steps": [STEP], "needed": bool, "downloads": [{"url": str, "dest": BROUGHT, "checksum": str}]},
}
CONFIRMED = {"confirm": {**CONFIRM, "state": str}, "restore_point": TEXT}
ROLLBACK = {
    "plan": [CHANGE], "problems": [PROBLEM], "notes": [str], "reboot_needed": [str], "known": bool, "restore_points": [Map(DATA)],
    "undone": [str], "to": str, "restore_point?": str, "confirm?": CONFIRM, "reverted?": [str],
}
RECORD = {"record": Either(Text("", "nothing"), RUN)}
LEASE = maybe({"run": str, "controller": str, "user": str, "since": str, "step": str})
DEVICE = {"host": str, "rank": WHOLE, "devices": [(str, TEXT, int)], "error": TEXT, "cuda": TEXT, "nccl": TEXT}
INTERFACE = maybe({"name": WORD, "networks": [NETWORK]})
# A port that is watched while a benchmark runs: the names become paths on the node that said them.
WATCHED = {"rail": str, "hca": NAME, "port": int, "driver": TEXT, "netdevs": [NAME]}
SEEN = {
    "node": str, "hostname": WORD, "user": NAME, "python": COMMAND, "directory": COMMAND, "libraries": [PATH], "interface": INTERFACE,
    "cuda": DEVICE, "driver": TEXT, "nccl": [{"path": PATH, "version": TEXT, "origin": str}], "nccl_conf": [str],
    "net_plugins": [str], "mpi": [{"kind": Choice("openmpi4", "openmpi5", "mpich"), "version": str, "prefix": COMMAND, "mpirun": COMMAND}],
    "slurm": Map(maybe(COMMAND)), "needs_job": bool,
    "programs": [{"name": PROGRAM, "path": PATH, "sha256": maybe(SHA256), "json": bool, "problem": TEXT}],
    "affinity": [{"gpu": str, "hca": str, "port": int, "path": DATA, "near": DATA}], "verdicts": [VERDICT], "problems": [str],
    "places": [{"pci": str, "rail": maybe(NAME), "numa_node": WHOLE, "links": [PCI_LINK]}],
    "ports": [WATCHED], "ends": Map(END),
}
JOB = {
    "name": str, "started": bool, "rc": WHOLE, "seconds": maybe(float), "text": str, "tail": [str], "too_much": DATA, "json": TEXT,
    "log": str,
}
SPENT = {
    "collective": str, "comm": Text(r"0x[0-9a-f]{1,16}", "0x and a number"), "rank": Whole(0, 1 << 20), "bytes": Whole(0, 1 << 53),
    "times": [(Whole(0, 1 << 53), Whole(0, 1 << 53))],
}
MPI = {"kind": str, "version": VERSION, "directory": PATH, "include": PATH, "library": PATH}
NVCC = {"path": PATH, "home": PATH, "version": VERSION, "codes": [CODE]}
# systemd writes a dash in a name of the path as \x2d.
MOUNT_UNIT = Text(r"([A-Za-z0-9:_.-]|\\x[0-9a-f]{2})+\.mount", "the name of a mount unit", 255)
MOUNT_FILE = Text(r"/etc/systemd/system/([A-Za-z0-9:_.-]|\\x[0-9a-f]{2})+\.mount", "a mount unit in /etc/systemd/system")
MOUNT = maybe({"unit": MOUNT_UNIT, "file": MOUNT_FILE, "text": str, "write": bool, "start": bool})
BUILD_NODE = {
    "arch": NAME, "gpus": [{"pci": str, "device_id": str, "capability": maybe(CAPABILITY)}], "nvcc": maybe(NVCC),
    "nccl": maybe({"library": PATH, "include": PATH, "version": VERSION, "origin": str}), "mpi": maybe(MPI), "missing_tools": [str],
    "library_path": [PATH], "mount": MOUNT,
}
MANIFEST = maybe({"key?": str, "programs": Map(SHA256)})
DRAIN = {
    "node": str, "state": str, "jobs?": DATA, "holders?": DATA, "reason?": TEXT, "by?": TEXT, "message?": TEXT, "raw?": TEXT,
    "closed?": bool, "empty?": bool, "done?": bool,
}
FAILURE = {"rank": int, "kind": str, "message": str, "at": float}
COLLECTED = {"rc": WHOLE, "ranks": [Map(DATA)], "failures": [FAILURE], "result": OBJECT, "log": str, "way": str}
PORT = Whole(1, 65535)
MESH_NODE = {
    "user": NAME, "public_key": maybe(KEY_LINE), "authorized": DATA, "addresses": [ADDRESS], "port": PORT, "host_keys": [KEY_LINE],
    "hostname": str, "problems": [str],
}
PROGRESS = {"progress?": OBJECT}
SOURCE = maybe({"artifact?": str, "version?": str, "url": TEXT, "sha256": maybe(SHA256), "directory": PATH, "file?": PATH, "missing?": bool,
                "release?": str})
SEEN_RANK = {
    "rank": WHOLE, "size": WHOLE, "step": TEXT, "pid": int, "name": str, "states": Text(r"[A-Za-z]{1,16}", "letters of states"),
    "waits": [str], "busy": [float], "cpu": float, "system": float, "switches": int, "moved": WHOLE, "unread": int, "stack": [str],
    "nccl": bool, "began_on": TEXT, "gpus": [Whole(0, 100)],
    "recorded": maybe([{"group": str, "seq": int, "op": str, "state": Choice("scheduled", "started", "completed")}]),
}
SEEN_RANKS = {"ranks": [SEEN_RANK], "counters": [{"hca": str, "port": int, "growth": Map(int)}], "xids": [str]}
SEEN_JOB = {"id": str, "state": str, "uid": WHOLE, "pods": [str], "nodes": [{"name": str, "down": bool, "raw": str}]}
PREFIX = maybe({
    "version": str, "directory": PATH, "missing": bool, "needed": bool, "artifact": str, "url": TEXT, "sha256": SHA256, "file": BROUGHT,
    "install?": str, "cuda?": str,
})
TRAFFIC = {
    "rail": str, "hca": str, "port": int, "peer": str, "seconds": float, "counters": Map(int), "interfaces": Map(Map(int)),
    "backwards": [str],
}
GROWN = {"counters": [VERDICT], "traffic": [TRAFFIC]}
ENVIRONMENT = maybe({
    "kind": str, "name": FOLDER, "directory": PATH, "python": PATH, "missing": bool, "needed": bool, "broken": [str], "wheels": [str],
    "torch": OBJECT,
})
PAIR = {"gpu": str, "number": int, "hca": NAME, "port": int, "gid_index": WHOLE, "rail": str, "numa_node": WHOLE}
RELEASE = {**LINES, "release": PREFIX, "plan": [CHANGE]}
RELEASED = {**RELEASE, "release": ENVIRONMENT}

COUNT = maybe(Whole(0, 1 << 64))
HEALTH_GPU = {"index": WHOLE, "uuid": str, "serial": maybe(WORD), "name": str, "celsius": WHOLE, "margin_celsius": WHOLE,
              **dict.fromkeys(("hw_thermal_us", "sw_thermal_us", "uncorrected", "corrected"), COUNT),
              "hw_thermal": maybe(Whole(0, 1)), "sw_thermal": maybe(Whole(0, 1))}
DIAGNOSED = {"test": str, "gpu": COUNT, "serial": maybe(WORD), "status": Choice("pass", "fail", "warn", "skipped", "unknown"), "text": str}
HEALTH = {"gpus": maybe([HEALTH_GPU]), "nics": [{"hca": NAME, "serial": TEXT}],
          "diag": maybe({"why": TEXT, "results": [DIAGNOSED]})}

# A part of a captured tree. No way leads out of it: the parts of a path are names, and what a link leads to is only text.
TREE_PATH = Text(r"(/(?!\.{1,2}(/|\Z))[^/\x00]{1,255}){1,64}", "an absolute path without . and ..", 4096)
TREE_NAME = Text(r"(?!\.{1,2}\Z)[^/\x00]{1,255}", "a name in a directory", 255)
BUNDLE = {"left_out": [str], "entries": [{
    "path": TREE_PATH, "kind": Choice("file", "directory", "link"), "text?": str, "base64?": Text(r"[A-Za-z0-9+/=]*", "base64", 8 << 20),
    "to?": Text(r"[^\x00]{1,4095}", "what a link leads to"), "names?": [TREE_NAME], "mode?": Whole(0, 0o7777), "mtime?": float}]}

# A form without modes, or forms by mode. What only the controller's half of a module returns never passes here.
FORMS: dict[str, dict[str, Any]] = {
    "rdma_bench": {
        "nccl_tests.inspect": {"seen": SEEN},
        "nccl_tests.probe": {"answers": [DEVICE], "status": WHOLE, "reason": TEXT, "tail": [str]},
        "nccl_tests.pairs": {"pairs": [[{"figures": [float], "first": maybe(WORD), "hung": bool, "why": str}]]},
        "nccl_tests.start": {"job": str, "pid": int},
        "nccl_tests.poll": {**PROGRESS, "ended": bool, "status": WHOLE, "too_much": DATA, "tail": [str]},
        "nccl_tests.stop": {"ended": int},
        "nccl_tests.collect": {"jobs": [JOB], "ended": int, "spent": [SPENT], "nccl_topo": DATA, "nccl_graph": DATA, **GROWN},
        "ddp.inspect": {"seen": {"user": NAME, "python": PATH, "torch": str, "processes": Whole(1, 64), "port_taken": bool,
                                 "interface": maybe({"name": NAME, "addresses": [str]}), "ports": [WATCHED]}},
        "ddp.start": {"process": {"pid": Whole(2, 1 << 31), "start_time": str, "at": float}},
        "ddp.poll": {**PROGRESS, "done": bool, "exit": WHOLE, "over": bool},
        "ddp.stop": {"ended": int},
        "ddp.collect": {"collected": COLLECTED, **GROWN},
    },
    "rdma_check": {
        "verdicts": {**VERDICTS, "facts": FACTS, "stack": str, "rails": [RAIL], "neighbours": [NEIGHBOUR],
                     "gpudirect": {"path": str, "gpus": int, "why_not": TEXT, "pairs": [PAIR]}},
        "drift": {**LINES, "findings": [FINDING], "judged": [str], "unknown": [str], "unasked": [str]},
        "cabling": {"cabling": {"rails": [RAIL], "neighbours": [NEIGHBOUR]}},
        "check": {**VERDICTS, "overview": {f"{label}?": str for label in LABELS}},
        "bundle": {"bundle": BUNDLE}, "agent": {"agent": AGENT},
        "trial": {"trial": {"days": float, "failures": [{"check": CHECK, "subject": str, "began": float, "ended": maybe(float)}]}},
        "hold": {"hold": {"before": [HELD_CODE], "now": [HELD_CODE]}},
    },
    "rdma_drain": {"": {"drains": [DRAIN]}},
    "rdma_facts": {"": {"rdma": FACTS}, "job": {"job": SEEN_JOB}, "nodes": {"job": {"nodes": [WORD]}}, "ranks": {"ranks": SEEN_RANKS}},
    "rdma_measure": {
        "ping": {"pings": [Map(DATA)], "rails": [Map(DATA)]}, "gpudirect": VERDICTS, "run": VERDICTS,
        "sample": {"samples": [{"figure": maybe(float), "why": str, "hung": bool}]},
        "start": {**VERDICTS, "open_ports": [PORT]}, "stop": {**VERDICTS, "traffic": [TRAFFIC], "ended": int},
        "health": {"health": HEALTH},
    },
    "rdma_packages": {
        "check": {"steps": [STEP], "later": bool, "resolved": [{"name": str, "from": TEXT, "to": TEXT, "origin": TEXT}]}, "failed": {},
    },
    "rdma_prefix": {
        **{f"{product}.{step}": RELEASE for product in ("nccl", "hpcx", "erdma_driver") for step in ("inspect", "install")},
        "ai_environment.inspect": RELEASED, "ai_environment.install": RELEASED,
        "nccl_tests.inspect": {"node": BUILD_NODE}, "nccl_tests.state": {"programs": Map(SHA256), "manifest": MANIFEST},
        "nccl_tests.build": {"manifest": MANIFEST}, "nccl_tests.pack": {"sha256": SHA256}, "nccl_tests.verify": {"library_path": [PATH]},
    },
    "rdma_rollback": {
        "inspect": {"restore_points": [Map(DATA)]}, "plan": ROLLBACK, "prove": ROLLBACK, "apply": ROLLBACK, "packages_before": RECORD,
        "packages_after": {**RECORD, "packages_changed": [str]},
    },
    "rdma_ssh_mesh": {
        "observe": {"node": MESH_NODE},
        "generate": {"changes": [str], "public_key": maybe(KEY_LINE)},
        "read": {"private_key": Text(r"[\x20-\x7e\n]*", "a private key", 16384)},
        "key": {"changes": [str], "public_key?": maybe(KEY_LINE)},
        "apply": {"changes": [str], "diff?": DATA},
        "login": {"login": {"configured": bool, "user": NAME, "logins": Map(TEXT)}},
    },
    "rdma_state": {
        "plan": PLAN, "apply": PLAN, "confirm": CONFIRMED, "outcome": CONFIRMED, "explain": {"explanation": Map(DATA)},
        "source": {"source": SOURCE}, "container": {"container": Map(DATA)},
    },
    "rdma_upgrade": {"lease": {"lease": LEASE, "taken_over_from": LEASE, "busy": TEXT}, "release": {"lease": LEASE}},
}
