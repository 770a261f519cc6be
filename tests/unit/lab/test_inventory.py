# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's inventory, read back as Ansible would read it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import yaml

from railwright.lab import reach
from railwright.lab.state import LabState

from .conftest import make_state


def test_hosts(tmp_path: Path) -> None:
    state = make_state(tmp_path, nodes=2, rails=2)
    group = yaml.safe_load(reach.hosts_yml(state))["all"]["children"]["rdma"]
    assert group["hosts"]["node2"] == {
        "ansible_host": "127.0.0.1",
        "ansible_port": 2202,
        "rdma_rails": [
            {"name": "rail0", "match": {"mac": "52:54:00:4d:01:02"}, "address": "10.77.0.12/24"},
            {"name": "rail1", "match": {"mac": "52:54:00:4d:02:02"}, "address": "10.77.1.12/24"},
        ],
    }
    assert group["vars"]["ansible_user"] == "root"
    assert group["vars"]["ansible_ssh_private_key_file"] == str(state.paths.ssh_key)


def test_host_key_checking_stays_on(state: LabState) -> None:
    text = reach.hosts_yml(state) + " ".join(reach.argv(state, state.nodes[0]))
    assert "StrictHostKeyChecking=yes" in text
    assert "StrictHostKeyChecking=no" not in text
    assert "/dev/null" not in text


def test_a_path_with_spaces_and_quotes_survives(tmp_path: Path) -> None:
    state = make_state(tmp_path / 'my "lab"')
    variables = yaml.safe_load(reach.hosts_yml(state))["all"]["children"]["rdma"]["vars"]
    words = shlex.split(variables["ansible_ssh_common_args"])
    assert words[1] == f'UserKnownHostsFile="{state.paths.known_hosts}"'
    assert variables["ansible_ssh_private_key_file"] == str(state.paths.ssh_key)


def test_site(state: LabState) -> None:
    reach.write(state)
    site = yaml.safe_load((state.inventory / "group_vars/all/site.yml").read_text())
    assert (site["rdma_fabric"], site["rdma_stack"], site["rdma_mtu"]) == ("roce", "soft_roce", 9000)


def test_an_edited_site_is_the_operators(state: LabState) -> None:
    site = state.inventory / "group_vars/all/site.yml"
    reach.write(state)
    site.write_text("rdma_mtu: 1500\n")
    reach.write(state)
    assert site.read_text() == "rdma_mtu: 1500\n"
    reach.write(state, fresh=True)
    assert site.read_text() == reach.SITE


def test_an_untouched_site_follows_a_new_version(state: LabState) -> None:
    site = state.inventory / "group_vars/all/site.yml"
    written = reach.write(state)
    site.write_text(reach.SITE)
    newer = replace(state, site_hash=written)
    # As if an older version had written it: the recorded hash is of what lies there.
    site.write_text("# older\n")
    older = replace(newer, site_hash=reach.digest("# older\n"))
    reach.write(older)
    assert site.read_text() == reach.SITE


def test_ssh_carries_arguments_through(state: LabState) -> None:
    argv = reach.argv(state, state.nodes[0], ["sh", "-c", "echo 'a  b'"])
    assert argv[-2:] == ["--", shlex.join(["sh", "-c", "echo 'a  b'"])]
    assert "BatchMode=yes" in argv
    assert "BatchMode=yes" not in reach.argv(state, state.nodes[0])
