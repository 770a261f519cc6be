# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way a switch is asked, that nothing but reading is ever asked, and what is refused before any switch is contacted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import repo
from ansible_collections.railwright.rdma.plugins.plugin_utils import switches
from ansible_collections.railwright.rdma.plugins.plugin_utils.switches import Way, way_of
from railwright.cli.switch import SwitchOs
from verb_said import said_by

CLI, API = "ansible.netcommon.network_cli", "ansible.netcommon.httpapi"
BOTH = ("ansible.netcommon", "arista.eos")


def test_every_command_only_shows() -> None:
    """One word after the other, nothing that a shell or a CLI takes for a second command."""
    assert set(switches.COMMANDS) == set(SwitchOs)
    for command in switches.COMMANDS.values():
        assert re.fullmatch(r"(show|nv config show)( -?[a-z-]+)+", command), command


def test_every_module_only_reads() -> None:
    """The playbook runs one action, in check mode, in which these modules themselves refuse what is no `show`; and it names no other."""
    modules = {switches.CLI_COMMAND, *switches.API_COMMANDS.values()}
    assert {name.rpartition("_")[2] for name in modules} == {"command"}
    [play] = repo.read_yaml("playbooks/switch_read.yml")
    assert [(set(task) - {"name"}, task["check_mode"]) for task in play["tasks"]] == [({"railwright.rdma.rdma_switch", "check_mode"}, True)]
    code = repo.text("plugins/action/rdma_switch.py")
    assert re.findall(r"\w+_config\b|[\"'](?:\w+\.){2}\w+[\"']", code) == [], "no module but by the table"
    assert re.findall(r"self\._(?:answer|low_level_execute_command)\(([\w.]+)", code) == ["way.module", "command"]


@pytest.mark.parametrize(("name", "connection", "way"), [
    ("arista.eos.eos", CLI, Way("eos", "ansible.netcommon.cli_command", BOTH)),
    ("eos", "network_cli", Way("eos", "ansible.netcommon.cli_command", BOTH)),
    ("eos", API, Way("eos", "arista.eos.eos_command", BOTH)),
    ("cisco.nxos.nxos", "httpapi", Way("nxos", "cisco.nxos.nxos_command", ("ansible.netcommon", "cisco.nxos"))),
    ("community.network.onyx", CLI, Way("onyx", "ansible.netcommon.cli_command", ("ansible.netcommon", "community.network"))),
    ("dellemc.enterprise_sonic.sonic", "ssh", Way("sonic")),
    ("nvidia.nvue.httpapi", "ansible.builtin.ssh", Way("nvue")),
])  # fmt: skip
def test_the_way_to_ask(name: str, connection: str, way: Way) -> None:
    assert way_of(name, connection) == way


@pytest.mark.parametrize(("name", "connection", "why"), [
    (None, "ssh", "ansible_network_os: is not set; allowed: arista.eos.eos"),
    ("junipernetworks.junos.junos", CLI, "ansible_network_os: junipernetworks.junos.junos; allowed: "),
    ("eos", "ssh", f"ansible_connection: ssh: cannot ask eos for its configuration; allowed: {CLI} or {API}"),
    ("onyx", API, f"ansible_connection: {API}: cannot ask onyx for its configuration; allowed: {CLI}$"),
    ("dellemc.enterprise_sonic.sonic", CLI, "allowed: ssh$"),  # its CLI has no config_db.json
    (["eos"], CLI, "ansible_network_os: "),
])  # fmt: skip
def test_a_way_that_there_is_not(name: Any, connection: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.sub(r"[.()\[\]]", r"\\\g<0>", why)):
        way_of(name, connection)


def site(directory: Path, hosts: dict[str, Any]) -> Path:
    path = directory / "hosts.yml"
    rdma = {"hosts": {"n1": {}}, "vars": {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": []}}
    path.write_text(yaml.safe_dump({"all": {"children": {"rdma": rdma, **({"rdma_switches": {"hosts": hosts}} if hosts else {})}}}))
    return path


EOS = {"ansible_network_os": "arista.eos.eos", "ansible_connection": CLI}
INSTALL = "which is not installed; install it with: ansible-galaxy collection install ansible.netcommon arista.eos"


@pytest.mark.parametrize(("hosts", "line"), [
    ({"leaf1": EOS}, f"leaf1 is asked through the collection ansible.netcommon, {INSTALL}"),
    ({}, "group rdma_switches does not exist, so no host is managed; allowed: at least one host in group rdma_switches"),
    ({"n1": EOS}, "n1 is in group rdma and in group rdma_switches; allowed: one of the two"),
    ({"a/../../b": {"ansible_network_os": "sonic"}}, "a/../../b: is no name for a host"),
    ({"leaf1": {"ansible_network_os": "{{ nowhere }}"}}, "leaf1: "),
    ({"leaf1": {"ansible_network_os": "sonic", "ansible_connection": CLI}}, f"leaf1: ansible_connection: {CLI}: cannot ask sonic"),
])  # fmt: skip
def test_what_cannot_be_asked_is_one_line(
    hosts: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("railwright.run.run_playbook", None)  # nobody is asked
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(tmp_path))
    said = said_by(capsys, "switch", "read", "-i", str(site(tmp_path, hosts)), "-o", str(tmp_path / "out"))
    assert (said.code, line in said.err, said.err.count("\n")) == (64, True, 1), said.err
    assert not (tmp_path / "out").exists()


def test_a_collection_that_is_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from railwright.ansible_env import lacking

    (tmp_path / "ansible_collections" / "arista" / "eos").mkdir(parents=True)
    for named in (tmp_path, tmp_path / "ansible_collections"):
        monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(named))
        assert lacking(BOTH) == ["ansible.netcommon"]


def test_switches_are_nothing_to_the_other_verbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = site(tmp_path, {"leaf1": EOS, "leaf2": {"ansible_network_os": "{{ nowhere }}", "ansible_host": "{{ nowhere }}"}})
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "rdma_switches.yml").write_text("ansible_become: true\nansible_become_method: enable\n")
    said = said_by(capsys, "lint", "-i", str(path))
    assert (said.code, "leaf" in said.out + said.err) == (0, False), said.out + said.err
