# SPDX-License-Identifier: GPL-3.0-or-later
"""What --limit chooses of a real inventory: host lists beside Ansible's patterns, which keep their meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from railwright.exitcodes import InputError
from railwright.inventory import load_inventory
from railwright.limits import settled

# Groups gpu and web have the names that their hosts begin with, so that both readings of NAME[1-2] have hosts.
SITE = """
rdma: {hosts: {'gpu[001:016]': , 'node[0:4]': , web1: , web2: , web3: , rack1n01: , rack1n02: , rack2n01: , rack2n02: , 'fd00::1': },
       vars: {rdma_fabric: roce, rdma_mtu: 9000}}
gpu: {hosts: {'gpu[001:016]': }}
web: {hosts: {web1: , web2: , web3: }}
slurm: {hosts: {web1: }}
others: {hosts: {outside1: , outside2: }}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "hosts.yml").write_text(SITE, encoding="utf-8")
    return tmp_path / "hosts.yml"


def chosen(site: Path, limit: str) -> str:
    return " ".join(load_inventory(site, limit).hosts)


@pytest.mark.parametrize(("limit", "hosts"), [
    ("gpu[001-003]", "gpu001 gpu002 gpu003"), ("gpu[001-002,007]", "gpu001 gpu002 gpu007"), ("gpu[016]", "gpu016"),
    ("node[0-2]", "node0 node1 node2"), ("rack[1-2]n[01-02]", "rack1n01 rack1n02 rack2n01 rack2n02"), ("rack[1-2]n01", "rack1n01 rack2n01"),
    ("gpu[001-004]:!gpu002", "gpu001 gpu003 gpu004"), ("gpu[001-004],!gpu[002-003],web1", "gpu001 gpu004 web1"),
    ("gpu:&gpu[001-002]", "gpu001 gpu002"), ("!gpu[001-015],gpu", "gpu016"), ("web1,node[0,4], gpu[001]", "gpu001 node0 node4 web1"),
    ("outside[1-2],web1", "web1"), ("fd00::1,node[0-1]", "node0 node1 fd00::1")])
def test_a_host_list(site: Path, limit: str, hosts: str) -> None:
    assert chosen(site, limit) == hosts


@pytest.mark.parametrize(("limit", "hosts"), [
    ("gpu[1:3]", "gpu002 gpu003 gpu004"), ("gpu[001:003]", "gpu002 gpu003 gpu004"), ("gpu[0]", "gpu001"), ("gpu[-1]", "gpu016"),
    ("gpu[0-2]", "gpu001 gpu002 gpu003"), ("gpu[14-]", "gpu015 gpu016"), ("web[1]", "web2"), ("web:!web[0]", "web2 web3"),
    ("web1:node1", "node1 web1"), ("~gpu00[12]", "gpu001 gpu002"), ("gpu00[1-2]*", "gpu001 gpu002"), ("slurm:web2", "web1 web2"),
    ("fd00::1", "fd00::1"), ("gpu[001-002]:gpu[0]", "gpu001 gpu002")])
def test_what_ansible_means_by_it_stays(site: Path, limit: str, hosts: str) -> None:
    """A subscript is of a group, a slice of its hosts by their place; a name in front of a colon is a group."""
    assert chosen(site, limit) == hosts


@pytest.mark.parametrize(("limit", "said"), [
    ("web[1-2]", "is web2, web3 to Ansible, and web1, web2 as a host list; allowed: web[1:2] for the one, slurm:nodes=web[1-2] for the"),
    ("gpu[015-018]", "gpu017, gpu018: no host of the inventory; allowed: fd00::1,"),
    ("nope[1-2]", "nope is no host or group"), ("nope[1,2]", "nope1, nope2: no host of the inventory"),
    ("nope,node[0-1]", "nope is no host or"),
    ("node[0-99999999]", "is no host or group"), ("gpu[50]", "matches no host of group rdma"), ("node[0-1]:!node[0-1]", "matches no host")])
def test_a_limit_that_is_refused(site: Path, limit: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        load_inventory(site, limit)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_upgrade_goes_on_with_the_nodes_that_it_began_with() -> None:
    assert settled("slurm:job=4711", ["a", "b"]) == "a,b"
    assert settled("rack1:!a", ["b"]) == "rack1:!a"
