# SPDX-License-Identifier: GPL-3.0-or-later
"""What one root on one node could do before, each as it was found: run something on the controller, have its files, write on other nodes.

All with a plain ansible-playbook and fact injection on, which is Ansible's default.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.hostile.cluster import HONEST, Cluster, Outcome
from tests.hostile.honest import ANSWERS, PLAN, texts
from tests.hostile.lies import FACTS
from tests.hostile.scenarios import BUILDING, UNSIGNED, planned, role

pytestmark = pytest.mark.core  # facts reach variables in another way there
LIAR = "liar000"


def text(key: str, **more: object) -> str:
    return json.dumps({**ANSWERS[key], **more})


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def sent(cluster: Cluster, host: str) -> list[tuple[str, str]]:
    """(file of the controller, path on the node) of everything that was copied to a host."""
    log = cluster.directory / "world" / "sent"
    rows = [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []
    return [(row[1], row[2]) for row in rows if row[0] == host]


def nothing_happened(cluster: Cluster, outcome: Outcome) -> None:
    assert not (cluster.directory / "executed").exists()
    assert not [what for event, what in outcome.audit if event == "read"], "the operator's key was read"
    assert not [source for source, _path in sent(cluster, LIAR) if "/.ssh/" in source]


def test_facts_of_a_lease_run_no_command_on_the_controller(cluster: Cluster) -> None:
    """upgrade_scheduler: command with a host and a command came as facts with the answer to the lease."""
    facts = {name: value for name, value in FACTS.items() if name.startswith("upgrade_")}
    lie = {"rdma_upgrade:lease": text("rdma_upgrade:lease", ansible_facts={**facts, "upgrade_scheduler_host": "localhost"})}
    tasks = [{"ansible.builtin.include_role": {"name": "railwright.rdma.upgrade", "tasks_from": name}} for name in ("lease", "drained")]
    play = [{"hosts": "rdma", "gather_facts": False, "tasks": tasks}]
    outcome = cluster.play(play, {"rdma_upgrade_run": "r1"}, {"": texts()}, {LIAR: lie})
    nothing_happened(cluster, outcome)
    assert "it holds ansible_facts" in outcome.failures(LIAR)[0]
    assert [outcome.failures(name) for name in HONEST] == [[], []]


@pytest.mark.parametrize("module", ["stat", "setup"])
def test_an_earlier_plays_fact_named_like_our_key_is_refused_by_name(cluster: Cluster, module: str) -> None:
    """A liar's answer to ansible.builtin.stat replaced the inventory's aiacc_archive, and the private key was copied to the node."""
    theirs = {"name": "Theirs", f"ansible.builtin.{module}": {"path": "/x"} if module == "stat" else {}}
    site = [{"hosts": "rdma", "gather_facts": False, "tasks": [theirs]}, *apply_of_aiacc()]
    lie = {f"{module}:": text(f"{module}:", ansible_facts={**FACTS, "aiacc_archive": str(cluster.home / ".ssh" / "id_ed25519")})}
    outcome = cluster.play(site, {}, {"": {**texts(), **packages()}}, {LIAR: lie})
    nothing_happened(cluster, outcome)
    assert "aiacc_archive" in outcome.failures(LIAR)[0]
    assert "came as a fact of the node; allowed: only the inventory sets this" in outcome.failures(LIAR)[0]


def test_a_fact_named_like_our_key_is_refused_for_each_item_of_a_loop(cluster: Cluster) -> None:
    """One process runs all items, and only the first one was compared with the inventory."""
    theirs = {"name": "Theirs", "ansible.builtin.stat": {"path": "/x"}}
    looped = {"name": "Looped", "railwright.rdma.rdma_facts": {}, "loop": [1, 2]}
    lie = {"stat:": text("stat:", ansible_facts={"rdma_mtu": 1500})}
    outcome = cluster.play([{"hosts": "rdma", "gather_facts": False, "tasks": [theirs, looped]}], {}, {"": texts()}, {LIAR: lie})
    assert [failure.partition(":")[0] for failure in outcome.failures(LIAR)] == ["rdma_mtu", "rdma_mtu"]


def test_facts_that_only_look_like_keys_of_ours_stop_nobody(cluster: Cluster) -> None:
    """An interface may be called rdma_0, or rdma_mtu: setup then sends ansible_rdma_mtu, which is not the key rdma_mtu."""
    site = [{"hosts": "rdma", "gather_facts": True, "tasks": []}, *apply_of_aiacc()]
    facts = {"ansible_kernel_version": "#1 SMP", "ansible_rdma_0": {"device": 0}, "ansible_nccl_tests": "x", "ansible_rdma_mtu": 1500}
    outcome = cluster.play(site, {}, {"": {**texts(), **packages(), "setup:": json.dumps({"ansible_facts": facts})}}, {})
    assert [outcome.failures(name) for name in HONEST] == [[], []]


def packages() -> dict[str, str]:
    return {key: json.dumps(value) for key, value in planned(UNSIGNED).items()}


def apply_of_aiacc() -> list[dict[str, object]]:
    return role("rdma_stack", "packages", __rdma_stack_plan={**PLAN, **planned(UNSIGNED)["rdma_state:plan"]})


def test_a_file_travels_only_if_the_inventory_names_it(cluster: Cluster) -> None:
    """The same copy where nothing names a file: no template of a play does, whatever it has become."""
    outcome = cluster.play(apply_of_aiacc(), {}, {"": {**texts(), **packages()}}, {})
    nothing_happened(cluster, outcome)
    assert not sent(cluster, "honest1")


def test_the_builder_does_not_choose_where_its_build_lands(cluster: Cluster) -> None:
    """The path of the packed build was the builder's word: any file of every receiver, as root. The builder is the first node that can."""
    lie = {"rdma_prefix:nccl_tests.pack": text("rdma_prefix:nccl_tests.pack", archive="/etc/cron.d/owned")}
    honest = {"": texts(), "honest1": {**lie, "rdma_prefix:nccl_tests.build": text("rdma_prefix:nccl_tests.build")}}
    outcome = cluster.play("nccl_tests", BUILDING, honest, {})
    rows = [line.split(" ") for line in (cluster.directory / "world" / "touched").read_text().splitlines()]
    assert {path for host, path in rows if host == "honest2"} and all(path.startswith("/var/cache/railwright") for _host, path in rows)
    nothing_happened(cluster, outcome)


@pytest.mark.parametrize("name", ["../../operator_home/.ssh/id_ed25519", "/root/.ssh/id_ed25519", "torch.whl"])
def test_a_node_does_not_choose_files_of_the_controller_as_wheels(cluster: Cluster, name: str) -> None:
    wheels = cluster.home / "wheels"
    wheels.mkdir()
    (wheels / "torch-2.9.1+cpu-cp311-cp311-manylinux_2_28_x86_64.whl").write_text("a wheel")
    environment = {**ANSWERS["rdma_prefix:ai_environment.inspect"]["release"], "missing": True, "wheels": [name]}
    lie = {"rdma_prefix:ai_environment.inspect": text("rdma_prefix:ai_environment.inspect", release=environment)}
    site = {"ai_environment_kind": "venv", "ai_environment_torch": "2.9.1+cpu", "ai_environment_wheels": str(wheels)}
    play = role("ai_environment")
    outcome = cluster.play(play, site, {"": texts()}, {LIAR: lie})
    nothing_happened(cluster, outcome)
    assert "allowed: wheels of" in outcome.failures(LIAR)[0]
    assert not sent(cluster, LIAR)


def test_facts_of_one_node_do_not_stop_the_judgement_of_all(cluster: Cluster) -> None:
    """``facts: {hcas: 1}`` ended rdma_cluster for every node."""
    facts = {**ANSWERS["rdma_check:verdicts"]["facts"], "hcas": 1}
    lie = {"rdma_check:verdicts": text("rdma_check:verdicts", facts=facts)}
    outcome = cluster.play("validate", {"validate_perftest": False}, {"": texts()}, {LIAR: lie})
    assert "the node's answer is none of rdma_check: facts.hcas is the number 1; allowed: a list" in outcome.failures(LIAR)[0]
    judged = [result for task, result in outcome.of("honest1") if "summary" in result]
    assert judged, "the others were judged"


@pytest.mark.parametrize("rail", [{"address": "203.0.113.66"}, {"name": "rail9"}])
def test_a_node_does_not_choose_whom_the_others_connect_to(cluster: Cluster, rail: dict[str, str]) -> None:
    """They ping the addresses of its rails, and perftest connects there."""
    lie = {"rdma_check:verdicts": text("rdma_check:verdicts", rails=[{**ANSWERS["rdma_check:verdicts"]["rails"][0], **rail}])}
    outcome = cluster.play("validate", {"validate_perftest": False}, {"": texts()}, {LIAR: lie})
    assert "allowed: the rails of the inventory with their addresses" in outcome.failures(LIAR)[0]
    judged = [result for _task, result in outcome.of("honest1") if "peers" in result]
    assert judged
    assert set(judged[0]["peers"]) == set(HONEST)
