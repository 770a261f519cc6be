# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb on whole inventories: which text is printed for whom, what stops it, and what never gets into a text."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import switch_text
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import qos_profile
from railwright.cli.main import run
from railwright.switch_hints import hints

HOSTS = """all:
  children:
    rdma:
      hosts:
        n1:
          rdma_rails: [{name: rail0, match: {pci: "0000:18:00.0"}, address: 198.51.100.11/25}]
        n2:
          rdma_rails: [{name: rail0, match: {pci: "0000:18:00.0"}, address: 198.51.100.12/25}]
"""
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """An inventory in an empty working directory. No node can be contacted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setitem(sys.modules, "railwright.run", None)  # the only way to a node; importing it is an error now

    def inventory(site: str, hosts: str = HOSTS, **host_vars: str) -> str:
        (tmp_path / "inv/group_vars").mkdir(parents=True)
        (tmp_path / "inv/host_vars").mkdir()
        (tmp_path / "inv/hosts.yml").write_text(hosts, encoding="utf-8")
        (tmp_path / "inv/group_vars/all.yml").write_text(site, encoding="utf-8")
        for name, text in host_vars.items():
            (tmp_path / f"inv/host_vars/{name}.yml").write_text(text, encoding="utf-8")
        return "inv"

    return inventory


def told(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> tuple[str, str]:
    got = run(["switch", "hints", *argv])
    out, err = capsys.readouterr()
    assert got == code, err
    return out, err


def text(system: str, name: str) -> str:
    profile = qos_profile(name)
    assert profile is not None
    return "\n".join(hints(system, profile)) + "\n"


@pytest.mark.parametrize("system", sorted(switch_text.READERS))
def test_the_default_profile_of_roce(system: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(capsys, "-i", write("rdma_fabric: roce\nrdma_mtu: 9000\n"), "--os", system)
    assert (out, err) == (text(system, "dscp26-prio3"), "")


def test_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    site = "rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: scnet-dscp34-prio4\n"
    out, _err = told(capsys, "-i", write(site), "--os", "eos", "--format", "json")
    lines = text("eos", "scnet-dscp34-prio4").splitlines()
    assert json.loads(out) == {"os": "eos", "hints": [{"profile": "scnet-dscp34-prio4", "nodes": 2, "lines": lines}], "message": None}


def test_a_profile_of_the_sites_own(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    custom = "{dscp: 18, lossless: [2, 4], ets: [10, 0, 60, 0, 30, 0, 0, 0]}"
    site = f"rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: custom\nrdma_qos_custom: {custom}\n"
    out, _err = told(capsys, "-i", write(site), "--os", "onyx")
    switch = switch_text.onyx(out.splitlines())
    assert (switch.classes[18], switch.pfc, switch.paused[18], switch.share[18]) == (2, {2, 4}, 2, 60)
    assert out.startswith("## QoS profile custom on NVIDIA Onyx")


def test_each_of_several_profiles(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """One fabric has one profile, and lint says so; switches of two fabrics need both texts."""
    where = write("rdma_fabric: roce\nrdma_mtu: 9000\n", n2="rdma_qos_profile: oci-dscp10\n")
    out, err = told(capsys, "-i", where, "--os", "nxos")
    assert out == text("nxos", "dscp26-prio3") + "\n" + text("nxos", "oci-dscp10")
    assert "rdma_qos_profile" in err
    assert "n2" in err
    out, err = told(capsys, "-i", where, "--os", "nxos", "--limit", "n2")
    assert (out, err) == (text("nxos", "oci-dscp10"), "")


def test_two_of_the_sites_own(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    site = "rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: custom\nrdma_qos_custom: {dscp: 26}\n"
    out, err = told(capsys, "-i", write(site, n2="rdma_qos_custom: {dscp: 34}\n"), "--os", "sonic", "--format", "json")
    found = [switch_text.sonic(item["lines"]).pfc for item in json.loads(out)["hints"]]
    assert found == [{3}, {4}]
    assert "rdma_qos_custom" in err


FABRICS = {
    "InfiniBand": ("rdma_fabric: infiniband\nrdma_mtu: 2044\n", "The fabric is InfiniBand"),
    "eRDMA": ("rdma_fabric: erdma\nrdma_mtu: 8500\n", "The fabric is eRDMA"),
    "RoCE without": ("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: none\n", "rdma_qos_profile is none"),
}


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("system", ["sonic", "nxos"])
def test_one_line_where_there_is_no_profile(fabric: str, system: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    site, said = FABRICS[fabric]
    out, _err = told(capsys, "-i", write(site), "--os", system)
    assert out.startswith(said)
    assert out.count("\n") == 1
    document = json.loads(told(capsys, "-i", "inv", "--os", system, "-f", "json")[0])
    assert document == {"os": system, "hints": [], "message": out.rstrip("\n")}


WRONG: dict[str, tuple[str, str]] = {
    "an unknown profile": ("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: dscp26\n", "is no QoS profile"),
    "nodes that disagree": ("rdma_fabric: roce\nrdma_mtu: \"{{ 9000 if inventory_hostname == 'n1' else 4200 }}\"\n", "rdma_mtu"),
    "no switch has it": ("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: custom\nrdma_qos_custom: {dscp: 56}\n", "priority 7"),
    "misspelt": ("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profil: none\n", "rdma_qos_profile"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_inventory_with_errors_gets_no_text(what: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    site, said = WRONG[what]
    out, err = told(capsys, "-i", write(site), "--os", "sonic", code=64)
    assert out == ""
    assert said in err
    out, _err = told(capsys, "-i", "inv", "--os", "sonic", "-f", "json", code=64)
    document: dict[str, Any] = json.loads(out)
    assert document["summary"]["errors"] >= 1


def test_one_hosts_unknown_profile_is_no_difference_between_hosts(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """The same key says both; only that hosts differ may pass."""
    out, err = told(capsys, "-i", write("rdma_fabric: roce\nrdma_mtu: 9000\n", n2="rdma_qos_profile: dscp62\n"), "--os", "eos", code=64)
    assert out == ""
    assert "dscp62" in err


@pytest.mark.parametrize("system", sorted(switch_text.READERS))
def test_hostile_names_do_not_reach_a_text(system: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a host it is an error."""
    hosts = HOSTS.replace("      hosts:", '      vars: {other_banner: "x\\nno shutdown"}\n      hosts:')
    out, _err = told(capsys, "-i", write("rdma_fabric: roce\nrdma_mtu: 9000\n", hosts), "--os", system)
    assert out == text(system, "dscp26-prio3")


def test_a_hostile_host_is_an_error_and_no_text(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = HOSTS.replace("        n1:", '        "evil$(reboot)":').replace("        n2:", '        "n2;write erase":')
    out, err = told(capsys, "-i", write("rdma_fabric: roce\nrdma_mtu: 9000\n", hosts), "--os", "nxos", code=64)
    assert out == ""
    assert err.count("is no name of a host") == 2


def test_a_hostile_rail_is_an_error_and_no_text(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = HOSTS.replace("name: rail0", r'name: "rail0\nreload"')
    out, err = told(capsys, "-i", write("rdma_fabric: roce\nrdma_mtu: 9000\n", hosts), "--os", "nxos", code=64)
    assert out == ""
    assert "\nreload" not in err


@pytest.mark.parametrize("argv", [["-i", "."], ["-i", ".", "--os", "ios"], ["--os", "eos"], ["-i", "missing", "--os", "eos"]])
def test_usage(argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    out, err = told(capsys, *argv, code=64)
    assert out == ""
    assert err.startswith("railwright: error: ")
