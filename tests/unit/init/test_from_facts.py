# SPDX-License-Identifier: GPL-3.0-or-later
"""init --from-facts: what captured nodes have is an inventory that lint accepts; what a lying node says is no word of it."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.lib.node_trees import NODES

import railwright.cli.init as verb
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree
from ansible_collections.railwright.rdma.plugins.module_utils.observe.health import most_supported
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE, passed
from railwright.check import Host, hosts_of
from railwright.cli.main import run
from railwright.events import HostOutcome
from railwright.exitcodes import CommandError
from railwright.init import write_inventory
from railwright.init.from_facts import files_from_facts
from railwright.inventory import Inventory, load_inventory
from railwright.job_user import root_logins
from railwright.lint import judge_with_specs, lint
from railwright.lint_examples import left_examples

NODE = Host("gpu1", None, "gpu1")
EVIL = "{{ lookup('pipe', 'touch /tmp/x') }}"


def facts(tree: str) -> dict[str, Any]:
    """As they pass the gate that every node's answer passes."""
    found: dict[str, Any] = passed(f"{NAMESPACE}rdma_facts", None, {"changed": False, "rdma": facts_of_tree(str(NODES / tree))})["rdma"]
    return found


def rails_of(texts: dict[str, str], host: str = "gpu1") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(texts["hosts.yml"])["all"]["children"]["rdma"]["hosts"][host]["rdma_rails"]
    return found


@pytest.mark.parametrize(("tree", "fabric", "mtu", "rails", "first"), [
    ("doca8", "roce", 9000, 8, {"name": "rail0", "match": {"pci": "0000:13:00.0"}, "address": "10.10.0.11/24"}),
    ("ib8", "infiniband", 4092, 8, {"name": "rail0", "match": {"pci": "0000:18:00.0"}}),
    ("erdma2", "erdma", 1400, 2, {"name": "rail0", "match": {"pci": "0000:00:08.0"}, "address": "172.16.0.11/16"}),
    ("rxe", "roce", 9000, 1, {"name": "rail0", "match": {"mac": "52:54:00:bb:00:01"}, "address": "10.10.0.11/24"}),
    ("multiport", "infiniband", 2044, 1, {"name": "rail0", "match": {"guid": "f452:1403:0000:6001"}})])
def test_the_inventory_of_a_captured_node(tmp_path: Path, tree: str, fabric: str, mtu: int, rails: int, first: dict[str, Any]) -> None:
    texts = files_from_facts({NODE: facts(tree)}, None)
    assert rails_of(texts)[0] == first
    assert len(rails_of(texts)) == rails
    write_inventory(tmp_path, texts)
    assert lint(tmp_path) == left_examples(load_inventory(tmp_path)) == []
    values = load_inventory(tmp_path).hosts["gpu1"]
    assert (values["rdma_fabric"], values["rdma_mtu"]) == (fabric, mtu)
    assert "rdma_expect" not in values, "what a node has is not what it should have"


def test_every_guess_is_marked() -> None:
    texts = files_from_facts({NODE: facts("doca8")}, None)
    for line in texts["hosts.yml"].splitlines():
        assert "# guess: " in line or not re.search(r"rdma_rails:|address:|mtu:", line), line
    assert re.findall(r"^(?:# )?(\w+): .*# guess: ", texts["group_vars/all/site.yml"], re.MULTILINE) == [
        "rdma_fabric", "rdma_mtu", "rdma_stack", "rdma_expect"]
    assert "# rdma_expect: {gpus: 8, hcas: 8, rate_gbps: 400}  # guess: " in texts["group_vars/all/site.yml"]
    assert "mlx5_bond_0" not in str(rails_of(files_from_facts({NODE: facts("roce8-bond")}, None))), "a port without a link"
    assert rails_of(files_from_facts({NODE: facts("nohca")}, None)) == []


MODES = """Settings for ens10np0:
\tSupported ports: [ FIBRE ]
\tSupported link modes:   100000baseCR4/Full
\t                        %sbaseCR8/Full
\tAdvertised link modes:  800000baseCR8/Full
\tSpeed: 100000Mb/s
"""


@pytest.mark.parametrize(("modes", "expected"), [("400000", 400), ("200000", 200), ("", None)])
def test_the_nics_own_maximum_is_an_expectation(tmp_path: Path, modes: str, expected: int | None) -> None:
    """The links may run at less: what was seen stays a comment. One rail whose NIC reports nothing, and it is left out."""
    found = facts("doca8")
    ports = [(hca["name"], port) for hca in found["hcas"] for port in hca["ports"]]
    for _name, port in ports:
        port["rate_gbps"] = 100
    told = most_supported(MODES % modes) if modes else None
    found["health"]["ports"] = [{"hca": name, "port": 1, "netdev": "x", "max_gbps": told} for name, _port in ports]
    texts = files_from_facts({NODE: found}, None)
    write_inventory(tmp_path, texts)
    values = load_inventory(tmp_path).hosts["gpu1"]
    assert values.get("rdma_expect") == ({"rate_gbps": expected} if expected else None)
    assert "# rdma_expect: {gpus: 8, hcas: 8, rate_gbps: 100}  # guess: " in texts["group_vars/all/site.yml"]
    assert lint(tmp_path) == []


def test_hosts_have_the_names_that_were_typed(tmp_path: Path) -> None:
    hosts = hosts_of(["gpu1", "root@gpu2", "10.1.0.3", "123"])
    other = copy.deepcopy(facts("ib8"))
    other["hcas"][0]["ports"][0]["netdev_mtu"] = 2044
    write_inventory(tmp_path, files_from_facts(dict.fromkeys(hosts, facts("ib8")) | {hosts[1]: other}, None))
    inventory = load_inventory(tmp_path)
    assert list(inventory.hosts) == ["gpu1", "gpu2", "10.1.0.3", "123"]
    assert [inventory.connection[name].get("ansible_user") for name in inventory.hosts] == [None, "root", None, None]
    assert [values["rdma_rails"][0].get("mtu") for values in inventory.hosts.values()] == [None, 2044, None, None]
    assert [item.key for item in lint(tmp_path)] == ["rdma_rails[0].mtu"], "the nodes contradict each other, and lint says so"


def test_a_nodes_management_is_no_rail() -> None:
    found = facts("doca8")
    found["netdevs"] = [item | {"management": item["name"] == "ens10np0"} for item in found["netdevs"]]
    texts = files_from_facts({NODE: found}, None)
    assert rails_of(texts)[0]["match"] == {"pci": "0000:2b:00.0"}
    assert "# not rails (no link, another fabric, far from GPUs, or the node's management): mlx5_0\n" in texts["hosts.yml"]


@pytest.mark.parametrize("lie", [
    EVIL, "x\n        evil: {hosts: {evil: }}", "'\"#: }]\n- a", "../../etc/passwd", "!!python/object:os.system", "%"])
def test_no_word_of_a_lying_node_is_written(tmp_path: Path, lie: str) -> None:
    """In every text that the inventory is made of. What is no identifier and no address is left out, with the rail where none is left."""
    found = facts("doca8")
    for number, hca in enumerate(found["hcas"]):
        port, netdev = hca["ports"][0], next(item for item in found["netdevs"] if item["name"] == hca["ports"][0]["netdev"])
        netdev["addresses"] = [lie, f"10.10.{number}.11/24{lie}", *netdev["addresses"]] if number else [lie]
        hca["name"], netdev["name"], port["netdev"] = lie, f"{lie}{number}", f"{lie}{number}"
        if number == 1:
            hca["pci_address"], netdev["mac"] = lie, lie
    found["hostname"] = found["stack"]["name"] = found["kernel"] = lie
    answer = passed(f"{NAMESPACE}rdma_facts", None, {"changed": False, "rdma": found})
    texts = files_from_facts({NODE: answer["rdma"]}, None)
    inventory = yaml.safe_load(texts["hosts.yml"])
    assert list(inventory["all"]["children"]) == ["rdma"]
    assert list(inventory["all"]["children"]["rdma"]["hosts"]) == ["gpu1"]
    assert all(rail.keys() <= {"name", "match", "address"} for rail in rails_of(texts))
    assert "0000:2b:00.0" not in texts["hosts.yml"]
    assert lie not in texts["hosts.yml"]
    assert yaml.safe_load(texts["group_vars/all/site.yml"]) == {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_stack": "inbox"}
    write_inventory(tmp_path, texts)
    assert [item for item in lint(tmp_path) if item.severity == "error"] == []


def test_a_node_of_endless_ports() -> None:
    found = facts("ib8")
    found["hcas"] = [{**found["hcas"][0], "name": f"mlx5_{number}", "pci_address": f"0000:{number:02x}:00.0"} for number in range(65)]
    with pytest.raises(CommandError, match="gpu1: has 65 RDMA ports with a link; allowed: at most 64"):
        files_from_facts({NODE: found}, None)


def test_a_host_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = {"gpu1": HostOutcome("gpu1", facts=facts("ib8")), "gpu2": HostOutcome("gpu2", "unreachable", message="no route")}
    monkeypatch.setattr(verb, "asked", lambda *_words, **_more: (outcomes, []))
    assert run(["init", str(tmp_path / "site"), "--from-facts", "gpu1", "gpu2"]) == 3
    assert capsys.readouterr() == ("", "gpu2: unreachable: no route\nnothing was written\n")
    assert not (tmp_path / "site").exists()
    del outcomes["gpu2"]
    assert run(["init", str(tmp_path / "site"), "--from-facts", "gpu1"]) == 0
    assert len(load_inventory(tmp_path / "site").hosts) == 1


@pytest.mark.parametrize(("words", "said"), [
    (["--from-facts"], "allowed: init DIR"), (["gpu1"], "allowed: init DIR"), (["--minimal", "--from-facts", "gpu1"], "allowed: init DIR"),
    (["--sudo", "--fabric", "roce"], "allowed: init DIR"), ([], "--fabric is missing"), (["--minimal"], "--fabric is missing"),
    (["--from-facts", "gpu1", "root@gpu1"], "gpu1: is named twice"), (["--from-facts", "a:b"], "is no name for an inventory"),
    (["--from-facts", "{{x}}"], "is no name for an inventory"), (["--from-facts", "{{x}}@gpu1"], "is no name for an inventory"),
    (["--from-facts", "-oProxyCommand=x"], "")])
def test_what_is_refused_before_a_node_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:  # fmt: skip
    monkeypatch.setattr(verb, "asked", lambda *_words, **_more: pytest.fail("a node was asked"))
    assert run(["init", str(tmp_path / "site"), *words]) == 64
    assert said in capsys.readouterr().err
    (tmp_path / "hosts.yml").write_text("", encoding="utf-8")
    assert run(["init", str(tmp_path), "--from-facts", "gpu1"]) == 64
    assert "hosts.yml: exists and is not overwritten" in capsys.readouterr().err


def test_a_login_as_root_is_told_what_bench_needs(tmp_path: Path) -> None:
    """As written, nothing runs as root: lint names the one key, which stands in site.yml as a comment with its meaning."""
    texts = files_from_facts({Host("root@gpu1", "root", "gpu1"): facts("doca8")}, None)
    assert "ansible_user: root  # jobs never run as root: bench needs rdma_job_user (group_vars/all/site.yml)\n" in texts["hosts.yml"]
    write_inventory(tmp_path, texts)
    (finding,) = root_logins(*read(tmp_path))
    assert (finding.key, finding.value, finding.severity) == ("ansible_user", "root", "warning")
    site = tmp_path / "group_vars/all/site.yml"
    assert "\n# rdma_job_user: mpi\n" in site.read_text()
    site.write_text(site.read_text().replace("\n# rdma_job_user: mpi\n", "\nrdma_job_user: mpi\n"))
    assert root_logins(*read(tmp_path)) == []


def read(directory: Path) -> tuple[Inventory, dict[str, Spec]]:
    inventory = load_inventory(directory)
    return inventory, judge_with_specs(inventory)[1]
