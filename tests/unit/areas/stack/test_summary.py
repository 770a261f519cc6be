# SPDX-License-Identifier: GPL-3.0-or-later
"""One line for each thing that drives a node, from the captured nodes; a plan says the same as the facts."""

import json

import pytest
from tests.unit.areas.stack.conftest import NODES

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_summary, stack_summary
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from node_trees import FACTS


def summary(name: str, **facts: object) -> dict[str, str]:
    return stack_summary(json.loads((FACTS / f"{name}.json").read_text()) | facts)


def test_a_node_with_everything() -> None:
    assert summary("doca8") == {
        "kernel": "6.8.0-85-generic",
        "stack": "doca 3.2.2-035000; loaded modules: doca 25.10-2.4.1",
        "DKMS": "mlnx-ofed-kernel/25.10.OFED.25.10.2.4.1.1 installed, nvidia/580.95.05 installed",
        "GPU driver": "580.95.05 open, 8 GPUs",
        "firmware": "MT4129 28.47.1080 (8)",
        "peer memory": "nvidia_peermem 580.95.05, registered with ib_core",
    }


def test_a_node_in_trouble_says_what_is_wrong() -> None:
    found = summary("half-installed")
    assert found["kernel"] == "6.1.0-18-amd64; the next boot starts 6.1.0-26-amd64"
    assert found["stack"].endswith("half installed: mlnx-ofed-kernel-dkms (half-configured), doca-ofed (unpacked)")
    assert found["DKMS"].endswith(" added")
    odd = summary("doca8", gpudirect={"peermem_module": "nvidia_peermem", "peermem_registered": False}, gpu_driver=None)
    assert odd["peer memory"] == "nvidia_peermem, NOT registered with ib_core"
    assert odd["GPU driver"] == "8 GPUs, no driver loaded"


@pytest.mark.parametrize("name", ["doca8", "mlnx-ofed", "half-installed", "ib8", "nohca", "broken"])
def test_a_plan_says_what_the_facts_say(name: str) -> None:
    host = TreeHost(str(NODES / name))
    planned = observe_summary(host, observe_identity(host))
    assert planned == summary(name)
    assert all(text and "None" not in text for text in planned.values())
