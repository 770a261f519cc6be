# SPDX-License-Identifier: GPL-3.0-or-later
"""No verdict passes on an input that cannot be read: empty, unreadable, "N/A", "not supported", text of another form, zero, at its ceiling.

Where a wrong value of an input keeps a verdict from passing, no unreadable form of the input may let it pass. Inputs are the files of nodes
written from documented formats and the answers of their commands, and in these each value; of alike rails and GPUs one is changed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import whole_nodes
from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node, judge_plan
from ansible_collections.railwright.rdma.plugins.module_utils.checks.wishless import NEEDS_WISH, judge_without_wish
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.check_table import SECTIONS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from field_specs import build_spec
from input_forms import Input, ReplacingHost, at_ceiling, inputs_of, unreadable_forms, with_text, wrong_contents, wrong_values, zeroed
from tests.faults import trees
from tests.fixtures import node_qos
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES
from node_trees import NODES as WRITTEN
from tree_sites import spec_of as site_of

Key = tuple[str, str | None, int | None, str]
Write = Callable[[Path], Path]
Judged = tuple[Any, list[Verdict]]


class Node:
    """``parts``: so many tests share its inputs. ``only``: the inputs whose paths match. ``spec``: without one as `check` judges."""

    def __init__(self, write: Write, only: str = "", spec: Callable[[], Spec] | None = None, plans: bool = False) -> None:
        self.write, self.only, self.spec, self.plans = write, only, spec, plans

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
        return (identity, facts, plan), found + judge_plan("node", [row.name for row in AREAS], plan.changes, plan.problems, inspection.targets)


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
        found |= {key for key in self.healthy for pattern, check in DEPENDS if item.span is None and key[0] == check and re.search(pattern, item.name)}
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
                    self.wrong.append((item.name, (b"unreadable" if content is None else content)[:60] if item.span is None else self.part(item, content), key))

    @staticmethod
    def part(item: Input, content: bytes | None) -> str:
        assert item.span is not None and content is not None
        return content.decode("utf-8", "replace")[item.span[0] :][:30]


# Evidence whose fault is no text: a command that hangs, a process that waits in two looks. (input, check)
DEPENDS = (
    ("cmd/stat_-f", "node.nfs"), ("cmd/ps_-eo", "node.stuck"), ("cmd/ps_-eo", "gpu.jobless"),
    ("bridge/config$", "pci.acs"), ("gpu/config$", "accelerator.answers"), ("gpu_metrics$", "accelerator.xgmi"),
)
# Values of which zero is a value of a healthy node: counts of errors, and what the makers define zero as.
ZERO_IS_HEALTHY = (
    "carrier_down_count$", "threshold$", "Module temperature$", "Channel|Chan", r"Temperature \[C\]$", "retrans_timeout_events$", "numa_node$",
)
# Passes by other evidence, which was read: (input, check, what it is).
LOOKED_AT = (
    ("carrier_down_count$|link_downed$", "port.flaps", "the kernel's log has each change of a link"),
    ("max_link_speed$", "pci.link_speed", "the other end's limit, which no link can exceed, is reached"),
    ("max_link_width$", "pci.link_width", "the same"),
    ("nvlink_-e$", "gpu.nvlink", "number and rate of the links were read; not every driver counts their errors"),
    ("/net/[^/]*/mtu$", "port.active_mtu", "the path MTU was read, and the peer ports have the same"),
    ("Cable Technology$", "port.cable", "the type of the cable was read"),
)
QOS = QOS_PROFILES[0]
INVENTORY = r"infiniband/|/net/|ip_-j|mst|systemctl_show|osrelease|boot|nvidia/version|config$|ibv_devinfo|F_version_nvidia|nccl"


def spec_of(**values: Any) -> Spec:
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, **values}, "node")
    assert spec is not None, findings
    return spec


def described() -> Spec:
    """An inventory that expects all that the node of two rails has."""
    rails = [{"name": f"rail{at}", "match": {"pci": trees.NICS[at]}, "address": f"10.10.{at}.11/24"} for at in range(2)]
    expect = {"rate_gbps": 400, "hcas": 2, "gpus": 2, "fw_ver": "28.47.1080", "hca_type": "MT4129", "active_mtu": 4096,
              "gpu_driver": "580.95.05"}
    return spec_of(rdma_stack="doca", rails=rails, expect=expect, pci_tuning_max_read_request=4096, kernel_version="6.8.0-85-generic",
                   nic_firmware_versions={"MT_0000000838": "28.47.1080"}, host_tuning_memlock="unlimited")


def lossless() -> Spec:
    return spec_of(rdma_stack="inbox", rails=[{"name": "rail0", "match": {"mac": node_qos.MAC}, "address": "10.10.0.11/24"}])


def with_qos(directory: Path) -> Path:
    return node_qos.with_dcb(directory / "node", QOS).root


NODES: dict[str, Node] = {
    "roce: GPUs": Node(partial(whole_nodes.roce, count=2), "nvidia|dcgm|cuda"),
    "roce: ports": Node(whole_nodes.roce, "ethtool|/infiniband/|/net/|ibv_|cmd/ip_"),
    "roce: node": Node(whole_nodes.roce, "^(?!.*(nvidia|dcgm|cuda|ethtool|/infiniband/|/net/|ibv_|cmd/ip_))"),
    "infiniband": Node(whole_nodes.infiniband, "infiniband/|mlxlink|ibv_devinfo"),
    "mi300x8": Node(trees.TREES["mi300x8"]),
    "efa-p5": Node(trees.TREES["efa-p5"]),
    "erdma": Node(trees.TREES["erdma"]),
    "with an inventory": Node(partial(whole_nodes.roce, count=2), INVENTORY, described),
    "QoS": Node(with_qos, "dcb|ecn|rdma_cm|nccl|tc/", lossless),
    "Soft-RoCE's plan": Node(lambda _directory: WRITTEN / "rxe", "", partial(site_of, "rxe"), plans=True),
    "eRDMA's plan": Node(lambda _directory: WRITTEN / "erdma2", "", partial(site_of, "erdma2"), plans=True),
}


@pytest.mark.parametrize("name", NODES)
def test_an_input_that_cannot_be_read_passes_nothing(name: str, tmp_path: Path) -> None:
    scan = Scan(NODES[name], tmp_path)
    scan.run()
    print(sorted(scan.covered))
    assert not scan.wrong, "\n".join(map(str, scan.wrong))
