# SPDX-License-Identifier: GPL-3.0-or-later
"""No verdict passes on an input that cannot be read: empty, unreadable, "N/A", "not supported", text of another form, zero, at its ceiling.

Where a wrong value of an input keeps a verdict from passing, no unreadable form of the input may let it pass. Inputs are the files of nodes
written from documented formats and the answers of their commands, and in these each value; of alike rails and GPUs one is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.faults import trees
from tests.fixtures import node_accelerators
from tests.fixtures.read_nodes import described, lossless, with_qos

import whole_nodes
from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node, judge_plan
from ansible_collections.railwright.rdma.plugins.module_utils.checks.wishless import judge_without_wish
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import SECTIONS
from input_forms import Input, ReplacingHost, at_ceiling, inputs_of, unreadable_forms, with_text, wrong_contents, wrong_values, zeroed
from node_trees import NODES as WRITTEN
from tree_sites import spec_of as site_of

Key = tuple[str, str | None, int | None, str]
Write = Callable[[Path], Path]
Judged = tuple[Any, list[Verdict]]


class Node:
    """``only``: the inputs whose paths match. ``covers``: checks that one of them matters to. ``spec``: without one as `check` judges."""

    def __init__(self, write: Write, only: str, covers: str, spec: Callable[[], Spec] | None = None, plans: bool = False) -> None:
        self.write, self.only, self.covers, self.spec, self.plans = write, only, covers, spec, plans

    def judge(self, host: ReplacingHost) -> Judged:
        """What was observed, and the verdicts."""
        seen = InspectedHost(host)
        identity = observe_identity(seen)
        facts = observe_facts(seen, identity)
        if self.spec is None:
            return (identity, facts), judge_without_wish("node", nobodys_spec().as_dict(), identity, facts)
        spec = self.spec()
        inspection = inspection_of("node", spec, identity, facts)
        found = [item for _area, item in judge_node(inspection)]
        if not self.plans:
            return (identity, facts), found
        plan = make_plan(seen, spec, None, None, 1.0)
        areas = [row.name for row in AREAS]
        return (identity, facts, plan), found + judge_plan("node", areas, plan.changes, plan.problems, inspection.targets)


class Scan:
    """Changes one input after the other. ``covered``: checks with an input that matters; ``wrong``: passes without their input."""

    def __init__(self, node: Node, root: Path) -> None:
        self.node, self.host = node, ReplacingHost(str(node.write(root)))
        self.base, self.given = None, set[str]()
        self.healthy = self.passing(None, None)
        self.files = dict(self.host.seen)
        self.covered: set[str] = set()
        self.wrong: list[tuple[Any, ...]] = []

    def passing(self, path: str | None, content: bytes | None) -> set[Key]:
        """The verdicts that pass when a file has this content. ``given``: the checks that say something else."""
        self.host.replaced = {path: content} if path is not None else {}
        self.seen, found = self.node.judge(self.host)
        self.base = self.base or self.seen
        self.given = {item.check for item in found if item.status != "pass"}
        return {(item.check, item.hca, item.port, item.subject) for item in found if item.status == "pass"}

    def run(self) -> None:
        for group in inputs_of(self.files, self.node.only):
            text = self.files[group[0].path].decode("utf-8", "replace")
            needs: set[Key] = set()
            for item in [*self.read_ones(group[:-1], text), group[-1]]:
                own = self.lost(item, text)
                needs |= own
                self.judge(item, text, needs if item.span is None else own)

    def read_ones(self, items: list[Input], text: str) -> Iterator[Input]:
        """The values that anybody reads: halves of the list whose change changes nothing are left out."""
        if len(items) > 1:
            content = with_text([(item, value) for item in items for value in wrong_values(item)[-1:]], text)
            self.passing(items[0].path, content)
            middle = len(items) // 2
            halves = [] if self.seen == self.base else [items[:middle], items[middle:]]
            for half in halves:
                yield from self.read_ones(half, text)
        else:
            yield from items

    def lost(self, item: Input, text: str) -> set[Key]:
        """The verdicts that a wrong value keeps from passing; of an HCA's own files only those about it."""
        found: set[Key] = set()
        for content in wrong_contents(item, text):
            now = self.passing(item.path, content)
            found |= {key for key in self.healthy - now if key[0] in self.given}
        hca = re.search("infiniband/([^/]+)/", item.path)
        known = [check for pattern, check in DEPENDS if item.span is None and re.search(pattern, item.name)]
        found |= {key for key in self.healthy if key[0] in known and key[1] in (None, FIRST)}
        return {key for key in found if hca is None or key[1] in (None, hca.group(1))}

    def judge(self, item: Input, text: str, needs: set[Key]) -> None:
        if not needs:
            return
        self.covered |= {"config.<area>" if key[0].startswith("config.") else key[0] for key in needs}
        contents = unreadable_forms(item, text)
        full, zero = at_ceiling(item), zeroed(item, text)
        contents += [full] if full is not None else []
        contents += [zero] if zero is not None and not any(re.search(pattern, item.name) for pattern in ZERO_IS_HEALTHY) else []
        for content in contents:
            for key in sorted(needs & self.passing(item.path, content), key=str):
                if not any(re.search(pattern, item.name) and key[0] == check for pattern, check, _why in LOOKED_AT):
                    self.wrong.append((item.name, None if content is None else content[item.span[0] if item.span else 0 :][:40], key))


# Evidence whose fault is no text: a command that hangs, a process that waits in two looks. (input, check)
DEPENDS = (
    ("cmd/stat_-f", "node.nfs"), ("cmd/ps_-eo", "node.stuck"), ("cmd/ps_-eo", "gpu.jobless"), ("bridge/config$", "pci.acs"),
    ("nic/config$", "pci.max_read_request"), ("gpu/config$", "accelerator.answers"), ("gpu_metrics$", "accelerator.xgmi"),
    ("current_clocksource$", "node.clocksource"),
)
FIRST = "mlx5_0"  # whose files are changed
# Values of which zero is a value of a healthy node: counts of errors, and what the makers define zero as.
ZERO_IS_HEALTHY = (
    "carrier_down_count$", "threshold$", "Module temperature$", "Channel", r"Temperature \[C\]$", "retrans_timeout_events$", "numa_node$",
)
# Passes by other evidence, which was read: (input, check, what it is).
LOOKED_AT = (
    ("nvidia-smi_-q_-x$", "pci.aer", "the kernel's own counters; gpu.answers says that nvidia-smi is silent"),
    ("tainted$", "node.machine_check", "the kernel's log"),
    ("tainted$", "node.oops", "the kernel's log"),
    ("tainted$", "node.hung", "the kernel's log"),
    ("gid_attrs/ndevs/", "rail.device", "the device's own directory of interfaces"),
    ("gid_attrs/ndevs/", "rail.gid", "the same"),
    ("compat_mode$", "erdma.mode", "the devices' own type of node"),
    ("carrier_down_count$|link_downed$", "port.flaps", "the kernel's log has each change of a link"),
    ("max_link_speed$", "pci.link_speed", "the other end's limit, which no link can exceed, is reached"),
    ("max_link_width$", "pci.link_width", "the same"),
    ("license_nvidia$", "gpudirect.path", "CUDA and the devices were asked themselves, and said yes"),
    ("nvlink_-e$", "gpu.nvlink", "number and rate of the links were read; not every driver counts their errors"),
    ("/net/[^/]*/mtu$", "port.active_mtu", "the path MTU was read, and the peer ports have the same"),
    ("Cable Technology$", "port.cable", "the type of the cable was read"),
)
INVENTORY = r"infiniband/|/net/|ip_-j|mst|systemctl_show|osrelease|boot|nvidia/version|config$|ibv_devinfo|F_version_nvidia|/nvidia/version"


ELSEWHERE = "nvidia|dcgm|cuda|ethtool|/infiniband/|/net/|ibv_|cmd/ip_"
OWN = "^(?!dev/kmsg|proc/sys|proc/modules)"  # the others are those of the first node
LOG = "node.kernel_log node.machine_check node.oom node.hung node.oops node.disk gpu.xid gpu.peermem pci.dma hca.health"
LINK = "port.state port.phys_state port.ber port.flaps"
NODES: dict[str, Node] = {
    "the node itself": Node(
        whole_nodes.roce, f"^(?!.*({ELSEWHERE}))",
        f"{LOG} gpu.jobless gpu.nouveau kernel.newest nccl.hcas node.clock node.clocksource node.memlock node.memory node.nfs node.stuck "
        "pci.above_4g pci.acs pci.aer pci.iommu pci.link_speed pci.link_width pci.numa stack.dkms stack.modules stack.packages"),
    "GPUs": Node(
        partial(whole_nodes.roce, count=2), "nvidia|dcgm|cuda",
        "gds.path gpu.answers gpu.clocks gpu.dcgm gpu.domain gpu.driver_loaded gpu.ecc gpu.fabric gpu.fabricmanager gpu.mig gpu.nvlink "
        "gpu.persistence gpu.power gpu.recovery gpu.remap gpu.thermal gpudirect.dmabuf gpudirect.path"),
    "RoCE": Node(
        whole_nodes.roce, "ethtool|/infiniband/|/net/|ibv_|cmd/ip_",
        f"{LINK} hca.fw_ver port.active_mtu port.cable port.fec port.optics port.rate port.width qos.storm rail.gid rail.mtu"),
    "InfiniBand": Node(
        whole_nodes.infiniband, "infiniband/|mlxlink|ibv_devinfo",
        f"{LINK} hca.fw_ver port.cable port.fec port.optics port.pkey port.rate port.width"),
    "a bond": Node(whole_nodes.bond, "net/bonding", "port.bond"),
    "MI300X": Node(trees.TREES["mi300x8"], OWN, "accelerator.answers accelerator.ras accelerator.xgmi pci.aer"),
    "EFA": Node(trees.limited(node_accelerators.efa_p5, "efa-p5"), OWN, "port.efa"),
    "eRDMA": Node(trees.TREES["erdma"], OWN, "erdma.port"),
    "with an inventory": Node(
        partial(whole_nodes.roce, count=2), INVENTORY,
        "firmware.version hca.fw_ver hca.hca_type kernel.pinned pci.max_read_request port.link_layer port.rate rail.address "
        "rail.gid rail.mtu", described),
    "QoS": Node(with_qos, "dcb|ecn|rdma_cm|nccl|tc/", "qos.chain", lossless),
    "Soft-RoCE's plan": Node(lambda _directory: WRITTEN / "rxe", OWN, "port.link_layer rail.device", partial(site_of, "rxe"), plans=True),
    "eRDMA's plan": Node(lambda _directory: WRITTEN / "erdma2", OWN, "erdma.mode", partial(site_of, "erdma2"), plans=True),
}


@pytest.mark.parametrize("name", NODES)
def test_an_input_that_cannot_be_read_passes_nothing(name: str, tmp_path: Path) -> None:
    scan = Scan(NODES[name], tmp_path)
    scan.run()
    assert not scan.wrong, "\n".join(map(str, scan.wrong))
    assert set(NODES[name].covers.split()) <= scan.covered, f"no input matters any more to {set(NODES[name].covers.split()) - scan.covered}"


# Checks that none of these nodes covers: why, or where their inputs are taken away.
NAMES = "of names in directories, which no content replaces: "
AREA = "tests/unit/areas/"
NOT_HERE = {
    "accelerator.judged": "never passes",
    "aiacc.nccl": f"of programs' bytes: {AREA}nccl/aiacc",
    "aiacc.plugin": f"{NAMES}{AREA}nccl/aiacc",
    "config.<area>": "of the whole plan: test_missing_evidence.py, every file of a node",
    "cpu.isolated": f"{AREA}system/test_cpu.py",
    "erdma.count": f"{NAMES}tests/unit/checks/erdma",
    "erdma.provider": f"{NAMES}tests/unit/checks/erdma",
    "firewall.roce": f"{AREA}firewall/test_verdicts.py",
    "firewall.tcp": f"{AREA}firewall/test_verdicts.py",
    "firmware.config": f"{AREA}system/nic_firmware",
    "gpu.count": f"{NAMES}test_missing_evidence.py",
    "gpu.driver": f"of two files that stand in for each other: {AREA}gpu/test_gpu_checks.py",
    "gpu.imex": f"{AREA}gpu/test_gpu_checks.py",
    "gpu.near": f"{NAMES}test_nearness.py",
    "gpu.sxid": "the log, as gpu.xid: test_health.py",
    "gpudirect.built": f"{AREA}gpu/gpudirect",
    "gpudirect.peermem": f"{AREA}gpu/gpudirect",
    "gpudirect.traffic": "of a measurement: tests/unit/measure",
    "hca.device": f"{NAMES}tests/faults",
    "nccl.gid": "the GIDs, as rail.gid: tests/unit/nccl",
    "nccl.plugin": f"{AREA}nccl/test_net_plugin.py",
    "node.hangs": "never passes",
    "node.rdma_limit": "never passes",
    "qos.peers": "never passes",
    "node.hcas": f"{NAMES}test_missing_evidence.py",
    "node.lustre": "never passes",
    "opensm.build": f"of the package database: {AREA}system",
    "pci.sriov": "says what it found, and passes without any",
    "pci.switch": f"{NAMES}tests/faults",
    "port.growth": "the agent's, from its history: tests/unit/agent",
    "qos.boot": "test_qos_boot.py",
    "stack.headers": f"{NAMES}{AREA}stack",
    "stack.secure_boot": f"of a variable of the firmware: {AREA}kernel/test_secure_boot.py",
}


def test_every_check_of_a_node_has_an_input_that_is_taken_away() -> None:
    """A check that is in no table here would pass unnoticed."""
    of_nodes = {row.check for name in ("rails", "node", "alone", "health", "machine", "gpudirect", "gds") for row in SECTIONS[name]}
    covered = {check for node in NODES.values() for check in node.covers.split()}
    assert sorted(of_nodes - covered - set(NOT_HERE)) == []
    assert sorted(set(NOT_HERE) & covered) == []
